//! What is asked of the kernel: address space, bindings, moves, and where pages are.
//!
//! The calls are made directly, and not by the C library's functions: a preloaded runtime would take those for the program's
//! own mappings, and is told of objects instead ([`crate::runtime`]). The runtime has its own forms of some of them, which cannot be had from
//! here: whoever links it replaces malloc.

use crate::machine::Machine;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU8, Ordering};

/// The kernel's page, and the least that is placed.
pub const PAGE: usize = 4096;
/// So much is moved at a time.
const PIECE: usize = 2 << 20;
const MPOL_DEFAULT: usize = 0;
const MPOL_PREFERRED: usize = 1;
const MPOL_PREFERRED_MANY: usize = 5;
const MPOL_MF_MOVE: usize = 2;
/// Addresses that the kernel is asked for at once.
const ASKED: usize = 1024;

/// Reserves address space without rights; 0: there is none.
pub fn reserve(bytes: usize) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping, which nobody uses.
    let at = unsafe { libc::syscall(libc::SYS_mmap, null_mut::<u8>(), bytes, libc::PROT_NONE, flags, -1isize, 0usize) };
    if at == -1 { 0 } else { at as usize }
}

/// Makes reserved memory usable.
///
/// # Safety
/// It must be reserved and not in use.
pub unsafe fn open(addr: usize, bytes: usize) -> bool {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the caller's.
    unsafe { libc::syscall(libc::SYS_mprotect, addr, bytes, rights) == 0 }
}

/// Whether the kernel would map so much memory, by its rules for how much may be promised.
pub fn would_map(bytes: usize) -> bool {
    let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, which nobody uses and which ends at once.
    unsafe {
        let at = libc::syscall(libc::SYS_mmap, null_mut::<u8>(), bytes, rights, flags, -1isize, 0usize);
        at != -1 && libc::syscall(libc::SYS_munmap, at, bytes) == 0
    }
}

/// Gives the pages back; they read as zero from then on. `false`: they are still there. The program may have locked them (mlock), which ends here.
///
/// # Safety
/// Nobody may use what they hold.
pub unsafe fn give_back(addr: usize, bytes: usize) -> bool {
    // SAFETY: the caller's.
    let given = || unsafe { libc::syscall(libc::SYS_madvise, addr, bytes, libc::MADV_DONTNEED) == 0 };
    // SAFETY: as above.
    given() || unsafe { libc::syscall(libc::SYS_munlock, addr, bytes) == 0 } && given()
}

/// Touches all pages; `false`: there is not so much memory. Kernels before 5.14 cannot; then it is done here, and changes nothing.
///
/// # Safety
/// The memory must be usable.
pub unsafe fn touch(addr: usize, bytes: usize) -> bool {
    const MADV_POPULATE_WRITE: i32 = 23;
    // SAFETY: the caller's.
    unsafe {
        if libc::syscall(libc::SYS_madvise, addr, bytes, MADV_POPULATE_WRITE) == 0 {
            return true;
        }
        if *libc::__errno_location() != libc::EINVAL {
            return false;
        }
        for page in (addr..addr + bytes).step_by(PAGE) {
            AtomicU8::from_ptr(page as *mut u8).fetch_or(0, Ordering::Relaxed);
        }
    }
    true
}

/// Where pages that are touched from now on shall come from: these nodes, as long as they have any (a full node never kills the
/// program); 0: wherever the kernel likes. Several nodes need Linux 5.15; before, the first is preferred. `false`: refused, errno says why.
///
/// # Safety
/// The memory must be Hearth's.
pub unsafe fn bind(addr: usize, bytes: usize, nodes: u128) -> bool {
    // SAFETY: the caller's.
    unsafe { set(addr, bytes, nodes, 0) }
}

/// The same, and moves what was touched before, piece by piece (0: it stays where it is).
///
/// # Safety
/// As [`bind`].
pub unsafe fn migrate(addr: usize, bytes: usize, nodes: u128) -> bool {
    // One policy for all of it first: one for each piece would cut mappings, and the huge pages in them, into pieces.
    // SAFETY: the caller's.
    unsafe {
        set(addr, bytes, nodes, 0)
            && (nodes == 0
                || (addr..addr + bytes)
                    .step_by(PIECE)
                    .all(|at| set(at, PIECE.min(addr + bytes - at), nodes, MPOL_MF_MOVE)))
    }
}

unsafe fn set(addr: usize, bytes: usize, nodes: u128, flags: usize) -> bool {
    let mbind = |mode: usize, mask: u128| {
        let words = [mask as u64, (mask >> 64) as u64];
        let (nodes, bits) = if mask == 0 { (core::ptr::null(), 0) } else { (words.as_ptr(), 129usize) };
        // SAFETY: the caller's; the mask has 128 bits (the kernel wants one more).
        unsafe { libc::syscall(libc::SYS_mbind, addr, bytes, mode, nodes, bits, flags) == 0 }
    };
    if nodes == 0 {
        return mbind(MPOL_DEFAULT, 0);
    }
    (nodes.count_ones() > 1 && mbind(MPOL_PREFERRED_MANY, nodes)) || mbind(MPOL_PREFERRED, 1 << nodes.trailing_zeros())
}

/// Shows a name in /proc/PID/smaps, or no more, where the kernel can (Linux 5.17 with CONFIG_ANON_VMA_NAME).
pub fn show_name(addr: usize, bytes: usize, name: Option<&core::ffi::CStr>) {
    const PR_SET_VMA: usize = 0x53564d41;
    let name = name.map_or(core::ptr::null(), core::ffi::CStr::as_ptr);
    // SAFETY: changes nothing but what is shown.
    unsafe { libc::syscall(libc::SYS_prctl, PR_SET_VMA, 0usize, addr, bytes, name) };
}

/// Bytes by where they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Residency {
    /// In each tier.
    pub in_tier: [u64; crate::machine::MOST_TIERS],
    /// In nodes that are of no tier.
    pub elsewhere: u64,
    /// Not there.
    pub absent: u64,
}

/// Where the pages of any memory of this process are. `None`: the kernel does not say; errno says why.
pub fn residency(machine: &Machine, addr: usize, bytes: usize) -> Option<Residency> {
    let mut found = Residency::default();
    let add = |node: Option<u32>| {
        let bytes = match node.map(|n| machine.tier_of_node(n)) {
            None => &mut found.absent,
            Some(None) => &mut found.elsewhere,
            Some(Some(tier)) => &mut found.in_tier[tier],
        };
        *bytes += PAGE as u64;
    };
    nodes(addr, bytes, add).then_some(found)
}

/// The monotonic clock as of the last tick, some milliseconds ago: four times as quick to read as the exact one.
pub fn coarse_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether none of so many pages, spread over the memory, is on another node than these.
pub fn only_on(addr: usize, bytes: usize, mask: u128, looked_up: usize) -> bool {
    let on = |node: u32| 1u128.checked_shl(node).is_some_and(|bit| mask & bit != 0);
    let pages = bytes.div_ceil(PAGE);
    let count = pages.min(looked_up).min(ASKED);
    let mut asked = [0usize; ASKED];
    for (i, slot) in asked.iter_mut().take(count).enumerate() {
        *slot = addr + i * pages / count * PAGE;
    }
    let mut only = true;
    ask(&asked[..count], |node| only &= node.is_none_or(on)) && only
}

/// Tells of each page the node that it is on, if it is there. `false`: the kernel does not say.
fn nodes(addr: usize, bytes: usize, mut each: impl FnMut(Option<u32>)) -> bool {
    let Some(end) = addr.checked_add(bytes) else { return false };
    let mut page = addr & !(PAGE - 1);
    let mut asked = [0usize; ASKED];
    while page < end {
        let count = (end - page).div_ceil(PAGE).min(ASKED);
        for (i, slot) in asked.iter_mut().take(count).enumerate() {
            *slot = page + i * PAGE;
        }
        if !ask(&asked[..count], &mut each) {
            return false;
        }
        match page.checked_add(count * PAGE) {
            Some(next) => page = next,
            None => break,
        }
    }
    true
}

/// The same of at most [`ASKED`] pages.
fn ask(pages: &[usize], mut each: impl FnMut(Option<u32>)) -> bool {
    let (no_nodes, mut on) = (core::ptr::null::<i32>(), [0i32; ASKED]);
    let (count, asked) = (pages.len().min(ASKED), pages.as_ptr());
    // SAFETY: asks where pages are, and writes so many answers.
    let failed =
        unsafe { libc::syscall(libc::SYS_move_pages, 0usize, count, asked, no_nodes, on.as_mut_ptr(), 0usize) };
    on.iter().take(count).for_each(|&node| each(u32::try_from(node).ok()));
    failed == 0
}

/// Pages that are present of memory that is mapped.
pub fn present(addr: usize, bytes: usize) -> usize {
    let mut flags = [0u8; 4096];
    let mut pages = 0;
    for at in (addr..addr + bytes).step_by(flags.len() * PAGE) {
        let len = (addr + bytes - at).min(flags.len() * PAGE);
        // SAFETY: writes one byte for each page asked about.
        if unsafe { libc::syscall(libc::SYS_mincore, at, len, flags.as_mut_ptr()) } == 0 {
            pages += flags.iter().take(len.div_ceil(PAGE)).filter(|&&f| f & 1 != 0).count();
        }
    }
    pages * PAGE
}
