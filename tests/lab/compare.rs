//! A comparison measures each placement once, keeps what is done, and finds that the plan keeps what is hot in fast memory.

use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{Ended, Room, program, wait};
use model::{Comparison, PlacementRun};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(900);

fn compare(lab: &Lab, folder: &Room) -> (Ended, Comparison) {
    let mut command: Command = lab.lab_command("compare");
    command.args(["--platform", PLATFORM, "--vcpus", "1", "--memory", "256MiB", "--llc", "1MiB", "--fast", "50"]);
    command.args(["--placements", "first-touch,plan", "--json", "figures.json", "-o"]).arg(folder.path(""));
    command.args(["--", &program("placed"), "1"]);
    let ended = wait(hearth_tests::spawn(&mut command), LIMIT).expect(0);
    let text = std::fs::read_to_string(lab.room.path("figures.json")).expect("figures");
    (ended, serde_json::from_str(&text).expect("JSON"))
}

#[test]
fn a_comparison_ranks_placements_and_goes_on_where_it_was() {
    let lab = Lab::enter_beside();
    // Not below the programs' current folder.
    let folder = Room::new();
    let (ended, first) = compare(&lab, &folder);
    println!("{}", ended.stdout);
    let run = |placement: &str| -> &PlacementRun {
        first.runs.iter().find(|r| r.placement == placement).unwrap_or_else(|| panic!("no {placement}: {first:?}"))
    };
    let [fast, slow, touch, plan] = ["all-fast", "all-slow", "first-touch", "plan density"].map(run);
    assert!(fast.served_fast > 0.95 && fast.resident_fast > 0.99, "{fast:?}");
    assert!(slow.served_fast < 0.05 && slow.resident_fast < 0.01, "{slow:?}");
    // The cold object is there first and fills the fast memory; the plan keeps it for the hot one.
    assert!(plan.served_fast > touch.served_fast + 0.25, "{plan:?} {touch:?}");
    assert!(fast.time < plan.time && plan.time < touch.time && touch.time < slow.time, "{first:?}");
    // What the planner predicts is no more than a forecast, but it ranks.
    let [slow_predicted, plan_predicted] = [slow, plan].map(|r| r.predicted.expect("planned by a profile"));
    assert!(1.0 <= plan_predicted && plan_predicted < slow_predicted, "{first:?}");
    assert_eq!((fast.predicted, touch.predicted), (None, None));
    // To what the kernel's watermarks leave open, and to a huge page: one is a twentieth of the footprint.
    for limited in [touch, plan] {
        let share = limited.fast.expect("a limit").0 as f64 / first.footprint.0 as f64;
        assert!((0.45..0.53).contains(&share), "{share} of the footprint was free");
    }
    lab.left_nothing();

    let (ended, again) = compare(&lab, &folder);
    assert_eq!(ended.stderr.matches("(measured before)").count(), 4, "{}", ended.stderr);
    assert_eq!(again.runs, first.runs);
    let page = std::fs::read_to_string(folder.path("compare.html")).expect("the page");
    assert!(page.contains("plan density") && page.contains("<svg"), "the picture");
    let table = lab.room.hearth(&["lab", "table", "figures.json"]).expect(0);
    assert!(table.stdout.contains("| placed |"), "{}", table.stdout);
}
