//! `bandwidth-aware`: ecoHMEM's second algorithm. Starts from `density` and swaps objects that press the slow memory for
//! ones that do not need the fast one.
//!
//! (Jordà, Rai, Ayguadé, Labarta, Peña: ecoHMEM, CLUSTER 2022, section VII.B, Table IV and Algorithm 1.) Sites of the fastest
//! tier ("DRAM") and the slowest ("PMem") fall into classes:
//!
//! | where | class | which |
//! |---|---|---|
//! | DRAM | Fitting | fewer than T_ALLOC allocations, slow memory's bandwidth below T_LOW |
//! | DRAM | Streaming-D | no writes, more than T_ALLOC allocations, slow memory's bandwidth below T_LOW |
//! | PMem | Thrashing | more than T_ALLOC allocations, slow memory's bandwidth above T_HIGH |
//!
//! 1. Every Streaming-D site goes to PMem.
//! 2. Thrashing sites, sorted by bandwidth, then by allocation and free, each take the place of the smallest Fitting site that
//!    is as large and lives as long, which goes to PMem.
//!
//! "Bandwidth" of the classes is the slow tier's demand where the object is allocated ("based on the region of their allocation",
//! and regions are "demand < 20 %, 20-40 %, and > 40 % of the peak"): by the timeline, with the sites where `density` put them, the
//! mean over the intervals in which the site has its first or a told allocation; as a share of the largest interval of the run.
//! The sorting uses the site's own bandwidth, misses x line / lifetime. T_ALLOC = 2, T_LOW = 20 %, T_HIGH = 40 % unless told otherwise.

use super::density;
use crate::cost::LINE;
use crate::{Decision, Error, Placement, Policy, Task};
use model::{Nanos, SiteUse};
use std::collections::HashMap;

/// ecoHMEM's thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thresholds {
    /// T_ALLOC: allocations of a site.
    pub allocations: u64,
    /// T_PMEMLOW: share (0 to 1) of the slow tier's peak bandwidth.
    pub low: f64,
    /// T_PMEMHIGH.
    pub high: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds { allocations: 2, low: 0.2, high: 0.4 }
    }
}

/// ecoHMEM's bandwidth-aware placement.
pub struct BandwidthAware;

impl Policy for BandwidthAware {
    fn name(&self) -> &'static str {
        "bandwidth-aware"
    }
    fn summary(&self) -> &'static str {
        "density, then sites that press the slow memory swapped for ones that do not need the fast one"
    }
    fn source(&self) -> &'static str {
        "ecoHMEM (Jordà et al., CLUSTER 2022), section VII.B: Table IV and Algorithm 1"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let thresholds = task.options.thresholds;
        if !(0.0..=1.0).contains(&thresholds.low)
            || !(0.0..=1.0).contains(&thresholds.high)
            || thresholds.low > thresholds.high
        {
            return Err(Error::BadThresholds { low: thresholds.low * 100.0, high: thresholds.high * 100.0 });
        }
        let mut placements = density::fill(task);
        let pressure = pressure(task, &placements);
        let sites = &task.observed.sites;
        let (fast, slow) = (0, task.slowest());
        let allocations = thresholds.allocations;
        let (mut fitting, mut streaming, mut thrashing) = (Vec::new(), Vec::new(), Vec::new());
        for (i, site) in sites.iter().enumerate() {
            match placements[i].tier {
                k if k == fast && pressure[i] < thresholds.low => {
                    if site.objects < allocations {
                        fitting.push(i);
                    } else if site.objects > allocations && site.store_misses == 0.0 {
                        streaming.push(i);
                    }
                }
                k if k == slow && site.objects > allocations && pressure[i] > thresholds.high => thrashing.push(i),
                _ => {}
            }
        }
        let said = |i: usize| {
            format!(
                "{} allocations at {:.0}% of the slow memory's peak bandwidth",
                sites[i].objects,
                pressure[i] * 100.0
            )
        };
        for i in streaming {
            placements[i].tier = slow;
            placements[i].why = format!("Streaming-D: never written, {}", said(i));
        }
        thrashing.sort_by(|&a, &b| {
            let by_bandwidth = bandwidth(&sites[b]).total_cmp(&bandwidth(&sites[a]));
            let key = |i: usize| (sites[i].first_alloc, sites[i].last_free, sites[i].site.id);
            by_bandwidth.then(key(a).cmp(&key(b)))
        });
        fitting.sort_by_key(|&i| (task.size(i), sites[i].site.id));
        for i in thrashing {
            let holds = |j: usize| {
                task.size(j) >= task.size(i)
                    && sites[j].first_alloc <= sites[i].first_alloc
                    && sites[j].last_free >= sites[i].last_free
            };
            let Some(at) = fitting.iter().position(|&j| holds(j)) else {
                placements[i].why = format!("Thrashing: {}; nothing in fast memory can make room for it", said(i));
                continue;
            };
            let j = fitting.remove(at);
            (placements[i].tier, placements[j].tier) = (fast, slow);
            placements[i].why = format!("Thrashing: {}; takes the room of a Fitting site", said(i));
            placements[j].why = format!("Fitting: {}; makes room for a Thrashing site", said(j));
        }
        Ok(Decision::of(placements))
    }
}

/// Bandwidth of a site, in bytes per ns: misses x line / lifetime (section VII.B).
fn bandwidth(site: &SiteUse) -> f64 {
    site.misses() * LINE / site.total_lifetime.0.max(1) as f64
}

/// For each site the slow tier's demand where it is allocated, as a share of its peak.
fn pressure(task: &Task<'_>, placements: &[Placement]) -> Vec<f64> {
    let timeline = &task.observed.timeline;
    let index: HashMap<_, _> = task.observed.sites.iter().enumerate().map(|(i, s)| (s.site.id, i)).collect();
    let ends = timeline.iter().skip(1).map(|p| p.at).chain([task.observed.duration]);
    let demand: Vec<f64> = timeline
        .iter()
        .zip(ends)
        .map(|(point, end)| {
            let slow = |id| index.get(id).is_some_and(|&i: &usize| placements[i].tier == task.slowest());
            let misses: f64 = point.misses.iter().filter(|(id, _)| slow(id)).map(|(_, m)| m).sum();
            misses / end.0.saturating_sub(point.at.0).max(1) as f64
        })
        .collect();
    let peak = demand.iter().copied().fold(0.0, f64::max);
    let at = |t: Nanos| -> f64 {
        let interval = timeline.partition_point(|p| p.at <= t).saturating_sub(1);
        demand.get(interval).map_or(0.0, |d| if peak > 0.0 { d / peak } else { 0.0 })
    };
    let of = |site: &SiteUse| -> f64 {
        let births: Vec<Nanos> = site.lives.iter().map(|l| l.from).chain([site.first_alloc]).collect();
        births.iter().map(|&t| at(t)).sum::<f64>() / births.len() as f64
    };
    task.observed.sites.iter().map(of).collect()
}
