//! Scores the page-fault sampler against the truth: which sites miss the cache, as it estimates it on this machine, and as
//! the emulated machine counts every single miss. Prints Markdown.
//!
//!     cargo run --release -p hearth-tests --bin lab-samplers [PROGRAM...]
//!
//! The programs are those of `bench/suite`. Truth is one run of 64 MiB in the lab under its own sampler with period 1; the
//! estimate is a longer run of the same binary on the same input outside, for the same last-level cache. A sampler only
//! needs to say which sites matter, so what counts is their order:
//!
//! - *rho*: Spearman's rank correlation of the misses of all sites that either saw.
//! - *found*: the sites that the estimate ranks first hold this much of the true misses that the best choice of as many
//!   sites holds; as many as it takes for 80 % of the misses.
//!
//! Exit code 1 if the means over all programs, or what is found in any of them, fall below [`LEAST_RHO`], [`LEAST_FOUND`]
//! and [`LEAST_FOUND_ANYWHERE`].

use hearth_tests::lab::Lab;
use hearth_tests::{Room, hearth, run, spearman, workspace};
use model::Observed;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

const PROGRAMS: [&str; 9] = ["xsbench", "cg", "fft3d", "hydro", "md", "bfs", "pagerank", "hashjoin", "statics"];
const MIB: &str = "64";
/// As the machines of `hearth_tests::lab` have it.
const LLC: &str = "1MiB";
/// Work in the lab: less than a second of native time; and outside, a quarter of a minute or more.
const WORK: [&str; 2] = ["0.3", "100"];
/// Truth is what the programs mark: set-up is much of so short a run, and little of the longer one.
const BEGIN: &str = "marks";
/// Objects below this are noise to both: stacks of buffers that the libraries allocate.
const LEAST: u64 = 64 << 10;
/// What is measured on a busy machine of two CPUs holds these with margin.
const LEAST_RHO: f64 = 0.4;
const LEAST_FOUND: f64 = 0.75;
const LEAST_FOUND_ANYWHERE: f64 = 0.35;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let programs: Vec<&str> = if named.is_empty() { PROGRAMS.to_vec() } else { named.iter().map(|s| &**s).collect() };
    let built = Room::new();
    let out = built.path("suite").to_str().expect("a readable name").to_string();
    let suite = workspace().join("bench/suite");
    run(Command::new("make").arg("-s").arg("-C").arg(suite).arg(format!("OUT={out}"))).expect(0);
    println!("# The page-fault sampler against the truth\n");
    println!("Made by `cargo run --release -p hearth-tests --bin lab-samplers`, which says how it is scored.\n");
    println!("| program | sites | true misses | samples | rho | found | truth's first | estimate's first |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for name in programs {
        let program = format!("{out}/{name}");
        let truth = in_the_lab(&program);
        let estimate = outside(&program);
        all.push(row(name, &truth, &estimate));
    }
    let mean = |which: fn(&(f64, f64)) -> f64| all.iter().map(which).sum::<f64>() / all.len() as f64;
    let (rho, found) = (mean(|r| r.0), mean(|r| r.1));
    let worst = all.iter().map(|r| r.1).fold(1.0, f64::min);
    println!("\nMean of rho {rho:.2}, of found {:.0} %; least found {:.0} %.", 100.0 * found, 100.0 * worst);
    println!(
        "Asked for: at least {LEAST_RHO:.2}, {:.0} % and {:.0} %.",
        100.0 * LEAST_FOUND,
        100.0 * LEAST_FOUND_ANYWHERE
    );
    let good = rho >= LEAST_RHO && found >= LEAST_FOUND && worst >= LEAST_FOUND_ANYWHERE;
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_the_lab(program: &str) -> Observed {
    let lab = Lab::enter();
    let hearth = hearth();
    let hearth = hearth.to_str().expect("a readable name");
    let record =
        [hearth, "record", "--sampler", "lab", "--period", "1", "-o", "truth.hearth", "--", program, WORK[0], MIB];
    lab.run(&["--fast", "192MiB", "--roi", BEGIN], &record);
    lab.room.observed("truth.hearth")
}

fn outside(program: &str) -> Observed {
    let room = Room::new();
    let options = ["--sampler", "page-fault", "--llc", LLC];
    room.record(&options, "estimate.hearth", &[program, WORK[1], MIB]).expect(0);
    room.observed("estimate.hearth")
}

/// Misses by site, and what people call it.
fn misses(observed: &Observed) -> BTreeMap<String, (f64, String)> {
    let large = observed.sites.iter().filter(|s| s.peak.0 >= LEAST);
    large.map(|s| (s.site.id.to_string(), (s.misses(), s.site.label()))).collect()
}

/// Prints the row of one program; gives rho and what was found.
fn row(name: &str, truth: &Observed, estimate: &Observed) -> (f64, f64) {
    let samples: u64 = estimate.sites.iter().map(|s| s.samples).sum();
    let (truth, estimate) = (misses(truth), misses(estimate));
    let mut sites: Vec<&String> = truth.keys().chain(estimate.keys()).collect();
    sites.sort();
    sites.dedup();
    let of = |m: &BTreeMap<String, (f64, String)>| -> Vec<f64> {
        sites.iter().map(|s| m.get(*s).map_or(0.0, |(misses, _)| *misses)).collect()
    };
    let (t, e) = (of(&truth), of(&estimate));
    let rho = spearman(&t, &e);
    let order = |v: &[f64]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..v.len()).collect();
        order.sort_by(|a, b| v[*b].total_cmp(&v[*a]));
        order
    };
    let total: f64 = t.iter().sum();
    let (best, chosen) = (order(&t), order(&e));
    let held = |order: &[usize], count: usize| order[..count].iter().map(|i| t[*i]).sum::<f64>();
    let count = (1..=best.len()).find(|c| held(&best, *c) >= 0.8 * total).unwrap_or(best.len());
    let found = held(&chosen, count) / held(&best, count);
    let first = |m: &BTreeMap<String, (f64, String)>, order: &[usize], v: &[f64]| {
        let i = order[0];
        let label = m.get(sites[i]).map_or("-", |(_, label)| label);
        format!("{label} {:.0} %", 100.0 * v[i] / v.iter().sum::<f64>())
    };
    println!(
        "| {name} | {} | {:.1} M | {samples} | {rho:.2} | {:.0} % | {} | {} |",
        sites.len(),
        total / 1e6,
        100.0 * found,
        first(&truth, &best, &t),
        first(&estimate, &chosen, &e)
    );
    (rho, found)
}
