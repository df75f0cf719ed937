//! Small profiles and platforms, written down by hand.

use model::observed::TimePoint;
use model::*;

/// A site of `peak` bytes with these misses; its id is `n`.
pub fn site(n: u64, peak: u64, load_misses: f64, store_misses: f64) -> SiteUse {
    let module = Module { path: "/usr/bin/app".to_string(), build_id: "ab12".to_string() };
    let source = SourceLine { function: format!("f{n}"), file: "src/app.c".to_string(), line: n as u32, column: 0 };
    SiteUse {
        site: Site {
            kind: model::SiteKind::Allocation,
            id: SiteId(n),
            apart: None,
            frames: vec![Frame { module: Some(module), offset: 0x1000 + n, source: vec![source] }],
        },
        objects: 1,
        largest: Bytes(peak),
        peak: Bytes(peak),
        allocated: Bytes(peak),
        resident: None,
        first_alloc: Nanos(0),
        last_free: Nanos(1_000_000_000),
        mean_lifetime: Nanos(1_000_000_000),
        total_lifetime: Nanos(1_000_000_000),
        load_misses,
        store_misses,
        samples: 10,
        pattern: Pattern::Unknown,
        miss_latency: None,
        lines: None,
        chunks: vec![],
        lives: vec![],
        starts: vec![],
        nodes: vec![],
        placed: vec![],
    }
}

/// A profile of these sites, all alive at once.
pub fn observed(sites: Vec<SiteUse>) -> Observed {
    let live = sites.iter().map(|s| (s.site.id, s.peak)).collect();
    Observed {
        command: vec!["app".to_string(), "--size=2".to_string()],
        started: 1_700_000_000,
        duration: Nanos(1_000_000_000),
        outcome: "exit 0".to_string(),
        threshold: Bytes::kib(4),
        sampler: "page-fault".to_string(),
        sampler_error: String::new(),
        processes: 1,
        platform: None,
        sites,
        unattributed: 0.0,
        elsewhere: Vec::new(),
        timeline: vec![TimePoint { at: Nanos(0), live, misses: vec![], resident: vec![], huge: Bytes(0) }],
        watched: None,
        fullest: None,
        most_anonymous: None,
        rest: None,
        losses: vec![],
        touches: vec![],
        regions: vec![],
        declared: vec![],
        tiers: vec![],
    }
}

/// A tier of `capacity` bytes on node `node`.
pub fn tier(name: &str, node: u32, capacity: u64) -> Tier {
    Tier {
        name: name.to_string(),
        kind: Figure::new(TierKind::Dram, Origin::Kernel),
        nodes: vec![node],
        dir: None,
        capacity: Some(Figure::new(Bytes(capacity), Origin::Kernel)),
        free: None,
        latency: None,
        loaded_latency: None,
        loaded_bandwidth: None,
        read_bandwidth: None,
        write_bandwidth: None,
        mixed_bandwidth: None,
        coefficients: None,
        near_cpus: String::new(),
    }
}

pub fn platform(tiers: Vec<Tier>) -> Platform {
    Platform {
        name: "bench".to_string(),
        description: String::new(),
        source: String::new(),
        llc: None,
        cores: None,
        tiers,
    }
}

/// Name of the tier of site `n`.
pub fn tier_of(plan: &Plan, n: u64) -> &str {
    &plan.sites.iter().find(|s| s.id == SiteId(n)).expect("every site is in the plan").tier
}

/// A tier with figures, so that time can be predicted: latency in ns, GB/s read and written.
pub fn timed(name: &str, node: u32, capacity: u64, latency: u64, read: f64, write: f64) -> Tier {
    let bandwidth = |b: f64| Some(Figure::new(GbPerSec(b), Origin::Library));
    Tier {
        latency: Some(Figure::new(Nanos(latency), Origin::Library)),
        read_bandwidth: bandwidth(read),
        write_bandwidth: bandwidth(write),
        ..tier(name, node, capacity)
    }
}

/// Gives a profile the timeline that these misses make: one row an interval of equal length, one figure a site.
pub fn over_time(mut seen: Observed, misses: &[&[f64]]) -> Observed {
    let each = seen.duration.0 / misses.len() as u64;
    let ids: Vec<SiteId> = seen.sites.iter().map(|s| s.site.id).collect();
    let alive = |at: u64, s: &&SiteUse| s.first_alloc.0 <= at && s.last_free.0 > at;
    let point = |(n, row): (usize, &&[f64])| {
        let at = n as u64 * each;
        TimePoint {
            at: Nanos(at),
            live: seen.sites.iter().filter(|s| alive(at, s)).map(|s| (s.site.id, s.peak)).collect(),
            misses: ids.iter().zip(row.iter()).filter(|(_, m)| **m > 0.0).map(|(id, m)| (*id, *m)).collect(),
            resident: vec![],
            huge: Bytes(0),
        }
    };
    seen.timeline = misses.iter().enumerate().map(point).collect();
    seen
}

/// The tier of each site, in the order of the profile.
pub fn tiers_of<'a>(plan: &'a Plan, seen: &Observed) -> Vec<&'a str> {
    seen.sites.iter().map(|s| tier_of(plan, s.site.id.0)).collect()
}
