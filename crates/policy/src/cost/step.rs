//! The time of one interval: what is computed and waited for, what is fetched ahead, and each bus, which overlap; and since waiting depends on how busy the
//! buses are, and that on the time, the fixed point of both.

use super::demand::Use;
use super::memory::Memory;
use super::overlap::{AHEAD, FILLS};

/// What one tier is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Latencies that the program waits for, one after the other.
    pub waits: f64,
    /// Latencies that it would take to fetch lines ahead, and to write, if it did nothing else: it waits for these only if it would need the lines earlier.
    pub ahead: f64,
    /// Times of the bus for a line that it waits for on top, behind other lines.
    pub queued: f64,
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
}

/// A part of a site: its share of the misses, and of the bytes. What is read and written beside misses goes by bytes: it is the
/// kernel that clears pages, or whoever fills memory in order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// Of the loads that come one by one, 0 to 1.
    pub random: f64,
    /// Of all other misses, 0 to 1.
    pub ordered: f64,
    /// Of the bytes, 0 to 1.
    pub bytes: f64,
}

impl Part {
    /// A site's misses, wherever they are.
    pub const MISSES: Part = Part { random: 1.0, ordered: 1.0, bytes: 0.0 };
    /// What is asked for beside them.
    pub const BESIDE: Part = Part { random: 0.0, ordered: 0.0, bytes: 1.0 };

    /// As much of the one as of the other.
    pub fn even(share: f64) -> Part {
        Part { random: share, ordered: share, bytes: share }
    }
}

impl Load {
    /// Counts a part of a site's use in.
    pub fn add(&mut self, u: &Use, overlap: f64, part: Part) {
        let stored = u.stores.min(u.written);
        let random = part.random * u.random_waits(overlap);
        self.waits += random;
        self.ahead += part.ordered * u.ahead();
        self.queued += random * u.queued;
        self.reads += part.random * u.random + part.ordered * (u.stream + u.stores) + part.bytes * u.beside;
        self.writes += part.ordered * stored + part.bytes * (u.written - stored);
    }

    /// How long the program waits for a memory that is so busy, in ns.
    pub fn waiting(&self, memory: &Memory, busy: f64) -> f64 {
        self.waits * memory.latency(busy) + self.queued * memory.per_line().0
    }

    /// How long what is fetched ahead, and written, takes at least, in ns.
    pub fn fetching(&self, memory: &Memory, busy: f64) -> f64 {
        self.ahead * memory.latency(busy)
    }
}

impl Use {
    /// Latencies waited for by loads that come one by one.
    fn random_waits(&self, overlap: f64) -> f64 {
        self.scale * self.random * self.alone.unwrap_or(1.0 / overlap)
    }

    /// Latencies that everything else takes.
    pub fn ahead(&self) -> f64 {
        self.scale * (self.stream / AHEAD + self.stores / FILLS)
    }
}

/// How well computing and busy buses overlap: infinitely well would be the longest of them, but one that has nothing to do at one
/// moment does not catch up at the next. Fitted to the lab, of 2, 3, 4 and 6 (docs/planner.md).
const OVERLAP: f64 = 3.0;

/// How long two things take that overlap. Of three it does not matter which two are taken first.
pub fn together(a: f64, b: f64) -> f64 {
    let most = a.max(b);
    if most <= 0.0 { 0.0 } else { most * ((a / most).powf(OVERLAP) + (b / most).powf(OVERLAP)).powf(1.0 / OVERLAP) }
}

/// Factors of the two whose sum is never longer than [`together`] and somewhere as long: tangents, so close that the longest of them
/// is at most 0.5 % too short.
pub fn tangents() -> impl Iterator<Item = (f64, f64)> {
    const AT: [f64; 6] = [0.0, 0.35, 0.5, 0.65, 0.8, 1.0];
    AT.into_iter().map(|x| (1.0, x)).chain(AT.into_iter().rev().skip(1).map(|x| (x, 1.0))).map(|(a, b)| {
        let slope = |x: f64| (x / together(a, b)).powf(OVERLAP - 1.0);
        (slope(a), slope(b))
    })
}

/// What takes so long together with `b`; 0 if `b` alone does.
pub fn apart(length: f64, b: f64) -> f64 {
    if b >= length { 0.0 } else { length * (1.0 - (b / length).powf(OVERLAP)).powf(1.0 / OVERLAP) }
}

/// Time of an interval, in ns, of which so much is computed and of which load so much is felt.
pub fn time(compute: f64, felt: f64, memories: &[Memory], loads: &[Load]) -> f64 {
    let busy = |m: &Memory, l: &Load| m.busy(l.reads, l.writes);
    let buses = memories.iter().zip(loads).map(|(m, l)| busy(m, l)).fold(0.0, together);
    let at = |t: f64| -> f64 {
        let load = |m: &Memory, l: &Load| felt * busy(m, l) / t.max(f64::MIN_POSITIVE);
        let wait: f64 = memories.iter().zip(loads).map(|(m, l)| l.waiting(m, load(m, l))).sum();
        let ahead: f64 = memories.iter().zip(loads).map(|(m, l)| l.fetching(m, load(m, l))).sum();
        together(together(compute + wait, ahead), buses)
    };
    // A longer time means less load and less waiting, so `at` falls and crosses once.
    let (mut low, mut high) = (buses, at(0.0));
    if at(high) == high || high == 0.0 {
        return high;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if at(middle) > middle {
            low = middle
        } else {
            high = middle
        }
        if high - low <= 1e-9 * high {
            break;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::tier;
    use super::*;

    fn memories() -> Vec<Memory> {
        [tier("fast", 100, 64.0, 64.0), tier("slow", 200, 6.4, 6.4)]
            .iter()
            .map(|t| Memory::of(t, &mut vec![]))
            .collect()
    }

    #[test]
    fn without_load_it_is_compute_and_idle_latency() {
        let loads = [Load { waits: 10.0, reads: 10.0, ..Load::default() }, Load::default()];
        let t = time(1e6, 1.0, &memories(), &loads);
        assert!((t - 1_001_000.0).abs() < 0.1, "{t}");
        assert_eq!(time(0.0, 1.0, &memories(), &[Load::default(); 2]), 0.0);
        assert_eq!(time(5.0, 1.0, &memories(), &[Load::default(); 2]), 5.0);
    }

    #[test]
    fn a_full_bus_is_the_limit() {
        let loads = [Load::default(), Load { waits: 1000.0, reads: 1e6, ..Load::default() }];
        let t = time(1e6, 1.0, &memories(), &loads);
        // 10 ns a line, and a little for what does not overlap.
        assert!((1e7..1.001e7).contains(&t), "{t}");
        let t = time(1e7, 1.0, &memories(), &loads);
        assert!((1.25e7..1.35e7).contains(&t), "two that take as long: {t}");
    }

    #[test]
    fn what_overlaps_comes_apart_again_and_tangents_are_below_it() {
        for (a, b) in [(1e6, 0.0), (1e6, 2e5), (3.0, 3.0), (1.0, 50.0)] {
            assert!((apart(together(a, b), b) / a - 1.0).abs() < 1e-6, "{a} {b}");
        }
        assert_eq!((apart(5.0, 5.0), apart(5.0, 9.0), together(0.0, 0.0)), (0.0, 0.0, 0.0));
        for n in 0..=100 {
            let (a, b) = (f64::from(n), f64::from(100 - n));
            let most = tangents().map(|(x, y)| x * a + y * b).fold(0.0, f64::max);
            assert!((0.995..=1.0 + 1e-12).contains(&(most / together(a, b))), "{a} {b}: {most}");
        }
    }

    /// The answer satisfies its own equation.
    #[test]
    fn it_is_a_fixed_point() {
        let m = memories();
        for waits in [0.0, 1e3, 1e4, 4e4] {
            for reads in [0.0, 1e4, 8e4, 1.1e5] {
                let l = Load { waits, reads, ..Load::default() };
                let t = time(5e5, 1.0, &m, &[Load::default(), l]);
                let busy = m[1].busy(reads, 0.0);
                let again = together(5e5 + waits * m[1].latency(busy / t), busy);
                assert!((again / t - 1.0).abs() < 1e-6, "{t} {again}");
            }
        }
    }
}
