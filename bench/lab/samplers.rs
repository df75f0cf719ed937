//! Scores the page-fault sampler against the truth: which sites miss the cache, as it estimates it on this machine, and as
//! the emulated machine counts every single miss. Prints Markdown.
//!
//!     cargo run --release -p hearth-tests --bin lab-samplers [PROGRAM...]
//!
//! The programs are those of `bench/suite`. Truth is one run of 64 MiB in the lab under its own sampler with period 1; the
//! estimate is a longer run of the same binary outside, four times as large and for a cache four times as large: the lab
//! is a machine scaled down as a whole. A sampler only needs to say which sites matter, so what counts is their order:
//!
//! - *rho*: Spearman's rank correlation of the misses of all sites that either saw.
//! - *found*: the sites that the estimate ranks first hold this much of the true misses that the best choice of as many
//!   sites holds; as many as it takes for 80 % of the misses.
//! - *placed*: what a plan makes of it. Fast memory of a quarter of all bytes is filled by misses for each byte, the last
//!   site in part; by the estimate it serves this much of the true misses that it serves by the truth.
//!
//! Exit code 1 if the means over all programs, or what is placed in any of them, fall below [`LEAST_RHO`], [`LEAST_FOUND`],
//! [`LEAST_PLACED`] and [`LEAST_PLACED_ANYWHERE`].

use hearth_tests::lab::Lab;
use hearth_tests::{Room, hearth, run, spearman, workspace};
use model::Observed;
use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, ExitCode};

const PROGRAMS: [&str; 9] = ["xsbench", "cg", "fft3d", "hydro", "md", "bfs", "pagerank", "hashjoin", "statics"];
/// In the lab and outside.
const MIB: [&str; 2] = ["64", "256"];
/// Outside; the machines of `hearth_tests::lab` have a quarter of it.
const LLC: &str = "4MiB";
/// Work in the lab: less than a second of native time; and outside, some ten seconds.
const WORK: [&str; 2] = ["0.3", "15"];
/// Truth is what the programs mark: set-up is much of so short a run, and little of the longer one.
const BEGIN: &str = "marks";
/// Objects below this are noise to both: stacks of buffers that the libraries allocate.
const LEAST: u64 = 64 << 10;
/// What is measured on a busy machine of two CPUs holds these with margin.
const LEAST_RHO: f64 = 0.6;
const LEAST_FOUND: f64 = 0.85;
const LEAST_PLACED: f64 = 0.85;
const LEAST_PLACED_ANYWHERE: f64 = 0.6;
/// Of all bytes, what the plan has.
const FAST: f64 = 0.25;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let programs: Vec<&str> = if named.is_empty() { PROGRAMS.to_vec() } else { named.iter().map(|s| &**s).collect() };
    let built = Room::new();
    let out = built.path("suite").to_str().expect("a readable name").to_string();
    let suite = workspace().join("bench/suite");
    run(Command::new("make").arg("-s").arg("-C").arg(suite).arg(format!("OUT={out}"))).expect(0);
    println!("# The page-fault sampler against the truth\n");
    println!("Made by `cargo run --release -p hearth-tests --bin lab-samplers`, which says how it is scored.\n");
    println!("| program | sites | true misses | samples | rho | found | placed | truth's first | estimate's first |");
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut all = Vec::new();
    for name in programs {
        let program = format!("{out}/{name}");
        let truth = in_the_lab(&program);
        let estimate = outside(&program);
        all.push(row(name, &truth, &estimate));
    }
    let mean = |which: fn(&Score) -> f64| all.iter().map(which).sum::<f64>() / all.len() as f64;
    let (rho, found, placed) = (mean(|r| r.rho), mean(|r| r.found), mean(|r| r.placed));
    let worst = all.iter().map(|r| r.placed).fold(1.0, f64::min);
    let percent = |share: f64| 100.0 * share;
    println!(
        "\nMeans: rho {rho:.2}, found {:.0} %, placed {:.0} %; least placed {:.0} %.",
        percent(found),
        percent(placed),
        percent(worst)
    );
    println!(
        "Asked for: at least {LEAST_RHO:.2}, {:.0} %, {:.0} % and {:.0} %.",
        percent(LEAST_FOUND),
        percent(LEAST_PLACED),
        percent(LEAST_PLACED_ANYWHERE)
    );
    let good = rho >= LEAST_RHO && found >= LEAST_FOUND && placed >= LEAST_PLACED && worst >= LEAST_PLACED_ANYWHERE;
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn in_the_lab(program: &str) -> Observed {
    let lab = Lab::enter();
    let hearth = hearth();
    let hearth = hearth.to_str().expect("a readable name");
    let record =
        [hearth, "record", "--sampler", "lab", "--period", "1", "-o", "truth.hearth", "--", program, WORK[0], MIB[0]];
    lab.run(&["--fast", "192MiB", "--roi", BEGIN], &record);
    lab.room.observed("truth.hearth")
}

fn outside(program: &str) -> Observed {
    let room = Room::new();
    let options = ["--sampler", "page-fault", "--llc", LLC];
    room.record(&options, "estimate.hearth", &[program, WORK[1], MIB[1]]).expect(0);
    room.observed("estimate.hearth")
}

/// A site as one of the two runs saw it.
#[derive(Clone, Default)]
struct Seen {
    misses: f64,
    bytes: f64,
    label: String,
}

fn sites(observed: &Observed) -> BTreeMap<String, Seen> {
    let large = observed.sites.iter().filter(|s| s.peak.0 >= LEAST);
    let seen = |s: &model::SiteUse| Seen { misses: s.misses(), bytes: s.peak.0 as f64, label: s.site.label() };
    large.map(|s| (s.site.id.to_string(), seen(s))).collect()
}

/// How the estimate of one program does.
struct Score {
    rho: f64,
    found: f64,
    placed: f64,
}

/// Prints the row of one program.
fn row(name: &str, truth: &Observed, estimate: &Observed) -> Score {
    let samples: u64 = estimate.sites.iter().map(|s| s.samples).sum();
    let (truth, estimate) = (sites(truth), sites(estimate));
    let ids: BTreeSet<&String> = truth.keys().chain(estimate.keys()).collect();
    let of = |m: &BTreeMap<String, Seen>| -> Vec<Seen> {
        ids.iter().map(|id| m.get(*id).cloned().unwrap_or_default()).collect()
    };
    let misses = |of: &[Seen]| -> Vec<f64> { of.iter().map(|s| s.misses).collect() };
    let density = |of: &[Seen]| -> Vec<f64> { of.iter().map(|s| s.misses / s.bytes.max(1.0)).collect() };
    let order = |v: &[f64]| -> Vec<usize> {
        let mut order: Vec<usize> = (0..v.len()).collect();
        order.sort_by(|a, b| v[*b].total_cmp(&v[*a]));
        order
    };
    let (truth, estimate) = (of(&truth), of(&estimate));
    let (t, e) = (misses(&truth), misses(&estimate));
    let rho = spearman(&t, &e);
    let total: f64 = t.iter().sum();
    let (best, chosen) = (order(&t), order(&e));
    let held = |order: &[usize], count: usize| order[..count].iter().map(|i| t[*i]).sum::<f64>();
    let count = (1..=best.len()).find(|c| held(&best, *c) >= 0.8 * total).unwrap_or(best.len());
    let found = held(&chosen, count) / held(&best, count);
    let served = |order: &[usize]| -> f64 {
        let mut room = FAST * truth.iter().map(|s| s.bytes).sum::<f64>();
        let mut served = 0.0;
        for site in order.iter().map(|i| &truth[*i]).filter(|s| s.bytes > 0.0) {
            served += site.misses * (room / site.bytes).min(1.0);
            room = (room - site.bytes).max(0.0);
        }
        served
    };
    let placed = served(&order(&density(&estimate))) / served(&order(&density(&truth)));
    let first = |seen: &[Seen], order: &[usize], v: &[f64]| {
        let i = order[0];
        let label = if seen[i].label.is_empty() { "-" } else { &seen[i].label };
        format!("{label} {:.0} %", 100.0 * v[i] / v.iter().sum::<f64>())
    };
    println!(
        "| {name} | {} | {:.1} M | {samples} | {rho:.2} | {:.0} % | {:.0} % | {} | {} |",
        ids.len(),
        total / 1e6,
        100.0 * found,
        100.0 * placed,
        first(&truth, &best, &t),
        first(&estimate, &chosen, &e)
    );
    Score { rho, found, placed }
}
