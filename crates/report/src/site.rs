//! One site in full: every figure, and the whole call stack in binary and source form.

use crate::html::touched_by;
use crate::words;
use model::label::labels;
use model::units::significant;
use model::{Chunk, Observed, SiteUse, Touch};
use std::fmt::Write as _;

/// Functions named.
const FUNCTIONS: usize = 8;
/// Columns of the longest bar.
const BAR: usize = 24;

/// No such site, or not only one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSite {
    /// Nothing begins with these digits.
    #[error("no site of this profile has an id that begins with `{0}`; the report's table lists them")]
    Unknown(String),
    /// Several do.
    #[error("`{prefix}` begins the ids of {count} sites; give more digits, for example {example}")]
    Ambiguous {
        /// What was asked for.
        prefix: String,
        /// How many sites begin with it.
        count: usize,
        /// The hottest of them.
        example: String,
    },
}

/// The site whose id begins with these hexadecimal digits.
pub fn find<'a>(observed: &'a Observed, prefix: &str) -> Result<&'a SiteUse, NoSite> {
    let wanted = prefix.to_ascii_lowercase();
    let mut found = observed.sites.iter().filter(|s| !wanted.is_empty() && s.site.id.to_string().starts_with(&wanted));
    match (found.next(), found.count()) {
        (None, _) => Err(NoSite::Unknown(prefix.to_string())),
        (Some(site), 0) => Ok(site),
        (Some(first), more) => {
            Err(NoSite::Ambiguous { prefix: prefix.to_string(), count: more + 1, example: first.site.id.to_string() })
        }
    }
}

/// Everything known about one site, for a terminal.
pub fn site(observed: &Observed, site: &SiteUse) -> String {
    let mut rows: Vec<(&str, String)> = vec![
        ("peak", format!("{} alive at one moment", site.peak)),
        (
            "resident",
            site.resident.map_or_else(|| "not read".to_string(), |r| format!("{r} at most, as the kernel said")),
        ),
        (
            "allocated",
            format!("{} in {}, the largest {}", site.allocated, words::plural(site.objects, "object"), site.largest),
        ),
        (
            "alive",
            format!(
                "from {} to {} of the run; an object for {} on average",
                site.first_alloc, site.last_free, site.mean_lifetime
            ),
        ),
    ];
    if site.samples > 0 {
        let share = words::percent(words::share(site.misses(), observed.total_misses()));
        rows.push((
            "~misses",
            format!(
                "{share} of all: {} by loads, {} by stores; {} a byte, from {}",
                words::count(site.load_misses),
                words::count(site.store_misses),
                significant(site.misses_per_byte()),
                words::plural(site.samples, "sample"),
            ),
        ));
        rows.push(("~pattern", words::pattern(site.pattern)));
    } else {
        rows.push(("~misses", format!("no sample of the {} sampler fell on it", observed.sampler)));
    }
    let labels = labels(observed.sites.iter().map(|s| &s.site));
    let label = labels.get(&site.site.id).cloned().unwrap_or_else(|| site.site.label());
    let mut out = format!("site {}  {}\n", site.site.id, words::printable(&label));
    for (name, value) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {name:<10} {value}");
    }
    out += &chunks(site);
    out += &functions(observed, site);
    out.push_str("  stack, innermost first:\n");
    for (n, frame) in site.site.frames.iter().enumerate() {
        let _ = writeln!(out, "  {n:>3}  {}", words::printable(&frame.place()));
        for line in &frame.source {
            let at = if line.file.is_empty() { String::new() } else { format!("  {}:{}", line.file, line.line) };
            let function = if line.function.is_empty() { "?" } else { &line.function };
            let _ = writeln!(out, "       {}", words::printable(&format!("{function}{at}")));
        }
    }
    out
}

/// Its large objects by place: share of the site's misses, and what of it was there.
fn chunks(site: &SiteUse) -> String {
    let hottest = site.chunks.iter().map(Chunk::misses).fold(0.0, f64::max);
    let mut out = String::new();
    for class in site.chunks.chunk_by(|a, b| a.class == b.class) {
        let _ = writeln!(out, "  ~misses by place, {}:", words::chunks(class));
        for chunk in class {
            let share = words::percent(words::share(chunk.misses(), site.misses()));
            let share = if site.samples > 0 { share } else { "-".to_string() };
            let bar = words::bar(words::share(chunk.misses(), hottest), BAR);
            let pad = " ".repeat(BAR - bar.chars().count());
            let resident = chunk.resident.map_or(String::new(), |r| format!(", {r} resident"));
            let (at, peak) = (chunk.offset.to_string(), chunk.peak);
            let samples = words::plural(chunk.samples, "sample");
            let _ = writeln!(out, "  {at:>9} {share:>6} {bar}{pad} {peak} alive{resident}, {samples}");
        }
    }
    out
}

/// The functions that touch it, if instructions were sampled.
fn functions(observed: &Observed, site: &SiteUse) -> String {
    let touches: Vec<&Touch> = observed.touches.iter().filter(|t| t.site == Some(site.site.id)).collect();
    if touches.is_empty() {
        return String::new();
    }
    let samples = |t: &Touch| (t.loads + t.stores) as f64;
    let all: f64 = touches.iter().map(|t| samples(t)).sum();
    let mut out = String::from("  touched by:\n");
    for touch in touches.iter().take(FUNCTIONS) {
        let share = words::percent(words::share(samples(touch), all));
        let latency = touch.latency.map_or(String::new(), |ns| format!(", loads take {}", words::latency(ns)));
        let _ = writeln!(out, "  {share:>6}  {}{latency}", words::printable(touched_by(touch)));
    }
    if touches.len() > FUNCTIONS {
        let _ = writeln!(out, "          and {}", words::plural((touches.len() - FUNCTIONS) as u64, "more function"));
    }
    out
}
