//! The picture of one comparison: guest time over fast memory, a line for each placement, and across it a dashed line
//! for each placement that no capacity changes.

use super::{BASE, Figure, base, capacity, figure, machine, name, spread, wholes};
use crate::html::marks::{Kind, class, legend, mark, standalone};
use crate::html::svg::{Scale, round_ticks, shortened, text};
use crate::words;
use model::comparison::{Comparison, PlacementRun};

const WIDTH: f64 = 960.0;
/// Left and right of the plot; names of the lines stand right of it.
const PLOT: (f64, f64) = (70.0, 756.0);
/// Height of the plot.
const TALL: f64 = 360.0;
/// Names at the lines' ends are at least this far apart.
const APART: f64 = 16.0;
/// Marks this near to each other cover each other.
const NEAR: f64 = 9.0;

/// The picture alone, on white, as a file of its own.
pub fn comparison_svg(c: &Comparison) -> String {
    let (body, height) = picture(c);
    let about = format!("{}; footprint {}; simulated guest time relative to {BASE}", machine(c), c.footprint);
    standalone(&words::command(&c.command), &about, &body, WIDTH, height)
}

/// The picture for a page.
pub(super) fn svg(c: &Comparison) -> String {
    let (body, height) = picture(c);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Guest time relative to {BASE} over fast memory\">\n{body}</svg>\n"
    )
}

/// Elements of the picture, and its height.
fn picture(c: &Comparison) -> (String, f64) {
    let capacities = c.capacities();
    if base(c).is_none() || capacities.is_empty() {
        let why = if capacities.is_empty() {
            "No placement was run with limited fast memory, so there is nothing to draw.".to_string()
        } else {
            format!("Without a successful {BASE} run there is nothing to draw times against.")
        };
        return (format!("<text class=\"site\" x=\"16\" y=\"24\">{why}</text>\n"), 48.0);
    }
    let placements = c.placements();
    let entries: Vec<(Kind, &str)> = placements.iter().enumerate().map(|(n, p)| (Kind::Series(n), *p)).collect();
    let (mut body, top) = legend(&entries, (PLOT.0, WIDTH - 16.0), 4.0);
    let top = top + 22.0;
    let bottom = top + TALL;
    let x = Scale::linear((0.0, *capacities.last().unwrap_or(&100.0)), (PLOT.0, PLOT.1));
    let range = range(c);
    let y = Scale::linear(range, (bottom, top));
    let failed = c.runs.iter().any(|r| r.fast_percent.is_some() && r.code != 0);
    // Runs without a time stand below the axis of the others.
    let below = bottom + 22.0;
    let foot = if failed { below + 12.0 } else { bottom };

    body += &axes(&capacities, x, y, range, (top, bottom, foot));
    if failed {
        body += &format!(
            "<text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">failed</text>\n",
            PLOT.0 - 8.0,
            below + 4.0
        );
    }
    for run in wholes(c) {
        if let Some(relative) = figure(c, Some(run)).relative() {
            body += &reference(run, relative, y.at(relative));
        }
    }
    let columns: Vec<Vec<Option<Point>>> = capacities.iter().map(|p| column(c, *p, x, y, below)).collect();
    let (mut ends, mut lines, mut points) = (Vec::new(), String::new(), String::new());
    for series in 0..placements.len() {
        // A run that failed or is missing breaks the line: nothing is known there.
        let (mut pen, mut path, mut end) = ("M", String::new(), None);
        for point in columns.iter().map(|column| column[series].as_ref()) {
            if let Some(point) = point {
                if let Some((low, high)) = spread(c, point.run).and_then(|s| Some((s.0.relative()?, s.1.relative()?))) {
                    let (x, low, high) = (point.at.0, y.at(low), y.at(high));
                    points += &format!("<path class=\"leader {}\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>\n", class(series));
                }
                points += &mark(Kind::Series(series), point.at, &tip(point.run, point.figure));
            }
            match point.filter(|p| p.figure.relative().is_some()) {
                Some(point) => {
                    path += &format!("{pen}{:.1} {:.1}", point.at.0, point.at.1);
                    (pen, end) = ("L", Some((point.at, series)));
                }
                None => pen = "M",
            }
        }
        if !path.is_empty() {
            lines += &format!("<path class=\"line {}\" d=\"{path}\"/>\n", class(series));
        }
        ends.extend(end);
    }
    body += &names(ends, &placements, (top, bottom));
    body += &lines;
    body += &points;
    (body, foot + 48.0)
}

/// Where a run is drawn.
struct Point<'a> {
    run: &'a PlacementRun,
    figure: Figure,
    at: (f64, f64),
}

/// The runs at one capacity, a place for each placement; those that would cover each other are moved apart sideways.
fn column(c: &Comparison, percent: f64, x: Scale, y: Scale, below: f64) -> Vec<Option<Point<'_>>> {
    let point = |placement: &str| {
        let run = c.at(placement, percent)?;
        let figure = figure(c, Some(run));
        Some(Point { run, figure, at: (x.at(percent), figure.relative().map_or(below, |r| y.at(r))) })
    };
    let mut points: Vec<Option<Point>> = c.placements().into_iter().map(point).collect();
    let mut by_height: Vec<&mut Point> = points.iter_mut().flatten().collect();
    // The lowest to the left: lines fall, so this moves them apart as well.
    by_height.sort_by(|a, b| b.at.1.total_cmp(&a.at.1));
    for heap in by_height.chunk_by_mut(|a, b| a.at.1 - b.at.1 < NEAR) {
        let middle = (heap.len() as f64 - 1.0) / 2.0;
        for (n, point) in heap.iter_mut().enumerate() {
            point.at.0 += (n as f64 - middle) * NEAR;
        }
    }
    points
}

/// Least and most of the y axis: all times, and never so little that noise looks like a difference.
fn range(c: &Comparison) -> (f64, f64) {
    let most = |r: &PlacementRun| spread(c, r).and_then(|s| s.1.relative());
    let least = |r: &PlacementRun| spread(c, r).and_then(|s| s.0.relative());
    let of = |f: &dyn Fn(&PlacementRun) -> Option<f64>| -> Vec<f64> {
        c.runs.iter().filter_map(|r| f(r).or_else(|| figure(c, Some(r)).relative())).collect()
    };
    let (low, high) = (of(&least).into_iter().fold(1.0, f64::min), of(&most).into_iter().fold(1.0, f64::max));
    let high = high.max(low + 0.2);
    let air = (high - low) * 0.06;
    ((low - air).max(0.0), high + air)
}

fn axes(
    capacities: &[f64],
    x: Scale,
    y: Scale,
    (low, high): (f64, f64),
    (top, bottom, foot): (f64, f64, f64),
) -> String {
    let mut out = String::new();
    let step = round_ticks(high - low, 6).get(1).copied().unwrap_or(1.0);
    let digits = if step >= 1.0 {
        0
    } else if step >= 0.1 {
        1
    } else {
        2
    };
    for n in (low / step).ceil() as u64..=(high / step).floor() as u64 {
        let (value, at) = (n as f64 * step, y.at(n as f64 * step));
        out += &format!(
            "<path class=\"grid\" d=\"M{} {at:.1}H{}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.digits$}x</text>\n",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            at + 4.0
        );
    }
    let mut free = f64::NEG_INFINITY;
    for percent in std::iter::once(&0.0).chain(capacities) {
        let (at, label) = (x.at(*percent), capacity(*percent));
        out += &format!("<path class=\"grid\" d=\"M{at:.1} {top}V{foot}\"/>");
        // Capacities that lie too close keep their line and lose their figure.
        if at - 16.0 > free {
            out += &format!(
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>\n",
                foot + 18.0
            );
            free = at + 16.0;
        }
    }
    out += &format!("<path class=\"axis\" d=\"M{} {bottom}H{}\"/>\n", PLOT.0, PLOT.1);
    out += &format!(
        "<text class=\"name\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">fast memory, in % of the footprint</text>\n",
        (PLOT.0 + PLOT.1) / 2.0,
        foot + 38.0
    );
    out += &format!(
        "<text class=\"name\" transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">guest time relative to {BASE}</text>\n",
        (top + bottom) / 2.0
    );
    out
}

/// A dashed line across, named where the lines of the placements do not reach.
fn reference(run: &PlacementRun, relative: f64, at: f64) -> String {
    let shown = if run.placement == BASE {
        format!("{BASE}: {}", run.time)
    } else {
        format!("{}: {relative:.2}x", run.placement)
    };
    format!(
        "<path class=\"ref\" d=\"M{} {at:.1}H{}\"/><text class=\"site\" x=\"{}\" y=\"{:.1}\">{}</text>\n",
        PLOT.0,
        PLOT.1,
        PLOT.0 + 6.0,
        at - 5.0,
        text(&shortened(&shown, 40))
    )
}

fn tip(run: &PlacementRun, figure: Figure) -> String {
    format!(
        "{}: {figure}\n{}\nresident fast {}, lines served fast {}, migrated {}",
        name(run),
        run.time,
        words::percent(run.resident_fast),
        words::percent(run.served_fast),
        run.migrated
    )
}

/// Names beside the ends of the lines, as near to them as they can be without covering each other, joined by a thin line.
fn names(mut ends: Vec<((f64, f64), usize)>, placements: &[&str], (top, bottom): (f64, f64)) -> String {
    ends.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let wanted: Vec<f64> = ends.iter().map(|e| e.0.1).collect();
    let mut out = String::new();
    for (((x, y), series), place) in ends.iter().zip(apart(&wanted, (top, bottom))) {
        out += &format!(
            "<path class=\"leader\" d=\"M{x:.1} {y:.1}H{:.1}L{:.1} {place:.1}H{:.1}\"/>{}<text class=\"site\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\n",
            x.max(PLOT.1) + 8.0,
            PLOT.1 + 38.0,
            PLOT.1 + 42.0,
            mark(Kind::Series(*series), (PLOT.1 + 50.0, place), ""),
            PLOT.1 + 61.0,
            place + 4.0,
            text(&shortened(placements[*series], 20))
        );
    }
    out
}

/// Places near the wanted ones, which ascend, and [`APART`] from each other: heaps of names are centred on their ends.
fn apart(wanted: &[f64], (top, bottom): (f64, f64)) -> Vec<f64> {
    // With the distances taken out, names only have to keep their order: merge those that do not, at their mean
    // (pool adjacent violators, Barlow et al., "Statistical Inference under Order Restrictions", 1972).
    let mut heaps: Vec<(f64, usize)> = Vec::new();
    for (n, y) in wanted.iter().enumerate() {
        let mut heap = (y - n as f64 * APART, 1);
        while let Some((mean, count)) = heaps.last().copied().filter(|before| before.0 > heap.0) {
            heaps.pop();
            let both = count + heap.1;
            heap = ((mean * count as f64 + heap.0 * heap.1 as f64) / both as f64, both);
        }
        heaps.push(heap);
    }
    let most = bottom - wanted.len().saturating_sub(1) as f64 * APART;
    let bases = heaps.into_iter().flat_map(|(mean, count)| std::iter::repeat_n(mean.min(most).max(top), count));
    bases.enumerate().map(|(n, base)| base + n as f64 * APART).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_apart_and_near_their_lines() {
        assert_eq!(apart(&[10.0, 100.0, 104.0, 300.0], (0.0, 310.0)), [10.0, 94.0, 110.0, 300.0]);
        assert_eq!(apart(&[300.0, 301.0, 302.0], (0.0, 310.0)), [278.0, 294.0, 310.0]);
        assert_eq!(apart(&[1.0, 1.0], (0.0, 310.0)), [0.0, 16.0]);
        assert!(apart(&[], (0.0, 310.0)).is_empty());
    }
}
