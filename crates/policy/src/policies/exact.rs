//! `exact`: the placement with the least predicted time, by a mixed-integer program, with a proof of how far it may be off.
//!
//! For every site *s* and tier *k* a binary `x(s,k)`, exactly one of a site's being 1; for every interval *i* a time `T(i)`:
//!
//! ```text
//! least  sum of T(i)
//! S(i) >= C(i) + sum over s, k of (l(k) * waits(s,i) + r(k) * queued(s,i)) * x(s,k)        latency
//! A(i) >= sum over s, k of  l(k) * ahead(s,i) * x(s,k)                                     latency of what is fetched ahead
//! B(i,k) >= busy(k, lines read and written by the sites in k)      for each k           bandwidth: three linear functions
//! T(i) >= S(i), A(i) and all B(i,k) together                                            eleven tangents of each overlap
//! sum over the sites s alive at m of  bytes(s,m) * x(s,k) <= budget(k)   for each k and moment m
//! the same sum for k = 0, and the rest's share of it <= what it has    for each moment m
//! ```
//!
//! That is the cost model ([`crate::cost`]) with one difference: the latency `l(k)` is a number and does not depend on how busy
//! the tier is. Solved once with idle latencies, the solver's lower bound is a lower bound of the model's time for every placement,
//! since load only makes latencies longer: this is what the *gap* is proven against. Solved again with the latencies under the load
//! of the best placement so far, it finds better ones. What any other policy decides is a candidate too; the one with the least
//! time by the whole model is taken. So this is never predicted to be slower than another policy.
//!
//! Intervals are taken together where there are many, which keeps the bound valid (sums taken together are at most the sum of what is
//! largest). The solver is HiGHS (Huangfu and Hall, Parallelizing the dual revised simplex method, Mathematical Programming
//! Computation 10, 2018), and stops after [`LIMIT`] altogether.
//!
//! Sites may be split between two tiers, which uses both buses at once, and gives an object that is larger than the fast memory
//! what there is of it: then their `x` need not be whole. Where a profile tells which chunks of a large object are hot ([`crate::cost::heat`]) there
//! is an `x` for each piece of it, so that the hottest go first. As a split site is harder to read and reason about, whole sites are decided first,
//! and split ones taken if they save more than half a percent of the time in which memory is asked for something. Room that is left then goes to whatever is
//! missed, as far as that makes nothing worse. Splits are in 64ths, of which the faster tier gets those that fit.
//!
//! Where the run has segments ([`crate::cost::segments`]), the sites that can be moved have an `x(s,k,g)` for each segment *g* in a
//! further program, with what moving costs ([`crate::cost::migration`]) in the objective, and capacities that hold in each segment as if
//! all of the run's moments were in it. What fills the fast tier best in each segment ([`crate::fills`]) is a candidate too. A placement that moves is taken if it saves more than
//! two percent, or another policy would be predicted to be faster.

use super::density::cold;
use crate::cost::demand::Interval;
use crate::cost::heat::{Heat, Piece};
use crate::cost::step::{self, Load, Part};
use crate::cost::{Shares, landing, migration, rest, segments};
use crate::fills;
use crate::schedule::{self, Place, Step, alive, can_move, can_move_parts};
use crate::{Decision, Error, Policy, Task};
use highs::{HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};
use model::{Bytes, Parts, SiteKind};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Most time for one plan.
pub const LIMIT: Duration = Duration::from_secs(10);
/// Good enough: the gap at which the solver stops.
const GAP: f64 = 1e-4;
/// Most entries of the program's matrix from intervals, and fewest and most groups of intervals.
const ENTRIES: usize = 60_000;
const GROUPS: std::ops::RangeInclusive<usize> = 4..=64;

/// Sites that room which is left is offered to: each takes a prediction.
const FILLED: usize = 64;

/// Most entries from capacities of a program in which sites move.
const MOVING_ENTRIES: usize = 400_000;

/// The mixed-integer program.
pub struct Exact;

impl Policy for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }
    fn summary(&self) -> &'static str {
        "the least predicted time there is, with a proof of how far off it may be"
    }
    fn source(&self) -> &'static str {
        "a mixed-integer program over the cost model (docs/planner.md), solved by HiGHS"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        Ok(solve(task, LIMIT)?.decision)
    }
}

/// The best placement and what is known of it.
pub struct Solved {
    /// The placement.
    pub decision: Decision,
    /// Its predicted time, in ns.
    pub time: f64,
    /// No placement is predicted to take less than this, in ns.
    pub bound: f64,
}

/// Solves a task within a time.
///
/// # Errors
/// Those of the other policies, which are candidates.
pub fn solve(task: &Task<'_>, limit: Duration) -> Result<Solved, Error> {
    let began = Instant::now();
    let moves = task.segments().len() > 1;
    let (whole, limit) = (limit, if moves { limit.mul_f64(0.6) } else { limit });
    let mut best = Best::of(task, vec![task.slowest(); task.sites()], "everything slow");
    let mut moving: Option<Best> = None;
    // `unimem` is one of two others.
    for policy in super::ALL.iter().filter(|p| !["exact", "unimem"].contains(&p.name())) {
        let decision = policy.place(task)?;
        best.or(Best::of(task, decision.tiers(), policy.name()));
        if !decision.steps.is_empty() {
            Best::keep(&mut moving, Best::moving(task, &decision.tiers(), decision.steps, policy.name()));
        }
    }
    let program = Program::of(task, false);
    let left = |share: f64| limit.mul_f64(share).saturating_sub(began.elapsed()).as_secs_f64().max(0.1);
    let late = |share: f64| began.elapsed() >= limit.mul_f64(share);
    let idle = vec![0.0; task.tiers.len() * program.groups.len()];
    let mut bound = program.solve(&idle, Whole::None, left(0.25)).bound.max(program.least());
    let splits = program.sites.iter().any(|&s| can_be_split(task, s));
    let first = program.solve(&idle, Whole::All, left(if splits { 0.5 } else { 0.6 }));
    if !splits {
        bound = bound.max(first.bound);
    }
    let mut worthwhile = first.shares.is_some_and(|s| best.or(Best::whole(task, &s)));
    // Again with the latencies as they are under the load of the best so far.
    for _ in 0..2 {
        if !worthwhile || late(if splits { 0.55 } else { 0.8 }) {
            break;
        }
        let again = program.solve(
            &program.loads(std::slice::from_ref(&best.shares)),
            Whole::All,
            left(if splits { 0.6 } else { 1.0 }),
        );
        worthwhile = again.shares.is_some_and(|s| best.or(Best::whole(task, &s)));
    }
    // And what splitting gains, if it may gain something.
    let worth = best.time - WORTH * asked(task, best.time);
    if splits && bound < worth {
        let mut loads = idle;
        for round in 0..3 {
            let answer = program.solve(&loads, Whole::Some, left(if round == 0 { 0.8 } else { 1.0 }));
            if round == 0 {
                bound = bound.max(answer.bound);
            }
            let found = Best::split(&program, &answer).filter(|b| b.time < worth);
            if !found.is_some_and(|b| best.or(b)) || late(0.9) {
                break;
            }
            loads = program.loads(std::slice::from_ref(&best.shares));
        }
    }
    if moves {
        let left = || whole.saturating_sub(began.elapsed()).as_secs_f64().max(0.1);
        let of = |places: &[Vec<Place>]| {
            let first: Vec<usize> = places[0].iter().map(|p| p.tier).collect();
            Best::moving(task, &first, schedule::steps(task.segments(), places), "exact")
        };
        let fixed: Vec<usize> =
            best.placed.iter().map(|w| if w.split.is_some() { task.slowest() } else { w.tier }).collect();
        let rival = moving.as_ref().map_or(f64::INFINITY, |m| m.time);
        if let Some(places) = fills::best(task, &fixed) {
            Best::keep(&mut moving, of(&places));
        }
        // Of very many sites the fills have to do: the program would be larger than what can be solved in the time.
        let entries = program.sites.len() * task.segments().len() * task.lives().moments.len();
        if entries > MOVING_ENTRIES {
            bound = bound.min(program.least());
        } else {
            let program = Program::of(task, true);
            let mut loads = vec![0.0; task.tiers.len() * program.groups.len()];
            for round in 0..2 {
                let answer = program.solve(&loads, Whole::Some, if round == 0 { left() / 2.0 } else { left() });
                if round == 0 {
                    bound = bound.min(answer.bound.max(program.least()));
                }
                let Some(found) = answer.by_segment.map(|all| {
                    let places: Vec<Vec<Place>> = all.iter().map(|shares| places_of(task, shares)).collect();
                    of(&places)
                }) else {
                    break;
                };
                if !Best::keep(&mut moving, found) {
                    break;
                }
                let kept = moving.as_ref().expect("just kept");
                loads = program.loads(&schedule::by_segment(task, &kept.shares, &kept.steps));
            }
        }
        // No other policy is to be predicted to be faster than this one.
        let worth = |m: &Best| m.time < best.time * (1.0 - MOVING_WORTH) || rival < best.time;
        if let Some(found) = moving.filter(worth) {
            best = found;
        }
    }
    let best = filled(task, best, || began.elapsed() >= whole);
    let bound = bound.min(best.time);
    Ok(solved(task, best, bound))
}

/// The same placement with what room it leaves in the fastest tier taken by sites that are missed, whole or in part, the densest first, as long as that
/// makes nothing worse, and there is time: by the model it is worth little, and the model may err.
fn filled(task: &Task<'_>, mut best: Best, late: impl Fn() -> bool) -> Best {
    let Some(Bytes(budget)) = task.tiers[0].budget.filter(|_| best.steps.is_empty()) else { return best };
    let fits = |shares: &Shares| task.lives().peak_in(0, shares) <= budget;
    // Of one that over-fills the tier nobody knows what room it leaves.
    if best.placed.iter().all(|w| w.split.is_none()) && !fits(&Shares::whole(&best.tiers(), task.tiers.len())) {
        return best;
    }
    let mut sites = task.candidates();
    sites.retain(|&s| best.placed[s].split.is_none() && best.placed[s].tier > 0);
    task.by_density(&mut sites, 0);
    for site in sites.into_iter().take(FILLED).take_while(|_| !late()) {
        let room = budget.saturating_sub(task.lives().peak_in(0, &best.shares));
        let parts = (u128::from(room) * u128::from(Parts::OF) / u128::from(task.size(site).0)).min(Parts::OF.into());
        let rest = best.placed[site].tier;
        let here = match Parts::spread(parts as u32) {
            _ if parts == 0 => continue,
            None => Where { tier: 0, split: None },
            Some(parts) if can_be_split(task, site) => Where { tier: 0, split: Some((parts, rest)) },
            Some(_) => continue,
        };
        let mut shares = best.shares.clone();
        match here.split {
            Some((parts, rest)) => task.split(&mut shares, site, 0, parts, rest),
            None => shares.split(site, &Place::whole(0).shares(task.tiers.len())),
        }
        rest::lands(task, &mut shares);
        let time = task.model().predict(&shares).time;
        if time <= best.time && fits(&shares) {
            best = Best { shares, time, ..best };
            best.placed[site] = here;
        }
    }
    best
}

/// The place of each site that the solver has found, of those that can be moved in part in 64ths.
fn places_of(task: &Task<'_>, shares: &Shares) -> Vec<Place> {
    let place = |site: usize| {
        let (tier, rest) = two_largest(shares.of(site));
        match whole_parts(shares.of(site)[tier]) {
            parts if parts == Parts::OF => Place::whole(tier),
            0 => Place::whole(rest),
            parts if can_move_parts(task, site) => Place { tier, parts, rest },
            _ => Place::whole(tiers_of(task, shares)[site]),
        }
    };
    (0..task.sites()).map(place).collect()
}

/// The two tiers that have most of these shares, the faster one first.
fn two_largest(shares: &[f64]) -> (usize, usize) {
    let mut largest: Vec<usize> = (0..shares.len()).collect();
    largest.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]));
    (largest[0].min(largest[1]), largest[0].max(largest[1]))
}

/// So many 64ths that they fit where there is room for this share.
fn whole_parts(share: f64) -> u32 {
    let of = f64::from(Parts::OF);
    (share * of + 1e-6).floor().clamp(0.0, of) as u32
}

/// The tier of each site that the solver has found whole.
fn tiers_of(task: &Task<'_>, shares: &Shares) -> Vec<usize> {
    let tier = |i: usize| (0..task.slowest()).find(|&k| shares.of(i)[k] > 0.5).unwrap_or(task.slowest());
    (0..task.sites()).map(tier).collect()
}

/// The best placement so far.
struct Best {
    placed: Vec<Where>,
    shares: Shares,
    /// What moves later, and how much.
    steps: Vec<Step>,
    moved: Bytes,
    time: f64,
    /// Who found it.
    by: String,
}

impl Best {
    /// The tier of each site; of a split one the one that its parts are named of.
    fn tiers(&self) -> Vec<usize> {
        self.placed.iter().map(|w| w.tier).collect()
    }

    /// Whole sites in these tiers, with what does not fit where it lands.
    fn of(task: &Task<'_>, at: Vec<usize>, by: &str) -> Best {
        let shares = landing::shares(task, &at);
        let time = task.model().predict(&shares).time;
        let placed = at.into_iter().map(|tier| Where { tier, split: None }).collect();
        Best { placed, shares, steps: Vec::new(), moved: Bytes(0), time, by: by.to_string() }
    }

    /// Whole sites that begin in these tiers and move.
    fn moving(task: &Task<'_>, at: &[usize], steps: Vec<Step>, by: &str) -> Best {
        let first = Best::of(task, at.to_vec(), by);
        let (prediction, moved) = schedule::predict(task, &first.shares, &steps);
        Best { steps, moved, time: prediction.time, ..first }
    }

    /// Keeps another one if it is faster, and tells so.
    fn keep(kept: &mut Option<Best>, other: Best) -> bool {
        let better = kept.as_ref().is_none_or(|k| other.time < k.time);
        if better {
            *kept = Some(other);
        }
        better
    }

    /// What the solver found with whole sites.
    fn whole(task: &Task<'_>, shares: &Shares) -> Best {
        Best::of(task, tiers_of(task, shares), "exact")
    }

    /// What the solver found with some sites split, in 64ths. `None` if it does not fit then.
    fn split(program: &Program<'_>, answer: &Answer) -> Option<Best> {
        let task = program.task;
        let (placed, shares) = rounded(program, answer)?;
        let time = task.model().predict(&shares).time;
        Some(Best { placed, shares, steps: Vec::new(), moved: Bytes(0), time, by: "exact".to_string() })
    }

    /// Takes another one if it is faster, and tells so.
    fn or(&mut self, other: Best) -> bool {
        let better = other.time < self.time;
        if better {
            *self = other;
        }
        better
    }
}

fn solved(task: &Task<'_>, best: Best, bound: f64) -> Solved {
    let mut placements = cold(task);
    for (i, here) in best.placed.iter().enumerate() {
        let site = &task.observed.sites[i];
        (placements[i].tier, placements[i].split) = (here.tier, here.split);
        if site.misses() > 0.0 {
            let name = |k: usize| &task.tiers[k].tier.name;
            placements[i].value = site.misses_per_byte();
            placements[i].why = match here.split {
                Some((parts, rest)) => {
                    let both = format!("in {} and {} with the others there", name(here.tier), name(rest));
                    match task.heat(i).map(|heat| heat.share(parts) * 100.0) {
                        Some(hot) => {
                            format!("{both}, {hot:.0} % of its misses in {}: the least predicted time", name(here.tier))
                        }
                        None => format!("{both}: the least predicted time"),
                    }
                }
                None if here.tier == task.slowest() => "others save more time in the room it would take".to_string(),
                None => format!("in {} with the others there: the least predicted time", name(here.tier)),
            };
        }
    }
    let percent = if best.time > 0.0 { (best.time - bound) / best.time * 100.0 } else { 0.0 };
    let mut notes =
        vec![format!("At most {percent:.2} % above the least time that any placement is predicted to take.")];
    if best.by != "exact" {
        notes.push(format!("The placement is that of {}; the solver found no better one.", best.by));
    }
    match best.placed.iter().filter(|w| w.split.is_some()).count() {
        0 => {}
        1 => notes.push("One site is split between tiers.".to_string()),
        n => notes.push(format!("{n} sites are split between tiers.")),
    }
    if !best.steps.is_empty() {
        let moved_sites: HashSet<usize> = best.steps.iter().flat_map(|s| &s.moves).map(|(site, _)| *site).collect();
        let moves = match moved_sites.len() {
            1 => "1 site".to_string(),
            n => format!("{n} sites"),
        };
        let (phases, moved) = (best.steps.len(), best.moved);
        notes.push(match &task.segments().repeat {
            Some(r) => format!(
                "The run comes round {} times; {phases} of its phases move {moves} when they begin, {moved} in all.",
                r.times(r.body.start)
            ),
            None => format!("Phases begin {phases} times while it runs, and move {moves} then, {moved} in all."),
        });
    }
    if let Some((regions, intervals)) = segments::coarse(task.observed) {
        let phases = match intervals {
            1 => "the run is one phase".to_string(),
            n => format!("at most {n} phases are told apart"),
        };
        notes.push(format!(
            "The profile has {regions} beginnings of parallel regions and a timeline of {intervals}, so {phases}; a longer recording tells more."
        ));
    }
    Solved { decision: Decision { placements, steps: best.steps, notes }, time: best.time, bound }
}

/// Intervals taken together.
struct Group {
    compute: f64,
    /// The segment that they are of.
    segment: usize,
    /// The most load that is felt in one of them.
    felt: f64,
    /// What sites ask for: of each site one entry, its misses and what is asked for beside them.
    uses: Vec<(usize, [Load; 2])>,
}

/// The program without its latencies.
struct Program<'a> {
    task: &'a Task<'a>,
    /// Sites that are decided, and their numbers among them.
    sites: Vec<usize>,
    groups: Vec<Group>,
    /// Which interval went into which group.
    group_of: Vec<usize>,
    /// Segments in which sites that can be moved may be elsewhere: 1 if none is to be moved.
    segments: usize,
    /// Pieces of those that can be split and are not equally hot everywhere, by their number in the task.
    pieces: HashMap<usize, Vec<Piece>>,
    scale: f64,
}

/// What of a program is decided in whole numbers.
#[derive(Clone, Copy, PartialEq)]
enum Whole {
    /// Every site.
    All,
    /// Those that cannot be split.
    Some,
    /// None: a bound.
    None,
}

/// What the solver says.
struct Answer {
    /// The share of every site in each tier, if it found any placement: in the first segment, and in each.
    shares: Option<Shares>,
    by_segment: Option<Vec<Shares>>,
    /// Of sites that are not equally hot everywhere the share of each piece in each tier.
    pieces: HashMap<usize, Vec<Vec<f64>>>,
    /// Lower bound of the time, in ns.
    bound: f64,
}

impl Answer {
    fn none() -> Answer {
        Answer { shares: None, by_segment: None, pieces: HashMap::new(), bound: 0.0 }
    }
}

/// The variables of a site: for each tier but the slowest one, and each piece of the site, its share there.
#[derive(Clone)]
struct Columns {
    columns: Vec<Vec<highs::Col>>,
    /// Of each piece the share of the site's misses, and of its bytes.
    weights: Vec<(f64, f64)>,
}

impl Columns {
    fn of(tiers: usize, weights: Vec<(f64, f64)>, mut column: impl FnMut((f64, f64)) -> highs::Col) -> Columns {
        Columns { columns: (0..tiers).map(|_| weights.iter().map(|w| column(*w)).collect()).collect(), weights }
    }

    /// The one of a site that is in one piece.
    fn at(&self, tier: usize) -> highs::Col {
        self.columns[tier][0]
    }

    /// The share of the misses in a tier, so many times.
    fn misses(&self, tier: usize, times: f64) -> impl Iterator<Item = (highs::Col, f64)> {
        self.both(tier, [times, 0.0])
    }

    /// The share of the bytes.
    fn bytes(&self, tier: usize, times: f64) -> impl Iterator<Item = (highs::Col, f64)> {
        self.both(tier, [0.0, times])
    }

    /// The sum of the one and the other.
    fn both(&self, tier: usize, times: [f64; 2]) -> impl Iterator<Item = (highs::Col, f64)> {
        let of = move |weight: &(f64, f64)| weight.0 * times[0] + weight.1 * times[1];
        self.columns[tier].iter().zip(&self.weights).map(move |(&c, weight)| (c, of(weight)))
    }
}

/// What a split is worth at least, of the time in which memory is [`asked`] for something: else a simpler plan is better.
const WORTH: f64 = 0.005;
/// And what moving is worth at least: predictions of it have more to go by, and err more.
const MOVING_WORTH: f64 = 0.02;
/// Smaller objects than [`Parts::FROM`] go to the tiers by turns, so it takes some of them.
const MANY: u64 = 64;

/// What is left of a time without the intervals in which nothing is asked of memory, or nobody saw it: no placement changes these, and however
/// long a program sets up what it works on, what it works for is as long.
fn asked(task: &Task<'_>, time: f64) -> f64 {
    let idle = task.model().demand.intervals.iter().filter(|i| i.uses.is_empty()).map(|i| i.length);
    (time - idle.sum::<f64>()).max(0.0)
}

/// Whether a site can be split between two tiers: its objects are large, or many, and no tier is of files.
fn can_be_split(task: &Task<'_>, site: usize) -> bool {
    let s = &task.observed.sites[site];
    let objects = s.site.kind != SiteKind::Mapping && (s.largest >= Parts::FROM || s.objects >= MANY);
    objects && task.tiers.iter().all(|t| t.tier.dir.is_none())
}

/// The placement of these shares: in 64ths, of two tiers at most. `None` if it does not fit then.
fn rounded(program: &Program<'_>, answer: &Answer) -> Option<(Vec<Where>, Shares)> {
    let (task, shares) = (program.task, answer.shares.as_ref()?);
    let mut out = Shares::all_in(task.slowest(), task.sites(), task.tiers.len());
    let mut placed = Vec::with_capacity(task.sites());
    for site in 0..task.sites() {
        let (tier, rest) = two_largest(shares.bytes_of(site));
        let count = whole_parts(shares.bytes_of(site)[tier]);
        let parts = match answer.pieces.get(&site) {
            Some(by_tier) => Heat::parts(program.pieces(site), &by_tier[tier]),
            None => Parts::spread(count),
        };
        let here = match parts {
            Some(parts) => Where { tier, split: Some((parts, rest)) },
            None => Where { tier: if count == 0 { rest } else { tier }, split: None },
        };
        match here.split {
            Some((parts, rest)) => task.split(&mut out, site, tier, parts, rest),
            None => {
                let whole: Vec<f64> = (0..task.tiers.len()).map(|k| f64::from(u8::from(k == here.tier))).collect();
                out.split(site, &whole);
            }
        }
        placed.push(here);
    }
    rest::lands(task, &mut out);
    let fits = |k: usize| task.tiers[k].budget.is_none_or(|b| task.lives().peak_in(k, &out) <= b.0);
    (0..task.tiers.len()).all(fits).then_some((placed, out))
}

/// Where a site goes.
#[derive(Clone, Copy)]
struct Where {
    tier: usize,
    split: Option<(Parts, usize)>,
}

impl<'a> Program<'a> {
    /// The program of a task; `moves`: sites may be elsewhere in each segment of the run.
    fn of(task: &'a Task<'a>, moves: bool) -> Program<'a> {
        let model = task.model();
        let mut sites = task.candidates();
        // With a limited slowest tier what is cold needs a place too.
        if task.tiers[task.slowest()].budget.is_some() {
            sites = (0..task.sites()).filter(|&i| task.size(i).0 > 0).collect();
        }
        let most = (ENTRIES / sites.len().max(1)).clamp(*GROUPS.start(), *GROUPS.end());
        let whole = || (0..model.demand.intervals.len()).collect();
        let parts: Vec<Vec<usize>> =
            if moves { task.segments().iter().map(|s| s.intervals.clone()).collect() } else { vec![whole()] };
        let (mut group_of, mut segment_of) = (vec![0; model.demand.intervals.len()], Vec::new());
        for (segment, part) in parts.iter().enumerate() {
            let first = segment_of.len();
            let intervals: Vec<&Interval> = part.iter().map(|&i| &model.demand.intervals[i]).collect();
            let groups = grouped(&intervals, (most / parts.len()).max(1));
            segment_of.resize(first + groups.iter().max().map_or(0, |g| g + 1), segment);
            part.iter().zip(groups).for_each(|(&i, g)| group_of[i] = first + g);
        }
        let mut groups: Vec<(f64, f64, HashMap<usize, [Load; 2]>)> = vec![Default::default(); segment_of.len()];
        for (interval, &g) in model.demand.intervals.iter().zip(&group_of) {
            groups[g].0 += interval.compute;
            groups[g].1 = interval.felt.max(groups[g].1);
            for u in &interval.uses {
                let [misses, beside] = groups[g].2.entry(u.site).or_default();
                misses.add(u, interval.overlap, Part::MISSES);
                beside.add(u, interval.overlap, Part::BESIDE);
            }
        }
        let groups = groups
            .into_iter()
            .zip(segment_of)
            .map(|((compute, felt, uses), segment)| {
                let mut uses: Vec<(usize, [Load; 2])> = uses.into_iter().collect();
                uses.sort_by_key(|u| u.0);
                Group { compute, segment, felt, uses }
            })
            .collect();
        let scale = model.all_in(task.slowest()).max(1.0) / 1000.0;
        let split = sites.iter().filter(|&&s| can_be_split(task, s));
        let pieces = split.filter_map(|&s| Some((s, task.heat(s)?.pieces()))).collect();
        Program { task, sites, groups, group_of, segments: parts.len(), pieces, scale }
    }

    fn pieces(&self, site: usize) -> &[Piece] {
        self.pieces.get(&site).map_or(&[], Vec::as_slice)
    }

    /// What holds even if all of it were in the tier with the least latency, and no bus ever full: a bound where the solver had no
    /// time for a better one.
    fn least(&self) -> f64 {
        let latency = self.task.model().memories.iter().map(|m| m.latency(0.0)).fold(f64::INFINITY, f64::min);
        let waits = |g: &Group| g.uses.iter().map(|(_, [misses, _])| misses.waits).sum::<f64>();
        self.groups.iter().map(|g| g.compute + waits(g) * latency).sum()
    }

    /// How busy each tier is in each group with this placement in each segment, 0 to 1.
    fn loads(&self, by_segment: &[Shares]) -> Vec<f64> {
        let model = self.task.model();
        let of = |group: usize| &by_segment[self.groups[group].segment];
        let times = model.predict_each(|interval| of(self.group_of[interval])).intervals;
        let mut length = vec![0.0; self.groups.len()];
        for (&g, time) in self.group_of.iter().zip(times) {
            length[g] += time;
        }
        let mut out = Vec::new();
        for (g, (group, length)) in self.groups.iter().zip(length).enumerate() {
            let shares = of(g);
            for (k, memory) in model.memories.iter().enumerate() {
                let (mut reads, mut writes) = (0.0, 0.0);
                for (site, [misses, beside]) in &group.uses {
                    let (of_misses, of_bytes) = (shares.of(*site)[k], shares.bytes_of(*site)[k]);
                    reads += misses.reads * of_misses + beside.reads * of_bytes;
                    writes += misses.writes * of_misses + beside.writes * of_bytes;
                }
                out.push(if length > 0.0 { (group.felt * memory.busy(reads, writes) / length).min(1.0) } else { 0.0 });
            }
        }
        out
    }

    /// Solves with the latencies at these loads (by group and tier), whole sites or shares of them.
    fn solve(&self, loads: &[f64], whole: Whole, seconds: f64) -> Answer {
        let (task, model) = (self.task, self.task.model());
        let (tiers, last) = (task.tiers.len(), task.slowest());
        let mut p = RowProblem::default();
        // The slowest tier has what the others leave, so it needs no variable.
        let mut first: Vec<Columns> = self
            .sites
            .iter()
            .map(|&site| {
                // What is split from the beginning is not moved: in a program with segments no site begins so.
                let some = whole == Whole::Some && self.segments == 1;
                let parts = can_be_split(task, site) && whole != Whole::All && self.segments == 1;
                let split = whole == Whole::None || some && can_be_split(task, site);
                let pieces = if parts { self.pieces(site) } else { &[] };
                let weights: Vec<(f64, f64)> = match pieces {
                    [] => vec![(1.0, 1.0)],
                    pieces => pieces.iter().map(|piece| (piece.misses, piece.bytes)).collect(),
                };
                // What takes no room is left to the slowest.
                Columns::of(last, weights, |weights| match () {
                    () if weights == (0.0, 0.0) => p.add_column(0.0, 0.0..=0.0),
                    () if split => p.add_column(0.0, 0.0..=1.0),
                    () => p.add_integer_column(0.0, 0..=1),
                })
            })
            .collect();
        let mut number: HashMap<usize, usize> = self.sites.iter().enumerate().map(|(n, &s)| (s, n)).collect();
        // The rest has as much of the fastest tier as is left, or all it wants; or nothing of it, where the kernel gives other memory.
        let room = rest::room(task).filter(|(size, _)| size.0 > 0);
        let home = task.home();
        let least = if home == 0 && room.is_some() { 0.0 } else { 1.0 };
        let bounds = |tier: usize| if tier == home { least..=1.0 } else { 0.0..=0.0 };
        number.insert(task.sites(), first.len());
        let rest = |p: &mut RowProblem| {
            let mut tiers = 0..last;
            Columns::of(last, vec![(1.0, 1.0)], |_| p.add_column(0.0, bounds(tiers.next().expect("one for each"))))
        };
        first.push(rest(&mut p));
        // What cannot be moved has the same columns in each segment.
        let mut x = vec![first];
        for segment in 1..self.segments {
            let mut next = x[segment - 1].clone();
            next[self.sites.len()] = rest(&mut p);
            for (n, &site) in self.sites.iter().enumerate().filter(|(_, s)| can_move(task, **s)) {
                let part = whole == Whole::Some && can_move_parts(task, site);
                next[n] = Columns::of(last, vec![(1.0, 1.0)], |_| {
                    if part { p.add_column(0.0, 0.0..=1.0) } else { p.add_integer_column(0.0, 0..=1) }
                });
            }
            x.push(next);
        }
        let passages = if self.segments > 1 { task.segments().passages().collect() } else { Vec::new() };
        for (before, segment, times) in passages {
            for (n, &site) in self.sites.iter().enumerate().filter(|(_, s)| can_move(task, **s)) {
                let bytes = alive(task, site, segment);
                // Whatever it comes from, it costs at least as much as from where that is cheapest.
                for to in 0..tiers {
                    let from = (0..tiers).filter(|&k| k != to).map(|k| &model.memories[k]);
                    let cost = from
                        .map(|from| migration::take(bytes, from, &model.memories[to]))
                        .fold(f64::INFINITY, f64::min);
                    let comes = p.add_column(cost * times / self.scale, 0.0..=1.0);
                    let change = |k: usize, sign: f64| [(x[segment][n].at(k), -sign), (x[before][n].at(k), sign)];
                    let row = if to < last {
                        change(to, 1.0).to_vec()
                    } else {
                        (0..last).flat_map(|k| change(k, -1.0)).collect()
                    };
                    p.add_row(0.0.., row.into_iter().chain([(comes, 1.0)]));
                }
            }
        }
        if last > 1 {
            for site in x.iter().flatten() {
                for piece in 0..site.weights.len() {
                    p.add_row(..=1.0, site.columns.iter().map(|c| (c[piece], 1.0)));
                }
            }
        }
        for (g, group) in self.groups.iter().enumerate() {
            let x = &x[group.segment];
            // Computing and waiting, and one by one what it takes together with fetching ahead and each bus; all of them are the time.
            let serial = p.add_column(0.0, 0.0..);
            let ahead = p.add_column(0.0, 0.0..);
            let buses: Vec<highs::Col> = (0..tiers).map(|_| p.add_column(0.0, 0.0..)).collect();
            let mut so_far = serial;
            for (k, beside) in [ahead].iter().chain(&buses).enumerate() {
                let with = p.add_column(f64::from(u8::from(k == tiers)), 0.0..);
                for (a, b) in step::tangents() {
                    p.add_row(0.0.., [(with, 1.0), (so_far, -a), (*beside, -b)]);
                }
                so_far = with;
            }
            for (column, computed) in [(serial, group.compute / self.scale), (ahead, 0.0)] {
                let takes = |load: &Load, k: usize| {
                    let (memory, busy) = (&model.memories[k], loads[g * tiers + k]);
                    let ns = if column == serial { load.waiting(memory, busy) } else { load.fetching(memory, busy) };
                    ns / self.scale
                };
                let (mut row, mut least) = (vec![(column, 1.0)], computed);
                for (site, [misses, _]) in &group.uses {
                    least += takes(misses, last);
                    if let Some(&n) = number.get(site) {
                        row.extend((0..last).flat_map(|k| x[n].misses(k, takes(misses, last) - takes(misses, k))));
                    }
                }
                p.add_row(least.., row);
            }
            for (k, memory) in model.memories.iter().enumerate() {
                let (read, write, stretch) = memory.per_line();
                // The bus is busy for the largest of these: both directions together, and each alone.
                for (read, write) in [(read / stretch, write / stretch), (read, 0.0), (0.0, write)] {
                    let mut row = vec![(buses[k], 1.0)];
                    let mut least = 0.0;
                    for (site, loads) in &group.uses {
                        let times = loads.map(|load| (load.reads * read + load.writes * write) / self.scale);
                        let time = times[0] + times[1];
                        if time <= 0.0 {
                            continue;
                        }
                        if k == last {
                            least += time;
                        }
                        let Some(&n) = number.get(site) else { continue };
                        if k == last {
                            row.extend((0..last).flat_map(|k| x[n].both(k, times)));
                        } else {
                            row.extend(x[n].both(k, times.map(|time| -time)));
                        }
                    }
                    if row.len() > 1 || least > 0.0 {
                        p.add_row(least.., row);
                    }
                }
            }
        }
        for (k, tier) in task.tiers.iter().enumerate() {
            let Some(Bytes(budget)) = tier.budget else { continue };
            let unit = budget.max(1) as f64;
            for (moment, x) in x.iter().flat_map(|x| task.lives().moments.iter().map(move |m| (m, x))) {
                let mut row = Vec::new();
                let mut most = 1.0;
                for (site, bytes) in moment {
                    let bytes = *bytes as f64 / unit;
                    match number.get(site) {
                        Some(&n) if k == last => {
                            row.extend((0..last).flat_map(|k| x[n].bytes(k, -bytes)));
                            most -= bytes;
                        }
                        Some(&n) => row.extend(x[n].bytes(k, bytes)),
                        None if k == last => most -= bytes,
                        None => {}
                    }
                }
                p.add_row(..=most, row);
            }
        }
        if let Some((size, has)) = room {
            let unit = has.0.max(1) as f64;
            for (moment, x) in x.iter().flat_map(|x| task.lives().moments.iter().map(move |m| (m, x))) {
                let known = moment.iter().filter_map(|(s, bytes)| Some((&x[*number.get(s)?], *bytes)));
                let all = known.chain([(&x[number[&task.sites()]], size.0)]);
                let row: Vec<_> = all.flat_map(|(site, bytes)| site.bytes(0, bytes as f64 / unit)).collect();
                p.add_row(..=1.0, row);
            }
        }
        let Ok(mut solver) = p.try_optimise(Sense::Minimise) else {
            return Answer::none();
        };
        solver.make_quiet();
        solver.set_option("time_limit", seconds);
        solver.set_option("mip_rel_gap", GAP);
        solver.set_option("threads", 1);
        let Ok(solved) = solver.try_solve() else { return Answer::none() };
        let found = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
        let integers = match whole {
            Whole::All => !self.sites.is_empty(),
            Whole::Some => self.segments > 1 || self.sites.iter().any(|&s| !can_be_split(task, s)),
            Whole::None => false,
        };
        let bound = match (integers, solved.status()) {
            (true, _) => solved.double_info_value(c"mip_dual_bound").unwrap_or(0.0),
            (false, HighsModelStatus::Optimal) => solved.objective_value(),
            (false, _) => 0.0,
        };
        let by_segment = found.then(|| {
            let columns = solved.get_solution().columns().to_vec();
            let value = |c: highs::Col| columns[c.index()].clamp(0.0, 1.0);
            let shares = |x: &Vec<Columns>| {
                let mut shares = Shares::all_in(last, task.sites(), tiers);
                for (n, &site) in self.sites.iter().enumerate() {
                    let sum = |terms: &dyn Fn(usize) -> Vec<(highs::Col, f64)>| {
                        let mut of: Vec<f64> =
                            (0..last).map(|k| terms(k).iter().map(|(c, weight)| value(*c) * weight).sum()).collect();
                        of.push((1.0 - of.iter().sum::<f64>()).max(0.0));
                        of
                    };
                    let misses = sum(&|k| x[n].misses(k, 1.0).collect());
                    shares.split_by_heat(site, &misses, &sum(&|k| x[n].bytes(k, 1.0).collect()));
                }
                shares
            };
            let pieces = |x: &Columns| -> Vec<Vec<f64>> {
                let mut of: Vec<Vec<f64>> =
                    x.columns.iter().map(|tier| tier.iter().map(|&c| value(c)).collect()).collect();
                let left = |p: usize| (1.0 - of.iter().map(|tier: &Vec<f64>| tier[p]).sum::<f64>()).max(0.0);
                of.push((0..x.weights.len()).map(left).collect());
                of
            };
            let split = self.sites.iter().zip(&x[0]).filter(|(_, x)| x.weights.len() > 1);
            let pieces: HashMap<usize, Vec<Vec<f64>>> = split.map(|(&site, x)| (site, pieces(x))).collect();
            (x.iter().map(shares).collect::<Vec<_>>(), pieces)
        });
        let bound = if bound.is_finite() { bound.max(0.0) * self.scale } else { 0.0 };
        match by_segment {
            Some((all, pieces)) => Answer { shares: all.first().cloned(), pieces, by_segment: Some(all), bound },
            None => Answer { bound, ..Answer::none() },
        }
    }
}

/// For each interval its group: one each if they are few, else those together in which the same site asks for most.
fn grouped(intervals: &[&Interval], most: usize) -> Vec<usize> {
    if intervals.len() <= most {
        return (0..intervals.len()).collect();
    }
    let leader = |i: usize| {
        intervals[i].uses.iter().max_by(|a, b| a.lines().total_cmp(&b.lines())).map_or(usize::MAX, |u| u.site)
    };
    let mut lines: HashMap<usize, f64> = HashMap::new();
    for (i, interval) in intervals.iter().enumerate() {
        *lines.entry(leader(i)).or_default() += interval.uses.iter().map(|u| u.lines()).sum::<f64>();
    }
    let mut leaders: Vec<(usize, f64)> = lines.into_iter().collect();
    leaders.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let number: HashMap<usize, usize> = leaders.iter().enumerate().map(|(n, l)| (l.0, n.min(most - 1))).collect();
    (0..intervals.len()).map(|i| number[&leader(i)]).collect()
}
