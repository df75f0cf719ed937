//! What the records were asked for in an interval, whichever sampler tells it.

use crate::table::Record;
use foldhash::HashMap;
use model::SiteId;
use policy::cost::moment::Lines;

/// Lines a second.
#[derive(Debug, Default)]
pub struct Rates {
    /// Of records, by number of the process and address.
    pub records: HashMap<(usize, u64), Lines>,
    /// Of each page of a site's other records.
    pub others: HashMap<SiteId, Lines>,
}

impl Rates {
    /// A record's.
    pub fn of(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.records.get(&(process, start)).copied().unwrap_or_else(|| {
            let page = self.others.get(&record.site).copied().unwrap_or_default();
            page.times(f64::from(record.pages))
        })
    }
}
