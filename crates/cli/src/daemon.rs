//! `hearth daemon`: places the objects of many programs, which come and go.

use ::live::daemon::{self, client};
use ::live::shares::{By, Shares};
use anyhow::{Result, bail};
use model::Bytes;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  hearth daemon &                           for your own programs; as root for everyone's
  hearth live --attach -- ./app args        a program that it places
  hearth daemon --share-by user             no user's programs push another one's out of an equal part of the fast memory
  hearth daemon --share-by command --reserve postgres=8GiB
                                            8 GiB are postgres's whenever it has a use for them; the rest goes to what gains most
  hearth status                             what it sees and does
  hearth stop                               it ends; programs go on where they are, and the next daemon finds them";

/// Places the objects of programs that come and go (hearth live --attach), all in one fast memory, until it is stopped
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Where it listens [default: /run/hearth.sock for root, else hearth.sock in XDG_RUNTIME_DIR, or /tmp/hearth-UID.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Share the fast memory between groups of programs: each can count on its part, and what it does not use is lent to the others
    /// [default: all of it goes to what gains most]
    #[arg(long, value_name = "GROUPS")]
    share_by: Option<Group>,
    /// With --share-by: this group's part is so many times that of one that is not named; may be given several times
    #[arg(long, value_name = "NAME=NUMBER", requires = "share_by", value_parser = weight)]
    weight: Vec<(String, f64)>,
    /// With --share-by: this group's part is so large; may be given several times
    #[arg(long, value_name = "NAME=SIZE", requires = "share_by", value_parser = reserve)]
    reserve: Vec<(String, Bytes)>,
    /// End when the last program that it places has ended (as that of `hearth run --phases` does)
    #[arg(long)]
    while_needed: bool,
    #[command(flatten)]
    placing: crate::placing::Placing,
}

/// What makes a group of programs.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Group {
    /// A user's programs; NAME is the user's name or number
    User,
    /// The programs of a control group; NAME is its path, and stands for all below it too
    Cgroup,
    /// Programs of one file name, whoever runs them
    Command,
    /// A process and all that descend from it, such as an MPI job's; all have equal parts
    Job,
}

fn weight(text: &str) -> Result<(String, f64), String> {
    let (name, number) = text.rsplit_once('=').ok_or("give NAME=NUMBER, for example postgres=2")?;
    let number =
        number.parse().map_err(|_| format!("`{number}` is not a number; give NAME=NUMBER, for example postgres=2"))?;
    Ok((name.to_string(), number))
}

fn reserve(text: &str) -> Result<(String, Bytes), String> {
    let (name, size) = text.rsplit_once('=').ok_or("give NAME=SIZE, for example postgres=8GiB")?;
    Ok((name.to_string(), size.parse()?))
}

/// Runs the verb until a signal or `hearth stop` ends it.
pub fn run(args: Args) -> Result<ExitCode> {
    let socket = args.socket.unwrap_or_else(client::socket);
    let mut options = args.placing.options()?;
    if let Some(group) = args.share_by {
        let by = match group {
            Group::User => By::User,
            Group::Cgroup => By::Cgroup,
            Group::Command => By::Command,
            Group::Job => By::Job,
        };
        let shares = Shares::new(by, &args.weight, &args.reserve)?;
        let fastest = options.platform.tiers.first().and_then(|t| t.capacity).map(|c| c.value);
        if let Some(most) = options.fast.or(fastest).filter(|most| shares.reserved() > *most) {
            bail!(
                "--reserve: {} are reserved, and objects may take {most} of the fastest memory; reserve less",
                shares.reserved()
            );
        }
        if options.routines.enforce.starts_with("script") {
            bail!("--share-by: a script for --enforce decides by itself who gets what; give one of the two");
        }
        options.shares = Some(shares);
    }
    let lived = daemon::run(&options, &socket, args.while_needed, |notes| {
        notes.iter().for_each(|note| eprintln!("hearth: {note}"));
        eprintln!("hearth: the daemon listens at {}", socket.display());
    })?;
    eprint!("{}", crate::live::summary(&lived));
    Ok(ExitCode::SUCCESS)
}
