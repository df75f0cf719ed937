//! `hearth lab compare`: placements of one program side by side.

use super::interrupt;
use super::machine::Machine;
use crate::output;
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use lab::compare::{Choice, Compare, Watcher};
use lab::job::Roi;
use model::{Bytes, PlacementRun};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const EXAMPLES: &str = "\
EXAMPLES
  hearth lab compare -- ./app args                     every placement at 12.5, 25, 50 and 75 % fast memory
  hearth lab compare --platform cascade-lake-optane --fast 25 --placements first-touch,kernel,plan -- ./app
  hearth lab compare --html app.html --json app.json -- ./app

Each cell of the table is a run in a fresh machine, so this takes a while; what is done is kept in the folder given by -o, and
the same command goes on where it was.";

/// Compares placements of an unmodified program on an emulated machine with two kinds of memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "hearth lab compare [OPTIONS] -- PROGRAM [ARGS]...")]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// Capacities of fast memory, in percent of what the program uses
    #[arg(long, value_name = "PERCENT,...", value_delimiter = ',', default_value = "12.5,25,50,75", value_parser = percent)]
    fast: Vec<f64>,
    /// What is compared: placements, `plan` (of the density policy) or `plan=POLICY` [default: all placements and plan]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    placements: Vec<Choice>,
    /// Profile to plan by [default: one is recorded in the lab]
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Take the sizes of sites from this profile, as `hearth plan --sizes` does
    #[arg(long, value_name = "FILE", requires = "profile")]
    sizes: Option<PathBuf>,
    /// Folder for what is measured [default: PROGRAM.compare in this folder]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write the page with the picture to this file [default: in the folder]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Also write the picture alone to this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Also write all figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Machines to run at once [default: as many as processors and memory allow]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// When the time model is switched on: start, after=TIME, allocated=SIZE|PERCENT, or marks (by the program itself)
    #[arg(long, value_name = "WHEN", default_value = "start")]
    roi: Roi,
    /// Last-level cache [default: the platform's, scaled]
    #[arg(long, value_name = "SIZE")]
    llc: Option<Bytes>,
    /// Program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim().trim_end_matches('%').parse::<f64>() {
        Ok(p) if p > 0.0 && p <= 100.0 => Ok(p),
        _ => Err(format!("`{text}` is not a share; write for example 25")),
    }
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let program = Path::new(args.command.first().map_or("", |p| p.to_str().unwrap_or("program")));
    let name = program.file_name().map_or_else(|| "program".into(), |n| n.to_string_lossy().into_owned());
    let folder = args.output.unwrap_or_else(|| PathBuf::from(format!("{name}.compare")));
    let html = args.html.unwrap_or_else(|| folder.join("compare.html"));
    let mut base = args.machine.request(args.command)?;
    base.roi = args.roi;
    base.llc = args.llc;
    for file in args.svg.iter().chain(&args.json) {
        output::can_write(file, Path::new(""))?;
    }
    let what = Compare {
        base,
        choices: if args.placements.is_empty() { Choice::usual() } else { args.placements },
        percents: args.fast,
        profile: args.profile,
        sizes: args.sizes,
        hearth: std::env::current_exe().context("cannot find out where the hearth command lies")?,
        folder,
        jobs: args.jobs,
    };
    interrupt::watch();
    let mut display = Display::new();
    let result = lab::compare::compare(&what, &mut display);
    display.bar.finish_and_clear();
    if let Some(code) = interrupt::exit_code() {
        eprintln!("hearth: stopped; the same command goes on where this one was");
        return Ok(ExitCode::from(code));
    }
    let comparison = result?;
    let width = terminal_size::terminal_size().map_or(120, |(w, _)| usize::from(w.0));
    output::print(&report::comparison(&comparison, width))?;
    output::write(&html, &report::comparison_page(&comparison), Path::new(""))?;
    if let Some(file) = &args.svg {
        output::write(file, &report::comparison_svg(&comparison), Path::new(""))?;
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&comparison).context("the figures cannot be written as JSON")?;
        output::write(file, &(text + "\n"), Path::new(""))?;
    }
    eprintln!("hearth: the picture is in {}", html.display());
    Ok(ExitCode::SUCCESS)
}

/// A line for each cell that is done, and one for what is being done.
struct Display {
    bar: ProgressBar,
}

impl Display {
    fn new() -> Display {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
        bar.set_style(style.unwrap_or(ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(100));
        Display { bar }
    }
}

impl Watcher for Display {
    fn step(&mut self, what: &str) {
        self.bar.set_message(what.to_string());
    }

    fn note(&mut self, note: &str) {
        self.bar.suspend(|| eprintln!("hearth: {note}"));
    }

    fn done(&mut self, done: usize, of: usize, run: &PlacementRun, kept: bool) {
        let at = run.fast_percent.map_or_else(String::new, |p| format!(" at {p} %"));
        let how = match (kept, run.code) {
            (true, _) => " (measured before)".to_string(),
            (false, 0) => String::new(),
            (false, code) => format!(" (exit code {code})"),
        };
        self.bar.suspend(|| eprintln!("hearth: {done}/{of}: {}{at}: {}{how}", run.placement, run.time));
    }

    fn stopped(&mut self) -> bool {
        interrupt::exit_code().is_some()
    }
}
