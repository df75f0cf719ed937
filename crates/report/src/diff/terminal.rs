//! The comparison for a terminal.

use super::{Diff, Rows, function_rows, header, site_rows};
use crate::table::{cut, wrap};
use crate::words;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr;

/// Both tables for a terminal of `width` columns, with the first `top` sites.
pub fn diff_table(diff: &Diff, width: usize, top: usize) -> String {
    let mut out = String::new();
    for line in std::iter::once(words::command(&diff.before.command)).chain(header(diff)).chain(diff.notes.clone()) {
        out += &wrap(&words::printable(&line), width);
    }
    for rows in [function_rows(diff), site_rows(diff, top)] {
        if !rows.rows.is_empty() {
            out += &format!("\n{}\n", table(&rows, width));
        }
    }
    if diff.sites.len() > top {
        out += &format!("and {}\n", words::plural((diff.sites.len() - top) as u64, "more site"));
    }
    out
}

fn table(rows: &Rows, width: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let align = |n: usize, text: &str| {
        Cell::new(text).set_alignment(if n == 0 { CellAlignment::Left } else { CellAlignment::Right })
    };
    table.set_header(rows.headings.iter().enumerate().map(|(n, h)| align(n, h)));
    // The names get what the figures leave; a name is cut, a figure never.
    let column = |n: usize| rows.rows.iter().map(|r| r[n].width()).chain([rows.headings[n].width()]).max().unwrap_or(0);
    let figures: usize = (1..7).map(|n| column(n) + 2).sum();
    let room = width.saturating_sub(figures + 2).max(24);
    for row in &rows.rows {
        let name = cut(&words::brief(&words::printable(&row[0])), room);
        let cells = row.iter().enumerate().map(|(n, text)| if n == 0 { align(0, &name) } else { align(n, text) });
        table.add_row(cells.collect::<Vec<_>>());
    }
    table.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}
