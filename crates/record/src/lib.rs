//! Starts a program under observation and writes down what it does with memory.
//!
//! 1. [`program`] makes sure that the program can be observed at all, before anything is made or started.
//! 2. [`session`] is the private directory that recorder and runtime share.
//! 3. [`launch`] starts the program in it and follows it to its end: [`rings`] reads the events of each process,
//!    [`follow`] keeps the objects alive (in [`live`]), [`residency`] asks the kernel where their [`pages`] are.
//!    [`sampling`] makes a sampler ready. Those that lie outside of the process ([`outside`]): [`perf`] reads the processor's own samples, and in the lab's
//!    guest [`lab`] its virtual PEBS. [`misses`] says whose each of their samples is. [`touches`] counts samples by
//!    instruction, and [`code`] says in which file that lies. [`churn`] and [`chunks`] keep what is told small.
//! 4. Whoever wants to know is a [`follow::Sink`]; [`recording`] is the one that writes a profile.
//! 5. [`guide`] makes a plan ready for a guided run; [`rebuilt`] finds its frames again in a module that was rebuilt, [`translate`] its sites
//!    in a program that says in its source where it allocates, and [`innermost`] those of such a program in one that does not.
//! 6. [`import`] makes profiles of what other tools have seen.
//! 7. [`symbols`] gives frames their source form after the run; [`annotated`] reads what programs compiled with `hearth-cc` say of theirs; [`calls`] finds the calls in a
//!    module that allocate.

pub mod annotated;
pub mod bounds;
pub mod calls;
pub mod chunks;
pub mod churn;
pub mod code;
pub mod files;
pub mod follow;
mod gone_on;
pub mod guide;
pub mod import;
pub mod innermost;
pub mod lab;
pub mod landing;
pub mod launch;
pub mod leaves;
pub mod libraries;
pub mod live;
pub mod maps;
pub mod misses;
pub mod open_files;
pub mod outside;
pub mod owner;
pub mod pages;
pub mod perf;
pub mod pick_up;
pub mod program;
pub mod rebuilt;
pub mod recording;
pub mod residency;
pub mod rings;
pub mod sampling;
pub mod session;
pub mod statics;
pub mod symbols;
pub mod touches;
pub mod translate;
pub mod watch;

pub use launch::{Launch, Outcome};
pub use perf::open::Scope;
pub use recording::{Options, Progress, Recorded, record};
pub use sampling::{LAB_PERIOD, Sampler, Sampling, USUAL_LLC};
pub use watch::now_ns;

/// What went wrong, as one sentence for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);

impl From<profile::Error> for Error {
    fn from(e: profile::Error) -> Error {
        Error(e.to_string())
    }
}
