//! The time that a byte in the fastest tier gains against the slowest, at what lines cost there now.

use super::{Now, Prioritise};
use crate::table::Record;

pub struct Benefit;

impl Prioritise for Benefit {
    fn priority(&self, record: &Record, now: &Now) -> f64 {
        now.gain(record.heat.lines(), now.prices.len() - 1, 0) / record.bytes().max(1) as f64
    }
}
