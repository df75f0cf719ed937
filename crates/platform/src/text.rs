//! A platform, and what was measured on it, as tables for people: every figure above its origin.

use crate::measure::{Measured, Watts};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use model::{Figure, Platform, Space, Tier};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;

/// The whole platform: name, tiers, spaces. `width` is the number of columns of the terminal.
pub fn platform(p: &Platform, width: u16) -> String {
    let mut lines = vec![p.name.clone()];
    if !p.description.is_empty() {
        lines[0] += &format!(": {}", p.description);
    }
    if !p.source.is_empty() {
        lines.push(format!("source: {}", p.source));
    }
    if let Some(llc) = p.llc {
        lines.push(format!("last-level cache: {} ({})", llc.value, llc.origin));
    }
    if let Some(cores) = p.cores {
        lines.push(format!("cores: {} ({})", cores.value, cores.origin));
    }
    let mut text = lines.iter().map(|l| wrap(l, width)).collect::<Vec<_>>().join("\n");
    text += &format!("\n\n{}\n\n", tiers(p, width));
    text += &spaces(p);
    text
}

/// The table of tiers.
fn tiers(p: &Platform, width: u16) -> String {
    let loaded = p.tiers.iter().any(|t| t.loaded_latency.is_some());
    let with_dir = p.tiers.iter().any(|t| t.dir.is_some());
    let mut header = vec!["tier", "kind", if with_dir { "place" } else { "nodes" }, "capacity", "free", "latency"];
    if loaded {
        header.push("loaded\nlatency");
    }
    let mixed = p.tiers.iter().any(|t| t.mixed_bandwidth.is_some());
    header.extend(["read\nGB/s", "write\nGB/s"]);
    if mixed {
        header.push("1R1W\nGB/s");
    }
    header.push("near\nCPUs");
    let mut table = plain(width);
    table.set_header(header);
    for tier in &p.tiers {
        let mut row = vec![tier.name.clone(), figure(Some(tier.kind)), place(tier)];
        row.extend([figure(tier.capacity), figure(tier.free), figure(tier.latency)]);
        if loaded {
            let load = tier.loaded_bandwidth.map(|f| format!("\nat {}", f.value));
            row.push(figure(tier.loaded_latency) + &load.unwrap_or_default());
        }
        let near = match tier.near_cpus.replace(',', ", ") {
            near if !near.is_empty() => near,
            _ if tier.nodes.is_empty() => "-".into(),
            _ => "all".into(),
        };
        row.extend([tier.read_bandwidth, tier.write_bandwidth].map(|b| figure(b).replace(" GB/s", "")));
        if mixed {
            row.push(figure(tier.mixed_bandwidth).replace(" GB/s", ""));
        }
        row.push(near);
        table.add_row(row);
    }
    let columns = table.column_count();
    finish(table, width, 3..columns - 1)
}

fn place(tier: &Tier) -> String {
    match &tier.dir {
        Some(dir) => dir.display().to_string(),
        None if tier.nodes.is_empty() => "-".into(),
        None => crate::sysfs::format_list(&tier.nodes).replace(',', ", "),
    }
}

/// The value above its origin, or a dash.
fn figure<T: Display>(f: Option<Figure<T>>) -> String {
    f.map_or_else(|| "-".into(), |f| format!("{}\n{}", f.value, f.origin))
}

/// Which tier each space resolves to, and by which figure.
fn spaces(p: &Platform) -> String {
    let mut text = String::from("spaces\n");
    for space in Space::ALL {
        let Some(tier) = p.space(space) else { continue };
        let (why, what) = match space {
            Space::HighestBandwidth => (tier.read_bandwidth.map(|f| f.value.to_string()), "bandwidth"),
            Space::LowestLatency => (tier.latency.map(|f| f.value.to_string()), "latency"),
            Space::LargestCapacity => (tier.capacity.map(|f| f.value.to_string()), "capacity"),
        };
        let why = match why {
            Some(value) => value,
            None if p.tiers.len() == 1 => "the only tier".into(),
            None => format!("no {what} is known: the first tier"),
        };
        text += &format!("  {space:18} {} ({why})\n", tier.name);
    }
    text
}

/// What was measured: latencies and bandwidth by number of threads, for every pair of nodes.
pub fn measured(m: &Measured, width: u16) -> String {
    let mut table = plain(width);
    table.set_header([
        "CPUs of",
        "memory of",
        "idle\nlatency",
        "loaded\nlatency",
        "threads",
        "read\nGB/s",
        "write\nGB/s",
        "1R1W\nGB/s",
        "random\nGB/s",
    ]);
    for pair in &m.pairs {
        let ns = |v: f64| format!("{v:.0} ns");
        let loaded = pair.loaded_latency_ns.zip(pair.loaded_bandwidth);
        let loaded = loaded.map_or_else(|| "-".into(), |(l, b)| format!("{} at {b}", ns(l)));
        let mut first =
            [format!("node {}", pair.cpu_node), format!("node {}", pair.memory_node), ns(pair.latency_ns), loaded];
        for p in &pair.bandwidth {
            let figures = [Some(p.read), Some(p.write), Some(p.read_write), p.random_read];
            let figures = figures.map(|b| b.map_or_else(|| "-".into(), |b| b.to_string().replace(" GB/s", "")));
            table.add_row(first.into_iter().chain([p.threads.to_string()]).chain(figures));
            first = Default::default();
        }
    }
    let mut text = finish(table, width, 4..9) + "\n";
    for pair in &m.pairs {
        let Some(power) = pair.power else { continue };
        let of = |w: Watts| {
            let memory = w.memory.map_or_else(|| "memory not told".into(), |m| format!("{m:.1} W of memory"));
            format!("{:.1} W of packages, {memory}", w.package)
        };
        let line = format!(
            "power: node {} reading memory of node {}: {}; idle: {}",
            pair.cpu_node,
            pair.memory_node,
            of(power.reading),
            of(power.idle)
        );
        text += &(wrap(&line, width) + "\n");
    }
    text
}

/// What makes measured figures worse than they should be, a line each.
pub fn notes(m: &Measured, width: u16) -> String {
    let notes: BTreeSet<&String> = m.pairs.iter().flat_map(|p| &p.notes).collect();
    notes.iter().map(|n| wrap(&format!("note: {n}"), width) + "\n").collect()
}

/// An empty table without lines, that fits the terminal.
fn plain(width: u16) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table
}

/// Prints a table: numbers to the right, narrow gaps on narrow terminals, no blanks at line ends.
fn finish(mut table: Table, width: u16, numbers: Range<usize>) -> String {
    let gap = if width < 100 { 1 } else { 2 };
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, gap));
        if numbers.contains(&i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Breaks a line at blanks; continued lines are indented.
fn wrap(line: &str, width: u16) -> String {
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("never empty");
        if !last.trim().is_empty() && last.chars().count() + 1 + word.chars().count() > width.into() {
            lines.push(format!("    {word}"));
        } else if last.is_empty() {
            last.push_str(word);
        } else {
            *last += &format!(" {word}");
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Machine, Pair, Point, Power};
    use model::{Bytes, GbPerSec};

    #[test]
    fn what_an_earlier_version_did_not_measure_is_a_dash_and_power_has_its_line() {
        let point = Point {
            threads: 1,
            read: GbPerSec(12.0),
            write: GbPerSec(6.0),
            read_write: GbPerSec(10.0),
            random_read: None,
        };
        let pair = Pair {
            cpu_node: 0,
            memory_node: 1,
            buffer: Bytes::mib(256),
            latency_ns: 90.0,
            loaded_latency_ns: None,
            loaded_bandwidth: None,
            bandwidth: vec![point],
            power: Some(Power {
                idle: Watts { package: 30.0, memory: Some(4.0) },
                reading: Watts { package: 110.25, memory: Some(21.5) },
            }),
            notes: Vec::new(),
        };
        let machine = Machine { host: "h".into(), cpu_model: "c".into(), cpus: 1, nodes: vec![0, 1] };
        let shown = measured(&Measured { machine, taken: 0, pairs: vec![pair] }, 120);
        let lines: Vec<&str> = shown.lines().collect();
        assert!(lines[2].ends_with('-'), "{shown}");
        assert_eq!(
            lines[3],
            "power: node 0 reading memory of node 1: 110.2 W of packages, 21.5 W of memory; idle: 30.0 W of packages, 4.0 W of memory"
        );
    }
}
