//! What programs say in code, on a machine with two tiers.

use crate::placement::{is_fast, pages, share, turn};
use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{hearth, program, programs, run, workspace};
use std::fs;

/// The program itself asks the kernel where its pages are after each call.
#[test]
fn every_word_of_the_header_is_true_on_two_tiers() {
    let lab = Lab::enter_beside();
    for command in ["api", "api_cpp", "api_f90"] {
        let (ended, _) = lab.run(&["--fast", "64MiB"], &[&program(command)]);
        assert!(ended.stdout.contains("all as expected"), "{command}: {}", ended.stdout);
    }
}

/// H2M's road: a profile, traits as source, and the program with them.
#[test]
fn traits_from_a_profile_place_as_its_plan_does() {
    let lab = Lab::enter_beside();
    let hearth = hearth();
    let traits = program("traits");
    let record = [hearth.to_str().expect("readable"), "record", "--sampler", "lab", "-o", "p.hearth", "--", &*traits];
    lab.run(&["--fast", "64MiB"], &record);
    let plan =
        ["plan", "p.hearth", "--platform", PLATFORM, "--policy", "priority", "--fast", "28MiB", "-o", "plan.toml"];
    lab.room.hearth(&plan).expect(0);
    let planned = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    let source = lab.room.hearth(&["plan", "p.hearth", "--traits"]).expect(0).stdout;
    // Its name is in the line after the one that names the allocation.
    let name_of = |function: &str| {
        let after =
            source.split(&format!("/* {function} (")).nth(1).unwrap_or_else(|| panic!("no {function}: {source}"));
        let name = after.lines().nth(1).and_then(|l| l.split(['[', ' ']).find(|w| w.starts_with("traits_")));
        name.expect("a name").to_string()
    };
    fs::write(lab.room.path("traits.h"), &source).expect("writing");
    let mut gcc = lab.room.command("gcc");
    gcc.args(["-O2", "-Wall", "-Werror", "-o", "with-traits", "-I.", "-lhearth_api"]);
    gcc.args([format!("-DLOG={}", name_of("make_log")), format!("-DTABLE={}", name_of("make_table"))]);
    gcc.arg(workspace().join("tests/programs/traits.c")).arg(format!("-I{}", workspace().join("bindings/c").display()));
    gcc.arg(format!("-L{}", programs().display()))
        .arg(format!("-Wl,-rpath,{}", programs().display()))
        .arg("-lhearth_api");
    run(&mut gcc).expect(0);
    // The program with its libraries takes some of it, too.
    let fast = ["--fast", "36MiB"];
    let (guided, _) = lab.run(&[&["--placement", "plan:plan.toml"], &fast[..]].concat(), &[&traits]);
    let with_traits = lab.room.path("with-traits");
    let (said, _) = lab.run(&fast, &[with_traits.to_str().expect("readable")]);
    let (before, _) = lab.run(&fast, &[&traits]);
    for (array, node) in [("table", 0), ("records", 1)] {
        let on = |ended| share(pages(ended, array, false), node);
        println!(
            "{array} on node {node}: {} by the plan, {} by its traits, {} before",
            on(&guided),
            on(&said),
            on(&before)
        );
        assert!(on(&guided) >= 0.99 && on(&said) >= 0.99, "{planned}");
    }
    assert!(share(pages(&before, "table", false), 0) < 0.75, "without traits the log, which comes first, has the room");
}

/// A loop of one function and without allocations has no phases but those that it marks.
#[test]
fn what_is_marked_is_followed() {
    let lab = Lab::enter_beside();
    let (turns, hearth) = (program("turns-marked"), hearth());
    let record = [hearth.to_str().expect("readable"), "record", "--sampler", "lab", "-o", "p.hearth", "--"];
    lab.run(&["--fast", "64MiB"], &[&record[..], &[&*turns, "13", "400000"]].concat());
    let plan = ["plan", "p.hearth", "--platform", PLATFORM, "--policy", "phase-local", "--fast", "6MiB"];
    lab.room.hearth(&[&plan[..], &["-o", "plan.toml"]].concat()).expect(0);
    let text = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    let (ended, _) = lab.run(&["--placement", "plan:plan.toml", "--fast", "8MiB"], &[&*turns, "20", "400000"]);
    assert!(ended.stdout.lines().any(|l| l == "right"), "{}", ended.stdout);
    let told: Vec<(&str, u64, u64)> = ended.stderr.lines().filter_map(turn).collect();
    assert_eq!(told.len(), 20, "{}", ended.stderr);
    assert!(told[4..].iter().all(|&(_, fast, slow)| is_fast(fast, slow) >= 0.99), "{}\n{text}", ended.stderr);
}
