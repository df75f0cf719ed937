//! Behaviour that repeats: the loop that most of a run is spent in, found in its segments.
//!
//! Where segments begin with events of the same kinds as the ones some places further on, and the numbers of these go up by the same
//! steps, they may be the phases of a loop. Such a guess is tried on the whole run: its phases begin with the events that it
//! foretells, as long as there are such, and what the sites ask for in a phase must hardly differ from iteration to iteration. Of all guesses
//! that pass, the one is taken that explains most of the run; of those that explain nearly as much, the one with fewest phases.
//!
//! Then a plan can say what to move in each phase of the loop, whatever the number of iterations: the profiled run's, or another one's.

use super::demand::Demand;
use super::segments::{Asked, Beginning, Event, MOST, Segment, Times};
use model::Observed;

/// Most phases of a loop.
const PHASES: usize = MOST / 2;
/// Fewest iterations: of two nobody knows whether there is a third.
const TIMES: usize = 3;
/// Iterations of a phase may differ by this share of what it asks for: samples are few.
const LIKE: f64 = 0.25;
/// The loop is to explain this share of what the run asks for.
const EXPLAINS: f64 = 0.4;
/// One with fewer phases is better if it explains nearly as much.
const NEARLY: f64 = 0.05;
/// Guesses that are tried.
const TRIED: usize = 100;
/// Sites that are looked at, those that most is asked of.
const HOTTEST: usize = 64;

/// A loop, and what is around it.
#[derive(Debug)]
pub struct Found {
    /// Segments before it; the first one of the run is among them.
    pub before: Vec<Segment>,
    /// Its phases, each with the intervals of all iterations.
    pub body: Vec<Segment>,
    /// Segments behind it.
    pub after: Vec<Segment>,
    /// How many of its phases began, all iterations together.
    pub began: usize,
    /// What share of what the run asks for it explains, 0 to 1.
    explains: f64,
}

/// The loop of a run with these segments, if there is one.
pub fn find(segments: &[Segment], observed: &Observed, demand: &Demand, events: &[Event]) -> Option<Found> {
    let run = Run { observed, times: Times::of(events), asked: hottest(demand), segments };
    let asked: Vec<Asked> = segments.iter().map(|s| run.asked(&s.intervals)).collect();
    let alike = |a: usize, b: usize| asked[a].differs(&asked[b]) <= LIKE * asked[a].lines().min(asked[b].lines());
    let begins = |n: usize| segments.get(n).and_then(|s| s.begins).map(|b| b.event);
    let mut best: Option<Found> = None;
    let mut tried = 0;
    for phases in 2..=PHASES {
        let places = segments.len().saturating_sub(phases);
        // Whether a segment is like the one some places further on, and by how much the number of its event goes up till then.
        let step = |n: usize| {
            let (a, b) = (begins(n)?, begins(n + phases)?);
            (a.kind == b.kind && b.number > a.number && alike(n, n + phases)).then(|| b.number - a.number)
        };
        let steps: Vec<Option<u64>> = (0..places).map(step).collect();
        for first in 1..places {
            let Some(steps) =
                steps.get(first..first + phases).and_then(|s| s.iter().copied().collect::<Option<Vec<u64>>>())
            else {
                continue;
            };
            let body = &segments[first..first + phases];
            let of_kind = |n: usize| begins(first + n).map(|e| e.kind);
            let one = |n: usize| (0..n).all(|m| of_kind(m) != of_kind(n) || steps[m] == steps[n]);
            if !(0..phases).all(one) {
                continue;
            }
            tried += 1;
            if tried > TRIED {
                return best;
            }
            if let Some(found) = run.folded(body, &steps) {
                if best.as_ref().is_none_or(|b| found.explains > b.explains + NEARLY) {
                    best = Some(found);
                }
                // One that begins later is the same loop, less of it.
                break;
            }
        }
    }
    best
}

/// What each interval asks of the sites that most is asked of: others tell no loop.
fn hottest(demand: &Demand) -> Vec<Asked> {
    let mut lines = vec![0.0; demand.sites];
    for u in demand.intervals.iter().flat_map(|i| &i.uses).filter(|u| u.site < demand.sites) {
        lines[u.site] += u.lines();
    }
    let mut order: Vec<usize> = (0..demand.sites).collect();
    order.sort_by(|&a, &b| lines[b].total_cmp(&lines[a]));
    let mut is_hot = vec![false; demand.sites];
    order.iter().take(HOTTEST).for_each(|&s| is_hot[s] = true);
    (0..demand.intervals.len()).map(|i| Asked::of(&demand.intervals, &[i], |s| s < demand.sites && is_hot[s])).collect()
}

/// A run that guesses are tried on.
struct Run<'a> {
    observed: &'a Observed,
    times: Times,
    /// By interval.
    asked: Vec<Asked>,
    segments: &'a [Segment],
}

impl Run<'_> {
    /// What some intervals ask for.
    fn asked(&self, which: &[usize]) -> Asked {
        let mut out = Asked::default();
        which.iter().for_each(|&i| out.add(self.asked[i].clone()));
        out
    }

    /// The run folded by a guess: the phases of a loop, and by how much the numbers of their events go up in an iteration.
    fn folded(&self, phases: &[Segment], steps: &[u64]) -> Option<Found> {
        let Run { observed, times, segments, .. } = self;
        let all: f64 = self.asked.iter().map(Asked::lines).sum();
        let count = phases.len();
        let at = |n: usize| {
            let first = phases[n % count].begins?.event;
            times.at(first.kind, first.number + (n / count) as u64 * steps[n % count])
        };
        // When each phase begins, from iteration to iteration, as far as the events go. More of them than intervals cannot be told apart.
        let mut begun: Vec<u64> = Vec::new();
        while let Some(next) = at(begun.len()).filter(|at| begun.last().is_none_or(|last| at > last)) {
            begun.push(next);
            if begun.len() > observed.timeline.len() {
                return None;
            }
        }
        if begun.len() < TIMES * count {
            return None;
        }
        // The last one that began takes as long as that phase did before; what comes then is behind the loop.
        let last = begun.len() - 1;
        let lengths = (0..last).filter(|n| (last - n) % count == 0).map(|n| begun[n + 1] - begun[n]);
        let mut end = begun[last] + lengths.max().unwrap_or(0);
        let middle = |i: usize| {
            // The last one may be none of the timeline: what nobody saw the time of.
            let starts = |i: usize| observed.timeline.get(i).map_or(observed.duration.0, |p| p.at.0);
            starts(i).midpoint(starts(i + 1))
        };
        let mut each: Vec<Vec<usize>> = vec![vec![]; begun.len()];
        for i in segments.iter().flat_map(|s| s.intervals.iter().copied()) {
            let at = middle(i);
            if at >= begun[0] && at < end {
                each[begun.partition_point(|b| *b <= at) - 1].push(i);
            }
        }
        let asked: Vec<Asked> = each.iter().map(|which| self.asked(which)).collect();
        let wholes: Vec<Asked> = (0..count)
            .map(|phase| {
                let mut whole = Asked::default();
                asked.iter().skip(phase).step_by(count).for_each(|a| whole.add(a.clone()));
                whole
            })
            .collect();
        let unlike = |n: usize| asked[n].differs(&wholes[n % count]);
        // What is told like a phase of the loop and does something else is behind it.
        while each.last().is_some_and(|_| unlike(each.len() - 1) > LIKE * asked[each.len() - 1].lines()) {
            each.pop();
            end = begun[each.len()];
        }
        if each.len() < TIMES * count {
            return None;
        }
        let mut found = Found { before: vec![], body: vec![], after: vec![], began: each.len(), explains: 0.0 };
        for s in *segments {
            let part = |within: &dyn Fn(u64) -> bool| Segment {
                intervals: s.intervals.iter().copied().filter(|&i| within(middle(i))).collect(),
                ..s.clone()
            };
            let (before, after) = (part(&|at| at < begun[0]), part(&|at| at >= end));
            if !before.intervals.is_empty() || s.begins.is_none() {
                found.before.push(before);
            }
            // One that began in the loop and goes on behind it has nothing to begin with there; nor has one that begins with what the loop's
            // phases are known by, since a longer run would come by it in the middle of the loop.
            let of_loop = phases.iter().any(|p| p.begins.map(|b| b.event.kind) == s.begins.map(|b| b.event.kind));
            if s.at >= end && !of_loop && !after.intervals.is_empty() {
                found.after.push(after);
            } else if let Some(last) = found.after.last_mut() {
                last.intervals.extend(after.intervals);
            } else if let Some(last) = each.last_mut() {
                last.extend(after.intervals);
            }
        }
        found.body = (0..count)
            .map(|phase| Segment {
                begins: phases[phase].begins.map(|b| Beginning { every: Some(steps[phase]), ..b }),
                at: phases[phase].at,
                intervals: each.iter().skip(phase).step_by(count).flatten().copied().collect(),
            })
            .collect();
        let explained: f64 = asked[..each.len()].iter().map(Asked::lines).sum();
        let differs: f64 = (0..each.len()).map(unlike).sum();
        found.explains = (explained - differs) / all.max(1.0);
        let passes = differs <= LIKE * explained
            && found.explains >= EXPLAINS
            && found.body.iter().all(|s| !s.intervals.is_empty());
        passes.then_some(found)
    }
}
