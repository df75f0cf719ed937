//! What plans are predicted to do: shown before anything is run.

use crate::site::SiteId;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Policies side by side, for one profile on one platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// The command that was profiled.
    pub command: Vec<String>,
    /// The platform's name.
    pub platform: String,
    /// Its tiers, fastest first.
    pub tiers: Vec<String>,
    /// Capacity of the fastest tier.
    pub fast: Bytes,
    /// Most bytes alive at one moment.
    pub peak: Bytes,
    /// Predicted time with everything in the fastest tier, whether it fits or not.
    pub all_fast: Nanos,
    /// Predicted time with everything in the slowest tier.
    pub all_slow: Nanos,
    /// One for each policy.
    pub plans: Vec<PlanForecast>,
    /// What had to be assumed, one sentence each.
    pub notes: Vec<String>,
}

/// What one policy's plan is predicted to do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanForecast {
    /// The policy.
    pub policy: String,
    /// Predicted time of the whole run.
    pub time: Nanos,
    /// Most bytes in the fastest tier at one moment.
    pub fast_bytes: Bytes,
    /// Share (0 to 1) of the misses that the fastest tier serves.
    pub served_fast: f64,
    /// Bytes moved between tiers while the program runs.
    pub migrated: Bytes,
    /// What the policy says of its decision, one sentence each.
    pub notes: Vec<String>,
}

/// Predicted slowdown over the capacity of the fastest tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The command that was profiled.
    pub command: Vec<String>,
    /// The platform's name.
    pub platform: String,
    /// The policy that decides at each capacity.
    pub policy: String,
    /// Most bytes alive at one moment: a capacity of 100 %.
    pub peak: Bytes,
    /// Predicted time with everything in the fastest tier: a slowdown of 1.
    pub all_fast: Nanos,
    /// From no fast memory to all of the peak.
    pub points: Vec<CurvePoint>,
    /// What had to be assumed, one sentence each.
    pub notes: Vec<String>,
}

/// One capacity.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Capacity of the fastest tier.
    pub fast: Bytes,
    /// The same as a share (0 to 1) of the peak.
    pub share: f64,
    /// Predicted time over that with everything fast.
    pub slowdown: f64,
    /// True where more fast memory begins to gain much less than before.
    pub knee: bool,
}

/// Why a site is where it is, and what it would cost elsewhere.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// The site.
    pub id: SiteId,
    /// Its name.
    pub label: String,
    /// The policy that decided.
    pub policy: String,
    /// The tier it goes to.
    pub tier: String,
    /// Why, in the policy's words.
    pub why: String,
    /// Where it is moved to while the program runs, in words, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moves: Vec<String>,
    /// Its size that counts against a capacity.
    pub size: Bytes,
    /// Share (0 to 1) of all misses.
    pub miss_share: f64,
    /// Predicted time of the plan.
    pub time: Nanos,
    /// The same plan with the site in each tier, fastest first.
    pub elsewhere: Vec<Elsewhere>,
    /// What had to be assumed, one sentence each.
    pub notes: Vec<String>,
}

/// A plan with one site in another tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// The tier.
    pub tier: String,
    /// Predicted time, if there were room.
    pub time: Nanos,
    /// Bytes that would have to leave the tier for it; 0: it fits.
    pub lacks: Bytes,
}
