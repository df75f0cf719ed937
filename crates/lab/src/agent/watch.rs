//! Follows the program to its end: reads where its pages are, hands over what it prints, switches the time model.

use super::kernel::{self, Cgroup};
use super::opened::Opened;
use super::program::{self, Copied, now_ns};
use crate::Error;
use crate::job::{Files, Job, Reading, Report, Roi};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use wire::mark;

/// With a threshold to watch for, and before the launcher of a guided program has started it, one looks this often.
const ATTENTIVE_NS: u64 = 1_000_000;

/// Starts the program and follows it. The report says how it went; files are not yet brought back.
pub fn run(job: &Job, session: &Path, cgroup: &Cgroup) -> Result<Report, Error> {
    let mut before = kernel::counters();
    program::take_precedence();
    let mut opened = match job.files {
        Files::Notice => Some(Opened::watch()?),
        Files::Read(_) => None,
    };
    let mut program = program::start(job, cgroup)?;
    let began = program.began_ns;
    let mut report = Report { roi_begin_ns: (job.roi == Some(Roi::Start)).then_some(0), ..Report::default() };
    let mut watched = program.child.id();
    let mut start = began;
    if job.policy.has_launcher() {
        if let Some(child) = first_child(&mut program.child)? {
            watched = child;
            start = program::take_over(child, job, cgroup)?;
            // What the launcher did is not the program's.
            before = kernel::counters();
        }
    }
    let end = PidFd::open(watched);
    let mut next = start;
    loop {
        let now = now_ns() - start;
        if report.roi_begin_ns.is_none() && due(job, now, report.residency.last()) {
            mark::on();
            report.roi_begin_ns = Some(now_ns() - start);
        }
        let over = match &end {
            Some(fd) => fd.wait(wait_ns(job, &report, now, next.saturating_sub(start))),
            // It has ended before it could be looked at.
            None => true,
        };
        if over {
            break;
        }
        let now = now_ns();
        if now >= next || watching_size(job, &report) {
            next = now + job.sample_ns;
            mark::aside(|| {
                let bytes = cgroup.resident(job.nodes as usize);
                report.peak_bytes = report.peak_bytes.max(bytes.iter().sum());
                report.residency.push(Reading { at_ns: now - start, bytes });
                if let Some(opened) = &mut opened {
                    opened.read();
                }
                program.printed.iter_mut().try_for_each(Copied::copy)
            })?;
        }
    }
    report.run_ns = now_ns() - start;
    mark::off();
    let status = program.child.wait().map_err(|e| Error(format!("the guest cannot wait for the program: {e}")))?;
    cgroup.kill();
    if let Some(mut opened) = opened {
        opened.read();
        report.opened = opened.files;
    }
    report.signal = status.signal();
    report.code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0)) as u8;
    for (name, value) in kernel::counters() {
        let grown = value.saturating_sub(before.get(&name).copied().unwrap_or(0));
        if grown > 0 {
            report.kernel.insert(name, grown);
        }
    }
    for file in &mut program.printed {
        file.copy()?;
    }
    if job.policy.has_launcher() && !session.join(crate::job::LANDING).exists() && report.signal.is_none() {
        // The launcher said why on the program's standard error.
        report.failed = Some("the launcher did not come to its end in the guest; what it said stands above".into());
    }
    Ok(report)
}

/// Is it time to switch the model on?
fn due(job: &Job, now: u64, last: Option<&Reading>) -> bool {
    match job.roi {
        Some(Roi::After(ns)) => now >= ns,
        Some(Roi::Allocated(bytes)) => last.is_some_and(|r| r.bytes.iter().sum::<u64>() >= bytes),
        Some(Roi::Start | Roi::Marks | Roi::AllocatedShare(_)) | None => false,
    }
}

fn watching_size(job: &Job, report: &Report) -> bool {
    matches!(job.roi, Some(Roi::Allocated(_))) && report.roi_begin_ns.is_none()
}

/// How long one may sleep, in ns.
fn wait_ns(job: &Job, report: &Report, now: u64, next: u64) -> u64 {
    let until_sample = next.saturating_sub(now);
    match job.roi {
        Some(Roi::After(ns)) if report.roi_begin_ns.is_none() => until_sample.min(ns.saturating_sub(now)),
        _ if watching_size(job, report) => ATTENTIVE_NS,
        _ => until_sample,
    }
}

/// The process that the launcher starts; none if it ends before.
fn first_child(launcher: &mut Child) -> Result<Option<u32>, Error> {
    let file = format!("/proc/{0}/task/{0}/children", launcher.id());
    let end = PidFd::open(launcher.id());
    loop {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        if let Some(child) = text.split_whitespace().next() {
            return child.parse().map(Some).map_err(|_| Error(format!("the guest's kernel says `{text}` in {file}")));
        }
        if end.as_ref().is_none_or(|e| e.wait(ATTENTIVE_NS)) {
            return Ok(None);
        }
    }
}

/// A process to wait for that need not be a child.
struct PidFd(OwnedFd);

impl PidFd {
    /// None: there is no such process (any longer).
    fn open(pid: u32) -> Option<PidFd> {
        // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor, owned by nobody else, or -1.
        unsafe {
            let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
            (fd >= 0).then(|| PidFd(OwnedFd::from_raw_fd(fd as i32)))
        }
    }

    /// Waits at most so long; true once the process has ended.
    fn wait(&self, ns: u64) -> bool {
        let mut fd = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        // SAFETY: one valid pollfd, a valid timespec, no signal mask.
        unsafe { libc::ppoll(&mut fd, 1, &timeout, std::ptr::null()) == 1 }
    }
}
