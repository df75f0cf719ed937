//! Programs that Hearth cannot observe, or not wholly: it says so, and they run as ever.

use crate::{Proof, User, loss, same, script};
use hearth_tests::{Room, hearth, program, require_tool, run};

/// A program that does its work, ends so, and is not observed.
fn unseen(status: i32) -> Proof<'static> {
    Proof { status, writes: "", seen: &[] }
}

/// The program is not started, and one sentence says why.
#[track_caller]
fn declined(path: &str, sentence: &str) {
    let room = Room::new();
    let ended = room.record(&[], "some.hearth", &[path]).expect(2);
    assert!(ended.stderr.contains(sentence), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert!(!room.path("some.hearth").exists(), "a profile was left behind");
}

#[test]
fn a_program_with_address_sanitizer() {
    declined(&program("sanitised"), "is built with a sanitiser (AddressSanitizer");
}

/// It would refuse to start with a library before its own.
#[test]
fn a_script_that_starts_a_program_with_address_sanitizer() {
    let command = format!("{}; echo $?", program("sanitised"));
    let observed = same(&["sh", "-c", &command], User::Own, &unseen(0));
    assert!(loss(&observed, "process-passed-over").contains("AddressSanitizer"));
}

#[test]
fn go_without_c() {
    require_tool("go", "golang-go");
    let room = Room::new();
    std::fs::write(room.path("pure.go"), "package main\nfunc main() { println(\"pure\") }\n").expect("a source file");
    let mut build = room.command("go");
    build.args(["build", "-o", "pure", "pure.go"]).env("CGO_ENABLED", "0").env("GO111MODULE", "off");
    build.env("HOME", room.path(".")).env("GOCACHE", hearth_tests::target().join("go-cache"));
    run(&mut build).expect(0);
    declined(room.path("pure").to_str().expect("readable path"), "is statically linked");
}

#[test]
fn a_program_with_jemalloc_linked_into_it() {
    let observed = same(&[&program("with_jemalloc")], User::Own, &unseen(5));
    assert!(loss(&observed, "process-passed-over").contains("a malloc of its own"));
}

#[test]
fn a_program_with_mimalloc_linked_into_it() {
    let observed = same(&[env!("CARGO_BIN_EXE_with-mimalloc")], User::Own, &unseen(6));
    assert!(loss(&observed, "process-passed-over").contains("a malloc of its own"));
}

/// The shell that starts it is observed, it is not.
#[test]
#[ignore = "slow"]
fn a_program_under_valgrind() {
    let proof = Proof { status: 0, writes: "valgrind 0\n", seen: &["bash"] };
    let observed = script("valgrind", User::Own, &[("valgrind", "valgrind")], &proof);
    assert!(loss(&observed, "process-passed-over").contains("under valgrind"));
}

/// A limit of the address space that is there from the beginning: the runtime takes none of it.
#[test]
fn a_limited_address_space() {
    let room = Room::new();
    let shell = "ulimit -v 3000000; \"$0\" record -o some.hearth -- \"$1\" --threads 2 --ops 20000";
    let (hearth, torture) = (hearth(), program("torture"));
    let ended = room.plain(&["bash", "-c", shell, hearth.to_str().expect("readable path"), &torture]).expect(0);
    assert!(ended.stdout.starts_with("40000 operations"), "{}", ended.stdout);
    assert!(loss(&room.observed("some.hearth"), "process-passed-over").contains("RLIMIT_AS"));
}
