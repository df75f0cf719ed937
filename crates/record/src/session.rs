//! The private directory that recorder and runtime share for one run.
//!
//! It lies in memory (`/dev/shm`) so that events never touch a disk, falling back to `$XDG_RUNTIME_DIR` and
//! `$TMPDIR`. It goes with its recorder, even if that is killed.
//!
//! A daemon's session *stands*: it has one name for each user and daemon, and programs that were started in it go on when the daemon ends. The next
//! daemon finds it again. It is removed when nobody is in it any more.

use crate::Error;
use crate::owner::Owner;
use folder::Folder;
use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wire::session::{CONFIG, Config, DOORBELL, FAILED, LOADED, MOST_PASSED_OVER, PASSED_OVER, PLAN, PROCESS_SUFFIX};

/// Begins the name of a standing session, before its owner's number and its daemon's name.
const STANDING: &str = "hearthd-";

/// What a standing session's [`PASSED_OVER`] is renamed to while it is read.
const HEARD: &str = "heard";
/// Lines of it that are listened to.
const MOST_HEARD: usize = 16;

/// What runtimes have said beside their process files.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// A process could not make its file.
    pub failed: bool,
    /// Why processes were left alone, each reason once.
    pub passed_over: Vec<String>,
}

/// A session directory, removed when dropped; one that stands, if no process is in it.
pub struct Session {
    folder: Folder,
    owner: Owner,
    standing: bool,
    doorbell: File,
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
        let folder = Folder::create(place, &prefix())?;
        let fill = || -> std::io::Result<File> {
            std::fs::write(folder.path().join(CONFIG), config.to_bytes())?;
            if let Some(words) = plan {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
                std::fs::write(folder.path().join(PLAN), bytes)?;
            }
            bell(&folder.path().join(DOORBELL))
        };
        let doorbell = fill().inspect_err(|_| folder.remove())?;
        Ok(Session { folder, owner: Owner::me(), standing: false, doorbell })
    }

    /// The standing session of a user at the daemon of this name, made or found again.
    pub fn stand(owner: Owner, daemon: &str, config: &Config) -> Result<Session, Error> {
        let mut refusals = Vec::new();
        for place in places() {
            match Session::stand_in(&place, owner, daemon, config) {
                Ok(session) => return Ok(session),
                // In another place the programs that are in this one would never be found.
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => return Err(Error(e.to_string())),
                Err(e) => refusals.push(format!("{}: {e}", place.display())),
            }
        }
        Err(Error(format!("no directory for the session can be made ({})", refusals.join("; "))))
    }

    fn stand_in(place: &Path, owner: Owner, daemon: &str, config: &Config) -> std::io::Result<Session> {
        let dir = place.join(format!("{STANDING}{}-{daemon}", owner.uid));
        let _acting = owner.act();
        let folder = Folder::take(&dir, owner.uid).map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => {
                let why = format!("another daemon follows the programs of user {} in {}", owner.uid, dir.display());
                std::io::Error::new(e.kind(), why)
            }
            _ => e,
        })?;
        clear_out(&dir);
        // A program may be reading it at this moment: it gets the old one or the new one.
        let fresh = dir.join(format!("{CONFIG}.new"));
        let _ = std::fs::remove_file(&fresh);
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(&config.to_bytes())?;
        std::fs::rename(&fresh, dir.join(CONFIG))?;
        let doorbell = bell(&dir.join(DOORBELL))?;
        Ok(Session { folder, owner, standing: true, doorbell })
    }

    /// Users that have a standing session at the daemon of this name.
    pub fn standing(daemon: &str) -> Vec<Owner> {
        let mut owners = Vec::new();
        for entry in places().iter().flat_map(std::fs::read_dir).flatten().flatten() {
            let name = entry.file_name();
            let uid = name
                .to_str()
                .and_then(|n| n.strip_prefix(STANDING)?.strip_suffix(daemon)?.strip_suffix('-')?.parse::<u32>().ok());
            let found = std::fs::symlink_metadata(entry.path()).ok().filter(|m| m.is_dir() && Some(m.uid()) == uid);
            owners.extend(found.map(|m| Owner { uid: m.uid(), gid: m.gid() }));
        }
        owners.sort_by_key(|o| o.uid);
        owners.dedup_by_key(|o| o.uid);
        owners
    }

    /// Whether its directory is still there.
    pub fn is_there(&self) -> bool {
        let _acting = self.owner.act();
        self.folder.is_there()
    }

    /// Whose it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// Names of the process files in it, and so many at most that nobody can keep a daemon busy with them.
    pub fn files(&self) -> Vec<OsString> {
        const MOST: usize = 1 << 16;
        let _acting = self.owner.act();
        let entries = std::fs::read_dir(self.dir()).into_iter().flatten().flatten();
        let names = entries.take(MOST).map(|entry| entry.file_name());
        names.filter(|name| name.as_encoded_bytes().ends_with(PROCESS_SUFFIX.as_bytes())).collect()
    }

    /// What was said in a standing session since this was asked last; it is not kept.
    pub fn said(&self) -> Said {
        let _acting = self.owner.act();
        let here = |name: &str| self.dir().join(name);
        let failed = std::fs::rename(here(FAILED), here(LOADED)).is_ok();
        if std::fs::rename(here(PASSED_OVER), here(HEARD)).is_err() {
            return Said { failed, passed_over: Vec::new() };
        }
        // Its user may have put anything there.
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file = File::options().read(true).custom_flags(flags).open(here(HEARD));
        let file = file.ok().filter(|f| f.metadata().is_ok_and(|m| m.is_file()));
        let mut text = Vec::new();
        let _ = file.map(|f| f.take(MOST_PASSED_OVER as u64 * 2).read_to_end(&mut text));
        let _ = std::fs::remove_file(here(HEARD));
        let text = String::from_utf8_lossy(&text);
        let mut passed_over: Vec<String> = text.lines().take(MOST_HEARD).map(str::to_string).collect();
        passed_over.sort_unstable();
        passed_over.dedup();
        Said { failed, passed_over }
    }

    /// The doorbell's descriptor, to wait on.
    pub fn doorbell(&self) -> &File {
        &self.doorbell
    }

    /// Takes everything out of the doorbell.
    pub fn answer_bell(&self) {
        // Who rings all the time is not listened to all the time.
        let mut bytes = [0; 4096];
        for _ in 0..16 {
            if !matches!((&self.doorbell).read(&mut bytes), Ok(n) if n == bytes.len()) {
                return;
            }
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _acting = self.owner.act();
        if !self.standing || !clear_out(self.dir()) {
            self.folder.remove();
        }
    }
}

/// The doorbell, made if there is none.
fn bell(path: &Path) -> std::io::Result<File> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: `name` is a valid C string.
    let made = unsafe { libc::mkfifo(name.as_ptr(), 0o600) } == 0;
    if !made && std::io::Error::last_os_error().kind() != std::io::ErrorKind::AlreadyExists {
        return Err(std::io::Error::last_os_error());
    }
    // Open for both directions, so that it never reads as ended between two processes.
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
    let file = File::options().read(true).write(true).custom_flags(flags).open(path)?;
    match file.metadata()?.file_type().is_fifo() {
        true => Ok(file),
        false => Err(std::io::Error::other(format!("{} is not a pipe; remove it", path.display()))),
    }
}

/// Removes the files of processes that are gone from a standing session; says whether some are there.
fn clear_out(dir: &Path) -> bool {
    let mut alive = false;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(process) = name.to_str().and_then(|n| n.strip_suffix(PROCESS_SUFFIX)) else { continue };
        let told =
            process.split_once('.').and_then(|(pid, at)| Some((pid.parse().ok()?, u64::from_str_radix(at, 16).ok()?)));
        match told.is_some_and(|(pid, start_ns)| lives(pid, start_ns)) {
            true => alive = true,
            false => _ = std::fs::remove_file(entry.path()),
        }
    }
    alive
}

/// Whether the process that made its file at this time, in ns of CLOCK_MONOTONIC, still lives: one that has its number now and came later is
/// another one.
pub(crate) fn lives(pid: i32, start_ns: u64) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name may have blanks and brackets; the 22nd field is when it came to life, in ticks since the machine started.
    let ticks = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse::<u64>().ok());
    let clock = |id| {
        let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid timespec, and clocks that Linux has.
        unsafe { libc::clock_gettime(id, &mut t) };
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    };
    // CLOCK_MONOTONIC stands still while the machine sleeps.
    let slept = clock(libc::CLOCK_BOOTTIME).saturating_sub(clock(libc::CLOCK_MONOTONIC));
    // SAFETY: no arguments that matter.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    ticks.is_some_and(|ticks| ticks * (1_000_000_000 / per_second) <= start_ns + slept + 1_000_000_000 / per_second)
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
    Folder::left_behind(place, &prefix()).for_each(|f| f.remove());
    // SAFETY: getuid cannot fail.
    let standing = format!("{STANDING}{}-", unsafe { libc::getuid() });
    Folder::left_behind(place, &standing).filter(|f| !clear_out(f.path())).for_each(|f| f.remove());
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
        sweep(place.path());
        assert!(dir.exists());
        drop(session);
        assert!(!dir.exists());
    }

    #[test]
    fn a_standing_session_stays_as_long_as_somebody_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let me = Owner::me();
        let stand = || Session::stand_in(place.path(), me, "one", &config());
        let session = stand().unwrap();
        let dir = session.dir().to_owned();
        assert_eq!(std::fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(stand().err().unwrap().to_string().starts_with("another daemon follows"), "there is one at a time");
        // What was said is heard once, and what is no file of a runtime's not at all.
        assert_eq!(session.said(), Said::default());
        std::fs::write(dir.join(LOADED), "").unwrap();
        std::fs::rename(dir.join(LOADED), dir.join(FAILED)).unwrap();
        std::fs::write(dir.join(PASSED_OVER), "b\na\nb\n").unwrap();
        assert_eq!(session.said(), Said { failed: true, passed_over: vec!["a".into(), "b".into()] });
        assert!(dir.join(LOADED).exists(), "the next one that fails needs it");
        std::os::unix::fs::symlink("/etc/passwd", dir.join(PASSED_OVER)).unwrap();
        assert_eq!(session.said(), Said::default());
        std::fs::write(dir.join(PASSED_OVER), "long\n".repeat(1 << 20)).unwrap();
        assert_eq!(session.said().passed_over, ["long"]);
        assert_eq!(session.said(), Said::default());
        std::fs::remove_file(dir.join(LOADED)).unwrap();
        let file = |pid: u32, at: u64| dir.join(format!("{pid}.{at:x}.proc"));
        // This process; one that had its number long before; one that never was.
        let here = file(std::process::id(), crate::now_ns());
        for path in [&here, &file(std::process::id(), 1), &file(0x7fff_ffff, 1)] {
            std::fs::write(path, "").unwrap();
        }
        drop(session);
        let left = |dir: &Path| std::fs::read_dir(dir).unwrap().flatten().map(|e| e.path()).collect::<Vec<_>>();
        assert!(left(&dir).contains(&here) && left(&dir).len() == 4, "config, lock, bell, {:?}", left(&dir));
        sweep(place.path());
        // The next daemon finds it.
        let session = stand().unwrap();
        assert!(here.exists() && session.dir() == dir);
        std::fs::remove_file(&here).unwrap();
        drop(session);
        assert!(!dir.exists());
        // Somebody has prepared something else there.
        std::os::unix::fs::symlink("/tmp", &dir).unwrap();
        assert!(stand().err().unwrap().to_string().ends_with("remove it"));
    }
}
