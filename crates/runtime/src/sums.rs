//! Sums that many threads add to, one for each tier. What a thread adds is kept at its [`seat`](crate::seats) and goes into the sum when it has become much: a word
//! that all threads write would go from processor to processor with each object.

use crate::seats::{self, SEATS, Seat};
use core::sync::atomic::{AtomicIsize, Ordering::*};
use wire::process::MAX_TIERS;

/// Less than so many bytes stay at a seat.
const KEPT: isize = 64 << 10;

/// Bytes, by tier.
pub struct Sums {
    totals: [AtomicIsize; MAX_TIERS],
    /// What is not in the totals yet.
    kept: [Kept; SEATS],
}

/// A cache line of its own.
#[repr(align(64))]
struct Kept([AtomicIsize; MAX_TIERS]);

impl Sums {
    /// All are 0.
    pub const fn zero() -> Sums {
        Sums {
            totals: [const { AtomicIsize::new(0) }; MAX_TIERS],
            kept: [const { Kept([const { AtomicIsize::new(0) }; MAX_TIERS]) }; SEATS],
        }
    }

    /// Adds bytes, and tells what the sum has become, but for what is kept at seats, if anything went into it. `by`: the calling thread's seat, if it has one.
    pub fn add(&self, by: Option<Seat>, tier: usize, bytes: isize) -> Option<usize> {
        let total = self.totals.get(tier)?;
        let goes_in = |bytes| Some(total.fetch_add(bytes, Relaxed).saturating_add(bytes).max(0) as usize);
        let Some(kept) = by.and_then(|seat| self.kept.get(seat.index())?.0.get(tier)) else {
            return goes_in(bytes);
        };
        // Nobody else writes it, so that it takes no locked instruction.
        let sum = kept.load(Relaxed).wrapping_add(bytes);
        if sum.unsigned_abs() < KEPT.unsigned_abs() {
            kept.store(sum, Relaxed);
            None
        } else {
            kept.store(0, Relaxed);
            goes_in(sum)
        }
    }

    /// The sum of a tier. Objects that come and go meanwhile may be in it or not.
    pub fn get(&self, tier: usize) -> usize {
        let kept = self.kept.iter().take(seats::used()).filter_map(|kept| kept.0.get(tier));
        let kept: isize = kept.map(|kept| kept.load(Relaxed)).sum();
        let total = self.totals.get(tier).map_or(0, |total| total.load(Relaxed));
        total.saturating_add(kept).max(0) as usize
    }

    /// Whether the sum of a tier is so many bytes at most. What seats keep is asked for only if it matters.
    pub fn at_most(&self, tier: usize, bytes: usize) -> bool {
        let total = self.totals.get(tier).map_or(0, |total| total.load(Relaxed));
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        let doubt = KEPT * seats::used() as isize;
        match total.saturating_sub(bytes) {
            over if over.saturating_add(doubt) <= 0 => true,
            over if over > doubt => false,
            _ => self.get(tier) <= bytes as usize,
        }
    }

    /// Begins a tier's sum anew.
    pub fn clear(&self, tier: usize) {
        _ = self.add(None, tier, -(self.get(tier) as isize));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_add_up() {
        static SUMS: Sums = Sums::zero();
        const TURNS: isize = 10_000;
        const MOST: isize = 200 << 10;
        std::thread::scope(|s| {
            for thread in 0..4 {
                s.spawn(move || {
                    // One of them has no seat.
                    let seat = (thread < 3).then(|| Seat::some(thread));
                    for i in 0..TURNS {
                        SUMS.add(seat, 1, i * 97 % MOST);
                        SUMS.add(seat, 1, -(i * 31 % MOST));
                    }
                });
            }
        });
        let each: isize = (0..TURNS).map(|i| i * 97 % MOST - i * 31 % MOST).sum();
        assert!(each > KEPT);
        let sum = 4 * each as usize;
        assert_eq!([0, 1, MAX_TIERS].map(|tier| SUMS.get(tier)), [0, sum, 0]);
        // Near to it, and so far away that seats are not asked.
        for near in [0, 1, 10 << 20] {
            assert!(SUMS.at_most(1, sum + near) && !SUMS.at_most(1, sum - 1 - near.min(sum - 1)), "{near}");
        }
        assert!(SUMS.at_most(1, usize::MAX) && SUMS.at_most(0, 0));
        SUMS.clear(1);
        assert_eq!(SUMS.get(1), 0);
    }
}
