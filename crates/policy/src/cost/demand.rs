//! What the program asks of memory, interval by interval, and what it computes meanwhile.
//!
//! A profile's timeline has the misses of each site in each interval; loads and stores are split as over the whole run. The
//! observed machine's memory time, by the same model and with the sites where they were seen, is taken off the interval's
//! length: the rest is compute time, which no placement changes. Where the sampler measured latencies, the load that is felt and the
//! site's waiting are such that they come out. On a machine whose buses were full while it was recorded this
//! takes waiting for computing, so profiles made on fast memory predict better.

use super::memory::Memory;
use super::step::{apart, together};
use super::{overlap, rest};
use crate::Error;
use model::{Asked, Observed, Pattern, Platform, SiteId, SiteUse};
use std::collections::HashMap;

/// What a site asks for in one interval, in lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Index of the site in the profile; the number of sites stands for the rest ([`super::rest`]).
    pub site: usize,
    /// Load misses that come one by one.
    pub random: f64,
    /// Load misses that the prefetcher fetches ahead.
    pub stream: f64,
    /// Store misses: the line is read.
    pub stores: f64,
    /// Lines that were read beside all misses: they take the bus, and nobody waits for them.
    pub beside: f64,
    /// Lines written back. Where the sampler does not tell, each line that a store missed.
    pub written: f64,
    /// Share of the latency of `random` that is waited for, where the sampler told it: else it goes by the interval's overlap.
    pub alone: Option<f64>,
    /// What each of `random` waits for behind other lines, in times of the bus for a line: by so much it was measured to take longer than the load lets expect.
    pub queued: f64,
    /// Factor on waiting, see [`overlap::split`].
    pub scale: f64,
}

impl Use {
    /// So many misses of a site, split as over the whole run.
    pub fn of(site: usize, asked: &Asked, misses: f64) -> Use {
        let all = asked.misses();
        let share = if all > 0.0 { asked.store_misses / all } else { 0.0 };
        let (loads, stores) = (misses * (1.0 - share), misses * share);
        let streaming = asked.lines.map_or_else(|| streaming(asked.pattern), |lines| lines.ahead.clamp(0.0, 1.0));
        let (beside, written) = asked.lines.map_or((0.0, stores), |l| (misses * l.beside, misses * l.written));
        let alone = asked.lines.and_then(|lines| lines.alone).map(|alone| alone.clamp(0.0, 1.0));
        let (random, stream) = (loads * (1.0 - streaming), loads * streaming);
        Use { site, random, stream, stores, beside, written, alone, queued: 0.0, scale: 1.0 }
    }

    /// Lines that accesses missed.
    pub fn misses(&self) -> f64 {
        self.random + self.stream + self.stores
    }

    /// Lines read: a store reads its line first.
    pub fn lines(&self) -> f64 {
        self.misses() + self.beside
    }
}

/// One interval.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Its length when it was observed, in ns.
    pub length: f64,
    /// Time without waiting for memory, in ns.
    pub compute: f64,
    /// Random misses that wait together.
    pub overlap: f64,
    /// How loaded a bus seems to those who wait for it, of how loaded it is (0 to 1): less than 1 where measured latencies say so, since
    /// bursts are short beside the time in which memory becomes slow.
    pub felt: f64,
    /// What sites ask for (only those that do).
    pub uses: Vec<Use>,
}

/// The whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Number of sites of the profile.
    pub sites: usize,
    /// Intervals, in order.
    pub intervals: Vec<Interval>,
}

/// Share of a site's loads that come in order.
fn streaming(pattern: Pattern) -> f64 {
    match pattern {
        Pattern::Stream { .. } => 1.0,
        Pattern::Random => 0.0,
        Pattern::Mixed | Pattern::Unknown => 0.5,
    }
}

/// True if there are access samples, be it of memory that no site has, or misses are known in another way.
pub fn sampled(observed: &Observed) -> bool {
    let elsewhere = observed.unattributed > 0.0 || observed.rest.as_ref().is_some_and(|rest| rest.misses() > 0.0);
    let samples = elsewhere || observed.sites.iter().any(|s| s.samples > 0);
    observed.sampler != "none" && samples || observed.total_misses() > 0.0
}

/// Refuses a profile without access samples: whatever is made of it would look like a decision.
///
/// # Errors
/// If it has none.
pub fn require_samples(observed: &Observed) -> Result<(), Error> {
    match sampled(observed) {
        true => Ok(()),
        false => Err(Error::NoSamples { sampler: observed.sampler.clone() }),
    }
}

impl Demand {
    /// The demand of a profile; says what it had to assume.
    ///
    /// # Errors
    /// If it has no access samples.
    pub fn of(observed: &Observed, notes: &mut Vec<String>) -> Result<Demand, Error> {
        require_samples(observed)?;
        let (mut intervals, unseen) = lengths(observed);
        let known = misses(observed, &mut intervals);
        for (site, seen) in observed.sites.iter().enumerate().filter(|(_, s)| s.misses() > 0.0) {
            // Where the timeline does not say when, they are spread evenly over the site's life.
            if known[site] <= 0.0 {
                spread(site, seen, observed.watched.map_or(0, |w| w.0.0), &mut intervals);
            }
        }
        rest::add(observed, observed.sites.len(), &mut intervals, notes);
        intervals.extend(unseen);
        let machine = Machine::of(observed, notes);
        for interval in &mut intervals {
            machine.take_off(interval);
        }
        Ok(Demand { sites: observed.sites.len(), intervals })
    }
}

/// The intervals of the timeline, still empty; one for the whole run if it has none. And one for what the sampler could not see of the
/// run, as if nothing was accessed then: whatever that is, a placement is not seen to change it.
fn lengths(observed: &Observed) -> (Vec<Interval>, Option<Interval>) {
    let empty =
        |length: u64| Interval { length: length as f64, compute: 0.0, overlap: 1.0, felt: 1.0, uses: Vec::new() };
    let starts = observed.timeline.iter().map(|p| p.at.0);
    let ends = starts.clone().skip(1).chain([observed.duration.0]);
    let (from, to) = observed.watched.map_or((0, u64::MAX), |(from, to)| (from.0, to.0));
    let seen = |start: u64, end: u64| end.min(to).saturating_sub(start.max(from));
    let mut all: Vec<Interval> = starts.zip(ends).map(|(start, end)| empty(seen(start, end))).collect();
    if all.is_empty() {
        all.push(empty(seen(0, observed.duration.0)));
    }
    let unseen = observed.duration.0 as f64 - all.iter().map(|i| i.length).sum::<f64>();
    (all, (unseen > 0.0).then(|| empty(unseen as u64)))
}

/// Fills in what the timeline says; gives the misses of each site that it knows. A site's sum over the timeline is made that of
/// the whole run.
fn misses(observed: &Observed, intervals: &mut [Interval]) -> Vec<f64> {
    let index: HashMap<SiteId, usize> = observed.sites.iter().enumerate().map(|(i, s)| (s.site.id, i)).collect();
    let mut known = vec![0.0; observed.sites.len()];
    for point in &observed.timeline {
        for (id, misses) in &point.misses {
            if let Some(&site) = index.get(id) {
                known[site] += misses;
            }
        }
    }
    for (point, interval) in observed.timeline.iter().zip(intervals) {
        for (id, misses) in &point.misses {
            let Some(&site) = index.get(id) else { continue };
            let seen = &observed.sites[site];
            if *misses > 0.0 && seen.misses() > 0.0 {
                interval.uses.push(Use::of(site, &seen.asked(), misses * seen.misses() / known[site]));
            }
        }
    }
    known
}

/// Spreads a site's misses over its life in intervals that begin at a time of the run.
fn spread(site: usize, seen: &SiteUse, begin: u64, intervals: &mut [Interval]) {
    let (from, to) = (seen.first_alloc.0 as f64, seen.last_free.0 as f64);
    let mut at = begin as f64;
    let overlap = |at: f64, length: f64| ((at + length).min(to) - at.max(from)).max(0.0);
    let mut parts = Vec::with_capacity(intervals.len());
    for interval in intervals.iter() {
        parts.push(overlap(at, interval.length));
        at += interval.length;
    }
    let all: f64 = parts.iter().sum();
    for (i, interval) in intervals.iter_mut().enumerate() {
        let share = if all > 0.0 { parts[i] / all } else { f64::from(u8::from(i == 0)) };
        if share > 0.0 {
            interval.uses.push(Use::of(site, &seen.asked(), seen.misses() * share));
        }
    }
}

/// The machine that was observed, and where the sites were on it.
pub(super) struct Machine {
    pub memories: Vec<Memory>,
    /// For each site and the rest its share in each of them.
    pub shares: Vec<Vec<f64>>,
    /// The latency of each site's (and the rest's) lone misses, in ns, where the sampler measured it: that of a stream is of lines under way.
    pub measured: Vec<Option<f64>>,
}

impl Machine {
    fn of(observed: &Observed, notes: &mut Vec<String>) -> Machine {
        let mut said = Vec::new();
        let tiers = observed.platform.as_ref().map_or(&[][..], |p: &Platform| &p.tiers);
        let memories: Vec<Memory> = if tiers.is_empty() {
            said.push("the profile does not say its machine's memories".to_string());
            vec![Memory::of(&unknown(), &mut Vec::new())]
        } else {
            tiers.iter().map(|t| Memory::of(t, &mut said)).collect()
        };
        if !said.is_empty() {
            notes.push(format!(
                "on the machine that was recorded, {}; so how long it computes is only roughly known; `hearth platform --measure` before recording mends it",
                said.iter().map(|s| s.split(" (give").next().unwrap_or(s)).collect::<Vec<_>>().join(", and ")
            ));
        }
        // Of the rest it is not known: in the first.
        let first = (0..memories.len()).map(|k| f64::from(u8::from(k == 0))).collect();
        let shares = observed.sites.iter().map(|s| located(s, tiers, memories.len())).chain([first]).collect();
        let lone = |s: &SiteUse| s.miss_latency.filter(|_| s.pattern == Pattern::Random);
        Machine { memories, shares, measured: observed.sites.iter().map(lone).chain([None]).collect() }
    }

    /// Takes the memory's time off an interval's length: what is left is computed.
    pub(super) fn take_off(&self, interval: &mut Interval) {
        let count = self.memories.len();
        let (mut reads, mut writes) = (vec![0.0; count], vec![0.0; count]);
        for u in &interval.uses {
            for (k, share) in self.shares[u.site].iter().enumerate() {
                reads[k] += share * u.lines();
                writes[k] += share * u.written;
            }
        }
        let busy: Vec<f64> =
            self.memories.iter().zip(reads.iter().zip(&writes)).map(|(m, (r, w))| m.busy(*r, *w)).collect();
        let load = |busy: f64| if interval.length > 0.0 { busy / interval.length } else { 0.0 };
        let at = |felt: f64| -> Vec<f64> {
            self.memories.iter().zip(&busy).map(|(m, b)| m.latency(felt * load(*b))).collect()
        };
        let waits = |u: &Use, latency: &[f64]| -> f64 {
            self.shares[u.site].iter().zip(latency).map(|(share, l)| share * l).sum()
        };
        let known = || interval.uses.iter().filter_map(|u| Some((u, self.measured[u.site]?)));
        // What was measured is less than what the load lets expect: so much less load was felt.
        let measured: f64 = known().map(|(u, latency)| u.random * latency).sum();
        let less = |felt: f64| {
            let latency = at(felt);
            measured < known().map(|(u, _)| u.random * waits(u, &latency)).sum()
        };
        interval.felt = if less(1.0) { halved(less) } else { 1.0 };
        let latency = at(interval.felt);
        let (mut random, mut other, mut misses, mut ahead) = (0.0, 0.0, 0.0, 0.0);
        for u in &mut interval.uses {
            let mut modelled = waits(u, &latency);
            if let Some(measured) = self.measured[u.site].filter(|_| modelled > 0.0) {
                let line: f64 =
                    self.shares[u.site].iter().zip(&self.memories).map(|(share, m)| share * m.per_line().0).sum();
                if measured > modelled && line > 0.0 {
                    // Misses come in bursts, one behind the other: what they wait for beyond the latency goes by the bus, wherever the site lies.
                    u.queued = (measured - modelled) / line;
                    modelled = measured;
                } else {
                    u.scale = measured / modelled;
                }
            }
            ahead += u.ahead() * waits(u, &latency);
            match u.alone {
                Some(alone) => other += u.scale * u.random * alone * modelled,
                None => {
                    random += u.scale * u.random * modelled;
                    misses += u.random;
                }
            }
        }
        // Several threads wait at once, or there are fewer misses than are estimated.
        let least = together(random / overlap::of(misses, 0.0) + other, ahead);
        let fits = if least > interval.length { interval.length / least } else { 1.0 };
        let length = apart(interval.length, together(fits * ahead, busy.into_iter().fold(0.0, together)));
        let split = overlap::split(length, fits * random, fits * other, misses);
        (interval.compute, interval.overlap) = (split.compute, split.overlap);
        for u in &mut interval.uses {
            u.scale *= fits * split.scale;
        }
    }
}

/// The least of 0 to 1 from which on something is true, to a thousandth.
fn halved(is: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..10 {
        let middle = (low + high) / 2.0;
        if is(middle) { high = middle } else { low = middle }
    }
    if is(0.0) { 0.0 } else { high }
}

/// A memory of which nothing is known.
fn unknown() -> model::Tier {
    use model::{Figure, Origin, Tier, TierKind};
    Tier {
        name: "memory".to_string(),
        kind: Figure::new(TierKind::Dram, Origin::Predicted),
        nodes: vec![],
        dir: None,
        capacity: None,
        free: None,
        latency: None,
        loaded_latency: None,
        loaded_bandwidth: None,
        read_bandwidth: None,
        write_bandwidth: None,
        mixed_bandwidth: None,
        coefficients: None,
        near_cpus: String::new(),
    }
}

/// Share of a site in each memory of the observed machine, by the nodes of its pages; all in the first where they were not read.
fn located(site: &SiteUse, tiers: &[model::Tier], count: usize) -> Vec<f64> {
    let on = |tier: &model::Tier| -> f64 {
        site.nodes
            .iter()
            .filter(|(n, _)| u32::try_from(*n).is_ok_and(|n| tier.nodes.contains(&n)))
            .map(|n| n.1.0 as f64)
            .sum()
    };
    let bytes: Vec<f64> = tiers.iter().map(on).collect();
    let all: f64 = bytes.iter().sum();
    if all > 0.0 {
        bytes.iter().map(|b| b / all).collect()
    } else {
        (0..count).map(|k| f64::from(u8::from(k == 0))).collect()
    }
}
