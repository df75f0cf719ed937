//! A run: one program, one placement, one emulated machine, from the request to the outcome. Nothing is printed here.
//!
//! 1. `rehearsal` says how much memory the program uses (the caches, and perhaps the fast tier, are a share of it), and
//!    which files it reads.
//! 2. `layout` makes nodes of the scaled platform's tiers, as large as the placement needs them.
//! 3. `session` is the folder that host and guest share; `model` puts the time model's files there.
//! 4. `follow` boots the machine and waits for the agent's report.
//! 5. `results` puts the files that the program wrote where they belong.

mod follow;
mod layout;
mod model;
mod program;
mod rehearsal;
mod results;
mod session;
mod stdin;

pub use layout::{Fast, Placement};
pub use model::{Bandwidth, Counters, TierUse};
pub use program::built;
pub use program::identity as program_identity;
pub use stdin::spool;

use self::model::Watched;
use crate::Error;
use crate::job::{self, Files, Job, Reading, Report, Roi, Terminal};
use crate::scale::Scaled;
use crate::setup::Installation;
use ::model::{Bytes, Platform};
use serde::Serialize;
use session::Session;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Residency is read this often, in guest time.
const SAMPLE_NS: u64 = 20_000_000;

/// What to run, and on what.
#[derive(Debug)]
pub struct Request {
    /// The lab's folder.
    pub lab: PathBuf,
    /// The machine to be like.
    pub platform: Platform,
    /// Program and arguments.
    pub command: Vec<OsString>,
    /// What the program reads as its standard input; none: nothing.
    pub stdin: Option<File>,
    /// Where pages go.
    pub placement: Placement,
    /// How much fast memory there is.
    pub fast: Fast,
    /// Size of the slow memory; of the fast one under [`Placement::AllFast`].
    pub memory: Bytes,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Last-level cache; none: the platform's, scaled.
    pub llc: Option<Bytes>,
    /// When the time model is switched on.
    pub roi: Roi,
    /// Most host time for all of it.
    pub timeout: Duration,
    /// The runtime of runs with a launcher of Hearth's: a file that these read and others do not.
    pub runtime: Option<PathBuf>,
    /// Files that are written below this folder are brought back; none: all are dropped.
    pub keep: Option<PathBuf>,
}

/// Which of the program's outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Whoever waits for a run. The default does nothing.
pub trait Progress {
    /// What is being done now.
    fn step(&mut self, _what: &str) {}
    /// The program printed this.
    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {}
    /// The run is to be given up.
    fn stopped(&mut self) -> bool {
        false
    }
}

impl Progress for () {}

/// One tier of the emulated machine.
#[derive(Debug, Clone, Serialize)]
pub struct Tier {
    /// Name, as in the platform.
    pub name: String,
    /// NUMA node of the guest.
    pub node: u32,
    /// Idle load latency, in ns.
    pub latency_ns: f64,
    /// Read bandwidth, in GB/s, as scaled.
    pub read_gbps: f64,
    /// Write bandwidth, in GB/s, as scaled.
    pub write_gbps: f64,
}

/// How it went.
#[derive(Debug, Clone, Serialize)]
pub struct Outcome {
    /// Exit code of the program, or 128 + signal.
    pub code: u8,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Name of the platform.
    pub platform: String,
    /// Placement, as given.
    pub placement: String,
    /// Tiers, fastest first.
    pub tiers: Vec<Tier>,
    /// How the platform was scaled, as a table for people.
    pub scale: String,
    /// What the time model counted in the region of interest.
    pub counters: Counters,
    /// Guest time of the region of interest (of the whole program if none was given), in ns.
    pub guest_ns: u64,
    /// Guest time from the program's start to its end, in ns.
    pub run_ns: u64,
    /// Fast memory asked for; none: as much as the program wants.
    pub fast: Option<Bytes>,
    /// Fast memory that was free for the program when it started, read back from the guest's kernel.
    pub fast_free: Option<Bytes>,
    /// Footprint that a percentage was taken of.
    pub footprint: Option<Bytes>,
    /// Most anonymous memory resident at one moment.
    pub peak: Bytes,
    /// Anonymous memory on each node, over time since the program's start.
    pub residency: Vec<Reading>,
    /// By how much counters of the guest's kernel grew.
    pub kernel: BTreeMap<String, u64>,
    /// What was set in the guest's kernel.
    pub settings: Vec<String>,
    /// Where a guided run's objects landed, as `hearth run --json` says it; what `hearth live --json` says.
    pub landing: Option<serde_json::Value>,
    /// Files brought back to the current folder.
    pub files: u64,
    /// Files changed elsewhere, dropped.
    pub files_elsewhere: u64,
    /// Files removed in the guest, kept here.
    pub files_removed: u64,
    /// Whether the region of interest was reached; else the time is that of the whole program, without the model.
    pub reached: bool,
    /// Host time until the agent ran, in s.
    pub boot_s: f64,
    /// Host time of all of it, in s.
    pub host_s: f64,
    /// What the reader of the figures should know.
    pub notes: Vec<String>,
}

/// Runs the program.
///
/// Errors: what is asked for is not possible, or the guest failed; then the message names the kept console log.
pub fn run(request: &Request, progress: &mut dyn Progress) -> Result<Outcome, Error> {
    let began = Instant::now();
    let deadline = began + request.timeout;
    let installation = Installation::open(&request.lab)?;
    let program = program::Start::of(&request.command)?;
    let plan = match &request.placement {
        Placement::Plan(file) => Some(policy::plan_file::read(file).map_err(|e| Error(e.to_string()))?),
        _ => None,
    };
    let mut notes = Vec::new();
    // The footprint decides on the size of the caches too, which must be the same under every placement.
    let rough = Scaled::new(&request.platform, request.vcpus, None, request.llc)?;
    let unlimited = matches!(request.placement, Placement::AllFast | Placement::AllSlow);
    let told = matches!((request.fast, request.llc), (Fast::Size(_), Some(_)));
    let rehearsal = if told && !matches!(request.roi, Roi::AllocatedShare(_)) {
        None
    } else {
        progress.step("measuring how much memory the program uses");
        Some(rehearsal::of(request, &installation, &program, &rough, deadline, progress, &mut notes)?)
    };
    let footprint = rehearsal.as_ref().map(|r| r.footprint);
    let mut files = rehearsal.map_or(Vec::new(), |r| r.opened);
    let roi = match (request.roi, footprint) {
        (Roi::AllocatedShare(percent), Some(footprint)) => {
            Roi::Allocated((footprint.0 as f64 * percent / 100.0) as u64)
        }
        (roi, _) => roi,
    };
    let fast = match (request.fast, footprint) {
        _ if unlimited => None,
        (Fast::Percent(percent), Some(footprint)) => Some(Bytes((footprint.0 as f64 * percent / 100.0) as u64)),
        (Fast::Size(bytes), _) => Some(bytes),
        (Fast::Percent(_), None) => None,
    };
    let scaled = Scaled::new(&request.platform, request.vcpus, footprint, request.llc)?;
    let layout = layout::lay_out(&scaled, &request.placement, request.memory, fast);
    let session = Session::create()?;
    if job::Policy::has_launcher(&layout.policy) {
        files.extend(request.runtime.iter().map(OsString::from));
        session.write(job::PLATFORM, layout.platform_file().as_bytes())?;
    }
    if let Some(plan) = plan {
        let adapted = layout.adapt(plan)?;
        session.write(job::PLAN, policy::plan_file::to_toml(&adapted).as_bytes())?;
    }
    let mut job = program.job(&layout, Some(roi), SAMPLE_NS, Files::Read(files));
    job.keep = request.keep.clone().map(OsString::from);
    let watched = Watched::prepare(&installation, &layout, &session)?;
    let machine = layout.machine(&session, false, Some(watched.model.clone()));
    progress.step("booting the emulated machine");
    let followed = follow::follow(&installation, &machine, &session, &job, request.stdin.as_ref(), deadline, progress)?;
    let report = followed.report;
    watched.check()?;
    if let Some(folder) = &request.keep {
        results::put(&session, folder)?;
    }
    let landing = session.read(job::LANDING).and_then(|text| serde_json::from_slice(&text).ok());
    notes.extend(remarks(&report, &job));
    let counters = watched.counters(&layout);
    if request.roi == Roi::Marks && counters.model_ns == 0 {
        notes.push("the program made no mark; the time is that of the whole program, without the model".into());
    }
    let reached = counters.model_ns > 0;
    Ok(Outcome {
        code: report.code,
        signal: report.signal,
        platform: request.platform.name.clone(),
        placement: request.placement.to_string(),
        tiers: layout.tiers(),
        scale: scaled.to_string(),
        guest_ns: match request.roi {
            // Only the model saw the program's marks.
            Roi::Marks if counters.model_ns > 0 => counters.model_ns,
            _ => report.run_ns - report.roi_begin_ns.unwrap_or(0),
        },
        counters,
        run_ns: report.run_ns,
        fast,
        fast_free: report.limit_bytes.map(Bytes),
        footprint,
        peak: Bytes(report.peak_bytes),
        residency: report.residency,
        kernel: report.kernel,
        settings: report.settings,
        landing,
        files: report.files,
        files_elsewhere: report.files_elsewhere,
        files_removed: report.files_removed,
        reached,
        boot_s: followed.boot.as_secs_f64(),
        host_s: began.elapsed().as_secs_f64(),
        notes,
    })
}

/// A shell (or any other program) in the same world, on this terminal. Returns its exit code.
pub fn shell(request: &Request, terminal: Terminal, progress: &mut dyn Progress) -> Result<u8, Error> {
    let installation = Installation::open(&request.lab)?;
    let program = program::Start::of(&request.command)?;
    let scaled = Scaled::new(&request.platform, request.vcpus, None, request.llc)?;
    let layout = layout::lay_out(&scaled, &request.placement, request.memory, None);
    let session = Session::create()?;
    let mut job = program.job(&layout, None, SAMPLE_NS, Files::Read(Vec::new()));
    job.terminal = Some(terminal);
    job.keep = Some(program.folder.clone().into());
    let machine = layout.machine(&session, true, None);
    let deadline = Instant::now() + request.timeout;
    let followed = follow::follow(&installation, &machine, &session, &job, None, deadline, progress)?;
    results::put(&session, &program.folder)?;
    Ok(followed.report.code)
}

fn remarks(report: &Report, job: &Job) -> Vec<String> {
    let mut notes = Vec::new();
    if report.roi_begin_ns.is_none() && matches!(job.roi, Some(Roi::After(_) | Roi::Allocated(_))) {
        notes.push(
            "the region of interest was never reached; the time is that of the whole program, without the model".into(),
        );
    }
    if report.files_elsewhere > 0 {
        notes.push(format!("{} files written outside the current folder were dropped", report.files_elsewhere));
    }
    if report.files_removed > 0 {
        notes.push(format!("{} files removed in the guest are kept here", report.files_removed));
    }
    notes
}
