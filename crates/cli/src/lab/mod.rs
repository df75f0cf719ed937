//! `hearth lab`: an emulated machine with two kinds of memory.

mod setup;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// Runs programs on an emulated machine with two kinds of memory, in the time that its memory would take
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Setup(setup::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.verb {
        Verb::Setup(args) => setup::run(args),
    }
}
