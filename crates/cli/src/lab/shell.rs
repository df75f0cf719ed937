//! `hearth lab shell`: a look around in the emulated machine.

use super::interrupt;
use super::machine::Machine;
use anyhow::{Result, bail};
use lab::job::Terminal;
use lab::run::{Placement, Progress};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

/// Opens a shell in the emulated machine, without its timing; exit ends the machine
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    machine: Machine,
    /// Where pages go: all-fast, all-slow, first-touch, interleave, weighted-interleave, kernel (NUMA balancing and
    /// demotion), or memory-mode (fast memory as a cache)
    #[arg(long, value_name = "PLACEMENT", default_value = "first-touch")]
    placement: Placement,
    /// Program to run instead of bash
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Runs the verb. The exit code is the shell's.
pub fn run(args: Args) -> Result<ExitCode> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        bail!("lab shell needs a terminal; to run a command use `hearth lab run -- COMMAND`");
    }
    let command = if args.command.is_empty() { vec!["bash".into()] } else { args.command };
    let mut request = args.machine.request(command)?;
    request.placement = args.placement;
    if let Placement::Plan(_) | Placement::Live(_) = request.placement {
        bail!("lab shell has no placement by Hearth; in the shell use `hearth run --plan` or `hearth live`");
    }
    let (columns, rows) = terminal_size::terminal_size().map_or((80, 24), |(w, h)| (w.0, h.0));
    let before = Saved::terminal();
    interrupt::watch();
    let code = lab::run::shell(&request, Terminal { rows, columns }, &mut Display);
    drop(before);
    match interrupt::exit_code() {
        Some(code) => Ok(ExitCode::from(code)),
        None => Ok(ExitCode::from(code?)),
    }
}

struct Display;

impl Progress for Display {
    fn stopped(&mut self) -> bool {
        interrupt::exit_code().is_some()
    }
}

/// The terminal's settings, which QEMU changes and, when it is killed, leaves changed. Dropped, they are back.
struct Saved(Option<libc::termios>);

impl Saved {
    fn terminal() -> Saved {
        // SAFETY: a zeroed termios is valid, and is filled on success.
        unsafe {
            let mut settings: libc::termios = std::mem::zeroed();
            Saved((libc::tcgetattr(0, &mut settings) == 0).then_some(settings))
        }
    }
}

impl Drop for Saved {
    fn drop(&mut self) {
        if let Some(settings) = &self.0 {
            // SAFETY: settings that tcgetattr filled in; QEMU may also have made the descriptor non-blocking.
            unsafe {
                libc::tcsetattr(0, libc::TCSADRAIN, settings);
                let flags = libc::fcntl(0, libc::F_GETFL);
                libc::fcntl(0, libc::F_SETFL, flags & !libc::O_NONBLOCK);
            }
        }
    }
}
