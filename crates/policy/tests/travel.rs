//! Several runs as one, and a small run's misses with a large run's sizes.

use crate::common::{self, observed, site};
use hearth_policy::travel::{Merge, merge, resized};
use hearth_policy::{Capacity, Error, Options, policies};
use model::observed::{Memory, Region, TimePoint};
use model::*;

const MIB: u64 = 1 << 20;

fn id(n: u64) -> SiteId {
    SiteId(n)
}

/// The same sites as another build names them: other ids and offsets, the same lines.
fn rebuilt(mut o: Observed) -> Observed {
    for s in &mut o.sites {
        s.site.id = SiteId(s.site.id.0 + 1000);
        s.site.frames[0].offset += 0x40;
        s.site.frames[0].module.as_mut().unwrap().build_id = "cd34".to_string();
    }
    for p in &mut o.timeline {
        p.live.iter_mut().for_each(|(s, _)| s.0 += 1000);
        p.misses.iter_mut().for_each(|(s, _)| s.0 += 1000);
    }
    o.declared.iter_mut().for_each(|(_, site)| site.0 += 1000);
    o
}

fn found(o: &Observed, n: u64) -> &SiteUse {
    o.sites.iter().find(|s| s.site.id == id(n)).unwrap_or_else(|| panic!("no site {n}"))
}

#[test]
fn ranks_add_up_and_runs_are_averaged() {
    let a = observed(vec![site(1, 8 * MIB, 3000.0, 100.0), site(2, 4 * MIB, 100.0, 0.0)]);
    let b = observed(vec![site(1, 4 * MIB, 1000.0, 300.0), site(3, 2 * MIB, 50.0, 0.0)]);
    let (sum, notes) = merge(&a, std::slice::from_ref(&b), Merge::Sum).unwrap();
    let one = found(&sum, 1);
    assert_eq!((one.peak, one.load_misses, one.store_misses, one.objects), (Bytes(12 * MIB), 4000.0, 400.0, 2));
    assert_eq!((found(&sum, 2).peak, found(&sum, 3).peak), (Bytes(4 * MIB), Bytes(2 * MIB)));
    assert_eq!((sum.processes, sum.peak(), sum.duration), (2, Bytes(18 * MIB), a.duration));
    assert_eq!(notes, ["Of the sites of profile 2 1 were found by id, 0 by source form, and 1 are in no other."]);
    let (mean, _) = merge(&a, &[b], Merge::Mean).unwrap();
    let one = found(&mean, 1);
    assert_eq!((one.peak, one.load_misses, one.store_misses), (Bytes(6 * MIB), 2000.0, 200.0));
    // One that is in one run of two counts half.
    assert_eq!((found(&mean, 3).peak, found(&mean, 3).load_misses, mean.processes), (Bytes(MIB), 25.0, 1));
    assert_eq!(mean.peak(), Bytes(9 * MIB));
}

/// Runs of different lengths are laid over each other part by part, ranks moment by moment; no miss is lost.
#[test]
fn timelines_are_laid_over_each_other() {
    let point = |at: u64, bytes: u64, misses: f64| TimePoint {
        at: Nanos(at),
        live: vec![(id(1), Bytes(bytes))],
        misses: vec![(id(1), misses)],
        resident: vec![],
        huge: Bytes(0),
    };
    let run = |length: u64| {
        let timeline = (0..4).map(|n| point(n * length / 4, (n + 1) * 100, 10.0 * (n + 1) as f64)).collect();
        Observed { duration: Nanos(length), timeline, ..observed(vec![site(1, 400, 100.0, 0.0)]) }
    };
    let misses = |o: &Observed| o.timeline.iter().map(|p| p.misses.iter().map(|m| m.1).sum()).collect::<Vec<f64>>();
    let live = |o: &Observed| o.timeline.iter().map(|p| p.live.iter().map(|l| l.1.0).sum()).collect::<Vec<u64>>();
    let (mean, _) = merge(&run(1000), &[run(3000)], Merge::Mean).unwrap();
    assert_eq!(
        (mean.duration, misses(&mean), live(&mean)),
        (Nanos(2000), vec![10.0, 20.0, 30.0, 40.0], vec![100, 200, 300, 400])
    );
    let (sum, _) = merge(&run(2000), &[run(4000)], Merge::Sum).unwrap();
    assert_eq!((sum.duration, live(&sum)), (Nanos(4000), vec![300, 600, 300, 400]));
    assert_eq!(misses(&sum), vec![40.0, 90.0, 30.0, 40.0]);
    let (same, notes) = merge(&run(1000), &[], Merge::Sum).unwrap();
    assert_eq!((misses(&same), notes), (misses(&run(1000)), vec![]));
}

/// A rank's run: ten phases in turn, of which the one reads its first site and the other its second one. It began so long after the
/// others, and is so fast.
fn rank(late: u64, pace: f64) -> Observed {
    const PHASE: f64 = 1e8;
    let sites = vec![site(1, 4 * MIB, 5e6, 0.0), site(2, 4 * MIB, 5e6, 0.0)];
    let duration = Nanos(late + (10.0 * PHASE * pace) as u64);
    let begins = |n: u64| Region {
        id: id(100 + n % 2),
        number: n / 2 + 1,
        at: Nanos(late + (n as f64 * PHASE * pace) as u64),
        frames: site(100 + n % 2, 0, 0.0, 0.0).site.frames,
    };
    let each = (PHASE * pace / 10.0) as u64;
    let point = |n: u64| {
        let at = n * each;
        let phase = at.saturating_sub(late) / (PHASE * pace) as u64;
        let misses = if at < late { vec![] } else { vec![(id(1 + phase % 2), 1e5)] };
        TimePoint { at: Nanos(at), live: vec![(id(1), Bytes(MIB))], misses, resident: vec![], huge: Bytes(0) }
    };
    let timeline = (0..duration.0.div_ceil(each)).map(point).collect();
    Observed { duration, timeline, regions: (0..10).map(begins).collect(), ..observed(sites) }
}

/// Whichever rank started first, and however fast each was: phases of the merged profile are those of each of them.
#[test]
fn phases_of_ranks_line_up() {
    let ranks = [rank(0, 1.0), rank(270_000_000, 1.0), rank(40_000_000, 1.3)];
    for how in [Merge::Sum, Merge::Mean] {
        let (merged, _) = merge(&ranks[0], &ranks[1..], how).unwrap();
        assert_eq!(merged.regions.len(), 10, "{how:?}");
        // In the middle of each phase only what it uses is asked for.
        let length = merged.regions[1].at.0 - merged.regions[0].at.0;
        for (n, phase) in merged.regions.iter().enumerate() {
            let middle = phase.at.0 + length / 2;
            let point = merged.timeline.iter().rfind(|p| p.at.0 <= middle).unwrap();
            assert!(
                point.misses.iter().all(|(s, m)| *m == 0.0 || *s == id(1 + n as u64 % 2)),
                "{how:?} {n}: {point:?}"
            );
            assert!(!point.misses.is_empty(), "{how:?} {n}");
        }
        let all: f64 = merged.timeline.iter().flat_map(|p| &p.misses).map(|m| m.1).sum();
        let told: f64 = ranks.iter().flat_map(|r| &r.timeline).flat_map(|p| &p.misses).map(|m| m.1).sum();
        let told = if how == Merge::Mean { told / 3.0 } else { told };
        assert!((all - told).abs() < told * 1e-9, "{how:?}: {all} of {told}");
    }
}

/// A rank of another build has other numbers for the same phases.
#[test]
fn phases_of_another_build_are_found_by_their_source() {
    let mut other = rebuilt(rank(270_000_000, 1.0));
    other.regions.iter_mut().for_each(|r| r.id.0 += 5000);
    let first = rank(0, 1.0);
    let (same, _) = merge(&first, &[rank(270_000_000, 1.0)], Merge::Sum).unwrap();
    let (found, _) = merge(&first, &[other], Merge::Sum).unwrap();
    assert_eq!((found.timeline, found.regions), (same.timeline, same.regions));
}

/// What the program has declared stays declared, by the names that its sites have now.
#[test]
fn declarations_are_everybodys() {
    let of = |site: u64| Observed { declared: vec![(id(7), id(site))], ..rank(0, 1.0) };
    let (merged, _) = merge(&of(1), &[rebuilt(of(2))], Merge::Mean).unwrap();
    // The other build's site 2 is site 1002 there.
    assert_eq!(merged.declared, [(id(7), id(1)), (id(7), id(2))]);
}

#[test]
fn sites_of_another_build_are_found_by_their_source() {
    let a = observed(vec![site(1, 8 * MIB, 3000.0, 0.0), site(2, 4 * MIB, 100.0, 0.0)]);
    let mut b = rebuilt(a.clone());
    b.sites.push(site(77, MIB, 1.0, 0.0));
    let (sum, notes) = merge(&a, &[b], Merge::Sum).unwrap();
    assert_eq!((found(&sum, 1).load_misses, found(&sum, 2).load_misses, sum.sites.len()), (6000.0, 200.0, 3));
    assert_eq!(sum.timeline[0].live.iter().find(|l| l.0 == id(1)).unwrap().1, Bytes(16 * MIB));
    assert_eq!(notes, ["Of the sites of profile 2 0 were found by id, 2 by source form, and 1 are in no other."]);
    // Two sites of one source form: the hotter one is meant.
    let mut twice = a.clone();
    let mut twin = site(9, MIB, 5000.0, 0.0);
    twin.site.frames[0].source = twice.sites[0].site.frames[0].source.clone();
    twice.sites.push(twin);
    let (sum, notes) = merge(&twice, &[rebuilt(a)], Merge::Sum).unwrap();
    assert_eq!(found(&sum, 9).load_misses, 8000.0);
    assert!(notes[0].contains("2 by source form (1 of them fit several, of which the hottest was taken)"), "{notes:?}");
}

#[test]
fn profiles_with_and_without_samples_are_not_merged() {
    let a = observed(vec![site(1, MIB, 10.0, 0.0)]);
    let blind = Observed { sampler: "none".into(), ..observed(vec![site(1, MIB, 0.0, 0.0)]) };
    let error = merge(&a, &[a.clone(), blind.clone()], Merge::Mean).unwrap_err();
    assert_eq!(error, Error::NotAlike { number: 3, without: true });
    assert!(error.to_string().starts_with("profile 3 has no access samples and the first has some: "), "{error}");
    assert!(matches!(resized(&blind, &a), Err(Error::NoSamples { .. })));
    let stranger = observed(vec![site(77, MIB, 0.0, 0.0)]);
    assert_eq!(resized(&a, &stranger), Err(Error::Strangers));
}

/// A site that is four times as large has four times the misses; one that stays the same does not; and the plan is of the larger run.
#[test]
fn a_small_run_says_where_a_large_one_is_hot() {
    let mut small =
        observed(vec![site(1, 4 * MIB, 4000.0, 400.0), site(2, 8 * MIB, 800.0, 0.0), site(5, MIB, 10.0, 0.0)]);
    small.platform = Some(common::platform(vec![common::tier("here", 3, 1 << 30)]));
    small.sites[0].nodes = vec![(3, Bytes(4 * MIB))];
    let asked = Asked { load_misses: 100.0, store_misses: 50.0, pattern: Pattern::Random, lines: None };
    small.rest = Some(asked);
    let mut large =
        rebuilt(observed(vec![site(1, 16 * MIB, 0.0, 0.0), site(2, 8 * MIB, 0.0, 0.0), site(7, MIB, 0.0, 0.0)]));
    large.sampler = "none".into();
    large.duration = Nanos(100_000_000);
    large.fullest = Some(Memory { at: Nanos(50_000_000), anonymous: Bytes(30 * MIB), huge: Bytes(0) });
    large.timeline[0].resident = vec![(id(1001), Bytes(16 * MIB)), (id(1002), Bytes(10 * MIB))];
    let (both, notes) = resized(&small, &large).unwrap();
    let one = found(&both, 1001);
    assert_eq!((one.peak, one.load_misses, one.store_misses, one.samples), (Bytes(16 * MIB), 16_000.0, 1600.0, 10));
    assert_eq!((found(&both, 1002).load_misses, found(&both, 1007).load_misses), (800.0, 0.0));
    assert_eq!(both.sampler, "page-fault");
    let longer = (17_600.0 + 800.0) / (4400.0 + 800.0 + 10.0);
    assert!((both.duration.0 as f64 / 1e9 - longer).abs() < 1e-6, "{:?}", both.duration);
    // Times are of the machine that the misses were seen on, and so is where pages were.
    assert_eq!((&both.platform, &one.nodes), (&small.platform, &small.sites[0].nodes));
    let rest = both.rest.expect("what was missed elsewhere");
    assert!((rest.load_misses - 100.0 * longer).abs() < 1e-6 && (rest.store_misses - 50.0 * longer).abs() < 1e-6);
    // Of the 30 MiB of the large run 4 were of no site; the small run, from which the timeline is, was never read.
    assert_eq!(hearth_policy::cost::rest::size(&both), Some(Bytes(4 * MIB)));
    assert_eq!(both.timeline[0].live.len(), 2);
    assert!(notes[0].contains("0 were found by id, 2 by source form, and 1 are in no other"), "{notes:?}");
    assert!(notes[1].starts_with("1 of the profile's sites, with 0.2% of its misses, are not in"), "{notes:?}");
    let options = Options { fast: Some(Capacity::Size(Bytes(16 * MIB))), ..Options::default() };
    let platform = common::platform(vec![common::tier("dram", 0, 1 << 30), common::tier("nvm", 1, 1 << 30)]);
    let plan = policies::find("density").unwrap().decide(&both, &platform, &options).unwrap();
    let place = |n: u64| plan.sites.iter().find(|s| s.id == id(n)).map(|s| s.tier.clone()).unwrap();
    assert_eq!((place(1001), place(1002)), ("dram".to_string(), "nvm".to_string()));
}

/// Two objects of one stack that one profile tells apart, and another one does not: of the stack both know.
#[test]
fn what_one_profile_does_not_tell_apart_is_taken_by_the_stack() {
    let apart = |peak, misses| {
        let mut s = site(11, peak, misses, 0.0);
        (s.site.apart, s.site.frames) = (Some(Apart { stack: id(1), number: 1 }), site(1, 0, 0.0, 0.0).site.frames);
        s
    };
    let told = observed(vec![site(1, 4 * MIB, 100.0, 0.0), apart(8 * MIB, 300.0), site(2, MIB, 50.0, 0.0)]);
    let told = common::over_time(told, &[&[60.0, 0.0, 25.0], &[40.0, 300.0, 25.0]]);
    let whole = observed(vec![site(1, 24 * MIB, 800.0, 0.0), site(2, MIB, 50.0, 0.0)]);
    // A larger run in which they are apart: each has the misses that its bytes have on the average, and so the other way about.
    for (rates, sizes, misses) in [(&whole, &told, 400.0), (&told, &whole, 800.0)] {
        let (both, _) = resized(rates, sizes).unwrap();
        assert_eq!(both.sites.len(), 2, "{:?}", both.sites);
        assert!((found(&both, 1).load_misses - misses).abs() < 1e-6, "{}", found(&both, 1).load_misses);
        assert!(both.timeline.iter().flat_map(|p| &p.misses).all(|(s, _)| *s != id(11)));
    }
    let (merged, _) = merge(&told, std::slice::from_ref(&whole), Merge::Sum).unwrap();
    assert_eq!((merged.sites.len(), found(&merged, 1).load_misses), (2, 1200.0));
    // Where both tell it, or the other has no such stack at all, it stays.
    for other in [told.clone(), observed(vec![site(2, MIB, 50.0, 0.0)])] {
        let (merged, _) = merge(&told, &[other], Merge::Sum).unwrap();
        assert!(merged.sites.iter().any(|s| s.site.id == id(11)), "{:?}", merged.sites);
    }
}
