//! What is alive in a process, read from its own tables ([`wire::tables`]): a daemon that is started again finds the programs of the one before,
//! and whoever wants to know once in a while what is alive need not be told of each beginning and end.
//!
//! Nothing in the process takes part, and what it writes there is believed no more than its rings are: whatever it claims, so much is read and no
//! more.

use crate::rings::{ProcessFile, can_lie};
use model::SiteId;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use wire::process::MAX_TIERS;
use wire::tables::{Tables, object};

const PAGE: u64 = 4096;
/// Most address space of a tier, and what of it is looked at; most sites and mappings.
const MOST_SPAN: u64 = 1 << 42;
const MOST_USED: u64 = 1 << 39;
const MOST_ENTRIES: usize = 1 << 16;
/// Most bytes of an entry.
const MOST_BYTES: u64 = 4096;
/// Most objects that are taken, and most words of the table that are looked at.
const MOST_OBJECTS: usize = 4 << 20;
const MOST_WORDS: u64 = 1 << 25;
/// Words of the table of objects that are read at once: few after a large object, as the next one may be as large, then twice as many each time. What is read of a table displaces what
/// the program has in the caches.
const WORDS: Range<usize> = 1 << 6..1 << 14;
/// An object is large that covers so many words beyond those that were read: to read a page takes as long as to begin anew.
const LARGE: u64 = PAGE / 8;

/// An object or a mapping that is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// First address.
    pub addr: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Site that allocated it.
    pub site: SiteId,
}

/// Ids of a process's sites by their indices, as far as they were asked for.
#[derive(Debug, Default)]
pub struct Sites(Vec<u64>);

/// A process that is looked into.
pub struct Reader<'a> {
    tables: &'a Tables,
    memory: Memory,
    sites: &'a mut Sites,
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Relaxed)
}

impl<'a> Reader<'a> {
    /// Begins to look. The error is the kernel's: what it does not permit is to read the memory of a process that is not a child.
    pub fn open(file: &'a ProcessFile, sites: &'a mut Sites) -> io::Result<Reader<'a>> {
        let memory = Memory(std::fs::File::open(format!("/proc/{}/mem", file.pid()))?);
        // It is the memory of the process that was there then: not of one that has come by its number since.
        if !file.is_owners() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Reader { tables: &file.header().tables, memory, sites })
    }

    /// The managed objects, in the order of their addresses.
    pub fn objects(&mut self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        let tables = self.tables;
        let (range, span, table) = (get(&tables.range), get(&tables.tier_span), get(&tables.objects));
        if table == 0 || span > MOST_SPAN {
            return Ok(found);
        }
        let mut words = vec![0; WORDS.end];
        let mut left = MOST_WORDS;
        for tier in 0..MAX_TIERS as u64 {
            let used = match get(&tables.used[tier as usize]) {
                0 => 0,
                at => self.memory.word(at)?.min(span).min(MOST_USED) / PAGE,
            };
            let start = range.wrapping_add(tier * span);
            let first = table.wrapping_add(tier * span / PAGE * 8);
            let (mut page, mut at_once) = (0, WORDS.start);
            while page < used && left > 0 {
                let (begin, count) = (page, (used - page).min(at_once as u64).min(left));
                left -= count;
                self.memory.words(first.wrapping_add(begin * 8), &mut words[..count as usize])?;
                while let Some(&word) = words[..count as usize].get((page - begin) as usize) {
                    let of_page = object(word);
                    if let Some((site, size)) = of_page {
                        self.add(&mut found, start.wrapping_add(page * PAGE), size, site)?;
                    }
                    // In an object no other one begins.
                    page += of_page.map_or(1, |(_, size)| size.div_ceil(PAGE).max(1));
                }
                at_once = if page >= begin + count + LARGE { WORDS.start } else { (2 * at_once).min(WORDS.end) };
            }
        }
        Ok(found)
    }

    /// The mappings.
    pub fn mappings(&mut self) -> io::Result<Vec<Found>> {
        let mut found = Vec::new();
        let (at, each) = (get(&self.tables.mappings), get(&self.tables.mapping_bytes));
        let table = if at == 0 { 0 } else { self.memory.word(at)? };
        if table != 0 && (24..=MOST_BYTES).contains(&each) {
            let used = self.memory.word(get(&self.tables.mappings_used))?.min(MOST_ENTRIES as u64);
            for i in 0..used {
                let mut entry = [0; 3];
                self.memory.words(table.wrapping_add(i * each), &mut entry)?;
                let [start, end, site] = entry;
                if start != 0 && end > start {
                    self.add(&mut found, start, end - start, site as usize)?;
                }
            }
        }
        Ok(found)
    }

    fn add(&mut self, found: &mut Vec<Found>, addr: u64, size: u64, site: usize) -> io::Result<()> {
        if found.len() < MOST_OBJECTS && can_lie(addr, size) {
            let site = self.site(site)?;
            found.extend(site.map(|site| Found { addr, size, site }));
        }
        Ok(())
    }

    /// The id of the site with this index; `None`: there is none.
    fn site(&mut self, index: usize) -> io::Result<Option<SiteId>> {
        let (at, each) = (get(&self.tables.sites), get(&self.tables.site_bytes));
        if at == 0 || !(8..=MOST_BYTES).contains(&each) || index >= MOST_ENTRIES {
            return Ok(None);
        }
        if self.sites.0.len() <= index {
            self.sites.0.resize(index + 1, 0);
        }
        if self.sites.0[index] == 0 {
            self.sites.0[index] = self.memory.word(at.wrapping_add(index as u64 * each))?;
        }
        Ok(Some(self.sites.0[index]).filter(|id| *id != 0).map(SiteId))
    }
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
