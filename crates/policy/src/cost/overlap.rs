//! How many misses wait at the same time.
//!
//! An out-of-order core goes on behind a miss until its reorder window is full, so misses that lie closer together than the
//! window overlap: of *n* misses spread over a compute time *C*, 1 + W n / C fall into each window (Karkhanis and Smith, A
//! First-Order Superscalar Processor Model, ISCA 2004, section 4.3), up to the line fill buffers. What that does not know is
//! whether a load's address depends on the one before; a pure pointer chase counts as overlapping a little.
//!
//! Where the sampler tells which misses were under way together, that is taken instead.
//!
//! Lines that the prefetcher fetches ahead come one in a 20th of the latency at most: Intel's streamer runs 20 lines ahead (Intel 64 and
//! IA-32 Architectures Optimization Reference Manual, section on the L2 streamer). Stores wait in a buffer and share the fill
//! buffers. The same constants as in the lab's core (`crates/lab/plugin/core.c`).

/// Time of a full reorder window, in ns: 224 instructions at 0.2 ns.
const WINDOW: f64 = 45.0;
/// Line fill buffers of a core: so many misses at once.
pub const FILLS: f64 = 12.0;
/// Lines that the streamer runs ahead.
pub const AHEAD: f64 = 20.0;

/// Random misses that wait together.
pub fn of(misses: f64, compute: f64) -> f64 {
    if misses <= 0.0 { 1.0 } else { (1.0 + WINDOW * misses / compute.max(f64::MIN_POSITIVE)).min(FILLS) }
}

/// The compute time of an interval and its overlap: what its length leaves beside waiting. `random` and `other` are the wait
/// of random loads, one after the other, and of everything else; `misses` the number of random loads.
///
/// Where even the most overlap leaves more waiting than the interval is long (several threads wait at once, or the misses are
/// over-estimated), there is no compute time, and `scale` (at most 1) makes what is left fit.
pub fn split(length: f64, random: f64, other: f64, misses: f64) -> Split {
    let wait = |compute: f64| random / of(misses, compute) + other;
    let least = wait(0.0);
    if least >= length && least > 0.0 {
        return Split { compute: 0.0, overlap: of(misses, 0.0), scale: length / least };
    }
    // More compute means less overlap and more waiting, so there is one answer.
    let (mut low, mut high) = (0.0, length);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if middle + wait(middle) > length { high = middle } else { low = middle }
    }
    Split { compute: low, overlap: of(misses, low), scale: 1.0 }
}

/// What [`split`] finds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// Time without waiting, in ns.
    pub compute: f64,
    /// Random misses that wait together.
    pub overlap: f64,
    /// Factor on all waiting.
    pub scale: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_make_the_whole() {
        for (length, random, other, misses) in
            [(1e6, 3e5, 0.0, 3e3), (1e6, 5e6, 1e4, 5e4), (1e6, 0.0, 9e5, 0.0), (1e6, 1e8, 0.0, 1e6)]
        {
            let s = split(length, random, other, misses);
            let sum = s.compute + s.scale * (random / s.overlap + other);
            assert!((sum / length - 1.0).abs() < 1e-6, "{s:?}");
            assert!((1.0..=FILLS).contains(&s.overlap) && s.scale <= 1.0);
        }
    }

    #[test]
    fn sparse_misses_wait_alone_and_dense_ones_together() {
        assert!(of(10.0, 1e6) < 1.001);
        assert!((of(1e4, 1e6) - 1.45).abs() < 1e-9);
        assert_eq!(of(1e9, 1e6), FILLS);
        assert_eq!(of(0.0, 0.0), 1.0);
    }
}
