//! The records: what is known of each object that is old enough to matter, or of each piece of a large one. By process and
//! address, some fifty bytes each.

use crate::item::Lies;
use model::{SiteId, SiteKind};
use policy::cost::moment::Lines;
use record::leaves::{self, Leaves};
use record::pick_up::Found;
use std::ops::Range;

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes of a huge page. Pieces of large objects begin at multiples of it, so that none is torn.
pub const HUGE: u64 = 2 << 20;
/// The tier of a record whose pages have not been looked up, or of which none is present.
pub const NOWHERE: u8 = u8::MAX;

/// [`Lines`] a second, packed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heat([f32; 5]);

impl From<Lines> for Heat {
    fn from(l: Lines) -> Heat {
        Heat([l.random, l.stream, l.stores, l.written, l.beside].map(|x| x as f32))
    }
}

impl Heat {
    /// Unpacked.
    pub fn lines(self) -> Lines {
        let [random, stream, stores, written, beside] = self.0.map(f64::from);
        Lines { random, stream, stores, written, beside }
    }
}

/// An object, or a piece of one. Its address is the key; it begins and ends at pages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    /// Site that allocated it.
    pub site: SiteId,
    /// Its length.
    pub pages: u32,
    /// The interval in which it came to life.
    pub born: u32,
    /// The last interval in which an access was seen; [`Record::born`] if none was.
    pub seen: u32,
    /// Aggregated accesses a second, as the aggregate routine leaves them.
    pub heat: Heat,
    /// Where most of its pages are, as an index into the platform's tiers; [`NOWHERE`] if that is not known.
    pub tier: u8,
    /// Share of its present pages that are there, in 255ths.
    pub there: u8,
    /// Share of its pages that are present, in 255ths.
    pub present: u8,
    /// What it is.
    pub kind: SiteKind,
    /// Its pages did not move when they were to: it is left alone for so many intervals.
    pub rest: u8,
    /// Intervals in which accesses were seen, as far as they can be counted.
    pub visited: u16,
}

impl Record {
    /// Of an object that came to life in this interval; its length is found when it is added.
    pub fn new(site: SiteId, kind: SiteKind, born: u32) -> Record {
        let heat = Heat::default();
        Record {
            site,
            pages: 0,
            born,
            seen: born,
            heat,
            tier: NOWHERE,
            there: 0,
            present: 0,
            kind,
            rest: 0,
            visited: 0,
        }
    }

    /// Bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages) * PAGE
    }

    /// Bytes of it that are present, as far as is known.
    pub fn resident(&self) -> u64 {
        self.bytes() * u64::from(self.present) / 255
    }

    /// Share of what is present that is in [`Record::tier`], 0 to 1.
    pub fn there(&self) -> f64 {
        f64::from(self.there) / 255.0
    }

    /// Where it is, of the process of this number; its tier is known.
    pub fn lies(&self, process: usize) -> Lies {
        Lies { process, bytes: self.resident(), tier: self.tier.into(), there: self.there() }
    }

    /// Bytes of it in each of so many tiers, as far as is known: what is not in its tier is taken to be in the slowest, or in the fastest.
    pub fn divided(&self, tiers: usize) -> impl Iterator<Item = (usize, u64)> + use<> {
        let tier = usize::from(self.tier);
        let there = (self.resident() as f64 * self.there()) as u64;
        let other = if tier == 0 { tiers.saturating_sub(1) } else { 0 };
        let parts = [(tier, there), (other, self.resident() - there)];
        parts.into_iter().filter(move |_| tier < tiers)
    }

    /// Takes note of where pages were found: by tier, and those that were asked for. Gives whether it was not known.
    pub fn found(&mut self, tiers: &[u64], asked: u64) -> bool {
        let before = (self.tier, self.there, self.present);
        let present: u64 = tiers.iter().sum();
        let share = |of: u64, all: u64| ((of * 255 + all / 2) / all.max(1)).min(255) as u8;
        match tiers.iter().enumerate().max_by_key(|(_, pages)| **pages) {
            Some((tier, &most)) if most > 0 => (self.tier, self.there) = (tier as u8, share(most, present)),
            _ => (self.tier, self.there) = (NOWHERE, 0),
        }
        // One page of many is present: it is not nothing.
        self.present = share(present, asked).max(u8::from(present > 0));
        before != (self.tier, self.there, self.present)
    }
}

/// The records of one process.
#[derive(Debug, Default)]
pub struct Table(Leaves<Record>);

impl Table {
    /// Adds an object, in pieces of `split` bytes if it is larger. Memory that is not whole pages is left out. Gives the memory that its records take.
    pub fn add(&mut self, addr: u64, size: u64, split: u64, record: Record) -> Range<u64> {
        let (start, end) = pages_of(addr, size, record.kind);
        let split = split.max(HUGE).next_multiple_of(HUGE);
        let mut at = start;
        while at < end {
            let next = if end - start <= split { end } else { ((at / split + 1) * split).min(end) };
            // Of a piece that is longer than 16 TiB nothing is known.
            let pages = u32::try_from((next - at) / PAGE).unwrap_or(u32::MAX);
            self.0.insert(at, Record { pages, ..record });
            at = next;
        }
        start..end
    }

    /// Removes all records of an object, and tells their addresses.
    pub fn remove(&mut self, addr: u64, size: u64, kind: SiteKind, mut each: impl FnMut(u64)) {
        let (mut start, end) = pages_of(addr, size, kind);
        // Most have one record, which is found at once.
        if let Some(record) = self.0.remove(start) {
            each(start);
            start += record.bytes();
        }
        if start < end {
            let next = |table: &Leaves<Record>| table.from(start).next().map(|(at, _)| at).filter(|at| *at < end);
            while let Some(at) = next(&self.0) {
                self.0.remove(at);
                each(at);
            }
        }
    }

    /// Removes one record.
    pub fn remove_one(&mut self, start: u64) {
        self.0.remove(start);
    }

    /// Told which managed objects are alive, in the order of their addresses: the records of those that are not any more, and objects that
    /// have none yet. An object that has come to lie where another one of its site and size was is that one, and one that has become smaller is
    /// what it was.
    pub fn compare(&self, alive: &[Found]) -> (Vec<(u64, Record)>, Vec<Found>) {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let mut records = self.0.iter().filter(|(_, r)| r.kind == SiteKind::Allocation).peekable();
        let mut own = Vec::new();
        for &object in alive {
            let (start, end) = pages_of(object.addr, object.size.max(1), SiteKind::Allocation);
            while let Some((at, r)) = records.next_if(|(at, _)| *at < start) {
                gone.push((at, *r));
            }
            own.clear();
            let mut until = start;
            while let Some((at, r)) = records.next_if(|(at, _)| *at < end) {
                until = if at == until && r.site == object.site { at + r.bytes() } else { u64::MAX };
                own.push((at, *r));
            }
            if until != end {
                gone.append(&mut own);
                new.push(object);
            }
        }
        gone.extend(records.map(|(at, r)| (at, *r)));
        (gone, new)
    }

    /// The record whose memory this address is in.
    pub fn at(&mut self, addr: u64) -> Option<(u64, &mut Record)> {
        let (start, record) = self.0.at_or_below_mut(addr)?;
        (addr - start < record.bytes()).then_some((start, record))
    }

    /// The record that begins here.
    pub fn get(&mut self, start: u64) -> Option<&mut Record> {
        self.0.get_mut(start)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &Record)> {
        self.0.iter()
    }

    /// All of them, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut Record)> {
        self.0.iter_mut()
    }

    /// Those from an address on.
    pub fn from(&self, addr: u64) -> impl Iterator<Item = (u64, &Record)> {
        self.0.from(addr)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// There is none.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The records of several tables, each with a number by which it is found at once. Who has the larger number has the later table, or the higher address.
pub struct Numbered<'a> {
    /// Leaves of the tables, each with the number of its table.
    leaves: Vec<(usize, Leaf<'a>)>,
}

/// Records with their addresses.
type Leaf<'a> = &'a [(u64, Record)];

/// Leaves whose records have numbers of 32 bits.
const MOST_LEAVES: usize = 1 << 26;

impl<'a> Numbered<'a> {
    /// Those of all these tables.
    pub fn new(tables: &'a [Table]) -> Numbered<'a> {
        let of = |(n, table): (usize, &'a Table)| table.0.leaves().map(move |leaf| (n, leaf));
        Numbered { leaves: tables.iter().enumerate().flat_map(of).take(MOST_LEAVES).collect() }
    }

    /// All of them in the order of their numbers: number, that of the table, address, record.
    pub fn iter(&self) -> impl Iterator<Item = (u32, usize, u64, &'a Record)> {
        let leaf = |(i, (table, leaf)): (usize, &(usize, Leaf<'a>))| {
            let (first, table) = (i * leaves::MOST, *table);
            leaf.iter().enumerate().map(move |(n, (addr, record))| ((first + n) as u32, table, *addr, record))
        };
        self.leaves.iter().enumerate().flat_map(leaf)
    }

    /// The one of a number that [`Numbered::iter`] has given: number of its table, address, record.
    pub fn at(&self, number: u32) -> (usize, u64, &'a Record) {
        let (table, leaf) = self.leaves[number as usize / leaves::MOST];
        let (addr, record) = &leaf[number as usize % leaves::MOST];
        (table, *addr, record)
    }
}

/// First page and the one after the last. Managed objects and mappings have their pages to themselves; of a static variable the
/// outer ones are its neighbours' too.
fn pages_of(addr: u64, size: u64, kind: SiteKind) -> (u64, u64) {
    let (down, up) = (|at: u64| at & !(PAGE - 1), |at: u64| at.div_ceil(PAGE) * PAGE);
    let end = addr.saturating_add(size).min(u64::MAX - HUGE);
    match kind {
        SiteKind::Static => (up(addr.min(end)), down(end)),
        _ => (down(addr), up(end)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn record(pages: u32) -> Record {
        let kind = SiteKind::Allocation;
        Record { pages, ..Record::new(SiteId(1), kind, 1) }
    }

    #[test]
    fn large_objects_are_cut_at_multiples_of_huge_pages() {
        let mut table = Table::default();
        let start = (1 << 40) + 3 * PAGE + 40;
        table.add(start, 9 << 20, 4 << 20, record(0));
        let pieces: Vec<(u64, u64)> = table.iter().map(|(at, r)| (at - (1 << 40), r.bytes())).collect();
        let first = 3 * PAGE;
        assert_eq!(pieces, [(first, (4 << 20) - first), (4 << 20, 4 << 20), (8 << 20, (1 << 20) + 4 * PAGE)]);
        assert_eq!(table.at(start + (5 << 20)).map(|(at, _)| at - (1 << 40)), Some(4 << 20));
        assert!(table.at(start - PAGE).is_none() && table.at(start + (10 << 20)).is_none());
        let mut gone = 0;
        table.remove(start, 9 << 20, SiteKind::Allocation, |_| gone += 1);
        assert_eq!(gone, 3);
        assert!(table.is_empty());
    }

    #[test]
    fn numbers_lead_to_records() {
        let mut tables = [Table::default(), Table::default(), Table::default()];
        (0..300u64).for_each(|n| _ = tables[0].add(n * 7919 % 300 * PAGE, PAGE, HUGE, record(0)));
        (0..100u64).for_each(|n| _ = tables[2].add(n * PAGE, PAGE, HUGE, record(0)));
        let numbered = Numbered::new(&tables);
        let all: Vec<(u32, usize, u64)> =
            numbered.iter().map(|(number, table, addr, _)| (number, table, addr)).collect();
        let places = (0..300).map(|n| (0, n * PAGE)).chain((0..100).map(|n| (2, n * PAGE)));
        assert!(all.iter().map(|(_, table, addr)| (*table, *addr)).eq(places));
        assert!(all.windows(2).all(|w| w[0].0 < w[1].0));
        assert!(all.iter().all(|&(number, table, addr)| {
            let (t, a, _) = numbered.at(number);
            (t, a) == (table, addr)
        }));
    }

    #[test]
    fn who_is_alive_tells_what_is_gone_and_what_is_new() {
        let mut table = Table::default();
        let of = |site: u64| Record { site: SiteId(site), ..record(0) };
        let found = |addr: u64, size: u64, site: u64| Found { addr, size, site: SiteId(site) };
        table.add(0x10_0000, 2 * PAGE, HUGE, of(1));
        table.add(0x20_0000, PAGE, HUGE, of(1));
        table.add(0x30_0000, PAGE, HUGE, of(1));
        table.add(0x40_0000, 3 * HUGE, HUGE, of(2));
        table.add(0xff_0000, PAGE, HUGE, Record { kind: SiteKind::Mapping, ..of(3) });
        let told = |alive: &[Found]| {
            let (gone, new) = table.compare(alive);
            (gone.iter().map(|(at, _)| *at).collect::<Vec<_>>(), new)
        };
        let same = [
            found(0x10_0000, PAGE + 1, 1),
            found(0x20_0000, 1, 1),
            found(0x30_0000, PAGE, 1),
            found(0x40_0000, 3 * HUGE, 2),
        ];
        assert_eq!(told(&same), (vec![], vec![]));
        let pieces = [0x40_0000, 0x60_0000, 0x80_0000];
        let first = |n: &[u64]| [n, &pieces].concat();
        assert_eq!(told(&[]), (first(&[0x10_0000, 0x20_0000, 0x30_0000]), vec![]));
        // One that was not there, one that is larger, one of another site, and one that has lost its last piece.
        let other = [
            found(0x0f_f000, PAGE, 9),
            found(0x10_0000, 3 * PAGE, 1),
            found(0x20_0000, PAGE, 2),
            found(0x40_0000, 2 * HUGE, 2),
        ];
        assert_eq!(told(&other), (vec![0x10_0000, 0x20_0000, 0x30_0000, 0x80_0000], other[..3].to_vec()));
    }

    #[test]
    fn small_ones_stay_whole_and_variables_give_up_shared_pages() {
        let mut table = Table::default();
        table.add(0x10_0000, 1, 1, record(0));
        table.add(0x20_0010, 3 * PAGE, 1 << 30, Record { kind: SiteKind::Static, ..record(0) });
        table.add(0x30_0010, 100, 1 << 30, Record { kind: SiteKind::Static, ..record(0) });
        let all: Vec<(u64, u32)> = table.iter().map(|(at, r)| (at, r.pages)).collect();
        assert_eq!(all, [(0x10_0000, 1), (0x20_1000, 2)]);
        assert_eq!(size_of::<Record>(), 48, "bytes of each of a million");
    }

    #[test]
    fn heat_survives_packing() {
        let lines = Lines { random: 1.5, stream: 2.0, stores: 3.0, written: 4.0, beside: 0.25 };
        assert_eq!(Heat::from(lines).lines(), lines);
    }

    #[test]
    fn where_pages_were_found_is_kept_as_shares() {
        let mut r = record(100);
        r.found(&[10, 30], 50);
        assert_eq!((r.tier, r.resident()), (1, 100 * PAGE * 204 / 255));
        assert!((r.there() - 0.75).abs() < 0.01);
        r.found(&[0, 0], 50);
        assert_eq!((r.tier, r.resident()), (NOWHERE, 0));
        r.found(&[1, 0], 5000);
        assert!(r.tier == 0 && r.resident() > 0);
    }
}
