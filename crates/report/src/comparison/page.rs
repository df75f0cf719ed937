//! The page of one comparison: the picture, the table behind it, every figure of every run, and the emulated machine.

use super::{
    BASE, Figure, about, accuracy_section, base, capacity, fastest, figure, header, lines, notes, predicted, spread,
};
use crate::html::svg::text;
use crate::html::{Sheet, sheet};
use crate::words;
use model::comparison::{Comparison, PlacementRun};

/// The whole page.
pub fn comparison_page(c: &Comparison) -> String {
    let mut head = tiles(c);
    if base(c).is_none() {
        head += &header(c).last().map_or(String::new(), |s| format!("<p class=\"lead\">{}.</p>\n", text(s)));
    }
    let main = format!(
        "<section>\n<h2>Guest time over fast memory</h2>\n<p>Lower is better. Dashed: all memory fast, all memory slow.</p>\n{}</section>\n{}{}<section>\n<h2>The emulated machine</h2>\n<p>The real machine, and what the lab scaled it to, so that its few processors feel the pressure of the full machine.</p>\n<div class=\"wide\"><pre>{}</pre></div>\n</section>\n",
        lines::svg(c),
        overview(c),
        runs(c) + &accuracy_section(std::slice::from_ref(c)),
        c.scale.lines().map(text).collect::<Vec<_>>().join("\n"),
    );
    let mut about = about(std::slice::from_ref(c));
    about.extend(notes(c).into_iter().map(|(who, note)| format!("{who}: {note}")));
    sheet(&Sheet { kicker: "Hearth lab: placements compared", title: &words::command(&c.command), head, main, about })
}

/// The figures to take away.
fn tiles(c: &Comparison) -> String {
    let mut tiles = vec![
        ("platform", c.platform.clone(), c.tiers.join(", ")),
        ("vCPUs", c.vcpus.to_string(), String::new()),
        ("footprint", c.footprint.to_string(), "at most at one moment".to_string()),
    ];
    for end in super::ENDS {
        let run = c.whole(end);
        let shown = figure(c, run);
        tiles.push(match (run, shown) {
            (Some(run), Figure::Relative(_)) if end == BASE => (end, run.time.to_string(), "of guest time".to_string()),
            (Some(run), Figure::Relative(_)) => (end, shown.to_string(), run.time.to_string()),
            _ => (end, shown.to_string(), String::new()),
        });
    }
    crate::html::tiles(&tiles)
}

/// Placements by capacities.
fn overview(c: &Comparison) -> String {
    let capacities = c.capacities();
    if capacities.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<section>\n<h2>At a glance</h2>\n<p>Guest time by fast memory in % of the footprint; the fastest of each column is bold.</p>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr><th scope=\"col\">placement</th>",
    );
    for percent in &capacities {
        out += &format!("<th scope=\"col\">{}</th>", capacity(*percent));
    }
    out += "</tr></thead>\n<tbody>\n";
    for placement in c.placements() {
        out += &format!("<tr><td>{}</td>", text(placement));
        for percent in &capacities {
            out += &time(c, c.at(placement, *percent), Some(*percent));
        }
        out += "</tr>\n";
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}

/// The cell of a run's time, bold if no other at this capacity is faster.
fn time(c: &Comparison, run: Option<&PlacementRun>, percent: Option<f64>) -> String {
    let shown = figure(c, run);
    let best = percent.and_then(|p| fastest(c, p)).is_some_and(|f| f == shown.to_string());
    let class = match shown {
        Figure::Failed(_) | Figure::NotRun => " class=\"none\"",
        _ if best => " class=\"best\"",
        _ => "",
    };
    format!("<td{class}>{shown}</td>")
}

/// Every run with every figure, then the runs that a complete comparison would have.
fn runs(c: &Comparison) -> String {
    let mut out =
        String::from("<section>\n<h2>All runs</h2>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr>");
    for heading in [
        "placement",
        "fast memory",
        "free at start",
        "relative",
        "predicted",
        "guest time",
        "resident fast",
        "served fast",
        "lines",
        "migrated",
    ] {
        out += &format!("<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for run in &c.runs {
        out += &format!(
            "<tr><td>{}</td><td>{}</td><td>{}</td>",
            text(&run.placement),
            run.fast_percent.map_or("–".into(), capacity),
            run.fast.map_or("–".into(), |b| b.to_string()),
        );
        if let Figure::Failed(code) = figure(c, Some(run)) {
            out += &format!("<td class=\"none\" colspan=\"7\">exit {code} after {}</td></tr>\n", run.time);
            continue;
        }
        out += &format!(
            "{}<td>{}</td><td>{}{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            time(c, Some(run), run.fast_percent),
            predicted(run).unwrap_or("–".into()),
            run.time,
            spread(c, run).map_or_else(String::new, |(low, high)| format!(" ({low} to {high})")),
            words::percent(run.resident_fast),
            words::percent(run.served_fast),
            words::count(run.lines as f64),
            run.migrated,
        );
    }
    for placement in c.placements() {
        for percent in c.capacities().into_iter().filter(|p| c.at(placement, *p).is_none()) {
            out += &format!(
                "<tr><td>{}</td><td>{}</td><td class=\"none\" colspan=\"8\">not run</td></tr>\n",
                text(placement),
                capacity(percent)
            );
        }
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}
