//! What the page's script draws by itself: call stacks and functions of all sites, as JSON in the page.
//!
//! Frames are told once and referred to by number, so that thousands of sites stay small.

use super::Labels;
use crate::table::hottest_first;
use model::{Observed, SiteId, Touch};
use serde::Serialize;
use std::collections::HashMap;

/// The whole, as the script reads it.
#[derive(Serialize, Default)]
struct Data<'a> {
    /// Function (or place) and where it is.
    frames: Vec<(String, String)>,
    sites: Vec<Site<'a>>,
}

#[derive(Serialize)]
struct Site<'a> {
    id: SiteId,
    name: &'a str,
    /// Numbers of frames, outermost first.
    stack: Vec<usize>,
    /// Estimated misses, live bytes at the fullest moment, bytes allocated in all.
    values: [f64; 3],
    touches: Vec<(&'a str, u64, Option<f64>)>,
}

/// The element that holds it.
pub fn element(observed: &Observed, labels: &Labels) -> String {
    let mut data = Data::default();
    let mut numbers: HashMap<(String, String), usize> = HashMap::new();
    let live = fullest(observed);
    let touches = touches(observed);
    for site in hottest_first(observed) {
        let mut stack = Vec::new();
        for frame in site.site.frames.iter().rev() {
            let place = frame.place();
            let entries: Vec<(String, String)> = match frame.source.is_empty() {
                true => vec![(place, String::new())],
                false => frame
                    .source
                    .iter()
                    .rev()
                    .map(|l| {
                        let at = if l.file.is_empty() { String::new() } else { format!("{}:{}, ", l.file, l.line) };
                        let name = if l.function.is_empty() { "?" } else { &l.function };
                        (name.to_string(), format!("{at}{place}"))
                    })
                    .collect(),
            };
            for entry in entries {
                let next = data.frames.len();
                let number = *numbers.entry(entry.clone()).or_insert(next);
                if number == next {
                    data.frames.push(entry);
                }
                stack.push(number);
            }
        }
        let id = site.site.id;
        let values = [site.misses(), live.get(&id).copied().unwrap_or(0) as f64, site.allocated.0 as f64];
        let touched = touches.get(&id).map_or(&[][..], Vec::as_slice);
        data.sites.push(Site {
            id,
            name: &labels[&id],
            stack,
            values,
            touches: touched.iter().map(|t| (function(t), t.loads + t.stores, t.latency)).collect(),
        });
    }
    // Numbers, names and lists always can be written. In a script element only `<` could end it.
    let json = serde_json::to_string(&data).unwrap_or_default().replace('<', "\\u003c");
    format!("<script type=\"application/json\" id=\"data\">{json}</script>\n")
}

/// Live bytes by site at the moment when most was alive.
fn fullest(observed: &Observed) -> HashMap<SiteId, u64> {
    let total = |p: &&model::observed::TimePoint| p.live.iter().map(|l| l.1.0).sum::<u64>();
    let point = observed.timeline.iter().max_by_key(total);
    point.map_or(HashMap::new(), |p| p.live.iter().map(|l| (l.0, l.1.0)).collect())
}

/// The functions that touch each site, most samples first.
pub fn touches(observed: &Observed) -> HashMap<SiteId, Vec<&Touch>> {
    let mut out: HashMap<SiteId, Vec<&Touch>> = HashMap::new();
    for touch in &observed.touches {
        if let Some(site) = touch.site {
            out.entry(site).or_default().push(touch);
        }
    }
    out
}

/// A function's name, or what is said instead.
pub fn function(touch: &Touch) -> &str {
    if touch.function.is_empty() { "code in no file" } else { &touch.function }
}
