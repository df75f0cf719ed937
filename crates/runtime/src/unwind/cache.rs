//! The rule cache: return address -> packed rule and frame token, in one fixed table that readers search with plain
//! loads and writers fill without locks.
//!
//! Open addressing with linear probing over at most [`PROBES`] slots. A slot is written once, by whoever swings its key
//! from free to [`BUSY`]; it becomes free again when the cache's generation moves on ([`RuleCache::forget`]), because
//! the generation is part of every key. As a slot may be rewritten while it is read, a reader looks at the key again
//! after reading (a sequence lock whose counter is the key). A thread that dies, forks or is interrupted inside a write
//! leaves one slot busy for ever and blocks nobody. When no slot is free nearby, the rule is simply not kept.
//!
//! Only the beginning of the table is in use, four times as much whenever it is half full: spread over all of it, the few hundred
//! rules of a small program would take a page each. What was kept until then is forgotten and learned once more.
//!
//! A walk is a chain of dependent loads: return address, slot, rule, next return address. To break it, each slot points
//! to the slot of a parent met lately. The processor runs ahead along these pointers, while the comparison with the return
//! address that is really there stays off the critical path, as a branch that is mostly taken. Only one in [`SURPRISES`]
//! unexpected parents becomes the expected one: a line that many threads write at each walk would cost more than it saves.

use super::rule::Rule;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence};

/// Slots of the whole table. 2^17 of 32 bytes are 4 MiB of address space; a large application has tens of thousands of call sites on
/// its allocation paths.
const SLOTS: usize = 1 << 17;
/// Slots that are in use at first.
const FIRST_SLOTS: usize = 1 << 11;
const PROBES: usize = 32;
/// Measured on one thread: always following the latest parent makes walks 12-28 % faster than keeping the first; one in
/// eight comes close.
const SURPRISES: u32 = 8;

const FREE: u64 = 0;
const BUSY: u64 = 1;

/// User addresses have 47 bits, so keys have room for the generation and for how the address came about.
const ADDRESS_BITS: u32 = 47;
/// Addresses of code are below this; those given to this table must be.
pub(super) const ADDRESS_END: usize = 1 << ADDRESS_BITS;
const GENERATIONS: u64 = 1 << 15;
const EXACT: u64 = 1 << 63;

/// How long the table is, for whoever maps it.
pub(super) const BYTES: usize = SLOTS * size_of::<Slot>();

#[repr(C, align(32))]
struct Slot {
    key: AtomicU64,
    rule: AtomicU64,
    token: AtomicU64,
    /// Slot in the same table where a parent of this address was found, or null.
    parent: AtomicPtr<Slot>,
}

impl Slot {
    /// The contents, if they are about this key.
    #[inline(always)]
    fn read(&self, key: u64) -> Option<Known> {
        if self.key.load(Ordering::Acquire) != key {
            return None;
        }
        let known = Known { rule: Rule(self.rule.load(Ordering::Relaxed)), token: self.token.load(Ordering::Relaxed) };
        fence(Ordering::Acquire);
        (self.key.load(Ordering::Relaxed) == key).then_some(known)
    }
}

/// A slot that was found, from which to go on to the parent's.
#[derive(Clone, Copy)]
pub(super) struct Place(&'static Slot);

/// What is known about one code address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Known {
    pub rule: Rule,
    pub token: u64,
}

pub(super) struct RuleCache {
    slots: &'static [Slot; SLOTS],
    /// Slots in use, a power of two, less one.
    mask: AtomicUsize,
    /// Rules kept since all were forgotten.
    kept: AtomicUsize,
    generation: AtomicU64,
}

/// The part of a key that is the same for all addresses of a kind during one walk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(u64);

impl Epoch {
    #[cfg(test)]
    pub const fn of(number: u64) -> Epoch {
        Epoch(number)
    }

    /// For a pc that is the next instruction to run, not a return address: its unwind row is its own, not that of the
    /// call before it.
    pub const fn exact(self) -> Epoch {
        Epoch(self.0 | EXACT)
    }
}

impl RuleCache {
    /// # Safety
    /// `memory` is [`BYTES`] of zeroed memory, aligned to 32, for this cache alone and for ever.
    pub unsafe fn new(memory: *mut u8) -> RuleCache {
        // SAFETY: the caller's promise; all-zero is a valid slot.
        let slots = unsafe { &*memory.cast::<[Slot; SLOTS]>() };
        let (mask, kept) = (AtomicUsize::new(FIRST_SLOTS - 1), AtomicUsize::new(0));
        RuleCache { slots, mask, kept, generation: AtomicU64::new(1) }
    }

    #[inline(always)]
    pub fn epoch(&self) -> Epoch {
        Epoch(self.generation.load(Ordering::Acquire) << ADDRESS_BITS)
    }

    /// Every rule learned so far is void.
    pub fn forget(&self) {
        self.kept.store(0, Ordering::Relaxed);
        let next = self.generation.fetch_add(1, Ordering::AcqRel) + 1;
        if next >= GENERATIONS {
            // The number would come round to generations whose keys may still be in the table: clear it.
            for slot in self.slots.iter().filter(|s| s.key.load(Ordering::Relaxed) != BUSY) {
                slot.key.store(FREE, Ordering::Release);
            }
            let _ = self.generation.compare_exchange(next, 1, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The slots in which a rule may lie.
    #[inline(always)]
    fn slots_of(&self, pc: usize) -> impl Iterator<Item = &'static Slot> {
        // Fibonacci hashing (Knuth, TAOCP 6.4).
        let start = ((pc as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        let mask = self.mask.load(Ordering::Relaxed);
        let slots = self.slots;
        (0..PROBES).map_while(move |i| slots.get((start + i) & mask))
    }

    /// Counts a rule that was kept, and takes more of the table into use when what is in use is half full.
    fn count(&self) {
        let (kept, mask) = (self.kept.fetch_add(1, Ordering::Relaxed) + 1, self.mask.load(Ordering::Relaxed));
        let full = kept > mask / 2 && mask + 1 < SLOTS;
        if full && self.mask.compare_exchange(mask, mask * 4 + 3, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.forget();
        }
    }

    /// What is known about `pc`, which was found on the stack as the parent of what is at `child`. `surprises` is the
    /// thread's count of parents that were not the expected ones.
    #[inline(always)]
    pub fn parent(&self, child: Place, epoch: Epoch, pc: usize, surprises: &mut u32) -> Option<(Place, Known)> {
        let expected = child.0.parent.load(Ordering::Relaxed);
        // SAFETY: null or a slot of this table, which is never unmapped.
        if let Some(slot) = unsafe { expected.as_ref() } {
            if let Some(known) = slot.read(epoch.0 | pc as u64) {
                return Some((Place(slot), known));
            }
        }
        self.unexpected_parent(child, epoch, pc, surprises)
    }

    #[cold]
    #[inline(never)]
    fn unexpected_parent(&self, child: Place, epoch: Epoch, pc: usize, surprises: &mut u32) -> Option<(Place, Known)> {
        let (place, known) = self.get(epoch, pc)?;
        *surprises = surprises.wrapping_add(1);
        if *surprises % SURPRISES == 0 || child.0.parent.load(Ordering::Relaxed).is_null() {
            child.0.parent.store(core::ptr::from_ref(place.0).cast_mut(), Ordering::Relaxed);
        }
        Some((place, known))
    }

    /// What is known about `pc`.
    #[inline(never)]
    pub fn get(&self, epoch: Epoch, pc: usize) -> Option<(Place, Known)> {
        let key = epoch.0 | pc as u64;
        for slot in self.slots_of(pc) {
            match slot.key.load(Ordering::Relaxed) {
                found if found == key => return slot.read(key).map(|known| (Place(slot), known)),
                FREE => return None,
                _ => {}
            }
        }
        None
    }

    /// Keep `known` for `pc`; quietly not, if the table is full there or the generation moved on since `epoch`.
    #[cold]
    pub fn put(&self, epoch: Epoch, pc: usize, known: Known) {
        if pc >= ADDRESS_END {
            return;
        }
        let key = epoch.0 | pc as u64;
        let generation = (epoch.0 & !EXACT) >> ADDRESS_BITS;
        for slot in self.slots_of(pc) {
            let found = slot.key.load(Ordering::Acquire);
            if found == key {
                return;
            }
            let stale = found != BUSY && (found & !EXACT) >> ADDRESS_BITS != generation;
            if stale && slot.key.compare_exchange(found, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                fence(Ordering::Release);
                slot.rule.store(known.rule.0, Ordering::Relaxed);
                slot.token.store(known.token, Ordering::Relaxed);
                slot.parent.store(core::ptr::null_mut(), Ordering::Relaxed);
                slot.key.store(key, Ordering::Release);
                self.count();
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::map_zeroed;
    use super::*;

    fn cache() -> RuleCache {
        // SAFETY: fresh, zeroed, page-aligned, never unmapped.
        unsafe { RuleCache::new(map_zeroed(BYTES).unwrap()) }
    }

    fn get(c: &RuleCache, e: Epoch, pc: usize) -> Option<Known> {
        c.get(e, pc).map(|(_, known)| known)
    }

    fn known(pc: usize) -> Known {
        Known { rule: Rule(pc as u64 * 3), token: !(pc as u64) }
    }

    /// Keeps a rule for each address, as walks do, which learn again what is not found.
    fn keep(c: &RuleCache, pcs: impl Iterator<Item = usize> + Clone) {
        for _ in 0..2 {
            for pc in pcs.clone().filter(|&pc| get(c, c.epoch(), pc).is_none()) {
                c.put(c.epoch(), pc, known(pc));
            }
        }
    }

    #[test]
    fn finds_what_was_kept_until_told_to_forget() {
        let c = cache();
        keep(&c, 0x1000..0x3000);
        let old = c.epoch();
        for pc in 0x1000..0x3000 {
            assert_eq!(get(&c, old, pc), Some(known(pc)));
            assert_eq!(get(&c, old.exact(), pc), None);
        }
        c.forget();
        assert_eq!(get(&c, c.epoch(), 0x1000), None);
        c.put(c.epoch(), 0x1000, Known { rule: Rule(7), token: 7 });
        assert_eq!(get(&c, c.epoch(), 0x1000), Some(Known { rule: Rule(7), token: 7 }));
    }

    #[test]
    fn an_expected_parent_is_only_believed_if_it_is_the_one() {
        let c = cache();
        let e = c.epoch();
        for pc in [0x1000, 0x2000, 0x3000] {
            c.put(e, pc, known(pc));
        }
        let (child, _) = c.get(e, 0x1000).unwrap();
        let mut surprises = 0;
        for round in 0..100 {
            let pc = [0x2000, 0x3000, 0x2000, 0x4000][round % 4];
            let parent = c.parent(child, e, pc, &mut surprises).map(|(_, known)| known);
            assert_eq!(parent, (pc != 0x4000).then(|| known(pc)));
        }
        assert!(surprises > 20, "{surprises}");
        c.forget();
        assert!(c.parent(child, c.epoch(), 0x2000, &mut surprises).is_none());
    }

    #[test]
    fn forgets_across_the_wrap_of_generations() {
        let c = cache();
        let first = c.epoch();
        c.put(first, 0x1234, known(1));
        while {
            c.forget();
            c.epoch() != first
        } {}
        assert_eq!(get(&c, first, 0x1234), None);
    }

    #[test]
    fn a_full_table_drops_new_rules_and_keeps_old_ones() {
        let c = cache();
        let pcs = (0..SLOTS * 2).map(|i| 0x10000 + i * 5);
        keep(&c, pcs.clone());
        let n = pcs.filter(|&pc| get(&c, c.epoch(), pc) == Some(known(pc))).count();
        assert!(n > SLOTS * 9 / 10 && n <= SLOTS, "{n}");
    }

    #[test]
    fn few_rules_lie_together_and_more_of_them_are_all_found() {
        let c = cache();
        keep(&c, (0..FIRST_SLOTS / 2 - 1).map(|i| 0x10000 + i * 5));
        let used = || (0..SLOTS).filter(|&i| c.slots[i].key.load(Ordering::Relaxed) != FREE);
        assert_eq!(used().count(), FIRST_SLOTS / 2 - 1);
        assert!(used().max().unwrap() < FIRST_SLOTS, "they are spread over {}", used().max().unwrap());
        let many = (0..SLOTS / 4).map(|i| 0x10000 + i * 5);
        keep(&c, many.clone());
        assert!(many.clone().all(|pc| get(&c, c.epoch(), pc) == Some(known(pc))));
    }

    #[test]
    fn readers_never_see_a_torn_rule() {
        let c = cache();
        std::thread::scope(|s| {
            for t in 0..4 {
                let c = &c;
                s.spawn(move || {
                    for i in 0..200_000usize {
                        let (e, pc) = (c.epoch(), 0x4000 + (i * 7 + t) % 512);
                        if let Some(k) = get(c, e, pc) {
                            assert_eq!(k, known(pc));
                        } else {
                            c.put(e, pc, known(pc));
                        }
                        if i % 1000 == t {
                            c.forget();
                        }
                    }
                });
            }
        });
    }
}
