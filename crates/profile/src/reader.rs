//! Opens a profile and checks that it is one: whole, ours, and of a version this build knows.

use crate::writer::beside;
use crate::{Error, schema, summary};
use model::Observed;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An opened profile.
pub struct Profile {
    db: Connection,
    path: PathBuf,
}

/// What lies at a path.
pub(crate) enum Kind {
    Nothing,
    Empty,
    Profile { version: i64, bytes: u64 },
    Other(String),
}

/// Looks at the first bytes of a file, by the layout of <https://www.sqlite.org/fileformat.html>, section 1.3.
pub(crate) fn look_at(path: &Path) -> std::io::Result<Kind> {
    let file = match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Kind::Nothing),
        Err(e) => return Err(e),
        Ok(m) if m.is_dir() => return Ok(Kind::Other("a directory".into())),
        Ok(m) if !m.is_file() => return Ok(Kind::Other("something that is not a regular file".into())),
        Ok(m) if m.len() == 0 => return Ok(Kind::Empty),
        Ok(_) => std::fs::File::open(path)?,
    };
    let mut head = Vec::new();
    file.take(100).read_to_end(&mut head)?;
    let be = |at: usize, n: usize| head[at..at + n].iter().fold(0u64, |v, &b| v << 8 | u64::from(b));
    Ok(if !head.starts_with(b"SQLite format 3\0") {
        Kind::Other("a file of another kind".into())
    } else if head.len() < 100 {
        Kind::Other("an SQLite file cut off within its header".into())
    } else if be(68, 4) != schema::APPLICATION_ID as u64 {
        Kind::Other("an SQLite database of another program".into())
    } else {
        let page = match be(16, 2) {
            1 => 65536,
            n => n,
        };
        Kind::Profile { version: be(60, 4) as i64, bytes: page * be(28, 4) }
    })
}

/// Opens a profile for reading. One that the recorder did not finish is opened too.
pub fn open(path: impl AsRef<Path>) -> Result<Profile, Error> {
    let path = path.as_ref();
    let own = || path.to_owned();
    let (version, want) = match look_at(path) {
        Err(e) => return Err(Error::Read { path: own(), why: e.to_string() }),
        Ok(Kind::Nothing) => return Err(Error::Missing(own())),
        Ok(Kind::Empty) => return Err(Error::Foreign { path: own(), what: "an empty file".into() }),
        Ok(Kind::Other(what)) => return Err(Error::Foreign { path: own(), what }),
        Ok(Kind::Profile { version, bytes }) => (version, bytes),
    };
    if version > schema::VERSION {
        return Err(Error::Newer { path: own(), found: version });
    }
    // A journal beside it means that the recorder died within a commit (or is at it): SQLite will roll back, and
    // until then the length may differ.
    let unfinished = beside(path, "-journal").exists();
    let have = std::fs::metadata(path).map_err(|e| Error::Read { path: own(), why: e.to_string() })?.len();
    if have < want && !unfinished {
        return Err(Error::Truncated { path: own(), have, want });
    }
    // Rolling back writes to the file, so a left-over journal needs write permission.
    let flags = if unfinished { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
    let explain = |e| explain(path, e);
    let db = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(explain)?;
    db.busy_timeout(Duration::from_secs(5)).map_err(explain)?;
    let check: String = db.query_row("PRAGMA quick_check(1)", [], |r| r.get(0)).map_err(explain)?;
    if check != "ok" {
        let what = check.lines().next_back().unwrap_or_default().to_string();
        return Err(Error::Corrupt { path: own(), what });
    }
    Ok(Profile { db, path: own() })
}

impl Profile {
    /// The profile summed up per site, hottest first.
    pub fn observed(&self) -> Result<Observed, Error> {
        summary::observed(&self.db).map_err(|e| explain(&self.path, e))
    }
}

fn explain(path: &Path, e: rusqlite::Error) -> Error {
    let path = path.to_owned();
    // SQLite quotes what it does not understand, line breaks and all.
    let what = e.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    match e.sqlite_error_code() {
        // `Unknown` is SQLite's plain error: a table or column is not there.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown) => {
            Error::Corrupt { path, what }
        }
        Some(_) => Error::Read { path, why: what },
        // A missing row or a value of the wrong type.
        None => Error::Corrupt { path, what },
    }
}
