//! The terminal table: what was run, then one entry per site, hottest first.
//!
//! On a wide terminal an entry is one line; on a narrow one the site's name has a line of its own above its figures,
//! so that every figure is shown at every width.

use crate::words;
use comfy_table::{Cell, CellAlignment, Table, presets};
use model::label::labels;
use model::units::significant;
use model::{Bytes, Observed, SiteUse};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// From this many columns an entry is one line.
const WIDE: usize = 120;

const HEADINGS: [&str; 9] =
    ["~share", "~loads", "~stores", "~miss/B", "~pattern", "peak", "resident", "objects", "lifetime"];

/// The table for a terminal of `width` columns, with the `top` hottest sites and the rest summed in one entry.
pub fn table(observed: &Observed, width: usize, top: usize) -> String {
    let mut out = String::new();
    for line in
        std::iter::once(words::command(&observed.command)).chain(words::header(observed)).chain(words::losses(observed))
    {
        out.push_str(&wrap(&words::printable(&line), width));
    }
    if observed.sites.is_empty() {
        return out;
    }
    out.push('\n');

    let total = observed.total_misses();
    let sites = hottest_first(observed);
    let (shown, rest) = sites.split_at(top.min(sites.len()));
    let mut names: Vec<String> = vec!["site".to_string()];
    let labels = labels(observed.sites.iter().map(|s| &s.site));
    names.extend(shown.iter().map(|s| format!("{}  {}", short_id(s), words::printable(&labels[&s.site.id]))));
    let mut figures = figures_table(if width >= WIDE { 2 } else { 1 });
    for site in shown {
        add(&mut figures, figures_of(site, total));
    }
    if !rest.is_empty() {
        names.push(words::plural(rest.len() as u64, "further site"));
        add(&mut figures, figures_of_rest(rest, total));
    }
    let lines: Vec<String> = figures.lines().map(|l| l.trim_end().to_string()).collect();
    let figures_width = lines.iter().map(|l| l.width()).max().unwrap_or(0);
    for (name, figures) in names.iter().zip(&lines) {
        if width >= WIDE {
            let room = width - figures_width - 2;
            let name = fit(name, room);
            out.push_str(&format!("{name}{:pad$}  {figures}\n", "", pad = room - name.width()));
        } else {
            out.push_str(&format!("{}\n{figures}\n", fit(name, width)));
        }
    }
    out
}

/// Sites by misses, then by size.
pub(crate) fn hottest_first(observed: &Observed) -> Vec<&SiteUse> {
    let mut sites: Vec<&SiteUse> = observed.sites.iter().collect();
    sites.sort_by(|a, b| b.misses().total_cmp(&a.misses()).then(b.peak.cmp(&a.peak)).then(a.site.id.cmp(&b.site.id)));
    sites
}

/// The first eight digits: enough to tell sites apart, and `--site` takes any unambiguous beginning.
pub(crate) fn short_id(site: &SiteUse) -> String {
    site.site.id.to_string()[..8].to_string()
}

/// An empty table with the headings, and `gap` columns between figures.
fn figures_table(gap: u16) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(HEADINGS.iter().map(|h| align(h, h == &"~pattern")));
    for column in table.column_iter_mut() {
        column.set_padding((0, gap));
    }
    table
}

fn add(table: &mut Table, cells: [String; 9]) {
    let cells = cells.iter().enumerate().map(|(i, c)| align(c, HEADINGS[i] == "~pattern"));
    table.add_row(cells.collect::<Vec<_>>());
}

fn align(text: &str, left: bool) -> Cell {
    Cell::new(text).set_alignment(if left { CellAlignment::Left } else { CellAlignment::Right })
}

fn figures_of(site: &SiteUse, total: f64) -> [String; 9] {
    let estimate = |text: String| if site.samples == 0 && site.misses() == 0.0 { "-".to_string() } else { text };
    [
        estimate(words::percent(words::share(site.misses(), total))),
        estimate(words::count(site.load_misses)),
        estimate(words::count(site.store_misses)),
        estimate(significant(site.misses_per_byte())),
        words::pattern(site.pattern),
        site.peak.to_string(),
        site.resident.map_or_else(|| "-".to_string(), |r| r.to_string()),
        words::count(site.objects as f64),
        site.mean_lifetime.to_string(),
    ]
}

/// Sums; peaks of different sites may lie at different times, so their sum is an upper bound and marked as such.
fn figures_of_rest(rest: &[&SiteUse], total: f64) -> [String; 9] {
    let misses: f64 = rest.iter().map(|s| s.misses()).sum();
    let peak: Bytes = rest.iter().map(|s| s.peak).sum();
    let objects: u64 = rest.iter().map(|s| s.objects).sum();
    [
        words::percent(words::share(misses, total)),
        words::count(rest.iter().map(|s| s.load_misses).sum()),
        words::count(rest.iter().map(|s| s.store_misses).sum()),
        significant(words::share(misses, peak.0 as f64)),
        String::new(),
        format!("<{peak}"),
        String::new(),
        words::count(objects as f64),
        String::new(),
    ]
}

/// An id with its label in at most `width` columns: in full, else briefly, else cut.
pub(crate) fn fit(name: &str, width: usize) -> String {
    match name.split_once("  ") {
        Some((id, label)) if name.width() > width => cut(&format!("{id}  {}", words::brief(label)), width),
        _ => cut(name, width),
    }
}

/// `text` in at most `width` columns, its end replaced by an ellipsis where it is longer.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_string();
    }
    let mut used = 1; // the ellipsis
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

/// `text` broken at spaces into lines of at most `width` columns, continued with an indent.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("  {word}")),
            None => lines.push(word.to_string()),
        }
    }
    lines.iter().map(|l| format!("{l}\n")).collect()
}
