//! Objects of a split site: some of their parts lie in one tier, the rest in another one.
//!
//! A large object has its address among those of the rest's tier, and the stretches of the other tier are bound to that one's
//! nodes. Smaller ones go whole to the one tier or the other, by turns. A stretch is a mapping of its own to the kernel, so there
//! are not many in a process.

use crate::sites::Site;
use crate::{plan, sandbox};
use core::sync::atomic::{AtomicUsize, Ordering::*};
use wire::image::{self, Target};

const SPLIT_FROM: usize = image::SPLIT_FROM as usize;
/// From this size on objects are split between huge pages.
const HUGE_FROM: usize = 16 << 20;
const HUGE: usize = 2 << 20;
const PAGE: usize = 4096;
/// What smaller ones are split into.
const SMALL: usize = 64 << 10;
const PARTS: usize = image::PARTS as usize;
/// Most stretches of live objects: each makes two more mappings, of which the kernel allows 65,530.
const MOST: usize = 8192;
static STRETCHES: AtomicUsize = AtomicUsize::new(0);

/// Where stretches of an object of this size may begin: at multiples of this from its start. `None`: it is not split.
fn granule(size: usize) -> Option<usize> {
    (size >= SPLIT_FROM).then_some(if size >= HUGE_FROM { HUGE } else { SMALL })
}

/// How an object of this size is aligned, so that it can be split.
pub fn alignment(size: usize) -> usize {
    granule(size).filter(|&g| g == HUGE).unwrap_or(1)
}

/// So many of the first `granules` of `all` go to the site's tier: as many as the mask has bits in their share, rounded up.
fn before(parts: u64, granules: usize, all: usize) -> usize {
    let (bit, into) = (granules * PARTS / all, granules * PARTS % all);
    let whole = if bit >= PARTS { parts } else { parts & ((1 << bit) - 1) }.count_ones() as usize;
    let begun = if bit < PARTS && parts >> bit & 1 == 1 { into } else { 0 };
    (whole * all + begun).div_ceil(PARTS)
}

/// The stretches of an object that go to the site's tier: offset and length. Of the last one as much as makes their sum right,
/// to a page: a plan fills a tier to the last byte.
fn stretches(parts: u64, size: usize) -> impl Iterator<Item = (usize, usize)> {
    let granule = granule(size).unwrap_or(size.max(1));
    let all = if size < SPLIT_FROM { 0 } else { size.div_ceil(granule) };
    let mut left = (size as u128 * u128::from(parts.count_ones()) / PARTS as u128) as usize & !(PAGE - 1);
    let mut next = 0;
    core::iter::from_fn(move || {
        let goes = |i: usize| i < all && before(parts, i + 1, all) > before(parts, i, all);
        let first = (next..all).find(|&i| goes(i))?;
        let last = (first..all).take_while(|&i| goes(i)).last()?;
        next = last + 1;
        let len = (((last + 1) * granule).min(size) - first * granule).min(left);
        left -= len;
        (len > 0).then_some((first * granule, len))
    })
}

/// Bytes of an object that go to the site's tier.
pub fn bytes(parts: u64, size: usize) -> usize {
    stretches(parts, size).map(|(_, len)| len).sum()
}

/// Of the `counts` bytes that will be used of an object those that go to the site's tier.
pub fn used(parts: u64, size: usize, counts: usize) -> usize {
    (bytes(parts, size) as u128 * counts as u128 / size.max(1) as u128) as usize
}

/// Whether an object of this size, of which `counts` bytes will be used, can be split so, now: neither may be impossible for lack of
/// room.
pub fn can(target: Target, size: usize, counts: usize) -> bool {
    let fast = used(target.parts, size, counts);
    let (tier, rest) = (usize::from(target.tier), usize::from(target.rest));
    target.parts != 0
        && fast > 0
        && plan::can_be_bound(tier)
        && plan::can_be_bound(rest)
        && !sandbox::silent()
        && STRETCHES.load(Relaxed) < MOST
        && plan::has_room(tier, fast)
        && plan::has_room(rest, counts - fast)
}

/// Binds the stretches of memory that is bound to the rest's tier already.
///
/// # Safety
/// The memory must be private to the process.
pub unsafe fn bind(target: Target, addr: usize, size: usize) {
    for (offset, len) in stretches(target.parts, size) {
        STRETCHES.fetch_add(1, Relaxed);
        // SAFETY: the caller's.
        unsafe { plan::bind_foreign(usize::from(target.tier), addr + offset, len) };
    }
}

/// Gives the pages of an object's stretches back and binds its memory to the rest's tier, as it was: the object is no more.
pub fn unbind(target: Target, addr: usize, size: usize) {
    for (offset, len) in stretches(target.parts, size) {
        STRETCHES.fetch_sub(1, Relaxed);
        // SAFETY: pages of an object that nobody uses any more, in whole.
        unsafe { plan::give_back(usize::from(target.rest), addr + offset, len.next_multiple_of(PAGE)) };
    }
}

/// The tier of a site's next object that is not split: by turns if the site is.
pub fn next_tier(site: &Site) -> usize {
    let target = site.target();
    if target.parts == 0 {
        return usize::from(target.tier);
    }
    let turn = site.turn.fetch_add(1, Relaxed) as usize % PARTS;
    usize::from(if target.parts >> turn & 1 == 1 { target.tier } else { target.rest })
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const MIB: usize = 1 << 20;

    /// A Fortran array is as large as the largest problem, and a plan counts what of it is used.
    #[test]
    fn what_is_used_of_an_object_counts_in_its_parts() {
        assert_eq!(used(0x5555_5555_5555_5555, 96 * MIB, 24 * MIB), 12 * MIB);
        assert_eq!(used(0xf, 16 * MIB, 16 * MIB), MIB);
        assert_eq!(used(0, 16 * MIB, 16 * MIB), 0);
    }

    #[test]
    fn as_much_as_the_mask_says_however_few_the_granules() {
        for size in [MIB, 3 * MIB + 4096, 16 * MIB, 17 * MIB + 1, 21 * MIB, 128 * MIB, 333 * MIB] {
            for mask in
                [1u64, 0xff, 0x1111_1111_1111_1111, 0x5555_5555_5555_5555, u64::MAX >> 16, 0xff00_0000_0000_00f0]
            {
                let all: Vec<_> = stretches(mask, size).collect();
                let wanted = size as f64 * f64::from(mask.count_ones()) / 64.0;
                let off = wanted - bytes(mask, size) as f64;
                // The last granule of an object may not be whole.
                let least = if mask >> 63 == 1 { granule(size).unwrap() } else { PAGE };
                assert!((0.0..=least as f64).contains(&off), "{size} {mask:x}: {off}");
                assert!(all.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "{all:?}");
                assert!(all.iter().all(|(at, len)| *len > 0 && at + len <= size && at % granule(size).unwrap() == 0));
            }
        }
        assert_eq!(stretches(0xff, 64 * MIB).collect::<Vec<_>>(), [(0, 8 * MIB)]);
        assert_eq!(stretches(0xff << 56, 64 * MIB).collect::<Vec<_>>(), [(56 * MIB, 8 * MIB)]);
        assert_eq!(stretches(0xff, MIB - 1).count(), 0, "too small");
    }
}
