//! The suite as Markdown: a table for each platform and capacity, and the notes under each platform.

use super::{Panel, panels};
use crate::comparison::{BASE, about, accuracy, figure, notes};
use model::comparison::Comparison;

/// Tables of all programs; the fastest placement of each row is bold.
pub fn suite_markdown(all: &[Comparison]) -> String {
    let mut out = format!(
        "Guest time relative to {BASE} (`1.00x`), programs by placements. Bold: fastest at this capacity. The mean is taken over the programs for which every placement has a figure.\n"
    );
    let panels = panels(all);
    for (n, panel) in panels.iter().enumerate() {
        out += &format!("\n### {}\n\n{}", escaped(&panel.title()), table(panel));
        let last = panels.get(n + 1).is_none_or(|next| (next.platform, next.vcpus) != (panel.platform, panel.vcpus));
        if last {
            out += &notes_of(panel);
        }
    }
    out += "\n";
    for sentence in accuracy(all).into_iter().chain(about(all)) {
        out += &format!("{sentence}\n");
    }
    out
}

fn table(panel: &Panel) -> String {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let bold = |text: String, yes: bool| if yes { format!("**{text}**") } else { text };
    let mut heads = vec!["program".to_string(), "footprint".to_string(), BASE.to_string()];
    heads.extend(panel.columns.iter().map(|c| escaped(c.placement)));
    let mut out = row(heads.clone());
    out += &format!("|:--|{}\n", "--:|".repeat(heads.len() - 1));
    for (c, name) in panel.programs.iter().zip(panel.names()) {
        let base = c.whole(BASE);
        let time = match (base, figure(c, base)) {
            (Some(run), figure) if figure.relative().is_some() => run.time.to_string(),
            (_, figure) => figure.to_string(),
        };
        let mut cells = vec![escaped(&name), c.footprint.to_string(), time];
        for column in &panel.columns {
            cells.push(bold(panel.figure(c, *column).to_string(), panel.is_fastest(c, *column)));
        }
        out += &row(cells);
    }
    let (of, means) = panel.means();
    let mut cells = vec![format!("*{}*", panel.mean_name(of)), String::new(), String::new()];
    for (n, mean) in means.iter().enumerate() {
        cells.push(mean.map_or("–".to_string(), |m| bold(format!("{m:.2}x"), panel.is_best_mean(&means, n))));
    }
    out + &row(cells)
}

fn notes_of(panel: &Panel) -> String {
    let mut out = String::new();
    for (c, name) in panel.programs.iter().zip(panel.names()) {
        for (who, note) in notes(c) {
            out += &format!("- {}, {}: {}\n", escaped(&name), escaped(&who), escaped(&note));
        }
    }
    if out.is_empty() { out } else { format!("\n{out}") }
}

/// `raw` as text in a table's cell, whatever it holds.
fn escaped(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '$' | '#' => out.extend(['\\', c]),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}
