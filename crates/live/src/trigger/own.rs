//! What a user's script says: `fn due(interval, allocated, misses)`, true or false, with the bytes allocated and the misses of the interval that has
//! just ended; and if it has it `fn worth(gain, cost)`, true or false, of a move and what has to make room for it, both in ns; then of all of them together.

use super::worth_it::{TIMES, WHY, WorthIt};
use super::{Lately, Swap, Trigger};
use crate::script::Script;

pub struct Own {
    script: Script,
    judges: bool,
}

/// Goes on when the script has failed.
const USUAL: WorthIt = WorthIt { times: TIMES };

impl Own {
    pub fn load(file: Option<&str>) -> Result<Own, String> {
        let script = Script::load(file, "due", 3)?;
        let judges = script.has("worth", 2);
        Ok(Own { script, judges })
    }
}

impl Trigger for Own {
    fn due(&mut self, lately: &Lately) -> Option<String> {
        let allocated = i64::try_from(lately.allocated).unwrap_or(i64::MAX);
        let arguments = (i64::from(lately.interval), allocated, lately.misses);
        match self.script.ask(arguments, |answer| answer.as_bool().ok()) {
            Some(due) => due.then(|| "the script says so".to_string()),
            None => Some(WHY.to_string()),
        }
    }

    fn weighs(&self) -> bool {
        self.judges || self.script.failed().is_some()
    }

    fn worth(&self, swap: &Swap) -> bool {
        let asked = || self.script.ask_for("worth", (swap.gain.likely, swap.cost), |answer| answer.as_bool().ok());
        match (self.script.failed(), self.judges) {
            (None, false) => true,
            (None, true) => asked().unwrap_or_else(|| USUAL.worth(swap)),
            (Some(_), _) => USUAL.worth(swap),
        }
    }

    fn failed(&self) -> Option<String> {
        self.script.failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Gain;
    use crate::script::tests::file;

    #[test]
    fn the_script_decides_until_it_fails() {
        let (_dir, path) = file(
            "fn due(interval, allocated, misses) { if interval > 3 { throw \"no more\" } allocated > 100 || misses > 5.0 }
             fn worth(gain, cost) { gain > 2.0 * cost }",
        );
        let mut own = Own::load(Some(&path)).expect("a good script");
        let lately = |interval, allocated, misses| Lately { interval, allocated, misses, instructions: None };
        assert!(own.due(&lately(1, 50, 1.0)).is_none() && own.due(&lately(2, 500, 1.0)).is_some());
        let swap = |all: f64, doubt: f64| Swap { gain: Gain { likely: all, doubt, ..Gain::default() }, cost: 2.0 };
        assert!(own.weighs() && !own.worth(&swap(3.0, 0.0)) && own.worth(&swap(5.0, 0.0)));
        assert!(own.due(&lately(4, 0, 0.0)).is_some(), "worth-it is due after each interval");
        assert!(
            own.worth(&swap(3.0, 0.0))
                && !own.worth(&swap(3.0, 1.5))
                && own.failed().is_some_and(|why| why.contains("no more"))
        );
    }
}
