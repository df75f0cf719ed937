//! The objects: a table beside the managed range with one word for each page, zero but for the first page of an
//! object. It costs 8 bytes for each object's first page and nothing is added to the objects themselves.

use crate::{heap, range, sys};
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};
use wire::process::MAX_TIERS;
use wire::tables::{SITE_BITS, SIZE_END};

const PAGE: usize = 4096;
static TABLE: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// What the table says of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Index of its site.
    pub site: usize,
    /// Its size as asked for, in bytes.
    pub bytes: usize,
    /// It lies in two tiers.
    pub split: bool,
    /// It was moved, and lies elsewhere than its address says.
    pub moved: Option<Moved>,
}

/// Where a moved object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// In this tier.
    To(u8),
    /// In part; [`crate::mover`] has written down under this number which one.
    Part(u8),
}

/// Most objects that have moved in part.
pub const MOST_PARTED: usize = 15 - MAX_TIERS;

impl Object {
    /// An object that lies where its address says.
    pub fn of(site: usize, bytes: usize) -> Object {
        Object { site, bytes, split: false, moved: None }
    }
}

const HANDS_OFF: u64 = 1 << 63;
const SPLIT: u64 = 1 << 62;
/// Where it stands where a moved object lies, in four bits: 1 + tier, or 1 + number of tiers + number of its entry.
const MOVED_AT: u32 = SIZE_END;
const MOVED: u64 = 0xf << MOVED_AT;
// No object is so large that its size would reach there.
const _: () = assert!(range::MAX_TIER_SPAN <= 1 << (MOVED_AT - SITE_BITS));
const _: () = assert!(crate::sites::MAX_SITES < 1 << SITE_BITS);

/// Maps the table for `tiers` tiers; `false` if there is no address space for it.
pub fn prepare(tiers: usize) -> bool {
    if !TABLE.load(Relaxed).is_null() {
        return true;
    }
    let pages = range::tier_span() / PAGE * tiers;
    let at = sys::map_table(pages * 8);
    TABLE.store(at as *mut AtomicU64, Release);
    at != 0
}

/// Address of the table; 0: there is none.
pub fn table() -> usize {
    TABLE.load(Acquire) as usize
}

/// Gives back the part of the table for what a tier does not use from `used` bytes on.
pub fn give_back(tier: usize, used: usize) {
    let table = TABLE.load(Acquire) as usize;
    let pages = range::tier_span() / PAGE;
    if table == 0 || tier >= crate::plan::tiers() {
        return;
    }
    let start = (table + (tier * pages + used.div_ceil(PAGE)) * 8).next_multiple_of(PAGE);
    let end = table + (tier + 1) * pages * 8;
    if start < end {
        // SAFETY: words of addresses that are no longer the range's, and are not looked up any more.
        unsafe { sys::call3(libc::SYS_munmap, start, end - start, 0) };
    }
}

fn word(addr: usize) -> Option<&'static AtomicU64> {
    let table = TABLE.load(Acquire);
    if table.is_null() || addr % PAGE != 0 || !range::contains(addr) || range::in_pool(addr) {
        return None;
    }
    // SAFETY: one word for each page of the tiers in use; objects only exist there.
    Some(unsafe { &*table.add((addr - range::base()) / PAGE) })
}

/// Enters an object.
pub fn enter(addr: usize, object: Object) {
    if let Some(word) = word(addr) {
        word.store(pack(object), Release);
    }
}

fn pack(object: Object) -> u64 {
    let split = if object.split { SPLIT } else { 0 };
    let moved = match object.moved {
        None => 0,
        Some(Moved::To(tier)) => 1 + u64::from(tier),
        Some(Moved::Part(entry)) => 1 + MAX_TIERS as u64 + u64::from(entry),
    } << MOVED_AT;
    (object.bytes as u64) << SITE_BITS | (object.site as u64 + 1) | split | moved
}

/// Says otherwise of an object, if it is still what it was.
pub fn replace(addr: usize, old: Object, new: Object) -> bool {
    let Some(word) = word(addr) else { return false };
    let found = word.load(Acquire);
    let kept = found & HANDS_OFF;
    found & !HANDS_OFF == pack(old) && word.compare_exchange(found, pack(new) | kept, AcqRel, Acquire).is_ok()
}

/// The objects that begin in so many bytes of a tier's part of the range.
pub fn each(start: usize, len: usize, mut each: impl FnMut(usize, Object)) {
    for addr in (start..start + len).step_by(PAGE) {
        if let Some(object) = get(addr) {
            each(addr, object);
        }
    }
}

/// The object that starts at this address.
pub fn get(addr: usize) -> Option<Object> {
    unpack(word(addr)?.load(Acquire))
}

/// Marks the object that holds an address as one the kernel may write to at any moment (a stack): it is never armed.
/// Objects larger than any sensible stack are not looked for. Returns its start and length if it could be armed until now.
pub fn hands_off(addr: usize) -> Option<(usize, usize)> {
    const LARGEST: usize = 64 << 20;
    mark(addr, LARGEST)
}

/// The same for an object of any size, which the program protects itself.
pub fn protected(addr: usize) {
    mark(addr, usize::MAX);
}

fn mark(addr: usize, farthest: usize) -> Option<(usize, usize)> {
    let page = addr & !(PAGE - 1);
    for start in (0..=farthest / PAGE).map_while(|i| page.checked_sub(i * PAGE)) {
        let word = word(start)?;
        let found = word.load(Acquire);
        if found != 0 {
            let len = heap::size_class(unpack(found)?.bytes);
            let new = start + len > addr && word.fetch_or(HANDS_OFF, AcqRel) & HANDS_OFF == 0;
            return new.then_some((start, len));
        }
    }
    None
}

/// Whether the object that holds an address is one that the program protects itself, or a stack. Looks no farther than a page fault may cost.
pub fn is_hands_off(addr: usize) -> bool {
    const FARTHEST: usize = 64 << 20;
    let page = addr & !(PAGE - 1);
    let found = (0..FARTHEST / PAGE)
        .map_while(|i| word(page.checked_sub(i * PAGE)?))
        .map(|w| w.load(Acquire))
        .find(|&found| found != 0);
    found.is_some_and(|found| found & HANDS_OFF != 0)
}

/// Whether the object that starts at this address may be armed.
pub fn may_arm(addr: usize) -> bool {
    word(addr).is_some_and(|w| w.load(Acquire) & HANDS_OFF == 0)
}

/// Takes an object out.
pub fn take(addr: usize) -> Option<Object> {
    unpack(word(addr)?.swap(0, AcqRel))
}

fn unpack(word: u64) -> Option<Object> {
    let (site, bytes) = wire::tables::object(word)?;
    let moved = ((word & MOVED) >> MOVED_AT).checked_sub(1).map(|n| match (n as usize).checked_sub(MAX_TIERS) {
        None => Moved::To(n as u8),
        Some(entry) => Moved::Part(entry as u8),
    });
    Some(Object { site, bytes: bytes as usize, split: word & SPLIT != 0, moved })
}
