//! What `hearth plan` predicts of a real program, and that every policy's plan can be run.

use hearth_tests::{Room, program, workspace};

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
    // Whatever was recommended is C and C++.
    let header = format!("-I{}", workspace().join("bindings/c").display());
    for language in ["c", "c++"] {
        let file = format!("traits.{language}");
        std::fs::write(room.path(&file), &traits).expect("writing");
        let mut compiler = room.command("gcc");
        compiler.args([
            "-x",
            language,
            "-fsyntax-only",
            "-Wall",
            "-Wno-missing-braces",
            "-Wno-unused-variable",
            "-Werror",
            &header,
            &file,
        ]);
        hearth_tests::run(&mut compiler).expect(0);
    }
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

/// Runs are merged, a small one's misses planned with a large one's sizes, and plans compared.
#[test]
fn profiles_travel_and_plans_are_compared() {
    let room = Room::new();
    let eight = program("eight");
    let sampled = ["--sampler", "page-fault", "--llc", "1MiB", "--overhead", "20"];
    for file in ["a.hearth", "b.hearth"] {
        room.record(&sampled, file, &[&eight, "--work", "60", "--scale", "10"]).expect(0);
    }
    room.record(&["--sampler", "none"], "large.hearth", &[&eight, "--work", "1", "--scale", "40"]).expect(0);
    let plan = |files: &[&str], more: &[&str], to: &str| {
        let on = ["--platform", "cxl-expander", "--fast", "50%", "-o", to];
        let ended = room.hearth(&[&["plan"], files, &on[..], more].concat()).expect(0);
        (ended.stderr, std::fs::read_to_string(room.path(to)).expect("the plan"))
    };
    let peaks = |text: &str| -> Vec<u64> {
        let plan = policy::plan_file::from_toml(text).expect("a plan");
        let mut peaks: Vec<u64> = plan.sites.iter().map(|s| s.peak.0).collect();
        peaks.sort_unstable();
        peaks
    };
    let (_, alone) = plan(&["a.hearth"], &[], "a.toml");
    let (said, mean) = plan(&["a.hearth", "b.hearth"], &[], "mean.toml");
    assert!(!said.contains("found by id"), "all of them are: {said}");
    assert_eq!(peaks(&mean), peaks(&alone));
    let (_, sum) = plan(&["a.hearth", "b.hearth"], &["--merge", "sum"], "sum.toml");
    assert_eq!(peaks(&sum), peaks(&alone).iter().map(|p| 2 * p).collect::<Vec<_>>());
    let (_, large) = plan(&["a.hearth", "b.hearth"], &["--sizes", "large.hearth"], "large.toml");
    assert!(peaks(&large).iter().sum::<u64>() > 3 * peaks(&alone).iter().sum::<u64>(), "{large}");
    room.hearth(&["run", "--plan", "large.toml", "--", &eight, "--work", "1", "--scale", "40"]).expect(0);
    let same = room.hearth(&["diff", "a.toml", "a.toml"]).expect(0).stdout;
    assert!(same.contains("both give") && same.contains("the same place"), "{same}");
    plan(&["a.hearth"], &["--policy", "first-served"], "other.toml");
    let other = room.hearth(&["diff", "a.toml", "other.toml"]).expect(0).stdout;
    assert!(
        other.starts_with("before: density for cxl-expander; ") && other.contains("after: first-served"),
        "{other}"
    );
    for (arguments, sentence) in [
        (&["diff", "a.hearth", "a.toml"][..], "hearth: a.hearth is a profile and a.toml is not: compare two profiles"),
        (
            &["diff", "a.toml", "a.toml", "--html", "x.html"],
            "hearth: --html draws two profiles; two plans are compared",
        ),
        (&["diff", "none.toml", "a.toml"], "hearth: none.toml"),
        (&["diff", "a.toml", "none.toml"], "hearth: none.toml"),
        (&["plan", "a.hearth", "large.hearth", "--fast", "1MiB"], "hearth: profile 2 has no access samples and"),
        (
            &["plan", "large.hearth", "--sizes", "a.hearth", "--fast", "1MiB"],
            "hearth: the profile holds no access samples",
        ),
        (&["plan", "a.hearth", "--merge", "max"], "error: invalid value 'max' for '--merge <mean|sum>': write sum"),
    ] {
        let ended = room.hearth(arguments);
        assert_eq!((ended.status, ended.stdout.as_str()), (2, ""), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.starts_with(sentence), "{arguments:?}: {}", ended.stderr);
    }
}
