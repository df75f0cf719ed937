//! The lab's *window*: one shared file through which the time model (a QEMU plugin), `hearth lab` on the host and the
//! recorder in the guest speak to each other. Its other half, with the meaning of every field, is
//! `crates/lab/plugin/window.h`; a test compiles that and compares sizes and offsets.
//!
//! The host makes the file and fills in the constants. QEMU maps it twice: the plugin by its path, the guest as the memory
//! of an ivshmem device ([`device`] of its PCI bus). Counters only grow and have one writer each.

use core::sync::atomic::{AtomicU64, Ordering};

/// First word of a window: `HRTHLAB2`.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HRTHLAB2");
/// Most vCPUs of a guest.
pub const VCPUS: usize = 8;
/// Most tiers (NUMA nodes) of a guest.
pub const TIERS: usize = 4;
/// Points of the bandwidth series.
pub const STEPS: usize = 8192;
/// Processes that can say who they are.
pub const PROCESSES: usize = 1024;
/// Where the ring of samples begins, in bytes; the header is below.
pub const SAMPLES_AT: u64 = 1 << 20;

/// What memory did for one vCPU, by tier. Lines are 64 B.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct TierCounts {
    /// LLC misses by demand loads.
    pub loads: u64,
    /// LLC misses by stores (reads for ownership).
    pub stores: u64,
    /// Lines fetched by the prefetcher.
    pub prefetches: u64,
    /// Dirty lines written back.
    pub writes: u64,
    /// LLC misses by page walks.
    pub walks: u64,
    /// Sum over loads of the time from issue to data, ps.
    pub latency_ps: u64,
}

/// Counters of one vCPU since the model was switched on.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct VcpuCounts {
    /// Instructions.
    pub instructions: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Misses of the L1 data cache.
    pub l1_misses: u64,
    /// Misses of the L2.
    pub l2_misses: u64,
    /// Page walks (misses of the second-level TLB).
    pub walks: u64,
    /// Simulated time, ps.
    pub time_ps: u64,
    /// Of that, halted.
    pub idle_ps: u64,
    /// Of that, waiting for memory.
    pub waited_ps: u64,
    /// By tier (guest node).
    pub tier: [TierCounts; TIERS],
}

/// Lines moved in one step of simulated time.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Step {
    /// Lines read, by tier.
    pub read: [u64; TIERS],
    /// Lines written, by tier.
    pub written: [u64; TIERS],
}

/// A process of the guest that said who it is.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Process {
    /// Physical address of its page table.
    pub page_table: u64,
    /// Its process id.
    pub pid: u64,
}

/// [`Sample::traffic`].
pub mod traffic {
    /// A demand access got its line from memory.
    pub const MISS: u8 = 0;
    /// A changed line was written back.
    pub const WRITTEN: u8 = 1;
    /// A line was read beside all misses: it was fetched ahead and left the L2 before it was used, or the kernel cleared its page.
    pub const BESIDE: u8 = 2;
}

/// One sampled LLC miss, or another line that moved.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Sample {
    /// Its number plus one, written last.
    pub sequence: u64,
    /// Simulated time since the model was switched on, ps.
    pub time_ps: u64,
    /// Instruction pointer.
    pub ip: u64,
    /// Virtual data address.
    pub address: u64,
    /// Process id.
    pub pid: u64,
    /// From issue to data, ns; 0 for stores.
    pub latency_ns: u32,
    /// 1: a store.
    pub store: u8,
    /// Tier (guest node) that had the line.
    pub tier: u8,
    /// vCPU.
    pub vcpu: u8,
    /// 1: the prefetcher had asked for the line before.
    pub ahead: u8,
    /// [`traffic`]; of all but misses time, address and process are told.
    pub traffic: u8,
    unused: [u8; 3],
    /// It stands for so many times the period.
    pub count: u32,
    /// Of the latency the time in which no load before it was under way, ns.
    pub alone_ns: u32,
    unused_too: u32,
}

/// Everything before the ring of samples. Shared with other processes: read it by the methods of [`Window`].
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Offset of the ring of samples.
    pub samples_at: u64,
    /// Length of the ring, a power of two.
    pub samples: u64,
    /// Tiers of the guest.
    pub tiers: u64,
    /// vCPUs of the guest.
    pub vcpus: u64,
    /// One of n LLC misses is sampled; 0: none. Said by host or guest.
    pub period: AtomicU64,
    /// Length of a step of the bandwidth series, ps. Said by the host.
    pub step_ps: u64,
    /// Samples that the reader has taken.
    pub taken: AtomicU64,
    /// 1 while the model runs.
    pub on: AtomicU64,
    /// How often it was switched on.
    pub on_count: AtomicU64,
    /// Simulated time when it was switched on first, ps.
    pub begin_ps: AtomicU64,
    /// Simulated time since then, ps.
    pub now_ps: AtomicU64,
    /// Host time that the model has run, ns.
    pub host_ns: AtomicU64,
    /// Samples written.
    pub given: AtomicU64,
    /// Samples that found the ring full.
    pub dropped: AtomicU64,
    /// Times that a vCPU waited for another one.
    pub waits: AtomicU64,
    /// Times that this was in vain.
    pub giveups: AtomicU64,
    /// Entries of `process`.
    pub processes: AtomicU64,
    /// Not 0: the plugin gave up; the console log says why.
    pub failed: AtomicU64,
    /// Memory mode: misses served by fast memory, by vCPU.
    pub memory_hits: [u64; VCPUS],
    /// Simulated time from each switching on to the switching off after it, summed, ps.
    pub on_ps: AtomicU64,
    unused: [u64; 3],
    vcpu: [VcpuCounts; VCPUS],
    process: [Process; PROCESSES],
    step: [Step; STEPS],
}

/// A window that is mapped into this process.
#[derive(Clone, Copy)]
pub struct Window {
    header: *mut Header,
}

// SAFETY: what is shared is counters of other processes; every access is a volatile or atomic one.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// Size of a window with a ring of so many samples (a power of two), itself a power of two, as a PCI device wants.
    pub const fn size(samples: u64) -> u64 {
        (SAMPLES_AT + samples * size_of::<Sample>() as u64).next_power_of_two()
    }

    /// Fills in the constants of a new window. `memory` is zeroed and as large as [`Window::size`] says.
    ///
    /// # Safety
    /// `memory` must be valid for reads and writes of `bytes` bytes for as long as the result is used, and page-aligned.
    pub unsafe fn make(memory: *mut u8, bytes: u64, samples: u64, tiers: u64, vcpus: u64, step_ps: u64) -> Window {
        let header = memory.cast::<Header>();
        // SAFETY: the caller's promise; nobody else uses the window yet.
        let h = unsafe { &mut *header };
        h.bytes = bytes;
        h.samples_at = SAMPLES_AT;
        h.samples = samples;
        h.tiers = tiers;
        h.vcpus = vcpus;
        h.step_ps = step_ps;
        h.magic = MAGIC;
        Window { header }
    }

    /// A window that somebody else made, if that is what it is.
    ///
    /// # Safety
    /// `memory` must be valid for reads and writes of `bytes` bytes for as long as the result is used, and page-aligned.
    pub unsafe fn open(memory: *mut u8, bytes: u64) -> Option<Window> {
        if bytes < SAMPLES_AT {
            return None;
        }
        let header = memory.cast::<Header>();
        // SAFETY: the caller's promise, and the header fits.
        let h = unsafe { &*header };
        let ring = h.samples.checked_mul(size_of::<Sample>() as u64)?.checked_add(h.samples_at)?;
        let right = h.magic == MAGIC
            && h.bytes <= bytes
            && h.samples.is_power_of_two()
            && h.samples_at >= size_of::<Header>() as u64
            && ring <= h.bytes;
        right.then_some(Window { header })
    }

    /// The constants and the words that are atomic.
    pub fn header(&self) -> &Header {
        // SAFETY: valid by the promise of `make` or `open`; fields behind the reference are constant or atomic, and the
        // others are private.
        unsafe { &*self.header }
    }

    /// Counters of a vCPU. They may be written meanwhile: each word is one that was true a moment ago.
    pub fn vcpu(&self, number: usize) -> VcpuCounts {
        // SAFETY: inside the header; a volatile read of plain words.
        unsafe { (&raw const (*self.header).vcpu).cast::<VcpuCounts>().add(number.min(VCPUS - 1)).read_volatile() }
    }

    /// A step of the bandwidth series.
    pub fn step(&self, number: usize) -> Step {
        // SAFETY: as above.
        unsafe { (&raw const (*self.header).step).cast::<Step>().add(number.min(STEPS - 1)).read_volatile() }
    }

    /// Steps of the bandwidth series that simulated time has reached.
    pub fn steps(&self) -> usize {
        let h = self.header();
        let reached = h.now_ps.load(Ordering::Relaxed).checked_div(h.step_ps).unwrap_or(0);
        STEPS.min(usize::try_from(reached).unwrap_or(STEPS) + 1)
    }

    /// Takes the next sample out of the ring, if there is one.
    pub fn take(&self) -> Option<Sample> {
        let h = self.header();
        let taken = h.taken.load(Ordering::Relaxed);
        if taken >= h.given.load(Ordering::Acquire) {
            return None;
        }
        let at = (taken % h.samples) as usize;
        // SAFETY: `open` checked that the ring lies inside. The plugin writes the sequence last, so a sample that is still
        // being written is not taken yet.
        let sample = unsafe {
            let slot = self.header.cast::<u8>().add(h.samples_at as usize).cast::<Sample>().add(at);
            let sequence = (*(&raw const (*slot).sequence).cast::<AtomicU64>()).load(Ordering::Acquire);
            (sequence == taken + 1).then(|| slot.read_volatile())?
        };
        h.taken.store(taken + 1, Ordering::Release);
        Some(sample)
    }
}

const _: () = assert!(size_of::<Header>() as u64 <= SAMPLES_AT && size_of::<Sample>() == 64);
