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
    /// Of each page of a site's other records.
    pub others: HashMap<SiteId, Lines>,
}

impl Rates {
    /// Adds others.
    pub fn add(&mut self, more: &Rates) {
        fn sum<K: Copy + Eq + std::hash::Hash>(all: &mut HashMap<K, Lines>, more: &HashMap<K, Lines>) {
            for (key, lines) in more {
                let sum = all.entry(*key).or_default();
                *sum = sum.with(*lines, |a, b| a + b);
            }
        }
        sum(&mut self.records, &more.records);
        sum(&mut self.others, &more.others);
    }

    /// So many times as much.
    pub fn times(&self, factor: f64) -> Rates {
        let records = self.records.iter().map(|(key, lines)| (*key, lines.times(factor))).collect();
        Rates { records, others: self.others.iter().map(|(key, lines)| (*key, lines.times(factor))).collect() }
    }

    /// Without what others asked for.
    pub fn without(&self, less: &Rates) -> Rates {
        let mut rest = self.times(1.0);
        rest.add(&less.times(-1.0));
        let none_less = |lines: &mut Lines| *lines = lines.with(Lines::default(), f64::max);
        rest.records.values_mut().chain(rest.others.values_mut()).for_each(none_less);
        rest
    }

    /// A record's.
    pub fn of(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.records.get(&(process, start)).copied().unwrap_or_else(|| {
            let page = self.others.get(&record.site).copied().unwrap_or_default();
            page.times(f64::from(record.pages))
        })
    }
}
