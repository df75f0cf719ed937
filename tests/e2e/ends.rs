//! However a program ends, it ends the same way with Hearth, and its profile says how.

use hearth_tests::{Room, not_tested, program, require_tool};

/// How a program ends that recovers from nothing, with the wait status that its parent sees.
fn ends_the_same(how: &str) {
    let room = Room::new();
    let exits = program("exits");
    let observed = room.same(&[&exits, how]);
    let plain = room.plain(&[&exits, how]);
    let expected = match plain.status {
        code @ 0..=127 => format!("exit {code}"),
        signal => format!("signal {}", signal - 128),
    };
    assert_eq!(observed.outcome, expected, "outcome in the profile of `exits {how}`");
    // Its parent in the tree sees the same, core dump included.
    let status = program("status");
    room.same(&[&status, &exits, how]);
}

macro_rules! ends {
    ($($name:ident: $how:literal,)*) => {
        $(
            #[test]
            fn $name() {
                ends_the_same($how);
            }
        )*
    };
}

ends! {
    exit: "exit",
    exit_at_once: "_exit",
    quick_exit: "quick_exit",
    exit_with_handlers: "atexit",
    exit_in_a_thread: "exit-in-thread",
    main_thread_ends_first: "main-ends-first",
    abort: "abort",
    killed: "sigkill",
    terminated: "sigterm",
    null_pointer: "sigsegv",
    segmentation_fault_sent: "sigsegv-sent",
    segmentation_fault_while_blocked: "sigsegv-blocked",
    segmentation_fault_while_ignored: "sigsegv-ignored",
    protected_memory_of_its_own: "sigsegv-protected",
    stack_overflow: "stack-overflow",
    breakpoint: "sigtrap",
    bus_error: "sigbus",
    handler_that_jumps_back: "recover",
    handler_that_opens_pages: "barrier",
    handler_of_breakpoints: "trap",
    threads_that_are_cancelled: "cancelled",
}

/// The runtime's tables have a word for each page of a terabyte: none of that is in the program's core dump.
#[test]
fn core_dumps_stay_short() {
    if !std::fs::read_to_string("/proc/sys/kernel/core_pattern").is_ok_and(|pattern| pattern.trim() == "core") {
        not_tested("core dumps do not go to the working directory here (kernel.core_pattern)", false);
        return;
    }
    let room = Room::new();
    let length = || {
        let dumps = std::fs::read_dir(room.path(".")).expect("the room").flatten();
        let dump =
            dumps.map(|e| e.path()).find(|p| p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"core")));
        let dump = dump.expect("a core dump");
        let length = std::fs::metadata(&dump).expect("its length").len();
        std::fs::remove_file(dump).expect("its end");
        length
    };
    let dies = [&*program("status"), &*program("exits"), "sigsegv"];
    room.plain(&dies).expect(0);
    let plain = length();
    for options in [&["--sampler", "page-fault"][..], &["--small", "--sampler", "page-fault"]] {
        room.record(options, "x.hearth", &dies).expect(0);
        let with = length();
        println!("{plain} bytes, and {with} with {options:?}");
        assert!(with < plain + (256 << 20), "{plain} bytes, and {with} with {options:?}");
    }
}

/// Address space that is kept for later is not to be taken for memory in use, by whatever pages are armed beside it: a core dump would look
/// at each page of eight terabytes.
#[test]
fn core_dumps_pass_over_what_is_kept_for_later() {
    let room = Room::new();
    let script = "/^[0-9a-f]+-/ { name = $0 } /^Size:/ { size = $2 } \
                  /^VmFlags:/ && size > 262144 { if (/ dd/) kept++; else print name, size } END { print (kept > 0) }";
    for options in [&["--sampler", "page-fault"][..], &["--small", "--sampler", "page-fault"]] {
        let ended = room.record(options, "x.hearth", &["awk", script, "/proc/self/smaps"]).expect(0);
        assert_eq!(ended.stdout, "1\n", "VmFlags without dd (do not dump)");
    }
}

/// The recorder, which sleeps meanwhile, finds both images of each child at the same time, and must not take the earlier for the later.
#[test]
fn a_child_that_replaces_itself_is_followed_to_its_end() {
    require_tool("sqlite3", "sqlite3");
    let room = Room::new();
    let child = "printf -v x %200000s; exec sort /dev/null";
    let script = format!("kill -STOP $PPID; for i in $(seq 20); do ({child}); done; kill -CONT $PPID");
    room.record(&["--sampler", "none"], "some.hearth", &["bash", "-c", &script]).expect(0);
    let query = "SELECT status, count(*), sum(end_ns < start_ns) FROM process WHERE ppid = \
                 (SELECT pid FROM process ORDER BY start_ns LIMIT 1) AND exe NOT LIKE '%seq' GROUP BY status";
    let children = room.plain(&["sqlite3", "some.hearth", query]).expect(0).stdout;
    assert_eq!(children, "ended|20|0\nreplaced by exec|20|0\n", "images that ended so, and before they began");
}
