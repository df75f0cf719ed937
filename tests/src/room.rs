//! A fresh folder to run `hearth` in, and what is common to most tests there.

use crate::command::{Ended, run};
use model::{Observed, SiteUse};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The repository's root.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace")
}

/// A script of docs/live.md, by the name that it has there.
#[track_caller]
pub fn script_of_document(name: &str) -> String {
    let text = std::fs::read_to_string(workspace().join("docs/live.md")).expect("the document");
    let block = text.split(&format!("```rhai file={name}\n")).nth(1).expect("its block");
    block.split("```").next().expect("an end").to_string()
}

/// The folder of what was built.
pub fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    workspace().join(named.unwrap_or_else(|| "target".into()))
}

/// The `hearth` binary under test.
pub fn hearth() -> PathBuf {
    let path = std::env::var_os("HEARTH_BIN").map_or_else(|| target().join("release/hearth"), PathBuf::from);
    assert!(path.exists(), "{} is not there: run `cargo build --release` first", path.display());
    path
}

/// The folder of the built test programs.
pub fn programs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = target().join("test-programs");
        let source = workspace().join("tests/programs");
        let mut make = Command::new("make");
        let lib = hearth().parent().map_or_else(PathBuf::new, Path::to_path_buf);
        make.arg("-s")
            .arg("-C")
            .arg(source)
            .arg(format!("OUT={}", out.display()))
            .arg(format!("LIB={}", lib.display()));
        run(&mut make).expect(0);
        out
    })
}

/// The folder of the wrapper compilers (`hearth-cc` and its sisters).
pub fn compilers() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let out = target().join("compiler");
        let mut make = Command::new("make");
        run(make.arg("-s").arg("-C").arg(workspace().join("compiler")).arg(format!("OUT={}", out.display()))).expect(0);
        out
    })
}

/// The path of one test program.
pub fn program(name: &str) -> String {
    programs().join(name).to_str().expect("the target folder has a readable name").to_string()
}

/// Fails the test with a remedy if a program of the distribution is missing.
#[track_caller]
pub fn require_tool(path: &str, package: &str) {
    let found = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|dir| dir.join(path).exists());
    assert!(found, "{path} is not there: apt-get install {package}");
}

/// The sites with `function` in their call stacks.
pub fn function_sites<'a>(observed: &'a Observed, function: &'a str) -> impl Iterator<Item = &'a SiteUse> {
    observed.sites.iter().filter(move |s| s.site.frames.iter().flat_map(|f| &f.source).any(|l| l.function == function))
}

/// A fresh folder, removed at the end of the test.
pub struct Room {
    folder: TempDir,
}

impl Default for Room {
    fn default() -> Self {
        Room::new()
    }
}

impl Room {
    /// Makes the folder.
    pub fn new() -> Room {
        Room { folder: tempfile::Builder::new().prefix("hearth-test-").tempdir().expect("a temporary folder") }
    }
    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    /// A command in this folder with a calm environment: no colours, one language, OpenMP with two threads, and not the library path
    /// by which Cargo would lead programs that look for memkind to ours.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", "C.UTF-8").env("OMP_NUM_THREADS", "2");
        command.env_remove("LD_PRELOAD").env_remove("LD_LIBRARY_PATH");
        command
    }
    /// The program without Hearth.
    #[track_caller]
    pub fn plain(&self, command: &[&str]) -> Ended {
        run(self.command(command[0]).args(&command[1..]))
    }
    /// `hearth` with these arguments.
    #[track_caller]
    pub fn hearth(&self, arguments: &[&str]) -> Ended {
        run(self.command(hearth()).args(arguments))
    }
    /// `hearth record`, with further options, into `profile` of this folder.
    #[track_caller]
    pub fn record(&self, options: &[&str], profile: &str, command: &[&str]) -> Ended {
        let mut arguments = vec!["record"];
        arguments.extend(options);
        arguments.extend(["-o", profile, "--"]);
        arguments.extend(command);
        self.hearth(&arguments)
    }
    /// What a profile says.
    #[track_caller]
    pub fn observed(&self, profile: &str) -> Observed {
        let report = self.hearth(&["report", profile, "--json"]).expect(0);
        serde_json::from_str(&report.stdout).expect("`hearth report --json` is what the model says it is")
    }
    /// Plans `profile` for a fast tier of `fast`, by a policy that needs no samples (short programs have none), and runs the command
    /// guided by it.
    #[track_caller]
    pub fn guided(&self, profile: &str, fast: &str, command: &[&str]) -> Ended {
        self.hearth(&["plan", profile, "--policy", "first-served", "--fast", fast, "-o", "plan.toml"]).expect(0);
        let mut arguments = vec!["run", "--plan", "plan.toml", "--"];
        arguments.extend(command);
        self.hearth(&arguments)
    }

    /// The command does the same recorded (with and without sampler and small objects), guided and placed while it runs as it does alone: output and exit
    /// status. Gives what the profile with samples says.
    #[track_caller]
    pub fn same(&self, command: &[&str]) -> Observed {
        let plain = self.plain(command);
        let compare = |how: &str, with: &Ended| {
            assert_eq!(
                (with.status, &with.stdout),
                (plain.status, &plain.stdout),
                "{command:?} is not the same {how}; standard error:\n{}\nand alone:\n{}",
                with.stderr,
                plain.stderr
            );
        };
        compare("recorded without sampler", &self.record(&["--sampler", "none"], "none.hearth", command));
        compare("recorded", &self.record(&["--sampler", "page-fault"], "some.hearth", command));
        let observed = self.observed("some.hearth");
        assert!(observed.processes >= 1, "no process was observed");
        compare("guided", &self.guided("some.hearth", "16MiB", command));
        let live = ["live", "--quiet", "--interval", "100ms", "--"];
        compare("placed while it runs", &self.hearth(&[&live, command].concat()));
        compare("recorded with small objects", &self.record(&["--small"], "small.hearth", command));
        compare("guided with small objects", &self.guided("small.hearth", "16MiB", command));
        observed
    }
}
