//! Two profiles of one program side by side, before and after a guided run: table VII of paper 000.
//!
//! For each function its sampled accesses and the mean latency of its loads, for each site its misses, where it was, and the
//! mean latency of the loads that hit it. What only one of the runs has is shown with nothing on the other side.

mod page;
mod terminal;

pub use page::diff_page;
pub use terminal::diff_table;

use crate::words;
use model::label::labels;
use model::{Bytes, Nanos, Observed, PlannedTier, SiteId, SiteUse, Touch};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Version of the JSON layout of [`Diff`]. Fields may be added under the same version.
pub const DIFF_VERSION: u32 = 1;
/// Functions with a smaller share of the accesses, in both runs, are left out of tables (as in paper 000).
const LEAST: f64 = 0.01;

/// Both profiles compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// [`DIFF_VERSION`].
    pub version: u32,
    /// The run before.
    pub before: Side,
    /// The run after.
    pub after: Side,
    /// What the reader should know before comparing, one sentence each.
    pub notes: Vec<String>,
    /// Functions, most accesses first.
    pub functions: Vec<Pair<Function>>,
    /// Sites, most misses before first.
    pub sites: Vec<Pair<SiteFigures>>,
}

/// One run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Its command.
    pub command: Vec<String>,
    /// How long it ran.
    pub duration: Nanos,
    /// How it ended.
    pub outcome: String,
    /// What made its samples.
    pub sampler: String,
    /// Misses of all sites.
    pub misses: f64,
    /// Sampled accesses.
    pub accesses: u64,
    /// Mean latency of all timed loads, in ns.
    pub latency: Option<f64>,
    /// Names of the tiers of the plan that guided it; empty if none did.
    pub tiers: Vec<String>,
}

/// What both runs say of one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair<T> {
    /// Its name for people.
    pub name: String,
    /// Beginning of a site's id; module of a function.
    pub key: String,
    /// Before, if it was there.
    pub before: Option<T>,
    /// After, if it was there.
    pub after: Option<T>,
}

/// A function in one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Function {
    /// Sampled accesses.
    pub accesses: u64,
    /// Their share of all of the run.
    pub share: f64,
    /// Misses that they stand for; 0 where the sampler does not tell.
    pub misses: f64,
    /// Mean latency of its timed loads, in ns.
    pub latency: Option<f64>,
    timed: u64,
}

/// A site in one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteFigures {
    /// Its id.
    pub id: SiteId,
    /// Most bytes alive at one moment.
    pub peak: Bytes,
    /// Its misses, estimated or counted.
    pub misses: f64,
    /// Mean latency of the timed loads that hit it, in ns.
    pub latency: Option<f64>,
    /// Share in each tier: of the plan that guided the run, else of the one that guided the other.
    pub tiers: Vec<(String, f64)>,
}

impl SiteFigures {
    /// `dram`, `dram 80.0%, cxl 20.0%`, or nothing.
    fn tier(&self) -> String {
        let there: Vec<&(String, f64)> = self.tiers.iter().filter(|(_, s)| *s > 0.0).collect();
        match there[..] {
            [(name, _)] => name.clone(),
            _ => there.iter().map(|(n, s)| format!("{n} {}", words::percent(*s))).collect::<Vec<_>>().join(", "),
        }
    }
}

impl<T> Pair<T> {
    /// After over before of a figure that both have.
    fn ratio(&self, figure: impl Fn(&T) -> Option<f64>) -> Option<f64> {
        let (before, after) = (figure(self.before.as_ref()?)?, figure(self.after.as_ref()?)?);
        (before > 0.0).then_some(after / before)
    }
}

/// Compares two profiles.
pub fn diff(before: &Observed, after: &Observed) -> Diff {
    Diff {
        version: DIFF_VERSION,
        before: side(before),
        after: side(after),
        notes: notes(before, after),
        functions: functions(before, after),
        sites: sites(before, after),
    }
}

impl Diff {
    /// Pretty-printed JSON.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self).map(|text| text + "\n")
    }

    /// Functions worth a line.
    fn shown_functions(&self) -> impl Iterator<Item = &Pair<Function>> {
        let share = |f: &Option<Function>| f.as_ref().map_or(0.0, |f| f.share);
        self.functions.iter().filter(move |p| share(&p.before).max(share(&p.after)) >= LEAST)
    }
}

fn side(o: &Observed) -> Side {
    Side {
        command: o.command.clone(),
        duration: o.duration,
        outcome: o.outcome.clone(),
        sampler: o.sampler.clone(),
        misses: o.total_misses(),
        accesses: o.touches.iter().map(|t| t.loads + t.stores).sum(),
        latency: sum(o.touches.iter()).latency,
        tiers: o.tiers.iter().map(|t| t.name.clone()).collect(),
    }
}

fn notes(before: &Observed, after: &Observed) -> Vec<String> {
    let mut notes = Vec::new();
    if before.command != after.command {
        notes.push("the two runs had different command lines, so their work may differ".to_string());
    }
    if before.sampler != after.sampler {
        notes.push(format!(
            "samples of two samplers ({} and {}) are not comparable; record both runs with the same one",
            before.sampler, after.sampler
        ));
    }
    for (name, o) in [("before", before), ("after", after)] {
        if o.touches.is_empty() {
            notes.push(format!("the profile {name} says nothing of functions: it has no samples of accesses, or an older hearth recorded it"));
        }
        notes.extend(words::losses(o).into_iter().map(|loss| format!("{name}: {loss}")));
    }
    if !before.touches.is_empty() && !after.touches.iter().chain(&before.touches).any(|t| t.latency.is_some()) {
        notes.push("these samplers do not measure latencies; in the lab --sampler lab does".to_string());
    }
    if after.tiers.is_empty() {
        notes.push("no plan guided the run after; record it with `hearth record --plan` to see tiers".to_string());
    }
    notes
}

fn sum<'a>(touches: impl Iterator<Item = &'a Touch>) -> Function {
    let mut f = Function::default();
    let mut latency = 0.0;
    for t in touches {
        f.accesses += t.loads + t.stores;
        f.misses += t.misses;
        f.timed += t.timed;
        latency += t.latency.unwrap_or(0.0) * t.timed as f64;
    }
    f.latency = (f.timed > 0).then(|| latency / f.timed as f64);
    f
}

fn functions(before: &Observed, after: &Observed) -> Vec<Pair<Function>> {
    let by_name = |o: &Observed| -> BTreeMap<(String, String), Function> {
        let all: u64 = o.touches.iter().map(|t| t.loads + t.stores).sum();
        let mut groups: BTreeMap<(String, String), Vec<&Touch>> = BTreeMap::new();
        for t in &o.touches {
            let name = if t.function.is_empty() { "code in no file".to_string() } else { t.function.clone() };
            groups.entry((name, t.module.clone())).or_default().push(t);
        }
        let summed = |touches: Vec<&Touch>| {
            let f = sum(touches.into_iter());
            Function { share: words::share(f.accesses as f64, all as f64), ..f }
        };
        groups.into_iter().map(|(key, touches)| (key, summed(touches))).collect()
    };
    let (mut old, new) = (by_name(before), by_name(after));
    let mut pairs: Vec<Pair<Function>> = Vec::new();
    for ((name, key), f) in new {
        let before = old.remove(&(name.clone(), key.clone()));
        pairs.push(Pair { name, key, before, after: Some(f) });
    }
    pairs.extend(old.into_iter().map(|((name, key), f)| Pair { name, key, before: Some(f), after: None }));
    let accesses = |p: &Pair<Function>| {
        let of = |f: &Option<Function>| f.as_ref().map_or(0.0, |f| f.share);
        of(&p.before).max(of(&p.after))
    };
    pairs.sort_by(|a, b| accesses(b).total_cmp(&accesses(a)).then_with(|| a.name.cmp(&b.name)));
    pairs
}

fn sites(before: &Observed, after: &Observed) -> Vec<Pair<SiteFigures>> {
    let figures = |tiers: &[PlannedTier], touches: &HashMap<SiteId, Vec<&Touch>>, site: &SiteUse| SiteFigures {
        id: site.site.id,
        peak: site.peak,
        misses: site.misses(),
        latency: touches.get(&site.site.id).and_then(|t| sum(t.iter().copied()).latency),
        tiers: tiers.iter().map(|t| t.name.clone()).zip(site.tier_shares(tiers)).collect(),
    };
    let (old_touches, new_touches) = (crate::html::touches(before), crate::html::touches(after));
    // A run without a plan lay on the same nodes, which are the tiers of the other one's plan.
    let [old_tiers, new_tiers] = [(before, after), (after, before)]
        .map(|(own, other)| if own.tiers.is_empty() { &other.tiers } else { &own.tiers });
    let (old_names, new_names) = (names(before), names(after));
    // The same binaries give the same ids; after a rebuild names that only one site has must do.
    let same = |site: &SiteUse| -> Option<&SiteUse> {
        let by_id = after.sites.iter().find(|s| s.site.id == site.site.id);
        by_id.or_else(|| {
            let name = &old_names[&site.site.id];
            let alike = |s: &&SiteUse| &new_names[&s.site.id] == name && !old_names.contains_key(&s.site.id);
            let mut found = after.sites.iter().filter(alike);
            found.next().filter(|_| found.next().is_none())
        })
    };
    let mut matched: Vec<SiteId> = Vec::new();
    let mut pairs: Vec<Pair<SiteFigures>> = Vec::new();
    for site in crate::table::hottest_first(before) {
        let found = same(site).filter(|s| !matched.contains(&s.site.id));
        matched.extend(found.map(|s| s.site.id));
        pairs.push(Pair {
            name: old_names[&site.site.id].clone(),
            key: crate::table::short_id(site),
            before: Some(figures(old_tiers, &old_touches, site)),
            after: found.map(|s| figures(new_tiers, &new_touches, s)),
        });
    }
    for site in crate::table::hottest_first(after).into_iter().filter(|s| !matched.contains(&s.site.id)) {
        pairs.push(Pair {
            name: new_names[&site.site.id].clone(),
            key: crate::table::short_id(site),
            before: None,
            after: Some(figures(new_tiers, &new_touches, site)),
        });
    }
    pairs
}

fn names(o: &Observed) -> HashMap<SiteId, String> {
    labels(o.sites.iter().map(|s| &s.site))
}

/// Headings and cells of both tables, the same in the terminal and on the page.
struct Rows {
    headings: [&'static str; 7],
    rows: Vec<[String; 7]>,
}

fn function_rows(diff: &Diff) -> Rows {
    let headings = ["function", "accesses", "after", "~misses", "after", "latency", "after"];
    let row = |p: &Pair<Function>| {
        let share = |f: &Option<Function>| f.as_ref().map_or("-".into(), |f| words::percent(f.share));
        let misses =
            |f: &Option<Function>| f.as_ref().filter(|f| f.misses > 0.0).map_or("-".into(), |f| words::count(f.misses));
        let latency = |f: &Option<Function>| f.as_ref().and_then(|f| f.latency).map_or("-".into(), words::latency);
        [
            p.name.clone(),
            share(&p.before),
            share(&p.after),
            misses(&p.before),
            misses(&p.after),
            latency(&p.before),
            changed(latency(&p.after), p.ratio(|f| f.latency)),
        ]
    };
    Rows { headings, rows: diff.shown_functions().map(row).collect() }
}

fn site_rows(diff: &Diff, top: usize) -> Rows {
    let headings = ["site", "~misses", "after", "latency", "after", "in", "after"];
    let row = |p: &Pair<SiteFigures>| {
        let misses = |f: &Option<SiteFigures>| f.as_ref().map_or("-".into(), |f| words::count(f.misses));
        let latency = |f: &Option<SiteFigures>| f.as_ref().and_then(|f| f.latency).map_or("-".into(), words::latency);
        let tier = |f: &Option<SiteFigures>| {
            f.as_ref().map(SiteFigures::tier).filter(|t| !t.is_empty()).unwrap_or_else(|| "-".into())
        };
        [
            format!("{}  {}", p.key, p.name),
            misses(&p.before),
            misses(&p.after),
            latency(&p.before),
            changed(latency(&p.after), p.ratio(|f| f.latency)),
            tier(&p.before),
            tier(&p.after),
        ]
    };
    Rows { headings, rows: diff.sites.iter().take(top).map(row).collect() }
}

/// `158 ns (74.0%)`: a figure, and what it is of the one before.
fn changed(figure: String, ratio: Option<f64>) -> String {
    ratio.map_or(figure.clone(), |r| format!("{figure} ({:.0}%)", r * 100.0))
}

/// The runs as a whole, one sentence each.
fn header(diff: &Diff) -> Vec<String> {
    let mut said = vec![format!(
        "ran for {} before ({}) and {} after ({}), as recorded",
        diff.before.duration, diff.before.outcome, diff.after.duration, diff.after.outcome
    )];
    let both = |b: Option<f64>, a: Option<f64>| b.zip(a).filter(|(b, _)| *b > 0.0);
    if let Some((b, a)) = both(diff.before.latency, diff.after.latency) {
        said.push(format!(
            "loads took {} on average before and {} after, {:.0}%",
            words::latency(b),
            words::latency(a),
            100.0 * a / b
        ));
    }
    if let Some((b, a)) = both(Some(diff.before.misses), Some(diff.after.misses)) {
        said.push(format!("~{} misses before and ~{} after", words::count(b), words::count(a)));
    }
    said
}
