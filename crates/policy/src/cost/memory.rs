//! The time of one tier: latency under load, and how long its bus is busy.
//!
//! Both have the form of the lab's time model (`crates/lab/plugin/memory.c`). Latency rises with the load *u* as
//! u² / (1 - u), hardly at first, through the platform's loaded latency where it has one (ecoHMEM, CLUSTER 2022, Fig. 2: 90 to
//! 117 ns of DRAM and 185 to 239 ns of PMem at 22 GB/s), else through twice the idle one at 95 % load, and never beyond 2.2 times
//! idle: what comes on top near saturation is waiting for the bus, which [`Memory::busy`] has. A line takes 64 B / bandwidth of its
//! direction; reads and writes share the time, so that a mix is their harmonic mean, unless the platform says what one read to
//! one write reaches: then exactly this mix reaches it, and each direction keeps its own limit.

use super::LINE;
use model::{GbPerSec, Tier};

/// Idle latency, in ns, of a tier that says none: ordinary DRAM of a server.
const ASSUMED_LATENCY: f64 = 100.0;
/// Where the latency has doubled, if the platform does not say: as in the lab.
const ASSUMED_LOAD: f64 = 0.95;
/// Most that load adds, in idle latencies: as in the lab.
const MOST_EXTRA: f64 = 1.2;

/// One tier's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Idle latency, in ns.
    latency: f64,
    /// Factor of u² / (1 - u), in ns.
    rise: f64,
    /// Time of a line read, in ns; 0 where the bandwidth is not known.
    read: f64,
    /// Time of a line written.
    write: f64,
    /// By how much a mix is faster than one after the other.
    stretch: f64,
}

impl Memory {
    /// The figures of a tier; says what it had to assume.
    pub fn of(tier: &Tier, notes: &mut Vec<String>) -> Memory {
        let name = &tier.name;
        let latency = tier.latency.map_or_else(
            || {
                notes.push(format!(
                    "the latency of tier {name} is not known; {ASSUMED_LATENCY} ns are assumed (give it by --set {name}.latency=TIME)"
                ));
                ASSUMED_LATENCY
            },
            |l| l.value.0 as f64,
        );
        let per_line = |b: GbPerSec| if b.0 > 0.0 { LINE / b.0 } else { 0.0 };
        let read = tier.read_bandwidth.map(|b| b.value);
        if read.is_none() {
            notes.push(format!(
                "the bandwidth of tier {name} is not known and counts as unlimited (give it by --set {name}.read_bandwidth=GB/s)"
            ));
        }
        let write = tier.write_bandwidth.map(|b| b.value).or(read);
        let (read_line, write_line) = (read.map_or(0.0, per_line), write.map_or(0.0, per_line));
        let stretch = match tier.mixed_bandwidth {
            Some(mixed) if read_line + write_line > 0.0 => {
                (mixed.value.0 / 2.0 * (read_line + write_line) / LINE).max(1.0)
            }
            _ => 1.0,
        };
        let loaded = tier.loaded_latency.map(|l| l.value.0 as f64).zip(tier.loaded_bandwidth.map(|b| b.value.0));
        let (extra, load) = match (loaded, read) {
            (Some((loaded, at)), Some(peak)) if loaded > latency && at > 0.0 && peak.0 > 0.0 => {
                (loaded - latency, (at / peak.0).min(ASSUMED_LOAD))
            }
            _ => (latency, ASSUMED_LOAD),
        };
        Memory { latency, rise: extra * (1.0 - load) / (load * load), read: read_line, write: write_line, stretch }
    }

    /// Latency of a line, in ns, at load `u` (0 to 1).
    pub fn latency(&self, u: f64) -> f64 {
        let u = u.clamp(0.0, 0.999);
        self.latency + (self.rise * u * u / (1.0 - u)).min(MOST_EXTRA * self.latency)
    }

    /// How long the bus is busy, in ns, with so many lines read and written.
    pub fn busy(&self, reads: f64, writes: f64) -> f64 {
        let (reads, writes) = (reads * self.read, writes * self.write);
        ((reads + writes) / self.stretch).max(reads).max(writes)
    }

    /// Time of the bus for a line each: read, written, and by how much a mix is faster. [`Memory::busy`] is the largest of three
    /// linear functions of these.
    pub fn per_line(&self) -> (f64, f64, f64) {
        (self.read, self.write, self.stretch)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::{Figure, Nanos, Origin, TierKind};

    pub fn tier(name: &str, latency: u64, read: f64, write: f64) -> Tier {
        let figure = |x: f64| Some(Figure::new(GbPerSec(x), Origin::Library));
        Tier {
            name: name.to_string(),
            kind: Figure::new(TierKind::Dram, Origin::Library),
            nodes: vec![],
            dir: None,
            capacity: None,
            free: None,
            latency: Some(Figure::new(Nanos(latency), Origin::Library)),
            loaded_latency: None,
            loaded_bandwidth: None,
            read_bandwidth: figure(read),
            write_bandwidth: figure(write),
            mixed_bandwidth: None,
            coefficients: None,
            near_cpus: String::new(),
        }
    }

    fn loaded(name: &str, idle: u64, at_22: u64, read: f64) -> Memory {
        let mut t = tier(name, idle, read, read);
        t.loaded_latency = Some(Figure::new(Nanos(at_22), Origin::Library));
        t.loaded_bandwidth = Some(Figure::new(GbPerSec(22.0), Origin::Library));
        Memory::of(&t, &mut Vec::new())
    }

    /// ecoHMEM, section VII: A has 80 % of its accesses at low bandwidth and 20 % at high, B all at high. A in DRAM and B in
    /// PMem is 334 ns; the other way round is 311 in the paper, which takes 116 for B where Fig. 2 says 117.
    #[test]
    fn the_objects_a_and_b_of_ecohmem() {
        let (dram, pmem) = (loaded("dram", 90, 117, 141.0), loaded("pmem", 185, 239, 39.4));
        let at = |m: &Memory, peak: f64, high: f64| (1.0 - high) * m.latency(0.0) + high * m.latency(22.0 / peak);
        let a_fast = at(&dram, 141.0, 0.2) + at(&pmem, 39.4, 1.0);
        let b_fast = at(&pmem, 39.4, 0.2) + at(&dram, 141.0, 1.0);
        assert!((a_fast - 334.4).abs() < 0.01, "{a_fast}");
        assert!((b_fast - 312.8).abs() < 0.01, "{b_fast}");
        assert!(((a_fast / b_fast - 1.0) * 100.0 - 7.0).abs() < 0.2, "the paper's 7 %");
    }

    #[test]
    fn a_mix_is_harmonic_unless_the_platform_says_more() {
        let mut t = tier("dram", 100, 64.0, 32.0);
        let plain = Memory::of(&t, &mut Vec::new());
        assert_eq!(plain.busy(10.0, 0.0), 10.0);
        assert_eq!(plain.busy(0.0, 10.0), 20.0);
        assert_eq!(plain.busy(10.0, 10.0), 30.0);
        // 128 B in 2 ns are 64 GB/s, where one after the other is 42.7.
        t.mixed_bandwidth = Some(Figure::new(GbPerSec(64.0), Origin::Library));
        let mixed = Memory::of(&t, &mut Vec::new());
        assert!((mixed.busy(10.0, 10.0) - 20.0).abs() < 1e-9);
        assert_eq!(mixed.busy(0.0, 10.0), 20.0, "each direction keeps its limit");
    }

    #[test]
    fn latency_only_rises_and_has_an_end() {
        let m = Memory::of(&tier("dram", 100, 10.0, 10.0), &mut Vec::new());
        assert!((m.latency(0.95) - 200.0).abs() < 1e-9);
        assert_eq!(m.latency(5.0), 220.0);
        let mut last = 0.0;
        for i in 0..100 {
            let now = m.latency(f64::from(i) / 100.0);
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn what_is_assumed_is_said() {
        let mut t = tier("odd", 1, 1.0, 1.0);
        (t.latency, t.read_bandwidth, t.write_bandwidth) = (None, None, None);
        let mut notes = Vec::new();
        let m = Memory::of(&t, &mut notes);
        assert_eq!(m.busy(1e9, 1e9), 0.0);
        assert!(notes[0].contains("--set odd.latency=") && notes[1].contains("--set odd.read_bandwidth="), "{notes:?}");
    }
}
