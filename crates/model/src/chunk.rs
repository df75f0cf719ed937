//! Large objects in chunks: a program that takes all of its memory by a few huge mappings would else be one hot object.
//!
//! How an object is cut follows from its size alone, so that whoever records, estimates, reports or plans cuts it in the same
//! way: those of one site whose sizes lie between the same two powers of two share their chunks, counted from the start of each.
//! A chunk is a sixteenth of the smaller power. So an object has 16 to 32 of them (few enough that each gets its part of the
//! some hundred samples that a short run has of a site), and the smallest object that is cut, [`SizeClass::LEAST`], has chunks of
//! one huge page of 2 MiB, which no placement should split. Paper 001 (section 3.2.2) splits objects of
//! more than 64 MB.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Objects of sizes between a power of two and the next, which are cut in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SizeClass(u8);

impl SizeClass {
    /// Smaller objects are not cut.
    pub const LEAST: Bytes = Bytes::mib(32);
    /// Most chunks of an object.
    pub const MOST: usize = 32;

    /// The class of objects of this size; none if they are too small to be cut.
    pub fn of(size: Bytes) -> Option<SizeClass> {
        (size >= SizeClass::LEAST).then(|| SizeClass(size.0.ilog2() as u8))
    }
    /// Size of its smallest objects, a power of two; all others are less than twice as large.
    pub fn least(self) -> Bytes {
        Bytes(1 << self.0)
    }
    /// Length of a chunk: a power of two, at least 2 MiB.
    pub fn chunk(self) -> Bytes {
        Bytes(self.least().0 / 16)
    }
    /// The chunk so many bytes behind the start of an object. What lies behind the end, in its last page, is of the last one.
    #[inline]
    pub fn at(self, offset: Bytes) -> ChunkAt {
        ChunkAt { class: self, number: (offset.0 >> (self.0 - 4)).min(SizeClass::MOST as u64 - 1) as u8 }
    }
    /// All chunks that objects of the class can have.
    pub fn all(self) -> impl Iterator<Item = ChunkAt> {
        (0..SizeClass::MOST as u8).map(move |number| ChunkAt { class: self, number })
    }
}

/// A place in the objects of a size class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkAt {
    class: SizeClass,
    number: u8,
}

impl ChunkAt {
    /// Which objects have it.
    pub fn class(self) -> SizeClass {
        self.class
    }
    /// The how many-th it is, from 0; less than [`SizeClass::MOST`].
    pub fn number(self) -> usize {
        self.number.into()
    }
    /// Where it begins, from the start of the object.
    pub fn offset(self) -> Bytes {
        Bytes(self.class.chunk().0 * u64::from(self.number))
    }
    /// How much of an object of this size lies in it.
    pub fn of(self, size: Bytes) -> Bytes {
        (size - self.offset()).min(self.class.chunk())
    }
}

/// One chunk of a site's large objects, all processes and all objects of the size class together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Chunk {
    /// Size of the smallest objects that have it, a power of two of 32 MiB or more; all are less than twice as large.
    pub class: Bytes,
    /// Where it begins, from the start of each object: a multiple of `size`.
    pub offset: Bytes,
    /// Its length: a sixteenth of `class`, so a power of two of 2 MiB or more. The last one of an object may be cut short.
    pub size: Bytes,
    /// Most bytes of it alive at one moment, of all objects together.
    pub peak: Bytes,
    /// Most bytes of it resident at one reading, from the pages that were looked at; `None` if none ever was.
    pub resident: Option<Bytes>,
    /// Last-level-cache misses by loads over the run: the site's, divided among its chunks by what the samples say.
    pub load_misses: f64,
    /// The same by stores.
    pub store_misses: f64,
    /// Access samples that fell on it.
    pub samples: u64,
}

impl Chunk {
    /// Loads and stores together.
    pub fn misses(&self) -> f64 {
        self.load_misses + self.store_misses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_of_an_object_is_in_one_chunk_of_whole_huge_pages() {
        assert_eq!(SizeClass::of(Bytes(SizeClass::LEAST.0 - 1)), None);
        for size in [32 << 20, (64 << 20) - 1, 80 << 20, 128 << 20, (3 << 40) + 17, u64::MAX] {
            let class = SizeClass::of(Bytes(size)).expect("large enough");
            assert!(class.least().0 <= size && size / 2 < class.least().0);
            assert_eq!(class.chunk().0 % (2 << 20), 0);
            let parts: Vec<u64> = class.all().map(|at| at.of(Bytes(size)).0).collect();
            assert_eq!((parts.iter().sum::<u64>(), parts.len()), (size, SizeClass::MOST));
            let pieces = parts.iter().filter(|&&p| p > 0).count();
            assert!((16..=32).contains(&pieces), "{size} in {pieces}");
            for offset in [0, class.chunk().0 - 1, class.chunk().0, size / 3, size - 1] {
                let at = class.at(Bytes(offset));
                assert!(at.offset().0 <= offset && offset - at.offset().0 < at.of(Bytes(size)).0);
                assert_eq!((at.number() as u64 * class.chunk().0, at.class()), (at.offset().0, class));
            }
        }
        let class = SizeClass::of(Bytes::mib(128)).expect("large enough");
        assert_eq!((class.chunk(), class.at(Bytes::mib(17)).offset()), (Bytes::mib(8), Bytes::mib(16)));
    }
}
