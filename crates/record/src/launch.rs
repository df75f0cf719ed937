//! Starts a program in a session and follows its process tree to the end.
//!
//! The program keeps stdin, stdout, stderr, its process group and its terminal. Ctrl-C and Ctrl-\ reach it from the
//! terminal, so the recorder ignores them while it lives; SIGTERM and SIGHUP sent to the recorder are passed on.
//! If the recorder is killed the program goes on: rings that nobody empties fill up and drop.
//!
//! When the program itself has ended, processes of its tree that still run are followed for [`GRACE`] more; what
//! goes on after that (a daemon it left behind) is told as a loss.

use crate::Error;
use crate::follow::{Sink, Tally};
use crate::open_files;
use crate::outside::Outside;
use crate::session::Session;
use crate::watch::{ProcessSummary, Watch, Watched};
use model::observed::Loss;
use model::{Plan, PlannedPhase};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::time::{Duration, Instant};
use wire::session::{Config, ENV, PROGRAM_POLICY};

/// How long other processes are followed after the program itself has ended.
pub const GRACE: Duration = Duration::from_secs(1);

/// What to start and how to watch it.
#[derive(Clone, Debug)]
pub struct Launch {
    /// Program, as found by [`crate::program::check`].
    pub program: PathBuf,
    /// What the program sees as its name (`argv[0]`).
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The runtime, as found by [`find_runtime`].
    pub runtime: PathBuf,
    /// The library that tells where phases of MPI programs begin, as found by [`find_mpi`], if it is to be preloaded too.
    pub mpi: Option<PathBuf>,
    /// [`wire::session::flags`].
    pub flags: u64,
    /// Smallest allocation managed.
    pub threshold: u64,
    /// Most page visits a second and process.
    pub faults_per_second: u64,
    /// Most accesses followed step by step, a second and process.
    pub steps_per_second: u64,
    /// Page-fault sampler: most of a process's processor time that it may cost, in millionths.
    pub most_ppm: u64,
    /// CLOCK_MONOTONIC at time 0 of the run: [`now_ns`] at about the time of the start.
    pub epoch_ns: u64,
    /// Image of the plan to follow.
    pub plan: Option<Vec<u64>>,
    /// NUMA node for Hearth's own memory, and what it shares with the program; none: wherever the kernel puts it. The program's policy
    /// stays as it was.
    pub home: Option<u32>,
}
/// How it went.
#[derive(Debug)]
pub struct Outcome {
    /// Exit code to end with: the program's, or 128 + signal.
    pub code: u8,
    /// `exit 0`, `signal 9`.
    pub how: String,
    /// Length of the run (until the last followed process ended), in ns.
    pub duration_ns: u64,
    /// Processes, in order of appearance.
    pub processes: Vec<ProcessSummary>,
    /// Sums per site.
    pub tally: Tally,
    /// What was lost, summed by kind.
    pub losses: Vec<Loss>,
}

/// Finds libhearth_mpi.so beside the runtime.
pub fn find_mpi(runtime: &Path) -> Result<PathBuf, Error> {
    let path = runtime.with_file_name("libhearth_mpi.so");
    match path.exists() {
        true => Ok(path),
        false => Err(Error(format!(
            "--phases needs {}, and it is not there; it belongs beside {}",
            path.display(),
            runtime.display()
        ))),
    }
}

/// The same, if phases are asked for or the plan has some that begin with operations of MPI.
pub fn mpi_for(phases: bool, plan: Option<&Plan>, runtime: &Path) -> Result<Option<PathBuf>, Error> {
    let wanted = phases || plan.is_some_and(|plan| plan.phases.iter().any(PlannedPhase::is_of_mpi));
    wanted.then(|| find_mpi(runtime)).transpose()
}

/// Finds libhearth.so: `$HEARTH_LIBRARY`, beside the `hearth` command, or in `../lib/hearth` from there.
pub fn find_runtime() -> Result<PathBuf, Error> {
    const NAME: &str = "libhearth.so";
    if let Some(path) = std::env::var_os("HEARTH_LIBRARY").filter(|v| !v.is_empty()) {
        return std::fs::canonicalize(&path).map_err(|e| {
            Error(format!("HEARTH_LIBRARY names {}, which cannot be used: {e}", Path::new(&path).display()))
        });
    }
    let me =
        std::env::current_exe().map_err(|e| Error(format!("cannot find out where the hearth command lies, to find {NAME} beside it: {e}; set HEARTH_LIBRARY to its path")))?;
    let here = me.parent().unwrap_or(Path::new("/"));
    let candidates = [here.join(NAME), here.join("../lib/hearth").join(NAME)];
    candidates.iter().find_map(|c| std::fs::canonicalize(c).ok()).ok_or_else(|| {
        Error(format!(
            "the runtime {NAME} is neither in {} nor in {}; put it there or set HEARTH_LIBRARY to its path",
            here.display(),
            here.join("../lib/hearth").display()
        ))
    })
}

/// The program, for the handler that passes signals on.
static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn pass_on(signal: libc::c_int) {
    let child = CHILD.load(Relaxed);
    if child > 0 {
        // SAFETY: kill is async-signal-safe.
        unsafe { libc::kill(child, signal) };
    }
}

/// Signal dispositions while the program runs; dropped, the former ones are back.
struct Signals(Vec<(libc::c_int, libc::sigaction)>);

impl Signals {
    fn set() -> Signals {
        let mut before = Vec::new();
        let handler = pass_on as extern "C" fn(libc::c_int) as libc::sighandler_t;
        let wanted = [
            (libc::SIGINT, libc::SIG_IGN),
            (libc::SIGQUIT, libc::SIG_IGN),
            (libc::SIGTERM, handler),
            (libc::SIGHUP, handler),
        ];
        for (signal, action) in wanted {
            // SAFETY: zeroed sigactions are valid; the handler is async-signal-safe.
            unsafe {
                let mut new: libc::sigaction = std::mem::zeroed();
                let mut old: libc::sigaction = std::mem::zeroed();
                new.sa_sigaction = action;
                new.sa_flags = libc::SA_RESTART;
                libc::sigaction(signal, std::ptr::null(), &mut old);
                // What the recorder's parent ignores (nohup) stays ignored.
                if old.sa_sigaction != libc::SIG_IGN {
                    libc::sigaction(signal, &new, std::ptr::null_mut());
                }
                before.push((signal, old));
            }
        }
        Signals(before)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, old) in &self.0 {
            // SAFETY: restores what sigaction returned before.
            unsafe { libc::sigaction(*signal, old, std::ptr::null_mut()) };
        }
    }
}

/// The memory policy that Hearth was started with, which the program is to have.
struct Policy {
    mode: libc::c_int,
    nodes: [libc::c_ulong; Policy::WORDS],
}

impl Policy {
    /// The kernel's most nodes (1024), in words.
    const WORDS: usize = 1024 / libc::c_ulong::BITS as usize;
    const MOST: usize = 1024 + 1;

    /// This process is to take its memory from a node if there is some. None: the kernel does not want it.
    fn prefer(node: u32) -> Option<Policy> {
        let mut before = Policy { mode: 0, nodes: [0; Policy::WORDS] };
        let (mode, nodes) = (&mut before.mode as *mut libc::c_int, before.nodes.as_mut_ptr());
        // SAFETY: both may be written, the set as far as said; without an address it is the policy of the thread.
        let known = unsafe { libc::syscall(libc::SYS_get_mempolicy, mode, nodes, Policy::MOST, 0, 0) } == 0;
        let mut home = [0; Policy::WORDS];
        *home.get_mut(node as usize / 64)? = 1 << (node % 64);
        if std::env::var_os(PROGRAM_POLICY).is_some() {
            before = Policy { mode: libc::MPOL_DEFAULT, nodes: [0; Policy::WORDS] };
        }
        known.then(|| Policy { mode: libc::MPOL_PREFERRED, nodes: home }.restore().then_some(before)).flatten()
    }

    /// Makes it that of the calling thread. Async-signal-safe.
    fn restore(&self) -> bool {
        // SAFETY: the set is as large as said.
        unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, self.nodes.as_ptr(), Policy::MOST) == 0 }
    }
}
impl Launch {
    /// Starts the program, follows it to its end, tells `sink` everything. An error means that the program was not
    /// started; once it runs, it runs to its end and whatever goes wrong with observing is a loss.
    pub fn run(&self, sink: &mut dyn Sink) -> Result<Outcome, Error> {
        self.run_with(sink, None)
    }

    /// The same with the samples of a sampler outside of the process, if one is given.
    pub fn run_with(
        &self,
        sink: &mut dyn Sink,
        outside: Option<&mut (dyn Outside + 'static)>,
    ) -> Result<Outcome, Error> {
        let config = Config {
            magic: wire::session::CONFIG_MAGIC,
            version: wire::WIRE_VERSION.into(),
            flags: self.flags,
            threshold: self.threshold,
            faults_per_second: self.faults_per_second,
            steps_per_second: self.steps_per_second,
            most_ppm: self.most_ppm,
            epoch_ns: self.epoch_ns,
            home: self.home.map_or(0, |node| u64::from(node) + 1),
            reserved: [0; 7],
        };
        let mut watch = Watch::new(&config, &self.runtime, self.plan.clone(), sink, outside);
        let session = Session::create(&config, self.plan.as_deref())?;
        let dir = session.dir().to_owned();
        watch.add(session);
        let signals = Signals::set();
        let policy = self.home.and_then(Policy::prefer);
        watch.begin_sampling();
        let mut child = self.start(&dir, &signals, policy)?;
        CHILD.store(child.id() as i32, Relaxed);
        let status = follow(&mut watch, &mut child);
        CHILD.store(0, Relaxed);
        let status = status?;
        drop(signals);
        let (code, how) = match (status.code(), status.signal()) {
            (Some(code), _) => (code as u8, format!("exit {code}")),
            (None, signal) => (128 + signal.unwrap_or(0) as u8, format!("signal {}", signal.unwrap_or(0))),
        };
        let Watched { duration_ns, processes, tally, losses } = watch.close();
        Ok(Outcome { code, how, duration_ns, processes, tally, losses })
    }

    fn start(&self, session: &Path, signals: &Signals, policy: Option<Policy>) -> Result<Child, Error> {
        let mut command = Command::new(&self.program);
        command.arg0(&self.name).args(&self.args);
        dress(&mut command, &self.runtime, self.mpi.as_deref(), session)?;
        let before = signals.0.clone();
        let files = open_files::before();
        // SAFETY: both calls are async-signal-safe, and the closure allocates nothing.
        unsafe {
            command.pre_exec(move || {
                for (signal, old) in &before {
                    libc::sigaction(*signal, old, std::ptr::null_mut());
                }
                if let Some(policy) = &policy {
                    policy.restore();
                }
                if let Some(limit) = &files {
                    libc::setrlimit(libc::RLIMIT_NOFILE, limit);
                }
                Ok(())
            });
        }
        command.spawn().map_err(|e| Error(format!("cannot start {}: {e}", self.program.display())))
    }
}

/// From now on this process takes its memory from a node, if there is some.
pub fn stay_on(node: u32) {
    Policy::prefer(node);
}

/// Gives a command the environment that makes its process, and all that it starts, part of a session.
pub fn dress(command: &mut Command, runtime: &Path, mpi: Option<&Path>, session: &Path) -> Result<(), Error> {
    command.env(ENV, session).env_remove(PROGRAM_POLICY).env("LD_PRELOAD", preload(runtime, mpi, session)?);
    // A program of the tree that is built with AddressSanitizer would refuse to start with anything preloaded. The
    // runtime does nothing in it.
    let mut sanitiser = std::env::var_os("ASAN_OPTIONS").unwrap_or_default();
    sanitiser.push(if sanitiser.is_empty() { "" } else { ":" });
    sanitiser.push("verify_asan_link_order=0");
    command.env("ASAN_OPTIONS", sanitiser);
    Ok(())
}

/// Follows the program to its end, and what it has left behind a little longer.
fn follow(watch: &mut Watch<'_>, child: &mut Child) -> Result<ExitStatus, Error> {
    // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    // SAFETY: a descriptor just made and owned by nobody else.
    let ended = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) });
    let mut status: Option<(ExitStatus, Instant)> = None;
    loop {
        let said = watch.rest(status.is_none().then_some(()).and(ended.as_ref()).map(AsFd::as_fd));
        if status.is_none() && (said || ended.is_none()) {
            let ended = child.try_wait().map_err(|e| Error(format!("cannot wait for the program: {e}")))?;
            status = ended.map(|s| (s, Instant::now()));
        }
        watch.look_around();
        if let Some((status, at)) = status {
            let left = watch.alive();
            if left == 0 || at.elapsed() >= GRACE {
                if left > 0 {
                    watch.tell_left_behind(left as u64);
                }
                return Ok(status);
            }
        }
    }
}

/// Hearth's libraries before whatever the user preloads. The loader splits the list at blanks and colons, so a path with
/// such a character goes by a link in the session directory.
fn preload(runtime: &Path, mpi: Option<&Path>, session: &Path) -> Result<OsString, Error> {
    let plain = |p: &OsStr| !p.as_encoded_bytes().iter().any(|b| b" \t\n:".contains(b));
    let mut list = OsString::new();
    for library in std::iter::once(runtime).chain(mpi) {
        list.push(if list.is_empty() { "" } else { ":" });
        if plain(library.as_os_str()) {
            list.push(library);
            continue;
        }
        let link = session.join(library.file_name().unwrap_or_default());
        match std::os::unix::fs::symlink(library, &link) {
            Err(_) if std::fs::read_link(&link).is_ok_and(|there| there == library) => {}
            made => made.map_err(|e| Error(format!("cannot link {} into the session: {e}", library.display())))?,
        }
        list.push(link);
    }
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}
