//! The raw facts about a machine's memory, before tiers are made of them.

use model::{Bytes, Figure, GbPerSec, Nanos};

/// A logical CPU that this process may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// OS number.
    pub number: u32,
    /// How many CPUs of the same core come before it: 0 for the first hardware thread of a core.
    pub sibling_rank: u32,
}

/// A NUMA node with memory.
#[derive(Clone, Debug)]
pub struct Node {
    /// OS number.
    pub number: u32,
    /// Memory of the node.
    pub capacity: Figure<Bytes>,
    /// Free now, counting the page cache that the kernel gives up on demand; only known for this machine.
    pub free: Option<Figure<Bytes>>,
    /// hwloc's word for the kind of memory: `DRAM`, `HBM`, `SPM`, `NVM`, `CXL-DRAM`, `GPUMemory`, ...
    pub subtype: Option<String>,
    /// Rank among the memory tiers, 0 is the fastest (hwloc >= 2.10, or the kernel's memory tiers).
    pub memory_tier: Option<u32>,
    /// CPUs near the node.
    pub near_cpus: Vec<u32>,
    /// Whether CPUs belong to the node itself (`has_cpu` of the kernel); `None` where only hwloc was asked, which
    /// gives nodes without CPUs the CPUs they are near to.
    pub has_cpus: Option<bool>,
    /// No CPU-bearing node is as near to it as to its own memory (firmware distances, SLIT).
    pub farther: bool,
    /// Read latency from the nearest CPU.
    pub latency: Option<Figure<Nanos>>,
    /// Read bandwidth from the nearest CPUs.
    pub read_bandwidth: Option<Figure<GbPerSec>>,
    /// Write bandwidth from the nearest CPUs.
    pub write_bandwidth: Option<Figure<GbPerSec>>,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Model name of the processor, empty if unknown.
    pub cpu_model: String,
    /// Processor packages (sockets).
    pub packages: u32,
    /// The facts are about the machine this process runs on.
    pub this_machine: bool,
    /// CPUs this process may use.
    pub cpus: Vec<Cpu>,
    /// NUMA nodes with memory.
    pub nodes: Vec<Node>,
    /// One last-level cache; 0 if unknown.
    pub llc: Bytes,
    /// All last-level caches together; 0 if unknown.
    pub llc_total: Bytes,
}
