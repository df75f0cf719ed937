//! Planned against real: what a guided run did, from the tally of its events and readings.

use crate::Outcome;
use crate::guide::Guide;
use model::landing::{Landing, Moved, SiteLanding, TierLanding, Unlisted, Unmatched};
use model::{Bytes, Nanos, Plan, PlannedSite, PlannedTier, SiteId};
use std::collections::HashSet;

/// Sums up a guided run.
pub fn landing(guide: &Guide, outcome: &Outcome) -> Landing {
    let plan = &guide.plan;
    let count = |name: &str| -> u64 {
        outcome.processes.iter().flat_map(|p| &p.counters).filter(|(n, _)| n == name).map(|(_, v)| v).sum()
    };
    let tiers = plan
        .tiers
        .iter()
        .enumerate()
        .map(|(i, t)| TierLanding {
            name: t.name.clone(),
            budget: t.budget,
            fell_back: count(&format!("fell_back_{i}")),
            fell_back_bytes: Bytes(count(&format!("fell_back_bytes_{i}"))),
        })
        .collect();
    let tally = &outcome.tally.sites;
    let mut sites = Vec::new();
    let mut unmatched = Vec::new();
    // What may be one of several sites of the program is found if one of these is.
    let seen = |id: &SiteId| tally.get(id).is_some_and(|s| s.objects > 0);
    let mut found: HashSet<SiteId> = guide.origins.iter().filter(|(id, _)| seen(id)).map(|(_, from)| *from).collect();
    for planned in &plan.sites {
        let Some(seen) = tally.get(&planned.id).filter(|s| s.objects > 0) else {
            if guide.origins.get(&planned.id).is_some_and(|from| !found.insert(*from)) {
                continue;
            }
            let why = match guide.lost.get(&planned.id) {
                Some(why) => why.clone(),
                None => "no allocation of this run had this call stack".to_string(),
            };
            unmatched.push(Unmatched {
                id: planned.id,
                label: planned.label.clone(),
                why,
                miss_share: planned.miss_share,
            });
            continue;
        };
        sites.push(SiteLanding {
            id: planned.id,
            label: planned.label.clone(),
            planned: planned.target() + if plan.moves(planned.id) { ", then by phase" } else { "" },
            peak: Bytes(seen.peak),
            placed: seen.bytes_in_tier.iter().take(plan.tiers.len()).map(|&b| Bytes(b)).collect(),
            resident: seen.fullest.iter().map(|(&node, &bytes)| (node, Bytes(bytes))).collect(),
            on_planned: as_planned(plan, planned, seen.fullest.iter().map(|(&n, &b)| (n, b)))
                .filter(|_| !plan.moves(planned.id)),
        });
    }
    let ambiguous = guide.absorbed.iter().map(|(site, hotter)| Unmatched {
        id: site.id,
        label: site.label.clone(),
        why: format!("its lines are those of {hotter}, too, which decides"),
        miss_share: site.miss_share,
    });
    let named: HashSet<_> = plan.sites.iter().map(|s| s.id).collect();
    let mut unlisted = Unlisted::default();
    for seen in tally.iter().filter(|(id, s)| !named.contains(id) && s.objects > 0).map(|(_, s)| s) {
        unlisted.sites += 1;
        unlisted.objects += seen.objects;
        unlisted.peak += Bytes(seen.peak);
    }
    let mut notes = guide.notes.clone();
    let managing = outcome.processes.len();
    if managing > 1 && plan.tiers.iter().any(|t| t.budget.is_some()) {
        notes.push(format!("{managing} processes took part; each kept the budgets for itself"));
    }
    for process in outcome.processes.iter().filter(|p| !p.text.is_empty()) {
        notes.push(format!("{}: {}", process.exe, process.text));
    }
    notes.extend(outcome.losses.iter().map(|l| l.note.clone()));
    notes.dedup();
    let share = || count("moved_there") as f64 / count("moved_asked") as f64;
    let moved = (!plan.phases.is_empty()).then(|| Moved {
        objects: count("moved"),
        bytes: Bytes(count("moved_bytes")),
        there: (count("moved_asked") > 0).then(share),
        beside: Bytes(count("moved_beside")),
        took: Nanos(count("moving_ns")),
        took_beside: Nanos(count("moving_beside_ns")),
        waited: Nanos(count("moving_waited_ns")),
    });
    Landing {
        outcome: outcome.how.clone(),
        tiers,
        sites,
        unmatched,
        ambiguous: ambiguous.collect(),
        moved,
        unlisted,
        notes,
    }
}

/// Share of the resident bytes that lie where the plan wants them: of a split site in each tier at most as much as is to be there.
fn as_planned(plan: &Plan, site: &PlannedSite, resident: impl Iterator<Item = (i32, u64)> + Clone) -> Option<f64> {
    let mut sum = 0.0;
    for tier in plan.tiers.iter().filter(|t| site.share_in(&t.name) > 0.0) {
        sum += share_on(tier, resident.clone())?.min(site.share_in(&tier.name));
    }
    Some(sum)
}

/// Share of the resident bytes that lie on the tier's nodes.
fn share_on(tier: &PlannedTier, resident: impl Iterator<Item = (i32, u64)> + Clone) -> Option<f64> {
    if tier.nodes.is_empty() {
        return None;
    }
    let present = resident.filter(|&(node, _)| node >= 0);
    let all: u64 = present.clone().map(|(_, b)| b).sum();
    let there: u64 = present.filter(|(n, _)| tier.nodes.contains(&(*n as u32))).map(|(_, b)| b).sum();
    (all > 0).then(|| there as f64 / all as f64)
}
