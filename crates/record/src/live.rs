//! The live objects of a process by address, ten million of them if need be. Those that came lately are kept as they are,
//! since most die young; the many that stay are packed, some twelve bytes each, in blocks of neighbours.
//!
//! Neighbours have much in common: they came from the same sites, one after the other. So a block has a column for each
//! thing that is known of an object, and in it what each has above the least, in as few bytes as the largest of them needs.

use crate::follow::Object;
use crate::leaves::Leaves;
use foldhash::HashMap;
use model::{SiteId, SiteKind};
use profile::estimate::PAGE;
use std::collections::BTreeMap;

/// With more objects than this kept as they are, the older half is packed.
const YOUNG: usize = 1 << 16;
/// Most objects of a block, as many as a `u128` has bits.
const FULL: usize = 128;

/// What many objects have in common.
type Label = (SiteId, u8, bool, SiteKind);

/// Address, size, label, thread, time, number.
const COLUMNS: usize = 6;
const ADDR: usize = 0;

/// What is known of an object, as numbers.
type Row = [u64; COLUMNS];

/// Objects side by side, in the order of their addresses.
#[derive(Debug)]
struct Block {
    /// Column after column, and a few bytes more, so that eight can be read from anywhere.
    bytes: Box<[u8]>,
    least: [u64; COLUMNS],
    /// Bytes of a value of each column.
    width: [u8; COLUMNS],
    len: u8,
    /// The objects that are dead, one bit each.
    dead: u128,
}

impl Block {
    /// Packs at most [`FULL`] rows that are sorted by address.
    fn new(rows: &[Row]) -> Block {
        let (mut least, mut width) = ([0; COLUMNS], [0; COLUMNS]);
        let mut bytes = Vec::with_capacity(16 * rows.len());
        for c in 0..COLUMNS {
            least[c] = rows.iter().map(|r| r[c]).min().unwrap_or(0);
            let most = rows.iter().map(|r| r[c] - least[c]).max().unwrap_or(0);
            width[c] = (u64::BITS - most.leading_zeros()).div_ceil(8) as u8;
            for r in rows {
                bytes.extend_from_slice(&(r[c] - least[c]).to_le_bytes()[..usize::from(width[c])]);
            }
        }
        bytes.extend_from_slice(&[0; 8]);
        Block { bytes: bytes.into(), least, width, len: rows.len() as u8, dead: 0 }
    }

    fn value(&self, column: usize, i: usize) -> u64 {
        let before: usize = self.width[..column].iter().map(|&w| usize::from(w)).sum();
        let (len, width) = (usize::from(self.len), usize::from(self.width[column]));
        let at = before * len + i * width;
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[at..at + 8]);
        let mask = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
        self.least[column] + (u64::from_le_bytes(word) & mask)
    }

    fn object(&self, i: usize, labels: &[Label]) -> Object {
        let [addr, size, label, tid, alloc_ns, id] = std::array::from_fn(|c| self.value(c, i));
        let (site, tier, realloc, kind) = labels[label as usize];
        Object { id, addr, size, site, tier, tid: tid as u32, alloc_ns, realloc, kind }
    }

    /// Those that are alive.
    fn rows(&self) -> Vec<Row> {
        let mut rows = [[0; COLUMNS]; FULL];
        let len = usize::from(self.len);
        let mut at = 0;
        for (c, &width) in self.width.iter().enumerate() {
            let mask = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
            for row in &mut rows[..len] {
                let mut word = [0; 8];
                word.copy_from_slice(&self.bytes[at..at + 8]);
                row[c] = self.least[c] + (u64::from_le_bytes(word) & mask);
                at += usize::from(width);
            }
        }
        self.alive().map(|i| rows[i]).collect()
    }

    /// Objects at this address or below, the dead too.
    fn up_to(&self, addr: u64) -> usize {
        let (mut low, mut high) = (0, usize::from(self.len));
        while low < high {
            let middle = (low + high) / 2;
            if self.value(ADDR, middle) <= addr { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The living object that begins at this address.
    fn place(&self, addr: u64) -> Option<usize> {
        let i = self.up_to(addr).checked_sub(1)?;
        (self.value(ADDR, i) == addr && !self.is_dead(i)).then_some(i)
    }

    fn is_dead(&self, i: usize) -> bool {
        self.dead >> i & 1 == 1
    }

    fn alive(&self) -> impl Iterator<Item = usize> + '_ {
        (0..usize::from(self.len)).filter(|&i| !self.is_dead(i))
    }
}

/// The live objects of a process.
#[derive(Debug, Default)]
pub struct Live {
    young: Leaves<Object>,
    /// How many there are.
    len: usize,
    /// By the address of its first object; a block reaches to the next one. None is empty.
    old: BTreeMap<u64, Block>,
    labels: Vec<Label>,
    numbers: HashMap<Label, u64>,
    /// Pages of live objects.
    pages: HashMap<SiteId, u64>,
}

/// Pages that an object lies on.
pub fn pages(o: &Object) -> u64 {
    o.addr.saturating_add(o.size).div_ceil(PAGE) - o.addr / PAGE
}

impl Live {
    /// Adds an object. Nothing else may be alive where it lies.
    pub fn insert(&mut self, object: Object) {
        *self.pages.entry(object.site).or_default() += pages(&object);
        self.len += usize::from(self.young.insert(object.addr, object).is_none());
        if self.young.len() > YOUNG {
            self.pack();
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The object that begins at this address.
    pub fn get(&self, addr: u64) -> Option<Object> {
        self.young.get(addr).copied().or_else(|| self.find(addr).map(|(block, i)| block.object(i, &self.labels)))
    }

    /// Removes the object that begins at this address.
    pub fn remove(&mut self, addr: u64) -> Option<Object> {
        self.remove_if(addr, |_| true)
    }

    /// Removes the object that begins at this address, if it is meant.
    pub fn remove_if(&mut self, addr: u64, meant: impl Fn(&Object) -> bool) -> Option<Object> {
        let object = match self.young.remove_if(addr, &meant) {
            Some(young) => young,
            // Nothing else is alive where a young one lies that is not meant.
            None => self.remove_old(addr, meant)?,
        };
        self.len -= 1;
        if let Some(n) = self.pages.get_mut(&object.site) {
            *n = n.saturating_sub(pages(&object));
            if *n == 0 {
                self.pages.remove(&object.site);
            }
        }
        Some(object)
    }

    /// The last object that begins at this address or below.
    pub fn at_or_below(&self, addr: u64) -> Option<Object> {
        let young = self.young.at_or_below(addr).map(|(_, o)| *o);
        // A block may hold none alive below the address; the one before it does.
        for (_, block) in self.old.range(..=addr).rev() {
            if let Some(i) = (0..block.up_to(addr)).rev().find(|&i| !block.is_dead(i)) {
                let nearer = young.filter(|o| o.addr > block.value(ADDR, i));
                return nearer.or_else(|| Some(block.object(i, &self.labels)));
            }
        }
        young
    }

    /// Pages of live objects by site.
    pub fn pages(&self) -> &HashMap<SiteId, u64> {
        &self.pages
    }

    /// Shows objects, some thousands at a time: `from` is where to go on, first `None`. Returns where to go on if there are
    /// more. The order is the same as long as nothing changes.
    pub fn show(&self, from: Option<u64>, see: &mut dyn FnMut(&Object)) -> Option<u64> {
        const BLOCKS: usize = 1 << 8;
        if from.is_none() {
            self.young.iter().for_each(|(_, o)| see(o));
        }
        let mut blocks = self.old.range(from.unwrap_or(0)..);
        for (_, block) in blocks.by_ref().take(BLOCKS) {
            block.alive().for_each(|i| see(&block.object(i, &self.labels)));
        }
        blocks.next().map(|(addr, _)| *addr)
    }

    /// An object among the packed ones: its block, and where in it.
    fn find(&self, addr: u64) -> Option<(&Block, usize)> {
        let (_, block) = self.old.range(..=addr).next_back()?;
        block.place(addr).map(|i| (block, i))
    }

    fn remove_old(&mut self, addr: u64, meant: impl Fn(&Object) -> bool) -> Option<Object> {
        let (&start, block) = self.old.range_mut(..=addr).next_back()?;
        let i = block.place(addr)?;
        let object = block.object(i, &self.labels);
        if !meant(&object) {
            return None;
        }
        block.dead |= 1 << i;
        let dead = block.dead.count_ones();
        if dead == u32::from(block.len) {
            self.old.remove(&start);
        } else if dead > u32::from(block.len) / 2 {
            if let Some(block) = self.old.remove(&start) {
                self.keep(&block.rows());
            }
        }
        Some(object)
    }

    /// Packs the older half of the young.
    fn pack(&mut self) {
        let mut ids: Vec<u64> = self.young.iter().map(|(_, o)| o.id).collect();
        let half = ids.len() / 2;
        let middle = *ids.select_nth_unstable(half).1;
        let (older, young): (Vec<Object>, Vec<Object>) =
            std::mem::take(&mut self.young).into_values().partition(|o| o.id < middle);
        young.into_iter().for_each(|o| _ = self.young.insert(o.addr, o));
        let older: Vec<Row> = older.iter().map(|o| self.row(o)).collect();
        let mut rest = &older[..];
        while let Some(&[first, ..]) = rest.first() {
            // With those of the block in whose range they lie.
            let start = self.old.range(..=first).next_back().map(|(addr, _)| *addr);
            let end = self.old.range(first.saturating_add(1)..).next().map_or(u64::MAX, |(addr, _)| *addr);
            let (here, others) = rest.split_at(rest.partition_point(|r| r[ADDR] < end).max(1));
            rest = others;
            match start.and_then(|start| self.old.remove(&start)) {
                Some(block) => {
                    let mut all = block.rows();
                    all.extend_from_slice(here);
                    all.sort_by_key(|r| r[ADDR]);
                    self.keep(&all);
                }
                None => self.keep(here),
            }
        }
    }

    fn row(&mut self, o: &Object) -> Row {
        let label = (o.site, o.tier, o.realloc, o.kind);
        let number = *self.numbers.entry(label).or_insert_with(|| {
            self.labels.push(label);
            self.labels.len() as u64 - 1
        });
        [o.addr, o.size, number, o.tid.into(), o.alloc_ns, o.id]
    }

    /// Packs rows that are sorted by address and lie between two blocks.
    fn keep(&mut self, rows: &[Row]) {
        let blocks = rows.len().div_ceil(FULL).max(1);
        for chunk in rows.chunks(rows.len().div_ceil(blocks).max(1)) {
            self.old.insert(chunk[0][ADDR], Block::new(chunk));
        }
    }

    /// Bytes of the packed objects, and their number.
    #[cfg(test)]
    fn packed(&self) -> (usize, usize) {
        let blocks = self.old.values();
        let size = |b: &Block| b.bytes.len() + size_of::<(u64, Block)>();
        blocks.fold((0, 0), |(bytes, n), b| (bytes + size(b), n + b.alive().count()))
    }
}

impl IntoIterator for Live {
    type Item = Object;
    type IntoIter = Box<dyn Iterator<Item = Object>>;

    /// All objects.
    fn into_iter(self) -> Self::IntoIter {
        let Live { young, old, labels, .. } = self;
        let packed = old
            .into_values()
            .flat_map(move |block| block.alive().map(|i| block.object(i, &labels)).collect::<Vec<Object>>());
        Box::new(young.into_values().chain(packed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u64, addr: u64, size: u64) -> Object {
        let kind = if id % 11 == 0 { SiteKind::Mapping } else { SiteKind::Allocation };
        let (site, tid) = (SiteId(id % 5), 1000 + (id % 3) as u32);
        Object {
            id,
            addr,
            size,
            site,
            tier: (id % 2) as u8,
            tid,
            alloc_ns: id.wrapping_mul(1_234),
            realloc: id % 7 == 0,
            kind,
        }
    }

    fn all(live: &Live) -> Vec<Object> {
        let (mut all, mut from) = (Vec::new(), None);
        loop {
            from = live.show(from, &mut |o| all.push(*o));
            if from.is_none() {
                all.sort_by_key(|o| o.addr);
                return all;
            }
        }
    }

    /// Beside a plain table, under every operation, in an order that reaches packed objects and young ones.
    #[test]
    fn it_is_a_table_by_address() {
        let (mut live, mut plain) = (Live::default(), BTreeMap::new());
        let mut random = 1u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        // Slots of 64 KiB, with objects of other sizes at other places in them.
        for id in 0..400_000 {
            let slot = next(150_000);
            let range = 0x7000_0000_0000 + (slot << 16)..0x7000_0000_0000 + ((slot + 1) << 16);
            if let Some((&addr, _)) = plain.range(range.clone()).next() {
                assert_eq!((live.get(addr), live.get(addr + 1)), (plain.get(&addr).copied(), None));
                assert_eq!(live.remove(addr), plain.remove(&addr));
                assert_eq!((live.get(addr), live.remove(addr)), (None, None));
            } else {
                let o = object(id, range.start + next(4) * 4096 + next(2) * 64, next(50_000));
                live.insert(o);
                plain.insert(o.addr, o);
            }
            let probe = 0x7000_0000_0000 + next(150_000 << 16);
            assert_eq!((live.len(), live.is_empty()), (plain.len(), plain.is_empty()));
            assert_eq!(live.at_or_below(probe), plain.range(..=probe).next_back().map(|(_, o)| *o));
        }
        assert!(live.packed().1 > 10_000, "{:?}", live.packed());
        let mut sums: HashMap<SiteId, u64> = HashMap::default();
        plain.values().for_each(|o| *sums.entry(o.site).or_default() += pages(o));
        assert_eq!(*live.pages(), sums);
        assert_eq!(all(&live), plain.values().copied().collect::<Vec<_>>());
        let mut rest: Vec<Object> = live.into_iter().collect();
        rest.sort_by_key(|o| o.addr);
        assert_eq!(rest, plain.into_values().collect::<Vec<_>>());
    }

    #[test]
    fn many_objects_take_few_bytes() {
        const COUNT: u64 = 1_000_000;
        let bytes = |live: &Live| live.packed().0 as f64 / live.packed().1 as f64;
        let mut live = Live::default();
        (0..COUNT).for_each(|i| live.insert(object(i, 0x7000_0000_0000 + i * 8192, 4096 + (i % 3) * 1000)));
        assert!(live.packed().1 as u64 > COUNT - 2 * YOUNG as u64);
        assert!(bytes(&live) < 12.0, "{}", bytes(&live));
        // After a while neighbours are of quite different ages.
        let mut at = 1;
        for id in COUNT..2 * COUNT {
            at = (at * 31 + 7) % COUNT;
            if let Some(old) = live.remove(0x7000_0000_0000 + at * 8192) {
                live.insert(Object { id, alloc_ns: id.wrapping_mul(1_234), ..old });
            }
        }
        assert!(bytes(&live) < 18.0, "{}", bytes(&live));
    }

    #[test]
    fn numbers_of_any_size_come_back() {
        let (mut live, mut count) = (Live::default(), 0);
        for i in 0..2 * YOUNG as u64 {
            let o = Object { size: (1 << 47) >> (i % 48), ..object(u64::MAX - i, i << 40, 0) };
            live.insert(o);
            count += 1;
        }
        assert_eq!(all(&live).len(), count);
        assert_eq!(live.get(1 << 40).map(|o| (o.id, o.size)), Some((u64::MAX - 1, 1 << 46)));
    }
}
