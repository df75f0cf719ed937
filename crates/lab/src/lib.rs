//! The lab: an emulated machine with two kinds of memory, in which any program of this machine runs unmodified and takes
//! the time that its memory would take. The road: [`setup`] gets QEMU, a kernel and the plugin; [`scale`] makes a
//! platform small enough for two virtual CPUs; [`machine`] boots it; [`agent`] runs the program inside; [`mod@run`] brings
//! the results back, and [`mod@compare`] does so for many placements. What host and guest say to each other is in [`job`].

pub mod agent;
pub mod compare;
pub mod job;
pub mod machine;
pub mod run;
pub mod scale;
pub mod setup;

/// What went wrong, as one sentence for the user: what, where, how to mend it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
