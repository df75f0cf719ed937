//! Sums a profile up per site: reads the rows, lays objects on the run's timeline, estimates misses.

use crate::chunks::{self, ChunkHeat, ChunkRow, Large};
use crate::counted::{Counted, counted, counts};
use crate::estimate::{Burst, Exposure, PAGE, SiteEstimate, SiteSamples, Visit, estimate};
use crate::schema::LAB;
use crate::touches::touches;
use crate::writer::Cohort;
use model::observed::{self, Loss, Region, TimePoint};
use model::{
    Apart, Asked, Bytes, ChunkAt, Frame, Life, Lines, Module, Nanos, Observed, Pattern, PlannedTier, Site, SiteId,
    SiteKind, SiteUse, SourceLine,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Most intervals of the timeline, and the shortest one.
const MAX_INTERVALS: u64 = 300;
const MIN_INTERVAL_NS: u64 = 10_000_000;
/// Objects of a site whose lives are told one by one: a picture has no room for more.
const LIVES: usize = 32;
/// Objects of a site whose beginnings are told one by one: as many as there may be intervals.
const STARTS: usize = MAX_INTERVALS as usize;
/// The share of the misses up to which a site that is visited most counts as one that the cache holds.
const IN_CACHE: f64 = 0.01;

/// What the objects of a site add up to.
#[derive(Clone, Default)]
struct Memory {
    objects: u64,
    largest: u64,
    peak: u64,
    allocated: u64,
    first_alloc: u64,
    last_free: u64,
    total_lifetime: u64,
    /// Live bytes at the start of each interval.
    live: Vec<u64>,
    /// The objects with the most bytes x time, then size, allocation and free.
    lives: BinaryHeap<Reverse<(u128, u64, u64, u64)>>,
    /// When objects were allocated; empty: there are none, or more than [`STARTS`].
    starts: Vec<u64>,
    /// Bytes allocated by tier.
    placed: Vec<u64>,
}

impl Memory {
    /// Counts objects in that are told together.
    fn add(&mut self, tier: u8, c: &Cohort) {
        if self.objects == 0 {
            self.first_alloc = c.start_ns;
        }
        self.objects = self.objects.saturating_add(c.objects);
        self.largest = self.largest.max(c.largest);
        self.allocated = self.allocated.saturating_add(c.bytes);
        self.place(tier, c.bytes);
        self.first_alloc = self.first_alloc.min(c.start_ns);
        self.last_free = self.last_free.max(c.end_ns);
        self.total_lifetime = self.total_lifetime.saturating_add((c.lifetime_seconds * 1e9) as u64);
        self.peak = self.peak.max(c.peak);
    }

    /// Counts bytes in that were placed in a tier.
    fn place(&mut self, tier: u8, bytes: u64) {
        if self.placed.len() <= usize::from(tier) {
            self.placed.resize(usize::from(tier) + 1, 0);
        }
        self.placed[usize::from(tier)] = self.placed[usize::from(tier)].saturating_add(bytes);
    }

    fn lived(&mut self, size: u64, alloc: u64, free: u64) {
        // All are known so far.
        if self.starts.len() as u64 + 1 == self.objects {
            if self.starts.len() < STARTS { self.starts.push(alloc) } else { self.starts = Vec::new() }
        }
        let life = Reverse((u128::from(size) * u128::from(free - alloc), size, alloc, free));
        if self.lives.len() < LIVES {
            self.lives.push(life);
        } else if self.lives.peek().is_some_and(|least| life < *least) {
            self.lives.pop();
            self.lives.push(life);
        }
    }
}

/// All cohorts, with their site's row and tier.
fn cohorts(db: &Connection) -> Result<Vec<(i64, u8, Cohort)>> {
    let mut s = db.prepare(
        "SELECT site, tier, start_ns, end_ns, objects, bytes, largest, byte_seconds, page_seconds, lifetime_seconds, peak
         FROM churn ORDER BY start_ns",
    )?;
    let cohort = |r: &Row<'_>| -> Result<(i64, u8, Cohort)> {
        let cohort = Cohort {
            start_ns: unsigned(r, 2)?,
            end_ns: unsigned(r, 3)?,
            objects: unsigned(r, 4)?,
            bytes: unsigned(r, 5)?,
            largest: unsigned(r, 6)?,
            byte_seconds: r.get(7)?,
            page_seconds: r.get(8)?,
            lifetime_seconds: r.get(9)?,
            peak: unsigned(r, 10)?,
        };
        Ok((r.get(0)?, r.get(1)?, cohort))
    };
    s.query_map([], cohort)?.collect()
}

struct Gathered {
    duration: u64,
    interval: u64,
    sites: BTreeMap<i64, (Memory, SiteSamples)>,
    /// Chunks of large objects, by class and offset.
    chunks: HashMap<i64, Vec<ChunkRow>>,
    /// Samples, and those of them that hit no object.
    samples: u64,
    astray: u64,
    /// Misses, where the sampler sees them themselves.
    counted: Option<Counted>,
}

impl Gathered {
    /// A page of a site was armed.
    fn exposed(&mut self, site: i64, exposure: Exposure, object: Option<i64>, large: &Large) {
        let Some((_, samples)) = self.sites.get_mut(&site) else { return };
        let chunks = self.chunks.get(&site).map_or(&[][..], Vec::as_slice);
        if let Some(slice) = large.slice(chunks, object, exposure.page) {
            samples.slices[slice].exposures.push(samples.exposures.len());
        }
        samples.exposures.push(exposure);
    }
}

pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64> {
    row.get::<_, i64>(column).map(|v| v as u64)
}

pub(crate) fn bad(column: usize, what: String) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, what.into())
}

/// Reads objects of all sites, and what estimates are made of if that is asked for; else samples are only counted.
fn gather(db: &Connection, sampled: bool) -> Result<Gathered> {
    let mut duration: u64 = db.query_row("SELECT duration_ns FROM run", [], |r| unsigned(r, 0))?;
    let last: Option<i64> =
        db.query_row("SELECT max(max(alloc_ns), max(ifnull(free_ns, 0))) FROM object", [], |r| r.get(0))?;
    duration = duration.max(last.unwrap_or(0) as u64).max(1);
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    let cohorts = if version < 5 { Vec::new() } else { cohorts(db)? };
    duration = cohorts.iter().map(|(_, _, c)| c.end_ns).fold(duration, u64::max);
    let intervals = (duration / MIN_INTERVAL_NS).clamp(1, MAX_INTERVALS);
    let interval = duration.div_ceil(intervals);
    let intervals = intervals as usize;

    // The end of a process is the end of its objects.
    let mut ends: HashMap<i64, u64> = HashMap::new();
    let mut s = db.prepare("SELECT id, ifnull(end_ns, ?) FROM process")?;
    for row in s.query_map([duration as i64], |r| Ok((r.get(0)?, unsigned(r, 1)?)))? {
        let (process, end) = row?;
        ends.insert(process, end);
    }

    let mut sites: BTreeMap<i64, (Memory, SiteSamples)> = BTreeMap::new();
    let mut s = db.prepare("SELECT id FROM site")?;
    for id in s.query_map([], |r| r.get(0))? {
        sites.insert(id?, Default::default());
    }
    // Steps of the number of live bytes, per site, and of those of them that are of objects with rows of their own.
    let mut steps: HashMap<i64, Vec<(u64, i64, i64)>> = HashMap::new();
    let mut s = db.prepare("SELECT site, process, size, alloc_ns, free_ns, tier FROM object")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let (site, process): (i64, i64) = (r.get(0)?, r.get(1)?);
        let (size, alloc) = (unsigned(r, 2)?, unsigned(r, 3)?);
        let free = match r.get::<_, Option<i64>>(4)? {
            Some(t) => t as u64,
            None => ends.get(&process).copied().unwrap_or(duration),
        }
        .clamp(alloc, duration.max(alloc));
        let (memory, samples) = sites.entry(site).or_default();
        if memory.objects == 0 {
            memory.first_alloc = alloc;
        }
        memory.objects += 1;
        memory.largest = memory.largest.max(size);
        memory.allocated = memory.allocated.saturating_add(size);
        memory.lived(size, alloc, free);
        memory.place(r.get(5)?, size);
        memory.first_alloc = memory.first_alloc.min(alloc);
        memory.last_free = memory.last_free.max(free);
        memory.total_lifetime = memory.total_lifetime.saturating_add(free - alloc);
        if sampled {
            samples.page_seconds.resize(intervals, 0.0);
            spread(&mut samples.page_seconds, size.div_ceil(PAGE) as f64 / 1e9, alloc, free, interval);
        }
        let steps = steps.entry(site).or_default();
        steps.push((alloc, size as i64, size as i64));
        steps.push((free, -(size as i64), -(size as i64)));
    }
    for (site, tier, c) in &cohorts {
        let (memory, samples) = sites.entry(*site).or_default();
        memory.add(*tier, c);
        let (from, to, seconds) = (c.start_ns, c.end_ns, c.end_ns.saturating_sub(c.start_ns) as f64 / 1e9);
        if seconds > 0.0 {
            if sampled {
                samples.page_seconds.resize(intervals, 0.0);
                spread(&mut samples.page_seconds, c.page_seconds / seconds / 1e9, from, to, interval);
            }
            let alive = (c.byte_seconds / seconds) as i64;
            steps.entry(*site).or_default().extend([(from, alive, 0), (to, -alive, 0)]);
        }
    }
    for (site, mut steps) in steps {
        // At the same time frees come first: a realloc holds one object, not two.
        steps.sort_unstable();
        let Some((memory, _)) = sites.get_mut(&site) else { continue };
        memory.live = vec![0; intervals];
        let (mut live, mut own, mut at) = (0i64, 0i64, 0);
        for (time, step, own_step) in steps {
            while at < intervals && (at as u64).saturating_mul(interval) <= time {
                // An object allocated at the very start of an interval is alive at its start.
                if (at as u64).saturating_mul(interval) == time && step > 0 {
                    break;
                }
                memory.live[at] = live.max(0) as u64;
                at += 1;
            }
            live = live.saturating_add(step);
            // A moment at which others were alive is in their cohorts' peaks; here they count with their mean only.
            own = own.saturating_add(own_step);
            memory.peak = memory.peak.max(own.max(0) as u64);
        }
        // An object that lived for less than a tick of the clock was still there.
        memory.peak = memory.peak.max(memory.largest);
        memory.live[at.min(intervals)..].fill(live.max(0) as u64);
    }

    let chunks = chunks::read(db, duration)?;
    for (site, rows) in &chunks {
        if let Some((_, samples)) = sites.get_mut(site) {
            samples.slices = chunks::slices(rows);
        }
    }
    let sampler: String = db.query_row("SELECT sampler FROM run", [], |r| r.get(0))?;
    if counts(&sampler) {
        let counted = counted(db, &sampler, interval, intervals)?;
        let (samples, astray) = (counted.samples, counted.astray);
        return Ok(Gathered { duration, interval, sites, chunks, samples, astray, counted: Some(counted) });
    }
    let mut gathered = Gathered { duration, interval, sites, chunks, samples: 0, astray: 0, counted: None };
    if !sampled {
        (gathered.samples, gathered.astray) =
            db.query_row("SELECT count(*), count(*) - count(object) FROM visit", [], |r| {
                Ok((unsigned(r, 0)?, unsigned(r, 1)?))
            })?;
        return Ok(gathered);
    }
    let large = Large::read(db)?;
    let mut s = db.prepare(
        "SELECT site, process, addr, time_ns, wait_ns, store, burst_accesses, burst_stores, burst_lines,
         burst_monotonic, burst_limited, burst_stride, burst_ns, object FROM visit",
    )?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let burst = match r.get::<_, Option<u32>>(6)? {
            None => None,
            Some(accesses) => Some(Burst {
                accesses,
                stores: r.get(7)?,
                lines: r.get(8)?,
                monotonic: r.get(9)?,
                limited: r.get(10)?,
                stride: r.get(11)?,
                ns: unsigned(r, 12)?,
            }),
        };
        let exposure = Exposure {
            process: r.get(1)?,
            page: unsigned(r, 2)? & !(PAGE - 1),
            end_ns: unsigned(r, 3)?,
            wait_ns: unsigned(r, 4)?,
            visit: Some(Visit { store: r.get(5)?, burst }),
        };
        let object: Option<i64> = r.get(13)?;
        gathered.samples += 1;
        gathered.astray += u64::from(object.is_none());
        gathered.exposed(r.get(0)?, exposure, object, &large);
    }
    let mut s = db.prepare("SELECT site, process, page, time_ns, wait_ns, object FROM quiet")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let exposure = Exposure {
            process: r.get(1)?,
            page: unsigned(r, 2)?,
            end_ns: unsigned(r, 3)?,
            wait_ns: unsigned(r, 4)?,
            visit: None,
        };
        gathered.exposed(r.get(0)?, exposure, r.get(5)?, &large);
    }
    Ok(gathered)
}

/// Adds `weight` x time to every interval that `from..to` overlaps.
pub(crate) fn spread(intervals: &mut [f64], weight: f64, from: u64, to: u64, interval: u64) {
    let last = intervals.len() - 1;
    let (first, end) = ((from / interval) as usize, (to / interval) as usize);
    for (i, slot) in intervals.iter_mut().enumerate().take(end.min(last) + 1).skip(first.min(last)) {
        let start = (i as u64).saturating_mul(interval);
        let overlap = to.min(start.saturating_add(interval)).saturating_sub(from.max(start));
        *slot += weight * overlap as f64;
    }
}

/// Uses up the samples.
fn estimates(db: &Connection, gathered: &mut Gathered) -> Result<Vec<SiteEstimate>> {
    if let Some(counted) = &gathered.counted {
        return Ok(gathered.sites.keys().map(|s| counted.sites.get(s).cloned().unwrap_or_default()).collect());
    }
    let llc: u64 = db.query_row("SELECT llc FROM machine", [], |r| unsigned(r, 0))?;
    let samples: Vec<SiteSamples> = gathered.sites.values_mut().map(|(_, s)| std::mem::take(s)).collect();
    Ok(estimate(&samples, gathered.interval as f64 / 1e9, llc))
}

/// Fills the tables `estimate` and `heat`, and the heat of chunks where it is estimated.
pub(crate) fn store_estimates(db: &Connection) -> Result<()> {
    let mut gathered = gather(db, true)?;
    if gathered.samples == 0 {
        return Ok(());
    }
    let estimates = estimates(db, &mut gathered)?;
    let mut totals = db.prepare("INSERT OR REPLACE INTO estimate VALUES (?, ?, ?, ?, ?, ?)")?;
    let mut heat = db.prepare("INSERT OR REPLACE INTO heat VALUES (?, ?, ?)")?;
    for (site, e) in gathered.sites.keys().zip(&estimates) {
        let (pattern, stride) = pattern_text(e.pattern);
        totals.execute(params![site, e.load_misses, e.store_misses, pattern, stride, e.samples as i64])?;
        for (i, misses) in e.misses.iter().enumerate().filter(|(_, m)| **m > 0.0) {
            heat.execute(params![site, (i as u64).saturating_mul(gathered.interval) as i64, misses])?;
        }
    }
    if gathered.counted.is_none() {
        let of_site = |(site, e): (&i64, &SiteEstimate)| -> Vec<((i64, ChunkAt), ChunkHeat)> {
            let rows = gathered.chunks.get(site).into_iter().flatten();
            rows.zip(&e.slices).map(|(row, slice)| ((*site, row.at), slice.heat())).collect()
        };
        chunks::set_heat(db, &gathered.sites.keys().zip(&estimates).flat_map(of_site).collect())?;
    }
    Ok(())
}

fn pattern_text(p: Pattern) -> (&'static str, Option<i64>) {
    match p {
        Pattern::Unknown => ("unknown", None),
        Pattern::Stream { stride } => ("stream", Some(stride)),
        Pattern::Random => ("random", None),
        Pattern::Mixed => ("mixed", None),
    }
}

/// Reads the tables `estimate` and `heat`, if they were `stored`, or makes the estimates if the recorder did not get that far.
fn read_estimates(db: &Connection, gathered: &mut Gathered, stored: bool) -> Result<HashMap<i64, SiteEstimate>> {
    if !stored {
        let estimates = estimates(db, gathered)?;
        return Ok(gathered.sites.keys().copied().zip(estimates).collect());
    }
    let intervals = gathered.duration.div_ceil(gathered.interval) as usize;
    let mut out = HashMap::new();
    let mut s = db.prepare("SELECT site, load_misses, store_misses, pattern, stride, samples FROM estimate")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let text: String = r.get(3)?;
        let pattern = match text.as_str() {
            "unknown" => Pattern::Unknown,
            "stream" => Pattern::Stream { stride: r.get(4)? },
            "random" => Pattern::Random,
            "mixed" => Pattern::Mixed,
            _ => return Err(bad(3, format!("unknown pattern `{text}`"))),
        };
        let e = SiteEstimate {
            load_misses: r.get(1)?,
            store_misses: r.get(2)?,
            samples: unsigned(r, 5)?,
            pattern,
            misses: vec![0.0; intervals],
            slices: Vec::new(),
        };
        out.insert(r.get(0)?, e);
    }
    let mut s = db.prepare("SELECT site, start_ns, misses FROM heat")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let interval = (unsigned(r, 1)? / gathered.interval) as usize;
        if let Some(slot) = out.get_mut(&r.get(0)?).and_then(|e| e.misses.get_mut(interval)) {
            *slot += r.get::<_, f64>(2)?;
        }
    }
    Ok(out)
}

/// What is known about code, by the rows of modules.
struct Symbols {
    modules: HashMap<i64, Module>,
    /// By module and offset, innermost inlined function first.
    lines: HashMap<(i64, i64), Vec<SourceLine>>,
}

fn symbols(db: &Connection) -> Result<Symbols> {
    let mut modules: HashMap<i64, Module> = HashMap::new();
    let mut s = db.prepare("SELECT id, path, build_id FROM module")?;
    for row in s.query_map([], |r| Ok((r.get(0)?, Module { path: r.get(1)?, build_id: r.get(2)? })))? {
        let (id, module) = row?;
        modules.insert(id, module);
    }
    let mut lines: HashMap<(i64, i64), Vec<SourceLine>> = HashMap::new();
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    let column = if version < 11 { "0" } else { "column" };
    let all =
        format!("SELECT module, offset, function, file, line, {column} FROM symbol ORDER BY module, offset, level");
    let mut s = db.prepare(&all)?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let line = SourceLine { function: r.get(2)?, file: r.get(3)?, line: r.get(4)?, column: r.get(5)? };
        lines.entry((r.get(0)?, r.get(1)?)).or_default().push(line);
    }
    Ok(Symbols { modules, lines })
}

/// All call stacks, with source lines where there are symbols.
fn call_stacks(db: &Connection, Symbols { modules, lines }: &Symbols) -> Result<HashMap<i64, Site>> {
    let mut sites: HashMap<i64, Site> = HashMap::new();
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    let kind = if version < 3 { "'allocation'" } else { "kind" };
    let stack = if version < 8 { "NULL, 0" } else { "(SELECT name FROM site AS of WHERE of.id = site.stack), number" };
    let mut s = db.prepare(&format!("SELECT id, name, {kind}, {stack} FROM site"))?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let id: SiteId = r.get::<_, String>(1)?.parse().map_err(|e| bad(1, e))?;
        let kind: SiteKind = r.get::<_, String>(2)?.parse().map_err(|e| bad(2, e))?;
        let stack: Option<String> = r.get(3)?;
        let stack: Option<SiteId> = stack.map(|name| name.parse()).transpose().map_err(|e| bad(3, e))?;
        let number: u8 = r.get(4)?;
        let apart = stack.map(|stack| Apart { stack, number });
        sites.insert(r.get(0)?, Site { id, kind, apart, frames: Vec::new() });
    }
    let mut s = db.prepare("SELECT site, module, offset FROM frame ORDER BY site, position")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let (module, offset): (Option<i64>, i64) = (r.get(1)?, r.get(2)?);
        let source = module.and_then(|m| lines.get(&(m, offset)).cloned()).unwrap_or_default();
        let frame = Frame { module: module.and_then(|m| modules.get(&m).cloned()), offset: offset as u64, source };
        if let Some(site) = sites.get_mut(&r.get(0)?) {
            site.frames.push(frame);
        }
    }
    Ok(sites)
}

/// Where the pages of a site were, reading by reading.
#[derive(Default)]
struct Readings {
    /// Resident bytes, by time of the reading.
    resident: Vec<(u64, u64)>,
    /// The bytes by node of the last reading, and of that which found most resident.
    last: BTreeMap<i32, u64>,
    fullest: (u64, BTreeMap<i32, u64>),
}

impl Readings {
    /// Adds a part of a reading; those of one reading come one after the other.
    fn add(&mut self, time: u64, node: i32, bytes: u64) {
        if self.resident.last().is_none_or(|last| last.0 != time) {
            self.close();
            self.resident.push((time, 0));
        }
        *self.last.entry(node).or_default() += bytes;
        if let Some((_, resident)) = self.resident.last_mut().filter(|_| node >= 0) {
            *resident += bytes;
        }
    }

    /// The last reading is whole.
    fn close(&mut self) {
        let last = std::mem::take(&mut self.last);
        let present = self.resident.last().map_or(0, |r| r.1);
        if self.fullest.1.is_empty() || present > self.fullest.0 {
            self.fullest = (present, last);
        }
    }
}

/// All readings, by site.
fn readings(db: &Connection) -> Result<HashMap<i64, Readings>> {
    // Without an order of SQLite's making: they were written in that of time, and a long run has a million.
    let mut s = db.prepare("SELECT site, time_ns, node, bytes FROM residency")?;
    let mut out: HashMap<i64, Readings> = HashMap::new();
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        out.entry(r.get(0)?).or_default().add(unsigned(r, 1)?, r.get(2)?, unsigned(r, 3)?);
    }
    for readings in out.values_mut() {
        readings.close();
        readings.resident.sort_by_key(|r| r.0);
    }
    Ok(out)
}

/// The reading that found most anonymous memory resident, of all processes that were read at the same time.
fn fullest(db: &Connection) -> Result<Option<observed::Memory>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 4 {
        return Ok(None);
    }
    let sums = "SELECT time_ns, sum(anonymous) AS a, sum(huge) FROM memory GROUP BY time_ns ORDER BY a DESC LIMIT 1";
    let memory = |r: &Row<'_>| {
        Ok(observed::Memory {
            at: Nanos(unsigned(r, 0)?),
            anonymous: Bytes(unsigned(r, 1)?),
            huge: Bytes(unsigned(r, 2)?),
        })
    };
    db.query_row(sums, [], memory).optional()
}

/// Writes into the timeline how much lay on huge pages at the end of each interval: of each process what its last reading says.
fn tell_huge_pages(db: &Connection, timeline: &mut [TimePoint], interval: u64) -> Result<()> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 4 {
        return Ok(());
    }
    // An end is a reading that finds nothing, after any other of the same moment.
    let readings = "SELECT time_ns AS t, process, huge, 0 AS over FROM memory UNION ALL \
                    SELECT end_ns, id, 0, 1 FROM process WHERE end_ns IS NOT NULL ORDER BY t, over";
    let mut readings = db.prepare(readings)?;
    let readings = readings.query_map([], |r| Ok((unsigned(r, 0)?, r.get(1)?, unsigned(r, 2)?)))?;
    let mut readings = readings.collect::<Result<Vec<(u64, i64, u64)>>>()?.into_iter().peekable();
    let (mut of, mut sum) = (HashMap::new(), 0u64);
    for point in timeline {
        while let Some((_, process, huge)) = readings.next_if(|r| r.0 < point.at.0.saturating_add(interval)) {
            sum = sum.saturating_add(huge).saturating_sub(of.insert(process, huge).unwrap_or(0));
        }
        point.huge = Bytes(sum);
    }
    Ok(())
}

/// Most anonymous memory of one process that was resident at once, as the kernel told it at its end.
fn most_anonymous(db: &Connection) -> Result<Option<Bytes>> {
    let most = "SELECT max(value) FROM counter WHERE name = 'most_anonymous' AND value > 0";
    let most: Option<i64> = db.query_row(most, [], |r| r.get(0))?;
    Ok(most.map(|bytes| Bytes(bytes as u64)))
}

/// Mean latency of the loads of each site that a memory answered.
fn latency(db: &Connection) -> Result<HashMap<i64, f64>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 3 {
        return Ok(HashMap::new());
    }
    let mut s = db.prepare(
        "SELECT site, CAST(sum(latency_ns) AS REAL) / sum(timed) FROM source
         WHERE site IS NOT NULL AND timed > 0 AND source LIKE '%memory' GROUP BY site",
    )?;
    s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect()
}

/// What moved between each site (none: the rest) and memory, as far as the lab's sampler told it.
fn lines(db: &Connection) -> Result<HashMap<Option<i64>, Lines>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    let sampler: String = db.query_row("SELECT sampler FROM run", [], |r| r.get(0))?;
    if version < 7 || sampler != LAB {
        return Ok(HashMap::new());
    }
    // Before version 11 it was not told which misses were under way together.
    let alone = if version < 11 { "NULL" } else { "CAST(sum(alone_ns) AS REAL) / nullif(sum(lone_ns), 0)" };
    let mut s = db.prepare(&format!(
        "SELECT site, CAST(sum(ahead) AS REAL) / sum(loads + stores), CAST(sum(beside) AS REAL) / sum(load_weight + store_weight),
         CAST(sum(written) AS REAL) / sum(load_weight + store_weight), {alone} FROM miss
         GROUP BY site HAVING sum(loads + stores) > 0 AND sum(load_weight + store_weight) > 0",
    ))?;
    let row = |r: &rusqlite::Row<'_>| {
        let lines = Lines { ahead: r.get(1)?, beside: r.get(2)?, written: r.get(3)?, alone: r.get(4)? };
        Ok((r.get(0)?, lines))
    };
    s.query_map([], row)?.collect()
}

/// Beginnings of parallel regions, in order of time.
fn regions(db: &Connection, stacks: &HashMap<i64, Site>) -> Result<Vec<Region>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 9 {
        return Ok(Vec::new());
    }
    let mut s = db.prepare("SELECT site, number, start_ns FROM region ORDER BY start_ns")?;
    let mut out = Vec::new();
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        if let Some(s) = stacks.get(&r.get(0)?).filter(|s| !s.frames.is_empty()) {
            let (number, at) = (unsigned(r, 1)?, Nanos(unsigned(r, 2)?));
            out.push(Region { id: s.id, number, at, frames: s.frames.clone() });
        }
    }
    Ok(out)
}

/// What the program says that its phases use: what a phase begins with, and a site.
fn declared(db: &Connection, stacks: &HashMap<i64, Site>) -> Result<Vec<(SiteId, SiteId)>> {
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 10 {
        return Ok(Vec::new());
    }
    let mut s = db.prepare("SELECT phase, site FROM phase_use ORDER BY phase, site")?;
    let rows: Vec<(i64, i64)> = s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_>>()?;
    Ok(rows.iter().filter_map(|(phase, site)| Some((stacks.get(phase)?.id, stacks.get(site)?.id))).collect())
}

/// The whole profile, summed up.
pub(crate) fn observed(db: &Connection) -> Result<Observed> {
    let stored: bool = db.query_row("SELECT EXISTS (SELECT 1 FROM estimate)", [], |r| r.get(0))?;
    let mut gathered = gather(db, !stored)?;
    let estimates = read_estimates(db, &mut gathered, stored)?;
    let symbols = symbols(db)?;
    let mut stacks = call_stacks(db, &symbols)?;
    let names: HashMap<i64, SiteId> = stacks.iter().map(|(row, site)| (*row, site.id)).collect();
    let regions = regions(db, &stacks)?;
    let declared = declared(db, &stacks)?;
    let touches = touches(db, &symbols.modules, &symbols.lines, &names)?;
    let tiers: Option<String> =
        db.query_row("SELECT value FROM meta WHERE key = 'tiers'", [], |r| r.get(0)).optional()?;
    let tiers: Vec<PlannedTier> = match tiers {
        Some(text) => serde_json::from_str(&text).map_err(|e| bad(0, e.to_string()))?,
        None => Vec::new(),
    };
    let latency = latency(db)?;
    let lines = lines(db)?;
    let interval = gathered.interval;

    let intervals = gathered.duration.div_ceil(interval);
    let mut timeline: Vec<TimePoint> = (0..intervals)
        .map(|i| {
            let at = Nanos(i.saturating_mul(interval));
            TimePoint { at, live: vec![], misses: vec![], resident: vec![], huge: Bytes(0) }
        })
        .collect();
    tell_huge_pages(db, &mut timeline, interval)?;
    let mut readings = readings(db)?;
    let mut sites = Vec::new();
    for (row, (memory, _)) in &gathered.sites {
        let Some(site) = stacks.remove(row) else { continue };
        let e = estimates.get(row).cloned().unwrap_or_default();
        for (point, &bytes) in timeline.iter_mut().zip(&memory.live) {
            if bytes > 0 {
                point.live.push((site.id, Bytes(bytes)));
            }
        }
        let Readings { resident, fullest: (_, nodes), .. } = readings.remove(row).unwrap_or_default();
        let mut readings = resident.into_iter().peekable();
        let mut last = 0;
        for (point, &live) in timeline.iter_mut().zip(&memory.live) {
            while let Some((_, bytes)) = readings.next_if(|r| r.0 < point.at.0.saturating_add(interval)) {
                last = bytes;
            }
            // Between two readings a site may have freed all, or some.
            let bytes = last.min(live.next_multiple_of(PAGE));
            if bytes > 0 {
                point.resident.push((site.id, Bytes(bytes)));
            }
        }
        for (point, &misses) in timeline.iter_mut().zip(&e.misses) {
            if misses > 0.0 {
                point.misses.push((site.id, misses));
            }
        }
        if memory.objects == 0 {
            continue;
        }
        let nodes: Vec<(i32, Bytes)> = nodes.into_iter().map(|(node, bytes)| (node, Bytes(bytes))).collect();
        let mut lives: Vec<Life> = memory
            .lives
            .iter()
            .map(|Reverse((_, size, from, to))| Life { from: Nanos(*from), to: Nanos(*to), size: Bytes(*size) })
            .collect();
        lives.sort_by_key(|l| (l.from, l.to, l.size));
        // Objects that are told together have none.
        let known = memory.starts.len() as u64 == memory.objects;
        let mut starts: Vec<Nanos> = memory.starts.iter().filter(|_| known).map(|at| Nanos(*at)).collect();
        starts.sort_unstable();
        let placed = if tiers.is_empty() { &[] } else { &memory.placed[..] };
        let resident: Option<Bytes> =
            (!nodes.is_empty()).then(|| nodes.iter().filter(|(n, _)| *n >= 0).map(|(_, b)| *b).sum());
        sites.push(SiteUse {
            site,
            objects: memory.objects,
            largest: Bytes(memory.largest),
            peak: Bytes(memory.peak),
            allocated: Bytes(memory.allocated),
            // It was touched after the last reading, and nobody knows how much of it.
            resident: resident.filter(|r| r.0 > 0 || e.samples == 0),
            first_alloc: Nanos(memory.first_alloc),
            last_free: Nanos(memory.last_free),
            mean_lifetime: Nanos(memory.total_lifetime / memory.objects),
            total_lifetime: Nanos(memory.total_lifetime),
            load_misses: e.load_misses,
            store_misses: e.store_misses,
            samples: e.samples,
            pattern: e.pattern,
            miss_latency: latency.get(row).copied(),
            lines: lines.get(&Some(*row)).copied(),
            chunks: chunks::reported(gathered.chunks.get(row).map_or(&[], Vec::as_slice), &e.slices),
            lives,
            starts,
            nodes,
            placed: placed.iter().map(|&b| Bytes(b)).collect(),
        });
    }
    // Hottest first; without samples, largest first.
    sites.sort_by(|a, b| {
        b.misses()
            .total_cmp(&a.misses())
            .then(b.samples.cmp(&a.samples))
            .then(b.peak.cmp(&a.peak))
            .then(a.site.id.cmp(&b.site.id))
    });

    let platform: Option<String> = db.query_row("SELECT platform FROM machine", [], |r| r.get(0)).optional()?.flatten();
    let platform = platform.map(|p| serde_json::from_str(&p).map_err(|e| bad(0, e.to_string()))).transpose()?;
    let all =
        "SELECT kind, sum(count), note FROM loss GROUP BY kind, note HAVING sum(count) > 0 ORDER BY kind, min(process)";
    let mut s = db.prepare(all)?;
    let mut losses: Vec<Loss> = Vec::new();
    for loss in s.query_map([], |r| Ok(Loss { kind: r.get(0)?, count: unsigned(r, 1)?, note: r.get(2)? }))? {
        let loss = loss?;
        match losses.last_mut().filter(|last| last.kind == loss.kind) {
            Some(last) => last.add(loss.count, &loss.note),
            None => losses.push(loss),
        }
    }
    let sampler_error = match &gathered.counted {
        Some(counted) => counted.error(sites.first().map_or(0, |s| s.samples)),
        None => {
            let (llc, origin) = db.query_row("SELECT llc, llc_origin FROM machine", [], |r| {
                Ok((Bytes(unsigned(r, 0)?), r.get::<_, String>(1)?))
            })?;
            sampler_error(&sites, gathered.samples, llc, &origin)
        }
    };
    let rest = gathered.counted.as_ref().and_then(|c| c.rest.as_ref()).map(|e| Asked {
        load_misses: e.load_misses,
        store_misses: e.store_misses,
        pattern: e.pattern,
        lines: lines.get(&None).copied(),
    });
    let fullest = fullest(db)?;
    let most_anonymous = most_anonymous(db)?;
    db.query_row("SELECT command, started, outcome, threshold, sampler FROM run", [], |r| {
        let command: String = r.get(0)?;
        Ok(Observed {
            command: serde_json::from_str(&command).map_err(|e| bad(0, e.to_string()))?,
            started: unsigned(r, 1)?,
            duration: Nanos(gathered.duration),
            outcome: r.get(2)?,
            threshold: Bytes(unsigned(r, 3)?),
            sampler: r.get(4)?,
            sampler_error: sampler_error.clone(),
            processes: db.query_row("SELECT count(DISTINCT pid) FROM process", [], |r| unsigned(r, 0))?,
            platform: platform.clone(),
            sites: sites.clone(),
            unattributed: if gathered.samples == 0 { 0.0 } else { gathered.astray as f64 / gathered.samples as f64 },
            elsewhere: match &gathered.counted {
                Some(counted) => counted.elsewhere(),
                None => Vec::new(),
            },
            rest,
            timeline: timeline.clone(),
            watched: gathered.counted.as_ref().and_then(|c| c.watched).map(|(from, to)| (Nanos(from), Nanos(to))),
            fullest,
            most_anonymous,
            losses: Vec::clone(&losses),
            touches: touches.clone(),
            regions: regions.clone(),
            declared: declared.clone(),
            tiers: tiers.clone(),
        })
    })
}

/// What the estimates rest on, and how far off that alone leaves them.
fn sampler_error(sites: &[SiteUse], visits: u64, llc: Bytes, origin: &str) -> String {
    let Some(hottest) = sites.first().filter(|s| visits > 0 && s.samples > 0) else { return String::new() };
    // Visits are counts of independent armings: the relative error of n of them is 1 / sqrt(n).
    let mut said = format!(
        "estimated from {visits} page visits and a model of the last-level cache of {llc} ({origin}); the hottest site \
         rests on {} visits, which alone leaves an error of {:.0} %",
        hottest.samples,
        100.0 / (hottest.samples as f64).sqrt()
    );
    let misses: f64 = sites.iter().map(SiteUse::misses).sum();
    if let Some(most) = sites.iter().max_by_key(|s| s.samples).filter(|s| s.misses() <= IN_CACHE * misses) {
        said += &format!(
            "; most visits were to {}, which has room in that cache (--llc reckons with another size)",
            most.site.label()
        );
    }
    said
}
