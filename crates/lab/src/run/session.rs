//! The session's folder, which host and guest share for one run. It is private and goes with its owner.

use crate::Error;
use crate::job::{AGENT, UPPER};
use folder::Folder;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// A session's folder, removed when dropped.
pub struct Session {
    folder: Folder,
}

impl Session {
    /// Makes the folder in `$TMPDIR` or /tmp.
    pub fn create() -> Result<Session, Error> {
        let place = std::env::temp_dir();
        Session::create_in(&place).map_err(|e| {
            Error(format!("cannot make the session's folder in {}: {e}; set TMPDIR to another one", place.display()))
        })
    }

    fn create_in(place: &Path) -> io::Result<Session> {
        // SAFETY: getuid cannot fail.
        let prefix = format!("hearth-lab-{}-", unsafe { libc::getuid() });
        Folder::left_behind(place, &prefix).for_each(|f| f.remove());
        let session = Session { folder: Folder::create(&fs::canonicalize(place)?, &prefix)? };
        fs::create_dir(session.dir().join(UPPER))?;
        symlink(std::env::current_exe()?, session.dir().join(AGENT))?;
        Ok(session)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file of the session.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.dir().join(name);
        fs::write(&path, bytes).map_err(|e| Error(format!("cannot write {}: {e}", path.display())))
    }

    /// Reads a file of the session, if there is one.
    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.dir().join(name)).ok()
    }

    /// Keeps a file of the session beyond its end. Returns its new path.
    pub fn keep(&self, name: &str) -> io::Result<PathBuf> {
        let mut kept = self.dir().as_os_str().to_owned();
        kept.push(format!("-{name}"));
        fs::copy(self.dir().join(name), &kept)?;
        Ok(kept.into())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.folder.remove();
    }
}
