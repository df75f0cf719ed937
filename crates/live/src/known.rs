//! What a profile says of sites, taken for what a sampler would have seen: each page of a site is asked for as often as in the profile, and the
//! sizes are those of the run. So a profile of a small run guides a large one (paper 003, sections 3.4 and 5.3), also where nothing can be sampled.

use crate::rates::{Others, Rates};
use crate::table::{PAGE, Table};
use foldhash::{HashMap, HashSet};
use model::{Observed, SiteId};
use policy::cost::demand::{self, Use};
use policy::cost::moment::Lines;

/// Lines a second of sites.
#[derive(Clone, Debug)]
pub struct Known {
    /// Of each page.
    sites: HashMap<SiteId, Lines>,
    /// Of all sites together, in the profile.
    all: f64,
    /// How long the profiled run took, in s.
    took: f64,
    /// What it lacks, as a sentence.
    lacks: Option<String>,
}

impl Known {
    /// Of a profile. Sites of one call stack whose objects it tells apart are one: nobody knows which object of this run is which of them.
    ///
    /// # Errors
    /// It has no sites, or no access samples.
    pub fn of(observed: &Observed) -> Result<Known, policy::Error> {
        if observed.sites.is_empty() {
            return Err(policy::Error::NoSites { threshold: observed.threshold });
        }
        demand::require_samples(observed)?;
        let watched = observed.watched.map_or(observed.duration.0, |(from, to)| to.0.saturating_sub(from.0));
        let seconds = (watched as f64 / 1e9).max(1e-9);
        let told = observed.sites.iter().enumerate().map(|(n, seen)| {
            let Use { random, stream, stores, written, beside, .. } = Use::of(n, &seen.asked(), seen.misses());
            let lines = Lines { random, stream, stores, written, beside }.times(1.0 / seconds);
            (seen.site.apart.map_or(seen.site.id, |a| a.stack), lines, seen.peak.0.div_ceil(PAGE))
        });
        let apart: HashSet<SiteId> = observed.sites.iter().filter_map(|s| Some(s.site.apart?.stack)).collect();
        let lacks = (!apart.is_empty()).then(|| {
            let s = if apart.len() == 1 { "" } else { "s" };
            format!("the profile tells objects of {} call stack{s} apart; here they count as equally hot", apart.len())
        });
        Ok(Known { lacks, ..Known::new(told, observed.duration.0 as f64 / 1e9) })
    }

    /// Of sites, what was asked of each in a second, and of how many pages; some may be of the same one.
    fn new(told: impl Iterator<Item = (SiteId, Lines, u64)>, took: f64) -> Known {
        let mut sums: HashMap<SiteId, (Lines, u64)> = HashMap::default();
        for (site, lines, pages) in told {
            let of = sums.entry(site).or_default();
            *of = (of.0.with(lines, |a, b| a + b), of.1 + pages);
        }
        let all = sums.values().map(|(lines, _)| lines.misses()).sum();
        let sites = sums.into_iter().map(|(site, (lines, pages))| (site, lines.times(1.0 / pages.max(1) as f64)));
        Known { sites: sites.collect(), all, took, lacks: None }
    }

    /// What is asked of the records, by what is known: a larger run has more memory to ask, and asks no more in a second.
    pub fn rates(&self, tables: &[Table]) -> Rates {
        let mut pages: HashMap<SiteId, u64> = HashMap::default();
        tables.iter().flat_map(Table::iter).for_each(|(_, r)| *pages.entry(r.site).or_default() += u64::from(r.pages));
        let found = || pages.iter().filter_map(|(site, n)| Some((*site, *self.sites.get(site)?, *n)));
        let asked: f64 = found().map(|(_, lines, n)| lines.misses() * n as f64).sum();
        let less = if asked > self.all { self.all / asked } else { 1.0 };
        let others = |lines: Lines| Others { page: lines.times(less), told: 0 };
        Rates { others: found().map(|(site, lines, _)| (site, others(lines))).collect(), ..Rates::default() }
    }

    /// How long a run that is so old may last, if it is as long as that of the profile, in s.
    pub fn left(&self, age: f64) -> f64 {
        (self.took - age).max(0.0)
    }

    /// What the user should know of it: `met` sites with misses were met in this run.
    pub fn note(&self, met: usize) -> Option<String> {
        let hot = self.sites.values().filter(|lines| !lines.is_none()).count();
        match met {
            0 => Some(format!(
                "none of the profile's {hot} sites with misses has an object in this run that outlived an interval: is it of another build of the program, or is the --interval too long?"
            )),
            met if met < hot => Some(format!("of the profile's {hot} sites with misses this run has {met}")),
            _ => self.lacks.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Record;
    use model::SiteKind;

    fn known(sites: &[(u64, f64, u64)]) -> Known {
        let told = sites
            .iter()
            .map(|(id, random, pages)| (SiteId(*id), Lines { random: *random, ..Lines::default() }, *pages));
        Known::new(told, 2.0)
    }

    fn table(sizes: &[(u64, u64)]) -> Table {
        let mut table = Table::default();
        for (n, (id, pages)) in sizes.iter().enumerate() {
            let record = Record::new(SiteId(*id), SiteKind::Allocation, 1);
            table.add(0x10_0000 + n as u64 * (1 << 30), pages * PAGE, 1 << 30, record);
        }
        table
    }

    #[test]
    fn a_larger_run_asks_no_more_but_of_more_memory() {
        let known = known(&[(1, 300.0, 10), (2, 100.0, 10)]);
        let misses = |tables: &[Table], site| known.rates(tables).others.get(&SiteId(site)).map(|o| o.page.misses());
        let same = [table(&[(1, 10), (2, 10), (3, 10)])];
        assert_eq!([1, 2, 3].map(|s| misses(&same, s)), [Some(30.0), Some(10.0), None]);
        // The first is four times as large: it is still three times as hot, and all of it asks for 400 a second.
        let large = [table(&[(1, 20), (2, 10)]), table(&[(1, 20)])];
        let [first, second] = [1, 2].map(|s| misses(&large, s).expect("it is known"));
        assert!((first / second - 3.0).abs() < 1e-9 && (40.0 * first + 10.0 * second - 400.0).abs() < 1e-9);
        // A smaller one asks for less.
        assert_eq!(misses(&[table(&[(1, 5)])], 1), Some(30.0));
        assert_eq!((known.left(0.5), known.left(3.0)), (1.5, 0.0));
        assert_eq!([0, 1, 2].map(|met| known.note(met).is_some()), [true, true, false]);
    }

    #[test]
    fn objects_of_one_stack_are_equally_hot() {
        let rates = known(&[(1, 300.0, 2), (1, 100.0, 2)]).rates(&[table(&[(1, 2), (1, 2)])]);
        assert_eq!(rates.others.get(&SiteId(1)).map(|o| o.page.misses()), Some(100.0));
    }
}
