//! `hearth run`: runs a program with its objects where a plan wants them, and proves where they landed.

use crate::output;
use ::live::Program;
use ::live::daemon::node;
use anyhow::{Context, Result};
use policy::plan_file;
use record::guide;
use record::launch::{Launch, find_runtime, mpi_for};
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
  mpirun -np 4 hearth run --phases -- ./app args
                                                an MPI program without a plan: what is hot is found while it runs, phase by phase, and
                                                the ranks of a node share its fast memory

A tier of the plan is a set of NUMA nodes (`nodes`) or a directory of mapped files (`dir`); edit the plan to change it.";

/// Sites shown in the summary.
const TOP: usize = 15;

/// Runs a program guided by a plan, or an MPI program by its phases
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The plan, as written by `hearth plan`
    #[arg(long, value_name = "FILE", required_unless_present = "phases")]
    plan: Option<PathBuf>,
    /// The program uses MPI, and its phases begin with operations of it. With a plan it need not be said. Without one the program is placed while it runs, with all others of this node that are started so, by the daemon that is running or by one that is
    /// started now and ends with them
    #[arg(long)]
    phases: bool,
    /// With --phases and no plan: where the daemon listens [default: your own daemon, or root's]
    #[arg(long, value_name = "PATH", requires = "phases", conflicts_with = "plan")]
    socket: Option<PathBuf>,
    /// Also write where everything landed to this file, as JSON
    #[arg(long, value_name = "FILE", requires = "plan")]
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
    let mut command = args.command.into_iter();
    let name = command.next().unwrap_or_default();
    let Some(file) = args.plan else {
        let program = Program { name, args: command.collect() };
        match node::join(args.socket.as_deref(), &program)? {}
    };
    let plan = plan_file::read(&file)?;
    let program = program::check(&name)?;
    let guide = guide::prepare(&plan, &program)?;
    if let Some(json) = &args.json {
        output::can_write(json, &file)?;
    }
    let runtime = find_runtime()?;
    let launch = Launch {
        program,
        name,
        args: command.collect(),
        mpi: mpi_for(args.phases, Some(&plan), &runtime)?,
        runtime,
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
    let landing = record::landing::landing(&guide, &outcome);
    if !args.quiet {
        let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(120, |(w, _)| usize::from(w.0));
        eprint!("hearth: {}\n{}", outcome.how, report::landing(&landing, width, TOP));
    }
    if let Some(json) = &args.json {
        let text = serde_json::to_string_pretty(&landing).context("the summary cannot be written as JSON")?;
        output::write(json, &(text + "\n"), &file)?;
    }
    Ok(ExitCode::from(outcome.code))
}
