//! `first-served`: whoever allocates first gets the fastest tier, as long as it fits.
//!
//! What a program gets that asks for fast memory everywhere, and what a kernel does with first touch: the baseline of the other
//! policies ("first-served": Klinkenberg et al., H2M, FGCS 2023, section 5.2). Needs no samples to decide. Sites come in the
//! order of their first allocation; what was freed by then leaves its room again.

use super::density::{cold, ordinal};
use crate::cost::landing::Room;
use crate::{Decision, Error, Placement, Policy, Task};

/// In the order of allocation.
pub struct FirstServed;

impl Policy for FirstServed {
    fn name(&self) -> &'static str {
        "first-served"
    }
    fn summary(&self) -> &'static str {
        "in the order of allocation, as long as it fits; what happens without a plan"
    }
    fn source(&self) -> &'static str {
        "H2M (Klinkenberg et al., FGCS 2023), section 5.2: first-served"
    }
    fn needs_samples(&self) -> bool {
        false
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let sites = &task.observed.sites;
        let mut order: Vec<usize> = (0..sites.len()).collect();
        order.sort_by_key(|&i| (sites[i].first_alloc, sites[i].site.id));
        let mut rooms: Vec<Room> = task.tiers.iter().map(|t| Room::new(t.budget.map_or(u64::MAX, |b| b.0))).collect();
        let mut placements = cold(task);
        for (rank, &i) in order.iter().enumerate() {
            let (size, from, to) = (task.size(i).0, sites[i].first_alloc.0, sites[i].last_free.0);
            let tier = (0..task.slowest()).find(|&k| rooms[k].take(size, size.max(1), from, to) == size);
            let name = &task.tiers[0].tier.name;
            let rank = rank + 1;
            placements[i] = Placement {
                tier: tier.unwrap_or(task.slowest()),
                split: None,
                value: 1.0 / rank as f64,
                why: match tier {
                    Some(0) => format!("{} to allocate; fits in {name}", ordinal(rank)),
                    _ => format!("{} to allocate; {name} is full then", ordinal(rank)),
                },
            };
        }
        Ok(Decision::of(placements))
    }
}
