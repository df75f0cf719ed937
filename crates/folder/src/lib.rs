//! A private folder that goes with its owner, even if that is killed: the owner holds a lock on a file in it, and a folder whose lock is free is
//! removed by the next one who makes such a folder.
//!
//! Between the moments when that file is made and when it is locked it looks like one that was left behind. So who has the lock looks whether the
//! file is still there, and begins anew if it is not; and who removes a folder takes its name away first, so that nobody finds half of one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOCK: &str = "lock";
/// Attempts, as others may be sweeping up.
const MOST: u64 = 50;

/// A folder that this process holds. It stays when this is dropped: [`Folder::remove`] removes it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    lock: File,
}

impl Folder {
    /// Makes a folder with mode 0700 whose name nobody can foresee: `prefix`, and 16 hexadecimal digits.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn create(place: &Path, prefix: &str) -> io::Result<Folder> {
        for _ in 0..MOST {
            let path = place.join(format!("{prefix}{}", random()?));
            DirBuilder::new().mode(0o700).create(&path)?;
            match Folder::hold(&path, true) {
                Ok(Some(folder)) => return Ok(folder),
                Ok(None) => {}
                Err(e) => {
                    // Best effort: the first error is the one to tell.
                    let _ = fs::remove_dir_all(&path);
                    return Err(e);
                }
            }
        }
        Err(io::Error::other("somebody removes it each time"))
    }

    /// Takes the folder of this name, which is made with mode 0700 if it is not there.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if somebody else holds it and does not let it go within a second or so; one of another kind if something stands there that is not
    /// a private directory of `uid`, and those of the file system.
    pub fn take(path: &Path, uid: u32) -> io::Result<Folder> {
        for attempt in 0..MOST {
            match DirBuilder::new().mode(0o700).create(path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                made => made?,
            }
            match fs::symlink_metadata(path) {
                Ok(found) if found.is_dir() && found.uid() == uid && found.mode() & 0o077 == 0 => {}
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
                Ok(_) => {
                    let why = format!("{} is not a private directory of user {uid}; remove it", path.display());
                    return Err(io::Error::other(why));
                }
            }
            if let Some(folder) = Folder::hold(path, true)? {
                return Ok(folder);
            }
            std::thread::sleep(Duration::from_millis(attempt));
        }
        Err(ErrorKind::WouldBlock.into())
    }

    /// Folders of this user whose names begin with `prefix`, and whose owners are gone.
    pub fn left_behind(place: &Path, prefix: &str) -> impl Iterator<Item = Folder> {
        // SAFETY: getuid cannot fail.
        let me = unsafe { libc::getuid() };
        let ours = move |name: &OsStr, path: &Path| {
            name.as_bytes().starts_with(prefix.as_bytes())
                && fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == me)
        };
        let entries = fs::read_dir(place).into_iter().flatten().flatten();
        let paths = entries.filter(move |e| ours(&e.file_name(), &e.path())).map(|e| e.path());
        // One without a lock is being made at this moment.
        paths.filter_map(|path| Folder::hold(&path, false).ok().flatten())
    }

    /// Takes the lock; none if somebody else has it, or has removed the folder.
    fn hold(path: &Path, make: bool) -> io::Result<Option<Folder>> {
        let mut options = File::options();
        options.read(true).write(true).create(make).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let lock = match options.open(path.join(LOCK)) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        // SAFETY: flock on an open descriptor.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let e = io::Error::last_os_error();
            return if e.kind() == ErrorKind::WouldBlock { Ok(None) } else { Err(e) };
        }
        let folder = Folder { path: path.to_owned(), lock };
        Ok(folder.is_there().then_some(folder))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still there: a user's files in `/dev/shm` may be removed when he logs out.
    pub fn is_there(&self) -> bool {
        let there = fs::metadata(self.path.join(LOCK)).map(|m| (m.dev(), m.ino()));
        there.is_ok_and(|there| self.lock.metadata().is_ok_and(|m| (m.dev(), m.ino()) == there))
    }

    /// Removes it with all that is in it, as far as that can be: what stays is swept up by the next.
    pub fn remove(&self) {
        let away = || {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{}", random()?));
            fs::rename(&self.path, &name)?;
            fs::remove_dir_all(&name)
        };
        let _: io::Result<()> = away();
    }
}

/// 16 hexadecimal digits.
fn random() -> io::Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:016x}", u64::from_ne_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn sweep(place: &Path) {
        Folder::left_behind(place, "one-").for_each(|f| f.remove());
    }

    #[test]
    fn a_folder_goes_with_its_owner() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::create(place.path(), "one-").unwrap();
        let path = folder.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        sweep(place.path());
        assert!(folder.is_there(), "one that lives is left alone");
        // As the kernel does for a killed process.
        drop(folder);
        assert!(Folder::left_behind(place.path(), "two-").next().is_none());
        sweep(place.path());
        assert!(!path.exists());
    }

    #[test]
    fn who_sweeps_up_takes_nothing_from_who_comes() {
        let place = tempfile::tempdir().unwrap();
        let ended = AtomicBool::new(false);
        let name = place.path().join("one-of-a-daemon");
        // SAFETY: getuid cannot fail.
        let me = unsafe { libc::getuid() };
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        sweep(place.path());
                    }
                });
            }
            let fill = |folder: &Folder| fs::write(folder.path().join("file"), "").is_ok() && folder.is_there();
            let made = |n: u32| {
                let new = Folder::create(place.path(), "one-").is_ok_and(|f| fill(&f));
                // Of the next round's it is the one that was there.
                new && Folder::take(&name, me).is_ok_and(|f| {
                    let filled = fill(&f);
                    if n % 3 == 0 {
                        f.remove();
                    }
                    filled
                })
            };
            let wrong: Vec<u32> = (0..3000).filter(|n| !made(*n)).collect();
            ended.store(true, Ordering::Relaxed);
            assert_eq!(wrong, []);
        });
    }

    #[test]
    fn there_is_one_owner_at_a_time_and_nothing_else_is_taken() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("one");
        // SAFETY: getuid cannot fail.
        let me = unsafe { libc::getuid() };
        let folder = Folder::take(&path, me).unwrap();
        assert_eq!(Folder::take(&path, me).unwrap_err().kind(), ErrorKind::WouldBlock);
        folder.remove();
        assert!(!folder.is_there());
        std::os::unix::fs::symlink("/tmp", &path).unwrap();
        assert!(Folder::take(&path, me).unwrap_err().to_string().ends_with("remove it"));
    }
}
