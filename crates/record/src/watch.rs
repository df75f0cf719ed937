//! Follows what reports in sessions: finds the processes, empties their rings, hands each sample to its process, reads where pages are, and
//! tells a [`Sink`] all of it.
//!
//! A launcher follows one session, that of its program; a daemon those of its users, which *stand* while programs come and go.

use crate::annotated;
use crate::bounds::Bounds;
use crate::code::Code;
use crate::follow::{Follower, RawFrame, Sink, Started, Tally, tell};
use crate::gone_on;
use crate::live::Live;
use crate::maps::Layouts;
use crate::misses::{Miss, Misses, Place, TOLERANCE_NS};
use crate::outside::Outside;
use crate::owner::Owner;
use crate::pages::Refused;
use crate::pick_up::{self, Found};
use crate::residency::{self, Reading};
use crate::rings::{NotYet, ProcessFile, Taken, What};
use crate::session::{Said, Session};
use model::SiteKind;
use model::observed::Loss;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use wire::mark;
use wire::process::state;
use wire::session::{Config, FAILED, LOADED, PASSED_OVER, flags};

/// Rings are emptied this often, and when one is half full, since then the doorbell rings: it holds 4096 one-slot events.
const PERIOD: Duration = Duration::from_millis(50);
/// So often while rings fill faster than that.
const BUSY_PERIOD: Duration = Duration::from_millis(2);
/// Times that the rings of a process are emptied at its end.
const LAST_ROUNDS: u32 = 8;
/// Least time between two looks at standing sessions, however often it rings.
const STANDING_PAUSE: Duration = Duration::from_millis(1);
/// Sites of which a standing watch keeps sums.
const MOST_SITES: usize = 1 << 16;
/// Most live objects that a daemon remembers of a process, as many as its engine has records, and of all processes of a user; a launcher, whose only
/// program it is, remembers all.
const MOST_OBJECTS: [usize; 2] = [1 << 22, 1 << 23];
/// What is done after each interval takes one part in so many of the time, or intervals become longer; but each no more than twice as long as the one before, as one may have been out
/// of the ordinary.
const TICK_COST: u32 = 10;
/// Reading the objects of a user's processes takes one part in so many of the time.
const OBJECTS_COST: u32 = 20;
/// One that has allocated nothing is left alone so many times as long, and for so many intervals at most: some of its objects may be no more.
const NONE_NEW: u32 = 10;
/// Misses of processes that did not report that are kept, in case that they do.
const MOST_UNREPORTED: usize = 1 << 14;
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
const NO_MAPPINGS: &str = "times the kernel did not let the sampler protect a page, most likely as the process had all mappings that it \
                           may have (sysctl vm.max_map_count); accesses were not seen meanwhile";
const NO_FRAME: &str = "signals did not reach the program: they came while it ran on a stack in memory of its own (a coroutine's) of which the \
                        sampler had protected a page";
const NO_MORE_PYTHON: &str = "allocations were of lines of Python whose function found no room in the table (16,384 functions of a process); their sites \
                              show the interpreter's functions instead";
const NOTHING: &str = "no process allocated anything as large as the threshold, so there was nothing to manage";

/// Processor time of the calling thread: what programs take of it meanwhile is not its own.
pub(crate) fn cpu_time() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
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

/// CLOCK_MONOTONIC in ns.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What became of all that was followed.
#[derive(Debug)]
pub struct Watched {
    /// Until the last process has ended, in ns since the epoch.
    pub duration_ns: u64,
    /// Processes, in order of appearance.
    pub processes: Vec<ProcessSummary>,
    /// Sums per site.
    pub tally: Tally,
    /// What was lost, summed by kind.
    pub losses: Vec<Loss>,
}

/// How long to wait until the next look.
#[derive(Clone, Copy)]
struct Pace {
    period: Duration,
    /// The sink has more to do.
    more: bool,
}

/// Why a wait was over; neither: its time was.
struct Woken {
    /// A doorbell rang.
    bell: bool,
    /// There is something on the other descriptor.
    other: bool,
}

/// A process under observation.
struct Process {
    /// Its session stands: times are those of CLOCK_MONOTONIC.
    standing: bool,
    /// Number of its session, and the name of its file there.
    session: usize,
    name: OsString,
    /// Until its books are closed: of thousands of short processes, only those alive cost memory and descriptors.
    file: Option<ProcessFile>,
    follower: Follower,
    code: Code,
    seen: Instant,
    read_at_exit: bool,
    /// Its managed objects are read at each interval from this time on; `None`: they are told.
    objects: Option<Objects>,
    /// Why it was not observed any more at the last reading.
    gone_on: Option<String>,
    over: bool,
    summary: ProcessSummary,
}

/// What reading the objects of a process takes.
struct Objects {
    /// They are read from this time on; or from the later one, if nothing has been allocated.
    next: [Instant; 2],
    /// Allocations before they were read last.
    allocations: u64,
    sites: pick_up::Sites,
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

/// Follows everything that reports in some sessions, which have one epoch and the same flags.
pub struct Watch<'a> {
    sessions: Vec<Session>,
    epoch_ns: u64,
    flags: u64,
    /// The sessions stand: what is over is forgotten, and its number given to another process.
    standing: bool,
    /// When this began, in ns since the epoch; how many of the sessions were looked at since.
    began_ns: u64,
    looked: usize,
    bounds: Bounds,
    sink: &'a mut dyn Sink,
    /// Files that were looked at, with the number of their session.
    known: HashSet<(usize, OsString)>,
    processes: Vec<Process>,
    tally: Tally,
    losses: HashMap<(Option<usize>, String), (u64, String)>,
    outside: Option<&'a mut (dyn Outside + 'static)>,
    /// The process that has this id now.
    by_pid: HashMap<u32, usize>,
    /// Misses of processes that did not report, or that have ended.
    strangers: Misses,
    /// Misses of processes that have not reported so far: before its runtime is there, a process is being loaded.
    unreported: Vec<(u32, Miss)>,
    layouts: Layouts,
    /// When it is looked for new processes, if none rings before.
    next_look: Instant,
    next_reading: Option<Instant>,
    /// Rows that the current round of readings has given the profile.
    readings_rows: u64,
    next_tick: Instant,
    /// The present interval of the sink.
    interval: Duration,
    pace: Pace,
    /// Of the processes that were sampled and have ended, in ns: their lives, and how long the sampler watched and paused.
    sampled_times: [u64; 3],
}
impl<'a> Watch<'a> {
    /// Nothing is followed yet. `runtime`: where the runtime lies; `plan`: the image of the plan that guides the run.
    pub fn new(
        config: &Config,
        runtime: &Path,
        plan: Option<Vec<u64>>,
        sink: &'a mut dyn Sink,
        outside: Option<&'a mut (dyn Outside + 'static)>,
    ) -> Watch<'a> {
        let mut strangers = Misses::new();
        strangers.regions(vec![(0..u64::MAX, Place::Unreported)]);
        Watch {
            sessions: Vec::new(),
            epoch_ns: config.epoch_ns,
            flags: config.flags,
            standing: config.flags & flags::STANDING != 0,
            began_ns: now_ns().saturating_sub(config.epoch_ns),
            looked: 0,
            bounds: Bounds::new(MOST_OBJECTS[0], MOST_OBJECTS[1]),
            next_tick: Instant::now() + sink.interval(),
            interval: sink.interval(),
            sink,
            known: HashSet::new(),
            processes: Vec::new(),
            tally: Tally { plan, ..Tally::default() },
            losses: HashMap::new(),
            outside,
            by_pid: HashMap::new(),
            strangers,
            unreported: Vec::new(),
            // In a guided run the runtime tells which variables it moved.
            layouts: Layouts::new(runtime, config.flags & flags::PLAN == 0),
            next_look: Instant::now(),
            next_reading: None,
            readings_rows: 0,
            sampled_times: [0; 3],
            pace: Pace { period: PERIOD, more: false },
        }
    }

    /// Follows what reports in this session, too.
    pub fn add(&mut self, session: Session) {
        self.sessions.push(session);
    }

    /// The sessions.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Switches the sampler on. The program is started next, by the same thread.
    pub fn begin_sampling(&mut self) {
        if let Some(sampler) = &mut self.outside {
            sampler.begin();
        }
    }

    /// Processes that are followed.
    pub fn alive(&self) -> usize {
        self.processes.iter().filter(|p| !p.over).count()
    }

    /// Waits until there is something to do, there is something on `other`, or it is time to look. Returns whether there is something on `other`.
    pub fn rest(&mut self, other: Option<BorrowedFd<'_>>) -> bool {
        if self.standing {
            std::thread::sleep(STANDING_PAUSE);
        }
        let longest = self.outside.as_ref().map_or(IDLE_PERIOD, |sampler| sampler.interval()).min(self.sink.interval());
        let Pace { period, more } = self.pace;
        let woken = self.wait(other, if more { Duration::ZERO } else { period.min(longest) });
        if woken.bell {
            self.next_look = Instant::now();
        }
        woken.other
    }

    /// Looks at everything once.
    pub fn look_around(&mut self) {
        let before = self.tally.objects + self.tally.visits;
        let fill = mark::aside(|| self.cycle());
        let more = self.act();
        let quiet = before == self.tally.objects + self.tally.visits;
        let period = self.pace.period;
        let period = match () {
            () if fill > 0.6 => BUSY_PERIOD,
            () if quiet => (period * 5 / 4).clamp(PERIOD, IDLE_PERIOD),
            () => PERIOD,
        };
        self.pace = Pace { period, more };
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

    /// Sleeps until a doorbell rings, there is something on `other`, or the time is over.
    fn wait(&self, other: Option<BorrowedFd<'_>>, period: Duration) -> Woken {
        let bells = self.sessions.iter().map(|s| s.doorbell().as_raw_fd());
        let mut fds: Vec<_> = bells
            .chain(other.map(|fd| fd.as_raw_fd()))
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: period.as_nanos() as i64 };
        // SAFETY: valid pollfds and timespec, no signal mask.
        unsafe { libc::ppoll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, &timeout, std::ptr::null()) };
        let rung = self.sessions.iter().zip(&fds).filter(|(_, fd)| fd.revents != 0);
        let bell = rung.map(|(session, _)| session.answer_bell()).count() > 0;
        Woken { bell, other: fds.get(self.sessions.len()).is_some_and(|fd| fd.revents != 0) }
    }

    fn now(&self) -> u64 {
        now_ns().saturating_sub(self.epoch_ns)
    }

    /// Once around: new processes, all rings, readings that are due. Returns how full the fullest ring was.
    fn cycle(&mut self) -> f64 {
        if Instant::now() >= self.next_look {
            self.look_for_processes();
            self.next_look = Instant::now() + PERIOD;
        }
        let start = self.now();
        self.share_memory();
        let mut fullest: f64 = 0.0;
        let (mut seen, mut ending) = (Vec::new(), false);
        for i in (0..self.processes.len()).filter(|&i| !self.processes[i].over).collect::<Vec<_>>() {
            // The state is read first: what was published before it changed is then in the rings.
            let Some(file) = &self.processes[i].file else { continue };
            let gone = file.gone() || self.standing && !file.is_owners();
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
            let beyond = p.follower.beyond();
            if let Err(e) = applied.and_then(|()| p.follower.tell_misses(last, self.sink)) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
            if beyond > 0 {
                let note = "objects were not looked at: as many as a daemon remembers of a process, or of a user's processes, are alive";
                self.set_loss(Some(i), "too-many-objects", beyond, note);
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
            let (began, before) = (Instant::now(), cpu_time());
            if self.standing && self.tally.sites.len() > MOST_SITES {
                self.tally.sites.clear();
            }
            self.report_drops(false);
            (0..self.processes.len()).for_each(|i| self.tell_touches(i));
            self.tell_strangers();
            if self.standing {
                self.hear();
            }
            let now = self.now();
            let counted = self.outside.as_ref().and_then(|sampler| sampler.instructions());
            let told = counted.map_or(Ok(()), |count| self.sink.instructions(count));
            self.read_objects();
            if let Err(e) = told.and_then(|()| self.sink.tick(now)) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
            let usual = self.sink.interval();
            self.interval = ((cpu_time() - before) * TICK_COST).min(2 * self.interval).max(usual);
            self.next_tick = began + self.interval;
        }
        fullest
    }

    /// Reads which managed objects are alive, of processes where that is not told.
    fn read_objects(&mut self) {
        let mut of_user: HashMap<u32, u32> = HashMap::new();
        for p in self.processes.iter().filter(|p| !p.over) {
            *of_user.entry(self.sessions[p.session].owner().uid).or_default() += 1;
        }
        for i in 0..self.processes.len() {
            let p = &mut self.processes[i];
            let (Some(file), Some(objects), false) = (&p.file, &mut p.objects, p.over) else { continue };
            let began = Instant::now();
            let (allocations, allocated) = file.managed();
            if began < objects.next[usize::from(allocations == objects.allocations)] {
                continue;
            }
            objects.allocations = allocations;
            let read = pick_up::Reader::open(file, &mut objects.sites).and_then(|mut reader| reader.objects());
            let others = of_user.get(&self.sessions[p.session].owner().uid).copied().unwrap_or(1);
            let pause = began.elapsed() * OBJECTS_COST * others;
            objects.next = [began + pause, began + pause.max((pause * NONE_NEW).min(NONE_NEW * self.interval))];
            let header = file.header();
            let denied = matches!(&read, Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied);
            let found = match read {
                Ok(found) => found,
                // It has changed its rights: from now on it tells, and of what it had before nothing is known any more.
                Err(_) if denied => Vec::new(),
                // One that is about to end or to execute another program: its end is told.
                Err(_) => continue,
            };
            if denied {
                header.objects_read.store(0, Relaxed);
                p.objects = None;
                p.follower.objects_are_read(false);
            }
            if let Err(e) = self.sink.alive(i, &found, allocated) {
                self.lose(None, "recorder-failed", 1, &e.0);
            }
            if denied {
                let why = "the kernel does not permit any more to read what the program has allocated; it is placed as far as it is allocated \
                           from now on";
                self.lose(Some(i), "not-picked-up", 1, why);
            }
        }
    }

    /// Says how many objects of each process of a standing session may be remembered.
    fn share_memory(&mut self) {
        if !self.standing {
            return;
        }
        let (sessions, processes) = (&self.sessions, &mut self.processes);
        let user = |p: &Process| sessions[p.session].owner().uid;
        let alive = |p: &Process| p.follower.live().len();
        self.bounds.count(processes.iter().filter(|p| !p.over).map(|p| (user(p), alive(p))));
        for p in processes.iter_mut().filter(|p| !p.over) {
            let most = self.bounds.of(user(p), alive(p));
            p.follower.remember(most);
        }
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
        if !unknown.is_empty() && self.wait(None, Duration::ZERO).bell {
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
                None => self.unreported.push((pid, miss)),
            }
        }
        let most = if horizon == u64::MAX { 0 } else { MOST_UNREPORTED };
        let beyond = self.unreported.len().saturating_sub(most);
        for (_, miss) in self.unreported.drain(..beyond) {
            self.strangers.miss(&miss, &Live::default());
            self.tally.visits += 1;
        }
        if let Err(e) = result.and_then(|()| tell(&mut self.strangers, None, horizon == u64::MAX, self.sink)) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    /// Begins the new ones in the order in which they started, which the folder does not keep: of two images of one process the
    /// later has replaced the earlier.
    fn look_for_processes(&mut self) {
        let mut new = Vec::new();
        let mut there = HashSet::new();
        for session in 0..self.sessions.len() {
            let names: Vec<OsString> = self.sessions[session].files();
            for name in names {
                let of = (session, name);
                if self.known.contains(&of) {
                    if self.standing {
                        there.insert(of);
                    }
                    continue;
                }
                match ProcessFile::open(&self.sessions[session].dir().join(&of.1), self.sessions[session].owner()) {
                    // The file of one that is over is removed with the attempt.
                    Err(NotYet::Starting | NotYet::Over) => {}
                    Err(NotYet::Never(why)) => {
                        there.insert(of.clone());
                        self.known.insert(of);
                        self.say_unobserved(session, &why);
                    }
                    Ok(file) => {
                        self.known.insert(of.clone());
                        new.push((file, of));
                    }
                }
            }
        }
        if self.standing {
            // Of what was removed nothing is kept.
            there.extend(new.iter().map(|(_, of)| of.clone()));
            self.known = there;
        }
        new.sort_by_key(|(file, _)| file.header().start_ns.load(Relaxed));
        new.into_iter().for_each(|(file, (session, name))| self.begin(file, session, name));
        self.looked = self.sessions.len();
    }

    fn begin(&mut self, file: ProcessFile, session: usize, name: OsString) {
        let header = file.header();
        let started = Started {
            pid: file.pid() as u32,
            ppid: header.ppid.load(Relaxed),
            job: header.job.load(Relaxed),
            exe: file.exe(),
            start_ns: header.start_ns.load(Relaxed),
        };
        // Another image of the same process: the former one was replaced by exec, which may have left no word.
        let replaced = (0..self.processes.len())
            .find(|&i| !self.processes[i].over && self.processes[i].summary.pid == started.pid);
        let mut loading = Vec::new();
        if let Some(i) = replaced {
            // Those of the new program while it was loaded.
            loading = self.processes[i].follower.take_unplaced();
            self.drain_to_the_end(i);
            self.finish(i, Ended::Replaced(started.start_ns));
        }
        let free = self.processes.iter().position(|p| self.standing && p.over);
        let index = free.unwrap_or(self.processes.len());
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
        if self.standing {
            follower.remember(self.bounds.of(self.sessions[session].owner().uid, 0));
        }
        // Who reads objects keeps sums of its own.
        let reads_objects = self.sink.reads_objects();
        if self.outside.is_some() && !reads_objects {
            follower.count_misses(Misses::new());
        }
        let mut sites = pick_up::Sites::default();
        let can_read = reads_objects && pick_up::Reader::open(&file, &mut sites).is_ok();
        // A recorder before this one may have had other rights.
        file.header().objects_read.store(can_read.into(), Relaxed);
        let objects = can_read.then(|| {
            follower.objects_are_read(true);
            Objects { next: [seen; 2], allocations: 0, sites }
        });
        self.by_pid.insert(started.pid, index);
        let code = Code::of(started.pid);
        let layout_at = started.start_ns;
        let process = Process {
            standing: self.standing,
            session,
            name,
            file: Some(file),
            follower,
            code,
            seen,
            read_at_exit: false,
            objects,
            gone_on: None,
            over: false,
            summary,
        };
        match self.processes.get_mut(index) {
            Some(place) => *place = process,
            None => self.processes.push(process),
        }
        // What comes later has told everything.
        if self.standing && session >= self.looked && layout_at < self.began_ns {
            self.pick_up(index);
        }
        self.look(index, layout_at);
        let pid = self.processes[index].summary.pid;
        let (mut own, others): (Vec<_>, Vec<_>) = self.unreported.drain(..).partition(|(of, _)| *of == pid);
        self.unreported = others;
        own.sort_by_key(|(_, miss)| miss.time_ns);
        let follower = &mut self.processes[index].follower;
        loading.iter().for_each(|miss| follower.miss_again(miss));
        let told = own.iter().try_for_each(|(_, miss)| follower.miss(miss, &mut self.tally, self.sink));
        if let Err(e) = told {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    /// What a process that was there before has told to another recorder, who is gone, is read from its memory.
    fn pick_up(&mut self, i: usize) {
        let now = self.now();
        let p = &mut self.processes[i];
        p.follower.lost_events();
        p.drain(false);
        let mut sites = pick_up::Sites::default();
        let told = p.objects.is_none();
        let found = p.file.as_ref().map(|file| {
            let mut reader = pick_up::Reader::open(file, &mut sites)?;
            let of_kind = |kind: SiteKind| move |found: Found| born(found, kind, now);
            let mut all: Vec<Taken> = reader.mappings()?.into_iter().map(of_kind(SiteKind::Mapping)).collect();
            if told {
                all.extend(reader.objects()?.into_iter().map(of_kind(SiteKind::Allocation)));
            }
            Ok::<_, std::io::Error>(all)
        });
        match found {
            Some(Ok(found)) => {
                // What the rings still told of may be over long since.
                let all = What::Unmap { addr: 0, size: u64::MAX };
                p.follower.inbox().push(Taken { tid: 0, time: now, what: all });
                p.follower.inbox().extend(found);
            }
            Some(Err(_)) if p.file.as_ref().is_some_and(ProcessFile::gone) => {}
            Some(Err(e)) => {
                let why = format!(
                    "the kernel does not permit to read what a program allocated before this daemon began ({e}); it is placed as \
                     far as it is allocated from now on (root may read it, or kernel.yama.ptrace_scope be 0)"
                );
                self.lose(Some(i), "not-picked-up", 1, &why);
            }
            None => {}
        }
        let applied = self.processes[i].follower.apply(now, &mut self.tally, self.sink);
        if let Err(e) = applied {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
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
            if p.over || p.read_at_exit || p.seen.elapsed() < FIRST_READING / 2 {
                continue;
            }
            let session = &self.sessions[p.session];
            let (pid, exe, runtime) = (p.summary.pid as i32, &p.summary.exe, self.layouts.runtime());
            // Not what another user has written, and may be on a file system that never answers.
            let own = session.owner() == Owner::me();
            let unobserved = own.then(|| gone_on::unobserved(pid, exe, session.dir(), runtime)).flatten();
            if unobserved.is_none() {
                self.read_residency(i, now);
            }
            self.processes[i].gone_on = unobserved;
        }
        let pause = pause_after(Duration::from_nanos(now), start.elapsed(), self.readings_rows);
        self.next_reading = Some(Instant::now() + pause);
    }

    /// Looks what lies where in a process; what is new counts from `time` on.
    fn look(&mut self, i: usize, time: u64) {
        let p = &mut self.processes[i];
        let owner = self.sessions[p.session].owner();
        let Some(layout) = self.layouts.of(p.summary.pid as i32, owner) else { return };
        let statics = self.flags & flags::PLAN == 0;
        if let Err(e) = p.follower.look(&layout, statics, time, &mut self.tally, self.sink) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
        if self.layouts.is_slow(owner) {
            let note = "its files take so long to read that static variables in some of them are not known";
            self.set_loss(Some(i), "slow-files", 1, note);
        }
    }

    fn read_residency(&mut self, i: usize, now: u64) {
        self.look(i, now);
        if self.processes[i].objects.is_some() {
            // Who reads objects looks where they are itself.
            return;
        }
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
        let counters = counters(&file);
        let unsaid = matches!(how, Ended::Gone | Ended::LeftBehind) && state <= state::RUNNING;
        let gone_on = self.processes[i].gone_on.take().filter(|_| unsaid);
        let status = match (state, how) {
            (state::PASSED, _) if text.is_empty() => "passed".to_string(),
            (state::PASSED, _) => format!("passed: {text}"),
            (state::ENDED | state::EXITING, _) => "ended".to_string(),
            (_, Ended::Replaced(_)) => "replaced by exec".to_string(),
            (_, Ended::Gone) => "ended without a word (killed, crashed or left by _exit)".to_string(),
            (_, Ended::Said | Ended::LeftBehind) => "left behind".to_string(),
        };
        let count = |name: &str| counters.iter().find(|(n, _)| n == name).map_or(0, |(_, v)| *v);
        if let Some(why) = gone_on {
            self.set_loss(Some(i), "process-unobserved", 1, &why);
        } else if state == state::PASSED {
            let note = if text.is_empty() { "the runtime gave up" } else { &text };
            self.set_loss(Some(i), "process-unobserved", 1, note);
        } else if self.flags & flags::SAMPLER != 0 && !sampling && !text.is_empty() {
            // Without a text there was nothing to sample: too little was alive for the sampler to start.
            self.set_loss(Some(i), "sampler-off", 1, &text);
        }
        for (kind, name, note) in [
            ("allocation-refused", "refused", "allocations had to be left to the program's own allocator"),
            ("child-unobserved", "children_unobserved", NO_RIGHTS),
            ("no-ring", "no_ring", "events found no ring: /dev/shm, where rings are, was full"),
            ("no-site", "no_site", "sites found no room in the site table"),
            ("stack-truncated", "truncated", "call stacks were cut short"),
            ("python-left-out", "python_left_out", NO_MORE_PYTHON),
            ("page-unarmed", "arm_refused", NO_MAPPINGS),
            ("signal-lost", "signals_lost", NO_FRAME),
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
        let p = &mut self.processes[i];
        let summary = &mut p.summary;
        (summary.state, summary.text, summary.sampling, summary.counters) = (state, text, sampling, counters);
        if self.standing {
            // The file is gone.
            self.known.remove(&(p.session, std::mem::take(&mut p.name)));
            p.follower = Follower::new(i);
            self.losses.retain(|(process, _), _| *process != Some(i));
            if self.by_pid.get(&p.summary.pid) == Some(&i) {
                self.by_pid.remove(&p.summary.pid);
            }
        }
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

    /// So many processes of the program go on after it.
    pub fn tell_left_behind(&mut self, processes: u64) {
        let note =
            "processes of the program still ran a second after it had ended; what they did later is not recorded";
        self.lose(None, "process-left-behind", processes, note);
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

    /// Closes the books of what is still followed, and says what became of all.
    pub fn close(mut self) -> Watched {
        self.close_books();
        let duration_ns = self.now();
        self.tell_what_was_said();
        self.tell_of_positions();
        let mut all: Vec<_> = self.losses.into_iter().filter(|(_, (count, _))| *count > 0).collect();
        all.sort();
        let mut losses: Vec<Loss> = Vec::new();
        for ((_, kind), (count, note)) in all {
            match losses.iter_mut().find(|l| l.kind == kind) {
                Some(loss) => loss.add(count, &note),
                None => losses.push(Loss { kind, count, note }),
            }
        }
        losses.sort_by(|a, b| a.kind.cmp(&b.kind));
        let processes: Vec<ProcessSummary> = self.processes.into_iter().map(|p| p.summary).collect();
        Watched { duration_ns, processes, tally: self.tally, losses }
    }

    /// Lets go of standing sessions: what runs in them goes on, and the next who comes finds it again.
    pub fn leave(mut self) {
        if let Some(sampler) = &mut self.outside {
            sampler.end();
        }
        self.processes.drain(..).filter_map(|p| p.file).for_each(ProcessFile::leave);
    }

    fn close_books(&mut self) {
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
    }

    /// Says that a process of a session is not observed: of a standing one to its user only.
    fn say_unobserved(&mut self, session: usize, why: &str) {
        if !self.standing {
            return self.lose(None, "process-unobserved", 1, why);
        }
        let user = self.sessions[session].owner().uid;
        if let Err(e) = self.sink.said(user, why) {
            self.lose(None, "recorder-failed", 1, &e.0);
        }
    }

    /// What runtimes have said in standing sessions beside process files, since the last time.
    fn hear(&mut self) {
        for session in 0..self.sessions.len() {
            let Said { failed, passed_over } = self.sessions[session].said();
            passed_over.iter().for_each(|why| self.say_unobserved(session, why));
            if failed {
                self.say_unobserved(session, NO_ROOM);
            }
        }
    }

    /// Of annotated programs: which sites are those of several positions, and which programs' positions cannot be heard.
    fn tell_of_positions(&mut self) {
        let frames = self.tally.sites.values().flat_map(|s| &s.frames);
        let met = frames.filter_map(|f| Some((f.module.as_ref()?, f.offset)));
        let programs: HashSet<String> = self.processes.iter().map(|p| p.summary.exe.clone()).collect();
        if let Some((count, note)) = annotated::collisions(met, programs.iter().map(String::as_str)) {
            self.lose(None, "positions-collide", count as u64, &note);
        }
        let told: Vec<String> = programs.iter().filter_map(|p| annotated::unheard(Path::new(p))).collect();
        self.lose(None, "positions-unheard", told.len() as u64, &told.join("; "));
    }

    /// What runtimes have said beside process files.
    fn tell_what_was_said(&mut self) {
        let said = |marker| self.sessions.iter().any(|s| s.dir().join(marker).exists());
        let (failed, loaded) = (said(FAILED), said(LOADED));
        // A line for each process.
        let passed_over = self.sessions.iter().flat_map(|s| std::fs::read(s.dir().join(PASSED_OVER)));
        let passed_over = String::from_utf8_lossy(&passed_over.flatten().collect::<Vec<u8>>()).into_owned();
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
    }
}

/// How long to wait after a round of residency readings, at this age of the run, that took `cost` and gave the profile so many
/// rows. Memory is first touched early in a run, so readings are denser there.
pub(crate) fn pause_after(age: Duration, cost: Duration, rows: u64) -> Duration {
    let rows = Duration::from_millis(1000 * rows / READING_ROWS);
    let dear = (cost * READING_COST).max(rows);
    READING.min(age).max(if age < READING * 10 { dear / 4 } else { dear })
}

impl Process {
    /// Empties the rings into the follower's inbox; `last`: until they stay empty.
    fn drain(&mut self, last: bool) -> f64 {
        let (mut fullest, mut rounds) = (0.0f64, 0);
        loop {
            let before = self.follower.inbox().len();
            fullest = fullest.max(self.file.as_mut().map_or(0.0, |file| file.drain(self.follower.inbox())));
            if self.standing {
                // One that claims to be of later would be kept until then.
                let now = now_ns();
                self.follower.inbox().iter_mut().skip(before).for_each(|taken| taken.time = taken.time.min(now));
            }
            rounds += 1;
            // Who says that it has ended writes no more; one that does is not listened to for ever.
            if !last || self.follower.inbox().len() == before || rounds >= LAST_ROUNDS {
                return fullest;
            }
        }
    }
}

/// What was found, as if it were told at this time.
fn born(found: Found, kind: SiteKind, time: u64) -> Taken {
    let Found { addr, size, site } = found;
    Taken { tid: 0, time, what: What::Alloc { addr, size, site, tier: 0, realloc: false, kind, ended: None } }
}

fn counters(file: &ProcessFile) -> Vec<(String, u64)> {
    let c = &file.header().counters;
    let mut out = vec![("managed".to_string(), file.managed().0)];
    let others = [
        ("refused", &c.refused),
        ("no_ring", &c.no_ring),
        ("children_unobserved", &c.children_unobserved),
        ("no_site", &c.no_site),
        ("truncated", &c.truncated),
        ("python_left_out", &c.python_left_out),
        ("armed", &c.armed),
        ("arm_refused", &c.arm_refused),
        ("signals_lost", &c.signals_lost),
        ("visits", &c.visits),
        ("steps", &c.steps),
        ("guarded_ns", &c.guarded_ns),
        ("stood_back", &c.stood_back),
        ("syscalls", &c.syscalls),
        ("spent_ns", &c.spent_ns),
        ("paused_ns", &c.paused_ns),
        ("most_anonymous", &c.most_anonymous),
    ];
    out.extend(others.map(|(name, value)| (name.to_string(), value.load(Relaxed))));
    let moved = [
        ("moved", &c.moved),
        ("moved_bytes", &c.moved_bytes),
        ("moved_beside", &c.moved_beside),
        ("moving_ns", &c.moving_ns),
        ("moving_beside_ns", &c.moving_beside_ns),
        ("moving_waited_ns", &c.moving_waited_ns),
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
