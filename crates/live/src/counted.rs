//! What samplers outside of the process have counted in this interval: misses by record.

use crate::rates::Rates;
use crate::table::Table;
use foldhash::HashMap;
use policy::cost::moment::Lines;
use record::misses::{Line, Miss};

/// Misses of an interval.
#[derive(Debug, Default)]
pub struct Counted {
    records: HashMap<(usize, u64), Lines>,
    /// Of each process, misses on memory that is no record, and samples of any.
    processes: HashMap<usize, (Lines, f64)>,
    /// Misses of loads and stores, wherever they were.
    pub misses: f64,
}

impl Counted {
    /// A sample.
    pub fn add(&mut self, process: usize, table: &mut Table, miss: &Miss, interval: u32) {
        if miss.weight == 0 {
            return; // it only tells where data came from
        }
        let lines = lines(miss);
        self.misses += lines.misses();
        let (elsewhere, samples) = self.processes.entry(process).or_default();
        *samples += 1.0;
        let sum = match table.at(miss.addr) {
            Some((start, record)) => {
                record.seen = interval;
                self.records.entry((process, start)).or_default()
            }
            None => elsewhere,
        };
        *sum = sum.with(lines, |a, b| a + b);
    }

    /// Of each process, misses of this interval on memory that is no record, and samples of any.
    pub fn processes(&self) -> impl Iterator<Item = (usize, (Lines, f64))> {
        self.processes.iter().map(|(process, of)| (*process, *of))
    }

    /// Lines a second of each record in the interval, which took so many seconds and is over.
    pub fn rates(&mut self, length_s: f64) -> Rates {
        self.misses = 0.0;
        self.processes.clear();
        let mut records = std::mem::take(&mut self.records);
        records.values_mut().for_each(|lines| *lines = lines.times(1.0 / length_s));
        Rates { records, ..Rates::default() }
    }
}

fn lines(miss: &Miss) -> Lines {
    let (weight, none) = (miss.weight as f64, Lines::default());
    match miss.line {
        Line::Written => Lines { written: weight, ..none },
        Line::Beside => Lines { beside: weight, ..none },
        Line::Missed if miss.store => Lines { stores: weight, ..none },
        Line::Missed if miss.ahead => Lines { stream: weight, ..none },
        Line::Missed => Lines { random: weight, ..none },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::record;

    #[test]
    fn misses_are_counted_for_the_record_they_fall_on() {
        let mut table = Table::default();
        table.add(0x10_0000, 8192, 1 << 30, record(0));
        let miss = |addr| Miss { addr, weight: 10, ..Miss::default() };
        let mut counted = Counted::default();
        for m in [
            miss(0x10_1fff),
            Miss { store: true, ..miss(0x10_0000) },
            miss(0x10_2000),
            Miss { weight: 0, ..miss(0x10_0000) },
        ] {
            counted.add(3, &mut table, &m, 7);
        }
        counted.add(3, &mut table, &Miss { line: Line::Written, ..miss(0x10_0000) }, 7);
        assert_eq!(
            (counted.misses, counted.processes().map(|(p, of)| (p, of.0.random, of.1)).collect::<Vec<_>>()),
            (30.0, vec![(3, 10.0, 4.0)])
        );
        let all = counted.rates(2.0).records;
        assert_eq!(all[&(3, 0x10_0000)], Lines { random: 5.0, stores: 5.0, written: 5.0, ..Lines::default() });
        assert_eq!((all.len(), table.at(0x10_0000).map(|r| r.1.seen)), (1, Some(7)));
        assert!(counted.rates(2.0).records.is_empty() && counted.misses == 0.0);
    }
}
