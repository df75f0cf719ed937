//! Every interval, but only what gains more than it costs. How long the gain will last nobody knows; without any knowledge a thing is
//! expected to last as long as it has lasted (J. Gott, Implications of the Copernican principle for our future prospects, Nature 363,
//! 1993). That way waiting never costs more than moving at once would have.

use super::{Lately, Swap, Trigger};

/// So many times what it costs a move is to gain beyond what may be chance, if nothing else is said. What looks best is in part chance: without that
/// a program whose arrays are all alike (multigrid in the lab) is moved about for nothing.
pub const TIMES: f64 = 1.0;

/// The reason that is given for all decisions.
pub const WHY: &str = "moves are worth their cost";

pub struct WorthIt {
    /// The gain is to be so many times the cost.
    pub times: f64,
}

impl Trigger for WorthIt {
    fn due(&mut self, _: &Lately) -> Option<String> {
        Some(WHY.into())
    }

    fn weighs(&self) -> bool {
        true
    }

    fn worth(&self, swap: &Swap) -> bool {
        swap.gain.likely - swap.gain.doubt > self.times * swap.cost
    }
}
