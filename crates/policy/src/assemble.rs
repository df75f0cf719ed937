//! From the tiers and the placements of a policy to a plan: the part that is the same for every policy.

use crate::Task;
use crate::cost::segments::Kind;
use crate::cost::{Prediction, Shares, landing, rest};
use crate::earlier::earlier;
use crate::schedule::{self, Place, Step};
use model::label::labels;
use model::plan::PLAN_VERSION;
use model::{Bytes, Parts, Plan, PlannedMove, PlannedPhase, PlannedSite, PlannedTier, Split};
use std::num::NonZeroU64;

/// Where a policy puts a site.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// Index of the tier, from the fastest.
    pub tier: usize,
    /// Only these parts of each object go there, the rest to the tier of this index.
    pub split: Option<(Parts, usize)>,
    /// The site's worth to the policy: orders the sites of a tier in the plan.
    pub value: f64,
    /// Why, in one sentence.
    pub why: String,
}

/// What a policy decides.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// One for each site, in the order of the profile.
    pub placements: Vec<Placement>,
    /// What changes while the program runs, in order.
    pub steps: Vec<Step>,
    /// What the user should know of how it was decided, one sentence each.
    pub notes: Vec<String>,
}

impl Decision {
    /// A decision of which there is no more to say.
    pub fn of(placements: Vec<Placement>) -> Decision {
        Decision { placements, steps: Vec::new(), notes: Vec::new() }
    }

    /// The tier of each site; of a split one the one that its parts are named of.
    pub fn tiers(&self) -> Vec<usize> {
        self.placements.iter().map(|p| p.tier).collect()
    }

    /// Some site is split.
    pub fn is_split(&self) -> bool {
        self.placements.iter().any(|p| p.split.is_some())
    }

    /// What it is predicted to do, and the bytes that move.
    pub fn predict(&self, task: &Task<'_>) -> (Prediction, Bytes) {
        schedule::predict(task, &self.shares(task), &self.steps)
    }

    /// Where the sites land at first: what is split as it is split, all else as [`landing::shares`] says.
    pub fn shares(&self, task: &Task<'_>) -> Shares {
        // A split plan is made to fit; whatever else it would push out is not in the way of what is split.
        if !self.is_split() {
            return landing::shares(task, &self.tiers());
        }
        let mut shares = Shares::whole(&self.tiers(), task.tiers.len());
        for (site, p) in self.placements.iter().enumerate() {
            if let Some((parts, rest)) = p.split {
                task.split(&mut shares, site, p.tier, parts, rest);
            }
        }
        rest::lands(task, &mut shares);
        shares
    }
}

/// The plan of what a policy of this name has decided. The slowest tier is the default.
///
/// Sites come out tier by tier, the most valuable first.
pub fn assemble(policy: &str, task: &Task<'_>, decision: Decision) -> Plan {
    let Decision { placements, steps, .. } = decision;
    let (observed, tiers) = (task.observed, &task.tiers);
    let id = |site: usize| observed.sites[site].site.id;
    let first: Vec<Place> = placements.iter().map(|p| Place::whole(p.tier)).collect();
    let steps = earlier(task, &first, steps);
    let phases = steps.into_iter().filter_map(|step| {
        let begins = task.segments()[step.segment].begins?;
        let name = |tier: usize| tiers[tier].tier.name.clone();
        let moved = |(site, to): (usize, Place)| PlannedMove {
            site: id(site),
            tier: name(to.tier),
            split: Parts::spread(to.parts).map(|parts| Split { parts, rest: name(to.rest) }),
            idle: !task.uses().has(site, step.segment),
        };
        let (begins_with, frames) = match begins.event.kind {
            Kind::Region(function) => {
                let of = |r: &&model::observed::Region| r.id == function;
                (function, observed.regions.iter().find(of)?.frames.clone())
            }
            Kind::Allocation(site) => (id(site), Vec::new()),
        };
        Some(PlannedPhase {
            begins: begins_with,
            number: begins.event.number,
            every: begins.every.and_then(NonZeroU64::new),
            frames,
            moves: step.moves.into_iter().map(moved).collect(),
        })
    });
    let phases = phases.collect();
    let total = observed.total_misses();
    let mut labels = labels(observed.sites.iter().map(|s| &s.site));
    let mut sites: Vec<(Placement, &model::SiteUse)> = placements.into_iter().zip(&observed.sites).collect();
    sites.sort_by(|(p, a), (q, b)| {
        let by_tier = p.tier.cmp(&q.tier).then(q.value.total_cmp(&p.value));
        by_tier.then(b.peak.cmp(&a.peak)).then(a.site.id.cmp(&b.site.id))
    });
    Plan {
        version: PLAN_VERSION,
        policy: policy.to_string(),
        command: observed.command.clone(),
        platform: task.platform.clone(),
        threshold: observed.threshold,
        default_tier: tiers.last().map_or_else(String::new, |t| t.tier.name.clone()),
        tiers: tiers
            .iter()
            .map(|t| PlannedTier {
                name: t.tier.name.clone(),
                nodes: t.tier.nodes.clone(),
                dir: t.tier.dir.clone(),
                budget: t.budget,
            })
            .collect(),
        sites: sites
            .into_iter()
            .map(|(placement, site)| PlannedSite {
                id: site.site.id,
                kind: site.site.kind,
                label: labels.remove(&site.site.id).unwrap_or_default(),
                tier: tiers[placement.tier].tier.name.clone(),
                split: placement.split.map(|(parts, rest)| Split { parts, rest: tiers[rest].tier.name.clone() }),
                why: placement.why,
                miss_share: share(site.misses(), total),
                peak: site.peak,
                resident: site.resident,
                frames: site.site.frames.clone(),
            })
            .collect(),
        phases,
    }
}

/// `part / total`, to a millionth: an estimate is no better than that, and the plan stays readable.
fn share(part: f64, total: f64) -> f64 {
    if total > 0.0 { (part / total * 1e6).round() / 1e6 } else { 0.0 }
}
