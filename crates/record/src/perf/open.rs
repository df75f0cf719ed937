//! Opens events on this machine: for each CPU one ring, into which all events of that CPU write.
//!
//! Events are opened on the recorder's own thread, switched off, to be inherited. The program that this thread starts gets
//! them at its `exec`, and hands them on to its threads and children; the recorder itself is never counted. One event for
//! each CPU, since the kernel maps no ring for an event that is both inherited and of all CPUs.
//!
//! Where the kernel does not attach the processor's events to programs (IBS before Linux 6.2) they are opened for whole
//! CPUs, if the user may, and samples of other programs are thrown away.

use super::cpu::Cpu;
use super::events::{Choice, Event, Every, OTHERWISE, Role};
use super::record::Format;
use super::ring::Ring;
use crate::open_files;
use perf_event_open_sys::{self as sys, bindings::*};
use std::io::Error;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Pages of a ring, most and least: most is what the kernel's default limit leaves every user for each CPU
/// (kernel.perf_event_mlock_kb, 516 KiB).
const PAGES: [usize; 2] = [128, 8];
/// Pages of an AUX area.
const AUX_PAGES: usize = 256;

/// Events that are open.
#[derive(Debug)]
pub struct Opened {
    /// The rings, with the places in [`Choice::events`] of what writes into them.
    pub rings: Vec<Ring>,
    /// Numbers of the events in records, and their places in [`Choice::events`].
    pub ids: Vec<(u64, usize)>,
    /// They see every program on the machine.
    pub everyone: bool,
    descriptors: Vec<OwnedFd>,
}

/// Whose accesses are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Those of the program that this thread starts next.
    Program,
    /// Those of all programs on the machine.
    Everyone,
}

/// What the records of an event hold.
pub fn format(event: &Event) -> Format {
    let mut fields = PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_ADDR
        | PERF_SAMPLE_PERIOD;
    match event.role {
        Role::LoadMiss | Role::Store | Role::Latency => fields |= PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC,
        Role::Ibs => fields |= PERF_SAMPLE_RAW,
        Role::Spe | Role::FirstTouch | Role::Any => {}
    }
    Format { sample_type: fields.into(), id_all: true, ..Format::default() }
}

impl Opened {
    /// Opens what was chosen. An error is one sentence for the user.
    pub fn open(choice: &Choice, cpu: &Cpu, scope: Scope) -> Result<Opened, String> {
        open_files::make_room(2 * choice.events.len() * cpu.online.len());
        match Opened::within(choice, cpu, scope) {
            Err((libc::EINVAL, _, event)) if choice.events[event].role == Role::Ibs => {
                Opened::within(choice, cpu, Scope::Everyone)
            }
            result => result,
        }
        .map_err(|(errno, step, event)| refused(errno, step, &choice.events[event], cpu, scope))
    }

    fn within(choice: &Choice, cpu: &Cpu, scope: Scope) -> Result<Opened, (i32, Step, usize)> {
        let everyone = scope == Scope::Everyone;
        let mut opened = Opened { rings: Vec::new(), ids: Vec::new(), everyone, descriptors: Vec::new() };
        for &number in &cpu.online {
            // The event whose ring the others of this CPU write into.
            let mut first: Option<usize> = None;
            for (place, event) in choice.events.iter().enumerate() {
                if !event.cpus.is_empty() && !event.cpus.contains(&number) {
                    continue;
                }
                let fail = |step| move |e: Error| (e.raw_os_error().unwrap_or(0), step, place);
                let leader = match &event.leader {
                    None => None,
                    Some(config) => {
                        let leader = open_one(&leader_of(event, config, scope), scope, number, None);
                        Some(opened.keep(leader.map_err(fail(Step::Open))?))
                    }
                };
                let attributes = attributes(event, leader.is_some(), scope);
                let group = leader.map(|l| opened.descriptors[l].as_raw_fd());
                let descriptor = open_one(&attributes, scope, number, group).map_err(fail(Step::Open))?;
                let mut id = 0u64;
                // SAFETY: an event's descriptor, and a word for the answer.
                if unsafe { sys::ioctls::ID(descriptor.as_raw_fd(), &mut id) } != 0 {
                    return Err(fail(Step::Open)(Error::last_os_error()));
                }
                opened.ids.push((id, place));
                match first.filter(|_| event.role != Role::Spe) {
                    None => {
                        let mut ring = map(&descriptor).map_err(fail(Step::Map))?;
                        if event.role == Role::Spe {
                            ring.map_aux(&descriptor, AUX_PAGES).map_err(fail(Step::Map))?;
                        }
                        opened.rings.push(ring);
                        first = Some(opened.keep(descriptor));
                    }
                    Some(owner) => {
                        let owner = opened.descriptors[owner].as_raw_fd();
                        // SAFETY: two events' descriptors.
                        if unsafe { sys::ioctls::SET_OUTPUT(descriptor.as_raw_fd(), owner) } != 0 {
                            return Err(fail(Step::Map)(Error::last_os_error()));
                        }
                        opened.keep(descriptor);
                    }
                }
            }
        }
        Ok(opened)
    }

    fn keep(&mut self, descriptor: OwnedFd) -> usize {
        self.descriptors.push(descriptor);
        self.descriptors.len() - 1
    }

    /// Switches events of whole CPUs on; those of the program begin with it.
    pub fn begin(&self) {
        for d in self.descriptors.iter().filter(|_| self.everyone) {
            // SAFETY: an event's descriptor.
            unsafe { sys::ioctls::ENABLE(d.as_raw_fd(), 0) };
        }
    }

    /// Switches all off.
    pub fn end(&self) {
        for d in &self.descriptors {
            // SAFETY: an event's descriptor.
            unsafe { sys::ioctls::DISABLE(d.as_raw_fd(), 0) };
        }
    }
}

fn open_one(a: &perf_event_attr, scope: Scope, cpu: u32, group: Option<i32>) -> Result<OwnedFd, Error> {
    let pid = if scope == Scope::Everyone { -1 } else { 0 };
    open_on(a, pid, cpu as i32, group.unwrap_or(-1))
}

/// perf_event_open(2).
pub(super) fn open_on(a: &perf_event_attr, pid: i32, cpu: i32, group: i32) -> Result<OwnedFd, Error> {
    let mut a = *a;
    // SAFETY: a valid attribute structure, which the kernel may write its size into.
    let fd = unsafe { sys::perf_event_open(&mut a, pid, cpu, group, PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: a descriptor just made and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The largest ring that the kernel lets us have.
fn map(descriptor: &OwnedFd) -> Result<Ring, Error> {
    let mut pages = PAGES[0];
    loop {
        match Ring::map(descriptor, pages) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) && pages > PAGES[1] => pages /= 2,
            result => return result,
        }
    }
}

fn attributes(event: &Event, led: bool, scope: Scope) -> perf_event_attr {
    let mut a =
        perf_event_attr { size: size_of::<perf_event_attr>() as u32, type_: event.number, ..Default::default() };
    a.config = event.config[0];
    a.__bindgen_anon_3.config1 = event.config[1];
    a.__bindgen_anon_4.config2 = event.config[2];
    a.config3 = event.config[3];
    match event.every {
        Every::Events(n) => a.__bindgen_anon_1.sample_period = n,
        Every::Second(n) => {
            a.set_freq(1);
            a.__bindgen_anon_1.sample_freq = n.min(fastest());
        }
    }
    a.sample_type = format(event).sample_type;
    a.set_sample_id_all(1);
    a.set_precise_ip(event.precise);
    a.set_exclude_kernel(event.user_only.into());
    a.set_exclude_hv(event.user_only.into());
    a.set_exclude_guest(event.no_guests.into());
    // The clock of the runtime's events.
    a.set_use_clockid(1);
    a.clockid = libc::CLOCK_MONOTONIC;
    let program = u64::from(scope == Scope::Program);
    a.set_inherit(program);
    // One that is led follows its leader.
    a.set_disabled(u64::from(!led));
    a.set_enable_on_exec(u64::from(!led) & program);
    a
}

/// The event that leads another: it only counts.
fn leader_of(event: &Event, config: &[u64; 4], scope: Scope) -> perf_event_attr {
    let leader = Event { config: *config, every: Every::Events(0), precise: 0, ..event.clone() };
    let mut a = attributes(&leader, false, scope);
    a.sample_type = 0;
    a.set_use_clockid(0);
    a.clockid = 0;
    a
}

fn kernel_says(file: &str) -> Option<i64> {
    std::fs::read_to_string(format!("/proc/sys/kernel/{file}")).ok()?.trim().parse().ok()
}

/// More samples a second than this the kernel refuses.
fn fastest() -> u64 {
    kernel_says("perf_event_max_sample_rate").and_then(|n| u64::try_from(n).ok()).filter(|&n| n > 0).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Open,
    Map,
}

/// One sentence about why the kernel did not open an event, with the remedy.
fn refused(errno: i32, step: Step, event: &Event, cpu: &Cpu, scope: Scope) -> String {
    let paranoid = kernel_says("perf_event_paranoid");
    let why = match (step, errno) {
        (Step::Map, libc::EPERM) => "the memory for its ring exceeds what this user may lock; raise it as root with \
                                     `sysctl kernel.perf_event_mlock_kb=2048`"
            .to_string(),
        (_, libc::EACCES | libc::EPERM) => match paranoid {
            Some(level) if scope == Scope::Everyone && level > 0 => format!(
                "kernel.perf_event_paranoid is {level}, which forbids users to sample programs that they did not start; allow \
                 it as root with `sysctl kernel.perf_event_paranoid=0`, or let root run it"
            ),
            Some(level) if event.user_only && level > 2 => format!(
                "kernel.perf_event_paranoid is {level}, which forbids users to sample their own programs; allow it as root \
                 with `sysctl kernel.perf_event_paranoid=2`"
            ),
            Some(level) if !event.user_only && level > 1 => format!(
                "kernel.perf_event_paranoid is {level}, and this kernel cannot leave its own accesses out of the samples; \
                 allow them as root with `sysctl kernel.perf_event_paranoid=1` (0 before Linux 6.2), or use Linux 6.14"
            ),
            _ => "a container or sandbox forbids perf_event_open; allow it (CAP_PERFMON, and the system call in its seccomp \
                  profile) or record outside"
                .to_string(),
        },
        (_, libc::ENOSYS) => "this kernel was built without CONFIG_PERF_EVENTS".to_string(),
        (_, libc::EBUSY) => "another profiler has taken the counters; end it first".to_string(),
        (_, libc::EMFILE | libc::ENFILE) => {
            "it takes more open files than the limit lets; raise it with `ulimit -n`".to_string()
        }
        _ if cpu.virtual_machine => format!(
            "the hypervisor passes on counters but not the processor's memory sampling ({}); run on the machine itself",
            Error::from_raw_os_error(errno)
        ),
        _ => format!("the kernel does not take it on this processor ({})", Error::from_raw_os_error(errno)),
    };
    format!("the event {} cannot be sampled: {why}; {OTHERWISE}", event.name)
}

#[cfg(test)]
mod tests {
    use super::super::events::page_faults;
    use super::super::record::{Record, parse};
    use super::*;
    use std::io::Read;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    /// Samples of these events while a child runs: their processes. The child's is given too.
    fn processes(scope: Scope) -> Option<(u32, Vec<u32>)> {
        let choice = page_faults();
        let mut opened = match Opened::within(&choice, &Cpu::here(), scope) {
            Ok(opened) => opened,
            // Only root, or a kernel.perf_event_paranoid below 1, may look at everyone.
            Err((libc::EACCES | libc::EPERM, Step::Open, _)) if scope == Scope::Everyone => return None,
            Err((errno, ..)) => panic!("{}", Error::from_raw_os_error(errno)),
        };
        opened.begin();
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        opened.end();
        let mut pids = Vec::new();
        for ring in &mut opened.rings {
            ring.take(|kind, body| {
                if let Some(Record::Sample(s)) = parse(kind, body, &format(&choice.events[0])) {
                    // By its id it is one of this event.
                    let id = format(&choice.events[0]).id_of(kind, body).unwrap();
                    if opened.ids.iter().any(|&(known, place)| known == id && place == 0) {
                        pids.push(s.pid);
                    }
                }
            });
            assert_eq!(ring.corrupt, 0);
        }
        Some((child.id(), pids))
    }

    #[test]
    fn a_program_is_sampled_from_its_exec_on_and_the_recorder_never() {
        let (child, pids) = processes(Scope::Program).unwrap();
        assert!(pids.len() > 10 && pids.iter().all(|&p| p == child), "{child}: {pids:?}");
    }

    /// A ring that nobody reads fills up. What came until then is whole, and the kernel tells how much did not fit.
    #[test]
    fn an_overrun_ring_is_told_to_the_record() {
        let here = Cpu::here();
        // On one CPU, so that one ring takes it all. Of tens of thousands of faults a kernel that throttles perf takes few:
        // the ring is small, and holds 585 samples of 56 bytes.
        let first = here.online[0];
        let cpu = Cpu { online: vec![first], ..here };
        let choice = page_faults();
        let mut opened = Opened::within(&choice, &cpu, Scope::Program).unwrap();
        opened.rings.clear();
        opened.rings.push(Ring::map(&opened.descriptors[0], PAGES[1]).unwrap());
        // One program and no second one: a kernel that switches from a parent to a child before its exec may swap their
        // events, and what the parent starts next is not sampled.
        let script =
            "many() { n=0; while [ $n -lt $1 ]; do /bin/true; n=$((n+1)); done; }; many 1500; echo; read go; many 20";
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // SAFETY: the call is async-signal-safe, and the closure allocates nothing.
        unsafe {
            command.pre_exec(move || {
                let mut set: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(first as usize, &mut set);
                libc::sched_setaffinity(0, size_of_val(&set), &set);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let ring = &mut opened.rings[0];
        let mut read = || {
            let (mut samples, mut lost) = (0, 0);
            ring.take(|kind, body| match parse(kind, body, &format(&choice.events[0])).expect("a whole record") {
                Record::Sample(_) => samples += 1,
                Record::Lost(n) => lost += n,
                _ => {}
            });
            assert_eq!(ring.corrupt, 0);
            (samples, lost)
        };
        let mut said = [0];
        child.stdout.take().unwrap().read_exact(&mut said).unwrap();
        let (taken, none) = read();
        assert!((100..600).contains(&taken) && none == 0, "{taken} samples, {none} lost");
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        // The kernel tells of a loss with the next record that fits.
        let (taken, lost) = read();
        assert!(taken > 0 && lost > 1000, "{taken} samples, {lost} lost");
    }

    #[test]
    fn with_everyone_comes_the_program_too() {
        let Some((child, pids)) = processes(Scope::Everyone) else { return };
        assert!(pids.iter().filter(|&&p| p == child).count() > 10, "{child}: {pids:?}");
    }

    #[test]
    fn refusals_name_the_remedy() {
        let cpu = |virtual_machine| Cpu { virtual_machine, ..Cpu::here() };
        let event = page_faults().events.remove(0);
        let pebs = Event { user_only: true, ..event };
        for (errno, step, guest, word) in [
            (libc::EPERM, Step::Map, false, "perf_event_mlock_kb"),
            (libc::ENOSYS, Step::Open, false, "CONFIG_PERF_EVENTS"),
            (libc::EBUSY, Step::Open, false, "another profiler"),
            (libc::EMFILE, Step::Open, false, "ulimit -n"),
            (libc::EOPNOTSUPP, Step::Open, true, "hypervisor"),
            (libc::EINVAL, Step::Open, false, "Invalid argument"),
            (libc::EACCES, Step::Open, false, ""),
        ] {
            let why = refused(errno, step, &pebs, &cpu(guest), Scope::Program);
            assert!(why.contains(word) && why.ends_with(OTHERWISE) && !why.contains('\n'), "{why}");
        }
    }
}
