//! Signals that end a run in the lab: the emulated machine goes with it, and its folder too.

use std::sync::atomic::{AtomicI32, Ordering::*};

static CAUGHT: AtomicI32 = AtomicI32::new(0);

extern "C" fn remember(signal: libc::c_int) {
    CAUGHT.store(signal, Relaxed);
}

/// From now on such signals are remembered. A reader of our output that is gone is seen when we write.
pub fn watch() {
    let handler = remember as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler stores one word; SIG_IGN is always valid.
    unsafe {
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            // What our parent ignores (nohup) stays ignored.
            if libc::signal(signal, handler) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
}

/// A reader of our output is gone.
pub fn broken_pipe() {
    CAUGHT.store(libc::SIGPIPE, Relaxed);
}

/// The exit code for the signal that came, if one did.
pub fn exit_code() -> Option<u8> {
    match CAUGHT.load(Relaxed) {
        0 => None,
        signal => Some(128 + signal as u8),
    }
}
