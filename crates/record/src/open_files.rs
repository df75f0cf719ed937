//! The limit on open files, raised for a recorder that needs many descriptors, and put back for the program it starts: a
//! program may behave otherwise under a larger limit (some close every descriptor there could be).

use std::sync::OnceLock;

static BEFORE: OnceLock<libc::rlimit> = OnceLock::new();

/// Makes room for `more` descriptors, as far as the hard limit lets.
pub fn make_room(more: usize) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a valid rlimit.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0;
    // What the recorder opens besides: files, libraries, one file for each process.
    let needed = more as u64 + 512;
    if known && limit.rlim_cur < needed {
        BEFORE.get_or_init(|| limit);
        let raised = libc::rlimit { rlim_cur: needed.min(limit.rlim_max), ..limit };
        // SAFETY: a valid rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
    }
}

/// The limit before it was raised, if it was.
pub fn before() -> Option<libc::rlimit> {
    BEFORE.get().copied()
}
