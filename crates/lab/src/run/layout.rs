//! From a platform's tiers and a placement to the nodes of a machine.
//!
//! Node 0, where the CPUs, the kernel and its caches are, is the tier of lowest latency; the others follow in the
//! platform's order. The *fast* tier is the platform's first, the *slow* one its last.

use super::{Request, Tier};
use crate::Error;
use crate::job::Policy;
use crate::machine::{Machine, Model, Node, SECTION};
use crate::run::session::Session;
use model::{Bytes, Plan};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Node 0 has this much more than the program is to have of it: for the kernel, the agent and the cache of host files.
const KERNEL: u64 = 512 << 20;
/// Every other node has this much more: the kernel keeps some memory free for itself.
const WATERMARKS: u64 = 64 << 20;
/// Weights of interleaving are at most this.
const MOST_WEIGHT: f64 = 10.0;

/// Where the program's pages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// All in the fast memory, which is large enough.
    AllFast,
    /// All in the slow memory.
    AllSlow,
    /// Fast as long as there is some, in the order of first touch.
    FirstTouch,
    /// In turn.
    Interleave,
    /// In turn, in the ratio of the bandwidths.
    WeightedInterleave,
    /// NUMA balancing with promotion and demotion.
    Kernel,
    /// All in the slow memory, for which the fast one is a cache.
    MemoryMode,
    /// Guided by the plan in this file.
    Plan(PathBuf),
}

const PLACEMENTS: [(&str, Placement); 7] = [
    ("all-fast", Placement::AllFast),
    ("all-slow", Placement::AllSlow),
    ("first-touch", Placement::FirstTouch),
    ("interleave", Placement::Interleave),
    ("weighted-interleave", Placement::WeightedInterleave),
    ("kernel", Placement::Kernel),
    ("memory-mode", Placement::MemoryMode),
];

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, PLACEMENTS.iter().find(|(_, p)| p == self)) {
            (Placement::Plan(file), _) => f.pad(&format!("plan {}", file.display())),
            (_, Some((name, _))) => f.pad(name),
            (_, None) => Ok(()),
        }
    }
}

impl FromStr for Placement {
    type Err = String;
    /// A name, or `plan:FILE`.
    fn from_str(text: &str) -> Result<Placement, String> {
        if let Some(file) = text.strip_prefix("plan:").filter(|f| !f.is_empty()) {
            return Ok(Placement::Plan(file.into()));
        }
        let found = PLACEMENTS.iter().find(|(name, _)| *name == text).map(|(_, p)| p.clone());
        found.ok_or_else(|| {
            let names: Vec<&str> = PLACEMENTS.iter().map(|(name, _)| *name).collect();
            format!("there is no placement `{text}`; choose one of {} or plan:FILE", names.join(", "))
        })
    }
}

/// How much fast memory the program may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fast {
    /// So many bytes.
    Size(Bytes),
    /// Percent of what the program uses.
    Percent(f64),
}

impl FromStr for Fast {
    type Err = String;
    /// `25%` or a size.
    fn from_str(text: &str) -> Result<Fast, String> {
        let bad = || format!("`{text}` is neither a size nor a share; write for example 64MiB or 25%");
        match text.strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(p) if p > 0.0 && p <= 100.0 => Ok(Fast::Percent(p)),
                _ => Err(bad()),
            },
            None => match text.parse::<Bytes>() {
                Ok(Bytes(0)) | Err(_) => Err(bad()),
                Ok(bytes) => Ok(Fast::Size(bytes)),
            },
        }
    }
}

/// A platform's tiers with their place in the guest.
#[derive(Debug)]
pub struct World {
    /// In the platform's order, fastest first.
    tiers: Vec<Tier>,
}

impl World {
    /// Errors: fewer than two tiers, or a tier without latency or bandwidth.
    pub fn of(request: &Request) -> Result<World, Error> {
        let platform = &request.platform;
        if platform.tiers.len() < 2 {
            return Err(Error(format!(
                "the platform {} has one kind of memory only, so there is nothing to place; see `hearth platform --list`",
                platform.name
            )));
        }
        let mut tiers = Vec::new();
        for tier in &platform.tiers {
            let missing = |what: &str| {
                Error(format!(
                    "the platform {} does not say the {what} of its tier {1}; add --set {1}.{what}=...",
                    platform.name, tier.name
                ))
            };
            let latency = tier.latency.ok_or_else(|| missing("latency"))?.value;
            let read = tier.read_bandwidth.ok_or_else(|| missing("read_bandwidth"))?.value;
            let write = tier.write_bandwidth.map_or(read, |f| f.value);
            tiers.push(Tier {
                name: tier.name.clone(),
                node: 0,
                latency_ns: latency.0 as f64,
                read_gbps: read.0,
                write_gbps: write.0,
            });
        }
        let mut near = 0;
        for (i, tier) in tiers.iter().enumerate() {
            if tier.latency_ns < tiers[near].latency_ns {
                near = i;
            }
        }
        let mut next = 1;
        for (i, tier) in tiers.iter_mut().enumerate() {
            if i != near {
                tier.node = next;
                next += 1;
            }
        }
        Ok(World { tiers })
    }

    fn fast(&self) -> &Tier {
        &self.tiers[0]
    }

    fn slow(&self) -> &Tier {
        &self.tiers[self.tiers.len() - 1]
    }

    /// Sizes for a placement. `memory`: bytes of slow memory. `fast`: bytes of fast memory for the program; none where the placement has no limit.
    pub fn lay_out(&self, placement: &Placement, memory: Bytes, fast: Option<Bytes>) -> Layout {
        let memory = memory.0;
        let limit = match placement {
            Placement::MemoryMode => None,
            _ => fast.map(|bytes| (self.fast().node, bytes.0)),
        };
        let mut nodes: Vec<Option<Node>> = vec![None; self.tiers.len()];
        for (i, tier) in self.tiers.iter().enumerate() {
            let wanted = match (i == 0, placement) {
                (true, Placement::AllFast) => memory,
                (true, _) => limit.map_or(0, |(_, bytes)| bytes),
                // Files that the program writes lie there.
                (false, Placement::AllFast) => memory / 4,
                (false, _) => memory,
            };
            let margin = if tier.node == 0 { KERNEL } else { WATERMARKS };
            nodes[tier.node as usize] = Some(Node {
                bytes: (wanted + margin).next_multiple_of(SECTION),
                latency_ns: tier.latency_ns,
                read_gbps: tier.read_gbps,
                write_gbps: tier.write_gbps,
            });
        }
        let policy = match placement {
            Placement::AllFast => Policy::Bind(self.fast().node),
            Placement::AllSlow | Placement::MemoryMode => Policy::Bind(self.slow().node),
            Placement::FirstTouch => Policy::FirstTouch,
            Placement::Interleave => Policy::Interleave,
            Placement::WeightedInterleave => Policy::WeightedInterleave(self.weights()),
            Placement::Kernel => Policy::Kernel,
            Placement::Plan(_) => Policy::Plan,
        };
        Layout { tiers: self.tiers.clone(), nodes: nodes.into_iter().flatten().collect(), policy, limit }
    }

    /// Weights by node, in the ratio of the read bandwidths.
    fn weights(&self) -> Vec<u8> {
        let most = self.tiers.iter().map(|t| t.read_gbps).fold(0.0, f64::max);
        let mut weights = vec![1; self.tiers.len()];
        let scaled = |top: f64| self.tiers.iter().map(move |t| t.read_gbps / most * top).collect::<Vec<_>>();
        // The whole numbers, as small as they may be, whose ratio is nearest.
        let error = |top: f64| scaled(top).iter().map(|w| (w.round().max(1.0) / w - 1.0).abs()).sum::<f64>();
        let mut best = 1.0;
        for top in 1..=MOST_WEIGHT as u32 {
            if error(top.into()) < error(best) - 0.01 {
                best = top.into();
            }
        }
        for (tier, weight) in self.tiers.iter().zip(scaled(best)) {
            weights[tier.node as usize] = weight.round().max(1.0) as u8;
        }
        weights
    }
}

/// A machine for one placement.
#[derive(Debug)]
pub struct Layout {
    tiers: Vec<Tier>,
    nodes: Vec<Node>,
    /// What the guest's kernel is to do.
    pub policy: Policy,
    /// Node whose free memory is limited, and to how many bytes.
    pub limit: Option<(u32, u64)>,
}

impl Layout {
    /// The tiers, fastest first.
    pub fn tiers(&self) -> Vec<Tier> {
        self.tiers.clone()
    }

    /// NUMA nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The machine to boot.
    pub fn machine(&self, vcpus: u32, session: &Session, terminal: bool, model: Option<Model>) -> Machine {
        Machine {
            nodes: self.nodes.clone(),
            vcpus,
            files_node: self.tiers[self.tiers.len() - 1].node,
            session: session.dir().to_path_buf(),
            terminal,
            model,
        }
    }

    /// The plan with the guest's nodes for its tiers, which are found by name.
    pub fn adapt(&self, mut plan: Plan) -> Result<Plan, Error> {
        for planned in &mut plan.tiers {
            let Some(tier) = self.tiers.iter().find(|t| t.name == planned.name) else {
                let names: Vec<&str> = self.tiers.iter().map(|t| t.name.as_str()).collect();
                return Err(Error(format!(
                    "the plan's tier `{}` is not one of the emulated machine's ({}); give the --platform that the plan was \
                     made for ({})",
                    planned.name,
                    names.join(", "),
                    plan.platform
                )));
            };
            planned.nodes = vec![tier.node];
            planned.dir = None;
        }
        Ok(plan)
    }
}
