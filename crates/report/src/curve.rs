//! How much fast memory does the program need? Predicted slowdown over the capacity of fast memory, in the terminal and on a page.

use crate::html::svg::{Scale, round_ticks, text};
use crate::html::{Sheet, sheet, tiles};
use crate::table::wrap;
use crate::words;
use model::forecast::{Curve, CurvePoint};

/// Columns of the longest bar.
const BAR: usize = 60;
const WIDTH: f64 = 960.0;
const PLOT: (f64, f64) = (70.0, 930.0);
const TALL: (f64, f64) = (20.0, 380.0);

fn about(c: &Curve) -> String {
    format!(
        "on {}, decided by {} at each capacity; 100 % is {}, all fast is {}",
        c.platform, c.policy, c.peak, c.all_fast
    )
}

/// The knees in words.
fn knees(c: &Curve) -> String {
    let knees: Vec<String> = c
        .points
        .iter()
        .filter(|p| p.knee)
        .map(|p| format!("{:.0} % ({}) at {:.2}x", p.share * 100.0, p.fast, p.slowdown))
        .collect();
    match knees.is_empty() {
        true => {
            "no knee: every part of fast memory gains about as much as the one before, or none anything".to_string()
        }
        false => format!("knees: {}; beyond each, more fast memory gains much less", knees.join(", ")),
    }
}

/// For a terminal of `width` columns.
pub fn curve(c: &Curve, width: usize) -> String {
    let mut out = wrap(&words::printable(&words::command(&c.command)), width);
    out += &wrap(&words::printable(&about(c)), width);
    out += "\n  fast memory        ~slowdown\n";
    let most = c.points.iter().map(|p| p.slowdown).fold(1.0, f64::max);
    let room = width.saturating_sub(36).clamp(8, BAR) as f64;
    for p in &c.points {
        let bar = "█".repeat((p.slowdown / most * room).round().max(1.0) as usize);
        let knee = if p.knee { " < knee" } else { "" };
        out += &format!("  {:>4.0} %  {:>9}  {:>6.2}x  {bar}{knee}\n", p.share * 100.0, p.fast.to_string(), p.slowdown);
    }
    out.push('\n');
    out += &wrap(&knees(c), width);
    out += &wrap(
        "~: predicted by the cost model (docs/planner.md), not measured; time over that with everything fast",
        width,
    );
    for note in &c.notes {
        out += &wrap(&words::printable(&format!("note: {note}")), width);
    }
    out
}

/// The page.
pub fn curve_page(c: &Curve) -> String {
    let head = tiles(&[
        ("platform", c.platform.clone(), String::new()),
        ("policy", c.policy.clone(), "decides at each capacity".to_string()),
        ("peak", c.peak.to_string(), "alive at one moment".to_string()),
        ("all fast", c.all_fast.to_string(), "predicted".to_string()),
    ]);
    let rows: String = c.points.iter().map(row).collect();
    let main = format!(
        "<section>\n<h2>Predicted slowdown over fast memory</h2>\n<p>{}. Lower is better; rings mark knees.</p>\n{}</section>\n<section>\n<h2>Figures</h2>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr><th scope=\"col\">share of the peak</th><th scope=\"col\">fast memory</th><th scope=\"col\">slowdown</th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n</section>\n",
        text(&knees(c)),
        picture(c)
    );
    let mut about = vec!["Predicted by the cost model (docs/planner.md) from the profile, not measured.".to_string()];
    about.extend(c.notes.clone());
    sheet(&Sheet { kicker: "Hearth: how much fast memory", title: &words::command(&c.command), head, main, about })
}

fn row(p: &CurvePoint) -> String {
    let knee = if p.knee { " class=\"best\"" } else { "" };
    format!("<tr><td>{:.0} %</td><td>{}</td><td{knee}>{:.2}x</td></tr>\n", p.share * 100.0, p.fast, p.slowdown)
}

fn picture(c: &Curve) -> String {
    let most = c.points.iter().map(|p| p.slowdown).fold(1.1, f64::max);
    let x = Scale::linear((0.0, 1.0), PLOT);
    let y =
        Scale::linear((1.0f64.min(c.points.iter().map(|p| p.slowdown).fold(1.0, f64::min)), most), (TALL.1, TALL.0));
    let mut body = String::new();
    for tick in round_ticks(most, 6).into_iter().filter(|t| *t >= 1.0) {
        let at = y.at(tick);
        body += &format!(
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}x</text>\n",
            PLOT.0,
            PLOT.1,
            PLOT.0 - 8.0,
            at + 4.0
        );
    }
    for percent in (0..=100).step_by(10) {
        body += &format!(
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{percent} %</text>\n",
            x.at(f64::from(percent) / 100.0),
            TALL.1 + 20.0
        );
    }
    let at = |p: &CurvePoint| (x.at(p.share), y.at(p.slowdown));
    let line: Vec<String> = c.points.iter().map(at).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    body += &format!(
        "<g class=\"p0\"><path d=\"M{}\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/></g>\n",
        line.join("L")
    );
    for p in &c.points {
        let (x, y) = at(p);
        let tip = format!(
            "{:.0} % ({}): {:.2}x{}",
            p.share * 100.0,
            p.fast,
            p.slowdown,
            if p.knee { ", a knee" } else { "" }
        );
        body += &format!(
            "<g class=\"p0\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"currentColor\"><title>{}</title></circle></g>\n",
            text(&tip)
        );
        if p.knee {
            body += &format!(
                "<g class=\"p1\"><circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"2\"/></g>\n"
            );
        }
    }
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"Predicted slowdown over fast memory\">\n{body}</svg>\n",
        TALL.1 + 32.0
    )
}
