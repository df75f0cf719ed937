//! Allocation itself: glibc's behaviour at the edges, case by case, and long torture.

use crate::own;
use hearth_tests::{Room, program};

/// Sizes of nothing and of everything, bad alignments, overflows: what is answered, errno, and what is left alone.
#[test]
fn edges() {
    let observed = own("edges", &[]);
    assert!(!observed.sites.is_empty(), "nothing was managed");
}

#[test]
fn torture() {
    let observed = own("torture", &["--threads", "4", "--ops", "50000", "--forks", "4"]);
    assert!(observed.processes >= 5, "the forked processes were not observed");
}

/// Large objects that grow, shrink and have to move, under every mode; a guided run and a sampled one take their pages along,
/// and none is lost sight of: the program ends a while after the last one.
#[test]
fn growing() {
    let observed = own("growing", &["4", "20"]);
    let site = observed.sites.iter().find(|s| s.objects > 500).expect("realloc was not observed");
    assert!(site.last_free.0 + 200_000_000 < observed.duration.0, "{:?} of {:?}", site.last_free, observed.duration);
}

/// Six million operations in all.
#[test]
#[ignore = "slow"]
fn long_torture() {
    own("torture", &["--threads", "2", "--ops", "1000000", "--forks", "10", "--seed", "7"]);
    own("torture", &["--threads", "16", "--ops", "250000", "--forks", "20", "--seed", "8"]);
}

/// Guided by a plan that places small objects too, the slow tier being files: parts of the heap are then shared mappings, of
/// which forked children take copies.
#[test]
fn torture_with_small_objects_and_a_tier_of_files() {
    let room = Room::new();
    let command = [&*program("torture"), "--threads", "4", "--ops", "20000", "--forks", "4"];
    let plain = room.plain(&command).expect(0);
    room.record(&["--small", "--sampler", "none"], "small.hearth", &command).expect(0);
    let plan = room
        .hearth(&["plan", "small.hearth", "--policy", "first-served", "--platform", "cxl-expander", "--fast", "2MiB"])
        .expect(0)
        .stdout;
    // The last tier of the plan becomes a folder, and half of the sites go there, whatever the plan thought.
    let start = plan.find("\n[[tier]]").expect("tiers") + 1;
    let tier = |n: usize| plan[start..].split("[[tier]]").nth(n).and_then(|t| t.split('"').nth(1)).expect("two tiers");
    let (fast, slow) = (tier(1), tier(2));
    let tiers = format!(
        "[[tier]]\nname = \"{fast}\"\n\n[[tier]]\nname = \"{slow}\"\ndir = \"{}\"\n\n",
        room.path("").display()
    );
    let next = |table| plan[start..].find(table).map_or(plan.len(), |at| start + at);
    let end = next("[[module]]").min(next("[[site]]"));
    let mut turn = 0;
    let sites: Vec<String> = plan[end..]
        .lines()
        .map(|line| match line.starts_with("tier = ") {
            true => {
                turn += 1;
                format!("tier = \"{}\"", if turn % 2 == 0 { fast } else { slow })
            }
            false => line.to_string(),
        })
        .collect();
    assert!(turn > 4, "only {turn} sites: {plan}");
    std::fs::write(room.path("plan.toml"), plan[..start].to_string() + &tiers + &sites.join("\n")).expect("a plan");
    let ended = room.hearth(
        &["run", "--plan", "plan.toml", "--json", "landed.json", "--"]
            .iter()
            .chain(&command)
            .copied()
            .collect::<Vec<_>>(),
    );
    assert_eq!((ended.status, &ended.stdout), (0, &plain.stdout), "{}", ended.stderr);
    let text = std::fs::read_to_string(room.path("landed.json")).expect("the landing");
    let landing: model::Landing = serde_json::from_str(&text).expect("JSON");
    let placed = |tier: usize| landing.sites.iter().map(|s| s.placed[tier].0).sum::<u64>();
    assert!(placed(0) > 1 << 20 && placed(1) > 1 << 20, "both tiers were used: {landing:?}");
}

/// A plan that splits every site: one memory under two names, so that all of it happens on any machine.
fn split(name: &str, arguments: &[&str], options: &[&str]) -> model::Landing {
    let room = Room::new();
    let program = program(name);
    let command = [&[&*program][..], arguments].concat();
    let plain = room.plain(&command).expect(0);
    room.record(&[&["--sampler", "none"][..], options].concat(), "p.hearth", &command).expect(0);
    let made = ["plan", "p.hearth", "--policy", "first-served", "--platform", "cxl-expander", "--fast", "50%"];
    let plan = room.hearth(&made).expect(0).stdout;
    let node = |line: &str| line.replace("nodes = []", "nodes = [0]");
    let (mut lines, mut turn) = (Vec::new(), 0);
    let mut in_site = false;
    for line in plan.lines().filter(|l| !l.starts_with("budget = ")) {
        in_site |= line == "[[site]]";
        if in_site && line.starts_with("tier = ") {
            turn += 1;
            let parts = ["24/64", "0-31", "63", "1, 5-7, 60-63"][turn % 4];
            lines.push(format!("tier = \"dram\"\nparts = \"{parts}\"\nrest = \"cxl\""));
        } else {
            lines.push(node(line));
        }
    }
    assert!(turn > 0, "no sites: {plan}");
    std::fs::write(room.path("plan.toml"), lines.join("\n")).expect("a plan");
    let run = [&["run", "--plan", "plan.toml", "--json", "landed.json", "--"][..], &command].concat();
    let ended = room.hearth(&run);
    assert_eq!((ended.status, &ended.stdout), (0, &plain.stdout), "{}", ended.stderr);
    let text = std::fs::read_to_string(room.path("landed.json")).expect("the landing");
    serde_json::from_str(&text).expect("JSON")
}

/// Objects of two tiers come, grow, are forked and end, and small ones go to the tiers by turns.
#[test]
fn torture_with_every_site_split() {
    let torture = ["--threads", "4", "--ops", "50000", "--forks", "4"];
    let small = ["--threads", "4", "--ops", "20000", "--forks", "4"];
    for landing in [split("torture", &torture, &[]), split("torture", &small, &["--small"])] {
        let placed = |tier: usize| landing.sites.iter().map(|s| s.placed[tier].0).sum::<u64>();
        assert!(placed(0) > 1 << 20 && placed(1) > 1 << 20, "both tiers were used: {landing:?}");
    }
    split("growing", &["4", "20"], &[]);
}
