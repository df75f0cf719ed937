//! Small objects in pages of their own site: paper 003, section 3.1 (Fig. 4a), "site-exclusive, thread-shared arenas".
//!
//! A site has, for each size class, *blocks* of 64 KiB. A block is a managed object like any other: it belongs to the
//! site, has its pages to itself, is told to the recorder, sampled, and placed by the plan. Small objects are cut from it;
//! nothing is added to them, as a block says in its own first 64 bytes what it is made of.
//!
//! The first objects of a site and class go to the next allocator: most sites make few, and a block for each would waste more than
//! it tells.

use crate::sites::Site;
use crate::tls::Thread;
use crate::{manage, objects, process, sandbox, sites, sys};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

/// Bytes of a block, and its alignment.
pub const BLOCK: usize = 64 << 10;
const HEADER: usize = 64;
const ROOM: usize = BLOCK - HEADER;
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
        out[n] = (ROOM / counts[n + counts.len() - CLASSES] / GRAIN * GRAIN) as u16;
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

/// One site's blocks of one class.
#[repr(C)]
struct Bin {
    /// 0, or the generation of the process in which somebody holds it.
    lock: AtomicU32,
    /// Generation in which `current` and `partial` were made. Those of a parent that was at work on them are given up.
    made: AtomicU32,
    /// Block from which objects are taken; 0: none.
    current: AtomicUsize,
    /// First of the other blocks with room; 0: none.
    partial: AtomicUsize,
    /// Bytes that went to the next allocator.
    begun: AtomicUsize,
}

/// The beginning of a block. Changed only by who holds its bin.
#[repr(C)]
struct Block {
    bin: *const Bin,
    next: usize,
    previous: usize,
    made: u32,
    size: u32,
    capacity: u32,
    used: u32,
    /// Objects that were never taken begin at this one.
    fresh: u32,
    /// 1 + number of the first that was given back; 0: none. Each begins with the number of the next.
    free: u32,
    listed: bool,
}

const _: () = assert!(size_of::<Block>() <= HEADER);

static ENABLED: AtomicBool = AtomicBool::new(false);
static BINS: AtomicPtr<Bin> = AtomicPtr::new(core::ptr::null_mut());

/// Starts to serve small objects; without memory for the table they go to the next allocator.
pub fn enable() {
    let bins = sys::map_lazily(sites::MAX_SITES * CLASSES * size_of::<Bin>(), libc::PROT_READ | libc::PROT_WRITE);
    BINS.store(bins as *mut Bin, Release);
    ENABLED.store(bins != 0, Release);
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
                if holder != 0 {
                    bin.current.store(0, Relaxed);
                    bin.partial.store(0, Relaxed);
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

    /// A block's beginning.
    #[allow(clippy::mut_from_ref)]
    fn block(&self, at: usize) -> &mut Block {
        // SAFETY: a live block of this bin, which is held: nobody else looks at it.
        unsafe { &mut *(at as *mut Block) }
    }

    fn list(&self, at: usize) {
        let first = self.0.partial.load(Relaxed);
        let block = self.block(at);
        (block.next, block.previous, block.listed) = (first, 0, true);
        if first != 0 {
            self.block(first).previous = at;
        }
        self.0.partial.store(at, Relaxed);
    }

    fn unlist(&self, at: usize) {
        let block = self.block(at);
        let (next, previous) = (block.next, block.previous);
        block.listed = false;
        match previous {
            0 => self.0.partial.store(next, Relaxed),
            before => self.block(before).next = next,
        }
        if next != 0 {
            self.block(next).previous = previous;
        }
    }

    /// An object of the current block, or of one that has room.
    fn pop(&self) -> Option<usize> {
        let mut at = self.0.current.load(Relaxed);
        if at == 0 {
            at = self.0.partial.load(Relaxed);
            if at == 0 {
                return None;
            }
            self.unlist(at);
            self.0.current.store(at, Relaxed);
        }
        let block = self.block(at);
        let index = match block.free {
            0 => {
                block.fresh += 1;
                block.fresh - 1
            }
            first => {
                let object = at + HEADER + (first as usize - 1) * block.size as usize;
                // SAFETY: an object of the block that was given back: its first word is ours.
                block.free = unsafe { *(object as *const u32) };
                first - 1
            }
        };
        block.used += 1;
        if block.used == block.capacity {
            self.0.current.store(0, Relaxed);
        }
        Some(at + HEADER + index as usize * block.size as usize)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock.store(0, Release);
    }
}

/// A small object of a site; null: the next allocator is to serve it.
pub fn allocate(thread: &Thread, index: usize, site: &'static Site, size: usize, zero: bool) -> *mut u8 {
    let (Some(class), bins) = (class_of(size), BINS.load(Relaxed)) else { return core::ptr::null_mut() };
    if bins.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: one bin for each site and class, never unmapped; zeroed ones are valid.
    let bin: &'static Bin = unsafe { &*bins.add(index * CLASSES + class) };
    if bin.begun.load(Relaxed) < FIRST {
        bin.begun.fetch_add(size, Relaxed);
        return core::ptr::null_mut();
    }
    let Some(held) = Held::take(bin) else { return core::ptr::null_mut() };
    let object = held.pop().or_else(|| {
        let at = manage::block(thread, index, site) as usize;
        if at == 0 {
            return None;
        }
        let size = u32::from(SIZES[class]);
        let capacity = (ROOM / size as usize) as u32;
        let (made, bin) = (bin.made.load(Relaxed), &raw const *bin);
        let block =
            Block { bin, next: 0, previous: 0, made, size, capacity, used: 0, fresh: 0, free: 0, listed: false };
        // SAFETY: fresh memory of BLOCK bytes, ours alone.
        unsafe { (at as *mut Block).write(block) };
        held.0.current.store(at, Relaxed);
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

/// The block that a small object lies in, if the address is one's.
#[inline]
pub fn block_of(addr: usize) -> Option<usize> {
    let block = addr & !(BLOCK - 1);
    (enabled() && block != addr && objects::is_block(block)).then_some(block)
}

/// Bytes the program may use of a small object of this block.
pub fn usable(block: usize) -> usize {
    // SAFETY: a live block; its size never changes.
    unsafe { (*(block as *const Block)).size as usize }
}

/// Frees a small object. Returns whether its block is empty and is now to be freed by the caller: nobody takes
/// from it any more.
pub fn free(addr: usize, at: usize) -> bool {
    // SAFETY: a live block: it holds at least this object. `bin` and `size` never change.
    let (bin, size) = unsafe { ((*(at as *const Block)).bin, (*(at as *const Block)).size as usize) };
    // SAFETY: bins are never unmapped.
    let Some(held) = Held::take(unsafe { &*bin }) else { return false };
    let block = held.block(at);
    let offset = addr - at;
    // A wild address, or a block that a parent was at work on when it forked: left alone.
    if offset < HEADER || (offset - HEADER) % size != 0 || block.made != held.0.made.load(Relaxed) || block.used == 0 {
        return false;
    }
    // SAFETY: an object of this block that its owner gave back.
    unsafe { *(addr as *mut u32) = block.free };
    block.free = ((offset - HEADER) / size) as u32 + 1;
    block.used -= 1;
    let current = held.0.current.load(Relaxed);
    if current == at {
        return false;
    }
    if block.used == 0 && (current != 0 || (block.listed && (block.next != 0 || block.previous != 0))) {
        if block.listed {
            held.unlist(at);
        }
        return true;
    }
    if !block.listed {
        held.list(at);
    }
    false
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
            let left = ROOM % usize::from(SIZES[class]);
            assert!(left * 16 <= ROOM, "{left} bytes of a block of {} are left", SIZES[class]);
        }
        assert_eq!(class_of(LARGEST + 1), None);
    }
}
