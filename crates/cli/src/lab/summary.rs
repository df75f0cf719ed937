//! The summary of a run in the lab, for people.

use lab::run::{Outcome, Tier};
use model::{Bytes, GbPerSec, Nanos};
use std::fmt::Write;

/// Width of the picture of residency over time.
const COLUMNS: usize = 60;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The summary.
pub fn text(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, o: &Outcome) -> std::fmt::Result {
    let ended = match o.signal {
        Some(signal) => format!("signal {signal}"),
        None => format!("exit {}", o.code),
    };
    writeln!(out, "hearth: {ended}; {} as on {}, placement {}", Nanos(o.guest_ns), o.platform, o.placement)?;
    if o.guest_ns != o.run_ns {
        writeln!(out, "  the region of interest took {} of {}", Nanos(o.guest_ns), Nanos(o.run_ns))?;
    }
    for line in o.scale.lines() {
        writeln!(out, "  {line}")?;
    }
    if let (Some(asked), Some(free)) = (o.fast, o.fast_free) {
        writeln!(out, "  fast memory: {asked} asked for, {free} free for the program when it started")?;
    }
    let share = o.footprint.map_or(String::new(), |f| format!(" (footprint {f})"));
    writeln!(out, "  peak {}{share}", o.peak)?;
    for tier in &o.tiers {
        residency(out, o, tier)?;
    }
    let c = &o.counters;
    writeln!(
        out,
        "  {} instructions, {} accesses, misses: L1 {}, L2 {}, page walks {}",
        count(c.instructions),
        count(c.accesses),
        count(c.l1_misses),
        count(c.l2_misses),
        count(c.walks)
    )?;
    let seconds = c.model_ns.max(1) as f64 / 1e9;
    for t in &c.tiers {
        writeln!(
            out,
            "  {:<8} {} loads missed ({:.0} ns each), {} stores, {} prefetches, {} written back; read {}, write {}",
            t.name,
            count(t.loads),
            t.mean_latency_ns,
            count(t.stores),
            count(t.prefetches),
            count(t.writes),
            GbPerSec(t.read_bytes as f64 / 1e9 / seconds),
            GbPerSec(t.written_bytes as f64 / 1e9 / seconds)
        )?;
    }
    if c.memory_hits > 0 {
        writeln!(out, "  memory mode: {} misses served by the fast memory", count(c.memory_hits))?;
    }
    let moved: Vec<String> = ["pgpromote_success", "pgdemote_kswapd", "pgdemote_direct", "pgmigrate_success"]
        .iter()
        .filter_map(|name| o.kernel.get(*name).map(|n| format!("{name} {n}")))
        .collect();
    if !moved.is_empty() {
        writeln!(out, "  kernel: {}", moved.join(", "))?;
    }
    if o.files > 0 {
        writeln!(out, "  {} files brought back", o.files)?;
    }
    for note in &o.notes {
        writeln!(out, "  note: {note}")?;
    }
    let mips = c.instructions as f64 * 1000.0 / c.host_ns.max(1) as f64;
    writeln!(out, "  {:.1} s on this machine, {:.1} s of it to boot; {mips:.0} MIPS with the model", o.host_s, o.boot_s)
}

/// A count for people: `17`, `42 k`, `118 M`.
fn count(n: u64) -> String {
    let (size, unit) = match n {
        0..=9_999 => return n.to_string(),
        10_000..=9_999_999 => (1e3, "k"),
        10_000_000..=9_999_999_999 => (1e6, "M"),
        _ => (1e9, "G"),
    };
    format!("{:.0} {unit}", n as f64 / size)
}

/// Bytes on a tier over time, as a row of bars on the scale of the peak.
fn residency(out: &mut String, o: &Outcome, tier: &Tier) -> std::fmt::Result {
    let node = tier.node as usize;
    let most = o.residency.iter().map(|r| r.bytes[node]).max().unwrap_or(0);
    let scale = o.peak.0.max(1) as f64;
    let columns = o.residency.len().min(COLUMNS);
    let mut row = String::new();
    for i in 0..columns {
        let readings = &o.residency[i * o.residency.len() / columns..(i + 1) * o.residency.len() / columns];
        let mean = readings.iter().map(|r| r.bytes[node] as f64).sum::<f64>() / readings.len().max(1) as f64;
        let level = (mean / scale * BARS.len() as f64) as usize;
        row.push(if mean == 0.0 { ' ' } else { BARS[level.min(BARS.len() - 1)] });
    }
    writeln!(out, "  {:<8} {row}  at most {}", tier.name, Bytes(most))
}
