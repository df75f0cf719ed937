//! Private anonymous mappings that the program makes itself are objects too: bundled allocators (DuckDB, polars), Java and
//! many HPC codes take nearly all their memory so.
//!
//! The program's `mmap`, `munmap` and `mremap` are made as they are, by the same system calls; what comes of them is
//! entered in a table beside. The memory stays the program's: a plan binds it to its tier's nodes and nothing else. The C
//! library's own mappings (its heap, stacks of threads) do not pass here.

use crate::{manage, sampler, sites, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use wire::session::ARMED_FROM;

type Ptr = *mut c_void;

/// Smallest mapping to manage; nothing is managed until the session says so.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Most mappings of a process that are known at one moment. Further ones are told to the recorder all the same.
const MOST: usize = 8192;
static TABLE: AtomicPtr<Mapping> = AtomicPtr::new(core::ptr::null_mut());
static USED: AtomicUsize = AtomicUsize::new(0);
/// 1 while somebody changes the table.
static LOCK: AtomicU32 = AtomicU32::new(0);
/// Some mapping found no place in the table.
static INCOMPLETE: AtomicBool = AtomicBool::new(false);

/// A change found the table taken for too long: it may tell of mappings that are another's by now, and none is armed any more.
static STALE: AtomicBool = AtomicBool::new(false);
/// Some mapping is, or was, address space kept for later.
static RESERVED: AtomicBool = AtomicBool::new(false);
/// Some mapping may be, or was, armed.
static ARMABLE: AtomicBool = AtomicBool::new(false);
/// See [`made`].
static MADE: AtomicUsize = AtomicUsize::new(0);

const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping, or what is left of it. A recorder may read the first three words ([`wire::tables::Tables::mappings`]).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// First address; 0: no mapping.
    pub start: usize,
    /// Address after the last one.
    pub end: usize,
    /// Index of its site.
    pub site: usize,
    /// Tier that it counts in; none if it counts in no budget.
    pub tier: Option<u8>,
    /// The sampler may take the rights to its pages away for a while.
    pub armable: bool,
    /// It was made without any rights and has had none since: address space that is kept for later.
    pub reserved: bool,
}

impl Mapping {
    /// A mapping with this protection that was just made.
    pub fn new(start: usize, len: usize, prot: c_int) -> Mapping {
        let armable = prot == READ_WRITE && len as u64 >= ARMED_FROM;
        let reserved = prot == libc::PROT_NONE && len as u64 >= ARMED_FROM;
        Mapping { start, end: start + len, site: 0, tier: None, armable, reserved }
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.end - self.start
    }

    /// The sampler may choose it.
    fn offer(&self) {
        sites::at(self.site).filter(|_| self.armable).into_iter().for_each(|s| s.born(self.start, self.bytes()));
    }

    /// It is not to choose it any more.
    fn withdraw(&self) {
        sites::at(self.site).filter(|_| self.armable).into_iter().for_each(|s| s.died(self.start, self.bytes()));
    }
}

/// Starts (or, with `usize::MAX`, stops) managing new mappings.
pub fn manage_from(threshold: usize) {
    THRESHOLD.store(threshold, Relaxed);
}

/// Whether mappings are managed at all.
pub fn managing() -> bool {
    THRESHOLD.load(Relaxed) != usize::MAX
}

/// Addresses of the word that holds the table's address, and of the one that says how many entries were ever in use.
pub fn table_at() -> [usize; 2] {
    [TABLE.as_ptr() as usize, USED.as_ptr() as usize]
}

/// In a forked child: whoever changed the table does not exist here.
pub fn forget_parent() {
    LOCK.store(0, Release);
}

/// The table while it is nobody else's, and no signal interrupts whoever has it: the handler's calls want it too.
struct Table {
    entries: &'static mut [Mapping],
    _blocked: Option<sys::Blocked>,
}

impl Table {
    /// None if there is no memory for it, or if another thread does not come to its end.
    fn lock() -> Option<Table> {
        Table::take(Some(sys::Blocked::all()))
    }

    /// The same in the sampler's thread, which has all signals blocked, and looks often.
    fn lock_in_sampler() -> Option<Table> {
        Table::take(None)
    }

    fn take(_blocked: Option<sys::Blocked>) -> Option<Table> {
        let taken = (0..1000).any(|_| {
            let free = LOCK.compare_exchange(0, 1, AcqRel, Relaxed).is_ok();
            if !free {
                // SAFETY: no arguments.
                unsafe { sys::call3(libc::SYS_sched_yield, 0, 0, 0) };
            }
            free
        });
        if !taken {
            return None;
        }
        let mut table = TABLE.load(Acquire);
        if table.is_null() {
            table = sys::map_table(MOST * size_of::<Mapping>()) as *mut Mapping;
            TABLE.store(table, Release);
        }
        if table.is_null() {
            LOCK.store(0, Release);
            return None;
        }
        // SAFETY: MOST zeroed entries, which are valid, never unmapped, and ours while LOCK is.
        let entries = unsafe { core::slice::from_raw_parts_mut(table, MOST) };
        Some(Table { entries, _blocked })
    }

    fn used(&mut self) -> &mut [Mapping] {
        let used = USED.load(Relaxed).min(MOST);
        self.entries.get_mut(..used).unwrap_or_default()
    }

    fn add(&mut self, mapping: Mapping) {
        mapping.offer();
        if let Some(slot) = self.used().iter_mut().find(|m| m.start == 0) {
            *slot = mapping;
        } else if let Some(slot) = self.entries.get_mut(USED.load(Relaxed)) {
            *slot = mapping;
            USED.fetch_add(1, Relaxed);
        } else {
            mapping.withdraw();
            INCOMPLETE.store(true, Relaxed);
        }
    }

    /// Takes a range out; `each` gets the mappings' parts in it. What is outside stays.
    fn clear(&mut self, start: usize, end: usize, mut each: impl FnMut(Mapping)) {
        let mut rests = [Mapping::default(); 2];
        for m in self.used().iter_mut().filter(|m| m.start != 0 && m.start < end && start < m.end) {
            let whole = core::mem::take(m);
            whole.withdraw();
            each(Mapping { start: whole.start.max(start), end: whole.end.min(end), ..whole });
            // At most one mapping reaches beyond the range at each end.
            if whole.start < start {
                rests[0] = Mapping { end: start, ..whole };
            }
            if whole.end > end {
                rests[1] = Mapping { start: end, ..whole };
            }
        }
        for rest in rests.into_iter().filter(|r| r.start != 0) {
            self.add(rest);
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        LOCK.store(0, Release);
    }
}

/// Enters a mapping.
pub fn enter(mapping: Mapping) {
    match Table::lock() {
        Some(mut table) => table.add(mapping),
        None => return INCOMPLETE.store(true, Relaxed),
    }
    if mapping.reserved {
        RESERVED.store(true, Relaxed);
    }
    if mapping.armable {
        ARMABLE.store(true, Relaxed);
        MADE.fetch_add(1, Relaxed);
        sampler::object_born(mapping.bytes());
    }
}

/// How many mappings were made that may be armed: while it is the same, an address is in none that it was not in before.
pub fn made() -> usize {
    MADE.load(Relaxed)
}

/// Whether there are, or were, mappings that may be armed.
#[inline]
pub fn any_armable() -> bool {
    ARMABLE.load(Relaxed)
}

/// The mapping that starts at this address, if it may be armed. Asked in the sampler's thread.
pub fn armable_at(start: usize) -> Option<Mapping> {
    find_armable(Table::lock_in_sampler, |m| m.start == start)
}

fn find_armable(lock: fn() -> Option<Table>, which: impl Fn(&Mapping) -> bool) -> Option<Mapping> {
    if !any_armable() || STALE.load(Relaxed) {
        return None;
    }
    lock()?.used().iter().find(|m| m.armable && which(m)).copied()
}

/// Mappings that this range touches are not armed any more: the kernel may write there at any moment, or the program
/// protects them itself. Returns the last of them that could be armed until now.
pub fn hands_off(start: usize, len: usize) -> Option<Mapping> {
    if USED.load(Relaxed) == 0 {
        return None;
    }
    let Some(mut table) = Table::lock() else {
        STALE.store(true, Relaxed);
        return None;
    };
    let end = start.saturating_add(len);
    let mut last = None;
    for m in table.used().iter_mut().filter(|m| m.armable && m.start < end && start < m.end) {
        m.withdraw();
        m.armable = false;
        last = Some(*m);
    }
    last
}

/// Takes a range out of the books; `each` gets what was in it. No page of it is armed afterwards. Returns whether the
/// recorder is to hear of it.
fn clear(start: usize, len: usize, each: impl FnMut(Mapping)) -> bool {
    if USED.load(Relaxed) == 0 {
        return INCOMPLETE.load(Relaxed);
    }
    let mut any = INCOMPLETE.load(Relaxed);
    let mut armable = 0;
    let mut each = each;
    match Table::lock() {
        None => STALE.store(true, Relaxed),
        Some(mut table) => table.clear(start, start.saturating_add(len), |m| {
            any = true;
            armable += if m.armable { m.bytes() } else { 0 };
            each(m);
        }),
    }
    if any || STALE.load(Relaxed) {
        sampler::range_gone(start, len, armable);
    }
    any
}

/// The program has given this memory these rights. What it had only reserved becomes usable bit by bit (allocators do that with
/// their heaps), and the sampler may choose it from then on.
pub fn protected(start: usize, len: usize, prot: c_int) {
    const MOST_PIECES: usize = 8;
    if !RESERVED.load(Relaxed) || prot != READ_WRITE {
        return;
    }
    let Some(mut table) = Table::lock() else { return };
    let end = start.saturating_add(pages(len));
    let touched = |m: &&mut Mapping| m.reserved && m.start < end && start < m.end;
    let mut opened = 0;
    for _ in 0..MOST_PIECES {
        let Some(whole) = table.used().iter_mut().find(touched) else { break };
        let new = Mapping {
            start: whole.start.max(start),
            end: whole.end.min(end),
            armable: true,
            reserved: false,
            ..*whole
        };
        table.clear(new.start, new.end, |_| ());
        opened += new.bytes();
        // A heap that grows stays one entry.
        let grows = |m: &&mut Mapping| {
            m.start != 0 && m.end == new.start && Mapping { start: new.start, end: new.end, ..**m } == new
        };
        match table.used().iter_mut().find(grows) {
            Some(before) => {
                before.withdraw();
                before.end = new.end;
                before.offer();
            }
            None => table.add(new),
        }
    }
    drop(table);
    if opened > 0 {
        ARMABLE.store(true, Relaxed);
        MADE.fetch_add(1, Relaxed);
        sampler::object_born(opened);
    }
}

fn failed(result: isize) -> bool {
    (-4095..0).contains(&result)
}

/// The C library's way to answer.
fn answer(result: isize) -> isize {
    if failed(result) {
        // SAFETY: the thread's own errno.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result
}

/// What a call takes out of the address space is taken out of the books first: its addresses may be another thread's as
/// soon as the call is done. One that does not begin at a page fails and takes nothing.
pub fn forget(start: usize, len: usize) {
    let len = pages(len);
    if start % 4096 == 0 && managing() && clear(start, len, manage::mapping_gone) {
        manage::unmapped(start, len);
    }
}

/// A file descriptor is ignored with MAP_ANONYMOUS.
fn is_object(len: usize, flags: c_int) -> bool {
    const WANTED: c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    const STACKS: c_int = libc::MAP_GROWSDOWN | libc::MAP_STACK;
    len >= THRESHOLD.load(Relaxed) && flags & WANTED == WANTED && flags & STACKS == 0
}

/// Makes a mapping for the program. Not by calling `mmap` from `mmap64`: the linker leads calls of that name that are made here to
/// [`crate::metadata`], and for a program built for large files, as Python is, they would be Hearth's own.
///
/// # Safety
/// As for `mmap`.
unsafe fn map(at: Ptr, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: libc::off_t) -> Ptr {
    if flags & libc::MAP_FIXED != 0 && flags & libc::MAP_FIXED_NOREPLACE != libc::MAP_FIXED_NOREPLACE {
        forget(at as usize, len);
    }
    // SAFETY: the caller's.
    let result = unsafe {
        sys::call(libc::SYS_mmap, [at as usize, len, prot as usize, flags as usize, fd as usize, offset as usize])
    };
    if !failed(result) && is_object(len, flags) {
        let mut mapping = Mapping::new(result as usize, pages(len), prot);
        // Of reserved huge pages (hugetlbfs) the kernel changes whole ones only.
        mapping.armable &= flags & libc::MAP_HUGETLB == 0;
        manage::mapped(mapping, prot & libc::PROT_WRITE != 0);
    }
    answer(result) as Ptr
}

/// As the C library's.
///
/// # Safety
/// As for `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap(at: Ptr, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: libc::off_t) -> Ptr {
    // SAFETY: the caller's.
    unsafe { map(at, len, prot, flags, fd, offset) }
}

/// As the C library's.
///
/// # Safety
/// As for `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmap64(at: Ptr, len: usize, prot: c_int, flags: c_int, fd: c_int, offset: libc::off_t) -> Ptr {
    // SAFETY: the caller's.
    unsafe { map(at, len, prot, flags, fd, offset) }
}

/// As the C library's.
///
/// # Safety
/// As for `munmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: Ptr, len: usize) -> c_int {
    forget(at as usize, len);
    // SAFETY: the caller's.
    answer(unsafe { sys::call3(libc::SYS_munmap, at as usize, len, 0) }) as c_int
}

/// As the C library's; the last argument is there only with flags that ask for it.
///
/// # Safety
/// As for `mremap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(at: Ptr, old: usize, new: usize, flags: c_int, to: Ptr) -> Ptr {
    let (start, old, new_len) = (at as usize, pages(old), pages(new));
    if flags & libc::MREMAP_FIXED != 0 {
        forget(to as usize, new_len);
    }
    let time = crate::process::time();
    // The call wants all of it to be one mapping for the kernel, which armed pages cut up.
    let held = hold(start);
    // SAFETY: the caller's.
    let result = unsafe { sys::call(libc::SYS_mremap, [start, old, new_len, flags as usize, to as usize, 0]) };
    if !failed(result) && THRESHOLD.load(Relaxed) != usize::MAX {
        let mut was = None;
        let told = clear(start, old, |m| {
            manage::mapping_gone(m);
            was.get_or_insert(m);
        });
        if told {
            manage::unmapped_at(time, start, old);
        }
        // What was not moved of it. The place of the rest may be another's already.
        held.into_iter().for_each(|held| offer_again(held, |m| m.end <= start || m.start >= start + old));
        if let Some(was) = was {
            let (start, armable) = (result as usize, held.is_some());
            manage::moved(Mapping { start, end: start + new_len, armable, ..was });
        }
    } else if let Some(held) = held {
        offer_again(held, |_| true);
    }
    answer(result) as Ptr
}

/// Opens the pages of the mapping that holds an address, none of which is armed from now on. None: they could not be armed.
fn hold(addr: usize) -> Option<Mapping> {
    let held = find_armable(Table::lock, |m| (m.start..m.end).contains(&addr))?;
    hands_off(held.start, held.bytes());
    sampler::range_gone(held.start, held.bytes(), held.bytes());
    Some(held)
}

/// The opposite of [`hold`], for those parts of the mapping for which `which` holds.
fn offer_again(held: Mapping, which: impl Fn(&Mapping) -> bool) {
    let mut offered = 0;
    if let Some(mut table) = Table::lock() {
        let inside = |m: &Mapping| m.site == held.site && m.start >= held.start && m.end <= held.end;
        for m in table.used().iter_mut().filter(|m| m.start != 0 && inside(m) && which(m)) {
            m.armable = true;
            m.offer();
            offered += m.bytes();
        }
    }
    sampler::object_born(offered);
}

fn pages(len: usize) -> usize {
    len.checked_next_multiple_of(4096).unwrap_or(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_that_is_taken_out_leaves_what_lies_outside() {
        let whole =
            Mapping { start: 0x10_0000, end: 0x20_0000, site: 3, tier: Some(1), armable: false, reserved: false };
        enter(whole);
        enter(Mapping { start: 0x30_0000, end: 0x31_0000, ..whole });
        let mut seen = Vec::new();
        assert!(clear(0x14_0000, 0x4_0000, |m| seen.push((m.start, m.end))));
        assert_eq!(seen, [(0x14_0000, 0x18_0000)]);
        let mut left: Vec<(usize, usize)> = Table::lock()
            .map(|mut t| t.used().iter().filter(|m| m.start != 0).map(|m| (m.start, m.end)).collect())
            .unwrap_or_default();
        left.retain(|(start, _)| *start < 0x4000_0000);
        left.sort_unstable();
        assert_eq!(left, [(0x10_0000, 0x14_0000), (0x18_0000, 0x20_0000), (0x30_0000, 0x31_0000)]);
        seen.clear();
        assert!(clear(0, 0x40_0000, |m| seen.push((m.start, m.end))));
        seen.sort_unstable();
        assert_eq!(seen, left);
        assert!(!clear(0, 0x40_0000, |_| ()));
    }

    #[test]
    fn what_was_reserved_is_offered_as_it_is_opened() {
        let rights = |at: usize, kib: usize, prot| protected(at, kib << 10, prot);
        let listed = || {
            let mut all: Vec<(usize, usize, bool)> = Table::lock()
                .map(|mut t| t.used().iter().filter(|m| m.start != 0).map(|m| (m.start, m.end, m.armable)).collect())
                .unwrap_or_default();
            all.retain(|(start, ..)| *start >= 0x4000_0000);
            all.sort_unstable();
            all
        };
        let base = 0x4000_0000;
        enter(Mapping { site: 5, ..Mapping::new(base, 16 << 20, libc::PROT_NONE) });
        enter(Mapping { site: 5, ..Mapping::new(base + (16 << 20), 1 << 20, READ_WRITE) });
        rights(base, 64, libc::PROT_READ);
        assert_eq!(listed()[0], (base, base + (16 << 20), false), "not to be written to");
        rights(base, 64, READ_WRITE);
        rights(base + (64 << 10), 192, READ_WRITE);
        rights(base, 256, READ_WRITE);
        assert_eq!(listed()[..2], [(base, base + (256 << 10), true), (base + (256 << 10), base + (16 << 20), false)]);
        rights(base + (8 << 20), 32 << 10, READ_WRITE);
        let ends = [(8 << 20, 16 << 20, true), (16 << 20, 17 << 20, false)];
        assert_eq!(
            listed()[2..],
            ends.map(|(from, to, armable)| (base + from, base + to, armable)),
            "and nothing beyond"
        );
        assert!(clear(base, 32 << 20, |_| ()));
        assert_eq!(listed(), []);
    }
}
