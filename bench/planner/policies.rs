//! How long the policies take on many sites. Prints Markdown.
//!
//!     cargo run --release -p hearth-tests --bin planner-policies [SITES...]
//!
//! Sites are made up: sizes over six orders of magnitude, misses over five, a quarter of them without any, lives of all lengths, 50
//! intervals of the run. Ratios are to `density` on the same sites, since times depend on the machine; `gap` is what `exact` proves.

use model::observed::{Region, TimePoint};
use model::*;
use policy::policies::{ALL, exact};
use policy::{Capacity, Options, Task};
use std::time::{Duration, Instant};

const INTERVALS: u64 = 50;
const SECOND: u64 = 1_000_000_000;

fn main() {
    let named: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let counts = if named.is_empty() { vec![1_000, 10_000, 100_000] } else { named };
    println!("# How long the policies take\n");
    println!("Made by `cargo run --release -p hearth-tests --bin planner-policies`, which says of what.\n");
    println!("| sites | policy | time | x density | above the bound |\n|---|---|---|---|---|");
    for count in counts {
        let observed = made_up(count);
        let mut platform = platform::load("cxl-expander").expect("the library's platform");
        // As large as made-up sites need it.
        platform.tiers.iter_mut().for_each(|t| t.capacity = None);
        let options = Options { fast: Some(Capacity::Share(0.25)), ..Options::default() };
        let mut density = Duration::ZERO;
        for policy in ALL {
            // A task of its own, so that each pays for its model.
            let task = Task::new(&observed, &platform, &options).expect("a task");
            let began = Instant::now();
            let gap = if policy.name() == "exact" {
                let solved = exact::solve(&task, exact::LIMIT).expect("a placement");
                format!("{:.2} %", (solved.time - solved.bound) / solved.time * 100.0)
            } else {
                policy.decision(&task).expect("a decision");
                String::new()
            };
            let took = began.elapsed();
            if policy.name() == "density" {
                density = took;
            }
            let ratio = took.as_secs_f64() / density.as_secs_f64();
            println!("| {count} | {} | {:.3} s | {ratio:.1} | {gap} |", policy.name(), took.as_secs_f64());
        }
    }
}

/// The same sites every time.
fn made_up(count: u64) -> Observed {
    let mut state = 88_172_645_463_325_252u64;
    let mut random = move || {
        // xorshift64 (Marsaglia, Xorshift RNGs, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut sites = Vec::new();
    let mut timeline: Vec<TimePoint> = (0..INTERVALS)
        .map(|i| TimePoint {
            at: Nanos(i * SECOND / INTERVALS * 10),
            live: vec![],
            misses: vec![],
            resident: vec![],
            huge: Bytes(0),
        })
        .collect();
    let length = 10 * SECOND;
    for n in 0..count {
        let size = Bytes((4096.0 * 10f64.powf(6.0 * random() * random())) as u64);
        let misses = if random() < 0.25 { 0.0 } else { 10f64.powf(5.0 * random()) };
        let from = (random() * random() * length as f64) as u64;
        let to = from + ((length - from) as f64 * random().sqrt()) as u64;
        let id = SiteId(n + 1);
        let alive: Vec<usize> =
            (0..timeline.len()).filter(|&i| timeline[i].at.0 >= from && timeline[i].at.0 < to).collect();
        for &i in &alive {
            timeline[i].live.push((id, size));
            if misses > 0.0 {
                timeline[i].misses.push((id, misses / alive.len() as f64));
            }
        }
        let stores = misses * random() / 2.0;
        let objects = 1 + (random() * 9.0) as u64;
        sites.push(SiteUse {
            site: Site { id, kind: SiteKind::Allocation, apart: None, frames: vec![] },
            objects,
            largest: size,
            peak: size,
            allocated: size,
            resident: None,
            first_alloc: Nanos(from),
            last_free: Nanos(to),
            mean_lifetime: Nanos(to - from),
            total_lifetime: Nanos(to - from),
            load_misses: misses - stores,
            store_misses: stores,
            samples: 10,
            pattern: if random() < 0.5 { Pattern::Random } else { Pattern::Stream { stride: 8 } },
            miss_latency: None,
            lines: None,
            chunks: vec![],
            lives: vec![],
            starts: (0..objects).map(|i| Nanos(from + (to - from) * i / objects)).collect(),
            nodes: vec![],
            placed: vec![],
        });
    }
    // A parallel region begins with each interval: as many segments as there can be.
    let frame = Frame { module: None, offset: 1, source: vec![] };
    let begins = |(n, p): (usize, &TimePoint)| Region {
        id: SiteId(1 << 40),
        number: n as u64 + 1,
        at: p.at,
        frames: vec![frame.clone()],
    };
    let regions = timeline.iter().enumerate().map(begins).collect();
    Observed {
        command: vec!["made-up".to_string()],
        started: 0,
        duration: Nanos(length),
        outcome: "exit 0".to_string(),
        threshold: Bytes::kib(4),
        sampler: "lab".to_string(),
        sampler_error: String::new(),
        processes: 1,
        platform: None,
        sites,
        unattributed: 0.0,
        elsewhere: vec![],
        timeline,
        watched: None,
        fullest: None,
        most_anonymous: None,
        rest: None,
        losses: vec![],
        touches: vec![],
        regions,
        declared: vec![],
        tiers: vec![],
    }
}
