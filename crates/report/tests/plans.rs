//! Two plans side by side.

use hearth_report::{plan_diff, plan_diff_table};
use model::{Bytes, Frame, Parts, Plan, PlannedMove, PlannedPhase, PlannedSite, PlannedTier, SiteId, SiteKind, Split};

fn plan(policy: &str, sites: &[(u64, &str, f64)]) -> Plan {
    let tier = |name: &str, budget| PlannedTier { name: name.into(), nodes: vec![], dir: None, budget };
    Plan {
        version: model::plan::PLAN_VERSION,
        policy: policy.into(),
        command: vec!["app".into()],
        platform: "cxl-expander".into(),
        threshold: Bytes::kib(4),
        default_tier: "cxl".into(),
        tiers: vec![tier("dram", Some(Bytes::mib(64))), tier("cxl", None)],
        sites: sites
            .iter()
            .map(|&(n, tier, miss_share)| PlannedSite {
                id: SiteId(n << 32),
                kind: SiteKind::Allocation,
                label: format!("make_{n} (app.c:{n})"),
                tier: tier.into(),
                split: None,
                why: String::new(),
                miss_share,
                peak: Bytes::mib(n),
                resident: None,
                frames: vec![],
            })
            .collect(),
        phases: vec![],
    }
}

#[test]
fn sites_that_go_elsewhere_are_listed_the_hottest_first() {
    let before = plan("density", &[(1, "dram", 0.5), (2, "dram", 0.1), (3, "cxl", 0.3), (4, "cxl", 0.1)]);
    let mut after =
        plan("exact", &[(1, "dram", 0.5), (2, "cxl", 0.1), (3, "dram", 0.3), (5, "dram", 0.0), (6, "cxl", 0.0)]);
    after.sites[2].split = Some(Split { parts: Parts::spread(16).expect("some"), rest: "cxl".into() });
    let diff = plan_diff(&before, &after);
    let expected = "\
before: density for cxl-expander; misses served by dram (64 MiB) ~60.0%, cxl ~40.0%
after: exact for cxl-expander; misses served by dram (64 MiB) ~57.5%, cxl ~32.5%

00000003  make_3 (app.c:3)
   ~30.0%      3 MiB  cxl -> 16/64 dram, rest cxl
00000002  make_2 (app.c:2)
   ~10.0%      2 MiB  dram -> cxl
00000005  make_5 (app.c:5)
      ~0%      5 MiB  not named -> dram

3 sites elsewhere, 3 where it was; ~: predicted share of the misses; sizes are most bytes alive at
  one moment
";
    assert_eq!(plan_diff_table(&diff, 100, 15), expected);
    let short = plan_diff_table(&diff, 100, 1);
    assert!(short.contains("\n2 further sites with ~10.0% of the misses, 7 MiB\n"), "{short}");
    let json: serde_json::Value = serde_json::from_str(&diff.json().unwrap()).unwrap();
    assert_eq!((json["same"].as_u64(), json["changed"][0]["after"].as_str()), (Some(3), Some("16/64 dram, rest cxl")));
}

#[test]
fn what_moves_in_one_plan_only_is_told() {
    let before = plan("density", &[(1, "dram", 0.5), (2, "cxl", 0.5)]);
    let mut after = before.clone();
    let source = model::SourceLine { function: "solve".into(), file: "app.c".into(), line: 7, column: 0 };
    let to = |n: u64, tier: &str| PlannedMove { site: SiteId(n << 32), tier: tier.into(), split: None, idle: false };
    after.phases = vec![PlannedPhase {
        begins: SiteId(9),
        number: 3,
        every: None,
        frames: vec![Frame { module: None, offset: 0, source: vec![source] }],
        moves: vec![to(1, "cxl"), to(2, "dram")],
    }];
    let text = plan_diff_table(&plan_diff(&before, &after), 100, 15);
    assert!(text.contains("dram -> dram, then cxl as of beginning 3 of solve\n"), "{text}");
    assert!(text.contains("cxl -> cxl, then dram as of beginning 3 of solve\n"), "{text}");
    assert!(text.contains("2 sites elsewhere, 0 where it was"), "{text}");
}

#[test]
fn equal_plans_are_told_to_be_equal() {
    let one = plan("density", &[(1, "dram", 1.0)]);
    let text = plan_diff_table(&plan_diff(&one, &one), 80, 15);
    assert!(text.ends_with("\nboth give 1 site the same place\n"), "{text}");
}
