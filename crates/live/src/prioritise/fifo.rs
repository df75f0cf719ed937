//! First in, first out: older objects have lower priority.

use super::{Now, Prioritise};
use crate::table::Record;

pub struct Fifo;

impl Prioritise for Fifo {
    fn priority(&self, record: &Record, _: &Now) -> f64 {
        f64::from(record.born)
    }
}
