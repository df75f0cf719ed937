//! Comparisons of the lab: what the terminal and the Markdown look like, and that pages and pictures are whole, closed
//! against the network and against commands that would be markup, and leave no run out.

use crate::common::compared::{holed, program, suite, whole};
use crate::common::{assert_golden, assert_well_formed};
use hearth_report::{comparison, comparison_page, comparison_svg, suite_markdown, suite_page, suite_svg};
use model::{Bytes, Comparison};
use unicode_width::UnicodeWidthStr;

const ATTACK: &str =
    "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"a'&lt;\0\u{1b}|`*\n";

/// The suite as it would be shown on a front page: one capacity.
fn quarter() -> Vec<Comparison> {
    let mut all = suite();
    for c in &mut all {
        c.runs.retain(|r| r.fast_percent.is_none_or(|p| p == 25.0));
    }
    all
}

/// Everything that a lab, a plan or a program names.
fn hostile(mut c: Comparison) -> Comparison {
    c.command = vec![ATTACK.into(), ATTACK.into()];
    c.platform = ATTACK.into();
    c.tiers = vec![ATTACK.into(), ATTACK.into()];
    c.scale = format!("{ATTACK}{}", c.scale);
    for run in &mut c.runs {
        run.notes.push(ATTACK.into());
        if run.placement.starts_with("plan") {
            run.placement = format!("plan {ATTACK}");
        }
    }
    c
}

/// How many marks with a tooltip, and so how many runs, a picture has.
fn points(svg: &str) -> usize {
    svg.matches("\"><title>").count()
}

/// Nothing but the drawing's own elements and attributes, whatever the texts say.
fn assert_closed(text: &str) {
    for tag in text.split('<').skip(1).map(|t| t.split('>').next().unwrap()) {
        for word in ["script", "img", "link", "src=", "href=", "onload=", "onerror=", "alert", "NaN", "inf"] {
            assert!(!tag.contains(word) || tag.contains("aria-label"), "{word} in <{tag}>");
        }
    }
    for word in ["https://", "@import", "url(", "<script", "<img", "\" onload="] {
        assert!(!text.contains(word), "{word} in {text}");
    }
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'));
}

/// A page without its script, and its pictures and tables.
fn without_script(page: &str) -> &str {
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("default-src 'none'"));
    &page[page.find("<body>").unwrap()..page.find("<script").unwrap()]
}

#[test]
fn terminal_tables_look_as_in_the_golden_files() {
    assert_golden("comparison-80.txt", &comparison(&holed(), 80));
    assert_golden("comparison-40.txt", &comparison(&holed(), 40));
    assert_golden("comparison-160.txt", &comparison(&whole(), 160));
}

#[test]
fn terminal_tables_fit_and_are_plain() {
    for width in [40, 60, 80, 100, 132, 200] {
        for c in [holed(), hostile(holed())] {
            let shown = comparison(&c, width);
            // A word of an attack is not broken; figures and names always fit.
            let tables = shown.lines().filter(|l| !l.contains("alert"));
            assert!(tables.clone().all(|l| l.width() <= width), "{width}:\n{shown}");
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'));
        }
    }
}

#[test]
fn failed_and_missing_runs_have_no_figure_in_the_terminal() {
    let shown = comparison(&holed(), 80);
    let line = |table: &str, placement: &str| {
        let rest = &shown[shown.find(table).unwrap()..];
        rest.lines()
            .find(|l| l.starts_with(placement))
            .unwrap()
            .split_whitespace()
            .skip(1)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("guest time  ", "memory-mode"), "2.46x exit 137 1.61x 1.21x");
    assert_eq!(line("guest time  ", "weighted"), "3.08x 2.75x not run 1.57x");
    assert_eq!(line("resident fast", "memory-mode"), "12.5% - 50.0% 75.0%");
    assert!(shown.contains("\nnote (kernel): promotion began"), "{shown}");
    assert!(shown.contains("\nnote (plan density at 12.5% and 25%): 2 objects"), "{shown}");
}

#[test]
fn without_its_ends_a_comparison_gives_times_as_they_are() {
    let mut c = whole();
    c.runs[0].code = 139;
    c.runs.remove(1);
    let shown = comparison(&c, 80);
    for words in
        ["all-slow not run, all-fast failed (exit 139)", "there is nothing to measure by", " 2.5 s ", " 1.7 s*"]
    {
        assert!(shown.contains(words), "no `{words}` in\n{shown}");
    }
    let ratio = |text: &str| text.split_whitespace().any(|w| w.trim_end_matches('*').ends_with("0x"));
    assert!(!ratio(&shown), "{shown}");
    let svg = comparison_svg(&c);
    assert!(points(&svg) == 0 && svg.contains("Without a successful all-fast run"), "{svg}");
    let page = comparison_page(&c);
    assert!(page.contains("exit 139 after 812.0 ms") && page.contains("<td class=\"best\">1.7 s</td>"), "{page}");
    let markdown = suite_markdown(&[c, whole()]);
    assert!(markdown.contains("| exit 139 |") && markdown.contains("*geometric mean of 1 of 2*"), "{markdown}");
}

#[test]
fn what_is_as_fast_as_the_fastest_is_marked_too() {
    let mut c = whole();
    let time = c.at("plan density", 25.0).unwrap().time;
    let kernel = c.runs.iter_mut().find(|r| r.placement == "kernel" && r.fast_percent == Some(25.0)).unwrap();
    kernel.time.0 = time.0 + 1000;
    assert_eq!(comparison(&c, 80).matches("1.45x*").count(), 2);
    // A failed run is not the fastest, however early it ended.
    let kernel = c.runs.iter_mut().find(|r| r.placement == "kernel" && r.fast_percent == Some(25.0)).unwrap();
    (kernel.time.0, kernel.code) = (1, 1);
    assert_eq!(comparison(&c, 80).matches("1.45x*").count(), 1);
}

#[test]
fn every_run_has_a_point_and_a_row() {
    for c in [whole(), holed()] {
        let limited = c.runs.iter().filter(|r| r.fast_percent.is_some()).count();
        let (svg, page) = (comparison_svg(&c), comparison_page(&c));
        // The page has a second picture, of what was predicted.
        let predicted = c.runs.iter().filter(|r| r.predicted.is_some()).count();
        assert_eq!((points(&svg), points(&page)), (limited, limited + predicted));
        for run in c.runs.iter().filter(|r| r.fast_percent.is_some()) {
            let tip = format!("<title>{} at {}%:", run.placement, run.fast_percent.unwrap());
            assert_eq!(svg.matches(&tip).count(), 1, "{tip}");
        }
        // Both ends are lines across, and the lines of the placements are unbroken where nothing is missing.
        assert_eq!(svg.matches("class=\"ref\"").count(), 2);
        assert_eq!(svg.matches("class=\"line ").count(), c.placements().len());
        let missing = c.placements().len() * c.capacities().len() - limited;
        let rows = page[page.find("<h2>All runs").unwrap()..].matches("<tr><td>").count();
        assert_eq!(rows, c.runs.len() + missing);
        assert!(page.contains("1/64 of the footprint"), "the emulated machine");
    }
    let svg = comparison_svg(&holed());
    assert!(svg.contains(">failed</text>") && svg.contains("memory-mode at 25%: exit 137"));
    assert!(!comparison_svg(&whole()).contains(">failed</text>"));
}

#[test]
fn a_line_breaks_where_a_run_is_missing() {
    let pieces = |svg: &str| -> usize {
        svg.lines().filter(|l| l.contains("class=\"line ")).map(|l| l.matches('M').count()).sum()
    };
    let whole = whole();
    assert_eq!(pieces(&comparison_svg(&whole)), whole.placements().len());
    assert_eq!(pieces(&comparison_svg(&holed())), whole.placements().len() + 2);
}

#[test]
fn lower_is_faster_and_marks_of_equal_runs_do_not_cover_each_other() {
    let flat = program(&["dgemm"], "cxl-expander", 64, 1.0, 1.0, 1.0);
    let svg = comparison_svg(&flat);
    let mut places: Vec<&str> = svg
        .lines()
        .filter(|l| l.contains("\"><title>") || l.starts_with("resident fast"))
        .filter_map(|l| l.split_once("</title>").map(|(_, shape)| shape))
        .collect();
    assert_eq!(places.len(), 24);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 24, "{places:?}");

    let dashed = |svg: &str| -> Vec<f64> {
        let refs = svg.split("class=\"ref\" d=\"M").skip(1);
        refs.map(|r| r.split([' ', 'H']).nth(1).unwrap().parse().unwrap()).collect()
    };
    let ends = dashed(&comparison_svg(&whole()));
    assert!(ends[0] > ends[1], "all-fast is below all-slow: {ends:?}");
}

#[test]
fn hostile_names_stay_names() {
    let c = hostile(holed());
    let all = [c.clone(), hostile(whole()), whole()];
    for page in [comparison_page(&c), suite_page(&all)] {
        assert_well_formed(&page);
        assert_closed(without_script(&page));
        assert!(page.contains("&lt;script&gt;alert(1)"));
    }
    for svg in [comparison_svg(&c), suite_svg(&all)] {
        assert_well_formed(&svg);
        assert_closed(&svg);
        assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" ") && svg.contains("fill=\"#fff\""));
    }
    let markdown = suite_markdown(&all);
    assert!(!markdown.contains('<') && !markdown.contains('\0') && !markdown.contains('\u{1b}'));
    let cells = |line: &str| line.replace("\\|", "").matches('|').count();
    let rows: Vec<&str> = markdown.lines().filter(|l| l.starts_with('|')).collect();
    assert!(rows.chunk_by(|a, b| cells(a) == cells(b)).count() <= 2, "each panel has one width: {rows:#?}");
}

#[test]
fn pages_and_pictures_of_a_suite_are_whole() {
    let all = suite();
    let page = suite_page(&all);
    assert_well_formed(&page);
    assert_closed(without_script(&page));
    // Two platforms by four capacities, in each nine programs and the mean, in each six placements and all-slow; one
    // run failed. And one picture of what was predicted.
    let predicted = all.iter().flat_map(|c| &c.runs).filter(|r| r.predicted.is_some()).count();
    assert_eq!(page.matches("<section>").count(), 8 + 1);
    assert_eq!(points(&page), 8 * 10 * 7 - 1 + predicted);
    assert!(page.contains("memory-mode: exit 139") && page.contains("<td class=\"none\">exit 139</td>"));
    let svg = suite_svg(&quarter());
    assert_well_formed(&svg);
    assert_closed(&svg);
    assert_eq!(points(&svg), 2 * 10 * 7 - 1);
    for name in ["hash_join", "geometric mean of 8 of 9", "plan density", "cxl-expander, 2 vCPUs, 25% fast memory"] {
        assert!(svg.contains(name), "{name}");
    }
}

#[test]
fn the_suite_as_markdown_looks_as_in_the_golden_file() {
    assert_golden("suite.md", &suite_markdown(&quarter()));
}

#[test]
fn means_are_geometric_and_only_of_programs_with_all_figures() {
    // 2x and 8x all-slow: the geometric mean is 4x.
    let mut all = [
        program(&["a"], "p", 64, 1.0, 2.0, 1.0),
        program(&["b"], "p", 64, 1.0, 8.0, 1.0),
        program(&["c"], "p", 64, 1.0, 9.0, 1.0),
    ];
    all[2].runs[1].code = 1;
    for c in &mut all {
        c.runs.truncate(2);
    }
    let markdown = suite_markdown(&all);
    assert!(markdown.contains("| *geometric mean of 2 of 3* |  |  | 4.00x |"), "{markdown}");
    assert!(markdown.contains("| c | 64 MiB | 1.0 s | exit 1 |"), "{markdown}");
}

#[test]
fn programs_of_one_name_are_told_apart() {
    let mut other = whole();
    other.command[1] = "20000".into();
    let markdown = suite_markdown(&[whole(), other]);
    assert!(markdown.contains("| ./cg 14000 7 |") && markdown.contains("| ./cg 20000 7 |"), "{markdown}");
}

#[test]
fn nothing_to_compare_is_said() {
    let mut c = whole();
    c.runs.truncate(2);
    c.footprint = Bytes(0);
    assert!(comparison_svg(&c).contains("nothing to draw"));
    assert_well_formed(&comparison_page(&c));
    assert_eq!(comparison(&c, 80).lines().count(), 3);
    c.runs.clear();
    assert!(comparison(&c, 80).contains("all-fast not run, all-slow not run"));
    for text in [comparison_page(&c), comparison_svg(&c), suite_page(&[c.clone()]), suite_svg(&[c]), suite_svg(&[])] {
        assert_well_formed(&text);
    }
    assert!(suite_markdown(&[]).contains("relative to all-fast"));
}
