//! Tiers, spaces and platforms.

use crate::units::{Bytes, GbPerSec, Nanos};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Where a figure comes from. Every number a user sees says its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Measured on this machine by Hearth.
    Measured,
    /// The firmware's HMAT table, by way of the kernel.
    Hmat,
    /// hwloc's knowledge of the machine.
    Hwloc,
    /// The kernel's sysfs or procfs.
    Kernel,
    /// Hearth's library of known platforms; the platform's `source` names the document.
    Library,
    /// The user said so.
    User,
    /// Computed from other figures by a model.
    Predicted,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Origin::Measured => "measured",
            Origin::Hmat => "HMAT",
            Origin::Hwloc => "hwloc",
            Origin::Kernel => "kernel",
            Origin::Library => "library",
            Origin::User => "user",
            Origin::Predicted => "predicted",
        })
    }
}

/// A value with its origin.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure<T> {
    /// The value, with its unit in the type.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

impl<T> Figure<T> {
    /// A value and its origin.
    pub fn new(value: T, origin: Origin) -> Figure<T> {
        Figure { value, origin }
    }
}

/// What kind of memory a tier is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierKind {
    /// Ordinary main memory.
    Dram,
    /// High-bandwidth memory (MCDRAM, HBM2e, HBM3).
    Hbm,
    /// Non-volatile or persistent memory.
    Nvm,
    /// Memory behind a CXL link.
    Cxl,
    /// Memory of a GPU, coherent with the CPU.
    Gpu,
    /// Files mapped from a directory (a DAX file system, or any).
    File,
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TierKind::Dram => "DRAM",
            TierKind::Hbm => "HBM",
            TierKind::Nvm => "NVM",
            TierKind::Cxl => "CXL",
            TierKind::Gpu => "GPU",
            TierKind::File => "file",
        })
    }
}

/// What a cache miss served by a tier costs, apart for loads and stores: the weights of the density policy (ecoHMEM,
/// sections IV.B and V: "separate load and store coefficients per memory subsystem"). Any unit, the same in all tiers
/// of a platform; nanoseconds where they are derived from latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficients {
    /// Cost of a miss by a load.
    pub load: f64,
    /// Cost of a miss by a store.
    pub store: f64,
}

/// A set of NUMA nodes, or a directory of mapped files, with one performance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tier {
    /// Name, unique in the platform: `dram`, `hbm`, `cxl`, ...
    pub name: String,
    /// Kind of memory, with its origin.
    pub kind: Figure<TierKind>,
    /// NUMA nodes (OS numbers); empty for a file tier and for platforms of the library.
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// Directory of the mapped files, for [`TierKind::File`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Capacity of all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Figure<Bytes>>,
    /// Free at the time of looking.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free: Option<Figure<Bytes>>,
    /// Idle read latency from the nearest CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Figure<Nanos>>,
    /// Read latency under load (at or near peak read bandwidth).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_latency: Option<Figure<Nanos>>,
    /// The read bandwidth at which `loaded_latency` was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded_bandwidth: Option<Figure<GbPerSec>>,
    /// Peak read bandwidth, all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_bandwidth: Option<Figure<GbPerSec>>,
    /// Peak write bandwidth, all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bandwidth: Option<Figure<GbPerSec>>,
    /// Peak bandwidth of one read for each write, both directions counted, all nodes together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mixed_bandwidth: Option<Figure<GbPerSec>>,
    /// Coefficients that the density policy uses; derived from latency and bandwidths where left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficients: Option<Coefficients>,
    /// CPUs nearest to the tier, as a Linux list (`0-7,16-23`); empty if none is nearer than others.
    #[serde(default)]
    pub near_cpus: String,
}

/// A wish that a platform maps to a tier (paper 002, section 4.2; OpenMP's memory spaces).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Space {
    /// The tier with the highest bandwidth.
    HighestBandwidth,
    /// The tier with the lowest latency.
    LowestLatency,
    /// The tier with the largest capacity.
    LargestCapacity,
}

impl Space {
    /// All spaces, in the order they are shown.
    pub const ALL: [Space; 3] = [Space::HighestBandwidth, Space::LowestLatency, Space::LargestCapacity];
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Space::HighestBandwidth => "highest-bandwidth",
            Space::LowestLatency => "lowest-latency",
            Space::LargestCapacity => "largest-capacity",
        })
    }
}

/// The tiers of a machine, fastest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Platform {
    /// Name: of the library entry, or the host.
    pub name: String,
    /// One line that describes the machine.
    #[serde(default)]
    pub description: String,
    /// Document the figures come from; empty for a discovered machine.
    #[serde(default)]
    pub source: String,
    /// Last-level cache as one core group sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub llc: Option<Figure<Bytes>>,
    /// Cores that share the bandwidth of these tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Figure<u32>>,
    /// Tiers, fastest first.
    #[serde(rename = "tier")]
    pub tiers: Vec<Tier>,
}

/// Which of these tiers, fastest first, a program's memory is in if nobody says otherwise: that of the CPUs, which is DRAM where a machine has any. The nodes of
/// HBM have none beside it (Knights Landing and Xeon Max in flat mode), so that the kernel takes theirs last.
pub fn home<'a>(tiers: impl IntoIterator<Item = &'a Tier>) -> usize {
    tiers.into_iter().position(|t| t.kind.value == TierKind::Dram).unwrap_or(0)
}

impl Platform {
    /// The tier of this name.
    pub fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|t| t.name == name)
    }

    /// The tier a space resolves to: the best by its attribute; tiers without a figure never win over tiers with
    /// one, and between equals the earlier (faster) tier is taken. `None` only for a platform without tiers.
    pub fn space(&self, space: Space) -> Option<&Tier> {
        let key = |t: &Tier| match space {
            Space::HighestBandwidth => t.read_bandwidth.map(|f| f.value.0),
            Space::LowestLatency => t.latency.map(|f| -(f.value.0 as f64)),
            Space::LargestCapacity => t.capacity.map(|f| f.value.0 as f64),
        };
        let mut best: Option<&Tier> = None;
        for tier in &self.tiers {
            let better = match best.and_then(key) {
                Some(b) => key(tier).is_some_and(|k| k > b),
                None => best.is_none() || key(tier).is_some(),
            };
            if better {
                best = Some(tier);
            }
        }
        best
    }
}
