//! Who may what with a daemon, what it may itself, and what each user is told.

use crate::bad_input::one_sentence;
use crate::daemon::{Daemon, session, until};
use hearth_tests::{Room, hearth, is_root, not_tested, program, run, run_as_nobody, spawn, wait, workspace};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use wire::process::Header;
use wire::session::PROCESS_SUFFIX;

const LIMIT: Duration = Duration::from_secs(60);
const NOBODY: u64 = 65534;

/// A room that every user may write to.
fn open_room() -> Room {
    let room = Room::new();
    run(Command::new("chmod").arg("777").arg(room.path("."))).expect(0);
    room
}

/// Left out where the test needs several users.
fn only_root() -> bool {
    let root = is_root();
    if !root {
        println!("only root can run programs as another user: left out");
    }
    root
}

/// A line of the form `NAME: VALUE` of each thread of a process.
fn of_threads(pid: u32, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let line = |task: PathBuf| -> Option<String> {
        let text = fs::read_to_string(task.join("status")).ok()?;
        Some(text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?.trim().to_string())
    };
    tasks.filter_map(|t| line(t.path())).collect()
}

/// The rights to take on those of others (CAP_SETGID, CAP_SETUID), to look into and to move memory (CAP_SYS_PTRACE, CAP_SYS_NICE), and to see the
/// processor's samples (CAP_PERFMON); none to files, to the network or to the system, and none that come by executing something.
#[test]
fn roots_daemon_has_only_the_rights_that_it_needs() {
    if !only_root() {
        return;
    }
    let needed = [6, 7, 19, 23, 38].iter().fold(0u64, |mask, cap| mask | 1 << cap);
    let room = open_room();
    let daemon = Daemon::begin(&room, &[]);
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &[&program("stays"), "over"])));
    until("it is known", || daemon.programs(&room).iter().any(|(records, _)| *records > 20));
    let mask = |text: &String| u64::from_str_radix(text, 16).expect("a number");
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        let of = of_threads(daemon.id(), set);
        println!("{set}: {of:?}");
        assert!(of.len() >= 2 && of.iter().all(|text| mask(text) & !needed == 0), "{set}: {of:?}");
    }
    let effective = of_threads(daemon.id(), "CapEff");
    assert!(effective.iter().any(|text| mask(text) & 1 << 19 != 0), "it can look into others: {effective:?}");
    assert!(of_threads(daemon.id(), "NoNewPrivs").iter().all(|text| text == "1"));
    fs::write(room.path("over"), "").expect("writing");
    wait(theirs, LIMIT).expect(0);
    daemon.stop(&room);
}

/// What a unit says of a key, line by line.
fn of_unit<'a>(unit: &'a str, key: &'a str) -> impl Iterator<Item = &'a str> {
    unit.lines().filter_map(move |l| l.strip_prefix(key)?.strip_prefix('='))
}

/// systemd finds nothing wrong with the units, and root's daemon can do its work with the rights that its unit leaves it.
#[test]
fn the_units_for_systemd_are_good() {
    let room = open_room();
    let units = workspace().join("packaging/systemd");
    let unit = |name: &str| fs::read_to_string(units.join(name)).expect("it is there");
    for (name, whose) in [("hearth.service", "--system"), ("user/hearth.service", "--user")] {
        let text = unit(name).replace("/usr/bin/hearth", hearth().to_str().expect("readable"));
        let file = room.path("hearth.service");
        fs::write(&file, text).expect("writing");
        let mut verify = room.command("systemd-analyze");
        verify.env("XDG_RUNTIME_DIR", room.path(".")).args([whose, "verify"]).arg(&file);
        let Ok(output) = verify.output() else {
            not_tested("the units for systemd: systemd-analyze is not installed", false);
            break;
        };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && !said.contains("hearth.service"), "{name}: {said}");
    }
    if !only_root() {
        return;
    }
    let daemon = Daemon::begin_as(&room, &[], |command| {
        const NAMES: [(&str, u64); 6] = [
            ("CAP_DAC_OVERRIDE", 1),
            ("CAP_SETGID", 6),
            ("CAP_SETUID", 7),
            ("CAP_SYS_PTRACE", 19),
            ("CAP_SYS_NICE", 23),
            ("CAP_PERFMON", 38),
        ];
        let unit = fs::read_to_string(workspace().join("packaging/systemd/hearth.service")).expect("it is there");
        let number = |name: &str| NAMES.iter().find(|(n, _)| *n == name).expect("a right that is known here").1;
        let left: Vec<u64> =
            of_unit(&unit, "CapabilityBoundingSet").flat_map(str::split_whitespace).map(number).collect();
        assert!(!left.is_empty() && of_unit(&unit, "NoNewPrivileges").eq(["yes"]), "{unit}");
        let restrict = move || {
            // SAFETY: these take numbers only; of rights that the kernel does not know it says so.
            unsafe {
                (0..64).filter(|right| !left.contains(right)).for_each(|right| {
                    libc::prctl(libc::PR_CAPBSET_DROP, right, 0, 0, 0);
                });
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            }
            Ok(())
        };
        // SAFETY: nothing in there allocates or takes a lock.
        unsafe { command.pre_exec(restrict) }
    });
    let bounding = of_threads(daemon.id(), "CapBnd");
    assert!(
        bounding.iter().all(|text| u64::from_str_radix(text, 16).is_ok_and(|set| set.count_ones() == 6)),
        "{bounding:?}"
    );
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &[&program("stays"), "over"])));
    until("it is known", || daemon.programs(&room).iter().any(|(records, mib)| *records > 20 && *mib >= 64));
    fs::write(room.path("over"), "").expect("writing");
    wait(theirs, LIMIT).expect(0);
    daemon.stop(&room);
}

/// A user's daemon follows the programs of that user, and nobody else's, not even root's.
#[test]
fn a_users_daemon_is_for_that_user() {
    if !only_root() {
        return;
    }
    let room = open_room();
    let daemon = Daemon::begin_as(&room, &[], run_as_nobody);
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &[&program("stays"), "over"])));
    until("it is known", || daemon.programs(&room).iter().any(|(records, mib)| *records > 20 && *mib >= 64));
    assert_eq!(daemon.status(&room)["programs"][0]["uid"], NOBODY);
    let verb = ["live", "--attach"];
    one_sentence(&run(&mut daemon.attached(&room, &["true"])), &verb, &["neither root nor you", "--socket"]);
    let mut third = daemon.attached(&room, &["true"]);
    one_sentence(&run(third.uid(12345).gid(12345)), &verb, &["cannot be reached", "ermission denied"]);
    assert_eq!(daemon.programs(&room).len(), 1);
    fs::write(room.path("over"), "").expect("writing");
    assert_eq!(wait(theirs, LIMIT).expect(0).stdout, "0 bytes wrong\n");
    daemon.stop(&room);
}

/// One that lets nobody look into it can only be watched; it is not forgotten.
#[test]
fn a_program_whose_pages_may_not_be_moved_is_still_known() {
    if !only_root() {
        return;
    }
    let room = open_room();
    let daemon = Daemon::begin_as(&room, &[], run_as_nobody);
    let script = "import ctypes, os, time\nheld = [bytes(1 << 20) for _ in range(30)]\ntime.sleep(0.3)\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n\
                  while not os.path.exists('over'): time.sleep(0.01)\nprint(len(held))";
    let theirs = spawn(run_as_nobody(&mut daemon.attached(&room, &["/usr/bin/python3", "-c", script])));
    until("it is said", || {
        let text = daemon.ask(&room, "status").stdout;
        text.contains("the kernel does not permit to move the pages") && text.contains("python3")
    });
    assert!(daemon.programs(&room).iter().any(|(records, _)| *records > 0), "{}", daemon.status(&room));
    fs::write(room.path("over"), "").expect("writing");
    assert_eq!(wait(theirs, LIMIT).expect(0).stdout, "30\n");
    daemon.stop(&room);
}

/// The file of a process of root's at another daemon, true in all it says, put among the files of another user's processes.
#[test]
fn a_process_that_is_anothers_is_left_alone_whatever_is_said_of_it() {
    if !only_root() {
        return;
    }
    let (room, other_room) = (open_room(), open_room());
    let (daemon, other) = (Daemon::begin(&room, &[]), Daemon::begin(&other_room, &[]));
    let theirs = run(run_as_nobody(&mut daemon.attached(&room, &["sh", "-c", "printf %s \"$HEARTH_SESSION\""])));
    let theirs = PathBuf::from(theirs.expect(0).stdout);
    let roots = spawn(&mut other.attached(&other_room, &[&program("stays"), "over"]));
    until("it is known", || other.programs(&other_room).iter().any(|(records, _)| *records > 20));
    let begins = format!("{}.", roots.id());
    let files = fs::read_dir(session(&other, &other_room)).expect("the session").flatten().map(|f| f.path());
    let is_its = |path: &PathBuf| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&begins));
    let file = files.into_iter().find(is_its).expect("its file");
    let before = theirs.join("forged");
    // Complete before it is there.
    let forge = |pid: u32, name: &OsStr| {
        run(Command::new("cp").arg("--sparse=always").args([&file, &before])).expect(0);
        run(Command::new("chown").arg("65534:65534").arg(&before)).expect(0);
        let open = fs::File::options().write(true).open(&before).expect("opening");
        open.write_all_at(&pid.to_ne_bytes(), offset_of!(Header, pid) as u64).expect("writing");
        fs::rename(&before, theirs.join(name)).expect("another name");
        theirs.join(name)
    };
    // First one of a process that is no more: nobody can tell whose it was, and there is nothing to say.
    let mut ended = Command::new("true").spawn().expect("true");
    ended.wait().expect("its end");
    let of_none = forge(ended.id(), format!("{}.0{PROCESS_SUFFIX}", ended.id()).as_ref());
    until("it is of no use to anybody", || !of_none.exists());
    let forged = forge(roots.id(), file.file_name().expect("a name"));
    let said = |status: &Value| -> Vec<Value> {
        let notes = status["notes"].as_array().expect("notes").iter();
        notes
            .filter(|n| n["text"].as_str().is_some_and(|t| t.contains("is not one of user 65534's")))
            .cloned()
            .collect()
    };
    until("it is seen", || !said(&daemon.status(&room)).is_empty());
    let notes = said(&daemon.status(&room));
    assert_eq!((notes.len(), &notes[0]["user"]), (1, &NOBODY.into()), "{notes:?}");
    assert_eq!(daemon.programs(&room), []);
    assert!(!forged.exists(), "nor is this one");
    fs::write(other_room.path("over"), "").expect("writing");
    assert_eq!(wait(roots, LIMIT).expect(0).stdout, "0 bytes wrong\n");
    daemon.stop(&room);
    other.stop(&other_room);
}

/// Why programs are left alone is said to their users and to root, not to others.
#[test]
fn what_is_said_of_programs_is_for_their_users() {
    let room = open_room();
    let daemon = Daemon::begin(&room, &[]);
    let limited = ["bash", "-c", "ulimit -v 400000; sh -c :"];
    let sandboxed = program("limits");
    let plain = room.plain(&[&sandboxed, "sandbox"]);
    let ended = run(&mut daemon.attached(&room, &[&sandboxed, "sandbox"]));
    assert_eq!((ended.status, ended.stdout), (plain.status, plain.stdout), "{}", ended.stderr);
    run(&mut daemon.attached(&room, &limited)).expect(0);
    let notes = |status: &Value, what: &str| -> Vec<Value> {
        let notes = status["notes"].as_array().expect("notes").iter();
        notes.filter(|n| n["text"].as_str().is_some_and(|t| t.contains(what))).map(|n| n["user"].clone()).collect()
    };
    for what in ["RLIMIT_AS", "seccomp"] {
        until(what, || !notes(&daemon.status(&room), what).is_empty());
    }
    // They stand after what they are of is over, in the status for people too.
    until("all are over", || daemon.programs(&room).is_empty());
    let shown = daemon.ask(&room, "status").expect(0).stdout;
    assert!(shown.contains("RLIMIT_AS") && shown.contains("seccomp"), "{shown}");
    if only_root() {
        let seen = |room: &Room, socket: &Path| -> Value {
            let mut command = room.command(hearth());
            command.args(["status", "--json", "--socket"]).arg(socket);
            serde_json::from_str(&run(run_as_nobody(&mut command)).expect(0).stdout).expect("JSON")
        };
        let theirs = seen(&room, &daemon.socket);
        assert!(notes(&theirs, "RLIMIT_AS").is_empty() && notes(&theirs, "seccomp").is_empty(), "{}", theirs["notes"]);
        run(run_as_nobody(&mut daemon.attached(&room, &limited))).expect(0);
        let told = || notes(&seen(&room, &daemon.socket), "RLIMIT_AS");
        until("it is said to its user", || !told().is_empty());
        assert!(told().iter().all(|user| *user == NOBODY), "{:?}", told());
        let all = notes(&daemon.status(&room), "RLIMIT_AS");
        assert!(all.contains(&0.into()) && all.contains(&NOBODY.into()), "root sees what all are told: {all:?}");
    }
    daemon.stop(&room);
}
