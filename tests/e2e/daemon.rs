//! `hearth daemon`: programs come and go, the daemon too, and nobody suffers from the other.

use crate::bad_input::{one_sentence, refused};
use hearth_tests::{Ended, Room, Running, hearth, is_root, program, run, run_as_nobody, spawn, wait};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A daemon in a room of its own.
pub struct Daemon {
    running: Option<Running>,
    pub socket: PathBuf,
    /// Who it is, and who asks it.
    user: fn(&mut Command) -> &mut Command,
}

impl Daemon {
    /// Starts it, and waits until it listens.
    pub fn begin(room: &Room, options: &[&str]) -> Daemon {
        Daemon::begin_as(room, options, |command| command)
    }

    /// The same as another user; its socket is in the room, which is to be open to it.
    pub fn begin_as(room: &Room, options: &[&str], user: fn(&mut Command) -> &mut Command) -> Daemon {
        let socket = room.path("daemon.sock");
        let mut command = room.command(hearth());
        command
            .args(["daemon", "--interval", "50ms", "--sampler", "page-fault", "--socket"])
            .arg(&socket)
            .args(options);
        let running = spawn(user(&mut command));
        let daemon = Daemon { running: Some(running), socket, user };
        until("the daemon listens", || daemon.ask(room, "status").status == 0);
        daemon
    }

    pub fn ask(&self, room: &Room, verb: &str) -> Ended {
        run((self.user)(room.command(hearth()).args([verb, "--socket"]).arg(&self.socket)))
    }

    pub fn status(&self, room: &Room) -> Value {
        let mut command = room.command(hearth());
        command.args(["status", "--json", "--socket"]).arg(&self.socket);
        let text = run((self.user)(&mut command)).expect(0).stdout;
        serde_json::from_str(&text).expect("JSON")
    }

    /// Records of the programs it follows, and MiB of each.
    pub fn programs(&self, room: &Room) -> Vec<(u64, u64)> {
        let status = self.status(room);
        let mib =
            |p: &Value| p["resident"].as_array().into_iter().flatten().filter_map(Value::as_u64).sum::<u64>() >> 20;
        let all = status["programs"].as_array().expect("programs").iter();
        all.map(|p| (p["records"].as_u64().unwrap_or(0), mib(p))).collect()
    }

    pub fn attached(&self, room: &Room, command: &[&str]) -> Command {
        let mut attached = room.command(hearth());
        attached.args(["live", "--attach", "--socket"]).arg(&self.socket).arg("--").args(command);
        attached
    }

    pub fn id(&self) -> u32 {
        self.running.as_ref().expect("it runs").id()
    }

    fn signal(mut self, signal: i32) -> Ended {
        let running = self.running.take().expect("it runs");
        running.signal(signal);
        wait(running, LIMIT)
    }

    /// Stops it; nothing of it is left.
    pub fn stop(mut self, room: &Room) -> Ended {
        self.ask(room, "stop").expect(0);
        let ended = wait(self.running.take().expect("it runs"), LIMIT).expect(0);
        assert!(!self.socket.exists());
        ended
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.running.iter().for_each(|r| r.signal(SIGKILL));
    }
}

#[track_caller]
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < LIMIT, "in vain was waited until {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Directory of the session that a program says it is in.
pub fn session(daemon: &Daemon, room: &Room) -> PathBuf {
    run(&mut daemon.attached(room, &["sh", "-c", "printf %s \"$HEARTH_SESSION\""])).expect(0).stdout.into()
}

#[test]
fn programs_that_are_attached_run_as_without() {
    let room = Room::new();
    let daemon = Daemon::begin(&room, &[]);
    let session = session(&daemon, &room);
    let phases = program("phases");
    for command in [
        &[phases.as_str(), "--work", "50"][..],
        &["sh", "-c", "echo out; echo err >&2; exit 7"],
        &["sh", "-c", "kill -9 $$"],
        // A crash, and one that the program wants.
        &["/usr/bin/python3", "-c", "import ctypes; x = bytearray(8 << 20); ctypes.string_at(0)"],
        &["/usr/bin/python3", "-c", "import os; x = bytearray(8 << 20); print(len(x), flush=True); os.abort()"],
        &["sh", "-c", "for i in 1 2 3; do sh -c 'echo $$' >/dev/null & done; wait; exec sqlite3 :memory: 'select 1'"],
    ] {
        let plain = room.plain(command);
        let attached = run(&mut daemon.attached(&room, command));
        assert_eq!(
            (attached.status, attached.stdout),
            (plain.status, plain.stdout),
            "{command:?}: {}",
            attached.stderr
        );
    }
    until("all are over", || daemon.programs(&room).is_empty());
    let shown = daemon.ask(&room, "status").expect(0).stdout;
    assert!(
        shown.starts_with("daemon ") && shown.contains("no programs; start one with `hearth live --attach"),
        "{shown}"
    );
    let files = fs::read_dir(&session).expect("it stands").flatten();
    assert!(files.map(|f| f.path()).all(|f| f.extension().is_none()), "no process file is left");
    let said = daemon.stop(&room).stderr;
    assert!(said.contains("the daemon listens at"), "{said}");
    assert!(!session.exists());
}

#[test]
fn a_daemon_that_was_stopped_holds_no_program_up() {
    let room = Room::new();
    let daemon = Daemon::begin(&room, &[]);
    let signal = |signal: i32| daemon.running.as_ref().expect("it runs").signal(signal);
    signal(libc::SIGSTOP);
    let ended = run(&mut daemon.attached(&room, &["sh", "-c", "echo out; exit 7"])).expect(7);
    assert_eq!(ended.stdout, "out\n");
    assert!(
        ended.stderr.contains("gave no answer") && ended.stderr.contains("; the program runs without Hearth\n"),
        "{}",
        ended.stderr
    );
    signal(libc::SIGCONT);
    daemon.stop(&room);
}

/// What ends while the daemon stands still does not wait for it: a program with 64 MiB alive, and a launcher would be given 300 ms to look at
/// them. Of many runs the fastest counts, so that a busy machine is no reason to fail.
/// A job's ranks may all be started at one moment; the daemon hears eight of a user's at once, and the others ask again.
#[test]
fn many_programs_start_at_once() {
    let room = Room::new();
    let daemon = Daemon::begin(&room, &[]);
    let script = "for i in $(seq 40); do \"$0\" live --attach --socket \"$1\" -- touch \"ran$i\" & done; wait";
    let ended = run(room.command("sh").args(["-c", script]).arg(hearth()).arg(&daemon.socket)).expect(0);
    let ran = (1..=40).filter(|i| room.path(&format!("ran{i}")).exists()).count();
    assert_eq!((ran, ended.stderr.as_str()), (40, ""));
    daemon.stop(&room);
}

#[test]
fn a_daemon_that_is_stopped_later_holds_no_end_up() {
    let room = Room::new();
    let stays = program("stays");
    let daemon = Daemon::begin(&room, &[]);
    let signal = |signal: i32| daemon.running.as_ref().expect("it runs").signal(signal);
    fs::write(room.path("over"), "").expect("writing");
    let script = format!(
        "touch started; until [ -e stopped ]; do sleep 0.02; done
         for i in 1 2 3 4 5 6 7 8 9 10; do from=${{EPOCHREALTIME/./}}; {stays} over || exit; echo $((${{EPOCHREALTIME/./}} - from)) >> took; done"
    );
    let program = spawn(&mut daemon.attached(&room, &["bash", "-c", &script]));
    until("it is started", || room.path("started").exists());
    signal(libc::SIGSTOP);
    fs::write(room.path("stopped"), "").expect("writing");
    let ended = wait(program, LIMIT).expect(0);
    assert_eq!(ended.stdout, "0 bytes wrong\n".repeat(10));
    let took = fs::read_to_string(room.path("took")).expect("its times");
    let took: Vec<u64> = took.lines().map(|us| us.parse().expect("a number")).collect();
    println!("{took:?} us");
    assert!(took.len() == 10 && took.iter().any(|us| *us < 300_000), "all of them waited: {took:?} us");
    signal(libc::SIGCONT);
    until("all are over", || daemon.programs(&room).is_empty());
    daemon.stop(&room);
}

#[test]
fn a_daemon_that_is_killed_leaves_its_programs_to_the_next_one() {
    let room = Room::new();
    let stays = program("stays");
    let daemon = Daemon::begin(&room, &[]);
    let session = session(&daemon, &room);
    let programs: Vec<Running> = (0..2).map(|_| spawn(&mut daemon.attached(&room, &[&stays, "over"]))).collect();
    // 52.5 MiB of arrays, 8 of a mapping, 4 of a static variable.
    let whole =
        |found: &[(u64, u64)]| found.len() == 2 && found.iter().all(|(records, mib)| *records >= 22 && *mib >= 64);
    until("their objects are known", || whole(&daemon.programs(&room)));
    let before = daemon.programs(&room);
    daemon.signal(SIGKILL);
    // It goes on: rings fill up and drop.
    std::thread::sleep(Duration::from_millis(300));
    let next = Daemon::begin(&room, &[]);
    until("their objects are found again", || whole(&next.programs(&room)));
    println!("{before:?} before, {:?} after", next.programs(&room));
    // One that is told to end leaves them too.
    next.signal(SIGTERM).expect(0);
    assert!(session.exists(), "somebody is in it");
    // Nobody is there when one of them ends.
    let mut programs = programs.into_iter();
    fs::write(room.path("over"), "").expect("writing");
    programs.by_ref().take(1).for_each(|p| assert_eq!(wait(p, LIMIT).expect(0).stdout, "0 bytes wrong\n"));
    programs.for_each(|p| assert_eq!(wait(p, LIMIT).expect(0).stdout, "0 bytes wrong\n"));
    let files: Vec<_> = fs::read_dir(&session).into_iter().flatten().flatten().map(|f| f.path()).collect();
    assert!(files.iter().all(|f| f.extension().is_none()), "who ends alone takes its file with it: {files:?}");
    let last = Daemon::begin(&room, &[]);
    assert_eq!(last.programs(&room), []);
    last.stop(&room);
    assert!(!session.exists());
}

#[test]
fn programs_that_do_harm_to_their_files_harm_nobody_else() {
    let room = Room::new();
    let stays = program("stays");
    let daemon = Daemon::begin(&room, &[]);
    let good = spawn(&mut daemon.attached(&room, &[&stays, "over"]));
    until("it is known", || daemon.programs(&room).iter().any(|(records, _)| *records > 20));
    let files = "ls \"$HEARTH_SESSION\"/*.proc";
    let scripts = [
        // Cuts its own file off, and goes on.
        format!("{stays} now >/dev/null & sleep 0.3; for f in $({files}); do case $f in */$!.*) truncate -s 0 $f;; esac; done; touch now; wait"),
        // Writes nonsense over rings and header.
        format!("{stays} later >/dev/null & sleep 0.3; for f in $({files}); do case $f in */$!.*) dd if=/dev/urandom of=$f bs=4096 count=100 conv=notrunc 2>/dev/null;; esac; done; sleep 0.3; touch later; wait"),
        // Files that are none, and one of a process of somebody else's.
        "cd \"$HEARTH_SESSION\"; ln -s /etc/passwd 1.1.proc; mkfifo 2.1.proc; mkdir 3.1.proc; head -c 100000000 /dev/zero > 4.1.proc; sleep 0.3".into(),
    ];
    for script in &scripts {
        let attached = run(&mut daemon.attached(&room, &["sh", "-c", script]));
        assert!(daemon.programs(&room).iter().any(|(records, _)| *records > 20), "{script}: {}", attached.stderr);
    }
    fs::write(room.path("over"), "").expect("writing");
    assert_eq!(wait(good, LIMIT).expect(0).stdout, "0 bytes wrong\n");
    daemon.stop(&room);
}

#[test]
fn roots_daemon_is_for_everyone_and_shows_each_his_own() {
    if !is_root() {
        println!("only root can start a daemon for everyone: left out");
        return;
    }
    let room = Room::new();
    let stays = program("stays");
    let open = |path: &Path| run(Command::new("chmod").arg("777").arg(path)).expect(0);
    open(&room.path("."));
    let daemon = Daemon::begin(&room, &[]);
    let roots = spawn(&mut daemon.attached(&room, &[&stays, "over"]));
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &[&stays, "over"])));
    until("both are known", || {
        daemon.programs(&room).iter().filter(|(records, mib)| *records > 20 && *mib >= 64).count() == 2
    });
    let as_nobody = |verb: &str| {
        let mut command = room.command(hearth());
        command.args([verb, "--socket"]).arg(&daemon.socket);
        run(run_as_nobody(&mut command))
    };
    let seen = as_nobody("status").expect(0).stdout;
    assert_eq!(seen.matches("/stays").count(), 1, "{seen}");
    one_sentence(&as_nobody("stop"), &["stop"], &["only user 0 and root may stop this daemon"]);
    fs::write(room.path("over"), "").expect("writing");
    for program in [roots, theirs] {
        assert_eq!(wait(program, LIMIT).expect(0).stdout, "0 bytes wrong\n");
    }
    daemon.stop(&room);
}

/// Root's rights without those to all files are of no use in a folder that is closed to others; its owner's are.
#[test]
fn roots_daemon_reads_programs_with_the_rights_of_their_users() {
    if !is_root() {
        println!("only root can start a daemon for everyone: left out");
        return;
    }
    let room = Room::new();
    run(Command::new("chmod").arg("777").arg(room.path("."))).expect(0);
    let (closed, copy) = (room.path("closed"), room.path("closed/chunks"));
    fs::create_dir(&closed).expect("a folder");
    fs::copy(program("chunks"), &copy).expect("a copy");
    run(Command::new("chown").args(["-R", "65534:65534"]).arg(&closed)).expect(0);
    run(Command::new("chmod").arg("700").arg(&closed)).expect(0);
    let daemon = Daemon::begin(&room, &[]);
    let copy = copy.to_str().expect("a readable name");
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &[copy, "100000", "static", "2"])));
    let socket = daemon.socket.to_str().expect("a readable name");
    until("its static array is known", || {
        let all = room.hearth(&["top", "--once", "--json", "--socket", socket]).expect(0).stdout;
        let all: Value = serde_json::from_str(&all).expect("JSON");
        let objects = all["objects"].as_array().expect("objects");
        objects.iter().any(|o| o["site"]["frames"][0]["source"][0]["function"] == "table")
    });
    theirs.signal(libc::SIGKILL);
    assert_eq!(wait(theirs, LIMIT).status, 128 + libc::SIGKILL);
    daemon.stop(&room);
}

#[test]
fn the_screen_shows_objects_by_name_and_programs_with_their_shares() {
    let room = Room::new();
    let daemon = Daemon::begin(&room, &["--share-by", "command", "--weight", "stays=3"]);
    let program = spawn(&mut daemon.attached(&room, &[&program("stays"), "over"]));
    until("its objects are known", || daemon.programs(&room).iter().any(|(records, mib)| *records > 20 && *mib >= 64));
    let socket = daemon.socket.to_str().expect("a readable name");
    let ask = |args: &[&str]| room.hearth(&[args, &["--socket", socket]].concat()).expect(0).stdout;
    let screen = ask(&["top", "--once"]);
    println!("{screen}");
    assert!(screen.lines().all(|l| l.chars().count() <= 80) && screen.lines().count() <= 24);
    for shown in ["1 process ", "parts: stays ", "misses/s program", " stays\n", "stays.c:"] {
        assert!(screen.contains(shown), "no {shown}:\n{screen}");
    }
    let all: Value = serde_json::from_str(&ask(&["top", "--once", "--json"])).expect("JSON");
    assert_eq!(all["shares"][0]["group"], "stays");
    assert!(all["objects"].as_array().is_some_and(|o| o.len() > 20));
    let metrics = ask(&["status", "--prometheus"]);
    assert!(
        metrics.contains("hearth_program_resident_bytes{pid=\"")
            && metrics.contains("hearth_share_bytes{group=\"stays\"} "),
        "{metrics}"
    );
    refused(&room, &["top", "--socket", socket], &["--once"]);
    // A full disk is said, and nothing else happens.
    for args in ["top --once", "top --once --json", "status", "status --json", "status --prometheus"] {
        let script = format!("exec \"$0\" {args} --socket \"$1\" >/dev/full");
        let full = run(room.command("sh").args(["-c", &script]).arg(hearth()).arg(socket)).expect(2);
        assert!(
            full.stderr.contains("cannot write to standard output") && !full.stderr.contains("panic"),
            "{args}: {}",
            full.stderr
        );
    }
    // In a terminal of 80 columns and 24 lines it is drawn, and `q` ends it.
    let looked = "stty cols 80 rows 24; exec \"$HEARTH\" top --socket \"$SOCKET\"";
    let script = format!("(sleep 2; printf q) | script -qec '{looked}' /dev/null");
    let seen = run(room
        .command("sh")
        .args(["-c", &script])
        .env("HEARTH", hearth())
        .env("SOCKET", socket)
        .env("TERM", "xterm"));
    let seen = seen.expect(0).stdout;
    assert!(
        seen.contains("\u{1b}[?1049h") && seen.contains("\u{1b}[?1049l") && seen.contains("hearth daemon"),
        "{seen:?}"
    );
    fs::write(room.path("over"), "").expect("writing");
    wait(program, LIMIT).expect(0);
    daemon.stop(&room);
}

#[test]
fn bad_input_is_one_sentence() {
    let room = Room::new();
    let nowhere = room.path("nowhere.sock");
    let nowhere = nowhere.to_str().expect("a readable name");
    refused(&room, &["status", "--socket", nowhere], &["no daemon listens", "hearth daemon"]);
    refused(&room, &["stop", "--socket", nowhere], &["no daemon listens"]);
    refused(&room, &["live", "--attach", "--socket", nowhere, "--", "true"], &["no daemon listens"]);
    refused(&room, &["daemon", "--socket", "no/such/folder/s"], &["no/such/folder/s", "--socket"]);
    let long = "s".repeat(200);
    refused(&room, &["daemon", "--socket", &long], &["sss: it cannot be a socket", "--socket"]);
    assert!(!room.path(&format!("{long}.lock")).exists(), "nothing is left behind");
    refused(&room, &["daemon", "--priority", "best", "--socket", nowhere], &["--priority best"]);
    refused(&room, &["daemon", "--trigger", "llcmpi", "--sampler", "none", "--socket", nowhere], &["--trigger llcmpi"]);
    refused(&room, &["top", "--once", "--socket", nowhere], &["no daemon listens"]);
    let share = |options: &[&str], wanted: &[&str]| {
        refused(&room, &[&["daemon", "--socket", nowhere, "--share-by"], options].concat(), wanted);
    };
    share(&["user", "--weight", "no-such-user=2"], &["--weight no-such-user", "no such user"]);
    share(&["command", "--weight", "a=0"], &["--weight a=0", "above 0"]);
    share(&["command", "--fast", "1GiB", "--reserve", "a=3GiB"], &["--reserve", "3 GiB", "1 GiB"]);
    share(&["job", "--reserve", "a=1MiB"], &["jobs have no names"]);
    share(&["command", "--enforce", "script=x.rhai"], &["script"]);
    fs::write(room.path("kept"), "").expect("writing");
    let daemon = Daemon::begin(&room, &[]);
    let socket = daemon.socket.to_str().expect("a readable name").to_string();
    refused(&room, &["daemon", "--socket", &socket], &["a daemon runs already (process", "hearth stop"]);
    refused(&room, &["live", "--attach", "--socket", &socket, "--", "no-such-program"], &["no-such-program"]);
    let ended = room.hearth(&["live", "--attach", "--fast", "1GiB", "--", "true"]);
    assert!(ended.status == 2 && ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    refused(&room, &["daemon", "--socket", "kept"], &["kept", "no socket"]);
    // A file that is no socket of a daemon.
    fs::write(room.path("plain"), "").expect("writing");
    refused(&room, &["status", "--socket", "plain"], &["no daemon listens at plain"]);
    daemon.stop(&room);
}
