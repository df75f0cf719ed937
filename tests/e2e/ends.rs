//! However a program ends, it ends the same way with Hearth, and its profile says how.

use hearth_tests::{Room, program};

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
