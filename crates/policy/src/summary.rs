//! What a plan does, tier by tier, and what about it needs saying. Works for edited plans too.

use crate::SizeBy;
use model::{Bytes, Plan, PlannedSite, Platform};

/// One tier of a plan, summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct TierSummary {
    /// Name of the tier.
    pub name: String,
    /// Most bytes that may be resident in it.
    pub budget: Option<Bytes>,
    /// Number of sites that go to it.
    pub sites: usize,
    /// Sizes of these sites together.
    pub bytes: Bytes,
    /// Share of all misses that is predicted to be served by it, 0 to 1.
    pub miss_share: f64,
}

/// A plan, summed up.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Tiers, fastest first.
    pub tiers: Vec<TierSummary>,
    /// What the user should know before relying on the plan, one sentence each.
    pub notes: Vec<String>,
}

impl Summary {
    /// Sums up a plan. `platform` is the one it was made for, if at hand; `size` as in the [`crate::Options`] it was
    /// made with.
    pub fn of(plan: &Plan, platform: Option<&Platform>, size: SizeBy) -> Summary {
        let tiers: Vec<TierSummary> = plan
            .tiers
            .iter()
            .map(|tier| {
                let share = |s: &PlannedSite| s.share_in(&tier.name);
                let sites: Vec<_> = plan.sites.iter().filter(|s| share(s) > 0.0).collect();
                TierSummary {
                    name: tier.name.clone(),
                    budget: tier.budget,
                    sites: sites.len(),
                    bytes: Bytes(sites.iter().map(|s| (size.of_planned(s).0 as f64 * share(s)) as u64).sum()),
                    // An empty sum of floats is -0.
                    miss_share: sites.iter().map(|s| s.miss_share * share(s)).sum::<f64>() + 0.0,
                }
            })
            .collect();
        let mut notes = Vec::new();
        if plan.sites.iter().all(|s| s.miss_share == 0.0) {
            notes.push(format!(
                "The profile shows no misses (no access samples, or everything that was used fits the cache), so every site goes to {}.",
                plan.default_tier
            ));
        }
        for tier in &tiers {
            let has = platform.and_then(|p| p.tier(&tier.name)).and_then(|t| t.capacity).map(|c| c.value);
            match tier.budget.or(has) {
                Some(room) if tier.bytes > room => notes.push(format!(
                    "{} is given {} of sites but has room for {room}; if they are alive at the same time, the rest falls back.",
                    tier.name, tier.bytes
                )),
                _ => {}
            }
        }
        if shares_memory(plan) {
            notes.push(
                "The tiers share one memory, so a run by this plan gets no faster; it shows where objects would go."
                    .to_string(),
            );
        }
        Summary { tiers, notes }
    }
}

/// True if two tiers lie on a common NUMA node.
fn shares_memory(plan: &Plan) -> bool {
    let pairs = plan.tiers.iter().enumerate().flat_map(|(i, a)| plan.tiers[..i].iter().map(move |b| (a, b)));
    pairs.into_iter().any(|(a, b)| a.dir.is_none() && b.dir.is_none() && a.nodes.iter().any(|n| b.nodes.contains(n)))
}
