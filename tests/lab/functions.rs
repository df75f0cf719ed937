//! What the lab's sampler tells of a program. Table VII of paper 000: a guided run puts hot memory near, and the function that uses
//! it waits less for each load.

use hearth_tests::lab::{Lab, PLATFORM};
use hearth_tests::{function_sites, hearth, is_root, not_tested, program, require_tool};
use model::{Chunk, SiteKind};
use serde_json::Value;

#[test]
fn a_guided_run_shortens_the_loads_of_the_function_that_is_hot() {
    let lab = Lab::enter_beside();
    let (placed, hearth) = (program("placed"), hearth());
    let hearth = hearth.to_str().expect("readable");
    let recording = ["record", "--sampler", "lab", "--period", "10"];
    let lab_run = |options: &[&str], profile: &str| {
        let command = [&[hearth][..], &recording, options, &["-o", profile, "--", &placed, "1"]].concat();
        // Cold memory comes first and takes most of the fast memory.
        lab.run(&["--placement", "first-touch", "--fast", "24MiB"], &command);
    };
    lab_run(&[], "before.hearth");
    lab.room.hearth(&["plan", "before.hearth", "--platform", PLATFORM, "--fast", "17MiB", "-o", "plan.toml"]).expect(0);
    // The plan is for a machine; this one's nodes are numbered with the fast one first.
    let plan = std::fs::read_to_string(lab.room.path("plan.toml")).expect("the plan");
    let plan = plan.replacen("nodes = []", "nodes = [0]", 1).replacen("nodes = []", "nodes = [1]", 1);
    assert!(plan.contains("nodes = [0]") && plan.contains("nodes = [1]"), "{plan}");
    std::fs::write(lab.room.path("plan.toml"), plan).expect("writing the plan");
    lab_run(&["--plan", "plan.toml"], "after.hearth");

    let said = lab.room.hearth(&["diff", "before.hearth", "after.hearth", "--json"]).expect(0).stdout;
    let diff: Value = serde_json::from_str(&said).expect("JSON");
    let named = |list: &str, name: &str| {
        let all = diff[list].as_array().expect("a list").iter();
        all.clone().find(|x| x["name"].as_str().is_some_and(|n| n.starts_with(name))).expect("it is there").clone()
    };
    let latency = |pair: &Value, when: &str| pair[when]["latency"].as_f64().expect("the lab measures latencies");
    let chase = named("functions", "chase");
    let warm = named("sites", "alloc_warm");
    for (what, pair) in [("chase", &chase), ("warm", &warm)] {
        let (before, after) = (latency(pair, "before"), latency(pair, "after"));
        println!("{what}: {before:.0} ns before, {after:.0} ns after");
        assert!(after < 0.9 * before, "{what}: {before} ns and then {after} ns");
    }
    assert!(chase["before"]["share"].as_f64().expect("a share") > 0.5, "{chase}");
    let tiers = warm["after"]["tiers"].as_array().expect("tiers");
    assert!(tiers[0][0] == "dram" && tiers[0][1].as_f64().expect("a share") > 0.95, "{warm}");
}

/// Where in a large object the program works: one eighth of it is read at random, all others but one are written once.
#[test]
fn misses_are_told_by_chunk() {
    let lab = Lab::enter_beside();
    let (hearth, chunks) = (hearth(), program("chunks"));
    let hearth = hearth.to_str().expect("readable");
    for (name, kind, hot) in [("heap", SiteKind::Allocation, 5), ("mapping", SiteKind::Mapping, 0)] {
        let command =
            [hearth, "record", "--sampler", "lab", "-o", "c.hearth", "--", &chunks, "1", name, &hot.to_string()];
        lab.run(&["--placement", "all-fast"], &command);
        let observed = lab.room.observed("c.hearth");
        let site = observed.sites.iter().find(|s| s.site.kind == kind && !s.chunks.is_empty()).expect("in chunks");
        assert_eq!(site.chunks.len(), 16, "{:?}", site.chunks);
        let sum: f64 = site.chunks.iter().map(Chunk::misses).sum();
        assert!((sum / site.misses() - 1.0).abs() < 1e-6, "{sum} of {}", site.misses());
        for (n, chunk) in site.chunks.iter().enumerate() {
            let loads = chunk.load_misses / site.load_misses;
            println!("{name} {n}: {:.1} % of the loads, {} misses", 100.0 * loads, chunk.misses());
            // What the program writes first the kernel has just cleared, so it lies in the cache.
            match n / 2 == hot {
                true => assert!(loads > 0.4, "chunk {n}: {loads}"),
                false => assert!(chunk.misses() < 0.01 * sum, "chunk {n}: {chunk:?}"),
            }
        }
        // What the planner makes of it: the hot eighth of an object that is larger than the fast memory. Mappings are not split.
        let what = ["plan", "c.hearth", "--platform", "cxl-expander", "--fast", "16MiB", "--policy", "exact"];
        let plan = lab.room.hearth(&what).expect(0).stdout;
        assert_eq!(plan.contains("parts = \"40-47\""), kind == SiteKind::Allocation, "{plan}");
    }
}

/// What the profile says of lines read and written, summed up, is what the emulated machine's memory controllers counted.
#[test]
fn all_lines_between_caches_and_memory_are_told() {
    require_tool("sqlite3", "sqlite3");
    let lab = Lab::enter_beside();
    let (placed, hearth) = (program("placed"), hearth());
    let record =
        [hearth.to_str().expect("readable"), "record", "--sampler", "lab", "--period", "10", "-o", "p.hearth", "--"];
    // From the start, so that the kernel's clearing of fresh pages counts, which the program does not miss on.
    let (_, figures) = lab.run(&["--placement", "all-fast"], &[&record[..], &[&placed, "1"]].concat());
    let tiers = figures["counters"]["tiers"].as_array().expect("tiers").iter();
    let counted = |what: &str| tiers.clone().map(|t| t[what].as_f64().expect("a count")).sum::<f64>() / 64.0;
    let query = "SELECT sum(load_weight + store_weight + beside), sum(written) FROM miss";
    let sums = lab.room.plain(&["sqlite3", "p.hearth", query]).expect(0).stdout;
    let mut sums = sums.trim().split('|').map(|n| n.parse::<f64>().expect("a number"));
    let mut told = || sums.next().expect("two sums");
    let (read, written) = (told(), told());
    for (what, told, counted) in [("read", read, counted("read_bytes")), ("written", written, counted("written_bytes"))]
    {
        println!("{what}: {told} lines told of {counted}");
        assert!((0.8..1.05).contains(&(told / counted)), "{what}: {told} of {counted}");
    }
}

/// The clock on the wall is set back and forth by decades while a program is recorded, which nothing that is told goes by.
#[test]
fn setting_the_clock_changes_nothing() {
    let lab = Lab::enter_beside();
    if !is_root() {
        not_tested("the lab's programs are those of who starts it, and only root can set the clock there", false);
        return;
    }
    let (placed, hearth) = (program("placed"), hearth());
    let jumps = format!(
        "set -e; for year in 2001 2040 1999; do date -s $year-01-01 >/dev/null; done; {placed} 1 >/dev/null & program=$!
         jumps=0
         while kill -0 $program 2>/dev/null; do date -s 2035-01-01 >/dev/null; date -s 2001-01-01 >/dev/null; jumps=$((jumps + 2)); done
         wait $program; echo $jumps jumps; date +%Y"
    );
    let hearth = hearth.to_str().expect("readable");
    let command = [hearth, "record", "--sampler", "lab", "-o", "p.hearth", "--", "sh", "-c", &jumps];
    let (ended, figures) = lab.run(&["--placement", "all-fast"], &command);
    println!("{}", ended.stdout);
    let mut said = ended.stdout.lines().map(|l| l.split(' ').next().and_then(|n| n.parse::<u64>().ok()));
    assert!(
        said.next().flatten() >= Some(2) && said.next().flatten() == Some(2001),
        "the clock was not set: {ended:?}"
    );
    let guest = figures["guest_ns"].as_f64().expect("a time") / 1e9;
    let observed = lab.room.observed("p.hearth");
    let lasted = observed.duration.0;
    assert!(guest < 100.0 && lasted < 100_000_000_000, "{guest} s, {lasted} ns");
    let hot = function_sites(&observed, "alloc_hot").next().expect("the hot object");
    assert_eq!(hot.objects, 1, "{hot:?}");
    assert!(hot.samples > 100 && hot.first_alloc < hot.last_free && hot.last_free.0 <= lasted, "{hot:?}");
}
