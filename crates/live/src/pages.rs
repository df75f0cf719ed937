//! Moves memory of another process. Addresses stay, and huge pages stay huge: of each two MiB the first page is moved by itself, with which a huge page
//! goes whole; what is then still elsewhere is moved page by page, a few at a time, since the kernel takes all pages of a call away from the process at once
//! and gives them back at its end.

use crate::table::{HUGE, PAGE};
use record::pages;
use record::pages::Sent;
pub use record::pages::{Refused, look};

/// Pages of one call. In the lab (`bench/live/moving`) those of one large call are away for 1.3 to 3 ms, 64 for 0.2 to 0.35 ms, at 0.88 of its pace to fast memory and 1.5 of it to slow memory,
/// since the kernel, which clears the new places of all of them first, still finds these in the cache when it copies. Fewer would be slower: each call drains the lists of all processors.
pub const STEP: usize = 64;

/// What came of moving a stretch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Pages that were present.
    pub present: u64,
    /// Of these, those that are on the wanted nodes now, as the kernel says.
    pub there: u64,
    /// Of these, those that were not there before.
    pub moved: u64,
    /// The kernel found no memory for the rest.
    pub full: bool,
}

/// Moves what is present of some stretches of memory to a node, and looks where it is; gives what came of each, without those after one for which the kernel found no memory. `fine`: whether
/// it is there already if it is on this node. A stretch is the address of a page and bytes; all together are to be 2 MiB at most.
pub fn send(pid: i32, stretches: &[(u64, u64)], to: u32, fine: impl Fn(u32) -> bool) -> Result<Vec<Moved>, Refused> {
    let pages = |(start, bytes): &(u64, u64)| (*start..start.saturating_add(*bytes)).step_by(PAGE as usize);
    let all: Vec<u64> = stretches.iter().flat_map(pages).collect();
    let is_there = |node: i32| u32::try_from(node).is_ok_and(&fine);
    let lacks = |nodes: &[i32]| nodes.iter().any(|n| *n >= 0 && !is_there(*n));
    let before = look(pid, &all)?;
    let whole = matches!(stretches, [(start, HUGE)] if start % HUGE == 0);
    let (mut now, mut full) = (before.clone(), false);
    if whole && now[0] >= 0 && !is_there(now[0]) {
        pages::send(pid, &all[..1], to)?;
        now = look(pid, &all)?;
    }
    if lacks(&now) {
        let away = |(page, node): (&u64, &i32)| (*node >= 0 && !is_there(*node)).then_some(*page);
        let rest: Vec<u64> = all.iter().zip(&now).filter_map(away).collect();
        // Each further call would take as long as the kernel looks for memory that it does not find.
        for step in rest.chunks(STEP) {
            full = pages::send(pid, step, to)? == Sent::Full;
            if full {
                break;
            }
        }
        now = look(pid, &all)?;
    }
    let (mut before, mut now) = (&before[..], &now[..]);
    let mut moved = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let count = pages(stretch).count();
        let (was, is);
        (was, before) = before.split_at(count);
        (is, now) = now.split_at(count);
        let full = full && lacks(is);
        let count =
            |of: &dyn Fn(i32, i32) -> bool| was.iter().zip(is).filter(|(was, is)| of(**was, **is)).count() as u64;
        moved.push(Moved {
            present: count(&|_, is| is >= 0),
            there: count(&|_, is| is_there(is)),
            moved: count(&|was, is| !is_there(was) && is_there(is)),
            full,
        });
        if full {
            break;
        }
    }
    Ok(moved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_own_process_are_found_and_stay_where_they_belong() {
        let map = memmap2::MmapMut::map_anon(4 << 20).expect("there is memory");
        let mut map = map;
        map[..1 << 20].fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        let pid = std::process::id() as i32;
        let node = look(pid, &[at]).expect("one may look at oneself")[0];
        assert!(node >= 0);
        let stretches = [(at, 1 << 20), (at + (2 << 20), PAGE), (at + PAGE, 2 * PAGE)];
        let moved = send(pid, &stretches, node as u32, |n| n == node as u32).expect("it is there already");
        assert!(moved.iter().all(|m| (m.there, m.moved, m.full) == (m.present, 0, false)));
        assert!(
            matches!(moved[..], [Moved { present: 255.., .. }, Moved { present: 0, .. }, Moved { present: 2, .. }]),
            "{moved:?}"
        );
        assert_eq!(send(i32::MAX, &[(at, PAGE)], 0, |_| false), Err(Refused::Gone));
    }
}
