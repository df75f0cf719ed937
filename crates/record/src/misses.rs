//! Whose is a miss? Follows the objects of one process beside the misses that were sampled in it, and counts these by
//! place and interval.
//!
//! A miss carries the time of its virtual CPU, an allocation that of the guest's clock, which is the time of the CPU that
//! is furthest. They agree to within [`TOLERANCE_NS`]. So an address at which nothing is alive is looked for among
//! objects that died a moment before, and once more a moment later, before it counts as nobody's.

use crate::follow::Object;
use crate::live::Live;
use crate::touches::{Touch, Touches};
use foldhash::HashMap;
use model::{Bytes, ChunkAt, SiteId, SizeClass};
use profile::miss_interval_ns;
use std::collections::VecDeque;
use std::ops::Range;

/// The lab's virtual CPUs run 20 us apart at most (SYNC_PS in crates/lab/plugin); what the calibration of their clock and
/// the time from a call to its event add is far less.
pub const TOLERANCE_NS: u64 = 50_000;
/// Objects have their pages to themselves.
const PAGE: u64 = 4096;
/// Misses in no mapping that are kept until the next look at the mappings.
const UNPLACED: usize = 1 << 14;
/// Objects that are tried before all are searched: programs miss on few at a time.
const RECENT: usize = 8;

/// A sampled miss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Miss {
    /// ns since the start of the run.
    pub time_ns: u64,
    /// Address of the access.
    pub addr: u64,
    /// Instruction that made it.
    pub ip: u64,
    /// Time from issue to data, in ns; 0 where the sampler does not tell, as for stores.
    pub latency_ns: u32,
    /// Of that the time in which no load before it was under way, if the sampler tells; the lab's does.
    pub alone_ns: Option<u32>,
    /// By a store.
    pub store: bool,
    /// The prefetcher had asked for the line before.
    pub ahead: bool,
    /// Misses that it stands for: the sampler's period. 0: it was no miss; it only tells where data came from and how fast.
    pub weight: u64,
    /// Where the data came from.
    pub source: Source,
    /// What moved.
    pub line: Line,
}

/// What a sample is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Line {
    /// A line that an access missed.
    #[default]
    Missed,
    /// A changed line that was written back; the lab's sampler tells.
    Written,
    /// A line that was read beside all misses: fetched ahead and not used, or by the kernel; the lab's sampler tells.
    Beside,
}

/// Where the data of an access came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The sampler does not tell.
    #[default]
    Unknown,
    /// The core's own first-level cache.
    L1,
    /// A line that was on its way already.
    Fill,
    /// The second-level cache.
    L2,
    /// The last-level cache.
    Llc,
    /// The cache of another core, cluster or socket.
    OtherCache,
    /// Memory of the socket.
    Memory,
    /// Memory of another socket.
    RemoteMemory,
    /// Persistent memory.
    Persistent,
    /// Memory behind a link (CXL).
    Linked,
    /// A device.
    Device,
}

impl Source {
    /// All of them, in the order of their numbers.
    pub const ALL: [Source; 11] = [
        Source::Unknown,
        Source::L1,
        Source::Fill,
        Source::L2,
        Source::Llc,
        Source::OtherCache,
        Source::Memory,
        Source::RemoteMemory,
        Source::Persistent,
        Source::Linked,
        Source::Device,
    ];

    /// Its name in the profile.
    pub fn name(self) -> &'static str {
        match self {
            Source::Unknown => "unknown",
            Source::L1 => "l1",
            Source::Fill => "fill-buffer",
            Source::L2 => "l2",
            Source::Llc => "llc",
            Source::OtherCache => "other-cache",
            Source::Memory => "memory",
            Source::RemoteMemory => "remote-memory",
            Source::Persistent => "persistent-memory",
            Source::Linked => "linked-memory",
            Source::Device => "device",
        }
    }

    /// Some memory, wherever it is: no cache had the line.
    pub fn is_memory(self) -> bool {
        matches!(self, Source::Memory | Source::RemoteMemory | Source::Persistent | Source::Linked)
    }
}

/// Where misses fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On an object of this site.
    Site(SiteId),
    /// On a stack.
    Stack,
    /// On the C library's heap: allocations below the threshold.
    Heap,
    /// On anonymous memory of another origin: mappings below the threshold or made by system calls of the program's own.
    Anonymous,
    /// On small static variables.
    Data,
    /// On a mapped file: code, read-only data, shared memory.
    File,
    /// On anything of a process that did not report: a short one, or what it did before its runtime was there.
    Unreported,
    /// Nobody knows.
    Other,
}

impl Place {
    const KINDS: [Place; 7] =
        [Place::Stack, Place::Heap, Place::Anonymous, Place::Data, Place::File, Place::Unreported, Place::Other];

    /// As it stands in a profile.
    pub fn name(self) -> &'static str {
        match self {
            Place::Site(_) => "object",
            Place::Stack => "stack",
            Place::Heap => "heap",
            Place::Anonymous => "anonymous",
            Place::Data => "data",
            Place::File => "file",
            Place::Unreported => "unreported",
            Place::Other => "other",
        }
    }
}

/// Sampled misses on one place in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// By loads.
    pub loads: u64,
    /// By stores.
    pub stores: u64,
    /// Misses that the samples by loads stand for.
    pub load_weight: u64,
    /// Misses that the samples by stores stand for.
    pub store_weight: u64,
    /// Of both, those whose line the prefetcher had asked for.
    pub ahead: u64,
    /// Sum over loads of the time from issue to data, in ns.
    pub latency_ns: u64,
    /// Of loads whose line nobody had asked for before: the sum of these times, and of those in which no load before was under way.
    pub lone_ns: u64,
    /// See `lone_ns`.
    pub alone_ns: u64,
    /// Lines that samples of lines written back stand for, and of lines read beside all misses.
    pub written: u64,
    /// See `written`.
    pub beside: u64,
}

/// Samples on one place, over the life of the process, whose data came from one source. Misses or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sourced {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Loads whose latency is known.
    pub timed: u64,
    /// Sum of their latencies, in ns.
    pub latency_ns: u64,
}

/// Sampled misses on a chunk of a site's large objects.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkMisses {
    /// Samples.
    pub samples: u64,
    /// Misses that those by loads stand for.
    pub load_weight: u64,
    /// Misses that those by stores stand for.
    pub store_weight: u64,
}

/// Memory of an object, to the end of its last page.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u64,
    end: u64,
    slot: usize,
    /// Of a large object: how it is cut, and the slot of its first chunk.
    cut: Option<(SizeClass, usize)>,
}

impl Span {
    fn holds(&self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }
    /// Slot of the chunk that an address of a large object is in.
    #[inline]
    fn chunk(&self, addr: u64) -> Option<usize> {
        self.cut.map(|(class, first)| first + class.at(Bytes(addr - self.start)).number())
    }
}

/// The misses of one process.
#[derive(Debug)]
pub struct Misses {
    /// What lies where that is no object, by address.
    regions: Vec<(Range<u64>, Place)>,
    /// With the time of their death, oldest first.
    dead: VecDeque<(u64, Span)>,
    /// Where nothing was alive.
    early: VecDeque<Miss>,
    /// Where nothing was at the last look either: it may have come since (a library that is being loaded).
    unplaced: Vec<Miss>,
    /// Objects that misses fell on lately, in the order in which they give way: the next miss is likely to fall on one.
    recent: [Span; RECENT],
    oldest: usize,
    places: Vec<Place>,
    slots: HashMap<SiteId, usize>,
    counts: Vec<Counts>,
    sources: Vec<[Sourced; Source::ALL.len()]>,
    /// What is cut: a site's objects of a size class. Each has the slots of all chunks that they can have.
    cuts: Vec<(SiteId, SizeClass)>,
    chunks: Vec<ChunkMisses>,
    touches: Touches,
    /// The current interval.
    start_ns: u64,
    end_ns: u64,
    done: Vec<(Place, u64, Counts)>,
    counted: u64,
}

impl Default for Misses {
    fn default() -> Misses {
        Misses::new()
    }
}

impl Misses {
    /// For a process; what is no object is told apart by [`Misses::regions`].
    pub fn new() -> Misses {
        Misses {
            regions: Vec::new(),
            dead: VecDeque::new(),
            early: VecDeque::new(),
            unplaced: Vec::new(),
            recent: [Span::default(); RECENT],
            oldest: 0,
            places: Place::KINDS.to_vec(),
            slots: HashMap::default(),
            counts: vec![Counts::default(); Place::KINDS.len()],
            sources: vec![Default::default(); Place::KINDS.len()],
            cuts: Vec::new(),
            chunks: Vec::new(),
            touches: Touches::default(),
            start_ns: 0,
            end_ns: 0,
            done: Vec::new(),
            counted: 0,
        }
    }

    /// What lies where, as far as it is no object: ranges that do not overlap, with their kind. Misses since the last time that were in none of the
    /// ranges of then are of these, if they lie there.
    pub fn regions(&mut self, mut regions: Vec<(Range<u64>, Place)>) {
        regions.sort_by_key(|r| r.0.start);
        self.regions = regions;
        self.place_all();
    }

    /// Misses in none of the ranges so far, if the process has become another program meanwhile: they are not counted here.
    pub fn take_unplaced(&mut self) -> Vec<Miss> {
        std::mem::take(&mut self.unplaced)
    }

    /// Counts what is not placed, in the intervals that it belongs to.
    fn place_all(&mut self) {
        if self.unplaced.is_empty() {
            return;
        }
        self.close();
        self.end_ns = 0;
        for miss in std::mem::take(&mut self.unplaced) {
            self.count(self.elsewhere(miss.addr), &miss);
        }
        self.close();
        self.end_ns = 0;
    }

    /// Slot of the first chunk of a site's objects of a size class.
    fn cut(&mut self, site: SiteId, class: SizeClass) -> usize {
        let known = self.cuts.iter().position(|c| *c == (site, class));
        SizeClass::MOST
            * known.unwrap_or_else(|| {
                self.cuts.push((site, class));
                self.chunks.resize(SizeClass::MOST * self.cuts.len(), ChunkMisses::default());
                self.cuts.len() - 1
            })
    }

    /// An object has died. Births, deaths and misses are told in the order of their times, and before a birth or a death
    /// comes [`Misses::settle`].
    pub fn died(&mut self, object: &Object, time_ns: u64) {
        let addr = object.addr;
        self.recent.iter_mut().filter(|span| span.start == addr).for_each(|span| *span = Span::default());
        // Twice: a miss that came early is looked at again after one tolerance.
        while self.dead.front().is_some_and(|(died, _)| died + 2 * TOLERANCE_NS < time_ns) {
            self.dead.pop_front();
        }
        let span = self.span(object);
        self.dead.push_back((time_ns, span));
    }

    fn span(&mut self, o: &Object) -> Span {
        let slot = *self.slots.entry(o.site).or_insert_with(|| {
            self.places.push(Place::Site(o.site));
            self.counts.push(Counts::default());
            self.sources.push(Default::default());
            self.places.len() - 1
        });
        let end = o.addr.saturating_add(o.size.max(1)).div_ceil(PAGE).saturating_mul(PAGE);
        let cut = SizeClass::of(Bytes(o.size)).map(|class| (class, self.cut(o.site, class)));
        Span { start: o.addr, end, slot, cut }
    }

    /// A miss, with the objects alive at its time.
    #[inline]
    pub fn miss(&mut self, miss: &Miss, live: &Live) {
        self.settle(miss.time_ns, live);
        if let Some(span) = self.recent.iter().find(|span| span.holds(miss.addr)) {
            let span = *span;
            self.count_in(&span, miss);
        } else {
            match self.find(miss.addr, miss.time_ns, live) {
                Some(span) => self.count_in(&span, miss),
                None => self.early.push_back(*miss),
            }
        }
    }

    /// Time has come so far, and these objects are alive: misses on memory in which none has appeared since are nobody's.
    pub fn settle(&mut self, time_ns: u64, live: &Live) {
        while self.early.front().is_some_and(|m| m.time_ns.saturating_add(TOLERANCE_NS) < time_ns) {
            let Some(miss) = self.early.pop_front() else { return };
            match self.find(miss.addr, miss.time_ns, live) {
                Some(span) => self.count_in(&span, &miss),
                None => self.place(&miss),
            }
        }
    }

    /// Counts a miss on no object, unless its place may yet be known.
    fn place(&mut self, miss: &Miss) {
        let slot = self.elsewhere(miss.addr);
        if self.places.get(slot) == Some(&Place::Other) && self.unplaced.len() < UNPLACED {
            self.unplaced.push(*miss);
        } else {
            self.count(slot, miss);
        }
    }

    /// What was counted in intervals that are over: place, start of the interval, counts. `all`: in the current one too.
    /// One interval may come in several parts.
    pub fn take(&mut self, all: bool) -> Vec<(Place, u64, Counts)> {
        if all {
            self.place_all();
            self.close();
        }
        std::mem::take(&mut self.done)
    }

    /// Where the data of the samples so far came from. What was taken does not come again.
    pub fn take_sources(&mut self) -> Vec<(Place, Source, Sourced)> {
        let mut out = Vec::new();
        for (place, sources) in self.places.iter().zip(&mut self.sources) {
            for (source, sourced) in Source::ALL.into_iter().zip(std::mem::take(sources)) {
                if sourced != Sourced::default() {
                    out.push((*place, source, sourced));
                }
            }
        }
        out
    }

    /// Misses on the chunks of large objects since the last call.
    pub fn take_chunks(&mut self) -> Vec<(SiteId, ChunkAt, ChunkMisses)> {
        let all = self.cuts.iter().flat_map(|(site, class)| class.all().map(move |at| (*site, at)));
        let taken = all.zip(&mut self.chunks).map(|((site, at), misses)| (site, at, std::mem::take(misses)));
        taken.filter(|(_, _, misses)| misses.samples > 0).collect()
    }

    /// Misses counted so far.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// By which instructions, since the last call.
    pub fn take_touches(&mut self) -> Vec<(Place, u64, Touch)> {
        self.touches.take()
    }

    fn find(&mut self, addr: u64, time_ns: u64, live: &Live) -> Option<Span> {
        let below = live.at_or_below(addr).map(|o| self.span(&o));
        if let Some(span) = below.filter(|s| s.holds(addr)) {
            self.recent[self.oldest] = span;
            self.oldest = (self.oldest + 1) % RECENT;
            return Some(span);
        }
        let lately = |died: u64| time_ns <= died.saturating_add(TOLERANCE_NS);
        self.dead.iter().rev().find(|(died, span)| lately(*died) && span.holds(addr)).map(|(_, span)| *span)
    }

    /// Slot of an address at which there is no object.
    fn elsewhere(&self, addr: u64) -> usize {
        let below = self.regions.partition_point(|r| r.0.start <= addr).checked_sub(1);
        let place = below.map(|i| &self.regions[i]).filter(|r| r.0.contains(&addr)).map_or(Place::Other, |r| r.1);
        Place::KINDS.iter().position(|k| *k == place).unwrap_or(Place::KINDS.len() - 1)
    }

    #[inline]
    fn count_in(&mut self, span: &Span, miss: &Miss) {
        self.count(span.slot, miss);
        if let Some(chunk) = span.chunk(miss.addr).filter(|_| miss.weight > 0 && miss.line == Line::Missed) {
            let chunk = &mut self.chunks[chunk];
            let weight = if miss.store { &mut chunk.store_weight } else { &mut chunk.load_weight };
            *weight = weight.saturating_add(miss.weight);
            chunk.samples += 1;
        }
    }

    #[inline]
    fn count(&mut self, slot: usize, miss: &Miss) {
        if miss.time_ns >= self.end_ns {
            self.close();
            let interval = miss_interval_ns(miss.time_ns);
            self.start_ns = miss.time_ns / interval * interval;
            self.end_ns = self.start_ns + interval;
        }
        match miss.line {
            Line::Missed => {}
            Line::Written => return self.counts[slot].written += miss.weight,
            Line::Beside => return self.counts[slot].beside += miss.weight,
        }
        let (load, store) = (u64::from(!miss.store), u64::from(miss.store));
        let latency_ns = load * u64::from(miss.latency_ns);
        let timed = u64::from(latency_ns > 0);
        let sourced = &mut self.sources[slot][miss.source as usize];
        sourced.loads += load;
        sourced.stores += store;
        sourced.timed += timed;
        sourced.latency_ns += latency_ns;
        let touch = Touch { loads: load, stores: store, misses: miss.weight, timed, latency_ns };
        self.touches.add(self.places[slot], miss.ip, &touch);
        if miss.weight == 0 {
            return;
        }
        let counts = &mut self.counts[slot];
        counts.loads += load;
        counts.stores += store;
        counts.load_weight = counts.load_weight.saturating_add(load * miss.weight);
        counts.store_weight = counts.store_weight.saturating_add(store * miss.weight);
        counts.ahead += u64::from(miss.ahead);
        counts.latency_ns += latency_ns;
        if let Some(alone_ns) = miss.alone_ns.filter(|_| !miss.ahead) {
            counts.lone_ns += latency_ns;
            counts.alone_ns += load * u64::from(alone_ns);
        }
        self.counted += 1;
    }

    fn close(&mut self) {
        for (place, counts) in self.places.iter().zip(&mut self.counts) {
            let counts = std::mem::take(counts);
            if counts != Counts::default() {
                self.done.push((*place, self.start_ns, counts));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SiteKind;

    const US: u64 = 1000;
    const A: SiteId = SiteId(7);
    const B: SiteId = SiteId(8);

    /// Misses with the objects that they fall on.
    struct Process(Misses, Live);
    impl Process {
        fn born(&mut self, addr: u64, size: u64, site: SiteId, alloc_ns: u64) {
            self.0.settle(alloc_ns, &self.1);
            let kind = SiteKind::Allocation;
            self.1.insert(Object { id: 1, addr, size, site, tier: 0, tid: 1, alloc_ns, realloc: false, kind });
        }
        fn died(&mut self, addr: u64, time_ns: u64) {
            self.0.settle(time_ns, &self.1);
            let object = self.1.remove(addr).unwrap();
            self.0.died(&object, time_ns);
        }
        fn miss(&mut self, miss: &Miss) {
            self.0.miss(miss, &self.1);
        }
        fn settle(&mut self, time_ns: u64) {
            self.0.settle(time_ns, &self.1);
        }
        fn take(&mut self, all: bool) -> Vec<(Place, u64, Counts)> {
            self.0.take(all)
        }
    }

    fn misses() -> Process {
        let mut misses = Misses::new();
        misses.regions(vec![(0x7000_0000..0x7001_0000, Place::Stack), (0x40_0000..0x41_0000, Place::File)]);
        Process(misses, Live::default())
    }
    fn load(time_ns: u64, addr: u64) -> Miss {
        let source = Source::Memory;
        Miss {
            time_ns,
            addr,
            ip: 0x5000,
            latency_ns: 300,
            alone_ns: Some(100),
            store: false,
            ahead: false,
            weight: 10,
            source,
            line: Line::Missed,
        }
    }
    fn loads(counted: &[(Place, u64, Counts)], place: Place) -> u64 {
        counted.iter().filter(|c| c.0 == place).map(|c| c.2.loads).sum()
    }

    /// A library that is loaded is used before the next look at the mappings.
    #[test]
    fn what_comes_to_lie_there_is_told_later() {
        let mut p = misses();
        let (loading, nothing) = (0x60_1000, 0x90_0000);
        for n in 0..10 {
            p.miss(&load(n * 100 * US, loading));
            p.miss(&load(n * 100 * US, nothing));
        }
        p.miss(&load(50_000 * US, 0x40_0100));
        p.settle(60_000 * US);
        let before = p.take(false);
        assert!(before.iter().all(|c| c.0 == Place::File), "{before:?}");
        p.0.regions(vec![(0x60_0000..0x61_0000, Place::Data), (0x40_0000..0x41_0000, Place::File)]);
        let then = p.take(false);
        assert_eq!([loads(&then, Place::Data), loads(&then, Place::Other)], [10, 10], "{then:?}");
        assert!(then.iter().filter(|c| c.0 != Place::File).all(|c| c.1 == 0), "at their time: {then:?}");
        // At the end nothing more is waited for.
        p.miss(&load(61_000 * US, nothing));
        p.settle(62_000 * US);
        assert_eq!(loads(&p.take(true), Place::Other), 1);
    }

    #[test]
    fn a_miss_belongs_to_the_object_that_was_alive_at_its_time_even_if_the_address_is_used_again() {
        let mut m = misses();
        m.born(0x10_0000, 5000, A, 0);
        m.miss(&load(200 * US, 0x10_1fff)); // in the object's last page, beyond its size
        m.miss(&load(400 * US, 0x10_0000));
        m.died(0x10_0000, 500 * US);
        m.born(0x10_0000, 5000, B, 500 * US);
        m.miss(&load(510 * US, 0x10_1fff));
        m.settle(u64::MAX);
        let counted = m.take(true);
        assert_eq!((loads(&counted, Place::Site(A)), loads(&counted, Place::Site(B))), (2, 1));
    }

    #[test]
    fn clocks_that_disagree_by_less_than_the_tolerance_do_no_harm_and_by_more_are_not_believed() {
        let mut m = misses();
        m.miss(&load(30 * US, 0x10_0000));
        m.miss(&load(60 * US, 0x10_0000));
        m.born(0x10_0000, 4096, A, 100 * US);
        m.died(0x10_0000, 300 * US);
        m.miss(&load(340 * US, 0x10_0000));
        m.miss(&load(360 * US, 0x10_0000));
        m.settle(1000 * US);
        let counted = m.take(true);
        assert_eq!((loads(&counted, Place::Site(A)), loads(&counted, Place::Other)), (2, 2));
    }

    #[test]
    fn what_is_no_object_has_its_kind() {
        let mut m = misses();
        m.born(0x10_0000, 4096, A, 0);
        for addr in [0x7000_1000, 0x40_0000, 0x10_2000] {
            m.miss(&load(US, addr));
        }
        m.settle(u64::MAX);
        let counted = m.take(true);
        assert_eq!([Place::Stack, Place::File, Place::Other, Place::Site(A)].map(|p| loads(&counted, p)), [1, 1, 1, 0]);
    }

    #[test]
    fn misses_on_large_objects_are_kept_by_chunk_however_the_object_lies() {
        let mut m = misses();
        const MIB: u64 = 1 << 20;
        let (first, second) = (0x7f00_0000_0000, 0x7f10_0000_3000);
        m.born(first, 64 * MIB, A, 0);
        m.born(second, 64 * MIB + 1, A, 0);
        m.born(0x10_0000, 4096, A, 0);
        m.miss(&load(US, first + 9 * MIB));
        m.miss(&Miss { store: true, ..load(2 * US, second + 9 * MIB) });
        m.miss(&load(3 * US, second + 64 * MIB + 4095)); // beyond its size, in its last page
        m.miss(&Miss { weight: 0, ..load(4 * US, first) });
        m.miss(&load(5 * US, 0x10_0000));
        let class = SizeClass::of(Bytes::mib(64)).expect("large enough");
        let at = |mib| class.at(Bytes::mib(mib));
        let seen = |samples, load_weight, store_weight| ChunkMisses { samples, load_weight, store_weight };
        assert_eq!(m.0.take_chunks(), [(A, at(9), seen(2, 10, 10)), (A, at(64), seen(1, 10, 0))]);
        m.died(first, 6 * US);
        m.miss(&load(7 * US, first));
        assert_eq!(m.0.take_chunks(), [(A, at(0), seen(1, 10, 0))], "it died just now");
    }

    #[test]
    fn counts_are_kept_by_interval() {
        const MISS_INTERVAL_NS: u64 = profile::MISS_INTERVAL_NS;
        let mut m = misses();
        m.born(0x10_0000, 4096, A, 0);
        m.miss(&Miss { store: true, latency_ns: 0, ..load(MISS_INTERVAL_NS - 1, 0x10_0000) });
        m.miss(&Miss { ahead: true, ..load(3 * MISS_INTERVAL_NS, 0x10_0000) });
        m.miss(&load(3 * MISS_INTERVAL_NS + 1, 0x10_0000));
        let first = Counts { stores: 1, store_weight: 10, ..Counts::default() };
        let (latency_ns, lone_ns, alone_ns) = (600, 300, 100);
        let second = Counts { loads: 2, load_weight: 20, ahead: 1, latency_ns, lone_ns, alone_ns, ..Counts::default() };
        assert_eq!(m.take(false), [(Place::Site(A), 0, first)]);
        assert_eq!(m.take(true), [(Place::Site(A), 3 * MISS_INTERVAL_NS, second)]);
        assert_eq!(m.0.counted(), 3);
    }

    #[test]
    fn lines_that_move_beside_misses_are_no_misses() {
        const MIB: u64 = 1 << 20;
        let mut m = misses();
        m.born(0x7f00_0000_0000, 64 * MIB, A, 0);
        let moved = |line| Miss { line, ip: 0, latency_ns: 0, ..load(US, 0x7f00_0000_0000 + MIB) };
        [Line::Written, Line::Written, Line::Beside].iter().for_each(|line| m.miss(&moved(*line)));
        let counts = Counts { written: 20, beside: 10, ..Counts::default() };
        assert_eq!(m.take(true), [(Place::Site(A), 0, counts)]);
        assert_eq!((m.0.counted(), m.0.take_chunks(), m.0.take_sources()), (0, vec![], vec![]));
        assert!(m.0.take_touches().is_empty());
    }

    #[test]
    fn samples_that_are_no_misses_only_tell_where_data_came_from() {
        let mut m = misses();
        m.born(0x10_0000, 4096, A, 0);
        m.miss(&load(US, 0x10_0000));
        m.miss(&Miss { weight: 0, latency_ns: 40, source: Source::Llc, ..load(2 * US, 0x10_0000) });
        m.miss(&Miss { weight: 0, latency_ns: 0, store: true, source: Source::L1, ..load(3 * US, 0x10_0000) });
        m.settle(u64::MAX);
        let counted = m.take(true);
        assert_eq!((counted.len(), counted[0].2.load_weight, m.0.counted()), (1, 10, 1));
        let place = Place::Site(A);
        let load = |latency_ns| Sourced { loads: 1, timed: 1, latency_ns, ..Sourced::default() };
        let stored = Sourced { stores: 1, ..Sourced::default() };
        let expected =
            [(place, Source::L1, stored), (place, Source::Llc, load(40)), (place, Source::Memory, load(300))];
        assert_eq!(m.0.take_sources(), expected);
        assert!(m.0.take_sources().is_empty(), "sources come once");
        assert!(Source::ALL.iter().enumerate().all(|(i, &s)| s as usize == i), "numbers are places in the table");
    }
}
