//! The comparison as a page.

use super::{Diff, Rows, function_rows, header, site_rows};
use crate::html::svg::text;
use crate::html::{Sheet, sheet, tiles};
use crate::words;

/// Sites on the page.
const SITES: usize = 500;

/// The whole page.
pub fn diff_page(diff: &Diff) -> String {
    let mut head = vec![
        ("before", diff.before.duration.to_string(), diff.before.outcome.clone()),
        ("after", diff.after.duration.to_string(), diff.after.outcome.clone()),
    ];
    for (name, latency) in [("loads before", diff.before.latency), ("loads after", diff.after.latency)] {
        head.extend(latency.map(|ns| (name, words::latency(ns), "on average".to_string())));
    }
    let main =
        section("Functions", "Share of the sampled accesses, misses, and mean latency of loads.", &function_rows(diff))
            + &section(
                "Sites",
                "Misses, mean latency of the loads that hit them, and where they were.",
                &site_rows(diff, SITES),
            );
    let about = header(diff).into_iter().chain(diff.notes.clone()).collect();
    let title = words::command(&diff.before.command);
    sheet(&Sheet { kicker: "Hearth: before and after", title: &title, head: tiles(&head), main, about })
}

fn section(name: &str, about: &str, rows: &Rows) -> String {
    if rows.rows.is_empty() {
        return String::new();
    }
    let mut out = format!(
        "<section>\n<h2>{name}</h2>\n<p>{about}</p>\n<div class=\"wide\"><table class=\"figures\">\n<thead><tr>"
    );
    for heading in rows.headings {
        out += &format!("<th scope=\"col\">{heading}</th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in &rows.rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", text(cell))).collect();
        out += &format!("<tr>{cells}</tr>\n");
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}
