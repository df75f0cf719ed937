//! The page of a suite: for each platform and capacity the picture and the table behind it.

use super::{Panel, dots, panels};
use crate::comparison::{BASE, Figure, about, accuracy_section, figure, notes};
use crate::html::svg::text;
use crate::html::{Sheet, sheet, tiles};
use crate::words;
use model::comparison::Comparison;

/// The whole page.
pub fn suite_page(all: &[Comparison]) -> String {
    let panels = panels(all);
    let runs: usize = all.iter().map(|c| c.runs.len()).sum();
    let failed = all.iter().flat_map(|c| &c.runs).filter(|r| r.code != 0).count();
    let mut names: Vec<String> = panels.iter().flat_map(|p| p.names()).collect();
    names.sort();
    names.dedup();
    let mut platforms: Vec<&str> = panels.iter().map(|p| p.platform).collect();
    platforms.dedup();
    let head = tiles(&[
        ("programs", names.len().to_string(), String::new()),
        ("platforms", platforms.len().to_string(), platforms.join(", ")),
        ("runs", runs.to_string(), format!("{failed} failed")),
    ]);
    let mut main = format!(
        "<p class=\"lead\">Each mark is the guest time of one program under one placement, relative to {BASE}: further left is better.</p>\n"
    );
    for panel in &panels {
        main += &format!(
            "<section>\n<h2>{}</h2>\n{}{}</section>\n",
            text(&panel.title()),
            dots::svg(all, panel),
            table(panel)
        );
    }
    main += &accuracy_section(all);
    let mut about = about(all);
    about.push("A geometric mean is taken over the programs for which every placement has a figure.".to_string());
    for c in all {
        let program = format!("{} on {}", words::command(&c.command), c.platform);
        about.extend(notes(c).into_iter().map(|(who, note)| format!("{program}, {who}: {note}")));
    }
    sheet(&Sheet { kicker: "Hearth lab", title: "Placements of many programs compared", head, main, about })
}

fn table(panel: &Panel) -> String {
    let mut out = String::from("<div class=\"wide\"><table class=\"figures\">\n<thead><tr>");
    for heading in ["program", "footprint", BASE].into_iter().chain(panel.columns.iter().map(|c| c.placement)) {
        out += &format!("<th scope=\"col\">{}</th>", text(heading));
    }
    out += "</tr></thead>\n<tbody>\n";
    for (c, name) in panel.programs.iter().zip(panel.names()) {
        let base = c.whole(BASE);
        let time = match (base, figure(c, base)) {
            (Some(run), Figure::Relative(_)) => run.time.to_string(),
            (_, figure) => figure.to_string(),
        };
        out += &format!("<tr><td>{}</td><td>{}</td><td>{time}</td>", text(&name), c.footprint);
        for column in &panel.columns {
            let shown = panel.figure(c, *column);
            let class = match shown {
                Figure::Failed(_) | Figure::NotRun => " class=\"none\"",
                _ if panel.is_fastest(c, *column) => " class=\"best\"",
                _ => "",
            };
            out += &format!("<td{class}>{shown}</td>");
        }
        out += "</tr>\n";
    }
    let (of, means) = panel.means();
    out += &format!("<tr class=\"mean\"><td>{}</td><td></td><td></td>", panel.mean_name(of));
    for (n, mean) in means.iter().enumerate() {
        let class = if panel.is_best_mean(&means, n) { " class=\"best\"" } else { "" };
        out += &format!("<td{class}>{}</td>", mean.map_or("–".to_string(), |m| format!("{m:.2}x")));
    }
    out + "</tr>\n</tbody>\n</table></div>\n"
}
