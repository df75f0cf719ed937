//! Free memory of a tier that cannot be had, as a move that found none has shown: below its watermarks the kernel keeps it for itself. Whoever counts it as room tries
//! again and again, and each time the kernel looks for pages that it could take back, which takes milliseconds.

/// Intervals for which nothing is tried after the first such move. After each further one twice as many, since the kernel may have made room in the meantime, but mostly has not.
const WAIT: u32 = 50;
/// At most.
const LONGEST: u32 = 32 * WAIT;

/// What is kept of a tier.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kept {
    bytes: u64,
    until: u32,
    wait: u32,
}

impl Kept {
    /// With so much free a move found none in this interval.
    pub fn found_none(&mut self, free: u64, interval: u32) {
        self.wait = (2 * self.wait).clamp(WAIT, LONGEST);
        *self = Kept { bytes: free, until: interval.saturating_add(self.wait), ..*self };
    }

    /// What can be had of so much that is free.
    pub fn room(&self, free: u64, interval: u32) -> u64 {
        if interval < self.until { free.saturating_sub(self.bytes) } else { free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_free_for_nothing_is_no_room_for_a_while() {
        let mut kept = Kept::default();
        assert_eq!(kept.room(100, 1), 100);
        kept.found_none(80, 1);
        assert_eq!((kept.room(80, 2), kept.room(100, WAIT), kept.room(60, 9)), (0, 20, 0));
        assert_eq!(kept.room(80, 1 + WAIT), 80, "it is tried again");
        kept.found_none(60, 1 + WAIT);
        assert_eq!((kept.room(80, 3 * WAIT), kept.room(80, 1 + 3 * WAIT)), (20, 80), "after twice as long");
    }
}
