//! From the tiers and the placements of a policy to a plan: the part that is the same for every policy.

use crate::Task;
use crate::cost::{Shares, landing, rest};
use crate::tiers::TierUse;
use model::label::labels;
use model::plan::PLAN_VERSION;
use model::{Observed, Parts, Plan, PlannedSite, PlannedTier, Platform, Split};

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
    /// What the user should know of how it was decided, one sentence each.
    pub notes: Vec<String>,
}

impl Decision {
    /// A decision of which there is no more to say.
    pub fn of(placements: Vec<Placement>) -> Decision {
        Decision { placements, notes: Vec::new() }
    }

    /// The tier of each site; of a split one the one that its parts are named of.
    pub fn tiers(&self) -> Vec<usize> {
        self.placements.iter().map(|p| p.tier).collect()
    }

    /// Some site is split.
    pub fn is_split(&self) -> bool {
        self.placements.iter().any(|p| p.split.is_some())
    }

    /// Where the sites land: what is split as it is split, all else as [`landing::shares`] says.
    pub fn shares(&self, task: &Task<'_>) -> Shares {
        // A split plan is made to fit; whatever else it would push out is not in the way of what is split.
        if !self.is_split() {
            return landing::shares(task, &self.tiers());
        }
        let mut shares = Shares::whole(&self.tiers(), task.tiers.len());
        for (site, p) in self.placements.iter().enumerate() {
            if let Some((parts, rest)) = p.split {
                let mut of = vec![0.0; task.tiers.len()];
                of[p.tier] = parts.share();
                of[rest] += 1.0 - parts.share();
                shares.split(site, &of);
            }
        }
        rest::lands(task, &mut shares);
        shares
    }
}

/// The plan in which site `i` of the profile goes where `placements[i]` says. The slowest tier is the default.
///
/// Sites come out tier by tier, the most valuable first.
pub fn assemble(
    policy: &str,
    observed: &Observed,
    platform: &Platform,
    tiers: &[TierUse],
    placements: Vec<Placement>,
) -> Plan {
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
        platform: platform.name.clone(),
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
    }
}

/// `part / total`, to a millionth: an estimate is no better than that, and the plan stays readable.
fn share(part: f64, total: f64) -> f64 {
    if total > 0.0 { (part / total * 1e6).round() / 1e6 } else { 0.0 }
}
