//! The time that a byte in the fastest tier gains against the slowest as long as that may last, at what lines cost there now.

use super::{Now, Prioritise};
use crate::item::Item;

pub struct Benefit;

impl Prioritise for Benefit {
    fn priority(&self, item: &Item, now: &Now) -> f64 {
        item.value(now, now.prices.len() - 1, 0) / item.bytes.max(1) as f64
    }
}
