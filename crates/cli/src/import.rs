//! `hearth import`: what other tools have seen, as profiles.

use crate::output;
use anyhow::{Result, bail};
use model::Bytes;
use record::import::{Kind, dhat, perf_data, read};
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  valgrind --tool=dhat --dhat-out-file=dhat.out ./app
  hearth import dhat.out -o app.hearth        a profile with exact reads and writes of each call stack

  perf record -k CLOCK_MONOTONIC -d -e MEM-EVENT -- hearth record --sampler none -o app.hearth -- ./app
  hearth import perf.data --into app.hearth   the samples of perf, on the objects of the same run";

/// Reads what other tools have seen: samples of perf, or the heap profile of valgrind's DHAT
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A perf.data file, or an output file of DHAT
    file: PathBuf,
    /// For perf.data: the profile of the same run, recorded with --sampler none, that takes the samples
    #[arg(long, value_name = "PROFILE", conflicts_with = "output")]
    into: Option<PathBuf>,
    /// For DHAT: the profile to write
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// For DHAT: smallest mean size of allocations that make a site
    #[arg(long, value_name = "SIZE", default_value = "4KiB", conflicts_with = "into")]
    threshold: Bytes,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let file = args.file.display();
    let (kind, bytes) = read(&args.file)?;
    match (kind, args.into, args.output) {
        (Kind::PerfData, Some(profile), None) => {
            let clock = record::perf::Clock { mhz: record::perf::cpu::Cpu::here().mhz };
            let done = perf_data::into_profile(&bytes, &args.file, &profile, clock)?;
            eprintln!(
                "hearth: {} samples put into {}, {} of them on its objects; {} of other processes or times left out",
                done.samples,
                profile.display(),
                done.on_objects,
                done.strangers
            );
        }
        (Kind::Dhat, None, Some(output)) => {
            output::can_write(&output, &args.file)?;
            let done = dhat::into_profile(&bytes, &args.file, &output, args.threshold)?;
            eprintln!(
                "hearth: wrote {}: {} objects of {} sites; {} % of the accessed bytes are on smaller allocations",
                output.display(),
                done.objects,
                done.sites,
                done.elsewhere
            );
        }
        (Kind::PerfData, ..) => bail!(
            "{file} has samples but no objects: name the profile of the same run with --into, made by \
             `hearth record --sampler none`"
        ),
        (Kind::Dhat, ..) => bail!("{file} is a run of its own: name the profile to write with -o"),
    }
    Ok(ExitCode::SUCCESS)
}
