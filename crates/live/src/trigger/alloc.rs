//! When so much was allocated since the last time.

use super::{Lately, Trigger};
use model::Bytes;

pub struct Alloc {
    after: Bytes,
    since: u64,
}

impl Alloc {
    pub fn new(after: Bytes) -> Alloc {
        Alloc { after, since: 0 }
    }
}

impl Trigger for Alloc {
    fn due(&mut self, lately: &Lately) -> Option<String> {
        self.since = self.since.saturating_add(lately.allocated);
        if self.since < self.after.0 {
            return None;
        }
        Some(format!("{} were allocated", Bytes(std::mem::take(&mut self.since))))
    }
}
