//! `hearth lab`: an emulated machine with two kinds of memory.

mod compare;
mod interrupt;
mod machine;
mod mark;
mod run;
mod setup;
mod shell;
mod summary;
mod table;

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
    Run(run::Args),
    Compare(compare::Args),
    Table(table::Args),
    Shell(shell::Args),
    Mark(mark::Args),
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    match args.verb {
        Verb::Setup(args) => setup::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Compare(args) => compare::run(args),
        Verb::Table(args) => table::run(args),
        Verb::Shell(args) => shell::run(args),
        Verb::Mark(args) => mark::run(args),
    }
}
