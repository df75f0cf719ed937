//! Machines with two processors need both of the host's, so nothing runs beside them. Tests run by their names: these come last and together, as each that came
//! between others would keep a processor idle until those are done.

mod calibration;
mod guest;
mod mpi;

use crate::placement::{is_fast, landing, turn};
use crate::{ends, placement};
use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{hearth, program};
use model::landing::Moved;
use std::fs;

#[test]
fn the_same_run_takes_the_same_time() {
    ends::the_same_run_by(&Lab::enter(), "2", 0.03);
}

#[test]
fn being_guided_takes_no_time() {
    placement::guided_by(&Lab::enter(), "2");
}

/// As `bench/live/moving` measures it, against one call for the same pages: the pace where nobody touches them, as the time of one processor is the same in
/// each run, and how long those wait who do. Two processors wait for each other where the host is busy, and then one call holds up for longer, too.
#[test]
fn moving_is_quick_and_holds_nobody_up() {
    let lab = Lab::enter();
    let told = |vcpus: &str, how: &[&str]| {
        let options = ["--placement", "first-touch", "--fast", "40MiB", "--vcpus", vcpus];
        let (ended, _) = lab.run(&options, &[&[env!("CARGO_BIN_EXE_live-moving")], how].concat());
        print!("{vcpus}: {}", ended.stdout);
        let numbers = |line: &str| line.split(' ').filter_map(|word| word.parse::<f64>().ok()).collect::<Vec<_>>();
        let lines: Vec<[f64; 2]> = ended.stdout.lines().filter_map(|line| numbers(line).try_into().ok()).collect();
        assert_eq!(lines.len(), 4, "{}", ended.stdout);
        lines
    };
    // A line of one call (MiB/s, ms), and a line of live (its share of that, ms), for each of two nodes.
    for of in told("1", &["small", "alone"]).chunks(2) {
        assert!(of[1][0] >= 0.7, "{of:?}");
    }
    for of in told("2", &["small"]).chunks(2) {
        assert!(of[1][1] <= f64::max(1.0, of[0][1] / 2.0), "{of:?}");
    }
}

/// With room for two of the three arrays and a processor for what moves: an array that has room to come before its turn is there when that begins, and not
/// if it comes when its turn has begun.
#[test]
fn what_is_used_next_comes_beside_what_is_used_now() {
    let lab = Lab::enter();
    let (turns, hearth) = (program("turns"), hearth());
    let record = [hearth.to_str().expect("readable"), "record", "--sampler", "lab", "-o", "p.hearth", "--"];
    lab.run(&["--fast", "64MiB", "--vcpus", "2"], &[&record[..], &[&*turns, "10", "400000"]].concat());
    let plan = ["plan", "p.hearth", "--platform", PLATFORM, "--policy", "phase-local", "--fast", "10MiB"];
    lab.room.hearth(&[&plan[..], &["-o", "early.toml"]].concat()).expect(0);
    let text = fs::read_to_string(lab.room.path("early.toml")).expect("the plan");
    let ahead = |line: &&str| line.contains("tier = \"dram\", idle = true");
    let late: Vec<&str> = text.lines().filter(|line| !ahead(line)).collect();
    assert!(late.len() < text.lines().count(), "{text}");
    fs::write(lab.room.path("late.toml"), late.join("\n")).expect("writing the plan");
    let [early, late] = ["early", "late"].map(|plan| {
        let options = ["--placement", &format!("plan:{plan}.toml"), "--fast", "24MiB", "--vcpus", "2"];
        // It looks before the first load of each turn.
        let (ended, figures) = lab.run(&options, &[&turns, "12", "400000", "0"]);
        assert!(ended.stdout.lines().any(|l| l == "right"), "{}", ended.stdout);
        let told: Vec<(&str, u64, u64)> = ended.stderr.lines().filter_map(turn).collect();
        assert_eq!(told.len(), 12, "{}", ended.stderr);
        let there = told[3..].iter().filter(|&&(_, fast, slow)| is_fast(fast, slow) >= 0.99).count();
        let moved = landing(&figures).moved.expect("the plan has phases");
        println!("{plan}: {there} of 9, {moved:?}");
        (there, moved)
    });
    // One array stays, one comes before its turn, and one can only come when the one before has gone.
    assert!(early.0 >= 5 && early.0 > late.0, "{early:?} {late:?}");
    let share = |moved: &Moved| moved.overlapped().expect("something moved");
    assert!(share(&early.1) >= 0.6 && share(&early.1) > share(&late.1), "{early:?} {late:?}");
    assert_eq!((early.1.waited.0, late.1.waited.0), (0, 0), "there is a processor for what moves");
}
