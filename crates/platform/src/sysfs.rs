//! What the kernel says about memory nodes, beside hwloc: HMAT figures, distances, memory tiers and free bytes.
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

/// The machine's whole memory belongs to its only node. Memory that was plugged into a virtual machine later can be
/// missing from the node's own count, on which hwloc relies.
pub(crate) fn whole_memory(facts: &mut Facts, root: &Path) {
    let text = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
    let field = |name: &str| -> Option<Bytes> {
        let rest = text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
        Some(Bytes::kib(rest.split_whitespace().next()?.parse().ok()?))
    };
    let [only] = facts.nodes.as_mut_slice() else { return };
    if let Some(total) = field("MemTotal").filter(|&t| t > only.capacity.value) {
        only.capacity = Figure::new(total, Origin::Kernel);
        only.free = field("MemAvailable").map(|b| Figure::new(b, Origin::Kernel)).or(only.free);
    }
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
    use crate::{hwloc, tiers};
    use model::{GbPerSec, Platform, TierKind};
    use std::fs;

    /// Two nodes, the second without CPUs, as a kernel shows them; `files` are added below `/sys/devices`.
    fn machine(files: &[(&str, &str)]) -> Platform {
        let root = tempfile::tempdir().unwrap();
        let common = [
            ("system/node/has_cpu", "0\n"),
            ("system/node/online", "0-1\n"),
            ("system/node/node0/distance", "10 20\n"),
            (
                "system/node/node0/meminfo",
                "Node 0 MemTotal: 8192 kB\nNode 0 MemFree: 4096 kB\nNode 0 Active(file): 512 kB\nNode 0 Inactive(file): 768 kB\nNode 0 Dirty: 256 kB\n",
            ),
        ];
        for (file, text) in common.iter().chain(files) {
            let path = root.path().join("sys/devices").join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let description = "pack:1 [numa(memory=64GiB)] [numa(memory=256GiB)] core:4 pu:1";
        let mut facts = hwloc::read(&hwloc::Source::Described(description)).unwrap();
        add(&mut facts, root.path());
        tiers::platform("test", &facts)
    }

    const NEAR: (&str, &str) = ("system/node/node1/distance", "10 10\n");
    const FAR: (&str, &str) = ("system/node/node1/distance", "20 10\n");

    fn kinds(p: &Platform) -> Vec<(TierKind, Origin, &[u32])> {
        p.tiers.iter().map(|t| (t.kind.value, t.kind.origin, t.nodes.as_slice())).collect()
    }

    #[test]
    fn hmat_figures_are_read_and_tell_the_kind() {
        let hmat = |node: u32, name: &str| format!("system/node/node{node}/access0/initiators/{name}");
        let files = |bandwidth: &'static str, latency: &'static str| {
            [
                (hmat(0, "read_bandwidth"), "100000\n"),
                (hmat(0, "write_bandwidth"), "80000\n"),
                (hmat(0, "read_latency"), "90\n"),
                (hmat(1, "read_bandwidth"), bandwidth),
                (hmat(1, "read_latency"), latency),
            ]
        };
        for (bandwidth, latency, kind, position) in [
            ("20000", "250", TierKind::Cxl, 1),
            ("100000", "250", TierKind::Cxl, 1),
            ("400000", "110", TierKind::Hbm, 0),
        ] {
            let files = files(bandwidth, latency);
            let mut list: Vec<(&str, &str)> = files.iter().map(|(f, t)| (f.as_str(), *t)).collect();
            list.push(FAR);
            let p = machine(&list);
            assert_eq!(kinds(&p)[position], (kind, Origin::Predicted, &[1][..]), "{bandwidth} {latency}");
            let dram = p.tier("dram").unwrap();
            assert_eq!(dram.latency, Some(Figure::new(Nanos(90), Origin::Hmat)));
            assert_eq!(dram.read_bandwidth, Some(Figure::new(GbPerSec(104.8576), Origin::Hmat)));
            assert_eq!(dram.write_bandwidth, Some(Figure::new(GbPerSec(83.88608), Origin::Hmat)));
        }
    }

    #[test]
    fn without_figures_memory_tiers_and_distances_tell_the_kind() {
        let dram = (TierKind::Dram, Origin::Kernel, &[0][..]);
        let tiers = [
            ("virtual/memory_tiering/memory_tier4/nodelist", "0\n"),
            ("virtual/memory_tiering/memory_tier33/nodelist", "1\n"),
        ];
        let by_tier = machine(&[NEAR, tiers[0], tiers[1]]);
        assert_eq!(kinds(&by_tier), [dram, (TierKind::Cxl, Origin::Predicted, &[1][..])]);
        let by_distance = machine(&[FAR]);
        assert_eq!(kinds(&by_distance), [dram, (TierKind::Cxl, Origin::Predicted, &[1][..])]);
        let nothing_known = machine(&[NEAR]);
        assert_eq!(kinds(&nothing_known), [(TierKind::Dram, Origin::Kernel, &[0, 1][..])]);
    }

    #[test]
    fn free_counts_the_clean_page_cache_and_needs_all_nodes() {
        let meminfo = ("system/node/node1/meminfo", "Node 1 MemTotal: 8192 kB\nNode 1 MemFree: 1024 kB\n");
        let p = machine(&[FAR, meminfo]);
        assert_eq!(p.tier("dram").unwrap().free, Some(Figure::new(Bytes::kib(4096 + 512 + 768 - 256), Origin::Kernel)));
        assert_eq!(p.tier("cxl").unwrap().free, Some(Figure::new(Bytes::kib(1024), Origin::Kernel)));
        assert_eq!(machine(&[NEAR]).tier("dram").unwrap().free, None, "one of its nodes is not known");
    }

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
