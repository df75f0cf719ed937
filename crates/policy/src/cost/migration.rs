//! What moving data costs: Unimem (Wu, Huang, Li, SC 2017), Equation 4.
//!
//! ```text
//! cost = max(data size / copy bandwidth - time in which the program does not need the data, 0)
//! ```
//!
//! What the kernel does for each page comes on top of the copy; the paper copies in the program.

use super::LINE;
use super::memory::Memory;
use model::Bytes;

/// Time to copy so many bytes, in ns: one tier reads them, the other writes them, at the same time.
pub fn copy(size: Bytes, from: &Memory, to: &Memory) -> f64 {
    let lines = size.0 as f64 / LINE;
    from.busy(lines, 0.0).max(to.busy(0.0, lines))
}

/// What the kernel takes for a page of 4 KiB beside copying it, in ns: unmapping, telling other processors, mapping anew.
const PAGE: f64 = 500.0;

/// Time that moving so many bytes takes by way of the kernel, in ns: a page is read, then its new place is read too, as a store does with its line, and written.
/// In the lab's guest, by pieces of 128 KiB (us a page, to the faster tier and back; reckoned so in brackets): CXL 6.8 (7.2) and 11.7 (12.0), Optane
/// 2.9 (3.1) and 7.0 (7.3); Knights Landing 5.7 (5.0) and 9.3 (7.9), since a piece does not stay in its small cache.
pub fn take(size: Bytes, from: &Memory, to: &Memory) -> f64 {
    let lines = size.0 as f64 / LINE;
    size.0.div_ceil(4096) as f64 * PAGE + from.busy(lines, 0.0) + to.busy(lines, lines)
}

/// Equation 4: what of a copy the program has to wait for, if it can go on for `overlap` ns meanwhile.
pub fn cost(size: Bytes, from: &Memory, to: &Memory, overlap: f64) -> f64 {
    (copy(size, from, to) - overlap).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::tier;
    use super::*;

    #[test]
    fn the_slower_side_sets_the_pace_and_overlap_hides_it() {
        let (slow, fast) = (tier("nvm", 200, 8.0, 2.0), tier("dram", 100, 64.0, 64.0));
        let (slow, fast) = (Memory::of(&slow, &mut vec![]), Memory::of(&fast, &mut vec![]));
        assert_eq!(copy(Bytes(8_000_000), &slow, &fast), 1e6, "8 MB at 8 GB/s");
        assert_eq!(copy(Bytes(8_000_000), &fast, &slow), 4e6, "written at 2 GB/s");
        assert_eq!(cost(Bytes(8_000_000), &slow, &fast, 4e5), 6e5);
        // 4 KiB read from 8 GB/s; then read and written at 64 GB/s.
        assert_eq!(take(Bytes(4096), &slow, &fast), 500.0 + 512.0 + 2.0 * 64.0);
        assert_eq!(take(Bytes(4096), &fast, &slow), 500.0 + 64.0 + 512.0 + 2048.0);
        assert!(take(Bytes(1), &fast, &slow) > 500.0, "a page at least");
        assert_eq!(cost(Bytes(8_000_000), &slow, &fast, 2e6), 0.0);
    }
}
