//! Residency: on which NUMA node the pages of live objects really are, asked of the kernel from outside.
//!
//! A reading looks at a bounded number of pages; of larger memory
//! every n-th page is looked at and stands for the others.

use crate::pages::{self, Refused};
use foldhash::HashMap;
use model::{Bytes, ChunkAt, SiteId, SizeClass};
use profile::estimate::PAGE;
use std::collections::BTreeMap;

/// Most pages one reading of one process looks at, save for [`FEWEST`] of every site.
const MOST: u64 = 8192;
/// Pages of a site that are looked at in any case (all, if it has fewer).
const FEWEST: u64 = 16;

/// Where one site's memory was at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SitePages {
    /// Pages looked at, by node; node -1: not present.
    pub looked_at: BTreeMap<i32, u64>,
    /// Pages the site has alive.
    pub pages: u64,
    /// The same by chunk of its large objects.
    pub chunks: BTreeMap<ChunkAt, ChunkPages>,
}

/// Where the pages of a chunk of a site's large objects were at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkPages {
    /// Pages alive.
    pub pages: u64,
    /// Pages looked at.
    pub looked_at: u64,
    /// Of these, those that are on any node.
    pub present: u64,
}

impl ChunkPages {
    /// Bytes resident, from the pages that were looked at; `None` if none was.
    pub fn resident(&self) -> Option<u64> {
        let bytes = u128::from(self.pages * PAGE) * u128::from(self.present);
        (self.looked_at > 0).then(|| (bytes / u128::from(self.looked_at)) as u64)
    }
}

impl SitePages {
    /// Share of the site's pages that was looked at.
    pub fn share(&self) -> f64 {
        self.looked_at.values().sum::<u64>() as f64 / self.pages.max(1) as f64
    }
    /// Bytes that `looked_at` pages stand for.
    pub fn bytes(&self, looked_at: u64) -> u64 {
        let all: u64 = self.looked_at.values().sum();
        (u128::from(self.pages * PAGE) * u128::from(looked_at) / u128::from(all.max(1))) as u64
    }
}

/// Which pages of a site are looked at.
#[derive(Debug)]
struct Choice {
    pages: u64,
    /// Every so many pages one is.
    step: u64,
    next: u64,
    /// Pages of objects that were seen already.
    before: u64,
    /// Pages of large objects, by chunk.
    chunks: BTreeMap<ChunkAt, ChunkPages>,
}

/// A reading of one process. Its objects are shown one by one, so that ten million of them need no memory, and the rings can be
/// emptied meanwhile.
#[derive(Debug)]
pub struct Reading {
    sites: HashMap<SiteId, Choice>,
    asked: Vec<(u64, SiteId, Option<ChunkAt>)>,
}

impl Reading {
    /// Of objects that lie on so many pages, by site.
    pub fn new(pages: &HashMap<SiteId, u64>) -> Reading {
        let total: u64 = pages.values().sum();
        let choice = |&pages: &u64| {
            let fair = (u128::from(MOST) * u128::from(pages) / u128::from(total.max(1))) as u64;
            let step = pages.div_ceil(fair.max(FEWEST)).max(1);
            // The middle of each step, so that neither the first pages nor the last are favoured.
            Choice { pages, step, next: step / 2, before: 0, chunks: BTreeMap::new() }
        };
        Reading { sites: pages.iter().map(|(site, pages)| (*site, choice(pages))).collect(), asked: Vec::new() }
    }

    /// Chooses among the pages of an object.
    pub fn object(&mut self, addr: u64, size: u64, site: SiteId) {
        let Some(c) = self.sites.get_mut(&site) else { return };
        let first = addr & !(PAGE - 1);
        let pages = (addr + size).div_ceil(PAGE) - first / PAGE;
        let class = SizeClass::of(Bytes(size));
        for (at, bytes) in class.into_iter().flat_map(|class| class.all().map(move |at| (at, at.of(Bytes(size)).0))) {
            if bytes > 0 {
                c.chunks.entry(at).or_default().pages += bytes.div_ceil(PAGE);
            }
        }
        while c.next < c.before + pages {
            let offset = (c.next - c.before) * PAGE;
            self.asked.push((first + offset, site, class.map(|class| class.at(Bytes(offset)))));
            c.next += c.step;
        }
        c.before += pages;
    }

    /// Asks where the chosen pages of this process are.
    pub fn ask(self, pid: i32) -> Result<HashMap<SiteId, SitePages>, Refused> {
        let blank = |c: Choice| SitePages { looked_at: BTreeMap::new(), pages: c.pages, chunks: c.chunks };
        let mut out: HashMap<SiteId, SitePages> = self.sites.into_iter().map(|(site, c)| (site, blank(c))).collect();
        let pages: Vec<u64> = self.asked.iter().map(|(page, ..)| *page).collect();
        for ((_, site, chunk), node) in self.asked.iter().zip(pages::look(pid, &pages)?) {
            let entry = out.entry(*site).or_default();
            *entry.looked_at.entry(node.max(-1)).or_default() += 1;
            if let Some(chunk) = chunk.and_then(|at| entry.chunks.get_mut(&at)) {
                chunk.looked_at += 1;
                chunk.present += u64::from(node >= 0);
            }
        }
        Ok(out)
    }
}

/// A process's anonymous memory that is resident, and how much of it is huge pages, in bytes; none if the kernel does not
/// tell (smaps_rollup, Linux 4.14).
pub fn memory(pid: i32) -> Option<(u64, u64)> {
    parse_rollup(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

/// Reads `Anonymous:    1024 kB` and `AnonHugePages:   0 kB`.
fn parse_rollup(text: &str) -> Option<(u64, u64)> {
    let bytes = |name: &str| {
        let rest = text.lines().find_map(|l| l.strip_prefix(name))?;
        Some(rest.split_whitespace().next()?.parse::<u64>().ok()? << 10)
    };
    Some((bytes("Anonymous:")?, bytes("AnonHugePages:")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_sums_are_read() {
        let text =
            "55-7f ---p 00000000 00:00 0  [rollup]\nRss:  5000 kB\nAnonymous:  3072 kB\nAnonHugePages:  2048 kB\n";
        assert_eq!(parse_rollup(text), Some((3 << 20, 2 << 20)));
        assert_eq!(parse_rollup("Rss: 1 kB\n"), None);
        let (anonymous, huge) = memory(std::process::id() as i32).expect("of this process");
        assert!(anonymous > 0 && huge <= anonymous);
    }

    #[test]
    fn touched_and_untouched_pages_are_told_apart() {
        let map = memmap2::MmapMut::map_anon(64 << 20).unwrap();
        let at = map.as_ptr() as u64;
        let mut map = map;
        map.advise(memmap2::Advice::NoHugePage).unwrap();
        map[..16 << 20].fill(1);
        let pid = std::process::id() as i32;
        let site = SiteId(1);
        let read = |pid| {
            let mut reading = Reading::new(&HashMap::from_iter([(site, (64 << 20) / PAGE)]));
            // Two objects: what is chosen goes on from one to the other.
            reading.object(at, 2 << 20, site);
            reading.object(at + (2 << 20), 62 << 20, site);
            reading.ask(pid)
        };
        let seen = match read(pid) {
            Ok(seen) => seen,
            Err(e) => panic!("the own pages cannot be read: {e:?}"),
        };
        let s = &seen[&site];
        let absent = s.looked_at[&-1];
        let all: u64 = s.looked_at.values().sum();
        assert!(all <= MOST + 1, "{all} pages for a budget of {MOST}");
        assert!((absent as f64 / all as f64 - 0.75).abs() < 0.01, "{absent} of {all} absent");
        assert!((s.bytes(absent) as f64 / (48 << 20) as f64 - 1.0).abs() < 0.01);
        // Of the second one the first 14 MiB are there, all of seven chunks of 2 MiB, and nothing of the others.
        let chunks: Vec<_> = s.chunks.iter().map(|(at, c)| (at.offset().0, c.resident())).collect();
        let there = |n: u64| Some(if n < 7 { 2 << 20 } else { 0 });
        assert_eq!(chunks, (0..31).map(|n| (n * (2 << 20), there(n))).collect::<Vec<_>>());
        assert_eq!(read(i32::MAX), Err(Refused::Gone));
    }
}
