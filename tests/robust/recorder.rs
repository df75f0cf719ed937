//! The recorder is killed, or stopped for a while.

use crate::losses;
use hearth_tests::{Room, hearth, program, spawn, wait};
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Waits for the file of this name to have something in it, and reads it.
#[track_caller]
fn wait_for(room: &Room, file: &str) -> String {
    let deadline = Instant::now() + LIMIT;
    loop {
        match std::fs::read_to_string(room.path(file)) {
            Ok(text) if !text.is_empty() => return text,
            _ => assert!(Instant::now() < deadline, "{file} stays empty"),
        }
        sleep(Duration::from_millis(20));
    }
}

/// Nobody empties the rings any more: the program goes on, and what is written of the profile can be read. It does not
/// end before the recorder, however fast the machine is.
#[test]
fn killed_under_load() {
    for guided in [false, true] {
        let room = Room::new();
        let torture = program("torture");
        let run = format!(
            "echo on > started; until [ -e killed ]; do {torture} --ops 20000 > /dev/null || exit; done
             {torture} --ops 200000 > out; echo $? > status"
        );
        let mut command = room.command(hearth());
        if guided {
            room.record(&[], "first.hearth", &["sh", "-c", &torture]).expect(0);
            room.hearth(&["plan", "first.hearth", "--policy", "first-served", "--fast", "16MiB", "-o", "plan.toml"])
                .expect(0);
            command.args(["run", "--plan", "plan.toml", "--", "sh", "-c", &run]);
        } else {
            command.args(["record", "-o", "some.hearth", "--", "sh", "-c", &run]);
        }
        let running = spawn(command.stdin(Stdio::null()));
        wait_for(&room, "started");
        sleep(Duration::from_millis(600));
        running.signal(libc::SIGKILL);
        std::fs::write(room.path("killed"), "").unwrap();
        assert_eq!(wait_for(&room, "status"), "0\n");
        assert_eq!(wait(running, LIMIT).status, 128 + libc::SIGKILL);
        assert!(wait_for(&room, "out").starts_with("800000 operations"));
        if !guided {
            assert_eq!(room.observed("some.hearth").outcome, "unfinished");
        }
    }
}

/// While the recorder stands still the rings overrun: the program does not wait, and the profile tells how much is missing.
#[test]
fn stopped_for_a_while() {
    let room = Room::new();
    let torture = program("torture");
    let mut command = room.command(hearth());
    let run = format!(
        "echo on > started; until [ -e stopped ]; do sleep 0.02; done
         {torture} --ops 200000 > out; echo $? > status; sleep 0.2"
    );
    command.args(["record", "-o", "some.hearth", "--", "sh", "-c", &run]);
    let running = spawn(command.stdin(Stdio::null()));
    wait_for(&room, "started");
    running.signal(libc::SIGSTOP);
    std::fs::write(room.path("stopped"), "").unwrap();
    assert_eq!(wait_for(&room, "status"), "0\n");
    running.signal(libc::SIGCONT);
    wait(running, LIMIT).expect(0);
    assert!(wait_for(&room, "out").starts_with("800000 operations"));
    let observed = room.observed("some.hearth");
    assert!(losses(&observed).contains("ring-full"), "{}", losses(&observed));
    let objects: u64 = observed.sites.iter().map(|s| s.objects).sum();
    assert!(objects > 1000, "only {objects} objects were kept");
}
