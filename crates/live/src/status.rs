//! What the engine shows of itself after each interval.

use model::{Bytes, Nanos, Site};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex};

/// Where the latest status is, for whoever asks.
pub type Board = Arc<Mutex<Status>>;

/// The state of things after an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Process id of the engine.
    pub pid: u32,
    /// Intervals that have passed, and how long one is.
    pub intervals: u32,
    /// See `intervals`.
    pub interval: Nanos,
    /// Fastest first.
    pub tiers: Vec<TierStatus>,
    /// Programs, most bytes in fast memory first.
    pub programs: Vec<ProgramStatus>,
    /// Groups of programs among which the fast memory is shared; empty: it goes to what gains most.
    pub shares: Vec<ShareStatus>,
    /// The hottest objects, or pieces of large ones, first.
    pub objects: Vec<ObjectStatus>,
    /// Moved to faster and to slower tiers so far.
    pub promoted: Bytes,
    /// See `promoted`.
    pub demoted: Bytes,
    /// Of both, what was asked for nothing in the phase in which it was moved.
    pub beside: Bytes,
    /// What was moved a second, in the last interval.
    pub promoted_per_second: Bytes,
    /// See `promoted_per_second`.
    pub demoted_per_second: Bytes,
    /// Intervals after which something was to be moved.
    pub decisions: u32,
    /// The latest move.
    pub last: Option<LastMove>,
    /// What the user should know, one sentence each.
    pub notes: Vec<NoteStatus>,
}

impl Status {
    /// Leaves out whatever is of other users' programs.
    pub fn only_of(&mut self, uid: u32) {
        self.programs.retain(|p| p.uid == uid);
        let own = |pid: u32| self.programs.iter().any(|p| p.pid == pid);
        self.objects.retain(|o| own(o.pid));
        self.last.take_if(|m| !own(m.pid));
        self.shares.retain(|s| self.programs.iter().any(|p| p.group == s.group));
        self.notes.retain(|n| n.user.is_none_or(|user| user == uid));
    }
}

/// What the user should know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteStatus {
    /// Whose programs it is about; none: it is for all.
    pub user: Option<u32>,
    /// One sentence.
    pub text: String,
}

/// A tier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TierStatus {
    /// Its name.
    pub name: String,
    /// Bytes of objects in it, and most that there may be.
    pub used: Bytes,
    /// See `used`.
    pub limit: Bytes,
    /// Bytes that objects read from it and wrote back to it a second in the last interval, as far as the sampler tells.
    pub read_per_second: Bytes,
    /// See `read_per_second`.
    pub written_per_second: Bytes,
}

/// A group of programs that shares the fast memory with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// Its name: number of a user, path of a control group, file name of a command, or process id that a job began with.
    pub group: String,
    /// Bytes of the fastest tier that it can count on, and bytes of its objects there.
    pub part: Bytes,
    /// See `part`.
    pub used: Bytes,
}

/// An object, or a piece of a large one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectStatus {
    /// Its process.
    pub pid: u32,
    /// Its address.
    pub addr: u64,
    /// Where it comes from, in binary form.
    pub site: Site,
    /// Its size.
    pub bytes: Bytes,
    /// Bytes of it in each tier.
    pub resident: Vec<Bytes>,
    /// Misses that fall on it, a second, as expected from what was seen.
    pub misses_per_second: f64,
}

/// A move that was made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastMove {
    /// The process.
    pub pid: u32,
    /// Where the object comes from, in binary form.
    pub site: Site,
    /// Tiers.
    pub from: String,
    /// See `from`.
    pub to: String,
    /// Bytes that were moved.
    pub bytes: Bytes,
    /// Predicted: time gained as long as it may last, in ns; negative for what made room.
    pub gain_ns: f64,
    /// Why it was decided then.
    pub why: String,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// Process id.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Path of the executable.
    pub exe: String,
    /// What it shares the fast memory with; empty if that is not shared by groups.
    pub group: String,
    /// Records of its objects: one each, large ones in pieces.
    pub records: u64,
    /// Bytes of its objects in each tier.
    pub resident: Vec<Bytes>,
    /// Misses that fall on them, a second, as expected from what was seen.
    pub misses_per_second: f64,
}
