//! Whose is a miss? Follows the objects of one process beside the misses that were sampled in it, and counts these by
//! place and interval.
//!
//! A miss carries the time of its virtual CPU, an allocation that of the guest's clock, which is the time of the CPU that
//! is furthest. They agree to within [`TOLERANCE_NS`]. So an address at which nothing is alive is looked for among
//! objects that died a moment before, and once more a moment later, before it counts as nobody's.

use model::SiteId;
use profile::MISS_INTERVAL_NS;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;

/// The lab's virtual CPUs run 20 us apart at most (SYNC_PS in crates/lab/plugin); what the calibration of their clock and
/// the time from a call to its event add is far less.
pub const TOLERANCE_NS: u64 = 50_000;
/// Objects have their pages to themselves.
const PAGE: u64 = 4096;
/// Objects that are tried before all are searched: programs miss on few at a time.
const RECENT: usize = 8;
/// Slots of misses on no object.
const STACK: usize = 0;
const OTHER: usize = 1;

/// A sampled miss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Miss {
    /// ns since the start of the run.
    pub time_ns: u64,
    /// Address of the access.
    pub addr: u64,
    /// Time from issue to data, in ns; 0 for stores.
    pub latency_ns: u32,
    /// By a store.
    pub store: bool,
    /// The prefetcher had asked for the line before.
    pub ahead: bool,
}

/// Where misses fell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On an object of this site.
    Site(SiteId),
    /// On the stack of the main thread.
    Stack,
    /// On other memory: smaller objects, static variables, mapped files, stacks of other threads.
    Other,
}

/// Sampled misses on one place in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    /// By loads.
    pub loads: u64,
    /// By stores.
    pub stores: u64,
    /// Of both, those whose line the prefetcher had asked for.
    pub ahead: u64,
    /// Sum over loads of the time from issue to data, in ns.
    pub latency_ns: u64,
}

/// Memory of an object, to the end of its last page.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u64,
    end: u64,
    slot: usize,
}

impl Span {
    fn holds(&self, addr: u64) -> bool {
        (self.start..self.end).contains(&addr)
    }
}

/// The misses of one process.
#[derive(Debug)]
pub struct Misses {
    managed: Range<u64>,
    stack: Range<u64>,
    live: BTreeMap<u64, Span>,
    /// With the time of their death, oldest first.
    dead: VecDeque<(u64, Span)>,
    /// On managed memory where nothing was alive.
    early: VecDeque<Miss>,
    /// Objects that misses fell on lately, in the order in which they give way: the next miss is likely to fall on one.
    recent: [Span; RECENT],
    oldest: usize,
    places: Vec<Place>,
    slots: HashMap<SiteId, usize>,
    counts: Vec<Counts>,
    start_ns: u64,
    done: Vec<(Place, u64, Counts)>,
    counted: u64,
}

impl Misses {
    /// For a process with all its objects in the addresses `managed` and the main thread's stack within `stack`.
    pub fn new(managed: Range<u64>, stack: Range<u64>) -> Misses {
        Misses {
            managed,
            stack,
            live: BTreeMap::new(),
            dead: VecDeque::new(),
            early: VecDeque::new(),
            recent: [Span::default(); RECENT],
            oldest: 0,
            places: vec![Place::Stack, Place::Other],
            slots: HashMap::new(),
            counts: vec![Counts::default(); 2],
            start_ns: 0,
            done: Vec::new(),
            counted: 0,
        }
    }

    /// An object came to life. Births, deaths and misses are told in the order of their times.
    pub fn born(&mut self, addr: u64, size: u64, site: SiteId, time_ns: u64) {
        self.settle(time_ns);
        let slot = *self.slots.entry(site).or_insert_with(|| {
            self.places.push(Place::Site(site));
            self.counts.push(Counts::default());
            self.places.len() - 1
        });
        let end = addr.saturating_add(size.max(1)).div_ceil(PAGE).saturating_mul(PAGE);
        self.live.insert(addr, Span { start: addr, end, slot });
    }

    /// The object at this address died.
    pub fn died(&mut self, addr: u64, time_ns: u64) {
        self.settle(time_ns);
        self.recent.iter_mut().filter(|span| span.start == addr).for_each(|span| *span = Span::default());
        // Twice: a miss that came early is looked at again after one tolerance.
        while self.dead.front().is_some_and(|(died, _)| died + 2 * TOLERANCE_NS < time_ns) {
            self.dead.pop_front();
        }
        if let Some(span) = self.live.remove(&addr) {
            self.dead.push_back((time_ns, span));
        }
    }

    /// A miss.
    #[inline]
    pub fn miss(&mut self, miss: &Miss) {
        self.settle(miss.time_ns);
        if let Some(span) = self.recent.iter().find(|span| span.holds(miss.addr)) {
            self.count(span.slot, miss);
        } else if self.managed.contains(&miss.addr) {
            match self.find(miss.addr, miss.time_ns) {
                Some(slot) => self.count(slot, miss),
                None => self.early.push_back(*miss),
            }
        } else {
            self.count(if self.stack.contains(&miss.addr) { STACK } else { OTHER }, miss);
        }
    }

    /// Time has come so far: misses on memory in which no object has appeared since are nobody's.
    pub fn settle(&mut self, time_ns: u64) {
        while self.early.front().is_some_and(|m| m.time_ns.saturating_add(TOLERANCE_NS) < time_ns) {
            let Some(miss) = self.early.pop_front() else { return };
            let slot = self.find(miss.addr, miss.time_ns).unwrap_or(OTHER);
            self.count(slot, &miss);
        }
    }

    /// What was counted in intervals that are over: place, start of the interval, counts. `all`: in the current one too.
    /// One interval may come in several parts.
    pub fn take(&mut self, all: bool) -> Vec<(Place, u64, Counts)> {
        if all {
            self.close();
        }
        std::mem::take(&mut self.done)
    }

    /// Misses counted so far.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    fn find(&mut self, addr: u64, time_ns: u64) -> Option<usize> {
        let below = self.live.range(..=addr).next_back().map(|(_, span)| *span);
        if let Some(span) = below.filter(|s| s.holds(addr)) {
            self.recent[self.oldest] = span;
            self.oldest = (self.oldest + 1) % RECENT;
            return Some(span.slot);
        }
        let lately = |died: u64| time_ns <= died.saturating_add(TOLERANCE_NS);
        self.dead.iter().rev().find(|(died, span)| lately(*died) && span.holds(addr)).map(|(_, span)| span.slot)
    }

    #[inline]
    fn count(&mut self, slot: usize, miss: &Miss) {
        if miss.time_ns >= self.start_ns + MISS_INTERVAL_NS {
            self.close();
            self.start_ns = miss.time_ns / MISS_INTERVAL_NS * MISS_INTERVAL_NS;
        }
        let counts = &mut self.counts[slot];
        counts.loads += u64::from(!miss.store);
        counts.stores += u64::from(miss.store);
        counts.ahead += u64::from(miss.ahead);
        counts.latency_ns += u64::from(miss.latency_ns);
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

    const US: u64 = 1000;
    const A: SiteId = SiteId(7);
    const B: SiteId = SiteId(8);

    fn misses() -> Misses {
        Misses::new(0x10_0000..0x20_0000, 0x7000_0000..0x7001_0000)
    }
    fn load(time_ns: u64, addr: u64) -> Miss {
        Miss { time_ns, addr, latency_ns: 300, store: false, ahead: false }
    }
    fn loads(counted: &[(Place, u64, Counts)], place: Place) -> u64 {
        counted.iter().filter(|c| c.0 == place).map(|c| c.2.loads).sum()
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
        assert_eq!([Place::Stack, Place::Other, Place::Site(A)].map(|p| loads(&counted, p)), [1, 2, 0]);
    }

    #[test]
    fn counts_are_kept_by_interval() {
        let mut m = misses();
        m.born(0x10_0000, 4096, A, 0);
        m.miss(&Miss { store: true, latency_ns: 0, ..load(MISS_INTERVAL_NS - 1, 0x10_0000) });
        m.miss(&Miss { ahead: true, ..load(3 * MISS_INTERVAL_NS, 0x10_0000) });
        m.miss(&load(3 * MISS_INTERVAL_NS + 1, 0x10_0000));
        let first = Counts { stores: 1, ..Counts::default() };
        let second = Counts { loads: 2, ahead: 1, latency_ns: 600, ..Counts::default() };
        assert_eq!(m.take(false), [(Place::Site(A), 0, first)]);
        assert_eq!(m.take(true), [(Place::Site(A), 3 * MISS_INTERVAL_NS, second)]);
        assert_eq!(m.counted(), 3);
    }
}
