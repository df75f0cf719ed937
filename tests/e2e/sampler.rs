//! What the page-fault sampler costs stays within its budget, and what it costs is spent where little is known yet.

use hearth_tests::{Room, function_sites, program, require_tool};
use std::collections::BTreeMap;

/// The credits of `runtime::sampler::budget`: before the program has worked for anything, and what is saved up in a pause.
const CREDITS_NS: f64 = 10e6;
/// What may be spent between two looks at the account: with all 256 pages armed, a fault and a step or two for each.
const SLACK_NS: f64 = 10e6;

/// Records `lopsided`; gives the processor time that it took and what the sampler counted.
fn lopsided(room: &Room, options: &[&str], arguments: &[&str]) -> (f64, BTreeMap<String, f64>) {
    require_tool("sqlite3", "sqlite3");
    let program = program("lopsided");
    let command = [&[&*program][..], arguments].concat();
    let ended = room.record(&[&["--sampler", "page-fault"][..], options].concat(), "l.hearth", &command).expect(0);
    let counters = room.plain(&["sqlite3", "l.hearth", "SELECT name, value FROM counter"]).expect(0).stdout;
    let counters = counters.lines().map(|line| {
        let (name, value) = line.split_once('|').expect("two columns");
        (name.to_string(), value.parse().expect("a number"))
    });
    (ended.stdout.trim().parse().expect("ns"), counters.collect())
}

#[test]
fn the_sampler_costs_no_more_than_its_share() {
    let room = Room::new();
    let most = |cpu_ns: f64| cpu_ns * 0.5 / 100.0 + CREDITS_NS + SLACK_NS;
    // As many faults as it can make.
    let faults = ["--faults-per-second", "20000", "--overhead"];
    let (cpu, counters) = lopsided(&room, &[&faults[..], &["0.5"]].concat(), &["4000", "16"]);
    println!("of {cpu} ns at most {}: {counters:?}", most(cpu));
    assert!(counters["spent_ns"] <= most(cpu), "{} of {cpu} ns, at most {}", counters["spent_ns"], most(cpu));
    assert!(counters["paused_ns"] > 0.0 && counters["visits"] > 0.0, "{counters:?}");
    // It did not for want of faults: let have more, it spends more.
    let (cpu, counters) = lopsided(&room, &[&faults[..], &["90"]].concat(), &["4000", "16"]);
    println!("without a bound, of {cpu} ns: {counters:?}");
    assert!(counters["spent_ns"] > 2.0 * most(cpu), "{} of {cpu} ns", counters["spent_ns"]);
}

/// A program that ends while the sampler pauses: most of its life was no system call's fault.
#[test]
fn a_pause_at_the_end_is_told() {
    let room = Room::new();
    let options = ["--faults-per-second", "20000", "--overhead", "0.1"];
    lopsided(&room, &options, &["6000", "16"]);
    let observed = room.observed("l.hearth");
    let percent = |kind: &str| observed.losses.iter().find(|l| l.kind == kind).map_or(0, |l| l.count);
    assert!(percent("sampler-paused") > 50 && percent("sampler-disarmed") < 20, "{:?}", observed.losses);
}

/// By uniform choice two objects of one size would have as many pages armed. A visited page is armed again at once, up to `REARMS` times
/// in all, so that what was chosen of the hot one is a part of its visits.
#[test]
fn cold_objects_have_more_pages_armed_than_hot_ones() {
    let room = Room::new();
    lopsided(&room, &["--faults-per-second", "1000", "--overhead", "90"], &["6000"]);
    let observed = room.observed("l.hearth");
    let rows = |table: &str, function: &str| {
        let ids: Vec<String> = function_sites(&observed, function).map(|s| format!("'{}'", s.site.id)).collect();
        let query = format!(
            "SELECT count(*) FROM {table} JOIN site ON site.id = {table}.site WHERE site.name IN ({})",
            ids.join(", ")
        );
        room.plain(&["sqlite3", "l.hearth", &query]).expect(0).stdout.trim().parse::<f64>().expect("a count")
    };
    let (visits, quiet) = (rows("visit", "alloc_hot"), rows("quiet", "alloc_cold"));
    let chosen = visits / f64::from(wire::session::REARMS);
    println!("hot: {visits} visits; cold: {quiet} pages in vain");
    assert!(visits > 200.0, "the hot object was hardly looked at: {visits}");
    assert!(quiet > 2.0 * chosen, "{quiet} pages of the cold object and some {chosen} of the hot one");
}
