//! Managed heaps: for each tier a few jemalloc arenas whose memory comes from the tier's part of the range.
//!
//! Every object starts on a page of its own and shares no page with another. Threads are spread over the arenas, so
//! they seldom meet on a lock; the arenas' bookkeeping does not lie in their tier (`metadata_use_hooks` off), but with the
//! runtime's own ([`sys::at_home`]). jemalloc never gives address space back (`dalloc` refuses): it keeps and reuses what it was given.

use crate::{kept, plan, range, sandbox, sys};
use core::ffi::{CStr, c_uint, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use tikv_jemalloc_sys as je;
use wire::process::MAX_TIERS;

/// Objects start at multiples of this and share no such block: jemalloc's and the kernel's page.
pub const PAGE: usize = 4096;
/// Arenas of a tier; thread `n` uses arena `n % ARENAS`.
const ARENAS: usize = 32;
/// Largest step by which an arena grows at once: bounds what a tier holds without using it.
const GROW_LIMIT: usize = 64 << 20;
/// A freed object of this size goes back to the kernel at once; smaller ones wait for the next ([`crate::kept`]). As in glibc's
/// heap (M_MMAP_THRESHOLD grows to 32 MiB, M_TRIM_THRESHOLD to twice that); jemalloc's own 8 MiB make programs that work with
/// large temporaries fault in the same pages over and over.
pub const RETURNED_AT_ONCE: usize = 64 << 20;
const HUGE: usize = 2 << 20;
/// Smallest object whose pages are moved rather than copied.
const MOVED_FROM: usize = 256 << 10;
/// And so many at most may a tier consist of.
const MOVED_PIECES: usize = 4096;
/// Moves of a process: each leaves at most two more mappings, of 65,530.
const MOST_MOVES: usize = 10_000;
static MOVES: AtomicUsize = AtomicUsize::new(0);

#[repr(C)]
struct ArenaConfig {
    hooks: *const je::extent_hooks_t,
    metadata_use_hooks: bool,
}

/// Extent hooks with the tier they serve; the hooks must come first, jemalloc hands back their address.
#[repr(C)]
struct Hooks {
    hooks: je::extent_hooks_t,
    tier: usize,
    /// Bytes of the tier's address space handed to jemalloc.
    cursor: AtomicUsize,
}

const fn hooks(tier: usize) -> Hooks {
    Hooks {
        hooks: je::extent_hooks_t {
            alloc: Some(extent_alloc),
            dalloc: None,
            destroy: None,
            commit: None,
            decommit: None,
            purge_lazy: None,
            purge_forced: Some(extent_purge),
            split: Some(extent_split),
            merge: Some(extent_merge),
        },
        tier,
        cursor: AtomicUsize::new(0),
    }
}

// SAFETY: function pointers, a constant and an atomic.
unsafe impl Sync for Hooks {}
static HOOKS: [Hooks; MAX_TIERS] = [hooks(0), hooks(1), hooks(2), hooks(3), hooks(4), hooks(5), hooks(6), hooks(7)];

/// 1 + jemalloc's index; 0: not created yet.
static INDEX: [[AtomicU32; ARENAS]; MAX_TIERS] = [const { [const { AtomicU32::new(0) }; ARENAS] }; MAX_TIERS];
static CREATING: AtomicBool = AtomicBool::new(false);

/// Bytes of a tier's address space that were ever in use.
pub fn used(tier: usize) -> usize {
    HOOKS.get(tier).map_or(0, |h| h.cursor.load(Relaxed)).min(range::kept(tier))
}

/// Address of the word that says how many bytes of a tier's address space were ever in use.
pub fn used_at(tier: usize) -> usize {
    HOOKS.get(tier).map_or(0, |h| h.cursor.as_ptr() as usize)
}

/// Lets a tier grow no more; what it has used stays.
pub fn close(tier: usize) -> usize {
    HOOKS.get(tier).map_or(0, |h| h.cursor.swap(range::tier_span(), AcqRel)).min(range::kept(tier))
}

unsafe extern "C" fn extent_alloc(
    hooks: *mut je::extent_hooks_t,
    new_addr: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    _arena: c_uint,
) -> *mut c_void {
    if !new_addr.is_null() || align > range::tier_span() {
        // Memory at a wished place cannot be promised, and tiers start at multiples of their span only.
        return null_mut();
    }
    // SAFETY: jemalloc passes the address of one of HOOKS' first fields.
    let this = unsafe { &*hooks.cast::<Hooks>() };
    let align = if size >= HUGE { align.max(HUGE) } else { align };
    let (base, span) = (range::base() + this.tier * range::tier_span(), range::tier_span());
    let mut cursor = this.cursor.load(Relaxed);
    let start = loop {
        let start = cursor.next_multiple_of(align);
        let Some(end) = start.checked_add(size).filter(|&end| end <= span) else {
            return null_mut();
        };
        match this.cursor.compare_exchange_weak(cursor, end, AcqRel, Relaxed) {
            Ok(_) => break start,
            Err(now) => cursor = now,
        }
    };
    if !plan::back(this.tier, start, base + start, size) {
        return null_mut();
    }
    // SAFETY: jemalloc's out parameters. Fresh pages of the kernel (or of a new file) are zero.
    unsafe {
        *zero = true;
        *commit = true;
    }
    (base + start) as *mut c_void
}

/// Gives pages back to the kernel; `true` means it could not be done.
unsafe extern "C" fn extent_purge(
    hooks: *mut je::extent_hooks_t,
    addr: *mut c_void,
    _size: usize,
    offset: usize,
    length: usize,
    _arena: c_uint,
) -> bool {
    // SAFETY: as in `extent_alloc`.
    let tier = unsafe { &*hooks.cast::<Hooks>() }.tier;
    if plan::is_file(tier) || sandbox::silent() {
        return true; // blocks of a file are kept: getting them back later could fail
    }
    // SAFETY: the range lies in an extent that jemalloc no longer uses.
    unsafe { sys::call3(libc::SYS_madvise, addr as usize + offset, length, libc::MADV_DONTNEED as usize) != 0 }
}

unsafe extern "C" fn extent_split(
    _: *mut je::extent_hooks_t,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: usize,
    _: bool,
    _: c_uint,
) -> bool {
    false
}

unsafe extern "C" fn extent_merge(
    _: *mut je::extent_hooks_t,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
    _: bool,
    _: c_uint,
) -> bool {
    false
}

/// jemalloc's index of the arena that thread `number` uses in a tier, created on first use; `None` if that fails.
fn arena(tier: usize, number: u32) -> Option<u32> {
    let slot = INDEX.get(tier)?.get(number as usize % ARENAS)?;
    match slot.load(Acquire) {
        0 => create(tier, slot),
        index => Some(index - 1),
    }
}

/// Creates a first arena in each tier, so that a thread always finds one, even while another is being created.
pub fn prepare(tiers: usize) {
    for tier in 0..tiers {
        arena(tier, 0);
    }
}

#[cold]
fn create(tier: usize, slot: &AtomicU32) -> Option<u32> {
    if CREATING.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        // Another thread is creating one: any existing arena of the tier will do.
        return INDEX.get(tier)?.iter().map(|s| s.load(Acquire)).find(|&i| i != 0).map(|i| i - 1);
    }
    let config = ArenaConfig { hooks: &raw const HOOKS.get(tier)?.hooks, metadata_use_hooks: false };
    let mut index: c_uint = 0;
    let mut len = size_of::<c_uint>();
    // SAFETY: the types that jemalloc documents for this name; it copies the configuration.
    let failed = unsafe {
        je::mallctl(
            c"experimental.arenas_create_ext".as_ptr(),
            (&raw mut index).cast(),
            &raw mut len,
            (&raw const config).cast_mut().cast(),
            size_of::<ArenaConfig>(),
        )
    };
    if failed == 0 {
        set(c"arena.0.retain_grow_limit", index, GROW_LIMIT);
        set(c"arena.0.oversize_threshold", index, RETURNED_AT_ONCE);
        slot.store(index + 1, Release);
    }
    CREATING.store(false, Release);
    (failed == 0).then_some(index)
}

/// In a forked child: whoever was creating an arena does not exist here.
pub fn forget_parent() {
    CREATING.store(false, Release);
}

/// Sets a limit of an arena, by its name for arena 0.
fn set(name: &CStr, index: u32, mut limit: usize) {
    let mut mib = [0usize; 3];
    let mut len = mib.len();
    // SAFETY: a documented name, its three-part index, and a size_t.
    unsafe {
        if je::mallctlnametomib(name.as_ptr(), mib.as_mut_ptr(), &mut len) == 0 {
            mib[1] = index as usize;
            je::mallctlbymib(mib.as_ptr(), len, null_mut(), null_mut(), (&raw mut limit).cast(), size_of::<usize>());
        }
    }
}

fn flags(arena: u32, align: usize, zero: bool) -> i32 {
    let lg_align = align.max(PAGE).trailing_zeros() as i32;
    lg_align | if zero { je::MALLOCX_ZERO } else { 0 } | je::MALLOCX_TCACHE_NONE | je::MALLOCX_ARENA(arena as usize)
}

/// An object of a tier, page aligned; null if the tier has no room.
pub fn allocate(tier: usize, number: u32, size: usize, align: usize, zero: bool) -> *mut u8 {
    let Some(arena) = arena(tier, number) else { return null_mut() };
    // SAFETY: size is at least 1, flags are well-formed.
    let at = unsafe { je::mallocx(with_head(size), flags(arena, align, zero)) };
    if !at.is_null() && !range::contains(at as usize) {
        // After the thread's own storage was taken down, jemalloc serves it from its own arena whatever we ask for.
        release(at as usize);
        return null_mut();
    }
    kept::begins(at as usize, size);
    at.cast()
}

/// Changes an object's size where it lies. `false`, and the object as it was, if it cannot grow there.
pub fn resize_in_place(addr: usize, size: usize) -> bool {
    let flags = PAGE.trailing_zeros() as i32 | je::MALLOCX_TCACHE_NONE;
    // SAFETY: addr is a live managed object.
    unsafe { je::xallocx(addr as *mut c_void, with_head(size), 0, flags) >= with_head(size) }
}

/// Whether the pages of an object can be moved to another one of its tier instead of being copied, which needs new pages and
/// for a moment twice the memory (glibc, too, moves what it has mapped).
pub fn can_move(addr: usize) -> bool {
    let tier = range::tier_of(addr);
    // What was moved may never again be one mapping with what lies beside it. So that the kernel's limit is never near,
    // pieces are not small against the heap, and they are not moved for ever.
    let worth = usable(addr) >= MOVED_FROM.max(used(tier) / MOVED_PIECES) && MOVES.load(Relaxed) < MOST_MOVES;
    worth && !plan::is_file(tier) && !sandbox::silent()
}

/// How an object is aligned: so that another one's huge pages can be moved to it whole.
pub fn alignment(addr: usize) -> usize {
    if addr % HUGE == 0 { HUGE } else { PAGE }
}

/// What came of [`move_pages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The new object has the pages, the old one reads as zeroes.
    Yes,
    /// Both are as they were.
    No,
    /// The new object has no memory any more and must never be used; the old one is as it was.
    Lost,
}

/// Moves the pages of an object to another one of the same tier, which is longer.
pub fn move_pages(from: usize, to: usize) -> Moved {
    let len = usable(from);
    let mremap = |new_len: usize, flags: i32| {
        // SAFETY: two live objects, private anonymous memory; what was of `from` stays mapped.
        unsafe { sys::call(libc::SYS_mremap, [from, len, new_len, flags as usize, to, 0]) }
    };
    if len > usable(to) {
        return Moved::No;
    }
    // The kernel unmaps the target before it looks whether the source is a single mapping (before Linux 6.17 it has to be). So
    // it is asked first to let the source grow where it is: there is no room, but it may say what else is wrong.
    match mremap(len + PAGE, 0) {
        // SAFETY: there was room, and nobody uses it.
        grown if grown == from as isize => unsafe {
            sys::call3(libc::SYS_munmap, from + len, PAGE, 0);
        },
        refused if refused != -(libc::ENOMEM as isize) => return Moved::No,
        _ => {}
    }
    MOVES.fetch_add(1, Relaxed);
    match mremap(len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) {
        moved if moved == to as isize => return Moved::Yes,
        // Before Linux 5.7: refused before anything was touched, and so it will be the next time.
        refused if refused == -(libc::EINVAL as isize) => {
            MOVES.store(MOST_MOVES, Relaxed);
            return Moved::No;
        }
        _ => {}
    }
    let tier = range::tier_of(to);
    let offset = to - range::base() - tier * range::tier_span();
    let again = sys::map_at(to, len) && plan::back(tier, offset, to, len);
    if again { Moved::No } else { Moved::Lost }
}

/// Gives all that was freed of a tier back to the kernel.
pub fn give_back_freed(tier: usize) {
    let indices = INDEX.get(tier).into_iter().flatten().map(|slot| slot.load(Acquire));
    indices.filter(|&index| index != 0).for_each(|index| tell(c"arena.0.purge", index - 1));
}

/// Lets jemalloc give back what is due by its own decay. By itself it looks at the clock every thousandth call only, and an object is many pages here.
pub fn decay() {
    // All arenas (MALLCTL_ARENAS_ALL). It waits for nobody who is at it.
    tell(c"arena.0.decay", 4096);
}

/// Has an arena do something, by its name for arena 0.
fn tell(name: &CStr, index: u32) {
    let mut mib = [0usize; 3];
    let mut len = mib.len();
    // SAFETY: a documented name, its three-part index, and no value.
    unsafe {
        if je::mallctlnametomib(name.as_ptr(), mib.as_mut_ptr(), &mut len) == 0 {
            mib[1] = index as usize;
            je::mallctlbymib(mib.as_ptr(), len, null_mut(), null_mut(), null_mut(), 0);
        }
    }
}

/// Gives an object's pages back to the kernel before its end.
pub fn give_back(addr: usize, bytes: usize) {
    if !plan::is_file(range::tier_of(addr)) && !sandbox::silent() {
        // SAFETY: the pages of an object that its program has freed. Refused, they are kept, as others are.
        unsafe { sys::call3(libc::SYS_madvise, addr, size_class(bytes), libc::MADV_DONTNEED as usize) };
    }
}

/// Ends an object.
pub fn release(addr: usize) {
    // SAFETY: addr is a live managed object.
    unsafe { je::dallocx(addr as *mut c_void, je::MALLOCX_TCACHE_NONE) }
}

/// Objects of this size and more are large: by their end no cache remembers where they began.
pub const LARGE: usize = 256 << 10;
/// Bytes that are asked for with a large object, so that it may begin so far into its first page ([`crate::colour`]).
pub const HEAD: usize = 16;

/// What is asked of jemalloc for an object: arrays are often whole pages, which leave no room. Whole huge pages have none: 16 bytes more would take another one.
fn with_head(size: usize) -> usize {
    if size >= LARGE && size % HUGE != 0 { size.saturating_add(HEAD) } else { size.max(1) }
}

/// Bytes that an object of this size has: whole pages, as jemalloc does it from `SC_LARGE_MINCLASS` on and for what is aligned
/// to pages. Not asked of it, since every end of an object needs it.
pub fn size_class(size: usize) -> usize {
    with_head(size).div_ceil(PAGE) * PAGE
}

/// Bytes the program may use of an object.
pub fn usable(addr: usize) -> usize {
    // SAFETY: addr is a live managed object.
    unsafe { je::sallocx(addr as *const c_void, 0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_are_jemallocs() {
        let powers = (12..46).flat_map(|p| [1usize << p, 5 << p >> 2, 3 << p >> 1, 7 << p >> 2]);
        let edges = powers.flat_map(|s| [s - 1, s, s + 1, s + 4095, s + 4097]);
        for size in (0..1 << 20).step_by(61).chain(edges) {
            // SAFETY: a size of at least 1, well-formed flags.
            let theirs = unsafe { je::nallocx(with_head(size), PAGE.trailing_zeros() as i32) };
            assert_eq!(size_class(size), theirs, "{size}");
        }
    }
}
