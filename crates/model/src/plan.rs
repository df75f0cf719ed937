//! A plan: site to tier, and why. Kept as TOML that a person can read, edit and diff.

use crate::site::{Frame, SiteId, SiteKind};
use crate::split::Split;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version of the plan file this build writes; it reads this and older ones.
pub const PLAN_VERSION: u32 = 3;

/// What was decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Version of the file format ([`PLAN_VERSION`]).
    pub version: u32,
    /// The policy that decided, by its registered name.
    pub policy: String,
    /// The command that was profiled.
    pub command: Vec<String>,
    /// Platform the plan was made for.
    pub platform: String,
    /// Smallest allocation that was recorded; smaller ones are left to the program's own allocator.
    pub threshold: Bytes,
    /// Tier for sites that are not listed; also the last fallback. Must be one of `tier`.
    pub default_tier: String,
    /// Tiers, fastest first: a full tier falls back to the next one down, then to the ones above.
    #[serde(rename = "tier")]
    pub tiers: Vec<PlannedTier>,
    /// Sites, those of the fastest tier first, hottest first.
    #[serde(rename = "site", default)]
    pub sites: Vec<PlannedSite>,
    /// What changes while the program runs, in the order in which it is expected.
    #[serde(rename = "phase", default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PlannedPhase>,
}

impl Plan {
    /// Whether some phase moves this site.
    pub fn moves(&self, site: SiteId) -> bool {
        self.phases.iter().flat_map(|p| &p.moves).any(|m| m.site == site)
    }
}

/// A phase: it begins with a parallel region, and says of some sites where their objects are from then on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPhase {
    /// The region's function, as a site of one frame.
    pub begins: SiteId,
    /// Which beginning of a region of this function it is, from 1.
    pub number: u64,
    /// The function.
    pub frame: Frame,
    /// What moves, in this order: what leaves a faster tier first.
    #[serde(rename = "move")]
    pub moves: Vec<PlannedMove>,
}

/// Where the objects of a site are from a phase on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedMove {
    /// The site.
    pub site: SiteId,
    /// Name of the tier.
    pub tier: String,
    /// Only so many parts of each object, the first ones, go to it, the rest elsewhere; none: all of it goes there.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
}

/// A tier as the plan uses it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedTier {
    /// Name, as in the platform.
    pub name: String,
    /// NUMA nodes to bind to; may be empty (then `dir`, or the tier shares whatever memory there is).
    #[serde(default)]
    pub nodes: Vec<u32>,
    /// Directory of mapped files instead of nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
    /// Most bytes that may be resident in it; none: as much as there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Bytes>,
}

/// A site and the tier it goes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedSite {
    /// The site's id in the profiled binaries.
    pub id: SiteId,
    /// What it makes.
    #[serde(default)]
    pub kind: SiteKind,
    /// One line for people, from [`crate::label::labels`].
    pub label: String,
    /// Name of the tier.
    pub tier: String,
    /// Only these parts of each object go to it, the rest elsewhere; none: all of it goes there.
    #[serde(flatten, default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Why, in one sentence.
    pub why: String,
    /// Expected share of all misses, 0 to 1.
    pub miss_share: f64,
    /// Most bytes alive at one moment in the profile.
    pub peak: Bytes,
    /// Most bytes resident in the profile, if read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident: Option<Bytes>,
    /// Call stack in binary and source form, innermost first.
    pub frames: Vec<Frame>,
}

/// Where something goes, in words: `dram`, or `24/64 dram, rest cxl`.
fn target(tier: &str, split: &Option<Split>) -> String {
    match split {
        Some(split) => format!("{} {}, rest {}", split.parts, tier, split.rest),
        None => tier.to_string(),
    }
}

impl Plan {
    /// Where a site is moved to while the program runs, in words, one for each move: `dram as of beginning 3 of solve`.
    pub fn moves_of(&self, site: SiteId) -> Vec<String> {
        let moves = self.phases.iter().flat_map(|p| p.moves.iter().map(move |m| (p, m)));
        let here = moves.filter(|(_, m)| m.site == site);
        here.map(|(p, m)| format!("{} as of beginning {} of {}", target(&m.tier, &m.split), p.number, p.function()))
            .collect()
    }
}

impl PlannedPhase {
    /// The region's function, for people.
    pub fn function(&self) -> String {
        self.frame.source.first().map_or_else(|| self.frame.place(), |line| line.function.clone())
    }
}

impl PlannedSite {
    /// Share (0 to 1) of the site that goes to the tier of this name.
    pub fn share_in(&self, tier: &str) -> f64 {
        let share = self.split.as_ref().map_or(1.0, |s| s.parts.share());
        let rest = self.split.as_ref().map_or(0.0, |s| if s.rest == tier { 1.0 - share } else { 0.0 });
        rest + if self.tier == tier { share } else { 0.0 }
    }

    /// Where it goes, in words: `dram`, or `24/64 dram, rest cxl`.
    pub fn target(&self) -> String {
        target(&self.tier, &self.split)
    }
}
