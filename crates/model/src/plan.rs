//! A plan: site to tier, and why. Kept as TOML that a person can read, edit and diff.

use crate::site::{Frame, Module, SiteId, SiteKind};
use crate::split::Split;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::path::PathBuf;

/// Version of the plan file this build writes; it reads this and older ones.
pub const PLAN_VERSION: u32 = 4;

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

/// A phase: it begins with a parallel region, a mark, an operation of MPI or an allocation, and says of some sites where their objects are from then on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedPhase {
    /// The region's function, as a site of one frame; or where MPI is called; or the site that allocates.
    pub begins: SiteId,
    /// Which beginning of a region of this function it is, or which allocation of this site, from 1.
    pub number: u64,
    /// It begins anew with each so many after that; none: it begins once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<NonZeroU64>,
    /// The region's function, or the call stack of an operation of MPI; empty: it begins with an allocation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub frames: Vec<Frame>,
    /// What moves, in this order: what leaves a faster tier first.
    #[serde(rename = "move")]
    pub moves: Vec<PlannedMove>,
}

impl PlannedPhase {
    /// It begins with an operation of MPI: of these the whole call stack is known, or positions in an annotated program's source; of regions and marks one frame.
    pub fn is_of_mpi(&self) -> bool {
        let source = self.frames.first().and_then(|f| f.module.as_ref()).is_some_and(Module::is_source);
        source || self.frames.len() > 1
    }
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
    /// The phase does not use the site: what is moved of it while the phase lasts is moved beside work on something else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub idle: bool,
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
    /// Where a site is moved to while the program runs, in words, one for each move: `dram as of beginning 3 of solve`,
    /// `cxl as of allocation 2 of grid, and of each 4th after it`.
    pub fn moves_of(&self, site: SiteId) -> Vec<String> {
        let moves = self.phases.iter().flat_map(|p| p.moves.iter().map(move |m| (p, m)));
        let here = moves.filter(|(_, m)| m.site == site);
        here.map(|(p, m)| format!("{} as of {}", target(&m.tier, &m.split), self.begins(p))).collect()
    }

    /// What a phase begins with, in words.
    pub fn begins(&self, phase: &PlannedPhase) -> String {
        let first = match phase.frames.as_slice() {
            [frame, ..] if phase.is_of_mpi() => {
                let place = frame.source.first().map_or_else(|| frame.place(), |line| line.to_string());
                format!("call {} of MPI at {place}", phase.number)
            }
            [frame, ..] => {
                let function = frame.source.first().map_or_else(|| frame.place(), |line| line.function.clone());
                format!("beginning {} of {function}", phase.number)
            }
            [] => {
                let site = self.sites.iter().find(|s| s.id == phase.begins);
                let label = site.map_or_else(|| phase.begins.to_string(), |s| s.label.clone());
                format!("allocation {} of {label}", phase.number)
            }
        };
        match phase.every.map(NonZeroU64::get) {
            None => first,
            Some(1) => format!("{first}, and of each after it"),
            Some(every) => format!("{first}, and of each {} after it", ordinal(every)),
        }
    }
}

/// `2nd`, `13th`.
fn ordinal(n: u64) -> String {
    let ending = match (n % 100, n % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{n}{ending}")
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
