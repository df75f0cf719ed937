//! The density policy on instances small enough to be worked by hand, and on random ones against its rules.

use crate::common::*;
use hearth_policy::{Capacity, Error, Options, SizeBy, Summary, policies, tiers};
use model::*;
use proptest::prelude::*;

fn decide(observed: &Observed, platform: &Platform, options: &Options) -> Result<Plan, Error> {
    policies::find("density").unwrap().decide(observed, platform, options)
}

fn fast(bytes: u64) -> Options {
    Options { fast: Some(Capacity::Size(Bytes(bytes))), ..Options::default() }
}

/// Densities 4, 3, 2, 1 misses/byte. 100 bytes of fast memory: site 1 (40) goes in, site 2 (70) does not fit in the
/// 60 left and is passed over, site 3 (50) fits, site 4 (20) does not fit in the 10 left.
#[test]
fn a_site_that_does_not_fit_is_passed_over_and_the_next_is_tried() {
    let seen = observed(vec![
        site(1, 40, 160.0, 0.0),
        site(2, 70, 210.0, 0.0),
        site(3, 50, 100.0, 0.0),
        site(4, 20, 20.0, 0.0),
    ]);
    let machine = platform(vec![tier("dram", 0, 1000), tier("cxl", 1, 1000)]);
    let plan = decide(&seen, &machine, &fast(100)).unwrap();
    assert_eq!([1, 2, 3, 4].map(|n| tier_of(&plan, n)), ["dram", "cxl", "dram", "cxl"]);
    let order: Vec<u64> = plan.sites.iter().map(|s| s.id.0).collect();
    assert_eq!(order, [1, 3, 2, 4], "fast tier first, hottest first");
    let why = |n: u64| plan.sites.iter().find(|s| s.id.0 == n).unwrap().why.clone();
    assert_eq!(why(1), "4.0 misses/byte, 1st densest; fits in dram");
    assert_eq!(why(2), "3.0 misses/byte, 2nd densest; does not fit in the 60 B left of dram");
    assert_eq!(why(4), "1.0 misses/byte, 4th densest; does not fit in the 10 B left of dram");
    assert_eq!(
        (plan.default_tier.as_str(), plan.tiers[0].budget, plan.tiers[1].budget),
        ("cxl", Some(Bytes(100)), None)
    );
    assert!((plan.sites[0].miss_share - 160.0 / 490.0).abs() < 1e-6);
}

/// Three tiers of 50, 50 and plenty: each is a knapsack of its own for what the one above did not take.
#[test]
fn tiers_are_filled_one_after_the_other() {
    let seen = observed(vec![
        site(1, 30, 300.0, 0.0), // 10 a byte: hbm, 20 left
        site(2, 40, 200.0, 0.0), // 5: too large for hbm; dram, 10 left
        site(3, 20, 60.0, 0.0),  // 3: hbm, full
        site(4, 10, 20.0, 0.0),  // 2: dram, full
        site(5, 10, 10.0, 0.0),  // 1: cxl
    ]);
    let machine = platform(vec![tier("hbm", 0, 50), tier("dram", 1, 50), tier("cxl", 2, 1000)]);
    let plan = decide(&seen, &machine, &Options::default()).unwrap();
    assert_eq!([1, 2, 3, 4, 5].map(|n| tier_of(&plan, n)), ["hbm", "dram", "hbm", "dram", "cxl"]);
    let why = &plan.sites.iter().find(|s| s.id.0 == 5).unwrap().why;
    assert_eq!(
        why,
        "1.0 misses/byte, 5th densest; does not fit in the 0 B left of hbm, does not fit in the 0 B left of dram"
    );
    let summary = Summary::of(&plan, Some(&machine), SizeBy::Peak);
    let bytes: Vec<u64> = summary.tiers.iter().map(|t| t.bytes.0).collect();
    assert_eq!(bytes, [50, 50, 10]);
    assert!((summary.tiers.iter().map(|t| t.miss_share).sum::<f64>() - 1.0).abs() < 1e-5);
    assert!(summary.notes.is_empty(), "{:?}", summary.notes);
}

/// Site 1 has 100 load misses, site 2 has 60 store misses, equal sizes, room for one.
#[test]
fn stores_weigh_what_they_cost_in_the_tier_a_site_would_be_left_in() {
    let seen = observed(vec![site(1, 10, 100.0, 0.0), site(2, 10, 0.0, 60.0)]);
    let dram = Tier { latency: Some(Figure::new(Nanos(90), Origin::Library)), ..tier("dram", 0, 10) };
    let optane = |read: f64, write: f64| Tier {
        latency: Some(Figure::new(Nanos(185), Origin::Library)),
        read_bandwidth: Some(Figure::new(GbPerSec(read), Origin::Library)),
        write_bandwidth: Some(Figure::new(GbPerSec(write), Origin::Library)),
        ..tier("optane", 1, 1000)
    };
    let winner = |machine: &Platform, options: &Options| decide(&seen, machine, options).unwrap().sites[0].id.0;

    let even = platform(vec![dram.clone(), optane(30.0, 30.0)]);
    assert_eq!(winner(&even, &Options::default()), 1, "stores cost no more than loads");
    let slow_writes = platform(vec![dram.clone(), optane(30.0, 10.0)]);
    assert_eq!(winner(&slow_writes, &Options::default()), 2, "60 stores at three times the cost beat 100 loads");
    let plan = decide(&seen, &slow_writes, &Options::default()).unwrap();
    assert_eq!(plan.sites[0].why, "6.0 misses/byte (stores count 3.0x), 1st densest; fits in dram");

    let said = Tier { coefficients: Some(Coefficients { load: 1.0, store: 1.0 }), ..optane(30.0, 10.0) };
    let said = platform(vec![dram, said]);
    assert_eq!(winner(&said, &Options::default()), 1, "the platform file's coefficients win over derived ones");
    let mut options = Options::default();
    options.coefficients.insert("optane".to_string(), Coefficients { load: 1.0, store: 2.0 });
    assert_eq!(winner(&said, &options), 2, "the user's win over the platform's");
    options.coefficients.insert("optane".to_string(), Coefficients { load: 0.0, store: 1.0 });
    assert_eq!(
        decide(&seen, &said, &options).unwrap().sites[0].why,
        "6.0 misses/byte (only stores count), 1st densest; fits in dram"
    );
}

/// Faster writes than reads never make a store cheaper than a load: the line is read first.
#[test]
fn a_store_never_costs_less_than_a_load() {
    let mut slow = tier("slow", 1, 1000);
    slow.read_bandwidth = Some(Figure::new(GbPerSec(10.0), Origin::Measured));
    slow.write_bandwidth = Some(Figure::new(GbPerSec(20.0), Origin::Measured));
    let seen = observed(vec![site(1, 10, 1.0, 0.0)]);
    let uses = tiers::resolve(&seen, &platform(vec![tier("fast", 0, 10), slow]), &Options::default()).unwrap();
    assert_eq!(uses[1].coefficients, Coefficients { load: 1.0, store: 1.0 });
}

#[test]
fn sites_without_misses_go_to_the_slowest_tier_though_there_is_room() {
    let seen = observed(vec![site(1, 10, 5.0, 0.0), site(2, 10, 0.0, 0.0)]);
    let machine = platform(vec![tier("hbm", 0, 100), tier("dram", 1, 100), tier("cxl", 2, 100)]);
    let plan = decide(&seen, &machine, &Options::default()).unwrap();
    assert_eq!([tier_of(&plan, 1), tier_of(&plan, 2)], ["hbm", "cxl"]);
    assert_eq!(plan.sites[1].why, "no misses were seen on it");
}

#[test]
fn a_share_of_the_peak_is_a_capacity() {
    let seen = observed(vec![site(1, 600, 10.0, 0.0), site(2, 400, 5.0, 0.0)]);
    let machine = platform(vec![tier("dram", 0, 10_000), tier("cxl", 1, 10_000)]);
    let options = Options { fast: Some("50%".parse().unwrap()), ..Options::default() };
    let plan = decide(&seen, &machine, &options).unwrap();
    assert_eq!(plan.tiers[0].budget, Some(Bytes(500)));
    assert_eq!([tier_of(&plan, 1), tier_of(&plan, 2)], ["cxl", "dram"]);
    let blind = Observed { timeline: vec![], ..seen };
    assert_eq!(decide(&blind, &machine, &options).unwrap_err(), Error::NoPeak);
}

#[test]
fn resident_sizes_count_only_where_asked_for_and_read() {
    let mut sparse = site(1, 1000, 100.0, 0.0);
    sparse.resident = Some(Bytes(80));
    let mut seen = observed(vec![sparse, site(2, 100, 1.0, 0.0)]);
    let machine = platform(vec![tier("dram", 0, 100), tier("cxl", 1, 10_000)]);
    let by = |size, seen: &Observed| {
        let plan = decide(seen, &machine, &Options { size, ..Options::default() }).unwrap();
        [tier_of(&plan, 1).to_string(), tier_of(&plan, 2).to_string()]
    };
    assert_eq!(by(SizeBy::Peak, &seen), ["cxl", "dram"]);
    assert_eq!(by(SizeBy::Resident, &seen), ["dram", "cxl"]);
    // A static variable is as large as it was declared, whatever is used of it.
    seen.sites[0].site.kind = model::SiteKind::Static;
    assert_eq!(by(SizeBy::Peak, &seen), ["dram", "cxl"]);
}

#[test]
fn one_memory_is_split_in_two_and_the_plan_says_so() {
    let seen = observed(vec![site(1, 60, 100.0, 0.0), site(2, 60, 50.0, 0.0)]);
    let laptop = platform(vec![tier("dram", 0, 1000)]);
    let plan = decide(&seen, &laptop, &fast(100)).unwrap();
    let tiers: Vec<_> = plan.tiers.iter().map(|t| (t.name.as_str(), t.nodes.clone(), t.budget)).collect();
    assert_eq!(tiers, [("fast", vec![0], Some(Bytes(100))), ("slow", vec![0], None)]);
    assert_eq!([tier_of(&plan, 1), tier_of(&plan, 2)], ["fast", "slow"]);
    let notes = Summary::of(&plan, Some(&tiers::split(&laptop)), SizeBy::Peak).notes;
    assert_eq!(
        notes,
        ["The tiers share one memory, so a run by this plan gets no faster; it shows where objects would go."]
    );
}

#[test]
fn a_profile_without_samples_makes_a_plan_that_says_so() {
    let seen = observed(vec![site(1, 60, 0.0, 0.0)]);
    let plan = decide(&seen, &platform(vec![tier("dram", 0, 100), tier("cxl", 1, 50)]), &Options::default()).unwrap();
    assert_eq!(tier_of(&plan, 1), "cxl");
    let summary = Summary::of(&plan, Some(&platform(vec![tier("dram", 0, 100), tier("cxl", 1, 50)])), SizeBy::Peak);
    assert!(summary.notes[0].starts_with("The profile shows no misses"), "{:?}", summary.notes);
    assert!(summary.notes[1].starts_with("cxl is given 60 B of sites but has room for 50 B"), "{:?}", summary.notes);
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let seen = observed(vec![site(1, 10, 1.0, 0.0)]);
    let two = platform(vec![tier("dram", 0, 100), tier("cxl", 1, 1000)]);
    let one = platform(vec![tier("dram", 0, 100)]);
    let capacity =
        |name: &str, capacity| Options { capacities: [(name.to_string(), capacity)].into(), ..Options::default() };
    let coefficients = |load, store| {
        let coefficients = [("cxl".to_string(), Coefficients { load, store })].into();
        Options { coefficients, ..Options::default() }
    };
    let one_byte = Capacity::Size(Bytes(1));
    let cases = [
        (&two, fast(0), "a capacity of 0 for tier `dram`"),
        (&two, capacity("cxl", Capacity::Size(Bytes(0))), "a capacity of 0 for tier `cxl`"),
        (&two, Options { fast: Some(Capacity::Share(0.0)), ..Options::default() }, "a capacity of 0 for tier `dram`"),
        (&two, fast(101), "tier `dram` cannot hold 101 B: platform `bench` has 100 B of it"),
        (&one, fast(101), "tier `fast` cannot hold 101 B: platform `bench` has 100 B of it"),
        (&two, capacity("hbm", one_byte), "platform `bench` has no tier `hbm`; it has: dram, cxl"),
        (&one, capacity("dram", one_byte), "platform `bench` has no tier `dram`; it has: fast, slow"),
        (&one, Options::default(), "platform `bench` has one kind of memory"),
        (&two, Options { fast: Some(one_byte), ..capacity("dram", one_byte) }, "--fast and --capacity dram=... both"),
        (&two, coefficients(-1.0, 1.0), "coefficients -1 and 1 of tier `cxl` make no sense"),
        (&two, coefficients(0.0, 0.0), "coefficients 0 and 0 of tier `cxl` make no sense"),
        (&two, coefficients(1.0, f64::NAN), "coefficients 1 and NaN of tier `cxl` make no sense"),
    ];
    for (platform, options, expected) in cases {
        let error = decide(&seen, platform, &options).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}\ninstead of\n{expected}");
        assert!(!error.contains('\n') && !error.ends_with('.'));
    }
    let nothing = decide(&observed(vec![]), &two, &Options::default()).unwrap_err().to_string();
    assert!(nothing.starts_with("the profile holds no allocation sites"), "{nothing}");
    let mut unknown = two.clone();
    unknown.tiers[0].capacity = None;
    let error = decide(&seen, &unknown, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("--capacity dram=SIZE"), "{error}");
    let twins = platform(vec![tier("dram", 0, 1), tier("dram", 1, 1)]);
    assert!(decide(&seen, &twins, &Options::default()).unwrap_err().to_string().contains("two tiers called `dram`"));
    for text in ["", "lots", "-5%", "101%", "nan%", "%"] {
        assert!(text.parse::<Capacity>().is_err(), "{text}");
    }
}

proptest! {
    /// Over random sites and budgets: no budget is exceeded, no site is lost or doubled, and a site is left out of a
    /// tier only if the denser ones taken before it leave no room for it.
    #[test]
    fn greedy_obeys_every_capacity_and_its_own_rule(
        sites in prop::collection::vec((1u64..200, 0u32..50, 0u32..50), 1..40),
        budgets in prop::collection::vec(1u64..600, 1..4),
        store in 1u32..9,
    ) {
        let seen = observed(sites.iter().enumerate().map(|(n, &(size, load, st))| site(n as u64, size, load.into(), st.into())).collect());
        let mut memories: Vec<Tier> = budgets.iter().enumerate().map(|(n, &b)| tier(&format!("t{n}"), n as u32, b)).collect();
        memories.push(tier("rest", 99, 1 << 40));
        for memory in &mut memories {
            memory.coefficients = Some(Coefficients { load: 1.0, store: store.into() });
        }
        let plan = decide(&seen, &platform(memories), &Options::default()).unwrap();
        prop_assert_eq!(plan.sites.len(), seen.sites.len());
        let value = |s: &SiteUse| (s.load_misses + f64::from(store) * s.store_misses) / s.peak.0 as f64;
        for (k, &budget) in budgets.iter().enumerate() {
            let name = format!("t{k}");
            let inside: Vec<&SiteUse> = seen.sites.iter().filter(|s| tier_of(&plan, s.site.id.0) == name).collect();
            prop_assert!(inside.iter().map(|s| s.peak.0).sum::<u64>() <= budget);
            prop_assert!(inside.iter().all(|s| s.misses() > 0.0));
            // Sites in slower tiers, by index of their tier.
            let slower = seen.sites.iter().filter(|s| {
                let at = plan.tiers.iter().position(|t| t.name == tier_of(&plan, s.site.id.0)).unwrap();
                at > k && s.misses() > 0.0
            });
            for out in slower {
                let before: u64 = inside.iter().filter(|s| value(s) >= value(out)).map(|s| s.peak.0).sum();
                prop_assert!(before + out.peak.0 > budget, "site {:?} of {} would have fitted", out.site.id, out.peak);
            }
        }
    }

    /// Against the best of all subsets: greedy by density never gets more, and when all sites are small against the
    /// budget it gets nearly as much (its gap is at most the value of the one item that no longer fits).
    #[test]
    fn greedy_is_never_better_than_the_best_and_close_to_it(
        sites in prop::collection::vec((1u64..60, 1u32..100), 1..12),
        budget in 60u64..400,
    ) {
        let seen = observed(sites.iter().enumerate().map(|(n, &(size, load))| site(n as u64, size, load.into(), 0.0)).collect());
        let plan = decide(&seen, &platform(vec![tier("fast", 0, budget), tier("rest", 1, 1 << 30)]), &Options::default()).unwrap();
        let taken: f64 = seen.sites.iter().filter(|s| tier_of(&plan, s.site.id.0) == "fast").map(SiteUse::misses).sum();
        let best = (0u32..1 << sites.len()).filter_map(|subset| {
            let chosen = || sites.iter().enumerate().filter(move |(n, _)| subset >> n & 1 == 1).map(|(_, s)| s);
            (chosen().map(|s| s.0).sum::<u64>() <= budget).then(|| chosen().map(|s| f64::from(s.1)).sum::<f64>())
        }).fold(0.0, f64::max);
        let largest = sites.iter().map(|s| f64::from(s.1)).fold(0.0, f64::max);
        prop_assert!(taken <= best);
        prop_assert!(taken + largest >= best, "{taken} of {best}");
    }
}

/// What no plan places lies in the fastest tier first: by the profile's fullest reading, and never more than half of the tier. Who says
/// how much to use gets that.
#[test]
fn room_is_left_for_what_no_plan_places() {
    const MIB: u64 = 1 << 20;
    let mut seen = observed(vec![site(1, 40 * MIB, 900.0, 0.0), site(2, 20 * MIB, 100.0, 0.0)]);
    seen.timeline[0].resident = vec![(SiteId(1), Bytes(40 * MIB)), (SiteId(2), Bytes(20 * MIB))];
    let platform = platform(vec![tier("dram", 0, 64 * MIB), tier("nvm", 1, 1 << 30)]);
    let budget = |seen: &Observed, options: &Options| {
        let plan = decide(seen, &platform, options).unwrap();
        (plan.tiers[0].budget.unwrap().0, tier_of(&plan, 2).to_string())
    };
    let none = Options::default();
    assert_eq!(budget(&seen, &none), (64 * MIB, "dram".to_string()), "nothing is known of it");
    let reading =
        |anonymous: u64| Some(model::observed::Memory { at: Nanos(5), anonymous: Bytes(anonymous), huge: Bytes(0) });
    // 4 MiB beside the objects, an eighth of a MiB of page tables for 64 MiB, and half a MiB for the kernel: 20 MiB do not fit any more.
    seen.fullest = reading(64 * MIB);
    assert_eq!(budget(&seen, &none), (64 * MIB - 4 * MIB - MIB / 8 - MIB / 2, "nvm".to_string()));
    let all = Options { fast: Some(Capacity::Size(Bytes(64 * MIB))), ..Options::default() };
    assert_eq!(budget(&seen, &all), (64 * MIB, "dram".to_string()));
    seen.fullest = reading(512 * MIB);
    assert_eq!(budget(&seen, &none).0, 32 * MIB);
    // What was freed a moment before, and is kept for the next object of its tier, is none of it.
    let after = model::observed::TimePoint {
        at: Nanos(4),
        resident: vec![(SiteId(1), Bytes(40 * MIB))],
        ..seen.timeline[0].clone()
    };
    seen.timeline.push(after);
    seen.fullest = reading(60 * MIB);
    assert_eq!(budget(&seen, &none).0, 64 * MIB - 60 * MIB / 512 - MIB / 2);
    // Longer ago it is not there any more.
    seen.timeline[1].at = Nanos(2_000_000_000);
    seen.fullest = seen.fullest.map(|f| model::observed::Memory { at: Nanos(2_000_000_001), ..f });
    assert_eq!(budget(&seen, &none).0, 64 * MIB - 20 * MIB - 60 * MIB / 512 - MIB / 2);
}
