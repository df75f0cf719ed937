//! Objects that came to life in this interval. Most die in it: they never become records (Flexible and Effective Object Tiering,
//! ISMM 2023, section 3.2.1).

use model::{SiteId, SiteKind};
use record::follow::Object;
use record::pick_up::Found;
use std::ops::Range;

/// More than these are not kept back: what was born first becomes a record early.
const MOST: usize = 1 << 20;

/// An object of this interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Born {
    /// Number of its process.
    pub process: u32,
    /// What it is.
    pub kind: SiteKind,
    /// Site that allocated it.
    pub site: SiteId,
    /// Address.
    pub addr: u64,
    /// Bytes; 0: it is dead.
    size: u64,
}

impl Born {
    /// An object that was found alive.
    pub fn found(process: usize, found: Found) -> Born {
        let Found { addr, size, site } = found;
        Born { process: process as u32, kind: SiteKind::Allocation, site, addr, size: size.max(1) }
    }

    /// Memory of a site that was found mapped.
    pub fn mapped(process: usize, site: SiteId, memory: Range<u64>) -> Born {
        let size = memory.end - memory.start;
        Born { process: process as u32, kind: SiteKind::Mapping, site, addr: memory.start, size }
    }

    /// Bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The objects of this interval, by their numbers.
#[derive(Debug, Default)]
pub struct Young {
    /// Number of the first.
    first: u64,
    objects: Vec<Born>,
}

impl Young {
    /// An object has come to life. Numbers only grow; those that are left out were never born.
    pub fn born(&mut self, process: usize, o: &Object) {
        if self.objects.is_empty() {
            self.first = o.id;
        }
        let place = (o.id.saturating_sub(self.first)) as usize;
        let (process, dead) = (process as u32, Born { process: 0, kind: o.kind, site: o.site, addr: 0, size: 0 });
        if place >= self.objects.len() && place < 2 * MOST {
            self.objects.resize(place, dead);
            self.objects.push(Born { process, size: o.size.max(1), addr: o.addr, ..dead });
        }
    }

    /// An object has died. Returns whether it was one of these.
    pub fn died(&mut self, o: &Object) -> bool {
        let place = o.id.checked_sub(self.first).and_then(|place| self.objects.get_mut(place as usize));
        match place {
            Some(born) if born.size > 0 && born.addr == o.addr => {
                born.size = 0;
                true
            }
            _ => false,
        }
    }

    /// So many have come that they should be taken before the interval ends.
    pub fn is_full(&self) -> bool {
        self.objects.len() >= MOST
    }

    /// Those that are alive; none is young any more.
    pub fn take(&mut self) -> impl Iterator<Item = Born> + use<> {
        std::mem::take(&mut self.objects).into_iter().filter(|b| b.size > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(id: u64) -> Object {
        let (site, kind) = (SiteId(id), SiteKind::Allocation);
        Object { id, addr: id * 4096, size: 100, site, tier: 0, tid: 1, alloc_ns: 0, realloc: false, kind }
    }

    #[test]
    fn only_those_that_live_on_are_taken() {
        let mut young = Young::default();
        [100, 101, 103].iter().for_each(|id| young.born(2, &object(*id)));
        assert!(young.died(&object(101)) && !young.died(&object(101)) && !young.died(&object(7)));
        assert!(!young.died(&object(102)), "never born");
        let alive: Vec<(u32, u64, u64)> = young.take().map(|b| (b.process, b.addr, b.size())).collect();
        assert_eq!(alive, [(2, 409_600, 100), (2, 103 * 4096, 100)]);
        assert!(!young.died(&object(100)) && young.take().next().is_none());
        young.born(0, &object(500));
        assert!(young.died(&object(500)));
    }
}
