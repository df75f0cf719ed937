//! DHAT, valgrind's heap profiler: its output as a profile. Fields: valgrind's manual, "DHAT: a dynamic heap analysis tool", and
//! the text on the file's format that comes with its sources (`dhat/dh_main.c`).
//!
//! DHAT knows for every call stack how many blocks and bytes it allocated, how many were alive at most, and how many bytes of
//! them were read and written: exactly, and without a cache. 64 bytes stand for a miss here. It tells sums and not single
//! blocks, so the objects of a site are laid out evenly over the run such that the sums are true. Its clock counts
//! instructions; one stands for a nanosecond.

use crate::Error;
use model::{Bytes, Module, Nanos, Origin, SiteId, SourceLine};
use profile::{DHAT, FrameRow, MISS_INTERVAL_NS, Machine, MissRow, ObjectRow, ProcessRow, Run, Writer};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// Bytes of a line.
const LINE: u64 = 64;
/// Objects of a site that are told apart; more are merged.
const MOST_OBJECTS: u64 = 10_000;
/// Parts of a site's life over which its accesses are spread.
const PARTS: u64 = 100;
/// Valgrind loads the program itself below here, and its libraries above.
const LIBRARIES: u64 = 0x400_0000;
/// Where frames lie whose module DHAT does not name.
const UNNAMED: &str = "[library]";

/// How the figures came about, for the profile.
const HOW: &str = "DHAT counted every byte read and written, and knows no cache: 64 of them stand for a miss, so what stays in \
                   caches looks hotter than it is";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    dhat_file_version: u32,
    mode: String,
    #[serde(default)]
    bklt: bool,
    #[serde(default)]
    bkacc: bool,
    cmd: String,
    pid: u32,
    /// End of the run, and the moment of the most live bytes.
    te: u64,
    tg: Option<u64>,
    pps: Vec<Point>,
    ftbl: Vec<String>,
}

/// A program point: a call stack that allocates. Bytes and blocks: in total, at its own most, at the program's most, at the end.
#[derive(Deserialize)]
struct Point {
    tb: u64,
    tbk: u64,
    #[serde(default)]
    tl: u64,
    #[serde(default)]
    mb: u64,
    #[serde(default)]
    mbk: u64,
    #[serde(default)]
    gbk: u64,
    #[serde(default)]
    ebk: u64,
    #[serde(default)]
    rb: u64,
    #[serde(default)]
    wb: u64,
    fs: Vec<usize>,
}

/// A frame of the table.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    address: u64,
    function: String,
    file: String,
    line: u32,
    /// The file of the code, where DHAT names it instead of the source.
    module: Option<String>,
}

/// What came of an import.
#[derive(Debug, PartialEq, Eq)]
pub struct Imported {
    /// Sites.
    pub sites: u64,
    /// Allocations of them.
    pub objects: u64,
    /// Share (percent) of all accessed bytes that fell on smaller allocations.
    pub elsewhere: u64,
}

/// Makes a profile of a file of DHAT, with the sites whose allocations have at least `threshold` bytes on average. Errors: it is
/// not whole, of a version or mode that is not known, or the profile cannot be written; nothing is left behind then.
pub fn into_profile(bytes: &[u8], file: &Path, output: &Path, threshold: Bytes) -> Result<Imported, Error> {
    let fail = |why: String| Error(format!("cannot import {}: {why}", file.display()));
    let dhat: File =
        serde_json::from_slice(bytes).map_err(|e| fail(format!("it is not whole ({e}); run DHAT again")))?;
    if dhat.dhat_file_version != 2 {
        return Err(fail(format!("its version is {}, this Hearth reads version 2", dhat.dhat_file_version)));
    }
    if dhat.mode != "heap" || !dhat.bklt || !dhat.bkacc {
        let why = "it holds no lifetimes and accesses of heap blocks; run `valgrind --tool=dhat` in its default mode";
        return Err(fail(why.into()));
    }
    if dhat.pps.iter().flat_map(|p| &p.fs).any(|&f| f >= dhat.ftbl.len()) {
        return Err(fail("its call stacks name frames that it does not have; run DHAT again".into()));
    }
    let run = Run {
        command: dhat.cmd.split_whitespace().map(str::to_string).collect(),
        cwd: String::new(),
        started: std::fs::metadata(file)
            .and_then(|m| m.modified())
            .ok()
            .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok())
            .map_or(0, |d| d.as_secs()),
        threshold: threshold.0,
        sampler: DHAT.into(),
        period: None,
        sampling: Some(HOW.into()),
        epoch_ns: 0,
        tiers: Vec::new(),
    };
    let machine = Machine {
        platform: None,
        cpu: "valgrind".into(),
        kernel: String::new(),
        llc: 0,
        llc_origin: Origin::Predicted,
    };
    let mut writer = Writer::create(output, &run, &machine)?;
    match fill(&mut writer, &dhat, threshold) {
        Ok(imported) => {
            writer.finish(Nanos(dhat.te.max(1)), "imported")?;
            Ok(imported)
        }
        Err(e) => {
            writer.discard();
            Err(e)
        }
    }
}

fn fill(writer: &mut Writer, dhat: &File, threshold: Bytes) -> Result<Imported, Error> {
    let program = dhat.cmd.split_whitespace().next().unwrap_or_default();
    let process = ProcessRow { pid: dhat.pid, ppid: 0, exe: program.to_string(), start_ns: 0 };
    let process = writer.process(&process)?;
    let frames: Vec<Frame> = dhat.ftbl.iter().map(|f| frame(f)).collect();

    // Stacks that differ only in the allocation function itself (malloc or calloc in one line) are one site.
    let mut sites: BTreeMap<u64, (Vec<usize>, Vec<&Point>)> = BTreeMap::new();
    let (mut loads, mut stores) = (0u64, 0u64);
    let mut accessed = 0u64;
    for point in &dhat.pps {
        accessed = accessed.saturating_add(point.rb).saturating_add(point.wb);
        if point.tbk == 0 || point.tb / point.tbk < threshold.0 {
            loads = loads.saturating_add(point.rb);
            stores = stores.saturating_add(point.wb);
            continue;
        }
        let stack: Vec<usize> = point.fs.iter().copied().skip_while(|&f| of_valgrind(&frames[f])).collect();
        sites.entry(id(&frames, &stack)).or_insert_with(|| (stack, Vec::new())).1.push(point);
    }
    let elsewhere = loads.saturating_add(stores);
    let (mut objects, mut merged, mut number) = (0u64, 0u64, 0i64);
    let mut named: HashMap<(i64, u64), SourceLine> = HashMap::new();
    for (&id, (stack, points)) in &sites {
        let mut rows = Vec::with_capacity(stack.len());
        for frame in stack.iter().map(|&f| &frames[f]) {
            let path = match &frame.module {
                Some(path) => path.clone(),
                None if frame.address < LIBRARIES => program.to_string(),
                None => UNNAMED.to_string(),
            };
            let module = writer.module(&Module { path, build_id: String::new() })?;
            rows.push(FrameRow { module: Some(module), offset: frame.address });
            if !frame.function.is_empty() {
                let (function, file, line) = (frame.function.clone(), frame.file.clone(), frame.line);
                named.insert((module, frame.address), SourceLine { function, file, line, column: 0 });
            }
        }
        writer.frames(SiteId(id), &rows, false)?;
        let site = writer.site(SiteId(id))?;
        for point in points {
            objects = objects.saturating_add(point.tbk);
            merged = merged.saturating_add(point.tbk.saturating_sub(MOST_OBJECTS));
            let (mut first, mut last) = (dhat.te, 0);
            for (size, alloc_ns, free_ns) in lay_out(point, dhat.te, dhat.tg) {
                number += 1;
                first = first.min(alloc_ns);
                last = last.max(free_ns.unwrap_or(dhat.te));
                // Each has addresses to itself: where it really lay is not known.
                let addr = (number as u64) << 38;
                let (tid, tier, realloc) = (dhat.pid, 0, false);
                let row = ObjectRow { process, site, tid, addr, size, alloc_ns, free_ns, tier, realloc };
                writer.object(number, &row)?;
            }
            spread(writer, process, Some(site), first..last, point.rb / LINE, point.wb / LINE)?;
        }
    }
    spread(writer, process, None, 0..dhat.te, loads / LINE, stores / LINE)?;
    for ((module, offset), line) in named {
        writer.symbol(module, offset, &[line])?;
    }
    writer.process_status(process, dhat.te, "ended")?;
    let note = "DHAT tells sums and not single blocks: objects are laid out evenly over the run, whose time is in instructions \
                (1 as 1 ns)";
    writer.loss(None, "objects-summed", objects, note)?;
    if merged > 0 {
        writer.loss(
            None,
            "objects-merged",
            merged,
            "objects of sites with very many are merged into fewer, larger ones",
        )?;
    }
    let note = "call stacks are those of valgrind, without what lies below main: a plan made of them can be read, but a run \
                does not find its sites again";
    writer.loss(None, "sites-of-valgrind", sites.len() as u64, note)?;
    let elsewhere = (elsewhere as f64 / accessed.max(1) as f64 * 100.0).round() as u64;
    Ok(Imported { sites: sites.len() as u64, objects, elsewhere })
}

/// Adds the accesses of a site, spread evenly over its life.
fn spread(
    writer: &mut Writer,
    process: i64,
    site: Option<i64>,
    life: std::ops::Range<u64>,
    loads: u64,
    stores: u64,
) -> Result<(), Error> {
    let span = life.end.saturating_sub(life.start);
    let parts = (span / MISS_INTERVAL_NS).clamp(1, PARTS);
    let share = |all: u64, part: u64| all / parts + u64::from(part < all % parts);
    for part in 0..parts {
        let (loads, stores) = (share(loads, part), share(stores, part));
        if loads + stores == 0 {
            continue;
        }
        writer.miss(&MissRow {
            written: 0,
            beside: 0,
            process: Some(process),
            site,
            place: if site.is_some() { "object" } else { "other" },
            start_ns: life.start + (u128::from(span) * u128::from(part) / u128::from(parts)) as u64,
            loads,
            stores,
            load_weight: loads,
            store_weight: stores,
            ahead: 0,
            lone_ns: 0,
            alone_ns: 0,
            latency_ns: 0,
        })?;
    }
    Ok(())
}

/// Objects with the sums of a point: size, birth, death. As many as were alive at most are alive at a time, each for the
/// mean lifetime; the first of them have the point's most bytes, so that the peak is true.
fn lay_out(point: &Point, end: u64, most_at: Option<u64>) -> Vec<(u64, u64, Option<u64>)> {
    let blocks = point.tbk.clamp(1, MOST_OBJECTS);
    // Merged, each object stands for several.
    let fewer = |n: u64| (u128::from(n) * u128::from(blocks) / u128::from(point.tbk.max(1))) as u64;
    let at_once = fewer(point.mbk).clamp(1, blocks);
    let kept = fewer(point.ebk).min(blocks);
    let life = (point.tl / point.tbk.max(1)).min(end);
    let peak = point.mb.min(point.tb);
    let size = |n: u64| {
        let even = |bytes: u64, of: u64, n: u64| bytes / of + u64::from(n < bytes % of);
        match n < at_once {
            true if at_once == blocks => even(point.tb, blocks, n),
            true => even(peak, at_once, n),
            false => even(point.tb - peak, blocks - at_once, n - at_once),
        }
    };
    let waves = blocks.div_ceil(at_once);
    let latest = end - life;
    (0..blocks)
        .map(|n| {
            let wave = n / at_once;
            let alive_at_end = n >= blocks - kept;
            let born = if alive_at_end {
                latest
            } else if waves > 1 {
                (u128::from(latest) * u128::from(wave) / u128::from(waves - 1)) as u64
            } else {
                // One lot only: around the moment of the program's most, if it was alive then.
                most_at.filter(|_| point.gbk > 0).map_or(0, |at| at.saturating_sub(life / 2).min(latest))
            };
            (size(n), born, (!alive_at_end).then(|| born + life))
        })
        .collect()
}

/// The allocation functions that valgrind puts in place of the program's.
fn of_valgrind(frame: &Frame) -> bool {
    frame.module.as_ref().is_some_and(|m| m.contains("vgpreload_")) || frame.file.starts_with("vg_replace_malloc")
}

/// FNV-1a over what a stack says of itself: the same in every run of the same program.
fn id(frames: &[Frame], stack: &[usize]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for f in stack.iter().map(|&f| &frames[f]) {
        let text = format!("{:x}:{}:{}:{}\n", f.address, f.function, f.file, f.line);
        for byte in text.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
    hash
}

/// `0x109948: grow (list.c:107)`, `0x4848899: malloc (in /usr/lib/libc.so)`, or something else, such as `[root]`.
fn frame(text: &str) -> Frame {
    let (address, rest) = text.split_once(": ").unwrap_or(("", text));
    let address = address.strip_prefix("0x").and_then(|a| u64::from_str_radix(a, 16).ok()).unwrap_or(0);
    // Paths may hold blanks and brackets.
    let place = rest.rfind(" (in ").or_else(|| rest.rfind(" (")).filter(|_| rest.ends_with(')'));
    let (function, place) = match place {
        Some(at) => (&rest[..at], &rest[at + 2..rest.len() - 1]),
        None => (rest, ""),
    };
    let function = if function == "???" { String::new() } else { function.to_string() };
    let blank = Frame { address, function, file: String::new(), line: 0, module: None };
    match (place.strip_prefix("in "), place.rsplit_once(':')) {
        (Some(module), _) => Frame { module: Some(module.to_string()), ..blank },
        (_, Some((file, line))) => Frame { file: file.to_string(), line: line.parse().unwrap_or(0), ..blank },
        _ => blank,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart() {
        let f = |text| {
            let f = frame(text);
            (f.address, f.function, f.file, f.line, f.module)
        };
        let none = || None;
        assert_eq!(
            f("0x109948: grow(int) (list.cpp:107)"),
            (0x109948, "grow(int)".into(), "list.cpp".into(), 107, none())
        );
        let library = Some("/lib/my (own) libc.so".to_string());
        let f48 = f("0x48: operator() (in /lib/my (own) libc.so)");
        assert_eq!(f48, (0x48, "operator()".into(), "".into(), 0, library));
        assert_eq!(f("0x4848899: malloc (in /usr/lib/libc.so)").4, Some("/usr/lib/libc.so".into()));
        assert_eq!(f("0x1: ???"), (1, String::new(), String::new(), 0, None));
        assert_eq!(f("[root]").1, "[root]");
    }

    #[test]
    fn objects_are_laid_out_such_that_the_sums_are_true() {
        let point = |tb, tbk, tl, mb, mbk, gbk, ebk| Point { tb, tbk, tl, mb, mbk, gbk, ebk, rb: 0, wb: 0, fs: vec![] };
        // One block until the end.
        assert_eq!(lay_out(&point(8192, 1, 700, 8192, 1, 1, 1), 1000, Some(500)), [(8192, 300, None)]);
        // One that was alive at the program's most.
        assert_eq!(lay_out(&point(8192, 1, 100, 8192, 1, 1, 0), 1000, Some(500)), [(8192, 450, Some(550))]);
        // Ten, two at a time, of which two are larger; three lots would not be even.
        let objects = lay_out(&point(60_000, 10, 2000, 20_000, 2, 0, 0), 1000, None);
        assert_eq!(objects.len(), 10);
        assert_eq!(objects.iter().map(|o| o.0).sum::<u64>(), 60_000);
        let alive =
            |at: u64| objects.iter().filter(|o| o.1 <= at && o.2.unwrap() > at).map(|o| o.0).collect::<Vec<_>>();
        assert_eq!(alive(0), [10_000, 10_000]);
        assert_eq!(alive(999), [5_000, 5_000]);
        assert_eq!(objects.iter().map(|o| o.2.unwrap() - o.1).sum::<u64>(), 2000);
        // Very many are merged.
        let objects = lay_out(&point(1 << 40, 1 << 20, 1 << 30, 1 << 30, 1 << 10, 0, 1 << 10), 1 << 30, None);
        assert_eq!((objects.len() as u64, objects.iter().map(|o| o.0).sum::<u64>()), (MOST_OBJECTS, 1 << 40));
        assert_eq!(objects.iter().filter(|o| o.2.is_none()).count(), 9);
    }
}
