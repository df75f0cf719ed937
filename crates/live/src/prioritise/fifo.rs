//! First in, first out: older objects have lower priority.

use super::{Now, Prioritise};
use crate::item::Item;

pub struct Fifo;

impl Prioritise for Fifo {
    fn priority(&self, item: &Item, _: &Now) -> f64 {
        f64::from(item.born)
    }
}
