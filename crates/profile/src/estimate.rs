//! From armed pages to cache misses: how often each site misses the last-level cache, estimated from what the
//! page-fault sampler saw. A pure function; no database, no clock.
//!
//! 1. **Visit rate.** A random page of a live object is armed and waited for. Visits divided by the time pages were
//!    exposed is the rate at which one page of the site is visited (maximum likelihood with censoring at the quiet
//!    ones). For pages visited at random intervals that is unbiased. A *stream* comes by periodically: a first wait
//!    is half a period on average, so `m` visits in a row to one page read high by `m / (m - 1/2)`; here the first
//!    visit of a row counts `1 - p/2`, where `p` is the share of first armings that were visited at all (with `p`
//!    near 0 the wait was cut off by the limit and not by the period, and a first visit counts whole), and the gap
//!    between a visit and the next arming belongs to the period.
//! 2. **Lines per visit.** A stepped burst counts the distinct lines of a visit. A burst that ran in one direction
//!    is a stream; if it ended at its limit, it would have gone on to the end of the page: 64 lines for strides up to
//!    64 B, `4096 / |stride|` beyond. The burst's own time is part of the time between visits.
//! 3. **Cache filter.** H. Che, Y. Tung, Z. Wang, "Hierarchical Web caching systems: modeling, design and
//!    experimental results", IEEE JSAC 20(7), 2002: in an LRU cache of `C` lines a line referenced at rate `lambda`
//!    is found with probability `1 - exp(-lambda Tc)`, with one `Tc` for all, such that the expected number of lines
//!    present, `sum lines_i (1 - exp(-lambda_i Tc))`, is `C`. Misses are the references that are not found.
//!
//! Steps 1 and 3 are done for windows of the run with enough visits each; in a window with few visits of a site the
//! rate is drawn towards that site's rate over the whole run.

use model::Pattern;
use std::collections::HashMap;

/// Bytes of a page and of a cache line on the machines Hearth runs on.
pub const PAGE: u64 = 4096;
const LINE: u64 = 64;
const LINES_PER_PAGE: f64 = (PAGE / LINE) as f64;

/// Visits (all sites together) that make a window worth its own rates: at 500 of them, a site with a tenth of the
/// visits is known to 14 %.
const VISITS_PER_WINDOW: usize = 500;
/// Weight, in visits, of a site's rate over the whole run against what its window saw.
const PRIOR_VISITS: f64 = 8.0;

/// What a stepped burst saw.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Accesses stepped.
    pub accesses: u32,
    /// Of them stores.
    pub stores: u32,
    /// Distinct lines.
    pub lines: u32,
    /// All in one direction.
    pub monotonic: bool,
    /// Ended at the limit of accesses.
    pub limited: bool,
    /// Mean distance between accesses, in bytes.
    pub stride: i64,
    /// How long it took.
    pub ns: u64,
}

/// One page armed for one time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exposure {
    /// Process, as any number that tells processes apart.
    pub process: i64,
    /// Address of the page.
    pub page: u64,
    /// When it was touched or disarmed, ns since the start of the run.
    pub end_ns: u64,
    /// How long it was armed.
    pub wait_ns: u64,
    /// The access that ended it; `None` if it stayed untouched.
    pub visit: Option<Visit>,
}

/// A first access to an armed page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// It was a store.
    pub store: bool,
    /// What was stepped after it.
    pub burst: Option<Burst>,
}

/// A site's samples and its live memory.
#[derive(Clone, Debug, Default)]
pub struct SiteSamples {
    /// All exposures, in any order.
    pub exposures: Vec<Exposure>,
    /// Page-seconds alive in each interval of the run.
    pub page_seconds: Vec<f64>,
}

/// What is estimated for a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteEstimate {
    /// Load misses over the run.
    pub load_misses: f64,
    /// Store misses over the run.
    pub store_misses: f64,
    /// Visits it rests on.
    pub samples: u64,
    /// How the site is walked over.
    pub pattern: Pattern,
    /// Misses in each interval.
    pub misses: Vec<f64>,
}

/// Estimates all sites of a run together (they share the cache). `interval_s` is the length of one interval of
/// [`SiteSamples::page_seconds`], `llc` the size of the last-level cache in bytes.
pub fn estimate(sites: &[SiteSamples], interval_s: f64, llc: u64) -> Vec<SiteEstimate> {
    let intervals = sites.iter().map(|s| s.page_seconds.len()).max().unwrap_or(0);
    let visits: usize = sites.iter().map(|s| s.exposures.iter().filter(|e| e.visit.is_some()).count()).sum();
    if intervals == 0 || interval_s <= 0.0 {
        return vec![SiteEstimate::default(); sites.len()];
    }
    let windows = (visits / VISITS_PER_WINDOW).clamp(1, intervals);
    let window_of = |interval: usize| interval * windows / intervals;
    let interval_of = |ns: u64| ((ns as f64 / 1e9 / interval_s) as usize).min(intervals - 1);

    let walks = walks(sites);
    let rates: Vec<Vec<f64>> = sites
        .iter()
        .zip(&walks)
        .map(|(site, walk)| {
            let mut seen = vec![(0.0, 0.0); windows];
            for (e, (count, seconds)) in weigh(&site.exposures, walk) {
                let w = &mut seen[window_of(interval_of(e.end_ns))];
                w.0 += count;
                w.1 += seconds;
            }
            let (count, seconds) = seen.iter().fold((0.0, 0.0), |a, w| (a.0 + w.0, a.1 + w.1));
            if count <= 0.0 || seconds <= 0.0 {
                return vec![0.0; windows];
            }
            let overall = count / seconds;
            seen.iter().map(|&(n, s)| (n + PRIOR_VISITS) / (s + PRIOR_VISITS / overall)).collect()
        })
        .collect();

    let mut out: Vec<SiteEstimate> = sites
        .iter()
        .zip(&walks)
        .map(|(site, walk)| SiteEstimate {
            samples: site.exposures.iter().filter(|e| e.visit.is_some()).count() as u64,
            pattern: walk.pattern,
            misses: vec![0.0; intervals],
            ..SiteEstimate::default()
        })
        .collect();
    for window in 0..windows {
        let members: Vec<usize> = (0..intervals).filter(|&i| window_of(i) == window).collect();
        let seconds = members.len() as f64 * interval_s;
        let alive = |s: &SiteSamples, i: usize| s.page_seconds.get(i).copied().unwrap_or(0.0);
        // Lines alive on average in the window, and references per line and second.
        let lines: Vec<f64> = sites
            .iter()
            .map(|s| members.iter().map(|&i| alive(s, i)).sum::<f64>() / seconds * LINES_PER_PAGE)
            .collect();
        let lambda: Vec<f64> =
            rates.iter().zip(&walks).map(|(rate, walk)| rate[window] * walk.lines / LINES_PER_PAGE).collect();
        let tc = characteristic_time(&lines, &lambda, llc as f64 / LINE as f64);
        for ((site, out), &lambda) in sites.iter().zip(&mut out).zip(&lambda) {
            // A site without references has none that miss, even if all that is referenced fits (`tc` infinite).
            let per_page_second = if lambda > 0.0 { lambda * LINES_PER_PAGE * (-lambda * tc).exp() } else { 0.0 };
            for &i in &members {
                out.misses[i] = per_page_second * alive(site, i);
            }
        }
    }
    for (e, walk) in out.iter_mut().zip(&walks) {
        let total: f64 = e.misses.iter().sum();
        e.store_misses = total * walk.store_share;
        e.load_misses = total - e.store_misses;
    }
    out
}

/// How a site is walked, from its bursts.
struct Walk {
    pattern: Pattern,
    /// Distinct lines of one visit.
    lines: f64,
    /// Mean length of a burst, spread over all visits.
    burst_s: f64,
    /// Share of stores.
    store_share: f64,
}

fn walks(sites: &[SiteSamples]) -> Vec<Walk> {
    let bursts = |s: &SiteSamples| -> Vec<Burst> {
        s.exposures.iter().filter_map(|e| e.visit?.burst).filter(|b| b.accesses > 0).collect()
    };
    // A site whose visits were never stepped is taken to be walked like the average visit.
    let all: Vec<f64> = sites.iter().flat_map(bursts).map(|b| lines_of(&b).0).collect();
    let usual = if all.is_empty() { 1.0 } else { all.iter().sum::<f64>() / all.len() as f64 };
    sites
        .iter()
        .map(|site| {
            let visits: Vec<Visit> = site.exposures.iter().filter_map(|e| e.visit).collect();
            let bursts = bursts(site);
            let n = bursts.len() as f64;
            let stores: f64 = visits
                .iter()
                .map(|v| match v.burst.filter(|b| b.accesses > 0) {
                    Some(b) => f64::from(b.stores.min(b.accesses)) / f64::from(b.accesses),
                    None => f64::from(u8::from(v.store)),
                })
                .sum();
            let store_share = if visits.is_empty() { 0.0 } else { stores / visits.len() as f64 };
            if bursts.is_empty() {
                return Walk { pattern: Pattern::Unknown, lines: usual, burst_s: 0.0, store_share };
            }
            let mut strides: Vec<i64> = bursts.iter().filter(|b| lines_of(b).1).map(|b| b.stride).collect();
            strides.sort_unstable();
            let pattern = match strides.len() as f64 / n {
                share if share >= 0.7 => Pattern::Stream { stride: strides[strides.len() / 2] },
                share if share <= 0.3 => Pattern::Random,
                _ => Pattern::Mixed,
            };
            let lines = bursts.iter().map(|b| lines_of(b).0).sum::<f64>() / n;
            let burst_s = bursts.iter().map(|b| b.ns as f64).sum::<f64>() / 1e9 / visits.len() as f64;
            Walk { pattern, lines, burst_s, store_share }
        })
        .collect()
}

/// Lines of the visit a burst stands for, and whether it walks the page in order.
fn lines_of(b: &Burst) -> (f64, bool) {
    let stride = b.stride.unsigned_abs();
    let span = stride * u64::from(b.accesses.saturating_sub(1));
    // A stencil reads ahead and back again but moves on: its net way covers the lines it touched.
    let drifts = b.lines >= 2 && span as f64 >= 0.8 * f64::from(b.lines - 1) * LINE as f64;
    let walked = stride > 0 && (b.monotonic || drifts);
    if walked && b.limited {
        ((PAGE / stride.clamp(LINE, PAGE)) as f64, true)
    } else {
        // Not stopped by the limit: what was seen is the whole visit. Half a page in order is a stream too.
        (f64::from(b.lines.max(1)), walked && span >= PAGE / 2)
    }
}

/// Each exposure with what it adds to visits and to exposed seconds (step 1 of the module's text).
fn weigh<'a>(exposures: &'a [Exposure], walk: &Walk) -> Vec<(&'a Exposure, (f64, f64))> {
    let seconds = |e: &Exposure| e.wait_ns as f64 / 1e9;
    if !matches!(walk.pattern, Pattern::Stream { .. }) {
        let weight = |e: &Exposure| match e.visit {
            Some(_) => (1.0, seconds(e) + walk.burst_s),
            None => (0.0, seconds(e)),
        };
        return exposures.iter().map(|e| (e, weight(e))).collect();
    }
    let mut rows: HashMap<(i64, u64), Vec<&Exposure>> = HashMap::new();
    for e in exposures {
        rows.entry((e.process, e.page)).or_default().push(e);
    }
    // (exposure, gap to the visit of the same page it follows in a row, if it does)
    let mut linked: Vec<(&Exposure, Option<u64>)> = Vec::with_capacity(exposures.len());
    for row in rows.values_mut() {
        row.sort_by_key(|e| e.end_ns);
        let mut before: Option<&Exposure> = None;
        for e in row.iter() {
            let armed = e.end_ns.saturating_sub(e.wait_ns);
            // A wait is at most a period. If the gap is at most half of the wait, no visit can have gone unseen in it.
            let gap = before.filter(|b| b.visit.is_some()).map(|b| armed.saturating_sub(b.end_ns));
            linked.push((e, gap.filter(|&gap| gap <= e.wait_ns / 2)));
            before = Some(e);
        }
    }
    let first = || linked.iter().filter(|(_, gap)| gap.is_none());
    let visited = first().filter(|(e, _)| e.visit.is_some()).count() as f64 / first().count().max(1) as f64;
    linked
        .into_iter()
        .filter_map(|(e, gap)| match (e.visit, gap) {
            (Some(_), None) => Some((e, (1.0 - visited / 2.0, seconds(e)))),
            (Some(_), Some(gap)) => Some((e, (1.0, seconds(e) + gap as f64 / 1e9))),
            (None, None) => Some((e, (0.0, seconds(e)))),
            // Right after a visit a page is quiet for a period for certain: that says nothing about how long it is.
            (None, Some(_)) => None,
        })
        .collect()
}

/// Che's characteristic time in seconds: infinite if everything that is referenced fits.
fn characteristic_time(lines: &[f64], lambda: &[f64], capacity: f64) -> f64 {
    let present = |tc: f64| lines.iter().zip(lambda).map(|(n, l)| n * -(-l * tc).exp_m1()).sum::<f64>();
    let referenced: f64 = lines.iter().zip(lambda).filter(|(_, l)| **l > 0.0).map(|(n, _)| n).sum();
    if referenced <= capacity {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1e-6);
    while present(high) < capacity {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if present(middle) < capacity { low = middle } else { high = middle }
    }
    high
}
