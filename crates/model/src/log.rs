//! The log of `hearth live` and `hearth daemon`: what was decided and why, what was moved, and how heat and residency went on meanwhile. A file of it has one
//! [`Event`] as JSON in each line (docs/live.md, "The log").

use crate::{Bytes, Nanos, Site, SiteId};
use serde::{Deserialize, Serialize};

/// A line of the log. Times are in ns, of a run since its start, of a daemon since the machine's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The first line: what this is.
    Begin(Begin),
    /// A site that lines after this one name, in binary form.
    Site {
        /// The site.
        site: Site,
    },
    /// How it is after an interval. In long runs not after each one.
    State(State),
    /// The four routines have decided.
    Decision(Decision),
    /// A move is over.
    Move(Move),
}

/// What begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// Version of Hearth.
    pub hearth: String,
    /// How often the routines are asked.
    pub interval_ns: Nanos,
}

/// How it is after an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// When.
    pub at_ns: u64,
    /// Number of the interval that has just ended.
    pub interval: u32,
    /// Tiers, fastest first.
    pub tiers: Vec<TierState>,
    /// The hottest sites and the largest.
    pub sites: Vec<SiteState>,
}

/// A tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierState {
    /// Its name.
    pub name: String,
    /// Bytes that objects take of it, and may take.
    pub used: Bytes,
    /// See `used`.
    pub limit: Bytes,
}

/// A site's objects, of all processes together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteState {
    /// The site.
    pub site: SiteId,
    /// Bytes of its objects that are resident, and those of them that are in the fastest tier.
    pub resident: Bytes,
    /// See `resident`.
    pub fast: Bytes,
    /// Misses that fall on them, a second, as expected from what was seen.
    pub misses_per_second: f64,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision {
    /// When.
    pub at_ns: u64,
    /// Number of the interval that has just ended.
    pub interval: u32,
    /// Why it was decided now.
    pub why: String,
    /// Moves to be made, and bytes of them.
    pub moves: usize,
    /// See `moves`.
    pub bytes: u64,
    /// Predicted: time gained as long as it may last, and time that moving takes, in ns.
    pub gain_ns: f64,
    /// See `gain_ns`.
    pub cost_ns: f64,
    /// What records took of each tier before, and might take.
    pub tiers: Vec<TierState>,
}

/// A move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// When.
    pub at_ns: u64,
    /// The process.
    pub pid: i32,
    /// Address of the record, in hexadecimal digits.
    pub addr: String,
    /// Its site.
    pub site: SiteId,
    /// Names of the tiers.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Predicted: time gained as long as it may last, in ns; negative for what made room.
    pub gain_ns: f64,
    /// Bytes moved, and, as the kernel told afterwards, bytes present and bytes there.
    pub bytes: u64,
    /// See `bytes`.
    pub present: u64,
    /// See `bytes`.
    pub there: u64,
    /// The kernel found no memory for the rest.
    #[serde(default)]
    pub full: bool,
    /// How long it took, in ns.
    pub took_ns: u64,
}
