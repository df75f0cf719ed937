//! The managed address range: one reservation, one equal part for each tier, and a small pool for the time before
//! the next allocator is known.
//!
//! `free` tells its own objects by one comparison, and an object's tier by a shift. The range is reserved without
//! access rights, so it costs no memory and counts against no limit but that of the address space.

use crate::sys;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use wire::process::MAX_TIERS;

/// Start and length of what `free` takes for its own: the tiers' parts, then the pool.
static BASE: AtomicUsize = AtomicUsize::new(0);
static LEN: AtomicUsize = AtomicUsize::new(0);
/// A tier's address space is this power of two; there is none as long as it is [`NO_SPAN`].
static TIER_SHIFT: AtomicU32 = AtomicU32::new(NO_SPAN);
const NO_SPAN: u32 = usize::BITS - 1;
/// Some of the range was given back, and may be anybody's now.
static SHRUNK: AtomicBool = AtomicBool::new(false);
static KEPT: [AtomicUsize; MAX_TIERS] = [const { AtomicUsize::new(usize::MAX) }; MAX_TIERS];
static POOL: AtomicUsize = AtomicUsize::new(0);
static POOL_USED: AtomicUsize = AtomicUsize::new(0);

/// Most address space of one tier; enough for any memory of today.
pub const MAX_TIER_SPAN: usize = 1 << MAX_SHIFT;
const MAX_SHIFT: u32 = 40;
/// Least address space of one tier worth managing.
const MIN_SHIFT: u32 = 30;
const POOL_BYTES: usize = 1 << 18;

#[repr(align(4096))]
struct Fallback(#[allow(dead_code)] core::cell::UnsafeCell<[u8; POOL_BYTES]>);
// SAFETY: only ever carved up by `pool`, whose cursor is atomic.
unsafe impl Sync for Fallback {}
static FALLBACK: Fallback = Fallback(core::cell::UnsafeCell::new([0; POOL_BYTES]));

/// Reserves the range, smaller if the process may not have so much address space. Called once, by the first
/// allocation of the process. Without any range only the pool remains and nothing is ever managed: so it is where the
/// address space is limited (RLIMIT_AS, RLIMIT_DATA), as what is reserved here would be missing there.
pub fn reserve() {
    let most = if sys::address_space_limited() { 0 } else { MAX_SHIFT };
    for shift in (MIN_SHIFT..=most).rev().step_by(3) {
        let span = 1usize << shift;
        let len = span * MAX_TIERS + POOL_BYTES;
        let at = sys::reserve(len + span, libc::PROT_NONE);
        if at != 0 {
            // Tiers start at multiples of their span, so that huge pages fit.
            let base = at.next_multiple_of(span);
            let pool = base + span * MAX_TIERS;
            // SAFETY: the pool is the end of the fresh mapping.
            if unsafe { sys::protect(pool, POOL_BYTES, libc::PROT_READ | libc::PROT_WRITE) } {
                TIER_SHIFT.store(shift, Relaxed);
                POOL.store(pool, Relaxed);
                // What lies before and behind is not needed.
                // SAFETY: the ends of the fresh mapping, which nobody uses.
                unsafe {
                    sys::call3(libc::SYS_munmap, at, base - at, 0);
                    sys::call3(libc::SYS_munmap, base + len, at + span - base, 0);
                }
                // What is kept for later differs from what is in use by that, too. Else the kernel would take a last page without
                // rights (an armed one) and the terabyte behind it for one mapping in use, and a core dump would look at
                // each of its pages, for minutes.
                sys::dump(base, span * MAX_TIERS, false);
                LEN.store(len, Relaxed);
                BASE.store(base, Release);
                return;
            }
        }
    }
    let pool = FALLBACK.0.get() as usize;
    POOL.store(pool, Relaxed);
    LEN.store(POOL_BYTES, Relaxed);
    BASE.store(pool, Release);
}

/// Whether an address is the runtime's (managed, or of the pool).
#[inline(always)]
pub fn contains(addr: usize) -> bool {
    addr.wrapping_sub(BASE.load(Relaxed)) < LEN.load(Relaxed) && (!SHRUNK.load(Relaxed) || still_ours(addr))
}

#[cold]
fn still_ours(addr: usize) -> bool {
    let tier = tier_of(addr);
    in_pool(addr) || addr - base() - tier * tier_span() < kept(tier)
}

/// Bytes of a tier's part that are the runtime's: all, unless the rest was given back.
pub fn kept(tier: usize) -> usize {
    KEPT.get(tier).map_or(0, |kept| kept.load(Relaxed))
}

/// Gives a tier's address space back from `kept` bytes on. Nobody uses it, nor ever will.
pub fn give_back(tier: usize, used: usize) {
    let Some(kept) = KEPT.get(tier) else { return };
    kept.store(used, Relaxed);
    SHRUNK.store(true, Release);
    // SAFETY: a part of the range that never became an object.
    unsafe { sys::call3(libc::SYS_munmap, base() + tier * tier_span() + used, tier_span() - used, 0) };
}

/// Whether an address is of the pool.
pub fn in_pool(addr: usize) -> bool {
    addr.wrapping_sub(POOL.load(Relaxed)) < POOL_BYTES
}

/// Bytes of the range.
#[inline(always)]
pub fn len() -> usize {
    LEN.load(Relaxed)
}

/// Start of the range.
pub fn base() -> usize {
    BASE.load(Relaxed)
}

/// Address space of one tier; 0 when nothing can be managed.
#[inline]
pub fn tier_span() -> usize {
    match TIER_SHIFT.load(Relaxed) {
        NO_SPAN => 0,
        shift => 1 << shift,
    }
}

/// The tier whose part holds this managed address.
#[inline]
pub fn tier_of(addr: usize) -> usize {
    addr.wrapping_sub(base()).wrapping_shr(TIER_SHIFT.load(Relaxed)).min(MAX_TIERS - 1)
}

/// Memory for whoever allocates before the next allocator is known (dlsym itself does): zeroed, never given back.
pub fn pool(size: usize, align: usize) -> *mut u8 {
    let align = align.max(16);
    let Some(bytes) = size.checked_next_multiple_of(16).and_then(|s| s.checked_add(16 + align)) else {
        return core::ptr::null_mut();
    };
    let start = POOL_USED.fetch_add(bytes, Relaxed);
    if start.saturating_add(bytes) > POOL_BYTES {
        return core::ptr::null_mut();
    }
    // The word before an object holds its size, for realloc.
    let at = (POOL.load(Relaxed) + start + 16).next_multiple_of(align);
    // SAFETY: at - 8 lies in the part just carved out for this object.
    unsafe { *((at - 8) as *mut usize) = size };
    at as *mut u8
}

/// Size of an object of the pool.
pub fn pool_size(addr: usize) -> usize {
    // SAFETY: written by `pool` when it handed the address out.
    unsafe { *((addr - 8) as *const usize) }
}
