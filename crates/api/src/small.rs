//! Objects under a page: blocks of 64 KiB, each cut into objects of one size class.
//!
//! What is free in a block stands beside it, so that a pointer that is not a live object's is known as such. So do the objects' traits, as
//! numbers: there are many objects and few lists of traits.

use foldhash::HashMap;
use std::collections::BTreeSet;

/// Bytes of a block, and its alignment.
pub const BLOCK: usize = 64 << 10;
/// Largest object.
pub const LARGEST: usize = 4095;
const LEAST: usize = 16;

/// The blocks of all tiers, by address.
#[derive(Debug, Default)]
pub struct Small {
    blocks: HashMap<usize, Block>,
    /// Blocks with a free place, by tier and size class.
    open: HashMap<(usize, usize), BTreeSet<usize>>,
}

#[derive(Debug)]
struct Block {
    tier: usize,
    size: usize,
    /// A bit for each place that is taken.
    taken: Vec<u64>,
    /// What its owner wants to remember of each.
    kept: Vec<u16>,
    live: usize,
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

/// The size class of an object: four to a power of two, so that a quarter is wasted at most. `align`: a power of two up to 4096.
pub fn class(size: usize, align: usize) -> usize {
    let size = size.max(LEAST);
    let step = (size.next_power_of_two() / 8).max(LEAST);
    size.next_multiple_of(step).next_multiple_of(align.max(1))
}

impl Small {
    /// A place in a block that there is, and something to remember of it. `None`: a new block is needed ([`Small::add`]).
    pub fn take(&mut self, tier: usize, size: usize, kept: u16) -> Option<usize> {
        let open = self.open.get_mut(&(tier, size))?;
        let start = *open.first()?;
        let block = self.blocks.get_mut(&start)?;
        let word = block.taken.iter().position(|w| *w != u64::MAX)?;
        let bit = block.taken[word].trailing_ones() as usize;
        block.taken[word] |= 1 << bit;
        *block.kept.get_mut(word * 64 + bit)? = kept;
        block.live += 1;
        if block.live == BLOCK / size {
            open.remove(&start);
        }
        Some(start + (word * 64 + bit) * size)
    }

    /// A new block of a tier and size.
    pub fn add(&mut self, start: usize, tier: usize, size: usize) {
        let places = BLOCK / size;
        let mut taken = vec![0u64; places.div_ceil(64)];
        // There are no places behind the last one.
        if let Some(last) = taken.last_mut().filter(|_| places % 64 != 0) {
            *last = !0 << (places % 64);
        }
        self.blocks.insert(start, Block { tier, size, taken, kept: vec![0; places], live: 0 });
        self.open.entry((tier, size)).or_default().insert(start);
    }

    fn find(&self, at: usize) -> Option<(usize, &Block, usize)> {
        let start = at & !(BLOCK - 1);
        let block = self.blocks.get(&start)?;
        let place = (at - start) / block.size;
        let live = (at - start) % block.size == 0
            && place < BLOCK / block.size
            && block.taken.get(place / 64).is_some_and(|w| w >> (place % 64) & 1 == 1);
        live.then_some((start, block, place))
    }

    /// The object at this address; `None`: there is none.
    pub fn get(&self, at: usize) -> Option<Place> {
        self.find(at).map(|(_, block, n)| Place { size: block.size, tier: block.tier, kept: block.kept[n] })
    }

    /// All blocks: start, bytes of each place, and what is remembered of the objects.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, usize, Vec<u16>)> {
        self.blocks.iter().map(|(&start, block)| {
            let taken = |n: &usize| block.taken[n / 64] >> (n % 64) & 1 == 1;
            (start, block.size, (0..BLOCK / block.size).filter(taken).map(|n| block.kept[n]).collect())
        })
    }

    /// Ends an object. `None`: there is none. The inner value is a block that has become empty, and its tier: it is no more.
    pub fn free(&mut self, at: usize) -> Option<Option<(usize, usize)>> {
        let (start, _, place) = self.find(at)?;
        let block = self.blocks.get_mut(&start)?;
        block.taken[place / 64] &= !(1 << (place % 64));
        block.live -= 1;
        let (tier, size, live) = (block.tier, block.size, block.live);
        let open = self.open.entry((tier, size)).or_default();
        open.insert(start);
        // The last one stays for the next object.
        if live > 0 || open.len() == 1 {
            return Some(None);
        }
        open.remove(&start);
        self.blocks.remove(&start);
        Some(Some((start, tier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_waste_a_quarter_at_most() {
        for size in 1..=LARGEST {
            let class = class(size, 1);
            assert!(class >= size && class % LEAST == 0 && class <= BLOCK, "{size}: {class}");
            assert!(size < 64 || class * 4 <= size * 5, "{size}: {class}");
        }
        assert_eq!((class(100, 256), class(1, 4096)), (256, 4096));
    }

    #[test]
    fn every_place_once_and_none_twice() {
        for size in [16, 48, 112, 3584, 4096] {
            let mut small = Small::default();
            assert_eq!(small.take(0, size, 0), None);
            small.add(BLOCK, 0, size);
            let all: BTreeSet<usize> = core::iter::from_fn(|| small.take(0, size, 9)).collect();
            assert_eq!(all.len(), BLOCK / size);
            assert!(all.iter().all(|&at| at >= BLOCK && at + size <= 2 * BLOCK));
            assert_eq!(small.get(BLOCK + 8), None);
            assert_eq!(small.get(BLOCK), Some(Place { size, tier: 0, kept: 9 }));
            assert!(small.blocks().eq([(BLOCK, size, vec![9; BLOCK / size])]));
            assert_eq!(small.free(BLOCK), Some(None));
            assert_eq!(small.free(BLOCK), None, "twice");
            assert_eq!(small.take(0, size, 0), Some(BLOCK));
        }
    }

    #[test]
    fn an_empty_block_goes_but_for_the_last() {
        let mut small = Small::default();
        small.add(BLOCK, 1, 2048);
        small.add(2 * BLOCK, 1, 2048);
        let all: Vec<usize> = core::iter::from_fn(|| small.take(1, 2048, 0)).collect();
        let gone: Vec<_> = all.iter().filter_map(|&at| small.free(at).unwrap()).collect();
        assert_eq!(gone, [(2 * BLOCK, 1)]);
    }
}
