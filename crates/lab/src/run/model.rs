//! The time model of one run: the files that QEMU's plugin is given, and what it counted.

use super::layout::Layout;
use super::session::Session;
use crate::Error;
use crate::machine::Model;
use crate::setup::Installation;
use memmap2::MmapMut;
use serde::Serialize;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::Ordering::*;
use wire::lab::Window;

const CONFIG: &str = "memsim.conf";
const WINDOW: &str = "window";
/// Samples that the ring between plugin and guest holds: 32 MiB, of which only what is used takes room.
const SAMPLES: u64 = 1 << 19;
/// A point of the bandwidth series, in ps.
const STEP_PS: u64 = 10_000_000_000;
/// Bytes of a cache line.
const LINE: u64 = 64;

/// What the memory of one tier did, over all virtual CPUs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TierUse {
    /// Name, as in the platform.
    pub name: String,
    /// NUMA node of the guest.
    pub node: u32,
    /// Last-level misses by loads.
    pub loads: u64,
    /// Last-level misses by stores.
    pub stores: u64,
    /// Lines fetched by the prefetcher.
    pub prefetches: u64,
    /// Dirty lines written back.
    pub writes: u64,
    /// Last-level misses by page walks.
    pub walks: u64,
    /// Mean time of a load that missed, in ns.
    pub mean_latency_ns: f64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// What the model counted in the region of interest.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Counters {
    /// Instructions of all virtual CPUs, kernel included.
    pub instructions: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Misses of the L1 data caches.
    pub l1_misses: u64,
    /// Misses of the L2 caches.
    pub l2_misses: u64,
    /// Page walks.
    pub walks: u64,
    /// Time that virtual CPUs waited for memory, summed, in ns.
    pub waited_ns: u64,
    /// Time that virtual CPUs were halted, summed, in ns.
    pub idle_ns: u64,
    /// Memory mode: misses that the fast memory served.
    pub memory_hits: u64,
    /// By tier, fastest first.
    pub tiers: Vec<TierUse>,
    /// Bandwidth over time since the model was switched on.
    pub bandwidth: Vec<Bandwidth>,
    /// Simulated time while the model was on, in ns.
    pub model_ns: u64,
    /// Host time that the model ran, in ns.
    pub host_ns: u64,
    /// Times that a virtual CPU waited for another to catch up in simulated time, in vain.
    pub giveups: u64,
}

/// Bandwidth of the tiers, fastest first, in one step of time.
#[derive(Debug, Clone, Serialize)]
pub struct Bandwidth {
    /// Begin of the step, in ns.
    pub at_ns: u64,
    /// Read, in GB/s.
    pub read_gbps: Vec<f64>,
    /// Written, in GB/s.
    pub write_gbps: Vec<f64>,
}

/// The model's files in the session's folder, and the window into it.
pub struct Watched {
    /// For the machine.
    pub model: Model,
    window: Window,
    /// The window's memory.
    _memory: MmapMut,
}

impl Watched {
    /// Makes the files.
    pub fn prepare(installation: &Installation, layout: &Layout, session: &Session) -> Result<Watched, Error> {
        session.write(CONFIG, layout.plugin_config().as_bytes())?;
        let path = session.dir().join(WINDOW);
        let mut memory = zeroed(&path, Window::size(SAMPLES))
            .map_err(|e| Error(format!("cannot make {}: {e}; set TMPDIR to a folder with room", path.display())))?;
        let bytes = memory.len() as u64;
        // SAFETY: the mapping is as large as said, page-aligned, and lives as long as the window.
        let window = unsafe {
            Window::make(memory.as_mut_ptr(), bytes, SAMPLES, layout.nodes().into(), layout.vcpus().into(), STEP_PS)
        };
        let model = Model { plugin: installation.plugin(), config: session.dir().join(CONFIG), window: path };
        Ok(Watched { model, window, _memory: memory })
    }

    /// Errors: the plugin gave up.
    pub fn check(&self) -> Result<(), Error> {
        match self.window.header().failed.load(Relaxed) {
            0 => Ok(()),
            _ => Err(Error("the time model gave up, so the times mean nothing".into())),
        }
    }

    /// What was counted.
    pub fn counters(&self, layout: &Layout) -> Counters {
        let h = self.window.header();
        let mut c = Counters {
            model_ns: h.on_ps.load(Relaxed) / 1000,
            host_ns: h.host_ns.load(Relaxed),
            giveups: h.giveups.load(Relaxed),
            ..Counters::default()
        };
        for tier in layout.tiers() {
            c.tiers.push(TierUse { name: tier.name, node: tier.node, ..TierUse::default() });
        }
        let mut latency_ps = vec![0; c.tiers.len()];
        for number in 0..layout.vcpus() as usize {
            let v = self.window.vcpu(number);
            c.instructions += v.instructions;
            c.accesses += v.accesses;
            c.l1_misses += v.l1_misses;
            c.l2_misses += v.l2_misses;
            c.walks += v.walks;
            c.waited_ns += v.waited_ps / 1000;
            c.idle_ns += v.idle_ps / 1000;
            c.memory_hits += h.memory_hits[number];
            for (tier, latency) in c.tiers.iter_mut().zip(&mut latency_ps) {
                let t = v.tier[tier.node as usize];
                tier.loads += t.loads;
                tier.stores += t.stores;
                tier.prefetches += t.prefetches;
                tier.writes += t.writes;
                tier.walks += t.walks;
                *latency += t.latency_ps;
            }
        }
        for (tier, latency) in c.tiers.iter_mut().zip(latency_ps) {
            tier.mean_latency_ns = if tier.loads == 0 { 0.0 } else { latency as f64 / 1000.0 / tier.loads as f64 };
            tier.read_bytes = (tier.loads + tier.stores + tier.prefetches + tier.walks) * LINE;
            tier.written_bytes = tier.writes * LINE;
        }
        c.bandwidth = self.bandwidth(&c.tiers);
        c
    }

    fn bandwidth(&self, tiers: &[TierUse]) -> Vec<Bandwidth> {
        let gbps = |lines: u64| (lines * LINE) as f64 / (STEP_PS as f64 / 1000.0);
        let point = |number: usize| {
            let step = self.window.step(number);
            let of = |lines: &[u64]| tiers.iter().map(|t| gbps(lines[t.node as usize])).collect();
            let at_ns = number as u64 * STEP_PS / 1000;
            Bandwidth { at_ns, read_gbps: of(&step.read), write_gbps: of(&step.written) }
        };
        (0..self.window.steps()).map(point).collect()
    }
}

fn zeroed(path: &Path, bytes: u64) -> io::Result<MmapMut> {
    let file = File::options().read(true).write(true).create_new(true).open(path)?;
    file.set_len(bytes)?;
    // The host's part must be there, or touching it would end this process where the disk is full.
    // SAFETY: an open file.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, wire::lab::SAMPLES_AT as i64) } {
        0 => {}
        error => return Err(io::Error::from_raw_os_error(error)),
    }
    // SAFETY: a new file in a private folder; QEMU, which shares it, never cuts it.
    unsafe { MmapMut::map_mut(&file) }
}
