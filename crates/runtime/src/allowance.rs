//! How much of a thread's time small objects may take.
//!
//! To put a small object on a page of its site takes a walk of the stack, which is more than the C library needs for all of it. Where nobody has
//! asked for that whatever it costs (`hearth live` by default), a thread may spend a fiftieth of the time since its first object on it, and what it has not
//! spent of the latest second: then its small objects go to the next allocator, until there is time again. What a program allocates when it begins
//! often stays longest, so the first objects of a process are free.
//!
//! What one takes is measured, one of each [`BATCH`], so that deep stacks, Python's and a slow machine count as what they are.

use crate::{sys, tls::Thread};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Objects between two readings of the clock, and between two of those that are timed.
const BATCH: u32 = 64;
/// Objects that go to the next allocator before the clock is read again, when there was no time.
const PASSED: u32 = 512;
/// Of the time: one in so many.
const SHARE: u64 = 50;
/// Most time that can be saved up, in ns: what there is of a second.
const MOST: i64 = 1_000_000_000 / SHARE as i64;
/// Batches of a process that are free: some 250,000 objects, twenty milliseconds or so.
const FREE: u32 = 4096;
/// Longer than this, in ns, is no object: the thread was put aside meanwhile.
const LONGEST: u64 = 20_000;
/// What an object takes in all, if its beginning takes so long.
fn with_end(begin: u64) -> u64 {
    begin + begin / 2
}

static LIMITED: AtomicBool = AtomicBool::new(false);
static FREE_LEFT: AtomicU32 = AtomicU32::new(FREE);

/// From now on there is a limit.
pub fn limit() {
    LIMITED.store(true, Relaxed);
}

/// A thread's.
pub struct Allowance {
    /// Small objects that it may still have before the clock is read.
    left: Cell<u32>,
    /// Small objects that it has to pass on before the clock is read.
    pass: Cell<u32>,
    /// When the clock was last read, in ns of CLOCK_MONOTONIC; 0: never.
    read: Cell<u64>,
    /// Time that may still be spent, in ns.
    saved: Cell<i64>,
    /// What an object takes, in ns; 0: not known yet.
    takes: Cell<u32>,
}

/// What becomes of a small object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It goes to the next allocator.
    Passed,
    /// It is put on a page of its site.
    Kept,
    /// So it is, and what that takes is to be [`took`]: it began then.
    Timed(u64),
}

/// Whether the calling thread has to pass on one more small object, before anything else is looked at. If not, [`turn`] says.
#[inline(always)]
pub fn passes(thread: &Thread) -> bool {
    let pass = &thread.allowance.pass;
    let more = pass.get() != 0;
    if more {
        pass.set(pass.get() - 1);
    }
    more
}

/// Whether the calling thread may have one more small object.
#[inline]
pub fn turn(thread: &Thread) -> Turn {
    if !LIMITED.load(Relaxed) {
        return Turn::Kept;
    }
    let own = &thread.allowance;
    if own.left.get() != 0 {
        own.left.set(own.left.get() - 1);
        return Turn::Kept;
    }
    if passes(thread) {
        return Turn::Passed;
    }
    own.next(sys::now(), || FREE_LEFT.fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1)).is_ok())
}

/// The object that was timed is there.
#[inline]
pub fn took(thread: &Thread, begun: u64) {
    thread.allowance.took(sys::now().saturating_sub(begun));
}

impl Allowance {
    /// What comes after so many objects that were kept, or passed. `free`: takes one of the free batches.
    #[cold]
    fn next(&self, now: u64, free: impl FnOnce() -> bool) -> Turn {
        let since = now.saturating_sub(self.read.replace(now));
        // Of the time before its first object nothing is known.
        if since < now {
            self.saved.set((self.saved.get() + (since / SHARE) as i64).min(MOST));
        }
        if !free() {
            let takes = with_end(u64::from(self.takes.get())) as i64 * i64::from(BATCH);
            if self.saved.get() < takes || takes == 0 && self.saved.get() <= 0 {
                self.pass.set(PASSED - 1);
                return Turn::Passed;
            }
            self.saved.set(self.saved.get() - takes);
        }
        self.left.set(BATCH - 1);
        Turn::Timed(now)
    }

    /// The first counts as it is, the later ones an eighth.
    fn took(&self, ns: u64) {
        let (known, this) = (u64::from(self.takes.get()), ns.min(LONGEST));
        self.takes.set(if known == 0 { this } else { (known * 7 + this) / 8 } as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> Allowance {
        Allowance {
            left: Cell::new(0),
            pass: Cell::new(0),
            read: Cell::new(0),
            saved: Cell::new(0),
            takes: Cell::new(0),
        }
    }

    /// Small objects of a thread that makes one each `every` ns for so many seconds, each of which takes `takes` ns when kept: those that were, and the
    /// time they took.
    fn spends(every: u64, takes: u64, seconds: u64) -> (u64, u64) {
        let own = fresh();
        let (mut now, mut kept) = (1_000_000_000_000, 0);
        let end = now + seconds * 1_000_000_000;
        while now < end {
            now += every;
            if own.left.get() != 0 {
                own.left.set(own.left.get() - 1);
            } else if own.pass.get() != 0 {
                own.pass.set(own.pass.get() - 1);
                continue;
            } else if own.next(now, || false) == Turn::Passed {
                continue;
            } else {
                own.took(takes);
            }
            kept += 1;
            now += takes;
        }
        (kept, kept * with_end(takes))
    }

    #[test]
    fn who_allocates_much_spends_a_fiftieth_of_the_time() {
        let (kept, spent) = spends(50, 100, 3);
        let share = spent as f64 / 3e9;
        assert!((0.018..0.022).contains(&share), "{share} by {kept} objects");
    }

    #[test]
    fn who_allocates_little_keeps_all() {
        let (kept, _) = spends(20_000, 100, 3);
        // But the first few, before any time has passed.
        assert!(kept >= 3_000_000_000 / 20_100 - 2 * u64::from(PASSED), "{kept}");
    }

    #[test]
    fn dear_objects_are_fewer() {
        let ((cheap, _), (dear, spent)) = (spends(50, 100, 3), spends(50, 2000, 3));
        assert!(dear * 15 < cheap, "{dear} of {cheap}");
        assert!(spent as f64 / 3e9 < 0.025, "{spent}");
    }

    #[test]
    fn the_first_are_free_and_what_was_not_spent_is_not_saved_for_ever() {
        let own = fresh();
        assert_eq!(own.next(5, || true), Turn::Timed(5));
        assert_eq!(own.next(1 << 50, || false), Turn::Timed(1 << 50));
        assert!(own.saved.get() <= MOST);
    }
}
