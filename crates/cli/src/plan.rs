//! `hearth plan`: not there yet.

use anyhow::{Result, bail};
use std::process::ExitCode;

/// Not there yet
#[derive(clap::Args)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: Args) -> Result<ExitCode> {
    bail!("`hearth plan` is not there yet")
}
