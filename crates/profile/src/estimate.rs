//! From armed pages to cache misses: how often each site misses the last-level cache, estimated from what the
//! page-fault sampler saw. A pure function; no database, no clock.
//!
//! 1. **Visit rate.** A random page of a live object is armed and waited for, and armed again soon after each of its
//!    first visits. *First* armings choose pages evenly: the share `p` of them that is visited before the limit `L`
//!    tells how many pages are in use at all. *Later* armings are of pages in use: visits divided by exposed time
//!    (maximum likelihood with censoring) is the rate `r` at which such a page is visited, and
//!    `p / (1 - exp(-r L))` the share of pages it holds for. If pages are mostly quiet after a visit they are all
//!    visited more rarely than once in `L`: then the rate comes from the first armings alone.
//!
//!    Pages are not visited alike: one of a table used in every other loop is visited all the time or not for
//!    milliseconds, and of keys with a skew some pages hold the favoured ones. A mean over all waits would then know the
//!    long ones only. The waits of such a site are a mixture of two exponentials (the interrupted Poisson process: A.
//!    Kuczura, Bell System Technical Journal 52(3), 1973), fitted by expectation maximisation where that explains them
//!    better by more than its two parameters are worth (Bayesian information criterion); the shares are those of
//!    the first armings, which choose pages and moments evenly. The cache sees the two as sites of their own.
//!
//!    A page that comes by *periodically* (a stream) is half a period away when it is armed first, so `m` armings
//!    in a row read high by `m / (m - 1/2)`. Therefore the first wait is left out where there are later ones, and
//!    counts for `1 - p/2` visits where there are none. After a visit the phase is known: the period is the gap to the
//!    next arming plus the wait, unless the period is shorter than the gap. Which of the two holds shows in the
//!    variance: of the sum, if the phase was kept; of the wait alone, if it was lost (then a period is two waits).
//! 2. **Lines per visit.** A stepped burst counts the distinct lines of a visit. A burst that ran in one direction
//!    is a stream; if it ended at its limit, it would have gone on to the end of the page, touching as large a share of
//!    its lines as of those it has passed. The burst's own time is part of the time between visits.
//! 3. **Cache filter.** H. Che, Y. Tung, Z. Wang, "Hierarchical Web caching systems: modeling, design and
//!    experimental results", IEEE JSAC 20(7), 2002: in an LRU cache of `C` lines a line referenced at rate `lambda`
//!    is found with probability `1 - exp(-lambda Tc)`, with one `Tc` for all, such that the expected number of lines
//!    present, `sum lines_i (1 - exp(-lambda_i Tc))`, is `C`. Misses are the references that are not found.
//!    The exponential is for references at random times. Those of a stream come at even intervals `T` and find their
//!    line only if `T < Tc`; the form for any distribution `F` of the intervals (found: `F(Tc)`, present: `lambda` times
//!    the integral of `1 - F` up to `Tc`) is M. Garetto, E. Leonardi, V. Martina, "A unified approach to the performance
//!    analysis of caching systems", ACM TOMPECS 1(3), 2016, section 3.
//!
//! Steps 1 and 3 are done for windows of the run with enough visits each; in a window with few visits of a site the
//! rate is drawn towards that site's rate over the whole run. Slices of a site's memory get their shares of its misses in
//! [`slices`].

mod slices;

use crate::cache::{Reuse, Use, characteristic_time};
pub use slices::{Slice, SliceEstimate};

use model::Pattern;
use slices::Division;
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

/// An arming so soon after a visit of the same page is taken to be its re-arming and not a new choice of pages.
const SAME_ROW_NS: u64 = 100_000_000;
/// Re-armed visits from which on a site's rate is taken from them.
const ENOUGH_AGAIN: usize = 3;

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
    /// How long the page was watched in it: until the limit was reached, or until the page was given up, with the
    /// silence that made it so (without that, the time would be selected for being busy).
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

impl Exposure {
    fn wait_s(&self) -> f64 {
        self.wait_ns as f64 / 1e9
    }
}

/// A first access to an armed page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// It was a store.
    pub store: bool,
    /// What was stepped after it.
    pub burst: Option<Burst>,
}

impl Visit {
    /// What was stepped, if anything.
    fn stepped(&self) -> Option<Burst> {
        self.burst.filter(|b| b.accesses > 0)
    }

    /// Share of stores among its accesses.
    fn stores(&self) -> f64 {
        match self.stepped() {
            Some(b) => f64::from(b.stores.min(b.accesses)) / f64::from(b.accesses),
            None => f64::from(u8::from(self.store)),
        }
    }
}

/// A site's samples and its live memory.
#[derive(Clone, Debug, Default)]
pub struct SiteSamples {
    /// All exposures, in any order.
    pub exposures: Vec<Exposure>,
    /// Page-seconds alive in each interval of the run.
    pub page_seconds: Vec<f64>,
    /// Slices of its memory that do not overlap, and among which its misses are to be divided.
    pub slices: Vec<Slice>,
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
    /// Its slices', in the order of [`SiteSamples::slices`].
    pub slices: Vec<SliceEstimate>,
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
    let rates: Vec<Rate> = sites.iter().zip(&walks).map(|(site, walk)| rate(&site.exposures, walk, None)).collect();
    // How much faster or slower than over the whole run each site is visited in each window.
    let tempo: Vec<Vec<f64>> = sites
        .iter()
        .zip(&walks)
        .map(|(site, walk)| {
            let mut seen = vec![(0.0, 0.0); windows];
            for e in &site.exposures {
                let w = &mut seen[window_of(interval_of(e.end_ns))];
                w.0 += if e.visit.is_some() { 1.0 } else { 0.0 };
                w.1 += e.wait_s() + if e.visit.is_some() { walk.burst_s } else { 0.0 };
            }
            let (visits, seconds) = seen.iter().fold((0.0, 0.0), |a, w| (a.0 + w.0, a.1 + w.1));
            if visits == 0.0 || seconds == 0.0 {
                return vec![1.0; windows];
            }
            let usual = visits / seconds;
            seen.iter().map(|(n, s)| (n + PRIOR_VISITS) / (s * usual + PRIOR_VISITS)).collect()
        })
        .collect();

    // A site may be walked in another way at another time: filled in order first, say, and then read at random.
    let lines_of_visit: Vec<Vec<f64>> = sites
        .iter()
        .zip(&walks)
        .map(|(site, walk)| {
            let mut seen = vec![(0.0, 0.0); windows];
            for e in &site.exposures {
                if let Some(b) = e.visit.and_then(|v| v.stepped()) {
                    let w = &mut seen[window_of(interval_of(e.end_ns))];
                    *w = (w.0 + 1.0, w.1 + lines_of(&b).0);
                }
            }
            // The mean over time, whatever the number of bursts in each window, counts as one burst of every window.
            let known: Vec<f64> = seen.iter().filter(|w| w.0 > 0.0).map(|w| w.1 / w.0).collect();
            let usual = if known.is_empty() { walk.lines } else { known.iter().sum::<f64>() / known.len() as f64 };
            seen.iter().map(|(n, sum)| (sum + usual) / (n + 1.0)).collect()
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
    let mut divisions: Vec<Division> =
        sites.iter().zip(&walks).zip(&rates).map(|((site, walk), rate)| Division::begin(site, walk, rate)).collect();
    for window in 0..windows {
        let members: Vec<usize> = (0..intervals).filter(|&i| window_of(i) == window).collect();
        let seconds = members.len() as f64 * interval_s;
        let alive = |s: &SiteSamples, i: usize| s.page_seconds.get(i).copied().unwrap_or(0.0);
        let page_seconds: Vec<f64> = sites.iter().map(|s| members.iter().map(|&i| alive(s, i)).sum()).collect();
        let visits = |n: usize| {
            let even = matches!(walks[n].pattern, Pattern::Stream { .. });
            Visits { lines: lines_of_visit[n][window], tempo: tempo[n][window], even }
        };
        let uses: Vec<Vec<Use>> =
            rates.iter().enumerate().map(|(n, r)| r.uses(page_seconds[n] / seconds, &visits(n)).collect()).collect();
        let capacity = llc as f64 / LINE as f64;
        let tc = characteristic_time(&uses, capacity);
        for (n, (site, out)) in sites.iter().zip(&mut out).enumerate().filter(|(n, _)| page_seconds[*n] > 0.0) {
            let misses = uses[n].iter().map(|u| u.misses(tc)).sum::<f64>() * seconds;
            for &i in &members {
                out.misses[i] = misses * alive(site, i) / page_seconds[n];
            }
        }
        // The same with slices in place of those sites that have them.
        if !divisions.iter().any(Division::divides) {
            continue;
        }
        let uses: Vec<Vec<Use>> = (divisions.iter_mut().zip(uses).enumerate())
            .map(|(n, (division, whole))| match division.divides() {
                true => division.uses(page_seconds[n] / seconds, &visits(n)),
                false => whole,
            })
            .collect();
        let tc = characteristic_time(&uses, capacity);
        divisions.iter_mut().for_each(|division| division.add(tc, seconds));
    }
    for ((e, walk), division) in out.iter_mut().zip(&walks).zip(divisions) {
        let total: f64 = e.misses.iter().sum();
        e.store_misses = total * walk.store_share;
        e.load_misses = total - e.store_misses;
        e.slices = division.end(e.load_misses, e.store_misses);
    }
    out
}

/// How a site is walked, from its bursts.
struct Walk {
    pattern: Pattern,
    /// Distinct lines of one visit.
    lines: f64,
    /// Mean length of a burst: every visit takes so long, stepped or not.
    burst_s: f64,
    /// Share of stores.
    store_share: f64,
}

fn walks(sites: &[SiteSamples]) -> Vec<Walk> {
    let bursts = |s: &SiteSamples| -> Vec<Burst> { s.exposures.iter().filter_map(|e| e.visit?.stepped()).collect() };
    // A site whose visits were never stepped is taken to be walked like the average visit.
    let all: Vec<f64> = sites.iter().flat_map(bursts).map(|b| lines_of(&b).0).collect();
    let usual = if all.is_empty() { 1.0 } else { all.iter().sum::<f64>() / all.len() as f64 };
    sites
        .iter()
        .map(|site| {
            let visits: Vec<Visit> = site.exposures.iter().filter_map(|e| e.visit).collect();
            let bursts = bursts(site);
            let n = bursts.len() as f64;
            let stores: f64 = visits.iter().map(Visit::stores).sum();
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
            let burst_s = bursts.iter().map(|b| b.ns as f64).sum::<f64>() / 1e9 / n;
            Walk { pattern, lines, burst_s, store_share }
        })
        .collect()
}

/// Lines of the visit a burst stands for, and whether it walks the page in order.
fn lines_of(b: &Burst) -> (f64, bool) {
    let stride = b.stride.unsigned_abs();
    let span = stride.saturating_mul(b.accesses.saturating_sub(1).into());
    // A stencil reads ahead and back again but moves on: its net way covers the lines it touched.
    let drifts = b.lines >= 2 && span as f64 >= 0.8 * f64::from(b.lines - 1) * LINE as f64;
    let walked = stride > 0 && (b.monotonic || drifts);
    if walked && b.limited {
        // It goes on as it began: with gaps, where it leaves lines out.
        let passed = (span / LINE + 1) as f64;
        ((LINES_PER_PAGE * f64::from(b.lines) / passed).clamp(1.0, LINES_PER_PAGE), true)
    } else {
        // Not stopped by the limit: what was seen is the whole visit. Half a page in order is a stream too.
        (f64::from(b.lines.max(1)), walked && span >= PAGE / 2)
    }
}

/// How often pages are visited.
struct Rate {
    /// One kind of pages, or two.
    kinds: Vec<Kind>,
    /// Of a stream whose pages were armed again after visits: the phase was still known then.
    phase_kept: Option<bool>,
}

/// A site's visits in a window.
struct Visits {
    /// Distinct lines of one.
    lines: f64,
    /// How much more often they come than over the whole run.
    tempo: f64,
    /// At even intervals.
    even: bool,
}

impl Rate {
    /// Visits per second of any of the pages.
    fn mean(&self) -> f64 {
        self.kinds.iter().map(|k| k.visits * k.share).sum()
    }

    /// What these pages' lines are to the cache in a window, when so many pages are alive.
    fn uses(&self, pages: f64, visits: &Visits) -> impl Iterator<Item = Use> {
        self.kinds.iter().map(move |kind| {
            let lambda = kind.visits * visits.tempo * visits.lines / LINES_PER_PAGE;
            Use { lines: kind.share * pages * LINES_PER_PAGE, reuse: Reuse { lambda, even: visits.even } }
        })
    }
}

/// Pages that are visited alike.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Visits per second of such a page.
    visits: f64,
    /// Share of the site's pages that are such.
    share: f64,
}

/// Step 1 of the module's text; `whole`: the rate of all that these exposures are a slice of.
fn rate<'a>(exposures: impl IntoIterator<Item = &'a Exposure>, walk: &Walk, whole: Option<&Rate>) -> Rate {
    let stream = matches!(walk.pattern, Pattern::Stream { .. });
    let mut rows: HashMap<(i64, u64), Vec<&Exposure>> = HashMap::new();
    for e in exposures {
        rows.entry((e.process, e.page)).or_default().push(e);
    }
    let mut first: Vec<&Exposure> = Vec::new();
    // With the time from the visit before to the arming, in seconds.
    let mut later: Vec<(&Exposure, f64)> = Vec::new();
    for row in rows.values_mut() {
        row.sort_by_key(|e| e.end_ns);
        let mut before: Option<&Exposure> = None;
        for &e in row.iter() {
            let armed = e.end_ns.saturating_sub(e.wait_ns);
            match before.filter(|b| b.visit.is_some()).map(|b| armed.saturating_sub(b.end_ns)) {
                Some(gap) if gap <= SAME_ROW_NS => later.push((e, gap as f64 / 1e9)),
                _ => first.push(e),
            }
            before = Some(e);
        }
    }
    let seconds = |which: &[&Exposure]| which.iter().map(|e| e.wait_s()).sum::<f64>();
    let (seen, quiet): (Vec<&Exposure>, Vec<&Exposure>) = first.iter().copied().partition(|e| e.visit.is_some());
    let visited = seen.len() as f64 / first.len().max(1) as f64;
    let (again, not_again): (Vec<_>, Vec<_>) = later.iter().copied().partition(|(e, _)| e.visit.is_some());

    if again.len() >= ENOUGH_AGAIN && again.len() >= not_again.len() {
        let n = again.len() as f64;
        let waits: Vec<f64> = again.iter().map(|(e, _)| e.wait_s()).collect();
        let periods: Vec<f64> = again.iter().map(|(e, gap)| e.wait_s() + gap).collect();
        let censored: f64 = not_again.iter().map(|(e, _)| e.wait_s()).sum();
        // A slice has too few samples for the comparison, and is walked like the whole.
        let known = whole.and_then(|r| r.phase_kept);
        let phase_kept = stream.then(|| known.unwrap_or_else(|| variance(&periods) <= variance(&waits)));
        let exposed = match phase_kept {
            None => waits.iter().sum::<f64>() + n * walk.burst_s,
            Some(true) => periods.iter().sum::<f64>(),
            Some(false) => 2.0 * waits.iter().sum::<f64>() + n * walk.burst_s,
        };
        let alike = vec![Kind { visits: n / (exposed + censored).max(1e-9), share: 1.0 }];
        let of_first: Vec<f64> = seen.iter().map(|e| e.wait_s()).collect();
        let parts = if stream { alike } else { two_kinds(&of_first, &waits, walk.burst_s).unwrap_or(alike) };
        let used = if quiet.is_empty() {
            1.0
        } else {
            let limit = seconds(&quiet) / quiet.len() as f64;
            let seen_of = |visits: f64| if stream { (visits * limit).min(1.0) } else { -(-visits * limit).exp_m1() };
            let would_be_seen: f64 = parts.iter().map(|p| p.share * seen_of(p.visits)).sum();
            (visited / would_be_seen).min(1.0)
        };
        let kinds = parts.into_iter().map(|p| Kind { share: p.share * used, ..p }).collect();
        return Rate { kinds, phase_kept };
    }
    let weight = if stream { 1.0 - visited / 2.0 } else { 1.0 };
    let n = seen.len() as f64;
    let exposed = seconds(&first) + if stream { 0.0 } else { n * walk.burst_s };
    let visits = match whole.map(Rate::mean) {
        Some(usual) if n == 0.0 && usual > 0.0 => slices::UNSEEN / (exposed + slices::UNSEEN / usual),
        _ if n > 0.0 => n * weight / exposed.max(1e-9),
        _ => 0.0,
    };
    Rate { kinds: vec![Kind { visits, share: 1.0 }], phase_kept: None }
}

/// Each of two kinds of pages has to have so many visits to be believed in.
const LEAST_OF_A_KIND: f64 = 6.0;
/// Weight, in visits, of the shares among all waits against those among the first ones.
const PRIOR_FIRSTS: f64 = 4.0;

/// The two kinds of pages in these waits (seconds, of first and of later armings): none if one kind explains them as
/// well. `burst_s`: how long a visit goes on, which is no waiting.
fn two_kinds(first: &[f64], later: &[f64], burst_s: f64) -> Option<Vec<Kind>> {
    /// More rounds change the third digit.
    const ROUNDS: usize = 60;
    /// A wait is never known to be shorter.
    const LEAST_S: f64 = 1e-7;
    let waits: Vec<f64> = first.iter().chain(later).map(|w| w.max(LEAST_S)).collect();
    let n = waits.len() as f64;
    let mean = waits.iter().sum::<f64>() / n;
    // Mean wait of the short kind and of the long one, and the share of the short one.
    let (mut short, mut long, mut share) = (mean / 4.0, mean * 2.0, 0.5);
    let density = |w: f64, mean: f64| (-w / mean).exp() / mean;
    let mut is_short = vec![0.0; waits.len()];
    for _ in 0..ROUNDS {
        for (p, &w) in is_short.iter_mut().zip(&waits) {
            let (a, b) = (share * density(w, short), (1.0 - share) * density(w, long));
            *p = if a + b > 0.0 { a / (a + b) } else { 0.0 };
        }
        let of_short: f64 = is_short.iter().sum();
        if of_short < LEAST_OF_A_KIND || n - of_short < LEAST_OF_A_KIND {
            return None;
        }
        short = waits.iter().zip(&is_short).map(|(w, p)| w * p).sum::<f64>() / of_short;
        long = waits.iter().zip(&is_short).map(|(w, p)| w * (1.0 - p)).sum::<f64>() / (n - of_short);
        share = of_short / n;
    }
    let one: f64 = waits.iter().map(|&w| density(w, mean).ln()).sum();
    let two: f64 = waits.iter().map(|&w| (share * density(w, short) + (1.0 - share) * density(w, long)).ln()).sum();
    if two - one <= n.ln() {
        return None;
    }
    let among_first = is_short[..first.len()].iter().sum::<f64>();
    let share = (among_first + PRIOR_FIRSTS * share) / (first.len() as f64 + PRIOR_FIRSTS);
    let part = |mean: f64, share: f64| Kind { visits: 1.0 / (mean + burst_s), share };
    Some(vec![part(short, share), part(long, 1.0 - share)])
}

fn variance(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64, so that the tests are the same every time.
    struct Random(u64);
    impl Random {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        }
        fn below(&mut self, n: usize) -> usize {
            (self.unit() * n as f64) as usize
        }
    }

    const RUN_S: f64 = 20.0;
    const LIMIT_S: f64 = 0.4;

    /// A sampler as the runtime's: random pages at random times, armed again up to three times a few ms after a
    /// visit. `next(page, t)` is the time of the first access to a page from `t` on; `burst` what would be stepped.
    fn sample(
        armings: usize,
        pages: usize,
        run_s: f64,
        next: impl Fn(usize, f64) -> Option<f64>,
        burst: impl Fn(usize, f64) -> Burst,
    ) -> SiteSamples {
        let mut random = Random(7);
        let mut exposures = Vec::new();
        for i in 0..armings {
            let page = random.below(pages);
            let mut armed = random.unit() * (run_s - 1.0);
            for _ in 0..4 {
                let at = next(page, armed).filter(|at| at - armed < LIMIT_S);
                let end = at.unwrap_or(armed + LIMIT_S);
                let burst = at.filter(|_| i % 4 == 0).map(|at| burst(page, at));
                exposures.push(Exposure {
                    process: 1,
                    page: page as u64 * PAGE,
                    end_ns: (end * 1e9) as u64,
                    wait_ns: ((end - armed) * 1e9) as u64,
                    visit: at.map(|_| Visit { store: false, burst }),
                });
                if at.is_none() {
                    break;
                }
                armed = end + burst.map_or(0.0, |b| b.ns as f64 / 1e9) + 0.004 + 0.006 * random.unit();
            }
        }
        let intervals = 10;
        SiteSamples {
            exposures,
            page_seconds: vec![pages as f64 * run_s / intervals as f64; intervals],
            slices: Vec::new(),
        }
    }

    fn walked() -> Burst {
        Burst { accesses: 64, stores: 0, lines: 8, monotonic: true, limited: true, stride: 8, ns: 1000 }
    }
    fn single() -> Burst {
        Burst { accesses: 1, stores: 0, lines: 1, monotonic: false, limited: false, stride: 0, ns: 0 }
    }

    /// Misses of a site alone with a cache of one line, over what they are.
    fn ratio(site: SiteSamples, truth: f64) -> f64 {
        let e = &estimate(&[site], RUN_S / 10.0, LINE)[0];
        (e.load_misses + e.store_misses) / truth
    }

    #[test]
    fn streams_of_any_period_are_neither_over_nor_understated() {
        // Shorter than the gap before re-arming, longer, and longer than the limit of waiting.
        for (period, tolerance) in [(0.001, 0.1), (0.03, 0.05), (0.15, 0.05), (1.5, 0.15)] {
            let pages = 4096;
            let next = |page: usize, t: f64| {
                let phase = page as f64 / pages as f64 * period;
                Some((((t - phase) / period).ceil()) * period + phase)
            };
            let site = sample(1500, pages, RUN_S, next, |_, _| walked());
            let e = &estimate(std::slice::from_ref(&site), RUN_S / 10.0, LINE)[0];
            assert_eq!(e.pattern, Pattern::Stream { stride: 8 });
            let r = ratio(site, pages as f64 * 64.0 * RUN_S / period);
            assert!((r - 1.0).abs() < tolerance, "period {period} s: {r:.3} of the truth");
        }
    }

    #[test]
    fn random_visits_are_counted_right() {
        for rate in [0.3, 20.0, 400.0] {
            // A page's accesses: exponential gaps, drawn anew for every question (the process has no memory).
            let random = std::cell::RefCell::new(Random(3));
            let next = |_: usize, t: f64| Some(t - (1.0 - random.borrow_mut().unit()).ln() / rate);
            let r = ratio(sample(2000, 1000, RUN_S, next, |_, _| single()), 1000.0 * rate * RUN_S);
            assert!((r - 1.0).abs() < 0.12, "{rate} a second: {r:.3} of the truth");
        }
    }

    #[test]
    fn a_table_used_by_turns_counts_while_it_is_used() {
        // 12 ms of 5,000 visits a second, 8 ms of none; and pages of which a tenth is visited 100 times as often.
        let random = std::cell::RefCell::new(Random(3));
        let wait = |rate: f64| -(1.0 - random.borrow_mut().unit()).ln() / rate;
        let by_turns = |_: usize, t: f64| {
            let on = t % 0.02;
            let at = t + if on < 0.012 { 0.0 } else { 0.02 - on } + wait(5000.0);
            Some(at + if at % 0.02 < 0.012 { 0.0 } else { 0.008 })
        };
        let r = ratio(sample(2000, 1000, RUN_S, by_turns, |_, _| single()), 1000.0 * 3000.0 * RUN_S);
        assert!((r - 1.0).abs() < 0.2, "by turns: {r:.3} of the truth");
        let skewed = |page: usize, t: f64| Some(t + wait(if page < 100 { 5000.0 } else { 50.0 }));
        let r = ratio(sample(2000, 1000, RUN_S, skewed, |_, _| single()), (100.0 * 5000.0 + 900.0 * 50.0) * RUN_S);
        assert!((r - 1.0).abs() < 0.2, "skewed: {r:.3} of the truth");
    }

    #[test]
    fn an_object_of_which_a_tenth_is_used_counts_a_tenth() {
        let random = std::cell::RefCell::new(Random(3));
        let next = |page: usize, t: f64| (page < 100).then(|| t - (1.0 - random.borrow_mut().unit()).ln() / 50.0);
        let r = ratio(sample(3000, 1000, RUN_S, next, |_, _| single()), 100.0 * 50.0 * RUN_S);
        assert!((r - 1.0).abs() < 0.2, "{r:.3} of the truth");
    }

    #[test]
    fn strides_and_stores_come_from_bursts() {
        let stride = |stride: i64, lines: u32| lines_of(&Burst { accesses: 9, lines, stride, ..walked() });
        assert_eq!((stride(8, 2), stride(-64, 9)), ((64.0, true), (64.0, true)));
        // One line of four; two of five.
        let (of_four, of_five) = (stride(256, 9), stride(160, 9));
        assert!(of_four.1 && (16.0..18.0).contains(&of_four.0), "{of_four:?}");
        assert!(of_five.1 && (25.0..29.0).contains(&of_five.0), "{of_five:?}");
        // Left after three lines; walked to the end by eight large steps; a stencil that moves on.
        assert_eq!(lines_of(&Burst { accesses: 3, lines: 3, limited: false, ..walked() }), (3.0, false));
        let large = Burst { accesses: 8, lines: 8, limited: false, stride: 512, ..walked() };
        assert_eq!(lines_of(&large), (8.0, true));
        let stencil = Burst { lines: 5, monotonic: false, stride: 5, ..walked() };
        assert_eq!(lines_of(&stencil), (64.0, true));
        let mut site = sample(200, 10, RUN_S, |_, t| Some(t + 0.01), |_, _| Burst { stores: 16, ..walked() });
        let e = &estimate(std::slice::from_ref(&site), 2.0, LINE)[0];
        let share = e.store_misses / (e.store_misses + e.load_misses);
        // A quarter of the accesses of the stepped visits; the others were seen to begin with a load.
        assert!((share - 0.25 * 0.25).abs() < 0.02, "{share}");
        site.exposures.iter_mut().filter_map(|e| e.visit.as_mut()).for_each(|v| (v.store, v.burst) = (true, None));
        let e = &estimate(&[site], 2.0, LINE)[0];
        assert_eq!((e.load_misses, e.pattern), (0.0, Pattern::Unknown));
    }

    #[test]
    fn what_fits_the_cache_does_not_miss_and_nothing_sampled_is_nothing_estimated() {
        let site = sample(100, 16, RUN_S, |_, t| Some(t + 0.001), |_, _| walked());
        assert_eq!(estimate(std::slice::from_ref(&site), 2.0, 1 << 20)[0].load_misses, 0.0);
        let idle = SiteSamples { page_seconds: vec![100.0; 10], ..SiteSamples::default() };
        let both = estimate(&[site, idle], 2.0, 32 << 10);
        assert!(both[0].load_misses > 0.0);
        assert_eq!((both[1].load_misses, both[1].samples), (0.0, 0));
        assert!(estimate(&[], 1.0, 1).is_empty());
    }

    /// Cuts a site into parts of as many pages each.
    fn cut(site: &mut SiteSamples, pages: usize, parts: usize) {
        let each = pages / parts;
        let page_seconds = site.page_seconds.iter().sum::<f64>() / parts as f64;
        let of = |p: usize| {
            let within = |e: &Exposure| (e.page / PAGE) as usize / each == p;
            (0..site.exposures.len()).filter(|&i| within(&site.exposures[i])).collect()
        };
        site.slices = (0..parts).map(|p| Slice { exposures: of(p), page_seconds }).collect();
    }
    fn shares(e: &SiteEstimate) -> Vec<f64> {
        let all = e.load_misses + e.store_misses;
        e.slices.iter().map(|p| (p.load_misses + p.store_misses) / all).collect()
    }

    #[test]
    fn parts_share_their_sites_misses_by_how_often_they_are_visited_and_not_by_how_often_they_were_armed() {
        // The first eighth is visited 400 times as often as the others: it has 98.3 % of the visits.
        let random = std::cell::RefCell::new(Random(3));
        let wait = |rate: f64| -(1.0 - random.borrow_mut().unit()).ln() / rate;
        let next = |page: usize, t: f64| Some(t + wait(if page < 512 { 200.0 } else { 0.5 }));
        let mut site = sample(600, 4096, RUN_S, next, |_, _| Burst { stores: 1, ..single() });
        cut(&mut site, 4096, 8);
        let e = &estimate(std::slice::from_ref(&site), RUN_S / 10.0, LINE)[0];
        let hot = shares(e)[0];
        assert!((0.95..0.998).contains(&hot), "{hot:.4}");
        let sum: (f64, f64) = e.slices.iter().fold((0.0, 0.0), |s, p| (s.0 + p.load_misses, s.1 + p.store_misses));
        assert!((sum.0 / e.load_misses - 1.0).abs() < 1e-9 && (sum.1 / e.store_misses - 1.0).abs() < 1e-9);
        assert_eq!(e.slices.iter().map(|p| p.samples).sum::<u64>(), e.samples);
        // A sampler that arms hot pages a tenth as often sees the same.
        let mut n = 0;
        site.exposures.retain(|e| {
            e.page / PAGE >= 512 || {
                n += 1;
                n % 40 < 4
            }
        });
        cut(&mut site, 4096, 8);
        let few = shares(&estimate(std::slice::from_ref(&site), RUN_S / 10.0, LINE)[0])[0];
        assert!((few - hot).abs() < 0.03, "{few:.4} and {hot:.4}");
    }

    #[test]
    fn parts_of_a_stream_are_alike_and_those_never_armed_are_as_the_whole() {
        let next = |page: usize, t: f64| {
            let phase = page as f64 / 65536.0 * 0.15;
            Some(((t - phase) / 0.15).ceil() * 0.15 + phase)
        };
        let mut site = sample(800, 65536, RUN_S, next, |_, _| walked());
        cut(&mut site, 65536, 16);
        let flat = shares(&estimate(std::slice::from_ref(&site), RUN_S / 10.0, LINE)[0]);
        assert!(flat.iter().all(|s| (s * 16.0 - 1.0).abs() < 0.35), "{flat:?}");
        // Half of the parts were never armed; what is in no part keeps its share.
        site.exposures.retain(|e| e.page / PAGE < 32768);
        cut(&mut site, 65536, 16);
        site.slices.pop();
        let half = shares(&estimate(std::slice::from_ref(&site), RUN_S / 10.0, LINE)[0]);
        assert!(half.iter().all(|s| (s * 16.0 - 1.0).abs() < 0.35), "{half:?}");
        assert!((half.iter().sum::<f64>() * 16.0 / 15.0 - 1.0).abs() < 0.02, "{half:?}");
    }

    #[test]
    fn a_part_that_stays_in_the_cache_misses_less_than_it_is_visited() {
        let random = std::cell::RefCell::new(Random(3));
        let wait = |rate: f64| -(1.0 - random.borrow_mut().unit()).ln() / rate;
        let next = |page: usize, t: f64| Some(t + wait(if page < 64 { 4000.0 } else { 20.0 }));
        let mut site = sample(4000, 4096, RUN_S, next, |_, _| single());
        cut(&mut site, 4096, 64);
        let in_cache = |llc: u64| shares(&estimate(std::slice::from_ref(&site), RUN_S / 10.0, llc)[0])[0];
        let (bare, cached) = (in_cache(LINE), in_cache(4 << 20));
        assert!(bare > 0.6 && cached < bare / 4.0, "{bare:.3} without, {cached:.3} with a cache of 4 MiB");
        // A hot part that alone is larger than the cache does not fit into it because the site is cold on the whole.
        let next = |page: usize, t: f64| Some(t + wait(if page < 1024 { 1000.0 } else { 0.5 }));
        let mut site = sample(1000, 16384, RUN_S, next, |_, _| single());
        cut(&mut site, 16384, 16);
        let large = shares(&estimate(std::slice::from_ref(&site), RUN_S / 10.0, 1 << 20)[0])[0];
        assert!(large > 0.9, "{large:.3}");
    }

    /// A 16-way cache with LRU replacement in each set.
    struct Lru(Vec<Vec<u64>>);
    impl Lru {
        fn misses(&mut self, line: u64) -> bool {
            let sets = self.0.len() as u64;
            let set = &mut self.0[(line.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 40) as usize % sets as usize];
            let found = set.iter().position(|&l| l == line);
            if let Some(at) = found {
                set.remove(at);
            } else if set.len() == 16 {
                set.remove(0);
            }
            set.push(line);
            found.is_none()
        }
    }

    #[test]
    fn misses_agree_with_a_simulated_cache() {
        // name, KiB, share of accesses, stride (0: random)
        let objects: [(&str, usize, f64, usize); 6] = [
            ("stream", 2048, 0.40, 8),
            ("slow stream", 4096, 0.05, 64),
            ("wide stride", 4096, 0.03, 256),
            ("random", 2048, 0.15, 0),
            ("cold random", 8192, 0.02, 0),
            ("cache-resident", 64, 0.35, 0),
        ];
        let llc = 1 << 20;
        let accesses = 8_000_000usize;
        let run_s = accesses as f64 * 1e-6;
        let mut random = Random(1);
        let mut cache = Lru(vec![Vec::new(); llc / 64 / 16]);
        let mut truth = vec![0.0; objects.len()];
        let mut at = vec![0usize; objects.len()];
        // By object and page: time in us and offset of every access.
        let mut trace: Vec<Vec<Vec<(u32, u16)>>> = objects.iter().map(|o| vec![Vec::new(); o.1 / 4]).collect();
        for now in 0..accesses {
            let mut pick = random.unit();
            let o = objects
                .iter()
                .position(|o| {
                    pick -= o.2;
                    pick < 0.0
                })
                .unwrap_or(0);
            let bytes = objects[o].1 << 10;
            at[o] = if objects[o].3 > 0 { (at[o] + objects[o].3) % bytes } else { random.below(bytes / 8) * 8 };
            truth[o] += f64::from(u8::from(cache.misses(((o as u64) << 32) + at[o] as u64 / 64)));
            trace[o][at[o] / 4096].push((now as u32, (at[o] % 4096) as u16));
        }
        let sites: Vec<SiteSamples> = trace
            .iter()
            .map(|pages| {
                let from = |page: usize, t: f64| pages[page].partition_point(|a| f64::from(a.0) * 1e-6 < t);
                let next = |page: usize, t: f64| pages[page].get(from(page, t)).map(|a| f64::from(a.0) * 1e-6);
                // Up to 64 accesses, over when the page is left alone for 2 ms.
                let burst = |page: usize, t: f64| {
                    let all = &pages[page][from(page, t)..];
                    let n = 1 + all.windows(2).take(63).take_while(|w| w[1].0 - w[0].0 < 2000).count();
                    let b = &all[..n];
                    let mut lines: Vec<u16> = b.iter().map(|a| a.1 / 64).collect();
                    lines.sort_unstable();
                    lines.dedup();
                    let span = i64::from(b[n - 1].1) - i64::from(b[0].1);
                    Burst {
                        accesses: n as u32,
                        stores: 0,
                        lines: lines.len() as u32,
                        monotonic: span != 0
                            && (b.is_sorted_by_key(|a| a.1) || b.iter().rev().is_sorted_by_key(|a| a.1)),
                        limited: n == 64,
                        stride: span / (n as i64 - 1).max(1),
                        ns: u64::from(b[n - 1].0 - b[0].0) * 1000 + if n == 64 { 0 } else { 2_000_000 },
                    }
                };
                sample(400, pages.len(), run_s, next, burst)
            })
            .collect();
        let estimates = estimate(&sites, run_s / 10.0, llc as u64);
        let misses: Vec<f64> = estimates.iter().map(|e| e.load_misses + e.store_misses).collect();
        let (all, all_true): (f64, f64) = (misses.iter().sum(), truth.iter().sum());
        let table: Vec<String> = (0..objects.len())
            .map(|i| format!("{}: {:.0} for {:.0} ({:?})", objects[i].0, misses[i], truth[i], estimates[i].pattern))
            .collect();
        println!("{}", table.join("\n"));
        let order = |v: &[f64]| {
            let mut order: Vec<usize> = (0..v.len()).collect();
            order.sort_by(|&a, &b| v[b].total_cmp(&v[a]));
            order
        };
        assert_eq!(order(&misses), order(&truth), "{}", table.join("; "));
        assert!(misses[5] < 0.02 * all, "{}", table.join("; "));
        for i in 0..5 {
            let share = misses[i] / all / (truth[i] / all_true);
            assert!((0.75..1.33).contains(&share), "{}: {share:.2} of its share; {}", objects[i].0, table.join("; "));
        }
    }
}
