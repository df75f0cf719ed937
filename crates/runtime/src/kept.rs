//! How much of what was freed is kept for the next objects of its tier, and when it goes back to the kernel.
//!
//! A program that works with large temporaries frees them and makes them anew, and would fault in the same pages over and over if they were given
//! back each time; one that is done with much of its memory is to have less. So what was needed lately is kept: as much as the objects of a tier
//! had together at most within the last second or two. When a good part of what is free goes beyond that, all that is free goes back.
//!
//! An object that was larger than any freed before when it began goes back as soon as it ends: the next one that large may never come, and what comes
//! then may belong where its pages are. glibc does so too (it maps and unmaps such a one: M_MMAP_THRESHOLD).
//!
//! jemalloc's own decay is no help here: it gives back as many bytes as are due, a little at first, but an extent as a whole, and a large one so
//! early. It remains for what this does not see (several arenas of a tier, each with what it keeps, by turns), with so long a time (`dirty_decay_ms`)
//! that the first extent is due after about a quarter of a minute.

use crate::{heap, plan};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use wire::process::MAX_TIERS;

/// What was needed within the last one or two of these is kept. In ns.
const WINDOW: u64 = 1_000_000_000;
/// It goes back when this part of what is free was not needed: to give back is to fault in again what is.
const PART: usize = 4;
/// And not for less than this.
const WORTH: usize = 1 << 20;

/// The most bytes that the objects of a tier had together.
struct Most {
    /// Since what was free went back.
    ever: AtomicUsize,
    /// In this window and in the one before.
    now: AtomicUsize,
    before: AtomicUsize,
}

static MOST: [Most; MAX_TIERS] =
    [const { Most { ever: AtomicUsize::new(0), now: AtomicUsize::new(0), before: AtomicUsize::new(0) } }; MAX_TIERS];

/// The objects of a tier have so many bytes, more than a moment ago.
pub fn rises(tier: usize, live: usize) {
    let Some(most) = MOST.get(tier) else { return };
    for most in [&most.ever, &most.now] {
        if most.load(Relaxed) < live {
            most.fetch_max(live, Relaxed);
        }
    }
}

/// Gives back what is kept and was not needed lately, once a window. `now`: ns of any clock that goes on.
pub fn look(now: u64) {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.load(Relaxed);
    if now < next || NEXT.compare_exchange(next, now + WINDOW, Relaxed, Relaxed).is_err() {
        return;
    }
    // Whatever the windows have seen is longer ago.
    let idle = now >= next + WINDOW;
    for (tier, most) in MOST.iter().enumerate().take(plan::tiers()) {
        let live = plan::live_in(tier);
        let this = most.now.swap(live, Relaxed);
        let before = most.before.swap(this, Relaxed);
        let lately = if idle { live } else { live.max(this).max(before) };
        let ever = most.ever.load(Relaxed);
        let (free, needless) = (ever.saturating_sub(live), ever.saturating_sub(lately));
        if needless >= WORTH.max(free / PART) {
            most.ever.store(live, Relaxed);
            heap::give_back_freed(tier);
        }
    }
    heap::decay();
}

/// Gives back what is free of a tier, if that may be as much as there is lacking, in bytes.
pub fn make_room(tier: usize, lacking: usize) -> bool {
    let Some(most) = MOST.get(tier) else { return false };
    let live = plan::live_in(tier);
    let free = most.ever.load(Relaxed).saturating_sub(live);
    if free < lacking.max(WORTH) {
        return false;
    }
    most.ever.store(live, Relaxed);
    heap::give_back_freed(tier);
    true
}

/// No object up to this size goes back at once.
const SMALLEST: usize = 128 << 10;
/// The largest object that was freed, in bytes, and the objects that were larger than it when they began. Of more than these nothing is remembered.
static LARGEST: AtomicUsize = AtomicUsize::new(SMALLEST);
static LARGER: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// An object begins.
pub fn begins(addr: usize, bytes: usize) {
    if bytes > LARGEST.load(Relaxed) && bytes < heap::RETURNED_AT_ONCE {
        _ = LARGER
            .iter()
            .find(|slot| slot.load(Relaxed) == 0 && slot.compare_exchange(0, addr, Relaxed, Relaxed).is_ok());
    }
}

/// An object's pages have become another one's.
pub fn moved(addr: usize, bytes: usize) {
    if bytes > SMALLEST {
        was_larger(addr);
    }
}

/// An object is about to end. Its pages may go back now.
pub fn ends(addr: usize, bytes: usize) {
    if bytes <= SMALLEST || bytes >= heap::RETURNED_AT_ONCE {
        return;
    }
    if was_larger(addr) | (LARGEST.fetch_max(bytes, Relaxed) < bytes) {
        heap::give_back(addr, bytes);
    }
}

/// Whether an object was larger than those freed before it began; it is forgotten.
fn was_larger(addr: usize) -> bool {
    let slot = LARGER.iter().find(|slot| slot.load(Relaxed) == addr);
    slot.into_iter().for_each(|slot| slot.store(0, Relaxed));
    slot.is_some()
}
