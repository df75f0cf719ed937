//! Programs compiled with `hearth-cc` on a machine with two tiers: a plan by another compiler's build puts their objects where it says, by the kernel's word.

use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{Room, compilers, hearth, run, workspace};
use model::landing::Landing;
use std::fs;
use std::process::Command;

#[test]
fn a_plan_by_another_compilers_build_lands() {
    let lab = Lab::enter_beside();
    lands(&lab, [gcc(&lab.room, "-O0"), annotated(&lab.room)]);
}

#[test]
fn a_plan_of_an_annotated_program_lands_in_another_compilers_build() {
    let lab = Lab::enter_beside();
    lands(&lab, [annotated(&lab.room), gcc(&lab.room, "-O3")]);
}

fn gcc(room: &Room, level: &str) -> Command {
    let mut compiler = room.command("gcc");
    compiler.args([level, "-g"]);
    compiler
}

fn annotated(room: &Room) -> Command {
    let mut compiler = room.command(compilers().join("hearth-cc"));
    compiler.args(["-O3", "--hearth-wrapper=fill"]);
    compiler
}

/// Plans by the profile of the first compiler's program, and looks where the second one's has its objects by that plan.
fn lands(lab: &Lab, [mut first, mut second]: [Command; 2]) {
    let sources = ["annotated.c", "annotated_more.c"].map(|s| workspace().join("tests/programs").join(s));
    let guest = |script: &str| {
        fs::write(lab.room.path("script.sh"), format!("hearth=$1\n\"$hearth\" lab mark on\n{script}"))
            .expect("writing");
        let hearth = hearth().to_str().expect("readable").to_string();
        lab.run(&["--fast", "128MiB", "--roi", "marks"], &["sh", "script.sh", &hearth]);
    };
    run(first.args(&sources).args(["-o", "app"])).expect(0);
    guest(r#""$hearth" record --sampler lab -o p.hearth -- ./app"#);
    let plan = ["plan", "p.hearth", "--platform", PLATFORM, "--policy", "first-served", "--fast", "18MiB"];
    lab.room.hearth(&[&plan[..], &["-o", "plan.toml"]].concat()).expect(0);
    // The nodes are the guest's.
    let text = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    let text = text.replacen("nodes = []", "nodes = [0]", 1).replacen("nodes = []", "nodes = [1]", 1);
    fs::write(lab.room.path("plan.toml"), &text).expect("writing");
    run(second.args(&sources).args(["-o", "app"])).expect(0);
    guest(r#""$hearth" run --quiet --plan plan.toml --json landed.json -- ./app"#);
    let text = fs::read_to_string(lab.room.path("landed.json")).expect("it was brought back");
    let landing: Landing = serde_json::from_str(&text).expect("a landing");
    let large: Vec<_> = landing.sites.iter().filter(|s| s.peak.0 == 8 << 20).collect();
    let of = |tier: usize| large.iter().filter(|s| s.placed[tier].0 == 8 << 20).count();
    assert_eq!((of(0), of(1)), (2, 4), "{text}");
    assert!(large.iter().all(|s| s.on_planned.is_some_and(|share| share >= 0.99)), "{text}");
}

/// A plan by the text alone: the hot part of a static array lies in the fast memory, by the kernel's word.
#[test]
fn a_plan_without_a_profile_lands() {
    let lab = Lab::enter_beside();
    let source = workspace().join("tests/programs/parts.c");
    let mut compiler = lab.room.command(compilers().join("hearth-cc"));
    run(compiler.arg("-O2").arg(&source).args(["-o", "app"])).expect(0);
    let plan = ["plan", "--static", "--platform", PLATFORM, "--set", "llc=1MiB", "--policy", "exact", "--fast", "9MiB"];
    lab.room.hearth(&[&plan[..], &["-o", "plan.toml", "--", "./app", "1048576", "4"]].concat()).expect(0);
    // The nodes are the guest's.
    let text = fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    let text = text.replacen("nodes = []", "nodes = [0]", 1).replacen("nodes = []", "nodes = [1]", 1);
    fs::write(lab.room.path("plan.toml"), &text).expect("writing");
    let script = "hearth=$1\n\"$hearth\" run --quiet --plan plan.toml --json landed.json -- ./app 1048576 4";
    fs::write(lab.room.path("script.sh"), script).expect("writing");
    let hearth = hearth().to_str().expect("readable").to_string();
    lab.run(&["--fast", "128MiB"], &["sh", "script.sh", &hearth]);
    let text = fs::read_to_string(lab.room.path("landed.json")).expect("it was brought back");
    let landing: Landing = serde_json::from_str(&text).expect("a landing");
    let field = landing.sites.iter().find(|s| s.label.contains("field")).expect("the array");
    let on = |node: i32| field.resident.iter().filter(|(n, _)| *n == node).map(|(_, b)| b.0 >> 20).sum::<u64>();
    // 8 MiB are walked over again and again, 8 MiB are touched once.
    assert_eq!((on(0), on(1)), (8, 8), "{text}");
}
