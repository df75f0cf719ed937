//! How much memory a program uses: measured by a run without the time model, and remembered in the lab's folder.

use super::layout;
use super::model::Watched;
use super::program::Start;
use super::session::Session;
use super::{Placement, Progress, Request, follow};
use crate::Error;
use crate::scale::Scaled;
use crate::setup::{self, Installation};
use ::model::Bytes;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;
use std::time::Instant;

/// Without the model the guest's time is the host's, and looking costs nothing that is measured.
const SAMPLE_NS: u64 = 2_000_000;

/// What is remembered; the key is kept too, since a hash alone may be another program's.
#[derive(Serialize, Deserialize)]
struct Remembered {
    key: String,
    bytes: Bytes,
}

/// The most anonymous memory that the program has resident at one moment.
pub fn of(
    request: &Request,
    installation: &Installation,
    program: &Start,
    scaled: &Scaled,
    deadline: Instant,
    progress: &mut dyn Progress,
    notes: &mut Vec<String>,
) -> Result<Bytes, Error> {
    let key = key(request)?;
    let identity = setup::identity([key.as_bytes()].into_iter());
    let file = request.lab.join("footprints").join(format!("{identity:016x}.json"));
    let remembered = std::fs::read(&file).ok().and_then(|t| serde_json::from_slice::<Remembered>(&t).ok());
    if let Some(r) = remembered.filter(|r| r.key == key) {
        return Ok(r.bytes);
    }
    let bytes = measure(request, installation, program, scaled, deadline, progress)?;
    let text = serde_json::to_vec(&Remembered { key, bytes }).unwrap_or_default();
    let kept = std::fs::create_dir_all(request.lab.join("footprints")).and_then(|()| std::fs::write(&file, text));
    if let Err(e) = kept {
        notes.push(format!(
            "the program's footprint is not remembered ({}: {e}); the next run measures it again",
            file.display()
        ));
    }
    Ok(bytes)
}

/// What the footprint depends on, as far as it can be seen.
fn key(request: &Request) -> Result<String, Error> {
    let input = request.stdin.as_ref().and_then(|f| f.metadata().ok()).map(|m| m.size());
    Ok(format!("{} {input:?} {}", super::program::identity(&request.command)?, request.vcpus))
}

fn measure(
    request: &Request,
    installation: &Installation,
    program: &Start,
    scaled: &Scaled,
    deadline: Instant,
    progress: &mut dyn Progress,
) -> Result<Bytes, Error> {
    let layout = layout::lay_out(scaled, &Placement::AllSlow, request.memory, None);
    let session = Session::create()?;
    let job = program.job(&layout, None, SAMPLE_NS);
    // The model is there, since the program may look for its window, but stays off.
    let watched = Watched::prepare(installation, &layout, &session)?;
    let machine = layout.machine(&session, false, Some(watched.model.clone()));
    let mut quiet = Quiet(progress);
    let followed =
        follow::follow(installation, &machine, &session, &job, request.stdin.as_ref(), deadline, &mut quiet)?;
    Ok(Bytes(followed.report.peak_bytes))
}

/// Swallows what the program prints: it will run again.
struct Quiet<'a>(&'a mut dyn Progress);

impl Progress for Quiet<'_> {
    fn stopped(&mut self) -> bool {
        self.0.stopped()
    }
}
