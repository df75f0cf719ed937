//! The run cut into segments that begin with parallel regions: a plan may have another placement in each.
//!
//! A phase of a program shows as a change in what its sites ask of memory. Wherever a parallel region begins near the edge of an
//! interval of the timeline the run can be cut; neighbours are then joined again, always those that it matters least for: by how
//! differently they ask their sites, as a share of all (half the sum of differences of shares), weighted with how much the smaller
//! one of the two asks for. (Bottom-up segmentation of a time series: Keogh, Chu, Hart and Pazzani, Segmenting time series, 2004, section
//! 2.3; the measure is ours.)

use super::demand::Demand;
use model::Observed;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most segments.
const MOST: usize = 24;
/// Neighbours that differ by less than this share of all that the run asks for are one.
const WORTH: f64 = 0.005;

/// A stretch of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// The parallel region that it begins with, by its number in [`Observed::regions`]; none for the first one.
    pub region: Option<usize>,
    /// When, in ns since the start of the run.
    pub at: u64,
    /// Its intervals.
    pub intervals: Range<usize>,
}

/// The segments of a run, in order: one if nothing is known of regions, or nothing changes.
pub fn of(observed: &Observed, demand: &Demand) -> Vec<Segment> {
    let mut cuts = vec![Segment { region: None, at: 0, intervals: 0..demand.intervals.len() }];
    let starts: Vec<u64> = observed.timeline.iter().map(|p| p.at.0).collect();
    for (i, &start) in starts.iter().enumerate().skip(1) {
        let half = (start - starts[i - 1]) / 2;
        let near = |at: u64| start.abs_diff(at) <= half;
        let regions = observed.regions.iter().enumerate();
        let first = observed.regions.partition_point(|r| r.at.0 + half < start);
        let nearest = regions.skip(first).take_while(|(_, r)| near(r.at.0)).min_by_key(|(_, r)| start.abs_diff(r.at.0));
        // A region is where one cut only can be.
        if let Some((region, r)) = nearest.filter(|(n, _)| cuts.iter().all(|c| c.region != Some(*n))) {
            cuts.push(Segment { region: Some(region), at: r.at.0, intervals: i..demand.intervals.len() });
        }
    }
    let ends: Vec<usize> = cuts.iter().skip(1).map(|s| s.intervals.start).chain([demand.intervals.len()]).collect();
    cuts.iter_mut().zip(ends).for_each(|(cut, end)| cut.intervals.end = end);
    join(cuts, demand)
}

/// What to know of a profile whose parallel regions are more than its timeline can tell apart.
pub fn coarse(observed: &Observed) -> Option<String> {
    let (regions, intervals) = (observed.regions.len(), observed.timeline.len().max(1));
    (regions > intervals && intervals < MOST).then(|| {
        let phases = if intervals == 1 { "the run is one phase".to_string() } else { format!("at most {intervals} phases are told apart") };
        format!("The profile has {regions} beginnings of parallel regions and a timeline of {intervals}, so {phases}; a longer recording tells more.")
    })
}

fn join(mut segments: Vec<Segment>, demand: &Demand) -> Vec<Segment> {
    let mut asked: Vec<BTreeMap<usize, f64>> = segments.iter().map(|s| asked(demand, s)).collect();
    let all: f64 = asked.iter().flat_map(BTreeMap::values).sum();
    // By how much each matters beside the one before it.
    let mut matters: Vec<f64> = asked.windows(2).map(|pair| differ(&pair[0], &pair[1])).collect();
    while let Some((least, by)) = matters.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) {
        if segments.len() <= MOST && by > WORTH * all {
            break;
        }
        segments[least].intervals.end = segments.remove(least + 1).intervals.end;
        for (site, lines) in asked.remove(least + 1) {
            *asked[least].entry(site).or_default() += lines;
        }
        matters.remove(least);
        for (i, pair) in asked.windows(2).enumerate().skip(least.saturating_sub(1)).take(2).filter(|(i, _)| *i <= least)
        {
            matters[i] = differ(&pair[0], &pair[1]);
        }
    }
    segments
}

/// Lines that the sites ask for in a segment. The rest is no matter of placement.
fn asked(demand: &Demand, segment: &Segment) -> BTreeMap<usize, f64> {
    let mut out = BTreeMap::new();
    for u in demand.intervals[segment.intervals.clone()].iter().flat_map(|i| &i.uses) {
        if u.site < demand.sites {
            *out.entry(u.site).or_default() += u.lines();
        }
    }
    out
}

/// By how many lines it matters that two segments are one.
fn differ(a: &BTreeMap<usize, f64>, b: &BTreeMap<usize, f64>) -> f64 {
    let (all_a, all_b): (f64, f64) = (a.values().sum(), b.values().sum());
    if all_a <= 0.0 || all_b <= 0.0 {
        return 0.0;
    }
    let share = |of: &BTreeMap<usize, f64>, site: &usize, all: f64| of.get(site).copied().unwrap_or(0.0) / all;
    let apart = |site: &usize| (share(a, site, all_a) - share(b, site, all_b)).abs();
    let both = a.keys().map(apart).sum::<f64>() + b.keys().filter(|s| !a.contains_key(s)).map(apart).sum::<f64>();
    both / 2.0 * all_a.min(all_b)
}
