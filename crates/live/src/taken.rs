//! How much memory programs have taken anew lately. So much of a tier is left to them, since what they touch for the first time comes to where there is room, and is often
//! what they will ask for most. A program that takes none has the whole tier for what it has.

use std::collections::VecDeque;

/// Decisions for which it is remembered.
const REMEMBERED: usize = 50;

/// What was taken.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// What all records had at the last decision.
    had: u64,
    /// By how many bytes that has grown before the latest ones.
    lately: VecDeque<u64>,
}

impl Taken {
    /// It is decided, and records have so many bytes.
    pub fn over(&mut self, have: u64) {
        if self.lately.len() == REMEMBERED {
            self.lately.pop_front();
        }
        self.lately.push_back(have.saturating_sub(self.had));
        self.had = have;
    }

    /// Bytes that were taken.
    pub fn lately(&self) -> u64 {
        self.lately.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_is_remembered_for_a_while() {
        let mut taken = Taken::default();
        let lately = [100, 140, 90, 90, 100].map(|have| {
            taken.over(have);
            taken.lately()
        });
        assert_eq!(lately, [100, 140, 140, 140, 150], "what goes makes room for what comes, but not at once");
        (0..REMEMBERED).for_each(|_| taken.over(100));
        assert_eq!(taken.lately(), 0);
    }
}
