//! Fills a profile while the program runs.
//!
//! Rows are committed whenever the caller says so, twice a second. The file is written under its final name with a rollback journal, so at
//! any moment the file (with the journal beside it, if the recorder was killed within a commit) holds everything up
//! to the last commit. Nothing is synced to the disk before the end: that protects against a power cut, not against
//! `kill -9`, and would stall the recorder.

use crate::chunks::{self, ChunkRow};
use crate::reader::{Kind, look_at};
use crate::thin::Thin;
use crate::{Error, apart, schema, summary};
use model::{Apart, Module, Nanos, PlannedTier, SiteId, SiteKind, SourceLine};
use rusqlite::{Connection, ErrorCode, params};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the end of a recording waits for somebody who reads the profile.
const PATIENCE: Duration = Duration::from_secs(60);

/// The run as it is known when it starts.
#[derive(Clone, Debug)]
pub struct Run {
    /// Program and arguments.
    pub command: Vec<String>,
    /// Working directory.
    pub cwd: String,
    /// Seconds since the Unix epoch.
    pub started: u64,
    /// Smallest allocation recorded.
    pub threshold: u64,
    /// What makes the access samples.
    pub sampler: String,
    /// Every so many misses one is sampled, where the sampler samples misses.
    pub period: Option<u64>,
    /// How the samples are taken, in words, where `sampler` alone does not tell.
    pub sampling: Option<String>,
    /// CLOCK_MONOTONIC at time 0.
    pub epoch_ns: u64,
    /// Tiers of the plan that guides the run; empty if none does.
    pub tiers: Vec<PlannedTier>,
}

/// The machine of the run.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its tiers.
    pub platform: Option<model::Platform>,
    /// CPU model name.
    pub cpu: String,
    /// Kernel release.
    pub kernel: String,
    /// Last-level cache the estimate reckons with, in bytes.
    pub llc: u64,
    /// Where that figure comes from.
    pub llc_origin: model::Origin,
}

/// A process as it appears.
#[derive(Clone, Debug)]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Path of the executable.
    pub exe: String,
    /// Start of this program image.
    pub start_ns: u64,
}

/// A frame of a site.
#[derive(Clone, Copy, Debug)]
pub struct FrameRow {
    /// Row of the module; `None` for code outside any file.
    pub module: Option<i64>,
    /// Offset in the module, or the address.
    pub offset: u64,
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRow {
    /// Process row.
    pub process: i64,
    /// Site row.
    pub site: i64,
    /// Thread that allocated it.
    pub tid: u32,
    /// Address.
    pub addr: u64,
    /// Size.
    pub size: u64,
    /// When it was allocated.
    pub alloc_ns: u64,
    /// When it was freed, if it was.
    pub free_ns: Option<u64>,
    /// Tier of the plan it was placed in.
    pub tier: u8,
    /// It replaced an object (realloc).
    pub realloc: bool,
}

/// Objects of a process, site and tier that are told together: those that died in the same interval of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cohort {
    /// First allocation, ns since the start of the run.
    pub start_ns: u64,
    /// Last free, or the end of the process.
    pub end_ns: u64,
    /// Objects.
    pub objects: u64,
    /// Sum of their sizes, bytes.
    pub bytes: u64,
    /// Size of the largest, bytes.
    pub largest: u64,
    /// Sum of size x lifetime, byte seconds.
    pub byte_seconds: f64,
    /// Sum of pages x lifetime, page seconds.
    pub page_seconds: f64,
    /// Sum of lifetimes, seconds.
    pub lifetime_seconds: f64,
    /// Most bytes of the site (of all processes, and objects with rows of their own included) alive at one moment of it.
    pub peak: u64,
}

/// Part of one reading of where pages are.
#[derive(Clone, Copy, Debug)]
pub struct ResidencyRow {
    /// Process row.
    pub process: i64,
    /// Site row.
    pub site: i64,
    /// When it was read.
    pub time_ns: u64,
    /// NUMA node; -1 for pages that are not present.
    pub node: i32,
    /// Pages looked at.
    pub pages: u64,
    /// Bytes they stand for.
    pub bytes: u64,
    /// Share of the site's pages that was looked at.
    pub share: f64,
}

/// A visit of an armed page.
#[derive(Clone, Copy, Debug)]
pub struct VisitRow {
    /// Process row.
    pub process: i64,
    /// Site row.
    pub site: i64,
    /// Object row, if the object is known.
    pub object: Option<i64>,
    /// Thread that accessed.
    pub tid: u32,
    /// When.
    pub time_ns: u64,
    /// Address of the access.
    pub addr: u64,
    /// Instruction.
    pub ip: u64,
    /// It was a store.
    pub store: bool,
    /// Time from arming to the access.
    pub wait_ns: u64,
    /// What was stepped after it.
    pub burst: Option<crate::estimate::Burst>,
}

/// An armed page that stayed untouched.
#[derive(Clone, Copy, Debug)]
pub struct QuietRow {
    /// Process row.
    pub process: i64,
    /// Site row.
    pub site: i64,
    /// Object row, if the object is known.
    pub object: Option<i64>,
    /// When it was disarmed.
    pub time_ns: u64,
    /// Address of the page.
    pub page: u64,
    /// How long it was armed.
    pub wait_ns: u64,
}

/// Misses that were sampled on one place in one interval of [`schema::MISS_INTERVAL_NS`].
#[derive(Clone, Copy, Debug)]
pub struct MissRow {
    /// Process row; `None` for processes without one.
    pub process: Option<i64>,
    /// Site row; `None` where they fell on no object.
    pub site: Option<i64>,
    /// `object`, or what of the process else: `stack`, `heap`, `anonymous`, `data`, `file`, `unreported` or `other`.
    pub place: &'static str,
    /// Start of the interval.
    pub start_ns: u64,
    /// By loads.
    pub loads: u64,
    /// By stores.
    pub stores: u64,
    /// Misses that the samples by loads stand for.
    pub load_weight: u64,
    /// Misses that the samples by stores stand for.
    pub store_weight: u64,
    /// Of both, those whose line the prefetcher had asked for.
    pub ahead: u64,
    /// Sum over loads of the time from issue to data.
    pub latency_ns: u64,
    /// The same over loads whose line nobody had asked for before, where the sampler tells also the next.
    pub lone_ns: u64,
    /// Of `lone_ns` the time in which no load before was under way. Only the lab tells.
    pub alone_ns: u64,
    /// Lines written back: not misses. Only the lab tells.
    pub written: u64,
    /// Lines that were read beside all misses: fetched ahead and not used, or by the kernel as it cleared pages. Only the lab tells.
    pub beside: u64,
}

/// Samples, misses or not, on one place whose data came from one source.
#[derive(Clone, Copy, Debug)]
pub struct SourceRow {
    /// Process row; `None` for processes without one.
    pub process: Option<i64>,
    /// Site row; `None` where they fell on no object.
    pub site: Option<i64>,
    /// `object`, or what of the process else: `stack`, `heap`, `anonymous`, `data`, `file`, `unreported` or `other`.
    pub place: &'static str,
    /// Where the data came from.
    pub source: &'static str,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Loads whose latency is known.
    pub timed: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

/// Sampled accesses, misses or not, of one instruction to one place.
#[derive(Clone, Copy, Debug)]
pub struct TouchRow {
    /// Site row; `None` where they fell on no object.
    pub site: Option<i64>,
    /// `object`, or what of the process else: `stack`, `heap`, `anonymous`, `data`, `file`, `unreported` or `other`.
    pub place: &'static str,
    /// Module row; `None` for code outside any file.
    pub module: Option<i64>,
    /// Offset in the module of the byte behind the instruction's first, so that it reads like a return address.
    pub offset: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Misses that they stand for; 0 where the sampler does not tell.
    pub misses: u64,
    /// Loads whose latency is known.
    pub timed: u64,
    /// Sum of their latencies.
    pub latency_ns: u64,
}

/// What was written of a site: processes of one program all tell the same.
#[derive(Clone, Copy)]
struct Known {
    row: i64,
    kind: SiteKind,
    framed: bool,
    truncated: bool,
}

/// A profile being written.
pub struct Writer {
    db: Connection,
    path: PathBuf,
    sites: HashMap<SiteId, Known>,
    modules: HashMap<Module, i64>,
    processes: i64,
    thin: Thin,
}

impl Writer {
    /// Creates the file. A Hearth profile of that name is replaced, anything else is left alone and refused.
    pub fn create(path: &Path, run: &Run, machine: &Machine) -> Result<Writer, Error> {
        let fail = |why: String| Error::Write { path: path.to_owned(), why };
        match look_at(path) {
            Ok(Kind::Profile { .. }) => {
                if being_written(path) {
                    return Err(Error::Occupied { path: path.to_owned(), what: "another hearth writes it now".into() });
                }
                for old in [path.to_owned(), beside(path, "-journal")] {
                    match std::fs::remove_file(&old) {
                        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(fail(e.to_string())),
                        _ => {}
                    }
                }
            }
            Ok(Kind::Nothing | Kind::Empty) => {}
            Ok(Kind::Other(what)) => {
                return Err(Error::Occupied {
                    path: path.to_owned(),
                    what: format!("it is not a Hearth profile but {what}"),
                });
            }
            Err(e) => return Err(fail(e.to_string())),
        }
        // SQLite says "unable to open database file" for everything; the system says why.
        std::fs::File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|e| fail(e.to_string()))?;
        let make = || -> rusqlite::Result<Connection> {
            let db = Connection::open(path)?;
            db.busy_timeout(Duration::ZERO)?;
            db.set_prepared_statement_cache_capacity(32);
            db.execute_batch(&format!(
                "PRAGMA journal_mode = DELETE; PRAGMA synchronous = OFF; PRAGMA cache_size = -16384;
                 BEGIN; PRAGMA application_id = {}; PRAGMA user_version = {}; {}",
                schema::APPLICATION_ID,
                schema::VERSION,
                schema::TABLES
            ))?;
            db.execute("INSERT INTO meta VALUES ('hearth', ?)", [env!("CARGO_PKG_VERSION")])?;
            if !run.tiers.is_empty() {
                let tiers = serde_json::to_string(&run.tiers).unwrap_or_default();
                db.execute("INSERT INTO meta VALUES ('tiers', ?)", [tiers])?;
            }
            if let Some(period) = run.period {
                db.execute("INSERT INTO meta VALUES ('period', ?)", [period.to_string()])?;
            }
            if let Some(sampling) = &run.sampling {
                db.execute("INSERT INTO meta VALUES ('sampling', ?)", [sampling])?;
            }
            db.execute(
                "INSERT INTO run VALUES (?, ?, ?, 0, 'unfinished', ?, ?, ?)",
                params![
                    serde_json::to_string(&run.command).unwrap_or_default(),
                    run.cwd,
                    run.started as i64,
                    run.threshold as i64,
                    run.sampler,
                    run.epoch_ns as i64
                ],
            )?;
            db.execute(
                "INSERT INTO machine VALUES (?, ?, ?, ?, ?)",
                params![
                    machine.platform.as_ref().and_then(|p| serde_json::to_string(p).ok()),
                    machine.cpu,
                    machine.kernel,
                    machine.llc as i64,
                    machine.llc_origin.to_string()
                ],
            )?;
            // Immediate: the lock tells other recorders to keep off, and lets readers in.
            db.execute_batch("COMMIT; BEGIN IMMEDIATE")?;
            Ok(db)
        };
        let db = make().map_err(|e| {
            // Nothing half-written stays behind.
            let _ = std::fs::remove_file(path);
            fail(e.to_string())
        })?;
        Ok(Writer {
            db,
            path: path.to_owned(),
            sites: HashMap::new(),
            modules: HashMap::new(),
            processes: 0,
            thin: Thin::default(),
        })
    }

    fn fail(&self, e: rusqlite::Error) -> Error {
        Error::Write { path: self.path.clone(), why: e.to_string() }
    }

    fn put(&self, sql: &str, params: impl rusqlite::Params) -> Result<(), Error> {
        self.db.prepare_cached(sql).and_then(|mut s| s.execute(params)).map_err(|e| self.fail(e))?;
        Ok(())
    }

    /// Adds a process and returns its row.
    pub fn process(&mut self, p: &ProcessRow) -> Result<i64, Error> {
        self.processes += 1;
        self.put(
            "INSERT INTO process VALUES (?, ?, ?, ?, ?, NULL, 'running')",
            params![self.processes, p.pid, p.ppid, p.exe, p.start_ns as i64],
        )?;
        Ok(self.processes)
    }

    /// Says how a process ended, or how it is doing while it runs (`end_ns` 0).
    pub fn process_status(&mut self, process: i64, end_ns: u64, status: &str) -> Result<(), Error> {
        let end = (end_ns != 0).then_some(end_ns as i64);
        self.put("UPDATE process SET end_ns = ?, status = ? WHERE id = ?", params![end, status, process])
    }

    /// Sets a counter of a process.
    pub fn counter(&mut self, process: i64, name: &str, value: u64) -> Result<(), Error> {
        self.put("INSERT OR REPLACE INTO counter VALUES (?, ?, ?)", params![process, name, value as i64])
    }

    /// The row of a module, added if new.
    pub fn module(&mut self, module: &Module) -> Result<i64, Error> {
        if let Some(&row) = self.modules.get(module) {
            return Ok(row);
        }
        let row = self.modules.len() as i64 + 1;
        self.put("INSERT INTO module VALUES (?, ?, ?)", params![row, module.path, module.build_id])?;
        self.modules.insert(module.clone(), row);
        Ok(row)
    }

    /// Modules and their rows.
    pub fn modules(&self) -> &HashMap<Module, i64> {
        &self.modules
    }

    /// The row of a site, added (without frames) if new.
    pub fn site(&mut self, site: SiteId) -> Result<i64, Error> {
        if let Some(known) = self.sites.get(&site) {
            return Ok(known.row);
        }
        let row = self.sites.len() as i64 + 1;
        let kind = SiteKind::Allocation;
        self.put("INSERT INTO site VALUES (?, ?, 0, ?, NULL, 0)", params![row, site.to_string(), kind.name()])?;
        self.sites.insert(site, Known { row, kind, framed: false, truncated: false });
        Ok(row)
    }

    /// Says what a site makes, if not allocations.
    pub fn kind(&mut self, site: SiteId, kind: SiteKind) -> Result<(), Error> {
        let row = self.site(site)?;
        if self.sites.get(&site).is_some_and(|known| known.kind == kind) {
            return Ok(());
        }
        self.put("UPDATE site SET kind = ? WHERE id = ?", params![kind.name(), row])?;
        self.sites.entry(site).and_modify(|known| known.kind = kind);
        Ok(())
    }

    /// Says which of its stack's objects a site has.
    pub fn apart(&mut self, site: SiteId, apart: Apart) -> Result<(), Error> {
        let (row, stack) = (self.site(site)?, self.site(apart.stack)?);
        self.put("UPDATE site SET stack = ?, number = ? WHERE id = ?", params![stack, apart.number, row])
    }

    /// A parallel region began for so many times; its function is a site of one frame.
    pub fn region(&mut self, region: SiteId, number: u64, start_ns: u64) -> Result<(), Error> {
        let row = self.site(region)?;
        self.put("INSERT INTO region VALUES (?, ?, ?)", params![row, number as i64, start_ns as i64])
    }

    /// The program says that a phase, a name that is a site of one frame, uses objects of a site.
    pub fn uses(&mut self, phase: SiteId, site: SiteId) -> Result<(), Error> {
        let (phase, site) = (self.site(phase)?, self.site(site)?);
        self.put("INSERT OR IGNORE INTO phase_use VALUES (?, ?)", params![phase, site])
    }

    /// Gives a site its call stack. The same site of another process says the same and changes nothing.
    pub fn frames(&mut self, site: SiteId, frames: &[FrameRow], truncated: bool) -> Result<(), Error> {
        let row = self.site(site)?;
        let Some(known) = self.sites.get(&site).copied() else { return Ok(()) };
        if truncated && !known.truncated {
            self.put("UPDATE site SET truncated = 1 WHERE id = ?", [row])?;
        }
        if !known.framed {
            // A stack has some twenty: the statement is looked up once for all of them.
            let all = self.db.prepare_cached("INSERT INTO frame VALUES (?, ?, ?, ?)").and_then(|mut put| {
                let mut rows = (0i64..).zip(frames);
                rows.try_for_each(|(at, f)| put.execute(params![row, at, f.module, f.offset as i64]).map(drop))
            });
            all.map_err(|e| self.fail(e))?;
        }
        let (framed, truncated) = (true, known.truncated || truncated);
        self.sites.insert(site, Known { framed, truncated, ..known });
        Ok(())
    }

    /// Writes an object under a number that is unique in the run.
    pub fn object(&mut self, id: i64, o: &ObjectRow) -> Result<(), Error> {
        self.put(
            "INSERT INTO object VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                id,
                o.process,
                o.site,
                o.tid,
                o.addr as i64,
                o.size as i64,
                o.alloc_ns as i64,
                o.free_ns.map(|t| t as i64),
                o.tier,
                o.realloc
            ],
        )
    }

    /// The cohorts of a process, site and tier that end at `from_ns` or later, in place of what was written of these before.
    pub fn cohorts(
        &mut self,
        process: i64,
        site: i64,
        tier: u8,
        from_ns: u64,
        cohorts: &[Cohort],
    ) -> Result<(), Error> {
        self.put(
            "DELETE FROM churn WHERE site = ? AND process = ? AND tier = ? AND end_ns >= ?",
            params![site, process, tier, from_ns as i64],
        )?;
        for c in cohorts {
            self.put(
                "INSERT INTO churn VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    process,
                    site,
                    tier,
                    c.start_ns as i64,
                    c.end_ns as i64,
                    c.objects as i64,
                    c.bytes as i64,
                    c.largest as i64,
                    c.byte_seconds,
                    c.page_seconds,
                    c.lifetime_seconds,
                    c.peak as i64
                ],
            )?;
        }
        Ok(())
    }

    /// An object that was written before has been freed.
    pub fn freed(&mut self, id: i64, free_ns: u64) -> Result<(), Error> {
        self.put("UPDATE object SET free_ns = ? WHERE id = ?", params![free_ns as i64, id])
    }

    /// Adds a part of a residency reading.
    pub fn residency(&mut self, r: &ResidencyRow) -> Result<(), Error> {
        self.put(
            "INSERT INTO residency VALUES (?, ?, ?, ?, ?, ?, ?)",
            params![r.process, r.site, r.time_ns as i64, r.node, r.pages as i64, r.bytes as i64, r.share],
        )
    }

    /// Adds a reading of a process's anonymous memory that is resident, and of the part of it that is huge pages; in bytes.
    pub fn memory(&mut self, process: i64, time_ns: u64, anonymous: u64, huge: u64) -> Result<(), Error> {
        self.put(
            "INSERT INTO memory VALUES (?, ?, ?, ?)",
            params![process, time_ns as i64, anonymous as i64, huge as i64],
        )
    }

    /// Whether a sample of this place and time is to be written; in long runs a part is, evenly chosen, so that a profile does not
    /// grow for ever. One that is to be has to be.
    pub fn keeps(&mut self, process: i64, addr: u64, time_ns: u64) -> bool {
        self.thin.keeps(process, addr, time_ns)
    }

    /// Adds a visit that is to be kept.
    pub fn visit(&mut self, v: &VisitRow) -> Result<(), Error> {
        let b = v.burst;
        self.put(
            "INSERT INTO visit VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                v.process,
                v.site,
                v.object,
                v.tid,
                v.time_ns as i64,
                v.addr as i64,
                v.ip as i64,
                v.store,
                v.wait_ns as i64,
                b.map(|b| b.accesses),
                b.map(|b| b.stores),
                b.map(|b| b.lines),
                b.map(|b| b.monotonic),
                b.map(|b| b.limited),
                b.map(|b| b.stride),
                b.map(|b| b.ns as i64)
            ],
        )
    }

    /// Adds an armed page that stayed untouched, to be kept.
    pub fn quiet(&mut self, q: &QuietRow) -> Result<(), Error> {
        self.put(
            "INSERT INTO quiet VALUES (?, ?, ?, ?, ?, ?)",
            params![q.process, q.site, q.object, q.time_ns as i64, q.page as i64, q.wait_ns as i64],
        )
    }

    /// The sampler saw accesses from one time of the run to the other, and could not see any before and after.
    pub fn watched(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        let text = format!("{from_ns} {to_ns}");
        let put = self.db.execute("INSERT OR REPLACE INTO meta VALUES ('watched', ?)", [text]);
        put.map(drop).map_err(|e| self.fail(e))
    }

    /// Adds sampled misses; those of one place and interval may come in several rows.
    pub fn miss(&mut self, m: &MissRow) -> Result<(), Error> {
        put_miss(&self.db, m).map_err(|e| self.fail(e))
    }

    /// Writes what is known of a chunk, in place of what was written before.
    pub fn chunk(&mut self, site: i64, row: &ChunkRow) -> Result<(), Error> {
        chunks::put(&self.db, site, row).map_err(|e| self.fail(e))
    }

    /// Adds samples by where their data came from.
    pub fn source(&mut self, s: &SourceRow) -> Result<(), Error> {
        put_source(&self.db, s).map_err(|e| self.fail(e))
    }

    /// Adds to the samples of an instruction on a place.
    pub fn touch(&mut self, t: &TouchRow) -> Result<(), Error> {
        self.put(
            "INSERT INTO touch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET loads = loads + excluded.loads,
             stores = stores + excluded.stores, misses = misses + excluded.misses, timed = timed + excluded.timed,
             latency_ns = latency_ns + excluded.latency_ns",
            params![
                t.site.unwrap_or(0),
                t.place,
                t.module.unwrap_or(0),
                t.offset as i64,
                t.loads as i64,
                t.stores as i64,
                t.misses as i64,
                t.timed as i64,
                t.latency_ns as i64
            ],
        )
    }

    /// Says what was lost so far, replacing what was said before. `process` is `None` for the run as a whole.
    pub fn loss(&mut self, process: Option<i64>, kind: &str, count: u64, note: &str) -> Result<(), Error> {
        put_loss(&self.db, process, kind, count, note).map_err(|e| self.fail(e))
    }

    /// The distinct code offsets of a module that frames and instructions refer to.
    pub fn offsets(&self, module: i64) -> Result<Vec<u64>, Error> {
        let read = || -> rusqlite::Result<Vec<u64>> {
            let mut s = self.db.prepare(
                "SELECT offset FROM frame WHERE module = ?1
                 AND site NOT IN (SELECT id FROM site WHERE kind = 'static')
                 UNION SELECT offset FROM touch WHERE module = ?1 ORDER BY offset",
            )?;
            s.query_map([module], |r| r.get::<_, i64>(0).map(|o| o as u64))?.collect()
        };
        read().map_err(|e| self.fail(e))
    }

    /// Gives an offset of a module its source form, innermost inlined function first.
    pub fn symbol(&mut self, module: i64, offset: u64, lines: &[SourceLine]) -> Result<(), Error> {
        for (level, line) in lines.iter().enumerate() {
            self.put(
                "INSERT OR REPLACE INTO symbol VALUES (?, ?, ?, ?, ?, ?, ?)",
                params![module, offset as i64, level as i64, line.function, line.file, line.line, line.column],
            )?;
        }
        Ok(())
    }

    /// Makes everything so far durable against the end of this process. `now` is the time of the run.
    pub fn commit(&mut self, now: Nanos) -> Result<(), Error> {
        self.put("UPDATE run SET duration_ns = ?", [now.0 as i64])?;
        self.thin.sweep(&self.db).map_err(|e| self.fail(e))?;
        // A commit that failed for want of space has ended the transaction; a new one begins all the same.
        let commit = if self.db.is_autocommit() { "" } else { "COMMIT;" };
        match self.db.execute_batch(&format!("{commit} BEGIN IMMEDIATE")) {
            // Somebody reads the profile at this moment. The rings cannot wait: the next commit takes this one along.
            Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(()),
            result => result.map_err(|e| self.fail(e)),
        }
    }

    /// The run is over: estimates the misses (or sums them up), writes how it ended, and leaves one complete file.
    pub fn finish(mut self, duration: Nanos, outcome: &str) -> Result<(), Error> {
        self.db.busy_timeout(PATIENCE).map_err(|e| self.fail(e))?;
        self.commit(duration)?;
        let work = |db: &Connection| -> rusqlite::Result<()> {
            db.execute("UPDATE run SET outcome = ?", [outcome])?;
            if self.thin.one_of() > 1 {
                db.execute("INSERT INTO meta VALUES ('samples', ?)", [format!("1/{}", self.thin.one_of())])?;
            }
            apart::settle(db)?;
            summary::store_estimates(db)?;
            db.execute_batch("COMMIT; ANALYZE")
        };
        work(&self.db).map_err(|e| self.fail(e))?;
        let sync = std::fs::File::open(&self.path).and_then(|f| f.sync_all());
        sync.map_err(|e| Error::Write { path: self.path.clone(), why: e.to_string() })
    }

    /// The program could not be started after all: leaves nothing behind.
    pub fn discard(self) {
        let Writer { db, path, .. } = self;
        drop(db);
        let _ = std::fs::remove_file(beside(&path, "-journal"));
        let _ = std::fs::remove_file(path);
    }
}

pub(crate) fn put_miss(db: &Connection, m: &MissRow) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO miss VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        m.process.unwrap_or(0),
        m.site,
        m.place,
        m.start_ns as i64,
        m.loads as i64,
        m.stores as i64,
        m.ahead as i64,
        m.latency_ns as i64,
        m.load_weight as i64,
        m.store_weight as i64,
        m.written as i64,
        m.beside as i64,
        m.lone_ns as i64,
        m.alone_ns as i64
    ])?;
    Ok(())
}

pub(crate) fn put_source(db: &Connection, s: &SourceRow) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO source VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        s.process.unwrap_or(0),
        s.site,
        s.place,
        s.source,
        s.loads as i64,
        s.stores as i64,
        s.timed as i64,
        s.latency_ns as i64
    ])?;
    Ok(())
}

pub(crate) fn put_loss(
    db: &Connection,
    process: Option<i64>,
    kind: &str,
    count: u64,
    note: &str,
) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO loss VALUES (?, ?, ?, ?)")?.execute(params![
        process.unwrap_or(0),
        kind,
        count as i64,
        note
    ])?;
    Ok(())
}

/// Whether a recorder is at work on this profile.
fn being_written(path: &Path) -> bool {
    let busy = |e: rusqlite::Error| e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy);
    let Ok(db) = Connection::open(path) else { return false };
    db.busy_timeout(Duration::ZERO).is_ok() && db.execute_batch("BEGIN IMMEDIATE; ROLLBACK").is_err_and(busy)
}

pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
