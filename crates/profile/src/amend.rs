//! Puts samples of another source into a profile that has none: objects are read in the order of their lives, samples and new
//! estimates go in together, in one transaction. Whatever fails leaves the profile as it was.

use crate::chunks::{self, ChunkHeat};
use crate::reader::{Kind, look_at};
use crate::summary::{self, unsigned};
use crate::writer::{MissRow, SourceRow, put_loss, put_miss, put_source};
use crate::{Error, schema};
use model::ChunkAt;
use rusqlite::{Connection, OpenFlags};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// A process of the profile.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessLife {
    /// Its row.
    pub row: i64,
    /// Process id.
    pub pid: u32,
    /// Start of this program image, ns since the start of the run.
    pub start_ns: u64,
}

/// Something that happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// It died. Before births, so that at one moment the old object of an address goes first.
    Died,
    /// It was born with a size, at a row of the table of sites.
    Born {
        /// Bytes.
        size: u64,
        /// Row of the site.
        site: i64,
    },
}

/// A profile that samples are put into.
pub struct Amend {
    db: Connection,
    path: PathBuf,
    /// CLOCK_MONOTONIC at time 0 of the run.
    pub epoch_ns: u64,
}

impl Amend {
    /// Opens a profile that was recorded without a sampler, or into which samples of this kind were put before: those are
    /// replaced.
    pub fn open(path: &Path, sampler: &str) -> Result<Amend, Error> {
        // Says what is wrong with it, if it is not a whole profile.
        drop(crate::open(path)?);
        let unfit = |what: String| Error::Unfit { path: path.to_owned(), what };
        if let Ok(Kind::Profile { version, .. }) = look_at(path) {
            if version != schema::VERSION {
                return Err(unfit("an older Hearth wrote it, without room for them".into()));
            }
        }
        let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(|e| fail(path, e))?;
        let begin = || -> rusqlite::Result<(String, u64)> {
            db.execute_batch("BEGIN IMMEDIATE")?;
            db.query_row("SELECT sampler, epoch_ns FROM run", [], |r| Ok((r.get(0)?, unsigned(r, 1)?)))
        };
        let (has, epoch_ns) = begin().map_err(|e| fail(path, e))?;
        if has != "none" && has != sampler {
            return Err(unfit(format!("it has samples of its own, by the sampler {has}")));
        }
        Ok(Amend { db, path: path.to_owned(), epoch_ns })
    }

    /// Its processes, in the order of their starts.
    pub fn processes(&self) -> Result<Vec<ProcessLife>, Error> {
        let read = || -> rusqlite::Result<Vec<ProcessLife>> {
            let mut s = self.db.prepare("SELECT id, pid, start_ns FROM process ORDER BY start_ns, id")?;
            s.query_map([], |r| Ok(ProcessLife { row: r.get(0)?, pid: r.get(1)?, start_ns: unsigned(r, 2)? }))?
                .collect()
        };
        read().map_err(|e| fail(&self.path, e))
    }

    /// What happened to the objects of a process: time, what, address; in the order of time.
    pub fn lives(&self, process: i64) -> Result<Vec<(u64, Life, u64)>, Error> {
        let read = || -> rusqlite::Result<Vec<(u64, Life, u64)>> {
            let mut lives = Vec::new();
            let mut s = self.db.prepare("SELECT addr, size, site, alloc_ns, free_ns FROM object WHERE process = ?")?;
            let mut rows = s.query([process])?;
            while let Some(r) = rows.next()? {
                let addr = unsigned(r, 0)?;
                lives.push((unsigned(r, 3)?, Life::Born { size: unsigned(r, 1)?, site: r.get(2)? }, addr));
                if let Some(free) = r.get::<_, Option<i64>>(4)? {
                    lives.push((free as u64, Life::Died, addr));
                }
            }
            lives.sort_unstable();
            Ok(lives)
        };
        read().map_err(|e| fail(&self.path, e))
    }

    /// Objects that have no row of their own, and so no address: see [`Cohort`](crate::Cohort).
    pub fn without_rows(&self) -> Result<u64, Error> {
        let sum = self.db.query_row("SELECT ifnull(sum(objects), 0) FROM churn", [], |r| unsigned(r, 0));
        sum.map_err(|e| fail(&self.path, e))
    }

    /// Puts the samples in, in place of earlier ones, and estimates anew. `how` they were taken, and what was lost, in words.
    pub fn finish(
        self,
        sampler: &str,
        how: &str,
        misses: &[MissRow],
        sources: &[SourceRow],
        chunks: &HashMap<(i64, ChunkAt), ChunkHeat>,
        losses: &[(&str, u64, String)],
    ) -> Result<(), Error> {
        let db = &self.db;
        let work = || -> rusqlite::Result<()> {
            db.execute_batch("DELETE FROM miss; DELETE FROM source; DELETE FROM estimate; DELETE FROM heat")?;
            chunks::set_heat(db, chunks)?;
            db.execute("UPDATE run SET sampler = ?", [sampler])?;
            db.execute("INSERT OR REPLACE INTO meta VALUES ('sampling', ?)", [how])?;
            for miss in misses {
                put_miss(db, miss)?;
            }
            for source in sources {
                put_source(db, source)?;
            }
            for (kind, count, note) in losses {
                put_loss(db, None, kind, *count, note)?;
            }
            summary::store_estimates(db)?;
            db.execute_batch("COMMIT")
        };
        work().map_err(|e| fail(&self.path, e))
    }
}

fn fail(path: &Path, e: rusqlite::Error) -> Error {
    Error::Write { path: path.to_owned(), why: e.to_string() }
}
