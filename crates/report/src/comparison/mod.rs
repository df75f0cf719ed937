//! Placements of one program side by side: what is said of them, the same in the terminal, on the page and in pictures.
//!
//! A figure is given only where there is one: a run that failed shows how it ended, a run that is not there says so, and
//! where `all-fast` gives no time to measure by, times are given as they are.

mod accuracy;
mod lines;
mod page;
mod terminal;

pub(crate) use accuracy::{accuracy, section as accuracy_section};
pub use lines::comparison_svg;
pub use page::comparison_page;
pub use terminal::comparison;

use crate::words;
use model::Nanos;
use model::comparison::{Comparison, PlacementRun};
use std::fmt;

/// What every time is measured by.
pub(crate) const BASE: &str = "all-fast";
/// Placements at the ends, which no capacity changes; expected in every comparison.
const ENDS: [&str; 2] = [BASE, "all-slow"];

/// What a reader should know of every figure.
const ABOUT: [&str; 3] = [
    "Guest time is simulated: the lab's model of processors, caches and memories adds it up while the program runs on the emulated machine. It is not time of the machine that the lab ran on.",
    "The model leaves things out; docs/lab.md lists what is modelled, how well each mechanism meets its calibration, how far two runs of the same program differ, and what is not modelled.",
    "Memory resident fast and migrated bytes were read from the guest's kernel; lines served fast were counted by the model.",
];

/// What a reader should know of the figures of these.
pub(crate) fn about(all: &[Comparison]) -> Vec<String> {
    ABOUT.iter().map(ToString::to_string).chain(repeated(all)).collect()
}

/// What was run more than once.
fn repeated(all: &[Comparison]) -> Option<String> {
    let run = all.iter().flat_map(|c| &c.runs).find(|r| !r.times.is_empty())?;
    let (who, times) = (&run.placement, run.times.len());
    Some(format!("What {who} moves, and when, is chance: it was run {times} times, and the run in the middle counts."))
}

/// The time of a run, as far as there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Figure {
    /// Times that of `all-fast`.
    Relative(f64),
    /// As it is, because `all-fast` did not succeed.
    Time(Nanos),
    /// The program ended with this code.
    Failed(u8),
    /// There is no such run.
    NotRun,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Relative(r) => write!(f, "{r:.2}x"),
            Figure::Time(t) => write!(f, "{t}"),
            Figure::Failed(code) => write!(f, "exit {code}"),
            Figure::NotRun => write!(f, "not run"),
        }
    }
}

impl Figure {
    /// The ratio, if it is one.
    pub(crate) fn relative(self) -> Option<f64> {
        match self {
            Figure::Relative(r) => Some(r),
            _ => None,
        }
    }
}

/// The figure of a run of `c`.
pub(crate) fn figure(c: &Comparison, run: Option<&PlacementRun>) -> Figure {
    match run {
        None => Figure::NotRun,
        Some(run) if run.code != 0 => Figure::Failed(run.code),
        Some(run) => base(c).and_then(|_| c.relative(run)).map_or(Figure::Time(run.time), Figure::Relative),
    }
}

/// Shortest and longest time of a run that was made more than once, as [`figure`] has them.
fn spread(c: &Comparison, run: &PlacementRun) -> Option<(Figure, Figure)> {
    let at = |time: &Nanos| figure(c, Some(&PlacementRun { time: *time, ..run.clone() }));
    Some((at(run.times.first()?), at(run.times.last()?)))
}

/// The run that every time is measured by, if it succeeded.
pub(crate) fn base(c: &Comparison) -> Option<&PlacementRun> {
    c.whole(BASE).filter(|r| r.code == 0 && r.time.0 > 0)
}

/// Runs that no capacity changes.
fn wholes(c: &Comparison) -> impl Iterator<Item = &PlacementRun> {
    c.runs.iter().filter(|r| r.fast_percent.is_none())
}

/// The figure of the fastest placement at this capacity, as it is shown: what looks as fast is marked as well.
pub(crate) fn fastest(c: &Comparison, percent: f64) -> Option<String> {
    let runs = c.placements().into_iter().filter_map(|p| c.at(p, percent)).filter(|r| r.code == 0);
    runs.min_by_key(|r| r.time).map(|r| figure(c, Some(r)).to_string())
}

/// `12.5%`.
pub(crate) fn capacity(percent: f64) -> String {
    format!("{}%", (percent * 100.0).round() / 100.0)
}

/// `kernel at 25%`.
fn name(run: &PlacementRun) -> String {
    match run.fast_percent {
        Some(percent) => format!("{} at {}", run.placement, capacity(percent)),
        None => run.placement.clone(),
    }
}

/// The emulated machine: `cascade-lake-optane (dram, nvm), 2 vCPUs`.
fn machine(c: &Comparison) -> String {
    format!("{} ({}), {}", c.platform, c.tiers.join(", "), words::plural(c.vcpus.into(), "vCPU"))
}

/// What was run where, and the two ends, a sentence each.
fn header(c: &Comparison) -> Vec<String> {
    let mut ends: Vec<String> = Vec::new();
    for end in ENDS.into_iter().filter(|e| c.whole(e).is_none()) {
        ends.push(format!("{end} not run"));
    }
    for run in wholes(c) {
        ends.push(match figure(c, Some(run)) {
            Figure::Relative(r) if run.placement != BASE => format!("{} {r:.2}x ({})", run.placement, run.time),
            Figure::Failed(code) => format!("{} failed (exit {code})", run.placement),
            _ => format!("{} {}", run.placement, run.time),
        });
    }
    let mut said = vec![
        format!("as on {}; footprint {}", machine(c), c.footprint),
        format!("simulated guest time: {}", ends.join(", ")),
    ];
    if base(c).is_none() {
        said.push(format!(
            "without a successful {BASE} run there is nothing to measure by, so times are given as they are"
        ));
    }
    said
}

/// `3.02x`, as the planner's cost model predicted it.
fn predicted(run: &PlacementRun) -> Option<String> {
    run.predicted.map(|ratio| format!("{ratio:.2}x"))
}

/// Every note once, with the runs that carry it.
pub(crate) fn notes(c: &Comparison) -> Vec<(String, String)> {
    let mut told: Vec<(String, String)> = Vec::new();
    for note in c.runs.iter().flat_map(|r| &r.notes) {
        if !told.iter().any(|(_, n)| n == note) {
            told.push((carriers(c, note), note.clone()));
        }
    }
    told
}

/// The runs with this note: `all runs`, or `kernel, plan at 12.5% and 25%`.
fn carriers(c: &Comparison, note: &String) -> String {
    if c.runs.len() > 1 && c.runs.iter().all(|r| r.notes.contains(note)) {
        return "all runs".to_string();
    }
    let mut all: Vec<String> = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for run in &c.runs {
        if seen.contains(&run.placement.as_str()) {
            continue;
        }
        seen.push(&run.placement);
        let of: Vec<&PlacementRun> = c.runs.iter().filter(|r| r.placement == run.placement).collect();
        let with: Vec<&PlacementRun> = of.iter().filter(|r| r.notes.contains(note)).copied().collect();
        let at: Vec<String> = with.iter().filter_map(|r| r.fast_percent).map(capacity).collect();
        if with.len() == of.len() {
            all.push(run.placement.clone());
        } else if !with.is_empty() {
            all.push(format!("{} at {}", run.placement, at.join(" and ")));
        }
    }
    all.join(", ")
}
