//! Which stretch of the run it is: behaviour that has lasted for some intervals, until it changes.
//!
//! How what was asked in an interval is divided among the records is compared with how it was expected to be: half the sum of the
//! differences. Two samples of one behaviour differ too, by chance: with *n* samples on *m* records by about sqrt(m / n). What differs by
//! more than that ([`CHANCE`]), and by more than [`DRIFT`], is something else; and if two intervals in a row are alike in being something else, it
//! is another phase. Means are then formed anew from these two. A program that walks through its memory does something else in each interval: that is
//! no phase, and only the mean of many intervals tells what is hot.

use policy::cost::moment::Lines;
use std::collections::VecDeque;

/// So large a share of the accesses has to go elsewhere: Unimem (SC 2017, section 3.2) profiles a phase anew when its time differs by 10 %, of
/// which accesses are a part only.
const DRIFT: f64 = 0.25;
/// Two samples of *n* each from *m* equal records differ by 0.4 times the root of m / n in the mean; by more than so many times that they
/// hardly ever do.
const CHANCE: f64 = 1.0;
/// Lengths of former phases that are remembered.
const REMEMBERED: usize = 8;

/// The current phase.
#[derive(Debug)]
pub struct Phase {
    /// The interval in which it began.
    since: u32,
    /// Lengths of the last ones, in intervals.
    lengths: VecDeque<u32>,
    /// The interval before was not as expected.
    odd: bool,
    /// Something was asked of records in it.
    begun: bool,
}

/// What was expected of the records and what was seen in an interval, record by record.
#[derive(Clone, Debug, Default)]
pub struct Difference(Vec<(f64, f64)>);

impl Difference {
    /// A record, with lines a second.
    pub fn add(&mut self, expected: Lines, seen: Lines) {
        let both = (expected.misses(), seen.misses());
        if both != (0.0, 0.0) {
            self.0.push(both);
        }
    }

    /// Something was expected.
    fn expected(&self) -> bool {
        self.0.iter().any(|(expected, _)| *expected > 0.0)
    }

    /// Share of the accesses that went elsewhere, if it is more than chance with so many samples.
    fn drift(&self, samples: f64) -> Option<f64> {
        self.share(samples).filter(|share| *share > self.bound(samples))
    }

    /// The same, if it is not more.
    pub fn alike(&self, samples: f64) -> Option<f64> {
        self.share(samples).filter(|share| self.expected() && *share <= self.bound(samples))
    }

    /// Share of the accesses that went elsewhere. How many there were does not count: what comes into faster memory is accessed more often.
    fn share(&self, samples: f64) -> Option<f64> {
        let (all, seen): (f64, f64) = self.0.iter().fold((0.0, 0.0), |(a, b), (e, s)| (a + e, b + s));
        if samples <= 0.0 || seen <= 0.0 {
            return None;
        }
        let apart = |(e, s): &(f64, f64)| (if all > 0.0 { e / all } else { 0.0 } - s / seen).abs();
        Some(self.0.iter().map(apart).sum::<f64>() / if all > 0.0 { 2.0 } else { 1.0 })
    }

    /// Shares up to this one may be chance.
    fn bound(&self, samples: f64) -> f64 {
        DRIFT.max(CHANCE * (self.0.len() as f64 / samples).sqrt())
    }
}

impl Phase {
    /// The first one.
    pub fn first() -> Phase {
        Phase { since: 1, lengths: VecDeque::new(), odd: false, begun: false }
    }

    /// An interval is over, with so many samples. `expected`: how it differs from what was expected; `before`: from the interval before,
    /// with so many samples. Whether another phase has begun: with the interval before, or with this one if nothing was expected.
    pub fn over(&mut self, interval: u32, expected: &Difference, before: &Difference, samples: (f64, f64)) -> bool {
        self.odd = expected.expected() && expected.drift(samples.1).is_some();
        // Before anything was seen there was no phase. Later, all that it asked for is gone.
        if !expected.expected() {
            let seen = expected.0.iter().any(|(_, seen)| *seen > 0.0);
            if std::mem::replace(&mut self.begun, seen) {
                self.remember(interval - self.since);
            }
            self.since = interval;
            return samples.1 > 0.0;
        }
        if !self.odd {
            return false;
        }
        if !before.expected() || before.drift(samples.0.min(samples.1) / 2.0).is_some() || interval <= self.since + 1 {
            return false;
        }
        self.remember(interval - 1 - self.since);
        self.since = interval - 1;
        self.odd = false;
        true
    }

    fn remember(&mut self, length: u32) {
        if self.lengths.len() == REMEMBERED {
            self.lengths.pop_front();
        }
        self.lengths.push_back(length);
    }

    /// Whether the latest interval was something else than its phase: two such in a row, and another one has begun.
    pub fn odd(&self) -> bool {
        self.odd
    }

    /// Intervals that the current phase has lasted, this one included.
    pub fn age(&self, interval: u32) -> u32 {
        interval + 1 - self.since.min(interval)
    }

    /// Intervals that the phase before it has lasted; 0 if there was none.
    pub fn last(&self) -> u32 {
        self.lengths.back().copied().unwrap_or(0)
    }

    /// Intervals for which it is to be expected to go on: as long as it has lasted, or as long as former phases did.
    pub fn expected(&self, interval: u32) -> f64 {
        let mean = f64::from(self.lengths.iter().sum::<u32>()) / self.lengths.len().max(1) as f64;
        let age = f64::from(self.age(interval));
        if age < mean { mean - age } else { age }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(expected: &[f64], seen: &[f64]) -> Difference {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let mut d = Difference::default();
        expected.iter().zip(seen).for_each(|(e, s)| d.add(line(*e), line(*s)));
        d
    }

    #[test]
    fn chance_is_no_drift_and_drift_is() {
        let same = difference(&[100.0, 50.0, 10.0], &[900.0, 600.0, 100.0]);
        let other = difference(&[100.0, 50.0, 10.0], &[10.0, 50.0, 100.0]);
        assert!(same.drift(1e6).is_none());
        assert!(other.drift(1e6).is_some_and(|share| (share - 90.0 / 160.0).abs() < 1e-9));
        assert!(other.drift(5.0).is_none(), "five samples tell nothing");
        assert!(difference(&[1.0], &[0.0]).drift(0.0).is_none(), "nothing was seen");
    }

    #[test]
    fn phases_are_as_long_as_they_were() {
        let (a, b) = ([100.0, 0.0], [0.0, 100.0]);
        let many = (1e4, 1e4);
        let mut phase = Phase::first();
        assert!(phase.over(3, &difference(&[0.0, 0.0], &a), &difference(&[0.0, 0.0], &a), many), "the first accesses");
        assert_eq!((phase.age(3), phase.expected(7)), (1, 5.0), "as long as it has lasted");
        assert!(!phase.over(4, &difference(&a, &a), &difference(&a, &a), many));
        assert!(!phase.over(13, &difference(&a, &b), &difference(&a, &b), many), "once is nothing");
        assert!(phase.over(14, &difference(&a, &b), &difference(&b, &b), many));
        assert_eq!((phase.age(14), phase.expected(14)), (2, 8.0), "the other one was 10 long");
        assert_eq!(phase.expected(33), 21.0, "it has lasted longer than the other");
        let none = [0.0, 0.0];
        assert!(phase.over(20, &difference(&none, &a), &difference(&none, &none), many), "other objects than before");
        assert_eq!((phase.last(), phase.age(20)), (7, 1));
        assert!(!phase.over(25, &difference(&none, &none), &difference(&none, &none), (0.0, 0.0)), "nothing any more");
        assert_eq!(phase.last(), 5);
        assert!(phase.over(30, &difference(&none, &b), &difference(&none, &none), many));
        assert_eq!(phase.last(), 5, "there was none in between");
    }

    #[test]
    fn a_walk_is_no_phase() {
        let mut phase = Phase::first();
        let at = |n: usize| -> Vec<f64> { (0..20).map(|i| if i == n { 100.0 } else { 0.0 }).collect() };
        let mut sum = vec![0.0; 20];
        let mut phases = 0;
        for n in 0..20 {
            let before = if n == 0 { vec![0.0; 20] } else { at(n - 1) };
            let changed = phase.over(n as u32 + 1, &difference(&sum, &at(n)), &difference(&before, &at(n)), (1e4, 1e4));
            phases += u32::from(changed);
            sum.iter_mut().zip(at(n)).for_each(|(s, x)| *s += x);
        }
        assert_eq!(phases, 1, "the first");
    }
}
