//! The policies on instances worked by hand, and on random ones against all possible placements.

use crate::common::*;
use hearth_policy::cost::{Shares, landing};
use hearth_policy::policies::exact;
use hearth_policy::{Capacity, Error, Options, Task, policies};
use model::*;
use proptest::prelude::*;
use std::time::Duration;

fn fast(bytes: u64) -> Options {
    Options { fast: Some(Capacity::Size(Bytes(bytes))), ..Options::default() }
}

fn places(policy: &str, seen: &Observed, machine: &Platform, options: &Options) -> Vec<String> {
    let plan = policies::find(policy).unwrap().decide(seen, machine, options).unwrap();
    tiers_of(&plan, seen).into_iter().map(str::to_string).collect()
}

fn two(fast: u64) -> Platform {
    platform(vec![timed("dram", 0, fast, 100, 100.0, 100.0), timed("cxl", 1, 1 << 40, 250, 20.0, 20.0)])
}

/// Densities 4, 3, 2 misses a byte, room for 100: hotset goes on until it is past that.
#[test]
fn hotset_stops_just_past_the_capacity() {
    let seen = observed(vec![site(1, 60, 240.0, 0.0), site(2, 70, 210.0, 0.0), site(3, 10, 20.0, 0.0)]);
    assert_eq!(places("hotset", &seen, &two(100), &Options::default()), ["dram", "dram", "cxl"]);
    assert_eq!(places("density", &seen, &two(100), &Options::default()), ["dram", "cxl", "dram"]);
}

/// The second site would displace 30 bytes of the first, which is worth 240 misses; it has 210 in the one case and 250 in
/// the other. The third still fits.
#[test]
fn thermos_over_fills_only_for_what_is_worth_more() {
    let with = |misses| observed(vec![site(1, 60, 240.0, 0.0), site(2, 70, misses, 0.0), site(3, 10, 20.0, 0.0)]);
    assert_eq!(places("thermos", &with(210.0), &two(100), &Options::default()), ["dram", "cxl", "dram"]);
    assert_eq!(places("thermos", &with(250.0), &two(100), &Options::default()), ["dram", "dram", "cxl"]);
}

/// Greedy takes the densest, 60 bytes, and nothing else fits; the other two are worth more together.
#[test]
fn knapsack_takes_what_is_worth_most_together() {
    let seen = observed(vec![site(1, 60, 130.0, 0.0), site(2, 50, 100.0, 0.0), site(3, 50, 100.0, 0.0)]);
    assert_eq!(places("density", &seen, &two(100), &Options::default()), ["dram", "cxl", "cxl"]);
    assert_eq!(places("knapsack", &seen, &two(100), &Options::default()), ["cxl", "dram", "dram"]);
}

/// Unimem's global search as it is registered, against all sets that fit, by Equations 1 to 3 written out: a line takes 3.2 ns of the slow
/// bus and 0.64 ns of the fast one, and latencies are 250 and 100 ns.
#[test]
fn phase_global_is_the_best_set_of_sites() {
    let mut dice = 11u64;
    let mut next = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let (mut by_bandwidth, mut by_latency, mut between) = (0, 0, 0);
    for round in 0..40 {
        let rows: Vec<Vec<f64>> = (0..3)
            .map(|_| (0..6).map(|_| [0.0, 1e5, 4e7, 1e8][next(4) as usize] * (1 + next(9)) as f64 / 9.0).collect())
            .collect();
        let sites = (0..6).map(|n| site(n as u64 + 1, 10 + next(60), rows.iter().map(|r| r[n]).sum(), 0.0)).collect();
        let seen = over_time(observed(sites), &rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let mut benefit = |lines: f64| match lines * 3.2 / (1e9 / 3.0) {
            _ if lines == 0.0 => 0.0,
            s if s >= 0.8 => {
                by_bandwidth += 1;
                lines * (3.2 - 0.64)
            }
            s if s < 0.1 => {
                by_latency += 1;
                lines * 150.0
            }
            _ => {
                between += 1;
                lines * 150.0
            }
        };
        let saves: Vec<f64> = (0..6).map(|n| rows.iter().map(|r| benefit(r[n])).sum()).collect();
        let of = |inside: &dyn Fn(usize) -> bool| -> f64 { (0..6).filter(|&n| inside(n)).map(|n| saves[n]).sum() };
        let size = |set: u32| (0..6).filter(|n| set >> n & 1 == 1).map(|n| seen.sites[n].peak.0).sum::<u64>();
        let best = (0..1 << 6).filter(|&s| size(s) <= 100).map(|s| of(&|n| s >> n & 1 == 1)).fold(0.0, f64::max);
        let at = places("phase-global", &seen, &two(100), &Options::default());
        let chosen = of(&|n| at[n] == "dram");
        assert!((0..6).filter(|&n| at[n] == "dram").map(|n| seen.sites[n].peak.0).sum::<u64>() <= 100);
        assert!((chosen / best - 1.0).abs() < 1e-6, "round {round}: {chosen} {best} {at:?} {saves:?}");
    }
    assert!(by_bandwidth > 20 && by_latency > 20 && between > 20, "{by_bandwidth} {by_latency} {between}");
}

/// In the order of allocation, whatever is hot; what was freed leaves its room.
#[test]
fn first_served_serves_in_the_order_of_allocation() {
    let life = |mut s: SiteUse, from: u64, to: u64| {
        (s.first_alloc, s.last_free) = (Nanos(from), Nanos(to));
        s
    };
    let seen = observed(vec![
        life(site(1, 80, 900.0, 0.0), 10, 100),
        life(site(2, 60, 1.0, 0.0), 0, 50),
        life(site(3, 40, 5.0, 0.0), 20, 100),
        life(site(4, 60, 5.0, 0.0), 60, 100),
    ]);
    assert_eq!(places("first-served", &seen, &two(100), &Options::default()), ["cxl", "dram", "dram", "dram"]);
}

/// H2M's dot product and lookups: the most important allocation first (Table 4: nuclide_grid has 57 % of the latency), where
/// its pattern wants it: the machine's lowest latency is not its highest bandwidth, as on Knights Landing.
#[test]
fn priority_serves_the_most_important_first_and_where_it_wants_to_be() {
    let walked = |mut s: SiteUse, pattern| {
        s.pattern = pattern;
        s
    };
    let seen = observed(vec![
        walked(site(1, 50, 572.0, 0.0), Pattern::Random),
        walked(site(2, 60, 300.0, 0.0), Pattern::Stream { stride: 8 }),
        walked(site(3, 60, 200.0, 5000.0), Pattern::Stream { stride: 8 }),
    ]);
    assert_eq!(places("priority", &seen, &two(100), &Options::default()), ["dram", "cxl", "cxl"]);
    let knl = platform(vec![timed("hbm", 1, 100, 155, 315.0, 315.0), timed("ddr", 0, 1000, 130, 80.0, 80.0)]);
    assert_eq!(places("priority", &seen, &knl, &Options::default()), ["ddr", "hbm", "ddr"]);
    let mut timed = seen.clone();
    (timed.sites[1].miss_latency, timed.sites[0].miss_latency) = (Some(900.0), Some(90.0));
    let plan = policies::find("priority").unwrap().decide(&timed, &two(70), &Options::default()).unwrap();
    assert_eq!(tier_of(&plan, 2), "dram", "latency counts, not only misses: {:?}", plan.sites[0].why);
}

/// ecoHMEM, section VII: A lives all the time and B in the last fifth, when bandwidth is high; equal sizes, equal misses, room
/// for one. By density A wins, as the smaller id. B is allocated again and again (Thrashing), A once and when little is
/// asked of the slow memory (Fitting): they are swapped, and the cost model agrees that it is the better placement.
fn a_and_b() -> Observed {
    let (a, mut b) = (site(1, 100, 1e4, 0.0), site(2, 100, 1e4, 0.0));
    (b.first_alloc, b.objects, b.total_lifetime) = (Nanos(800_000_000), 5, Nanos(200_000_000));
    let third = site(3, 1000, 5e3, 0.0);
    let all = observed(vec![a, b, third]);
    let quiet: &[f64] = &[2e3, 0.0, 0.0];
    over_time(all, &[quiet, quiet, quiet, quiet, &[2e3, 1e4, 5e3]])
}

#[test]
fn bandwidth_aware_swaps_the_objects_a_and_b_of_ecohmem() {
    let seen = a_and_b();
    let mut dram = timed("dram", 0, 100, 90, 141.0, 141.0);
    let mut pmem = timed("pmem", 1, 1 << 40, 185, 39.4, 13.9);
    for (tier, ns) in [(&mut dram, 117), (&mut pmem, 239)] {
        tier.loaded_latency = Some(Figure::new(Nanos(ns), Origin::Library));
        tier.loaded_bandwidth = Some(Figure::new(GbPerSec(22.0), Origin::Library));
    }
    // So few misses that none overlap, and a machine so much smaller that its memory is as busy as the paper's at 22 GB/s.
    for tier in [&mut dram, &mut pmem] {
        for b in [&mut tier.read_bandwidth, &mut tier.write_bandwidth, &mut tier.loaded_bandwidth] {
            *b = b.map(|f| Figure::new(GbPerSec(f.value.0 / 4000.0), f.origin));
        }
    }
    let machine = platform(vec![dram, pmem]);
    assert_eq!(places("density", &seen, &machine, &Options::default()), ["dram", "pmem", "pmem"]);
    assert_eq!(places("bandwidth-aware", &seen, &machine, &Options::default()), ["pmem", "dram", "pmem"]);
    assert_eq!(places("exact", &seen, &machine, &Options::default()), ["pmem", "dram", "pmem"]);
    let options = Options::default();
    let task = Task::new(&seen, &machine, &options).unwrap();
    assert!(task.time(&[1, 0, 1]) < task.time(&[0, 1, 1]));
}

/// Table IV, line by line: each site is one step away from its class.
#[test]
fn the_classes_of_table_iv() {
    let seen = |change: fn(&mut Vec<SiteUse>)| {
        let mut all = a_and_b().sites;
        change(&mut all);
        over_time(
            Observed { sites: all, ..a_and_b() },
            &[&[2e3, 0.0, 0.0], &[2e3, 0.0, 0.0], &[2e3, 0.0, 0.0], &[2e3, 0.0, 0.0], &[2e3, 1e4, 5e3]],
        )
    };
    let decide = |change| places("bandwidth-aware", &seen(change), &two(100), &Options::default());
    assert_eq!(decide(|_| ()), ["cxl", "dram", "cxl"]);
    assert_eq!(decide(|s| s[1].objects = 2), ["dram", "cxl", "cxl"], "not more than T_ALLOC: not Thrashing");
    assert_eq!(decide(|s| s[0].objects = 2), ["dram", "cxl", "cxl"], "not fewer than T_ALLOC: not Fitting");
    assert_eq!(decide(|s| s[0].last_free = Nanos(900_000_000)), ["dram", "cxl", "cxl"], "does not live as long");
    assert_eq!(decide(|s| s[0].objects = 3), ["cxl", "cxl", "cxl"], "Streaming-D: never written, goes at once");
    assert_eq!(decide(|s| (s[0].objects, s[0].store_misses) = (3, 1.0)), ["dram", "cxl", "cxl"], "but it is written");
    let strict = Options {
        thresholds: policies::bandwidth_aware::Thresholds { allocations: 5, ..Default::default() },
        ..Options::default()
    };
    assert_eq!(
        places("bandwidth-aware", &seen(|_| ()), &two(100), &strict),
        ["dram", "cxl", "cxl"],
        "thresholds are options"
    );
    let wrong = Options {
        thresholds: policies::bandwidth_aware::Thresholds { low: 0.5, ..Default::default() },
        ..Options::default()
    };
    let error = policies::find("bandwidth-aware").unwrap().decide(&seen(|_| ()), &two(100), &wrong).unwrap_err();
    assert!(error.to_string().starts_with("thresholds of 50 % (low) and 40 % (high) make no sense"), "{error}");
}

/// Two sites that are never alive together share the room that each of them needs; policies that add sizes up cannot see it.
#[test]
fn exact_fills_a_tier_at_every_moment_and_not_in_sum() {
    let (mut a, mut b) = (site(1, 100, 1e6, 0.0), site(2, 100, 9e5, 0.0));
    (a.last_free, b.first_alloc) = (Nanos(400_000_000), Nanos(500_000_000));
    let seen = observed(vec![a, b]);
    assert_eq!(places("density", &seen, &two(100), &Options::default()), ["dram", "cxl"]);
    assert_eq!(places("exact", &seen, &two(100), &Options::default()), ["dram", "dram"]);
}

/// When the slow memory's writes are the limit, what is written goes to the fast one though more is read elsewhere.
#[test]
fn exact_knows_which_bus_is_full() {
    let seen = observed(vec![site(1, 100, 2e6, 0.0), site(2, 100, 0.0, 1.5e6)]);
    let machine = platform(vec![timed("dram", 0, 100, 90, 10.0, 10.0), timed("nvm", 1, 1 << 40, 90, 10.0, 0.1)]);
    assert_eq!(places("exact", &seen, &machine, &Options::default()), ["nvm", "dram"]);
}

#[test]
fn every_policy_refuses_what_fits_nowhere() {
    let seen = observed(vec![site(1, 100, 1e6, 0.0), site(2, 100, 9e5, 0.0)]);
    let capacity = |cxl: u64| {
        let mut options = fast(50);
        options.capacities.insert("cxl".to_string(), Capacity::Size(Bytes(cxl)));
        options
    };
    let small = platform(vec![timed("dram", 0, 100, 100, 100.0, 100.0), timed("cxl", 1, 99, 250, 20.0, 20.0)]);
    for policy in policies::ALL {
        let refused = |machine: &Platform, options: &Options, sentence: &str| {
            let error = policy.decide(&seen, machine, options).unwrap_err();
            assert!(matches!(error, Error::Infeasible { .. }), "{}: {error}", policy.name());
            assert_eq!(error.to_string(), sentence, "{}", policy.name());
        };
        refused(
            &two(100),
            &capacity(149),
            "the program has 200 B alive at once and the tiers of platform `bench` hold 199 B together; leave out the capacity of the slowest tier, or make it larger",
        );
        refused(
            &small,
            &Options::default(),
            "the program has 200 B alive at once and the tiers of platform `bench` hold 199 B together; plan for a machine with more memory",
        );
        // What fits the tiers together is planned, though no site of 100 B fits into one of 50 B, and the other has room for one.
        assert!(policy.decide(&seen, &two(100), &capacity(150)).is_ok(), "{}", policy.name());
        // Not alive together, though the sizes add up to more than there is; or never touched.
        let mut apart = seen.clone();
        (apart.sites[0].last_free, apart.sites[1].first_alloc) = (Nanos(100), Nanos(200));
        assert!(policy.decide(&apart, &two(100), &capacity(149)).is_ok(), "{}", policy.name());
        let mut sparse = seen.clone();
        sparse.sites[0].resident = Some(Bytes(10));
        assert!(policy.decide(&sparse, &small, &Options::default()).is_ok(), "{}", policy.name());
        // The timeline knows better than the lives of sites, which are told from the first allocation to the last free.
        let mut by_turns = over_time(seen.clone(), &[&[1e6, 0.0], &[0.0, 9e5]]);
        by_turns.timeline.iter_mut().enumerate().for_each(|(i, p)| p.live = vec![(seen.sites[i].site.id, Bytes(100))]);
        assert!(policy.decide(&by_turns, &two(100), &capacity(149)).is_ok(), "{}", policy.name());
    }
}

#[test]
fn without_samples_nothing_is_decided() {
    let mut seen = observed(vec![site(1, 100, 0.0, 0.0)]);
    seen.sampler = "none".to_string();
    assert_eq!(places("first-served", &seen, &two(100), &Options::default()), ["dram"]);
    // And one that ran, and saw nothing.
    let mut idle = seen.clone();
    (idle.sampler, idle.sites[0].samples) = ("lab".to_string(), 0);
    for (seen, sampler) in [(&seen, "none"), (&idle, "lab")] {
        let begins = format!("the profile holds no access samples (sampler `{sampler}`)");
        for policy in policies::ALL.iter().filter(|p| p.needs_samples()) {
            let error = policy.decide(seen, &two(100), &Options::default()).unwrap_err().to_string();
            assert!(error.starts_with(&begins), "{}: {error}", policy.name());
        }
    }
}

/// Sites of a random instance: size, load and store misses of three intervals, first and last of them it lives in, pattern.
type Drawn = (u64, [u32; 3], [u32; 3], u64, u64, u8);

fn drawn(sites: &[Drawn]) -> Observed {
    let of = |(n, &(size, loads, stores, from, to, pattern)): (usize, &Drawn)| {
        let in_life = |m: &[u32; 3]| -> f64 { (from..=to.max(from)).map(|i| f64::from(m[i as usize])).sum() };
        let mut s = site(n as u64, size, in_life(&loads) * 1e3, in_life(&stores) * 1e3);
        (s.first_alloc, s.last_free) = (Nanos(from * 1_000_000), Nanos((to.max(from) + 1) * 1_000_000));
        s.pattern = [Pattern::Random, Pattern::Stream { stride: 64 }, Pattern::Mixed][usize::from(pattern)];
        s
    };
    let mut seen = observed(sites.iter().enumerate().map(of).collect());
    seen.duration = Nanos(3_000_000);
    let misses = |i: usize| -> Vec<f64> {
        let lives = |s: &Drawn| (s.3..=s.4.max(s.3)).contains(&(i as u64));
        sites.iter().map(|s| if lives(s) { f64::from(s.1[i] + s.2[i]) * 1e3 } else { 0.0 }).collect()
    };
    let rows: Vec<Vec<f64>> = (0..3).map(misses).collect();
    over_time(seen, &rows.iter().map(|r| &r[..]).collect::<Vec<_>>())
}

fn machine(tiers: usize, fast: u64) -> Platform {
    let mut all = vec![timed("fast", 0, fast, 100, 60.0, 60.0), timed("slow", 1, 1 << 40, 300, 8.0, 3.0)];
    if tiers == 3 {
        all.insert(1, timed("middle", 2, fast, 150, 20.0, 20.0));
    }
    platform(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Against every placement there is, and against every other policy.
    #[test]
    fn exact_is_the_best_of_all(
        sites in prop::collection::vec((1u64..60, [0u32..40, 0u32..40, 0u32..40], [0u32..10, 0u32..10, 0u32..10], 0u64..3, 0u64..3, 0u8..3), 1..6),
        rest in (0u64..100, 0u32..40),
        budget in 10u64..120,
        tiers in 2usize..4,
        hbm in 0usize..3,
    ) {
        let mut seen = drawn(&sites);
        // And memory that no plan places.
        let asked = Asked { load_misses: f64::from(rest.1) * 1e4, store_misses: 0.0, pattern: Pattern::Random, lines: None };
        (seen.rest, seen.most_anonymous) = (Some(asked), Some(Bytes(seen.peak().0 + rest.0)));
        prop_assume!(seen.total_misses() > 0.0);
        // Of some tiers the kernel does not give unasked.
        let mut machine = machine(tiers, budget);
        machine.tiers.iter_mut().take(hbm.min(tiers - 1)).for_each(|t| t.kind.value = TierKind::Hbm);
        let options = Options::default();
        let task = Task::new(&seen, &machine, &options).unwrap();
        let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
        let n = sites.len() as u32;
        let mut best = f64::INFINITY;
        for code in 0..tiers.pow(n) {
            let at: Vec<usize> = (0..n).map(|i| code / tiers.pow(i) % tiers).collect();
            if landing::fits(&task, task.lives(), &at) {
                let time = task.time(&at);
                prop_assert!(solved.bound <= time * 1.000_001, "the bound {} is above a placement of {time}", solved.bound);
                best = best.min(time);
            }
        }
        // What the solver does not see is how latency grows with load.
        prop_assert!(solved.time <= best * 1.01, "{} instead of {best}", solved.time);
        for policy in policies::ALL {
            let shares = policy.place(&task).unwrap().shares(&task);
            let time = task.model().predict(&shares).time;
            prop_assert!(solved.time <= time * 1.000_001, "{} is better", policy.name());
        }
    }

    /// Against every split of large sites in sixteenths.
    #[test]
    fn exact_splits_as_well_as_can_be(
        sites in prop::collection::vec((2u64..60, [0u32..40, 0u32..40, 0u32..40], [0u32..10, 0u32..10, 0u32..10], 0u64..3, 0u64..3, 0u8..3), 1..4),
        budget in 4u64..120,
    ) {
        let mut seen = drawn(&sites);
        prop_assume!(seen.total_misses() > 0.0);
        for s in &mut seen.sites {
            (s.peak, s.largest, s.allocated) = (Bytes(s.peak.0 << 20), Bytes(s.peak.0 << 20), Bytes(s.peak.0 << 20));
        }
        let machine = machine(2, budget << 20);
        let options = Options::default();
        let task = Task::new(&seen, &machine, &options).unwrap();
        let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
        let shares = solved.decision.shares(&task);
        prop_assert!(task.lives().peak_in(0, &shares) <= budget << 20, "it does not fit");
        prop_assert!((task.model().predict(&shares).time / solved.time - 1.0).abs() < 1e-9);
        let mut best = f64::INFINITY;
        for code in 0..17usize.pow(sites.len() as u32) {
            let mut shares = Shares::all_in(1, sites.len(), 2);
            for i in 0..sites.len() {
                let fast = (code / 17usize.pow(i as u32) % 17) as f64 / 16.0;
                shares.split(i, &[fast, 1.0 - fast]);
            }
            if task.lives().peak_in(0, &shares) <= budget << 20 {
                let time = task.model().predict(&shares).time;
                prop_assert!(solved.bound <= time * 1.000_001, "the bound {} is above a placement of {time}", solved.bound);
                best = best.min(time);
            }
        }
        prop_assert!(solved.time <= best * 1.015, "{} instead of {best}", solved.time);
    }

    /// Dynamic programming finds the most valuable set that fits.
    #[test]
    fn knapsack_is_the_best_subset(
        sites in prop::collection::vec((1u64..60, 1u32..100), 1..12),
        budget in 20u64..300,
    ) {
        let seen = observed(sites.iter().enumerate().map(|(n, &(size, load))| site(n as u64, size, load.into(), 0.0)).collect());
        let placed = places("knapsack", &seen, &two(budget), &Options::default());
        let sum = |inside: &dyn Fn(usize) -> bool| {
            let all = sites.iter().enumerate().filter(|(n, _)| inside(*n));
            all.fold((0, 0), |a, (_, s)| (a.0 + s.0, a.1 + s.1))
        };
        let got = sum(&|n| placed[n] == "dram");
        let best = (0u32..1 << sites.len()).map(|set| sum(&|n| set >> n & 1 == 1)).filter(|s| s.0 <= budget).map(|s| s.1).max();
        prop_assert!(got.0 <= budget);
        prop_assert_eq!(Some(got.1), best);
    }

    /// Memory that is better in everything never makes a program slower.
    #[test]
    fn time_only_falls_with_faster_memory(
        sites in prop::collection::vec((1u64..60, [0u32..40, 0u32..40, 0u32..40], [0u32..10, 0u32..10, 0u32..10], 0u64..3, 0u64..3, 0u8..3), 1..6),
        which in 0usize..6,
    ) {
        let seen = drawn(&sites);
        prop_assume!(seen.total_misses() > 0.0);
        let machine = machine(2, 1 << 30);
        let options = Options::default();
        let task = Task::new(&seen, &machine, &options).unwrap();
        let mut at = vec![1; sites.len()];
        let before = task.model().time(&at);
        at[which % sites.len()] = 0;
        prop_assert!(task.model().time(&at) <= before * 1.000_001);
    }
}

/// Less latency than the load lets expect means that less of the load is felt, here and elsewhere; more is waited for behind other lines.
#[test]
fn measured_latency_tells_how_much_of_the_load_is_felt() {
    use hearth_policy::cost::Model;
    let loaded = |t: Tier| Tier {
        loaded_latency: Some(Figure::new(Nanos(200), Origin::Library)),
        loaded_bandwidth: Some(Figure::new(GbPerSec(0.16), Origin::Library)),
        ..t
    };
    let tiers = [loaded(timed("fast", 0, 1 << 40, 100, 0.32, 0.32))];
    let model = |latency: f64| {
        // Half of the bus: 200 ns for each line.
        let mut s = site(1, 100, 2.5e6, 0.0);
        (s.pattern, s.miss_latency) = (Pattern::Random, Some(latency));
        let seen = Observed { platform: Some(platform(tiers.to_vec())), ..over_time(observed(vec![s]), &[&[2.5e6]]) };
        Model::new(&seen, &tiers).unwrap()
    };
    // A line takes the bus for 200 ns.
    for (measured, felt, queued) in [(200.0, 1.0, 0.0), (300.0, 1.0, 0.5), (100.0, 0.0, 0.0)] {
        let interval = &model(measured).demand.intervals[0];
        assert!((interval.felt - felt).abs() < 0.01, "{measured}: {}", interval.felt);
        let u = interval.uses[0];
        assert!((u.scale - 1.0).abs() < 0.01 && interval.compute > 0.0, "{measured}: {interval:?}");
        assert!((u.queued - queued).abs() < 0.01, "{measured}: {interval:?}");
    }
    // 100 u² / (1 - u) / 0.5 is 50 at u = 0.39.
    let felt = model(150.0).demand.intervals[0].felt;
    assert!((felt - 0.78).abs() < 0.01, "{felt}");
    for measured in [100.0, 150.0, 200.0, 300.0] {
        let again = model(measured).all_in(0);
        assert!((again / 1e9 - 1.0).abs() < 0.01, "the same machine takes as long: {again} at {measured}");
    }
}

/// What misses wait for beyond the latency goes by the bus of the memory that they are in, and not by its latency.
#[test]
fn waiting_behind_other_lines_goes_by_the_bus() {
    use hearth_policy::cost::Model;
    // One line in a hundred ns of the first one's bus takes 10 ns, and each miss 50 ns more than the idle 100.
    let (misses, measured) = (1e7, 150.0);
    let mut s = site(1, 1 << 20, misses, 0.0);
    (s.pattern, s.miss_latency) = (Pattern::Random, Some(measured));
    s.lines = Some(Lines { ahead: 0.0, beside: 0.0, written: 0.0, alone: Some(0.25) });
    let fast = timed("fast", 0, 1 << 40, 100, 6.4, 6.4);
    let waits = |tier: Tier| {
        let tiers = [fast.clone(), tier];
        let seen =
            Observed { platform: Some(platform(tiers.to_vec())), ..over_time(observed(vec![s.clone()]), &[&[misses]]) };
        let model = Model::new(&seen, &tiers).unwrap();
        (model.all_in(1) - model.demand.intervals[0].compute) / misses
    };
    let near = |tier, expected: f64| {
        let found = waits(tier);
        assert!((found / expected - 1.0).abs() < 0.03, "{found} for {expected}");
    };
    // A quarter of the latency is waited for, as most of it is another miss's too.
    near(fast.clone(), 0.25 * measured);
    near(timed("far", 1, 1 << 40, 400, 6.4, 6.4), 0.25 * (measured + 300.0));
    near(timed("narrow", 1, 1 << 40, 100, 3.2, 3.2), 0.25 * (measured + 50.0));
}

/// One processor is in one part of an object at a time, so two tiers are no faster together than by turns; several use both at once.
#[test]
fn parts_are_used_by_turns_by_one_processor() {
    let mut s = site(1, 1 << 30, 1e6, 0.0);
    s.pattern = Pattern::Stream { stride: 64 };
    let mut seen = Observed { duration: Nanos(1000), ..observed(vec![s]) };
    let machine = platform(vec![timed("fast", 0, 1 << 31, 100, 6.4, 6.4), timed("slow", 1, 1 << 40, 100, 3.2, 3.2)]);
    let mut half = Shares::all_in(0, 1, 2);
    half.split(0, &[0.5, 0.5]);
    let options = Options::default();
    let times = |seen: &Observed| {
        let task = Task::new(seen, &machine, &options).unwrap();
        [task.model().all_in(0), task.model().all_in(1), task.model().predict(&half).time]
    };
    let cores = |n: u32| Some(Platform { cores: Some(Figure::new(n, Origin::Library)), ..platform(vec![]) });
    seen.platform = cores(1);
    let [fast, slow, both] = times(&seen);
    assert!((both - (fast + slow) / 2.0).abs() < 1.0, "{fast} {slow} {both}");
    seen.platform = cores(8);
    let [fast, _, both] = times(&seen);
    // 5 ms of one bus and 10 of the other, at the same time.
    assert!((both / fast - 1.04).abs() < 0.02, "{fast} {both}");
}

/// What no plan places is asked for too: in the fast tier as far as that has room, everywhere with everything there, and never in the way of
/// a profile that says nothing of it.
#[test]
fn the_rest_lies_where_there_is_room() {
    let mut seen = observed(vec![site(1, 100, 1e5, 0.0)]);
    seen.sites[0].pattern = Pattern::Random;
    let machine = platform(vec![timed("fast", 0, 200, 100, 0.0, 0.0), timed("slow", 1, 1 << 40, 300, 0.0, 0.0)]);
    let options = Options::default();
    let time = |seen: &Observed, at: usize| Task::new(seen, &machine, &options).unwrap().time(&[at]);
    let alone = [time(&seen, 0), time(&seen, 1)];
    seen.rest = Some(Asked { load_misses: 1e5, store_misses: 0.0, pattern: Pattern::Random, lines: None });
    // 400 bytes of it: a quarter finds room beside the site, half without it. Each hundredth of it that is slow takes as long as one of
    // the site's, as they are asked for alike.
    seen.most_anonymous = Some(Bytes(500));
    let slow = alone[1] - alone[0];
    for (at, expected) in [(0, 0.75), (1, 1.5)] {
        let more = (time(&seen, at) - alone[0]) / slow;
        assert!((more - expected).abs() < 0.02, "{at}: {more}");
    }
    let task = Task::new(&seen, &machine, &options).unwrap();
    let all_slow = (task.model().all_in(1) - task.model().all_in(0)) / slow;
    assert!((all_slow - 2.0).abs() < 0.02, "{all_slow}");
    assert!(task.model().notes.iter().any(|n| n.starts_with("50 % of the misses")), "{:?}", task.model().notes);
    // Where its size is not known it is fast.
    seen.most_anonymous = None;
    assert!((time(&seen, 1) - alone[1]).abs() < 0.02 * slow);
    // The kernel gives no HBM to a program that does not ask, however much there is.
    let mut hbm = machine.clone();
    hbm.tiers[0].kind.value = TierKind::Hbm;
    seen.most_anonymous = Some(Bytes(500));
    let task = Task::new(&seen, &hbm, &options).unwrap();
    let more = (task.time(&[0]) - alone[0]) / slow;
    assert!((more - 1.0).abs() < 0.02, "{more}");
}

/// A sampler that measures latency is believed: the same misses with twice the latency leave less time to compute.
#[test]
fn measured_latency_counts_as_waiting() {
    let with = |latency| {
        let mut s = site(1, 100, 1e5, 0.0);
        (s.pattern, s.miss_latency) = (Pattern::Random, latency);
        let seen = over_time(observed(vec![s]), &[&[1e5]]);
        let (machine, options) = (two(1000), Options::default());
        Task::new(&seen, &machine, &options).unwrap().model().demand.intervals[0].compute
    };
    // A second less 1e5 misses, of which 1.0045 wait together; 100 ns are assumed of a machine that is not known.
    let unknown = with(None);
    assert!((unknown - (1e9 - 1e7 / 1.0045)).abs() < 1e4, "{unknown}");
    assert!((with(Some(200.0)) - (1e9 - 2e7 / 1.0045)).abs() < 2e4);
}

/// Where the sampler tells what moves beside misses, buses are as busy as they were, and not as busy as misses make them.
#[test]
fn lines_written_back_and_read_beside_misses_take_the_bus() {
    use hearth_policy::cost::Model;
    fn figure<T>(value: T) -> Figure<T> {
        Figure::new(value, Origin::User)
    }
    let tiers = |write| {
        let mut slow = tier("slow", 1, 1 << 40);
        (slow.latency, slow.read_bandwidth) = (Some(figure(Nanos(100))), Some(figure(GbPerSec(6.4))));
        slow.write_bandwidth = Some(figure(GbPerSec(write)));
        [slow]
    };
    let profile = |lines| {
        let mut s = site(1, 1 << 20, 100_000.0, 0.0);
        (s.pattern, s.lines) = (Pattern::Stream { stride: 64 }, lines);
        Observed { duration: Nanos(1000), ..observed(vec![s]) }
    };
    let time = |lines, write| Model::new(&profile(lines), &tiers(write)).unwrap().all_in(0);
    // 10 ns a line.
    assert!((time(None, 6.4) - 1e6).abs() < 1.0, "{}", time(None, 6.4));
    let lines = |beside, written| Some(Lines { ahead: 1.0, beside, written, alone: None });
    assert!((time(lines(0.5, 0.0), 6.4) - 1.5e6).abs() < 1.0);
    // One bus for both directions, and writes at half the speed: 10 + 20 ns for each miss.
    assert!((time(lines(0.0, 1.0), 3.2) - 3e6).abs() < 1.0, "{}", time(lines(0.0, 1.0), 3.2));
}

/// One processor that works through a split object is in one part of it at a time, one that reads it anywhere keeps both buses busy.
#[test]
fn an_object_in_two_tiers_is_read_from_one_after_the_other_or_at_once() {
    use hearth_policy::cost::{Model, Shares};
    let time = |pattern| {
        let seen = Observed {
            duration: Nanos(1000),
            platform: Some(Platform { cores: Some(Figure::new(1, Origin::User)), ..two(1 << 40) }),
            ..observed(vec![SiteUse { pattern, ..site(1, 1 << 20, 100_000.0, 0.0) }])
        };
        let model =
            Model::new(&seen, &[timed("a", 0, 1 << 40, 10, 6.4, 6.4), timed("b", 1, 1 << 40, 10, 6.4, 6.4)]).unwrap();
        let mut half = Shares::whole(&[0], 2);
        half.split(0, &[0.5, 0.5]);
        model.predict(&half).time / model.all_in(0)
    };
    assert!((time(Pattern::Stream { stride: 64 }) - 1.0).abs() < 1e-3, "{}", time(Pattern::Stream { stride: 64 }));
    // Two buses that take as long overlap as well as anything does: 2^(1/3) halves.
    assert!((time(Pattern::Random) - 0.63).abs() < 0.03, "{}", time(Pattern::Random));
}

/// Only the time in which accesses could be seen is split into computing and waiting; the rest of the run is no time to hide waiting in.
#[test]
fn what_could_not_be_seen_of_a_run_hides_no_bus() {
    use hearth_policy::cost::Model;
    let mut slow = tier("slow", 1, 1 << 40);
    (slow.latency, slow.read_bandwidth) =
        (Some(Figure::new(Nanos(100), Origin::User)), Some(Figure::new(GbPerSec(6.4), Origin::User)));
    let mut s = site(1, 1 << 20, 100_000.0, 0.0);
    s.pattern = Pattern::Stream { stride: 64 };
    let whole = Observed { duration: Nanos(10_000_000), ..observed(vec![s]) };
    let part = Observed { watched: Some((Nanos(4_000_000), Nanos(4_500_000))), ..whole.clone() };
    let time = |o: &Observed| Model::new(o, [&slow]).unwrap().all_in(0);
    // 1 ms of the bus: less than all there is to compute; and twice as long as what was seen, beside the rest.
    assert!((time(&whole) - 10e6).abs() < 1e5, "{}", time(&whole));
    assert!((10.4e6..10.7e6).contains(&time(&part)), "{}", time(&part));
}

/// A split is worth it by the time that a placement can change: a program may set up for a minute what it works on for a second.
#[test]
fn splits_are_weighed_against_the_time_in_which_memory_is_used() {
    let run = |misses: f64| {
        let of = |n, bytes, misses| SiteUse { pattern: Pattern::Random, ..site(n, bytes, misses, 0.0) };
        // Half as hot, and it fits whole.
        let mut seen = observed(vec![of(1, 64 << 20, misses), of(2, 16 << 20, misses / 8.0)]);
        seen.duration = Nanos(60_000_000_000);
        seen.sites.iter_mut().for_each(|s| s.last_free = seen.duration);
        seen.watched = Some((Nanos(0), Nanos(1_000_000_000)));
        seen
    };
    let options = fast(16 << 20);
    let split = |seen: &Observed| {
        let plan = policies::find("exact").unwrap().decide(seen, &two(1 << 40), &options).unwrap();
        plan.sites[0].split.as_ref().map(|s| s.parts.count())
    };
    // A million misses cost 150 ms more in slow memory, of which an eighth is to be had: 2 % of the second, 0.03 % of the minute.
    assert_eq!(split(&run(1e6)), Some(16));
    assert_eq!(split(&run(1e4)), None, "0.02 % of the second");
    // But room that nothing else wants is not left empty.
    let mut alone = run(1e4);
    alone.sites.truncate(1);
    assert_eq!(split(&alone), Some(16));
}
