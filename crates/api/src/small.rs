//! Objects under a page: blocks of 64 KiB, each cut into objects of one size class.
//!
//! A block belongs to one thread at most, which alone makes objects in it and takes no lock for it; any thread may end them, without one as well (as in D. Leijen et
//! al., *Mimalloc: free list sharding in action*, 2019, section 2.4). Only where a block changes hands, is new or is no more, the lock of [`crate::state`] is taken.
//!
//! What is free in a block stands beside it, so that a pointer that is not a live object's is known as such. So do the objects' traits, as
//! numbers: there are many objects and few lists of traits. These notes stay for ever, and are used anew for other blocks of the class: who looks at them
//! needs no lock.

use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU16, AtomicU64, AtomicUsize, Ordering::*};
use foldhash::HashMap;
use std::collections::BTreeSet;

/// Bytes of a block, and its alignment.
pub const BLOCK: usize = 64 << 10;
/// Largest object.
pub const LARGEST: usize = 4095;
const LEAST: usize = 16;
/// Largest class.
pub const LARGEST_CLASS: usize = 4096;

/// What is known of the blocks whose addresses begin alike: all that lie in so many bytes.
type Leaf = [AtomicPtr<Block>; 1 << 15];
const LEAF: usize = BLOCK << 15;
/// The blocks by address, two steps: what a process may have lies below 2^47 (x86-64) or 2^48 (AArch64).
static BLOCKS: [AtomicPtr<Leaf>; (1 << 48) / LEAF] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; (1 << 48) / LEAF];

/// The blocks of all tiers.
#[derive(Debug, Default)]
pub struct Small {
    all: BTreeSet<usize>,
    /// Those that no thread has and in which a place is free, by tier and size class.
    open: HashMap<(usize, usize), BTreeSet<usize>>,
    /// Notes of blocks that are no more, by size class.
    spare: HashMap<usize, Vec<&'static Block>>,
}

/// The notes on a block.
#[derive(Debug)]
pub struct Block {
    start: AtomicUsize,
    tier: AtomicUsize,
    size: usize,
    /// 2^32 by the size, rounded up: what an offset below 2^16 times it gives is the number of its place.
    inverse: u64,
    /// A thread makes objects in it.
    owned: AtomicBool,
    /// A bit for each place that is taken, and for those behind the last one.
    taken: Box<[AtomicU64]>,
    /// What its owner wants to remember of each.
    kept: Box<[AtomicU16]>,
    /// The word of `taken` in which its thread found a place last.
    last: AtomicUsize,
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes that may be used.
    pub size: usize,
    /// Its tier.
    pub tier: usize,
    /// What was to be remembered.
    pub kept: u16,
}

/// What became of an object that was to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It has ended.
    Done,
    /// It has, and what begins here is to be looked at ([`Small::look_at`]): perhaps it is empty, or has its first free place.
    LookAt(usize),
    /// There is none.
    None,
}

/// The size class of an object: four to a power of two, so that a quarter is wasted at most. `align`: a power of two up to 4096.
pub fn class(size: usize, align: usize) -> usize {
    let size = size.max(LEAST);
    // Both are powers of two.
    let step = (size.next_power_of_two() / 8).max(LEAST).max(align);
    (size + step - 1) & !(step - 1)
}

fn place_of(at: usize, make: bool) -> Option<&'static AtomicPtr<Block>> {
    let top = BLOCKS.get(at / LEAF)?;
    let mut leaf = top.load(Acquire);
    if leaf.is_null() && make {
        // Zeroes are what it begins with; of what the kernel gives only the pages that are used are there.
        // SAFETY: the layout is not empty.
        leaf = unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::new::<Leaf>()) }.cast();
        top.store(leaf, Release);
    }
    // SAFETY: null, or a leaf that stays for ever.
    unsafe { leaf.as_ref() }?.get(at % LEAF / BLOCK)
}

fn block_of(at: usize) -> Option<&'static Block> {
    let block = place_of(at, false)?.load(Acquire);
    // SAFETY: null, or notes that stay for ever.
    unsafe { block.as_ref() }
}

/// The object at this address; `None`: there is none.
pub fn get(at: usize) -> Option<Place> {
    let block = block_of(at)?;
    let place = block.number(at)?;
    let live = block.taken.get(place / 64)?.load(Acquire) >> (place % 64) & 1 == 1;
    let kept = block.kept.get(place)?.load(Relaxed);
    live.then(|| Place { size: block.size, tier: block.tier.load(Relaxed), kept })
}

/// Ends an object.
#[inline]
pub fn end(at: usize) -> End {
    let Some(block) = block_of(at) else { return End::None };
    let Some(place) = block.number(at) else { return End::None };
    let Some(word) = block.taken.get(place / 64) else { return End::None };
    let bit = 1 << (place % 64);
    // What this thread did with the object comes before whatever its next owner does. And either its thread sees the place when it leaves the block, or this
    // one sees that it has left.
    let before = word.fetch_and(!bit, SeqCst);
    if before & bit == 0 {
        return End::None;
    }
    if block.owned.load(SeqCst) || (before != u64::MAX && before & !bit != block.behind(place / 64)) {
        return End::Done;
    }
    End::LookAt(at & !(BLOCK - 1))
}

impl Block {
    fn new(size: usize) -> Block {
        let places = BLOCK / size;
        let block = Block {
            start: AtomicUsize::new(0),
            tier: AtomicUsize::new(0),
            size,
            inverse: (1u64 << 32).div_ceil(size as u64),
            owned: AtomicBool::new(false),
            taken: (0..places.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(),
            kept: (0..places).map(|_| AtomicU16::new(0)).collect(),
            last: AtomicUsize::new(0),
        };
        block.taken.iter().enumerate().for_each(|(n, word)| word.store(block.behind(n), Relaxed));
        block
    }

    /// The bits of a word that are places behind the last one.
    fn behind(&self, word: usize) -> u64 {
        let places = BLOCK / self.size - word * 64;
        if places < 64 { !0 << places } else { 0 }
    }

    /// The number of the place that begins at this address of the block.
    fn number(&self, at: usize) -> Option<usize> {
        // Notes of a block that is another one by now.
        let offset = at.checked_sub(self.start.load(Relaxed)).filter(|offset| *offset < BLOCK)?;
        let number = (offset as u64 * self.inverse >> 32) as usize;
        (number * self.size == offset && number < BLOCK / self.size).then_some(number)
    }

    /// A place for an object, and something to remember of it. `None`: there is none free. For the thread that has the block.
    #[inline]
    pub fn take(&self, kept: u16) -> Option<usize> {
        let last = self.last.load(Relaxed);
        (last..self.taken.len()).chain(0..last).find_map(|n| self.take_of(n, kept))
    }

    #[inline]
    fn take_of(&self, n: usize, kept: u16) -> Option<usize> {
        let word = self.taken.get(n)?;
        let free = !word.load(Relaxed);
        if free == 0 {
            return None;
        }
        let bit = free.trailing_zeros() as usize;
        let place = n * 64 + bit;
        self.kept.get(place)?.store(kept, Relaxed);
        word.fetch_or(1 << bit, AcqRel);
        self.last.store(n, Relaxed);
        Some(self.start.load(Relaxed) + place * self.size)
    }

    fn is_full(&self) -> bool {
        self.taken.iter().all(|word| word.load(SeqCst) == u64::MAX)
    }

    fn is_empty(&self) -> bool {
        self.taken.iter().enumerate().all(|(n, word)| word.load(SeqCst) == self.behind(n))
    }
}

impl Small {
    /// A block with a free place, for this thread. `None`: a new one is needed ([`Small::add`]).
    pub fn own(&mut self, tier: usize, size: usize) -> Option<&'static Block> {
        let block = block_of(self.open.get_mut(&(tier, size))?.pop_first()?)?;
        block.owned.store(true, SeqCst);
        Some(block)
    }

    /// A new block of a tier and size, for this thread.
    pub fn add(&mut self, start: usize, tier: usize, size: usize) -> Option<&'static Block> {
        let noted = place_of(start, true)?;
        let spare = self.spare.get_mut(&size).and_then(Vec::pop);
        let block = spare.unwrap_or_else(|| Box::leak(Box::new(Block::new(size))));
        block.tier.store(tier, Relaxed);
        block.owned.store(true, Relaxed);
        block.start.store(start, Relaxed);
        noted.store(core::ptr::from_ref(block).cast_mut(), Release);
        self.all.insert(start);
        Some(block)
    }

    /// A thread has a block no more. The block's start and tier, if it is none any more either.
    pub fn leave(&mut self, block: &'static Block) -> Option<(usize, usize)> {
        block.owned.store(false, SeqCst);
        self.look_at(block.start.load(Relaxed))
    }

    /// Threads that had blocks are no more; `but`: blocks of this one.
    pub fn leave_all(&mut self, but: impl Fn(&Block) -> bool) -> Vec<(usize, usize)> {
        let owned = |&at: &usize| block_of(at).filter(|b| b.owned.load(Relaxed) && !but(b));
        let left: Vec<&'static Block> = self.all.iter().filter_map(owned).collect();
        left.into_iter().filter_map(|block| self.leave(block)).collect()
    }

    /// Sees to a block that nobody may have: whether it has free places, or only such. What begins here and its tier, if it is no block any more.
    pub fn look_at(&mut self, start: usize) -> Option<(usize, usize)> {
        let block = block_of(start)?;
        // Another thread has come by before.
        if block.owned.load(SeqCst) || block.start.load(Relaxed) != start || block.is_full() {
            return None;
        }
        let tier = block.tier.load(Relaxed);
        let open = self.open.entry((tier, block.size)).or_default();
        open.insert(start);
        // The last one stays for the next object.
        if open.len() == 1 || !block.is_empty() {
            return None;
        }
        open.remove(&start);
        self.all.remove(&start);
        place_of(start, false)?.store(core::ptr::null_mut(), Release);
        self.spare.entry(block.size).or_default().push(block);
        Some((start, tier))
    }

    /// All blocks: start, bytes of each place, and what is remembered of the objects.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, usize, Vec<u16>)> {
        self.all.iter().filter_map(|&start| Some((start, block_of(start)?))).map(|(start, block)| {
            let taken = |n: &usize| block.taken[n / 64].load(Relaxed) >> (n % 64) & 1 == 1;
            let kept = (0..block.kept.len()).filter(taken).map(|n| block.kept[n].load(Relaxed)).collect();
            (start, block.size, kept)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Addresses of blocks that no other test has, and no process: they are only noted.
    fn addresses(test: usize) -> impl Fn(usize) -> usize {
        move |n| (1 << 47) + (test << 32) + n * BLOCK
    }

    #[test]
    fn classes_waste_a_quarter_at_most() {
        for size in 1..=LARGEST {
            let class = class(size, 1);
            assert!(class >= size && class % LEAST == 0 && class <= LARGEST_CLASS, "{size}: {class}");
            assert!(size < 64 || class * 4 <= size * 5, "{size}: {class}");
        }
        assert_eq!((class(100, 256), class(1, 4096), class(4095, 4096)), (256, 4096, 4096));
    }

    #[test]
    fn every_place_once_and_none_twice() {
        let at = addresses(1)(0);
        for size in (1..=LARGEST).map(|size| class(size, 1)).collect::<BTreeSet<usize>>() {
            let mut small = Small::default();
            assert!(small.own(0, size).is_none());
            let block = small.add(at, 0, size).unwrap();
            let all: BTreeSet<usize> = core::iter::from_fn(|| block.take(9)).collect();
            assert_eq!(all.len(), BLOCK / size);
            assert!(all.iter().all(|&one| one >= at && one + size <= at + BLOCK));
            assert_eq!((get(at + 8), end(at + 8)), (None, End::None));
            assert_eq!(get(at), Some(Place { size, tier: 0, kept: 9 }));
            assert!(small.blocks().eq([(at, size, vec![9; BLOCK / size])]));
            assert_eq!(end(at), End::Done);
            assert_eq!(end(at), End::None, "twice");
            assert_eq!(block.take(0), Some(at));
            all.iter().for_each(|&one| assert_ne!(end(one), End::None));
        }
    }

    #[test]
    fn a_block_that_was_left_full_comes_back_with_its_first_free_place() {
        let at = addresses(2);
        let mut small = Small::default();
        let block = small.add(at(0), 1, 48).unwrap();
        let all: Vec<usize> = core::iter::from_fn(|| block.take(0)).collect();
        assert_eq!(small.leave(block), None);
        assert!(small.own(1, 48).is_none(), "it is full");
        assert_eq!(end(all[70]), End::LookAt(at(0)));
        assert_eq!(small.look_at(at(0)), None);
        assert_eq!(end(all[71]), End::Done, "it is known to have free places");
        let again = small.own(1, 48).unwrap();
        assert!([again.take(0), again.take(0)].iter().flatten().all(|one| [all[70], all[71]].contains(one)));
        assert_eq!(again.take(0), None);
    }

    #[test]
    fn an_empty_block_goes_but_for_the_last() {
        let at = addresses(3);
        let mut small = Small::default();
        let blocks = [0, 1].map(|n| small.add(at(n), 1, 2048).unwrap());
        let all = blocks.map(|block| core::iter::from_fn(|| block.take(0)).collect::<Vec<usize>>());
        for (block, objects) in blocks.into_iter().zip(&all) {
            assert_eq!(end(objects[0]), End::Done);
            assert_eq!(small.leave(block), None);
        }
        let mut gone = Vec::new();
        for &one in all.iter().flat_map(|objects| &objects[1..]) {
            match end(one) {
                End::LookAt(start) => gone.extend(small.look_at(start)),
                other => assert_eq!(other, End::Done),
            }
        }
        assert_eq!(gone, [(at(0), 1)]);
        assert_eq!(end(at(0)), End::None);
        // The notes serve another one.
        let third = small.add(at(2), 0, 2048).unwrap();
        assert_eq!((third.take(0), get(at(0))), (Some(at(2)), None));
    }

    #[test]
    fn a_child_of_a_fork_gets_what_other_threads_had() {
        let at = addresses(4);
        let mut small = Small::default();
        let (mine, other) = (small.add(at(0), 0, 64).unwrap(), small.add(at(1), 0, 64).unwrap());
        assert_eq!((mine.take(0), other.take(0)), (Some(at(0)), Some(at(1))));
        assert_eq!(small.leave_all(|block| core::ptr::eq(block, mine)), []);
        assert_eq!(small.own(0, 64).unwrap().take(0), Some(at(1) + 64));
        assert!(small.own(0, 64).is_none());
    }

    /// Threads make objects and end those of others; none is handed out twice, and all blocks but those that stay for the next one go.
    #[test]
    fn threads_end_what_others_have_made() {
        const OBJECTS: usize = 60_000;
        let (address, next) = (addresses(5), AtomicUsize::new(0));
        let small = Mutex::new(Small::default());
        let (sender, receiver) = std::sync::mpsc::channel::<usize>();
        let receiver = Mutex::new(receiver);
        let gone = AtomicUsize::new(0);
        let live = Mutex::new(BTreeSet::new());
        let look_at = |start: usize| {
            if small.lock().unwrap().look_at(start).is_some() {
                gone.fetch_add(1, Relaxed);
            }
        };
        let make = || {
            let mut block: Option<&'static Block> = None;
            for _ in 0..OBJECTS {
                let at = block.and_then(|b| b.take(7)).unwrap_or_else(|| {
                    let mut small = small.lock().unwrap();
                    if let Some(full) = block.take() {
                        gone.fetch_add(usize::from(small.leave(full).is_some()), Relaxed);
                    }
                    let new = small.own(0, 64);
                    let new = new.unwrap_or_else(|| small.add(address(next.fetch_add(1, Relaxed)), 0, 64).unwrap());
                    block = Some(new);
                    new.take(7).unwrap()
                });
                assert!(live.lock().unwrap().insert(at), "twice: {at:#x}");
                sender.send(at).unwrap();
            }
            if let Some(block) = block {
                gone.fetch_add(usize::from(small.lock().unwrap().leave(block).is_some()), Relaxed);
            }
        };
        let finish = || {
            for _ in 0..OBJECTS {
                let at = receiver.lock().unwrap().recv().unwrap();
                assert!(live.lock().unwrap().remove(&at));
                match end(at) {
                    End::Done => {}
                    End::LookAt(start) => look_at(start),
                    End::None => panic!("{at:#x} was not there"),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(make);
                scope.spawn(finish);
            }
        });
        let small = small.into_inner().unwrap();
        let left = small.blocks().count();
        assert!(small.blocks().all(|(_, _, objects)| objects.is_empty()));
        assert_eq!(left + gone.load(Relaxed), next.load(Relaxed));
        assert!(left <= 3, "{left} of {next:?}");
    }
}
