//! Placements of one program on one emulated machine, side by side.

use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What `hearth lab compare` measured. All times are the guest's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Name of the platform.
    pub platform: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// How the platform was scaled, as a table for people.
    pub scale: String,
    /// Most memory that the program used at one moment; capacities are a share of it.
    pub footprint: Bytes,
    /// The runs, in the order they were asked for.
    pub runs: Vec<PlacementRun>,
}

/// One program run under one placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlacementRun {
    /// Placement: `all-fast`, `first-touch`, ..., or `plan` with the name of the policy.
    pub placement: String,
    /// Fast memory as a share of the footprint, in percent; none where there is as much as the program wants
    /// (`all-fast`) or it is not used (`all-slow`).
    pub fast_percent: Option<f64>,
    /// Fast memory that was free for the program when it started, read back from the guest's kernel; in memory mode the
    /// size of the cache.
    pub fast: Option<Bytes>,
    /// Time of the program, or of its region of interest.
    pub time: Nanos,
    /// Times of all runs, ascending, where it was run more than once because chance decides in it: this run is the one
    /// in the middle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub times: Vec<Nanos>,
    /// Time relative to `all-fast` that the planner's cost model predicts from the profile by which the plans were made; none
    /// where nothing was predicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<f64>,
    /// Exit code of the program, or 128 + signal.
    pub code: u8,
    /// Share of the program's memory that lay in the fast tier, over time, read back from the guest's kernel.
    pub resident_fast: f64,
    /// Share of the lines from memory that the fast tier served.
    pub served_fast: f64,
    /// Lines of 64 B that came from memory: misses of loads and stores, and prefetches.
    pub lines: u64,
    /// Moved between the tiers while the program ran.
    pub migrated: Bytes,
    /// What the reader of the figures should know.
    pub notes: Vec<String>,
}

impl Comparison {
    /// The run under a placement that needs no capacity (`all-fast`, `all-slow`).
    pub fn whole(&self, placement: &str) -> Option<&PlacementRun> {
        self.runs.iter().find(|r| r.placement == placement && r.fast_percent.is_none())
    }

    /// Time of a run relative to `all-fast`, if that was measured.
    pub fn relative(&self, run: &PlacementRun) -> Option<f64> {
        let fast = self.whole("all-fast").filter(|r| r.time.0 > 0)?;
        Some(run.time.0 as f64 / fast.time.0 as f64)
    }

    /// Capacities that were measured, in percent of the footprint, ascending.
    pub fn capacities(&self) -> Vec<f64> {
        let mut all: Vec<f64> = self.runs.iter().filter_map(|r| r.fast_percent).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    }

    /// Placements that depend on the capacity, in the order of the runs.
    pub fn placements(&self) -> Vec<&str> {
        let mut all: Vec<&str> = Vec::new();
        for run in self.runs.iter().filter(|r| r.fast_percent.is_some()) {
            if !all.contains(&run.placement.as_str()) {
                all.push(&run.placement);
            }
        }
        all
    }

    /// The run under this placement with this capacity.
    pub fn at(&self, placement: &str, percent: f64) -> Option<&PlacementRun> {
        self.runs.iter().find(|r| r.placement == placement && r.fast_percent == Some(percent))
    }
}
