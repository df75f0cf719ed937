//! One self-contained page: no network, no fonts or scripts from elsewhere, readable when printed.
//!
//! The pictures are SVG made here, so the page shows them with scripts switched off too; the script only adds sorting,
//! filtering and a quicker tooltip. Every text from the program passes `svg::text`, so no symbol name can become
//! markup.

mod scatter;
mod svg;
mod table;
mod timeline;

use crate::words;
use model::label::labels;
use model::{Observed, SiteId};
use std::collections::HashMap;
use svg::text;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Names of all sites.
type Labels = HashMap<SiteId, String>;

/// The whole page.
pub fn page(observed: &Observed) -> String {
    let labels = labels(observed.sites.iter().map(|s| &s.site));
    let command = text(&words::command(observed));
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // No request may leave the page, whatever a browser extension or a mistake here would ask for.
    page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += &format!("<title>{command} – Hearth</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n");
    page += &format!(
        "<header>\n<p class=\"kicker\">Hearth report</p>\n<h1>{command}</h1>\n{}</header>\n",
        summary(observed)
    );
    page += "<main>\n";
    if observed.sites.is_empty() {
        page += "<p>No allocation of this size was seen, so there is nothing to draw.</p>\n";
    } else {
        page += &scatter::figure(observed, &labels);
        page += &timeline::figures(observed, &labels);
        page += &table::section(observed, &labels);
    }
    page +=
        &format!("</main>\n<footer>\n{}</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n", notes(observed));
    page
}

/// The figures to take away, as tiles.
fn summary(observed: &Observed) -> String {
    let sampled = observed.sites.iter().any(|s| s.samples > 0);
    let mut tiles = vec![
        ("ran for", observed.duration.to_string(), observed.outcome.clone()),
        ("processes", observed.processes.to_string(), String::new()),
        ("sites", observed.sites.len().to_string(), format!("allocations of {} or more", observed.threshold)),
        ("alive at most", observed.peak().to_string(), "at one moment".to_string()),
    ];
    if sampled {
        tiles.push(("~cache misses", words::count(observed.total_misses()), "estimated".to_string()));
        tiles.push(("unattributed", words::percent(observed.unattributed), "of the samples".to_string()));
    }
    let mut out = String::from("<dl class=\"tiles\">\n");
    for (name, value, beside) in tiles {
        out += &format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>\n", text(&value), text(&beside));
    }
    out += "</dl>\n";
    if let Some(sentence) = words::concentration(observed) {
        out += &format!("<p class=\"lead\">{}.</p>\n", text(&sentence));
    }
    out
}

/// Where the figures come from and what is missing.
fn notes(observed: &Observed) -> String {
    let mut out = String::from("<h2>About these figures</h2>\n<ul>\n");
    for sentence in words::header(observed).iter().chain(&words::losses(observed)) {
        out += &format!("<li>{}</li>\n", text(sentence));
    }
    out + "</ul>\n"
}
