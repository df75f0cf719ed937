//! The `hearth` command: one file a verb, nothing else.

mod daemon;
mod diff;
mod errors;
mod import;
mod lab;
mod live;
mod manual;
mod names;
mod output;
mod placing;
mod plan;
mod platform;
mod record;
mod report;
mod run;
mod sampler;
mod sites;
mod status;
mod stop;
mod top;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Puts a program's data objects into the right memory on machines with more than one kind
#[derive(Parser)]
#[command(name = "hearth", version, max_term_width = 110, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Platform(platform::Args),
    Record(record::Args),
    Import(import::Args),
    Report(report::Args),
    Sites(sites::Args),
    Diff(diff::Args),
    Plan(plan::Args),
    Run(run::Args),
    Live(live::Args),
    Daemon(daemon::Args),
    Status(status::Args),
    Top(top::Args),
    Stop(stop::Args),
    Lab(lab::Args),
    /// The first process of the lab's guest; of no use elsewhere
    #[command(hide = true)]
    LabAgent,
    /// What a daemon asks a process with its user's rights to read
    #[command(hide = true)]
    ReadModules {
        files: Vec<std::path::PathBuf>,
    },
    /// What packaging/install and docs/cli.md are made with
    #[command(hide = true)]
    Manual(manual::Args),
}

/// Gives memory back to the kernel by large pieces only. A recorder takes and gives back some hundred KiB at every turn,
/// which the C library would trim away and fault in anew each time.
fn keep_memory() {
    // SAFETY: sets a parameter of the allocator before there are threads.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20) };
}

fn main() -> ExitCode {
    errors::quiet_on_broken_pipe();
    keep_memory();
    let result = match Cli::parse().verb {
        Verb::Platform(args) => platform::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Sites(args) => sites::run(args),
        Verb::Diff(args) => diff::run(args),
        Verb::Plan(args) => plan::run(args),
        Verb::Run(args) => run::run(args),
        Verb::Live(args) => live::run(args),
        Verb::Daemon(args) => daemon::run(args),
        Verb::Status(args) => status::run(args),
        Verb::Top(args) => top::run(args),
        Verb::Stop(args) => stop::run(args),
        Verb::Lab(args) => lab::run(args),
        Verb::LabAgent => Err(::lab::agent::run().into()),
        Verb::ReadModules { files } => {
            ::record::files::tell(&files, std::io::stdout().lock()).map(|()| ExitCode::SUCCESS).map_err(Into::into)
        }
        Verb::Manual(args) => manual::run(args, Cli::command()),
    };
    result.unwrap_or_else(|error| errors::bad_input(&error))
}
