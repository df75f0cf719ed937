//! Objects that are told together. A site that makes very many of them would fill the profile with rows that say the same:
//! of each site the first ones have a row of their own, those that were sampled, and those that lived long. What becomes of
//! the others is summed up in *cohorts*: those of a site, a process and a tier that died in the same interval of time.
//!
//! Nothing that sums over a site suffers: numbers, bytes, largest, mean lifetime and the most bytes alive at one moment are
//! exact; only how live bytes ran within a cohort is not known any more.

use crate::follow::Object;
use foldhash::HashMap;
use model::SiteId;
use profile::Cohort;

/// Objects of a site with a row of their own, before others are told together; and as many again that lived long.
const OWN_ROWS: u32 = 1000;
/// When the profile has so many of them, a site gets few.
const MANY_ROWS: u64 = 500_000;
const FEW_ROWS: u32 = 16;
/// An object has lived long if it did for one part in so many of the run so far.
const LONG: u64 = 64;
/// Most cohorts of a group; with more, two neighbours become one. Where there are so many groups that all of them together would
/// have more than [`ALL_COHORTS`], less.
const COHORTS: usize = 256;
const ALL_COHORTS: usize = 1 << 18;
const FEW_COHORTS: usize = 4;
/// Interval of a cohort at first, in ns.
const INTERVAL_NS: u64 = 10_000_000;
const PAGE: u64 = 4096;

/// A process, a site and a tier.
pub type Key = (usize, SiteId, u8);

fn add(to: &mut Cohort, other: &Cohort) {
    to.start_ns = to.start_ns.min(other.start_ns);
    to.end_ns = to.end_ns.max(other.end_ns);
    to.objects += other.objects;
    to.bytes = to.bytes.saturating_add(other.bytes);
    to.largest = to.largest.max(other.largest);
    to.byte_seconds += other.byte_seconds;
    to.page_seconds += other.page_seconds;
    to.lifetime_seconds += other.lifetime_seconds;
    to.peak = to.peak.max(other.peak);
}

/// The cohorts of a process, site and tier.
#[derive(Debug, Default)]
struct Group {
    interval: u64,
    /// By number of the interval, ascending.
    cohorts: Vec<(u64, Cohort)>,
    /// All of them from this one on have changed since they were told.
    changed: usize,
}

impl Group {
    fn add(&mut self, cohort: &Cohort, most: usize) {
        if self.interval == 0 {
            self.interval = INTERVAL_NS;
        }
        let number = cohort.end_ns / self.interval;
        // Objects of different threads are told a little out of order.
        let at = self.cohorts.partition_point(|(n, _)| *n < number);
        match self.cohorts.get_mut(at) {
            Some((n, there)) if *n == number => add(there, cohort),
            _ => self.cohorts.insert(at, (number, *cohort)),
        }
        self.changed = self.changed.min(at);
        while self.cohorts.len() > most {
            self.interval *= 2;
            let mut fewer: Vec<(u64, Cohort)> = Vec::with_capacity(most);
            for (number, cohort) in self.cohorts.drain(..) {
                match fewer.last_mut() {
                    Some((n, there)) if *n == number / 2 => add(there, &cohort),
                    _ => fewer.push((number / 2, cohort)),
                }
            }
            self.cohorts = fewer;
            self.changed = 0;
        }
    }
}

/// A site's objects.
#[derive(Clone, Copy, Debug, Default)]
struct Living {
    /// Objects that have got rows of their own: when they were born, and when they died.
    own: u32,
    late: u32,
    bytes: u64,
    /// Most bytes alive since the last object died that has no row.
    peak: u64,
}

/// How an object is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// By a row of its own.
    Alone,
    /// With others.
    Together,
}

/// The objects of a run that are told together.
#[derive(Debug, Default)]
pub struct Churn {
    sites: HashMap<SiteId, Living>,
    groups: HashMap<Key, Group>,
    rows: u64,
}

impl Churn {
    /// An object came to life: how it is told.
    pub fn born(&mut self, o: &Object) -> Told {
        let site = self.sites.entry(o.site).or_default();
        site.bytes += o.size;
        site.peak = site.peak.max(site.bytes);
        if site.own < if self.rows < MANY_ROWS { OWN_ROWS } else { FEW_ROWS } {
            site.own += 1;
            self.rows += 1;
            return Told::Alone;
        }
        Told::Together
    }

    /// An object that got a row of its own when it was born is no more.
    pub fn died_alone(&mut self, o: &Object) {
        if let Some(site) = self.sites.get_mut(&o.site) {
            site.bytes = site.bytes.saturating_sub(o.size);
        }
    }

    /// Another one is no more; `sampled`: it has to have a row.
    pub fn died(&mut self, process: usize, o: &Object, free_ns: u64, sampled: bool) -> Told {
        let site = self.sites.entry(o.site).or_default();
        let lifetime = free_ns.saturating_sub(o.alloc_ns);
        let peak = std::mem::replace(&mut site.peak, site.bytes.saturating_sub(o.size));
        site.bytes = site.bytes.saturating_sub(o.size);
        let long = lifetime >= free_ns / LONG && site.late < OWN_ROWS && self.rows < MANY_ROWS;
        if long || sampled {
            site.late += u32::from(!sampled);
            self.rows += 1;
            // The peak belongs to those that are told together.
            site.peak = site.peak.max(peak);
            return Told::Alone;
        }
        let (seconds, pages) = (lifetime as f64 / 1e9, o.size.div_ceil(PAGE));
        let cohort = Cohort {
            start_ns: o.alloc_ns,
            end_ns: o.alloc_ns.max(free_ns),
            objects: 1,
            bytes: o.size,
            largest: o.size,
            byte_seconds: o.size as f64 * seconds,
            page_seconds: pages as f64 * seconds,
            lifetime_seconds: seconds,
            peak,
        };
        let most = (ALL_COHORTS / self.groups.len().max(1)).clamp(FEW_COHORTS, COHORTS);
        self.groups.entry((process, o.site, o.tier)).or_default().add(&cohort, most);
        Told::Together
    }

    /// What has changed since the last call: the cohorts of a group that end at a time or later.
    pub fn changed(&mut self) -> impl Iterator<Item = (Key, u64, Vec<Cohort>)> + '_ {
        self.groups.iter_mut().filter_map(|(key, g)| {
            let changed = g.cohorts.get(g.changed..).filter(|c| !c.is_empty())?;
            let from_ns = changed[0].0 * g.interval;
            let cohorts = changed.iter().map(|(_, c)| *c).collect();
            g.changed = g.cohorts.len();
            Some((*key, from_ns, cohorts))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SiteKind;

    fn object(id: u64, size: u64, alloc_ns: u64) -> Object {
        let (site, kind) = (SiteId(7), SiteKind::Allocation);
        Object { id, addr: id << 12, size, site, tier: 0, tid: 1, alloc_ns, realloc: false, kind }
    }

    /// A million short-lived objects leave few rows, and sums that are exact.
    #[test]
    fn sums_are_exact_and_rows_few() {
        let mut churn = Churn::default();
        let (mut alone, mut together) = (0, 0);
        const COUNT: u64 = 100_000;
        for i in 0..COUNT {
            let o = object(i, 8192, i * 1_000_000);
            match churn.born(&o) {
                Told::Alone => {
                    alone += 1;
                    churn.died_alone(&o);
                }
                Told::Together => {
                    // Two at a time, each for 1.5 ms.
                    let free = o.alloc_ns + 1_500_000;
                    together += u64::from(churn.died(0, &o, free, false) == Told::Together);
                }
            }
        }
        assert_eq!(alone, OWN_ROWS);
        let told: Vec<(Key, u64, Vec<Cohort>)> = churn.changed().collect();
        assert_eq!(told.len(), 1);
        let cohorts = &told[0].2;
        assert!(cohorts.len() <= COHORTS, "{}", cohorts.len());
        assert_eq!(cohorts.iter().map(|c| c.objects).sum::<u64>(), together);
        assert_eq!(cohorts.iter().map(|c| c.bytes).sum::<u64>(), 8192 * together);
        let lifetimes: f64 = cohorts.iter().map(|c| c.lifetime_seconds).sum();
        assert!((lifetimes - together as f64 * 1.5e-3).abs() < 1e-6, "{lifetimes}");
        assert!(churn.changed().next().is_none(), "told twice");
    }

    #[test]
    fn the_most_alive_at_one_moment_is_kept() {
        let mut churn = Churn::default();
        for i in 0..u64::from(OWN_ROWS) {
            let o = object(i, 10, i);
            assert_eq!(churn.born(&o), Told::Alone);
            churn.died_alone(&o);
        }
        let all: Vec<Object> = (0..50).map(|i| object(5000 + i, 100, 1_000_000_000 + i)).collect();
        all.iter().for_each(|o| assert_eq!(churn.born(o), Told::Together));
        all.iter().for_each(|o| assert_eq!(churn.died(0, o, o.alloc_ns + 100, false), Told::Together));
        let peak = churn.changed().flat_map(|(_, _, c)| c).map(|c| c.peak).max();
        assert_eq!(peak, Some(5000));
    }

    #[test]
    fn what_was_sampled_or_lived_long_has_a_row() {
        let mut churn = Churn::default();
        (0..u64::from(OWN_ROWS)).for_each(|i| assert_eq!(churn.born(&object(i, 10, i)), Told::Alone));
        let [long, sampled, short] = [1, 2, 3].map(|i| object(9000 + i, 4096, 1_000_000));
        [long, sampled, short].iter().for_each(|o| assert_eq!(churn.born(o), Told::Together));
        assert_eq!(churn.died(0, &long, 2_000_000_000, false), Told::Alone);
        assert_eq!(churn.died(0, &sampled, 1_000_001, true), Told::Alone);
        assert_eq!(churn.died(0, &short, 1_000_001, false), Told::Together);
        let told: Vec<Cohort> = churn.changed().flat_map(|(_, _, c)| c).collect();
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].objects, told[0].bytes, told[0].start_ns, told[0].end_ns), (1, 4096, 1_000_000, 1_000_001));
    }
}
