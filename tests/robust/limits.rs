//! Limits of the system, and sandboxes.

use crate::losses;
use hearth_tests::{Room, may_administer, not_tested, program, run};
use model::Observed;
use std::ffi::CString;
use std::path::{Path, PathBuf};

fn the_same(name: &str, arguments: &[&str]) -> Observed {
    let path = program(name);
    let mut command = vec![path.as_str()];
    command.extend(arguments);
    Room::new().same(&command)
}

/// A process may have 65,530 mappings.
#[test]
fn as_many_mappings_as_there_may_be() {
    the_same("limits", &["mappings"]);
    // With the sampler at its fastest it wants to arm pages at the limit, each of which would be a mapping more.
    let (room, limits) = (Room::new(), program("limits"));
    let alone = room.plain(&[&limits, "mappings"]).expect(0);
    let options = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];
    let mut told = String::new();
    // On a busy machine the sampler may not get a processor just then.
    for _ in 0..10 {
        let recorded = room.record(&options, "some.hearth", &[&limits, "mappings"]).expect(0);
        assert_eq!(recorded.stdout, alone.stdout, "{}", recorded.stderr);
        told = losses(&room.observed("some.hearth"));
        if told.contains("page-unarmed") && told.contains("max_map_count") {
            return;
        }
    }
    panic!("pages are armed at the limit, or nothing is said of it: {told}");
}

/// A filter that ends the program at the first system call that malloc does not make.
#[test]
fn in_a_sandbox() {
    let observed = the_same("limits", &["sandbox"]);
    let losses = losses(&observed);
    assert!(losses.contains("seccomp"), "{losses}");
    assert!(observed.sites.iter().any(|s| s.objects > 1000), "what was before is kept");
}

/// The filter is laid over all threads of the process, and the sampler's is gone by then.
#[test]
fn in_a_sandbox_for_all_threads() {
    let (room, limits) = (Room::new(), program("limits"));
    let command = [&limits[..], "sandbox", "all"];
    let alone = room.plain(&command).expect(0);
    let hard = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];
    for options in [&["--sampler", "page-fault"][..], &hard] {
        for _ in 0..3 {
            let recorded = room.record(options, "some.hearth", &command).expect(0);
            assert_eq!(recorded.stdout, alone.stdout, "{}", recorded.stderr);
        }
        let losses = losses(&room.observed("some.hearth"));
        assert!(losses.contains("seccomp"), "{losses}");
    }
}

#[test]
fn thousands_of_threads_over_time() {
    the_same("crowd", &["4000"]);
}

#[test]
#[ignore = "slow"]
fn a_hundred_thousand_threads_over_time() {
    let observed = the_same("crowd", &["100000"]);
    let objects: u64 = observed.sites.iter().map(|s| s.objects).sum();
    let lost: u64 = observed.losses.iter().map(|l| l.count).sum();
    assert!(objects + lost >= 100_000, "{objects} objects, {lost} lost");
}

/// A group of processes with little memory, removed at the end.
struct Group(PathBuf);

impl Group {
    /// Where groups with memory limits are made, and the file with the limit; `None` if nowhere.
    fn parent() -> Option<(&'static Path, &'static str)> {
        let (one, two) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let writable = |path: &Path| {
            let path = CString::new(path.to_str()?).ok()?;
            // SAFETY: a valid string.
            (unsafe { libc::access(path.as_ptr(), libc::W_OK) } == 0).then_some(())
        };
        if one.join("memory.limit_in_bytes").exists() {
            return writable(one).map(|()| (one, "memory.limit_in_bytes"));
        }
        let controllers = std::fs::read_to_string(two.join("cgroup.subtree_control")).unwrap_or_default();
        controllers.split_whitespace().find(|c| *c == "memory")?;
        writable(two).map(|()| (two, "memory.max"))
    }

    /// `None` where no such group can be made.
    fn new(mib: u64) -> Option<Group> {
        let name = format!("hearth-test-{}", std::process::id());
        let (parent, file) = Group::parent()?;
        let group = Group(parent.join(name));
        std::fs::create_dir(&group.0).ok()?;
        std::fs::write(group.0.join(file), (mib << 20).to_string()).ok()?;
        // Where there is swap it must not help.
        let _ = std::fs::write(group.0.join("memory.swap.max"), "0");
        Some(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The kernel kills the program for its memory; what was recorded until then is kept.
#[test]
fn out_of_memory() {
    let Some(group) = Group::new(120) else {
        // Root's rights over the system do not help where the groups are mounted read-only or have no memory controller.
        let could = may_administer() && Group::parent().is_some();
        not_tested("no group of processes (cgroup) with a memory limit can be made here; root can", could);
        return;
    };
    let room = Room::new();
    let shell = format!("echo $$ > {}/cgroup.procs && exec {} memory", group.0.display(), program("limits"));
    for (mib, code) in [("60", 0), ("400", 137)] {
        let command = format!("{shell} {mib}");
        let alone = room.plain(&["sh", "-c", &command]).expect(code);
        let ended = room.record(&["--sampler", "page-fault"], "some.hearth", &["sh", "-c", &command]).expect(code);
        assert_eq!(ended.stdout, alone.stdout);
        let observed = room.observed("some.hearth");
        let largest = observed.sites.iter().map(|s| s.objects).max();
        assert!(largest >= Some(50), "at most {largest:?} objects of a site");
    }
}

/// A program that limits its own address space while it runs has as much of it as without Hearth.
#[test]
fn an_address_space_that_is_limited_later() {
    for of in ["address-space", "data"] {
        let losses = losses(&the_same("limits", &["lowered", of]));
        assert!(losses.contains("RLIMIT_AS"), "{losses}");
    }
    let room = Room::new();
    let torture = program("torture");
    for limit in ["-v 400000", "-d 400000"] {
        let script = format!("ulimit {limit}; for i in 1 2 3; do x=$(seq 200000); done; echo ${{#x}}; {torture}");
        let command = ["bash", "-c", &script];
        let alone = room.plain(&command).expect(0);
        assert_eq!(room.record(&[], "some.hearth", &command).expect(0).stdout, alone.stdout, "{limit}");
        let losses = losses(&room.observed("some.hearth"));
        assert!(losses.contains("RLIMIT_AS"), "{losses}");
    }
}

/// What is armed while a program uses up all the data that it may have can be opened all the same.
#[test]
fn all_of_the_data_there_may_be() {
    let (room, limits) = (Room::new(), program("limits"));
    let alone = room.plain(&[&limits, "all-data"]).expect(0);
    let options = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];
    for _ in 0..5 {
        let recorded = room.record(&options, "some.hearth", &[&limits, "all-data"]).expect(0);
        assert_eq!(recorded.stdout, alone.stdout, "{}", recorded.stderr);
    }
}

/// The program's clock is a day ahead of the recorder's, or behind: its objects are still its own.
#[test]
fn another_time() {
    let room = Room::new();
    let phases = program("phases");
    let alone = room.plain(&[&phases, "--work", "100"]).expect(0);
    for offset in ["86400", "-600"] {
        let jump =
            ["unshare", "--time", "--fork", "--monotonic", offset, "--boottime", offset, &phases, "--work", "100"];
        let check = run(room.command(jump[0]).args(&jump[1..]));
        if check.status != 0 {
            let could = may_administer() && Path::new("/proc/self/ns/time").exists();
            not_tested(&format!("no other time can be set for a program here ({})", check.stderr.trim()), could);
            return;
        }
        let ended = room.record(&[], "some.hearth", &jump).expect(0);
        assert_eq!(ended.stdout, alone.stdout);
        let observed = room.observed("some.hearth");
        let grid: u64 = hearth_tests::function_sites(&observed, "alloc_grid").map(|s| s.objects).sum();
        assert_eq!(grid, 200, "objects of a program whose clock is {offset} s away");
    }
}
