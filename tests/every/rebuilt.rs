//! Sources of Debian's packages, built by Hearth's compilers: they do what clang's build does, and their sites are lines of their source.
//!
//! The sources are fetched once, by `fetch`, and kept with what was built.

use crate::LIMIT;
use hearth_tests::{Ended, Room, compilers, require_tool, spawn, target, wait, workspace};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A package whose source is built, and what is done with the program.
struct Package {
    /// The package, and scripts for its source's folder, with `$CC` and `$CXX`.
    name: &'static str,
    build: &'static str,
    /// Its program there, and what it is given.
    program: &'static str,
    arguments: &'static [&'static str],
    /// A file that the program reads, with this name and text.
    input: fn() -> (&'static str, String),
    /// A file that it writes; empty: all is in its output.
    writes: &'static str,
    /// Files of its source in which memory is allocated.
    allocates: &'static [&'static str],
}

/// `make`, a static library, and an allocator that is called through a pointer.
const LUA: Package = Package {
    name: "lua5.4",
    build: r#"make -s -j2 -C src CC="$CC -std=gnu99" linux"#,
    program: "src/lua",
    arguments: &["input.lua"],
    input: || {
        let program = "local rows, texts = {}, {}\n\
                       for i = 1, 20000 do rows[i] = {i, i * i}; texts['row ' .. i] = ('x'):rep(i % 97) end\n\
                       table.sort(rows, function(a, b) return a[2] > b[2] end)\n\
                       local all = {}\n\
                       for i = 1, #rows do all[i] = rows[i][1] .. texts['row ' .. i] end\n\
                       local text = table.concat(all, ' ')\n\
                       print(#text, text:sub(1, 200), select(2, text:gsub('xx', 'y')))\n\
                       print(pcall(error, 'an error'))\n";
        ("input.lua", program.to_string())
    },
    writes: "",
    allocates: &["lmem.c", "ltable.c"],
};

/// `configure`, of which each question is asked of the compiler.
const GAWK: Package = Package {
    name: "gawk",
    build: r#"./configure -q CC="$CC" --disable-nls --disable-extensions --disable-mpfr
              make -s -j2 -C support && make -s -j2 gawk"#,
    program: "gawk",
    arguments: &["-f", "input.awk"],
    input: || {
        let program = "BEGIN {\n\
                       for (i = 0; i < 30000; i++) { text = text \"word\" i % 331 \" \"; seen[i * 7919 % 10007] = text ? i : 0 }\n\
                       n = split(text, words, \" \")\n\
                       for (i = 1; i <= n; i++) count[words[i]]++\n\
                       m = asorti(count, names)\n\
                       for (i = 1; i <= 5; i++) print names[i], count[names[i]]\n\
                       print n, m, length(text), length(seen), toupper(substr(text, 1, 20)), gsub(/word3/, \"\", text)\n\
                       }\n";
        ("input.awk", program.to_string())
    },
    writes: "",
    allocates: &["node.c", "array.c"],
};

/// CMake, C++, a shared library of its own.
const JSONCPP: Package = Package {
    name: "libjsoncpp-dev",
    // Its CMakeLists.txt is older than CMake 4 puts up with.
    build: r#"cmake -B built -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_BUILD_TYPE=Release -DCMAKE_POLICY_VERSION_MINIMUM=3.5
              make -s -j2 -C built jsontestrunner_exe"#,
    program: "built/bin/jsontestrunner_exe",
    arguments: &["input.json"],
    input: || {
        let row =
            |i: u32| format!("{{\"name\": \"row {i}\", \"values\": [{i}, {}, null, {}.5]}}", i * 31 % 101, i % 17);
        ("input.json", format!("[{}]\n", (0..4000).map(row).collect::<Vec<_>>().join(",\n")))
    },
    writes: "input.actual",
    allocates: &["json_value.cpp", "main.cpp"],
};

/// The folder of the sources.
fn sources() -> &'static Path {
    static FETCHED: OnceLock<PathBuf> = OnceLock::new();
    FETCHED.get_or_init(|| {
        let folder = target().join("sources");
        fs::create_dir_all(&folder).expect("making a folder");
        let mut fetch = Command::new(workspace().join("tests/every/fetch"));
        fetch.arg(&folder).args([LUA, GAWK, JSONCPP].map(|p| p.name)).stdin(Stdio::null());
        wait(spawn(&mut fetch), LIMIT).expect(0);
        folder
    })
}

impl Package {
    /// Builds it in a folder of the room's, and gives the program.
    fn build(&self, room: &Room, folder: &str, c: &Path, cxx: &Path) -> PathBuf {
        let script = format!(
            "set -eu\nmkdir {folder}\ntar -xf {}/{}/*.orig.tar.* -C {folder} --strip-components=1\ncd {folder}\n{}",
            sources().display(),
            self.name,
            self.build
        );
        let mut build = room.command("bash");
        build.args(["-c", &script]).env("CC", c).env("CXX", cxx).stdin(Stdio::null());
        wait(spawn(&mut build), LIMIT).expect(0);
        room.path(folder).join(self.program)
    }

    /// Output and what was written, of a run in the room's folder.
    fn did(&self, room: &Room, ended: Ended) -> (String, String) {
        let ended = ended.expect(0);
        let written = match self.writes {
            "" => String::new(),
            file => fs::read_to_string(room.path(file)).expect("what it writes"),
        };
        assert!(!ended.stdout.is_empty() || !written.is_empty(), "{}", ended.stderr);
        (ended.stdout, written)
    }

    fn check(&self) {
        let room = Room::new();
        let (file, text) = (self.input)();
        fs::write(room.path(file), text).expect("writing");
        let other = self.build(&room, "other", Path::new("clang-19"), Path::new("clang++-19"));
        let own = self.build(&room, "own", &compilers().join("hearth-cc"), &compilers().join("hearth-c++"));
        let command = |program: &Path| -> Vec<String> {
            let arguments = self.arguments.iter().map(ToString::to_string);
            std::iter::once(program.display().to_string()).chain(arguments).collect()
        };
        let [other, own] = [command(&other), command(&own)];
        let [other, own] = [&other, &own].map(|c| c.iter().map(String::as_str).collect::<Vec<_>>());
        let expected = self.did(&room, room.plain(&other));
        assert_eq!(self.did(&room, room.plain(&own)), expected);
        assert_eq!(self.did(&room, room.record(&["--small", "--sampler", "none"], "p.hearth", &own)), expected);
        let observed = room.observed("p.hearth");
        let is_line = |f: &model::Frame| f.module.as_ref().is_some_and(model::Module::is_source);
        let (lines, stacks): (Vec<_>, Vec<_>) =
            observed.sites.iter().filter(|s| s.objects > 0).partition(|s| s.site.frames.iter().all(is_line));
        // The C library's own memory, as for files, is of call stacks.
        let sum = |sites: &[&model::SiteUse]| sites.iter().map(|s| s.allocated.0).sum::<u64>();
        println!(
            "{}: {} sites are lines, {} stacks; {}, {} bytes",
            self.name,
            lines.len(),
            stacks.len(),
            sum(&lines),
            sum(&stacks)
        );
        assert!(sum(&lines) > 20 * sum(&stacks) && lines.len() >= 5, "{:?}", stacks);
        for file in self.allocates {
            let of_file = |s: &&model::SiteUse| s.site.lines().any(|(_, line)| line.file == *file && line.line > 0);
            assert!(lines.iter().any(of_file), "no site of {file}");
        }
        // And a plan by them is followed.
        assert_eq!(self.did(&room, room.guided("p.hearth", "1MiB", &own)), expected);
    }
}

#[test]
#[ignore = "slow"]
fn lua_is_rebuilt() {
    require_tool("clang-19", "clang-19");
    LUA.check();
}

#[test]
#[ignore = "slow"]
fn gawk_is_rebuilt() {
    require_tool("clang-19", "clang-19");
    GAWK.check();
}

#[test]
#[ignore = "slow"]
fn jsoncpp_is_rebuilt() {
    require_tool("cmake", "cmake");
    JSONCPP.check();
}
