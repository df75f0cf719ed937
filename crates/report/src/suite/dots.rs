//! The picture of a suite: a row for each program, a mark for each placement, further right the slower.
//!
//! The axis is logarithmic, because ratios are compared by their ratio, and is the same in all panels. Marks that would
//! cover each other stand in lanes of their own, so a row is as tall as it needs.

use super::{Column, Panel, panels, placements};
use crate::comparison::{BASE, Figure, figure};
use crate::html::marks::{Kind, legend, mark, standalone};
use crate::html::svg::{Scale, shortened, text};
use model::comparison::Comparison;

const WIDTH: f64 = 960.0;
/// Left and right of the plot; programs are named left of it, failures right of it.
const PLOT: (f64, f64) = (200.0, 770.0);
/// Marks nearer than this cover each other; lanes are as high.
const NEAR: f64 = 13.0;
const LANE: f64 = 12.0;
/// Figures of the axis are at least this far apart.
const APART: f64 = 44.0;

/// All panels in one picture, as a file of its own.
pub fn suite_svg(all: &[Comparison]) -> String {
    let axis = Axis::new(all);
    let (mut body, mut y) = key(all, 4.0);
    y += 4.0;
    for panel in panels(all) {
        y += 34.0;
        body += &format!(
            "<text class=\"site bold\" x=\"16\" y=\"{:.1}\">{}</text>\n",
            y - 8.0,
            text(&shortened(&panel.title(), 120))
        );
        let (rows, height) = rows(&panel, &axis, &placements(all), y);
        body += &rows;
        y += height;
    }
    let title = format!("Guest time relative to {BASE}");
    let about = "Simulated time of each program under each placement; further left is better. docs/lab.md says what is not modelled.";
    standalone(&title, about, &body, WIDTH, y + 8.0)
}

/// One panel, for a page.
pub(super) fn svg(all: &[Comparison], panel: &Panel) -> String {
    let (mut body, y) = key(all, 4.0);
    let (rows, height) = rows(panel, &Axis::new(all), &placements(all), y + 12.0);
    body += &rows;
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"Guest time of each program relative to {BASE}\">\n{body}</svg>\n",
        y + 12.0 + height
    )
}

/// What the marks mean.
fn key(all: &[Comparison], top: f64) -> (String, f64) {
    let series = placements(all).into_iter().enumerate().map(|(n, name)| (Kind::Series(n), name));
    let entries: Vec<(Kind, &str)> = wholes(all).into_iter().map(|name| (Kind::Bar, name)).chain(series).collect();
    legend(&entries, (16.0, WIDTH - 16.0), top)
}

/// Placements without a capacity.
fn wholes(all: &[Comparison]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for run in all.iter().flat_map(|c| &c.runs).filter(|r| r.fast_percent.is_none() && r.placement != BASE) {
        if !names.contains(&run.placement.as_str()) {
            names.push(&run.placement);
        }
    }
    names
}

/// The axis of ratios that all panels share.
struct Axis {
    scale: Scale,
    ticks: Vec<f64>,
}

impl Axis {
    fn new(all: &[Comparison]) -> Axis {
        let ratios = || all.iter().flat_map(|c| c.runs.iter().map(|r| figure(c, Some(r)))).filter_map(Figure::relative);
        let low = ratios().filter(|r| *r > 0.0).fold(1.0, f64::min);
        // Never so little that noise looks like a difference.
        let high = ratios().fold(1.2, f64::max);
        let air = (high / low).powf(0.04);
        let (low, high) = (low / air, high * air);
        let scale = Scale::log((low, high), PLOT);
        let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0];
        let round = || (-4..=6).flat_map(|p| steps.map(|s| s * 10f64.powi(p))).filter(|v| (low..=high).contains(v));
        let mut ticks = vec![1.0];
        for value in
            round().filter(|v| *v > 1.0).chain(round().filter(|v| *v < 1.0).collect::<Vec<_>>().into_iter().rev())
        {
            if ticks.iter().all(|t| (scale.at(*t) - scale.at(value)).abs() >= APART) {
                ticks.push(value);
            }
        }
        Axis { scale, ticks }
    }
}

/// One mark of a row.
struct Dot {
    x: f64,
    tip: String,
    kind: Kind,
}

/// Rows of one panel with its axis, from `top` on, and the height of it all.
fn rows(panel: &Panel, axis: &Axis, placements: &[&str], top: f64) -> (String, f64) {
    let kind = |column: &Column| {
        let series = column.percent.and(placements.iter().position(|p| *p == column.placement));
        series.map_or(Kind::Bar, Kind::Series)
    };
    let mut lines: Vec<(String, Vec<Dot>, Vec<String>)> = Vec::new();
    for (c, name) in panel.programs.iter().zip(panel.names()) {
        let (mut dots, mut failed) = (Vec::new(), Vec::new());
        for column in &panel.columns {
            match panel.figure(c, *column) {
                Figure::Relative(ratio) if ratio > 0.0 => {
                    let time = panel.run(c, *column).map_or(String::new(), |r| r.time.to_string());
                    let tip = format!("{name}\n{}: {ratio:.2}x, {time}", column.placement);
                    dots.push(Dot { x: axis.scale.at(ratio), tip, kind: kind(column) });
                }
                Figure::Time(_) | Figure::Relative(_) => {}
                none => failed.push(format!("{}: {none}", column.placement)),
            }
        }
        if let none @ (Figure::Failed(_) | Figure::NotRun) = figure(c, c.whole(BASE)) {
            failed.insert(0, format!("{BASE}: {none}"));
        }
        lines.push((name, dots, failed));
    }
    let (of, means) = panel.means();
    let mut dots = Vec::new();
    for (column, mean) in panel.columns.iter().zip(means) {
        if let Some(mean) = mean {
            let tip = format!("{}\n{}: {mean:.2}x", panel.mean_name(of), column.placement);
            dots.push(Dot { x: axis.scale.at(mean), tip, kind: kind(column) });
        }
    }
    lines.push((panel.mean_name(of), dots, Vec::new()));

    let (mut marks, mut stripes, mut y) = (String::new(), String::new(), top);
    let last = lines.len() - 1;
    for (n, (name, dots, failed)) in lines.into_iter().enumerate() {
        let (row, height) = row(&name, dots, &failed, y, n == last);
        if n % 2 == 0 {
            stripes += &format!(
                "<rect class=\"stripe\" x=\"8\" y=\"{y:.1}\" width=\"{}\" height=\"{height:.1}\"/>\n",
                WIDTH - 16.0
            );
        }
        if n == last {
            stripes += &format!("<path class=\"axis\" d=\"M8 {y:.1}H{}\"/>\n", WIDTH - 8.0);
        }
        marks += &row;
        y += height;
    }
    let mut grid = String::new();
    for tick in &axis.ticks {
        let at = axis.scale.at(*tick);
        let class = if *tick == 1.0 { "ref" } else { "grid" };
        grid += &format!(
            "<path class=\"{class}\" d=\"M{at:.1} {top:.1}V{y:.1}\"/><text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}x</text>\n",
            y + 16.0,
            (tick * 1e4).round() / 1e4
        );
    }
    (format!("{stripes}{grid}{marks}"), y + 24.0 - top)
}

/// A program's name, its marks in lanes, and what failed.
fn row(name: &str, mut dots: Vec<Dot>, failed: &[String], top: f64, bold: bool) -> (String, f64) {
    dots.sort_by(|a, b| a.x.total_cmp(&b.x));
    let (bars, dots): (Vec<Dot>, Vec<Dot>) = dots.into_iter().partition(|d| d.kind == Kind::Bar);
    // Each in the first lane whose last mark is far enough.
    let mut lanes: Vec<f64> = Vec::new();
    let mut places: Vec<usize> = Vec::new();
    for dot in &dots {
        let free = lanes.iter().position(|last| dot.x - last >= NEAR).unwrap_or(lanes.len());
        match lanes.get_mut(free) {
            Some(last) => *last = dot.x,
            None => lanes.push(dot.x),
        }
        places.push(free);
    }
    // The first lane in the middle, the others above and below it by turns.
    let above = lanes.len() / 2;
    let height = lanes.len().max(failed.len()).max(1) as f64 * LANE + 13.0;
    let middle = top + 6.5 + (above as f64 + 0.5) * LANE + (height - 13.0 - lanes.len().max(1) as f64 * LANE) / 2.0;
    let lane = |n: usize| middle + n.div_ceil(2) as f64 * LANE * if n % 2 == 1 { -1.0 } else { 1.0 };
    let mut out = format!(
        "<text class=\"site{}\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n",
        if bold { " bold" } else { "" },
        PLOT.0 - 12.0,
        middle + 4.0,
        text(&shortened(name, 27))
    );
    let ends = || bars.iter().chain(&dots).map(|d| d.x);
    if !(bars.is_empty() && dots.is_empty()) {
        let (from, to) = (ends().fold(f64::INFINITY, f64::min), ends().fold(0.0, f64::max));
        out += &format!("<path class=\"range\" d=\"M{from:.1} {middle:.1}H{to:.1}\"/>\n");
    }
    for bar in &bars {
        out += &mark(bar.kind, (bar.x, middle), &bar.tip);
    }
    for (dot, place) in dots.iter().zip(places) {
        out += &mark(dot.kind, (dot.x, lane(place)), &dot.tip);
    }
    let start = top + height / 2.0 - (failed.len() as f64 - 1.0) / 2.0 * LANE;
    for (n, failure) in failed.iter().enumerate() {
        out += &format!(
            "<text class=\"tick\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
            PLOT.1 + 14.0,
            start + n as f64 * LANE + 4.0,
            text(&shortened(failure, 28))
        );
    }
    (out, height)
}
