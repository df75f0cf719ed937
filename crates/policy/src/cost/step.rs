//! The time of one interval: what is computed and waited for, or the busiest bus; and since waiting depends on how busy the
//! buses are, and that on the time, the fixed point of both.

use super::demand::Use;
use super::memory::Memory;
use super::overlap::{AHEAD, FILLS};

/// What one tier is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Latencies that the program waits for, one after the other.
    pub waits: f64,
    /// Lines read.
    pub reads: f64,
    /// Lines written.
    pub writes: f64,
}

impl Load {
    /// Counts a share of a site's use in.
    pub fn add(&mut self, u: &Use, overlap: f64, share: f64) {
        self.waits += share * u.waits(overlap);
        self.reads += share * u.lines();
        self.writes += share * u.written;
    }
}

impl Use {
    /// Latencies waited for.
    pub fn waits(&self, overlap: f64) -> f64 {
        self.scale * (self.random / overlap + self.stream / AHEAD + self.stores / FILLS)
    }
}

/// Time of an interval, in ns.
pub fn time(compute: f64, memories: &[Memory], loads: &[Load]) -> f64 {
    let busy = |m: &Memory, l: &Load| m.busy(l.reads, l.writes);
    let buses = memories.iter().zip(loads).map(|(m, l)| busy(m, l)).fold(0.0, f64::max);
    let at = |t: f64| -> f64 {
        let wait = |(m, l): (&Memory, &Load)| l.waits * m.latency(busy(m, l) / t.max(f64::MIN_POSITIVE));
        (compute + memories.iter().zip(loads).map(wait).sum::<f64>()).max(buses)
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
        let loads = [Load { waits: 10.0, reads: 10.0, writes: 0.0 }, Load::default()];
        let t = time(1e6, &memories(), &loads);
        assert!((t - 1_001_000.0).abs() < 0.1, "{t}");
        assert_eq!(time(0.0, &memories(), &[Load::default(); 2]), 0.0);
        assert_eq!(time(5.0, &memories(), &[Load::default(); 2]), 5.0);
    }

    #[test]
    fn a_full_bus_is_the_limit() {
        let loads = [Load::default(), Load { waits: 1000.0, reads: 1e6, writes: 0.0 }];
        assert!((time(1e6, &memories(), &loads) - 1e7).abs() < 1.0, "10 ns a line");
    }

    /// The answer satisfies its own equation.
    #[test]
    fn it_is_a_fixed_point() {
        let m = memories();
        for waits in [0.0, 1e3, 1e4, 4e4] {
            for reads in [0.0, 1e4, 8e4, 1.1e5] {
                let l = Load { waits, reads, writes: 0.0 };
                let t = time(5e5, &m, &[Load::default(), l]);
                let busy = m[1].busy(reads, 0.0);
                let again = (5e5 + waits * m[1].latency(busy / t)).max(busy);
                assert!((again / t - 1.0).abs() < 1e-6, "{t} {again}");
            }
        }
    }
}
