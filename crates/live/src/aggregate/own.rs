//! What a user's script says: `fn weight(before, now, age)`, the weight of the last interval, 0 to 1. `before` and `now`: misses a second; `age`:
//! intervals.

use super::Aggregate;
use super::mean::Mean;
use crate::script::{Script, number};
use policy::cost::moment::Lines;

pub struct Own(Script);

impl Own {
    pub fn load(file: Option<&str>) -> Result<Own, String> {
        Script::load(file, "weight", 3).map(Own)
    }
}

impl Aggregate for Own {
    fn aggregate(&self, before: Lines, now: Lines, age: u32) -> Lines {
        let share = |answer| number(answer).filter(|w| (0.0..=1.0).contains(w));
        match self.0.ask((before.misses(), now.misses(), i64::from(age)), share) {
            Some(weight) => before.with(now, |before, now| weight * now + (1.0 - weight) * before),
            None => Mean.aggregate(before, now, age),
        }
    }

    fn failed(&self) -> Option<String> {
        self.0.failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::tests::file;

    #[test]
    fn the_script_weighs_until_it_fails() {
        let (_dir, path) =
            file("fn weight(before, now, age) { if now > before { 1 } else if age > 5 { 2 } else { 0.25 } }");
        let own = Own::load(Some(&path)).expect("a good script");
        let line = |random: f64| Lines { random, ..Lines::default() };
        assert_eq!(own.aggregate(line(1.0), line(3.0), 2).random, 3.0);
        assert_eq!(own.aggregate(line(4.0), line(0.0), 2).random, 3.0);
        assert_eq!(own.aggregate(line(6.0), line(0.0), 6).random, 5.0, "a weight of 2 is none: the mean");
        assert!(own.failed().is_some());
    }
}
