//! Programs that use memkind, and OpenMP's libraries that load it, get Hearth's: alone, and beside the preloaded runtime.

use crate::api::as_expected;
use hearth_tests::{Ended, Room, not_tested, program, programs, run, workspace};
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn every_function_does_what_its_header_says() {
    let observed = as_expected("memkind");
    // Objects are their callers', not the library's.
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    for caller in ["fields (memkind.c:", "defaults (memkind.c:"] {
        assert!(labels.values().any(|l| l.starts_with(caller)), "{labels:?}");
    }
    let files = ["hbw.rs:", "memkind.rs:", "memory.rs:", "places.rs:"];
    let library =
        |l: &String| l.starts_with("hbw_") || l.starts_with("memkind_") || files.iter().any(|f| l.contains(f));
    assert!(!labels.values().any(library), "{labels:?}");
}

#[test]
fn in_containers_of_cpp() {
    as_expected("memkind_cpp");
}

#[test]
fn memory_that_the_user_names_is_of_high_bandwidth() {
    let room = Room::new();
    let mut named = room.command(program("memkind"));
    let ended = run(named.env("MEMKIND_HBW_NODES", "0").env("MEMKIND_DAX_KMEM_NODES", "0")).expect(0);
    assert!(ended.stdout.ends_with("all as expected\n"), "{}", ended.stdout);
}

/// Numbers that were compiled into a program mean the same here.
#[test]
fn the_numbers_are_memkinds() {
    let room = Room::new();
    let compile = |headers: &Path| {
        let mut gcc = room.command("gcc");
        gcc.arg("-c").arg(workspace().join("tests/programs/memkind_values.c")).arg("-I").arg(headers);
        run(&mut gcc).expect(0);
    };
    compile(&workspace().join("bindings/memkind"));
    let theirs = Path::new("/usr/include");
    if theirs.join("memkind.h").exists() {
        compile(theirs);
    } else {
        not_tested("memkind's own headers against ours, as they are not here (Debian 12: libmemkind-dev)", false);
    }
}

/// A program, with Hearth's memkind on the loader's path.
fn with_memkind(program: &str) -> [String; 3] {
    ["/usr/bin/env".into(), format!("LD_LIBRARY_PATH={}", programs().display()), program.into()]
}

fn run_with_memkind(room: &Room, name: &str, variable: (&str, &str)) -> Ended {
    let all = with_memkind(&program(name));
    run(room.command(&all[0]).args(&all[1..]).env(variable.0, variable.1)).expect(0)
}

#[test]
fn what_openmps_libraries_look_up_is_there() {
    let room = Room::new();
    let common = ["INTERLEAVE", "DEFAULT"];
    let high = ["HBW_INTERLEAVE", "HBW_PREFERRED", "INTERLEAVE", "DEFAULT", "HBW"];
    for (nodes, kinds) in [("none", &common[..]), ("0", &high[..])] {
        let said = run_with_memkind(&room, "loads_memkind", ("MEMKIND_HBW_NODES", nodes)).stdout;
        let expected: Vec<String> = ["libmemkind.so.0", "libmemkind.so"]
            .iter()
            .flat_map(|library| kinds.iter().map(move |kind| format!("{library}: {kind}")))
            .collect();
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
    }
}

#[test]
fn llvms_openmp_uses_it() {
    let room = Room::new();
    // Only memkind tells it that there is such memory.
    let with = run_with_memkind(&room, "omp_clang", ("MEMKIND_HBW_NODES", "0")).stdout;
    assert!(with.contains("\naligned 1\n") && with.ends_with("sum 499500\n"), "{with}");
    // Without it LLVM 14 gives no memory, and LLVM 19 other memory, with a warning.
    let without = room.plain(&[&program("omp_clang")]);
    let refused = (without.status, without.stdout.as_str()) == (1, "no memory\n");
    let warned = without.status == 0 && without.stderr.contains("omp_high_bw_mem_alloc is not available");
    assert!(refused || warned, "{without:?}");
    let all = with_memkind(&program("omp_clang"));
    room.same(&all.each_ref().map(String::as_str));
}

#[test]
fn gnus_openmp_uses_it() {
    let room = Room::new();
    let ended = run_with_memkind(&room, "omp_gcc", ("LD_DEBUG", "files"));
    assert!(ended.stdout.ends_with("sum 499500\n"), "{}", ended.stdout);
    if gnus_openmp_asks_for_it() {
        assert!(ended.stderr.contains("libmemkind.so.0 [0];  dynamically loaded by"), "{}", ended.stderr);
    } else {
        not_tested("that GNU's OpenMP library uses memkind, as before GCC 13 it does not", false);
    }
}

/// GNU's OpenMP library knows memkind's name since GCC 13.
fn gnus_openmp_asks_for_it() -> bool {
    let library = run(Command::new("gcc").arg("-print-file-name=libgomp.so.1")).expect(0).stdout;
    fs::read(library.trim()).expect("GNU's OpenMP library").windows(15).any(|bytes| bytes == b"libmemkind.so.0")
}

#[test]
fn it_is_installed_beside_another_memkind() {
    let room = Room::new();
    let prefix = room.path("prefix");
    let theirs = prefix.join("lib/libmemkind.so.0");
    fs::create_dir_all(prefix.join("lib")).and_then(|()| fs::write(&theirs, "theirs")).expect("writing");
    let mut install = Command::new(workspace().join("packaging/install"));
    let said = run(install.arg("--prefix").arg(&prefix)).expect(0).stdout;
    assert!(said.contains("LD_LIBRARY_PATH="), "{said}");
    assert_eq!(fs::read(&theirs).expect("theirs"), b"theirs");
    assert!(!prefix.join("include/memkind.h").exists());
    let mut sh = room.command("sh");
    let script = "gcc -pthread -o c $SOURCES/memkind.c $(pkg-config --cflags --libs hearth-memkind); ./c
                  g++ -std=c++17 -o cpp $SOURCES/memkind.cpp $(pkg-config --cflags --libs hearth-memkind); ./cpp
                  ldd ./c";
    sh.args(["-euc", script]).env("SOURCES", workspace().join("tests/programs"));
    sh.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env("LD_LIBRARY_PATH", prefix.join("lib/hearth/memkind"));
    let said = run(&mut sh).expect(0).stdout;
    assert_eq!(said.matches("all as expected\n").count(), 2, "{said}");
    assert!(said.contains("prefix/lib/hearth/memkind/libmemkind.so.0"), "{said}");
}
