//! Boots the machine and waits for the agent's report; meanwhile passes on what the program prints.

use super::session::Session;
use super::{Progress, Stream};
use crate::Error;
use crate::job::{BOOTED, JOB, Job, REPORT, Report, STDERR, STDIN, STDOUT};
use crate::machine::{CONSOLE, Guest, Machine, State};
use crate::setup::{self, Installation};
use ::model::Bytes;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// The session's folder is looked at this often.
const PERIOD: Duration = Duration::from_millis(10);
/// A guest takes seconds to boot; on a busy machine many.
const BOOT: Duration = Duration::from_secs(120);

/// Less than this is a full disk.
const FULL: Bytes = Bytes::kib(256);

/// What came of following.
pub struct Followed {
    /// The agent's report.
    pub report: Report,
    /// Host time until the agent ran.
    pub boot: Duration,
}

/// Does the job on the machine.
pub fn follow(
    installation: &Installation,
    machine: &Machine,
    session: &Session,
    job: &Job,
    stdin: Option<&File>,
    deadline: Instant,
    progress: &mut dyn Progress,
) -> Result<Followed, Error> {
    let text = serde_json::to_vec(job).map_err(|e| Error(format!("the job cannot be written down: {e}")))?;
    session.write(JOB, &text)?;
    if let Some(file) = stdin {
        copy(file, session).map_err(|e| Error(format!("cannot hand the standard input over to the guest: {e}")))?;
    }
    let began = Instant::now();
    let mut guest = Guest::start(installation.qemu(), machine, &installation.kernel(), &installation.initrd())?;
    let mut boot = None;
    let mut printed = [Printed::new(STDOUT, Stream::Out), Printed::new(STDERR, Stream::Err)];
    loop {
        // The report is asked for before the machine: it is there when the machine goes off in peace.
        let state = guest.state(machine)?;
        let report = session.read(REPORT);
        for file in &mut printed {
            file.pass_on(session, progress);
        }
        if boot.is_none() && session.dir().join(BOOTED).exists() {
            boot = Some(began.elapsed());
            progress.step("running");
        }
        if let Some(text) = report {
            drop(guest);
            let report: Report =
                serde_json::from_slice(&text).map_err(|e| Error(format!("the guest's report is damaged: {e}")))?;
            return match report.failed {
                Some(why) => Err(failed(session, &why)),
                None => Ok(Followed { report, boot: boot.unwrap_or_default() }),
            };
        }
        if progress.stopped() {
            return Err(Error("interrupted".into()));
        }
        if let State::Off(why) = state {
            if let Ok((free, _)) = setup::file_system(session.dir()) {
                if free < FULL {
                    return Err(Error(format!(
                        "the guest could not go on: the disk with its folder {} is full; make room or set TMPDIR to another \
                         folder",
                        session.dir().display()
                    )));
                }
            }
            return Err(failed(session, &format!("the guest ended before its program did ({why})")));
        }
        if boot.is_none() && began.elapsed() > BOOT {
            return Err(failed(session, &format!("the guest did not boot within {} s", BOOT.as_secs())));
        }
        if Instant::now() > deadline {
            return Err(failed(session, "the run took longer than its --timeout allows"));
        }
        std::thread::sleep(PERIOD);
    }
}

/// The error, with the console log if the guest said anything.
fn failed(session: &Session, why: &str) -> Error {
    let said = session.read(CONSOLE).is_some_and(|c| !c.is_empty());
    Error(match session.keep(CONSOLE) {
        Ok(kept) if said => format!("{why}; the guest's console log is in {}", kept.display()),
        Ok(empty) => {
            // An empty log tells nothing.
            let _ = std::fs::remove_file(empty);
            why.to_string()
        }
        Err(e) => format!("{why}; the guest's console log could not be kept: {e}"),
    })
}

/// From the file's position, which stays, so that a second run reads the same.
fn copy(from: &File, session: &Session) -> io::Result<()> {
    let mut to = File::create(session.dir().join(STDIN))?;
    let mut buffer = vec![0; 1 << 16];
    let mut at = io::Seek::stream_position(&mut &*from)?;
    loop {
        let n = from.read_at(&mut buffer, at)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..n])?;
        at += n as u64;
    }
}

/// A file of the program's output, as far as it was passed on.
struct Printed {
    name: &'static str,
    stream: Stream,
    file: Option<File>,
    done: u64,
}

impl Printed {
    fn new(name: &'static str, stream: Stream) -> Printed {
        Printed { name, stream, file: None, done: 0 }
    }

    fn pass_on(&mut self, session: &Session, progress: &mut dyn Progress) {
        if self.file.is_none() {
            self.file = File::open(session.dir().join(self.name)).ok();
        }
        let Some(file) = &self.file else { return };
        let mut buffer = [0; 1 << 14];
        while let Ok(n @ 1..) = file.read_at(&mut buffer, self.done) {
            progress.output(self.stream, &buffer[..n]);
            self.done += n as u64;
        }
    }
}
