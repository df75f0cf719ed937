//! Where in its first page an object begins.
//!
//! An object has whole pages to itself. If all began at the start of a page, their first lines would meet in the same sets of the
//! caches; and a program whose buffers have a header of a few bytes (redis's strings) would read into them at a fifth of the speed,
//! because the kernel copies from the start of a page of its own, and a load that follows a store at almost the same place of another page
//! has to wait for it (4 KiB aliasing: Intel 64 and IA-32 Architectures Optimization Reference Manual). So an object begins as many lines
//! later as its last page leaves room for, at most; one that has grown begins one line later, so that it may grow on where it is. Where follows from its page alone: nothing is stored, and an address that
//! is no object's is known as such.
//!
//! Within Hearth an object's address is its first page's.

use crate::heap::{PAGE, size_class};

const LINE: usize = 64;
/// Objects of this size and more begin with their page: by their end nobody remembers where they began.
const FROM: usize = 256 << 10;

/// Bytes between the start of an object's first page and the object. `grown`: by `realloc`.
pub fn of(page: usize, size: usize, align: usize, grown: bool) -> usize {
    let room = (size_class(size) - size).min(if grown { LINE } else { PAGE });
    if size >= FROM || align > LINE { 0 } else { choices(page).find(|&c| c <= room).unwrap_or(0) }
}

/// The first page of the object that a program knows by this address, and the bytes between them; `None`: no object begins there.
pub fn page_of(addr: usize) -> Option<(usize, usize)> {
    let within = addr % PAGE;
    let page = addr - within;
    (within == 0 || choices(page).any(|c| c == within)).then_some((page, within))
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
        for size in [1, 4097, 4700, 8128, 8191, 16390, FROM - 1] {
            for page in pages() {
                let within = of(page, size, 16, false);
                assert!(within % LINE == 0 && within + size <= size_class(size), "{size} at {page:x}+{within}");
                assert_eq!(page_of(page + within), Some((page, within)));
            }
        }
        let begins: std::collections::BTreeSet<usize> = pages().map(|p| of(p, 4700, 16, false)).collect();
        assert!(begins.len() > 40 && !begins.contains(&0), "{begins:?}");
        assert!(
            pages()
                .all(|p| of(p, 8192, 1, false) == 0 && of(p, 4700, 128, false) == 0 && of(p, FROM + 1, 1, false) == 0)
        );
        assert!(pages().all(|p| of(p, 4700, 16, true) == LINE));
        assert!(pages().all(|p| page_of(p + 16).is_none() && page_of(p + 65).is_none()));
    }
}
