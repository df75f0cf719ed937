//! `hearth lab setup`: gets and checks everything that the lab needs.

use crate::output;
use ::lab::setup::{self, News};
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Gets and checks everything that the lab needs: QEMU, a guest kernel and the time model; needs no root
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Folder of the lab; by default $HEARTH_LAB, or hearth/lab in the user's cache
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth lab setup                        about 150 MB from the Debian mirror of this machine, 200 MB on disk
  hearth lab setup --dir /scratch/lab     into another folder; name it to the other verbs by --dir or $HEARTH_LAB";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let dir = args.dir.map_or_else(setup::default_dir, Ok)?;
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} {prefix} {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(100));
    let installed = setup::install(&dir, &mut |news| match news {
        News::Line(text) => bar.suspend(|| println!("{text}")),
        News::Doing(what) => {
            bar.set_prefix(what);
            bar.set_message("");
        }
        News::Percent(percent) => bar.set_message(format!("{percent:.0} %")),
    });
    bar.finish_and_clear();
    output::print(&format!("the lab in {} is ready\n", installed?.dir().display()))?;
    Ok(ExitCode::SUCCESS)
}
