//! Programs of MPI on a machine with two tiers: what a rank works on after a communication is in fast memory then.

use crate::daemon::printed;
use crate::placement::{is_fast, pages, turn};
use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{hearth, program};
use serde_json::Value;
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

/// By a plan for all ranks, which `hearth run` follows in each. Its profile is made of one of each rank, taken in a job of its own, as the lab's
/// samples have one reader.
#[test]
fn a_plan_moves_when_ranks_meet() {
    let lab = Lab::enter();
    let record = r#""$hearth" lab mark on
        for rank in 0 1; do
            "$mpirun" -np 2 sh -c 'if [ "$PMI_RANK" = "$2" ]
                then exec "$0" record --phases --sampler lab -o "rank$2.hearth" -- "$1" 10 200000
                else exec "$1" 10 200000
                fi' "$hearth" "$turns" $rank
        done"#;
    run(&lab, "mpich", &["--fast", "128MiB"], record);
    let plan = ["plan", "rank0.hearth", "rank1.hearth", "--merge", "mean", "--platform", PLATFORM];
    let by = ["--policy", "phase-local", "--fast", "5MiB", "-o", "plan.toml"];
    lab.room.hearth(&[&plan[..], &by].concat()).expect(0);
    let text = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    assert!(text.contains("an operation of MPI"), "{text}");
    // The nodes are the guest's.
    let text = text.replacen("nodes = []", "nodes = [0]", 1).replacen("nodes = []", "nodes = [1]", 1);
    fs::write(lab.room.path("plan.toml"), &text).expect("writing");
    let guided = r#""$hearth" lab mark on
        "$mpirun" -np 2 "$hearth" run --plan plan.toml -- "$turns" 12 1000000 2>turns.txt"#;
    run(&lab, "mpich", &["--fast", "128MiB"], guided);
    let told = turns(&lab, 12);
    // It moves while the ranks run on, and in the middle of a short turn it may not be done. What comes after the ten turns of the profile is followed where the loop is known as one, which
    // by the samples of two runs it is nearly always (a_loop_is_followed_for_longer_than_it_was_profiled asks for it).
    let there = |turns: &[bool]| turns.iter().filter(|fast| **fast).count();
    let every: Vec<&str> = text.lines().filter(|line| line.starts_with("every")).collect();
    println!("{} of 12, and {} of 4 after the profile's; {every:?}", there(&told[8..20]), there(&told[20..]));
    let printed = || fs::read_to_string(lab.room.path("turns.txt")).unwrap_or_default();
    assert!(there(&told[8..20]) >= 10, "{told:?}\n{}", printed());
    assert!(there(&told[20..]) >= 3 || every.is_empty(), "{told:?} {every:?}\n{}", printed());
}

/// Without profile and plan: the daemon of the node knows both ranks, and decides for them. How much it moves for phases of a quarter of a second differs from
/// run to run, as does what all else in the machine leaves of the fast memory.
#[test]
fn a_daemon_knows_all_ranks() {
    let lab = Lab::enter();
    let guided = r#""$hearth" lab mark on
        "$hearth" daemon --sampler lab --period 100 --interval 20ms --socket d.sock 2>daemon.txt &
        until "$hearth" status --socket d.sock >/dev/null 2>&1; do sleep 0.01; done
        (until grep -q "turn 5" turns.txt; do sleep 0.01; done; "$hearth" status --json --socket d.sock >status.json) &
        status=$!
        "$mpirun" -np 2 "$hearth" run --phases --socket d.sock -- "$turns" 7 1500000 90 2>turns.txt
        wait $status
        "$hearth" stop --socket d.sock
        wait"#;
    run(&lab, "mpich", &["--placement", "first-touch", "--fast", "36MiB"], guided);
    let told = turns(&lab, 7);
    let text = fs::read_to_string(lab.room.path("status.json")).expect("it was brought back");
    println!("{} of 14 turns; {text}", told.iter().filter(|fast| **fast).count());
    let status: Value = serde_json::from_str(&text).expect("JSON");
    let ranks = status["programs"].as_array().expect("programs");
    let known =
        |rank: &&Value| rank["exe"].to_string().contains("turns") && rank["misses_per_second"].as_f64() > Some(0.0);
    assert_eq!(ranks.iter().filter(known).count(), 2, "{text}");
    assert!(status["decisions"].as_u64() >= Some(1), "{text}");
}

/// The objects of both ranks, 36 MiB of them hot, are weighed against each other: the rank with the denser ones gets all of them there, the other one what is left.
#[test]
fn fast_memory_is_divided_among_ranks() {
    let lab = Lab::enter();
    let guided = r#""$hearth" lab mark on
        "$hearth" daemon --sampler lab --period 100 --interval 20ms --fast 20MiB --socket d.sock 2>daemon.txt &
        until "$hearth" status --socket d.sock >/dev/null 2>&1; do sleep 0.01; done
        "$mpirun" -np 2 sh -c 'if [ "$PMI_RANK" = 0 ]; then hot=12; else hot=24; fi
            exec "$0" run --phases --socket d.sock -- "$1" 12 $hot 1 1 >"rank$PMI_RANK.txt"' "$hearth" "$turns"
        "$hearth" stop --socket d.sock
        wait"#;
    fs::write(lab.room.path("script.sh"), format!("hearth=$1 turns=$2 mpirun=$3\n{MPI}{guided}")).expect("writing");
    let options = ["--placement", "first-touch", "--fast", "28MiB", "--vcpus", "2", "--roi", "marks"];
    let hearth = hearth().to_str().expect("readable").to_string();
    lab.run(&options, &["sh", "script.sh", &hearth, &program("placed"), "mpirun.mpich"]);
    let fast = [0, 1].map(|rank| {
        let ended = printed(&lab, &format!("rank{rank}"));
        println!("rank {rank}\n{}", ended.stdout);
        pages(&ended, "hot", true)[0] >> 8
    });
    println!("{fast:?} MiB, {}", fs::read_to_string(lab.room.path("daemon.txt")).unwrap_or_default());
    // The other one tells it when the first has ended: nine tenths of 20 MiB, and what the kernel puts there, are its own then.
    assert!(fast[0] >= 10 && (2..=20).contains(&fast[1]), "{fast:?} MiB");
}
