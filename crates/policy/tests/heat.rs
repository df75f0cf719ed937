//! Which parts of large objects are hot.

use crate::common::{observed, over_time, platform, site, timed};
use hearth_policy::cost::Shares;
use hearth_policy::cost::heat::Heat;
use hearth_policy::policies::exact;
use hearth_policy::{Options, Task};
use model::{Bytes, Chunk, Parts, SiteKind, SiteUse, SizeClass};
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// One object of a size, whose chunks have these misses, and so many samples each.
fn chunked(size: u64, misses: impl Fn(u64) -> f64, samples: u64) -> SiteUse {
    let class = SizeClass::of(Bytes(size)).unwrap();
    let chunk = |at: model::ChunkAt| Chunk {
        class: class.least(),
        offset: at.offset(),
        size: class.chunk(),
        peak: class.chunk(),
        resident: None,
        load_misses: misses(at.number() as u64),
        store_misses: 0.0,
        samples,
    };
    let chunks: Vec<Chunk> = class.all().filter(|at| at.offset().0 < size).map(chunk).collect();
    let samples = chunks.iter().map(|c| c.samples).sum();
    SiteUse {
        samples,
        ..SiteUse { chunks: chunks.clone(), ..site(1, size, chunks.iter().map(Chunk::misses).sum(), 0.0) }
    }
}

#[test]
fn a_hot_eighth_is_found_and_chance_is_not_believed() {
    // 128 MiB in 16 chunks, two of them hot.
    let hot = chunked(128 * MIB, |n| if n == 6 || n == 7 { 900.0 } else { 10.0 }, 20);
    let heat = Heat::of(&hot, 1.0).unwrap();
    let pieces = heat.pieces();
    assert_eq!(pieces[0].parts, (24..32).collect::<Vec<u32>>());
    assert_eq!(pieces.iter().map(|p| p.parts.len()).sum::<usize>(), 64);
    assert!((pieces[0].misses - 1800.0 / 1940.0).abs() < 1e-9 && pieces.len() == 2, "{pieces:?}");
    // Room for three eighths of the hottest piece, then for all of it and a part of the other.
    let some = Heat::parts(&pieces, &[0.375, 0.0]).unwrap();
    assert_eq!((some.to_string(), some.count()), ("24-26".into(), 3));
    let more = Heat::parts(&pieces, &[1.0, 0.03]).unwrap();
    assert_eq!(more.to_string(), "0, 24-31");
    assert!((heat.share(more) - (1800.0 + 2.5) / 1940.0).abs() < 1e-9);
    // What is not whole in two pieces is whole in the hotter one.
    assert_eq!(Heat::parts(&pieces, &[0.9, 0.015]).unwrap().to_string(), "24-31");

    let even = chunked(128 * MIB, |n| 100.0 + (n % 5) as f64 * 8.0, 10);
    assert_eq!(Heat::of(&even, 1.0), None, "such differences are chance with so few samples");
    let uneven = chunked(128 * MIB, |n| 100.0 + (n % 5) as f64 * 8.0, 10_000);
    assert!(Heat::of(&uneven, 1.0).is_some(), "and are none with many");
}

/// A static array of 128 MiB for the largest problem: this one has used two stretches of 16 MiB of it.
#[test]
fn what_was_never_touched_takes_no_room() {
    let stretches = chunked(128 * MIB, |n| if n % 8 < 2 { 1e6 } else { 0.0 }, 100);
    let heat = Heat::of(&stretches, 0.25).unwrap();
    let pieces = heat.pieces();
    let told: Vec<(usize, f64, f64)> = pieces.iter().map(|p| (p.parts.len(), p.misses, p.bytes)).collect();
    assert_eq!(told, [(16, 1.0, 1.0), (48, 0.0, 0.0)]);
    assert_eq!(Heat::parts(&pieces, &[0.5, 1.0]).unwrap().to_string(), "0-7", "half of what there is");
    assert!((heat.bytes(Parts::of_mask(0xff).unwrap()) - 0.5).abs() < 1e-9);
    // Half as much again is there and cold.
    let pieces = Heat::of(&stretches, 0.375).unwrap().pieces();
    assert!((pieces[0].bytes - 2.0 / 3.0).abs() < 1e-9 && (pieces[1].bytes - 1.0 / 3.0).abs() < 1e-9, "{pieces:?}");
    // The planner gives it as much as fits, and no more.
    let mut site = stretches;
    (site.site.kind, site.resident) = (SiteKind::Static, Some(Bytes(32 * MIB)));
    let misses = [site.misses()];
    let seen = over_time(observed(vec![site]), &[&misses]);
    let tiers = vec![timed("dram", 0, 12 * MIB, 100, 50.0, 50.0), timed("cxl", 1, 1 << 40, 300, 10.0, 10.0)];
    let (machine, options) = (platform(tiers), Options::default());
    let task = Task::new(&seen, &machine, &options).unwrap();
    let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
    let shares = solved.decision.shares(&task);
    assert!((shares.of(0)[0] - 0.375).abs() < 1e-6, "{shares:?}");
}

#[test]
fn sites_of_several_sizes_and_small_ones_have_no_parts_to_choose() {
    let hot = |n: u64| if n == 0 { 900.0 } else { 1.0 };
    let mut two = chunked(128 * MIB, hot, 100);
    two.objects = 2;
    assert_eq!(Heat::of(&two, 1.0), None);
    let mut small = chunked(32 * MIB, hot, 100);
    small.largest = Bytes(16 * MIB);
    assert_eq!(Heat::of(&small, 1.0), None);
    let mut elsewhere = chunked(128 * MIB, hot, 100);
    elsewhere.load_misses *= 2.0;
    assert_eq!(Heat::of(&elsewhere, 1.0), None, "half of the misses are of no chunk");
    // An object that ends within a chunk: its parts are smaller, and none is lost.
    let cut = Heat::of(&chunked(97 * MIB, hot, 100), 1.0).unwrap();
    assert!(
        (cut.share(Parts::of_mask(u64::MAX >> 1).unwrap()) + cut.share(Parts::of_mask(1 << 63).unwrap()) - 1.0).abs()
            < 1e-9
    );
}

/// Against every choice of whole chunks of two objects.
#[test]
fn exact_takes_the_hottest_parts_of_each_object() {
    // 64 MiB in 16 chunks of 4 MiB each: a hot quarter in the one, a warm half in the other.
    let one = chunked(64 * MIB, |n| if (4..8).contains(&n) { 3e6 } else { 2e4 }, 1000);
    let mut two = chunked(64 * MIB, |n| if n % 2 == 1 { 6e5 } else { 1e5 }, 1000);
    two.site.id = model::SiteId(2);
    let misses = [one.misses(), two.misses()];
    let seen = over_time(observed(vec![one, two]), &[&misses]);
    for budget in [6, 16, 24, 40, 70] {
        let tiers = vec![timed("dram", 0, budget * MIB, 100, 50.0, 50.0), timed("cxl", 1, 1 << 40, 300, 10.0, 10.0)];
        let (machine, options) = (platform(tiers), Options::default());
        let task = Task::new(&seen, &machine, &options).unwrap();
        let solved = exact::solve(&task, Duration::from_secs(10)).unwrap();
        let shares = solved.decision.shares(&task);
        assert!(task.lives().peak_in(0, &shares) <= budget * MIB, "it does not fit");
        assert!((task.model().predict(&shares).time / solved.time - 1.0).abs() < 1e-9);
        // Chunks of one object are equally hot or equally cold: their numbers are all there is to choose.
        let (mut best, hot) = (f64::INFINITY, [(4, 8), (8, 8)]);
        let part = |site: usize, (h, c): (u64, u64)| {
            let (heat, all) = (task.heat(site).unwrap(), hot[site]);
            let first = |n: u64, of: u64, is_hot: bool| -> u64 {
                let chunks = (0..16).filter(|&n| (if site == 0 { (4..8).contains(&n) } else { n % 2 == 1 }) == is_hot);
                assert!(n <= of);
                chunks.take(n as usize).map(|n| 0xf << (4 * n)).sum()
            };
            let mask = first(h, all.0, true) | first(c, all.1 + if site == 0 { 4 } else { 0 }, false);
            let misses = Parts::of_mask(mask).map_or(if mask == 0 { 0.0 } else { 1.0 }, |p| heat.share(p));
            (misses, (h + c) as f64 / 16.0)
        };
        for code in 0..5 * 13 * 9 * 9u64 {
            let a = part(0, (code % 5, code / 5 % 13));
            let b = part(1, (code / 65 % 9, code / 585));
            let mut shares = Shares::all_in(1, 2, 2);
            shares.split_by_heat(0, &[a.0, 1.0 - a.0], &[a.1, 1.0 - a.1]);
            shares.split_by_heat(1, &[b.0, 1.0 - b.0], &[b.1, 1.0 - b.1]);
            if task.lives().peak_in(0, &shares) <= budget * MIB {
                let time = task.model().predict(&shares).time;
                assert!(solved.bound <= time * 1.000_001, "the bound {} is above a placement of {time}", solved.bound);
                best = best.min(time);
            }
        }
        assert!(solved.time <= best * 1.005, "{budget} MiB: {} instead of {best}", solved.time);
        if budget == 16 {
            let parts = solved.decision.placements[0].split.unwrap().0;
            assert_eq!(parts.to_string(), "16-31", "the hot quarter");
        }
    }
}
