//! When intervals began. They are not all of one length: one is longer while something is moved, and all are where there is much to do after each.

use std::collections::VecDeque;

/// Of so many intervals it is remembered exactly.
const REMEMBERED: usize = 1024;
/// Of so many the middle one tells how long those are that will come.
const LATELY: usize = 5;

/// The intervals up to now.
#[derive(Debug)]
pub struct Clock {
    /// How long one is meant to be, in ns.
    meant: u64,
    /// When the first one began, in ns.
    began: u64,
    /// How many are over.
    over: u32,
    /// When the latest ones ended, in ns.
    ends: VecDeque<u64>,
}

impl Clock {
    /// The first one begins. `meant_ns`: how long one is meant to be.
    pub fn new(meant_ns: u64, now_ns: u64) -> Clock {
        Clock { meant: meant_ns, began: now_ns, over: 0, ends: VecDeque::new() }
    }

    /// An interval is over. Gives its length, in ns.
    pub fn over(&mut self, now_ns: u64) -> f64 {
        let before = self.ends.back().copied().unwrap_or(self.began);
        self.over += 1;
        self.ends.push_back(now_ns);
        if self.ends.len() > REMEMBERED {
            self.ends.pop_front();
        }
        now_ns.saturating_sub(before).max(1) as f64
    }

    /// How long ago an interval began, in ns, when the last one ended. The first has the number 1.
    pub fn since(&self, interval: u32) -> f64 {
        let Some((&first, &last)) = self.ends.front().zip(self.ends.back()) else { return 0.0 };
        // It began when the one before ended.
        let before = interval.saturating_sub(1).min(self.over);
        let forgotten = self.over - self.ends.len() as u32;
        let began = match before.checked_sub(forgotten + 1) {
            Some(place) => self.ends[place as usize] as f64,
            None => {
                let share = f64::from(before) / f64::from(forgotten + 1);
                self.began as f64 + share * first.saturating_sub(self.began) as f64
            }
        };
        (last as f64 - began).max(0.0)
    }

    /// For how long that which came in an interval has been there at least, in ns: one that was longer than they usually are may have been nearly over when it came.
    pub fn lived(&self, interval: u32) -> f64 {
        self.since(interval).min(self.since(interval + 1) + self.usual())
    }

    /// How long intervals are lately, in ns.
    pub fn usual(&self) -> f64 {
        let from = self.ends.len().saturating_sub(LATELY + 1);
        let ends = || self.ends.range(from..);
        let mut lengths: Vec<u64> = ends().zip(ends().skip(1)).map(|(a, b)| b.saturating_sub(*a)).collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).map_or(self.meant as f64, |middle| *middle as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_how_long_ago_an_interval_began() {
        let mut clock = Clock::new(10, 990);
        assert_eq!((clock.since(1), clock.usual()), (0.0, 10.0));
        let lengths: Vec<f64> = [1000, 1010, 1020, 1100, 1110].map(|end| clock.over(end)).to_vec();
        assert_eq!(lengths, [10.0, 10.0, 10.0, 80.0, 10.0]);
        assert_eq!([1, 2, 4, 5, 6, 9].map(|n| clock.since(n)), [120.0, 110.0, 90.0, 10.0, 0.0, 0.0]);
        assert_eq!([1, 2, 4, 5, 6].map(|n| clock.lived(n)), [120.0, 110.0, 20.0, 10.0, 0.0]);
        assert_eq!(clock.usual(), 10.0, "one that was long does not tell how long they are");
        (0..3).for_each(|n| _ = clock.over(1190 + 80 * n));
        assert_eq!(clock.usual(), 80.0);
    }

    #[test]
    fn what_is_long_ago_is_known_about() {
        let mut clock = Clock::new(10, 0);
        (1..=5000u64).for_each(|n| _ = clock.over(n * 10));
        assert_eq!(clock.since(1), 50_000.0);
        assert_eq!([1001, 3977, 4001].map(|n| clock.since(n)), [40_000.0, 10_240.0, 10_000.0]);
    }
}
