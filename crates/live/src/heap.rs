//! The C library's heap, in which everything below the threshold lies: no object of it is known, but samplers that give addresses tell which parts
//! of it are hot. So its parts are records.

use crate::table::{HUGE, PAGE, Record, Table};
use model::{Site, SiteId, SiteKind, SourceLine};
use std::ops::Range;
use wire::identity;

/// Bytes of a part: in smaller ones too few misses are seen, and none is to tear a huge page.
const PART: u64 = HUGE;
/// A program that keeps less in it has nothing there that is worth to be moved.
const LEAST: u64 = 1 << 20;
const NAME: &str = "heap of the C library";

/// What all its parts are of.
pub fn site() -> SiteId {
    SiteId(identity::name_id(NAME.as_bytes()))
}

/// What is shown of it.
pub fn named() -> Site {
    let frame = model::Frame { module: None, offset: 0, source: vec![SourceLine::named(NAME)] };
    Site { id: site(), kind: SiteKind::Mapping, apart: None, frames: vec![frame] }
}

/// Parts of the heap, which lies there now (in the order of addresses), that have no record yet; and the records of those that are not of it any more.
pub fn compare(heap: &[Range<u64>], table: &Table) -> (Vec<Range<u64>>, Vec<(u64, Record)>) {
    let site = site();
    // What holds objects of Hearth's heaps only looks like a heap of the C library's.
    let holds_objects = |h: &Range<u64>| {
        let mut inside = table.from(h.start).take_while(|(at, _)| *at < h.end);
        inside.any(|(_, r)| r.kind == SiteKind::Allocation)
    };
    let heap: Vec<_> = heap.iter().filter(|h| h.end - h.start >= LEAST && !holds_objects(h)).collect();
    // A program may have made very many that look so.
    let is_heap = |at: u64| heap.get(heap.partition_point(|h| h.end <= at)).is_some_and(|h| h.start <= at);
    let gone = table.iter().filter(|(at, r)| r.site == site && !is_heap(*at)).map(|(at, r)| (at, *r)).collect();
    let mut new = Vec::new();
    for h in &heap {
        let mut at = h.start.next_multiple_of(PAGE);
        while at < h.end {
            let known = table.from(at).next().filter(|(start, _)| *start < h.end);
            let free = known.map_or(h.end, |(start, _)| start);
            // A part ends where the next one would begin if it were whole: the heap grows.
            while at < free {
                let next = ((at / PART + 1) * PART).min(free);
                new.push(at..next);
                at = next;
            }
            at = known.map_or(h.end, |(start, r)| start + r.bytes().max(PAGE));
        }
    }
    (new, gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::record;

    #[test]
    fn parts_come_as_the_heap_grows_and_go_with_it() {
        let mut table = Table::default();
        let (start, other) = (PART / 2, 64 * PART);
        let small = 200 * PART..200 * PART + LEAST - PAGE;
        let mut told = |heap: &[Range<u64>]| {
            let (new, gone) = compare(heap, &table);
            let gone: Vec<u64> = gone.into_iter().map(|(at, _)| at).collect();
            gone.iter().for_each(|at| table.remove_one(*at));
            for part in &new {
                let kind = SiteKind::Mapping;
                table.add(part.start, part.end - part.start, u64::MAX / 2, Record::new(site(), kind, 1));
            }
            (new, gone)
        };
        let first = [start..PART, PART..PART + 3 * PAGE];
        assert_eq!(told(&[start..PART + 3 * PAGE, small.clone()]), (first.to_vec(), vec![]));
        assert_eq!(told(&[start..PART + 3 * PAGE, small.clone()]), (vec![], vec![]));
        let more = [PART + 3 * PAGE..2 * PART, 2 * PART..3 * PART, other..other + PART];
        assert_eq!(told(&[start..3 * PART, other..other + PART]), (more.to_vec(), vec![]));
        assert_eq!(told(&[start..3 * PART, small.clone()]), (vec![], vec![other]));
        // What has records already keeps them, and what holds objects is no heap of the C library's.
        table.add(other + PART, PART, PART, Record { kind: SiteKind::Mapping, ..record(0) });
        let beside = [other..other + PART, other + 2 * PART..other + 3 * PART];
        assert_eq!(compare(&[start..3 * PART, other..other + 3 * PART], &table), (beside.to_vec(), vec![]));
        table.add(other + 2 * PART, PAGE, PART, record(0));
        assert_eq!(compare(&[start..3 * PART, other..other + 3 * PART], &table), (vec![], vec![]));
    }
}
