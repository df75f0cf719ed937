//! Programs of MPI on a machine with two tiers: what a rank works on after a communication is in fast memory then, by a plan and without one.

use crate::placement::{is_fast, turn};
use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{hearth, program};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// What every script begins with: ranks are started as root.
const MPI: &str =
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 UNMARKED=1\n";

/// Runs a script in the guest. Its words: `$hearth`, `$turns` and `$mpirun`.
fn run(lab: &Lab, mpi: &str, options: &[&str], script: &str) {
    fs::write(lab.room.path("script.sh"), format!("hearth=$1 turns=$2 mpirun=$3\n{MPI}{script}")).expect("writing");
    let hearth = hearth().to_str().expect("readable").to_string();
    let options = [options, &["--vcpus", "2", "--roi", "marks"]].concat();
    lab.run(&options, &["sh", "script.sh", &hearth, &program(&format!("turns.{mpi}")), &format!("mpirun.{mpi}")]);
}

/// In which turns of so many, of both ranks, the array was in fast memory.
fn turns(lab: &Lab, turns: usize) -> Vec<bool> {
    let text = fs::read_to_string(lab.room.path("turns.txt")).expect("it was brought back");
    let told: Vec<bool> = text.lines().filter_map(turn).map(|(_, fast, slow)| is_fast(fast, slow) >= 0.9).collect();
    assert_eq!(told.len(), 2 * turns, "{text}");
    told
}

/// By a plan for all ranks, which `hearth run` follows in each.
#[test]
fn a_plan_moves_when_ranks_meet() {
    let lab = Lab::enter();
    let record = r#""$hearth" lab mark on
        "$hearth" record --phases --sampler lab -o p.hearth -- "$mpirun" -np 2 "$turns" 10 200000"#;
    run(&lab, "mpich", &["--fast", "128MiB"], record);
    let plan = ["plan", "p.hearth", "--platform", PLATFORM, "--policy", "phase-local", "--fast", "10MiB"];
    lab.room.hearth(&[&plan[..], &["-o", "plan.toml"]].concat()).expect(0);
    let text = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    assert!(text.contains("an operation of MPI"), "{text}");
    // The nodes are the guest's.
    let text = text.replacen("nodes = []", "nodes = [0]", 1).replacen("nodes = []", "nodes = [1]", 1);
    fs::write(lab.room.path("plan.toml"), &text).expect("writing");
    let guided = r#""$hearth" lab mark on
        "$mpirun" -np 2 "$hearth" run --phases --plan plan.toml -- "$turns" 12 200000 2>turns.txt"#;
    run(&lab, "mpich", &["--fast", "64MiB"], guided);
    let told = turns(&lab, 14);
    assert!(
        told[8..].iter().all(|fast| *fast),
        "{told:?}\n{}",
        fs::read_to_string(lab.room.path("turns.txt")).unwrap_or_default()
    );
}

/// Without one: the daemon knows a phase by where the ranks met, and moves what the next one needs, of all ranks, before it begins.
#[test]
fn one_daemon_prepares_the_next_phase_of_all_ranks() {
    let lab = Lab::enter();
    let script = r#""$hearth" lab mark on
        "$hearth" daemon --sampler lab --period 100 --interval 5ms --socket d.sock --log why.jsonl 2>>daemon.txt &
        until "$hearth" status --socket d.sock >/dev/null 2>&1; do sleep 0.01; done
        "$mpirun" -np 2 "$hearth" run --phases --socket d.sock -- "$turns" 14 1500000 2>turns.txt
        "$hearth" stop --socket d.sock
        wait"#;
    // Of three arrays of each rank one fits beside what MPI needs.
    run(&lab, "mpich", &["--fast", "31MiB"], script);
    let told = turns(&lab, 14);
    let said = fs::read_to_string(lab.room.path("daemon.txt")).expect("what the daemon said");
    println!("{} of 28: {told:?}\n{said}", told.iter().filter(|fast| **fast).count());
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let lines = || log.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let why = lines().filter(|l| l["event"] == "decision").filter_map(|l| l["why"].as_str().map(String::from));
    assert!(why.into_iter().any(|why| why.ends_with("the next phase is near")), "{said}");
    let moved = lines().filter(|l| l["event"] == "move" && l["to"] == "dram");
    let ranks: BTreeSet<u64> = moved.filter_map(|l| l["pid"].as_u64()).collect();
    assert_eq!(ranks.len(), 2, "objects of both ranks were moved: {said}");
}
