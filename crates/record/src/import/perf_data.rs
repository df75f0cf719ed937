//! `perf.data`: the file of `perf record`, as documented in `tools/perf/Documentation/perf.data-file-format.txt` of Linux.
//!
//! It knows addresses, processes and times, but no objects. Those are in the profile of the same run, recorded without a
//! sampler; times are of one clock if perf was told to use it (`-k CLOCK_MONOTONIC`). So its samples go the way of all others:
//! objects and samples are put in the order of their times, and each address is looked up among what is alive.

use crate::Error;
use crate::follow::Object;
use crate::live::Live;
use crate::misses::{Miss, Misses, Place};
use crate::perf::events::{Event, Every, Role};
use crate::perf::record::{Format, HEADER, Record, parse, u64_at};
use crate::perf::{Clock, miss_of};
use model::{ChunkAt, SiteId, SiteKind};
use perf_event_open_sys::bindings as sys;
use profile::{Amend, ChunkHeat, Life, MissRow, PERF_DATA, ProcessLife, SourceRow};
use std::collections::HashMap;
use std::path::Path;

/// The first bytes.
pub const MAGIC: &[u8] = b"PERFILE2";
/// The feature "event description": names of events.
const EVENT_DESC: u32 = 12;
/// Records that perf itself makes.
const COMPRESSED: u32 = 81;
const COMPRESSED2: u32 = 83;
const AUXTRACE: u32 = 71;
/// Where in `perf_event_attr` its bits are, and of these the ones that matter.
const FLAGS: usize = 40;
const FREQ: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// What a file says about accesses.
#[derive(Debug, Default)]
pub struct Samples {
    /// Process, and access at a time of the file's clock; in the order of time.
    pub accesses: Vec<(u32, Miss)>,
    /// Names of the events.
    pub events: Vec<String>,
    /// The clock is the one of profiles.
    pub monotonic: bool,
    /// Records that perf lost.
    pub lost: u64,
    /// Records that made no sense, or samples of what is no access.
    pub left_out: u64,
}

/// What came of an import.
#[derive(Debug, PartialEq, Eq)]
pub struct Imported {
    /// Samples in processes of the profile.
    pub samples: u64,
    /// Of them on an object.
    pub on_objects: u64,
    /// Samples of other processes, or from before and after the run.
    pub strangers: u64,
}

/// An event of the file.
struct Described {
    event: Event,
    format: Format,
    period: u64,
}

/// Reads the file. `clock` turns cycles into ns.
pub fn parse_file(bytes: &[u8], clock: Clock) -> Result<Samples, String> {
    let word = |at: usize| u64_at(bytes, at).and_then(|w| usize::try_from(w).ok()).ok_or("it is cut off in its header");
    let within = |start: usize, size: usize| start.checked_add(size).and_then(|end| bytes.get(start..end));
    if !bytes.starts_with(MAGIC) || word(8)? < 104 {
        return Err("it was written to a pipe or by a perf before 3.0; use `perf record -o FILE`".into());
    }
    let (entry, attrs, attrs_size) = (word(16)?, word(24)?, word(32)?);
    let (data, data_size) = (word(40)?, word(48)?);
    let body = within(data, data_size).filter(|b| !b.is_empty());
    let body = body.ok_or("it is cut off, or perf was killed before it could finish it")?;
    let table = within(attrs, attrs_size).filter(|_| entry >= 64 + 16).ok_or("its table of events is cut off")?;

    let names = names(bytes, data.saturating_add(data_size)).unwrap_or_default();
    let mut described = Vec::new();
    let mut ids: HashMap<u64, usize> = HashMap::new();
    let mut monotonic = true;
    for (place, attr) in table.chunks_exact(entry).enumerate() {
        let (d, of_profiles) =
            describe(attr, names.get(place).map_or("", String::as_str)).ok_or("an event is cut off")?;
        monotonic &= of_profiles;
        described.push(d);
        let at = |n: usize| u64_at(attr, entry - 16 + 8 * n).and_then(|w| usize::try_from(w).ok()).unwrap_or(0);
        for id in within(at(0), at(1)).unwrap_or_default().chunks_exact(8) {
            ids.insert(u64_at(id, 0).unwrap_or(0), place);
        }
    }
    // Where misses are counted by an event of their own, slow loads only tell how slow.
    if described.iter().any(|d| d.event.role == Role::LoadMiss) {
        for d in described.iter_mut().filter(|d| d.event.role == Role::Any) {
            d.event.role = Role::Latency;
        }
    }

    let mut out =
        Samples { events: described.iter().map(|d| d.event.name.clone()).collect(), monotonic, ..Samples::default() };
    let first = described.first().ok_or("it has no events")?.format;
    let mut rest = body;
    while let Some(header) = rest.get(..HEADER) {
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        let Some(record) = rest.get(HEADER..size.max(HEADER)).filter(|_| size >= HEADER) else {
            return Err("a record is cut off; perf was probably killed".into());
        };
        rest = &rest[size..];
        match kind {
            COMPRESSED | COMPRESSED2 => return Err("its records are compressed; record without -z".into()),
            // Followed by packets of the processor, whose length is its first word.
            AUXTRACE => {
                let length = u64_at(record, 0).and_then(|l| usize::try_from(l).ok()).unwrap_or(usize::MAX);
                rest = rest.get(length..).unwrap_or_default();
                out.left_out += 1;
            }
            _ => {
                let place = match (described.len(), first.id_of(kind, record)) {
                    (1, _) => Some(0),
                    (_, Some(id)) => ids.get(&id).copied(),
                    _ => None,
                };
                let Some(d) = place.and_then(|p| described.get(p)) else {
                    out.left_out += u64::from(kind == sys::PERF_RECORD_SAMPLE);
                    continue;
                };
                match parse(kind, record, &d.format) {
                    Some(Record::Sample(mut s)) => {
                        if s.period == 0 {
                            s.period = d.period;
                        }
                        match miss_of(&d.event, &s, clock) {
                            Some(access) => out.accesses.push(access),
                            None => out.left_out += 1,
                        }
                    }
                    Some(Record::Lost(n)) => out.lost += n,
                    Some(_) => {}
                    None => out.left_out += 1,
                }
            }
        }
    }
    out.accesses.sort_by_key(|(_, miss)| miss.time_ns);
    Ok(out)
}

/// An event out of its `perf_event_attr`, and whether its clock is the one of profiles.
fn describe(attr: &[u8], name: &str) -> Option<(Described, bool)> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(attr.get(at..at + 4)?.try_into().ok()?));
    let (kind, config, period) = (u32_at(0)?, u64_at(attr, 8)?, u64_at(attr, 16)?);
    let flags = u64_at(attr, FLAGS)?;
    let later = |at: usize| u64_at(attr, at).unwrap_or(0);
    let format = Format {
        sample_type: u64_at(attr, 24)?,
        read_format: u64_at(attr, 32)?,
        branch_sample_type: later(72),
        regs_user: later(80),
        regs_intr: later(96),
        id_all: flags & SAMPLE_ID_ALL != 0,
    };
    let monotonic = flags & USE_CLOCKID != 0 && later(92) as u32 == libc::CLOCK_MONOTONIC as u32;
    let lower = name.to_lowercase();
    let software = kind == sys::PERF_TYPE_SOFTWARE;
    // The numbers are those of crate::perf::events.
    let role = match config & 0xffff {
        0x2 | 0x5 | 0x6 if software => Role::FirstTouch,
        _ if lower.contains("ibs_op") && format.sample_type & u64::from(sys::PERF_SAMPLE_RAW) != 0 => Role::Ibs,
        0x20d1 | 0x80d1 if !software => Role::LoadMiss,
        _ if lower.contains("l3_miss") || lower.contains("dram_hit") => Role::LoadMiss,
        0x82d0 if !software => Role::Store,
        _ if lower.contains("stores") => Role::Store,
        _ => Role::Any,
    };
    // Without PERF_SAMPLE_PERIOD all samples have the same, unless a frequency was asked for: then nobody knows it.
    let period = if flags & FREQ != 0 { 1 } else { period };
    let name = if name.is_empty() { format!("event {kind}:{config:#x}") } else { name.to_string() };
    let event = Event {
        name,
        role,
        number: kind,
        config: [config, 0, 0, 0],
        precise: 0,
        every: Every::Events(period),
        leader: None,
        cpus: Vec::new(),
        user_only: false,
        no_guests: false,
    };
    Some((Described { event, format, period }, monotonic))
}

/// Names of the events, out of the feature that describes them. `None`: the file has none, or it is cut off.
fn names(bytes: &[u8], features: usize) -> Option<Vec<String>> {
    // One bit for each feature; their places stand in the order of the bits behind the data.
    let mut place = 0;
    for bit in 0..EVENT_DESC {
        place += (u64_at(bytes, 72 + 8 * (bit as usize / 64))? >> (bit % 64) & 1) as usize;
    }
    if u64_at(bytes, 72)? >> EVENT_DESC & 1 == 0 {
        return None;
    }
    let entry = features.checked_add(16 * place)?;
    let mut at = usize::try_from(u64_at(bytes, entry)?).ok()?;
    let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?) as usize);
    let (events, attr) = (u32_at(at)?, u32_at(at.checked_add(4)?)?);
    at = at.checked_add(8)?;
    let mut names = Vec::new();
    for _ in 0..events {
        at = at.checked_add(attr)?;
        let (ids, length) = (u32_at(at)?, u32_at(at.checked_add(4)?)?);
        at = at.checked_add(8)?;
        let text = bytes.get(at..at.checked_add(length)?)?;
        let text = text.split(|b| *b == 0).next().unwrap_or_default();
        names.push(String::from_utf8_lossy(text).into_owned());
        at = at.checked_add(length)?.checked_add(ids.checked_mul(8)?)?;
    }
    Some(names)
}

/// Puts the samples of this file into a profile. Errors: the file is not whole, or of another clock; it has no addresses; the
/// profile has samples already, or no process of its run is in the file. The profile stays as it was then.
pub fn into_profile(bytes: &[u8], file: &Path, profile: &Path, clock: Clock) -> Result<Imported, Error> {
    let fail = |why: &str| Error(format!("cannot import {}: {why}", file.display()));
    let samples = parse_file(bytes, clock).map_err(|why| fail(&why))?;
    if samples.accesses.is_empty() {
        return Err(fail("no sample in it has an address; record it with `perf record -d` or `perf mem record`"));
    }
    if !samples.monotonic {
        return Err(fail("its clock is not the profile's; record it with `perf record -k CLOCK_MONOTONIC`"));
    }
    let amend = Amend::open(profile, PERF_DATA)?;
    let processes = amend.processes()?;
    let mut of: HashMap<i64, Vec<Miss>> = HashMap::new();
    let mut strangers = 0;
    for (pid, miss) in &samples.accesses {
        let time_ns = miss.time_ns.checked_sub(amend.epoch_ns);
        match time_ns.and_then(|t| Some((t, image(&processes, *pid, t)?))) {
            Some((time_ns, row)) => of.entry(row).or_default().push(Miss { time_ns, ..*miss }),
            None => strangers += 1,
        }
    }
    if of.is_empty() {
        let why = format!("none of its samples is of a process of {}; both must be of one run", profile.display());
        return Err(fail(&why));
    }
    let mut imported = Imported { samples: 0, on_objects: 0, strangers };
    let mut found = Found::default();
    for process in &processes {
        let Some(samples) = of.get(&process.row) else { continue };
        imported.samples += samples.len() as u64;
        attribute(&amend, process, samples, &mut imported, &mut found)?;
    }
    let mut losses = Vec::new();
    if samples.lost > 0 {
        losses.push((
            "sample-dropped",
            samples.lost,
            "perf lost samples, because its reader could not keep up".to_string(),
        ));
    }
    if samples.left_out > 0 {
        let note = "samples of the file without an address of the program's, or not understood, were left out";
        losses.push(("sample-left-out", samples.left_out, note.to_string()));
    }
    let without = amend.without_rows()?;
    if without > 0 {
        let note = "objects of sites with many short-lived ones have no address in the profile; samples on them count as other memory";
        losses.push(("objects-summed", without, note.to_string()));
    }
    let how = format!("samples of perf ({})", samples.events.join(", "));
    amend.finish(PERF_DATA, &how, &found.misses, &found.sources, &found.chunks, &losses)?;
    Ok(imported)
}

/// The program image that had this process id at a time.
fn image(processes: &[ProcessLife], pid: u32, time_ns: u64) -> Option<i64> {
    let started = |p: &&ProcessLife| p.pid == pid && p.start_ns <= time_ns.saturating_add(crate::misses::TOLERANCE_NS);
    processes.iter().rev().find(started).map(|p| p.row)
}

/// What the samples come to.
#[derive(Default)]
struct Found {
    misses: Vec<MissRow>,
    sources: Vec<SourceRow>,
    /// By row of the site.
    chunks: HashMap<(i64, ChunkAt), ChunkHeat>,
}

/// Looks the samples of one process up among its objects.
fn attribute(
    amend: &Amend,
    process: &ProcessLife,
    samples: &[Miss],
    imported: &mut Imported,
    rows: &mut Found,
) -> Result<(), Error> {
    let lives = amend.lives(process.row)?;
    // What lay where that is no object is not known any more: it counts as other memory.
    let mut found = Misses::new();
    let (mut live, mut id) = (Live::default(), 0);
    let mut step = |found: &mut Misses, live: &mut Live, (time, life, addr): (u64, Life, u64)| {
        found.settle(time, live);
        // An address that is handed out again was freed.
        if let Some(gone) = live.remove(addr) {
            found.died(&gone, time);
        }
        if let Life::Born { size, site } = life {
            id += 1;
            let (site, kind) = (SiteId(site as u64), SiteKind::Allocation);
            live.insert(Object { id, addr, size, site, tier: 0, tid: 0, alloc_ns: time, realloc: false, kind });
        }
    };
    let mut lives = lives.into_iter().peekable();
    for sample in samples {
        while let Some(next) = lives.next_if(|l| l.0 <= sample.time_ns) {
            step(&mut found, &mut live, next);
        }
        found.miss(sample, &live);
    }
    // Objects that came just after the last samples.
    lives.for_each(|next| step(&mut found, &mut live, next));
    found.settle(u64::MAX, &live);
    let named = |place: Place| match place {
        Place::Site(site) => (place.name(), Some(site.0 as i64)),
        _ => (place.name(), None),
    };
    for (place, start_ns, c) in found.take(true) {
        let (place, site) = named(place);
        rows.misses.push(MissRow {
            written: 0,
            beside: 0,
            process: Some(process.row),
            site,
            place,
            start_ns,
            loads: c.loads,
            stores: c.stores,
            load_weight: c.load_weight,
            store_weight: c.store_weight,
            ahead: c.ahead,
            lone_ns: 0,
            alone_ns: 0,
            latency_ns: c.latency_ns,
        });
    }
    for (place, source, s) in found.take_sources() {
        let (place, site) = named(place);
        imported.on_objects += if site.is_some() { s.loads + s.stores } else { 0 };
        rows.sources.push(SourceRow {
            process: Some(process.row),
            site,
            place,
            source: source.name(),
            loads: s.loads,
            stores: s.stores,
            timed: s.timed,
            latency_ns: s.latency_ns,
        });
    }
    for (site, at, m) in found.take_chunks() {
        let heat = rows.chunks.entry((site.0 as i64, at)).or_default();
        heat.load_misses += m.load_weight as f64;
        heat.store_misses += m.store_weight as f64;
        heat.samples += m.samples;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::misses::Source;

    const CLOCK: Clock = Clock { mhz: Some(1000.0) };

    /// A file of these events (type, config, flags, sample type, name) and records, as perf lays it out.
    fn file(events: &[(u32, u64, u64, u64, &str)], records: &[u8]) -> Vec<u8> {
        const ATTR: usize = 128;
        let mut out = MAGIC.to_vec();
        let put = |out: &mut Vec<u8>, words: &[u64]| words.iter().for_each(|w| out.extend(w.to_le_bytes()));
        let attr = |e: &(u32, u64, u64, u64, &str)| {
            let mut a = vec![0; ATTR];
            a[..4].copy_from_slice(&e.0.to_le_bytes());
            a[4..8].copy_from_slice(&(ATTR as u32).to_le_bytes());
            for (at, word) in [(8, e.1), (16, 50), (24, e.3), (FLAGS, e.2), (92, 1)] {
                a[at..at + 8].copy_from_slice(&u64::to_le_bytes(word));
            }
            a
        };
        let (table, entry) = (104, ATTR + 16);
        let ids = table + events.len() * entry;
        let data = ids + 8 * events.len();
        put(
            &mut out,
            &[104, entry as u64, table as u64, (events.len() * entry) as u64, data as u64, records.len() as u64],
        );
        put(&mut out, &[0, 0, 1 << EVENT_DESC, 0, 0, 0]);
        for (n, event) in events.iter().enumerate() {
            out.extend(attr(event));
            put(&mut out, &[(ids + 8 * n) as u64, 8]);
        }
        (0..events.len()).for_each(|n| put(&mut out, &[100 + n as u64]));
        out.extend(records);
        let features = out.len() + 16;
        put(&mut out, &[features as u64, 0]);
        out.extend((events.len() as u32).to_le_bytes());
        out.extend((ATTR as u32).to_le_bytes());
        for event in events {
            out.extend(attr(event));
            out.extend(1u32.to_le_bytes());
            let mut name = event.4.as_bytes().to_vec();
            name.resize((name.len() + 1).next_multiple_of(64), 0);
            out.extend((name.len() as u32).to_le_bytes());
            out.extend(name);
            out.extend(0u64.to_le_bytes());
        }
        out
    }

    /// A record of words.
    fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend([2, 0]);
        out.extend((8 + 8 * words.len() as u16).to_le_bytes());
        words.iter().for_each(|w| out.extend(w.to_le_bytes()));
        out
    }

    const MONOTONIC: u64 = USE_CLOCKID | SAMPLE_ID_ALL;

    fn fields() -> u64 {
        let f = sys::PERF_SAMPLE_IDENTIFIER | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_ADDR;
        (f | sys::PERF_SAMPLE_WEIGHT | sys::PERF_SAMPLE_DATA_SRC).into()
    }

    fn two_events() -> Vec<u8> {
        let memory = 0x2 | (0x2 | 0x80) << 5 | 0xd << 33;
        let mut records = record(9, &[101, 7, 2000, 0x5000, 400, memory]);
        records.extend(record(9, &[100, 7, 1000, 0x4000, 0, 0x2]));
        records.extend(record(9, &[100, 7, 3000, 0xffff_8000_0000_0000, 0, 0x2]));
        records.extend(record(9, &[999, 7, 3000, 0x4000, 0, 0x2]));
        records.extend(record(2, &[100, 5, 7, 3000, 100]));
        // An AUX record of perf's, followed by 16 bytes that are no records.
        records.extend(record(AUXTRACE, &[16, 0, 0, 0, 0]));
        records.extend([0xff; 16]);
        records.extend(record(3, &[0]));
        let events = [
            (4, 0x20d1, MONOTONIC, fields(), "MEM_LOAD_RETIRED.L3_MISS:pp"),
            (4, 0x1cd, MONOTONIC, fields(), "mem-loads"),
        ];
        file(&events, &records)
    }

    #[test]
    fn events_are_told_apart_and_put_in_order() {
        let samples = parse_file(&two_events(), CLOCK).unwrap();
        assert_eq!(samples.events, ["MEM_LOAD_RETIRED.L3_MISS:pp", "mem-loads"]);
        assert!(samples.monotonic);
        // A sample of the kernel's memory, one of an unknown event, and packets.
        assert_eq!((samples.lost, samples.left_out), (5, 3));
        let of = |m: &Miss| (m.time_ns, m.addr, m.weight, m.latency_ns, m.source);
        let seen: Vec<_> = samples.accesses.iter().map(|(pid, m)| (*pid, of(m))).collect();
        let expected = [(7, (1000, 0x4000, 50, 0, Source::Unknown)), (7, (2000, 0x5000, 0, 400, Source::Memory))];
        assert_eq!(seen, expected, "slow loads count no misses beside an event that does");
    }

    #[test]
    fn what_perf_mem_records_counts_by_its_data_sources() {
        let word = |level: u64, number: u64, op: u64| op | level << 5 | number << 33;
        let mut records = Vec::new();
        for (n, source) in
            [word(0x82, 0xd, 2), word(0x42, 3, 2), word(0xc, 0, 4), word(0xa, 0, 4)].into_iter().enumerate()
        {
            records.extend(record(9, &[100, 7, n as u64, 0x4000, 30, source]));
        }
        let all = file(&[(4, 0x1cd, 0, fields(), "cpu/mem-loads,ldlat=30/P")], &records);
        let samples = parse_file(&all, CLOCK).unwrap();
        assert!(!samples.monotonic);
        let seen: Vec<_> = samples.accesses.iter().map(|(_, m)| (m.store, m.weight, m.source)).collect();
        let (m, l) = (Source::Memory, Source::Llc);
        assert_eq!(seen, [(false, 50, m), (false, 0, l), (true, 50, Source::Unknown), (true, 0, Source::L1)]);
    }

    #[test]
    fn files_that_cannot_be_read_say_why() {
        let good = two_events();
        let say = |bytes: &[u8]| parse_file(bytes, CLOCK).map(|_| ()).unwrap_err();
        let mut pipe = good.clone();
        pipe[8] = 16;
        assert!(say(&pipe).contains("pipe"));
        assert!(say(&good[..90]).contains("cut off"));
        let compressed = file(&[(1, 2, MONOTONIC, fields(), "page-faults")], &record(COMPRESSED, &[1]));
        assert!(say(&compressed).contains("without -z"));
        let none = file(&[], &record(3, &[0]));
        assert!(say(&none).contains("no events"));
    }

    /// Whatever is in a file, reading it ends, and ends without a panic.
    #[test]
    fn no_file_is_too_strange() {
        let good = two_events();
        let mut dice = 0x2545_f491_4f6c_dd1du64;
        let mut roll = || {
            dice ^= dice << 13;
            dice ^= dice >> 7;
            dice ^= dice << 17;
            dice
        };
        for _ in 0..100_000 {
            let mut bad = good.clone();
            for _ in 0..roll() % 6 + 1 {
                let at = roll() as usize % bad.len();
                bad[at] = if roll() % 4 == 0 { 0xff } else { roll() as u8 };
            }
            if roll() % 4 == 0 {
                bad.truncate(roll() as usize % bad.len());
            }
            let _ = parse_file(&bad, CLOCK);
        }
    }
}
