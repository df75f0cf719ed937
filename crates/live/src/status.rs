//! What the engine shows of itself after each interval.

use model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Where the latest status is, for whoever asks.
pub type Board = Arc<Mutex<Status>>;

/// The state of things after an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Process id of the engine.
    pub pid: u32,
    /// Intervals that have passed, and how long one is.
    pub intervals: u32,
    /// See `intervals`.
    pub interval: Nanos,
    /// Fastest first.
    pub tiers: Vec<TierStatus>,
    /// Programs, most bytes in fast memory first.
    pub programs: Vec<ProgramStatus>,
    /// Moved to faster and to slower tiers so far.
    pub promoted: Bytes,
    /// See `promoted`.
    pub demoted: Bytes,
    /// Intervals after which something was to be moved.
    pub decisions: u32,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
}

/// A tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Bytes of objects in it, and most that there may be.
    pub used: Bytes,
    /// See `used`.
    pub limit: Bytes,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Process id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Path of the executable.
    pub exe: String,
    /// Records of its objects: one each, large ones in pieces.
    pub records: u64,
    /// Bytes of its objects in each tier.
    pub resident: Vec<Bytes>,
    /// Misses that fall on them, a second, as expected from what was seen.
    pub misses_per_second: f64,
}
