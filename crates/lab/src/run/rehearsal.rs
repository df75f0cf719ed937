//! The rehearsal: a run without the time model that tells how much memory the program uses and which files it reads. What
//! it found is remembered in the lab's folder.

use super::layout;
use super::model::Watched;
use super::program::Start;
use super::session::Session;
use super::{Placement, Progress, Request, follow};
use crate::Error;
use crate::job::Files;
use crate::scale::Scaled;
use crate::setup::{self, Installation};
use ::model::Bytes;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// Without the model the guest's time is the host's, and looking costs nothing that is measured.
const SAMPLE_NS: u64 = 2_000_000;

/// What a rehearsal found.
#[derive(Serialize, Deserialize)]
pub struct Rehearsal {
    /// What it depends on; a hash alone may be another program's.
    key: String,
    /// The most anonymous memory that the program has resident at one moment.
    pub footprint: Bytes,
    /// Files that were opened, in order.
    pub opened: Vec<OsString>,
}

/// Makes the rehearsal, or remembers it.
pub fn of(
    request: &Request,
    installation: &Installation,
    program: &Start,
    scaled: &Scaled,
    deadline: Instant,
    progress: &mut dyn Progress,
    notes: &mut Vec<String>,
) -> Result<Rehearsal, Error> {
    let key = key(request)?;
    let identity = setup::identity([key.as_bytes()].into_iter());
    let file = request.lab.join("rehearsals").join(format!("{identity:016x}.json"));
    let remembered = std::fs::read(&file).ok().and_then(|t| serde_json::from_slice::<Rehearsal>(&t).ok());
    if let Some(rehearsal) = remembered.filter(|r| r.key == key) {
        return Ok(rehearsal);
    }
    let rehearsal = rehearse(key, request, installation, program, scaled, deadline, progress)?;
    let text = serde_json::to_vec(&rehearsal).unwrap_or_default();
    let kept = std::fs::create_dir_all(request.lab.join("rehearsals")).and_then(|()| std::fs::write(&file, text));
    if let Err(e) = kept {
        notes.push(format!(
            "the program's footprint is not remembered ({}: {e}); the next run measures it again",
            file.display()
        ));
    }
    Ok(rehearsal)
}

/// What it depends on, as far as it can be seen.
fn key(request: &Request) -> Result<String, Error> {
    let input = request.stdin.as_ref().and_then(|f| f.metadata().ok()).map(|m| m.size());
    Ok(format!("{} {input:?} {}", super::program::identity(&request.command)?, request.vcpus))
}

fn rehearse(
    key: String,
    request: &Request,
    installation: &Installation,
    program: &Start,
    scaled: &Scaled,
    deadline: Instant,
    progress: &mut dyn Progress,
) -> Result<Rehearsal, Error> {
    let layout = layout::lay_out(scaled, &Placement::AllSlow, request.memory, None);
    let session = Session::create()?;
    let job = program.job(&layout, None, SAMPLE_NS, Files::Notice);
    // The model is there, since the program may look for its window, but stays off.
    let watched = Watched::prepare(installation, &layout, &session)?;
    let machine = layout.machine(&session, false, Some(watched.model.clone()));
    let mut quiet = Quiet(progress);
    let followed =
        follow::follow(installation, &machine, &session, &job, request.stdin.as_ref(), deadline, &mut quiet)?;
    let report = followed.report;
    Ok(Rehearsal { key, footprint: Bytes(report.peak_bytes), opened: report.opened })
}

/// Swallows what the program prints: it will run again.
struct Quiet<'a>(&'a mut dyn Progress);

impl Progress for Quiet<'_> {
    fn stopped(&mut self) -> bool {
        self.0.stopped()
    }
}
