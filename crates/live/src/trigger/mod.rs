//! The third routine: when it is decided anew, and which of the moves are worth making. One file a way.

mod alloc;
mod llcmpi;
mod own;
mod time;
mod worth_it;

use crate::item::Gain;
use crate::routines::{Routine, Value};
use model::Bytes;

/// What has happened lately.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lately {
    /// Number of the interval that has just ended, the first is 1.
    pub interval: u32,
    /// Bytes allocated in it.
    pub allocated: u64,
    /// Misses of loads and stores in it.
    pub misses: f64,
    /// Instructions in it, where a counter tells.
    pub instructions: Option<f64>,
}

/// A move, with all that have to make room for it; or all of a decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Swap {
    /// What all of it gains; what makes room loses some.
    pub gain: Gain,
    /// Time that moving takes, in ns.
    pub cost: f64,
}

impl Swap {
    /// Both together.
    pub fn and(self, other: Swap) -> Swap {
        Swap { gain: self.gain.and(other.gain), cost: self.cost + other.cost }
    }
}

/// A way to decide when.
pub trait Trigger {
    /// Asked after each interval: the reason to decide now, if there is one.
    fn due(&mut self, lately: &Lately) -> Option<String>;

    /// Whether a move is worth making.
    fn worth(&self, _: &Swap) -> bool {
        true
    }

    /// It asks what a move gains and costs.
    fn weighs(&self) -> bool {
        false
    }

    /// Why a user's own way is not asked any more.
    fn failed(&self) -> Option<String> {
        None
    }

    /// It needs to know how many instructions are executed.
    fn counts_instructions(&self) -> bool {
        false
    }
}

/// All of them, the usual one first.
pub const ALL: &[Routine<dyn Trigger>] = &[
    Routine {
        name: "worth-it",
        about: "every interval, but only moves that gain more than they cost, and than may be chance; VALUE: how many times more [1]",
        source: "Unimem, SC 2017, equation 5; lives by J. Gott, Nature 363, 1993",
        make: |value| Ok(Box::new(worth_it::WorthIt { times: Value::positive(value, worth_it::TIMES)? })),
    },
    Routine {
        name: "time",
        about: "every VALUE intervals [5]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.3",
        make: |value| Ok(Box::new(time::Time { intervals: Value::count(value, 5)? })),
    },
    Routine {
        name: "alloc",
        about: "when so many bytes were allocated since the last time [1GiB]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.3",
        make: |value| Ok(Box::new(alloc::Alloc::new(Value::size(value, Bytes::gib(1))?))),
    },
    Routine {
        name: "llcmpi",
        about: "when cache misses for each instruction differ so many times from their mean of ten intervals [2]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.3",
        make: |value| Ok(Box::new(llcmpi::Llcmpi::new(Value::positive(value, 2.0)?))),
    },
    Routine {
        name: "script",
        about: "your own: functions `due(interval, allocated, misses)` and, if you like, `worth(gain, cost)` of the script VALUE",
        source: "docs/live.md",
        make: |value| Ok(Box::new(own::Own::load(value)?)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    fn make(name: &str, value: &str) -> Box<dyn Trigger> {
        let routine = ALL.iter().find(|r| r.name == name).expect("it is in the table");
        (routine.make)(Some(value)).expect("a good value")
    }

    fn due(trigger: &mut dyn Trigger, all: &[Lately]) -> Vec<u32> {
        all.iter().filter(|l| trigger.due(l).is_some()).map(|l| l.interval).collect()
    }

    fn intervals(of: impl Fn(u32) -> Lately) -> Vec<Lately> {
        (1..=24).map(|interval| Lately { interval, ..of(interval) }).collect()
    }

    #[test]
    fn time_and_allocation() {
        let calm = intervals(|_| Lately { allocated: 300, ..Lately::default() });
        assert_eq!(due(&mut *make("time", "7"), &calm), [7, 14, 21]);
        assert_eq!(due(&mut *make("alloc", "2000"), &calm), [7, 14, 21]);
        assert_eq!(due(&mut *make("worth-it", "1"), &calm).len(), 24);
    }

    #[test]
    fn misses_for_each_instruction() {
        let calm = |n: u32| Lately {
            misses: if n == 15 { 400.0 } else { 100.0 },
            instructions: Some(1e6),
            ..Lately::default()
        };
        let mut trigger = make("llcmpi", "2");
        assert!(trigger.counts_instructions());
        assert_eq!(
            due(&mut *trigger, &intervals(calm)),
            [1, 15],
            "first, since nothing was placed; then three times as many more"
        );
    }

    #[test]
    fn only_worth_it_asks_for_the_price() {
        let swap = |all: f64, doubt: f64| Swap { gain: Gain { all, likely: all, doubt, ..Gain::default() }, cost: 3e6 };
        assert!(!make("worth-it", "1").worth(&swap(2e6, 0.0)) && make("time", "1").worth(&swap(2e6, 0.0)));
        assert!(make("worth-it", "1").weighs() && !make("time", "1").weighs());
        assert!(make("worth-it", "1").worth(&swap(4e6, 0.0)));
        assert!(!make("worth-it", "2").worth(&swap(4e6, 0.0)));
        assert!(!make("worth-it", "1").worth(&swap(4e6, 1.5e6)), "that may be chance");
    }
}
