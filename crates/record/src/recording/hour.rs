//! What an hour leaves behind: events as a run of an hour would bring them, at the most that the samplers are let have, go the
//! recorder's way into a profile. Time is made up and so is the program, two processes of a thousand sites; everything from the
//! sinks on is the real thing. `bench/scale/run` shows the figures.

use super::*;
use crate::live::Live;
use crate::misses::Misses;
use crate::watch::cpu_time;
use crate::watch::pause_after;
use std::time::Duration;

const S: u64 = 1_000_000_000;
const SITES: u64 = 1000;
const PROCESSES: usize = 2;
/// Allocations a second of each process.
const RATE: u64 = 500;
/// As `--faults-per-second` is by default; as many pages again stay quiet.
const FAULTS: u64 = 200;
/// As `--sampler perf` samples by default: each of two threads.
const SAMPLES: u64 = 2000;

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Many sites have little, some have much.
fn site(state: &mut u64) -> SiteId {
    let n = random(state) % SITES;
    SiteId(1 + n * (random(state) % SITES) / SITES)
}

/// Records `seconds` of this program by this sampler; gives the size of the profile, and the most memory that was resident
/// while it was written.
fn run(path: &std::path::Path, sampler: &str, seconds: u64) -> (u64, u64) {
    let run = Run {
        command: vec!["made-up".into()],
        cwd: "/".into(),
        started: 1,
        threshold: 4096,
        sampler: sampler.into(),
        period: None,
        sampling: None,
        epoch_ns: 1,
        tiers: Vec::new(),
    };
    let machine = Machine {
        platform: None,
        cpu: "made up".into(),
        kernel: "made up".into(),
        llc: 32 << 20,
        llc_origin: Origin::User,
    };
    let mut progress = |_: Progress| {};
    let mut sink = ToProfile::new(Writer::create(path, &run, &machine).unwrap(), &mut progress);
    let module = Module { path: "made-up".into(), build_id: "ab".into() };
    let frame = |offset| RawFrame { module: Some(module.clone()), offset };
    let mut state = 1;
    for process in 0..PROCESSES {
        let pid = process as u32 + 100;
        sink.started(process, &Started { pid, ppid: 1, job: 0, exe: "/made-up".into(), start_ns: 0 }).unwrap();
        for n in 1..=SITES {
            let frames = (0..12).map(|depth| frame(0x1000 + (n >> depth) * 64 + depth)).collect();
            sink.site(process, SiteId(n), &Stack { frames, truncated: false, apart: None }).unwrap();
        }
    }
    // Some are freed soon, some late, some never.
    let mut alive: Vec<Vec<Object>> = vec![Vec::new(); PROCESSES];
    let (mut id, mut reading) = (0, 0);
    let mut misses: Vec<Misses> = (0..PROCESSES).map(|_| Misses::new()).collect();
    let mut lives: Vec<Live> = (0..PROCESSES).map(|_| Live::default()).collect();
    for half in 0..2 * seconds {
        let now = half * S / 2;
        for process in 0..PROCESSES {
            for n in 0..RATE / 2 {
                let alloc_ns = now + n * S / RATE;
                let objects = &mut alive[process];
                if objects.len() > 20_000 {
                    let newest = objects.len() - 1;
                    let which = if n % 4 == 0 { random(&mut state) as usize % newest } else { newest };
                    let o = objects.swap_remove(which);
                    sink.died(process, &o, alloc_ns).unwrap();
                    lives[process].remove(o.addr);
                }
                id += 1;
                let size = 4096 << (random(&mut state) % 8);
                let (site, tid) = (site(&mut state), 100 + process as u32);
                let (addr, kind) = (0x7000_0000_0000 + (id << 20), SiteKind::Allocation);
                let o = Object { id, addr, size, site, tier: 0, tid, alloc_ns, realloc: false, kind };
                sink.born(process, &o).unwrap();
                objects.push(o);
                lives[process].insert(o);
            }
            let objects = &alive[process];
            match sampler {
                PAGE_FAULT => {
                    for n in 0..FAULTS / 2 {
                        // A page, three times in a row.
                        let o = objects[random(&mut state) as usize % objects.len()];
                        let addr = o.addr + random(&mut state) % o.size;
                        let (tid, time_ns, ip, site) = (o.tid, now + n * S / FAULTS, addr % 4096, o.site);
                        let burst = (n % 2 == 0).then_some(profile::estimate::Burst {
                            accesses: 64,
                            stores: 9,
                            lines: 8,
                            monotonic: true,
                            limited: true,
                            stride: 8,
                            ns: 90_000,
                        });
                        let visit = Visit { tid, time_ns, addr, ip, site, wait_ns: 7_000_000, store: false, burst };
                        sink.visit(process, Some(&o), &visit).unwrap();
                        let quiet = Quiet { time_ns, page: addr & !4095, site, wait_ns: 400_000_000 };
                        sink.quiet(process, Some(&o), &quiet).unwrap();
                    }
                }
                _ => {
                    for n in 0..SAMPLES / 2 {
                        let o = objects[random(&mut state) as usize % objects.len()];
                        let (addr, time_ns) = (o.addr + random(&mut state) % o.size, now + n * S / SAMPLES);
                        let (weight, source) = (1000, Source::Memory);
                        let (latency_ns, store, ahead) = (300, false, false);
                        let miss = crate::misses::Miss {
                            time_ns,
                            addr,
                            ip: 9,
                            latency_ns,
                            alone_ns: None,
                            store,
                            ahead,
                            weight,
                            source,
                            line: Default::default(),
                        };
                        misses[process].miss(&miss, &lives[process]);
                    }
                    crate::follow::tell(&mut misses[process], Some(process), false, &mut sink).unwrap();
                }
            }
        }
        if now >= reading {
            let mut rows = 0;
            for (process, live) in lives.iter().enumerate() {
                let mut sites: HashMap<SiteId, SitePages> = HashMap::default();
                for (site, &pages) in live.pages() {
                    let looked_at = BTreeMap::from([(-1, 2), (0, 10 + random(&mut state) % 7), (1, 3)]);
                    rows += looked_at.len() as u64;
                    sites.insert(*site, SitePages { looked_at, pages, ..SitePages::default() });
                }
                sink.residency(process, now, &sites).unwrap();
                sink.memory(process, now, 1 << 30, 1 << 29).unwrap();
            }
            reading = now + pause_after(Duration::from_nanos(now), Duration::ZERO, rows).as_nanos() as u64;
        }
        sink.tick(now).unwrap();
    }
    let end = seconds * S;
    for process in 0..PROCESSES {
        crate::follow::tell(&mut misses[process], Some(process), true, &mut sink).unwrap();
        for o in &alive[process] {
            sink.left(process, o, end).unwrap();
        }
        sink.ended(process, end, "ended", &[]).unwrap();
    }
    let mut outcome = Outcome {
        code: 0,
        how: "exit 0".into(),
        duration_ns: end,
        processes: Vec::new(),
        tally: crate::follow::Tally::default(),
        losses: Vec::new(),
    };
    complete(sink, &mut outcome, Vec::new(), false).unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB");
    (std::fs::metadata(path).unwrap().len(), peak.parse::<u64>().unwrap() << 10)
}

/// The peak is the process's: one hour at a time.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// The profile is small, whatever the sampler, and growing ever more slowly.
fn small(sampler: &str) {
    let _turn = TURN.lock();
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("HEARTH_KEEP")
        .map_or(folder.path().to_owned(), PathBuf::from)
        .join(format!("{sampler}.hearth"));
    let (bytes, peak) = run(&path, sampler, 3600);
    // Not by the clock on the wall: all of a read is done by this thread. The figure is `bench/scale/run`'s, machines differ too much to assert it.
    let mut reads = [0.0; 3];
    let mut observed = None;
    for read in &mut reads {
        let start = cpu_time().as_secs_f64();
        observed = Some(profile::open(&path).unwrap().observed().unwrap());
        *read = cpu_time().as_secs_f64() - start;
    }
    reads.sort_by(f64::total_cmp);
    let observed = observed.unwrap();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "an hour, sampler {sampler}: {:.0} MiB, read and summed up in {:.1} s of processor time (the middle of three); at most {:.0} \
         MiB resident in this process",
        mib(bytes),
        reads[1],
        mib(peak)
    );
    assert!(mib(bytes) < 200.0 && mib(peak) < 200.0, "{bytes} bytes, {peak} resident");
    assert_eq!(observed.sites.iter().map(|s| s.objects).sum::<u64>(), 3600 * RATE * PROCESSES as u64);
    assert!(observed.sites[0].misses() > 0.0 && observed.sites[0].samples > 100);
}

#[test]
#[ignore = "an hour of events takes a minute"]
fn an_hour_of_page_faults_is_a_small_profile() {
    small(PAGE_FAULT);
}

#[test]
#[ignore = "an hour of events takes a minute"]
fn an_hour_of_counted_misses_is_a_small_profile() {
    small(profile::PERF);
}
