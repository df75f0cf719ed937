//! Two plans side by side: which sites go elsewhere.

use crate::table::{fit, wrap};
use crate::words;
use model::{Bytes, Plan, PlannedSite, SiteId};
use serde::Serialize;
use std::collections::HashMap;

/// Version of the JSON layout of [`PlanDiff`]. Fields may be added under the same version.
pub const PLAN_DIFF_VERSION: u32 = 1;

/// Both plans compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanDiff {
    /// [`PLAN_DIFF_VERSION`].
    pub version: u32,
    /// The plan before.
    pub before: PlanSide,
    /// The plan after.
    pub after: PlanSide,
    /// Sites that go to the same place by both.
    pub same: usize,
    /// Sites that do not, those with most misses first. One that a plan does not name goes to its default tier.
    pub changed: Vec<Change>,
}

/// One plan as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanSide {
    /// The policy that decided.
    pub policy: String,
    /// Platform it was made for.
    pub platform: String,
    /// Tiers, fastest first: name, budget in bytes, share (0 to 1) of the misses that is predicted to be served by it.
    pub tiers: Vec<(String, Option<Bytes>, f64)>,
}

/// A site that goes elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its id.
    pub id: SiteId,
    /// Its name for people.
    pub label: String,
    /// Expected share (0 to 1) of all misses: of the plan before, if it has the site.
    pub miss_share: f64,
    /// Most bytes alive at one moment.
    pub peak: Bytes,
    /// Where it went, in words, and where it was moved then; none: the plan does not name it.
    pub before: Option<String>,
    /// Where it goes.
    pub after: Option<String>,
}

/// Compares two plans by the ids of their sites.
pub fn plan_diff(before: &Plan, after: &Plan) -> PlanDiff {
    let later: HashMap<SiteId, &PlannedSite> = after.sites.iter().map(|s| (s.id, s)).collect();
    let earlier: HashMap<SiteId, &PlannedSite> = before.sites.iter().map(|s| (s.id, s)).collect();
    let new = after.sites.iter().filter(|s| !earlier.contains_key(&s.id));
    let (mut same, mut changed) = (0, Vec::new());
    for site in before.sites.iter().chain(new) {
        let target = |of: &HashMap<SiteId, &PlannedSite>, plan: &Plan| course(of.get(&site.id).copied(), site.id, plan);
        let (was, is) = (target(&earlier, before), target(&later, after));
        let or_default = |t: &Option<String>, plan: &Plan| t.clone().unwrap_or_else(|| plan.default_tier.clone());
        if or_default(&was, before) == or_default(&is, after) {
            same += 1;
            continue;
        }
        let (id, label, miss_share, peak) = (site.id, site.label.clone(), site.miss_share, site.peak);
        changed.push(Change { id, label, miss_share, peak, before: was, after: is });
    }
    changed.sort_by(|a, b| b.miss_share.total_cmp(&a.miss_share).then(b.peak.cmp(&a.peak)).then(a.id.cmp(&b.id)));
    PlanDiff { version: PLAN_DIFF_VERSION, before: side(before), after: side(after), same, changed }
}

/// Where a site goes and is moved to; none: the plan does not name it.
fn course(site: Option<&PlannedSite>, id: SiteId, plan: &Plan) -> Option<String> {
    let moves = plan.moves_of(id);
    if site.is_none() && moves.is_empty() {
        return None;
    }
    let first = site.map_or_else(|| plan.default_tier.clone(), PlannedSite::target);
    Some(moves.into_iter().fold(first, |all, next| format!("{all}, then {next}")))
}

fn side(plan: &Plan) -> PlanSide {
    let served = |tier: &str| plan.sites.iter().map(|s| s.miss_share * s.share_in(tier)).sum::<f64>() + 0.0;
    PlanSide {
        policy: plan.policy.clone(),
        platform: plan.platform.clone(),
        tiers: plan.tiers.iter().map(|t| (t.name.clone(), t.budget, served(&t.name))).collect(),
    }
}

impl PlanDiff {
    /// Pretty-printed JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }
}

/// The comparison for a terminal of `width` columns, with the `top` sites of most misses that go elsewhere.
pub fn plan_diff_table(diff: &PlanDiff, width: usize, top: usize) -> String {
    let mut out = String::new();
    for (name, side) in [("before", &diff.before), ("after", &diff.after)] {
        let tiers: Vec<String> = side
            .tiers
            .iter()
            .map(|(tier, budget, served)| {
                let budget = budget.map_or_else(String::new, |b| format!(" ({b})"));
                format!("{tier}{budget} ~{}", words::percent(*served))
            })
            .collect();
        let line = format!("{name}: {} for {}; misses served by {}", side.policy, side.platform, tiers.join(", "));
        out += &wrap(&words::printable(&line), width);
    }
    if diff.changed.is_empty() {
        out += &format!("\nboth give {} the same place\n", words::plural(diff.same as u64, "site"));
        return out;
    }
    out.push('\n');
    let place = |target: &Option<String>| target.clone().unwrap_or_else(|| "not named".to_string());
    for change in diff.changed.iter().take(top) {
        let name = format!("{}  {}", &change.id.to_string()[..8], words::printable(&change.label));
        out += &format!("{}\n", fit(&name, width));
        let (before, after) = (place(&change.before), place(&change.after));
        let share = format!("~{}", words::percent(change.miss_share));
        out += &wrap(&format!("  {share:>7}  {:>9}  {before} -> {after}", change.peak.to_string()), width);
    }
    let rest = diff.changed.get(top..).unwrap_or_default();
    if !rest.is_empty() {
        let share: f64 = rest.iter().map(|c| c.miss_share).sum();
        let peaks: Bytes = rest.iter().map(|c| c.peak).sum();
        out += &format!(
            "{} with ~{} of the misses, {peaks}\n",
            words::plural(rest.len() as u64, "further site"),
            words::percent(share)
        );
    }
    out.push('\n');
    out + &wrap(
        &format!(
            "{} elsewhere, {} where it was; ~: predicted share of the misses; sizes are most bytes alive at one moment",
            words::plural(diff.changed.len() as u64, "site"),
            diff.same
        ),
        width,
    )
}
