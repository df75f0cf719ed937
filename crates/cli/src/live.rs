//! `hearth live`: runs a program and places its objects while it runs.

use crate::output;
use ::live::{Lived, Names};
use anyhow::{Context, Result, bail};
use model::{Bytes, Nanos};
use policy::Capacity;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth live -- ./app args                 hot objects go to fast memory by themselves; a summary goes to stderr
  hearth live --fast 12GiB -- ./app         leave the rest of the fast memory to others
  hearth live --priority apb --trigger time=5 --enforce fill=90% -- ./app
                                            the routines of Flexible and Effective Object Tiering (ISMM 2023)
  hearth live --log why.jsonl -- ./app      every decision and every move, with its reason
  hearth live --list                        the routines, and where they come from";

/// Runs an unmodified program and moves its hot objects to fast memory while it runs; no profile is needed
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "hearth live [OPTIONS] -- PROGRAM [ARGS]...")]
pub struct Args {
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
    /// Smallest allocation that is placed by itself; 1 is all, small ones of one origin together
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    threshold: Bytes,
    #[command(flatten)]
    sampler: crate::sampler::Args,
    /// Write every decision and every move, with its reason, to this file, as JSON lines
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Also write the summary to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print no summary
    #[arg(long)]
    quiet: bool,
    /// List the routines and where they come from
    #[arg(long, exclusive = true)]
    list: bool,
    /// Program and its arguments
    #[arg(
        required_unless_present = "list",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// Pieces of large objects: the usual size, and the smallest.
const SPLIT: Bytes = Bytes::mib(64);
const LEAST_SPLIT: Bytes = Bytes::mib(2);
/// A piece is no more than such a part of the fastest memory.
const PARTS: u64 = 32;

/// Runs the verb. The exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        print!("{}", list());
        return Ok(ExitCode::SUCCESS);
    }
    if args.interval.0 < 1_000_000 {
        bail!("--interval {}: give 1ms or more", args.interval);
    }
    if args.threshold.0 > 1 && args.threshold < Bytes::kib(4) {
        bail!("--threshold {}: give 4KiB or more, or 1 for objects of every size", args.threshold);
    }
    let platform = crate::plan::machine(args.platform.as_deref(), &args.set)?;
    if platform.tiers.iter().all(|t| t.nodes.is_empty()) {
        bail!(
            "--platform {}: it does not say which NUMA nodes its tiers are; a platform file with `nodes` does",
            platform.name
        );
    }
    let fastest = platform.tiers.first().and_then(|t| t.capacity).map(|c| c.value);
    let fast = match (args.fast, fastest) {
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
    let split = args.split.unwrap_or_else(|| {
        let part = fast.or(fastest).map_or(SPLIT, |fast| Bytes(fast.0 / PARTS));
        part.clamp(LEAST_SPLIT, SPLIT)
    });
    if split < LEAST_SPLIT || split.0 % LEAST_SPLIT.0 != 0 {
        bail!("--split {split}: give a multiple of {LEAST_SPLIT}, which is a huge page");
    }
    let mut command = args.command.into_iter();
    let options = ::live::Options {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        threshold: args.threshold,
        sampler: args.sampler.sampler()?,
        platform,
        fast,
        interval: args.interval,
        split,
        routines: Names {
            aggregate: args.aggregate,
            prioritise: args.priority,
            trigger: args.trigger,
            enforce: args.enforce,
        },
        log: args.log,
    };
    if let Some(file) = &args.json {
        output::can_write(file, Path::new(&options.program))?;
    }
    let (outcome, lived) = ::live::live(&options)?;
    if !args.quiet {
        eprint!("hearth: {} of {}\n{}", outcome.how, Nanos(outcome.duration_ns), summary(&lived));
        for loss in &outcome.losses {
            eprintln!("hearth: {} ({}): {}", loss.kind, loss.count, loss.note);
        }
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&lived).context("the summary cannot be written as JSON")?;
        output::write(file, &(text + "\n"), Path::new(&options.program))?;
    }
    Ok(ExitCode::from(outcome.code))
}

fn list() -> String {
    let mut out = String::new();
    let mut last = "";
    for (kind, name, about, source) in ::live::list() {
        if kind != last {
            out += &format!("--{kind}\n");
            last = kind;
        }
        out += &format!("  {name:<12} {about}\n               {source}\n");
    }
    out
}

fn summary(lived: &Lived) -> String {
    let mut out = String::new();
    for note in &lived.notes {
        out += &format!("hearth: {note}\n");
    }
    if lived.tiers.len() < 2 {
        return out;
    }
    let Lived { intervals, decisions, promoted, demoted, moving, asked, there, .. } = lived;
    let percent = 100.0 * *there as f64 / (*asked).max(1) as f64;
    if lived.refused > 0 {
        out += &format!(
            "hearth: {} moves failed: the kernel moved no page (no room, or pages locked or bound)\n",
            lived.refused
        );
    }
    out += &match (lived.decisions, promoted.0 + demoted.0) {
        (0, _) => format!("hearth: in {intervals} intervals nothing was worth moving\n"),
        (_, 0) => format!("hearth: {decisions} of {intervals} intervals asked for moves, and nothing could be moved\n"),
        _ => format!(
            "hearth: {decisions} of {intervals} intervals asked for moves: {promoted} went to faster memory, {demoted} to slower, in {moving}; \
             {percent:.1} % of their pages were then found where they belong\n"
        ),
    };
    out
}
