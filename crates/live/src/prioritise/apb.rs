//! Accesses per byte: misses of loads and stores, as in the paper.

use super::{Now, Prioritise};
use crate::table::Record;

pub struct Apb;

impl Prioritise for Apb {
    fn priority(&self, record: &Record, _: &Now) -> f64 {
        record.heat.lines().misses() / record.bytes().max(1) as f64
    }
}
