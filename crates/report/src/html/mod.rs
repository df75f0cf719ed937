//! One self-contained page: no network, no fonts or scripts from elsewhere, readable when printed.
//!
//! The pictures are SVG made here, so the page shows them with scripts switched off too; the script adds sorting, filtering,
//! a quicker tooltip, and the flame graph, of which it draws what can be seen. Every text from the program passes
//! `svg::text`, or stays text in the JSON that the script reads, so no symbol name can become markup.

mod data;
mod flame;
mod functions;
mod lifetimes;
pub(crate) mod marks;
mod scatter;
mod strips;
pub(crate) mod svg;
mod table;
pub(crate) mod timeline;

pub(crate) use data::{function as touched_by, touches};

use crate::words;
use model::label::labels;
use model::{Observed, SiteId};
use std::collections::HashMap;
use svg::text;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = concat!(include_str!("page.js"), include_str!("flame.js"));

/// Names of all sites.
type Labels = HashMap<SiteId, String>;

/// The whole page of a profile.
pub fn page(observed: &Observed) -> String {
    let labels = labels(observed.sites.iter().map(|s| &s.site));
    let main = if observed.sites.is_empty() {
        "<p>No allocation of this size was seen, so there is nothing to draw.</p>\n".to_string()
    } else {
        [
            scatter::figure(observed, &labels),
            timeline::figures(observed, &labels),
            lifetimes::figure(observed, &labels),
            flame::figure(observed),
            table::section(observed, &labels),
            functions::section(observed, &labels),
            data::element(observed, &labels),
        ]
        .concat()
    };
    sheet(&Sheet {
        kicker: "Hearth report",
        title: &words::command(&observed.command),
        head: summary(observed),
        main,
        about: words::header(observed).into_iter().chain(words::losses(observed)).collect(),
    })
}

/// What differs between pages.
pub(crate) struct Sheet<'a> {
    /// What kind of page it is, as text.
    pub kicker: &'a str,
    /// What it is about, as text.
    pub title: &'a str,
    /// Figures under the title, as HTML.
    pub head: String,
    /// Sections, as HTML.
    pub main: String,
    /// Where the figures come from and what is missing, one sentence each, as text.
    pub about: Vec<String>,
}

/// A page around its parts.
pub(crate) fn sheet(sheet: &Sheet) -> String {
    let title = text(sheet.title);
    let mut page = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    // No request may leave the page, whatever a browser extension or a mistake here would ask for.
    page += "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += &format!("<title>{title} – Hearth</title>\n<style>\n{STYLE}{}</style>\n</head>\n<body>\n", marks::themed());
    page += &format!(
        "<header>\n<p class=\"kicker\">{}</p>\n<h1>{}</h1>\n{}</header>\n",
        text(sheet.kicker),
        unbroken(sheet.title),
        sheet.head
    );
    page += &format!("<main>\n{}</main>\n<footer>\n<h2>About these figures</h2>\n<ul>\n", sheet.main);
    for sentence in &sheet.about {
        page += &format!("<li>{}</li>\n", text(sentence));
    }
    page + &format!("</ul>\n</footer>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
}

/// Words of which none is broken where it fits a line: browsers break a command before the `log` of `-log`.
fn unbroken(title: &str) -> String {
    title.split(' ').map(|word| format!("<span>{}</span>", text(word))).collect::<Vec<_>>().join(" ")
}

/// Figures to take away: what, how much, and a word beside.
pub(crate) fn tiles(tiles: &[(&str, String, String)]) -> String {
    let mut out = String::from("<dl class=\"tiles\">\n");
    for (name, value, beside) in tiles {
        out += &format!("<div><dt>{name}</dt><dd>{}<small>{}</small></dd></div>\n", text(value), text(beside));
    }
    out + "</dl>\n"
}

/// The figures of a profile to take away.
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
    let mut out = self::tiles(&tiles);
    if let Some(sentence) = words::concentration(observed) {
        out += &format!("<p class=\"lead\">{}.</p>\n", text(&sentence));
    }
    out
}
