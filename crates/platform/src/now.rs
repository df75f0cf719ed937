//! Memory of a node that is free at this moment, as whoever places something wants to know it.
//!
//! (A platform's `free` is another figure: it counts the page cache, which the kernel gives up only when it has to.)

use model::Bytes;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// A node of which it is asked again and again what is free: the kernel's file that says it stays open.
#[derive(Debug)]
pub struct Node {
    number: u32,
    file: Option<File>,
}

impl Node {
    /// The node of this number, which need not be there.
    pub fn new(number: u32) -> Node {
        let file = File::open(format!("/sys/devices/system/node/node{number}/meminfo"));
        // A kernel without NUMA has one node, and no files of it.
        let file = file.or_else(|e| if number == 0 { File::open("/proc/meminfo") } else { Err(e) });
        Node { number, file: file.ok() }
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Free memory, as the kernel says it; `None` if it does not.
    pub fn free(&self) -> Option<Bytes> {
        // It is in the second line.
        let mut text = [0; 256];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        free_in(&String::from_utf8_lossy(&text[..length]))
    }
}

/// Free memory of a node, asked once: for a library, which keeps no descriptors in a program that may close them.
pub fn free(node: u32) -> Option<Bytes> {
    Node::new(node).free()
}

/// Reads `Node 0 MemFree:  1024 kB`.
fn free_in(text: &str) -> Option<Bytes> {
    let rest = text.lines().find_map(|l| l.split_once("MemFree:"))?.1;
    rest.split_whitespace().next()?.parse().ok().map(Bytes::kib)
}

/// How much of these nodes the kernel keeps free: below their low watermarks it serves who only prefers them from others.
pub fn kept_free(nodes: &[u32]) -> Bytes {
    kept_free_in(&std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default(), nodes)
}

fn kept_free_in(zones: &str, nodes: &[u32]) -> Bytes {
    let mut here = false;
    let mut pages = 0;
    for line in zones.lines() {
        if let Some(node) = line.strip_prefix("Node ") {
            here = node.split(',').next().and_then(|n| n.parse().ok()).is_some_and(|n| nodes.contains(&n));
        } else if let Some(low) = line.trim_start().strip_prefix("low ").filter(|_| here) {
            pages += low.trim().parse().unwrap_or(0);
        }
    }
    Bytes(pages * 4096)
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
    fn watermarks_are_those_of_the_nodes() {
        let zones = "Node 0, zone      DMA\n  pages free     3840\n        min      10\n        low      12\n        high     15\n\
                     Node 0, zone   Normal\n        low      100\nNode 1, zone  Movable\n        low      7\n";
        assert_eq!([&[0][..], &[1], &[0, 1], &[2]].map(|n| kept_free_in(zones, n).0 / 4096), [112, 7, 119, 0]);
        assert_eq!(kept_free_in("Node x\n low many\n", &[0]), Bytes(0));
    }
}
