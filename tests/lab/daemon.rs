//! `hearth daemon` in the emulated machine: the hot objects of several programs share the fast memory, whichever daemon saw them born.

use crate::placement::{pages, share};
use hearth_tests::lab::Lab;
use hearth_tests::{Ended, hearth, program};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// What each script begins with: the region of interest, which programs would switch off for each other, and how to start a daemon and a program.
const DAEMON: &str = r#"
export UNMARKED=1
"$hearth" lab mark on
daemon() {
  "$hearth" daemon --sampler lab --period 100 --interval 5ms --socket d.sock --fast "${fast:-40MiB}" "$@" 2>>daemon.txt &
  daemon=$!
  until "$hearth" status --socket d.sock >/dev/null 2>&1; do sleep 0.01; done
}
attach() { name=$1; shift; "$hearth" live --attach --socket d.sock -- "$placed" "${turns:-8}" "$@" > "$name.txt" & }
"#;

fn run(lab: &Lab, fast: &str, script: &str) {
    let text = format!("hearth=$1 placed=$2\n{DAEMON}{script}");
    fs::write(lab.room.path("script.sh"), text).expect("writing");
    let options = ["--placement", "first-touch", "--fast", fast, "--vcpus", "1", "--roi", "marks"];
    let hearth = hearth().to_str().expect("readable").to_string();
    lab.run(&options, &["sh", "script.sh", &hearth, &program("placed")]);
}

/// What a program has printed in the guest.
fn printed(lab: &Lab, name: &str) -> Ended {
    let stdout = fs::read_to_string(lab.room.path(&format!("{name}.txt"))).expect("it was brought back");
    Ended { status: 0, stdout, stderr: String::new(), took: Duration::ZERO }
}

/// Each has 12 MiB that are hot; the fast memory holds 36 MiB of objects, and the cold ones took it first.
#[test]
fn the_hot_objects_of_two_programs_come_to_fast_memory() {
    let lab = Lab::enter();
    run(
        &lab,
        "48MiB",
        r#"
        daemon --log why.jsonl
        attach one; one=$!
        attach two; wait $one $!
        "$hearth" stop --socket d.sock
        wait"#,
    );
    println!("{}", printed(&lab, "daemon").stdout);
    for name in ["one", "two"] {
        let ended = printed(&lab, name);
        let there = [share(pages(&ended, "hot", false), 0), share(pages(&ended, "hot", true), 0)];
        // The daemon may have made room while the second one set up its objects.
        assert!(there[0] < 0.5 && there[1] >= 0.99, "{name}: {there:?}\n{}", ended.stdout);
    }
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let moves = log.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON")).filter(|l| l["event"] == "move");
    let mut pids: Vec<u64> = moves.filter(|l| l["to"] == "dram").filter_map(|l| l["pid"].as_u64()).collect();
    pids.dedup();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 2, "objects of both");
}

/// The first daemon decides nothing, and is killed when the program has all its objects.
#[test]
fn a_daemon_moves_what_came_to_life_before_it() {
    let lab = Lab::enter();
    run(
        &lab,
        "24MiB",
        r#"
        daemon --trigger time=1000000
        attach one; one=$!
        until "$hearth" status --json --socket d.sock | grep -q '"records": [1-9]'; do sleep 0.05; done
        sleep 0.5
        kill -9 $daemon
        wait $daemon
        daemon
        wait $one
        "$hearth" stop --socket d.sock
        wait"#,
    );
    let ended = printed(&lab, "one");
    let there = [share(pages(&ended, "hot", false), 0), share(pages(&ended, "hot", true), 0)];
    assert!(there[0] < 0.1 && there[1] >= 0.7, "{there:?}\n{}\n{}", ended.stdout, printed(&lab, "daemon").stdout);
}

/// One came first, could fill the fast memory, and gains more from it than the other one.
#[test]
fn a_program_gets_its_share_though_another_one_is_hotter() {
    let lab = Lab::enter();
    run(
        &lab,
        "20MiB",
        r#"
        fast=18MiB turns=18
        daemon --share-by job
        attach hotter 16 1 1; one=$!
        sleep 0.3
        attach milder 24 1 1
        wait $one $!
        "$hearth" stop --socket d.sock
        wait"#,
    );
    let hot = |name: &str, after: bool| pages(&printed(&lab, name), "hot", after)[0] >> 8;
    println!("{}", printed(&lab, "daemon").stdout);
    let (before, after, hotter) = (hot("milder", false), hot("milder", true), hot("hotter", true));
    println!("{before} MiB of the milder one before, {after} after; of the hotter one {hotter} at its end");
    // Half of nine tenths of 18 MiB each, in pieces of 2 MiB, and of other objects too. The hotter one ends first: all of it would be there if it had to give nothing.
    assert!(before <= 4 && after >= 6, "{before} and {after} MiB");
    assert!((4..=10).contains(&hotter), "{hotter} MiB");
}
