//! The export is what the Firefox profiler's processed format asks for: its version, and tables whose columns are of one
//! length and refer to rows that exist.

use crate::common::fixture;
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

/// What the profiler relies on when it opens a file (`src/types/profile.js` of its sources): columns as long as their table says,
/// indices that point at something, callers before callees, times that do not run back, pages and counters of threads there are.
#[test]
fn the_profiler_can_follow_every_reference() {
    let mut o = fixture("lammps");
    for site in &mut o.sites {
        site.lives = vec![Life { from: site.first_alloc, to: Nanos(site.first_alloc.0 + 5), size: site.largest }];
    }
    let profile = exported(&o);
    for key in ["meta", "libs", "threads", "counters"] {
        assert!(!profile[key].is_null(), "there is no {key}");
    }
    let meta = &profile["meta"];
    for key in ["interval", "startTime", "processType", "product", "version", "categories", "markerSchema"] {
        assert!(!meta[key].is_null(), "meta has no {key}: {meta}");
    }
    let categories = meta["categories"].as_array().unwrap();
    for category in categories {
        let whole =
            category["name"].is_string() && category["color"].is_string() && category["subcategories"].is_array();
        assert!(whole, "{category}");
    }
    for thread in profile["threads"].as_array().unwrap() {
        for key in ["name", "processName", "processType", "pid", "tid", "registerTime", "pausedRanges", "markers"] {
            assert!(!thread[key].is_null(), "a thread has no {key}");
        }
        let tables = thread.as_object().unwrap().iter().filter_map(|(name, t)| Some((name, t, t["length"].as_u64()?)));
        for (name, table, length) in tables {
            for (column, values) in table.as_object().unwrap() {
                if let Some(values) = values.as_array() {
                    assert_eq!(values.len() as u64, length, "{name}.{column}");
                }
            }
        }
        let length = |table: &str| thread[table]["length"].as_u64().unwrap_or_else(|| panic!("no {table}"));
        let strings = thread["stringArray"].as_array().or(profile["shared"]["stringArray"].as_array());
        let strings = strings.expect("strings").len() as u64;
        let points = |table: &str, column: &str, end: u64| {
            for (row, n) in thread[table][column].as_array().unwrap().iter().enumerate() {
                let fine = n.is_null() || n.as_i64() == Some(-1) || n.as_u64().is_some_and(|n| n < end);
                assert!(fine, "{table}.{column}, row {row}: {n} of {end}");
            }
        };
        points("frameTable", "func", length("funcTable"));
        points("frameTable", "category", categories.len() as u64);
        points("stackTable", "frame", length("frameTable"));
        points("funcTable", "name", strings);
        points("funcTable", "resource", length("resourceTable"));
        points("resourceTable", "name", strings);
        points("samples", "stack", length("stackTable"));
        points("nativeAllocations", "stack", length("stackTable"));
        for (row, prefix) in thread["stackTable"]["prefix"].as_array().unwrap().iter().enumerate() {
            assert!(prefix.is_null() || prefix.as_u64().unwrap() < row as u64, "a caller comes first");
        }
        let forward = |times: &[f64]| times.windows(2).all(|w| w[0] <= w[1]);
        assert!(forward(&numbers(&thread["nativeAllocations"]["time"])));
        match thread["samples"]["time"].is_array() {
            true => assert!(forward(&numbers(&thread["samples"]["time"]))),
            false => assert!(numbers(&thread["samples"]["timeDeltas"]).iter().all(|&d| d >= 0.0)),
        }
    }
    let threads = profile["threads"].as_array().unwrap().len() as u64;
    for counter in profile["counters"].as_array().unwrap() {
        assert!(counter["mainThreadIndex"].as_u64().unwrap() < threads, "{counter}");
        assert_eq!(counter["pid"], profile["threads"][0]["pid"]);
    }
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
