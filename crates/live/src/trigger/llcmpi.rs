//! When the program's behaviour changes: last-level cache misses for each instruction against their mean of the last ten intervals, the
//! difference divided by that mean. Without any interval before, nothing is placed yet: that is a change too.

use super::{Lately, Trigger};
use std::collections::VecDeque;

const INTERVALS: usize = 10;

pub struct Llcmpi {
    times: f64,
    before: VecDeque<f64>,
}

impl Llcmpi {
    pub fn new(times: f64) -> Llcmpi {
        Llcmpi { times, before: VecDeque::new() }
    }
}

impl Trigger for Llcmpi {
    fn due(&mut self, lately: &Lately) -> Option<String> {
        let now = lately.misses / lately.instructions.filter(|i| *i > 0.0)?;
        let mean = self.before.iter().sum::<f64>() / self.before.len() as f64;
        let changed = self.before.is_empty() || (now - mean).abs() > self.times * mean;
        if self.before.len() == INTERVALS {
            self.before.pop_front();
        }
        self.before.push_back(now);
        changed.then(|| format!("{now:.2e} misses for each instruction, {mean:.2e} before"))
    }

    fn counts_instructions(&self) -> bool {
        true
    }
}
