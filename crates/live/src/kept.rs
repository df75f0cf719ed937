//! Free memory of a tier that cannot be had. Below its watermarks the kernel keeps it for itself, as a move that found none has shown: whoever counts it as room tries
//! again and again, and each time the kernel looks for pages that it could take back, which takes milliseconds. And what came free a moment ago is often for what
//! the program makes next in place of what it has freed, which it will ask for more than for what it has not for long.

use std::collections::VecDeque;

/// Intervals for which nothing is tried after the first such move. After each further one twice as many, since the kernel may have made room in the meantime, but mostly has not.
const WAIT: u32 = 50;
/// At most.
const LONGEST: u32 = 32 * WAIT;

/// It is left free for the program for so many intervals.
const LEFT: usize = 4;

/// What is kept of a tier.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    bytes: u64,
    until: u32,
    wait: u32,
    /// What was free after the latest intervals.
    lately: VecDeque<u64>,
}

impl Kept {
    /// With so much free a move found none in this interval.
    pub fn found_none(&mut self, free: u64, interval: u32) {
        self.wait = (2 * self.wait).clamp(WAIT, LONGEST);
        (self.bytes, self.until) = (free, interval.saturating_add(self.wait));
    }

    /// An interval is over, and so much is free.
    pub fn over(&mut self, free: u64) {
        if self.lately.len() > LEFT {
            self.lately.pop_front();
        }
        self.lately.push_back(free);
    }

    /// What has come free in the latest intervals.
    pub fn fresh(&self) -> u64 {
        let least = self.lately.iter().min().copied().unwrap_or(0);
        self.lately.back().map_or(0, |now| now - least)
    }

    /// What can be had of what was free after the latest interval.
    pub fn room(&self, interval: u32) -> u64 {
        let free = self.lately.back().copied().unwrap_or(0);
        if interval < self.until { free.saturating_sub(self.bytes) } else { free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_free_for_nothing_is_no_room_for_a_while() {
        let mut kept = Kept::default();
        let room = |kept: &mut Kept, free: u64, interval: u32| {
            kept.over(free);
            kept.room(interval)
        };
        assert_eq!((kept.room(1), room(&mut kept, 100, 1)), (0, 100));
        kept.found_none(80, 1);
        assert_eq!([(80, 2), (100, WAIT), (60, 9)].map(|(free, at)| room(&mut kept, free, at)), [0, 20, 0]);
        assert_eq!(room(&mut kept, 80, 1 + WAIT), 80, "it is tried again");
        kept.found_none(60, 1 + WAIT);
        assert_eq!([3 * WAIT, 1 + 3 * WAIT].map(|at| room(&mut kept, 80, at)), [20, 80], "after twice as long");
    }

    #[test]
    fn what_came_free_just_now_is_left_to_the_program() {
        let mut kept = Kept::default();
        let fresh = [50, 50, 90, 90, 90, 90, 90, 20, 60].map(|free| {
            kept.over(free);
            kept.fresh()
        });
        assert_eq!(fresh, [0, 0, 40, 40, 40, 40, 0, 0, 40]);
    }
}
