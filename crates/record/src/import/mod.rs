//! What other tools have seen, as profiles: [`perf_data`] puts the samples of a `perf.data` file into the profile of the same
//! run, [`dhat`] makes a profile of what valgrind's DHAT counted.

pub mod dhat;
pub mod perf_data;

use std::path::Path;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `perf record` wrote it.
    PerfData,
    /// DHAT wrote it.
    Dhat,
}

/// Reads a file and tells what it is by its beginning. An error is one sentence.
pub fn read(path: &Path) -> Result<(Kind, Vec<u8>), crate::Error> {
    let fail = |why: String| crate::Error(format!("cannot import {}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| fail(e.to_string()))?;
    let start = bytes.trim_ascii_start();
    if bytes.starts_with(perf_data::MAGIC) {
        Ok((Kind::PerfData, bytes))
    } else if start.starts_with(b"{") && start[..start.len().min(200)].windows(15).any(|w| w == b"dhatFileVersion") {
        Ok((Kind::Dhat, bytes))
    } else {
        Err(fail("it is neither a perf.data file nor one of valgrind's DHAT".into()))
    }
}
