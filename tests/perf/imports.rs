//! `hearth import`: real files of perf and of DHAT, made here of a program whose objects are known.

use crate::{counted_by_chunk, huge_pages_unasked};
use hearth_tests::{Room, function_sites, hearth, is_root, program, require_tool};
use std::fs;

/// One thread: two that touch a page in the same moment both have a fault, and both are samples.
const WORK: [&str; 7] = ["eight", "--work", "20", "--scale", "5", "--threads", "1"];

/// The exit code is 2, one sentence names what is wrong, and the file `untouched` is as it was.
#[track_caller]
fn refused(room: &Room, arguments: &[&str], untouched: &str, says: &[&str]) {
    let before = fs::read(room.path(untouched)).ok();
    let ended = room.hearth(arguments).expect(2);
    let text = ended.stderr.trim_end();
    assert!(text.starts_with("hearth: ") && text.lines().count() == 1, "{arguments:?}: {text}");
    for word in says {
        assert!(text.contains(word), "`{word}` is missing for {arguments:?} in: {text}");
    }
    assert!(fs::read(room.path(untouched)).ok() == before, "{arguments:?} changed {untouched}");
}

/// Records a test program without a sampler while perf samples page faults.
fn recorded_under_perf(room: &Room, options: &[&str], work: &[&str]) {
    require_tool("perf", "linux-perf");
    let hearth = hearth();
    let hearth = hearth.to_str().expect("readable");
    let program = program(work[0]);
    let mut command = vec!["perf", "record", "-q", "-c", "1", "-e", "page-faults", "-o", "perf.data"];
    if is_root() {
        // Of what others may lock, 512 KiB, so many faults at once fill the most within ten milliseconds, and perf may have to wait longer for a processor.
        command.extend(["-m", "16M"]);
    }
    command.extend(options);
    command.extend(["--", hearth, "record", "--sampler", "none", "-o", "app.hearth", "--", &program]);
    command.extend(&work[1..]);
    room.plain(&command).expect(0);
}

#[test]
fn samples_of_perf_find_the_objects_of_the_same_run() {
    let room = Room::new();
    recorded_under_perf(&room, &["-d", "-k", "CLOCK_MONOTONIC"], &WORK);
    for round in 0..2 {
        // The second time the samples are replaced.
        let told = room.hearth(&["import", "perf.data", "--into", "app.hearth"]).expect(0).stderr;
        assert!(told.contains("samples put into app.hearth"), "{round}: {told}");
        let observed = room.observed("app.hearth");
        assert_eq!(observed.sampler, "perf.data");
        assert!(observed.sampler_error.contains("page-faults"), "{}", observed.sampler_error);
        for name in ["stream_read", "random_read", "strided", "chase", "rmw"] {
            let function = format!("alloc_{name}");
            let site = function_sites(&observed, &function).next().expect("the site");
            let pages = site.peak.0.div_ceil(4096);
            let least = if huge_pages_unasked() { 1 } else { pages };
            assert!((least..=pages).contains(&site.samples), "{function}: {} of {pages}", site.samples);
        }
    }
    room.hearth(&["plan", "app.hearth", "--fast", "8MiB", "-o", "plan.toml"]).expect(0);

    let samples = fs::read(room.path("perf.data")).expect("the samples");
    fs::write(room.path("half.data"), &samples[..samples.len() / 2]).expect("writing");
    fs::write(room.path("head.data"), &samples[..50]).expect("writing");
    refused(&room, &["import", "half.data", "--into", "app.hearth"], "app.hearth", &["half.data", "cut off"]);
    refused(&room, &["import", "head.data", "--into", "app.hearth"], "app.hearth", &["head.data", "cut off"]);
    refused(&room, &["import", "perf.data", "-o", "new.hearth"], "new.hearth", &["perf.data", "--into"]);
    refused(&room, &["import", "perf.data", "--into", "none.hearth"], "none.hearth", &["none.hearth"]);
    refused(&room, &["import", "app.hearth", "--into", "app.hearth"], "app.hearth", &["neither"]);
    room.record(&["--sampler", "none"], "other.hearth", &["true"]).expect(0);
    refused(&room, &["import", "perf.data", "--into", "other.hearth"], "other.hearth", &["other.hearth", "one run"]);
    room.record(&["--sampler", "page-fault"], "own.hearth", &[&program("phases")]).expect(0);
    refused(&room, &["import", "perf.data", "--into", "own.hearth"], "own.hearth", &["page-fault", "--sampler none"]);
}

#[test]
fn samples_of_perf_fall_on_the_chunks_of_large_objects() {
    let room = Room::new();
    recorded_under_perf(&room, &["-d", "-k", "CLOCK_MONOTONIC"], &["chunks", "0", "mapping", "1"]);
    for _ in 0..2 {
        room.hearth(&["import", "perf.data", "--into", "app.hearth"]).expect(0);
        counted_by_chunk(&room.observed("app.hearth"), 5);
    }
}

#[test]
fn samples_of_another_clock_or_without_addresses_are_refused() {
    let room = Room::new();
    recorded_under_perf(&room, &["-d"], &WORK);
    refused(&room, &["import", "perf.data", "--into", "app.hearth"], "app.hearth", &["-k CLOCK_MONOTONIC"]);
    recorded_under_perf(&room, &["-k", "CLOCK_MONOTONIC"], &WORK);
    refused(&room, &["import", "perf.data", "--into", "app.hearth"], "app.hearth", &["address", "perf record -d"]);
}

#[test]
fn what_dhat_counted_is_a_profile() {
    require_tool("valgrind", "valgrind");
    let room = Room::new();
    let program = program("eight");
    let mut command = vec!["valgrind", "-q", "--tool=dhat", "--dhat-out-file=dhat.out", &program];
    command.extend(["--work", "20", "--scale", "2", "--threads", "1", "--truth", "truth.json"]);
    room.plain(&command).expect(0);
    room.hearth(&["import", "dhat.out", "-o", "dhat.hearth"]).expect(0);
    let observed = room.observed("dhat.hearth");
    assert_eq!((observed.sampler.as_str(), observed.outcome.as_str()), ("dhat", "imported"));
    let file: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(room.path("dhat.out")).expect("the file")).expect("JSON");
    let points = file["pps"].as_array().expect("program points");
    for name in ["stream_read", "stream_write", "strided", "random_read", "random_write", "chase", "rmw", "resident"] {
        let function = format!("alloc_{name}");
        let site = function_sites(&observed, &function).next().expect("the site");
        // What DHAT itself says of this call stack.
        let frame = file["ftbl"]
            .as_array()
            .expect("frames")
            .iter()
            .position(|f| f.as_str().is_some_and(|f| f.contains(&function)));
        let frame = frame.expect("the frame");
        let point = points.iter().find(|p| p["fs"].as_array().is_some_and(|s| s.iter().any(|f| *f == frame)));
        let number = |key: &str| point.expect("the point")[key].as_u64().expect("a number");
        assert_eq!(
            (site.objects, site.allocated.0, site.peak.0),
            (number("tbk"), number("tb"), number("mb")),
            "{name}"
        );
        assert_eq!((site.load_misses, site.store_misses), ((number("rb") / 64) as f64, (number("wb") / 64) as f64));
        assert!(site.site.frames.iter().any(|f| f.source.iter().any(|l| l.file == "eight.c" && l.line > 0)), "{name}");
    }
    room.hearth(&["plan", "dhat.hearth", "--fast", "2MiB", "-o", "plan.toml"]).expect(0);

    let good = fs::read_to_string(room.path("dhat.out")).expect("the file");
    fs::write(room.path("half.out"), &good[..good.len() / 2]).expect("writing");
    fs::write(room.path("newer.out"), good.replace("\"dhatFileVersion\":2", "\"dhatFileVersion\":9")).expect("writing");
    fs::write(room.path("copy.out"), good.replace("\"mode\":\"heap\"", "\"mode\":\"copy\"")).expect("writing");
    fs::write(room.path("text.out"), "nothing").expect("writing");
    for (name, word) in [("half", "whole"), ("newer", "version is 9"), ("copy", "default mode"), ("text", "neither")] {
        let file = format!("{name}.out");
        refused(&room, &["import", &file, "-o", "x.hearth"], "x.hearth", &[&file, word]);
    }
    refused(&room, &["import", "dhat.out", "--into", "dhat.hearth"], "dhat.hearth", &["-o"]);
    refused(&room, &["import", "dhat.out", "-o", "no/folder/x.hearth"], "x.hearth", &["no/folder"]);
    refused(&room, &["import", "missing.out", "-o", "x.hearth"], "x.hearth", &["missing.out"]);
}
