//! Small objects in pages of their own site: paper 003, section 3.1 (Fig. 4a), "site-exclusive, thread-shared arenas".
//!
//! A site has, for each size class, *blocks* of 64 KiB. A block is a managed object like any other: it belongs to the
//! site, has its pages to itself, is told to the recorder, sampled, and placed by the plan. Small objects are cut from it, and
//! nothing is added to them or to it: what a block is made of stands in a table beside the range, 64 bytes for each. (In the block
//! itself those would cost it its 32nd object of 2 KiB, its 15th of sqlite's pages, and would all fall into the same sets of a cache.)
//!
//! The first objects of a site and class go to the next allocator: most sites make few, and a block for each would waste more than
//! it tells. All threads share a site's blocks, until they have to wait for one another.

use crate::sites::Site;
use crate::tls::Thread;
use crate::{manage, plan, process, range, sandbox, sites, sys};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

/// Bytes of a block, and its alignment.
pub const BLOCK: usize = 64 << 10;
/// Objects are aligned to this, as the C library's are.
const GRAIN: usize = 16;
/// So many bytes of a site and class go to the next allocator before there are blocks.
const FIRST: usize = 32 << 10;
/// Size classes: in steps of 16 bytes, then eight to a doubling, then as many as fill a block with little left.
const CLASSES: usize = 56;
const SIZES: [u16; CLASSES] = sizes();
/// Largest small object.
const LARGEST: usize = SIZES[CLASSES - 1] as usize;
/// Class by size in grains.
const CLASS_OF: [u8; LARGEST / GRAIN + 1] = classes();

const fn sizes() -> [u16; CLASSES] {
    // So many objects to a block.
    let counts = [56, 48, 42, 37, 32, 28, 25, 22, 20, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4];
    let mut out = [0; CLASSES];
    let mut n = 0;
    let mut size = 0;
    while n < CLASSES - counts.len() {
        size += match size {
            0..256 => GRAIN,
            256..512 => 32,
            _ => 64,
        };
        out[n] = size as u16;
        n += 1;
    }
    while n < CLASSES {
        out[n] = (BLOCK / counts[n + counts.len() - CLASSES] / GRAIN * GRAIN) as u16;
        n += 1;
    }
    out
}

const fn classes() -> [u8; LARGEST / GRAIN + 1] {
    let mut out = [0; LARGEST / GRAIN + 1];
    let mut class = 0;
    let mut grains = 0;
    while grains < out.len() {
        while SIZES[class] as usize / GRAIN < grains {
            class += 1;
        }
        out[grains] = class as u8;
        grains += 1;
    }
    out
}

fn class_of(size: usize) -> Option<usize> {
    CLASS_OF.get(size.div_ceil(GRAIN)).map(|&c| usize::from(c))
}

/// One site's blocks of one class, or some of them. Each has a line of the caches to itself.
#[repr(C, align(64))]
struct Bin {
    /// 0, or the generation of the process in which somebody holds it.
    lock: AtomicU32,
    /// Generation in which `current` and `partial` were made. Those of a parent that was at work on them are given up.
    made: AtomicU32,
    /// Block from which objects are taken, or null.
    current: AtomicPtr<Block>,
    /// First of the other blocks with room, or null.
    partial: AtomicPtr<Block>,
    /// How often somebody had to wait for it.
    waits: AtomicU32,
    /// Number of the first of the [`SHARDS`] bins that threads take instead; 0: they all take this one.
    shards: AtomicU32,
}

/// Bins of a site and class for which threads have to wait.
const SHARDS: u32 = 8;
/// So often somebody has to have waited. A thread that is put aside while it holds a bin lets another wait now and then.
const WAITS: u32 = 100;
/// [`Bin::shards`] of a shard.
const NONE: u32 = u32::MAX;

/// What a block is made of.
#[repr(C, align(64))]
pub struct Block {
    /// Bytes of its objects, the same as long as it lives; 0: there is no block here.
    size: AtomicU32,
    /// Whose it is, the same as long as it lives.
    bin: AtomicPtr<Bin>,
    /// For who holds the bin.
    state: UnsafeCell<State>,
}

#[derive(Default)]
struct State {
    /// Where it lies.
    at: usize,
    /// Objects it has room for.
    capacity: u32,
    /// Objects in use.
    used: u32,
    /// Objects that were never taken begin at this one.
    fresh: u32,
    /// 1 + number of the first that was given back; 0: none. Each begins with the number of the next.
    free: u32,
    /// The bin's `made` when the block was.
    made: u32,
    /// Whether it is one of the bin's blocks with room.
    listed: bool,
    /// Its neighbours there.
    next: Option<&'static Block>,
    previous: Option<&'static Block>,
}

const _: () = assert!(size_of::<Block>() == 64);

static ENABLED: AtomicBool = AtomicBool::new(false);
/// For each site and class the bytes that went to the next allocator, and from [`FIRST`] on [`MADE`] and the number of its bin. So
/// the many sites that make little take few pages.
static ROWS: AtomicPtr<[AtomicU32; CLASSES]> = AtomicPtr::new(core::ptr::null_mut());
const MADE: u32 = 1 << 31;
/// In the order in which they were made.
static BINS: AtomicPtr<Bin> = AtomicPtr::new(core::ptr::null_mut());
static BINS_MADE: AtomicU32 = AtomicU32::new(0);
/// Few sites make much in many classes.
const MOST_BINS: usize = sites::MAX_SITES / 2 * CLASSES;
/// One for each [`BLOCK`] of the tiers in use.
static BLOCKS: AtomicPtr<Block> = AtomicPtr::new(core::ptr::null_mut());
/// How many.
static BLOCKS_LEN: AtomicUsize = AtomicUsize::new(0);

/// Starts to serve small objects; without memory for the tables they go to the next allocator.
pub fn enable() {
    let rows = sys::map_table(sites::MAX_SITES * size_of::<[AtomicU32; CLASSES]>());
    let bins = sys::map_table(MOST_BINS * size_of::<Bin>());
    let len = plan::tiers() * blocks_of_tier();
    let blocks = sys::map_table(len * size_of::<Block>());
    if rows != 0 && bins != 0 && blocks != 0 {
        ROWS.store(rows as *mut [AtomicU32; CLASSES], Release);
        BINS.store(bins as *mut Bin, Release);
        BLOCKS.store(blocks as *mut Block, Release);
        BLOCKS_LEN.store(len, Release);
        ENABLED.store(true, Release);
    }
}

fn blocks_of_tier() -> usize {
    range::tier_span() / BLOCK
}

/// Gives back the part of the table for what a tier does not use from `used` bytes on.
pub fn give_back(tier: usize, used: usize) {
    let table = BLOCKS.load(Acquire) as usize;
    if table == 0 || tier >= plan::tiers() {
        return;
    }
    let bytes = size_of::<Block>();
    let start = (table + (tier * blocks_of_tier() + used.div_ceil(BLOCK)) * bytes).next_multiple_of(4096);
    let end = table + (tier + 1) * blocks_of_tier() * bytes;
    if start < end {
        // SAFETY: entries of addresses that are no longer the range's, and are not looked up any more.
        unsafe { sys::call3(libc::SYS_munmap, start, end - start, 0) };
    }
}

/// The entry of the block in which a managed address may lie.
#[inline]
fn entry(addr: usize) -> Option<&'static Block> {
    let index = addr.wrapping_sub(range::base()) / BLOCK;
    if index >= BLOCKS_LEN.load(Acquire) {
        return None;
    }
    // SAFETY: inside the table, which is never unmapped where there are managed addresses; zeroed entries are valid.
    Some(unsafe { &*BLOCKS.load(Relaxed).add(index) })
}

/// Whether small objects are served here.
#[inline(always)]
pub fn enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Whether an object of this size is small.
#[inline]
pub fn takes(size: usize) -> bool {
    enabled() && size <= LARGEST
}

fn get(block: &AtomicPtr<Block>) -> Option<&'static Block> {
    // SAFETY: null or an entry of the table.
    unsafe { block.load(Relaxed).as_ref() }
}

fn set(block: &AtomicPtr<Block>, to: Option<&'static Block>) {
    block.store(to.map_or(core::ptr::null_mut(), |b| core::ptr::from_ref(b).cast_mut()), Relaxed);
}

impl Bin {
    /// Somebody had to wait for it.
    #[cold]
    fn waited(&self) {
        let waits = self.waits.load(Relaxed).saturating_add(1);
        self.waits.store(waits, Relaxed);
        if waits >= WAITS && self.shards.load(Relaxed) == 0 {
            // Also when there are no more bins: nobody is to ask again.
            let first = more_bins(SHARDS).unwrap_or(NONE);
            (0..SHARDS).filter(|_| first != NONE).for_each(|i| numbered(first + i).shards.store(NONE, Relaxed));
            self.shards.store(first, Release);
        }
    }

    /// The bin from which a thread takes objects.
    fn of(&'static self, thread: &Thread) -> &'static Bin {
        match self.shards.load(Acquire) {
            0 | NONE => self,
            first => numbered(first + manage::number(thread) % SHARDS),
        }
    }
}

fn numbered(bin: u32) -> &'static Bin {
    // SAFETY: inside the table, which is never unmapped; zeroed ones are valid.
    unsafe { &*BINS.load(Relaxed).add(bin as usize) }
}

/// The number of the first of so many bins, none of which is in use; the first of all has number 1.
fn more_bins(count: u32) -> Option<u32> {
    let more = |n: u32| Some(n + count).filter(|&n| n < MOST_BINS as u32);
    Some(BINS_MADE.fetch_update(Relaxed, Relaxed, more).ok()? + 1)
}

/// Holds a bin.
struct Held(&'static Bin);

impl Held {
    /// None if whoever holds it does not come to an end.
    fn take(bin: &'static Bin) -> Option<Held> {
        let generation = process::generation();
        for turn in 0..20_000u32 {
            let holder = bin.lock.load(Relaxed);
            // A holder of an earlier generation was left behind by a fork.
            if holder != generation && bin.lock.compare_exchange(holder, generation, AcqRel, Relaxed).is_ok() {
                if turn > 0 {
                    bin.waited();
                }
                if holder != 0 {
                    set(&bin.current, None);
                    set(&bin.partial, None);
                    bin.made.store(generation, Relaxed);
                }
                return Some(Held(bin));
            }
            if turn < 100 || sandbox::silent() {
                core::hint::spin_loop();
            } else {
                // SAFETY: no arguments.
                unsafe { sys::call3(libc::SYS_sched_yield, 0, 0, 0) };
            }
        }
        None
    }

    /// What is known of a block of this bin.
    #[allow(clippy::mut_from_ref)]
    fn state(&self, of: &'static Block) -> &mut State {
        // SAFETY: the bin is held: nobody else looks at it.
        unsafe { &mut *of.state.get() }
    }

    fn list(&self, block: &'static Block) {
        let first = get(&self.0.partial);
        let state = self.state(block);
        (state.next, state.previous, state.listed) = (first, None, true);
        if let Some(first) = first {
            self.state(first).previous = Some(block);
        }
        set(&self.0.partial, Some(block));
    }

    fn unlist(&self, block: &'static Block) {
        let State { next, previous, .. } = *self.state(block);
        self.state(block).listed = false;
        match previous {
            None => set(&self.0.partial, next),
            Some(before) => self.state(before).next = next,
        }
        if let Some(after) = next {
            self.state(after).previous = previous;
        }
    }

    /// An object of the current block, or of one that has room.
    fn pop(&self) -> Option<usize> {
        let block = match get(&self.0.current) {
            Some(block) => block,
            None => {
                let block = get(&self.0.partial)?;
                self.unlist(block);
                set(&self.0.current, Some(block));
                block
            }
        };
        let (state, size) = (self.state(block), block.size.load(Relaxed) as usize);
        let object = match state.free {
            0 => {
                state.fresh += 1;
                state.at + (state.fresh as usize - 1) * size
            }
            first => {
                let object = state.at + (first as usize - 1) * size;
                // SAFETY: an object of the block that was given back: its first word is ours.
                state.free = unsafe { *(object as *const u32) };
                object
            }
        };
        state.used += 1;
        if state.used == state.capacity {
            set(&self.0.current, None);
        }
        Some(object)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock.store(0, Release);
    }
}

/// The bin of a site and class; `None`: it has none yet.
fn bin(site: usize, class: usize) -> Option<&'static Bin> {
    // SAFETY: one row for each site, never unmapped.
    let rows: &'static [AtomicU32] = unsafe { ROWS.load(Relaxed).add(site).as_ref() }?;
    let entry = rows.get(class)?;
    let mut made = None;
    let mut found = entry.load(Acquire);
    loop {
        if found & MADE != 0 {
            return Some(numbered(found & !MADE));
        }
        if (found as usize) >= FIRST && made.is_none() {
            made = Some(more_bins(1)?);
        }
        let next = made.map_or(found + u32::from(SIZES[class]), |number| MADE | number);
        match entry.compare_exchange(found, next, AcqRel, Acquire) {
            Ok(_) if next & MADE == 0 => return None,
            Ok(_) => found = next,
            Err(now) => found = now,
        }
    }
}

/// A small object of a site; null: the next allocator is to serve it.
pub fn allocate(thread: &Thread, index: usize, site: &'static Site, size: usize, zero: bool) -> *mut u8 {
    let Some(class) = class_of(size) else { return core::ptr::null_mut() };
    let Some(bin) = bin(index, class).map(|bin| bin.of(thread)) else { return core::ptr::null_mut() };
    let Some(held) = Held::take(bin) else { return core::ptr::null_mut() };
    let object = held.pop().or_else(|| {
        let at = manage::block(thread, index, site) as usize;
        if at == 0 {
            return None;
        }
        let block = entry(at)?;
        let (size, made) = (u32::from(SIZES[class]), bin.made.load(Relaxed));
        *held.state(block) = State { at, capacity: BLOCK as u32 / size, made, ..State::default() };
        block.bin.store(core::ptr::from_ref(bin).cast_mut(), Relaxed);
        block.size.store(size, Release);
        set(&bin.current, Some(block));
        held.pop()
    });
    drop(held);
    let Some(object) = object else { return core::ptr::null_mut() };
    if zero {
        // SAFETY: a live object of at least this size, given to nobody yet.
        unsafe { core::ptr::write_bytes(object as *mut u8, 0, size) };
    }
    object as *mut u8
}

/// The block that a managed address lies in, if it is a small object's.
#[inline]
pub fn block_of(addr: usize) -> Option<&'static Block> {
    entry(addr).filter(|block| block.size.load(Acquire) != 0)
}

impl Block {
    /// Bytes the program may use of each of its objects.
    pub fn usable(&self) -> usize {
        self.size.load(Relaxed) as usize
    }

    /// Frees one of its objects. If that was the last one, the block is no more, and what is returned is its memory, which is now to
    /// be freed by the caller.
    pub fn free(&'static self, addr: usize) -> Option<usize> {
        // SAFETY: null or a bin, which is never unmapped.
        let held = Held::take(unsafe { self.bin.load(Relaxed).as_ref() }?)?;
        let (state, size) = (held.state(self), self.size.load(Relaxed));
        let offset = (addr % BLOCK) as u32;
        let index = offset.checked_div(size)?;
        // A wild address, or a block that a parent was at work on when it forked: left alone.
        let live = index * size == offset && index < state.fresh && state.used > 0;
        if !live || state.made != held.0.made.load(Relaxed) {
            return None;
        }
        // SAFETY: an object of this block that its owner gave back.
        unsafe { *(addr as *mut u32) = state.free };
        state.free = index + 1;
        state.used -= 1;
        let current = get(&held.0.current);
        if current.is_some_and(|current| core::ptr::eq(current, self)) {
            return None;
        }
        let (listed, at) = (state.listed, state.at);
        // One empty block is kept for what comes next.
        let only = current.is_none() && !(listed && (state.next.is_some() || state.previous.is_some()));
        if state.used == 0 && !only {
            if listed {
                held.unlist(self);
            }
            self.size.store(0, Release);
            return Some(at);
        }
        if !listed {
            held.list(self);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_has_a_class_that_holds_it_and_wastes_little() {
        assert!(SIZES.windows(2).all(|w| w[0] < w[1]), "{SIZES:?}");
        for size in 1..=LARGEST {
            let class = class_of(size).unwrap();
            assert!(usize::from(SIZES[class]) >= size, "{size} in {}", SIZES[class]);
            assert!(
                size <= 128 || usize::from(SIZES[class]) as f64 / size as f64 <= 1.26,
                "{size} in {}",
                SIZES[class]
            );
            let left = BLOCK % usize::from(SIZES[class]);
            assert!(left * 64 <= BLOCK, "{left} bytes of a block of {} are left", SIZES[class]);
        }
        assert_eq!(class_of(LARGEST + 1), None);
    }
}
