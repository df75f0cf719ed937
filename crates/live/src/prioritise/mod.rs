//! The second routine: what deserves the fastest memory most. One file a way.

mod apb;
mod benefit;
mod fifo;
mod lru;
mod own;

use crate::item::Item;
use crate::routines::{Routine, Value};
use policy::cost::moment::Lines;

/// The moment of the decision.
#[derive(Debug)]
pub struct Now {
    /// Number of the interval that has just ended.
    pub interval: u32,
    /// What a line more of each kind costs in each tier, in ns ([`policy::cost::moment::Moment::prices`]).
    pub prices: Vec<Lines>,
}

impl Now {
    /// What a second of a record's accesses costs less in one tier than in another, in ns.
    pub fn gain(&self, heat: Lines, from: usize, to: usize) -> f64 {
        // Most of a million records are asked for nothing.
        if heat.is_none() { 0.0 } else { heat.at(self.prices[from]) - heat.at(self.prices[to]) }
    }
}

/// A way to order the records.
pub trait Prioritise {
    /// A record's priority: the larger, the sooner it is put into the fastest tier. Between equals, those that are there stay.
    fn priority(&self, item: &Item, now: &Now) -> f64;

    /// Why a user's own way is not asked any more.
    fn failed(&self) -> Option<String> {
        None
    }
}

/// All of them, the usual one first.
pub const ALL: &[Routine<dyn Prioritise>] = &[
    Routine {
        name: "benefit",
        about: "time gained for each byte as long as it may last, by the planner's cost model and the present load of each tier",
        source: "docs/planner.md; Unimem, SC 2017, equations 2 and 3",
        make: |value| Value::none(value).map(|()| -> Box<dyn Prioritise> { Box::new(benefit::Benefit) }),
    },
    Routine {
        name: "apb",
        about: "accesses for each byte",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.2",
        make: |value| Value::none(value).map(|()| -> Box<dyn Prioritise> { Box::new(apb::Apb) }),
    },
    Routine {
        name: "lru",
        about: "what was accessed last",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.2",
        make: |value| Value::none(value).map(|()| -> Box<dyn Prioritise> { Box::new(lru::Lru) }),
    },
    Routine {
        name: "fifo",
        about: "what was allocated last",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 3.4.2",
        make: |value| Value::none(value).map(|()| -> Box<dyn Prioritise> { Box::new(fifo::Fifo) }),
    },
    Routine {
        name: "script",
        about: "your own: function `priority(o)` of the script VALUE",
        source: "docs/live.md",
        make: |value| Ok(Box::new(own::Own::load(value)?)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::item;

    #[test]
    fn each_way_puts_another_record_first() {
        let lines = |random: f64, stream: f64| Lines { random, stream, ..Lines::default() };
        let of = |pages: u64, born, seen, heat| Item { born, seen, heat, phase: heat, ..item(1, pages * 4096, 1, 0.0) };
        // The dense one, the one with the dearest misses, the one that was seen last, the youngest.
        let records = [
            of(1, 1, 5, lines(0.0, 100.0)),
            of(2, 2, 6, lines(50.0, 0.0)),
            of(100, 3, 9, lines(1.0, 0.0)),
            of(100, 8, 8, lines(0.0, 0.0)),
        ];
        let now = Now { interval: 9, prices: vec![lines(100.0, 5.0), lines(300.0, 15.0)] };
        for (name, first) in [("apb", 0), ("benefit", 1), ("lru", 2), ("fifo", 3)] {
            let routine = ALL.iter().find(|r| r.name == name).expect("it is in the table");
            let way = (routine.make)(None).expect("it takes no value");
            let order = |i: &usize| way.priority(&records[*i], &now);
            let found = (0..4).max_by(|a, b| order(a).total_cmp(&order(b)));
            assert_eq!(found, Some(first), "{name}");
            assert!((routine.make)(Some("3")).is_err());
        }
    }

    #[test]
    fn what_makes_fast_memory_dear_is_not_the_first_to_leave() {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let overloaded = Now { interval: 9, prices: vec![line(310.0), line(300.0)] };
        let benefit = |heat: f64| benefit::Benefit.priority(&item(1, 4096, 0, heat), &overloaded);
        assert_eq!(benefit(1e6), benefit(0.0));
    }
}
