//! `hearth run`: runs a program with its objects where a plan wants them, and proves where they landed.

use crate::output;
use anyhow::{Context, Result};
use policy::plan_file;
use record::guide;
use record::launch::{Launch, find_runtime};
use record::now_ns;
use record::program;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use wire::session::flags;

const EXAMPLES: &str = "\
EXAMPLES
  hearth run --plan plan.toml -- ./app args     place as planned; a summary of where everything landed goes to stderr
  hearth run --plan plan.toml --json landed.json -- ./app args
  hearth run --plan plan.toml --quiet -- ./app args

A tier of the plan is a set of NUMA nodes (`nodes`) or a directory of mapped files (`dir`); edit the plan to change it.";

/// Sites shown in the summary.
const TOP: usize = 15;

/// Runs a program guided by a plan
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The plan, as written by `hearth plan`
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Also write where everything landed to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print no summary
    #[arg(long)]
    quiet: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM [ARGS]...")]
    command: Vec<OsString>,
}

/// Runs the verb. The exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    let mut command = args.command.into_iter();
    let name = command.next().unwrap_or_default();
    let program = program::check(&name)?;
    let guide = guide::prepare(&plan, &program)?;
    if let Some(file) = &args.json {
        output::can_write(file, &args.plan)?;
    }
    let launch = Launch {
        program,
        name,
        args: command.collect(),
        runtime: find_runtime()?,
        flags: flags::EVENTS | flags::PLAN,
        threshold: plan.threshold.0,
        faults_per_second: 1,
        steps_per_second: 1,
        most_ppm: 1,
        epoch_ns: now_ns(),
        plan: Some(guide.image.clone()),
        // Fast memory is the program's.
        home: plan.tiers.last().and_then(|t| t.nodes.first()).copied(),
    };
    let outcome = launch.run(&mut ())?;
    let landing = record::landing::landing(&plan, &guide, &outcome);
    if !args.quiet {
        let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(120, |(w, _)| usize::from(w.0));
        eprint!("hearth: {}\n{}", outcome.how, report::landing(&landing, width, TOP));
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&landing).context("the summary cannot be written as JSON")?;
        output::write(file, &(text + "\n"), &args.plan)?;
    }
    Ok(ExitCode::from(outcome.code))
}
