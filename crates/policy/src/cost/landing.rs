//! Where sites land when a plan gives a tier more than it holds.
//!
//! While a tier has room for all that is alive at once, everything lands where the plan says. Otherwise the run decides, as
//! `hearth run` does: in the order of allocation, object by object, and one that no longer fits goes to the next tier down. So of
//! a site with one object that does not fit nothing lands there, of one with many objects as many as find room.

use super::lives::Lives;
use super::{Shares, rest};
use crate::Task;
use std::collections::BTreeMap;

/// The shares of every site by the tiers that a plan gives them, and of the rest in what is left.
pub fn shares(task: &Task<'_>, at: &[usize]) -> Shares {
    let mut out = of_sites(task, at);
    rest::lands(task, &mut out);
    out
}

fn of_sites(task: &Task<'_>, at: &[usize]) -> Shares {
    let tiers = task.tiers.len();
    let mut out = Shares::whole(at, tiers);
    let full = |k: usize| task.tiers[k].budget.is_some_and(|b| task.lives().peak(|s| at[s] == k) > b.0);
    let Some(first) = (0..task.slowest()).find(|&k| full(k)) else { return out };
    let sites = &task.observed.sites;
    let mut order: Vec<usize> = (0..sites.len()).filter(|&i| at[i] >= first).collect();
    order.sort_by_key(|&i| (sites[i].first_alloc, sites[i].site.id));
    let mut rooms: Vec<Room> = task.tiers.iter().map(|t| Room::new(t.budget.map_or(u64::MAX, |b| b.0))).collect();
    for i in order {
        let (size, site) = (task.size(i).0, &sites[i]);
        let object = site.largest.0.clamp(1, size.max(1));
        let mut left = size;
        let mut shares = vec![0.0; tiers];
        for k in at[i]..tiers {
            let got = if k == task.slowest() {
                left
            } else {
                rooms[k].take(left, object, site.first_alloc.0, site.last_free.0)
            };
            shares[k] = if size > 0 { got as f64 / size as f64 } else { f64::from(u8::from(k == at[i])) };
            left -= got;
        }
        out.split(i, &shares);
    }
    out
}

/// True if what is alive at once fits every tier.
pub fn fits(task: &Task<'_>, lives: &Lives, at: &[usize]) -> bool {
    (0..task.tiers.len()).all(|k| task.tiers[k].budget.is_none_or(|b| lives.peak(|s| at[s] == k) <= b.0))
}

/// A tier being filled in the order of allocation.
pub struct Room {
    free: u64,
    /// When what was taken is given back; the number tells those of one moment apart.
    back: BTreeMap<(u64, usize), u64>,
}

impl Room {
    /// A tier of so many bytes.
    pub fn new(free: u64) -> Room {
        Room { free, back: BTreeMap::new() }
    }

    /// Takes as much of `size` as finds room in whole objects, from `from` to `to`; gives how much. Calls come in the order of `from`.
    pub fn take(&mut self, size: u64, object: u64, from: u64, to: u64) -> u64 {
        while let Some(first) = self.back.first_entry().filter(|e| e.key().0 < from) {
            self.free = self.free.saturating_add(first.remove());
        }
        let got = if size <= self.free { size } else { self.free / object * object };
        self.free -= got;
        if got > 0 {
            let number = self.back.len();
            *self.back.entry((to, number)).or_default() += got;
        }
        got
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_go_in_whole_and_come_back() {
        let mut room = Room::new(100);
        assert_eq!(room.take(60, 60, 0, 10), 60);
        assert_eq!(room.take(60, 60, 1, 10), 0, "one object that does not fit");
        assert_eq!(room.take(60, 15, 2, 20), 30, "two of four");
        assert_eq!(room.take(60, 60, 11, 20), 60, "the first is gone");
    }
}
