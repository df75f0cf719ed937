//! How the command fails: one clear sentence on stderr and exit code 2.

use std::process::ExitCode;

/// Says what is wrong and how to mend it. Exit code 2, as for a wrong command line.
pub fn bad_input(error: &anyhow::Error) -> ExitCode {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    eprintln!("hearth: {}", causes.join(": "));
    ExitCode::from(2)
}

/// `hearth report | head` must end quietly: restore the default action of SIGPIPE, which Rust ignores.
pub fn quiet_on_broken_pipe() {
    // SAFETY: called first in main, before any thread exists; SIG_DFL is always valid.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
