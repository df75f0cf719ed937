//! The agent: the first process of the guest, after its initrd. It is the host's own `hearth`, and does one job.
//!
//! 1. `kernel` sets the guest's kernel up for the placement.
//! 2. `warm` reads the program's files once, so that the first reading of them is not part of the run.
//! 3. `ballast` takes the memory that the fast tier must not have.
//! 4. `program` starts the program, under its user's name and in a memory cgroup of its own.
//! 5. `watch` follows it to its end: where its pages are, what it prints, when the time model is switched.
//!    In a rehearsal `opened` notices which files it reads.
//! 6. `files` brings back what it wrote.

mod ballast;
mod files;
mod kernel;
mod opened;
mod program;
mod warm;
mod watch;

use crate::Error;
use crate::job::{BOOTED, JOB, Job, REPORT, Report, SESSION};
use std::path::Path;
use wire::mark;

/// Does the job in [`SESSION`] and switches the machine off. Returns only if this is not the first process of a guest.
pub fn run() -> Error {
    let session = Path::new(SESSION);
    if std::process::id() != 1 || !session.join(JOB).is_file() {
        return Error("lab-agent works in the lab's guest only; on this machine use `hearth lab run`".into());
    }
    // Whatever goes wrong here is seen by the host as a report that never comes.
    if let Err(e) = std::fs::File::create(session.join(BOOTED)) {
        eprintln!("hearth-lab: cannot write into the session's folder: {e}");
    }
    let report = work(session).unwrap_or_else(|e| Report { failed: Some(e.0), ..Report::default() });
    mark::off();
    if let Err(e) = write_report(session, &report) {
        eprintln!("hearth-lab: cannot write the report: {e}");
    }
    // SAFETY: the first process of an emulated machine whose work is done.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    Error(format!("cannot switch the guest off: {}", std::io::Error::last_os_error()))
}

fn work(session: &Path) -> Result<Report, Error> {
    let text = std::fs::read(session.join(JOB)).map_err(|e| Error(format!("the guest cannot read its job: {e}")))?;
    let job: Job = serde_json::from_slice(&text).map_err(|e| Error(format!("the guest cannot read its job: {e}")))?;
    if !Path::new(&job.folder).is_dir() {
        return Err(Error(format!(
            "the guest has no folder {} (it sees the host's file systems except /dev, /proc and /sys); go to another one",
            Path::new(&job.folder).display()
        )));
    }
    let settings = kernel::prepare(&job)?;
    let cgroup = kernel::Cgroup::create()?;
    if job.terminal.is_none() {
        warm::files(&job);
    }
    let ballast = match job.limit {
        Some((node, bytes)) => Some(ballast::Ballast::fill(node, bytes)?),
        None => None,
    };
    let limit_bytes = ballast.as_ref().map(|b| b.left);
    let mut report = watch::run(&job, session, &cgroup)?;
    report.settings = settings;
    report.limit_bytes = limit_bytes;
    drop(ballast);
    if let Some(folder) = &job.keep {
        files::bring_back(Path::new(folder), session, &mut report)?;
    }
    Ok(report)
}

/// Written beside and renamed, so that the host never reads half of it.
fn write_report(session: &Path, report: &Report) -> std::io::Result<()> {
    let draft = session.join("report.new");
    std::fs::write(&draft, serde_json::to_vec(report)?)?;
    std::fs::rename(draft, session.join(REPORT))
}
