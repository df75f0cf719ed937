//! Behaviour that repeats: the loop that most of a run is spent in, found in its segments.
//!
//! Where segments begin with events of the same kinds as the ones some places further on, and the numbers of these go up by the same
//! steps, they may be the phases of a loop. So may be what lies between the events of one kind, so many of them an iteration: a phase can
//! have several regions, and the segments begin with now this, now that one. Such a guess is tried on the whole run: its phases begin with
//! the events that it foretells, as long as there are such, and what the sites ask for in a phase must hardly differ from iteration to
//! iteration, and much more from phase to phase. Of all guesses that pass, the one is taken whose phases tell most apart; of those that tell
//! nearly as much, the one with fewest phases.
//!
//! Then a plan can say what to move in each phase of the loop, whatever the number of iterations: the profiled run's, or another one's.

use super::demand::Demand;
use super::segments::{Asked, Beginning, Event, Kind, MOST, Segment, Times, merge};
use model::Observed;
use std::collections::BTreeMap;

/// Most phases of a loop.
const PHASES: usize = MOST / 2;
/// Fewest iterations: of two nobody knows whether there is a third.
const TIMES: usize = 3;
/// Iterations of a phase may differ by this share of what it asks for: samples are few.
const LIKE: f64 = 0.25;
/// The loop is to explain this share of what the run asks for.
const EXPLAINS: f64 = 0.4;
/// Phases are to be so many times as unlike the loop as a whole as they are unlike themselves: of samples some always differ.
const APART: f64 = 2.0;
/// One with fewer phases is better if it tells nearly as much apart, as a share of what the run asks for.
const NEARLY: f64 = 0.05;
/// Guesses by segments that are tried.
const TRIED: usize = 100;
/// Kinds of events that are tried alone, and how many of one an iteration can have.
const KINDS: usize = 8;
const EACH: u64 = 24;
/// Neighbouring phases of a guess by one kind that differ by less than this share of what the run asks for are one.
const WORTH: f64 = 0.02;
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
    /// By how much its phases are more like themselves than like the loop as a whole, as a share (0 to 1) of what the run asks for.
    tells: f64,
}

/// The loop of a run with these segments, if there is one.
pub fn find(segments: &[Segment], observed: &Observed, demand: &Demand, events: &[Event]) -> Option<Found> {
    let run = Run { observed, times: Times::of(events), asked: hottest(demand), segments };
    let mut all = run.by_segments();
    all.extend(run.by_one_kind(events));
    let most = all.iter().map(|f| f.tells).fold(0.0, f64::max);
    all.retain(|f| f.tells >= most - NEARLY);
    all.into_iter().min_by(|a, b| a.body.len().cmp(&b.body.len()).then(b.tells.total_cmp(&a.tells)))
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
    /// Loops whose phases begin as segments do.
    fn by_segments(&self) -> Vec<Found> {
        let segments = self.segments;
        let asked: Vec<Asked> = segments.iter().map(|s| Asked::sum(&self.asked, &s.intervals)).collect();
        let alike = |a: usize, b: usize| asked[a].differs(&asked[b]) <= LIKE * asked[a].lines().min(asked[b].lines());
        let begins = |n: usize| segments.get(n).and_then(|s| s.begins).map(|b| b.event);
        let mut out = Vec::new();
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
                    return out;
                }
                let guess = Guess { phases: body.to_vec(), steps: steps.clone() };
                if let Some(found) = self.folded(&guess).filter(Found::is_whole) {
                    out.push(found);
                    // One that begins later is the same loop, less of it.
                    break;
                }
            }
        }
        out
    }

    /// Loops with so many events of one kind an iteration, each of which may begin a phase.
    fn by_one_kind(&self, events: &[Event]) -> Vec<Found> {
        let mut kinds: BTreeMap<Kind, Vec<Event>> = BTreeMap::new();
        events.iter().for_each(|e| kinds.entry(e.kind).or_default().push(*e));
        // Regions tell more than allocations, and seldom ones more than many.
        let mut kinds: Vec<Vec<Event>> = kinds.into_values().filter(|of| of.len() >= 2 * TIMES).collect();
        kinds.sort_by_key(|of| (matches!(of[0].kind, Kind::Allocation(_)), of.len()));
        kinds.truncate(KINDS);
        let mut out = Vec::new();
        for of in &kinds {
            let number = of.last().map_or(0, |last| last.number);
            let intervals = self.observed.timeline.len() as u64;
            // An iteration has two intervals at least, since its phases could not be told apart.
            let each = (2..=EACH).filter(|each| number >= each * TIMES as u64 && number / each <= intervals / 2);
            out.extend(each.filter_map(|each| self.of_each(of[0], each)));
        }
        out
    }

    /// The loop that has so many events of a kind an iteration.
    fn of_each(&self, first: Event, each: u64) -> Option<Found> {
        let phase = |n: u64| {
            let event = Event { number: first.number + n, ..first };
            let at = self.times.at(event.kind, event.number)?;
            let begins = Some(Beginning { event: Event { at, ..event }, every: None });
            Some(Segment { begins, at, intervals: vec![] })
        };
        let mut body: Vec<Segment> = (0..each).map(phase).collect::<Option<_>>()?;
        // What was before the loop is told by its first phases' being unlike the later ones, so that it begins later.
        loop {
            let steps = vec![each; body.len()];
            let found = self.folded(&Guess { phases: body.clone(), steps })?;
            let joined = merge(found.body.clone(), &self.asked, WORTH, PHASES);
            if joined.len() < 2 {
                return None;
            }
            if joined.len() == found.body.len() {
                return found.is_whole().then_some(found);
            }
            body = joined;
        }
    }

    /// The run folded by a guess.
    fn folded(&self, guess: &Guess) -> Option<Found> {
        let count = guess.phases.len();
        let begun = self.begun(guess)?;
        let mut end = self.end(&begun, count);
        let mut each = self.each(&begun, end);
        let asked: Vec<Asked> = each.iter().map(|which| Asked::sum(&self.asked, which)).collect();
        let wholes: Vec<Asked> = (0..count).map(|phase| Asked::all(asked.iter().skip(phase).step_by(count))).collect();
        let unlike = |n: usize| asked[n].differs(&wholes[n % count]);
        let other = |n: usize| unlike(n) > LIKE * asked[n].lines();
        // What is told like a phase of the loop and does something else before it: the loop begins later.
        let others = (0..begun.len()).take_while(|&n| asked[n].lines() <= 0.0 || other(n)).filter(|&n| other(n)).last();
        if let Some(later) = others.map(|n| n + 1) {
            return (later + TIMES * count <= begun.len()).then(|| self.folded(&guess.from(later, &begun)))?;
        }
        // What is told like a phase of the loop and does something else is behind it.
        while !each.is_empty() && other(each.len() - 1) {
            each.pop();
            end = begun[each.len()];
        }
        if each.len() < TIMES * count {
            return None;
        }
        let of_loop = &asked[..each.len()];
        let explained: f64 = of_loop.iter().map(Asked::lines).sum();
        let differs: f64 = (0..each.len()).map(unlike).sum();
        let whole = Asked::all(of_loop.iter());
        let apart: f64 = of_loop.iter().map(|a| a.differs(&whole)).sum();
        let all: f64 = self.asked.iter().map(Asked::lines).sum();
        if differs > LIKE * explained || explained - differs < EXPLAINS * all || apart < APART * differs {
            return None;
        }
        let began = each.len();
        let (before, after) = self.around(guess, begun[0], end, &mut each);
        let body = (0..count).map(|phase| Segment {
            begins: guess.phases[phase].begins.map(|b| Beginning { every: Some(guess.steps[phase]), ..b }),
            at: guess.phases[phase].at,
            intervals: each.iter().skip(phase).step_by(count).flatten().copied().collect(),
        });
        Some(Found { before, body: body.collect(), after, began, tells: (apart - differs) / all.max(1.0) })
    }

    /// When each phase begins, from iteration to iteration, as far as the events go. Many more of them than intervals cannot be told apart.
    fn begun(&self, guess: &Guess) -> Option<Vec<u64>> {
        let Guess { phases, steps } = guess;
        let count = phases.len();
        let at = |n: usize| {
            let first = phases[n % count].begins?.event;
            self.times.at(first.kind, first.number + (n / count) as u64 * steps[n % count])
        };
        let mut begun: Vec<u64> = Vec::new();
        while let Some(next) = at(begun.len()).filter(|at| begun.last().is_none_or(|last| at > last)) {
            begun.push(next);
            if begun.len() > PHASES * self.observed.timeline.len() {
                return None;
            }
        }
        (begun.len() >= TIMES * count).then_some(begun)
    }

    /// When the loop ends: the phase that began last takes as long as it did before.
    fn end(&self, begun: &[u64], count: usize) -> u64 {
        let last = begun.len() - 1;
        let lengths = (0..last).filter(|n| (last - n) % count == 0).map(|n| begun[n + 1] - begun[n]);
        begun[last] + lengths.max().unwrap_or(0)
    }

    /// The middle of an interval. The last one may be none of the timeline: what nobody saw the time of.
    fn middle(&self, interval: usize) -> u64 {
        let Observed { timeline, duration, .. } = self.observed;
        let starts = |i: usize| timeline.get(i).map_or(duration.0, |p| p.at.0);
        starts(interval).midpoint(starts(interval + 1))
    }

    /// The intervals of each phase that began.
    fn each(&self, begun: &[u64], end: u64) -> Vec<Vec<usize>> {
        let mut each: Vec<Vec<usize>> = vec![vec![]; begun.len()];
        for i in self.segments.iter().flat_map(|s| s.intervals.iter().copied()) {
            let at = self.middle(i);
            if at >= begun[0] && at < end {
                each[begun.partition_point(|b| *b <= at) - 1].push(i);
            }
        }
        each
    }

    /// The segments before and behind the loop. What can be in none of them goes to its last phase, of `each`.
    fn around(&self, guess: &Guess, start: u64, end: u64, each: &mut [Vec<usize>]) -> (Vec<Segment>, Vec<Segment>) {
        let (mut all_before, mut all_after): (Vec<Segment>, Vec<Segment>) = (vec![], vec![]);
        for s in self.segments {
            let part = |within: &dyn Fn(u64) -> bool| Segment {
                intervals: s.intervals.iter().copied().filter(|&i| within(self.middle(i))).collect(),
                ..s.clone()
            };
            let (before, after) = (part(&|at| at < start), part(&|at| at >= end));
            if !before.intervals.is_empty() || s.begins.is_none() {
                all_before.push(before);
            }
            // One that began in the loop and goes on behind it has nothing to begin with there; nor has one that begins with what the loop's
            // phases are known by, since a longer run would come by it in the middle of the loop.
            let of_loop = guess.phases.iter().any(|p| p.begins.map(|b| b.event.kind) == s.begins.map(|b| b.event.kind));
            if s.at >= end && !of_loop && !after.intervals.is_empty() {
                all_after.push(after);
            } else if let Some(last) = all_after.last_mut() {
                last.intervals.extend(after.intervals);
            } else if let Some(last) = each.last_mut() {
                last.extend(after.intervals);
            }
        }
        (all_before, all_after)
    }
}

/// A guess: the phases of a loop, and by how much the numbers of their events go up in an iteration.
struct Guess {
    phases: Vec<Segment>,
    steps: Vec<u64>,
}

impl Guess {
    /// The same loop, if it begins so many phases later. All that began are given.
    fn from(&self, first: usize, begun: &[u64]) -> Guess {
        let count = self.phases.len();
        let phase = |n: usize| {
            let (of, times) = (&self.phases[n % count], (n / count) as u64);
            let number = |b: Beginning| b.event.number + times * self.steps[n % count];
            let begins =
                of.begins.map(|b| Beginning { event: Event { number: number(b), at: begun[n], ..b.event }, ..b });
            Segment { begins, at: begun[n], intervals: vec![] }
        };
        let which = first..first + count;
        Guess { phases: which.clone().map(phase).collect(), steps: which.map(|n| self.steps[n % count]).collect() }
    }
}

impl Found {
    /// Whether something was seen of each phase.
    fn is_whole(&self) -> bool {
        self.body.iter().all(|s| !s.intervals.is_empty())
    }
}
