//! The log as a page: what lay in fast memory and what was hot over time, by site, and every decision.

use super::{FIGURES, Log};
use crate::html::svg::text;
use crate::html::timeline::{Drawn, Stacks, Unit};
use crate::html::{Sheet, sheet, tiles};
use crate::words;
use model::log::SiteState;
use model::{Nanos, SiteId};
use std::collections::HashSet;

/// Rows of a table at most.
const ROWS: usize = 500;
/// Sites with a colour of their own.
const COLOURS: usize = 7;

/// The page of a log, which is called `name`.
pub fn log_page(log: &Log, name: &str) -> String {
    let (begin, end) = log.span();
    let (up, down) = log.moved();
    let head = [
        ("time", Nanos(end - begin).to_string(), String::new()),
        ("moved up", up.to_string(), "to faster memory".to_string()),
        ("moved down", down.to_string(), "to slower".to_string()),
        ("decisions", log.decisions.len().to_string(), words::plural(log.moves.len() as u64, "move")),
    ];
    let main = over_time(log) + &sites(log) + &decisions(log);
    sheet(&Sheet { kicker: "Hearth: a log", title: name, head: tiles(&head), main, about: log.sentences() })
}

/// Sites of which most was moved and the hottest, as [`Log::rows`] has them.
fn over_time(log: &Log) -> String {
    if log.states.is_empty() {
        return "<p>The log tells of decisions only.</p>\n".to_string();
    }
    let labels = log.labels();
    let told: HashSet<SiteId> = log.states.iter().flat_map(|s| s.sites.iter().map(|s| s.site)).collect();
    let rows = log.rows().into_iter().map(|r| r.site).filter(|id| told.contains(id) && labels.contains_key(id));
    let shown: Vec<SiteId> = rows.take(COLOURS).collect();
    let (begin, end) = log.span();
    let starts = log.states.iter().map(|s| s.at_ns - begin).collect();
    let mut stacks = Stacks::new(starts, end - begin + 1, &shown, &labels, told.len() - shown.len());
    let each = |f: fn(&SiteState) -> f64| -> Vec<Vec<(SiteId, f64)>> {
        log.states.iter().map(|s| s.sites.iter().map(|s| (s.site, f(s))).collect()).collect()
    };
    let tier = log.tiers().first().map_or("the fastest tier", |t| t);
    let title = format!("In fast memory by site over time ({})", text(tier));
    let fast = stacks.add(&Drawn::new(title, Unit::Bytes("bytes"), each(|s| s.fast.0 as f64)));
    let title = "Resident bytes by site over time, in all tiers".to_string();
    let all = stacks.add(&Drawn::new(title, Unit::Bytes("bytes"), each(|s| s.resident.0 as f64)));
    let title = "Heat by site over time".to_string();
    let unit = Unit::Count("~misses per second, as expected after what was seen");
    let heat = stacks.add(&Drawn::new(title, unit, each(|s| s.misses_per_second)));
    format!("<section>\n<h2>Over time</h2>\n{}{fast}{all}{heat}</section>\n", stacks.legend())
}

fn table(headings: &[&str], rows: impl Iterator<Item = (Option<SiteId>, Vec<String>)>) -> String {
    let mut out = "<div class=\"wide\"><table class=\"figures\">\n<thead><tr>".to_string();
    headings.iter().for_each(|h| out += &format!("<th scope=\"col\">{h}</th>"));
    out += "</tr></thead>\n<tbody>\n";
    for (id, row) in rows {
        let cells: String = row.iter().map(|cell| format!("<td>{}</td>", text(cell))).collect();
        let id = id.map_or(String::new(), |id| format!(" id=\"s{id}\""));
        out += &format!("<tr{id}>{cells}</tr>\n");
    }
    out + "</tbody>\n</table></div>\n"
}

fn sites(log: &Log) -> String {
    let headings: Vec<&str> = ["object"].into_iter().chain(FIGURES).collect();
    let rows = log.rows();
    let cells = rows.iter().take(ROWS).map(|r| {
        let name = words::brief(&r.label);
        (Some(r.site), [name].into_iter().chain(r.figures()).collect())
    });
    let about = "What was moved of each, and how it was at the end; the gain is what its moves to faster memory were predicted to save.";
    format!("<section>\n<h2>Objects</h2>\n<p>{about}</p>\n{}</section>\n", table(&headings, cells))
}

fn decisions(log: &Log) -> String {
    let (begin, _) = log.span();
    let row = |d: &model::log::Decision| {
        let time = |ns: f64| if ns < 0.0 { format!("-{}", Nanos(-ns as u64)) } else { Nanos(ns as u64).to_string() };
        vec![
            Nanos(d.at_ns - begin).to_string(),
            d.why.clone(),
            d.moves.to_string(),
            model::Bytes(d.bytes).to_string(),
            time(d.gain_ns),
            time(d.cost_ns),
        ]
    };
    let rows = log.decisions.iter().take(ROWS).map(|d| (None, row(d)));
    let headings = ["at", "why", "moves", "bytes", "predicted gain", "predicted cost"];
    let more = match log.decisions.len().saturating_sub(ROWS) {
        0 => String::new(),
        n => format!("<p>And {}, which the log has.</p>\n", words::plural(n as u64, "more decision")),
    };
    format!("<section>\n<h2>Decisions</h2>\n{}{more}</section>\n", table(&headings, rows))
}
