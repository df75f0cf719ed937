//! What was alive in a process before anybody listened, read from its own tables ([`wire::tables`]): a daemon that is started again finds the
//! programs of the one before.
//!
//! Nothing in the process takes part, and what it writes there is believed no more than its rings are: whatever it claims, so much is read and no
//! more.

use crate::rings::{ProcessFile, Taken, What, can_lie};
use model::{SiteId, SiteKind};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering::Relaxed;
use wire::process::MAX_TIERS;
use wire::tables::object;

const PAGE: u64 = 4096;
/// Most address space of a tier, and what of it is looked at; most sites and mappings.
const MOST_SPAN: u64 = 1 << 42;
const MOST_USED: u64 = 1 << 39;
const MOST_ENTRIES: u64 = 1 << 16;
/// Unused sites in a row.
const MOST_UNUSED: u32 = 64;
/// Most bytes of an entry.
const MOST_BYTES: u64 = 4096;
/// Most objects that are taken.
const MOST_OBJECTS: usize = 4 << 20;
/// Words of the table of objects that are read at once.
const WORDS: usize = 1 << 16;

/// The beginnings of all that is alive in a process, as if it were told at this time. The error is the kernel's: what it does not permit is to read the
/// memory of a process that is not a child.
pub fn alive(file: &ProcessFile, time: u64) -> io::Result<Vec<Taken>> {
    let tables = &file.header().tables;
    let memory = Memory(std::fs::File::open(format!("/proc/{}/mem", file.pid()))?);
    let get = |word: &std::sync::atomic::AtomicU64| word.load(Relaxed);
    let mut found = Vec::new();
    let (at, each) = (get(&tables.sites), get(&tables.site_bytes));
    let mut sites = Vec::new();
    if at != 0 && (8..=MOST_BYTES).contains(&each) {
        // An entry or two may be unused, where threads were at it at once; many are the end.
        let mut unused = 0;
        while unused < MOST_UNUSED && (sites.len() as u64) < MOST_ENTRIES {
            let id = memory.word(at.wrapping_add(sites.len() as u64 * each))?;
            unused = if id == 0 { unused + 1 } else { 0 };
            sites.push(id);
        }
    }
    let mut born = |addr: u64, size: u64, site: usize, kind: SiteKind| {
        if let Some(&site) = sites.get(site).filter(|id| **id != 0 && found.len() < MOST_OBJECTS && can_lie(addr, size))
        {
            let what = What::Alloc { addr, size, site: SiteId(site), tier: 0, realloc: false, kind, ended: None };
            found.push(Taken { tid: 0, time, what });
        }
    };
    let (range, span, table) = (get(&tables.range), get(&tables.tier_span), get(&tables.objects));
    if table != 0 && span <= MOST_SPAN {
        for tier in 0..MAX_TIERS as u64 {
            let used = match get(&tables.used[tier as usize]) {
                0 => 0,
                at => memory.word(at)?.min(span).min(MOST_USED),
            };
            let start = range.wrapping_add(tier * span);
            let first = table.wrapping_add(tier * span / PAGE * 8);
            let mut words = vec![0; WORDS];
            let mut done = 0;
            while done < used / PAGE {
                let count = (used / PAGE - done).min(WORDS as u64) as usize;
                memory.words(first.wrapping_add(done * 8), &mut words[..count])?;
                for (i, &word) in words[..count].iter().enumerate() {
                    if let Some((site, size)) = object(word) {
                        born(start.wrapping_add((done + i as u64) * PAGE), size, site, SiteKind::Allocation);
                    }
                }
                done += count as u64;
            }
        }
    }
    let (at, each) = (get(&tables.mappings), get(&tables.mapping_bytes));
    let table = if at == 0 { 0 } else { memory.word(at)? };
    if table != 0 && (24..=MOST_BYTES).contains(&each) {
        let used = memory.word(get(&tables.mappings_used))?.min(MOST_ENTRIES);
        for i in 0..used {
            let mut entry = [0; 3];
            memory.words(table.wrapping_add(i * each), &mut entry)?;
            let [start, end, site] = entry;
            if start != 0 && end > start {
                born(start, end - start, site as usize, SiteKind::Mapping);
            }
        }
    }
    Ok(found)
}

/// Another process's memory.
struct Memory(std::fs::File);

impl Memory {
    fn words(&self, at: u64, words: &mut [u64]) -> io::Result<()> {
        // SAFETY: words are bytes, and any bytes are words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast::<u8>(), size_of_val(words)) };
        self.0.read_exact_at(bytes, at)
    }

    fn word(&self, at: u64) -> io::Result<u64> {
        let mut word = [0];
        self.words(at, &mut word).map(|()| word[0])
    }
}
