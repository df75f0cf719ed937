//! `hearth record`: runs a program and writes down what it does with memory.

use anyhow::{Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use model::{Bytes, Nanos};
use policy::plan_file;
use record::{Progress, Recorded};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth record -- ./app --size 10            writes app.hearth
  hearth record --phases -- mpirun -n 2 ./app     all ranks of an MPI program, with its phases
  hearth record --sampler perf -- ./app       misses as the processor counts them (PEBS, IBS, SPE)
  hearth record --sampler none -- ./app       objects and residency only, no access samples
  hearth lab run -- hearth record --sampler lab -o app.hearth -- ./app
                                              misses as the emulated machine counts them
  hearth record --plan plan.toml -o after.hearth -- ./app
                                              a guided run; hearth diff app.hearth after.hearth compares
  hearth record --threshold 64KiB -- ./app    only allocations of 64 KiB and more
  hearth report app.hearth                    look at what was recorded";

/// Runs an unmodified program and records its data objects and who uses memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "hearth record [OPTIONS] -- PROGRAM [ARGS]...")]
pub struct Args {
    /// Profile to write [default: PROGRAM.hearth in this folder, or PROGRAM.RANK.hearth of each rank of an MPI job]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Smallest allocation to record
    #[arg(long, value_name = "SIZE", default_value = "4KiB")]
    threshold: Bytes,
    #[command(flatten)]
    sampler: crate::sampler::Sampling,
    /// Record objects of every size: each site's small ones get pages of their own
    #[arg(long, conflicts_with = "threshold")]
    small: bool,
    /// Last-level cache to estimate misses for [default: this machine's]
    #[arg(long, value_name = "SIZE")]
    llc: Option<Bytes>,
    /// The program uses MPI: write down where its processes communicate, so that a plan can move objects then
    #[arg(long)]
    phases: bool,
    /// Place the objects by this plan, as `hearth run` does, and record that; `hearth diff` compares it with before
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the verb. The exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.threshold < Bytes::kib(4) {
        bail!(
            "--threshold {}: smaller objects than a page (4 KiB) need pages of their own: give 4KiB or more, or --small",
            args.threshold
        );
    }
    if args.llc == Some(Bytes(0)) {
        bail!("--llc 0: give the size of the last-level cache, for example 32MiB");
    }
    let sampler = args.sampler.sampler()?;
    let plan = args.plan.as_deref().map(plan_file::read).transpose()?;
    let mut command = args.command.into_iter();
    let options = record::Options {
        program: command.next().unwrap_or_default(),
        args: command.collect(),
        output: args.output,
        threshold: if args.small { Bytes(1) } else { args.threshold },
        sampler,
        llc: args.llc,
        phases: args.phases,
        plan,
        platform: platform::discover().map_err(|e| e.to_string()),
    };
    let display = Display::new();
    let recorded = record::record(&options, &mut |p| display.show(p));
    display.bar.finish_and_clear();
    let recorded = recorded?;
    summary(&recorded);
    Ok(ExitCode::from(recorded.outcome.code))
}

/// One line on stderr that shows that something happens. While the program runs it is shown only if the program's
/// output goes elsewhere: a line drawn between a program's own lines on one terminal would garble them.
struct Display {
    bar: ProgressBar,
    own_terminal: bool,
}

impl Display {
    fn new() -> Display {
        // indicatif draws on stderr, and nothing at all if that is not a terminal.
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or(ProgressStyle::default_spinner()));
        Display { bar, own_terminal: !std::io::stdout().is_terminal() }
    }

    fn show(&self, progress: Progress) {
        match progress {
            Progress::Running { elapsed, processes, objects, samples } if self.own_terminal => self.bar.set_message(
                format!("recording: {elapsed}, {processes} processes, {objects} objects, {samples} samples"),
            ),
            Progress::Running { .. } => return,
            Progress::Symbolising(file) => self.bar.set_message(format!("reading symbols of {file}")),
        }
        self.bar.tick();
    }
}

fn summary(recorded: &Recorded) {
    let outcome = &recorded.outcome;
    let sites = outcome.tally.sites.values().filter(|s| s.objects > 0 && s.apart.is_none()).count();
    eprintln!(
        "hearth: {} of {}: {} objects of {sites} sites, {} samples, {}",
        outcome.how,
        Nanos(outcome.duration_ns),
        outcome.tally.objects,
        outcome.tally.visits,
        match outcome.processes.iter().map(|p| p.pid).collect::<BTreeSet<_>>().len() {
            1 => "1 process".to_string(),
            n => format!("{n} processes"),
        }
    );
    for note in &recorded.notes {
        eprintln!("hearth: {note}");
    }
    if let Some(chosen) = &recorded.chosen {
        eprintln!("hearth: {chosen}");
    }
    for loss in &outcome.losses {
        eprintln!("hearth: {} ({}): {}", loss.kind, loss.count, loss.note);
    }
    let file = recorded.profile.display();
    eprintln!("hearth: wrote {file}; look at it with: hearth report {file}");
}
