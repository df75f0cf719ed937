//! The private directory that recorder and runtime share for one run.
//!
//! It lies in memory (`/dev/shm`) so that events never touch a disk, falling back to `$XDG_RUNTIME_DIR` and
//! `$TMPDIR`. Its owner holds a lock on a file in it: a directory whose lock is free was left behind by a killed
//! recorder and is removed by the next one.

use crate::Error;
use std::ffi::CString;
use std::fs::{DirBuilder, File};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wire::session::{CONFIG, Config, DOORBELL, PLAN};

const LOCK: &str = "lock";

/// A session directory, removed when dropped.
pub struct Session {
    dir: PathBuf,
    doorbell: File,
    _lock: File,
}

impl Session {
    /// Makes the directory with `config`, the doorbell, and the plan image if there is one.
    pub fn create(config: &Config, plan: Option<&[u64]>) -> Result<Session, Error> {
        let mut refusals = Vec::new();
        for place in places() {
            sweep(&place);
            match Session::create_in(&place, config, plan) {
                Ok(session) => return Ok(session),
                Err(e) => refusals.push(format!("{}: {e}", place.display())),
            }
        }
        Err(Error(format!(
            "no directory for the session can be made ({}); set TMPDIR to a writable one",
            refusals.join("; ")
        )))
    }

    fn create_in(place: &Path, config: &Config, plan: Option<&[u64]>) -> std::io::Result<Session> {
        let mut random = [0; 8];
        File::open("/dev/urandom")?.read_exact(&mut random)?;
        let dir = place.join(format!("{}{:016x}", prefix(), u64::from_ne_bytes(random)));
        DirBuilder::new().mode(0o700).create(&dir)?;
        let fill = || -> std::io::Result<Session> {
            let lock = private(&dir.join(LOCK))?;
            // SAFETY: flock on an open descriptor.
            if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            std::fs::write(dir.join(CONFIG), config.to_bytes())?;
            if let Some(words) = plan {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                std::fs::write(dir.join(PLAN), bytes)?;
            }
            let bell = dir.join(DOORBELL);
            let name = CString::new(bell.as_os_str().as_bytes())?;
            // SAFETY: `name` is a valid C string.
            if unsafe { libc::mkfifo(name.as_ptr(), 0o600) } != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // Open for both directions, so that it never reads as ended between two processes.
            let doorbell = File::options().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(&bell)?;
            Ok(Session { dir: dir.clone(), doorbell, _lock: lock })
        };
        fill().inspect_err(|_| {
            let _ = std::fs::remove_dir_all(&dir);
        })
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The doorbell's descriptor, to wait on.
    pub fn doorbell(&self) -> &File {
        &self.doorbell
    }

    /// Takes everything out of the doorbell.
    pub fn answer_bell(&self) {
        let mut bytes = [0; 256];
        while matches!((&self.doorbell).read(&mut bytes), Ok(n) if n == bytes.len()) {}
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn private(path: &Path) -> std::io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn prefix() -> String {
    // SAFETY: getuid cannot fail.
    format!("hearth-{}-", unsafe { libc::getuid() })
}

fn places() -> Vec<PathBuf> {
    let from = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let mut places = vec![PathBuf::from("/dev/shm")];
    places.extend(from("XDG_RUNTIME_DIR"));
    places.push(from("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp")));
    places
}

/// Removes sessions of this user whose recorder is gone.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    // SAFETY: getuid cannot fail.
    let me = unsafe { libc::getuid() };
    for entry in entries.flatten() {
        let path = entry.path();
        let ours = entry.file_name().as_bytes().starts_with(prefix().as_bytes())
            && std::fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir() && m.uid() == me);
        if !ours {
            continue;
        }
        // No lock file yet: it is being made at this moment.
        let Ok(lock) = File::options().read(true).write(true).open(path.join(LOCK)) else { continue };
        // SAFETY: flock on an open descriptor.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn config() -> Config {
        Config {
            magic: wire::session::CONFIG_MAGIC,
            version: wire::WIRE_VERSION.into(),
            flags: 1,
            threshold: 4096,
            faults_per_second: 1,
            steps_per_second: 1,
            most_ppm: 1,
            epoch_ns: 1,
            home: 0,
            reserved: [0; 7],
        }
    }

    #[test]
    fn a_session_is_private_complete_and_leaves_nothing() {
        let place = tempfile::tempdir().unwrap();
        let session = Session::create_in(place.path(), &config(), Some(&[1, 2])).unwrap();
        let dir = session.dir().to_owned();
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(Config::from_bytes(&std::fs::read(dir.join(CONFIG)).unwrap()), Some(config()));
        assert_eq!(std::fs::read(dir.join(PLAN)).unwrap().len(), 16);
        // A recorder that lives is left alone, one that was killed is swept up.
        sweep(place.path());
        assert!(dir.exists());
        let Session { dir: _, doorbell, _lock } = &session;
        // SAFETY: unlocks what this test locked, as the kernel does for a killed process.
        unsafe { libc::flock(_lock.as_raw_fd(), libc::LOCK_UN) };
        let _ = doorbell;
        sweep(place.path());
        assert!(!dir.exists());
    }
}
