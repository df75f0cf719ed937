//! `priority`: the most important allocation first, each into the space that suits it.
//!
//! H2M (Klinkenberg et al., FGCS 2023): importance is an allocation's share of the latency of all main-memory accesses (section
//! 4.3, Equations 1 to 3), and the commit step serves the most important one first (sections 4.2 and 5.2, "H2M prio").
//! Where it is wanted depends on its ratio of accesses served from the cache (Equation 4): below 0.25 the space with the lowest
//! latency, else the one with the highest bandwidth; what does not fit falls back. See [`crate::traits`] for what of this a
//! profile knows.

use crate::traits::{importance, wanted};
use crate::{Decision, Error, Policy, Task};
use model::{Platform, Space};

/// By share of the memory's latency.
pub struct Priority;

impl Policy for Priority {
    fn name(&self) -> &'static str {
        "priority"
    }
    fn summary(&self) -> &'static str {
        "the largest share of the memory's latency first, each where its pattern is served best"
    }
    fn source(&self) -> &'static str {
        "H2M (Klinkenberg et al., FGCS 2023), sections 4.2 and 4.3: H2M prio"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let importance = importance(task.observed);
        let tiers = Platform {
            name: String::new(),
            description: String::new(),
            source: String::new(),
            llc: None,
            cores: None,
            tiers: task.tiers.iter().map(|t| t.tier.clone()).collect(),
        };
        let tier_of = |space: Space| {
            tiers.space(space).and_then(|s| tiers.tiers.iter().position(|t| t.name == s.name)).unwrap_or(0)
        };
        let mut left: Vec<Option<u64>> = task.tiers.iter().map(|t| t.budget.map(|b| b.0)).collect();
        let mut placements = super::density::cold(task);
        let mut order = task.candidates();
        let id = |i: usize| task.observed.sites[i].site.id;
        order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]).then(id(a).cmp(&id(b))));
        for (rank, &i) in order.iter().enumerate() {
            let space = wanted(&task.observed.sites[i]);
            let size = task.size(i).0;
            let fits = |k: &usize| left[*k].is_none_or(|free| size <= free);
            // The slowest tier takes what has nowhere else to go, whatever its budget.
            let wish = tier_of(space);
            let tier = if fits(&wish) { wish } else { task.slowest() };
            left[tier] = left[tier].map(|free| free.saturating_sub(size));
            let share = format!(
                "{:.1}% of memory's latency, {} in importance",
                importance[i] * 100.0,
                super::density::ordinal(rank + 1)
            );
            let name = &task.tiers[wish].tier.name;
            placements[i].why = match tier == wish {
                true => format!("{share}; wants the {space} space, {name}"),
                false => format!("{share}; wants the {space} space, but {name} is full"),
            };
            placements[i].tier = tier;
            placements[i].value = importance[i];
        }
        Ok(Decision::of(placements))
    }
}
