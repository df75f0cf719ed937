//! The log for a terminal.

use super::{FIGURES, Log, Row};
use crate::table::{cut, wrap};
use crate::words;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use unicode_width::UnicodeWidthStr;

/// The log for a terminal of `width` columns, with the first `top` sites.
pub fn log_table(log: &Log, width: usize, top: usize) -> String {
    let mut out: String = log.sentences().iter().map(|s| wrap(&words::printable(s), width)).collect();
    let rows = log.rows();
    if rows.is_empty() {
        return out;
    }
    let shown = &rows[..rows.len().min(top)];
    out += &format!("\n{}\n", table(shown, width));
    if rows.len() > top {
        out += &format!("and {}\n", words::plural((rows.len() - top) as u64, "more site"));
    }
    out
}

fn table(rows: &[Row], width: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
    table.set_header(FIGURES.map(right).into_iter().chain([Cell::new("object")]));
    let figures: Vec<[String; 6]> = rows.iter().map(Row::figures).collect();
    let column = |n: usize| figures.iter().map(|f| f[n].width()).chain([FIGURES[n].width()]).max().unwrap_or(0) + 2;
    let room = width.saturating_sub((0..FIGURES.len()).map(column).sum::<usize>() + 2).max(24);
    for (row, figures) in rows.iter().zip(&figures) {
        let name = cut(&words::brief(&words::printable(&row.label)), room);
        table.add_row(figures.iter().map(|text| right(text)).chain([Cell::new(name)]).collect::<Vec<_>>());
    }
    table.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}
