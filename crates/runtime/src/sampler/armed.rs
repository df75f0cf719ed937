//! The pages armed at the moment, and what was seen of them.
//!
//! An entry goes from armed to visited (or, armed in vain, to quiet), perhaps through a burst of single steps, and waits
//! there until the sampler's thread collects it. Faults on the pages come from any thread, so all entries are changed
//! under one spin lock, held for a few instructions and a mprotect; handlers run with signals blocked while they hold it.

use super::step::Step;
use crate::{mapping, range, sys};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

/// Pages that may be armed at once. Each splits a mapping in three; the kernel allows 65,530 in a process.
pub const MAX: usize = 256;
/// Accesses followed in one burst.
pub const BURST_ACCESSES: u32 = 32;
const PAGE: usize = 4096;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Unused.
    Free,
    /// No access rights, nobody came yet.
    Armed,
    /// In a burst, protected between two steps.
    Burst,
    /// In a burst, open for one instruction of the owner.
    Stepping,
    /// Visited, open, to be collected.
    Visited,
    /// Opened unvisited, to be collected.
    Quiet,
}

/// A page and what was seen of it. Times are of CLOCK_MONOTONIC, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Where it stands.
    pub state: State,
    /// Its page.
    pub page: usize,
    /// Start of the object.
    pub object: usize,
    /// Index of the object's site.
    pub site: usize,
    /// Times this page was armed in a row.
    pub round: u32,
    /// A visit is to be followed by a burst.
    pub want_burst: bool,
    /// When it was armed.
    pub since: u64,
    /// When it was visited, or opened unvisited.
    pub until: u64,
    /// Address of the first access.
    pub addr: usize,
    /// Instruction of the first access.
    pub ip: usize,
    /// The first access was a store.
    pub store: bool,
    /// Thread that is followed.
    pub owner: u32,
    /// Accesses in the burst, the first included; 0: no burst.
    pub accesses: u32,
    /// Of them stores.
    pub stores: u32,
    /// One bit for each line of the page.
    pub lines: u64,
    /// Address of the last access.
    pub last: usize,
    /// An access went up, went down.
    pub up: bool,
    /// See `up`.
    pub down: bool,
    /// When the last access was, or the end of the watch for another.
    pub last_time: u64,
}

/// An unused entry.
pub const FREE: Entry = Entry {
    state: State::Free,
    page: 0,
    object: 0,
    site: 0,
    round: 0,
    want_burst: false,
    since: 0,
    until: 0,
    addr: 0,
    ip: 0,
    store: false,
    owner: 0,
    accesses: 0,
    stores: 0,
    lines: 0,
    last: 0,
    up: false,
    down: false,
    last_time: 0,
};

struct Table(UnsafeCell<[Entry; MAX]>);
// SAFETY: only reached through `locked`.
unsafe impl Sync for Table {}
static TABLE: Table = Table(UnsafeCell::new([FREE; MAX]));
static LOCK: AtomicU32 = AtomicU32::new(0);
static USED: AtomicUsize = AtomicUsize::new(0);
/// The entries' pages once more (0: unused), to be looked through without the lock: every free of an object asks.
static PAGES: [AtomicUsize; MAX] = [const { AtomicUsize::new(0) }; MAX];

/// Runs `f` on the entries, alone. All signals must be blocked in the caller; where they are not, there is
/// `locked_in_program`.
fn locked<R>(f: impl FnOnce(&mut [Entry; MAX]) -> R) -> R {
    while LOCK.swap(1, Acquire) != 0 {
        // SAFETY: no arguments.
        unsafe { sys::call3(libc::SYS_sched_yield, 0, 0, 0) };
    }
    // SAFETY: the lock is held.
    let result = f(unsafe { &mut *TABLE.0.get() });
    LOCK.store(0, Release);
    result
}

/// The same in a program's thread: a signal handler that ran while the lock is held might fault on an armed page and
/// wait for the lock for ever.
fn locked_in_program<R>(f: impl FnOnce(&mut [Entry; MAX]) -> R) -> R {
    let _blocked = sys::Blocked::all();
    locked(f)
}

fn open(page: usize) {
    // SAFETY: a page of an object, which is readable and writable but for arming.
    unsafe { sys::protect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE) };
}

/// Whether any page is armed.
#[inline]
pub fn any() -> bool {
    USED.load(SeqCst) != 0
}

/// Whether a page of the range is armed, or was and is not collected. Another thread than the sampler's, which arms, may hear of one too few or too many.
pub fn any_in(start: usize, len: usize) -> bool {
    PAGES.iter().any(|p| p.load(SeqCst).wrapping_sub(start) < len)
}

/// What became of the wish to arm a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// It is armed.
    Done,
    /// It may not be armed now, or there is no room.
    NotNow,
    /// The kernel does not change its rights.
    Refused,
}

/// Arms a page. `allowed` is asked with the lock held: a last look whether it may be done.
///
/// Neighbours are never armed together: each armed page is a mapping of its own then, and to open it the kernel never
/// needs one more. Of the middle one of three it would, and in a process that has as many as it may, nobody could get
/// at that page any more.
pub fn arm(mut entry: Entry, allowed: impl FnOnce() -> bool) -> Arming {
    locked(|entries| {
        if entries.iter().any(|e| e.state != State::Free && e.page.abs_diff(entry.page) <= PAGE) {
            return Arming::NotNow;
        }
        let free = entries.iter_mut().zip(&PAGES).find(|(e, _)| e.state == State::Free);
        let Some((free, page)) = free else { return Arming::NotNow };
        entry.state = State::Armed;
        *free = entry;
        USED.fetch_add(1, SeqCst);
        page.store(entry.page, SeqCst);
        // From here on an object's death opens the page; so look whether the object lives only now.
        let arming = match allowed() {
            false => Arming::NotNow,
            // SAFETY: a page of an object.
            true if unsafe { sys::protect(entry.page, PAGE, libc::PROT_NONE) } => Arming::Done,
            true => Arming::Refused,
        };
        if arming == Arming::Done {
            free.since = sys::now_in_handler();
        } else {
            *free = FREE;
            page.store(0, SeqCst);
            USED.fetch_sub(1, SeqCst);
        }
        arming
    })
}

/// An entry for [`arm`].
pub fn page(page: usize, object: usize, site: usize, round: u32, want_burst: bool) -> Entry {
    Entry { page, object, site, round, want_burst, ..FREE }
}

/// Opens an entry's page, whatever its state, so that it waits to be collected.
fn settle(entry: &mut Entry, now: u64) {
    match entry.state {
        State::Free | State::Visited | State::Quiet => {}
        State::Armed => {
            open(entry.page);
            entry.until = now;
            entry.state = State::Quiet;
        }
        State::Burst | State::Stepping => {
            open(entry.page);
            // Watched until now, though nothing more came: that time counts as part of the burst.
            entry.last_time = now;
            entry.state = State::Visited;
        }
    }
}

/// In a forked child: whoever held the lock does not exist here; pages that the parent had armed are opened.
pub fn forget_parent() {
    LOCK.store(0, Release);
    open_all();
}

/// Opens all armed pages.
pub fn open_all() {
    if any() {
        let now = sys::now_in_handler();
        locked_in_program(|entries| entries.iter_mut().for_each(|e| settle(e, now)));
    }
}

fn overlaps(entry: &Entry, addr: usize, bytes: usize) -> bool {
    entry.state != State::Free && entry.page + PAGE > addr && entry.page < addr.saturating_add(bytes)
}

/// Opens the armed pages of a range (in a program's thread, or a handler that does not block all signals).
pub fn open_range(addr: usize, bytes: usize) {
    let first = addr & !(PAGE - 1);
    if !any_in(first, bytes + (addr - first)) {
        return;
    }
    let now = sys::now_in_handler();
    locked_in_program(|entries| entries.iter_mut().filter(|e| overlaps(e, addr, bytes)).for_each(|e| settle(e, now)));
}

/// The same in the sampler's thread, which has all signals blocked.
pub fn open_range_in_sampler(addr: usize, bytes: usize) {
    let now = sys::now_in_handler();
    locked(|entries| entries.iter_mut().filter(|e| overlaps(e, addr, bytes)).for_each(|e| settle(e, now)));
}

/// Takes the entries that are done out into `done` and returns how many; opens those armed since before `expired` and
/// bursts without an access since before `stale`. Called by the sampler's thread alone.
pub fn collect(expired: u64, stale: u64, done: &mut [Entry; MAX]) -> usize {
    if !any() {
        return 0;
    }
    let now = sys::now_in_handler();
    locked(|entries| {
        let mut count = 0;
        for (entry, page) in entries.iter_mut().zip(&PAGES) {
            match entry.state {
                State::Armed if entry.since < expired => settle(entry, now),
                State::Burst if entry.last_time < stale => settle(entry, now),
                _ => {}
            }
            let ready = matches!(entry.state, State::Visited | State::Quiet);
            if let Some(slot) = done.get_mut(count).filter(|_| ready) {
                *slot = core::mem::replace(entry, FREE);
                page.store(0, SeqCst);
                count += 1;
            }
        }
        USED.fetch_sub(count, SeqCst);
        count
    })
}

/// What a fault on a managed page means for the thread it happened in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Not an armed page.
    Foreign,
    /// The page is open: try again.
    Retry,
    /// The page is open for one instruction: step over it, then [`stepped`].
    Step,
}

/// A fault on a page that can be armed, in the SIGSEGV handler.
pub fn fault(addr: usize, ip: usize, store: bool, tid: u32, step: &Step) -> Fault {
    let page = addr & !(PAGE - 1);
    if !any() {
        return Fault::Foreign;
    }
    let now = sys::now_in_handler();
    locked(|entries| {
        let Some(entry) = entries.iter_mut().find(|e| e.state != State::Free && e.page == page) else {
            return Fault::Foreign;
        };
        let may_step = step.page.get() == 0;
        match entry.state {
            State::Armed => {
                (entry.until, entry.addr, entry.ip, entry.store) = (now, addr, ip, store);
                open(page);
                if !(entry.want_burst && may_step) {
                    entry.state = State::Visited;
                    return Fault::Retry;
                }
                entry.owner = tid;
                entry.last = addr;
            }
            State::Burst if entry.owner == tid && may_step => open(page),
            State::Burst => {
                settle(entry, now);
                return Fault::Retry;
            }
            State::Stepping => return Fault::Retry,
            // It was opened, by another thread a moment ago or for good. If that does not help, the program protects it.
            State::Visited | State::Quiet | State::Free => return Fault::Foreign,
        }
        entry.state = State::Stepping;
        entry.accesses += 1;
        entry.stores += u32::from(store);
        entry.lines |= 1 << (addr % PAGE / 64);
        entry.up |= addr > entry.last;
        entry.down |= addr < entry.last;
        (entry.last, entry.last_time) = (addr, now);
        step.page.set(page);
        Fault::Step
    })
}

/// The instruction was stepped over: the page is protected again, or the burst is over.
pub fn stepped(page: usize, tid: u32) {
    locked(|entries| {
        let Some(entry) = entries.iter_mut().find(|e| e.page == page && e.state == State::Stepping && e.owner == tid)
        else {
            return; // opened for good meanwhile
        };
        // SAFETY: a page of an object.
        if entry.accesses < BURST_ACCESSES && unsafe { sys::protect(page, PAGE, libc::PROT_NONE) } {
            entry.state = State::Burst;
        } else {
            entry.state = State::Visited;
        }
    });
}

/// Whether an address is of memory that can be armed at all.
#[inline]
pub fn can_arm(addr: usize) -> bool {
    if range::contains(addr) { !range::in_pool(addr) } else { mapping::any_armable() }
}

/// Whether some of this memory can be armed.
#[inline]
pub fn can_arm_in(start: usize, len: usize) -> bool {
    start < range::base() + range::len() && start.saturating_add(len) > range::base() || mapping::any_armable()
}
