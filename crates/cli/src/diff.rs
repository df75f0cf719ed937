//! `hearth diff`: what a guided run changed, function by function and site by site.

use crate::output;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Compares two profiles of a program: which functions and sites got faster memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The profile before, as written by `hearth record`
    before: PathBuf,
    /// The profile after, as written by `hearth record --plan`
    after: PathBuf,
    /// How many sites the table shows
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["html", "top"])]
    json: bool,
    /// Write one page that needs no network; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "top")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth record -o before.hearth -- ./app
  hearth plan before.hearth --fast 12GiB -o plan.toml
  hearth record --plan plan.toml -o after.hearth -- ./app
  hearth diff before.hearth after.hearth

Average latencies of functions are there where the sampler measures them: perf, and lab in the emulated machine.";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let before = profile::open(&args.before)?.observed()?;
    let after = profile::open(&args.after)?.observed()?;
    let diff = ::report::diff(&before, &after);
    if args.json {
        output::print(&diff.json()?)?;
    } else if let Some(file) = &args.html {
        output::not_input(file, &args.after)?;
        output::write(file, &::report::diff_page(&diff), &args.before)?;
    } else {
        output::print(&::report::diff_table(&diff, output::width(), args.top))?;
    }
    Ok(ExitCode::SUCCESS)
}
