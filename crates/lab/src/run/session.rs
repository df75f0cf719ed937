//! The session's folder, which host and guest share for one run. It is private and goes with its owner: while that lives
//! it holds a lock, and a folder whose lock is free was left behind by a killed one and is removed by the next.

use crate::Error;
use crate::job::{AGENT, UPPER};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";

/// A session's folder, removed when dropped.
pub struct Session {
    dir: PathBuf,
    _lock: File,
}

impl Session {
    /// Makes the folder in `$TMPDIR` or /tmp.
    pub fn create() -> Result<Session, Error> {
        let place = std::env::temp_dir();
        sweep(&place);
        Session::create_in(&place).map_err(|e| {
            Error(format!("cannot make the session's folder in {}: {e}; set TMPDIR to another one", place.display()))
        })
    }

    fn create_in(place: &Path) -> io::Result<Session> {
        let agent = std::env::current_exe()?;
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let place = fs::canonicalize(place)?;
        let dir = place.join(format!("{}{:016x}", prefix(), u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&dir)?;
        let fill = || {
            let lock = File::options().write(true).create(true).truncate(false).mode(0o600).open(dir.join(LOCK))?;
            if !lock_now(&lock) {
                return Err(io::Error::last_os_error());
            }
            fs::create_dir(dir.join(UPPER))?;
            symlink(agent, dir.join(AGENT))?;
            Ok(Session { dir: dir.clone(), _lock: lock })
        };
        fill().inspect_err(|_| {
            // Best effort: the first error is the one to tell.
            let _ = fs::remove_dir_all(&dir);
        })
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Writes a file of the session.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.dir.join(name);
        fs::write(&path, bytes).map_err(|e| Error(format!("cannot write {}: {e}", path.display())))
    }

    /// Reads a file of the session, if there is one.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.dir.join(name)).ok()
    }

    /// Keeps a file of the session beyond its end. Returns its new path.
    pub fn keep(&self, name: &str) -> io::Result<PathBuf> {
        let mut kept = self.dir.clone().into_os_string();
        kept.push(format!("-{name}"));
        fs::copy(self.dir.join(name), &kept)?;
        Ok(kept.into())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Best effort: what is left is swept up by the next session.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn lock_now(file: &File) -> bool {
    // SAFETY: flock on an open descriptor.
    unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) == 0 }
}

fn prefix() -> String {
    // SAFETY: getuid cannot fail.
    format!("hearth-lab-{}-", unsafe { libc::getuid() })
}

/// Removes sessions of this user whose owner is gone.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    // SAFETY: getuid cannot fail.
    let me = unsafe { libc::getuid() };
    for entry in entries.flatten() {
        let path = entry.path();
        let ours = entry.file_name().as_bytes().starts_with(prefix().as_bytes())
            && fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir() && m.uid() == me);
        // No lock yet: it is being made at this moment.
        let lock = if ours { File::options().write(true).open(path.join(LOCK)).ok() } else { None };
        if lock.is_some_and(|l| lock_now(&l)) {
            let _ = fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_session_is_private_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create_in(place.path()).unwrap();
        let dir = session.dir().to_owned();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        sweep(place.path());
        assert!(dir.exists(), "one that lives is left alone");
        // SAFETY: unlocks what this test locked, as the kernel does for a killed process.
        unsafe { libc::flock(session._lock.as_raw_fd(), libc::LOCK_UN) };
        sweep(place.path());
        assert!(!dir.exists(), "one that was killed is swept up");
    }
}
