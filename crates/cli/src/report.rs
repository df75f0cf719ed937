//! `hearth report`: what a profile says, in the terminal, as JSON or as a page.

use crate::output;
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows which of a program's data objects are big, hot and long-lived
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A profile, as written by `hearth record`
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
  hearth report app.hearth --json | jq '.sites[0]'

Figures marked ~ are estimates from samples; the report names the sampler and its error.";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
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
