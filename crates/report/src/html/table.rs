//! Every site as a row, sortable by every column; the hottest with their call stacks.

use super::Labels;
use super::svg::text;
use crate::table::{hottest_first, short_id};
use crate::words;
use model::units::significant;
use model::{Observed, SiteUse};

/// Sites with their call stack on the page; more would make the page of a large program slow to open.
const STACKS: usize = 200;
/// Rows shown before the reader asks for all.
const ROWS: usize = 25;

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
    let mut out = format!(
        "<section>\n<h2>Sites</h2>\n<p class=\"tools\" hidden><input type=\"search\" id=\"filter\" placeholder=\"Filter by name\" aria-label=\"Filter by name\"> <span id=\"count\"></span> <button type=\"button\" id=\"all\">Show all {}</button></p>\n",
        sites.len()
    );
    out += &format!("<div class=\"wide\"><table id=\"sites\" data-rows=\"{ROWS}\">\n<thead><tr>");
    for heading in HEADINGS {
        out += &format!("<th scope=\"col\"><button type=\"button\">{heading}</button></th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for (n, site) in sites.iter().enumerate() {
        out += &row(site, &labels[&site.site.id], total, n < STACKS);
    }
    out += "</tbody>\n</table></div>\n";
    if sites.len() > STACKS {
        out += &format!(
            "<p>Call stacks are given for the {STACKS} hottest sites; `hearth report --site ID` shows any other.</p>\n"
        );
    }
    out + "</section>\n"
}

fn row(site: &SiteUse, label: &str, total: f64, with_stack: bool) -> String {
    let id = site.site.id;
    let name = format!("{} <code>{}</code>", text(label), short_id(site));
    let name = if with_stack { format!("<details><summary>{name}</summary>{}</details>", stack(site)) } else { name };
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
