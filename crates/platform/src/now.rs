//! Memory of a node that is free at this moment, as whoever places something wants to know it.
//!
//! (A platform's `free` is another figure: it counts the page cache, which the kernel gives up only when it has to.)

use model::Bytes;

/// Free memory of a node, as the kernel says it; `None` if it does not.
pub fn free(node: u32) -> Option<Bytes> {
    match std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/meminfo")) {
        Ok(text) => free_in(&text),
        // A kernel without NUMA has one node, and no files of it.
        Err(_) if node == 0 => free_in(&std::fs::read_to_string("/proc/meminfo").ok()?),
        Err(_) => None,
    }
}

/// Reads `Node 0 MemFree:  1024 kB`.
fn free_in(text: &str) -> Option<Bytes> {
    let rest = text.lines().find_map(|l| l.split_once("MemFree:"))?.1;
    rest.split_whitespace().next()?.parse().ok().map(Bytes::kib)
}

/// How much of the free memory of these nodes programs do not get: below their zones' low watermarks the kernel serves who only prefers them from others, and
/// the lowest zones it keeps for devices (`protection`, sysctl vm.lowmem_reserve_ratio). As it is now; what is kept of a zone does not grow by more than that.
pub fn kept_free(nodes: &[u32]) -> Bytes {
    kept_free_in(&std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default(), nodes)
}

fn kept_free_in(zones: &str, nodes: &[u32]) -> Bytes {
    let mut here = false;
    let (mut free, mut low) = (0, 0);
    let mut pages: u64 = 0;
    for line in zones.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.trim_matches([',', '(', ')']).parse::<u64>().unwrap_or(0);
        match words[..] {
            ["Node", node, ..] => here = node.trim_end_matches(',').parse().is_ok_and(|n| nodes.contains(&n)),
            ["pages", "free", n] => free = number(n),
            ["low", n] => low = number(n),
            // The last is for what may come from any zone, as programs' memory does.
            ["protection:", .., last] if here => pages += low + free.saturating_sub(low).min(number(last)),
            _ => {}
        }
    }
    Bytes(pages.saturating_mul(4096))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_memory_is_read() {
        assert_eq!(free_in("Node 1 MemTotal: 100 kB\nNode 1 MemFree:       42 kB\n"), Some(Bytes::kib(42)));
        assert_eq!(free_in("Node 1 MemTotal: 100 kB\n"), None);
        assert_eq!(free_in("MemFree: many"), None);
        assert!(free(0).is_some_and(|f| f > Bytes(0)));
        assert_eq!(free(100_000), None);
    }

    #[test]
    fn what_is_kept_is_that_of_the_nodes_and_their_zones() {
        let zone = |name: &str, free: u64, low: u64, protection: u64| {
            format!(
                "Node {name}\n  pages free     {free}\n        min      1\n        low      {low}\n        high     90\n        protection: (0, {protection}, {protection})\n"
            )
        };
        let zones = [
            zone("0, zone      DMA", 3840, 12, 15000),
            zone("0, zone    DMA32", 9000, 30, 1000),
            zone("0, zone   Normal", 50, 100, 0),
            zone("1, zone  Movable", 70, 7, 0),
        ]
        .concat();
        let zero = 3840 + 1030 + 100;
        assert_eq!([&[0][..], &[1], &[0, 1], &[2]].map(|n| kept_free_in(&zones, n).0 / 4096), [zero, 7, zero + 7, 0]);
        assert_eq!(kept_free_in("Node x\n low many\n protection: (\n", &[0]), Bytes(0));
    }
}
