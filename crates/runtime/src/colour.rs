//! Where in its first page an object begins.
//!
//! An object has whole pages to itself. If all began at the start of a page, their first lines would meet in the same sets of the
//! caches; and a program whose buffers have a header of a few bytes (redis's strings) would read into them at a fifth of the speed,
//! because the kernel copies from the start of a page of its own, and a load that follows a store at almost the same place of another page
//! has to wait for it (4 KiB aliasing: Intel 64 and IA-32 Architectures Optimization Reference Manual). So an object begins as many lines
//! later as its last page leaves room for, at most; one that has grown begins one line later, so that it may grow on where it is. Where follows from its page alone: nothing is stored, and an address that
//! is no object's is known as such.
//!
//! A large object begins 16 bytes into its page, as under glibc, whose own words stand before it: programs are as fast with Hearth as without it. One of molecular dynamics takes
//! 1.6 times as long where its arrays begin at a multiple of 32 bytes, and one of neutron transport a twentieth longer (bench/results/live.md).
//!
//! Within Hearth an object's address is its first page's.

use crate::heap::{HEAD, LARGE, PAGE, size_class};
use crate::objects;

const LINE: usize = 64;

/// Bytes between the start of an object's first page and the object. `grown`: by `realloc`.
pub fn of(page: usize, size: usize, align: usize, grown: bool) -> usize {
    let room = size_class(size) - size;
    if size >= LARGE {
        return if room >= HEAD && align <= HEAD { HEAD } else { 0 };
    }
    let most = room.min(if grown { LINE } else { PAGE });
    if align > LINE { 0 } else { choices(page).find(|&c| c <= most).unwrap_or(0) }
}

/// The first page of the object that a program knows by this address, and the bytes between them; `None`: no object begins there.
pub fn page_of(addr: usize) -> Option<(usize, usize)> {
    let within = addr % PAGE;
    let page = addr - within;
    let begins = match within {
        0 => true,
        HEAD => objects::get(page).is_some_and(|o| o.bytes >= LARGE),
        _ => choices(page).any(|c| c == within),
    };
    begins.then_some((page, within))
}

/// Whether an object that begins there may have another size. What begins as large ones do, and is not large any more, would
/// not be known by its address.
pub fn may_stay(within: usize, size: usize) -> bool {
    within + size <= size_class(size) && (within != HEAD || size >= LARGE)
}

/// Whether it may also begin so in another page. What begins some lines later does so for its own page only.
pub fn may_move(within: usize, size: usize) -> bool {
    [0, HEAD].contains(&within) && may_stay(within, size)
}

/// The largest first.
fn choices(page: usize) -> impl Iterator<Item = usize> {
    let lines = PAGE / LINE - 1;
    let first = 1 + (page / PAGE).wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_shr(40) % lines;
    core::iter::successors(Some(first), |&n| Some(n / 2)).take_while(|&n| n > 0).map(|n| n * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_begin_at_many_lines_and_have_no_page_more_for_it() {
        let pages = || (1..1000usize).map(|n| n * PAGE);
        for size in [1, 4097, 4700, 8128, 8191, 16390, LARGE - 1] {
            for page in pages() {
                let within = of(page, size, 16, false);
                assert!(within % LINE == 0 && within + size <= size_class(size), "{size} at {page:x}+{within}");
                assert_eq!(page_of(page + within), Some((page, within)));
            }
        }
        let begins: std::collections::BTreeSet<usize> = pages().map(|p| of(p, 4700, 16, false)).collect();
        assert!(begins.len() > 40 && !begins.contains(&0), "{begins:?}");
        assert!(pages().all(|p| of(p, 8192, 1, false) == 0 && of(p, 4700, 128, false) == 0));
        assert!(pages().all(|p| of(p, 4700, 16, true) == LINE));
        // Large ones have one place.
        for (size, align, begins) in
            [(LARGE + 1, 1, 16), (LARGE, 16, 16), (LARGE + 4081, 1, 16), (8 * LARGE, 1, 0), (LARGE + 1, 32, 0)]
        {
            assert!(pages().all(|p| of(p, size, align, false) == begins && of(p, size, align, true) == begins));
        }
        for (within, size, stay, moves) in [
            (0, 1, true, true),
            (16, LARGE + 1, true, true),
            (16, LARGE, true, true),
            (16, 8 * LARGE, false, false),
            (16, LARGE - 1, false, false),
            (64, 4700, true, false),
        ] {
            assert_eq!((may_stay(within, size), may_move(within, size)), (stay, moves), "{within} {size}");
        }
        assert!(pages().all(|p| page_of(p + 16).is_none() && page_of(p + 65).is_none()));
    }
}
