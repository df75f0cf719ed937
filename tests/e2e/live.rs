//! `hearth live` on a machine with one memory: programs do what they do without it, and bad input is answered by a sentence.

use crate::bad_input::{one_sentence, refused};
use hearth_tests::{Room, program, script_of_document};
use std::fs;

const ONE_TIER: &str = "this machine has one tier of memory: the program is observed, and there is nothing to place";

/// A platform file with a tier on a node that does not exist: the kernel refuses all moves to it.
const TWO: &str = r#"
name = "two"
llc = "1MiB"
[[tier]]
name = "fast"
kind = "dram"
nodes = [0]
capacity = "2MiB"
latency = "100ns"
read_bandwidth = "20GB/s"
[[tier]]
name = "slow"
kind = "cxl"
nodes = [99]
capacity = "1GiB"
latency = "300ns"
read_bandwidth = "5GB/s"
"#;

#[test]
fn programs_run_as_without_and_the_summary_says_what_was_done() {
    let room = Room::new();
    fs::write(room.path("two.toml"), TWO).expect("writing");
    for command in [
        vec![program("phases"), "--work".into(), "50".into()],
        vec!["sh".into(), "-c".into(), "echo out; kill -9 $$".into()],
    ] {
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let plain = room.plain(&command);
        for options in [
            &[][..],
            &["--interval", "50ms"],
            &["--threshold", "1"],
            &["--fast", "591MiB"],
            &["--platform", "two.toml", "--interval", "20ms"],
        ] {
            let live = room.hearth(&[&["live"], options, &["--"], &command].concat());
            assert_eq!((live.status, &live.stdout), (plain.status, &plain.stdout), "{options:?}: {}", live.stderr);
            let said = live.stderr.contains(ONE_TIER);
            assert_eq!(said, !options.contains(&"--platform") && nodes() == 1, "{options:?}: {}", live.stderr);
        }
    }
}

fn nodes() -> usize {
    let names = fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    names
        .filter(|e| e.file_name().to_string_lossy().strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok()))
        .count()
        .max(1)
}

/// It is decided as if there were a node 99, and the kernel says that there is none.
#[test]
fn a_tier_without_its_node_is_said() {
    let room = Room::new();
    fs::write(room.path("two.toml"), TWO).expect("writing");
    let placed = program("placed");
    let options = ["live", "--platform", "two.toml", "--interval", "50ms", "--trigger", "time=1", "--log", "why.jsonl"];
    let ended = room.hearth(&[&options[..], &["--", &placed, "8", "24", "1", "1"]].concat()).expect(0);
    assert!(ended.stderr.contains("there is no NUMA node 99 with memory here"), "{}", ended.stderr);
    assert!(ended.stderr.contains("asked for moves, and nothing could be moved"), "{}", ended.stderr);
    let shown = room.hearth(&["report", "why.jsonl"]).expect(0).stdout;
    assert!(shown.contains(" 0 moves: 0 B went to faster memory"), "{shown}");
}

#[test]
fn what_was_done_is_written_as_json() {
    let room = Room::new();
    fs::write(room.path("two.toml"), TWO).expect("writing");
    let phases = program("phases");
    let options = [
        "live",
        "--platform",
        "two.toml",
        "--interval",
        "20ms",
        "--quiet",
        "--json",
        "did.json",
        "--log",
        "why.jsonl",
        "--",
    ];
    let ended = room.hearth(&[&options[..], &[&phases, "--work", "100"]].concat()).expect(0);
    assert_eq!(ended.stderr, "", "quiet is quiet");
    let text = fs::read_to_string(room.path("did.json")).expect("it was written");
    let did: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(did["tiers"], serde_json::json!(["fast", "slow"]));
    assert!(did["intervals"].as_u64() > Some(3) && did["most_records"].as_u64() > Some(0), "{did}");
    // Its objects come and go; those that stay for an interval are in the log, with their names.
    let shown = room.hearth(&["report", "why.jsonl"]).expect(0).stdout;
    assert!(shown.contains("0 decisions") && shown.contains("phases.c:"), "{shown}");
    room.hearth(&["report", "why.jsonl", "--html", "why.html"]).expect(0);
    let page = fs::read_to_string(room.path("why.html")).expect("it was written");
    assert!(page.contains("In fast memory by site over time (fast)") && page.contains("phases.c:"));
    refused(&room, &["report", "why.jsonl", "--json"], &["why.jsonl is a log"]);
    refused(&room, &["report", "did.json"], &["did.json: line 1 is no line of a log"]);
    refused(&room, &["report", "why.jsonl", "--html", "why.jsonl"], &["why.jsonl"]);
    // A run that is over before the first interval is.
    room.hearth(&["live", "--quiet", "--interval", "60s", "--log", "short.jsonl", "--", "true"]).expect(0);
    let shown = room.hearth(&["report", "short.jsonl"]).expect(0).stdout;
    assert!(shown.contains("ends within its first interval (") && shown.contains("--interval"), "{shown}");
    room.hearth(&["report", "short.jsonl", "--html", "short.html"]).expect(0);
}

/// The trigger that needs counters. What its refusal recommends is to work.
#[test]
fn where_nothing_counts_another_trigger_is_recommended() {
    let room = Room::new();
    let live = |options: &[&str]| room.hearth(&[&["live", "--trigger"], options, &["--", "true"]].concat());
    let counts = live(&["llcmpi"]).status == 0;
    let says = if counts { "--sampler perf" } else { "choose worth-it, time or alloc" };
    for sampler in [&[][..], &["--sampler", "none"], &["--sampler", "page-fault"], &["--sampler", "perf"]] {
        let options = [&["llcmpi"], sampler].concat();
        if counts && !matches!(sampler, [_, "none" | "page-fault"]) {
            live(&options).expect(0);
        } else {
            one_sentence(&live(&options), &options, &["--trigger llcmpi: ", says]);
        }
    }
    for trigger in ["worth-it", "time", "alloc"] {
        live(&[trigger]).expect(0);
    }
    one_sentence(
        &room.hearth(&["daemon", "--trigger", "llcmpi", "--socket", "d.sock"]),
        &["daemon"],
        &["a daemon does not count instructions; choose worth-it, time or alloc"],
    );
}

#[test]
fn bad_input_is_one_sentence() {
    let room = Room::new();
    fs::write(room.path("library.toml"), "name = \"far\"\n[[tier]]\nname = \"a\"\nkind = \"dram\"\n").expect("writing");
    room.hearth(&["record", "--sampler", "none", "-o", "blind.hearth", "--", &program("small")]).expect(0);
    let with = |options: &[&'static str]| [&["live"], options, &["--", "true"]].concat();
    for (options, says) in [
        (&["--priority", "best"][..], &["--priority best", "benefit, apb, lru, fifo, script"][..]),
        (&["--aggregate", "ewma=2"], &["--aggregate ewma=2", "share"]),
        (&["--trigger", "time=often"], &["--trigger time=often", "whole number"]),
        (&["--enforce", "fill=0"], &["--enforce fill=0", "share"]),
        (&["--priority", "script"], &["--priority script", "script=FILE"]),
        (&["--priority", "script=nowhere.rhai"], &["nowhere.rhai cannot be read"]),
        (&["--trigger", "script=library.toml"], &["library.toml is no script"]),
        (&["--interval", "10us"], &["--interval", "1ms or more"]),
        (&["--split", "3MiB"], &["--split 3 MiB", "multiple of 2 MiB"]),
        (&["--threshold", "100"], &["--threshold", "4KiB or more"]),
        (&["--fast", "0"], &["--fast 0"]),
        (&["--platform", "library.toml"], &["NUMA nodes"]),
        (&["--platform", "nowhere.toml"], &["nowhere.toml"]),
        (&["--log", "no/such/folder/log"], &["--log no/such/folder/log"]),
        (&["--json", "no/such/folder/json"], &["no/such/folder/json"]),
        (&["--profile", "nowhere.hearth"], &["nowhere.hearth"]),
        (&["--profile", "library.toml"], &["library.toml"]),
        (&["--profile", "blind.hearth"], &["no access samples", "record again"]),
    ] {
        refused(&room, &with(options), says);
    }
    refused(&room, &["live", "--", "no-such-program"], &["no-such-program"]);
    // What is read is not written over.
    fs::copy(program("small"), room.path("small")).expect("copying");
    fs::write(room.path("own.rhai"), "fn due(interval, allocated, misses) { true }").expect("writing");
    fs::write(room.path("two.toml"), TWO).expect("writing");
    let log = |input: &'static str, options: &[&'static str], program: &'static str| {
        let before = fs::read(room.path(input)).expect("it is there");
        refused(&room, &[&["live", "--log", input], options, &["--", program]].concat(), &[input]);
        assert!(fs::read(room.path(input)).is_ok_and(|now| now == before), "{input} was written over");
    };
    log("small", &[], "./small");
    log("blind.hearth", &["--profile", "blind.hearth"], "true");
    log("two.toml", &["--platform", "two.toml"], "true");
    log("own.rhai", &["--trigger", "script=own.rhai"], "true");
    fs::write(room.path("both"), "").expect("writing");
    log("both", &["--json", "both"], "true");
    one_sentence(
        &room.hearth(&["live", "--sampler", "lab", "--", "true"]),
        &["live", "--sampler", "lab"],
        &["inside the lab only"],
    );
}

/// The scripts of docs/live.md, with the options that it gives them to, where there is something to decide.
#[test]
fn the_documents_scripts_run_and_a_broken_one_does_not_matter() {
    let room = Room::new();
    fs::write(room.path("two.toml"), TWO).expect("writing");
    let text = fs::read_to_string(hearth_tests::workspace().join("docs/live.md")).expect("the document");
    let phases = program("phases");
    let live = |option: &str, file: &str| {
        let options =
            ["live", "--platform", "two.toml", "--interval", "20ms", option, file, "--", &phases, "--work", "200"];
        let ended = room.hearth(&options).expect(0);
        assert!(ended.stdout.starts_with("rounds 200"), "{}", ended.stdout);
        ended.stderr
    };
    let mut found = 0;
    for command in text.lines().filter(|l| l.starts_with("hearth live --") && l.contains("script=")) {
        let (option, rest) = command["hearth live ".len()..].split_once(" script=").expect("an option and a file");
        let name = rest.split(' ').next().expect("a file");
        fs::write(room.path(name), script_of_document(name)).expect("writing");
        let said = live(option, &format!("script={name}"));
        assert!(!said.contains("not asked any more"), "{name}: {said}");
        found += 1;
    }
    assert_eq!(found, 2, "examples in the document");
    for (option, text) in [
        ("--priority", "fn priority(o) { o.nothing }"),
        ("--trigger", "fn due(interval, allocated, misses) { loop {} }"),
    ] {
        fs::write(room.path("broken.rhai"), text).expect("writing");
        let said = live(option, "script=broken.rhai");
        assert!(said.contains("broken.rhai is not asked any more, and the usual routine goes on"), "{said}");
    }
}

#[test]
fn the_routines_are_listed_with_their_sources() {
    let text = Room::new().hearth(&["live", "--list"]).expect(0).stdout;
    for word in [
        "--aggregate\n",
        "--priority\n",
        "--trigger\n",
        "--enforce\n",
        "ewma",
        "benefit",
        "worth-it",
        "fill",
        "ISMM 2023",
    ] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
}
