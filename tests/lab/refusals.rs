//! What cannot be done is answered by one sentence and exit code 2; and however a run ends, no machine outlives it.

use hearth_tests::lab::Lab;
use hearth_tests::{Ended, is_root, not_tested, program, run, wait};
use std::time::Duration;

/// One sentence that says all these, status 2, and nothing left.
#[track_caller]
fn refused(lab: &Lab, ended: &Ended, says: &[&str]) {
    let text = ended.stderr.trim_end();
    assert_eq!(ended.status, 2, "{text}");
    assert!(text.starts_with("hearth: ") && text.lines().count() == 1, "not one sentence: {text}");
    for word in says {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
    lab.left_nothing();
}

#[test]
fn what_cannot_be_done_is_said_at_once() {
    let lab = Lab::enter();
    let sh = ["--", "/bin/sh", "-c", ":"];
    for (options, says) in [
        (&["--platform", "no-such-machine"][..], &["no-such-machine", "known are"][..]),
        (&["--platform", "grace-hopper"], &["latency", "--set"]),
        (&["--placement", "plan:no-such-plan.toml"], &["no-such-plan.toml"]),
        (&["--memory", "64TiB", "--fast", "1GiB", "--llc", "1MiB"], &["memory", "--memory"]),
        (&["--dir", "/no/such/lab"], &["/no/such/lab", "hearth lab setup"]),
        (&["--json", "no/such/folder/figures.json"], &["no/such/folder"]),
    ] {
        refused(&lab, &run(&mut lab.command(&[options, &sh].concat())), says);
    }
    for program in ["no-such-program", "./no-such-program", "/"] {
        refused(&lab, &run(&mut lab.command(&["--", program])), &[program]);
    }
    // The command line's own mistakes are told with the usage, which has more lines.
    for options in [&["--placement", "fastest"][..], &["--fast", "0"], &["--timeout", "soon"], &["--vcpus", "64"]] {
        let ended = run(&mut lab.command(&[options, &sh].concat()));
        assert_eq!(ended.status, 2, "{options:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(options[0]), "{options:?}: {}", ended.stderr);
        lab.left_nothing();
    }
}

/// Never ends by itself.
const FOREVER: [&str; 3] = ["/bin/sh", "-c", "while :; do :; done"];
const FAST: [&str; 2] = ["--fast", "64MiB"];
const LIMIT: Duration = Duration::from_secs(180);

#[test]
fn a_run_that_takes_too_long_is_ended() {
    let lab = Lab::enter();
    let ended = wait(lab.start(&[&FAST[..], &["--timeout", "3s"]].concat(), &FOREVER), LIMIT);
    refused(&lab, &ended, &["--timeout"]);
}

#[test]
fn no_machine_outlives_the_command_that_started_it() {
    let lab = Lab::enter();
    let running = lab.start(&FAST, &FOREVER);
    lab.until_it_runs();
    running.signal(libc::SIGINT);
    let ended = wait(running, LIMIT);
    assert_eq!(ended.status, 128 + libc::SIGINT, "{}", ended.stderr);
    lab.left_nothing();

    let running = lab.start(&FAST, &FOREVER);
    lab.until_it_runs();
    running.signal(libc::SIGKILL);
    wait(running, LIMIT);
    lab.until_it_is_gone();
    // Its folder is swept up by the next run.
    let (ended, _) = lab.run(&FAST, &[&program("placed"), "0"]);
    assert!(ended.stdout.starts_with("hot "), "{}", ended.stdout);
}

#[test]
fn a_machine_that_dies_is_told_of() {
    let lab = Lab::enter();
    let running = lab.start(&FAST, &FOREVER);
    let qemu = lab.until_it_runs();
    // SAFETY: sends a signal to a process that was seen running for this lab a moment ago.
    unsafe { libc::kill(qemu, libc::SIGKILL) };
    refused(&lab, &wait(running, LIMIT), &["the guest ended before its program did"]);
}

/// Only root may ask the guest's kernel to crash.
#[test]
fn a_kernel_that_panics_leaves_its_console() {
    let lab = Lab::enter_beside();
    if !is_root() {
        not_tested("only root may ask the guest's kernel to crash, or make a small disk", false);
        return;
    }
    let crash = ["/bin/sh", "-c", "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger; sleep 60"];
    let ended = wait(lab.start(&FAST, &crash), LIMIT);
    let words = ended.stderr.trim_end().rsplit_once(' ');
    let console = words.expect("a sentence").1;
    let text = std::fs::read_to_string(console).unwrap_or_else(|e| panic!("{console}: {e}: {}", ended.stderr));
    std::fs::remove_file(console).expect("it was read");
    assert!(text.contains("sysrq") && text.contains("Kernel panic"), "{text}");
    refused(&lab, &ended, &["the guest ended before its program did", "console log"]);
}

/// What the guest writes lies in the session's folder until it is brought back. Only root may make a small disk.
#[test]
fn a_disk_that_becomes_full_is_told_of() {
    let lab = Lab::enter_beside();
    if !is_root() {
        not_tested("only root may ask the guest's kernel to crash, or make a small disk", false);
        return;
    }
    let fill = ["--", "/bin/sh", "-c", "head -c 20000000 /dev/zero > big"];
    let meant = lab.command(&[&["--memory", "256MiB", "--llc", "1MiB", "--vcpus", "1"], &FAST[..], &fill].concat());
    let mut command = lab.room.command("unshare");
    command.envs(meant.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let script = "mount -t tmpfs -o size=8m none \"$TMPDIR\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script, "sh"]).arg(meant.get_program()).args(meant.get_args());
    command.stdin(std::process::Stdio::null());
    refused(&lab, &run(&mut command), &["is full; make room or set TMPDIR"]);
}
