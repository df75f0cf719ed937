//! The run cut into segments: a plan may have another placement in each.
//!
//! A phase of a program shows as a change in what its sites ask of memory. Wherever something that can be known again ([`Event`]) begins near
//! the edge of an interval of the timeline the run can be cut; neighbours are then joined again, always those that it matters least for: by how
//! differently they ask their sites, as a share of all (half the sum of differences of shares), weighted with how much the smaller
//! one of the two asks for. (Bottom-up segmentation of a time series: Keogh, Chu, Hart and Pazzani, Segmenting time series, 2004, section
//! 2.3; the measure is ours.) Where the segments repeat, as those of a loop do, all iterations are one ([`super::repeats`]).

use super::demand::{Demand, Interval};
use super::repeats;
use model::{Observed, SiteId, SiteKind, SiteUse};
use std::collections::HashMap;
use std::iter::Peekable;
use std::ops::{Deref, Range};
use std::slice::Iter;

/// Most segments.
pub const MOST: usize = 24;
/// Neighbours that differ by less than this share of all that the run asks for are one.
const WORTH: f64 = 0.005;
/// Most allocations that are looked at.
const EVENTS: usize = 1 << 16;

/// What a running program can be seen to do again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A parallel region of this function begins, which is a site of one frame.
    Region(SiteId),
    /// This site, by its number in the profile, allocates.
    Allocation(usize),
}

/// One time that it does so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// What.
    pub kind: Kind,
    /// How many of the kind there were so far in its process, from 1.
    pub number: u64,
    /// When, in ns since the start of the run.
    pub at: u64,
}

/// What a segment begins with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beginning {
    /// The event; of a segment that comes back the first of them.
    pub event: Event,
    /// It comes back with each so many of the kind.
    pub every: Option<u64>,
}

/// A stretch of the run, or all stretches of a phase that comes back.
#[derive(Clone, Debug, PartialEq)]
pub struct Segment {
    /// What it begins with; none for the first one.
    pub begins: Option<Beginning>,
    /// When it begins first, in ns since the start of the run.
    pub at: u64,
    /// Its intervals, in order.
    pub intervals: Vec<usize>,
}

/// Segments that come back in turn, as the phases of a loop do.
#[derive(Clone, Debug, PartialEq)]
pub struct Repeat {
    /// Which segments.
    pub body: Range<usize>,
    /// How many of them began, all iterations together: the last one may have been cut short.
    pub began: usize,
}

impl Repeat {
    /// How often a segment of it began.
    pub fn times(&self, segment: usize) -> u64 {
        (self.began + self.body.end - 1 - segment).div_euclid(self.body.len()) as u64
    }

    /// The one that it ended with.
    fn last(&self) -> usize {
        self.body.start + (self.began - 1) % self.body.len()
    }
}

/// The segments of a run, in the order in which they first begin; at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Segments {
    list: Vec<Segment>,
    /// Those that come back.
    pub repeat: Option<Repeat>,
}

impl Deref for Segments {
    type Target = [Segment];
    fn deref(&self) -> &[Segment] {
        &self.list
    }
}

impl Segments {
    /// From which segment to which the run goes, and how often.
    pub fn passages(&self) -> impl Iterator<Item = (usize, usize, f64)> {
        let on = (1..self.list.len()).map(|to| match &self.repeat {
            Some(r) if r.body.contains(&to) && r.body.start != to => (to - 1, to, r.times(to) as f64),
            Some(r) if r.body.end == to => (r.last(), to, 1.0),
            _ => (to - 1, to, 1.0),
        });
        let back = self.repeat.iter().map(|r| (r.body.end - 1, r.body.start, (r.times(r.body.start) - 1) as f64));
        on.chain(back)
    }

    /// The segment that follows on one, of the last one of a loop its first; none behind the run.
    pub fn next(&self, segment: usize) -> Option<usize> {
        match &self.repeat {
            Some(r) if r.body.end == segment + 1 => Some(r.body.start),
            _ => Some(segment + 1).filter(|next| *next < self.list.len()),
        }
    }

    /// The segment of each of so many intervals.
    pub fn of_intervals(&self, intervals: usize) -> Vec<usize> {
        let mut out = vec![0; intervals];
        for (n, segment) in self.list.iter().enumerate() {
            segment.intervals.iter().for_each(|&i| out[i] = n);
        }
        out
    }
}

/// The segments of a run: one if nothing is known of what could begin them, or nothing changes.
pub fn of(observed: &Observed, demand: &Demand) -> Segments {
    let events = events(observed);
    let asked: Vec<Asked> =
        (0..demand.intervals.len()).map(|i| Asked::of(&demand.intervals, &[i], |site| site < demand.sites)).collect();
    let join = |segments, most| merge(segments, &asked, WORTH, most);
    let list = join(cut(observed, demand, &events), usize::MAX);
    let Some(found) = repeats::find(&list, observed, demand, &events) else {
        return Segments { list: join(list, MOST), repeat: None };
    };
    // What is around the loop shares what segments are left.
    let most = ((MOST - found.body.len()) / 2).max(1);
    let mut list = join(found.before, most);
    let body = list.len()..list.len() + found.body.len();
    list.extend(found.body);
    list.extend(join(found.after, most));
    Segments { list, repeat: Some(Repeat { body, began: found.began }) }
}

/// Beginnings of parallel regions and intervals of the timeline, if there are more of those than these can tell apart.
pub fn coarse(observed: &Observed) -> Option<(usize, usize)> {
    let (regions, intervals) = (observed.regions.len(), observed.timeline.len().max(1));
    (regions > intervals && intervals < MOST).then_some((regions, intervals))
}

/// All events that the profile tells, in order of time. Allocations are counted in each process by itself, and a profile does not say of
/// which one each was: so they are events in a profile of one process.
fn events(observed: &Observed) -> Vec<Event> {
    let regions = observed.regions.iter().map(|r| Event { kind: Kind::Region(r.id), number: r.number, at: r.at.0 });
    let alone = observed.processes == 1;
    let mut sites: Vec<(usize, &SiteUse)> = observed.sites.iter().enumerate().collect();
    sites.retain(|(_, s)| alone && s.site.kind == SiteKind::Allocation && !s.starts.is_empty());
    // Those that allocate seldom, as they are the ones that tell most.
    sites.sort_by_key(|(n, s)| (s.starts.len(), *n));
    let mut events = 0;
    let few = sites.into_iter().take_while(|(_, s)| {
        events += s.starts.len();
        events <= EVENTS
    });
    let allocations = few.flat_map(|(n, s)| {
        let event =
            move |(i, at): (usize, &model::Nanos)| Event { kind: Kind::Allocation(n), number: i as u64 + 1, at: at.0 };
        s.starts.iter().enumerate().map(event)
    });
    let mut out: Vec<Event> = regions.chain(allocations).collect();
    out.sort_by_key(|e| (e.at, e.kind, e.number));
    out
}

/// The run, cut at each edge of an interval that an event is near: at a region rather than at an allocation, at one of a site that
/// allocates seldom rather than often, and at the nearest.
fn cut(observed: &Observed, demand: &Demand, events: &[Event]) -> Vec<Segment> {
    let all = demand.intervals.len();
    let mut cuts = vec![Segment { begins: None, at: 0, intervals: (0..all).collect() }];
    let starts: Vec<u64> = observed.timeline.iter().map(|p| p.at.0).collect();
    let mut taken = None;
    for (i, &start) in starts.iter().enumerate().skip(1) {
        let half = (start - starts[i - 1]) / 2;
        let first = events.partition_point(|e| e.at + half < start);
        let near = events.iter().enumerate().skip(first).take_while(|(_, e)| start.abs_diff(e.at) <= half);
        // An event is where one cut only can be, and cuts are in order.
        let free = near.filter(|(n, _)| taken.is_none_or(|taken| *n > taken));
        let often = |kind: Kind| match kind {
            Kind::Region(_) => 0,
            Kind::Allocation(site) => observed.sites[site].objects,
        };
        if let Some((n, &event)) = free.min_by_key(|(_, e)| (often(e.kind), start.abs_diff(e.at))) {
            taken = Some(n);
            let begins = Some(Beginning { event, every: None });
            let before = cuts.last_mut().expect("there is one");
            let intervals = before.intervals.split_off(i - before.intervals[0]);
            cuts.push(Segment { begins, at: event.at, intervals });
        }
    }
    cuts
}

/// Joins neighbours that differ by less than a share of what the run asks for, until they do not and are at most so many. What each interval
/// asks for is given.
pub fn merge(mut segments: Vec<Segment>, by_interval: &[Asked], worth: f64, most: usize) -> Vec<Segment> {
    let mut asked: Vec<Asked> = segments.iter().map(|s| Asked::sum(by_interval, &s.intervals)).collect();
    let all: f64 = by_interval.iter().map(Asked::lines).sum();
    // By how much each matters beside the one before it.
    let mut matters: Vec<f64> = asked.windows(2).map(|pair| pair[0].differs(&pair[1])).collect();
    while let Some((least, by)) = matters.iter().copied().enumerate().min_by(|a, b| a.1.total_cmp(&b.1)) {
        if segments.len() <= most && by > worth * all {
            break;
        }
        let joined = segments.remove(least + 1);
        segments[least].intervals.extend(joined.intervals);
        let joined = asked.remove(least + 1);
        asked[least].add(&joined);
        matters.remove(least);
        for (i, pair) in asked.windows(2).enumerate().skip(least.saturating_sub(1)).take(2).filter(|(i, _)| *i <= least)
        {
            matters[i] = pair[0].differs(&pair[1]);
        }
    }
    segments
}

/// Lines that each site asks for in some intervals. The rest is no matter of placement.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// By site, in order: phases are compared often, and most ask for the same sites.
    by_site: Vec<(usize, f64)>,
    lines: f64,
}

impl Asked {
    fn collected(mut of_sites: Vec<(usize, f64)>) -> Asked {
        of_sites.sort_by_key(|(site, _)| *site);
        let mut by_site: Vec<(usize, f64)> = Vec::new();
        for (site, lines) in of_sites {
            match by_site.last_mut() {
                Some(last) if last.0 == site => last.1 += lines,
                _ => by_site.push((site, lines)),
            }
        }
        let lines = by_site.iter().map(|(_, lines)| lines).sum();
        Asked { by_site, lines }
    }

    /// In these intervals, by some sites.
    pub fn of(intervals: &[Interval], which: &[usize], counts: impl Fn(usize) -> bool) -> Asked {
        let uses = which.iter().flat_map(|&i| &intervals[i].uses).filter(|u| counts(u.site));
        Asked::collected(uses.map(|u| (u.site, u.lines())).collect())
    }

    /// In these intervals, of which it is known what each asks for.
    pub fn sum(by_interval: &[Asked], which: &[usize]) -> Asked {
        Asked::all(which.iter().map(|&i| &by_interval[i]))
    }

    /// Of several together.
    pub fn all<'a>(of: impl Iterator<Item = &'a Asked>) -> Asked {
        Asked::collected(of.flat_map(|a| a.by_site.iter().copied()).collect())
    }

    /// All of them.
    pub fn lines(&self) -> f64 {
        self.lines
    }

    /// Adds others.
    pub fn add(&mut self, other: &Asked) {
        *self = Asked::all([&*self, other].into_iter());
    }

    /// By how many lines it matters that two are one.
    pub fn differs(&self, other: &Asked) -> f64 {
        if self.lines <= 0.0 || other.lines <= 0.0 {
            return 0.0;
        }
        let (mut a, mut b) = (self.by_site.iter().peekable(), other.by_site.iter().peekable());
        let mut both = 0.0;
        while let Some(site) = a.peek().into_iter().chain(b.peek()).map(|(site, _)| *site).min() {
            let share = |of: &mut Peekable<Iter<'_, (usize, f64)>>, all: f64| {
                of.next_if(|(s, _)| *s == site).map_or(0.0, |(_, lines)| lines / all)
            };
            both += (share(&mut a, self.lines) - share(&mut b, other.lines)).abs();
        }
        both / 2.0 * self.lines.min(other.lines)
    }
}

/// When events of each kind were, by their numbers.
pub struct Times(HashMap<Kind, Vec<(u64, u64)>>);

impl Times {
    /// Of these events, which are in order.
    pub fn of(events: &[Event]) -> Times {
        let mut out: HashMap<Kind, Vec<(u64, u64)>> = HashMap::new();
        for e in events {
            out.entry(e.kind).or_default().push((e.number, e.at));
        }
        Times(out)
    }

    /// When the event of this number was: between those around it where it was not told itself, as of those that follow each other closely.
    pub fn at(&self, kind: Kind, number: u64) -> Option<u64> {
        let all = self.0.get(&kind)?;
        let next = all.partition_point(|e| e.0 < number);
        match (next.checked_sub(1).map(|n| all[n]), *all.get(next)?) {
            (_, (found, at)) if found == number => Some(at),
            (Some((below, from)), (above, to)) => {
                let share = (number - below) as f64 / (above - below) as f64;
                Some(from + ((to - from) as f64 * share) as u64)
            }
            (None, _) => None,
        }
    }
}
