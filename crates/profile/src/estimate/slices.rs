//! A site's misses divided among slices of its memory: the estimator's steps once more with each slice as if it were a site
//! of its own, scaled so that nothing is added to the site and nothing taken from it. The cache is shared anew too: what the hot
//! slices leave of it is not what a site that is warm all over would leave.
//!
//! A slice is hot by its visits in the time that it was watched, not by their number: that is the sampler's choice. It has a
//! few tens of samples where its site has hundreds: what is a mean over them (lines of a visit, the share of stores) is taken with
//! one more sample that is like the site, and one that was watched and never visited counts with [`UNSEEN`] visits, one that was
//! never watched like its site.

use super::{Exposure, LINES_PER_PAGE, Rate, SiteSamples, Use, Visits, Walk, lines_of, rate};

/// What no visit in a time of watching counts for: the mean of the rate of a Poisson process of which nothing was seen, by the prior of
/// H. Jeffreys, "An invariant form for the prior probability in estimation problems", Proc. Royal Society A 186, 1946.
pub(super) const UNSEEN: f64 = 0.5;

/// Some of a site's memory.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// Which of [`SiteSamples::exposures`] are of its pages.
    pub exposures: Vec<usize>,
    /// Page-seconds alive over the run.
    pub page_seconds: f64,
}

/// What is estimated for a slice of a site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SliceEstimate {
    /// Load misses over the run.
    pub load_misses: f64,
    /// Store misses over the run.
    pub store_misses: f64,
    /// Visits it rests on.
    pub samples: u64,
}

/// A slice while its misses are summed up over windows.
struct Sum {
    rate: Rate,
    /// Lines of a visit, by those of the site's.
    lines: f64,
    store_share: f64,
    samples: u64,
    /// Of the site's page-seconds.
    alive: f64,
    /// What it is to the cache in the current window.
    uses: Vec<Use>,
    misses: f64,
}

/// A site's slices, and last the memory that is in none of them.
pub(super) struct Division(Vec<Sum>);

impl Division {
    pub fn begin(site: &SiteSamples, walk: &Walk, whole: &Rate) -> Division {
        if site.slices.is_empty() {
            return Division(Vec::new());
        }
        let all: f64 = site.page_seconds.iter().sum();
        let mut left = vec![true; site.exposures.len()];
        site.slices.iter().flat_map(|s| &s.exposures).for_each(|&i| left[i] = false);
        let rest = Slice {
            exposures: (0..left.len()).filter(|&i| left[i]).collect(),
            page_seconds: (all - site.slices.iter().map(|s| s.page_seconds).sum::<f64>()).max(0.0),
        };
        let sum = |slice: &Slice| {
            let exposures: Vec<&Exposure> = slice.exposures.iter().map(|&i| &site.exposures[i]).collect();
            let visits = || exposures.iter().filter_map(|e| e.visit);
            let samples = visits().count();
            let stores: f64 = visits().map(|v| v.stores()).sum();
            let bursts: Vec<f64> = visits().filter_map(|v| v.stepped()).map(|b| lines_of(&b).0).collect();
            let lines = (bursts.iter().sum::<f64>() + walk.lines) / (bursts.len() as f64 + 1.0);
            Sum {
                rate: rate(exposures.iter().copied(), walk, Some(whole)),
                lines: lines / walk.lines.max(f64::MIN_POSITIVE),
                store_share: (stores + walk.store_share) / (samples as f64 + 1.0),
                samples: samples as u64,
                alive: slice.page_seconds / all.max(f64::MIN_POSITIVE),
                uses: Vec::new(),
                misses: 0.0,
            }
        };
        Division(site.slices.iter().chain([&rest]).map(sum).collect())
    }

    /// There are slices.
    pub fn divides(&self) -> bool {
        !self.0.is_empty()
    }

    /// A window in which the site has so many pages alive: what its slices are to the cache.
    pub fn uses(&mut self, pages: f64, visits: &Visits) -> Vec<Use> {
        for slice in &mut self.0 {
            let lines = (visits.lines * slice.lines).clamp(1.0, LINES_PER_PAGE);
            slice.uses = slice.rate.uses(pages * slice.alive, &Visits { lines, ..*visits }).collect();
        }
        self.0.iter().flat_map(|slice| &slice.uses).copied().collect()
    }

    /// Adds up the misses of the window, of so many seconds; `tc`: the cache's characteristic time.
    pub fn add(&mut self, tc: f64, seconds: f64) {
        for slice in &mut self.0 {
            slice.misses += slice.uses.iter().map(|u| u.misses(tc)).sum::<f64>() * seconds;
        }
    }

    /// Divides the site's misses.
    pub fn end(self, load_misses: f64, store_misses: f64) -> Vec<SliceEstimate> {
        let stores = |s: &Sum| s.misses * s.store_share;
        let all_stores: f64 = self.0.iter().map(stores).sum();
        let all_loads: f64 = self.0.iter().map(|s| s.misses - stores(s)).sum();
        let share = |of: f64, all: f64| if all > 0.0 { of / all } else { 0.0 };
        let one = |s: &Sum| SliceEstimate {
            load_misses: load_misses * share(s.misses - stores(s), all_loads),
            store_misses: store_misses * share(stores(s), all_stores),
            samples: s.samples,
        };
        let slices = self.0.len().saturating_sub(1);
        self.0.iter().take(slices).map(one).collect()
    }
}
