//! Notices which files of the host are opened (fanotify(7)), so that later runs can have them in memory beforehand.

use crate::Error;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A watch on the guest's root file system, which is the host's.
pub struct Opened {
    events: File,
    seen: HashSet<OsString>,
    /// Regular files that were opened, in order.
    pub files: Vec<OsString>,
}

impl Opened {
    /// Begins to watch.
    pub fn watch() -> Result<Opened, Error> {
        let failed = |e| Error(format!("the guest cannot see which files the program opens: {e}"));
        let how = libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_QUEUE;
        // SAFETY: flags only; the new descriptor is owned by the file. Then a mark on the mount of a valid path.
        unsafe {
            let fd = libc::fanotify_init(how, (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE) as u32);
            if fd < 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            let events = File::from_raw_fd(fd);
            let what = libc::FAN_MARK_ADD | libc::FAN_MARK_MOUNT;
            if libc::fanotify_mark(fd, what, libc::FAN_OPEN, libc::AT_FDCWD, c"/".as_ptr()) != 0 {
                return Err(failed(io::Error::last_os_error()));
            }
            Ok(Opened { events, seen: HashSet::new(), files: Vec::new() })
        }
    }

    /// Takes note of what was opened since the last call.
    pub fn read(&mut self) {
        const HEAD: usize = size_of::<libc::fanotify_event_metadata>();
        // Aligned as the events are.
        let mut buffer = [0u64; 512];
        loop {
            // SAFETY: the same bytes.
            let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast::<u8>(), 4096) };
            let Ok(n @ 1..) = self.events.read(bytes) else { return };
            let mut at = 0;
            while at + HEAD <= n {
                // SAFETY: the kernel wrote whole events, each as long as it says, aligned to 8 bytes.
                let event = unsafe { &*bytes.as_ptr().add(at).cast::<libc::fanotify_event_metadata>() };
                at += (event.event_len as usize).max(HEAD);
                if event.fd >= 0 {
                    // SAFETY: a new descriptor, given to us by the event.
                    self.note(unsafe { OwnedFd::from_raw_fd(event.fd) });
                }
            }
        }
    }

    fn note(&mut self, file: OwnedFd) {
        let Ok(path) = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())) else { return };
        let regular = std::fs::metadata(&path).is_ok_and(|m| m.is_file());
        if regular && self.seen.insert(path.clone().into()) {
            self.files.push(path.into());
        }
    }
}
