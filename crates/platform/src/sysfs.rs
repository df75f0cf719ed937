//! What the kernel says about memory nodes, beside hwloc: HMAT figures, distances, memory tiers, free bytes, and the
//! nodes of GPUs, which hwloc leaves out unless told otherwise.
//!
//! Everything is read below a root directory, so that tests can hand in a made-up machine. A file that is not there is
//! a fact that is not known, not an error.

use crate::facts::{Facts, Node};
use crate::hwloc::mib_per_sec;
use model::{Bytes, Figure, Nanos, Origin};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Adds the kernel's knowledge below `root` (`/` for this machine).
pub fn add(facts: &mut Facts, root: &Path) {
    let nodes_dir = root.join("sys/devices/system/node");
    add_gpu_nodes(facts, root, &nodes_dir);
    let with_cpus = list_file(&nodes_dir.join("has_cpu"));
    let online = list_file(&nodes_dir.join("online"));
    let tiers = memory_tiers(&root.join("sys/devices/virtual/memory_tiering"));
    for node in &mut facts.nodes {
        let dir = nodes_dir.join(format!("node{}", node.number));
        add_hmat(node, &dir.join("access0/initiators"));
        node.free = free(&dir).map(|b| Figure::new(b, Origin::Kernel));
        if let Some(with_cpus) = &with_cpus {
            node.has_cpus = Some(with_cpus.contains(&node.number));
            node.farther = node.has_cpus == Some(false) && farther(&dir, online.as_deref(), with_cpus);
        }
        node.memory_tier = node.memory_tier.or_else(|| tiers.get(&node.number).copied());
    }
}

/// The kernel publishes HMAT's best case per node: latency in ns, bandwidth in MiB/s
/// (Documentation/admin-guide/mm/numaperf.rst).
fn add_hmat(node: &mut Node, dir: &Path) {
    let read = |name: &str| number_file(&dir.join(name)).filter(|&v| v > 0);
    if let Some(ns) = read("read_latency") {
        node.latency = Some(Figure::new(Nanos(ns), Origin::Hmat));
    }
    if let Some(v) = read("read_bandwidth") {
        node.read_bandwidth = mib_per_sec(v, Origin::Hmat);
    }
    if let Some(v) = read("write_bandwidth") {
        node.write_bandwidth = mib_per_sec(v, Origin::Hmat);
    }
}

/// Free memory of a node, with the clean page cache, which the kernel gives up on demand. (`MemAvailable` exists only
/// for the whole machine.)
fn free(dir: &Path) -> Option<Bytes> {
    let text = fs::read_to_string(dir.join("meminfo")).ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|l| l.contains(&format!(" {name}:")))?;
        line.split_whitespace().nth_back(1)?.parse().ok()
    };
    let cache = field("Active(file)").unwrap_or(0) + field("Inactive(file)").unwrap_or(0);
    let dirty = field("Dirty").unwrap_or(0) + field("Writeback").unwrap_or(0);
    Some(Bytes::kib(field("MemFree")? + cache.saturating_sub(dirty)))
}

/// Whether every node with CPUs is farther away than local memory is (10 in the firmware's SLIT).
fn farther(dir: &Path, online: Option<&[u32]>, with_cpus: &[u32]) -> bool {
    let Some(online) = online else { return false };
    let Ok(text) = fs::read_to_string(dir.join("distance")) else { return false };
    let distances = text.split_whitespace().map(|d| d.parse::<u32>().unwrap_or(10));
    online.iter().zip(distances).filter(|(node, _)| with_cpus.contains(node)).all(|(_, d)| d > 10)
}

/// Node to rank of its memory tier, 0 for the fastest. Empty if there is only one tier: that says nothing.
fn memory_tiers(dir: &Path) -> BTreeMap<u32, u32> {
    let mut tiers: Vec<(u32, Vec<u32>)> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|e| {
            let id = e.file_name().to_str()?.strip_prefix("memory_tier")?.parse().ok()?;
            Some((id, list_file(&e.path().join("nodelist"))?))
        })
        .collect();
    tiers.sort();
    if tiers.len() < 2 {
        return BTreeMap::new();
    }
    tiers.iter().zip(0..).flat_map(|((_, nodes), rank)| nodes.iter().map(move |&n| (n, rank))).collect()
}

/// NVIDIA's driver onlines the memory of coherent GPUs (Grace Hopper) as NUMA nodes and names them in procfs.
fn add_gpu_nodes(facts: &mut Facts, root: &Path, nodes_dir: &Path) {
    let gpus = fs::read_dir(root.join("proc/driver/nvidia/gpus")).into_iter().flatten().flatten();
    for gpu in gpus {
        let Ok(status) = fs::read_to_string(gpu.path().join("numa_status")) else { continue };
        let number = status.lines().find_map(|l| l.strip_prefix("Node:")?.trim().parse::<u32>().ok());
        let Some(number) = number else { continue };
        if let Some(known) = facts.nodes.iter_mut().find(|n| n.number == number) {
            known.subtype.get_or_insert_with(|| "GPUMemory".to_string());
            continue;
        }
        let Some(capacity) = node_total(&nodes_dir.join(format!("node{number}"))) else { continue };
        facts.nodes.push(Node {
            number,
            capacity: Figure::new(capacity, Origin::Kernel),
            free: None,
            subtype: Some("GPUMemory".to_string()),
            memory_tier: None,
            near_cpus: Vec::new(),
            has_cpus: Some(false),
            farther: true,
            latency: None,
            read_bandwidth: None,
            write_bandwidth: None,
        });
    }
}

fn node_total(dir: &Path) -> Option<Bytes> {
    let text = fs::read_to_string(dir.join("meminfo")).ok()?;
    let line = text.lines().find(|l| l.contains(" MemTotal:"))?;
    line.split_whitespace().nth_back(1)?.parse().ok().map(Bytes::kib)
}

fn number_file(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn list_file(path: &Path) -> Option<Vec<u32>> {
    parse_list(&fs::read_to_string(path).ok()?)
}

/// Reads a Linux list: `0-3,8,10-11`; the empty list is empty.
pub fn parse_list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to): (u32, u32) = (from.trim().parse().ok()?, to.trim().parse().ok()?);
        if from > to || to - from > 1 << 16 {
            return None;
        }
        numbers.extend(from..=to);
    }
    Some(numbers)
}

/// Writes a Linux list of ascending numbers: `0-3,8,10-11`.
pub fn format_list(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, to)) if *to + 1 == n => *to = n,
            _ => parts.push((n, n)),
        }
    }
    let part = |&(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_survive_the_round_trip() {
        for text in ["", "0", "0-3", "0-3,8,10-11"] {
            assert_eq!(format_list(&parse_list(text).unwrap()), text);
        }
        for text in ["a", "3-1", "1-", "0-99999999"] {
            assert_eq!(parse_list(text), None, "{text}");
        }
    }
}
