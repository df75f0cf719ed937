//! `hearth lab table`: comparisons of many programs in one table.

use crate::output;
use anyhow::{Context, Result};
use model::Comparison;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth lab compare --json a.json -- ./a
  hearth lab compare --json b.json -- ./b
  hearth lab table a.json b.json --html all.html";

/// Puts comparisons of many programs into one table (Markdown), page or picture
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Comparisons, as written by `hearth lab compare --json`, or tables of them, as written by `--json` here
    #[arg(required = true, value_name = "FILE")]
    comparisons: Vec<PathBuf>,
    /// Write the table to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page with the table and the picture
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the picture
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write all comparisons to one file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// One comparison, or several.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum Read {
    One(Box<Comparison>),
    Many(Vec<Comparison>),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let mut all = Vec::new();
    for file in &args.comparisons {
        let shown = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
        match serde_json::from_str(&text) {
            Ok(Read::One(one)) => all.push(*one),
            Ok(Read::Many(many)) => all.extend(many),
            Err(_) => {
                anyhow::bail!("{shown} is not a comparison; `hearth lab compare --json {shown} -- PROGRAM` makes one")
            }
        }
    }
    let none = Path::new("");
    if let Some(file) = &args.html {
        output::write(file, &report::suite_page(&all), none)?;
    }
    if let Some(file) = &args.svg {
        output::write(file, &report::suite_svg(&all), none)?;
    }
    if let Some(file) = &args.json {
        let text = serde_json::to_string_pretty(&all).context("the comparisons cannot be written as JSON")?;
        output::write(file, &(text + "\n"), none)?;
    }
    let table = report::suite_markdown(&all);
    match &args.output {
        Some(file) => output::write(file, &table, none)?,
        None => output::print(&table)?,
    }
    Ok(ExitCode::SUCCESS)
}
