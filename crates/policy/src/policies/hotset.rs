//! `hotset`: sites by bandwidth per byte until their sum is just past the capacity.
//!
//! "Hotset simply sorts sites by their bandwidth per unit capacity, and selects sites until their aggregate size exceeds a soft
//! capacity limit [...] hotset stops adding the sorted sites after the total weight is just past C" (MemBrain on SICM, section
//! 2.2.1). So the last site of a tier is larger than what is left of it; its first pages find room, the others fall back.
//! Knapsack and `density` would leave such a site out on the basis of its size alone.

use super::density::{cold, heat};
use crate::{Decision, Error, Policy, Task};

/// Sites by heat, a little more than fits.
pub struct Hotset;

impl Policy for Hotset {
    fn name(&self) -> &'static str {
        "hotset"
    }
    fn summary(&self) -> &'static str {
        "the most misses per byte, until the fastest tier is just over-full"
    }
    fn source(&self) -> &'static str {
        "MemBrain on SICM (Olson et al., MEMSYS 2019), section 2.2.1: hotset"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let mut placements = cold(task);
        let mut left = task.candidates();
        for k in 0..task.slowest() {
            task.by_density(&mut left, k);
            let (name, room) = (&task.tiers[k].tier.name, task.tiers[k].budget.map_or(u64::MAX, |b| b.0));
            let mut used = 0u64;
            let mut rest = Vec::new();
            for (rank, &i) in left.iter().enumerate() {
                let size = task.size(i);
                let heat = heat(&task.observed.sites[i], size, task.weights(k), rank + 1);
                placements[i].value = task.worth(i, k) / size.0 as f64;
                if used >= room {
                    placements[i].why = format!("{heat}; {name} is full");
                    rest.push(i);
                    continue;
                }
                used = used.saturating_add(size.0);
                placements[i].tier = k;
                placements[i].why = match used > room {
                    true => format!("{heat}; the last in {name}, which it over-fills"),
                    false => format!("{heat}; fits in {name}"),
                };
            }
            left = rest;
        }
        Ok(Decision::of(placements))
    }
}
