//! Ballast: memory that is taken so that a node has only so much left for the program.
//!
//! Node 0 also holds the kernel and its caches, so its size alone does not say what a program can have of it. What the
//! kernel gives a program from a node without reclaiming is, zone by zone, what is free above the low watermark and the
//! reserve for allocations that cannot go elsewhere (`__zone_watermark_ok` in mm/page_alloc.c, /proc/zoneinfo). Besides,
//! each CPU keeps free pages in a list of its own. Huge pages are taken into it by twos (`nr_pcp_alloc`), so that one may
//! stay there, where other CPUs and small pages cannot have it; ours are used up before the program starts.

use crate::Error;
use std::io;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const MPOL_BIND: libc::c_int = 2;

/// Memory held until dropped.
pub struct Ballast {
    node: u32,
    chunks: Vec<(*mut libc::c_void, u64)>,
    /// What the node has free for a program, in bytes, as read back from the kernel.
    pub left: u64,
}

impl Ballast {
    /// Takes memory of `node` until only `bytes` are free for programs.
    ///
    /// Errors: the node has less to begin with; memory cannot be taken.
    pub fn fill(node: u32, bytes: u64) -> Result<Ballast, Error> {
        let free = || {
            free_for_programs(node)
                .ok_or_else(|| Error(format!("the guest's kernel does not say what node {node} has free")))
        };
        let before = free()?;
        if before < bytes {
            return Err(Error(format!(
                "node {node} of the guest has {} free and {} are wanted: the lab made it too small",
                model::Bytes(before),
                model::Bytes(bytes)
            )));
        }
        let mut ballast = Ballast { node, chunks: Vec::new(), left: before };
        // Best effort: what is left shall be whole huge pages, as on a machine that has just booted.
        let _ = std::fs::write("/proc/sys/vm/compact_memory", "1");
        // What is mapped of files on the node, the kernel would reclaim for the program later. This process maps the same
        // libraries; what it maps stays.
        // SAFETY: changes nothing that is mapped.
        unsafe { libc::mlockall(libc::MCL_CURRENT) };
        // By huge pages as far as that goes; then by small ones, for which the kernel takes the pieces first. Of those it
        // gives at most a few at a time, so what is left comes near to what is wanted from above.
        let pieces = pieces(node).unwrap_or(0);
        for (chunk, page, near) in [
            (32 * HUGE, Page::Huge, pieces + 34 * HUGE),
            (HUGE, Page::Huge, pieces + 2 * HUGE),
            (HUGE, Page::Small, HUGE),
            (16 * PAGE, Page::Small, 16 * PAGE),
        ] {
            if page == Page::Small {
                ballast.use_up_lists()?;
            }
            while ballast.left > bytes + near {
                ballast.take(chunk.min(ballast.left - bytes), page)?;
                ballast.left = free()?;
            }
        }
        Ok(ballast)
    }

    fn take(&mut self, size: u64, page: Page) -> Result<(), Error> {
        let at = take(self.node, size, page)
            .map_err(|e| Error(format!("cannot take memory of the guest's node {}: {e}", self.node)))?;
        self.chunks.push((at, size));
        Ok(())
    }

    /// Takes the huge pages that the CPUs keep in their own lists.
    fn use_up_lists(&mut self) -> Result<(), Error> {
        let text = std::fs::read_to_string("/proc/zoneinfo").unwrap_or_default();
        // SAFETY: plain data, for which zero is the empty set.
        let mut before: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: sets of the size that is told.
        unsafe { libc::sched_getaffinity(0, size, &mut before) };
        for (cpu, pages) in kept_by_cpus(&text, self.node) {
            // SAFETY: as above, and the CPU is one of the guest's few.
            let pinned = unsafe {
                let mut only: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(cpu, &mut only);
                libc::sched_setaffinity(0, size, &only) == 0
            };
            for _ in 0..if pinned { pages * PAGE / HUGE } else { 0 } {
                self.take(HUGE, Page::Huge)?;
            }
        }
        // SAFETY: as above.
        unsafe { libc::sched_setaffinity(0, size, &before) };
        Ok(())
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        for &(at, size) in &self.chunks {
            // SAFETY: unmaps what `take` mapped; nobody else knows of it.
            unsafe { libc::munmap(at, size as usize) };
        }
    }
}

/// How memory is taken.
#[derive(Clone, Copy, PartialEq)]
enum Page {
    Huge,
    Small,
}

/// Free memory of the node in pieces smaller than a huge page, in bytes.
fn pieces(node: u32) -> Option<u64> {
    parse_buddies(&std::fs::read_to_string("/proc/buddyinfo").ok()?, node)
}

/// Reads /proc/buddyinfo: `Node 0, zone DMA32 N N N ...`, free blocks of 1, 2, 4, ... pages.
fn parse_buddies(text: &str, node: u32) -> Option<u64> {
    const HUGE_ORDER: usize = (HUGE / PAGE).trailing_zeros() as usize;
    let mut pages = 0;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.nth(1)?.trim_end_matches(',') == node.to_string() {
            for (order, blocks) in words.skip(2).take(HUGE_ORDER).enumerate() {
                pages += blocks.parse::<u64>().ok()? << order;
            }
        }
    }
    Some(pages * PAGE)
}

/// Maps memory, bound to the node, locked and there.
fn take(node: u32, bytes: u64, page: Page) -> io::Result<*mut libc::c_void> {
    let size = bytes as usize;
    // SAFETY: a new private mapping; then calls on exactly this mapping.
    unsafe {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mask = 1u64 << node;
        let advice = if page == Page::Huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        libc::madvise(at, size, advice);
        // Not even for the moment before the program: its memory may be moved to another node.
        libc::madvise(at, size, libc::MADV_DONTFORK);
        let bound = libc::syscall(libc::SYS_mbind, at, size, MPOL_BIND, &mask, 64u64, 0) == 0;
        if !bound || libc::mlock(at, size) != 0 {
            let error = io::Error::last_os_error();
            libc::munmap(at, size);
            return Err(error);
        }
        Ok(at)
    }
}

/// What a program gets from the node without reclaim, in bytes.
pub fn free_for_programs(node: u32) -> Option<u64> {
    parse_zones(&std::fs::read_to_string("/proc/zoneinfo").ok()?, node)
}

/// Reads /proc/zoneinfo: `Node 0, zone DMA32`, then `pages free N`, `low N`, `protection: (0, 1, 2, ...)`.
fn parse_zones(text: &str, node: u32) -> Option<u64> {
    let (mut pages, mut here, mut free, mut low) = (None, false, 0u64, 0u64);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(n)) => here = n.trim_end_matches(',') == node.to_string(),
            (Some("pages"), Some("free")) if here => free = words.next()?.parse().ok()?,
            (Some("low"), Some(n)) if here => low = n.parse().ok()?,
            (Some("protection:"), Some(_)) if here => {
                // Entry by the highest zone an allocation may use: DMA, DMA32, Normal. Programs' pages may use Normal.
                let reserve: u64 = line.split(['(', ',', ')']).nth(3)?.trim().parse().ok()?;
                *pages.get_or_insert(0) += free.saturating_sub(low + reserve);
            }
            _ => {}
        }
    }
    pages.map(|p: u64| p * PAGE)
}

/// Reads /proc/zoneinfo: `Node 0, zone DMA32`, then for each CPU `cpu: N` and `count: N`, the pages in its list. Gives CPU
/// and pages, zone by zone.
fn kept_by_cpus(text: &str, node: u32) -> Vec<(usize, u64)> {
    let (mut kept, mut here, mut cpu) = (Vec::new(), false, 0);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Node"), Some(n)) => here = n.trim_end_matches(',') == node.to_string(),
            (Some("cpu:"), Some(n)) => cpu = n.parse().unwrap_or(0),
            (Some("count:"), Some(n)) if here => kept.push((cpu, n.parse().unwrap_or(0))),
            _ => {}
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_blocks_smaller_than_a_huge_page() {
        let text = "\
Node 0, zone      DMA      1      0      0      0      0      0      0      0      1      9      3
Node 0, zone    DMA32      0      2      0      0      0      0      0      0      0      9      3
Node 1, zone   Normal      7      7      7      7      7      7      7      7      7      7      7
";
        assert_eq!(parse_buddies(text, 0), Some((1 + 256 + 4) * PAGE));
    }

    #[test]
    fn what_is_free_is_counted_zone_by_zone() {
        let text = "\
Node 0, zone      DMA
  per-node stats
      nr_inactive_anon 0
  pages free     3840
        boost    0
        min      30
        low      40
        high     50
        protection: (0, 400, 3900, 3900, 3900)
Node 0, zone    DMA32
  pages free     1000
        low      100
        protection: (0, 0, 0, 0, 0)
  pagesets
    cpu: 0
              count:    5
              high:     7
    cpu: 1
              count:    1
Node 1, zone   Normal
  pages free     7
        low      9
        protection: (0, 0, 0, 0, 0)
";
        assert_eq!(parse_zones(text, 0), Some(900 * PAGE));
        assert_eq!(kept_by_cpus(text, 0), [(0, 5), (1, 1)]);
        assert_eq!(parse_zones(text, 1), Some(0));
        assert_eq!(parse_zones(text, 2), None);
    }
}
