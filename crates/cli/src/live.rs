//! `hearth live`: runs a program and places its objects while it runs.

use crate::output;
use ::live::daemon::client;
use ::live::{Known, Lived, Program};
use anyhow::{Context, Result, bail};
use model::Nanos;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth live -- ./app args                 hot objects go to fast memory by themselves; a summary goes to stderr
  hearth live --fast 12GiB -- ./app         leave the rest of the fast memory to others
  hearth live --priority apb --trigger time=5 --enforce fill=90% -- ./app
                                            the routines of Flexible and Effective Object Tiering (ISMM 2023)
  hearth live --log why.jsonl -- ./app      every decision and every move, with its reason
  hearth live --profile small.hearth -- ./app large
                                            what is hot by a profile of another input, in the sizes of this run; nothing is sampled
  hearth live --attach -- ./app             under the daemon that is running (hearth daemon), with other programs
  hearth live --list                        the routines, and where they come from";

/// Runs an unmodified program and moves its hot objects to fast memory while it runs; no profile is needed
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "hearth live [OPTIONS] -- PROGRAM [ARGS]...")]
pub struct Args {
    #[command(flatten)]
    placing: crate::placing::Placing,
    /// What is hot is what this profile says, of another input perhaps, but of the same build; sizes are those of this run, and nothing is sampled
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sampler", "faults_per_second", "overhead", "period", "attach"])]
    profile: Option<PathBuf>,
    /// Start the program under the daemon that is running (hearth daemon), which places it with others; it is then as if it were started
    /// without Hearth, and options of placing are the daemon's
    #[arg(long, conflicts_with_all = ["fast", "platform", "set", "interval", "aggregate", "priority", "trigger", "enforce", "split", "threshold", "log", "sampler", "faults_per_second", "overhead", "period", "json", "quiet"])]
    attach: bool,
    /// With --attach: where the daemon listens [default: your own daemon, or root's]
    #[arg(long, value_name = "PATH", requires = "attach")]
    socket: Option<PathBuf>,
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

/// Runs the verb. The exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        output::print(&list())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut command = args.command.into_iter();
    let program = Program { name: command.next().unwrap_or_default(), args: command.collect() };
    if args.attach {
        match client::attach(args.socket.as_deref(), &program)? {}
    }
    let mut options = args.placing.options()?;
    let program_file = record::program::check(&program.name).unwrap_or_default();
    if let Some(log) = &options.log {
        for input in [&program_file].into_iter().chain(&args.profile) {
            output::not_input(log, input)?;
        }
        if args.json.as_ref().is_some_and(|json| output::same(json, log)) {
            bail!("--log and --json are both {}; give each a file of its own", log.display());
        }
    }
    if let Some(file) = &args.profile {
        options.sampler = record::Sampler::None;
        options.known = Some(Known::of(&profile::open(file)?.observed()?)?);
    }
    if let Some(file) = &args.json {
        output::can_write(file, &program_file)?;
    }
    let (outcome, lived) = ::live::live(&program, &options)?;
    if !args.quiet {
        eprint!("hearth: {} of {}\n{}", outcome.how, Nanos(outcome.duration_ns), summary(&lived));
        for loss in &outcome.losses {
            eprintln!("hearth: {} ({}): {}", loss.kind, loss.count, loss.note);
        }
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&lived).context("the summary cannot be written as JSON")?;
        output::write(file, &(text + "\n"), &program_file)?;
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

/// What was done, for people.
pub fn summary(lived: &Lived) -> String {
    let mut out = String::new();
    for note in &lived.notes {
        out += &format!("hearth: {note}\n");
    }
    if lived.tiers.len() < 2 {
        return out;
    }
    let Lived { intervals, decisions, promoted, demoted, moving, asked, there, .. } = lived;
    let percent = 100.0 * *there as f64 / (*asked).max(1) as f64;
    let beside = 100.0 * lived.beside.0 as f64 / (promoted.0 + demoted.0).max(1) as f64;
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
             {percent:.1} % of their pages were then found where they belong\n\
             hearth: {beside:.1} % of what was moved moved beside phases that do not use it\n"
        ),
    };
    out
}
