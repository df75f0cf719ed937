//! Objects that were freed just now: the next one of their size gets their memory.
//!
//! jemalloc has no thread caches here (they need thread-local storage with destructors), so that each object would cost it an extent
//! found, split and merged again. A database that makes and frees blocks of some KiB all the time spent a third more of its time in the
//! runtime for it. A thread has the place of its seat, where nobody else comes.

use crate::seats::{SEATS, Seat};
use crate::{heap, plan, range};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*, fence};

/// Largest object to keep. Larger ones cost the program more than their allocation does.
const LARGEST: usize = 32 << 10;
/// Objects of a place, and their bytes at most.
const OBJECTS: usize = 8;
const BYTES: usize = 128 << 10;

/// The newest last.
#[repr(align(64))]
struct Place {
    /// Its thread is at it.
    open: AtomicBool,
    used: AtomicUsize,
    bytes: AtomicUsize,
    objects: [(AtomicUsize, AtomicUsize); OBJECTS],
}

static PLACES: [Place; SEATS] = [const {
    Place {
        open: AtomicBool::new(false),
        used: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        objects: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; OBJECTS],
    }
}; SEATS];

impl Place {
    /// The place of the calling thread.
    fn of<R>(seat: Option<Seat>, f: impl FnOnce(&Place) -> R) -> Option<R> {
        let place = PLACES.get(seat?.index())?;
        place.open.store(true, Relaxed);
        // A child that is forked meanwhile is to find it open.
        fence(Release);
        let result = f(place);
        place.open.store(false, Release);
        Some(result)
    }

    fn get(&self, i: usize) -> (usize, usize) {
        self.objects.get(i).map_or((0, 0), |(addr, size)| (addr.load(Relaxed), size.load(Relaxed)))
    }

    fn set(&self, i: usize, (at, bytes): (usize, usize)) {
        if let Some((addr, size)) = self.objects.get(i) {
            addr.store(at, Relaxed);
            size.store(bytes, Relaxed);
        }
    }

    fn remove(&self, i: usize) -> usize {
        let (addr, size) = self.get(i);
        let used = self.used.load(Relaxed);
        (i + 1..used).for_each(|j| self.set(j - 1, self.get(j)));
        self.keeps(used - 1, self.bytes.load(Relaxed) - size);
        addr
    }

    fn keeps(&self, objects: usize, bytes: usize) {
        self.used.store(objects, Relaxed);
        self.bytes.store(bytes, Relaxed);
    }
}

/// Memory for an object of a tier; null: there is none that was freed just now.
pub fn take(tier: usize, seat: Option<Seat>, size: usize, align: usize, zero: bool) -> *mut u8 {
    if size > LARGEST || align > heap::PAGE {
        return null_mut();
    }
    let class = heap::size_class(size);
    let found = Place::of(seat, |place| {
        let fits = |&i: &usize| {
            let (addr, bytes) = place.get(i);
            bytes == class && range::tier_of(addr) == tier
        };
        (0..place.used.load(Relaxed)).rev().find(fits).map(|i| place.remove(i))
    });
    let at = found.flatten().unwrap_or(0) as *mut u8;
    if zero && !at.is_null() {
        // SAFETY: an object of ours, at least so long, that nobody uses.
        unsafe { at.write_bytes(0, class) };
    }
    at
}

/// Ends an object of so many bytes, whose memory is kept for a while or given back.
pub fn release(addr: usize, bytes: usize, seat: Option<Seat>) {
    let size = heap::size_class(bytes);
    if size > LARGEST || plan::is_file(range::tier_of(addr)) {
        return heap::release(addr);
    }
    let mut oldest = [0; OBJECTS];
    let kept = Place::of(seat, |place| {
        for slot in &mut oldest {
            if place.used.load(Relaxed) < OBJECTS && place.bytes.load(Relaxed) + size <= BYTES {
                break;
            }
            *slot = place.remove(0);
        }
        let used = place.used.load(Relaxed);
        place.set(used, (addr, size));
        place.keeps(used + 1, place.bytes.load(Relaxed) + size);
    });
    for old in oldest.into_iter().filter(|&old| old != 0) {
        heap::release(old);
    }
    if kept.is_none() {
        heap::release(addr);
    }
}

/// In a forked child: whoever was at a place does not exist here, and has left it half changed.
pub fn forget_parent() {
    for place in &PLACES {
        if place.open.swap(false, AcqRel) {
            place.keeps(0, 0);
        }
    }
}
