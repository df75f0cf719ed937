//! Least recently used objects have lower priority.

use super::{Now, Prioritise};
use crate::item::Item;

pub struct Lru;

impl Prioritise for Lru {
    fn priority(&self, item: &Item, _: &Now) -> f64 {
        f64::from(item.seen)
    }
}
