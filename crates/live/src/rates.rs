//! What the records were asked for in an interval, whichever sampler tells it.

use crate::table::Record;
use foldhash::HashMap;
use model::SiteId;
use policy::cost::moment::Lines;

/// Lines a second.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    /// Of records, by number of the process and address.
    pub records: HashMap<(usize, u64), Lines>,
    /// Of a site's other records.
    pub others: HashMap<SiteId, Others>,
}

/// Of records of a site that are not told by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// Each page.
    pub page: Lines,
    /// Those that were born in this interval or before were asked for nothing: all that were are told.
    pub told: u32,
}

impl Rates {
    /// Adds others.
    pub fn add(&mut self, more: &Rates) {
        for (key, lines) in &more.records {
            let sum = self.records.entry(*key).or_default();
            *sum = sum.with(*lines, |a, b| a + b);
        }
        for (site, Others { page, told }) in &more.others {
            let sum = self.others.entry(*site).or_default();
            *sum = Others { page: sum.page.with(*page, |a, b| a + b), told: sum.told.max(*told) };
        }
    }

    /// So many times as much.
    pub fn times(&self, factor: f64) -> Rates {
        let records = self.records.iter().map(|(key, lines)| (*key, lines.times(factor))).collect();
        let others = self.others.iter().map(|(site, o)| (*site, Others { page: o.page.times(factor), ..*o })).collect();
        Rates { records, others }
    }

    /// Without what others asked for.
    pub fn without(&self, less: &Rates) -> Rates {
        let mut rest = self.times(1.0);
        rest.add(&less.times(-1.0));
        let none_less = |lines: &mut Lines| *lines = lines.with(Lines::default(), f64::max);
        rest.records.values_mut().chain(rest.others.values_mut().map(|o| &mut o.page)).for_each(none_less);
        rest
    }

    /// Those of so many jobs. `job`: number of a process's job.
    pub fn divided(self, jobs: usize, job: impl Fn(usize) -> usize) -> Vec<Rates> {
        if jobs == 1 {
            return vec![self];
        }
        let mut all = vec![Rates { others: self.others, ..Rates::default() }; jobs];
        for ((process, start), lines) in self.records {
            all[job(process)].records.insert((process, start), lines);
        }
        all
    }

    /// A record's.
    pub fn of(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.records.get(&(process, start)).copied().unwrap_or_else(|| {
            let others = self.others.get(&record.site).filter(|o| record.born > o.told);
            others.map_or_else(Lines::default, |o| o.page.times(f64::from(record.pages)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::record;

    #[test]
    fn who_was_there_is_told_and_who_comes_later_is_like_the_others() {
        let lines = |random: f64| Lines { random, ..Lines::default() };
        let mut rates = Rates::default();
        rates.records.insert((0, 64), lines(9.0));
        rates.others.insert(SiteId(1), Others { page: lines(2.0), told: 3 });
        let of = |rates: &Rates, start, born| rates.of(0, start, &Record { born, ..record(5) }).random;
        assert_eq!((of(&rates, 64, 2), of(&rates, 128, 3), of(&rates, 128, 4)), (9.0, 0.0, 10.0));
        let mut sum = Rates::default();
        sum.others.insert(SiteId(1), Others { page: lines(1.0), told: 0 });
        assert_eq!(of(&sum, 128, 1), 5.0);
        sum.add(&rates.times(0.5));
        assert_eq!((of(&sum, 64, 2), of(&sum, 128, 3), of(&sum, 128, 4)), (4.5, 0.0, 10.0));
    }
}
