//! `hearth live` in the emulated machine: hot objects come to fast memory by themselves, and the kernel says that they are there.

use crate::placement::{pages, share};
use hearth_tests::lab::Lab;
use hearth_tests::{Ended, hearth, program, script_of_document};
use serde_json::Value;
use std::fs;

/// The cold object of `placed` takes the fast memory first. It has 12 MiB that are hot, 4 that are warm and 24 that are cold.
fn placed(lab: &Lab, placement: &str) -> (Ended, Value) {
    let options = ["--placement", placement, "--fast", "24MiB", "--vcpus", "1", "--roi", "marks"];
    lab.run(&options, &[&program("placed"), "8"])
}

#[test]
fn hot_objects_come_to_fast_memory_by_themselves() {
    let lab = Lab::enter_beside();
    let time = |figures: &Value| figures["guest_ns"].as_f64().expect("a time");
    let (_, before) = placed(&lab, "first-touch");
    let (ended, figures) = placed(&lab, "live/interval=5ms/log=why.jsonl");
    let did = &figures["landing"];
    println!("{did}; {:.2} of first touch", time(&figures) / time(&before));
    assert!(share(pages(&ended, "hot", false), 0) < 0.1, "first touch had put it there: {}", ended.stdout);
    for object in ["hot", "warm"] {
        let there = share(pages(&ended, object, true), 0);
        assert!(there >= 0.99, "{object}: {there}; {did}");
    }
    assert_eq!((did["asked"].as_u64(), did["refused"].as_u64()), (did["there"].as_u64(), Some(0)), "{did}");
    assert!(did["promoted"].as_u64() >= Some(16 << 20) && did["demoted"].as_u64() > Some(0), "{did}");
    assert!(time(&figures) < 0.9 * time(&before), "{} of {}", time(&figures), time(&before));
    // What the log says was moved is what the summary says, and each decision has its reason.
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let lines: Vec<Value> = log.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let of = |event: &'static str| lines.iter().filter(move |l| l["event"] == event);
    let up: u64 = of("move").filter(|l| l["to"] == "dram").filter_map(|l| l["bytes"].as_u64()).sum();
    assert_eq!(Some(up), did["promoted"].as_u64());
    assert_eq!(of("decision").count() as u64, did["decisions"].as_u64().expect("a number"));
    assert!(of("decision").all(|l| l["why"].as_str().is_some_and(|why| why.starts_with("moves are worth their cost"))
        && l["cost_ns"].as_f64() > Some(0.0)));
}

/// Eight thousand objects that live for 150 ms: by looking up after each interval of 5 ms where all of them are, and moving each by calls of its own, live made the program take 2.2 times as long.
#[test]
fn objects_that_come_and_go_are_not_held_up() {
    let lab = Lab::enter_beside();
    let churn = |placement: &str| {
        let options = ["--placement", placement, "--fast", "17MiB", "--roi", "marks"];
        let (ended, figures) = lab.run(&options, &[&program("churn"), "10000"]);
        assert_eq!(ended.stdout.lines().next(), Some("right"), "{}", ended.stdout);
        (figures["guest_ns"].as_f64().expect("a time"), figures["landing"].clone())
    };
    let (before, _) = churn("first-touch");
    let (time, did) = churn("live/interval=5ms");
    println!("{:.2} of first touch; {did}", time / before);
    assert!(time < 1.5 * before, "{time} of {before}; {did}");
    assert_eq!(did["refused"].as_u64(), Some(0), "{did}");
}

/// A profile of a run a third as large says what is hot, and the run itself how large it is; nothing is sampled. One that has nothing in common with the run is
/// said to.
#[test]
fn a_profile_of_a_small_run_tells_what_is_hot_in_a_large_one() {
    let lab = Lab::enter_beside();
    let (hearth, placed_alone) = (hearth().to_str().expect("readable").to_string(), program("placed"));
    let record = [&*hearth, "record", "--sampler", "lab", "--period", "100", "-o", "small.hearth", "--"];
    let small = ["--placement", "all-fast", "--roi", "marks"];
    lab.run(&small, &[&record[..], &[&*placed_alone, "2", "4", "2", "6"]].concat());
    let (ended, figures) = placed(&lab, "live/interval=5ms/profile=small.hearth");
    let did = &figures["landing"];
    println!("{did}");
    // The warm one gains hardly more than moving it costs: some of it may stay, or all.
    let there = ["hot", "cold"].map(|object| share(pages(&ended, object, true), 0));
    assert!(there[0] >= 0.99 && there[1] < 0.6, "{there:?}; {did}");
    assert_eq!(did["notes"].as_array().map(Vec::len), Some(0), "{did}");
    let options = ["--placement", "live/interval=5ms/profile=small.hearth", "--fast", "24MiB"];
    let (_, figures) = lab.run(&options, &[&program("kinds"), "2"]);
    let did = &figures["landing"];
    assert!(did["promoted"].as_u64() == Some(0) && did["notes"].to_string().contains("none of the profile's"), "{did}");
}

/// Routines of the paper together, each of them at least once: each run comes to its end and moves something, but where nothing is due, and the order that
/// goes by accesses for each byte brings the hot object to fast memory.
#[test]
fn the_papers_routines_can_be_combined() {
    let lab = Lab::enter_beside();
    let both = [("fifo", "time=2"), ("lru", "llcmpi=0.5"), ("apb", "time=2"), ("apb", "alloc=1GiB")];
    for (priority, trigger) in both {
        let placement = format!("live/interval=5ms/priority={priority}/trigger={trigger}/enforce=fill=95%");
        let options = ["--placement", &placement, "--fast", "24MiB", "--roi", "marks"];
        let (ended, figures) = lab.run(&options, &[&program("placed"), "5"]);
        let did = &figures["landing"];
        let there = share(pages(&ended, "hot", true), 0);
        println!("{placement}: {there:.2} of hot; {did}");
        let number = |name: &str| did[name].as_u64().expect("a number");
        let moves = trigger != "alloc=1GiB";
        assert_eq!(number("promoted") + number("demoted") > 0, moves, "{placement}: {did}");
        // So near to the brim the kernel has no room for the last pages now and then.
        assert!(number("there") as f64 >= 0.97 * number("asked") as f64, "{placement}: {did}");
        assert!(priority != "apb" || !moves || there >= 0.99, "{placement}: {there}");
    }
}

/// Swaps of 2 MiB and more, of which parts are made: the hot object comes, and no decision moves more than it may.
#[test]
fn incremental_moves_no_more_than_it_may() {
    let lab = Lab::enter_beside();
    let (ended, figures) = placed(&lab, "live/interval=5ms/enforce=incremental=1MiB/log=why.jsonl");
    let did = &figures["landing"];
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let lines = || log.lines().map(|l| serde_json::from_str::<Value>(l).expect("JSON"));
    let (mut decided, mut moved, mut most) = (0, 0, 0);
    for line in lines() {
        match line["event"].as_str() {
            Some("decision") => {
                decided += 1;
                assert!(line["bytes"].as_u64() <= Some(1 << 20), "{line}");
                moved = 0;
            }
            Some("move") => moved += line["bytes"].as_u64().expect("a number"),
            _ => {}
        }
        most = most.max(moved);
    }
    println!("{decided} decisions, at most {most} bytes after one; {did}");
    // Each of the two halves may end a stretch of 2 MiB later.
    assert!(decided > 1 && most <= (1 << 20) + 2 * (2 << 20), "{most}; {did}");
    let there = |after: bool| share(pages(&ended, "hot", after), 0);
    assert!(there(true) > there(false) + 0.2, "{} and {}; {did}", there(false), there(true));
}

/// Small objects of two sites that are made in turns: kept together by site, the hot ones come to fast memory.
#[test]
fn small_objects_come_to_fast_memory_by_site() {
    let lab = Lab::enter_beside();
    let placement = "live/interval=5ms";
    let options = ["--placement", placement, "--fast", "12MiB"];
    let (ended, figures) = lab.run(&options, &[&program("placed_small"), "4"]);
    let there = ["hot", "cold"].map(|name| share(pages(&ended, name, false), 0));
    println!("{there:?}\n{}{}", ended.stdout, figures["landing"]);
    // Both came in turns: without the sites each would have the same share.
    assert!(there[0] >= 0.95 && there[1] < 0.6, "{there:?}; {}", figures["landing"]);
}

/// The same objects, of which the runtime knows nothing with this threshold: the end of the C library's heap is hot.
#[test]
fn the_hot_part_of_the_heap_comes_to_fast_memory() {
    let lab = Lab::enter_beside();
    let options = ["--placement", "live/interval=5ms/threshold=4KiB/log=why.jsonl", "--fast", "12MiB"];
    let (ended, figures) = lab.run(&options, &[&program("placed_small"), "4", "apart"]);
    let there = ["hot", "cold"].map(|name| share(pages(&ended, name, false), 0));
    println!("{there:?}\n{}{}", ended.stdout, figures["landing"]);
    assert!(there[0] >= 0.9 && there[1] < 0.5, "{there:?}; {}", figures["landing"]);
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log");
    assert!(log.contains("heap of the C library"), "it has a name: {log}");
}

/// What no malloc made: a static variable and a mapping, behind a cold variable that took the fast memory first.
#[test]
fn variables_and_mappings_come_to_fast_memory() {
    let lab = Lab::enter_beside();
    let options = ["--placement", "live/interval=5ms", "--fast", "24MiB"];
    let (ended, figures) = lab.run(&options, &[&program("kinds"), "8"]);
    println!("{}{}", ended.stdout, figures["landing"]);
    for name in ["hot_table", "grid"] {
        let there = share(pages(&ended, name, false), 0);
        assert!(there >= 0.95, "{name}: {there}; {}", figures["landing"]);
    }
    assert!(share(pages(&ended, "cold_table", false), 0) < 0.6, "{}", ended.stdout);
}

/// Runs a script in the guest, `$1` being the `hearth` command and `$2` a program.
fn script(lab: &Lab, fast: &str, script: &str, command: &str) -> Ended {
    fs::write(lab.room.path("script.sh"), format!("export UNMARKED=1\n\"$1\" lab mark on\n{script}")).expect("writing");
    let options = ["--placement", "first-touch", "--fast", fast, "--vcpus", "1", "--roi", "marks"];
    let hearth = hearth().to_str().expect("readable").to_string();
    lab.run(&options, &["sh", "script.sh", &hearth, &program(command)]).0
}

/// The program's cpuset has the slow node only: the kernel moves nothing, and the user is told.
#[test]
fn a_cpuset_without_the_fast_node_is_respected() {
    let lab = Lab::enter_beside();
    let live = r#"
        set -e
        group=/sys/fs/cgroup/slow
        echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control
        mkdir $group
        echo 1 > $group/cpuset.mems
        "$1" live --sampler lab --period 100 --interval 5ms --fast 24MiB --json did.json -- \
          sh -c 'echo $$ > /sys/fs/cgroup/slow/cgroup.procs; exec "$0" 4' "$2""#;
    let ended = script(&lab, "48MiB", live, "placed");
    println!("{}{}", ended.stdout, ended.stderr);
    for object in ["hot", "warm", "cold"] {
        assert_eq!(pages(&ended, object, true)[0], 0, "{object} is on the node that the cpuset lacks");
    }
    assert!(ended.stderr.contains("its cpuset lacks a node"), "{}", ended.stderr);
    let did = fs::read_to_string(lab.room.path("did.json")).expect("it was brought back");
    let did: Value = serde_json::from_str(&did).expect("JSON");
    assert_eq!(did["promoted"], 0, "{did}");
}

/// Fast memory is the program's: what the runtime needs for itself lies in the slow tier, though there is room in the fast one.
#[test]
fn the_runtimes_own_memory_lies_in_the_slow_tier() {
    let lab = Lab::enter_beside();
    let options = ["--placement", "live/interval=5ms", "--fast", "24MiB"];
    let (ended, _) = lab.run(&options, &["cat", "/proc/self/numa_maps"]);
    let own =
        || ended.stdout.lines().filter(|l| l.split(' ').nth(1).is_some_and(|policy| policy.starts_with("prefer")));
    println!("{}", own().collect::<Vec<_>>().join("\n"));
    // The kernel makes one mapping of two that touch: pages are counted.
    let on = |node: &str, file: bool| -> u64 {
        let of = own().filter(|l| l.contains("file=") == file).flat_map(|l| l.split(' '));
        of.filter_map(|word| word.strip_prefix(node)?.strip_prefix('=')?.parse::<u64>().ok()).sum()
    };
    let [tables, shared] = [false, true].map(|file| on("N1", file));
    assert!(tables >= 32 && shared >= 1, "tables {tables}, the file that is shared {shared}: {}", ended.stdout);
    assert_eq!([false, true].map(|file| on("N0", file)), [0, 0], "{}", ended.stdout);
}

/// With a cache so large that the guest's kernel gives huge pages unasked.
#[test]
fn huge_pages_are_moved_whole() {
    let lab = Lab::enter_beside();
    let placement = "live/interval=20ms/trigger=time=3";
    let options = ["--placement", placement, "--fast", "60MiB", "--llc", "32MiB", "--roi", "marks"];
    let (_, figures) = lab.run(&options, &[&program("placed"), "6", "44", "4", "64"]);
    let whole = figures["kernel"]["thp_migration_success"].as_u64().unwrap_or(0);
    println!("{whole} huge pages were moved whole; {}", figures["landing"]);
    assert!(whole >= 10, "{}", figures["kernel"]);
    let did = &figures["landing"];
    assert!(did["asked"].as_u64() > Some(0) && did["asked"] == did["there"], "{did}");
}

/// Two objects are hot by turns, and fast memory holds one of them. When that has been seen, each is there before its turn begins.
#[test]
fn what_the_next_phase_needs_is_there_before_it_begins() {
    let lab = Lab::enter_beside();
    let alternating = program("alternating");
    for fresh in [false, true] {
        let placement = "live/interval=5ms/log=why.jsonl";
        let options = ["--placement", placement, "--fast", "18MiB", "--roi", "marks"];
        let command = if fresh {
            [&alternating, "6", "12", "1500000", "fresh"]
        } else {
            [&alternating, "10", "12", "5000000", "kept"]
        };
        let (ended, figures) = lab.run(&options, &command);
        let did = &figures["landing"];
        println!("{did}\n{}", ended.stdout);
        assert!(did["recalled"].as_u64() >= Some(4), "{did}");
        if fresh {
            continue;
        }
        let there = |line: &str| {
            let mut numbers = line.split(' ').skip(2).filter_map(|n| n.parse::<f64>().ok());
            let (fast, slow) = (numbers.next().expect("a number"), numbers.next().expect("a number"));
            fast / (fast + slow)
        };
        // Beside the other object, whole, there is room for two fifths of this one: as much is there in turns that begin before what they need has come.
        let last: Vec<f64> = ended.stdout.lines().rev().take(14).map(there).collect();
        assert!(last.iter().sum::<f64>() / 14.0 > 0.5, "{last:?}");
        let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
        assert!(log.contains("the next phase is near"), "{log}");
        // What is moved ahead is of no use to the phase that is under way.
        let bytes = |what: &str| did[what].as_u64().expect("bytes");
        assert!((1..=bytes("promoted") + bytes("demoted")).contains(&bytes("beside")), "{did}");
    }
}

/// The cold object of `placed`, of which the program says that it is to stay, keeps its place, which the hot ones could use.
#[test]
fn what_the_program_has_bound_stays() {
    let lab = Lab::enter_beside();
    let options = ["--placement", "live/interval=5ms", "--fast", "24MiB", "--roi", "marks"];
    let (ended, figures) = lab.run(&options, &["env", "BOUND=1", &program("placed"), "8"]);
    let cold = [pages(&ended, "cold", false), pages(&ended, "cold", true)];
    println!("{cold:?} {}", figures["landing"]);
    assert_eq!(cold[0], cold[1]);
    assert!(cold[0][0] > 4000, "{cold:?}");
}

/// `stored` under a script of docs/live.md, or under none.
fn stored(lab: &Lab, placement: &str, arguments: &[&str]) -> (Ended, Value, Vec<Value>) {
    let placement = format!("{placement}/log=why.jsonl");
    let options = ["--placement", &placement, "--fast", "24MiB", "--vcpus", "1", "--roi", "marks"];
    let (ended, figures) = lab.run(&options, &[&[&*program("stored")], arguments].concat());
    let log = fs::read_to_string(lab.room.path("why.jsonl")).expect("the log was brought back");
    let lines = log.lines().map(|l| serde_json::from_str(l).expect("JSON"));
    println!("{placement} {arguments:?}: {}\n{}", figures["landing"], ended.stdout);
    (ended, figures["landing"].clone(), lines.filter(|l: &Value| l["event"] == "decision").collect())
}

/// hot-stores.rhai: without it the object that is read comes to fast memory, and small ones too; with it the one that is written, and none of the small ones beyond those
/// that the kernel has put there. The order alone counts with this trigger.
#[test]
fn the_documents_priority_brings_what_is_written_and_nothing_small() {
    let lab = Lab::enter_beside();
    let arguments = ["2", "1000000", "900000", "16"];
    fs::write(lab.room.path("hot-stores.rhai"), script_of_document("hot-stores.rhai")).expect("writing");
    let fast = |ended: &Ended| ["read", "written", "small"].map(|name| share(pages(ended, name, true), 0));
    let (ended, ..) = stored(&lab, "live/interval=5ms/trigger=time=20", &arguments);
    let [read, written, small] = fast(&ended);
    assert!(read >= 0.99 && written < 0.4 && small > 0.2, "{}", ended.stdout);
    let (ended, did, _) = stored(&lab, "live/interval=5ms/trigger=time=20/priority=script=hot-stores.rhai", &arguments);
    let [read, written, small] = fast(&ended);
    let before = share(pages(&ended, "small", false), 0);
    assert!(written >= 0.99 && read < 0.4 && small <= before, "{}", ended.stdout);
    assert_eq!(did["notes"], serde_json::json!([]));
}

/// early.rhai: it is decided when 128 MiB are allocated within the first 60 intervals, once, and what is moved pays ten times over; when they are allocated later it is not.
#[test]
fn the_documents_trigger_decides_early_in_a_run_and_what_pays() {
    let lab = Lab::enter_beside();
    fs::write(lab.room.path("early.rhai"), script_of_document("early.rhai")).expect("writing");
    for (interval, turn) in [("25ms", "4"), ("12ms", "5")] {
        let early = turn == "4";
        let placement = format!("live/interval={interval}/trigger=script=early.rhai");
        let (ended, did, decisions) = stored(&lab, &placement, &["6", "1000000", "500000", "2", turn]);
        let read = share(pages(&ended, "read", true), 0);
        assert_eq!((decisions.len(), read >= 0.99), (usize::from(early), early), "{decisions:?}");
        assert!(early || did["intervals"].as_u64() > Some(61), "{did}");
        for d in decisions {
            assert!(
                d["interval"].as_u64() <= Some(60) && d["gain_ns"].as_f64() > d["cost_ns"].as_f64().map(|c| 10.0 * c),
                "{d}"
            );
        }
    }
}

/// One of the scripts asks for what there is not, as soon as something is missed, and one never ends: both are dropped with a sentence, and hot objects come to fast memory.
#[test]
fn scripts_that_fail_while_the_program_runs_are_dropped() {
    let lab = Lab::enter_beside();
    fs::write(lab.room.path("fails.rhai"), "fn priority(o) { if o.misses > 0.0 { o.nothing } else { 0.0 } }")
        .expect("writing");
    fs::write(
        lab.room.path("endless.rhai"),
        "fn due(interval, allocated, misses) { if interval > 5 { loop {} } false }",
    )
    .expect("writing");
    let (ended, figures) = placed(&lab, "live/interval=5ms/priority=script=fails.rhai/trigger=script=endless.rhai");
    let notes = figures["landing"]["notes"].to_string();
    for script in ["fails.rhai", "endless.rhai"] {
        assert!(notes.contains(&format!("{script} is not asked any more, and the usual routine goes on")), "{notes}");
    }
    for object in ["hot", "warm"] {
        let there = share(pages(&ended, object, true), 0);
        assert!(there >= 0.99, "{object}: {there}; {notes}");
    }
}
