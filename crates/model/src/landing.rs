//! Where the objects of a guided run really landed: planned against real, per site, as read from the kernel.

use crate::site::SiteId;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A guided run, summed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Landing {
    /// How the program ended: `exit 0`, `signal 9`.
    pub outcome: String,
    /// Tiers, fastest first.
    pub tiers: Vec<TierLanding>,
    /// Planned sites that allocated, in plan order.
    pub sites: Vec<SiteLanding>,
    /// Planned sites that never allocated in this run.
    pub unmatched: Vec<Unmatched>,
    /// Planned sites that cannot be told from a hotter one in this build: what that one's target is, is theirs. They are in neither list above.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ambiguous: Vec<Unmatched>,
    /// What phases moved; none if the plan has no phases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Moved>,
    /// Sites that allocated but that the plan does not name; they went to the default tier.
    pub unlisted: Unlisted,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
}

/// A tier of a guided run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TierLanding {
    /// Name.
    pub name: String,
    /// Most bytes that may be resident in it, of one process.
    pub budget: Option<Bytes>,
    /// Objects planned for it that went elsewhere because it was full.
    pub fell_back: u64,
    /// The same in bytes.
    pub fell_back_bytes: Bytes,
}

/// A planned site that allocated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteLanding {
    /// Site.
    pub id: SiteId,
    /// One line for people.
    pub label: String,
    /// Tier it was planned for.
    pub planned: String,
    /// Most bytes alive at one moment.
    pub peak: Bytes,
    /// Bytes allocated by the tier whose heap they came from, in the order of [`Landing::tiers`].
    pub placed: Vec<Bytes>,
    /// Bytes by NUMA node (-1: not present) at the reading that found most resident, as told by the kernel; empty if
    /// no reading met a living object of the site.
    pub resident: Vec<(i32, Bytes)>,
    /// Share (0 to 1) of the resident bytes on nodes of the planned tier; `None` if never read, or if the tier has no
    /// nodes of its own, or if a phase moves it: then [`Landing::moved`] tells.
    pub on_planned: Option<f64>,
}

/// What the phases of a plan moved in a guided run, of all processes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Moved {
    /// Objects, each as often as it was moved.
    pub objects: u64,
    /// Their bytes.
    pub bytes: Bytes,
    /// Share (0 to 1) of the pages that the kernel was asked for right after they were moved (at most 64 of an object) which were on
    /// nodes of their tier; `None` if none was moved.
    pub there: Option<f64>,
    /// Bytes of these that moved while no phase that uses them was under way, and the program did something else meanwhile.
    pub beside: Bytes,
    /// Time that moving took.
    pub took: Nanos,
    /// Of it what passed as for `beside`.
    pub took_beside: Nanos,
    /// Time that the program's own threads spent on it: a process with one processor moves itself. Where a thread stops at a page that is just being moved, nobody
    /// counts.
    pub waited: Nanos,
}

impl Moved {
    /// Share (0 to 1) of the bytes that moved beside the program's work on something else; none if nothing moved.
    pub fn overlapped(&self) -> Option<f64> {
        (self.bytes.0 > 0).then(|| self.beside.0 as f64 / self.bytes.0 as f64)
    }
}

/// A planned site that never allocated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unmatched {
    /// Site.
    pub id: SiteId,
    /// One line for people.
    pub label: String,
    /// Why, as far as it is known.
    pub why: String,
    /// Expected share of misses, 0 to 1.
    pub miss_share: f64,
}

/// Sites that the plan does not name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Unlisted {
    /// How many.
    pub sites: u64,
    /// Their objects.
    pub objects: u64,
    /// Most bytes alive at one moment, summed over the sites (an upper bound).
    pub peak: Bytes,
}
