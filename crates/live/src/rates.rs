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

    /// A record's.
    pub fn of(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.records.get(&(process, start)).copied().unwrap_or_else(|| {
            let page = self.others.get(&record.site).copied().unwrap_or_default();
            page.times(f64::from(record.pages))
        })
    }
}
