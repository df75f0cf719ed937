//! The first routine: what is expected of a record in the next interval, from what was and what is. One file a way.

mod ewma;
mod mean;
mod own;

use crate::routines::{Routine, Value};
use policy::cost::moment::Lines;

/// A way to aggregate.
pub trait Aggregate {
    /// Lines a second expected from now on. `before`: the same an interval ago; `now`: what there was in the last interval; `age`:
    /// intervals that were watched and that the record has lived through, the last one included, at least 1.
    fn aggregate(&self, before: Lines, now: Lines, age: u32) -> Lines;

    /// Why a user's own way is not asked any more.
    fn failed(&self) -> Option<String> {
        None
    }
}

/// All of them, the usual one first.
pub const ALL: &[Routine<dyn Aggregate>] = &[
    Routine {
        name: "mean",
        about: "the mean of all intervals",
        source: "Hearth's own",
        make: |value| Value::none(value).map(|()| -> Box<dyn Aggregate> { Box::new(mean::Mean) }),
    },
    Routine {
        name: "ewma",
        about: "exponentially weighted moving average; VALUE: weight of the last interval, 0 to 1 [0.1]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, equation 1",
        make: |value| Ok(Box::new(ewma::Ewma { weight: Value::share(value, 0.1)? })),
    },
    Routine {
        name: "script",
        about: "your own: function `weight(before, now, age)` of the script VALUE",
        source: "docs/live.md",
        make: |value| Ok(Box::new(own::Own::load(value)?)),
    },
];
