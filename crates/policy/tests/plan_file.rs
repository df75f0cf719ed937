//! The plan file: what it looks like, that it comes back as it was, and what is said of a bad one.

use crate::common::*;
use hearth_policy::{Options, plan_file, policies};
use model::*;
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::path::Path;

fn example() -> Plan {
    let mut smalloc = site(0x1a2b_3c4d_5e6f_7081, 96 << 20, 1.2e6, 3e5);
    let lmp = Module { path: "/usr/bin/lmp".to_string(), build_id: "9f3c".to_string() };
    let libc = Module { path: "/usr/lib/x86_64-linux-gnu/libc.so.6".to_string(), build_id: String::new() };
    let line =
        |function: &str, file: &str, line| SourceLine { function: function.into(), file: file.into(), line, column: 0 };
    smalloc.site.frames = vec![
        Frame {
            module: Some(lmp.clone()),
            offset: 0x1a2b3c,
            source: vec![
                line("LAMMPS_NS::Memory::smalloc(long, char const*)", "./src/memory.cpp", 42),
                line("LAMMPS_NS::Memory::create<double>(double**&, int, int, \"x\")", "./src/memory.h", 120),
            ],
        },
        Frame { module: Some(lmp), offset: 0x2b3c, source: vec![line("main", "", 0)] },
        Frame { module: Some(libc), offset: 0x2724a, source: vec![] },
        Frame { module: None, offset: 0x7f00_1234, source: vec![] },
    ];
    smalloc.resident = Some(Bytes(90_123_456));
    let seen = observed(vec![smalloc, site(2, 12345, 10.0, 0.0), site(3, 1 << 20, 0.0, 0.0)]);
    let mut machine = platform(vec![tier("dram", 0, 12 << 30), tier("cxl", 1, 64 << 30)]);
    machine.tiers[1].dir = Some("/mnt/dax".into());
    let mut plan = policies::find("density").unwrap().decide(&seen, &machine, &Options::default()).unwrap();
    let frame = plan.sites.iter().flat_map(|s| &s.frames).next().unwrap().clone();
    let split = || Parts::spread(61).map(|parts| Split { parts, rest: "cxl".into() });
    let moved = |site: SiteId, tier: &str| PlannedMove {
        site,
        tier: tier.into(),
        split: split().filter(|s| s.rest != tier),
        idle: tier == "cxl",
    };
    plan.phases = vec![PlannedPhase {
        begins: SiteId(0xfeed),
        number: 3,
        every: NonZeroU64::new(2),
        frames: vec![frame],
        moves: vec![moved(SiteId(2), "cxl"), moved(SiteId(0x1a2b_3c4d_5e6f_7081), "dram")],
    }];
    plan.phases.push(PlannedPhase {
        begins: SiteId(3),
        number: 2,
        every: None,
        frames: vec![],
        moves: vec![PlannedMove { site: SiteId(2), tier: "dram".into(), split: None, idle: false }],
    });
    plan
}

#[test]
fn looks_as_in_the_golden_file() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plan.toml");
    let text = plan_file::to_toml(&example());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&golden).unwrap(), "UPDATE_GOLDEN=1 accepts the new text");
}

#[test]
fn a_file_is_read_or_the_reason_names_it() {
    let path = std::env::temp_dir().join(format!("hearth-plan-{}.toml", std::process::id()));
    let plan = example();
    std::fs::write(&path, plan_file::to_toml(&plan)).unwrap();
    assert_eq!(plan_file::read(&path).unwrap(), plan);
    std::fs::write(&path, b"SQLite format 3\0....").unwrap();
    assert!(plan_file::read(&path).unwrap_err().to_string().ends_with("make a plan of it with `hearth plan`"));
    std::fs::write(&path, b"\x7fELF\xff\xfe").unwrap();
    assert!(plan_file::read(&path).unwrap_err().to_string().ends_with("this is not a Hearth plan: it is not text"));
    std::fs::write(&path, plan_file::to_toml(&plan).replace("version = 4", "version = 9")).unwrap();
    let error = plan_file::read(&path).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}, line 11: this plan has version 9", path.display())), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = plan_file::read(&path).unwrap_err().to_string();
    assert!(error.starts_with(&path.display().to_string()) && error.contains("cannot read the plan"), "{error}");
}

#[test]
fn an_edited_tier_is_read() {
    let text = plan_file::to_toml(&example()).replacen("tier = \"dram\"", "tier = \"cxl\"", 1);
    assert_eq!(plan_file::from_toml(&text).unwrap().sites[0].tier, "cxl");
}

#[test]
fn a_plan_by_hand_needs_little() {
    let text = r#"
        version = 1
        policy = "by hand"
        command = []
        platform = "this one"
        threshold = 4096
        default_tier = "dram"
        tier = [{ name = "dram", budget = "1.5GiB" }]
        [[site]]
        id = "00000000000000aa"
        tier = "dram"
        frames = []
        # end of plan"#;
    let plan = plan_file::from_toml(text).unwrap();
    assert_eq!((plan.tiers[0].budget, plan.sites[0].id), (Some(Bytes(3 << 29)), SiteId(0xaa)));
}

/// Each case damages the example in one way; the message says what and where.
#[test]
fn bad_plans_are_explained_with_their_line() {
    let good = plan_file::to_toml(&example());
    let line_of = |text: &str, what: &str| text[..text.find(what).unwrap()].matches('\n').count() + 1;
    let cases = [
        ("version = 4", "version = 5", "version = 5", "this plan has version 5, and this Hearth reads up to version 4"),
        ("version = 4", "version = 0", "version = 0", "there is no version 0"),
        (
            "version = 4",
            "version = \"x\"",
            "version = \"x\"",
            "this is not a Hearth plan, or a damaged one: invalid type",
        ),
        (
            "default_tier = \"cxl\"",
            "default_tier = \"hbm\"",
            "default_tier = \"hbm\"",
            "the default tier `hbm` is none of the plan's tiers: dram, cxl",
        ),
        (
            "tier = \"dram\"",
            "tier = \"darm\"",
            "tier = \"darm\"",
            "there is no tier `darm` in this plan; it has: dram, cxl",
        ),
        ("name = \"cxl\"", "name = \"dram\"", "name = \"dram\"\nnodes = [1]", "there are two tiers `dram`; rename one"),
        ("budget = \"12 GiB\"", "budget = 0", "budget = 0", "tier `dram` has a budget of 0"),
        (
            "budget = \"12 GiB\"",
            "budget = \"12 parsecs\"",
            "budget = \"12 parsecs\"",
            "the plan is damaged: `12 parsecs` is not a size",
        ),
        (
            "budget = \"12 GiB\"",
            "budget = -5",
            "budget = -5",
            "the plan is damaged: invalid value: integer `-5`, expected a number of bytes or a size",
        ),
        ("budget = \"12 GiB\"", "bugdet = \"12 GiB\"", "bugdet", "the plan is damaged: unknown field `bugdet`"),
        (
            "id = \"0000000000000002\"",
            "id = \"1a2b3c4d5e6f7081\"",
            "id = \"1a2b3c4d5e6f7081\"\nlabel = \"f2",
            "site 1a2b3c4d5e6f7081 is listed twice",
        ),
        ("id = \"0000000000000002\"", "id = \"2\"", "id = \"2\"", "`2` is not a site id"),
        ("lmp+0x1a2b3c", "lmp1a2b3c", "lmp1a2b3c", "`lmp1a2b3c` is not a frame"),
        ("lmp+0x1a2b3c", "lmp+0x1a2z3c", "lmp+0x1a2z3c", "`lmp+0x1a2z3c` is not a frame"),
        ("lmp+0x1a2b3c", "lpm+0x1a2b3c", "lpm+0x1a2b3c", "no [[module]] of this plan is called `lpm`"),
        ("\"lmp+0x2b3c  main\"", "\"0x1\", \"  inlined into  g\"", "\"0x1\"", "there is no frame above"),
        ("number = 3", "number = 0", "number = 0", "regions and allocations are counted from 1"),
        ("every = 2", "every = 0", "every = 0", "`every` is 1 or more"),
        (
            "every = 2  # and again with each so many after it\nframes = [",
            "frames_were = [",
            "frames_were",
            "the plan is damaged: unknown field `frames_were`",
        ),
        (
            "number = 2  # which one of them\n",
            "number = 2\nframes = []\n",
            "begins = \"0000000000000003\"",
            "`frames` of a phase are its function or the call stack of an operation of MPI",
        ),
        (
            "begins = \"0000000000000003\"",
            "begins = \"0000000000000004\"",
            "begins = \"0000000000000004\"",
            "no site of this plan allocates as 0000000000000004",
        ),
        ("begins = \"000000000000feed\"", "begins = \"feed\"", "begins = \"feed\"", "`feed` is not a site id"),
        ("tier = \"cxl\", idle = true },", "tier = \"hbm\" },", "tier = \"hbm\" },", "there is no tier `hbm`"),
        ("cxl\", idle = true", "cxl\", idle = 1", "idle = 1", "the plan is damaged: invalid type"),
        ("platform = \"bench\"", "platform = ", "platform = ", "this is not a Hearth plan, or a damaged one"),
    ];
    for (old, new, place, expected) in cases {
        assert!(good.contains(old), "{old}");
        let bad = good.replacen(old, new, 1);
        let error = plan_file::from_toml(&bad).unwrap_err();
        assert!(error.problem.starts_with(expected), "{error}\ninstead of\n{expected}");
        assert!(!error.problem.contains('\n'), "{error}");
        assert_eq!(error.line, Some(line_of(&bad, place)), "{error}");
    }
    let foreign = plan_file::from_toml("[package]\nname = \"x\"\n").unwrap_err().to_string();
    assert_eq!(foreign, "the plan: this is not a Hearth plan: it has no `version`");
    assert!(plan_file::from_toml("").is_err());
    assert!(plan_file::from_toml("{\"sites\": []}").unwrap_err().to_string().contains("not a Hearth plan"));
}

#[test]
fn a_site_split_by_hand_is_read_or_refused_with_its_line() {
    let good = plan_file::to_toml(&Plan { phases: vec![], ..example() });
    let split_in = |good: &str, lines: &str| {
        plan_file::from_toml(&good.replacen("tier = \"dram\"\n", &format!("tier = \"dram\"\n{lines}"), 1))
    };
    let split = |lines: &str| split_in(&good, lines);
    let error = split_in(&plan_file::to_toml(&example()), "parts = \"0-15\"\nrest = \"cxl\"\n").unwrap_err();
    assert!(error.line.is_some() && error.to_string().contains("no phase can move it"), "{error}");
    let read = split("parts = \"0-15\"\nrest = \"cxl\"\n").unwrap();
    let site = read.sites.iter().find(|s| s.split.is_some()).unwrap();
    assert_eq!(site.target(), "0-15 dram, rest cxl");
    assert_eq!((site.share_in("dram"), site.share_in("cxl"), site.share_in("hbm")), (0.25, 0.75, 0.0));
    for (lines, words) in [
        ("parts = \"24/64\"\n", "belong together"),
        ("rest = \"cxl\"\n", "belong together"),
        ("parts = \"24/64\"\nrest = \"dram\"\n", "as is `tier`"),
        ("parts = \"24/64\"\nrest = \"tape\"\n", "there is no tier `tape`"),
        ("parts = \"64/64\"\nrest = \"cxl\"\n", "are not parts of an object"),
    ] {
        let error = split(lines).unwrap_err();
        assert!(error.line.is_some() && error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_plan_cut_off_anywhere_is_refused() {
    let good = plan_file::to_toml(&example());
    let end = good.trim_end().len();
    for cut in (0..end).filter(|&i| good.is_char_boundary(i)) {
        let error = plan_file::from_toml(&good[..cut]).expect_err("half a plan was read");
        assert!(!error.to_string().contains('\n'));
    }
    assert!(plan_file::from_toml(&good[..end]).is_ok());
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,20}", any::<String>(), Just("operator()(int, \"a\\b\") (x:1)".to_string())]
}

prop_compose! {
    fn source_line()(function in text(), file in text(), line in any::<u32>()) -> SourceLine {
        // No demangler writes ` @` into a name; the file says so.
        SourceLine { function: function.replace(" @", "@"), file, line, column: 0 }
    }
}

prop_compose! {
    fn frame()(module in prop::option::of((text(), text())), offset in any::<u64>(), source in prop::collection::vec(source_line(), 0..3)) -> Frame {
        Frame { module: module.map(|(path, build_id)| Module { path, build_id }), offset, source }
    }
}

/// Some sites are split, if there is another tier.
fn split_of(id: u64, names: &[String], tier: &String) -> Option<Split> {
    let rest = names.iter().find(|n| *n != tier).filter(|_| id % 2 == 0)?.clone();
    Some(Split { parts: if id % 4 == 0 { Parts::spread(id as u32 % 64)? } else { Parts::of_mask(id)? }, rest })
}

prop_compose! {
    fn plan()(
        words in (text(), prop::collection::vec(text(), 0..3), text(), any::<u64>()),
        names in prop::collection::hash_set("[a-z0-9]{1,8}", 1..4),
        tiers in prop::collection::vec((prop::collection::vec(any::<u32>(), 0..3), prop::option::of(1u64..i64::MAX as u64), prop::option::of("[ -~]{0,9}")), 4),
        phases in prop::collection::vec((any::<u64>(), 1u64..1 << 40, prop::collection::vec(frame(), 1..4), prop::collection::vec((any::<u64>(), any::<prop::sample::Index>()), 0..3)), 0..3),
        sites in prop::collection::btree_map(any::<u64>(), (text(), any::<prop::sample::Index>(), 0.0f64..=1.0, 0u64..i64::MAX as u64, prop::option::of(0u64..1 << 40), prop::collection::vec(frame(), 0..4)), 0..5),
    ) -> Plan {
        let names: Vec<String> = names.into_iter().collect();
        Plan {
            version: model::plan::PLAN_VERSION,
            policy: words.0,
            command: words.1,
            platform: words.2,
            threshold: Bytes(words.3 >> 1),
            default_tier: names[0].clone(),
            tiers: names.iter().zip(tiers).map(|(name, (nodes, budget, dir))| PlannedTier {
                name: name.clone(), nodes, dir: dir.map(Into::into), budget: budget.map(Bytes),
            }).collect(),
            sites: sites.into_iter().map(|(id, (label, tier, miss_share, peak, resident, frames))| PlannedSite {
                kind: model::SiteKind::Allocation,
                split: split_of(id, &names, tier.get(&names)),
                id: SiteId(id), why: label.clone(), label, tier: tier.get(&names).clone(), miss_share,
                peak: Bytes(peak), resident: resident.map(Bytes), frames,
            }).collect(),
            phases: phases.into_iter().map(|(begins, number, frames, moves)| PlannedPhase {
                begins: SiteId(begins), number, every: NonZeroU64::new(number / 2), frames,
                moves: moves.into_iter().map(|(site, tier)| PlannedMove {
                    site: SiteId(site), split: split_of(site, &names, tier.get(&names)), tier: tier.get(&names).clone(),
                    idle: site % 3 == 0,
                }).collect(),
            }).collect(),
        }
    }
}

proptest! {
    /// Whatever the names, `from_toml(to_toml(plan)) == plan`.
    #[test]
    fn every_plan_comes_back_as_it_was(plan in plan()) {
        let text = plan_file::to_toml(&plan);
        match plan_file::from_toml(&text) {
            Ok(back) => prop_assert_eq!(back, plan),
            Err(e) => prop_assert!(false, "{}\n{}", e, text),
        }
    }

    /// Anything at all is read or refused, never a crash.
    #[test]
    fn any_text_is_survived(text in any::<String>(), at in any::<prop::sample::Index>(), byte in 0x20u8..0x7f) {
        let _ = plan_file::from_toml(&text);
        let mut damaged = plan_file::to_toml(&example()).into_bytes();
        let at = at.index(damaged.len());
        damaged[at] = byte;
        if let Ok(text) = String::from_utf8(damaged) {
            let _ = plan_file::from_toml(&text);
        }
    }
}
