//! Which functions access the objects, how long their loads take, and what they access most: the left half of table VII
//! of paper 000, for all functions of the program.

use super::Labels;
use super::data::function;
use super::svg::text;
use crate::words;
use model::{Observed, Touch};
use std::collections::HashMap;

/// Rows shown before the reader asks for all.
const ROWS: usize = 15;
/// Sites named beside a function.
const NAMED: usize = 2;

/// The table; nothing where no instruction was sampled.
pub fn section(observed: &Observed, labels: &Labels) -> String {
    let all: u64 = observed.touches.iter().map(|t| t.loads + t.stores).sum();
    if all == 0 {
        return String::new();
    }
    let mut by_function: HashMap<(&str, &str), Vec<&Touch>> = HashMap::new();
    for touch in &observed.touches {
        by_function.entry((function(touch), &touch.module)).or_default().push(touch);
    }
    let mut functions: Vec<_> = by_function.into_iter().collect();
    let samples = |touches: &[&Touch]| touches.iter().map(|t| t.loads + t.stores).sum::<u64>();
    functions.sort_by(|a, b| samples(&b.1).cmp(&samples(&a.1)).then(a.0.cmp(&b.0)));
    let timed = observed.touches.iter().any(|t| t.latency.is_some());
    let why = if timed {
        "Latency is the mean time from issue to data of the loads that the sampler timed."
    } else {
        "The sampler does not measure latencies."
    };
    let mut out = format!(
        "<section id=\"functions\">\n<h2>Functions that access memory</h2>\n<p>Shares are of the {} sampled accesses. {why}</p>\n<p class=\"tools\" hidden><input type=\"search\" placeholder=\"Filter by name\" aria-label=\"Filter functions by name\"> <span class=\"count\"></span> <button type=\"button\" class=\"all\">Show all {}</button></p>\n<div class=\"wide\"><table data-rows=\"{ROWS}\">\n<thead><tr>",
        words::count(all as f64),
        functions.len()
    );
    for heading in ["function", "accesses", "by loads", "by stores", "latency", "accesses most"] {
        let sorted = if heading == "accesses" { " aria-sort=\"descending\"" } else { "" };
        out += &format!("<th scope=\"col\"{sorted}><button type=\"button\">{heading}</button></th>");
    }
    out += "</tr></thead>\n<tbody>\n";
    for ((name, module), touches) in &functions {
        out += &row(name, module, touches, all, labels);
    }
    out + "</tbody>\n</table></div>\n</section>\n"
}

fn row(name: &str, module: &str, touches: &[&Touch], all: u64, labels: &Labels) -> String {
    let (loads, stores): (u64, u64) = touches.iter().fold((0, 0), |(l, s), t| (l + t.loads, s + t.stores));
    let line = touches.iter().max_by_key(|t| t.loads + t.stores).filter(|t| !t.file.is_empty());
    let place = line.map_or(module.to_string(), |t| format!("{}:{}", t.file.rsplit('/').next().unwrap_or(""), t.line));
    let mut out = format!("<tr><td>{} <code>{}</code></td>", text(name), text(&place));
    let share = words::share((loads + stores) as f64, all as f64);
    for (value, shown) in [
        (share, words::percent(share)),
        (loads as f64, words::count(loads as f64)),
        (stores as f64, words::count(stores as f64)),
    ] {
        out += &format!("<td data-v=\"{value}\">{shown}</td>");
    }
    out += &match mean_latency(touches) {
        Some(ns) => format!("<td data-v=\"{ns}\">{}</td>", words::latency(ns)),
        None => "<td data-v=\"-1\">–</td>".to_string(),
    };
    let mut most: Vec<&&Touch> = touches.iter().collect();
    most.sort_by_key(|t| std::cmp::Reverse(t.loads + t.stores));
    let sites: Vec<String> = most
        .iter()
        .take(NAMED)
        .map(|t| match t.site.and_then(|id| labels.get(&id).map(|label| (id, label))) {
            Some((id, label)) => {
                format!("<a href=\"#s{id}\">{}</a>", text(&super::svg::shortened(&words::brief(label), 40)))
            }
            None => "other memory".to_string(),
        })
        .collect();
    out + &format!("<td>{}</td></tr>\n", sites.join("; "))
}

/// Mean over the timed loads of all.
pub fn mean_latency(touches: &[&Touch]) -> Option<f64> {
    let timed: u64 = touches.iter().map(|t| t.timed).sum();
    let sum: f64 = touches.iter().filter_map(|t| Some(t.latency? * t.timed as f64)).sum();
    (timed > 0).then(|| sum / timed as f64)
}
