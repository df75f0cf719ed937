//! `hearth diff`: what a guided run changed, function by function and site by site, or what a plan changes.

use crate::output;
use anyhow::{Result, bail};
use policy::plan_file;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compares two profiles of a program (which functions and sites got faster memory) or two plans (which sites go elsewhere)
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The profile before, as written by `hearth record`, or a plan
    before: PathBuf,
    /// The profile after, as written by `hearth record --plan`, or another plan
    after: PathBuf,
    /// How many sites the table shows
    #[arg(long, value_name = "N", default_value_t = 15)]
    top: usize,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["html", "top"])]
    json: bool,
    /// Write one page that needs no network (of two profiles); - for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "top")]
    html: Option<PathBuf>,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth record -o before.hearth -- ./app
  hearth plan before.hearth --fast 12GiB -o plan.toml
  hearth record --plan plan.toml -o after.hearth -- ./app
  hearth diff before.hearth after.hearth
  hearth diff density.toml exact.toml

Average latencies of functions are there where the sampler measures them: perf, and lab in the emulated machine.";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    match [is_profile(&args.before)?, is_profile(&args.after)?] {
        [true, true] => {}
        [false, false] => return plans(&args),
        [first, _] => {
            let (profile, plan) = if first { (&args.before, &args.after) } else { (&args.after, &args.before) };
            let (profile, plan) = (profile.display(), plan.display());
            bail!("{profile} is a profile and {plan} is not: compare two profiles or two plans");
        }
    }
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

/// Whether it is a profile; what cannot be opened as one says why.
fn is_profile(path: &Path) -> Result<bool> {
    const SQLITE: &[u8; 16] = b"SQLite format 3\0";
    let Ok(mut file) = std::fs::File::open(path) else { return Ok(profile::open(path).map(|_| true)?) };
    let mut head = [0; 16];
    Ok(file.read_exact(&mut head).is_ok() && &head == SQLITE)
}

fn plans(args: &Args) -> Result<ExitCode> {
    let diff = ::report::plan_diff(&plan_file::read(&args.before)?, &plan_file::read(&args.after)?);
    if args.html.is_some() {
        bail!("--html draws two profiles; two plans are compared as a table or with --json");
    }
    match args.json {
        true => output::print(&diff.json()?)?,
        false => output::print(&::report::plan_diff_table(&diff, output::width(), args.top))?,
    }
    Ok(ExitCode::SUCCESS)
}
