//! Profiles travel: several runs of a program as one (paper 000, section VIII: profiles of a job's processes by sum and by average),
//! and what a small run says of a larger one (paper 003, sections 3.4 and 5.3).
//!
//! Sites are the same if their ids are, or else, as between builds, if they have the same stack in source form; of several with the
//! same one the hottest is meant. Phases are the same by the same rule, and tell which moments of runs are the same ([`crate::clock`]).

use crate::clock::Clock;
use crate::cost::rest;
use crate::{Error, SizeBy, apart};
use model::observed::{Loss, Memory, Region, TimePoint};
use model::{Asked, Bytes, Chunk, Frame, Life, Lines, Nanos, Observed, Pattern, SiteId, SiteUse, Touch};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::str::FromStr;

/// Most intervals of a timeline that is made here.
const INTERVALS: usize = 200;
/// Most objects of a site that are told one by one, as in a profile.
const LIVES: usize = 64;

/// How several runs become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// They ran at the same time (ranks of a job): everything adds up.
    Sum,
    /// They ran one after the other (the same program again): the mean of them.
    Mean,
}

impl FromStr for Merge {
    type Err = String;
    fn from_str(text: &str) -> Result<Merge, String> {
        match text {
            "sum" => Ok(Merge::Sum),
            "mean" => Ok(Merge::Mean),
            _ => Err("write sum (ranks of one job) or mean (runs of the same program)".to_string()),
        }
    }
}

/// What became of the sites of a profile that was matched with another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matched {
    /// Found by id.
    pub by_id: usize,
    /// Found by their stack in source form.
    pub by_source: usize,
    /// Of these, those whose source form several sites have.
    pub ambiguous: usize,
    /// Not found.
    pub lost: usize,
}

impl Matched {
    /// In words, if it is not all by id.
    fn note(&self, what: &str) -> Option<String> {
        let Matched { by_id, by_source, ambiguous, lost } = *self;
        (by_source + lost > 0).then(|| {
            let several = match ambiguous {
                0 => String::new(),
                n => format!(" ({n} of them fit several, of which the hottest was taken)"),
            };
            format!("Of the sites of {what} {by_id} were found by id, {by_source} by source form{several}, and {lost} are in no other.")
        })
    }
}

/// The innermost-first source form of a site, without what differs from build to build; none without symbols.
fn source(site: &SiteUse) -> Option<String> {
    let text = stack(&site.site.frames)?;
    Some(format!("{:?}{}\n{text}", site.site.kind, site.site.suffix()))
}

/// That of a call stack.
pub(crate) fn stack(frames: &[Frame]) -> Option<String> {
    let lines = frames.iter().flat_map(|f| &f.source);
    let text: Vec<String> =
        lines.map(|l| format!("{}|{}|{}", l.function, l.file.rsplit('/').next().unwrap_or(""), l.line)).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

/// Two sites are one.
fn same(a: &SiteUse, b: &SiteUse) -> bool {
    a.site.id == b.site.id || source(a).is_some_and(|text| Some(text) == source(b))
}

/// For each site of `other` the id that it has in `known`; sites that are in none keep theirs.
fn matched(known: &[SiteUse], other: &Observed) -> (HashMap<SiteId, SiteId>, Matched) {
    let ids: HashSet<SiteId> = known.iter().map(|s| s.site.id).collect();
    let here: HashSet<SiteId> = other.sites.iter().map(|s| s.site.id).collect();
    let mut by_source: HashMap<String, Vec<&SiteUse>> = HashMap::new();
    for site in known.iter().filter(|s| !here.contains(&s.site.id)) {
        source(site).into_iter().for_each(|text| by_source.entry(text).or_default().push(site));
    }
    let (mut to, mut count) = (HashMap::new(), Matched::default());
    for site in &other.sites {
        let id = site.site.id;
        let found = match ids.contains(&id) {
            true => {
                count.by_id += 1;
                Some(id)
            }
            false => source(site).and_then(|text| by_source.get(&text)).and_then(|same| {
                count.by_source += 1;
                count.ambiguous += usize::from(same.len() > 1);
                same.iter().max_by(|a, b| a.misses().total_cmp(&b.misses())).map(|s| s.site.id)
            }),
        };
        count.lost += usize::from(found.is_none());
        to.insert(id, found.unwrap_or(id));
    }
    (to, count)
}

/// A profile and others of the same program as one, and what the user should know of it. The first one names the run.
///
/// # Errors
/// If some have access samples and others have not.
pub fn merge(first: &Observed, others: &[Observed], how: Merge) -> Result<(Observed, Vec<String>), Error> {
    // One whose sampler saw nothing says something: all fits the cache.
    let sampled = |o: &Observed| o.sampler != "none" || o.total_misses() > 0.0;
    if let Some(n) = others.iter().position(|o| sampled(o) != sampled(first)) {
        return Err(Error::NotAlike { number: n + 2, without: sampled(first) });
    }
    let all: Vec<&Observed> = std::iter::once(first).chain(others).collect();
    let alike = apart::alike(&all, same);
    let all: Vec<&Observed> = alike.iter().map(|o| &**o).collect();
    let (first, others) = (all[0], &all[1..]);
    let runs = all.len() as f64;
    // Phases are those of one process: of the run that tells most of them.
    let lead = (0..all.len()).rev().max_by_key(|&n| all[n].regions.len()).unwrap_or(0);
    let whole = match how {
        Merge::Sum => None,
        Merge::Mean => Some(Nanos((all.iter().map(|o| o.duration.0 as f64).sum::<f64>() / runs) as u64)),
    };
    let clocks: Vec<Clock> = all.iter().map(|o| Clock::of(o, all[lead], whole)).collect();
    let ends = all.iter().zip(&clocks).map(|(o, clock)| clock.nanos(o.duration));
    let duration = whole.unwrap_or(ends.max().unwrap_or_default());
    let mut notes = Vec::new();
    let mut sites: Vec<SiteUse> = first.sites.iter().map(|s| clocks[0].site(s)).collect();
    let mut renamed: Vec<HashMap<SiteId, SiteId>> = vec![first.sites.iter().map(|s| (s.site.id, s.site.id)).collect()];
    let mut place: HashMap<SiteId, usize> = sites.iter().enumerate().map(|(n, s)| (s.site.id, n)).collect();
    for ((n, other), clock) in others.iter().enumerate().zip(&clocks[1..]) {
        let (to, count) = matched(&sites, other);
        notes.extend(count.note(&format!("profile {}", n + 2)));
        for site in &other.sites {
            let (id, site) = (to[&site.site.id], clock.site(site));
            match place.get(&id) {
                Some(&there) => add(&mut sites[there], &site),
                None => {
                    place.insert(id, sites.len());
                    sites.push(site);
                }
            }
        }
        renamed.push(to);
    }
    // Objects are counted in each run by itself.
    sites.iter_mut().filter(|_| !others.is_empty()).for_each(|s| s.starts.clear());
    let part = match how {
        Merge::Sum => 1.0,
        Merge::Mean => 1.0 / runs,
    };
    sites.iter_mut().for_each(|s| scale(s, part, part));
    sites.sort_by(|a, b| b.misses().total_cmp(&a.misses()).then(a.site.id.cmp(&b.site.id)));
    let mut samplers: Vec<&str> = all.iter().map(|o| o.sampler.as_str()).collect();
    samplers.dedup();
    let mut elsewhere: BTreeMap<&str, f64> = BTreeMap::new();
    all.iter().flat_map(|o| &o.elsewhere).for_each(|(what, share)| *elsewhere.entry(what).or_default() += share / runs);
    let mut elsewhere: Vec<(String, f64)> = elsewhere.into_iter().map(|(w, s)| (w.to_string(), s)).collect();
    elsewhere.sort_by(|a, b| b.1.total_cmp(&a.1));
    let processes = all.iter().map(|o| o.processes).sum::<u64>() as f64 * part;
    let merged = Observed {
        duration,
        threshold: all.iter().map(|o| o.threshold).max().unwrap_or_default(),
        sampler: samplers.join(", "),
        processes: processes.round() as u64,
        sites,
        unattributed: all.iter().map(|o| o.unattributed).sum::<f64>() / runs,
        elsewhere,
        timeline: timeline(&all, &renamed, &clocks, duration, part),
        // What one of them saw was seen.
        watched: all
            .iter()
            .zip(&clocks)
            .map(|(o, clock)| o.watched.map(|(from, to)| (clock.nanos(from), clock.nanos(to))))
            .reduce(|a, b| {
                let ((from, to), (earlier, later)) = (a?, b?);
                Some((from.min(earlier), to.max(later)))
            })
            .flatten(),
        rest: rest(&all, part),
        fullest: fullest(&all, part),
        most_anonymous: all.iter().map(|o| o.most_anonymous).max().flatten(),
        losses: losses(&all),
        touches: touches(&all, &renamed),
        regions: all[lead].regions.iter().map(|r| Region { at: clocks[lead].nanos(r.at), ..r.clone() }).collect(),
        declared: declared(&all, &renamed),
        ..first.clone()
    };
    if let Some(other) = others.iter().find(|o| o.threshold != first.threshold) {
        notes.push(format!(
            "The profiles were recorded with different thresholds ({} and {}): smaller objects are in some of them only.",
            first.threshold, other.threshold
        ));
    }
    Ok((merged, notes))
}

/// Adds another run of a site.
pub(crate) fn add(to: &mut SiteUse, other: &SiteUse) {
    let timed = |s: &SiteUse| s.miss_latency.map(|l| (l, s.misses()));
    to.miss_latency = match (timed(to), timed(other)) {
        (Some((a, n)), Some((b, m))) if n + m > 0.0 => Some((a * n + b * m) / (n + m)),
        (a, b) => a.or(b).map(|(latency, _)| latency),
    };
    to.lines = match (to.lines, other.lines) {
        (Some(a), Some(b)) => Some(Lines::mean(a, to.misses(), b, other.misses())),
        (a, b) => a.or(b),
    };
    if to.pattern == Pattern::Unknown || other.samples > to.samples {
        to.pattern = if other.pattern == Pattern::Unknown { to.pattern } else { other.pattern };
    }
    let both = to.objects + other.objects;
    let life = |s: &SiteUse| u128::from(s.mean_lifetime.0) * u128::from(s.objects);
    to.mean_lifetime = Nanos(((life(to) + life(other)) / u128::from(both.max(1))) as u64);
    to.objects = both;
    to.largest = to.largest.max(other.largest);
    to.peak += other.peak;
    to.allocated += other.allocated;
    to.resident = match (to.resident, other.resident) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    to.first_alloc = to.first_alloc.min(other.first_alloc);
    to.last_free = to.last_free.max(other.last_free);
    to.total_lifetime.0 += other.total_lifetime.0;
    to.load_misses += other.load_misses;
    to.store_misses += other.store_misses;
    to.samples += other.samples;
    to.lives.extend(&other.lives);
    for chunk in &other.chunks {
        match to.chunks.iter_mut().find(|c| (c.class, c.offset) == (chunk.class, chunk.offset)) {
            Some(there) => add_chunk(there, chunk),
            None => to.chunks.push(chunk.clone()),
        }
    }
    // Where it lay in one run says nothing of the others.
    to.nodes.clear();
    to.placed.clear();
}

fn add_chunk(to: &mut Chunk, other: &Chunk) {
    to.peak += other.peak;
    to.resident = match (to.resident, other.resident) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    };
    to.load_misses += other.load_misses;
    to.store_misses += other.store_misses;
    to.samples += other.samples;
}

/// Multiplies what counts bytes and what counts accesses.
fn scale(site: &mut SiteUse, bytes: f64, accesses: f64) {
    let of = |b: Bytes, by: f64| Bytes((b.0 as f64 * by).round() as u64);
    site.peak = of(site.peak, bytes);
    site.allocated = of(site.allocated, bytes);
    site.resident = site.resident.map(|b| of(b, bytes));
    site.objects = ((site.objects as f64 * bytes).round() as u64).max(u64::from(site.objects > 0));
    site.total_lifetime = Nanos((site.total_lifetime.0 as f64 * bytes) as u64);
    site.load_misses *= accesses;
    site.store_misses *= accesses;
    for chunk in &mut site.chunks {
        chunk.peak = of(chunk.peak, bytes);
        chunk.resident = chunk.resident.map(|b| of(b, bytes));
        chunk.load_misses *= accesses;
        chunk.store_misses *= accesses;
    }
    // Lives of several runs are of no one run any more; with all of them a mean would count them too often.
    if bytes != 1.0 || site.lives.len() > LIVES {
        site.lives.clear();
    }
}

fn rest(all: &[&Observed], part: f64) -> Option<Asked> {
    let sum = |a: Asked, b: Asked| Asked {
        load_misses: a.load_misses + b.load_misses,
        store_misses: a.store_misses + b.store_misses,
        pattern: if a.pattern == b.pattern { a.pattern } else { Pattern::Mixed },
        lines: a.lines.zip(b.lines).map(|(x, y)| Lines::mean(x, a.misses(), y, b.misses())),
    };
    let rest = all.iter().filter_map(|o| o.rest).reduce(sum)?;
    Some(Asked { load_misses: rest.load_misses * part, store_misses: rest.store_misses * part, ..rest })
}

fn fullest(all: &[&Observed], part: f64) -> Option<Memory> {
    let readings: Vec<Memory> = all.iter().filter_map(|o| o.fullest).collect();
    let sum = |of: &dyn Fn(&Memory) -> u64| Bytes((readings.iter().map(of).sum::<u64>() as f64 * part) as u64);
    let at = readings.iter().map(|m| m.at).max()?;
    Some(Memory { at, anonymous: sum(&|m| m.anonymous.0), huge: sum(&|m| m.huge.0) })
}

fn losses(all: &[&Observed]) -> Vec<Loss> {
    let mut out: BTreeMap<&str, Loss> = BTreeMap::new();
    for loss in all.iter().flat_map(|o| &o.losses) {
        out.entry(&loss.kind).and_modify(|l| l.add(loss.count, &loss.note)).or_insert_with(|| loss.clone());
    }
    out.into_values().collect()
}

fn declared(all: &[&Observed], renamed: &[HashMap<SiteId, SiteId>]) -> Vec<(SiteId, SiteId)> {
    let each = all
        .iter()
        .zip(renamed)
        .flat_map(|(o, to)| o.declared.iter().map(|(phase, site)| (*phase, *to.get(site).unwrap_or(site))));
    each.collect::<BTreeSet<_>>().into_iter().collect()
}

fn touches(all: &[&Observed], renamed: &[HashMap<SiteId, SiteId>]) -> Vec<Touch> {
    let mut out: Vec<Touch> = Vec::new();
    let mut places: HashMap<(Option<SiteId>, String, String), usize> = HashMap::new();
    for (o, to) in all.iter().zip(renamed) {
        for touch in &o.touches {
            let site = touch.site.map(|id| *to.get(&id).unwrap_or(&id));
            let place = places.entry((site, touch.function.clone(), touch.module.clone())).or_insert(out.len());
            match out.get_mut(*place) {
                None => out.push(Touch { site, ..touch.clone() }),
                Some(there) => {
                    let sum = |t: &Touch| t.latency.unwrap_or(0.0) * t.timed as f64;
                    let timed = there.timed + touch.timed;
                    there.latency = (timed > 0).then(|| (sum(there) + sum(touch)) / timed as f64);
                    there.timed = timed;
                    there.loads += touch.loads;
                    there.stores += touch.stores;
                    there.misses += touch.misses;
                }
            }
        }
    }
    out.sort_by_key(|t| std::cmp::Reverse(t.loads + t.stores));
    out
}

/// The timelines on common intervals. `part`: how much of each run counts.
fn timeline(
    all: &[&Observed],
    renamed: &[HashMap<SiteId, SiteId>],
    clocks: &[Clock],
    duration: Nanos,
    part: f64,
) -> Vec<TimePoint> {
    let count = all.iter().map(|o| o.timeline.len()).max().unwrap_or(0).min(INTERVALS);
    let step = (duration.0 as f64 / count.max(1) as f64).max(1.0);
    let mut sums = vec![[const { BTreeMap::<SiteId, f64>::new() }; 3]; count];
    for ((o, to), clock) in all.iter().zip(renamed).zip(clocks) {
        // Where a moment of the run lies, in intervals.
        let place = |at: Nanos| clock.at(at) / step;
        let mut add = |n: usize, what: usize, site: &SiteId, by: f64| {
            *sums[n][what].entry(*to.get(site).unwrap_or(site)).or_default() += by * part;
        };
        for n in 0..count {
            // What is alive in the middle of an interval.
            let over = n as f64 + 0.5 >= place(o.duration);
            let Some(now) = o.timeline.iter().rev().find(|p| !over && place(p.at) <= n as f64 + 0.5) else { continue };
            now.live.iter().for_each(|(s, b)| add(n, 0, s, b.0 as f64));
            now.resident.iter().for_each(|(s, b)| add(n, 1, s, b.0 as f64));
        }
        for (i, point) in o.timeline.iter().enumerate() {
            let end = o.timeline.get(i + 1).map_or(o.duration, |next| next.at);
            let (from, till) = (place(point.at), place(end).min(count as f64));
            if till <= from {
                // One that is none on this clock is all where it begins.
                point.misses.iter().for_each(|(s, m)| add((from as usize).min(count - 1), 2, s, *m));
                continue;
            }
            for n in from as usize..(till.ceil() as usize).min(count) {
                let inside = (till.min((n + 1) as f64) - from.max(n as f64)).max(0.0) / (till - from);
                point.misses.iter().for_each(|(s, m)| add(n, 2, s, m * inside));
            }
        }
    }
    let bytes = |of: &BTreeMap<SiteId, f64>| of.iter().map(|(s, b)| (*s, Bytes(*b as u64))).collect();
    let point = |(n, [live, resident, misses]): (usize, &[BTreeMap<SiteId, f64>; 3])| TimePoint {
        at: Nanos((n as f64 * step) as u64),
        live: bytes(live),
        misses: misses.iter().map(|(s, m)| (*s, *m)).collect(),
        resident: bytes(resident),
        huge: Bytes(0),
    };
    sums.iter().enumerate().map(point).collect()
}

/// What a profile says of a run whose sizes another profile has, one without access samples from the run's first minutes if need be:
/// each site has so many misses for each byte as in `rates`, and so many bytes as in `sizes`. Sites are named as in `sizes`.
///
/// # Errors
/// If `rates` has no access samples, or the two have no site in common.
pub fn resized(rates: &Observed, sizes: &Observed) -> Result<(Observed, Vec<String>), Error> {
    crate::cost::demand::require_samples(rates)?;
    let alike = apart::alike(&[rates, sizes], same);
    let (rates, sizes) = (&*alike[0], &*alike[1]);
    let (to, count) = matched(&rates.sites, sizes);
    let mut notes: Vec<String> = count.note("the run with the sizes").into_iter().collect();
    let mut by: HashMap<SiteId, (SiteId, f64)> = HashMap::new();
    let mut sites: Vec<SiteUse> = Vec::new();
    let known: HashMap<SiteId, &SiteUse> = rates.sites.iter().map(|s| (s.site.id, s)).collect();
    for large in &sizes.sites {
        let Some(&small) = known.get(&to[&large.site.id]) else {
            // Nothing is known of its misses.
            let (load_misses, store_misses, samples) = (0.0, 0.0, 0);
            sites.push(SiteUse { load_misses, store_misses, samples, ..large.clone() });
            continue;
        };
        // Of a static variable what is used of it, if that was seen.
        let used = |s: &SiteUse| SizeBy::Peak.of(s).0;
        let (much, little) = if used(small) > 0 { (used(large), used(small)) } else { (large.peak.0, small.peak.0) };
        let ratio = much as f64 / little.max(1) as f64;
        by.insert(small.site.id, (large.site.id, ratio));
        let (load_misses, store_misses) = (small.load_misses * ratio, small.store_misses * ratio);
        let (pattern, samples, miss_latency, lines) = (small.pattern, small.samples, small.miss_latency, small.lines);
        // Where in it the misses are is known of the small one alone.
        let chunks = Vec::new();
        sites.push(SiteUse {
            load_misses,
            store_misses,
            pattern,
            samples,
            miss_latency,
            lines,
            chunks,
            nodes: small.nodes.clone(),
            ..large.clone()
        });
    }
    if by.is_empty() {
        return Err(Error::Strangers);
    }
    let absent = rates.sites.iter().filter(|s| !by.contains_key(&s.site.id));
    let (absent, share) = absent.fold((0, 0.0), |(n, m), s| (n + 1, m + s.misses()));
    if absent > 0 {
        let share = 100.0 * share / rates.total_misses().max(f64::MIN_POSITIVE);
        notes.push(format!(
            "{absent} of the profile's sites, with {share:.1}% of its misses, are not in the run with the sizes."
        ));
    }
    sites.sort_by(|a, b| b.misses().total_cmp(&a.misses()).then(a.site.id.cmp(&b.site.id)));
    let total: f64 = sites.iter().map(SiteUse::misses).sum();
    // It does as much more work as it has more misses.
    let longer = if rates.total_misses() > 0.0 { total / rates.total_misses() } else { 1.0 };
    let later = |t: Nanos, by: f64| Nanos((t.0 as f64 * by) as u64);
    let known = |all: &[(SiteId, Bytes)]| -> Vec<(SiteId, Bytes)> {
        all.iter().filter_map(|(s, b)| by.get(s).map(|(id, r)| (*id, Bytes((b.0 as f64 * r) as u64)))).collect()
    };
    let timeline = rates.timeline.iter().map(|p| TimePoint {
        at: later(p.at, longer),
        live: known(&p.live),
        misses: p.misses.iter().filter_map(|(s, m)| by.get(s).map(|(id, r)| (*id, m * r))).collect(),
        resident: known(&p.resident),
        huge: Bytes(0),
    });
    let duration = later(rates.duration, longer);
    let watched = rates.watched.map(|(from, to)| (later(from, longer), later(to, longer)));
    // Moments of the run with the sizes, which may be a part of one, on the clock of the timeline.
    let clock = duration.0 as f64 / sizes.duration.0.max(1) as f64;
    for site in &mut sites {
        (site.first_alloc, site.last_free) = (later(site.first_alloc, clock), later(site.last_free, clock));
        site.mean_lifetime = later(site.mean_lifetime, clock);
        site.total_lifetime = later(site.total_lifetime, clock);
        site.starts.clear();
        site.lives =
            site.lives.iter().map(|l| Life { from: later(l.from, clock), to: later(l.to, clock), ..*l }).collect();
    }
    let more = |r: Asked| Asked { load_misses: r.load_misses * longer, store_misses: r.store_misses * longer, ..r };
    let mut observed = Observed {
        duration,
        // Where its times and misses are from.
        platform: rates.platform.clone(),
        sampler: rates.sampler.clone(),
        sampler_error: rates.sampler_error.clone(),
        timeline: timeline.collect(),
        watched,
        unattributed: rates.unattributed,
        elsewhere: rates.elsewhere.clone(),
        rest: rates.rest.map(more),
        sites,
        // When regions begin (and sites allocate) is known of the run with the sizes, and what happens then of the other one.
        regions: Vec::new(),
        declared: Vec::new(),
        ..sizes.clone()
    };
    // How large the rest is the run with the sizes knows, whose readings are of other moments than the timeline's.
    observed.fullest = None;
    observed.most_anonymous = rest::size(sizes).map(|rest| observed.peak() + rest);
    Ok((observed, notes))
}
