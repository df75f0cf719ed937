//! Least recently used objects have lower priority.

use super::{Now, Prioritise};
use crate::table::Record;

pub struct Lru;

impl Prioritise for Lru {
    fn priority(&self, record: &Record, _: &Now) -> f64 {
        f64::from(record.seen)
    }
}
