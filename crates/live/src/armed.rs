//! What the page-fault sampler has seen lately: its exposures of the last intervals, of which the estimator of profiles makes
//! misses, and among a site's records divides them.

use crate::rates::{Others, Rates};
use crate::table::{PAGE, Table};
use foldhash::HashMap;
use model::{Pattern, SiteId};
use policy::cost::moment::Lines;
use profile::estimate::{Exposure, SiteSamples, Slice, estimate};
use std::collections::VecDeque;

/// Exposures of so many intervals are looked at together: a site with a tenth of 200 visits a second is then known to 5 %.
const INTERVALS: u32 = 10;
/// Most that are kept.
const MOST: usize = 1 << 16;

/// The exposures of the last intervals.
#[derive(Debug, Default)]
pub struct Armed(VecDeque<(u32, SiteId, Exposure)>);

impl Armed {
    /// An exposure has ended.
    pub fn add(&mut self, interval: u32, site: SiteId, exposure: Exposure) {
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((interval, site, exposure));
    }

    /// A process has ended; its number may be another one's soon.
    pub fn forget(&mut self, process: usize) {
        self.0.retain(|(.., exposure)| exposure.process as usize != process);
    }

    /// Visits of an interval: number of the process of each.
    pub fn visits(&self, interval: u32) -> impl Iterator<Item = usize> {
        let latest = self.0.iter().rev().take_while(move |(at, ..)| *at == interval);
        latest.filter(|(.., e)| e.visit.is_some()).map(|(.., e)| e.process as usize)
    }

    /// Nothing was seen yet.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Lines a second of each record that was looked at, and a page of the others of its site. `length_s`: one interval; `llc`:
    /// bytes of the cache.
    pub fn rates(&mut self, interval: u32, length_s: f64, llc: u64, tables: &mut [Table]) -> Rates {
        while self.0.front().is_some_and(|(at, ..)| at + INTERVALS < interval) {
            self.0.pop_front();
        }
        let first = self.0.front().map_or(interval, |(at, ..)| *at);
        let length_s = length_s * f64::from(interval.saturating_sub(first).max(1));
        let mut sites: Vec<SiteId> = self.0.iter().map(|(_, site, _)| *site).collect();
        sites.sort_unstable();
        sites.dedup();
        let place: HashMap<SiteId, usize> = sites.iter().enumerate().map(|(i, site)| (*site, i)).collect();
        let mut samples = vec![SiteSamples { page_seconds: vec![0.0], ..SiteSamples::default() }; sites.len()];
        // The records of each site, as slices of it, and what is not a slice since nothing of it was looked at.
        let mut slices: Vec<HashMap<(usize, u64), Slice>> = vec![HashMap::default(); sites.len()];
        let mut unseen = vec![0u64; sites.len()];
        for (_, site, exposure) in &self.0 {
            let (i, process) = (place[site], exposure.process as usize);
            let Some((start, _)) = tables.get_mut(process).and_then(|t| t.at(exposure.page)) else { continue };
            let number = samples[i].exposures.len();
            samples[i].exposures.push(*exposure);
            slices[i].entry((process, start)).or_default().exposures.push(number);
        }
        for (process, table) in tables.iter().enumerate() {
            for (start, record) in table.iter() {
                let Some(&i) = place.get(&record.site) else { continue };
                let page_seconds = f64::from(record.pages) * length_s;
                samples[i].page_seconds[0] += page_seconds;
                match slices[i].get_mut(&(process, start)) {
                    Some(slice) => slice.page_seconds = page_seconds,
                    None => unseen[i] += u64::from(record.pages),
                }
            }
        }
        let mut keys: Vec<Vec<(usize, u64)>> = Vec::with_capacity(sites.len());
        for (sample, slices) in samples.iter_mut().zip(slices) {
            let mut all: Vec<_> = slices.into_iter().collect();
            all.sort_by_key(|(key, _)| *key);
            let (names, slices) = all.into_iter().unzip();
            keys.push(names);
            sample.slices = slices;
        }
        let mut rates = Rates::default();
        for (i, (e, keys)) in estimate(&samples, length_s, llc).iter().zip(keys).enumerate() {
            let lines = |loads: f64, stores: f64| {
                let streaming = match e.pattern {
                    Pattern::Stream { .. } => 1.0,
                    Pattern::Random => 0.0,
                    Pattern::Mixed | Pattern::Unknown => 0.5,
                };
                let (random, stream) = (loads * (1.0 - streaming), loads * streaming);
                Lines { random, stream, stores, written: stores, beside: 0.0 }.times(1.0 / length_s)
            };
            let (mut loads, mut stores) = (e.load_misses, e.store_misses);
            for (key, slice) in keys.into_iter().zip(&e.slices) {
                rates.records.insert(key, lines(slice.load_misses, slice.store_misses));
                loads -= slice.load_misses;
                stores -= slice.store_misses;
            }
            if unseen[i] > 0 {
                let page = 1.0 / unseen[i] as f64;
                let page = lines(loads.max(0.0), stores.max(0.0)).times(page);
                rates.others.insert(sites[i], Others { page, told: 0 });
            }
        }
        rates
    }
}

/// The page that an address lies in.
pub fn page(addr: u64) -> u64 {
    addr & !(PAGE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::record;
    use profile::estimate::Visit;

    /// A site has two objects of 4 MiB: pages of the one are visited after a tenth of the time that those of the other are.
    #[test]
    fn a_sites_misses_go_to_its_hot_records() {
        let mut table = Table::default();
        let at = |object: u64| (1 << 40) + object * (16 << 20);
        (0..3).for_each(|object| _ = table.add(at(object), 4 << 20, 1 << 30, record(0)));
        let mut armed = Armed::default();
        for n in 0..400u64 {
            let (object, wait_ns) = if n % 2 == 0 { (0, 1_000_000) } else { (1, 10_000_000) };
            let visit = Some(Visit { store: false, burst: None });
            let page = at(object) + (n * 37 % 1024) * PAGE;
            let exposure = Exposure { process: 0, page, end_ns: n * 20_000_000, wait_ns, visit };
            armed.add((n / 100) as u32, SiteId(1), exposure);
        }
        let mut tables = [table];
        let rates = armed.rates(4, 2.0, 1 << 20, &mut tables);
        let of = |object: u64| {
            let record = *tables[0].iter().nth(object as usize).expect("three objects").1;
            rates.of(0, at(object), &record).misses()
        };
        assert!(of(0) > 3.0 * of(1), "{} {}", of(0), of(1));
        assert!(of(2) > 0.0 && of(1) > 0.0);
    }

    #[test]
    fn what_is_old_is_forgotten() {
        let mut armed = Armed::default();
        let exposure = Exposure { process: 0, page: 0, end_ns: 0, wait_ns: 1, visit: None };
        armed.add(0, SiteId(1), exposure);
        armed.rates(INTERVALS, 1.0, 1 << 20, &mut [Table::default()]);
        assert!(!armed.is_empty());
        armed.rates(INTERVALS + 1, 1.0, 1 << 20, &mut [Table::default()]);
        assert!(armed.is_empty());
    }
}
