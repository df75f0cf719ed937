//! Seats of threads: numbers that no two running threads have at once, so that what is kept by them (a ring, sums, memory that was freed just now) needs
//! no lock and stays with one processor.
//!
//! A seat is taken by the first thing that needs one and taken over when its owner is gone, so that nothing has to happen at thread exit.

use crate::process;
use crate::tls::Thread;
use crate::{sandbox, sys};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// Threads beyond go without.
pub const SEATS: usize = wire::process::MAX_RINGS - 2;
/// Kernel thread ids; 0: free.
static OWNERS: [AtomicU32; SEATS] = [const { AtomicU32::new(0) }; SEATS];
/// 1 + the last one that was ever taken.
static USED: AtomicUsize = AtomicUsize::new(0);
/// In [`Thread::seat`]: all were taken.
const STANDS: u32 = u32::MAX;

/// A number that is the calling thread's alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat(usize);

impl Seat {
    /// Below [`SEATS`].
    pub fn index(self) -> usize {
        self.0
    }

    /// For tests, in which threads have none.
    #[cfg(test)]
    pub fn some(index: usize) -> Seat {
        USED.fetch_max(index + 1, AcqRel);
        Seat(index)
    }
}

/// The calling thread's seat. Only in a process that is attached: in a forked child that is not yet, threads have their parents'.
#[inline]
pub fn of(thread: &Thread) -> Option<Seat> {
    process::adopt(thread, false);
    match thread.seat.get() {
        0 => take(thread),
        STANDS => None,
        n => Some(Seat(n as usize - 1)),
    }
}

#[cold]
fn take(thread: &Thread) -> Option<Seat> {
    if sandbox::silent() {
        return None;
    }
    let tid = thread.tid.get();
    // SAFETY: no arguments.
    let pid = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as usize;
    for (index, seat) in OWNERS.iter().enumerate() {
        let owner = seat.load(Acquire);
        // SAFETY: signal 0 only asks whether the thread exists.
        let gone = || unsafe { sys::call3(libc::SYS_tgkill, pid, owner as usize, 0) } == -(libc::ESRCH as isize);
        let free = owner == 0 || owner == tid || gone();
        if free && seat.compare_exchange(owner, tid, AcqRel, Relaxed).is_ok() {
            USED.fetch_max(index + 1, AcqRel);
            thread.seat.set(index as u32 + 1);
            return Some(Seat(index));
        }
    }
    thread.seat.set(STANDS);
    None
}

/// So many of the first ones were ever taken.
pub fn used() -> usize {
    USED.load(Acquire)
}
