//! Comparisons as the lab would make them, from a simple rule: the more of a program's lines the fast memory serves,
//! the less time it takes.

use model::{Bytes, Comparison, Nanos, PlacementRun};

/// Placements, and what share of the lines each has served fast at 12.5, 25, 50 and 75 % of the footprint.
const PLACEMENTS: [(&str, [f64; 4]); 6] = [
    ("first-touch", [0.11, 0.24, 0.48, 0.77]),
    ("interleave", [0.12, 0.25, 0.49, 0.74]),
    ("weighted-interleave", [0.12, 0.26, 0.50, 0.76]),
    ("kernel", [0.31, 0.47, 0.66, 0.83]),
    ("memory-mode", [0.38, 0.52, 0.74, 0.91]),
    ("plan density", [0.55, 0.81, 0.96, 0.99]),
];

const PERCENTS: [f64; 4] = [12.5, 25.0, 50.0, 75.0];

fn run(placement: &str, percent: Option<f64>, time: f64, served: f64, footprint: Bytes) -> PlacementRun {
    let share = percent.map_or(served, |p| p / 100.0);
    PlacementRun {
        placement: placement.into(),
        fast_percent: percent,
        fast: percent.map(|p| Bytes((footprint.0 as f64 * p / 100.0) as u64 + 300_000)),
        time: Nanos((time * 1e9) as u64),
        // It is the one whose time is chance.
        times: if placement == "kernel" {
            [0.93, 1.0, 1.09].map(|f| Nanos((time * f * 1e9) as u64)).into()
        } else {
            Vec::new()
        },
        predicted: (placement == "plan density" && percent == Some(25.0)).then_some(1.5),
        code: 0,
        resident_fast: if placement == "kernel" { share * 0.97 } else { share },
        served_fast: served,
        lines: 38_400_000,
        migrated: Bytes(if placement == "kernel" { (footprint.0 as f64 * served * 0.8) as u64 } else { 0 }),
        notes: Vec::new(),
    }
}

/// A program of this footprint that takes `fast` seconds with all memory fast, `slow` times that with all memory slow,
/// and gains by a placement as said above, bent by `skew`.
pub fn program(command: &[&str], platform: &str, mib: u64, fast: f64, slow: f64, skew: f64) -> Comparison {
    let footprint = Bytes::mib(mib);
    let mut runs =
        vec![run("all-fast", None, fast, 1.0, footprint), run("all-slow", None, fast * slow, 0.0, footprint)];
    for (placement, served) in PLACEMENTS {
        for (percent, served) in PERCENTS.into_iter().zip(served) {
            let served = served.powf(skew);
            // The kernel's migrations cost time themselves.
            let moved = if placement == "kernel" { 0.05 } else { 0.0 };
            let time = fast * (1.0 + (slow - 1.0) * (1.0 - served) + moved);
            runs.push(run(placement, Some(percent), time, served, footprint));
        }
    }
    Comparison {
        command: command.iter().map(ToString::to_string).collect(),
        platform: platform.into(),
        vcpus: 2,
        tiers: vec!["dram".into(), if platform.contains("optane") { "nvm".into() } else { "cxl".into() }],
        scale: SCALE.into(),
        footprint,
        runs,
    }
}

/// One program of which everything succeeded.
pub fn whole() -> Comparison {
    program(&["./cg", "14000", "7"], "cascade-lake-optane", 128, 0.812, 3.36, 1.0)
}

/// One of which a run was killed, a run is missing, and some have notes.
pub fn holed() -> Comparison {
    let mut c = whole();
    let at = |c: &Comparison, placement: &str, percent: f64| {
        c.runs.iter().position(|r| r.placement == placement && r.fast_percent == Some(percent)).unwrap()
    };
    let killed = at(&c, "memory-mode", 25.0);
    c.runs[killed].code = 137;
    c.runs[killed].notes.push("killed by the guest's kernel: out of memory".into());
    for percent in [12.5, 25.0] {
        let n = at(&c, "plan density", percent);
        c.runs[n].notes.push("2 objects planned for dram fell back to nvm".into());
    }
    for n in 0..c.runs.len() {
        if c.runs[n].placement == "kernel" {
            c.runs[n].notes.push("promotion began 120.0 ms after the start".into());
        }
    }
    let missing = at(&c, "weighted-interleave", 50.0);
    c.runs.remove(missing);
    c
}

/// Programs on two platforms, one with a run that failed.
pub fn suite() -> Vec<Comparison> {
    let mut all = Vec::new();
    for (platform, slower) in [("cascade-lake-optane", 1.0), ("cxl-expander", 0.45)] {
        for (name, mib, fast, slow, skew) in [
            ("dgemm", 96, 0.41, 1.08, 1.0),
            ("xsbench", 192, 1.31, 3.9, 0.4),
            ("cg", 128, 0.812, 3.36, 1.0),
            ("multigrid", 160, 0.66, 2.9, 1.3),
            ("fft3d", 128, 0.52, 2.4, 1.6),
            ("hydro", 96, 0.93, 2.1, 0.7),
            ("md", 64, 1.12, 1.4, 0.9),
            ("bfs", 256, 0.74, 4.4, 0.6),
            ("hash_join", 192, 0.58, 3.1, 1.1),
        ] {
            let path = format!("bench/suite/{name}");
            all.push(program(&[&path, "--size", "small"], platform, mib, fast, 1.0 + (slow - 1.0) * slower, skew));
        }
    }
    for r in &mut all[4].runs {
        if r.placement == "memory-mode" && r.fast_percent == Some(25.0) {
            r.code = 139;
            r.notes.push("the program crashed".into());
        }
    }
    all
}

const SCALE: &str = "\
cascade-lake-optane                           real                 lab  why
cores                                 16 (library)                   2
node 0: dram, fast
  latency                          90 ns (library)               90 ns
  loaded             117 ns at 22.0 GB/s (library)  117 ns at 2.8 GB/s  x 2/16
  read                          141 GB/s (library)           17.6 GB/s  x 2/16
node 1: nvm, slow
  latency                         185 ns (library)              185 ns
  read                         39.4 GB/s (library)            4.9 GB/s  x 2/16
  write                        13.9 GB/s (library)            1.7 GB/s  x 2/16
LLC                             35.8 MiB (library)               2 MiB  1/64 of the footprint of 128 MiB
";
