//! The program to run and the world it expects: its user, environment, current folder and limits.

use super::layout::Layout;
use crate::Error;
use crate::job::{Files, Job, Roi, User};
use std::env;
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Not shared with the guest, which has its own.
const GUESTS_OWN: [&str; 3] = ["/dev", "/proc", "/sys"];

/// What a run's result depends on, as far as it can be seen: the program as it was built, its arguments and folder.
///
/// # Errors
/// If there is no such program.
pub fn identity(command: &[OsString]) -> Result<String, Error> {
    let start = Start::of(command)?;
    let built = built(&start.folder.join(&start.program));
    Ok(format!("{built} {:?} {:?}", &start.command[1..], start.folder))
}

/// What tells one build of a file from the next.
pub fn built(file: &Path) -> String {
    let built = std::fs::metadata(file).map_or((0, 0, 0), |m| (m.mtime(), m.mtime_nsec(), m.size()));
    format!("{file:?} {built:?}")
}

/// How to start the program.
pub struct Start {
    /// Its path.
    pub program: PathBuf,
    /// Its name and arguments.
    pub command: Vec<OsString>,
    /// The current folder.
    pub folder: PathBuf,
}

impl Start {
    /// Finds the program as a shell would. Errors: there is none, or the guest could not see it.
    pub fn of(command: &[OsString]) -> Result<Start, Error> {
        let name = command
            .first()
            .filter(|n| !n.is_empty())
            .ok_or_else(|| Error("the name of the program is empty".into()))?;
        let program = find(name)?;
        let folder = env::current_dir().map_err(|e| Error(format!("cannot find out the current folder: {e}")))?;
        let whole = std::fs::canonicalize(folder.join(&program))
            .map_err(|e| Error(format!("cannot find {}: {e}", program.display())))?;
        for (what, path) in [("the current folder", &folder), ("the program", &whole)] {
            if let Some(own) = GUESTS_OWN.iter().find(|own| path.starts_with(own)) {
                return Err(Error(format!(
                    "{what} {} lies in {own}, of which the guest has its own; use another folder",
                    path.display()
                )));
            }
        }
        Ok(Start { program, command: command.to_vec(), folder })
    }

    /// The job for the guest.
    pub fn job(&self, layout: &Layout, roi: Option<Roi>, sample_ns: u64, files: Files) -> Job {
        Job {
            program: self.program.clone().into(),
            command: self.command.clone(),
            environment: env::vars_os().collect(),
            folder: self.folder.clone().into(),
            user: user(),
            terminal: None,
            policy: layout.policy.clone(),
            nodes: layout.nodes(),
            limit: layout.limit,
            huge_pages: layout.huge_pages(),
            roi,
            keep: None,
            sample_ns,
            files,
            files_node: layout.files_node(),
        }
    }
}

fn find(name: &OsString) -> Result<PathBuf, Error> {
    let shown = name.to_string_lossy();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match executable(&path) {
            true => Ok(path),
            false if path.exists() => Err(Error(format!("cannot start {shown}: it is not an executable file"))),
            false => Err(Error(format!("cannot start {shown}: there is no such file"))),
        };
    }
    let search = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    env::split_paths(&search).map(|dir| dir.join(name)).find(|p| executable(p)).ok_or_else(|| {
        let here = if Path::new(name).is_file() {
            format!("; for the file in this folder write ./{shown}")
        } else {
            String::new()
        };
        Error(format!("cannot start {shown}: not found on PATH{here}"))
    })
}

fn executable(path: &Path) -> bool {
    let Ok(c) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: `c` is a valid C string.
    path.is_file() && unsafe { libc::access(c.as_ptr(), libc::X_OK) } == 0
}

/// Who runs this command, and with what limits.
fn user() -> User {
    // SAFETY: these calls cannot fail, but getgroups, which is asked for the number first; umask is put back at once.
    unsafe {
        let count = libc::getgroups(0, std::ptr::null_mut()).max(0);
        let mut groups = vec![0; count as usize];
        let got = libc::getgroups(count, groups.as_mut_ptr()).max(0);
        groups.truncate(got as usize);
        let umask = libc::umask(0o77);
        libc::umask(umask);
        User { uid: libc::getuid(), gid: libc::getgid(), groups, umask, limits: limits() }
    }
}

/// Limits that say what a program may do, but not how many processes its user has or how much it may lock: the guest
/// counts these anew.
fn limits() -> Vec<(u32, u64, u64)> {
    let wanted = [
        libc::RLIMIT_STACK,
        libc::RLIMIT_DATA,
        libc::RLIMIT_AS,
        libc::RLIMIT_NOFILE,
        libc::RLIMIT_CORE,
        libc::RLIMIT_FSIZE,
    ];
    let mut limits = Vec::new();
    for which in wanted {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid structure to fill.
        if unsafe { libc::getrlimit(which, &mut limit) } == 0 {
            limits.push((which, limit.rlim_cur, limit.rlim_max));
        }
    }
    limits
}
