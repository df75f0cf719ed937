//! `hearth daemon`: places the objects of many programs, which come and go.

use ::live::daemon::{self, client};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth daemon &                           for your own programs; as root for everyone's
  hearth live --attach -- ./app args        a program that it places
  hearth status                             what it sees and does
  hearth stop                               it ends; programs go on where they are, and the next daemon finds them";

/// Places the objects of programs that come and go (hearth live --attach), all in one fast memory, until it is stopped
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where it listens [default: /run/hearth.sock for root, else hearth.sock in XDG_RUNTIME_DIR]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    #[command(flatten)]
    placing: crate::placing::Placing,
}

/// Runs the verb until a signal or `hearth stop` ends it.
pub fn run(args: Args) -> Result<ExitCode> {
    let socket = args.socket.unwrap_or_else(client::socket);
    let options = args.placing.options()?;
    let lived = daemon::run(&options, &socket, |notes| {
        notes.iter().for_each(|note| eprintln!("hearth: {note}"));
        eprintln!("hearth: the daemon listens at {}", socket.display());
    })?;
    eprint!("{}", crate::live::summary(&lived));
    Ok(ExitCode::SUCCESS)
}
