//! Starts a program in a session and follows its process tree to the end.
//!
//! The program keeps stdin, stdout, stderr, its process group and its terminal. Ctrl-C and Ctrl-\ reach it from the
//! terminal, so the recorder ignores them while it lives; SIGTERM and SIGHUP sent to the recorder are passed on.
//! If the recorder is killed the program goes on: rings that nobody empties fill up and drop.
//!
//! When the program itself has ended, processes of its tree that still run are followed for [`GRACE`] more; what
//! goes on after that (a daemon it left behind) is told as a loss.

use crate::Error;
use crate::code::Code;
use crate::follow::{Follower, RawFrame, Sink, Started, Tally, tell};
use crate::live::Live;
use crate::maps::Layouts;
use crate::misses::{Miss, Misses, TOLERANCE_NS};
use crate::open_files;
use crate::outside::Outside;
use crate::pages::Refused;
use crate::residency::{self, Reading};
use crate::rings::{NotYet, ProcessFile};
use crate::session::Session;
use model::observed::Loss;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::time::{Duration, Instant};
use wire::mark;
use wire::process::state;
use wire::session::{Config, ENV, FAILED, LOADED, PASSED_OVER, PROCESS_SUFFIX, PROGRAM_POLICY, flags};

/// How long other processes are followed after the program itself has ended.
pub const GRACE: Duration = Duration::from_secs(1);
/// Rings are emptied this often, and when one is half full, since then the doorbell rings: it holds 4096 one-slot events.
const PERIOD: Duration = Duration::from_millis(50);
/// So often while rings fill faster than that.
const BUSY_PERIOD: Duration = Duration::from_millis(2);
/// With nothing happening the recorder looks this rarely.
const IDLE_PERIOD: Duration = Duration::from_millis(200);
/// Events this young are held back: an older one of another thread may not have been read yet.
const REORDER_NS: u64 = 1_000_000;
/// Residency is read first after so long, then at this interval or more rarely if that would cost over 0.25 % of the time; of a
/// run that is still short, 1 %.
const FIRST_READING: Duration = Duration::from_millis(50);
const READING: Duration = Duration::from_secs(1);
const READING_COST: u32 = 400;
/// Readings of many sites or processes are rarer, so that no more than so many rows a second come of them (30 bytes each).
const READING_ROWS: u64 = 250;
/// Percent of a process's life that the sampler should watch; less is said aloud.
const WATCHED_ENOUGH: u64 = 50;
/// Shorter processes are over before the sampler has begun; that is no loss to speak of.
const SHORT_LIFE_NS: u64 = 500_000_000;
/// Why there is nothing to show of a run.
const UNLOADED: &str = "the runtime was not loaded into any process: the program removed LD_PRELOAD from its environment, or \
                        runs where the session's directory cannot be seen (chroot, container)";
const NO_ROOM: &str =
    "a process could not make its file in the session's directory (is /dev/shm full?); it ran on its own allocator";
const NO_RIGHTS: &str = "a forked process could not make its file in the session's directory (it changed its user, or /dev/shm is full); \
                     it ran on its own allocator";
const NOTHING: &str = "no process allocated anything as large as the threshold, so there was nothing to manage";

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

/// A process that was observed.
#[derive(Clone, Debug)]
pub struct ProcessSummary {
    /// Process id.
    pub pid: u32,
    /// Path of the executable.
    pub exe: String,
    /// Last [`wire::process::state`].
    pub state: u32,
    /// What the runtime said about itself; usually empty.
    pub text: String,
    /// The sampler worked.
    pub sampling: bool,
    /// Counters by name.
    pub counters: Vec<(String, u64)>,
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

/// CLOCK_MONOTONIC in ns.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
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

/// A process under observation.
struct Watched {
    /// Until its books are closed: of thousands of short processes, only those alive cost memory and descriptors.
    file: Option<ProcessFile>,
    follower: Follower,
    code: Code,
    seen: Instant,
    read_at_exit: bool,
    over: bool,
    summary: ProcessSummary,
}

/// Why a process is not followed any longer.
enum Ended {
    /// Its header says that it has ended or passed.
    Said,
    /// It is gone.
    Gone,
    /// Another program image took its place at this time.
    Replaced(u64),
    /// It still runs, but the observation is over.
    LeftBehind,
}

/// Follows everything that reports in one session.
struct Watch<'a> {
    session: &'a Session,
    epoch_ns: u64,
    flags: u64,
    sink: &'a mut dyn Sink,
    known: HashSet<OsString>,
    processes: Vec<Watched>,
    tally: Tally,
    losses: HashMap<(Option<usize>, String), (u64, String)>,
    outside: Option<&'a mut (dyn Outside + 'static)>,
    /// The process that has this id now.
    by_pid: HashMap<u32, usize>,
    /// Misses of processes that did not report, or that have ended.
    strangers: Misses,
    layouts: Layouts,
    next_look: Instant,
    next_reading: Option<Instant>,
    /// Rows that the current round of readings has given the profile.
    readings_rows: u64,
    next_tick: Instant,
    /// Of the processes that were sampled and have ended, in ns: their lives, and how long the sampler watched and paused.
    sampled_times: [u64; 3],
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
        let session = Session::create(&config, self.plan.as_deref())?;
        let mut watch = Watch {
            session: &session,
            epoch_ns: self.epoch_ns,
            flags: self.flags,
            next_tick: Instant::now() + sink.interval(),
            sink,
            known: HashSet::new(),
            processes: Vec::new(),
            tally: Tally { plan: self.plan.clone(), ..Tally::default() },
            losses: HashMap::new(),
            outside,
            by_pid: HashMap::new(),
            strangers: Misses::new(),
            layouts: Layouts::without(&self.runtime),
            next_look: Instant::now(),
            next_reading: None,
            readings_rows: 0,
            sampled_times: [0; 3],
        };
        let signals = Signals::set();
        let policy = self.home.and_then(Policy::prefer);
        if let Some(sampler) = &mut watch.outside {
            sampler.begin();
        }
        let mut child = self.start(&session, &signals, policy)?;
        CHILD.store(child.id() as i32, Relaxed);
        let status = watch.follow(&mut child);
        CHILD.store(0, Relaxed);
        let status = status?;
        drop(signals);
        Ok(watch.close(status))
    }

    fn start(&self, session: &Session, signals: &Signals, policy: Option<Policy>) -> Result<Child, Error> {
        let mut command = Command::new(&self.program);
        command.arg0(&self.name).args(&self.args).env(ENV, session.dir()).env_remove(PROGRAM_POLICY);
        command.env("LD_PRELOAD", preload(&self.runtime, session.dir())?);
        // A program of the tree that is built with AddressSanitizer would refuse to start with anything preloaded. The
        // runtime does nothing in it.
        let mut sanitiser = std::env::var_os("ASAN_OPTIONS").unwrap_or_default();
        sanitiser.push(if sanitiser.is_empty() { "" } else { ":" });
        sanitiser.push("verify_asan_link_order=0");
        command.env("ASAN_OPTIONS", sanitiser);
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

/// The runtime before whatever the user preloads. The loader splits the list at blanks and colons, so a path with
/// such a character goes by a link in the session directory.
fn preload(runtime: &Path, session: &Path) -> Result<OsString, Error> {
    let plain = |p: &OsStr| !p.as_encoded_bytes().iter().any(|b| b" \t\n:".contains(b));
    let mut list = if plain(runtime.as_os_str()) {
        runtime.as_os_str().to_owned()
    } else {
        let link = session.join("libhearth.so");
        std::os::unix::fs::symlink(runtime, &link)
            .map_err(|e| Error(format!("cannot link {} into the session: {e}", runtime.display())))?;
        link.into_os_string()
    };
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        list.push(":");
        list.push(others);
    }
    Ok(list)
}

impl Watch<'_> {
    fn follow(&mut self, child: &mut Child) -> Result<ExitStatus, Error> {
        // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
        // SAFETY: a descriptor just made and owned by nobody else.
        let ended = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        let mut period = PERIOD;
        let longest = self.outside.as_ref().map_or(IDLE_PERIOD, |sampler| sampler.interval()).min(self.sink.interval());
        let mut more = false;
        let mut status: Option<(ExitStatus, Instant)> = None;
        loop {
            let watch_child = status.is_none().then_some(()).and(ended.as_ref());
            if self.wait(watch_child, if more { Duration::ZERO } else { period.min(longest) }) {
                self.next_look = Instant::now();
            }
            if status.is_none() {
                let ended = child.try_wait().map_err(|e| Error(format!("cannot wait for the program: {e}")))?;
                status = ended.map(|s| (s, Instant::now()));
            }
            let before = self.tally.objects + self.tally.visits;
            let fill = mark::aside(|| self.cycle());
            more = self.act();
            let quiet = before == self.tally.objects + self.tally.visits;
            period = match () {
                () if fill > 0.6 => BUSY_PERIOD,
                () if quiet => (period * 5 / 4).clamp(PERIOD, IDLE_PERIOD),
                () => PERIOD,
            };
            if let Some((status, at)) = status {
                let left = self.processes.iter().filter(|p| !p.over).count();
                if left == 0 || at.elapsed() >= GRACE {
                    if left > 0 {
                        let note = "processes of the program still ran a second after it had ended; \
                                    what they did later is not recorded";
                        self.lose(None, "process-left-behind", left as u64, note);
                    }
                    return Ok(status);
                }
            }
        }
    }

    /// Lets the sink do what it wants to do to the processes.
    fn act(&mut self) -> bool {
        let now = self.now();
        match self.sink.act(now) {
            Ok(more) => more,
            Err(e) => {
                self.lose(None, "recorder-failed", 1, &e.0);
                false
            }
        }
    }

    /// Sleeps until the doorbell rings, the program ends, or the time is over. Returns whether the doorbell rang.
    fn wait(&self, child: Option<&OwnedFd>, period: Duration) -> bool {
        let mut fds = [
            libc::pollfd { fd: self.session.doorbell().as_raw_fd(), events: libc::POLLIN, revents: 0 },
            // poll ignores negative descriptors.
            libc::pollfd { fd: child.map_or(-1, AsRawFd::as_raw_fd), events: libc::POLLIN, revents: 0 },
        ];
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: period.as_nanos() as i64 };
        // SAFETY: valid pollfds and timespec, no signal mask.
        unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
        if fds[0].revents != 0 {
            self.session.answer_bell();
        }
        fds[0].revents != 0
    }

    fn now(&self) -> u64 {
        now_ns().saturating_sub(self.epoch_ns)
    }

    /// Once around: new processes, all rings, readings that are due. Returns how full the fullest ring was.
    fn cycle(&mut self) -> f64 {
        if self.outside.is_none() || Instant::now() >= self.next_look {
            self.look_for_processes();
            self.next_look = Instant::now() + PERIOD;
        }
        let start = self.now();
        let mut fullest: f64 = 0.0;
        let (mut seen, mut ending) = (Vec::new(), false);
        for i in (0..self.processes.len()).filter(|&i| !self.processes[i].over).collect::<Vec<_>>() {
            // The state is read first: what was published before it changed is then in the rings.
            let Some(file) = &self.processes[i].file else { continue };
            let gone = file.gone();
            let state = file.header().state.load(Acquire);
            let last = gone || state == state::ENDED || state == state::PASSED;
            fullest = fullest.max(self.processes[i].drain(last));
            ending |= last || state == state::EXITING;
            seen.push((i, gone, state, last));
        }
        let mut horizon = start.saturating_sub(TOLERANCE_NS);
        if ending && self.outside.is_some() {
            // All samples of those that have ended; of the others, events up to the same moment.
            horizon = self.now() + TOLERANCE_NS;
            self.processes.iter_mut().filter(|p| !p.over).for_each(|p| {
                p.drain(false);
            });
        }
        self.take_samples(horizon);
        for (i, gone, state, last) in seen {
            if self.processes[i].over {
                continue; // another image has taken its place meanwhile
            }
            let horizon = if last || state == state::EXITING { u64::MAX } else { start.saturating_sub(REORDER_NS) };
            let p = &mut self.processes[i];
            if p.file.as_ref().is_some_and(|file| file.dropped() > 0) {
                p.follower.lost_events();
            }
            let applied = p.follower.apply(horizon, &mut self.tally, self.sink);
            if let Err(e) = applied.and_then(|()| p.follower.tell_misses(last, self.sink)) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
            if state == state::EXITING && !self.processes[i].read_at_exit {
                // While its maps can still be read.
                self.tell_touches(i);
                self.processes[i].read_at_exit = true;
                self.read_residency(i, self.now());
                self.processes[i].file.iter().for_each(ProcessFile::acknowledge_exit);
            }
            if last {
                self.finish(i, if gone { Ended::Gone } else { Ended::Said });
            }
        }
        self.readings();
        if Instant::now() >= self.next_tick {
            self.next_tick = Instant::now() + self.sink.interval();
            self.report_drops(false);
            (0..self.processes.len()).for_each(|i| self.tell_touches(i));
            self.tell_strangers();
            let now = self.now();
            let counted = self.outside.as_ref().and_then(|sampler| sampler.instructions());
            let told = counted.map_or(Ok(()), |count| self.sink.instructions(count));
            if let Err(e) = told.and_then(|()| self.sink.tick(now)) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
        }
        fullest
    }

    /// Tells which instructions of a process touched what, and where in large objects it missed.
    fn tell_touches(&mut self, i: usize) {
        let p = &mut self.processes[i];
        if !p.over {
            let told = p.follower.tell_touches(&mut p.code, self.sink);
            if let Err(e) = told.and_then(|()| p.follower.tell_chunks(self.sink)) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
        }
    }

    /// The same of processes that nobody knows the code of.
    fn tell_strangers(&mut self) {
        let nowhere = RawFrame { module: None, offset: 0 };
        for (place, _, touch) in self.strangers.take_touches() {
            if let Err(e) = self.sink.touched(place, &nowhere, &touch) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
        }
    }

    /// Takes the outside sampler's samples up to a time and hands each to its process. Events of before must be drained.
    fn take_samples(&mut self, horizon: u64) {
        let Some(sampler) = self.outside.as_deref_mut() else { return };
        let (processes, by_pid, tally) = (&mut self.processes, &self.by_pid, &mut self.tally);
        let sink = &mut *self.sink;
        let everyone = sampler.everyone();
        let mut unknown: Vec<(u32, Miss)> = Vec::new();
        let mut result = Ok(());
        let mut current: (u32, Option<usize>) = (0, None);
        sampler.take(self.epoch_ns, horizon, &mut |pid, miss| {
            if pid != current.0 {
                current = (pid, by_pid.get(&pid).copied().filter(|&i| !processes[i].over));
            }
            match current.1 {
                Some(i) if result.is_ok() => result = processes[i].follower.miss(miss, tally, sink),
                Some(_) => {}
                None => unknown.push((pid, *miss)),
            }
        });
        // A process rings before it has its first object: it may have come since the last look.
        let before = self.processes.len();
        if !unknown.is_empty() && self.wait(None, Duration::ZERO) {
            self.look_for_processes();
            self.processes[before..].iter_mut().for_each(|p| {
                p.drain(false);
            });
        }
        for (pid, miss) in unknown {
            match self.by_pid.get(&pid).map(|&i| &mut self.processes[i]).filter(|p| !p.over) {
                Some(p) if result.is_ok() => result = p.follower.miss(&miss, &mut self.tally, self.sink),
                Some(_) => {}
                None if everyone => {}
                None => {
                    self.strangers.miss(&miss, &Live::default());
                    self.tally.visits += 1;
                }
            }
        }
        if let Err(e) = result.and_then(|()| tell(&mut self.strangers, None, horizon == u64::MAX, self.sink)) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    /// Begins the new ones in the order in which they started, which the folder does not keep: of two images of one process the
    /// later has replaced the earlier.
    fn look_for_processes(&mut self) {
        let Ok(entries) = std::fs::read_dir(self.session.dir()) else { return };
        let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
        let mut new = Vec::new();
        for name in names {
            if !name.as_encoded_bytes().ends_with(PROCESS_SUFFIX.as_bytes()) || self.known.contains(&name) {
                continue;
            }
            match ProcessFile::open(&self.session.dir().join(&name)) {
                Err(NotYet::Starting) => {}
                Err(NotYet::Never(why)) => {
                    self.known.insert(name);
                    self.lose(None, "process-unobserved", 1, &why);
                }
                Ok(file) => {
                    self.known.insert(name);
                    new.push(file);
                }
            }
        }
        new.sort_by_key(|file| file.header().start_ns.load(Relaxed));
        new.into_iter().for_each(|file| self.begin(file));
    }

    fn begin(&mut self, file: ProcessFile) {
        let header = file.header();
        let started = Started {
            pid: header.pid.load(Relaxed),
            ppid: header.ppid.load(Relaxed),
            exe: file.exe(),
            start_ns: header.start_ns.load(Relaxed),
        };
        // Another image of the same process: the former one was replaced by exec, which may have left no word.
        let replaced = (0..self.processes.len())
            .find(|&i| !self.processes[i].over && self.processes[i].summary.pid == started.pid);
        if let Some(i) = replaced {
            self.drain_to_the_end(i);
            self.finish(i, Ended::Replaced(started.start_ns));
        }
        let index = self.processes.len();
        if let Err(e) = self.sink.started(index, &started) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
        let summary = ProcessSummary {
            pid: started.pid,
            exe: started.exe,
            state: state::STARTING,
            text: String::new(),
            sampling: false,
            counters: Vec::new(),
        };
        let seen = Instant::now();
        self.next_reading.get_or_insert(seen + FIRST_READING);
        let mut follower = Follower::new(index);
        if self.outside.is_some() {
            follower.count_misses(Misses::new());
        }
        self.by_pid.insert(started.pid, index);
        let code = Code::of(started.pid);
        let layout_at = started.start_ns;
        self.processes.push(Watched {
            file: Some(file),
            follower,
            code,
            seen,
            read_at_exit: false,
            over: false,
            summary,
        });
        self.look(index, layout_at);
    }

    /// Reads residency of all processes if it is time.
    fn readings(&mut self) {
        let start = Instant::now();
        if self.next_reading.is_none_or(|at| start < at) {
            return;
        }
        let now = self.now();
        self.readings_rows = 0;
        for i in 0..self.processes.len() {
            let p = &self.processes[i];
            if !p.over && !p.read_at_exit && p.seen.elapsed() >= FIRST_READING / 2 {
                self.read_residency(i, now);
            }
        }
        let pause = pause_after(Duration::from_nanos(now), start.elapsed(), self.readings_rows);
        self.next_reading = Some(Instant::now() + pause);
    }

    /// Looks what lies where in a process; what is new counts from `time` on.
    fn look(&mut self, i: usize, time: u64) {
        let p = &mut self.processes[i];
        let Some(layout) = self.layouts.of(p.summary.pid as i32) else { return };
        // In a guided run the runtime tells which variables it moved.
        let statics = self.flags & flags::PLAN == 0;
        if let Err(e) = p.follower.look(&layout, statics, time, &mut self.tally, self.sink) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    fn read_residency(&mut self, i: usize, now: u64) {
        self.look(i, now);
        let pid = self.processes[i].summary.pid as i32;
        // Before the objects: of a program that fills its memory at this moment more would be found than lies in its objects, and be
        // taken for memory that no plan places.
        let memory = residency::memory(pid);
        let mut reading = Reading::new(self.processes[i].follower.live().pages());
        let mut from = None;
        loop {
            let live = self.processes[i].follower.live();
            from = live.show(from, &mut |o| reading.object(o.addr, o.size, o.site));
            if from.is_none() {
                break;
            }
            // Millions of objects take their time, and the rings are small. What comes is applied later.
            self.processes.iter_mut().filter(|p| !p.over).for_each(|p| {
                p.drain(false);
            });
        }
        match reading.ask(pid) {
            Ok(sites) => {
                self.readings_rows += sites.values().map(|s| s.looked_at.len() as u64).sum::<u64>();
                let mut of_objects = 0;
                for (site, pages) in &sites {
                    let bytes = pages.looked_at.iter().map(|(&node, &n)| (node, pages.bytes(n))).collect();
                    let present = |m: &std::collections::BTreeMap<i32, u64>| -> u64 {
                        m.iter().filter(|(node, _)| **node >= 0).map(|(_, b)| b).sum()
                    };
                    of_objects += present(&bytes);
                    let tally = self.tally.sites.entry(*site).or_default();
                    if tally.fullest.is_empty() || present(&bytes) > present(&tally.fullest) {
                        tally.fullest = bytes;
                    }
                }
                let told = self.sink.residency(i, now, &sites);
                // At the end most objects may be gone, and what the allocator keeps of them is not memory of something else.
                let whole = |m: &(u64, u64)| !self.processes[i].read_at_exit || of_objects >= m.0 / 2;
                let told = told.and_then(|()| match memory.filter(whole) {
                    Some((anonymous, huge)) => self.sink.memory(i, now, anonymous, huge),
                    None => Ok(()),
                });
                if let Err(e) = told {
                    self.lose(None, "recorder-failed", 1, &e.0);
                }
            }
            Err(Refused::Gone) => {}
            Err(Refused::NotPermitted) => {
                let note = "the kernel does not permit to look up where the pages of the program are \
                            (move_pages); resident sizes are unknown";
                self.lose(Some(i), "residency-denied", 1, note);
            }
            Err(Refused::Other(why)) => {
                self.lose(Some(i), "residency-failed", 1, &format!("a look-up of pages failed: {why}"));
            }
        }
    }

    fn report_drops(&mut self, over: bool) {
        for (kind, count, note) in self.outside.as_ref().map(|sampler| sampler.losses(over)).unwrap_or_default() {
            self.set_loss(None, kind, count, &note);
        }
        if let Some((from, to)) = self.outside.as_ref().and_then(|sampler| sampler.watched()).filter(|_| over) {
            if let Err(e) = self.sink.watched(from, to) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
        }
        (0..self.processes.len()).for_each(|i| self.report_drops_of(i));
    }

    fn report_drops_of(&mut self, i: usize) {
        let Some(file) = &self.processes[i].file else { return };
        let (dropped, corrupt) = (file.dropped(), file.corrupt);
        let note = "events were dropped because the recorder could not keep up";
        self.set_loss(Some(i), "ring-full", dropped, note);
        self.set_loss(Some(i), "ring-corrupt", corrupt, "events made no sense and were thrown away");
    }

    /// Applies everything that is in the rings of a process.
    fn drain_to_the_end(&mut self, i: usize) {
        self.processes[i].drain(true);
        let follower = &mut self.processes[i].follower;
        let applied = follower.apply(u64::MAX, &mut self.tally, self.sink);
        if let Err(e) = applied.and_then(|()| follower.tell_misses(true, self.sink)) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    /// The process has ended, replaced itself, or passed: closes its books.
    fn finish(&mut self, i: usize, how: Ended) {
        self.tell_touches(i);
        self.processes[i].over = true;
        self.report_drops_of(i);
        let Some(file) = self.processes[i].file.take() else { return };
        let header = file.header();
        let state = header.state.load(Acquire);
        let end_ns = match (header.end_ns.load(Acquire), &how) {
            (0, Ended::Replaced(at)) => *at,
            (0, _) => self.now(),
            (t, _) => t,
        };
        let text = file.text();
        let sampling = header.sampling.load(Relaxed) == 1;
        let counters = counters(&header.counters);
        let status = match (state, how) {
            (state::PASSED, _) if text.is_empty() => "passed".to_string(),
            (state::PASSED, _) => format!("passed: {text}"),
            (state::ENDED | state::EXITING, _) => "ended".to_string(),
            (_, Ended::Replaced(_)) => "replaced by exec".to_string(),
            (_, Ended::Gone) => "ended without a word (killed, crashed or left by _exit)".to_string(),
            (_, Ended::Said | Ended::LeftBehind) => "left behind".to_string(),
        };
        let count = |name: &str| counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
        if state == state::PASSED {
            let note = if text.is_empty() { "the runtime gave up" } else { &text };
            self.set_loss(Some(i), "process-unobserved", 1, note);
        } else if self.flags & flags::SAMPLER != 0 && !sampling && !text.is_empty() {
            // Without a text there was nothing to sample: too little was alive for the sampler to start.
            self.set_loss(Some(i), "sampler-off", 1, &text);
        }
        for (kind, name, note) in [
            ("allocation-refused", "refused", "allocations had to be left to the program's own allocator"),
            ("child-unobserved", "children_unobserved", NO_RIGHTS),
            ("no-ring", "no_ring", "events found no ring"),
            ("no-site", "no_site", "sites found no room in the site table"),
            ("stack-truncated", "truncated", "call stacks were cut short"),
        ] {
            self.set_loss(Some(i), kind, count(name), note);
        }
        let life = end_ns.saturating_sub(header.start_ns.load(Relaxed)).max(1);
        if sampling && life > SHORT_LIFE_NS {
            let times = [life, count("guarded_ns").min(life), count("paused_ns").min(life)];
            self.tell_sampled_times(times);
        }
        let left = self.processes[i].follower.end(end_ns, &mut self.tally, self.sink);
        if let Err(e) = left.and_then(|()| self.sink.ended(i, end_ns, &status, &counters)) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
        let summary = &mut self.processes[i].summary;
        (summary.state, summary.text, summary.sampling, summary.counters) = (state, text, sampling, counters);
    }

    /// How much of the processes' time the sampler did not watch, all that have ended together. `times`: ns of another one's life,
    /// and how long the sampler watched it and paused.
    fn tell_sampled_times(&mut self, times: [u64; 3]) {
        for (sum, time) in self.sampled_times.iter_mut().zip(times) {
            *sum += time;
        }
        let [life, watched, paused] = self.sampled_times;
        let percent = |ns: u64| (ns as f64 * 100.0 / life as f64).ceil() as u64;
        let (watched, paused) = (percent(watched), percent(paused));
        let note = "percent of the time the sampler paused, so as not to cost more than --overhead allows";
        self.set_loss(None, "sampler-paused", paused, note);
        let watched = watched + paused;
        let away = if watched < WATCHED_ENOUGH { 100 - watched } else { 0 };
        let note = "percent of the time the sampler had to stand back, because of system calls it cannot see through, or too many of them";
        self.set_loss(None, "sampler-disarmed", away, note);
    }

    fn lose(&mut self, process: Option<usize>, kind: &str, count: u64, note: &str) {
        let before = self.losses.get(&(process, kind.to_string())).map_or(0, |l| l.0);
        self.set_loss(process, kind, before + count, note);
    }

    fn set_loss(&mut self, process: Option<usize>, kind: &str, count: u64, note: &str) {
        let entry = self.losses.entry((process, kind.to_string())).or_default();
        if entry.0 == count {
            return;
        }
        *entry = (count, note.to_string());
        // A sink that fails cannot be told that it failed.
        let _ = self.sink.lost(process, kind, count, note);
    }

    fn close(mut self, status: ExitStatus) -> Outcome {
        for i in 0..self.processes.len() {
            if self.processes[i].over {
                continue;
            }
            self.drain_to_the_end(i);
            self.finish(i, Ended::LeftBehind);
        }
        self.take_samples(u64::MAX);
        self.tell_strangers();
        self.report_drops(true);
        if let Some(sampler) = &mut self.outside {
            sampler.end();
        }
        let (code, how) = match (status.code(), status.signal()) {
            (Some(code), _) => (code as u8, format!("exit {code}")),
            (None, signal) => (128 + signal.unwrap_or(0) as u8, format!("signal {}", signal.unwrap_or(0))),
        };
        let duration_ns = self.now();
        let said = |marker| self.session.dir().join(marker).exists();
        let (failed, loaded) = (said(FAILED), said(LOADED));
        // A line for each process.
        let passed_over = std::fs::read(self.session.dir().join(PASSED_OVER)).unwrap_or_default();
        let passed_over = String::from_utf8_lossy(&passed_over);
        let mut reasons: Vec<&str> = passed_over.lines().collect();
        let count = reasons.len() as u64;
        reasons.sort_unstable();
        reasons.dedup();
        if count > 0 {
            self.lose(None, "process-passed-over", count, &reasons.join("; "));
        }
        if failed {
            self.lose(None, "process-unobserved", 1, NO_ROOM);
        } else if self.processes.is_empty() && count == 0 {
            let (kind, note) = if loaded { ("nothing-managed", NOTHING) } else { ("process-unobserved", UNLOADED) };
            self.lose(None, kind, 1, note);
        }
        let mut losses: Vec<Loss> = Vec::new();
        for ((_, kind), (count, note)) in self.losses.into_iter().filter(|(_, (count, _))| *count > 0) {
            match losses.iter_mut().find(|l| l.kind == kind) {
                Some(loss) => loss.count += count,
                None => losses.push(Loss { kind, count, note }),
            }
        }
        losses.sort_by(|a, b| a.kind.cmp(&b.kind));
        let processes: Vec<ProcessSummary> = self.processes.into_iter().map(|p| p.summary).collect();
        Outcome { code, how, duration_ns, processes, tally: self.tally, losses }
    }
}

/// How long to wait after a round of residency readings, at this age of the run, that took `cost` and gave the profile so many
/// rows. Memory is first touched early in a run, so readings are denser there.
pub(crate) fn pause_after(age: Duration, cost: Duration, rows: u64) -> Duration {
    let rows = Duration::from_millis(1000 * rows / READING_ROWS);
    let dear = (cost * READING_COST).max(rows);
    READING.min(age).max(if age < READING * 10 { dear / 4 } else { dear })
}

impl Watched {
    /// Empties the rings into the follower's inbox; `last`: until they stay empty.
    fn drain(&mut self, last: bool) -> f64 {
        let mut fullest: f64 = 0.0;
        loop {
            let before = self.follower.inbox().len();
            fullest = fullest.max(self.file.as_mut().map_or(0.0, |file| file.drain(self.follower.inbox())));
            if !last || self.follower.inbox().len() == before {
                return fullest;
            }
        }
    }
}

fn counters(c: &wire::process::Counters) -> Vec<(String, u64)> {
    let mut out: Vec<(String, u64)> = [
        ("managed", &c.managed),
        ("refused", &c.refused),
        ("no_ring", &c.no_ring),
        ("children_unobserved", &c.children_unobserved),
        ("no_site", &c.no_site),
        ("truncated", &c.truncated),
        ("armed", &c.armed),
        ("visits", &c.visits),
        ("steps", &c.steps),
        ("guarded_ns", &c.guarded_ns),
        ("stood_back", &c.stood_back),
        ("syscalls", &c.syscalls),
        ("spent_ns", &c.spent_ns),
        ("paused_ns", &c.paused_ns),
        ("most_anonymous", &c.most_anonymous),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), value.load(Relaxed)))
    .collect();
    let moved = [
        ("moved", &c.moved),
        ("moved_bytes", &c.moved_bytes),
        ("moved_asked", &c.moved_asked),
        ("moved_there", &c.moved_there),
    ];
    for (name, value) in moved.into_iter().filter(|_| c.moved.load(Relaxed) > 0) {
        out.push((name.to_string(), value.load(Relaxed)));
    }
    for (name, values) in [("fell_back", &c.fell_back), ("fell_back_bytes", &c.fell_back_bytes)] {
        for (tier, value) in values.iter().enumerate().filter(|(_, v)| v.load(Relaxed) > 0) {
            out.push((format!("{name}_{tier}"), value.load(Relaxed)));
        }
    }
    out
}
