//! Profiles as files: written and read back, and what is said about files that are not whole, ours, or of this version.

use hearth_profile as profile;
use model::{
    Apart, Asked, Bytes, Chunk, Life, Lines, Module, Nanos, Origin, Pattern, PlannedTier, SiteId, SizeClass, SourceLine,
};
use profile::estimate::Burst;
use profile::{
    ChunkHeat, ChunkRow, Cohort, FrameRow, Machine, MissRow, ObjectRow, ProcessRow, QuietRow, ResidencyRow, Run,
    SourceRow, TouchRow, VisitRow, Writer,
};
use std::path::{Path, PathBuf};

fn create(path: &Path) -> Result<Writer, profile::Error> {
    create_with(path, 1 << 20)
}

/// A profile of the page-fault sampler on a machine with a last-level cache of this many bytes.
fn create_with(path: &Path, llc: u64) -> Result<Writer, profile::Error> {
    let run = Run {
        command: vec!["./app".into(), "two words".into()],
        cwd: "/home/me".into(),
        started: 1_700_000_000,
        threshold: 4096,
        sampler: "page-fault".into(),
        period: None,
        sampling: None,
        epoch_ns: 5,
        tiers: vec![],
    };
    create_run(path, &run, llc)
}

fn create_run(path: &Path, run: &Run, llc: u64) -> Result<Writer, profile::Error> {
    let machine = Machine { platform: None, cpu: "a CPU".into(), kernel: "6.1".into(), llc, llc_origin: Origin::User };
    Writer::create(path, run, &machine)
}

/// A profile of the lab's sampler, of every so many misses one.
fn counting(path: &Path, period: u64, tiers: Vec<PlannedTier>) -> Writer {
    let run = Run {
        command: vec!["./app".into()],
        cwd: "/".into(),
        started: 0,
        threshold: 4096,
        sampler: profile::LAB.into(),
        period: Some(period),
        sampling: None,
        epoch_ns: 0,
        tiers,
    };
    create_run(path, &run, 1 << 20).unwrap()
}

/// Two seconds of a program with a stream, an object freed and allocated again, and one that nobody touches.
fn fill(w: &mut Writer) {
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let module = Module { path: "/bin/app".into(), build_id: "00ff".into() };
    let row = w.module(&module).unwrap();
    let frames = [FrameRow { module: Some(row), offset: 0x1234 }, FrameRow { module: None, offset: u64::MAX }];
    w.frames(SiteId(u64::MAX), &frames, false).unwrap();
    let hot = w.site(SiteId(u64::MAX)).unwrap();
    let twice = w.site(SiteId(2)).unwrap();
    let line = |f: &str, line| SourceLine { function: f.into(), file: "app.c".into(), line, column: 0 };
    w.symbol(row, 0x1234, &[line("inlined", 3), line("outer", 9)]).unwrap();
    let object = |site, addr, size, alloc_ns, free_ns| ObjectRow {
        process,
        site,
        tid: 9,
        addr,
        size,
        alloc_ns,
        free_ns,
        tier: 0,
        realloc: false,
    };
    w.object(1, &object(hot, 1 << 20, 8 << 20, 0, None)).unwrap();
    w.object(2, &object(twice, 1 << 30, 10_000, 100_000_000, None)).unwrap();
    w.freed(2, 600_000_000).unwrap();
    w.object(3, &object(twice, 1 << 30, 20_000, 600_000_000, Some(700_000_000))).unwrap();
    for (time_ns, bytes) in [(500_000_000, 4096), (1_500_000_000, 8192)] {
        for (node, bytes) in [(0, bytes), (1, 4096), (-1, 1 << 20)] {
            let r = ResidencyRow { process, site: hot, time_ns, node, pages: 1, bytes, share: 0.5 };
            w.residency(&r).unwrap();
        }
    }
    let burst = Burst { accesses: 64, stores: 32, lines: 8, monotonic: true, limited: true, stride: -8, ns: 1000 };
    for i in 0..200u64 {
        let addr = (1 << 20) + i * 4096 + 8;
        let (time_ns, object) = (i * 10_000_000, (i > 0).then_some(1));
        let burst = (i % 2 == 0).then_some(burst);
        let v = VisitRow {
            process,
            site: hot,
            object,
            tid: 9,
            time_ns,
            addr,
            ip: 1,
            store: i % 2 == 1,
            wait_ns: 50_000_000,
            burst,
        };
        w.visit(&v).unwrap();
    }
    w.quiet(&QuietRow {
        process,
        site: twice,
        object: Some(2),
        time_ns: 300_000_000,
        page: 1 << 30,
        wait_ns: 90_000_000,
    })
    .unwrap();
    w.loss(Some(process), "ring-full", 3, "dropped").unwrap();
    w.loss(Some(process), "ring-full", 5, "dropped").unwrap();
    w.process_status(process, 2_000_000_000, "ended").unwrap();
}

fn whole(folder: &Path) -> PathBuf {
    let path = folder.join("a.hearth");
    let mut w = create(&path).unwrap();
    fill(&mut w);
    w.finish(Nanos(2_000_000_000), "exit 0").unwrap();
    path
}

#[test]
fn what_is_written_is_observed() {
    let folder = tempfile::tempdir().unwrap();
    let o = profile::open(whole(folder.path())).unwrap().observed().unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!((o.command.len(), o.started, o.duration, o.processes), (2, 1_700_000_000, Nanos(2_000_000_000), 1));
    assert_eq!((o.outcome.as_str(), o.losses.len(), o.losses[0].count), ("exit 0", 1, 5));
    assert!((o.unattributed - 1.0 / 200.0).abs() < 1e-9);
    let (hot, twice) = (&o.sites[0], &o.sites[1]);
    assert_eq!((hot.site.id, hot.pattern, hot.samples), (SiteId(u64::MAX), Pattern::Stream { stride: -8 }, 200));
    assert_eq!(hot.site.frames[0].source.len(), 2);
    assert_eq!(hot.site.label(), "inlined (app.c:3)");
    assert_eq!((hot.site.frames[1].offset, hot.resident), (u64::MAX, Some(Bytes(12288))));
    // Half of the stepped accesses and half of the first ones were stores.
    let (misses, stores) = (hot.misses(), hot.store_misses);
    assert!(misses > 0.0 && (stores / misses - 0.75).abs() < 0.01, "{stores} of {misses}");
    assert_eq!(
        (twice.objects, twice.largest, twice.peak, twice.allocated),
        (2, Bytes(20_000), Bytes(20_000), Bytes(30_000))
    );
    assert_eq!((twice.first_alloc, twice.last_free), (Nanos(100_000_000), Nanos(700_000_000)));
    let lives = [(100_000_000, 600_000_000, 10_000), (600_000_000, 700_000_000, 20_000)];
    assert_eq!(twice.lives, lives.map(|(from, to, size)| Life { from: Nanos(from), to: Nanos(to), size: Bytes(size) }));
    assert_eq!(hot.nodes, [(-1, Bytes(1 << 20)), (0, Bytes(8192)), (1, Bytes(4096))]);
    assert_eq!((hot.placed.len(), o.tiers.len(), o.touches.len()), (0, 0, 0), "no plan guided it");
    assert_eq!((twice.mean_lifetime, twice.misses()), (Nanos(300_000_000), 0.0));
    assert_eq!(o.timeline.len(), 200);
    let live = |i: usize| o.timeline[i].live.iter().map(|l| l.1.0).sum::<u64>();
    assert_eq!((live(5), live(30), live(65), live(80)), (8 << 20, (8 << 20) + 10_000, (8 << 20) + 20_000, 8 << 20));
    let by_time: f64 = o.timeline.iter().flat_map(|p| &p.misses).map(|m| m.1).sum();
    assert!((by_time / misses - 1.0).abs() < 1e-9);
}

#[test]
fn what_the_cache_holds_is_named() {
    let error = |llc: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.hearth");
        let mut w = create_with(&path, llc).unwrap();
        fill(&mut w);
        w.finish(Nanos(2_000_000_000), "exit 0").unwrap();
        profile::open(path).unwrap().observed().unwrap().sampler_error
    };
    let rests = "estimated from 200 page visits and a model of the last-level cache of";
    let (small, large) = (error(1 << 20), error(1 << 30));
    assert!(small.starts_with(&format!("{rests} 1 MiB (user); the hottest site rests on 200 visits")), "{small}");
    assert!(!small.contains("has room"), "{small}");
    let held =
        "; most visits were to inlined (app.c:3), which has room in that cache (--llc reckons with another size)";
    assert!(large.starts_with(&format!("{rests} 1 GiB (user)")) && large.ends_with(held), "{large}");
}

/// Residency is read now and then: an object that was touched after the last reading is larger than nothing.
#[test]
fn what_was_missed_on_was_resident_whatever_the_readings_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.hearth");
    let mut w = counting(&path, 100, vec![]);
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    for (id, touched) in [(1u64, true), (2, false)] {
        let site = w.site(SiteId(id)).unwrap();
        let (addr, size) = (id << 30, 1 << 20);
        let o = ObjectRow { process, site, tid: 9, addr, size, alloc_ns: 0, free_ns: None, tier: 0, realloc: false };
        w.object(id as i64, &o).unwrap();
        w.residency(&ResidencyRow { process, site, time_ns: 1, node: -1, pages: 256, bytes: size, share: 1.0 })
            .unwrap();
        let miss = MissRow {
            process: Some(process),
            site: Some(site),
            place: "object",
            start_ns: 500_000_000,
            loads: 10,
            stores: 0,
            load_weight: 1000,
            store_weight: 0,
            ahead: 0,
            latency_ns: 3000,
            written: 0,
            beside: 0,
            lone_ns: 0,
            alone_ns: 0,
        };
        touched.then(|| w.miss(&miss).unwrap());
    }
    w.finish(Nanos(1_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    let resident: Vec<_> = o.sites.iter().map(|s| (s.site.id.0, s.resident)).collect();
    assert_eq!(resident, [(1, None), (2, Some(Bytes(0)))]);
}

#[test]
fn what_the_lab_counts_is_taken_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.hearth");
    let mut w = counting(&path, 100, vec![]);
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let rows = [1, 2, 3].map(|n| w.site(SiteId(n)).unwrap());
    for (id, site) in (1..).zip(rows) {
        let (addr, size) = ((site as u64) << 30, 1 << 20);
        let o = ObjectRow { process, site, tid: 9, addr, size, alloc_ns: 0, free_ns: None, tier: 0, realloc: false };
        w.object(id, &o).unwrap();
    }
    let mut miss = |site: Option<usize>, start_ns, loads, stores, ahead| {
        let (site, place) = (site.map(|i| rows[i]), if site.is_some() { "object" } else { "stack" });
        let process = site.map(|_| process);
        let (load_weight, store_weight, latency_ns) = (100 * loads, 100 * stores, 300 * loads);
        let row = MissRow {
            process,
            site,
            place,
            start_ns,
            loads,
            stores,
            load_weight,
            store_weight,
            ahead,
            latency_ns,
            written: 2 * loads,
            beside: stores,
            lone_ns: 200 * loads,
            alone_ns: 50 * loads,
        };
        w.miss(&row).unwrap();
    };
    miss(Some(0), 0, 10, 2, 0);
    miss(Some(0), 0, 1, 0, 0); // the same interval in a second part
    miss(Some(0), 500_000_000, 20, 7, 2);
    miss(Some(1), 10_000_000, 9, 0, 8);
    miss(Some(2), 10_000_000, 0, 2, 1);
    miss(Some(2), 5_000_000_000, 0, 2, 1); // after the end
    miss(None, 0, 7, 0, 0);
    let source = |site: usize, source, timed, latency_ns| SourceRow {
        process: Some(process),
        site: Some(rows[site]),
        place: "object",
        source,
        loads: timed,
        stores: 2,
        timed,
        latency_ns,
    };
    // Only what came from a memory tells how fast that is.
    for row in [source(0, "memory", 10, 3000), source(0, "remote-memory", 10, 6000), source(0, "l2", 10, 100)] {
        w.source(&row).unwrap();
    }
    w.source(&source(1, "l1", 5, 20)).unwrap();
    let unfinished = {
        w.commit(Nanos(1_000_000_000)).unwrap();
        profile::open(&path).unwrap().observed().unwrap()
    };
    w.finish(Nanos(1_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    assert_eq!((&o.sites, &o.timeline), (&unfinished.sites, &unfinished.timeline));
    let seen: Vec<_> = o.sites.iter().map(|s| (s.site.id.0, s.load_misses, s.store_misses, s.samples)).collect();
    assert_eq!(seen, [(1, 3100.0, 900.0, 40), (2, 900.0, 0.0, 9), (3, 0.0, 400.0, 4)]);
    assert_eq!(o.sites.iter().map(|s| s.miss_latency).collect::<Vec<_>>(), [Some(450.0), None, None]);
    // 40 samples of site 1, of which 2 were fetched ahead; 62 lines were written for 4,000 misses, and 9 read beside them. Of its loads' time a quarter was waited for.
    let lines = Lines { ahead: 2.0 / 40.0, beside: 9.0 / 4000.0, written: 62.0 / 4000.0, alone: Some(0.25) };
    assert_eq!(o.sites[0].lines, Some(lines));
    assert_eq!(
        o.sites.iter().map(|s| s.pattern).collect::<Vec<_>>(),
        [Pattern::Random, Pattern::Stream { stride: 64 }, Pattern::Mixed]
    );
    assert!((o.unattributed - 7.0 / 60.0).abs() < 1e-9, "{}", o.unattributed);
    let lines = Some(Lines { ahead: 0.0, beside: 0.0, written: 14.0 / 700.0, alone: Some(0.25) });
    assert_eq!(o.rest, Some(Asked { load_misses: 700.0, store_misses: 0.0, pattern: Pattern::Random, lines }));
    assert!(
        o.sampler_error.starts_with("period 100:") && o.sampler_error.contains(" 40 of them"),
        "{}",
        o.sampler_error
    );
    let at = |i: usize, id| o.timeline[i].misses.iter().find(|m| m.0 == SiteId(id)).map_or(0.0, |m| m.1.round());
    assert_eq!((o.timeline.len(), at(0, 1), at(50, 1), at(99, 3)), (100, 1300.0, 2700.0, 200.0));
}

/// Misses on no recorded object: their share of all, and by what they hit, most first.
#[test]
fn what_misses_hit_beside_objects_is_told_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("elsewhere.hearth");
    let mut w = counting(&path, 1, vec![]);
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let site = w.site(SiteId(1)).unwrap();
    let object =
        ObjectRow { process, site, tid: 9, addr: 1, size: 9, alloc_ns: 0, free_ns: None, tier: 0, realloc: false };
    w.object(1, &object).unwrap();
    let mut miss = |site: Option<i64>, place, start_ns, loads, stores| {
        let row = MissRow {
            process: Some(process),
            site,
            place,
            start_ns,
            loads,
            stores,
            load_weight: loads,
            store_weight: stores,
            ahead: 0,
            latency_ns: 0,
            written: 0,
            beside: 0,
            lone_ns: 0,
            alone_ns: 0,
        };
        w.miss(&row).unwrap();
    };
    miss(Some(site), "object", 0, 150, 10);
    for (place, loads, stores) in
        [("other", 1, 0), ("stack", 2, 4), ("file", 3, 0), ("anonymous", 4, 1), ("data", 8, 0), ("heap", 10, 5)]
    {
        miss(None, place, 0, loads, stores);
    }
    // Of one kind in two intervals.
    miss(None, "file", 500_000_000, 2, 0);
    w.finish(Nanos(1_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    let shares = o.elsewhere.iter().map(|(place, share)| (place.as_str(), (share * 200.0).round()));
    // Those with equal shares stand in the order of their names.
    assert_eq!(
        shares.collect::<Vec<_>>(),
        [("heap", 15.0), ("data", 8.0), ("stack", 6.0), ("anonymous", 5.0), ("file", 5.0), ("other", 1.0)]
    );
    assert!((o.unattributed - 40.0 / 200.0).abs() < 1e-9, "{}", o.unattributed);
    assert!((o.elsewhere.iter().map(|e| e.1).sum::<f64>() - o.unattributed).abs() < 1e-9);
}

#[test]
fn functions_are_summed_up_by_site_and_tiers_by_what_the_kernel_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("guided.hearth");
    let tier = |name: &str, node| PlannedTier { name: name.into(), nodes: vec![node], dir: None, budget: None };
    let mut w = counting(&path, 1, vec![tier("fast", 0), tier("slow", 1)]);
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let module = w.module(&Module { path: "/bin/app".into(), build_id: "00ff".into() }).unwrap();
    let site = w.site(SiteId(5)).unwrap();
    for (id, tier) in [(1, 0), (2, 1)] {
        let (addr, size) = ((id as u64) << 30, 1 << 20);
        w.object(
            id,
            &ObjectRow { process, site, tid: 9, addr, size, alloc_ns: 0, free_ns: None, tier, realloc: false },
        )
        .unwrap();
    }
    let line = |function: &str, line| SourceLine { function: function.into(), file: "app.c".into(), line, column: 0 };
    w.symbol(module, 0x11, &[line("std::vector<int>::operator[]", 1), line("kernel", 7)]).unwrap();
    w.symbol(module, 0x21, &[line("kernel", 8)]).unwrap();
    let mut touch = |site, module, offset, loads: u64, stores, latency_ns| {
        let place = if site == Some(1) { "object" } else { "other" };
        let (misses, timed) = (10 * (loads + stores), loads);
        w.touch(&TouchRow { site, place, module, offset, loads, stores, misses, timed, latency_ns }).unwrap();
    };
    touch(Some(site), Some(module), 0x11, 3, 0, 300);
    touch(Some(site), Some(module), 0x21, 6, 1, 1200);
    touch(Some(site), Some(module), 0x11, 1, 0, 300); // comes in two parts
    touch(Some(site), Some(module), 0x31, 0, 2, 0);
    touch(None, Some(module), 0x21, 1, 0, 90);
    touch(None, None, 0, 4, 0, 400);
    w.residency(&ResidencyRow { process, site, time_ns: 1, node: 1, pages: 3, bytes: 12288, share: 1.0 }).unwrap();
    w.residency(&ResidencyRow { process, site, time_ns: 1, node: 0, pages: 1, bytes: 4096, share: 1.0 }).unwrap();
    assert_eq!(w.offsets(module).unwrap(), [0x11, 0x21, 0x31]);
    w.finish(Nanos(1_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    let seen: Vec<_> = o
        .touches
        .iter()
        .map(|t| (t.site.map(|s| s.0), t.function.as_str(), t.line, t.loads, t.stores, t.latency))
        .collect();
    assert_eq!(
        seen,
        [
            (Some(5), "kernel", 8, 10, 1, Some(180.0)),
            (None, "", 0, 4, 0, Some(100.0)),
            (Some(5), "[app]", 0, 0, 2, None),
            (None, "kernel", 8, 1, 0, Some(90.0)),
        ]
    );
    assert_eq!((o.touches[0].misses, o.touches[0].timed), (110.0, 10));
    assert_eq!(o.sites[0].placed, [Bytes(1 << 20), Bytes(1 << 20)]);
    assert_eq!(o.tier_shares(&o.sites[0]), [0.25, 0.75]);
    // Tiers that share their memory are told apart by heaps only.
    let mut shared = o.clone();
    shared.tiers[1].nodes = vec![0];
    assert_eq!(shared.tier_shares(&shared.sites[0]), [0.5, 0.5]);
}

#[test]
fn profiles_of_version_1_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole(folder.path());
    let now = profile::open(&path).unwrap().observed().unwrap();
    // What version 1 did not have is taken away.
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("DROP TABLE miss; DROP TABLE source; DROP TABLE touch; DROP TABLE chunk; PRAGMA user_version = 1")
        .unwrap();
    drop(db);
    let then = profile::open(&path).unwrap().observed().unwrap();
    assert!(then.total_misses() > 0.0);
    assert_eq!(then, now);
}

const MIB: u64 = 1 << 20;

/// A site with an object of 64 MiB whose third and fourth MiB are hot, and a small one, for two seconds.
fn fill_large(w: &mut Writer) -> i64 {
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let site = w.site(SiteId(5)).unwrap();
    let object = |addr, size| ObjectRow {
        process,
        site,
        tid: 9,
        addr,
        size,
        alloc_ns: 0,
        free_ns: None,
        tier: 0,
        realloc: false,
    };
    w.object(1, &object(1 << 40, 64 * MIB)).unwrap();
    w.object(2, &object(1 << 41, MIB)).unwrap();
    let (tid, ip, store, burst) = (9, 1, false, None);
    for i in 0..400u64 {
        let time_ns = i * 5_000_000;
        // Armed evenly; of the hot chunk visited after a ms, of the small object after 10, elsewhere never.
        let (object, addr) =
            if i % 10 == 0 { (Some(2), (1 << 41) + i * 4096 % MIB) } else { (Some(1), (1 << 40) + i * 37 % 64 * MIB) };
        let hot = (addr - (1 << 40)) / (4 * MIB) == 2;
        if hot || object == Some(2) {
            let wait_ns = if hot { 1_000_000 } else { 10_000_000 };
            w.visit(&VisitRow { process, site, object, tid, time_ns, addr, ip, store, wait_ns, burst }).unwrap();
        } else {
            w.quiet(&QuietRow { process, site, object, time_ns, page: addr, wait_ns: 400_000_000 }).unwrap();
        }
    }
    w.process_status(process, 2_000_000_000, "ended").unwrap();
    site
}

/// Rows of all its chunks, as a recorder leaves them that was killed after one second, or that came to its end.
fn large_chunks(killed: bool, heat: impl Fn(u64) -> ChunkHeat) -> Vec<ChunkRow> {
    let class = SizeClass::of(Bytes(64 * MIB)).unwrap();
    let (alive, since_ns, seconds) = if killed { (4 * MIB, 0, 0.0) } else { (0, 2_000_000_000, 2.0) };
    let row = |n| ChunkRow {
        at: class.at(Bytes(n * 4 * MIB)),
        peak: 4 * MIB,
        alive,
        since_ns,
        byte_seconds: seconds * (4 * MIB) as f64,
        resident: (n < 8).then_some(n * MIB),
        heat: heat(n),
    };
    (0..16).map(row).collect()
}

#[test]
fn a_sites_estimate_is_divided_among_its_chunks_and_what_is_in_none() {
    let folder = tempfile::tempdir().unwrap();
    let observed = |killed: bool| {
        let path = folder.path().join(if killed { "k.hearth" } else { "f.hearth" });
        let mut w = create(&path).unwrap();
        let site = fill_large(&mut w);
        large_chunks(killed, |_| ChunkHeat::default()).iter().for_each(|row| w.chunk(site, row).unwrap());
        match killed {
            true => w.commit(Nanos(2_000_000_000)).unwrap(),
            false => w.finish(Nanos(2_000_000_000), "exit 0").unwrap(),
        }
        profile::open(&path).unwrap().observed().unwrap()
    };
    let finished = observed(false);
    let site = &finished.sites[0];
    let places: Vec<u64> = site.chunks.iter().map(|c| c.offset.0 / MIB).collect();
    assert_eq!(places, (0..16).map(|n| 4 * n).collect::<Vec<_>>());
    let hot = &site.chunks[2];
    assert_eq!((hot.class, hot.size, hot.peak), (Bytes(64 * MIB), Bytes(4 * MIB), Bytes(4 * MIB)));
    assert_eq!((hot.resident, site.chunks[8].resident), (Some(Bytes(2 * MIB)), None));
    assert!(hot.samples > 10 && site.chunks.iter().filter(|c| c.samples > 0).count() == 1);
    assert_eq!(site.samples, hot.samples + 40);
    let all: f64 = site.chunks.iter().map(Chunk::misses).sum();
    // The small object has a sixteenth of the hot chunk's pages, and a tenth of its visits.
    assert!(hot.misses() > 0.95 * site.misses() && all < site.misses(), "{all} of {}", site.misses());
    // What is made of the samples when it is read is what the recorder wrote at its end.
    let then = observed(true);
    assert_eq!(then.sites[0].chunks.len(), 16);
    for (then, now) in then.sites[0].chunks.iter().zip(&site.chunks) {
        assert_eq!(
            (then.offset, then.peak, then.resident, then.samples),
            (now.offset, now.peak, now.resident, now.samples)
        );
        assert!((then.misses() / now.misses() - 1.0).abs() < 1e-9, "{then:?} and {now:?}");
    }
}

#[test]
fn chunks_of_a_sampler_that_counts_have_its_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.hearth");
    let mut w = counting(&path, 100, vec![]);
    let site = fill_large(&mut w);
    let heat = |n: u64| ChunkHeat { load_misses: 100.0 * n as f64, store_misses: 50.0, samples: n };
    large_chunks(false, heat).iter().for_each(|row| w.chunk(site, row).unwrap());
    // A later word on a chunk is the last.
    w.chunk(site, &large_chunks(false, |_| ChunkHeat { load_misses: 7.0, ..heat(3) })[0]).unwrap();
    w.finish(Nanos(2_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    let seen: Vec<_> = o.sites[0].chunks.iter().map(|c| (c.load_misses, c.store_misses, c.samples)).collect();
    assert_eq!((seen.len(), seen[0], seen[15]), (16, (7.0, 50.0, 3), (1500.0, 50.0, 15)));
}

#[test]
fn a_chunk_that_no_object_can_have_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole(folder.path());
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO chunk VALUES (1, 4096, 0, 1, 0, 0, 0, NULL, 0, 0, 0)").unwrap();
    drop(db);
    let sentence = profile::open(&path).unwrap().observed().unwrap_err().to_string();
    assert!(sentence.contains("is damaged") && sentence.contains("4 KiB"), "{sentence}");
}

/// A profile of the lab as an older Hearth wrote it: with a period of 50, after these changes to its tables.
fn older(changes: &str) -> model::Observed {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lab.hearth");
    let mut w = counting(&path, 50, vec![]);
    fill(&mut w);
    w.commit(Nanos(2_000_000_000)).unwrap();
    drop(w);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.execute_batch(changes).unwrap();
    drop(db);
    profile::open(&path).unwrap().observed().unwrap()
}

/// Before version 3 every sample of the lab weighed as much as its period.
#[test]
fn misses_of_version_2_are_read() {
    let o = older(
        "DROP TABLE source; DROP TABLE miss;
         CREATE TABLE miss (process INTEGER NOT NULL, site INTEGER, place TEXT NOT NULL, start_ns INTEGER NOT NULL,
             loads INTEGER NOT NULL, stores INTEGER NOT NULL, ahead INTEGER NOT NULL, latency_ns INTEGER NOT NULL);
         INSERT INTO miss VALUES (1, 1, 'object', 0, 3, 1, 0, 900);
         PRAGMA user_version = 2",
    );
    assert_eq!((o.sites[0].load_misses, o.sites[0].store_misses, o.sites[0].miss_latency), (150.0, 50.0, None));
    assert_eq!(o.sites[0].lines, None);
}

/// Before version 11 it was not told which misses wait together.
#[test]
fn misses_of_version_10_are_read() {
    let o = older(
        "DELETE FROM miss; ALTER TABLE miss DROP COLUMN lone_ns; ALTER TABLE miss DROP COLUMN alone_ns;
         INSERT INTO miss VALUES (1, 1, 'object', 0, 3, 1, 2, 900, 150, 50, 20, 10);
         PRAGMA user_version = 10",
    );
    let lines = Lines { ahead: 0.5, beside: 0.05, written: 0.1, alone: None };
    assert_eq!((o.sites[0].load_misses, o.sites[0].store_misses, o.sites[0].lines), (150.0, 50.0, Some(lines)));
}

#[test]
fn an_unfinished_profile_says_the_same_from_its_samples() {
    let folder = tempfile::tempdir().unwrap();
    let finished = profile::open(whole(folder.path())).unwrap().observed().unwrap();
    let path = folder.path().join("b.hearth");
    let mut w = create(&path).unwrap();
    fill(&mut w);
    w.commit(Nanos(2_000_000_000)).unwrap();
    // What comes after the last commit is not there, as after `kill -9`.
    w.site(SiteId(77)).unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    assert_eq!(o.outcome, "unfinished");
    assert_eq!((o.sites, o.timeline), (finished.sites, finished.timeline));
}

#[test]
fn a_reader_does_not_stop_the_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hearth");
    let mut w = create(&path).unwrap();
    fill(&mut w);
    w.commit(Nanos(1)).unwrap();
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM object").unwrap();
    let n: i64 = reader.query_row("SELECT count(*) FROM object", [], |r| r.get(0)).unwrap();
    w.site(SiteId(77)).unwrap();
    let start = std::time::Instant::now();
    w.commit(Nanos(2)).unwrap();
    assert!(start.elapsed().as_millis() < 100, "the recorder waited for a reader");
    assert_eq!(n, 3);
    reader.execute_batch("COMMIT").unwrap();
    w.commit(Nanos(3)).unwrap();
    let sites: i64 = reader.query_row("SELECT count(*) FROM site", [], |r| r.get(0)).unwrap();
    assert_eq!(sites, 3, "the next commit takes along what the former one could not write");
}

#[test]
fn what_is_no_profile_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole(folder.path());
    let good = std::fs::read(&path).unwrap();
    let say = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        match profile::open(&path).and_then(|p| p.observed()) {
            Ok(_) => "fine".to_string(),
            Err(e) => e.to_string(),
        }
    };
    assert_eq!(say(&good), "fine");
    assert!(say(b"").contains("an empty file"));
    assert!(say(b"not a profile at all").contains("a file of another kind"));
    assert!(say(&good[..60]).contains("cut off within its header"));
    assert!(say(&good[..good.len() / 2]).contains("is cut off: it has"));
    let mut foreign = good.clone();
    foreign[68..72].fill(0);
    assert!(say(&foreign).contains("an SQLite database of another program"));
    let mut newer = good.clone();
    let known = profile::schema::VERSION;
    newer[63] = known as u8 + 1;
    let sentence = format!("profile version {}, this one reads up to {known}", known + 1);
    assert!(say(&newer).contains(&sentence), "{}", say(&newer));
    let mut corrupt = good.clone();
    let middle = good.len() / 3;
    corrupt[middle..middle * 2].fill(0xa5);
    assert!(say(&corrupt).contains("is damaged"), "{}", say(&corrupt));
    let sentence = profile::open(folder.path().join("none")).err().unwrap().to_string();
    assert!(sentence.contains("does not exist") && sentence.contains("hearth record"));
    assert!(profile::open(folder.path()).err().unwrap().to_string().contains("a directory"));
}

#[test]
fn damage_anywhere_is_an_error_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole(folder.path());
    let good = std::fs::read(&path).unwrap();
    let mut at = 100u64;
    for round in 0..150u64 {
        let mut bad = good.clone();
        for _ in 0..8 {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round + 1);
            let i = (at >> 20) as usize % bad.len();
            bad[i] = (at >> 50) as u8;
        }
        std::fs::write(&path, bad).unwrap();
        let _ = profile::open(&path).and_then(|p| p.observed());
    }
}

#[test]
fn only_a_profile_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = whole(folder.path());
    create(&path).unwrap().finish(Nanos(1), "exit 1").unwrap();
    assert_eq!(profile::open(&path).unwrap().observed().unwrap().outcome, "exit 1");
    for (name, bytes) in [("text", &b"my notes"[..]), ("cut", b"SQLite format 3\0")] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let sentence = create(&path).err().unwrap().to_string();
        assert!(sentence.contains("is not overwritten"), "{sentence}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    assert!(create(folder.path()).err().unwrap().to_string().contains("a directory"));
    assert!(create(Path::new("/dev/null")).err().unwrap().to_string().contains("not a regular file"));
    let nowhere = create(&folder.path().join("no/such/folder")).err().unwrap().to_string();
    assert!(nowhere.contains("No such file"), "{nowhere}");
    let path = folder.path().join("in-use");
    let mut other = create(&path).unwrap();
    for now in 1..3 {
        assert!(create(&path).err().unwrap().to_string().contains("another hearth writes it now"));
        other.commit(Nanos(now)).unwrap();
    }
    other.finish(Nanos(5), "exit 5").unwrap();
    assert_eq!(profile::open(&path).unwrap().observed().unwrap().outcome, "exit 5");
    create(&path).unwrap().discard();
    let path = folder.path().join("never-started");
    create(&path).unwrap().discard();
    assert!(!path.exists());
}

/// Objects that are told together count in all sums of their site; a later word on the same interval replaces the earlier.
#[test]
fn cohorts_count_like_objects() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.hearth");
    let mut w = create(&path).unwrap();
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let site = w.site(SiteId(3)).unwrap();
    let (tid, tier, realloc) = (9, 1, false);
    let (addr, size, alloc_ns, free_ns) = (1 << 20, 115_000, 400_000_000, Some(600_000_000));
    w.object(1, &ObjectRow { process, site, tid, addr, size, alloc_ns, free_ns, tier, realloc }).unwrap();
    let cohort = |start_ns, end_ns, objects: u64, peak| Cohort {
        start_ns,
        end_ns,
        objects,
        bytes: 8192 * objects,
        largest: 8192,
        byte_seconds: 8192.0 * 0.001 * objects as f64,
        page_seconds: 2.0 * 0.001 * objects as f64,
        lifetime_seconds: 0.001 * objects as f64,
        peak,
    };
    w.cohorts(process, site, tier, 0, &[cohort(0, 500_000_000, 10, 20_480)]).unwrap();
    let later = [cohort(0, 900_000_000, 1000, 120_000), cohort(1_000_000_000, 2_000_000_000, 9, 20_480)];
    w.cohorts(process, site, tier, 500_000_000, &later).unwrap();
    w.finish(Nanos(2_000_000_000), "exit 0").unwrap();
    let o = profile::open(&path).unwrap().observed().unwrap();
    let s = &o.sites[0];
    // The cohort's mean and the object together are more, but were never alive together.
    assert_eq!((s.objects, s.largest, s.peak), (1 + 1000 + 9, Bytes(115_000), Bytes(120_000)));
    assert_eq!((s.allocated, s.last_free), (Bytes(115_000 + 8192 * 1009), Nanos(2_000_000_000)));
    assert!((s.total_lifetime.secs() - (0.2 + 1.009)).abs() < 1e-6, "{:?}", s.total_lifetime);
    // Half a second in, there are the object with a row and what the cohorts had alive on average.
    let middle = o.timeline.iter().find(|p| p.at.0 >= 500_000_000).unwrap();
    let live: u64 = middle.live.iter().map(|l| l.1.0).sum();
    assert!((115_000 + 9_000..115_000 + 9_200).contains(&live), "{live}");
}

/// What was sampled on an object that is not told apart counts for its stack, whatever table it is in.
#[test]
fn objects_that_tell_nothing_apart_are_their_stacks_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.hearth");
    let mut w = counting(&path, 1, vec![]);
    let process = w.process(&ProcessRow { pid: 9, ppid: 1, exe: "/bin/app".into(), start_ns: 0 }).unwrap();
    let module = w.module(&Module { path: "/bin/app".into(), build_id: "00ff".into() }).unwrap();
    let mut number = 0;
    let mut object = |w: &mut Writer, site, size, alloc_ns, free_ns| {
        number += 1;
        let (tid, addr, tier, realloc) = (9, number as u64 * 64 * MIB, 0, false);
        let row = ObjectRow { process, site, tid, addr, size, alloc_ns, free_ns: Some(free_ns), tier, realloc };
        w.object(number, &row).unwrap();
        let miss = MissRow {
            process: Some(process),
            site: Some(site),
            place: "site",
            start_ns: alloc_ns,
            loads: 10,
            stores: 0,
            ahead: 0,
            latency_ns: 0,
            load_weight: 10,
            store_weight: 0,
            written: 0,
            beside: 0,
            lone_ns: 0,
            alone_ns: 0,
        };
        w.miss(&miss).unwrap();
        let (loads, stores, misses, timed, latency_ns) = (10, 0, 10, 0, 0);
        w.touch(&TouchRow {
            site: Some(site),
            place: "site",
            module: Some(module),
            offset: 16,
            loads,
            stores,
            misses,
            timed,
            latency_ns,
        })
        .unwrap();
    };
    let site = |w: &mut Writer, stack: u64, number: u8| {
        let id = SiteId(stack + u64::from(number));
        if number > 0 {
            w.apart(id, Apart { stack: SiteId(stack), number }).unwrap();
        }
        w.frames(id, &[FrameRow { module: Some(module), offset: stack }], false).unwrap();
        w.site(id).unwrap()
    };
    let ms = 1_000_000;
    // Side by side, the second only for a while, but whole.
    for (n, to) in [(0, 1000), (1, 300)] {
        let s = site(&mut w, 0x100, n);
        object(&mut w, s, 2 * MIB, n as u64 * ms, to * ms);
    }
    // One that grows: the old one goes soon after the new one has come.
    for (n, size, from, to) in [(0, 2, 0, 110), (1, 4, 100, 320), (0, 8, 300, 1000)] {
        let s = site(&mut w, 0x200, n);
        object(&mut w, s, size * MIB, from * ms, to * ms);
    }
    // A pool of twenty, of which the last ones are of the first one's site.
    for n in 0..20u8 {
        let s = site(&mut w, 0x300, if n < 16 { n } else { 0 });
        object(&mut w, s, MIB, 0, 1000 * ms);
    }
    w.finish(Nanos(1000 * ms), "exit 0").unwrap();
    let observed = profile::open(&path).unwrap().observed().unwrap();
    let mut told: Vec<(u64, u64, f64, u64, u64)> = observed
        .sites
        .iter()
        .map(|s| {
            let touched = observed.touches.iter().filter(|t| t.site == Some(s.site.id)).map(|t| t.misses as u64).sum();
            (s.site.id.0, s.objects, s.load_misses, s.peak.0 / MIB, touched)
        })
        .collect();
    told.sort_by_key(|t| t.0);
    assert_eq!(
        told,
        [(0x100, 1, 10.0, 2, 10), (0x101, 1, 10.0, 2, 10), (0x200, 3, 30.0, 12, 30), (0x300, 20, 200.0, 20, 200)]
    );
    let apart = observed.sites.iter().find(|s| s.site.id.0 == 0x101).unwrap().site.apart;
    assert_eq!(apart, Some(Apart { stack: SiteId(0x100), number: 1 }));
}
