//! From facts to tiers: which kind of memory a node is, which nodes belong together, and which tier is faster.
//!
//! **Kind.** hwloc's subtype decides where it names a kind. `SPM` (specific-purpose memory) and nodes without a
//! subtype are judged by what is known about them ([`kind_of`]); such a judgement has origin `predicted`.
//!
//! **Tiers.** Nodes of one kind whose figures lie within [`SAME_PERFORMANCE`] of each other, and which hwloc or the
//! kernel do not put into different memory tiers, are one tier: two equal sockets are one DRAM tier of two nodes.
//!
//! **Order.** Fast to slow by read bandwidth if every tier has one; bandwidths within [`NEARLY_EQUAL`] count as equal
//! and the lower latency goes first. If a bandwidth is missing: by kind (HBM, DRAM, GPU, CXL, NVM, file), within a
//! kind by bandwidth.

use crate::facts::{Facts, Node};
use crate::sysfs::format_list;
use model::{Bytes, Figure, Nanos, Origin, Platform, Tier, TierKind};
use std::collections::BTreeSet;
use std::ops::Add;

/// Nodes whose figures differ by at most this factor perform alike.
const SAME_PERFORMANCE: f64 = 1.25;
/// Tiers whose read bandwidths differ by at most this factor are ordered by latency.
const NEARLY_EQUAL: f64 = 1.1;
/// hwloc calls memory HBM if its bandwidth is at least twice DRAM's; so does Hearth.
const HBM_FACTOR: f64 = 2.0;
/// Memory with less than this share of DRAM's bandwidth, or more than its inverse of DRAM's latency, is behind a link.
const LINK_FACTOR: f64 = 0.75;

/// Processors whose only memory may be on the package, which neither the firmware nor hwloc then calls HBM: a part of
/// the model name, and the most HBM a package has (Intel Xeon CPU Max product brief; AMD Instinct MI300A data sheet).
const HBM_PROCESSORS: [(&str, Bytes); 2] = [("Xeon(R) CPU Max", Bytes::gib(64)), ("MI300A", Bytes::gib(128))];

/// Makes a platform of the facts.
pub fn platform(name: &str, facts: &Facts) -> Platform {
    let nodes: Vec<&Node> = facts.nodes.iter().filter(|n| n.capacity.value.0 > 0).collect();
    let all_cpus: BTreeSet<u32> = facts.cpus.iter().map(|c| c.number).collect();
    let mut groups: Vec<(Figure<TierKind>, Vec<&Node>)> = Vec::new();
    for node in &nodes {
        let kind = kind_of(node, &nodes, facts);
        match groups.iter_mut().find(|(k, members)| k.value == kind.value && alike(members[0], node)) {
            Some((_, members)) => members.push(node),
            None => groups.push((kind, vec![node])),
        }
    }
    let tiers = groups.into_iter().map(|(kind, nodes)| tier(kind, &nodes, &all_cpus)).collect();
    let cores = facts.cpus.iter().filter(|c| c.sibling_rank == 0).count() as u32;
    let mut platform = Platform {
        name: name.to_string(),
        description: facts.cpu_model.clone(),
        source: String::new(),
        llc: (facts.llc.0 > 0).then_some(Figure::new(facts.llc, Origin::Hwloc)),
        cores: (cores > 0).then_some(Figure::new(cores, Origin::Hwloc)),
        tiers,
    };
    order(&mut platform);
    name_by_kind(&mut platform);
    platform
}

/// The kind of a node's memory.
fn kind_of(node: &Node, nodes: &[&Node], facts: &Facts) -> Figure<TierKind> {
    let by_hwloc = |kind| Figure::new(kind, Origin::Hwloc);
    match node.subtype.as_deref() {
        Some("DRAM") => return by_hwloc(TierKind::Dram),
        Some("HBM" | "MCDRAM") => return by_hwloc(TierKind::Hbm),
        Some("NVM") => return by_hwloc(TierKind::Nvm),
        Some("GPUMemory") => return by_hwloc(TierKind::Gpu),
        Some(cxl) if cxl.starts_with("CXL-") => return by_hwloc(TierKind::Cxl),
        _ => {}
    }
    let packages = facts.packages.max(1);
    let per_package = nodes.iter().map(|n| n.capacity.value.0).sum::<u64>() / packages as u64;
    if HBM_PROCESSORS.iter().any(|(model, most)| facts.cpu_model.contains(model) && per_package <= most.0) {
        return Figure::new(TierKind::Hbm, Origin::Library);
    }
    let guess = |kind| Figure::new(kind, Origin::Predicted);
    let special = node.subtype.as_deref() == Some("SPM");
    if owns_cpus(node, nodes) && !special {
        return Figure::new(TierKind::Dram, if node.has_cpus.is_some() { Origin::Kernel } else { Origin::Hwloc });
    }
    // What ordinary memory is on this machine: the first node with CPUs that is not special itself.
    let plain = |n: &&&Node| owns_cpus(n, nodes) && matches!(n.subtype.as_deref(), None | Some("DRAM"));
    let ordinary = nodes.iter().find(plain);
    let Some(dram) = ordinary else { return guess(if special { TierKind::Hbm } else { TierKind::Dram }) };
    if let (Some(own), Some(dram)) = (node.read_bandwidth, dram.read_bandwidth) {
        let ratio = own.value.0 / dram.value.0;
        if ratio >= HBM_FACTOR {
            return guess(TierKind::Hbm);
        }
        if ratio < LINK_FACTOR {
            return guess(TierKind::Cxl);
        }
    }
    if let (Some(own), Some(dram)) = (node.latency, dram.latency) {
        if own.value.0 as f64 * LINK_FACTOR > dram.value.0 as f64 {
            return guess(TierKind::Cxl);
        }
    }
    match (node.memory_tier, dram.memory_tier) {
        (Some(own), Some(dram)) if own > dram => return guess(TierKind::Cxl),
        (Some(own), Some(dram)) if own < dram => return guess(TierKind::Hbm),
        _ => {}
    }
    // Without figures: specific-purpose memory is nearly always HBM (hwloc's manual says so); memory without CPUs that
    // is farther than local memory is, on today's machines, most often a CXL expander.
    guess(match (special, node.farther) {
        (true, _) => TierKind::Hbm,
        (false, true) if node.read_bandwidth.is_none() => TierKind::Cxl,
        _ => TierKind::Dram,
    })
}

/// Whether CPUs belong to the node itself. A captured topology does not say; there the lowest of the nodes that share
/// their near CPUs counts as the owner, as on Linux.
fn owns_cpus(node: &Node, nodes: &[&Node]) -> bool {
    let shared_with_lower = || nodes.iter().any(|n| n.number < node.number && n.near_cpus == node.near_cpus);
    node.has_cpus.unwrap_or_else(|| !shared_with_lower())
}

/// Whether two nodes of one kind belong to one tier.
fn alike(a: &Node, b: &Node) -> bool {
    let close = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => a.max(b) <= SAME_PERFORMANCE * a.min(b),
        _ => true,
    };
    let bandwidth = |n: &Node| n.read_bandwidth.map(|f| f.value.0);
    let latency = |n: &Node| n.latency.map(|f| f.value.0 as f64);
    let same_rank = match (a.memory_tier, b.memory_tier) {
        (Some(a), Some(b)) => a == b,
        _ => true,
    };
    same_rank && close(bandwidth(a), bandwidth(b)) && close(latency(a), latency(b))
}

/// One tier of these nodes: sizes and bandwidths add up, the latency is the least.
fn tier(kind: Figure<TierKind>, nodes: &[&Node], all_cpus: &BTreeSet<u32>) -> Tier {
    let near: BTreeSet<u32> = nodes.iter().flat_map(|n| n.near_cpus.iter().copied()).collect();
    let near_cpus = if &near == all_cpus { String::new() } else { format_list(&near.into_iter().collect::<Vec<_>>()) };
    let mut numbers: Vec<u32> = nodes.iter().map(|n| n.number).collect();
    numbers.sort_unstable();
    Tier {
        name: String::new(),
        kind,
        nodes: numbers,
        dir: None,
        capacity: sum(nodes.iter().map(|n| Some(n.capacity))),
        free: sum(nodes.iter().map(|n| n.free)),
        latency: nodes.iter().filter_map(|n| n.latency).min_by_key(|f: &Figure<Nanos>| f.value),
        loaded_latency: None,
        loaded_bandwidth: None,
        read_bandwidth: sum(nodes.iter().map(|n| n.read_bandwidth)),
        write_bandwidth: sum(nodes.iter().map(|n| n.write_bandwidth)),
        mixed_bandwidth: None,
        coefficients: None,
        near_cpus,
    }
}

/// The sum, if every part is known; the origin is the first part's.
pub(crate) fn sum<T: Copy + SumUnit>(mut parts: impl Iterator<Item = Option<Figure<T>>>) -> Option<Figure<T>> {
    let first = parts.next()??;
    parts.try_fold(first, |total, part| Some(Figure::new(total.value.plus(part?.value), total.origin)))
}

/// Quantities that add up over the nodes of a tier.
pub(crate) trait SumUnit {
    /// Both together.
    fn plus(self, other: Self) -> Self;
}
impl SumUnit for Bytes {
    fn plus(self, other: Bytes) -> Bytes {
        self.add(other)
    }
}
impl SumUnit for model::GbPerSec {
    fn plus(self, other: Self) -> Self {
        model::GbPerSec(self.0 + other.0)
    }
}

/// Puts the tiers in order, fastest first (see the head of this file). Tiers that tie keep their order.
pub fn order(platform: &mut Platform) {
    let tiers = &mut platform.tiers;
    let bandwidth = |t: &Tier| t.read_bandwidth.map_or(0.0, |f| f.value.0);
    let latency = |t: &Tier| t.latency.map_or(u64::MAX, |f| f.value.0);
    let by_kind = tiers.iter().any(|t| t.read_bandwidth.is_none());
    tiers.sort_by(|a, b| {
        let kinds = if by_kind { rank(a.kind.value).cmp(&rank(b.kind.value)) } else { std::cmp::Ordering::Equal };
        kinds.then(bandwidth(b).total_cmp(&bandwidth(a)))
    });
    if by_kind {
        return;
    }
    let mut start = 0;
    for i in 1..=tiers.len() {
        if i == tiers.len() || bandwidth(&tiers[i]) * NEARLY_EQUAL < bandwidth(&tiers[start]) {
            tiers[start..i].sort_by_key(latency);
            start = i;
        }
    }
}

fn rank(kind: TierKind) -> u8 {
    match kind {
        TierKind::Hbm => 0,
        TierKind::Dram => 1,
        TierKind::Gpu => 2,
        TierKind::Cxl => 3,
        TierKind::Nvm => 4,
        TierKind::File => 5,
    }
}

/// Names tiers after their kind: `hbm`, `dram`; a second tier of a kind is `dram2`.
pub(crate) fn name_by_kind(platform: &mut Platform) {
    let mut seen: Vec<TierKind> = Vec::new();
    for tier in &mut platform.tiers {
        let kind = tier.kind.value;
        seen.push(kind);
        let count = seen.iter().filter(|&&k| k == kind).count();
        let word = kind.to_string().to_lowercase();
        tier.name = if count == 1 { word } else { format!("{word}{count}") };
    }
}
