//! What `hearth plan` predicts of a real program, and that every policy's plan can be run.

use hearth_tests::{Room, program};

/// The figure before the unit in the column of a policy's row.
fn slowdown(table: &str, policy: &str) -> f64 {
    let row = table.lines().find(|l| l.split_whitespace().next().is_some_and(|w| w.trim_end_matches('*') == policy));
    let row = row.unwrap_or_else(|| panic!("no row for {policy} in:\n{table}"));
    let cell = row.split_whitespace().find_map(|w| w.strip_suffix('x')).expect("a slowdown");
    cell.parse().expect("a number")
}

#[test]
fn every_policy_decides_is_predicted_and_runs() {
    let room = Room::new();
    let command = [&*program("kinds"), "1"];
    let plain = room.plain(&command).expect(0);
    // With a cache that holds nothing of it, and long enough for samples.
    let sampler = ["--sampler", "page-fault", "--llc", "1MiB", "--overhead", "20"];
    room.record(&sampler, "app.hearth", &[&program("kinds"), "150"]).expect(0);
    let on = ["plan", "app.hearth", "--platform", "cxl-expander"];
    let table = room.hearth(&[&on[..], &["--fast", "40%", "--compare"]].concat()).expect(0).stdout;
    let list = room.hearth(&["plan", "--list"]).expect(0).stdout;
    let names: Vec<&str> = list.lines().filter(|l| !l.starts_with(' ')).filter_map(|l| l.split(' ').next()).collect();
    assert!(names.len() >= 9 && names.contains(&"exact"), "{list}");
    let exact = slowdown(&table, "exact");
    for name in names {
        assert!(exact <= slowdown(&table, name), "{name} is predicted to be faster than exact:\n{table}");
        room.hearth(&[&on[..], &["--fast", "40%", "--policy", name, "-o", "plan.toml"]].concat()).expect(0);
        let guided = room.hearth(&[&["run", "--plan", "plan.toml", "--"][..], &command].concat()).expect(0);
        assert_eq!(guided.stdout, plain.stdout, "{name}");
    }
    let curve = room.hearth(&[&on[..], &["--curve"]].concat()).expect(0).stdout;
    assert!(curve.contains("   100 %") && curve.contains("knee"), "{curve}");
    let page = room.hearth(&[&on[..], &["--curve", "-o", "curve.html"]].concat()).expect(0);
    assert!(page.stdout.is_empty() && room.path("curve.html").exists());
    let hottest = room.observed("app.hearth").sites[0].site.id.to_string();
    let explained = room.hearth(&[&on[..], &["--fast", "40%", "--explain", &hottest]].concat()).expect(0).stdout;
    assert!(explained.contains("in tier") && explained.contains("(planned)"), "{explained}");
    let what_if = ["--fast", "40%", "--what-if", "cascade-lake-optane", "--what-if", "xeon-max-9480"];
    let machines = room.hearth(&[&on[..], &what_if].concat()).expect(0).stdout;
    for machine in ["cxl-expander (dram, cxl)", "cascade-lake-optane (dram, nvm)", "xeon-max-9480 ("] {
        assert!(machines.contains(machine), "{machine} is missing in:\n{machines}");
    }
    let traits = room.hearth(&[&on[..], &["--traits"]].concat()).expect(0).stdout;
    assert!(traits.contains(&format!("traits_{}[", &hottest[..8])), "{traits}");
}

#[test]
fn a_profile_without_samples_is_refused_where_samples_decide() {
    let room = Room::new();
    room.record(&["--sampler", "none"], "blind.hearth", &[&program("phases"), "--work", "1"]).expect(0);
    for more in [&["--compare"][..], &["--policy", "exact"], &["--traits"], &[]] {
        let ended = room.hearth(&[&["plan", "blind.hearth", "--fast", "8MiB"][..], more].concat());
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{more:?}: {}", ended.stderr);
        assert!(
            ended.stderr.starts_with("hearth: the profile holds no access samples (sampler `none`)"),
            "{}",
            ended.stderr
        );
    }
    room.hearth(&["plan", "blind.hearth", "--fast", "8MiB", "--policy", "first-served", "-o", "plan.toml"]).expect(0);
}
