//! Bad input is answered by one clear sentence and exit code 2, and nothing half-written stays behind.

use hearth_tests::{Ended, Room, is_root, program, require_tool, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

/// One sentence that names what is wrong, status 2, and no new file.
#[track_caller]
pub fn refused(room: &Room, arguments: &[&str], says: &[&str]) {
    let list = |room: &Room| {
        let mut names: Vec<_> =
            fs::read_dir(room.path("")).expect("the room").flatten().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    let before = list(room);
    one_sentence(&room.hearth(arguments), arguments, says);
    assert_eq!(list(room), before, "{arguments:?} left files behind");
}

#[track_caller]
pub fn one_sentence(ended: &Ended, arguments: &[&str], says: &[&str]) {
    let text = ended.stderr.trim_end();
    assert_eq!(ended.status, 2, "{arguments:?}: {text}");
    assert_eq!(ended.stdout, "", "{arguments:?} wrote to standard output");
    assert!(text.starts_with("hearth: ") && text.lines().count() == 1, "not one sentence for {arguments:?}: {text}");
    for word in says {
        assert!(text.contains(word), "`{word}` is missing for {arguments:?} in: {text}");
    }
}

/// A room with a good profile and a good plan.
fn furnished() -> Room {
    let room = Room::new();
    room.record(&[], "good.hearth", &[&program("phases"), "--work", "20"]).expect(0);
    // So short a run may have no access samples, which this policy does without.
    room.hearth(&["plan", "good.hearth", "--policy", "first-served", "--fast", "8MiB", "-o", "good.toml"]).expect(0);
    room
}

#[test]
fn programs_that_cannot_be_started() {
    let room = Room::new();
    fs::write(room.path("text"), "not a program\n").expect("writing");
    fs::write(room.path("garbage"), [0x7f, b'E', b'L', b'F', 9, 9, 9, 9, 9]).expect("writing");
    fs::set_permissions(room.path("garbage"), fs::Permissions::from_mode(0o755)).expect("permissions");
    for verb in [&["record", "-o", "x.hearth", "--"][..], &["record", "--"]] {
        let with = |program: &'static str| [verb, &[program]].concat();
        refused(&room, &with("no-such-program"), &["no-such-program"]);
        refused(&room, &with("./no-such-program"), &["no-such-program"]);
        refused(&room, &with("./text"), &["text"]);
        refused(&room, &with("./garbage"), &["garbage"]);
        refused(&room, &with("/"), &["/"]);
    }
}

#[test]
fn programs_that_cannot_be_observed() {
    let room = Room::new();
    refused(&room, &["record", "-o", "x.hearth", "--", &program("static"), "exit"], &["static"]);
    let setuid = room.path("setuid");
    fs::copy(program("phases"), &setuid).expect("copying");
    if is_root() {
        std::os::unix::fs::chown(&setuid, Some(65534), None).expect("chown");
    }
    fs::set_permissions(&setuid, fs::Permissions::from_mode(0o4755)).expect("permissions");
    refused(&room, &["record", "-o", "x.hearth", "--", "./setuid"], &["setuid"]);
}

#[test]
fn profiles_that_are_none() {
    require_tool("sqlite3", "sqlite3");
    let room = furnished();
    let good = fs::read(room.path("good.hearth")).expect("the profile");
    fs::write(room.path("empty.hearth"), "").expect("writing");
    fs::write(room.path("text.hearth"), "this is text\n".repeat(1000)).expect("writing");
    fs::write(room.path("half.hearth"), &good[..good.len() / 2]).expect("writing");
    fs::write(room.path("head.hearth"), &good[..50]).expect("writing");
    let mut corrupt = good.clone();
    for (i, byte) in corrupt.iter_mut().enumerate().skip(100) {
        *byte ^= (i * 31) as u8 | 1;
    }
    fs::write(room.path("corrupt.hearth"), corrupt).expect("writing");
    room.plain(&["sqlite3", "foreign.hearth", "CREATE TABLE mine (x); INSERT INTO mine VALUES (1);"]).expect(0);
    fs::write(room.path("newer.hearth"), &good).expect("writing");
    room.plain(&["sqlite3", "newer.hearth", "PRAGMA user_version = 99;"]).expect(0);
    fs::create_dir(room.path("folder.hearth")).expect("a folder");
    for name in ["empty", "text", "half", "head", "corrupt", "foreign", "newer", "folder", "missing"] {
        let file = format!("{name}.hearth");
        refused(&room, &["report", &file], &[&file]);
        refused(&room, &["report", &file, "--json"], &[&file]);
        refused(&room, &["plan", &file, "--fast", "1GiB", "-o", "x.toml"], &[&file]);
    }
}

#[test]
fn plans_that_are_none() {
    let room = furnished();
    let good = fs::read_to_string(room.path("good.toml")).expect("the plan");
    let change = |from: &str, to: &str| {
        assert!(good.contains(from), "the plan has no `{from}`:\n{good}");
        good.replacen(from, to, 1)
    };
    fs::write(room.path("empty.toml"), "").expect("writing");
    fs::write(room.path("half.toml"), &good[..good.len() / 2]).expect("writing");
    fs::write(room.path("foreign.toml"), "[package]\nname = \"other\"\n").expect("writing");
    fs::write(room.path("binary.toml"), [0u8, 255, 17, 200]).expect("writing");
    fs::write(room.path("newer.toml"), change("version = 4", "version = 99")).expect("writing");
    fs::write(room.path("tier.toml"), change("default_tier = \"", "default_tier = \"no-such-")).expect("writing");
    for name in ["empty", "half", "foreign", "binary", "newer", "tier", "missing"] {
        let file = format!("{name}.toml");
        refused(&room, &["run", "--plan", &file, "--", &program("phases"), "--work", "1"], &[&file]);
    }
    // A site sent to a tier that the plan does not have.
    let site = good.find("[[site]]").expect("the plan has sites");
    let (head, sites) = good.split_at(site);
    let at = sites.find("\ntier = \"").expect("sites have tiers") + "\ntier = \"".len();
    fs::write(room.path("sent.toml"), format!("{head}{}no-such-{}", &sites[..at], &sites[at..])).expect("writing");
    refused(
        &room,
        &["run", "--plan", "sent.toml", "--", &program("phases"), "--work", "1"],
        &["sent.toml", "no-such-"],
    );
}

#[test]
fn a_plan_of_another_program() {
    let room = furnished();
    refused(&room, &["run", "--plan", "good.toml", "--", &program("deep")], &["phases", "deep"]);
    refused(&room, &["run", "--plan", "good.toml", "--", "no-such-program"], &["no-such-program"]);
}

#[test]
fn sizes_and_tiers_that_cannot_be() {
    let room = furnished();
    for size in ["0", "0GiB", "1000TiB"] {
        refused(&room, &["plan", "good.hearth", "--fast", size, "-o", "x.toml"], &[]);
    }
    // What is no size at all, or no sampler, is an error of usage: the answer also says where the help is.
    for (arguments, word) in [
        (&["plan", "good.hearth", "--fast", "many", "-o", "x.toml"][..], "many"),
        (&["plan", "good.hearth", "--fast", "", "-o", "x.toml"], "--fast"),
        (&["record", "--threshold", "lots", "-o", "x.hearth", "--", "true"], "lots"),
        (&["record", "--sampler", "crystal-ball", "-o", "x.hearth", "--", "true"], "crystal-ball"),
        (&["record", "-o", "x.hearth"], "record"),
    ] {
        let ended = room.hearth(arguments).expect(2);
        assert!(ended.stderr.contains(word), "{}", ended.stderr);
        assert!(!room.path("x.toml").exists() && !room.path("x.hearth").exists());
    }
}

#[test]
fn outputs_that_cannot_be_written() {
    let room = furnished();
    refused(&room, &["record", "-o", "no/such/folder/x.hearth", "--", "true"], &["no/such/folder"]);
    refused(&room, &["record", "-o", "/proc/x.hearth", "--", "true"], &["/proc/x.hearth"]);
    refused(&room, &["record", "-o", "/", "--", "true"], &["/"]);
    let plan = ["plan", "good.hearth", "--policy", "first-served", "--fast", "8MiB", "-o"];
    for output in ["no/such/folder/x.toml", "/proc/x.toml"] {
        refused(&room, &[&plan[..], &[output]].concat(), &[output]);
    }
}

/// A program that cannot be recorded into its place is not started either.
#[test]
fn nothing_runs_before_the_output_is_safe() {
    let room = Room::new();
    let ended =
        run(room.command(hearth_tests::hearth()).args(["record", "-o", "no/folder/x.hearth", "--", "touch", "ran"]));
    assert_eq!(ended.status, 2);
    assert!(!room.path("ran").exists(), "the program ran although its profile could not be written");
}
