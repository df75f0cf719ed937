//! What a profile says, summed per site: the view that reports show and policies read.

use crate::chunk::Chunk;
use crate::plan::PlannedTier;
use crate::site::{Frame, Site, SiteId};
use crate::tier::Platform;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// How a site's memory is walked over, as far as the samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Pattern {
    /// No sample fell on it.
    #[default]
    Unknown,
    /// Walked in order; `stride` in bytes (negative: downwards). Bound by bandwidth.
    Stream {
        /// Bytes from one access to the next.
        stride: i64,
    },
    /// Single lines far apart. Bound by latency.
    Random,
    /// Both were seen.
    Mixed,
}

/// One site's use of memory over a whole run, all processes and threads together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteUse {
    /// The call stack.
    pub site: Site,
    /// Number of allocations.
    pub objects: u64,
    /// Largest single object.
    pub largest: Bytes,
    /// Most bytes alive at one moment.
    pub peak: Bytes,
    /// Sum of all allocations.
    pub allocated: Bytes,
    /// Most bytes resident at one reading of page residency; `None` if never read while an object was alive, or if
    /// none of it was there yet though samples say that it was accessed.
    pub resident: Option<Bytes>,
    /// First allocation, since the start of the run.
    pub first_alloc: Nanos,
    /// Last free, since the start of the run; the end of the run if objects were still alive.
    pub last_free: Nanos,
    /// Mean time from allocation to free (or end of run) of an object.
    pub mean_lifetime: Nanos,
    /// Sum over objects of lifetime: for bandwidth = misses x line / lifetime (paper 000, section VII).
    pub total_lifetime: Nanos,
    /// Estimated last-level-cache misses by loads over the run.
    pub load_misses: f64,
    /// Estimated last-level-cache misses by stores over the run.
    pub store_misses: f64,
    /// Access samples that fell on it.
    pub samples: u64,
    /// How it is walked over.
    pub pattern: Pattern,
    /// Mean latency of loads whose data came from a memory, in ns, where the sampler tells it.
    #[serde(default)]
    pub miss_latency: Option<f64>,
    /// What else is known of its lines, where the sampler tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Lines>,
    /// Its large objects in chunks, by size class and offset: those that were ever alive. Of some sites they have all misses, of
    /// others a part: what fell on objects below [`SizeClass::LEAST`](crate::SizeClass::LEAST) is in none. Empty if it has no larger ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chunks: Vec<Chunk>,
    /// Its largest objects, in the order in which they were allocated: at most a few dozen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lives: Vec<Life>,
    /// When each of its objects was allocated, since the start of the run, in order; empty if they are more than a few hundred. For the planner: not in
    /// the JSON of reports.
    #[serde(default, skip_serializing)]
    pub starts: Vec<Nanos>,
    /// Bytes by NUMA node (-1: not present) at the reading that found most of it resident; empty if never read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<(i32, Bytes)>,
    /// Bytes allocated by the tier whose heap they came from, in the order of [`Observed::tiers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placed: Vec<Bytes>,
}

/// What moved between a site's memory and the caches for each of its misses, over the run. Only the lab tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Lines {
    /// Share (0 to 1) of the misses whose line the prefetcher had asked for.
    pub ahead: f64,
    /// Lines for a miss that were read beside it: fetched ahead and not used, or by the kernel as it cleared pages.
    pub beside: f64,
    /// Lines for a miss that were written back.
    pub written: f64,
    /// Of the latency of loads whose line nobody had asked for before, the share (0 to 1) in which no load before was under way: what the program waits for.
    /// Profiles before version 11 do not tell, nor where there were no such loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<f64>,
}

impl Lines {
    /// Of two runs with so many misses.
    pub fn mean(a: Lines, misses: f64, b: Lines, more: f64) -> Lines {
        let of = |a: f64, b: f64| (a * misses + b * more) / (misses + more).max(f64::MIN_POSITIVE);
        Lines {
            ahead: of(a.ahead, b.ahead),
            beside: of(a.beside, b.beside),
            written: of(a.written, b.written),
            alone: a.alone.zip(b.alone).map(|(a, b)| of(a, b)).or(a.alone).or(b.alone),
        }
    }
}

/// When one object lived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Its allocation, since the start of the run.
    pub from: Nanos,
    /// Its free, or the end of its process.
    pub to: Nanos,
    /// Its size.
    pub size: Bytes,
}

/// A function that was sampled while it accessed a site's memory, or memory of no site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Touch {
    /// Whose memory; `None` for memory that is no recorded object.
    pub site: Option<SiteId>,
    /// Function, innermost inlined one; the module's name in brackets where there are no symbols, empty for code in no file.
    pub function: String,
    /// File name of the module.
    pub module: String,
    /// Source file of the instruction sampled most often; empty if unknown.
    pub file: String,
    /// Its line; 0 if unknown.
    pub line: u32,
    /// Samples of loads.
    pub loads: u64,
    /// Samples of stores.
    pub stores: u64,
    /// Last-level-cache misses that the samples stand for; 0 where the sampler does not tell.
    pub misses: f64,
    /// Loads whose latency was measured.
    pub timed: u64,
    /// Their mean latency, in ns; `None` where the sampler does not tell.
    pub latency: Option<f64>,
}

impl SiteUse {
    /// What was asked of it.
    pub fn asked(&self) -> Asked {
        let SiteUse { load_misses, store_misses, pattern, lines, .. } = *self;
        Asked { load_misses, store_misses, pattern, lines }
    }
    /// Loads and stores together.
    pub fn misses(&self) -> f64 {
        self.load_misses + self.store_misses
    }
    /// Share (0 to 1) of its memory in each of these tiers: of its resident pages, as the kernel said, where each tier has nodes
    /// of its own and they were read, else of its allocations by the plan that guided the run. All 0 if neither is known.
    pub fn tier_shares(&self, tiers: &[PlannedTier]) -> Vec<f64> {
        let on = |tier: &PlannedTier| -> Bytes {
            self.nodes
                .iter()
                .filter(|(n, _)| u32::try_from(*n).is_ok_and(|n| tier.nodes.contains(&n)))
                .map(|n| n.1)
                .sum()
        };
        let resident: Vec<Bytes> = tiers.iter().map(on).collect();
        let apart = tiers.iter().enumerate().all(|(i, t)| {
            !t.nodes.is_empty() && !tiers[..i].iter().flat_map(|o| &o.nodes).any(|n| t.nodes.contains(n))
        });
        let read = apart && resident.iter().any(|b| b.0 > 0);
        let bytes = if read { &resident } else { &self.placed };
        let all: Bytes = bytes.iter().copied().sum();
        let share = |i: usize| bytes.get(i).map_or(0.0, |b| b.0 as f64 / all.0.max(1) as f64);
        (0..tiers.len()).map(share).collect()
    }
    /// Misses per byte of peak size: the density of paper 000, section IV.B.
    pub fn misses_per_byte(&self) -> f64 {
        if self.peak.0 == 0 { 0.0 } else { self.misses() / self.peak.0 as f64 }
    }
}

/// One point of the run's timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimePoint {
    /// Start of the interval, since the start of the run.
    pub at: Nanos,
    /// Live bytes per site at that moment (only sites with any).
    pub live: Vec<(SiteId, Bytes)>,
    /// Estimated misses per site within the interval that begins here (only sites with any).
    pub misses: Vec<(SiteId, f64)>,
    /// Resident bytes per site, by the last reading of pages up to the end of the interval (only sites with any).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resident: Vec<(SiteId, Bytes)>,
    /// Anonymous memory of all processes, recorded objects and everything else, that was on huge pages, by the last reading of each;
    /// 0 in a profile made of several.
    #[serde(default, skip_serializing_if = "Bytes::is_zero")]
    pub huge: Bytes,
}

/// What was asked of some memory: estimates over the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Load misses.
    pub load_misses: f64,
    /// Store misses.
    pub store_misses: f64,
    /// How it is accessed.
    pub pattern: Pattern,
    /// What moved beside the misses, where the sampler tells.
    pub lines: Option<Lines>,
}

impl Asked {
    /// Loads and stores.
    pub fn misses(&self) -> f64 {
        self.load_misses + self.store_misses
    }
}

/// Anonymous memory of all processes at one moment, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// When, since the start of the run.
    pub at: Nanos,
    /// Resident.
    pub anonymous: Bytes,
    /// Of it on huge pages.
    pub huge: Bytes,
}

/// Something that was not recorded, said aloud.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// What: `ring-full`, `process-unobserved`, `stack-truncated`, `sampler-off`, `sampler-disarmed`, ...
    pub kind: String,
    /// How many events (or nanoseconds, where the kind says so).
    pub count: u64,
    /// One sentence for the user.
    pub note: String,
}

impl Loss {
    /// Most reasons that the note of one kind tells.
    const REASONS: usize = 4;

    /// More of the same kind, perhaps for another reason, which the note then tells beside the others.
    pub fn add(&mut self, count: u64, note: &str) {
        const MORE: &str = "; and for other reasons";
        self.count += count;
        if self.note.contains(note) || self.note.ends_with(MORE) {
            return;
        }
        let told = self.note.split("; ").count();
        self.note += &if told < Loss::REASONS { format!("; {note}") } else { MORE.to_string() };
    }
}

/// The beginning of a parallel region in the first thread of a process, or what is told as one: the program's mark, or an operation of MPI.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Region {
    /// Its function or name, as a site of one frame, or where the operation was called.
    pub id: SiteId,
    /// How many times one of this id began so far, from 1.
    pub number: u64,
    /// When, since the start of the run.
    pub at: Nanos,
    /// The function or name, or the call stack, innermost first; never empty.
    pub frames: Vec<Frame>,
}

/// A whole profile, summed up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// The command as it was started.
    pub command: Vec<String>,
    /// When it started, as seconds since the Unix epoch.
    pub started: u64,
    /// How long it ran.
    pub duration: Nanos,
    /// How it ended: `exit 0`, `signal 9`, or `unfinished` if the recorder was killed.
    pub outcome: String,
    /// Smallest allocation recorded.
    pub threshold: Bytes,
    /// What made the access samples: `perf`, `page-fault`, `lab`, `none`, ...
    pub sampler: String,
    /// The sampler's known error, one sentence; empty without samples.
    pub sampler_error: String,
    /// Processes observed.
    pub processes: u64,
    /// The machine it ran on.
    pub platform: Option<Platform>,
    /// Sites, hottest first.
    pub sites: Vec<SiteUse>,
    /// Share (0 to 1) of access samples that hit no recorded object.
    pub unattributed: f64,
    /// What these hit (`stack`, `heap`, `anonymous`, `data`, `file`, `unreported`, `other`) with its share (0 to 1) of all samples, most first,
    /// where the sampler sees all memory.
    #[serde(default)]
    pub elsewhere: Vec<(String, f64)>,
    /// What was asked of the memory that they hit, which no plan places; none where the sampler sees objects only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<Asked>,
    /// The run in at most a few hundred intervals.
    pub timeline: Vec<TimePoint>,
    /// Times, since the start of the run, before and after which the sampler could not see accesses, if there are such (the lab's
    /// region of interest).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<(Nanos, Nanos)>,
    /// The reading that found most anonymous memory resident.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest: Option<Memory>,
    /// Most anonymous memory of one process that was resident at once; none if no process told it at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_anonymous: Option<Bytes>,
    /// What was lost, empty if nothing.
    pub losses: Vec<Loss>,
    /// Which functions touch what, most samples first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<Touch>,
    /// Beginnings of parallel regions of one process, in order: not all of those that follow each other closely.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<Region>,
    /// What the program says that its phases use: the id of the name that a phase begins with (see [`Region::id`]), and a site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub declared: Vec<(SiteId, SiteId)>,
    /// Tiers of the plan that guided the run, fastest first; empty if none did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tiers: Vec<PlannedTier>,
}

impl Observed {
    /// Estimated misses of all sites.
    pub fn total_misses(&self) -> f64 {
        self.sites.iter().map(SiteUse::misses).sum()
    }
    /// Share (0 to 1) of a site's memory in each tier of the plan that guided the run; see [`SiteUse::tier_shares`].
    pub fn tier_shares(&self, site: &SiteUse) -> Vec<f64> {
        site.tier_shares(&self.tiers)
    }
    /// Most recorded bytes alive at one moment of the timeline.
    pub fn peak(&self) -> Bytes {
        self.timeline.iter().map(|p| p.live.iter().map(|l| l.1).sum()).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_tells_its_reasons_once_and_not_too_many_of_them() {
        let mut loss = Loss { kind: "process-unobserved".into(), count: 1, note: "a chroot".into() };
        loss.add(2, "a chroot");
        assert_eq!((loss.count, loss.note.as_str()), (3, "a chroot"));
        ["a full disk", "another user", "a static program", "a fifth", "a sixth"]
            .iter()
            .for_each(|why| loss.add(1, why));
        assert_eq!(loss.count, 8);
        assert_eq!(loss.note, "a chroot; a full disk; another user; a static program; and for other reasons");
    }
}
