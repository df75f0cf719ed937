//! `hearth report`: what a profile says, in the terminal, as JSON or as a page.

use crate::names::Names;
use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use report::Log;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Shows which of a program's data objects are big, hot and long-lived
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A profile, as written by `hearth record`, or a log, as written by `hearth live --log`
    profile: PathBuf,
    /// How many sites the table shows; the rest is summed
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Show one site in full, with its call stack: any beginning of its id
    #[arg(long, value_name = "ID")]
    site: Option<String>,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["site", "html", "firefox", "top"])]
    json: bool,
    /// Write one page with pictures that needs no network; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["site", "top"])]
    html: Option<PathBuf>,
    /// Write a profile for the Firefox profiler; - for standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["site", "html", "top"])]
    firefox: Option<PathBuf>,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth report app.hearth                    the hottest sites
  hearth report app.hearth --site 3c078971    one of them, with its call stack
  hearth report app.hearth --html app.html    a page with pictures, for a browser or a talk
  hearth report app.hearth --firefox app.json   call paths over time, for profiler.firefox.com
  hearth report why.jsonl --html why.html     what hearth live moved and why, residency and heat over time
  hearth report app.hearth --json | jq '.sites[0]'

Figures marked ~ are estimates from samples; the report names the sampler and its error.";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    if let Some(log) = log(&args.profile)? {
        return run_log(&args, &log);
    }
    let observed = profile::open(&args.profile)?.observed()?;
    if let Some(id) = &args.site {
        let site = report::find(&observed, id)?;
        output::print(&report::site(&observed, site))?;
    } else if args.json {
        output::print(&report::json(&observed)?)?;
    } else if let Some(file) = &args.html {
        let page = report::html::page(&observed);
        output::write(file, &page, &args.profile)?;
    } else if let Some(file) = &args.firefox {
        output::write(file, &report::firefox(&observed)?, &args.profile)?;
    } else {
        output::print(&report::table(&observed, output::width(), args.top))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Most bytes of a log that is read.
const LONGEST_LOG: u64 = 1 << 30;

/// The log in this file; none if it is no log.
fn log(path: &Path) -> Result<Option<Log>> {
    let mut begin = [0];
    // What cannot be read is said of the profile.
    let first = File::open(path).and_then(|mut file| file.read_exact(&mut begin));
    if first.is_err() || begin != *b"{" {
        return Ok(None);
    }
    let shown = path.display();
    let length = std::fs::metadata(path).map_or(0, |m| m.len());
    if length > LONGEST_LOG {
        bail!("{shown}: logs of more than 1 GiB are not read; cut it into pieces (split --line-bytes=900M)");
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("{shown} cannot be read"))?;
    let mut log = Log::read(&text).map_err(|why| anyhow!("{shown}: {why}"))?;
    let mut names = Names::default();
    names.learn(log.sites.values());
    log.sites.values_mut().for_each(|site| *site = names.named(site));
    Ok(Some(log))
}

fn run_log(args: &Args, log: &Log) -> Result<ExitCode> {
    let name = args.profile.file_name().unwrap_or_default().to_string_lossy();
    match &args.html {
        _ if args.site.is_some() || args.json || args.firefox.is_some() => {
            bail!(
                "{} is a log: it is shown as a table or by --html; each of its lines is JSON",
                args.profile.display()
            );
        }
        Some(file) => output::write(file, &report::log_page(log, &name), &args.profile)?,
        None => output::print(&report::log_table(log, output::width(), args.top))?,
    }
    Ok(ExitCode::SUCCESS)
}
