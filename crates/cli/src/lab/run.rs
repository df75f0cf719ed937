//! `hearth lab run`: runs a program on an emulated machine and says how long its memory made it take.

use super::interrupt;
use super::machine::Machine;
use super::summary;
use crate::output;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use lab::job::Roi;
use lab::run::{Fast, Placement, Progress, Stream};
use model::Bytes;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
EXAMPLES
  hearth lab setup                                        once
  hearth lab run -- ./app args                            on a machine with a CXL expander, a quarter of the memory fast
  hearth lab run --platform cascade-lake-optane --fast 64MiB --placement kernel -- ./app
  hearth lab run --placement plan:plan.toml -- ./app
  hearth lab run --roi allocated=100MiB -- ./app          start-up runs fast, without the time model

The program sees this machine's files and may write: what it writes below the current folder is brought back, all else is
dropped.";

/// Runs an unmodified program on an emulated machine with two kinds of memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "hearth lab run [OPTIONS] -- PROGRAM [ARGS]...")]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// Where pages go: all-fast, all-slow, first-touch, interleave, weighted-interleave, kernel (NUMA balancing and
    /// demotion), memory-mode (fast memory as a cache), plan:FILE, or live (`hearth live` in the guest, options after
    /// slashes: live/interval=5ms)
    #[arg(long, value_name = "PLACEMENT", default_value = "first-touch")]
    placement: Placement,
    /// How much fast memory the program has, as a size or a share of what it uses
    #[arg(long, value_name = "SIZE|PERCENT", default_value = "25%")]
    fast: Fast,
    /// When the time model is switched on: start, after=TIME, allocated=SIZE|PERCENT, or marks (by the program itself)
    #[arg(long, value_name = "WHEN", default_value = "start")]
    roi: Roi,
    /// Last-level cache [default: the platform's, scaled]
    #[arg(long, value_name = "SIZE")]
    llc: Option<Bytes>,
    /// Also write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Print no summary
    #[arg(long)]
    quiet: bool,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the verb. The exit code is the program's.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut request = args.machine.request(args.command)?;
    request.placement = args.placement;
    request.fast = args.fast;
    request.roi = args.roi;
    request.llc = args.llc;
    if let Some(file) = &args.json {
        output::can_write(file, Path::new(""))?;
    }
    request.stdin = lab::run::spool()?;
    interrupt::watch();
    let mut display = Display::new(args.quiet);
    let outcome = lab::run::run(&request, &mut display);
    display.bar.finish_and_clear();
    if let Some(code) = interrupt::exit_code() {
        return Ok(ExitCode::from(code));
    }
    let outcome = outcome?;
    if !args.quiet {
        eprint!("{}", summary::text(&outcome));
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&outcome).context("the figures cannot be written as JSON")?;
        output::write(file, &(text + "\n"), Path::new(""))?;
    }
    Ok(ExitCode::from(outcome.code))
}

/// What the program prints, and until it does one line that says what is going on.
struct Display {
    bar: ProgressBar,
}

impl Display {
    fn new(quiet: bool) -> Display {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").unwrap_or(ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Display { bar }
    }
}

impl Progress for Display {
    fn step(&mut self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        let written = self.bar.suspend(|| match stream {
            Stream::Out => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Stream::Err => io::stderr().write_all(bytes),
        });
        if written.is_err() {
            interrupt::broken_pipe();
        }
    }

    fn stopped(&mut self) -> bool {
        interrupt::exit_code().is_some()
    }
}
