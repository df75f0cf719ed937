//! The terminal's view: what was run, small tables of one shape, placements by capacities, one for each figure, and a bar
//! for each guest time.
//!
//! They stand side by side where the terminal is wide enough, and where it is too narrow for all capacities, a table is
//! cut into several.

use super::{capacity, fastest, figure, header, notes, repeated, spread};
use crate::table::{cut, wrap};
use crate::words;
use comfy_table::{Cell, CellAlignment, Table, presets};
use model::comparison::{Comparison, PlacementRun};
use unicode_width::UnicodeWidthStr;

/// Columns for a placement's name, and for a figure with the gap before it.
const NAME: usize = 24;
const FIGURE: usize = 11;
/// Columns between tables that stand side by side.
const GAP: usize = 4;
/// Columns of the longest bar, where the terminal has room for it.
const BAR: usize = 48;

/// The comparison for a terminal of `width` columns.
pub fn comparison(c: &Comparison, width: usize) -> String {
    let mut out = wrap(&words::printable(&words::command(&c.command)), width);
    for line in header(c) {
        out += &wrap(&words::printable(&line), width);
    }
    let capacities = c.capacities();
    for some in capacities.chunks((width.saturating_sub(NAME) / FIGURE).max(1)) {
        let of = |f: fn(&PlacementRun) -> String| {
            move |run: Option<&PlacementRun>, _| run.filter(|r| r.code == 0).map_or_else(|| "-".to_string(), f)
        };
        let time = |run: Option<&PlacementRun>, percent: f64| {
            let shown = figure(c, run).to_string();
            let mark = if fastest(c, percent).is_some_and(|f| f == shown) { '*' } else { ' ' };
            format!("{shown}{mark}")
        };
        let tables = [
            grid(c, "guest time", some, time),
            grid(c, "resident fast", some, of(|r| words::percent(r.resident_fast))),
            grid(c, "lines served fast", some, of(|r| words::percent(r.served_fast))),
            grid(c, "migrated", some, of(|r| r.migrated.to_string())),
        ];
        for pair in tables.chunks(2) {
            out += &beside(&pair[0], &pair[1], width);
        }
    }
    if !capacities.is_empty() {
        out += &bars(c, width);
        let unit = if super::base(c).is_some() { "relative to all-fast" } else { "as it is" };
        let legend = format!("columns: fast memory in % of the footprint; guest time {unit}; *: fastest of its column");
        out += &format!("\n{}", wrap(&legend, width));
        if let Some(sentence) = repeated(std::slice::from_ref(c)) {
            out += &wrap(&sentence, width);
        }
    }
    for (who, note) in notes(c) {
        out += &wrap(&words::printable(&format!("note ({who}): {note}")), width);
    }
    out
}

/// Lines of a table of one figure, its title above the placements.
fn grid(
    c: &Comparison,
    title: &str,
    capacities: &[f64],
    cell: impl Fn(Option<&PlacementRun>, f64) -> String,
) -> Vec<String> {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    // The mark of the fastest stands right of its figure, and the heading above the figure.
    let aligned = if title == "guest time" { " " } else { "" };
    let headings = capacities.iter().map(|p| right(format!("{}{aligned}", capacity(*p))));
    table.set_header(std::iter::once(Cell::new(title)).chain(headings));
    for placement in c.placements() {
        let figures = capacities.iter().map(|p| right(cell(c.at(placement, *p), *p)));
        table.add_row(std::iter::once(Cell::new(cut(&words::printable(placement), NAME))).chain(figures));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.lines().map(|l| l.trim_end().to_string()).collect()
}

/// Guest times as bars from zero, the two ends first; nothing if the terminal is too narrow for them.
fn bars(c: &Comparison, width: usize) -> String {
    let mut longest = width.saturating_sub(NAME + 8 + FIGURE).min(BAR);
    // A range or a prediction behind the figure takes as much as two figures: not where the bars would be short for it.
    let more = c.runs.iter().any(|r| !r.times.is_empty() || r.predicted.is_some());
    let ranges = width >= NAME + 8 + 3 * FIGURE + BAR / 2 && more;
    if ranges {
        longest = longest.min(width - NAME - 8 - 3 * FIGURE);
    }
    let slowest = c.runs.iter().filter(|r| r.code == 0).map(|r| r.time.0).max().unwrap_or(0);
    if longest < 8 || slowest == 0 {
        return String::new();
    }
    let mut out = String::from("\n");
    let mut before = "";
    let ends = super::ENDS.iter().filter_map(|e| c.whole(e));
    let others = c.placements().into_iter().flat_map(|p| c.runs.iter().filter(move |r| r.placement == p));
    for run in ends.chain(others.filter(|r| r.fast_percent.is_some())).filter(|r| r.code == 0) {
        let name = if run.placement == before { String::new() } else { cut(&words::printable(&run.placement), NAME) };
        before = &run.placement;
        let at = run.fast_percent.map_or_else(String::new, capacity);
        let bar = words::bar(run.time.0 as f64 / slowest as f64, longest);
        let pad = " ".repeat(NAME.saturating_sub(name.width()));
        let range = spread(c, run).map(|(low, high)| format!(" ({low} to {high})"));
        let more = range.or_else(|| super::predicted(run).map(|p| format!(" (predicted {p})")));
        let more = more.filter(|_| ranges).unwrap_or_default();
        out += &format!("{name}{pad} {at:>6} {bar} {}{more}\n", figure(c, Some(run)));
    }
    out
}

/// Two tables side by side if there is room, else one under the other; an empty line before each.
fn beside(left: &[String], right: &[String], width: usize) -> String {
    let widest = |lines: &[String]| lines.iter().map(|l| l.width()).max().unwrap_or(0);
    let lines: Vec<String> = if widest(left) + GAP + widest(right) <= width {
        let pad = |l: &String| " ".repeat(widest(left) + GAP - l.width());
        left.iter().zip(right).map(|(l, r)| format!("{l}{}{r}", pad(l))).collect()
    } else {
        left.iter().chain([&String::new()]).chain(right).cloned().collect()
    };
    format!("\n{}\n", lines.join("\n"))
}
