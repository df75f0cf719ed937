//! The proof of a guided run: planned against real, per site, for a terminal.

use crate::table::{cut, wrap};
use crate::words;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use model::landing::{Landing, Moved, SiteLanding, Unmatched};
use model::{Bytes, Nanos};
use unicode_width::UnicodeWidthStr;

/// Unmatched sites shown by name; the rest are counted.
const SHOWN: usize = 5;

/// The summary for a terminal of `width` columns, with the first `top` sites.
pub fn landing(landing: &Landing, width: usize, top: usize) -> String {
    let mut out = String::new();
    for note in &landing.notes {
        out += &wrap(&words::printable(note), width);
    }
    if !landing.sites.is_empty() {
        out += &format!("{}\n", sites_table(landing, width, top));
        if landing.sites.len() > top {
            out += &format!("and {} more planned sites\n", landing.sites.len() - top);
        }
    }
    let proven: u64 = landing.sites.iter().filter(|s| !s.resident.is_empty()).count() as u64;
    out += &format!(
        "{} of {} allocated; where the pages of {proven} are was read back from the kernel.\n",
        landing.sites.len(),
        words::plural((landing.sites.len() + landing.unmatched.len()) as u64, "planned site"),
    );
    if let Some(moved) = &landing.moved {
        let there = |share: f64| format!(", and {:.0}% of the pages looked at were there right after", share * 100.0);
        out += &format!(
            "Phases moved {} ({}){}.\n",
            words::plural(moved.objects, "object"),
            moved.bytes,
            moved.there.map_or(String::new(), there)
        );
        if let Some(share) = moved.overlapped() {
            out += &overlap(moved, share * 100.0);
        }
    }
    for tier in landing.tiers.iter().filter(|t| t.fell_back > 0) {
        out += &format!(
            "{} planned for {} ({}) fell back to another tier: {}.\n",
            words::plural(tier.fell_back, "object"),
            tier.name,
            tier.fell_back_bytes,
            tier.budget.map_or("it had no room".into(), |b| format!("its budget of {b} was used up")),
        );
    }
    out += &listed(&landing.ambiguous, "cannot be told from a hotter one in this build");
    out += &listed(&landing.unmatched, "did not match");
    if landing.unlisted.sites > 0 {
        out += &format!(
            "{} with {} (at most {} at a time) are not in the plan and went to its default tier.\n",
            words::plural(landing.unlisted.sites, "site"),
            words::plural(landing.unlisted.objects, "object"),
            landing.unlisted.peak,
        );
    }
    out
}

/// Planned sites with the reasons, after what they have in common.
fn listed(sites: &[Unmatched], what: &str) -> String {
    if sites.is_empty() {
        return String::new();
    }
    let share: f64 = sites.iter().map(|u| u.miss_share).sum();
    let planned = words::plural(sites.len() as u64, "planned site");
    let mut out = format!("{planned} {what}, {:.1}% of the expected misses:\n", share * 100.0);
    for site in sites.iter().take(SHOWN) {
        out += &format!("  {}: {}\n", words::printable(&site.label), words::printable(&site.why));
    }
    if sites.len() > SHOWN {
        out += &format!("  and {} more\n", sites.len() - SHOWN);
    }
    out
}

/// How much of what moved the program had no need of meanwhile.
fn overlap(moved: &Moved, percent: f64) -> String {
    let while_used = Nanos(moved.took.0.saturating_sub(moved.took_beside.0));
    let waited = match moved.waited {
        Nanos(0) => "the program waited for none of it".to_string(),
        waited => format!("the program waited {waited}, as it had one processor for itself and what moves"),
    };
    format!(
        "Of that {percent:.0}% moved beside phases that do not use it ({}), and {:.0}% when its phase was under way ({while_used}); {waited}.\n",
        moved.took_beside,
        100.0 - percent.round(),
    )
}

fn sites_table(landing: &Landing, width: usize, top: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["site", "planned", "peak", "placed in", "resident on", "as planned"]);
    let shown: Vec<_> = landing.sites.iter().take(top).collect();
    // The names get what the figures leave; a name is cut, a figure never.
    let figures = 11 + shown.iter().map(|s| 22 + placed(landing, s).width() + resident(s).width()).max().unwrap_or(0);
    let room = width.saturating_sub(figures + 12).max(24);
    for site in shown {
        table.add_row([
            Cell::new(cut(&format!("{}  {}", &site.id.to_string()[..8], words::printable(&site.label)), room)),
            Cell::new(&site.planned),
            Cell::new(site.peak).set_alignment(CellAlignment::Right),
            Cell::new(placed(landing, site)),
            Cell::new(resident(site)),
            Cell::new(site.on_planned.map_or("-".to_string(), |s| format!("{:.0}%", s * 100.0)))
                .set_alignment(CellAlignment::Right),
        ]);
    }
    table.lines().map(|l| l.trim_end().to_string()).collect::<Vec<_>>().join("\n")
}

/// Tiers by whose heaps the site's bytes came from, with shares where there are several.
fn placed(landing: &Landing, site: &SiteLanding) -> String {
    let all: u64 = site.placed.iter().map(|b| b.0).sum();
    let used: Vec<_> = landing.tiers.iter().zip(&site.placed).filter(|(_, b)| b.0 > 0).collect();
    match used.as_slice() {
        [(tier, _)] => tier.name.clone(),
        several => several
            .iter()
            .map(|(tier, b)| format!("{} {:.0}%", tier.name, b.0 as f64 / all as f64 * 100.0))
            .collect::<Vec<_>>()
            .join(", "),
    }
}

fn resident(site: &SiteLanding) -> String {
    if site.resident.is_empty() {
        return "not read (lived between readings)".into();
    }
    let present: Vec<String> = site
        .resident
        .iter()
        .filter(|(node, bytes)| *node >= 0 && bytes.0 > 0)
        .map(|(node, bytes)| format!("node {node}: {bytes}"))
        .collect();
    let absent: Bytes = site.resident.iter().filter(|(node, _)| *node < 0).map(|(_, b)| *b).sum();
    match (present.is_empty(), absent.0) {
        (true, _) => format!("nothing, {absent} untouched"),
        (false, 0) => present.join(", "),
        (false, _) => format!("{}, {absent} untouched", present.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SiteId;
    use model::landing::{TierLanding, Unlisted, Unmatched};

    #[test]
    fn a_guided_run_is_summed_up_line_by_line() {
        let tier = |name: &str, budget, fell_back| TierLanding {
            name: name.into(),
            budget,
            fell_back,
            fell_back_bytes: Bytes::mib(fell_back * 3),
        };
        let site = |id, label: &str, planned: &str, placed: [u64; 2], resident: Vec<(i32, Bytes)>, on_planned| {
            let placed = placed.map(Bytes::mib).to_vec();
            SiteLanding {
                id: SiteId(id),
                label: label.into(),
                planned: planned.into(),
                peak: Bytes::mib(64),
                placed,
                resident,
                on_planned,
            }
        };
        let run = Landing {
            outcome: "exit 0".into(),
            tiers: vec![tier("fast", Some(Bytes::mib(80)), 2), tier("slow", None, 0)],
            sites: vec![
                site(1, "grow (a.c:3)", "fast", [64, 0], vec![(0, Bytes::mib(60)), (-1, Bytes::mib(4))], Some(1.0)),
                site(2, "mesh (b.f90:9)", "fast", [48, 16], vec![(0, Bytes::mib(48)), (1, Bytes::mib(16))], Some(0.75)),
                site(3, "brief (c.cpp:7)", "slow", [0, 64], vec![], None),
            ],
            moved: None,
            ambiguous: vec![Unmatched {
                id: SiteId(5),
                label: "two (e.c:1)".into(),
                why: "its lines are those of one (e.c:1), too, which decides".into(),
                miss_share: 0.002,
            }],
            unmatched: vec![Unmatched {
                id: SiteId(4),
                label: "old (d.c:1)".into(),
                why: "old (d.c:1) is no longer in app".into(),
                miss_share: 0.031,
            }],
            unlisted: Unlisted { sites: 1, objects: 7, peak: Bytes::kib(28) },
            notes: vec!["app was rebuilt".into()],
        };
        let text = landing(&run, 140, 20);
        for words in [
            "app was rebuilt\n",
            "node 0: 60 MiB, 4 MiB untouched",
            "fast 75%, slow 25%",
            "node 0: 48 MiB, node 1: 16 MiB",
            "75%",
            "not read (lived between readings)",
            "3 of 4 planned sites allocated; where the pages of 2 are was read back from the kernel.",
            "2 objects planned for fast (6 MiB) fell back to another tier: its budget of 80 MiB was used up.",
            "1 planned site cannot be told from a hotter one in this build, 0.2% of the expected misses:\n  two (e.c:1): its lines are those of",
            "1 planned site did not match, 3.1% of the expected misses:\n  old (d.c:1): old (d.c:1) is no longer in app\n",
            "1 site with 7 objects (at most 28 KiB at a time)",
        ] {
            assert!(text.contains(words), "no `{words}` in:\n{text}");
        }
        assert!(landing(&run, 80, 1).contains("and 2 more planned sites"));
        let moved = |beside, waited| {
            let moved = Moved {
                objects: 34,
                bytes: Bytes::mib(120),
                there: Some(1.0),
                beside: Bytes::mib(beside),
                took: Nanos(300_000_000),
                took_beside: Nanos(beside * 2_500_000),
                waited: Nanos(waited),
            };
            landing(&Landing { moved: Some(moved), ..run.clone() }, 140, 20)
        };
        for (text, words) in [
            (
                moved(97, 0),
                "81% moved beside phases that do not use it (242.5 ms), and 19% when its phase was under way (57.5 ms); the program waited for none of it.\n",
            ),
            (
                moved(0, 301_000_000),
                " 0% moved beside phases that do not use it (0 ns), and 100% when its phase was under way (300.0 ms); the program waited 301.0 ms, as it had one processor",
            ),
        ] {
            let first =
                "Phases moved 34 objects (120 MiB), and 100% of the pages looked at were there right after.\nOf that ";
            assert!(text.contains(first) && text.contains(words), "no `{words}` in:\n{text}");
        }
    }
}
