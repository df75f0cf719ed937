//! What the files of programs say: where a module begins, and its variables.
//!
//! Of another user root's daemon reads nothing itself. A file of his may be one that never answers (FUSE), that shrinks while it is looked at,
//! or that is not meant for anybody else's eyes; so a process reads it that has his rights and no more, and is given up after a second.

use crate::owner::Owner;
use crate::statics::{self, Variable};
use model::Module;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The verb of `hearth` that is [`tell`].
pub const VERB: &str = "read-modules";
/// What one user's files may take at a time.
const PATIENCE: Duration = Duration::from_secs(1);
/// For so long a user is not asked again whose files took longer.
const REST: Duration = Duration::from_secs(60);
/// Most files at a time, of which one is told, in all.
const MOST: (usize, usize) = (256, 4096);
/// Most bytes of an answer.
const MOST_BYTES: usize = 8 << 20;

/// What a file says of its module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Where its first segment begins, at the start of the page.
    pub lowest: u64,
    /// The module.
    pub module: Module,
    /// Its variables.
    pub variables: Vec<Variable>,
}

impl Told {
    /// What a file says; none if it is no module, or cannot be read.
    fn of(path: &Path, variables: bool) -> Option<Told> {
        let lowest = statics::lowest_address(path)?;
        if !variables {
            let module = Module { path: path.display().to_string(), build_id: String::new() };
            return Some(Told { lowest, module, variables: Vec::new() });
        }
        let (module, variables) = statics::of(path);
        Some(Told { lowest, module, variables })
    }
}

/// A file as a process has it mapped: its path, and its device and inode as the kernel prints them.
pub type Mapped = (PathBuf, String);

/// Files that were read.
#[derive(Debug)]
pub struct Files {
    /// Variables are wanted.
    variables: bool,
    /// By user; none: it is no module, or cannot be read.
    told: HashMap<(u32, Mapped), Option<Arc<Told>>>,
    /// Users whose files took too long, and when.
    slow: HashMap<u32, Instant>,
    /// Readers that were given up and have not ended yet.
    left: Vec<Child>,
}

impl Files {
    /// None was read yet. `variables`: they are wanted, too.
    pub fn new(variables: bool) -> Files {
        Files { variables, told: HashMap::new(), slow: HashMap::new(), left: Vec::new() }
    }

    /// Reads those files that were not, for the owner of a session.
    pub fn read(&mut self, owner: Owner, files: impl Iterator<Item = Mapped>) {
        let mut new: Vec<Mapped> = files.filter(|f| !self.told.contains_key(&(owner.uid, f.clone()))).collect();
        new.sort_unstable();
        new.dedup();
        new.truncate(MOST.0);
        if new.is_empty() || self.slow.get(&owner.uid).is_some_and(|since| since.elapsed() < REST) {
            return;
        }
        if self.told.len() > MOST.1 {
            self.told.clear();
        }
        let told = match owner == Owner::me() {
            true => new.iter().map(|(path, _)| Told::of(path, self.variables)).collect(),
            false => self.ask(owner, &new),
        };
        match told.len() < new.len() {
            true => _ = self.slow.insert(owner.uid, Instant::now()),
            false => _ = self.slow.remove(&owner.uid),
        }
        // What was not told in time may be, the next time.
        self.told.extend(new.into_iter().map(|f| (owner.uid, f)).zip(told.into_iter().map(|t| t.map(Arc::new))));
    }

    /// What a file says that was read.
    pub fn get(&self, owner: Owner, file: &Mapped) -> Option<Arc<Told>> {
        self.told.get(&(owner.uid, file.clone())).cloned().flatten()
    }

    /// This user's files take too long, and are not read for now.
    pub fn is_slow(&self, owner: Owner) -> bool {
        self.slow.contains_key(&owner.uid)
    }

    /// What a process of the owner's tells of files, as far as it does in time.
    fn ask(&mut self, owner: Owner, files: &[Mapped]) -> Vec<Option<Told>> {
        self.left.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        let mut command = Command::new("/proc/self/exe");
        command.arg(VERB).args(files.iter().map(|(path, _)| path)).env_clear().current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).uid(owner.uid).gid(owner.gid);
        // SAFETY: calls that only set limits of the child.
        unsafe {
            command.pre_exec(|| {
                let limit = |what, most| _ = libc::setrlimit(what, &libc::rlimit { rlim_cur: most, rlim_max: most });
                limit(libc::RLIMIT_AS, 4 << 30);
                limit(libc::RLIMIT_CPU, 2);
                limit(libc::RLIMIT_CORE, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let Ok(mut child) = command.spawn() else { return vec![None; files.len()] };
        let text = child.stdout.take().map(|pipe| all_in_time(pipe, PATIENCE)).unwrap_or_default();
        let told: Vec<Option<Told>> =
            text.split_inclusive(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let _ = child.kill();
        if !matches!(child.try_wait(), Ok(Some(_))) {
            self.left.push(child);
        }
        told.into_iter().take(files.len()).collect()
    }
}

/// What comes through a pipe until its end, in so much time and no more than [`MOST_BYTES`].
fn all_in_time(mut pipe: impl Read + AsRawFd, time: Duration) -> Vec<u8> {
    let (until, mut all, mut piece) = (Instant::now() + time, Vec::new(), [0; 1 << 16]);
    while all.len() < MOST_BYTES {
        let left = until.saturating_duration_since(Instant::now()).as_millis() as i32;
        let mut ready = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd.
        let come = unsafe { libc::poll(&mut ready, 1, left) };
        let interrupted = |e: &std::io::Error| e.kind() == std::io::ErrorKind::Interrupted;
        match come {
            -1 if interrupted(&std::io::Error::last_os_error()) => continue,
            1 => {}
            _ => break,
        }
        match pipe.read(&mut piece) {
            Ok(n) if n > 0 => all.extend_from_slice(&piece[..n]),
            Err(e) if interrupted(&e) => {}
            _ => break,
        }
    }
    all
}

/// Writes a line of JSON for each file: what it says, or `null`.
pub fn tell(files: &[PathBuf], mut out: impl Write) -> std::io::Result<()> {
    for path in files {
        serde_json::to_writer(&mut out, &Told::of(path, true))?;
        out.write_all(b"\n")?;
        out.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_read() {
        let me = std::env::current_exe().expect("it is a file");
        let mut text = Vec::new();
        tell(&[me.clone(), "/etc/passwd".into(), "/nowhere".into()], &mut text).expect("it is written");
        let lines: Vec<Option<Told>> =
            text.split_inclusive(|b| *b == b'\n').map(|l| serde_json::from_slice(l).expect("JSON")).collect();
        assert_eq!(lines, [Told::of(&me, true), None, None]);
        assert!(lines[0].as_ref().is_some_and(|t| !t.module.build_id.is_empty()));
    }

    #[test]
    fn what_does_not_come_is_not_waited_for() {
        let mut child =
            Command::new("sh").args(["-c", "echo one; sleep 60"]).stdout(Stdio::piped()).spawn().expect("a shell");
        let began = Instant::now();
        let pipe = child.stdout.take().expect("a pipe");
        assert_eq!(all_in_time(pipe, Duration::from_millis(300)), b"one\n");
        assert!(began.elapsed() < Duration::from_secs(30));
        let _ = child.kill();
        let _ = child.wait();
    }
}
