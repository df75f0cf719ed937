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
/// which accesses are a part only. With 10 % a loop over two arrays whose rounds take 1.3 intervals had a hundred phases in three hundred intervals, and accesses that
/// wander between two objects with a standard deviation of 5 % had fifteen; with 25 % they have one (tests below).
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
    /// The last ones: how many intervals, and lines that were asked for. What lies in fast memory asks for as many in less time, so it is by these that phases are
    /// as long as others.
    former: VecDeque<(u32, f64)>,
    /// Lines of this one, and of its latest interval.
    lines: f64,
    latest: f64,
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
        Phase { since: 1, former: VecDeque::new(), lines: 0.0, latest: 0.0, odd: false, begun: false }
    }

    /// An interval is over, with so many samples, in which so many lines were asked for. `expected`: how it differs from what was expected; `before`: from the interval before,
    /// with so many samples. Whether another phase has begun: with the interval before, or with this one if nothing was expected.
    pub fn over(
        &mut self,
        interval: u32,
        expected: &Difference,
        before: &Difference,
        samples: (f64, f64),
        lines: f64,
    ) -> bool {
        let another = self.changes(interval, expected, before, samples);
        self.lines += lines;
        self.latest = lines;
        another
    }

    /// An interval is over in which so many lines were asked for, and a mark has said whether another phase has begun with it.
    pub fn told(&mut self, interval: u32, another: bool, lines: f64) {
        if another {
            if std::mem::replace(&mut self.begun, true) {
                self.remember(interval - self.since, self.lines);
            }
            (self.since, self.lines) = (interval, 0.0);
        }
        self.odd = false;
        self.lines += lines;
        self.latest = lines;
    }

    fn changes(&mut self, interval: u32, expected: &Difference, before: &Difference, samples: (f64, f64)) -> bool {
        self.odd = expected.expected() && expected.drift(samples.1).is_some();
        // Before anything was seen there was no phase. Later, all that it asked for is gone.
        if !expected.expected() {
            let seen = expected.0.iter().any(|(_, seen)| *seen > 0.0);
            if std::mem::replace(&mut self.begun, seen) {
                self.remember(interval - self.since, self.lines);
            }
            (self.since, self.lines) = (interval, 0.0);
            return samples.1 > 0.0;
        }
        if !self.odd {
            return false;
        }
        if !before.expected() || before.drift(samples.0.min(samples.1) / 2.0).is_some() || interval <= self.since + 1 {
            return false;
        }
        // The interval before was counted for the phase that it has ended.
        self.remember(interval - 1 - self.since, self.lines - self.latest);
        (self.since, self.lines) = (interval - 1, self.latest);
        self.odd = false;
        true
    }

    fn remember(&mut self, length: u32, lines: f64) {
        if self.former.len() == REMEMBERED {
            self.former.pop_front();
        }
        self.former.push_back((length, lines));
    }

    /// Whether the latest interval was something else than its phase: two such in a row, and another one has begun.
    pub fn odd(&self) -> bool {
        self.odd
    }

    /// Intervals that the current phase has lasted, this one included.
    pub fn age(&self, interval: u32) -> u32 {
        interval + 1 - self.since.min(interval)
    }

    /// Lines that the current phase has asked for.
    pub fn lines(&self) -> f64 {
        self.lines
    }

    /// Intervals that the phase before it has lasted, and lines that it asked for; 0 if there was none.
    pub fn last(&self) -> (u32, f64) {
        self.former.back().copied().unwrap_or_default()
    }

    /// Intervals for which it is to be expected to go on: until it has asked for as much as former phases did, and then as long as it has lasted beyond that. A
    /// program whose phases are all alike ends them there, and what is moved then comes too late. Of several former ones it is the middle one that tells: a program's
    /// beginning often asks for much more than all that comes later. Of two it is the mean, since what comes after the beginning mostly asks for as much.
    pub fn expected(&self, interval: u32) -> f64 {
        let age = f64::from(self.age(interval));
        let mut former: Vec<f64> = self.former.iter().map(|(_, lines)| *lines).collect();
        former.sort_unstable_by(f64::total_cmp);
        let usual = match former.as_slice() {
            [] => 0.0,
            [one, other] => (one + other) / 2.0,
            all => all[(all.len() - 1) / 2],
        };
        if self.lines > 0.0 { (usual / self.lines - 1.0).abs() * age } else { age }
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
        let (a, b, none) = ([100.0, 0.0], [0.0, 100.0], [0.0, 0.0]);
        let many = (1e4, 1e4);
        let mut phase = Phase::first();
        let mut over = |interval, [known, before, seen]: [&[f64; 2]; 3], samples, lines| {
            let another = phase.over(interval, &difference(known, seen), &difference(before, seen), samples, lines);
            (another, phase.age(interval), phase.expected(interval), phase.last().0)
        };
        assert_eq!(over(3, [&none, &none, &a], many, 100.0), (true, 1, 1.0, 0), "the first accesses");
        for interval in 4..13 {
            let age = interval - 2;
            assert_eq!(
                over(interval, [&a, &a, &a], many, 100.0),
                (false, age, age.into(), 0),
                "as long as it has lasted"
            );
        }
        assert!(!over(13, [&a, &a, &b], many, 50.0).0, "once is nothing");
        assert_eq!(
            over(14, [&a, &b, &b], many, 50.0),
            (true, 2, 18.0, 10),
            "the other one asked for ten times as much"
        );
        assert_eq!(over(15, [&b, &b, &b], many, 900.0), (false, 3, 0.0, 10), "as much as the other one");
        assert_eq!(over(16, [&b, &b, &b], many, 1000.0), (false, 4, 2.0, 10), "and so much longer");
        assert_eq!(over(17, [&none, &none, &a], many, 1.0), (true, 1, 1499.0, 4), "other objects than before");
        assert_eq!(
            over(18, [&none, &none, &b], many, 100.0),
            (true, 1, 9.0, 1),
            "1000 and 2000 and one that asked for 1"
        );
        assert_eq!(over(25, [&none, &none, &none], (0.0, 0.0), 0.0).3, 7, "nothing any more");
        assert_eq!(over(30, [&none, &none, &b], many, 1.0).3, 7, "there was none in between");
    }

    /// Phases that are told apart in intervals that ask for so much of each record, the first one included.
    fn phases(intervals: impl Iterator<Item = Vec<f64>>) -> u32 {
        let mut phase = Phase::first();
        let (mut asked, mut before): (Vec<f64>, Vec<f64>) = Default::default();
        let mut phases = 0;
        for (n, now) in intervals.enumerate() {
            asked.resize(now.len(), 0.0);
            before.resize(now.len(), 0.0);
            // Of what was odd nothing is expected.
            let less = if phase.odd() { 1.0 } else { 0.0 };
            let expected: Vec<f64> = asked.iter().zip(&before).map(|(sum, one)| (sum - less * one).max(0.0)).collect();
            let (expected, last) = (difference(&expected, &now), difference(&before, &now));
            if phase.over(n as u32 + 1, &expected, &last, (1e4, 1e4), 1.0) {
                phases += 1;
                asked = if phase.age(n as u32 + 1) > 1 { before } else { vec![0.0; now.len()] };
            }
            asked.iter_mut().zip(&now).for_each(|(sum, one)| *sum += one);
            before = now;
        }
        phases
    }

    #[test]
    fn a_walk_is_no_phase() {
        let at = |n: usize| -> Vec<f64> { (0..20).map(|i| if i == n { 100.0 } else { 0.0 }).collect() };
        assert_eq!(phases((0..20).map(at)), 1, "the first");
    }

    /// Two arrays by turns, both of them in so many intervals.
    fn turns(round: f64) -> impl Iterator<Item = Vec<f64>> {
        const PARTS: u32 = 1000;
        (0..300).map(move |n| {
            let first = |part: &u32| ((f64::from(n) + f64::from(*part) / f64::from(PARTS)) / round).fract() < 0.5;
            let first = (0..PARTS).filter(first).count() as f64;
            vec![first, f64::from(PARTS) - first]
        })
    }

    #[test]
    fn a_loop_that_is_out_of_step_with_intervals_is_no_phase() {
        for round in [0.05, 0.3, 0.6, 0.7, 1.3] {
            assert_eq!(phases(turns(round)), 1, "{round}");
        }
        assert_eq!(phases(turns(20.0)), 30, "each array ten intervals long");
    }

    /// Half of the accesses go to each of two records, and wander with this standard deviation; after 150 intervals so much more goes to the first.
    fn wandering(deviation: f64, change: f64, mut dice: u64) -> impl Iterator<Item = Vec<f64>> {
        let mut at = 0.0;
        (0..300).map(move |n| {
            let mut draw = || {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (dice >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            };
            // Nearly normal, of variance 1.
            let normal = (0..12).map(|_| draw()).sum::<f64>();
            at = 0.5 * at + 0.75f64.sqrt() * deviation * normal;
            let first: f64 = 0.5 + at + if n < 150 { 0.0 } else { change };
            vec![1e4 * first.clamp(0.0, 1.0), 1e4 * (1.0 - first).clamp(0.0, 1.0)]
        })
    }

    #[test]
    fn accesses_that_wander_are_no_phase() {
        let mean = |deviation: f64, change: f64| {
            (1..=50).map(|dice| f64::from(phases(wandering(deviation, change, dice)))).sum::<f64>() / 50.0
        };
        let even = [0.01, 0.03, 0.05].map(|deviation| mean(deviation, 0.0));
        assert!(even.iter().all(|phases| *phases < 1.2), "{even:?}: no more phases than there are");
        let changed = mean(0.05, 0.4);
        assert!((1.9..2.5).contains(&changed), "{changed}: one more");
    }
}
