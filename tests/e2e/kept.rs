//! A profile stays readable whatever ends the program or the recorder.

use hearth_tests::{Room, hearth, program, spawn, wait};
use model::Bytes;
use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Starts a recording of a program that would run for a minute.
fn recording(room: &Room) -> Command {
    let mut command = room.command(hearth());
    command.args(["record", "-o", "kept.hearth", "--", &program("eight"), "--seconds", "60", "--scale", "25"]);
    command.stdin(Stdio::null());
    command
}

/// The profile says how the run ended and has the program's objects. Names of functions are read after the run, so that
/// there are none if the recorder did not live to see its end: the objects are told by their sizes, a quarter of those
/// in `eight.c`.
#[track_caller]
fn readable(room: &Room, outcome: &str) {
    let observed = room.observed("kept.hearth");
    assert_eq!(observed.outcome, outcome);
    for (object, mib) in [("stream_write", 8), ("random_write", 12), ("rmw", 24)] {
        let objects = observed.sites.iter().filter(|s| s.largest == Bytes::mib(mib)).map(|s| s.objects).sum::<u64>();
        assert_eq!(objects, 1, "objects with the size of {object}");
    }
    assert!(observed.sites.iter().any(|s| s.samples > 0), "no samples were kept");
}

/// The one child process of `parent`, which is the recorded program.
#[track_caller]
fn program_of(recorder: u32) -> i32 {
    let deadline = Instant::now() + LIMIT;
    loop {
        for entry in fs::read_dir("/proc").expect("/proc").flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
            let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((before, after)) = stat.rsplit_once(')') else { continue };
            if before.ends_with("(eight") && descends(after, recorder) {
                return id;
            }
        }
        assert!(Instant::now() < deadline, "the program did not start");
        sleep(Duration::from_millis(20));
    }
}

/// Whether the process with this `stat` (from its state on) is a child or grandchild of `ancestor`.
fn descends(stat: &str, ancestor: u32) -> bool {
    let parent = |stat: &str| stat.split_whitespace().nth(1).and_then(|p| p.parse::<u32>().ok());
    let Some(first) = parent(stat) else { return false };
    if first == ancestor {
        return true;
    }
    let grand = fs::read_to_string(format!("/proc/{first}/stat")).ok();
    grand.and_then(|s| s.rsplit_once(')').and_then(|(_, after)| parent(after))) == Some(ancestor)
}

#[test]
fn after_ctrl_c() {
    let room = Room::new();
    let running = spawn(&mut recording(&room));
    program_of(running.id());
    sleep(Duration::from_secs(3));
    running.signal_all(libc::SIGINT);
    assert_eq!(wait(running, LIMIT).status, 128 + libc::SIGINT);
    readable(&room, "signal 2");
}

#[test]
fn after_the_program_was_killed() {
    let room = Room::new();
    let running = spawn(&mut recording(&room));
    let id = program_of(running.id());
    sleep(Duration::from_secs(3));
    // SAFETY: sends a signal to a process that this test started and that still runs.
    unsafe { libc::kill(id, libc::SIGKILL) };
    assert_eq!(wait(running, LIMIT).status, 128 + libc::SIGKILL);
    readable(&room, "signal 9");
}

/// The program itself goes on and ends as it would have.
#[test]
fn after_the_recorder_was_killed() {
    let room = Room::new();
    let mut command = room.command(hearth());
    command.args(["record", "-o", "kept.hearth", "--", "sh", "-c"]);
    command.arg(format!("{} --seconds 10 --scale 25 > out; echo $? > status", program("eight")));
    let running = spawn(command.stdin(Stdio::null()));
    let id = program_of(running.id());
    sleep(Duration::from_secs(4));
    running.signal(libc::SIGKILL);
    assert_eq!(wait(running, LIMIT).status, 128 + libc::SIGKILL);
    let deadline = Instant::now() + LIMIT;
    while !room.path("status").exists() || fs::read_to_string(room.path("status")).expect("status").is_empty() {
        assert!(Instant::now() < deadline, "the program (process {id}) did not end by itself");
        sleep(Duration::from_millis(50));
    }
    assert_eq!(fs::read_to_string(room.path("status")).expect("status"), "0\n");
    assert!(fs::read_to_string(room.path("out")).expect("output").contains("alloc_resident"));
    readable(&room, "unfinished");
}
