//! Measures the emulated memory from inside, on every platform that the lab can emulate, and prints what the platform says
//! beside it, as Markdown.
//!
//!     cargo run --release -p hearth-tests --bin lab-calibrate [PLATFORM...]
//!
//! Two machines for each platform, with one and with two virtual CPUs, an LLC of 1 MiB, 16 MiB read or written by
//! `tests/programs/calibrate.c` on each node in turn. What is expected follows from the platform's figures, scaled as
//! `lab run` prints them:
//!
//! - *chase*, *index*: dependent loads of random lines take the idle latency, and what their own load adds. One CPU of the
//!   lab stands for many cores of the real machine, so even one that chases is some load.
//! - *read*: the read bandwidth; one CPU may be held up before by the lines that it can have under way.
//! - *write*: each line is read before it is written, and written back: 1 / (1 / read + 1 / write) of bytes stored.
//! - *update*: the same mix, both directions counted: the platform's 1R1W figure where it has one.
//! - *triad*: three lines read for one written, three counted.
//! - *loaded*: a chase beside a CPU that reads. The latency at a load lies on the curve u * u / (1 - u) from the idle
//!   figure through the loaded one; nothing is expected of higher loads than that figure's.
//!
//! `*` marks what rests on an assumption of the lab because the platform says nothing: no deviation is given then. Exit code 1
//! if a figure that the platform says is missed by more than 5 %.

use hearth_tests::lab::Lab;
use hearth_tests::program;
use lab::scale::{Scaled, ScaledTier};
use model::Bytes;
use std::process::ExitCode;

/// Lines that the emulated prefetcher runs ahead (Intel's streamer, as `crates/lab/plugin/vcpu.h` says).
const AHEAD: f64 = 20.0;
const LINE: f64 = 64.0;

/// What is measured on each node: kind, and the rest of the arguments.
const CASES: [(&str, &str, &str); 16] = [
    ("chase", "16 huge 1", "chase, huge pages"),
    ("chase", "16 small 1", "chase, small pages"),
    ("chase", "16 huge 2", "chase, 2 CPUs"),
    ("index", "16 huge 1", "index"),
    ("random", "16 huge 1", "random, huge pages"),
    ("random", "16 small 1", "random, small pages"),
    ("read", "16 huge 1", "read, 1 CPU"),
    ("read", "16 huge 2", "read, 2 CPUs"),
    ("read", "16 small 2", "read, 2 CPUs, small pages"),
    ("write", "16 huge 1", "write, 1 CPU"),
    ("write", "16 huge 2", "write, 2 CPUs"),
    ("update", "16 huge 2", "update, 2 CPUs"),
    ("triad", "24 huge 2", "triad, 2 CPUs"),
    ("loaded", "16 huge 2 20000", "loaded, little"),
    ("loaded", "16 huge 2 2000", "loaded, some"),
    ("loaded", "16 huge 2 0", "loaded, all it can"),
];

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let names = match named.is_empty() {
        true => platform::library().into_iter().map(|e| e.name).collect(),
        false => named,
    };
    println!("# Calibration of the lab\n");
    println!(
        "Made by `cargo run --release -p hearth-tests --bin lab-calibrate`, which says how it measures and expects."
    );
    println!("`*`: the platform does not say; this is what the lab assumes.");
    let (mut told, mut near) = (0, 0);
    for name in &names {
        let platform = platform::load(name).unwrap_or_else(|e| panic!("{e}"));
        for vcpus in [1, 2] {
            match Scaled::new(&platform, vcpus, None, Some(Bytes::mib(1))) {
                Err(_) if vcpus > 1 => {}
                Err(why) => println!("\n## {name}\n\nNot emulated: {why}."),
                Ok(scaled) => {
                    for deviation in table(name, vcpus, &scaled) {
                        told += 1;
                        near += u32::from(deviation.abs() <= 0.05);
                    }
                }
            }
        }
    }
    println!("\n{near} of {told} figures that the platforms say are met within 5 %.");
    if near == told { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the table of one platform; gives the deviations from what it says.
fn table(name: &str, vcpus: u32, scaled: &Scaled) -> Vec<f64> {
    let calibrate = program("calibrate");
    let cases: Vec<_> = CASES.into_iter().filter(|(_, rest, _)| threads(rest) <= vcpus).collect();
    let script: Vec<String> = (0..2)
        .flat_map(|node| cases.iter().map(move |(kind, rest, _)| (kind, node, rest)))
        .map(|(kind, node, rest)| format!("{calibrate} {kind} {node} {rest}"))
        .collect();
    let mut lab = Lab::enter();
    lab.platform = name.into();
    // The slow node is large enough for anything; of the fast one the program has this much.
    let vcpus_text = vcpus.to_string();
    let options = ["--vcpus", &vcpus_text, "--placement", "first-touch", "--fast", "96MiB"];
    let (said, _) = lab.run(&options, &["/bin/sh", "-c", &script.join(" && ")]);
    let cpus = if vcpus == 1 { "1 vCPU" } else { "2 vCPUs" };
    println!("\n## {name}, {cpus}\n\n| node | what | measured | platform says | deviation |\n|---|---|---|---|---|");
    let mut deviations = Vec::new();
    let mut lines = said.stdout.lines();
    for (node, tier) in scaled.tiers.iter().enumerate() {
        for &(kind, rest, label) in &cases {
            let line = lines.next().expect("a line for each case");
            let words: Vec<&str> = line.split(' ').collect();
            let number = |i: usize| words[i].parse::<f64>().expect("a number");
            let (measured, unit) = (number(2), words[3]);
            let threads = f64::from(threads(rest));
            let own = LINE / measured;
            // What the tier delivers meanwhile, in GB/s; of random loads it is not known which hit the cache.
            let load = match kind {
                "loaded" => Some(number(5) + own),
                "chase" | "index" => Some(own * threads),
                _ => None,
            };
            let (says, off) = match expected(kind, tier, threads, load) {
                None => ("-".to_string(), "-".to_string()),
                Some((value, true)) => {
                    deviations.push(measured / value - 1.0);
                    (format!("{value:.2} {unit}"), format!("{:+.1} %", 100.0 * (measured / value - 1.0)))
                }
                Some((value, false)) => (format!("{value:.2} {unit} *"), "-".to_string()),
            };
            let at = load.map_or(String::new(), |l| format!(" at {l:.2} GB/s"));
            println!("| {node} {} | {label} | {measured:.2} {unit}{at} | {says} | {off} |", tier.real.name);
        }
    }
    deviations
}

/// Threads of a case.
fn threads(rest: &str) -> u32 {
    if rest.contains(" 2") { 2 } else { 1 }
}

/// What is expected, and whether the platform's file alone says so. `load`: GB/s that are read meanwhile.
fn expected(kind: &str, tier: &ScaledTier, cpus: f64, load: Option<f64>) -> Option<(f64, bool)> {
    let (latency, read, write) = (tier.latency.0 as f64, tier.read.0, tier.write.0);
    let said = tier.real.write_bandwidth.is_some();
    // Both directions share one bus; a figure for one read to one write says by how much it is better than that.
    let shared = 2.0 / (1.0 / read + 1.0 / write);
    let better = tier.mixed.map_or(1.0, |mixed| mixed.0 / shared);
    let mix = |reads: f64, writes: f64| {
        let together = better / (reads / read + writes / write);
        together.min(read / reads).min(write / writes)
    };
    // The core reads no faster than the lines that it has under way arrive, and of these the platform says nothing.
    let under_way = cpus * (AHEAD + 1.0) * LINE / latency;
    match kind {
        "read" => Some((read.min(under_way), read < under_way)),
        // One CPU may be held up by its buffers, of which the platform says nothing.
        "write" if cpus == 1.0 => None,
        "write" => Some((mix(1.0, 1.0), (said || tier.mixed.is_some()) && mix(1.0, 1.0) < under_way)),
        "update" => Some((2.0 * mix(1.0, 1.0), (said || tier.mixed.is_some()) && mix(1.0, 1.0) < under_way)),
        "triad" => Some((3.0 * mix(3.0, 1.0), said && 3.0 * mix(3.0, 1.0) < under_way)),
        "chase" | "index" | "loaded" => {
            let (loaded, at) = tier.loaded.map_or((2.0 * latency, 0.95 * read), |(l, b)| (l.0 as f64, b.0));
            let queue = |gbps: f64| gbps * gbps / (read - gbps);
            let load = load.filter(|l| *l <= (at * 1.1).min(0.9 * read))?;
            // An unloaded tier's latency is the file's, whatever is assumed of loaded ones.
            let said = tier.loaded.is_some() || kind != "loaded";
            Some((latency + (loaded - latency) * queue(load) / queue(at), said))
        }
        _ => None,
    }
}
