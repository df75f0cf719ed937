//! `hearth stop`: ends the daemon.

use ::live::daemon::client;
use ::live::daemon::talk::{Reply, Request};
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

/// Ends the daemon; programs go on where they are, and the next daemon finds them
#[derive(clap::Args)]
pub struct Args {
    /// Where the daemon listens [default: your own daemon, or root's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

/// Runs the verb: returns when the daemon is gone.
pub fn run(args: Args) -> Result<ExitCode> {
    let Reply::Stopping { pid } = client::ask(args.socket.as_deref(), Request::Stop)? else {
        bail!("the daemon gave another answer than was asked for; is it of another version?")
    };
    client::gone(pid)?;
    Ok(ExitCode::SUCCESS)
}
