//! The road of the processor's samples, on machines that have none: the kernel's page-fault events carry an address and a
//! process as those do, and how many there must be on each object is known: one for each page, at its first touch.

mod imports;

use hearth_tests::{Ended, Room, function_sites, hearth, program, run};
use model::{Bytes, Observed, SiteKind};
use record::{Options, Sampler};
use std::path::PathBuf;
use std::sync::Mutex;

const PAGE: u64 = 4096;

/// One at a time: the recorder takes signals for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

/// Records into `touched.hearth`, sampling first touches.
fn touches(room: &Room, command: &[&str]) -> Observed {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let library: PathBuf = hearth().with_file_name("libhearth.so");
    // SAFETY: under the lock, and nothing else in this process reads the environment meanwhile.
    unsafe { std::env::set_var("HEARTH_LIBRARY", library) };
    let options = Options {
        program: command[0].into(),
        args: command[1..].iter().map(Into::into).collect(),
        output: Some(room.path("touched.hearth")),
        threshold: Bytes::kib(4),
        sampler: Sampler::FirstTouches,
        llc: None,
        platform: Err("not asked".into()),
        phases: false,
        plan: None,
    };
    let recorded = record::record(&options, &mut |_| ()).expect("page-fault events work for every user");
    assert_eq!(recorded.outcome.code, 0, "{}", recorded.outcome.how);
    let known = ["platform-unknown", "sample-dropped"];
    assert!(recorded.outcome.losses.iter().all(|l| known.contains(&l.kind.as_str())), "{:?}", recorded.outcome.losses);
    room.observed("touched.hearth")
}

/// Whether the kernel gives huge pages unasked: then one fault stands for many pages.
fn huge_pages_unasked() -> bool {
    std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").is_ok_and(|t| t.contains("[always]"))
}

/// Samples for which the kernel's ring had no room, of whatever object: a machine that is busy with other things runs the
/// recorder too late.
fn dropped(observed: &Observed) -> u64 {
    observed.losses.iter().filter(|l| l.kind == "sample-dropped").map(|l| l.count).sum()
}

/// Pages of a chunk may fault twice: those that the kernel takes away for a moment, to make a huge page of them (khugepaged) or to move
/// them together.
const AGAIN: u64 = 8;

/// An object of 128 MiB in chunks: one sample for each page that was touched, and none for the eighth that never is.
#[track_caller]
fn counted_by_chunk(observed: &Observed, untouched: usize) {
    let site = observed.sites.iter().find(|s| s.site.kind == SiteKind::Mapping).expect("the mapping");
    assert_eq!(site.chunks.len(), 16);
    let dropped = dropped(observed);
    let mut missing = 0;
    for (n, chunk) in site.chunks.iter().enumerate() {
        let pages = if n / 2 == untouched { 0 } else { chunk.size.0 / PAGE };
        let most = if pages == 0 { 0 } else { pages + AGAIN };
        assert!(chunk.samples <= most && chunk.misses() == chunk.samples as f64, "{n}: {chunk:?}, {dropped} dropped");
        assert!(pages == 0 || chunk.samples > 0 || dropped > 0, "{n}: {chunk:?}");
        missing += pages.saturating_sub(chunk.samples);
    }
    assert!(
        huge_pages_unasked() || missing <= dropped,
        "{missing} are missing, {dropped} were dropped: {:?}",
        site.chunks
    );
}

#[test]
fn first_touches_of_a_large_mapping_are_counted_by_chunk() {
    let room = Room::new();
    let observed = touches(&room, &[&program("chunks"), "0", "mapping", "6"]);
    counted_by_chunk(&observed, 2);
}

#[test]
fn every_first_touch_is_on_the_object_that_was_touched() {
    let room = Room::new();
    let observed = touches(&room, &[&program("eight"), "--work", "20", "--threads", "2", "--scale", "10"]);
    let dropped = dropped(&observed);
    assert_eq!(observed.sampler, "perf");
    assert!(observed.sampler_error.starts_with("page faults"), "{}", observed.sampler_error);
    let functions =
        ["stream_read", "stream_write", "strided", "random_read", "random_write", "chase", "rmw", "resident"];
    let mut missing = 0;
    for name in functions {
        let function = format!("alloc_{name}");
        let sites: Vec<_> = function_sites(&observed, &function).collect();
        assert_eq!(sites.len(), 1, "{function}");
        let pages = sites[0].peak.0.div_ceil(PAGE);
        println!("{function}: {pages} pages, {} samples", sites[0].samples);
        // Two threads that touch a page in the same moment both have a fault.
        assert!(sites[0].samples <= 2 * pages && (sites[0].samples > 0 || dropped > 0), "{function}");
        assert_eq!(sites[0].misses(), sites[0].samples as f64, "a sample weighs as much as its period");
        missing += pages.saturating_sub(sites[0].samples);
    }
    assert!(huge_pages_unasked() || missing <= dropped, "{missing} are missing, {dropped} were dropped");
}

/// Children get the events of their parents, and their objects get the children's samples.
#[test]
fn children_are_sampled_as_their_parents_are() {
    // One thread: two that touch a page in the same moment both have a fault.
    const WORK: &str = "--work 2 --scale 5 --threads 1";
    let room = Room::new();
    let script = format!("{0} {WORK} >/dev/null && ({0} {WORK} >/dev/null)", program("eight"));
    let observed = touches(&room, &["sh", "-c", &script]);
    let site = function_sites(&observed, "alloc_chase").next().expect("the chase");
    let pages = site.largest.0.div_ceil(PAGE);
    assert_eq!(site.objects, 2);
    assert!(site.samples <= 2 * pages);
    assert!(huge_pages_unasked() || 2 * pages - site.samples <= dropped(&observed), "{}", site.samples);
}

/// What the processor cannot do here is one sentence and status 2; where it can, it works.
#[test]
fn the_processors_own_samples_or_a_sentence() {
    let room = Room::new();
    let Ended { status, stderr, .. } =
        room.record(&["--sampler", "perf"], "x.hearth", &[&program("eight"), "--work", "200"]);
    match status {
        0 => {
            let observed = room.observed("x.hearth");
            assert!(observed.sampler == "perf" && observed.total_misses() > 0.0, "{observed:?}");
        }
        _ => {
            assert_eq!(status, 2, "{stderr}");
            let one = stderr.trim_end();
            assert!(one.starts_with("hearth: --sampler perf: ") && one.lines().count() == 1, "{stderr}");
            assert!(one.contains("--sampler page-fault"), "no remedy: {one}");
            assert!(!room.path("x.hearth").exists());
        }
    }
    let auto = room.record(&[], "auto.hearth", &[&program("phases")]).expect(0);
    let chosen = if status == 0 { "hearth: sampler perf: " } else { "hearth: sampler page-fault: " };
    assert!(auto.stderr.lines().any(|l| l.starts_with(chosen)), "{}", auto.stderr);
    assert_eq!(room.observed("auto.hearth").sampler, if status == 0 { "perf" } else { "page-fault" });
}

/// The same while objects are placed, for one program and by a daemon.
#[test]
fn the_processors_own_samples_while_objects_are_placed() {
    let room = Room::new();
    let phases = program("phases");
    let plain = room.plain(&[&phases]).expect(0);
    let refused = |ended: &Ended| {
        assert_eq!(ended.status, 2, "{}", ended.stderr);
        let one = ended.stderr.trim_end();
        assert!(one.starts_with("hearth: --sampler perf: ") && one.lines().count() == 1, "{one}");
        assert!(one.contains("--sampler page-fault") && ended.stdout.is_empty(), "{one}");
    };
    let live = room.hearth(&["live", "--sampler", "perf", "--", &phases]);
    match live.status {
        0 => assert_eq!(live.stdout, plain.stdout),
        _ => refused(&live),
    }
    // A daemon that begins is ended by a signal after some time.
    let hearth = hearth();
    let daemon = |sampler: &str| {
        let daemon =
            ["3", hearth.to_str().expect("a readable name"), "daemon", "--socket", "d.sock", "--sampler", sampler];
        run(room.command("timeout").args(daemon))
    };
    let begun = |ended: &Ended| {
        assert!(ended.status == 124 && ended.stderr.contains("the daemon listens at d.sock"), "{}", ended.stderr);
    };
    match daemon("perf") {
        ended if live.status == 0 => begun(&ended),
        ended => refused(&ended),
    }
    assert!(!room.path("d.sock").exists());
    let auto = daemon("auto");
    begun(&auto);
    let chosen = if live.status == 0 { "hearth: sampler perf: " } else { "hearth: sampler page-fault: " };
    assert!(auto.stderr.lines().any(|l| l.starts_with(chosen)), "{}", auto.stderr);
}
