//! The memory takes the time that the platform says, measured from inside.

use hearth_tests::lab::{Lab, PLATFORM, VCPUS};
use hearth_tests::program;
use serde_json::Value;

/// Most deviation.
const WITHIN: f64 = 0.05;

#[test]
fn a_chase_and_reading_in_sequence_take_what_the_platform_says() {
    let lab = Lab::enter();
    let text = lab.room.hearth(&["platform", PLATFORM, "--json"]).expect(0).stdout;
    let platform: Value = serde_json::from_str(&text).expect("JSON");
    let scale = VCPUS / platform["cores"]["value"].as_f64().expect("cores");
    let calibrate = program("calibrate");
    let script: Vec<String> =
        (0..2).map(|node| format!("{calibrate} chase {node} 16 && {calibrate} read {node} 16 huge 2")).collect();
    let options = ["--placement", "first-touch", "--fast", "64MiB"];
    let (measured, _) = lab.run(&options, &["/bin/sh", "-c", &script.join(" && ")]);
    println!("{}", measured.stdout);
    for node in 0..2 {
        // The platform lists its tiers fastest first, and the CPUs of this one are beside the fast one.
        let says = |what: &str| platform["tier"][node][what]["value"].as_f64().expect("a figure");
        for (kind, expected) in [("chase", says("latency")), ("read", says("read_bandwidth") * scale)] {
            let line = measured.stdout.lines().find_map(|l| l.strip_prefix(&format!("{kind} {node} ")));
            let value = line.and_then(|l| l.split(' ').next()?.parse::<f64>().ok());
            let value = value.unwrap_or_else(|| panic!("no {kind} on node {node}:\n{}", measured.stdout));
            let off = value / expected - 1.0;
            assert!(off.abs() <= WITHIN, "{kind} on node {node} is {value}, {:+.1} % off {expected}", 100.0 * off);
        }
    }
}
