//! Ballast: memory that is taken so that a node has only so much left for the program.
//!
//! Node 0 also holds the kernel and its caches, so its size alone does not say what a program can have of it. What the
//! kernel gives a program from a node without reclaiming is, zone by zone, what is free above the low watermark and the
//! reserve for allocations that cannot go elsewhere (`__zone_watermark_ok` in mm/page_alloc.c, /proc/zoneinfo). Besides,
//! each CPU keeps free pages in a list of its own. Huge pages are taken into it by twos (`nr_pcp_alloc`), so that one may
//! stay there, where other CPUs and small pages cannot have it; ours are used up before the program starts.

use crate::Error;
use std::collections::HashMap;
use std::io;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
/// Free memory in pieces: more than is left in the end.
const PIECES: u64 = 6 << 20;
/// Turns in which an odd number of huge pages is looked for.
const TURNS: u32 = 4;
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
        ballast.make_pieces()?;
        // Huge pages first, then small ones, for which the kernel takes the pieces.
        ballast.take_down_to(bytes + 2 * HUGE, Page::Huge)?;
        ballast.use_up_lists()?;
        ballast.take_down_to(bytes, Page::Small)?;
        for _ in 0..TURNS {
            if ballast.no_huge_page_will_be_stuck() {
                break;
            }
            // The CPU's list takes two; with one of them back it has too many, and gives one back in turn.
            ballast.take(HUGE, Page::Huge)?;
            ballast.give_back();
            ballast.use_up_lists()?;
            ballast.give_back_halves(bytes);
            ballast.take_down_to(bytes, Page::Small)?;
        }
        Ok(ballast)
    }

    /// Takes until not much more than `bytes` are left.
    fn take_down_to(&mut self, bytes: u64, page: Page) -> Result<(), Error> {
        let (unit, most) = match page {
            Page::Huge => (HUGE, 32),
            Page::Small => (PAGE, 32),
        };
        loop {
            self.left = free_for_programs(self.node).unwrap_or(0);
            if self.left < bytes + unit {
                return Ok(());
            }
            self.take(((self.left - bytes) / 2 / unit).clamp(1, most) * unit, page)?;
        }
    }

    /// Where CPUs take huge pages by twos (not in the small zone `DMA`), an even number leaves the last one in a list.
    fn no_huge_page_will_be_stuck(&self) -> bool {
        let by_zone = free_huge_pages_by_zone(self.node);
        by_zone.iter().all(|(zone, &pages)| zone == "DMA" || pages == 0 || pages % 2 == 1)
    }

    fn take(&mut self, size: u64, page: Page) -> Result<(), Error> {
        let at = take(self.node, size, page)
            .map_err(|e| Error(format!("cannot take memory of the guest's node {}: {e}", self.node)))?;
        self.chunks.push((at, size));
        Ok(())
    }

    /// Gives the last chunk back.
    fn give_back(&mut self) {
        if let Some((at, size)) = self.chunks.pop() {
            // SAFETY: unmaps what `take` mapped; nobody else knows of it.
            unsafe { libc::munmap(at, size as usize) };
        }
    }

    /// Gives back until `bytes` are free: of small pages, and of each chunk the second half, so that they become no huge page.
    fn give_back_halves(&mut self, bytes: u64) {
        for (at, size) in self.chunks.iter_mut().rev().filter(|c| (2 * PAGE..HUGE).contains(&c.1)) {
            if free_for_programs(self.node).is_none_or(|left| left >= bytes) {
                return;
            }
            let keep = *size / 2 / PAGE * PAGE;
            // SAFETY: the end of what `take` mapped; nobody else knows of it.
            unsafe { libc::munmap(at.byte_add(keep as usize), (*size - keep) as usize) };
            *size = keep;
        }
    }

    /// Makes [`PIECES`] of free memory that is no huge page: of each 16 small pages all but one are given back.
    fn make_pieces(&mut self) -> Result<(), Error> {
        const RUN: u64 = 16 * PAGE;
        self.take(PIECES, Page::Small)?;
        let Some((at, _)) = self.chunks.pop() else { return Ok(()) };
        for offset in (0..PIECES).step_by(RUN as usize) {
            // SAFETY: a part of what `take` mapped; nobody else knows of it.
            let run = unsafe { at.byte_add(offset as usize) };
            // SAFETY: as above.
            unsafe { libc::munmap(run.byte_add(PAGE as usize), (RUN - PAGE) as usize) };
            self.chunks.push((run, PAGE));
        }
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
        while !self.chunks.is_empty() {
            self.give_back();
        }
    }
}

/// How memory is taken.
#[derive(Clone, Copy, PartialEq)]
enum Page {
    Huge,
    Small,
}

/// Huge pages that a program can get from the node without reclaim, by zone: what is whole and above the minimum.
fn free_huge_pages_by_zone(node: u32) -> HashMap<String, u64> {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let whole = whole_huge_pages(&read("/proc/buddyinfo"), node);
    let above = |z: &Zone| z.free.saturating_sub(z.min + z.reserve) * PAGE / HUGE;
    let of = |z: Zone| (whole.get(&z.name).map_or(0, |&w| w.min(above(&z))), z.name);
    zones(&read("/proc/zoneinfo"), node).into_iter().map(of).map(|(pages, name)| (name, pages)).collect()
}

/// Reads /proc/buddyinfo: `Node 0, zone DMA32 N N N ...`, free blocks of 1, 2, 4, ... pages. Gives whole free huge pages by
/// zone.
fn whole_huge_pages(text: &str, node: u32) -> HashMap<String, u64> {
    const HUGE_ORDER: usize = (HUGE / PAGE).trailing_zeros() as usize;
    let mut whole = HashMap::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.nth(1).is_some_and(|n| n.trim_end_matches(',') == node.to_string()) {
            let Some(zone) = words.nth(1) else { continue };
            let blocks = words.skip(HUGE_ORDER).map(|n| n.parse().unwrap_or(0));
            whole.insert(zone.to_string(), blocks.enumerate().map(|(order, n): (usize, u64)| n << order).sum());
        }
    }
    whole
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
    // CPUs count for themselves, up to half a MiB each, until they are asked.
    let _ = std::fs::read("/proc/sys/vm/stat_refresh");
    let zones = zones(&std::fs::read_to_string("/proc/zoneinfo").ok()?, node);
    let pages = |z: &Zone| z.free.saturating_sub(z.low + z.reserve);
    (!zones.is_empty()).then(|| zones.iter().map(|z| pages(z) * PAGE).sum())
}

/// One zone of a node; figures in pages.
#[derive(Debug, Default, PartialEq)]
struct Zone {
    name: String,
    free: u64,
    min: u64,
    low: u64,
    /// For allocations that cannot go elsewhere.
    reserve: u64,
}

/// Reads /proc/zoneinfo: `Node 0, zone DMA32`, then `pages free N`, `min N`, `low N`, `protection: (0, 1, 2, ...)`.
fn zones(text: &str, node: u32) -> Vec<Zone> {
    let (mut zones, mut here): (Vec<Zone>, bool) = (Vec::new(), false);
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let number = |word: Option<&str>| word.and_then(|w| w.parse().ok()).unwrap_or(0);
        match (words.next(), words.next(), zones.last_mut().filter(|_| here)) {
            (Some("Node"), Some(n), _) => {
                here = n.trim_end_matches(',') == node.to_string() && words.next() == Some("zone");
                if here {
                    zones.push(Zone { name: words.next().unwrap_or_default().into(), ..Zone::default() });
                }
            }
            (Some("pages"), Some("free"), Some(zone)) => zone.free = number(words.next()),
            (Some("min"), n, Some(zone)) => zone.min = number(n),
            (Some("low"), n, Some(zone)) => zone.low = number(n),
            (Some("protection:"), _, Some(zone)) => {
                // Entry by the highest zone an allocation may use: DMA, DMA32, Normal. Programs' pages may use Normal.
                zone.reserve = number(line.split(['(', ',', ')']).nth(3).map(str::trim));
            }
            _ => {}
        }
    }
    zones
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
    fn huge_pages_are_blocks_that_are_large_enough() {
        let text = "\
Node 0, zone      DMA      1      0      0      0      0      0      0      0      1      9      3
Node 0, zone    DMA32      0      2      0      0      0      0      0      0      0      9      3
Node 1, zone   Normal      7      7      7      7      7      7      7      7      7      7      7
";
        let whole = whole_huge_pages(text, 0);
        assert_eq!((whole.len(), whole["DMA"], whole["DMA32"]), (2, 9 + 2 * 3, 9 + 2 * 3));
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
        let zone = |name: &str, free, min, low, reserve| Zone { name: name.into(), free, min, low, reserve };
        assert_eq!(zones(text, 0), [zone("DMA", 3840, 30, 40, 3900), zone("DMA32", 1000, 0, 100, 0)]);
        assert_eq!(kept_by_cpus(text, 0), [(0, 5), (1, 1)]);
        assert_eq!(zones(text, 1), [zone("Normal", 7, 0, 9, 0)]);
        assert_eq!(zones(text, 2), []);
    }
}
