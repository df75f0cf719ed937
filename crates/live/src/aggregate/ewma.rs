//! An exponentially weighted moving average (Flexible and Effective Object Tiering, ISMM 2023, equation 1: tau' = a t + (1 - a) tau, a
//! = 0.1). The paper begins with tau = 0, which is the same for all records of one age; here young and old ones are compared, and
//! rates are reckoned with, so that as long as there are fewer than 1 / a intervals it is their mean.

use super::Aggregate;
use policy::cost::moment::Lines;

pub struct Ewma {
    pub weight: f64,
}

impl Aggregate for Ewma {
    fn aggregate(&self, before: Lines, now: Lines, age: u32) -> Lines {
        let weight = self.weight.max(1.0 / f64::from(age.max(1)));
        before.with(now, |before, now| weight * now + (1.0 - weight) * before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_mean_at_first_and_then_the_papers_formula() {
        let ewma = Ewma { weight: 0.1 };
        let lines = |random: f64| Lines { random, ..Lines::default() };
        let mut sum = Lines::default();
        for (age, now) in [(1, 4.0), (2, 8.0), (3, 0.0)] {
            sum = ewma.aggregate(sum, lines(now), age);
        }
        assert!((sum.random - 4.0).abs() < 1e-9);
        let later = ewma.aggregate(sum, lines(14.0), 100);
        assert!((later.random - (0.1 * 14.0 + 0.9 * 4.0)).abs() < 1e-9);
    }
}
