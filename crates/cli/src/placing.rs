//! The options that say how objects are placed while programs run.

use crate::output;
use ::live::{Names, Options};
use anyhow::{Result, bail};
use model::{Bytes, Nanos};
use policy::Capacity;
use std::path::{Path, PathBuf};

/// How objects are placed
#[derive(clap::Args)]
pub struct Placing {
    /// Most of the fastest memory that objects may take, as a size or as a share of it [default: what is free of it]
    #[arg(long, value_name = "SIZE|PERCENT")]
    fast: Option<Capacity>,
    /// The machine as a platform file describes it, with the NUMA nodes of its tiers [default: as it is found]
    #[arg(long, value_name = "FILE")]
    platform: Option<String>,
    /// Change one value of the platform, for example cxl.latency=250ns; may be given several times
    #[arg(long, value_name = "TIER.KEY=VALUE")]
    set: Vec<String>,
    /// How often it is looked whether something should be moved
    #[arg(long, value_name = "TIME", default_value = "2s")]
    interval: Nanos,
    /// Aggregate routine, which forms the mean of what was seen
    #[arg(long, value_name = "NAME[=VALUE]", default_value_t = Names::default().aggregate)]
    aggregate: String,
    /// Priority routine, which says what deserves fast memory most
    #[arg(long, value_name = "NAME", default_value_t = Names::default().prioritise)]
    priority: String,
    /// Trigger routine, which says when to decide, and what is worth moving
    #[arg(long, value_name = "NAME[=VALUE]", default_value_t = Names::default().trigger)]
    trigger: String,
    /// Enforce routine, which makes moves of it
    #[arg(long, value_name = "NAME[=VALUE]", default_value_t = Names::default().enforce)]
    enforce: String,
    /// Larger objects are placed in pieces of this size; a multiple of 2MiB [default: 64MiB, or less where the fast memory is small]
    #[arg(long, value_name = "SIZE")]
    split: Option<Bytes>,
    /// Smallest allocation that is placed: 4KiB or more, or 1 for all, small ones of one origin together [default: all, small ones only
    /// while that takes less than 2 % of a thread's time]
    #[arg(long, value_name = "SIZE")]
    threshold: Option<Bytes>,
    #[command(flatten)]
    sampler: crate::sampler::Sampling,
    /// Write every decision and every move, with its reason, to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// Pieces of large objects: the usual size, and the smallest.
const SPLIT: Bytes = Bytes::mib(64);
const LEAST_SPLIT: Bytes = Bytes::mib(2);
/// A piece is no more than such a part of the fastest memory.
const PARTS: u64 = 32;

impl Placing {
    /// What was asked for.
    pub fn options(self) -> Result<Options> {
        if self.interval.0 < 1_000_000 {
            bail!("--interval {}: give 1ms or more", self.interval);
        }
        if let Some(threshold) = self.threshold.filter(|t| t.0 > 1 && *t < Bytes::kib(4)) {
            bail!("--threshold {threshold}: give 4KiB or more, or 1 for objects of every size");
        }
        let platform = crate::plan::machine(self.platform.as_deref(), &self.set)?;
        if platform.tiers.iter().all(|t| t.nodes.is_empty()) {
            bail!(
                "--platform {}: it does not say which NUMA nodes its tiers are; a platform file with `nodes` does",
                platform.name
            );
        }
        if let Some(log) = &self.log {
            let scripts = [&self.aggregate, &self.priority, &self.trigger, &self.enforce];
            let scripts = scripts.into_iter().filter_map(|s| s.strip_prefix("script="));
            for input in scripts.chain(self.platform.as_deref()) {
                output::not_input(log, Path::new(input))?;
            }
        }
        let fastest = platform.tiers.first().and_then(|t| t.capacity).map(|c| c.value);
        let fast = match (self.fast, fastest) {
            (None, _) => None,
            (Some(Capacity::Size(Bytes(0)) | Capacity::Share(0.0)), _) => {
                bail!("--fast 0: give what objects may take of the fastest memory, for example 12GiB")
            }
            (Some(Capacity::Size(size)), _) => Some(size),
            (Some(Capacity::Share(share)), Some(all)) => Some(Bytes((all.0 as f64 * share) as u64)),
            (Some(Capacity::Share(_)), None) => {
                bail!("--fast: it is not known how large the fastest memory is; give a size, for example 12GiB")
            }
        };
        let split = self.split.unwrap_or_else(|| {
            let part = fast.or(fastest).map_or(SPLIT, |fast| Bytes(fast.0 / PARTS / LEAST_SPLIT.0 * LEAST_SPLIT.0));
            part.clamp(LEAST_SPLIT, SPLIT)
        });
        if split < LEAST_SPLIT || split.0 % LEAST_SPLIT.0 != 0 {
            bail!("--split {split}: give a multiple of {LEAST_SPLIT}, which is a huge page");
        }
        Ok(Options {
            threshold: self.threshold,
            sampler: self.sampler.sampler()?,
            platform,
            fast,
            interval: self.interval,
            split,
            routines: Names {
                aggregate: self.aggregate,
                prioritise: self.priority,
                trigger: self.trigger,
                enforce: self.enforce,
            },
            log: self.log,
            known: None,
            shares: None,
        })
    }
}
