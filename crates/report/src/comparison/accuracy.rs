//! How right the planner was: the times that it predicted against those that were measured, as a sentence and a picture.

use super::{base, name};
use crate::html::svg::{Scale, text};
use crate::words;
use model::comparison::Comparison;

/// Placements whose measured times differ by more than this have an order that can be right or wrong.
const DIFFER: f64 = 0.05;
const WIDTH: f64 = 640.0;
const PLOT: (f64, f64) = (60.0, 610.0);
const TALL: (f64, f64) = (16.0, 446.0);

/// One run, both times relative to all-fast.
struct Point {
    predicted: f64,
    measured: f64,
    what: String,
}

fn points(c: &Comparison) -> impl Iterator<Item = Point> + '_ {
    base(c).into_iter().flat_map(|_| &c.runs).filter(|r| r.code == 0).filter_map(|r| {
        let what = format!("{} on {}, {}", words::command(&c.command), c.platform, name(r));
        Some(Point { predicted: r.predicted?, measured: c.relative(r)?, what })
    })
}

/// Pairs of placements of one program with an order, and those of them that were predicted in it. All-fast is one of the placements.
fn pairs(c: &Comparison) -> (usize, usize) {
    let mut all: Vec<(f64, f64)> = points(c).map(|p| (p.predicted, p.measured)).collect();
    all.push((1.0, 1.0));
    let (mut right, mut of) = (0, 0);
    for (i, a) in all.iter().enumerate() {
        for b in all[..i].iter().filter(|b| (a.1 / b.1).max(b.1 / a.1) > 1.0 + DIFFER) {
            of += 1;
            right += usize::from((a.0 - b.0) * (a.1 - b.1) > 0.0);
        }
    }
    (right, of)
}

/// In one sentence, if anything was predicted.
pub(crate) fn accuracy(all: &[Comparison]) -> Option<String> {
    let mut errors: Vec<f64> =
        all.iter().flat_map(points).map(|p| 100.0 * (p.predicted / p.measured - 1.0).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share).round() as usize];
    let (right, of) = all.iter().map(pairs).fold((0, 0), |(r, o), (right, of)| (r + right, o + of));
    (!errors.is_empty()).then(|| {
        format!(
            "The planner's cost model predicted {} of these times from profiles: median error {:.0} %, 90th percentile {:.0} %; of {of} pairs of placements of a program whose times differ by more than 5 % the order is right in {right}.",
            errors.len(),
            at(0.5),
            at(0.9)
        )
    })
}

/// Predicted over measured time, for a page; empty if nothing was predicted.
pub(crate) fn section(all: &[Comparison]) -> String {
    let Some(sentence) = accuracy(all) else { return String::new() };
    let points: Vec<Point> = all.iter().flat_map(points).collect();
    let most = points.iter().map(|p| p.predicted.max(p.measured)).fold(1.5, f64::max) * 1.1;
    let least = points.iter().map(|p| p.predicted.min(p.measured)).fold(1.0, f64::min) / 1.1;
    let (x, y) = (Scale::log((least, most), PLOT), Scale::log((least, most), (TALL.1, TALL.0)));
    let mut body = String::new();
    for tick in [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0].into_iter().filter(|t| (least..=most).contains(t))
    {
        let (across, up) = (x.at(tick), y.at(tick));
        body += &format!(
            "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{up:.1}\" y2=\"{up:.1}\"/><text class=\"tick\" x=\"{2}\" y=\"{3:.1}\" text-anchor=\"end\">{tick}x</text><text class=\"tick\" x=\"{across:.1}\" y=\"{4}\" text-anchor=\"middle\">{tick}x</text>\n",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            up + 4.0,
            TALL.1 + 18.0
        );
    }
    // Right, and a fifth too much or too little.
    for (factor, class) in [(1.0, "axis"), (1.2, "ref"), (1.0 / 1.2, "ref")] {
        let (from, to) = (least.max(least / factor), most.min(most / factor));
        body += &format!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>\n",
            x.at(from),
            y.at(from * factor),
            x.at(to),
            y.at(to * factor)
        );
    }
    for p in &points {
        let tip = format!("{}: predicted {:.2}x, measured {:.2}x", p.what, p.predicted, p.measured);
        body += &format!(
            "<g class=\"p0\"><circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"currentColor\" fill-opacity=\"0.7\"><title>{}</title></circle></g>\n",
            x.at(p.measured),
            y.at(p.predicted),
            text(&tip)
        );
    }
    format!(
        "<section>\n<h2>Predicted against measured</h2>\n<p>{}</p>\n<p>Measured time to the right, predicted time upwards, both relative to all-fast; dashed: a fifth too much, and too little.</p>\n<svg viewBox=\"0 0 {WIDTH} {}\" style=\"max-width:{WIDTH}px\" role=\"img\" aria-label=\"Predicted over measured time\">\n{body}</svg>\n</section>\n",
        text(&sentence),
        TALL.1 + 30.0
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, Nanos, PlacementRun};

    fn compared(times: &[(&str, u64, Option<f64>)]) -> Comparison {
        let run = |&(placement, time, predicted): &(&str, u64, Option<f64>)| PlacementRun {
            placement: placement.to_string(),
            fast_percent: placement.starts_with("plan").then_some(25.0),
            fast: None,
            time: Nanos(time),
            times: Vec::new(),
            predicted,
            code: 0,
            resident_fast: 0.0,
            served_fast: 0.0,
            lines: 0,
            migrated: Bytes(0),
            notes: Vec::new(),
        };
        Comparison {
            command: vec!["app".to_string()],
            platform: "a".to_string(),
            vcpus: 1,
            tiers: Vec::new(),
            scale: String::new(),
            footprint: Bytes(1),
            runs: times.iter().map(run).collect(),
        }
    }

    #[test]
    fn errors_and_orders_are_counted_by_program() {
        let one = [("all-fast", 100, None), ("all-slow", 400, Some(3.0)), ("plan a", 200, Some(2.2))];
        // Predicted the wrong way round, but by too little to have an order: 2 and 2.04.
        let two = [("all-fast", 100, None), ("plan a", 200, Some(2.0)), ("plan b", 204, Some(1.9))];
        let said = accuracy(&[compared(&one), compared(&two)]).expect("something was predicted");
        let expected = "The planner's cost model predicted 4 of these times from profiles: median error 10 %, 90th percentile 25 %; of 5 pairs of placements of a program whose times differ by more than 5 % the order is right in 5.";
        assert_eq!(said, expected);
        let wrong = [("all-fast", 100, None), ("all-slow", 400, Some(0.9)), ("plan a", 300, Some(2.0))];
        assert!(accuracy(&[compared(&wrong)]).expect("predicted").ends_with(
            "of 3 pairs of placements of a program whose times differ by more than 5 % the order is right in 1."
        ));
        assert_eq!(accuracy(&[compared(&[("all-fast", 100, None), ("kernel", 200, None)])]), None);
        let page = section(&[compared(&one)]);
        assert_eq!(page.matches("<circle").count(), 2);
        assert!(page.contains("app on a, plan a at 25%: predicted 2.20x, measured 2.00x"), "{page}");
    }
}
