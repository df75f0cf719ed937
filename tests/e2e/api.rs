//! Programs that say in code where their data belongs (`hearth.h` and what is made of it): alone, and beside the preloaded runtime.

use hearth_tests::{Room, hearth, program, programs, run, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

/// Each of these programs checks what it is told, and says `all as expected`.
#[track_caller]
pub fn as_expected(name: &str) -> model::Observed {
    let room = Room::new();
    let program = program(name);
    let plain = room.plain(&[&program]).expect(0);
    assert!(plain.stdout.ends_with("all as expected\n"), "{}", plain.stdout);
    room.same(&[&program])
}

#[test]
fn in_c() {
    let observed = as_expected("api");
    // Objects are their callers', not the library's, and by their name where they have one.
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    let named = |name: &str| labels.values().any(|l| l == name);
    assert!(named("grid"), "{labels:?}");
    assert!(labels.values().any(|l| l.starts_with("many (api.c:")), "{labels:?}");
    assert!(!labels.values().any(|l| l.contains("hwloc") || l.starts_with("hearth")), "{labels:?}");
    let marks: Vec<(String, u64)> =
        observed.regions.iter().map(|r| (r.frames[0].source[0].function.clone(), r.number)).collect();
    for expected in [("steps", 1), ("fill", 1), ("fill", 2), ("end of loop", 1)] {
        assert!(marks.contains(&(expected.0.to_string(), expected.1)), "{expected:?} is not in {marks:?}");
    }
}

#[test]
fn in_cpp() {
    as_expected("api_cpp");
}

#[test]
fn in_fortran() {
    as_expected("api_f90");
}

#[test]
fn in_python() {
    let room = Room::new();
    let mut tests = room.command("/usr/bin/python3");
    tests.args(["-B", "-m", "unittest", "-v", "test_hearth"]).env("PYTHONPATH", workspace().join("bindings/python"));
    tests.env("HEARTH_API_LIBRARY", programs().join("libhearth_api.so.0")).env("HEARTH", hearth());
    let ended = run(&mut tests).expect(0);
    println!("{}", ended.stderr);
    // Behind it stands how many were skipped, if any were.
    assert!(ended.stderr.ends_with("\nOK\n"), "not all ran (apt-get install python3-pandas):\n{}", ended.stderr);
}

/// A wheel is built and installed without asking the network, and finds the library of the folders that it was installed into.
#[test]
fn in_python_from_a_wheel() {
    let room = Room::new();
    fs::create_dir_all(room.path("prefix/lib")).expect("a folder");
    symlink(programs().join("libhearth_api.so.0"), room.path("prefix/lib/libhearth_api.so.0")).expect("a link");
    let using = "import hearth, numpy
with hearth.traits(space='large-capacity'):
    array = numpy.ones(1 << 20)
found = hearth.residency(array)
assert found.tiers[hearth.tiers()[hearth.tier_of_space('large-capacity')].name] == array.nbytes, found
print(hearth.__file__)";
    fs::write(room.path("using.py"), using).expect("writing");
    // From a copy, as setuptools writes beside what it builds.
    let script = "mkdir copy; cp -r $SOURCES/pyproject.toml $SOURCES/hearth copy
                  pip() { /usr/bin/python3 -m pip --isolated --no-cache-dir \"$@\"; }
                  pip wheel -q --no-index --no-deps --no-build-isolation -w wheels ./copy
                  pip install -q --no-index --no-deps --target prefix/lib/python3/site-packages wheels/$WHEEL
                  PYTHONPATH=prefix/lib/python3/site-packages /usr/bin/python3 -B using.py";
    let mut sh = room.command("sh");
    sh.args(["-euc", script]).env("SOURCES", workspace().join("bindings/python")).env_remove("HEARTH_API_LIBRARY");
    // For any Python and machine, and of Hearth's version.
    sh.env("WHEEL", concat!("hearth_memory-", env!("CARGO_PKG_VERSION"), "-py3-none-any.whl"));
    let ended = run(&mut sh).expect(0);
    assert!(ended.stdout.ends_with("/prefix/lib/python3/site-packages/hearth/__init__.py\n"), "{}", ended.stdout);
}

/// What a program says that its phases use is in the profile, object of malloc or variable, by the sites and the names that phases begin with.
#[test]
fn what_phases_use_is_recorded() {
    let room = Room::new();
    room.record(&["--sampler", "none"], "p.hearth", &[&program("turns-marked"), "6", "1000"]).expect(0);
    let observed = room.observed("p.hearth");
    let label = |id| observed.sites.iter().find(|s| s.site.id == id).map_or("none".into(), |s| s.site.label());
    let name = |id| {
        let began = observed.regions.iter().find(|r| r.id == id).expect("the phase began");
        began.frames[0].source[0].function.clone()
    };
    let mut told: Vec<(String, String)> = observed.declared.iter().map(|&(p, s)| (name(p), label(s))).collect();
    told.sort();
    println!("{told:?}");
    let expected = [("first", "alloc_first"), ("second", "alloc_"), ("third", "static third")];
    assert_eq!(told.len(), 3, "{told:?}");
    for ((phase, site), (of, begins)) in told.iter().zip(expected) {
        assert!(phase.contains(of) && site.starts_with(begins), "{told:?}");
    }
}

#[test]
fn what_is_installed_is_found_by_pkg_config_and_cmake() {
    let room = Room::new();
    let here = room.path("here");
    let mut install = Command::new(workspace().join("packaging/install"));
    let said = run(install.arg("--prefix").arg(&here)).expect(0).stdout;
    assert!(said.contains("pkg-config --cflags --libs hearth"), "{said}");
    // It may be moved.
    let there = room.path("there");
    fs::rename(&here, &there).expect("renaming");
    let lib = there.join("lib");
    let manual = fs::read_to_string(there.join("share/man/man1/hearth-record.1")).expect("a manual page");
    assert!(manual.contains("page\\-fault"), "{manual}");
    let shell = |script: &str| {
        let mut sh = room.command("sh");
        sh.args(["-euc", script]).env("LD_LIBRARY_PATH", &lib).env("PKG_CONFIG_PATH", lib.join("pkgconfig"));
        sh.env("SOURCES", workspace().join("tests/programs")).env("CMAKE_PREFIX_PATH", &there);
        run(&mut sh).expect(0).stdout
    };
    let c = "gcc -pthread -o c $SOURCES/api.c $(pkg-config --cflags --libs hearth); ./c";
    let cpp = "g++ -std=c++17 -pthread -o cpp $SOURCES/api.cpp $(pkg-config --cflags --libs hearth); ./cpp";
    let fortran = "gfortran -o f $(pkg-config --variable=fortran_source hearth) $SOURCES/api.f90 $(pkg-config --libs hearth); ./f";
    let listing = "project(app C)\nfind_package(Threads REQUIRED)\nfind_package(Hearth 0.1 REQUIRED)\nadd_executable(app $ENV{SOURCES}/api.c)\n\
                   target_link_libraries(app Hearth::hearth Threads::Threads)\n";
    fs::write(room.path("CMakeLists.txt"), format!("cmake_minimum_required(VERSION 3.18)\n{listing}"))
        .expect("writing");
    let python = "PYTHONPATH=there/share/hearth/python /usr/bin/python3 -Bc 'import hearth; assert hearth.tiers(); print(\"all as expected\")'";
    let cmake = "cmake -S . -B built >/dev/null; cmake --build built >/dev/null; built/app";
    for script in [c, cpp, fortran, python, cmake] {
        let said = shell(script);
        assert!(said.ends_with("all as expected\n"), "{script}: {said}");
    }
    let mut record = room.command(there.join("bin/hearth"));
    record.args(["record", "-o", "p.hearth", "--", "./c"]).env("LD_LIBRARY_PATH", &lib);
    let own = run(&mut record).expect(0);
    assert!(own.stdout.ends_with("all as expected\n"), "{}", own.stdout);
}

#[test]
fn installing_refuses_what_cannot_be() {
    let room = Room::new();
    let mut install = Command::new(workspace().join("packaging/install"));
    let ended = run(install.args(["--prefix", "/proc/none"]));
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("/proc/none cannot be written"), "{}", ended.stderr);
    let mut nothing = Command::new(workspace().join("packaging/install"));
    let ended = run(nothing.env("CARGO_TARGET_DIR", room.path("")));
    assert_eq!(ended.status, 2);
    assert!(ended.stderr.contains("build it first"), "{}", ended.stderr);
}
