//! What plans are predicted to do, for a terminal: policies side by side, machines side by side, one site explained.

use crate::table::wrap;
use crate::words;
use comfy_table::{Cell, CellAlignment, Table, presets};
use model::Nanos;
use model::forecast::{Explanation, Forecast};

/// Time over a base: `1.27x`.
fn over(time: Nanos, base: Nanos) -> String {
    if base.0 == 0 { "-".to_string() } else { format!("{:.2}x", time.0 as f64 / base.0 as f64) }
}

/// Rows under headings; the first column is text, the others figures.
fn grid(headings: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let cell = |(n, text): (usize, String)| {
        Cell::new(text).set_alignment(if n == 0 { CellAlignment::Left } else { CellAlignment::Right })
    };
    table.set_header(headings.iter().map(|h| h.to_string()).enumerate().map(cell));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(cell));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|l| format!("{}\n", l.trim_end())).collect()
}

fn notes<'a>(notes: impl IntoIterator<Item = &'a String>, width: usize) -> String {
    notes.into_iter().map(|n| wrap(&words::printable(&format!("note: {n}")), width)).collect()
}

/// Policies side by side.
pub fn forecast(f: &Forecast, width: usize) -> String {
    let mut out = wrap(&words::printable(&words::command(&f.command)), width);
    out += &wrap(
        &words::printable(&format!(
            "on {} ({}), {} of {} in {}",
            f.platform,
            f.tiers.join(", "),
            f.fast,
            f.peak,
            f.tiers[0]
        )),
        width,
    );
    out += &wrap(
        &format!(
            "predicted time: all in {} {}, all in {} {} ({})",
            f.tiers[0],
            f.all_fast,
            f.tiers[f.tiers.len() - 1],
            f.all_slow,
            over(f.all_slow, f.all_fast)
        ),
        width,
    );
    out.push('\n');
    let best = f.plans.iter().map(|p| p.time).min().unwrap_or_default();
    // Where all are alike, none is marked.
    let differ = f.plans.iter().any(|p| p.time > best);
    let row = |p: &model::forecast::PlanForecast| {
        let mark = if differ && p.time == best { "*" } else { "" };
        vec![
            format!("{}{mark}", p.policy),
            p.time.to_string(),
            over(p.time, f.all_fast),
            p.fast_bytes.to_string(),
            words::percent(p.served_fast),
            p.migrated.to_string(),
        ]
    };
    let headings = ["policy", "~time", "~slowdown", "fast bytes", "~served fast", "migrated"];
    out += &grid(&headings, f.plans.iter().map(row).collect());
    out.push('\n');
    out += &wrap(
        "~: predicted by the cost model (docs/planner.md), not measured; slowdown against everything fast; *: fastest",
        width,
    );
    for plan in &f.plans {
        for note in &plan.notes {
            out += &wrap(&words::printable(&format!("{}: {note}", plan.policy)), width);
        }
    }
    out + &notes(&f.notes, width)
}

/// Machines side by side, each with the plan of one policy.
pub fn machines(all: &[Forecast], width: usize) -> String {
    let Some(first) = all.first() else { return String::new() };
    let mut out = wrap(&words::printable(&words::command(&first.command)), width);
    let policy = first.plans.first().map_or("", |p| p.policy.as_str());
    out += &format!("predicted time by the plan of {policy}\n\n");
    let row = |f: &Forecast| {
        let plan = f.plans.first();
        vec![
            format!("{} ({})", f.platform, f.tiers.join(", ")),
            f.fast.to_string(),
            f.all_fast.to_string(),
            plan.map_or_else(String::new, |p| p.time.to_string()),
            plan.map_or_else(String::new, |p| over(p.time, f.all_fast)),
            plan.map_or_else(String::new, |p| words::percent(p.served_fast)),
            f.all_slow.to_string(),
        ]
    };
    let headings = ["platform", "fast", "~all fast", "~planned", "~slowdown", "~served fast", "~all slow"];
    out += &grid(&headings, all.iter().map(row).collect());
    out.push('\n');
    out += &wrap(
        "~: predicted by the cost model (docs/planner.md), not measured; the processors are taken to be those of the profile",
        width,
    );
    let mut said: Vec<&String> = all.iter().flat_map(|f| &f.notes).collect();
    said.sort();
    said.dedup();
    out + &notes(said, width)
}

/// One site.
pub fn explanation(e: &Explanation, width: usize) -> String {
    let mut out = wrap(&words::printable(&format!("site {}  {}", e.id, e.label)), width);
    out += &wrap(&words::printable(&format!("  goes to {} by {}: {}", e.tier, e.policy, e.why)), width);
    for to in &e.moves {
        out += &wrap(&words::printable(&format!("  then moves to {to}")), width);
    }
    out += &format!(
        "  {}, ~{} of the misses; predicted time of the plan {}\n\n",
        e.size,
        words::percent(e.miss_share),
        e.time
    );
    let row = |w: &model::forecast::Elsewhere| {
        let change = w.time.0 as f64 - e.time.0 as f64;
        let here = w.tier == e.tier && e.moves.is_empty();
        vec![
            if here { format!("{} (planned)", w.tier) } else { w.tier.clone() },
            w.time.to_string(),
            if e.time.0 == 0 { "-".to_string() } else { format!("{:+.1}%", change / e.time.0 as f64 * 100.0) },
            match w.lacks.0 {
                0 => "it fits".to_string(),
                _ => format!("lacks {}", w.lacks),
            },
        ]
    };
    out += &grid(&["in tier", "~time", "~change", "room"], e.elsewhere.iter().map(row).collect());
    out.push('\n');
    out += &wrap("~: predicted by the cost model (docs/planner.md), all other sites as planned", width);
    out + &notes(&e.notes, width)
}
