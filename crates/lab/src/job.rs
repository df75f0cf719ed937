//! What host and guest say to each other: the host writes a [`Job`] into the session's folder before it starts the
//! machine, the agent in the guest writes a [`Report`] into it when it is done. Both are JSON.

use model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::str::FromStr;

/// Where the session's folder lies in the guest.
pub const SESSION: &str = "/run/hearth-lab";
/// The [`Job`].
pub const JOB: &str = "job.json";
/// The [`Report`]; made whole by a rename, after everything else is written.
pub const REPORT: &str = "report.json";
/// A link to the host's own `hearth`, which is the agent.
pub const AGENT: &str = "hearth";
/// An empty file that the agent makes first of all.
pub const BOOTED: &str = "booted";
/// Mount point, in the guest, of what was written over the host's files.
pub const UPPER: &str = "upper";
/// What the program reads as its standard input; absent: nothing.
pub const STDIN: &str = "stdin";
/// What the program wrote; grows while it runs.
pub const STDOUT: &str = "stdout";
/// What the program wrote to standard error; grows while it runs.
pub const STDERR: &str = "stderr";
/// The plan that guides the program, for [`Policy::Plan`].
pub const PLAN: &str = "plan.toml";
/// The emulated machine as a platform file, for [`Policy::Live`].
pub const PLATFORM: &str = "platform.toml";
/// Where the objects of a guided run landed, or what `hearth live` has done.
pub const LANDING: &str = "landing.json";
/// Files that the program made or changed below the folder that the job names.
pub const RESULTS: &str = "results";

/// What is to be done in the guest.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    /// Path of the program.
    pub program: OsString,
    /// Its name and arguments, as it sees them.
    pub command: Vec<OsString>,
    /// Environment, nothing else.
    pub environment: Vec<(OsString, OsString)>,
    /// Current folder.
    pub folder: OsString,
    /// Whose program it is.
    pub user: User,
    /// `Some`: a terminal of this size for the program, and no measuring.
    pub terminal: Option<Terminal>,
    /// Where its pages go.
    pub policy: Policy,
    /// NUMA nodes of the guest.
    pub nodes: u32,
    /// Free memory that the node may have when the program starts, as (node, bytes); the rest is occupied. None: all of it.
    pub limit: Option<(u32, u64)>,
    /// The kernel gives huge pages unasked; else to those that ask (madvise).
    pub huge_pages: bool,
    /// When the time model is switched on; none: never.
    pub roi: Option<Roi>,
    /// Files that are written below this folder are brought back; none: all are dropped.
    pub keep: Option<OsString>,
    /// Residency is read this often, in ns of guest time.
    pub sample_ns: u64,
    /// Which files are in the guest's memory before the program starts.
    pub files: Files,
    /// The node whose memory holds them.
    pub files_node: u32,
}

/// Files of the host that the program reads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Files {
    /// A rehearsal: the program and its libraries, as the loader lists them; the report names whatever else is opened.
    Notice,
    /// Those that a rehearsal named; without one, what the loader lists.
    Read(Vec<OsString>),
}

/// Under whose name, and with which habits, a program runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
    /// File mode creation mask.
    pub umask: u32,
    /// Resource limits: which (RLIMIT_*), soft, hard.
    pub limits: Vec<(u32, u64, u64)>,
}

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Terminal {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// How the guest's kernel places the program's pages.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// All pages on this node (`MPOL_BIND`).
    Bind(u32),
    /// The kernel's default: the node of the CPU that touches a page first.
    FirstTouch,
    /// Pages in turn on all nodes (`MPOL_INTERLEAVE`).
    Interleave,
    /// Pages in turn on all nodes, this many on each (`MPOL_WEIGHTED_INTERLEAVE`).
    WeightedInterleave(Vec<u8>),
    /// First touch; NUMA balancing promotes and kswapd demotes.
    Kernel,
    /// Guided by Hearth's plan in [`PLAN`].
    Plan,
    /// First touch, and `hearth live` with these options moves objects.
    Live(Vec<String>),
}

impl Policy {
    /// A launcher of Hearth's starts the program.
    pub fn has_launcher(&self) -> bool {
        matches!(self, Policy::Plan | Policy::Live(_))
    }
}

/// The region of interest: when the time model is switched on. It is switched off when the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Roi {
    /// Before the program's first instruction.
    Start,
    /// After so many ns of guest time.
    After(u64),
    /// When so many bytes of the program are resident.
    Allocated(u64),
    /// When so many percent of the footprint are resident. The host makes it a number of bytes.
    AllocatedShare(f64),
    /// When the program says so, by the magic instruction of [`crate::mark`].
    Marks,
}

impl FromStr for Roi {
    type Err = String;
    /// `start`, `after=TIME`, `allocated=SIZE`, `allocated=PERCENT` or `marks`.
    fn from_str(text: &str) -> Result<Roi, String> {
        match text.split_once('=') {
            None if text == "start" => Ok(Roi::Start),
            None if text == "marks" => Ok(Roi::Marks),
            Some(("after", time)) => time.parse().map(|t: Nanos| Roi::After(t.0)),
            Some(("allocated", share)) if share.ends_with('%') => match share.trim_end_matches('%').trim().parse() {
                Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Roi::AllocatedShare(percent)),
                _ => Err(format!("`{share}` is no share of the footprint; write for example allocated=85%")),
            },
            Some(("allocated", size)) => size.parse().map(|s: Bytes| Roi::Allocated(s.0)),
            _ => Err(format!(
                "`{text}` is no region of interest; write start, after=TIME, allocated=SIZE|PERCENT or marks"
            )),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Why it could not be done, as one sentence. Nothing else is said then.
    pub failed: Option<String>,
    /// Exit code of the program, or 128 + signal.
    pub code: u8,
    /// Signal that ended the program.
    pub signal: Option<i32>,
    /// Guest time from the program's start to its end, in ns.
    pub run_ns: u64,
    /// Guest time from the program's start to that of the region of interest, if there was one, in ns.
    pub roi_begin_ns: Option<u64>,
    /// Most bytes (anonymous and shared memory) resident at one moment, as sampled.
    pub peak_bytes: u64,
    /// Bytes resident on each node, over time.
    pub residency: Vec<Reading>,
    /// By how much the kernel's counters grew from the program's start to its end (/proc/vmstat).
    pub kernel: BTreeMap<String, u64>,
    /// What the limited node had free for the program when it started.
    pub limit_bytes: Option<u64>,
    /// What was set in the kernel for the policy, as `file=value`.
    pub settings: Vec<String>,
    /// Files of the host that were opened, in order, if the job asked to notice them.
    pub opened: Vec<OsString>,
    /// Files brought back to [`RESULTS`].
    pub files: u64,
    /// Files changed elsewhere, which are not brought back.
    pub files_elsewhere: u64,
    /// Files removed, which the host keeps.
    pub files_removed: u64,
}

/// Where the program's pages were at one moment.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    /// Guest time since the program's start, in ns.
    pub at_ns: u64,
    /// Bytes of anonymous and shared memory on each node.
    pub bytes: Vec<u64>,
}
