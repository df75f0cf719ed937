//! Damaged input: every reader of bytes that others wrote gets seeds of `corpus/`, and these changed in many ways. It has to
//! end, in time, with a result or with one sentence, and never with a panic.
//!
//! Everything in `corpus/` is replayed first: seeds, and what once failed, which a failing run adds by itself. Short in
//! `cargo test`; `HEARTH_FUZZ_SECONDS=600 cargo test --release -p hearth-tests --test fuzz` gives each reader ten minutes.

use model::{Bytes, Module, SiteId};
use profile::{FrameRow, Machine, ObjectRow, ProcessRow, QuietRow, ResidencyRow, Run, VisitRow, Writer};
use record::follow::{Object, Sink};
use record::import::{dhat, perf_data};
use record::owner::Owner;
use record::perf::record::{Format, parse};
use record::perf::{Clock, ibs, spe};
use record::pick_up;
use record::rings::ProcessFile;
use record::session::Session;
use record::watch::Watch;
use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use wire::event::{Event, Kind, MAX_BUILD_ID, MAX_PATH, MAX_SLOTS, SLOT_WORDS, Stamped, decode, encode};
use wire::process::{FILE_BYTES, HEADER_BYTES, Header, MAGIC, RING_BYTES, Ring, header, state};
use wire::session::{CONFIG_MAGIC, Config, DOORBELL, PROCESS_SUFFIX, flags};

/// An input that takes longer than this has hung a reader.
const HUNG: Duration = Duration::from_secs(20);

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Numbers at the edges of what fits.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 47, 1 << 57, 1 << 63, u64::MAX];

/// A seed, changed in a few places.
fn changed(dice: &mut Dice, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    for _ in 0..1 + dice.below(8) {
        let (at, edge) = (dice.below(bytes.len()), EDGES[dice.below(EDGES.len())]);
        let end = (at + dice.below(64)).min(bytes.len());
        match dice.below(9) {
            0 | 1 if at < bytes.len() => bytes[at] = dice.next() as u8,
            2 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let part = bytes[at..end].to_vec();
                let to = dice.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            5 => bytes.truncate(at),
            6 => {
                let width = 1 << dice.below(4);
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&edge.to_le_bytes()[..end - at]);
            }
            // A number in a text becomes another.
            7 => {
                let digit = |b: &u8| b.is_ascii_digit();
                if let Some(from) = bytes[at..].iter().position(digit).map(|n| at + n) {
                    let end = bytes[from..].iter().position(|b| !digit(b)).map_or(bytes.len(), |n| from + n);
                    bytes.splice(from..end, edge.to_string().into_bytes());
                }
            }
            _ => {
                let other = &seeds[dice.below(seeds.len())];
                let from = dice.below(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
        }
    }
    bytes
}

fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name)
}

/// Keeps an input that failed, and says where.
fn keep(name: &str, bytes: &[u8]) -> PathBuf {
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    std::fs::create_dir_all(corpus(name)).unwrap();
    let path = corpus(name).join(format!("failed-{hash:016x}"));
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Feeds a reader: the corpus, more seeds, and `rounds` changed ones, or as many as the time that was asked for allows.
fn feed(name: &str, rounds: u32, mut seeds: Vec<Vec<u8>>, read: impl Fn(&[u8])) {
    let mut kept: Vec<PathBuf> =
        std::fs::read_dir(corpus(name)).into_iter().flatten().map(|e| e.unwrap().path()).collect();
    kept.sort();
    seeds.extend(kept.iter().map(|path| std::fs::read(path).unwrap()));
    let long = std::env::var("HEARTH_FUZZ_SECONDS").ok().map(|text| {
        Duration::from_secs(
            text.parse().unwrap_or_else(|_| panic!("HEARTH_FUZZ_SECONDS={text} is not a number of seconds")),
        )
    });
    let current: Mutex<Option<(Instant, Vec<u8>)>> = Mutex::new(None);
    let over = Mutex::new(());
    std::thread::scope(|scope| {
        let running = over.lock().unwrap();
        scope.spawn(|| {
            // Ends as soon as the lock is to be had.
            while over.try_lock().is_err() {
                std::thread::sleep(Duration::from_millis(20));
                if let Some((since, bytes)) = &*current.lock().unwrap() {
                    if since.elapsed() > HUNG {
                        eprintln!("{name}: a reader hangs; the input is kept in {}", keep(name, bytes).display());
                        std::process::abort();
                    }
                }
            }
        });
        let one = |bytes: &[u8]| {
            *current.lock().unwrap() = Some((Instant::now(), bytes.to_vec()));
            let failed = catch_unwind(AssertUnwindSafe(|| read(bytes))).is_err();
            *current.lock().unwrap() = None;
            failed.then(|| keep(name, bytes))
        };
        let start = Instant::now();
        let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ long.map_or(0, |_| std::process::id().into()));
        let mut failed = seeds.iter().find_map(|seed| one(seed));
        let mut done = 0;
        while failed.is_none() && long.map_or(done < rounds, |long| start.elapsed() < long) {
            failed = one(&changed(&mut dice, &seeds));
            done += 1;
        }
        drop(running);
        println!("{name}: {} seeds, {done} changed inputs in {:.1} s", seeds.len(), start.elapsed().as_secs_f64());
        assert!(failed.is_none(), "{name}: a reader panicked; the input is kept in {}", failed.unwrap().display());
    });
}

fn one_sentence(why: &str) {
    assert!(!why.is_empty() && !why.contains('\n'), "more than a sentence: {why}");
}

#[test]
fn plans() {
    feed("plan", 20_000, Vec::new(), |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            if let Err(e) = policy::plan_file::from_toml(text) {
                one_sentence(&e.to_string());
            }
        }
    });
}

/// A profile with something in most tables.
fn profile_seed(folder: &Path) -> Vec<u8> {
    let path = folder.join("seed.hearth");
    let run = Run {
        command: vec!["program".into()],
        cwd: "/".into(),
        started: 1,
        threshold: 4096,
        sampler: "page-fault".into(),
        period: None,
        sampling: None,
        epoch_ns: 1,
        tiers: Vec::new(),
    };
    let machine = Machine {
        platform: None,
        cpu: "some".into(),
        kernel: "6".into(),
        llc: 1 << 25,
        llc_origin: model::Origin::User,
    };
    let mut w = Writer::create(&path, &run, &machine).unwrap();
    let process = w.process(&ProcessRow { pid: 7, ppid: 1, exe: "/bin/program".into(), start_ns: 0 }).unwrap();
    let module = w.module(&Module { path: "/bin/program".into(), build_id: "ab".into() }).unwrap();
    for n in 1..4u64 {
        let site = w.site(SiteId(n)).unwrap();
        w.frames(SiteId(n), &[FrameRow { module: Some(module), offset: n }], false).unwrap();
        let (addr, size, alloc_ns) = (n << 20, 8192 * n, n * 1000);
        let row = ObjectRow { process, site, tid: 7, addr, size, alloc_ns, free_ns: None, tier: 0, realloc: false };
        w.object(n as i64, &row).unwrap();
        let looked = ResidencyRow { process, site, time_ns: 5000, node: 0, pages: 2, bytes: 8192, share: 1.0 };
        w.residency(&looked).unwrap();
        let burst = profile::estimate::Burst {
            accesses: 64,
            stores: 1,
            lines: 8,
            monotonic: true,
            limited: true,
            stride: 8,
            ns: 9000,
        };
        let (object, time_ns, wait_ns, ip) = (Some(n as i64), n * 100_000, 5000, 9);
        assert!(w.keeps(process, addr, time_ns));
        let visit =
            VisitRow { process, site, object, tid: 7, time_ns, addr, ip, store: false, wait_ns, burst: Some(burst) };
        w.visit(&visit).unwrap();
        w.quiet(&QuietRow { process, site, object, time_ns, page: addr, wait_ns }).unwrap();
    }
    w.finish(model::Nanos(1_000_000), "exit 0").unwrap();
    std::fs::read(&path).unwrap()
}

#[test]
fn profiles() {
    let folder = tempfile::tempdir().unwrap();
    let seed = profile_seed(folder.path());
    let path = folder.path().join("changed.hearth");
    feed("profile", 1000, vec![seed], |bytes| {
        std::fs::write(&path, bytes).unwrap();
        match profile::open(&path).and_then(|p| p.observed()) {
            Ok(observed) => assert!(observed.unattributed >= 0.0),
            Err(e) => one_sentence(&e.to_string()),
        }
    });
}

#[test]
fn wire_events() {
    let mut seeds = Vec::new();
    for event in [
        Event::Alloc { addr: 1 << 40, size: 4096, site: 3, tier: 0, realloc: true, kind: Kind::Mapping },
        Event::Site { site: 9, frames: &[1, 2, 3], truncated: false, apart: None },
        Event::Module { index: 3, build_id: &[5; 20], path: b"/usr/lib/libc.so.6" },
        Event::Visit { addr: 1, ip: 2, object: 3, site: 4, wait_ns: 5, store: true, burst: None },
        Event::Quiet { page: 1, object: 2, site: 3, wait_ns: 4 },
    ] {
        let mut words = [0; MAX_SLOTS * SLOT_WORDS];
        let slots = encode(&Stamped { tid: 42, time: 99, event }, &mut words).unwrap();
        seeds.push(words[..slots * SLOT_WORDS].iter().flat_map(|w| w.to_le_bytes()).collect());
    }
    feed("wire", 100_000, seeds, |bytes| {
        let word = |chunk: &[u8]| chunk.iter().rev().fold(0u64, |w, &b| w << 8 | u64::from(b));
        let words: Vec<u64> = bytes.chunks(8).map(word).collect();
        let mut space = [0; MAX_PATH + MAX_BUILD_ID];
        let _ = decode(&words, &mut space);
    });
}

static ONES: [u64; 4096] = [0x0000_1000_0001_0001; 4096];

/// The beginning of a process file: a header, a ring's control words, and some slots with events.
fn process_seed() -> Vec<u8> {
    let mut memory = vec![0u64; (HEADER_BYTES + RING_BYTES) / 8];
    let base: *mut u8 = memory.as_mut_ptr().cast();
    // SAFETY: the buffer holds the header and ring 0, and outlives both.
    let (header, ring) = unsafe { (header(base), Ring::at(base, 0)) };
    header.state.store(state::RUNNING, Relaxed);
    header.rings_ready.store(1, Relaxed);
    // Tables full of ones, somewhere in this process.
    let table = ONES.as_ptr() as u64;
    for word in [&header.tables.objects, &header.tables.sites, &header.tables.mappings, &header.tables.mappings_used] {
        word.store(table, Relaxed);
    }
    header.tables.range.store(1 << 40, Relaxed);
    header.tables.tier_span.store(1 << 20, Relaxed);
    header.tables.site_bytes.store(64, Relaxed);
    header.tables.mapping_bytes.store(64, Relaxed);
    header.tables.used[0].store(table, Relaxed);
    ring.control().ready.store(1, Relaxed);
    for n in 1..20u64 {
        let (addr, site) = (n << 24, n % 3);
        for event in [
            Event::Module { index: 0, build_id: &[5; 20], path: b"/usr/lib/libc.so.6" },
            Event::Site { site, frames: &[1, 2, 3], truncated: false, apart: None },
            Event::Alloc { addr, size: 4096 * n, site, tier: 0, realloc: n % 5 == 0, kind: Kind::Mapping },
            Event::Visit { addr, ip: 2, object: addr, site, wait_ns: 5, store: true, burst: None },
            Event::Quiet { page: addr, object: addr, site, wait_ns: 4 },
            Event::Unmap { addr: addr + 4096, size: 4096 },
            Event::Free { addr },
        ] {
            let mut words = [0; MAX_SLOTS * SLOT_WORDS];
            let slots = encode(&Stamped { tid: 42, time: n, event }, &mut words).unwrap();
            ring.push(&words[..slots * SLOT_WORDS]);
        }
    }
    let used = HEADER_BYTES + 4096 + 64 * SLOT_WORDS * 8 * 4;
    memory.iter().flat_map(|w| w.to_ne_bytes()).take(used).collect()
}

/// Counts objects.
struct Seen(u64);

impl Sink for Seen {
    fn born(&mut self, _: usize, _: &Object) -> Result<(), record::Error> {
        self.0 += 1;
        Ok(())
    }
}

/// What a daemon reads of programs that scribble over their process files: rings, tables, counters, texts.
#[test]
fn process_files() {
    let config = Config {
        magic: CONFIG_MAGIC,
        version: wire::WIRE_VERSION.into(),
        flags: flags::EVENTS | flags::STANDING,
        threshold: 4096,
        faults_per_second: 0,
        steps_per_second: 0,
        most_ppm: 0,
        epoch_ns: 0,
        home: 0,
        reserved: [0; 7],
    };
    let me = std::process::id();
    let session = Session::stand(Owner::me(), &format!("fuzz{me}"), &config).unwrap();
    let dir = session.dir().to_path_buf();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join(format!("{me}.0{PROCESS_SUFFIX}"));
    let mut sink = Seen(0);
    let mut watch = Watch::new(&config, Path::new("libhearth.so"), None, &mut sink, None);
    watch.add(session);
    let state = RefCell::new((watch, 0u64, 0u64));
    feed("process", 400, vec![process_seed()], |bytes| {
        let (watch, number, found) = &mut *state.borrow_mut();
        *number += 1;
        let path = dir.join(format!("{me}.{number}{PROCESS_SUFFIX}"));
        let file = File::create(&path).unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        file.write_all_at(&bytes[..bytes.len().min(HEADER_BYTES + RING_BYTES)], 0).unwrap();
        // Else it would not be looked into.
        file.write_all_at(&MAGIC.to_ne_bytes(), offset_of!(Header, magic) as u64).unwrap();
        file.write_all_at(&wire::WIRE_VERSION.to_ne_bytes(), offset_of!(Header, version) as u64).unwrap();
        file.write_all_at(&me.to_ne_bytes(), offset_of!(Header, pid) as u64).unwrap();
        // What the live engine reads of it once an interval: tables wherever the header says that they are.
        std::fs::copy(&path, &copy).unwrap();
        if let Ok(file) = ProcessFile::open(&copy, Owner::me()) {
            let mut sites = pick_up::Sites::default();
            if let Ok(mut reader) = pick_up::Reader::open(&file, &mut sites) {
                *found += reader.objects().map_or(0, |all| all.len() as u64);
                *found += reader.mappings().map_or(0, |all| all.len() as u64);
            }
        }
        // Else it would not look for files before its time.
        File::options().write(true).open(dir.join(DOORBELL)).unwrap().write_all(&[1]).unwrap();
        watch.rest(None);
        (0..3).for_each(|_| watch.look_around());
        file.write_all_at(&state::ENDED.to_ne_bytes(), offset_of!(Header, state) as u64).unwrap();
        watch.look_around();
        assert_eq!(watch.alive(), 0, "it has ended");
        assert!(!path.exists(), "its file is removed");
    });
    let (watch, number, found) = state.into_inner();
    assert!(number > 400);
    watch.leave();
    assert!(!dir.exists(), "the session is over");
    println!("{} objects in {number} files, {found} in tables", sink.0);
    assert!(found > number / 2, "and what is in tables");
    assert!(sink.0 > 10 * number, "it reads what is not damaged");
}

/// The records that the tests of their readers hold, as bytes.
fn records() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/record/src/perf/fixtures");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let bytes = |text: String| -> Vec<u8> {
        let lines = text.lines().map(|l| l.split('#').next().unwrap_or_default());
        let digits: Vec<u8> = lines.flat_map(str::chars).filter_map(|c| Some(c.to_digit(16)? as u8)).collect();
        digits.chunks(2).map(|d| d.iter().fold(0, |b, d| b << 4 | d)).collect()
    };
    ["pebs.hex", "page-faults.hex", "spe.hex", "ibs-zen3.hex", "ibs-zen4.hex"].map(|name| bytes(text(name))).into()
}

#[test]
fn records_of_the_processor() {
    feed("records", 100_000, records(), |bytes| {
        // How samples are laid out is said elsewhere; here the first bytes do.
        let word = |n: usize| bytes.iter().skip(8 * n).take(8).fold(0u64, |w, &b| w << 8 | u64::from(b));
        let format = Format {
            sample_type: word(0),
            read_format: word(1),
            branch_sample_type: word(2),
            regs_user: word(3),
            regs_intr: word(4),
            id_all: word(5) % 2 == 0,
        };
        for kind in 0..18 {
            format.id_of(kind, bytes);
            let _ = parse(kind, bytes, &format);
        }
        ibs::decode(bytes);
        assert!(spe::decode(bytes, |_| ()) <= bytes.len());
    });
}

#[test]
fn files_of_perf() {
    feed("perf-data", 30_000, Vec::new(), |bytes| {
        if let Err(why) = perf_data::parse_file(bytes, Clock { mhz: Some(2000.0) }) {
            one_sentence(&why);
        }
    });
}

#[test]
fn files_of_dhat() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("made.hearth");
    feed("dhat", 1000, Vec::new(), |bytes| {
        let _ = std::fs::remove_file(&output);
        match dhat::into_profile(bytes, Path::new("dhat.out"), &output, Bytes(4096)) {
            Ok(_) => {
                profile::open(&output).and_then(|p| p.observed()).expect("what was imported can be read");
            }
            Err(e) => {
                one_sentence(&e.to_string());
                assert!(!output.exists(), "something was left behind: {e}");
            }
        }
    });
}
