//! Every site as a row, sortable by every column; the hottest with their call stacks.

use super::Labels;
use super::data::{function, touches};
use super::{strips, svg::text};
use crate::table::{hottest_first, short_id};
use crate::words;
use model::units::significant;
use model::{Observed, SiteUse, Touch};

/// Sites with their call stack in the page as text; the script adds that of any other when it is asked for.
const STACKS: usize = 200;
/// Functions named for each site.
const FUNCTIONS: usize = 8;
/// Rows shown before the reader asks for all.
const ROWS: usize = 15;

const HEADINGS: [&str; 10] = [
    "site",
    "~share",
    "~load misses",
    "~store misses",
    "~misses/byte",
    "~pattern",
    "peak",
    "resident",
    "objects",
    "lifetime",
];

/// The table with its filter.
pub fn section(observed: &Observed, labels: &Labels) -> String {
    let sites = hottest_first(observed);
    let total = observed.total_misses();
    let touched = touches(observed);
    let mut out = format!(
        "<section>\n<h2>Sites</h2>\n<p class=\"tools\" hidden><input type=\"search\" placeholder=\"Filter by name, function or file\" aria-label=\"Filter sites\"> <span class=\"count\"></span> <button type=\"button\" class=\"all\">Show all {}</button></p>\n",
        sites.len()
    );
    out += &format!("<div class=\"wide\"><table id=\"sites\" data-rows=\"{ROWS}\">\n<thead><tr>");
    for heading in HEADINGS {
        let sorted = if heading == "~share" { " aria-sort=\"descending\"" } else { "" };
        out += &format!("<th scope=\"col\"{sorted}><button type=\"button\">{heading}</button></th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for (n, site) in sites.iter().enumerate() {
        let touched = touched.get(&site.site.id).map_or(&[][..], Vec::as_slice);
        out += &row(site, &labels[&site.site.id], total, n, touched);
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}

fn row(site: &SiteUse, label: &str, total: f64, n: usize, touched: &[&Touch]) -> String {
    let id = site.site.id;
    let name = format!(
        "<span title=\"{}\">{}</span> <code>{}</code>",
        text(label),
        text(&words::brief(label)),
        short_id(site)
    );
    let inside = if n < STACKS { strips::strips(site) + &stack(site) + &functions(touched) } else { String::new() };
    let name = format!("<details data-site=\"{n}\"><summary>{name}</summary>{inside}</details>");
    let sampled = site.samples > 0 || site.misses() > 0.0;
    let share = words::share(site.misses(), total);
    // Sorted by the exact value, shown in few digits.
    let estimates = [
        (share, words::percent(share)),
        (site.load_misses, words::count(site.load_misses)),
        (site.store_misses, words::count(site.store_misses)),
        (site.misses_per_byte(), significant(site.misses_per_byte())),
    ];
    let figure = |value: f64, shown: String| format!("<td data-v=\"{value}\">{}</td>", text(&shown));
    let mut out = format!("<tr id=\"s{id}\"><td>{name}</td>");
    for (value, shown) in estimates {
        out += &figure(value, if sampled { shown } else { "–".to_string() });
    }
    out += &format!("<td>{}</td>", text(&words::pattern(site.pattern)));
    out += &figure(site.peak.0 as f64, site.peak.to_string());
    out += &figure(
        site.resident.map_or(-1.0, |r| r.0 as f64),
        site.resident.map_or_else(|| "–".to_string(), |r| r.to_string()),
    );
    out += &figure(site.objects as f64, words::count(site.objects as f64));
    out += &figure(site.mean_lifetime.0 as f64, site.mean_lifetime.to_string());
    out + "</tr>\n"
}

/// The call stack, innermost first, in binary and source form.
fn stack(site: &SiteUse) -> String {
    let mut out = String::from("<ol>");
    for frame in &site.site.frames {
        out += &format!("<li><code>{}</code>", text(&frame.place()));
        for line in &frame.source {
            out += &format!("<br>{}", text(&line.to_string()));
        }
        out += "</li>";
    }
    out + "</ol>"
}

/// The functions that touch the site, with the mean latency of their loads where it was measured.
fn functions(touched: &[&Touch]) -> String {
    if touched.is_empty() {
        return String::new();
    }
    let samples = |t: &Touch| (t.loads + t.stores) as f64;
    let all: f64 = touched.iter().map(|t| samples(t)).sum();
    let mut out = String::from("<p>Touched by</p><ul>");
    for touch in touched.iter().take(FUNCTIONS) {
        let latency = touch.latency.map_or(String::new(), |ns| format!(", loads take {}", words::latency(ns)));
        let share = words::percent(words::share(samples(touch), all));
        out += &format!("<li>{}: {}{latency}</li>", text(function(touch)), text(&share));
    }
    out + "</ul>"
}
