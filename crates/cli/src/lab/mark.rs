//! `hearth lab mark`: the marks of the region of interest, for programs that read scripts.

use anyhow::Result;
use clap::ValueEnum;
use std::process::ExitCode;
use wire::mark;

/// Begins or ends the region of interest of `hearth lab run --roi marks`; does nothing anywhere else
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Whether the time model is switched on or off
    #[arg(value_name = "on|off")]
    what: What,
}

#[derive(Clone, Copy, ValueEnum)]
enum What {
    On,
    Off,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth lab run --roi marks -- bash -c './prepare && hearth lab mark on && ./work && hearth lab mark off && ./check'
  shell hearth lab mark on               in a script of lammps, before its `run`

For programs that can run a command where their work begins. Without `off` the region lasts to the program's end. The start of this
command itself counts where it ends a region, and not where it begins one.";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.what {
        What::On => mark::on(),
        What::Off => mark::off(),
    }
    Ok(ExitCode::SUCCESS)
}
