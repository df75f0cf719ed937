//! Every so many intervals.

use super::{Lately, Trigger};

pub struct Time {
    pub intervals: u32,
}

impl Trigger for Time {
    fn due(&mut self, lately: &Lately) -> Option<String> {
        (lately.interval % self.intervals == 0).then(|| format!("{} intervals have passed", self.intervals))
    }
}
