//! The mean since the record came to life: every interval counts the same. Of a program that walks through its memory it is the only thing that
//! tells what is hot; what is hot now in one that changes its ways tells its phase ([`crate::phase`]).

use super::Aggregate;
use policy::cost::moment::Lines;

pub struct Mean;

impl Aggregate for Mean {
    fn aggregate(&self, before: Lines, now: Lines, age: u32) -> Lines {
        let weight = 1.0 / f64::from(age.max(1));
        before.with(now, |before, now| weight * now + (1.0 - weight) * before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_interval_counts_the_same() {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let sum = (1..=4).fold(Lines::default(), |sum, age| Mean.aggregate(sum, line(f64::from(age)), age));
        assert!((sum.random - 2.5).abs() < 1e-9);
    }
}
