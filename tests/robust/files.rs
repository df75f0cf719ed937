//! No room for files, and no sight of them.

use crate::{losses, with_own_mounts};
use hearth_tests::{Room, is_root, not_tested, program};

/// The profile's file system is full before the program starts: it is not started, nothing is left behind.
#[test]
fn no_room_for_a_profile() {
    let room = Room::new();
    let script = format!(
        "mkdir full && mount -t tmpfs -o size=4k none full && head -c 4096 /dev/zero > full/all
         \"$0\" record -o full/some.hearth -- {} --work 10; echo $?; ls full",
        program("phases")
    );
    let ended = with_own_mounts(&room, &script).expect(0);
    assert_eq!(ended.stdout, "2\nall\n", "{}", ended.stderr);
    assert!(ended.stderr.starts_with("hearth: "), "{}", ended.stderr);
}

/// It becomes full while the program runs.
#[test]
fn a_disk_that_becomes_full() {
    let room = Room::new();
    let torture = program("torture");
    let alone = room.plain(&[&torture]).expect(0);
    let script = format!(
        "mkdir small && mount -t tmpfs -o size=300k none small
         \"$0\" record -o small/some.hearth -- {torture}; echo $?; cp small/some.hearth* .; true"
    );
    let ended = with_own_mounts(&room, &script).expect(0);
    assert_eq!(ended.stdout, format!("{}0\n", alone.stdout), "{}", ended.stderr);
    assert!(ended.stderr.contains("full"), "nothing was said of the full disk: {}", ended.stderr);
    // What had been written before is kept.
    room.observed("some.hearth");
}

/// /dev/shm has room for the session, and for the files of some processes, but not for all of their events.
#[test]
fn a_full_dev_shm() {
    let room = Room::new();
    let torture = program("torture");
    let alone = room.plain(&[&torture, "--threads", "8"]).expect(0);
    for size in ["16k", "64k", "300k", "1m"] {
        let script = format!(
            "mount -t tmpfs -o size={size} none /dev/shm && \"$0\" record -o some.hearth -- {torture} --threads 8"
        );
        let ended = with_own_mounts(&room, &script).expect(0);
        assert_eq!(ended.stdout, alone.stdout, "with {size} of /dev/shm: {}", ended.stderr);
        let observed = room.observed("some.hearth");
        let losses = losses(&observed);
        assert!(
            losses.contains("full") || losses.contains("events found no ring"),
            "with {size} nothing is said: {losses}"
        );
    }
}

/// The same placed while it runs, alone and in the session of a daemon, whose users are told.
#[test]
fn a_full_dev_shm_while_objects_are_placed() {
    let room = Room::new();
    let torture = program("torture");
    let alone = room.plain(&[&torture, "--threads", "8"]).expect(0);
    for size in ["16k", "64k", "300k"] {
        let script = format!(
            "mount -t tmpfs -o size={size} none /dev/shm && \"$0\" live --interval 100ms -- {torture} --threads 8"
        );
        let ended = with_own_mounts(&room, &script).expect(0);
        assert_eq!(ended.stdout, alone.stdout, "with {size} of /dev/shm: {}", ended.stderr);
        let said = &ended.stderr;
        assert!(said.contains("full") || said.contains("events found no ring"), "with {size} nothing is said: {said}");
    }
    // What is left for the files of processes when the daemon's own are there.
    for (left, said) in [(0, "is /dev/shm full?"), (64, "events found no ring")] {
        let script = format!(
            "mount -t tmpfs -o size=1m none /dev/shm
             \"$0\" daemon --interval 50ms --socket d.sock 2>daemon.txt & daemon=$!
             until \"$0\" status --socket d.sock >/dev/null 2>&1; do sleep 0.05; done
             free=$(($(stat -f -c '%a * %S' /dev/shm) / 1024))
             head -c $(((free - {left}) * 1024)) /dev/zero > /dev/shm/all
             \"$0\" live --attach --socket d.sock -- {torture} --threads 8; echo $?
             for try in $(seq 200); do \"$0\" status --socket d.sock | grep -m1 '{said}' && break; sleep 0.05; done
             \"$0\" stop --socket d.sock 2>/dev/null; wait $daemon; echo $?"
        );
        let ended = with_own_mounts(&room, &script).expect(0);
        let lines = ended.stdout.strip_prefix(&alone.stdout).map(|rest| rest.lines().collect::<Vec<_>>());
        let lines = lines.unwrap_or_else(|| panic!("another output: {}\n{}", ended.stdout, ended.stderr));
        assert!(
            matches!(lines[..], ["0", note, "0"] if note.contains(said)),
            "with {left} KiB: {lines:?} {}",
            ended.stderr
        );
    }
}

/// No /dev/shm and no /proc, as in a bare container.
#[test]
fn without_proc_and_dev_shm() {
    let room = Room::new();
    let torture = program("torture");
    let alone = room.plain(&[&torture]).expect(0);
    let script = format!(
        "mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs -o ro none /proc
         HEARTH_LIBRARY=$(dirname \"$0\")/libhearth.so \"$0\" record -o some.hearth -- {torture}"
    );
    let ended = with_own_mounts(&room, &script).expect(0);
    assert_eq!(ended.stdout, alone.stdout, "{}", ended.stderr);
    // Without /dev/shm another folder serves; without /proc the modules of the call stacks cannot be known.
    let observed = room.observed("some.hearth");
    assert!(observed.sites.iter().map(|s| s.objects).sum::<u64>() > 1000, "objects are observed all the same");
    assert!(losses(&observed).contains("call stacks were cut short"), "{}", losses(&observed));
}

/// The program, its libraries and the runtime lie in a folder that becomes its root: the session is out of its sight, and it
/// runs as if there were none.
#[test]
fn in_a_chroot() {
    let room = Room::new();
    let torture = program("torture");
    let script = format!(
        "set -e; library=$(dirname \"$0\")/libhearth.so; mkdir root
         for file in {torture} $library $(ldd {torture} $library | grep -o '/[^ :]*' | sort -u); do
           mkdir -p root$(dirname $file); [ -e root$file ] || cp -L $file root$file
         done
         chroot root {torture}; \"$0\" record -o some.hearth -- chroot root {torture}"
    );
    let ended = with_own_mounts(&room, &script).expect(0);
    let (alone, recorded) = ended.stdout.split_once('\n').expect("two lines");
    assert_eq!(recorded.trim(), alone, "{}", ended.stderr);
    let losses = losses(&room.observed("some.hearth"));
    assert!(losses.contains("chroot"), "{losses}");
}

/// A server's worker gives its rights up and can make no file of its own in the session.
#[test]
fn a_child_that_changes_its_user() {
    if !is_root() {
        not_tested("only root can change its user", false);
        return;
    }
    let room = Room::new();
    let python = "import os\np = os.fork()\nif p == 0:\n    os.setgid(65534); os.setuid(65534)\n    x = [bytes(100000) for i in range(50)]\n    os._exit(len(x))\nprint(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))";
    let ended =
        room.record(&[], "some.hearth", &["/usr/bin/python3", "-c", &format!("x = bytes(100000)\n{python}")]).expect(0);
    assert_eq!(ended.stdout, "50\n");
    let losses = losses(&room.observed("some.hearth"));
    assert!(losses.contains("it changed its user"), "{losses}");
}

/// A shell becomes a program in which there is no runtime; what it did before is there.
#[test]
fn what_is_executed_and_cannot_be_observed() {
    let room = Room::new();
    let fixed = program("static");
    // Long enough for a recorder to look at it that gets the processor seldom.
    let script = format!("x=$(seq 20000); sleep 0.1; exec {fixed} exit --seconds 3");
    let recorded = room.record(&[], "some.hearth", &["bash", "-c", &script]);
    let losses = losses(&room.observed("some.hearth"));
    assert!(losses.contains(&format!("went on as {fixed}")) && losses.contains("statically linked"), "{losses}");
    assert!(recorded.stderr.contains("statically linked"), "{}", recorded.stderr);
}

/// What gives its rights up for a program that it starts, as scripts that start servers do.
#[test]
fn what_is_executed_as_another_user() {
    if !is_root() {
        not_tested("only root can change its user", false);
        return;
    }
    let room = Room::new();
    let another = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sleep", "3"];
    for (verb, output) in [("record", vec!["-o", "some.hearth"]), ("live", vec!["--sampler", "none"])] {
        let ended = room.hearth(&[&[verb], &output[..], &["--"], &another].concat()).expect(0);
        assert!(ended.stderr.contains("it has another user, who may not enter"), "{verb}: {}", ended.stderr);
    }
}
