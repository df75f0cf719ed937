//! The sites this process has seen: found by id without a lock, never removed.
//!
//! Each entry also remembers a few of its live objects, from which the sampler picks.
//!
//! Large objects of one call stack that are alive at once are told apart ([`claim`]): a program that allocates its arrays in a
//! loop, or by a function of its own of which the stack shows no more, may use them in very different ways. The first is of the site
//! of the stack; each that comes to life beside it is of a site of its own, by the least number that is free, so that those
//! which are allocated anew in each step of a program get the same ones in each.

use crate::{plan, sys};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::event::Apart;
use wire::identity::{self, APART, mix};
use wire::image::{PARTS, SPLIT_FROM, Target};

/// Most sites of a process; one that finds no room is counted and its objects pass through. With small objects lammps has more than 16,384: each of its styles is
/// registered by a line of its own. What is not used takes address space only, of which a program that limits its own has to have enough left.
pub const MAX_SITES: usize = 1 << 15;
/// Live objects an entry remembers.
pub const REMEMBERED: usize = 16;

/// A site as this process knows it.
#[repr(C, align(64))]
pub struct Site {
    /// Site id; 0: unused entry.
    pub id: AtomicU64,
    /// 1 + tier the plan names, 0: not looked up yet. Written after `rest` and `parts`.
    tier: AtomicU8,
    /// See [`Target`].
    rest: AtomicU8,
    /// Where its objects belong since a phase said so: tier, tier of the rest, number of parts, and 1 if that phase does not use it, each a byte; 0: none
    /// did.
    sent: AtomicU32,
    /// When a page of it was last armed for a burst, in ms of CLOCK_MONOTONIC (wrapping).
    pub burst_at: AtomicU32,
    /// What the sampler saw of it lately, in points that are halved now and then, and when they were (ms, wrapping).
    pub points: AtomicU32,
    /// See `points`.
    pub points_at: AtomicU32,
    /// 1 + index of its stack's site, if that is another one; see [`claim`].
    stack: AtomicU32,
    /// Its number among those of its stack.
    number: AtomicU8,
    /// Large objects of it that are alive.
    held: AtomicU32,
    /// Generation of the process in which its stack was published.
    pub published: AtomicU32,
    /// Objects of a split site that went to its tiers by turns.
    pub turn: AtomicU32,
    /// See [`Target`].
    parts: AtomicU64,
    /// Bytes alive.
    pub live: AtomicUsize,
    /// Addresses of some live objects; 0: free.
    pub objects: [AtomicUsize; REMEMBERED],
}

/// Where a phase sends the objects of a site: so many of [`PARTS`] parts of each, the first ones, to a tier, the others to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Tier of the first parts.
    pub tier: u8,
    /// Tier of the others.
    pub rest: u8,
    /// How many these are; all: nothing is elsewhere.
    pub parts: u8,
}

impl Place {
    /// The tier of most of it.
    pub fn most(self) -> u8 {
        if u32::from(self.parts) > PARTS / 2 { self.tier } else { self.rest }
    }
}

static TABLE: AtomicPtr<Site> = AtomicPtr::new(core::ptr::null_mut());
static USED: AtomicU32 = AtomicU32::new(0);
/// 1 + index of a site, by its id; 0: free. The sites themselves lie in the order in which they came, so that few of them
/// take few pages.
static BY_ID: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
/// Twice as many places as sites, so that probing stays short.
const PLACES: usize = 2 * MAX_SITES;

/// Maps the tables; `false` if there is no memory for them. Not thread safe: called by the process's first attach.
pub fn prepare() -> bool {
    if !TABLE.load(Relaxed).is_null() {
        return true;
    }
    let by_id = sys::map_table(PLACES * 4);
    let table = sys::map_table(MAX_SITES * size_of::<Site>());
    if by_id == 0 || table == 0 {
        return false;
    }
    BY_ID.store(by_id as *mut AtomicU32, Relaxed);
    TABLE.store(table as *mut Site, Release);
    true
}

/// Address of the table; 0: there is none.
pub fn table() -> usize {
    TABLE.load(Acquire) as usize
}

/// Number of sites.
pub fn count() -> usize {
    (USED.load(Acquire) as usize).min(MAX_SITES)
}

/// The site at an index of the table, in the order in which they came.
pub fn at(index: usize) -> Option<&'static Site> {
    let table = TABLE.load(Acquire);
    if table.is_null() || index >= MAX_SITES {
        return None;
    }
    // SAFETY: inside the table, which is never unmapped; zero bytes are a valid entry.
    Some(unsafe { &*table.add(index) })
}

/// Finds or adds a site: its index and entry; `None` if the table is full.
pub fn find(id: u64) -> Option<(usize, &'static Site)> {
    let by_id = BY_ID.load(Acquire);
    if by_id.is_null() {
        return None;
    }
    let mut new = None;
    // Ids are mixed already (`identity::site_id`).
    let mut place = id as usize % PLACES;
    for _ in 0..PLACES {
        // SAFETY: place < PLACES.
        let there = unsafe { &*by_id.add(place) };
        let mut index = there.load(Acquire);
        if index == 0 {
            let added = match new {
                Some(added) => added,
                None => add(id)?,
            };
            new = Some(added);
            match there.compare_exchange(0, added + 1, AcqRel, Acquire) {
                Ok(_) => return at(added as usize).map(|site| (added as usize, site)),
                Err(found) => index = found,
            }
        }
        let site = at(index as usize - 1)?;
        if site.id.load(Acquire) == id {
            // Another thread was faster: our entry stays unused.
            if let Some(unused) = new.and_then(|n| at(n as usize)) {
                unused.id.store(0, Release);
            }
            return Some((index as usize - 1, site));
        }
        place = (place + 1) % PLACES;
    }
    None
}

/// A fresh entry for a site.
fn add(id: u64) -> Option<u32> {
    if USED.load(Relaxed) as usize >= MAX_SITES {
        return None;
    }
    let index = USED.fetch_add(1, AcqRel);
    at(index as usize)?.id.store(id, Release);
    Some(index)
}

/// The site that a new object of so many bytes is of, if the site of its stack is this one. It is held until [`Site::let_go`].
pub fn claim(index: usize, site: &'static Site, bytes: usize) -> (usize, &'static Site) {
    let free = |s: &Site| s.held.load(Relaxed) == 0 && s.held.compare_exchange(0, 1, AcqRel, Relaxed).is_ok();
    if bytes < SPLIT_FROM as usize || free(site) {
        return (index, site);
    }
    for number in 1..=APART {
        let Some((other, apart)) = find(identity::apart_id(site.id.load(Relaxed), number)) else { break };
        apart.number.store(number, Relaxed);
        apart.stack.store(index as u32 + 1, Release);
        if free(apart) {
            return (other, apart);
        }
    }
    site.hold(bytes);
    (index, site)
}

/// The same of an object that takes the place of one of the site `old`: it stays of that one if its stack is the same.
pub fn claim_anew(old: usize, index: usize, site: &'static Site, bytes: usize) -> (usize, &'static Site) {
    match at(old).filter(|s| old == index || s.stack.load(Acquire) == index as u32 + 1) {
        Some(same) if bytes >= SPLIT_FROM as usize => {
            same.hold(bytes);
            (old, same)
        }
        _ => claim(index, site, bytes),
    }
}

impl Site {
    /// An object of it is alive, or about to be.
    pub fn hold(&self, bytes: usize) {
        if bytes >= SPLIT_FROM as usize {
            self.held.fetch_add(1, AcqRel);
        }
    }

    /// That object is no more.
    pub fn let_go(&self, bytes: usize) {
        if bytes >= SPLIT_FROM as usize {
            self.held.fetch_sub(1, AcqRel);
        }
    }

    /// Which of its stack's objects it has, if not all.
    pub fn apart(&self) -> Option<Apart> {
        let stack = at((self.stack.load(Acquire) as usize).checked_sub(1)?)?;
        Some(Apart { stack: stack.id.load(Relaxed), number: self.number.load(Relaxed) })
    }

    /// Where its objects go; looked up in the plan when first asked for.
    pub fn target(&self) -> Target {
        if self.tier.load(Acquire) == 0 {
            let id = self.id.load(Relaxed);
            let target = plan::target_of(id, self.apart().map_or(id, |a| a.stack));
            self.rest.store(target.rest, Relaxed);
            self.parts.store(target.parts, Relaxed);
            self.tier.store(target.tier + 1, Release);
        }
        let tier = self.tier.load(Acquire).saturating_sub(1);
        Target { tier, rest: self.rest.load(Relaxed), parts: self.parts.load(Relaxed) }
    }

    /// From now on its objects belong there. One whose objects are split from the beginning stays as it is.
    pub fn send_to(&self, to: Place, idle: bool) {
        if self.target().parts == 0 {
            // One that comes to life is where most of it belongs, until the next phase.
            let tier = to.most();
            self.rest.store(tier, Relaxed);
            self.tier.store(tier + 1, Release);
            self.sent.store(u32::from_le_bytes([to.tier, to.rest, to.parts, u8::from(idle)]), Release);
        }
    }

    /// Where its objects belong, if a phase said so.
    pub fn sent_to(&self) -> Option<Place> {
        let [tier, rest, parts, _] = self.sent.load(Acquire).to_le_bytes();
        (parts != 0).then_some(Place { tier, rest, parts })
    }

    /// Whether the phase that said so does not use it.
    pub fn is_idle(&self) -> bool {
        self.sent.load(Relaxed).to_le_bytes()[3] != 0
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_live_side_by_side_get_sites_of_their_own_and_always_the_same() {
        const LARGE: usize = SPLIT_FROM as usize;
        assert!(prepare());
        let (index, stack) = find(0xabcd).unwrap();
        assert_eq!(claim(index, stack, LARGE - 1).0, index, "small ones are not told apart");
        let claimed: [usize; 3] = core::array::from_fn(|_| claim(index, stack, LARGE).0);
        assert_eq!(claimed[0], index);
        let numbers = claimed.map(|i| at(i).unwrap().apart().map(|a| (a.stack, a.number)));
        assert_eq!(numbers, [None, Some((0xabcd, 1)), Some((0xabcd, 2))]);
        // The second is freed and allocated again; then grows in place.
        at(claimed[1]).unwrap().let_go(LARGE);
        assert_eq!(claim(index, stack, LARGE).0, claimed[1]);
        let (same, site) = claim_anew(claimed[1], index, stack, 2 * LARGE);
        assert_eq!(same, claimed[1]);
        site.let_go(LARGE);
        assert_eq!(claim(index, stack, LARGE).0, find(identity::apart_id(0xabcd, 3)).unwrap().0);
        // One of another stack does not stay where it was.
        let (other, site) = find(0xdcba).unwrap();
        assert_eq!(claim_anew(claimed[1], other, site, LARGE).0, other);
        // Too many: the first one's site has the rest.
        let more: [usize; 14] = core::array::from_fn(|_| claim(index, stack, LARGE).0);
        assert!(more[..12].iter().all(|i| *i != index) && more[12..] == [index; 2], "{more:?}");
    }
}
