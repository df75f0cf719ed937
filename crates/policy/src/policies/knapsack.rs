//! `knapsack`: the 0/1 knapsack problem solved by dynamic programming, tier by tier from the fastest.
//!
//! "Each allocation site is an item with a certain value (bandwidth) and weight (capacity)", and the total value is made as
//! large as it can be under the capacity (M. B. Olson, B. Kammerdiener, M. R. Jantz, K. A. Doshi, T. Jones: MemBrain on SICM,
//! paper "Portable Application Guidance for Complex Memory Systems", MEMSYS 2019, section 2.2.1). The value is the site's
//! weighted misses, as for `density`, so stores count as much as they cost.
//!
//! Dynamic programming needs whole weights: sizes are rounded up to a unit, a whole number of bytes so small that time and memory
//! allow. Where the unit is not a byte, what rounding has left free is filled by density, and if `density` alone would take more
//! value, its choice is taken: so this is never worse than that.

use super::density::{cold, heat};
use crate::{Decision, Error, Policy, Task};

/// Most cells (items times units of capacity) of the table: a bit each, and about a nanosecond.
const CELLS: u64 = 200_000_000;
/// Most units of capacity.
const UNITS: u64 = 1 << 20;

/// The classical 0/1 knapsack.
pub struct Knapsack;

impl Policy for Knapsack {
    fn name(&self) -> &'static str {
        "knapsack"
    }
    fn summary(&self) -> &'static str {
        "the sites that fit the fastest tier and together have the most misses"
    }
    fn source(&self) -> &'static str {
        "MemBrain on SICM (Olson et al., MEMSYS 2019), section 2.2.1: knapsack, by dynamic programming"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let mut placements = cold(task);
        let mut left = task.candidates();
        for k in 0..task.slowest() {
            task.by_density(&mut left, k);
            let items: Vec<(u64, f64)> = left.iter().map(|&i| (task.size(i).0, task.worth(i, k))).collect();
            let room = task.tiers[k].budget.map_or(u64::MAX, |b| b.0);
            let taken = choose(&items, room);
            let mut rest = Vec::new();
            for (rank, (&i, taken)) in left.iter().zip(taken).enumerate() {
                let heat = heat(&task.observed.sites[i], task.size(i), task.weights(k), rank + 1);
                placements[i].value = task.worth(i, k) / task.size(i).0 as f64;
                let name = &task.tiers[k].tier.name;
                if taken {
                    placements[i].tier = k;
                    placements[i].why = format!("{heat}; one of the set worth most that fits in {name}");
                } else {
                    placements[i].why = format!("{heat}; the set worth most that fits in {name} is without it");
                    rest.push(i);
                }
            }
            left = rest;
        }
        Ok(Decision::of(placements))
    }
}

/// Which items, of (size, value) in order of density, make the largest value within `room`.
pub(crate) fn choose(items: &[(u64, f64)], room: u64) -> Vec<bool> {
    let all: u64 = items.iter().map(|i| i.0).fold(0, u64::saturating_add);
    if all <= room {
        return vec![true; items.len()];
    }
    let greedy = fill(items, room, vec![false; items.len()]);
    // What does not fit alone is never taken.
    let fitting: Vec<usize> = (0..items.len()).filter(|&i| items[i].0 <= room).collect();
    let units = (CELLS / fitting.len().max(1) as u64).clamp(1, UNITS);
    let unit = room.div_ceil(units).max(1);
    let mut exact = vec![false; items.len()];
    for i in dynamic(&fitting.iter().map(|&i| (items[i].0.div_ceil(unit), items[i].1)).collect::<Vec<_>>(), room / unit)
    {
        exact[fitting[i]] = true;
    }
    let exact = fill(items, room, exact);
    let value = |taken: &[bool]| items.iter().zip(taken).filter(|(_, t)| **t).map(|(i, _)| i.1).sum::<f64>();
    if value(&exact) >= value(&greedy) { exact } else { greedy }
}

/// Adds items in their order as long as they fit.
fn fill(items: &[(u64, f64)], room: u64, mut taken: Vec<bool>) -> Vec<bool> {
    let mut free = room - items.iter().zip(&taken).filter(|(_, t)| **t).map(|(i, _)| i.0).sum::<u64>();
    for (item, taken) in items.iter().zip(&mut taken) {
        if !*taken && item.0 <= free {
            *taken = true;
            free -= item.0;
        }
    }
    taken
}

/// The items taken, exactly, for whole weights.
fn dynamic(items: &[(u64, f64)], room: u64) -> Vec<usize> {
    let width = room as usize + 1;
    let mut best = vec![0.0f64; width];
    let words = width.div_ceil(64);
    // Of each item, for which capacities it is taken.
    let mut taken = vec![0u64; words * items.len()];
    for (n, &(weight, value)) in items.iter().enumerate() {
        let weight = weight as usize;
        let row = &mut taken[n * words..][..words];
        for c in (weight..width).rev() {
            let with = best[c - weight] + value;
            if with > best[c] {
                best[c] = with;
                row[c / 64] |= 1 << (c % 64);
            }
        }
    }
    let mut c = room as usize;
    let mut chosen = Vec::new();
    for n in (0..items.len()).rev() {
        if taken[n * words + c / 64] >> (c % 64) & 1 == 1 {
            chosen.push(n);
            c -= items[n].0 as usize;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Greedy takes the densest (6 of 10) and nothing else fits; the two others are worth more together.
    #[test]
    fn the_densest_is_not_always_the_best() {
        let items = [(6, 13.0), (5, 10.0), (5, 10.0)];
        assert_eq!(choose(&items, 10), [false, true, true]);
        assert_eq!(choose(&items, 16), [true; 3]);
        assert_eq!(choose(&items, 4), [false; 3]);
    }

    /// With units of many bytes it is still within the room, and never worse than by density.
    #[test]
    fn rounding_never_overfills_and_never_loses_to_density() {
        let items: Vec<(u64, f64)> =
            (1..400u64).map(|n| (n * 7_919_993 % 90_000_001 + 1, (n * n % 71) as f64)).collect();
        let room = 1 << 30;
        let taken = choose(&items, room);
        let sum =
            |t: &[bool]| items.iter().zip(t).filter(|(_, t)| **t).fold((0, 0.0), |a, (i, _)| (a.0 + i.0, a.1 + i.1));
        let greedy = fill(&items, room, vec![false; items.len()]);
        assert!(sum(&taken).0 <= room && sum(&taken).1 >= sum(&greedy).1);
    }
}
