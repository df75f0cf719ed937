//! The sites this process has seen: found by id without a lock, never removed.
//!
//! Each entry also remembers a few of its live objects, from which the sampler picks.

use crate::sys;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::identity::mix;

/// Most sites of a process; one that finds no room is counted and its objects pass through.
pub const MAX_SITES: usize = 1 << 15;
/// Live objects an entry remembers.
pub const REMEMBERED: usize = 16;

/// A site as this process knows it.
#[repr(C, align(64))]
pub struct Site {
    /// Site id; 0: free entry.
    pub id: AtomicU64,
    /// 1 + tier the plan names, 0: not looked up yet.
    pub tier: AtomicU8,
    /// When a page of it was last armed for a burst, in ms of CLOCK_MONOTONIC (wrapping).
    pub burst_at: AtomicU32,
    /// What the sampler saw of it lately, in points that are halved now and then, and when they were (ms, wrapping).
    pub points: AtomicU32,
    /// See `points`.
    pub points_at: AtomicU32,
    /// Generation of the process in which its stack was published.
    pub published: AtomicU32,
    /// Bytes alive.
    pub live: AtomicUsize,
    /// Addresses of some live objects; 0: free.
    pub objects: [AtomicUsize; REMEMBERED],
}

static TABLE: AtomicPtr<Site> = AtomicPtr::new(core::ptr::null_mut());
static USED: AtomicU32 = AtomicU32::new(0);
/// Indices of the used entries in the order they came, for whoever walks over all sites.
static ORDER: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the table; `false` if there is no memory for it. Not thread safe: called by the process's first attach.
pub fn prepare() -> bool {
    if !TABLE.load(Relaxed).is_null() {
        return true;
    }
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    let order = sys::map_lazily(MAX_SITES * 4, rw);
    let table = sys::map_lazily(MAX_SITES * size_of::<Site>(), rw);
    if order == 0 || table == 0 {
        return false;
    }
    ORDER.store(order as *mut AtomicU32, Relaxed);
    TABLE.store(table as *mut Site, Release);
    true
}

/// Number of sites.
pub fn count() -> usize {
    (USED.load(Acquire) as usize).min(MAX_SITES / 2)
}

/// The site at an index of the table.
pub fn at(index: usize) -> Option<&'static Site> {
    let table = TABLE.load(Acquire);
    if table.is_null() || index >= MAX_SITES {
        return None;
    }
    // SAFETY: inside the table, which is never unmapped; zero bytes are a valid entry.
    Some(unsafe { &*table.add(index) })
}

/// The `n`-th site that was added.
pub fn nth(n: usize) -> Option<(usize, &'static Site)> {
    let order = ORDER.load(Acquire);
    if order.is_null() || n >= count() {
        return None;
    }
    // SAFETY: n < MAX_SITES.
    let index = unsafe { (*order.add(n)).load(Acquire) } as usize;
    // Written after USED was raised; 0 until then (entry 0 is only taken for a moment: skip it).
    at(index.checked_sub(1)?).map(|site| (index - 1, site))
}

/// Finds or adds a site: its index and entry; `None` if the table is half full (so that probing stays short).
pub fn find(id: u64) -> Option<(usize, &'static Site)> {
    let mut index = mix(id) as usize % MAX_SITES;
    for _ in 0..MAX_SITES {
        let site = at(index)?;
        match site.id.load(Acquire) {
            found if found == id => return Some((index, site)),
            0 => {
                if USED.load(Relaxed) as usize >= MAX_SITES / 2 {
                    return None;
                }
                match site.id.compare_exchange(0, id, AcqRel, Acquire) {
                    Ok(_) => {
                        let n = USED.fetch_add(1, AcqRel) as usize;
                        let order = ORDER.load(Acquire);
                        if n < MAX_SITES {
                            // SAFETY: n < MAX_SITES.
                            unsafe { (*order.add(n)).store(index as u32 + 1, Release) };
                        }
                        return Some((index, site));
                    }
                    Err(found) if found == id => return Some((index, site)),
                    Err(_) => {}
                }
            }
            _ => {}
        }
        index = (index + 1) % MAX_SITES;
    }
    None
}

impl Site {
    /// Counts an object in, and remembers it if there is room or chance wills it: every live object is to have
    /// some chance, and churning objects must not crowd out the others for good.
    pub fn born(&self, addr: usize, bytes: usize) {
        self.live.fetch_add(bytes, Relaxed);
        let start = mix(addr as u64) as usize;
        for i in 0..REMEMBERED {
            let slot = &self.objects[(start + i) % REMEMBERED];
            if slot.load(Relaxed) == 0 && slot.compare_exchange(0, addr, Release, Relaxed).is_ok() {
                return;
            }
        }
        if start >> 8 & 3 == 0 {
            self.objects[start % REMEMBERED].store(addr, Release);
        }
    }

    /// Counts an object out.
    pub fn died(&self, addr: usize, bytes: usize) {
        self.live.fetch_sub(bytes, Relaxed);
        for slot in &self.objects {
            if slot.load(Relaxed) == addr {
                let _ = slot.compare_exchange(addr, 0, Release, Relaxed);
            }
        }
    }
}
