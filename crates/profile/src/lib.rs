//! The profile: what was observed of a run, as one SQLite file with a documented schema (`docs/profile.md`).
//!
//! * [`schema`] – the tables.
//! * [`Writer`] – fills a profile while the program runs; whatever was committed survives a `kill -9` of the recorder.
//! * [`open`] and [`Profile::observed`] – reads one, finished or not, and sums it up per site.
//! * [`Amend`] – puts samples that were taken elsewhere into one.
//! * [`estimate`] – from armed pages to cache misses: the pure function behind a site's misses.
//! * [`cache`] – its filter: which references find their line.
//! * `chunks` – large objects in slices.
//! * `counted` – the same from a sampler that sees misses themselves.
//! * `touches` – samples by function.
//! * `thin` – which samples are kept where there are very many.

mod amend;
mod apart;
pub mod cache;
mod chunks;
mod counted;
pub mod estimate;
mod reader;
pub mod schema;
mod summary;
mod thin;
mod touches;
mod writer;

pub use amend::{Amend, Life, ProcessLife};
pub use apart::MOST_APART;
pub use chunks::{ChunkHeat, ChunkRow};
pub use reader::{Profile, open};
pub use schema::{DHAT, LAB, MISS_INTERVAL_NS, PERF, PERF_DATA, miss_interval_ns};
pub use writer::{
    Cohort, FrameRow, Machine, MissRow, ObjectRow, ProcessRow, QuietRow, ResidencyRow, Run, SourceRow, TouchRow,
    VisitRow, Writer,
};

use std::path::PathBuf;

/// Why a profile cannot be read or written; each is one sentence that says how to mend it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such file.
    #[error("{} does not exist; `hearth record -o {} -- PROGRAM` makes a profile", .0.display(), .0.display())]
    Missing(PathBuf),
    /// It is something else.
    #[error("{} is not a Hearth profile ({what}); `hearth record` makes one", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The end of the file is missing.
    #[error("{} is cut off: it has {have} of {want} bytes; copy it again or record again", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Its length.
        have: u64,
        /// The length its header gives.
        want: u64,
    },
    /// Its content contradicts itself.
    #[error("{} is damaged ({what}); copy it again or record again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A later Hearth wrote it.
    #[error("{} was written by a newer Hearth (profile version {found}, this one reads up to {}); update Hearth or record again", path.display(), schema::VERSION)]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// A file that is not ours, or in use, would be overwritten.
    #[error("{} is not overwritten ({what}); choose another output with -o", path.display())]
    Occupied {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// Samples of another source cannot be put into it.
    #[error("{} cannot take these samples ({what}); record the run with `hearth record --sampler none`", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Writing failed.
    #[error("cannot write the profile {}: {why}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// Reading failed.
    #[error("cannot read the profile {}: {why}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
}
