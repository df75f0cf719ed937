//! Large objects in chunks, as the profile keeps them: what of each chunk is alive, resident and missed, of all objects of a site
//! and size class together. So a site has at most 32 rows for each size class, however many objects it makes and however long
//! the run is.

use crate::follow::Object;
use crate::misses::ChunkMisses;
use model::{Bytes, ChunkAt, SiteId, SizeClass};
use profile::{ChunkHeat, ChunkRow};
use std::collections::HashMap;

/// A chunk so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    peak: u64,
    alive: u64,
    byte_seconds: f64,
    /// Bytes found resident at the last reading, of all processes read at that moment, and the most at any.
    reading: Option<(u64, u64)>,
    resident: u64,
    heat: ChunkHeat,
}

/// The chunks of a site's objects of a size class.
#[derive(Clone, Debug)]
struct Cut {
    /// The sums are of the time up to this moment.
    since_ns: u64,
    chunks: [Sum; SizeClass::MOST],
    /// Something was added since they were told.
    changed: bool,
}

impl Default for Cut {
    fn default() -> Cut {
        Cut { since_ns: 0, chunks: [Sum::default(); SizeClass::MOST], changed: true }
    }
}

/// The chunks of a run.
#[derive(Debug, Default)]
pub struct Chunks(HashMap<(SiteId, SizeClass), Cut>);

impl Chunks {
    fn cut(&mut self, site: SiteId, class: SizeClass) -> &mut Cut {
        let cut = self.0.entry((site, class)).or_default();
        cut.changed = true;
        cut
    }

    /// An object came to life, or died.
    fn step(&mut self, o: &Object, time_ns: u64, change: impl Fn(&mut u64, u64)) {
        let Some(class) = SizeClass::of(Bytes(o.size)) else { return };
        let cut = self.cut(o.site, class);
        // Processes are followed one after the other, so their events come a little out of order.
        let seconds = time_ns.saturating_sub(cut.since_ns) as f64 / 1e9;
        cut.since_ns = cut.since_ns.max(time_ns);
        for (sum, at) in cut.chunks.iter_mut().zip(class.all()) {
            sum.byte_seconds += sum.alive as f64 * seconds;
            change(&mut sum.alive, at.of(Bytes(o.size)).0);
            sum.peak = sum.peak.max(sum.alive);
        }
    }

    /// An object came to life.
    pub fn born(&mut self, o: &Object) {
        self.step(o, o.alloc_ns, |alive, bytes| *alive = alive.saturating_add(bytes));
    }

    /// An object died, or its process ended.
    pub fn died(&mut self, o: &Object, time_ns: u64) {
        self.step(o, time_ns, |alive, bytes| *alive = alive.saturating_sub(bytes));
    }

    /// Misses were sampled.
    pub fn missed(&mut self, site: SiteId, at: ChunkAt, misses: &ChunkMisses) {
        let heat = &mut self.cut(site, at.class()).chunks[at.number()].heat;
        heat.load_misses += misses.load_weight as f64;
        heat.store_misses += misses.store_weight as f64;
        heat.samples += misses.samples;
    }

    /// Of a process's objects so many bytes were found resident.
    pub fn resident(&mut self, site: SiteId, at: ChunkAt, time_ns: u64, bytes: u64) {
        let sum = &mut self.cut(site, at.class()).chunks[at.number()];
        let others = sum.reading.filter(|(time, _)| *time == time_ns).map_or(0, |(_, bytes)| bytes);
        sum.reading = Some((time_ns, others + bytes));
        sum.resident = sum.resident.max(others + bytes);
    }

    /// Rows of all chunks of which something is known, of those cuts that have changed since the last call.
    pub fn changed(&mut self) -> impl Iterator<Item = (SiteId, ChunkRow)> + '_ {
        let changed =
            self.0.iter_mut().filter_map(|(key, cut)| std::mem::take(&mut cut.changed).then_some((key, &*cut)));
        changed.flat_map(|((site, class), cut)| {
            let since_ns = cut.since_ns;
            let row = move |(sum, at): (&Sum, ChunkAt)| ChunkRow {
                at,
                peak: sum.peak,
                alive: sum.alive,
                since_ns,
                byte_seconds: sum.byte_seconds,
                resident: sum.reading.map(|_| sum.resident),
                heat: sum.heat,
            };
            cut.chunks.iter().zip(class.all()).filter(|(sum, _)| sum.peak > 0).map(move |c| (*site, row(c)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SiteKind;

    const MIB: u64 = 1 << 20;

    fn object(size: u64, alloc_ns: u64) -> Object {
        let (site, kind) = (SiteId(7), SiteKind::Mapping);
        Object { id: 1, addr: 1 << 40, size, site, tier: 0, tid: 1, alloc_ns, realloc: false, kind }
    }
    fn rows(chunks: &mut Chunks) -> Vec<ChunkRow> {
        let mut rows: Vec<ChunkRow> = chunks.changed().map(|(_, row)| row).collect();
        rows.sort_by_key(|r| r.at);
        rows
    }

    #[test]
    fn objects_of_one_size_class_share_their_chunks() {
        let mut chunks = Chunks::default();
        let (whole, longer, other) = (object(64 * MIB, 0), object(90 * MIB, 1_000_000_000), object(32 * MIB, 0));
        [whole, longer, other, object(31 * MIB, 0)].iter().for_each(|o| chunks.born(o));
        chunks.died(&whole, 3_000_000_000);
        let all = rows(&mut chunks);
        // 16 chunks of 2 MiB, and 23 of 4 MiB, the last of them half.
        assert_eq!(all.len(), 16 + 23);
        let (first, last) = (&all[16], &all[16 + 22]);
        assert_eq!(
            (first.at.offset(), first.peak, first.alive, first.since_ns),
            (Bytes(0), 8 * MIB, 4 * MIB, 3_000_000_000)
        );
        assert_eq!(first.byte_seconds, 4.0 * MIB as f64 * (1.0 + 2.0 * 2.0));
        assert_eq!((last.at.offset(), last.peak, last.alive), (Bytes::mib(88), 2 * MIB, 2 * MIB));
        assert!(rows(&mut chunks).is_empty(), "told twice");
        chunks.died(&longer, 4_000_000_000);
        let again = rows(&mut chunks);
        assert_eq!((again.len(), again[0].alive, again[0].byte_seconds), (23, 0, 4.0 * MIB as f64 * 6.0));
    }

    #[test]
    fn readings_of_one_moment_add_up_and_the_largest_is_kept() {
        let mut chunks = Chunks::default();
        chunks.born(&object(64 * MIB, 0));
        let class = SizeClass::of(Bytes::mib(64)).expect("large enough");
        let at = class.at(Bytes::mib(5));
        for (time, bytes) in [(10, 100), (10, 50), (20, 120), (30, 0)] {
            chunks.resident(SiteId(7), at, time, bytes);
        }
        chunks.missed(SiteId(7), at, &ChunkMisses { samples: 3, load_weight: 20, store_weight: 10 });
        let all = rows(&mut chunks);
        assert_eq!((all[0].resident, all[1].resident), (None, Some(150)));
        assert_eq!(all[1].heat, ChunkHeat { load_misses: 20.0, store_misses: 10.0, samples: 3 });
    }
}
