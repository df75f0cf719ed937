//! The time that a byte in the fastest tier gains against the slowest as long as that may last, at what lines cost there now.

use super::{Now, Prioritise};
use crate::item::Item;

pub struct Benefit;

impl Prioritise for Benefit {
    fn priority(&self, item: &Item, now: &Now) -> f64 {
        // Where the fast memory is so busy that one line more is dearer there, what makes it busy would be the least important of all, and leave first.
        item.value(now, now.prices.len() - 1, 0).max(0.0) / item.bytes.max(1) as f64
    }
}
