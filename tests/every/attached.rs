//! Programs of many processes that a daemon places: they do the same, and are one job to whom fast memory is shared.

use crate::{LIMIT, User, open, run_in_room};
use hearth_tests::{Room, hearth, program, require_tool, spawn, wait, workspace};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// Groups that were seen, each with its process ids.
fn look(room: &Room, socket: &str, seen: &mut BTreeSet<(String, u64)>) {
    let ended = room.hearth(&["status", "--json", "--socket", socket]);
    let Ok(status) = serde_json::from_str::<Value>(&ended.stdout) else { return };
    for p in status["programs"].as_array().into_iter().flatten() {
        let (group, pid) = (p["group"].as_str().unwrap_or_default(), p["pid"].as_u64().unwrap_or_default());
        seen.insert((group.to_string(), pid));
    }
}

/// Runs the script attached, beside another program, which is a job of its own. So many processes of it are to be seen at least.
#[track_caller]
fn one_job(name: &str, user: User, ranks: &'static str, least: usize) {
    let script = workspace().join("tests/every/scripts").join(name).with_extension("sh");
    let script = script.to_str().expect("readable path").to_string();
    let ranks = format!("RANKS={ranks}");
    let (_, plain) = run_in_room(&["env", &ranks, "bash", &script], user);
    let room = Room::new();
    open(&room.path("."));
    let socket = room.path("d.sock").to_str().expect("readable path").to_string();
    let mut command = room.command(hearth());
    let daemon = spawn(
        command
            .args(["daemon", "--share-by", "job", "--interval", "50ms", "--sampler", "page-fault", "--socket"])
            .arg(&socket),
    );
    let began = Instant::now();
    while room.hearth(&["status", "--socket", &socket]).status != 0 {
        assert!(began.elapsed() < LIMIT, "the daemon does not listen");
        thread::sleep(Duration::from_millis(20));
    }
    let mut other = room.command(hearth());
    let other = spawn(other.args(["live", "--attach", "--socket", &socket, "--", &program("stays"), "over"]));
    let attached = [hearth().to_str().expect("readable path"), "live", "--attach", "--socket", &socket, "--"]
        .map(str::to_string)
        .into_iter()
        .chain(["env".into(), ranks, "bash".into(), script]);
    let attached: Vec<String> = attached.collect();
    let running = thread::spawn(move || {
        let attached: Vec<&str> = attached.iter().map(String::as_str).collect();
        run_in_room(&attached, user).1
    });
    let mut seen = BTreeSet::new();
    while !running.is_finished() {
        look(&room, &socket, &mut seen);
        thread::sleep(Duration::from_millis(50));
    }
    let ended = running.join().expect("it was run");
    fs::write(room.path("over"), "").expect("writing");
    let its = u64::from(other.id());
    wait(other, LIMIT).expect(0);
    room.hearth(&["stop", "--socket", &socket]).expect(0);
    wait(daemon, LIMIT).expect(0);
    assert_eq!((ended.status, &ended.stdout), (plain.status, &plain.stdout), "{}", ended.stderr);
    let (others, own): (Vec<_>, Vec<_>) = seen.into_iter().partition(|(_, pid)| *pid == its);
    let mut groups: Vec<&String> = own.iter().map(|(group, _)| group).collect();
    groups.dedup();
    println!("{own:?}, and {others:?}");
    assert!(groups.len() == 1 && own.len() >= least, "{own:?}");
    assert!(others.len() == 1 && others[0].0 != *groups[0], "{others:?}");
}

/// The server leaves the session of the shell that starts it, and who started it ends.
#[test]
#[ignore = "slow"]
fn postgres_is_one_job() {
    require_tool("pg_ctlcluster", "postgresql");
    one_job("postgres", User::Nobody, "", 8);
}

#[test]
fn an_mpi_job_is_one_job() {
    require_tool("mpirun", "openmpi-bin");
    require_tool("lmp", "lammps");
    one_job("lammps_mpi", User::Own, "4", 5);
}
