//! The export is what the Firefox profiler's processed format asks for: its version, and tables whose columns are of one
//! length and refer to rows that exist.

mod common;

use common::fixture;
use hearth_report::firefox;
use model::{Life, Nanos};
use serde_json::Value;

fn exported(o: &model::Observed) -> Value {
    serde_json::from_str(&firefox(o).unwrap()).unwrap()
}

fn numbers(column: &Value) -> Vec<f64> {
    column
        .as_array()
        .unwrap_or_else(|| panic!("no column: {column}"))
        .iter()
        .map(|v| v.as_f64().unwrap_or(-1.0))
        .collect()
}

#[test]
fn tables_are_whole_and_nothing_is_lost() {
    let mut o = fixture("lammps");
    for site in &mut o.sites {
        site.lives = vec![
            Life { from: site.first_alloc, to: Nanos(site.first_alloc.0 + 5), size: site.largest },
            Life { from: site.first_alloc, to: o.duration, size: site.largest },
        ];
    }
    let profile = exported(&o);
    let meta = &profile["meta"];
    assert_eq!(meta["preprocessedProfileVersion"], 55, "docs/report.md names the version");
    assert_eq!(meta["startTime"].as_f64().unwrap(), o.started as f64 * 1000.0);
    let thread = &profile["threads"][0];
    let length = |table: &str| thread[table]["length"].as_u64().unwrap();
    for (table, columns) in [
        ("samples", &["stack", "weight"][..]),
        ("nativeAllocations", &["time", "weight", "stack", "memoryAddress"]),
        ("stackTable", &["prefix", "frame"]),
        ("frameTable", &["func"]),
        ("funcTable", &["name"]),
    ] {
        for column in columns {
            assert_eq!(numbers(&thread[table][column]).len() as u64, length(table), "{table}.{column}");
        }
    }
    let within = |table: &str, column: &str, end: u64| {
        let all = numbers(&thread[table][column]);
        assert!(all.iter().all(|&n| n < end as f64), "{table}.{column}: {all:?}");
    };
    within("samples", "stack", length("stackTable"));
    within("nativeAllocations", "stack", length("stackTable"));
    within("stackTable", "frame", length("frameTable"));
    within("frameTable", "func", length("funcTable"));
    // All misses of the timeline, rounded sample by sample; allocations are all there, frees where they came before the end.
    let timeline: f64 = o.timeline.iter().flat_map(|p| &p.misses).map(|m| m.1).sum();
    let weights: f64 = numbers(&thread["samples"]["weight"]).iter().sum();
    assert!((weights / timeline - 1.0).abs() < 0.001, "{weights} of {timeline}");
    let bytes: f64 = numbers(&thread["nativeAllocations"]["weight"]).iter().sum();
    assert_eq!(bytes, o.sites.iter().map(|s| s.largest.0 as f64).sum::<f64>());
    assert_eq!(length("nativeAllocations"), 3 * o.sites.len() as u64);
    let text = profile.to_string();
    assert!(text.contains("LAMMPS_NS::NeighList::grow(int, int) (neigh_list.cpp:174)"), "names with source lines");
    assert_eq!(profile["counters"][0]["category"], "Memory");
}

#[test]
fn misses_of_any_number_fit_and_an_empty_profile_is_one_too() {
    let mut o = fixture("lammps");
    o.sites.iter_mut().for_each(|s| s.load_misses *= 1e9);
    o.timeline.iter_mut().flat_map(|p| &mut p.misses).for_each(|m| m.1 *= 1e9);
    let thread = &exported(&o)["threads"][0];
    let sum: f64 = numbers(&thread["samples"]["weight"]).iter().sum();
    assert!(sum > 1e6 && sum < f64::from(i32::MAX), "{sum}");
    assert!(thread["name"].as_str().unwrap().starts_with("~misses / 1e"), "{}", thread["name"]);
    o.sites.clear();
    o.timeline.clear();
    assert_eq!(exported(&o)["threads"][0]["samples"]["length"], 0);
}
