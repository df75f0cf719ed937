//! Accesses per byte: misses of loads and stores, as in the paper.

use super::{Now, Prioritise};
use crate::item::Item;

pub struct Apb;

impl Prioritise for Apb {
    fn priority(&self, item: &Item, _: &Now) -> f64 {
        item.heat.misses() / item.bytes.max(1) as f64
    }
}
