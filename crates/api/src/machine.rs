//! The tiers of this machine, as `hearth platform` finds them, and how much of them is free.

use crate::error::Error;
use crate::wish::Space;
use model::{Platform, TierKind};

/// Most tiers (`HEARTH_MAX_TIERS`).
pub const MOST_TIERS: usize = 8;

/// The tiers of this machine, fastest first.
#[derive(Clone, Debug)]
pub struct Machine {
    platform: Platform,
    masks: Vec<u128>,
    /// Bytes that the kernel keeps free in each tier.
    kept_free: Vec<u64>,
}

impl Machine {
    /// Looks at this machine.
    ///
    /// # Errors
    /// [`Error::Platform`] if hwloc cannot, or describes another machine.
    pub fn find() -> Result<Machine, Error> {
        Machine::of(platform::discover().map_err(|_| Error::Platform)?)
    }

    /// A machine of these tiers; those of files, and more than [`MOST_TIERS`], are left out.
    ///
    /// # Errors
    /// [`Error::Platform`] if there is none.
    pub fn of(mut platform: Platform) -> Result<Machine, Error> {
        platform.tiers.retain(|t| t.kind.value != TierKind::File && t.nodes.iter().any(|&n| n < 128));
        platform.tiers.truncate(MOST_TIERS);
        let mask = |nodes: &[u32]| nodes.iter().filter(|&&n| n < 128).fold(0, |mask, &n| mask | 1u128 << n);
        let masks: Vec<u128> = platform.tiers.iter().map(|t| mask(&t.nodes)).collect();
        let zones = std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
        let kept_free = platform.tiers.iter().map(|t| kept_free_in(&zones, &t.nodes)).collect();
        if masks.is_empty() { Err(Error::Platform) } else { Ok(Machine { platform, masks, kept_free }) }
    }

    /// The tiers.
    pub fn tiers(&self) -> &[model::Tier] {
        &self.platform.tiers
    }

    /// NUMA nodes of a tier, a bit each.
    pub fn nodes(&self, tier: usize) -> u128 {
        self.masks.get(tier).copied().unwrap_or(0)
    }

    /// The tier of a node.
    pub fn tier_of_node(&self, node: u32) -> Option<usize> {
        let bit = 1u128.checked_shl(node)?;
        self.masks.iter().position(|mask| mask & bit != 0)
    }

    /// The tier that a space is here.
    ///
    /// # Errors
    /// [`Error::Tier`] if there is none of this index.
    pub fn tier(&self, space: Space) -> Result<usize, Error> {
        match space {
            Space::Tier(index) => (index < self.masks.len()).then_some(index).ok_or(Error::Tier),
            Space::Wish(wish) => {
                let name = self.platform.space(wish).map(|t| t.name.as_str());
                self.platform.tiers.iter().position(|t| Some(t.name.as_str()) == name).ok_or(Error::Tier)
            }
        }
    }

    /// Free bytes of a tier that the kernel would give to whoever prefers it: below its low watermark it takes other nodes' first.
    pub fn to_be_had(&self, tier: usize) -> u64 {
        self.free(tier).saturating_sub(self.kept_free.get(tier).copied().unwrap_or(0))
    }

    /// Free bytes of a tier now, as the kernel says; 0 if it does not.
    pub fn free(&self, tier: usize) -> u64 {
        let nodes = self.platform.tiers.get(tier).map_or(&[][..], |t| &t.nodes);
        nodes.iter().map(|node| free_of_node(*node).unwrap_or(0)).sum()
    }
}

fn free_of_node(node: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo"));
    match text {
        Ok(text) => free_in(&text, "MemFree:"),
        // A kernel without NUMA has one node, and no files of it.
        Err(_) if node == 0 => free_in(&std::fs::read_to_string("/proc/meminfo").ok()?, "MemFree:"),
        Err(_) => None,
    }
}

fn free_in(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.contains(key))?;
    let kib: u64 = line.split(key).nth(1)?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// The low watermarks of all zones of some nodes, in bytes, as /proc/zoneinfo tells them.
fn kept_free_in(zones: &str, nodes: &[u32]) -> u64 {
    let mut here = false;
    let mut pages = 0;
    for line in zones.lines() {
        if let Some(node) = line.strip_prefix("Node ") {
            here = node.split(',').next().and_then(|n| n.parse().ok()).is_some_and(|n| nodes.contains(&n));
        } else if let Some(low) = line.trim_start().strip_prefix("low ").filter(|_| here) {
            pages += low.trim().parse().unwrap_or(0);
        }
    }
    pages * 4096
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of two tiers of the library, on nodes 0 and 1.
    pub(crate) fn two_tiers() -> Machine {
        let mut platform = platform::load("cxl-expander").unwrap();
        for (n, tier) in platform.tiers.iter_mut().enumerate() {
            tier.nodes = vec![n as u32];
        }
        Machine::of(platform).unwrap()
    }

    #[test]
    fn spaces_are_tiers() {
        let machine = two_tiers();
        let of = |n: u64| machine.tier(Space::of(n).unwrap());
        assert_eq!([of(1), of(2), of(16), of(17)], [Ok(0), Ok(0), Ok(0), Ok(1)]);
        assert_eq!(of(18), Err(Error::Tier));
        assert_eq!(
            (machine.tier_of_node(1), machine.tier_of_node(2), machine.tier_of_node(200)),
            (Some(1), None, None)
        );
    }

    #[test]
    fn this_machine_has_a_tier_with_free_memory() {
        let machine = Machine::find().unwrap();
        assert!(machine.free(0) > 0);
        assert_eq!(machine.free(7), 0);
    }

    #[test]
    fn watermarks_are_those_of_the_nodes() {
        let zones = "Node 0, zone      DMA\n  pages free     3840\n        min      10\n        low      12\n        high     15\n\
                     Node 0, zone   Normal\n        low      100\nNode 1, zone  Movable\n        low      7\n";
        assert_eq!([&[0][..], &[1], &[0, 1], &[2]].map(|n| kept_free_in(zones, n) / 4096), [112, 7, 119, 0]);
        assert_eq!(kept_free_in("Node x\n low many\n", &[0]), 0);
    }

    #[test]
    fn free_memory_is_read() {
        assert_eq!(free_in("Node 1 MemTotal: 100 kB\nNode 1 MemFree:       42 kB\n", "MemFree:"), Some(42 * 1024));
        assert_eq!(free_in("Node 1 MemTotal: 100 kB\n", "MemFree:"), None);
        assert_eq!(free_in("MemFree: many", "MemFree:"), None);
    }
}
