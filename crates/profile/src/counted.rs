//! Misses that a sampler saw one by one (the lab's virtual PEBS, a processor's, an import): nothing to estimate, only to sum
//! up. A sample stands for as many misses as its weight says.

use crate::estimate::SiteEstimate;
use crate::schema::{DHAT, LAB, miss_interval_ns};
use crate::summary::{spread, unsigned};
use model::Pattern;
use rusqlite::{Connection, OptionalExtension, Result};
use std::collections::{BTreeMap, HashMap};

/// Bytes of a line: what the prefetcher fetches one after the other, whatever the program's own stride is.
const LINE: i64 = 64;
/// With so large a share of lines fetched ahead a site is a stream. A streamer that runs to the end of a page needs a few
/// misses of its 64 lines to begin; random accesses have next to none fetched ahead.
const MOSTLY: f64 = 2.0 / 3.0;

/// The misses of all sites.
pub(crate) struct Counted {
    /// By row of the site.
    pub sites: HashMap<i64, SiteEstimate>,
    /// What was missed on no object.
    pub rest: Option<SiteEstimate>,
    /// Samples.
    pub samples: u64,
    /// Of them on no object.
    pub astray: u64,
    /// These by what they hit.
    elsewhere: BTreeMap<String, u64>,
    /// How they were taken.
    taken: Taken,
    /// Times of the run, in ns, before and after which nothing could be seen.
    pub watched: Option<(u64, u64)>,
}

enum Taken {
    /// By the lab, every so many misses one.
    Lab(u64),
    /// In another way, which the profile puts into words.
    Otherwise(String),
    /// Not sampled, but counted one and all.
    All(String),
}

/// Whether this sampler fills the table `miss`.
pub(crate) fn counts(sampler: &str) -> bool {
    crate::schema::COUNTING.contains(&sampler)
}

/// Sums up the table `miss` over `intervals` of `interval` ns each.
pub(crate) fn counted(db: &Connection, sampler: &str, interval: u64, intervals: usize) -> Result<Counted> {
    let meta = |key: &str| -> Result<Option<String>> {
        db.query_row("SELECT value FROM meta WHERE key = ?", [key], |r| r.get(0)).optional()
    };
    let period = meta("period")?.and_then(|p| p.parse().ok()).unwrap_or(1);
    let how = meta("sampling")?.unwrap_or_default();
    let taken = match sampler {
        LAB => Taken::Lab(period),
        DHAT => Taken::All(how),
        _ => Taken::Otherwise(how),
    };
    let watched = meta("watched")?.and_then(|text| {
        let (from, to) = text.split_once(' ')?;
        Some((from.parse().ok()?, to.parse().ok()?))
    });
    let (samples, astray, elsewhere) = (0, 0, BTreeMap::new());
    let mut out = Counted { sites: HashMap::new(), rest: None, samples, astray, elsewhere, taken, watched };
    // No site stands for the rest.
    let mut estimates: HashMap<Option<i64>, (SiteEstimate, u64)> = HashMap::new();
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    // Before version 3 each sample weighed as much as the period.
    let weights = if version < 3 { "loads * ?1, stores * ?1" } else { "load_weight, store_weight + 0 * ?1" };
    let mut s = db.prepare(&format!("SELECT site, start_ns, loads, stores, ahead, {weights}, place FROM miss"))?;
    let mut rows = s.query([period as i64])?;
    while let Some(r) = rows.next()? {
        let (start, loads, stores) = (unsigned(r, 1)?, unsigned(r, 2)?, unsigned(r, 3)?);
        out.samples += loads + stores;
        let site: Option<i64> = r.get(0)?;
        if site.is_none() {
            out.astray += loads + stores;
            *out.elsewhere.entry(r.get(7)?).or_default() += loads + stores;
        }
        let (e, ahead) = estimates.entry(site).or_default();
        e.misses.resize(intervals, 0.0);
        e.samples += loads + stores;
        let (load_weight, store_weight) = (unsigned(r, 5)? as f64, unsigned(r, 6)? as f64);
        e.load_misses += load_weight;
        e.store_misses += store_weight;
        *ahead += unsigned(r, 4)?;
        // What lies beyond the end of the run (by the clocks' disagreement) belongs to its last interval.
        let width = miss_interval_ns(start);
        let start = start.min((intervals as u64).saturating_mul(interval).saturating_sub(width));
        let (mut from, mut to) = (start, start.saturating_add(width));
        if let Some((first, last)) = watched.filter(|w| from.max(w.0) < to.min(w.1)) {
            (from, to) = (from.max(first), to.min(last));
        }
        let rate = (load_weight + store_weight) / (to - from) as f64;
        spread(&mut e.misses, rate, from, to, interval);
    }
    for (site, (mut e, ahead)) in estimates {
        // Only the lab tells what the prefetcher did.
        if sampler == LAB {
            e.pattern = match ahead as f64 / e.samples.max(1) as f64 {
                s if s >= MOSTLY => Pattern::Stream { stride: LINE },
                s if s <= 1.0 - MOSTLY => Pattern::Random,
                _ => Pattern::Mixed,
            };
        }
        match site {
            Some(site) => _ = out.sites.insert(site, e),
            None => out.rest = Some(e),
        }
    }
    Ok(out)
}

impl Counted {
    /// What the samples hit that hit no object, with their share of all, most first.
    pub fn elsewhere(&self) -> Vec<(String, f64)> {
        let share = |n: u64| n as f64 / self.samples.max(1) as f64;
        let mut all: Vec<(String, f64)> = self.elsewhere.iter().map(|(place, &n)| (place.clone(), share(n))).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all
    }

    /// What is known of the error, as a sentence; `hottest`: samples on the hottest site.
    pub fn error(&self, hottest: u64) -> String {
        // Samples are taken evenly from a stream of misses, so this is the most.
        let error = 100.0 / (hottest.max(1) as f64).sqrt();
        match &self.taken {
            _ if self.samples == 0 => String::new(),
            Taken::Lab(1) => {
                "period 1: each is one miss of the emulated machine's last-level cache, not an estimate".to_string()
            }
            Taken::Lab(n) => format!(
                "period {n}: one of {n} misses of the emulated machine's last-level cache; the hottest site rests on \
                 {hottest} of them, which alone leaves an error of {error:.1} %"
            ),
            Taken::All(how) => how.clone(),
            Taken::Otherwise(how) => format!(
                "{how}; the hottest site rests on {hottest} of the samples, which alone leaves an error of {error:.1} %"
            ),
        }
    }
}
