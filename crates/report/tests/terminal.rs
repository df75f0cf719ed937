//! What the terminal shows, against golden files, and the rules no golden file can hold.

use crate::common::{assert_golden, cut, fixture};
use hearth_report as report;
use unicode_width::UnicodeWidthStr;

#[test]
fn tables_look_as_in_the_golden_files() {
    let lammps = fixture("lammps");
    for width in [80, 100, 160] {
        assert_golden(&format!("lammps-{width}.txt"), &report::table(&lammps, width, 12));
    }
    assert_golden("one-site-80.txt", &report::table(&fixture("one-site"), 80, 20));
}

/// A sampler that sees all memory tells what the misses hit that hit no object.
#[test]
fn what_hit_no_object_is_told_by_kind() {
    let mut seen = fixture("lammps");
    seen.sampler = "lab".to_string();
    seen.unattributed = 0.0731;
    let kinds = [
        ("stack", 0.041),
        ("heap", 0.0198),
        ("anonymous", 0.0061),
        ("data", 0.0057),
        ("file", 0.0004),
        ("other", 0.0001),
    ];
    seen.elsewhere = kinds.map(|(place, share)| (place.to_string(), share)).into();
    assert_golden("elsewhere-100.txt", &report::table(&seen, 100, 3));
}

#[test]
fn tables_fit_the_terminal_and_have_no_escape_codes() {
    for name in ["lammps", "one-site"] {
        for width in 80..=200 {
            let table = report::table(&fixture(name), width, 20);
            for line in table.lines() {
                assert!(line.width() <= width, "{} columns of {width}: {line}", line.width());
                assert_eq!(line, line.trim_end());
            }
            assert!(!table.contains('\x1b'));
        }
    }
}

#[test]
fn a_site_names_the_functions_that_touch_it() {
    let mut o = fixture("lammps");
    let touch = |site: usize, function: &str, loads, latency| model::Touch {
        site: Some(o.sites[site].site.id),
        function: function.to_string(),
        module: "lmp".to_string(),
        file: String::new(),
        line: 0,
        loads,
        stores: 0,
        misses: 0.0,
        timed: 1,
        latency,
    };
    o.touches = vec![touch(0, "compute", 75, Some(180.4)), touch(0, "", 25, None), touch(1, "elsewhere", 9, None)];
    let text = report::site(&o, &o.sites[0]);
    assert!(
        text.contains("  touched by:\n   75.0%  compute, loads take 180 ns\n   25.0%  code in no file\n"),
        "{text}"
    );
    assert!(!text.contains("elsewhere"), "{text}");
}

#[test]
fn names_cannot_steer_the_terminal() {
    let mut evil = fixture("lammps");
    evil.command.push("\x1b[2J".to_string());
    for site in &mut evil.sites {
        for frame in &mut site.site.frames {
            frame.source.iter_mut().for_each(|l| l.function = "f\x1b]0;pwned\x07\n".to_string());
        }
    }
    let shown = report::table(&evil, 100, 20) + &report::site(&evil, &evil.sites[0]);
    assert!(shown.contains("f?]0;pwned??") && !shown.contains('\x1b') && !shown.contains('\x07'), "{shown}");
}

#[test]
fn the_rest_is_summed_so_that_nothing_is_lost() {
    let lammps = fixture("lammps");
    let all = report::table(&lammps, 160, 1000);
    assert!(!all.contains("further site"));
    assert_eq!(
        all.lines().filter(|l| l.contains("  stream ") || l.contains("  random ") || l.contains("  mixed ")).count(),
        lammps.sites.iter().filter(|s| s.pattern != model::Pattern::Unknown).count()
    );
    let none = report::table(&lammps, 160, 0);
    assert!(none.contains(&format!("{} further sites", lammps.sites.len())) && none.contains("100%"), "{none}");
}

#[test]
fn a_profile_without_sites_is_still_told() {
    let mut empty = fixture("one-site");
    empty.sites.clear();
    empty.timeline.clear();
    let table = report::table(&empty, 80, 20);
    assert!(table.contains("0 sites with allocations of 4 KiB or more"), "{table}");
}

#[test]
fn one_site_looks_as_in_the_golden_file() {
    let lammps = fixture("lammps");
    let hottest = report::find(&lammps, &lammps.sites[0].site.id.to_string()[..6].to_uppercase()).unwrap();
    assert_golden("lammps-site.txt", &report::site(&lammps, hottest));
    let one = fixture("one-site");
    assert_golden("one-site-site.txt", &report::site(&one, &one.sites[0]));
}

#[test]
fn large_objects_are_shown_by_place() {
    let mut cut = cut();
    assert_golden("chunks-site.txt", &report::site(&cut, &cut.sites[0]));
    cut.sites[0].samples = 0;
    let unsampled = report::site(&cut, &cut.sites[0]);
    assert!(unsampled.lines().any(|l| l.split_whitespace().take(3).eq(["0", "B", "-"])), "{unsampled}");
}

#[test]
fn a_site_that_is_not_there_or_not_alone_is_said() {
    let mut lammps = fixture("lammps");
    for missing in ["", "zz", "0000000000000000"] {
        assert!(matches!(report::find(&lammps, missing), Err(report::NoSite::Unknown(_))), "{missing}");
    }
    lammps.sites[1].site.id = model::SiteId(lammps.sites[0].site.id.0 ^ 1);
    let prefix = lammps.sites[0].site.id.to_string()[..15].to_string();
    let error = report::find(&lammps, &prefix).unwrap_err().to_string();
    assert!(error.starts_with(&format!("`{prefix}` begins the ids of 2 sites; give more digits")), "{error}");
}

#[test]
fn json_reads_back_and_has_a_version() {
    for seen in [cut(), fixture("one-site")] {
        let json = report::json(&seen).unwrap();
        assert_eq!(serde_json::from_str::<model::Observed>(&json).unwrap(), seen);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["version"], report::JSON_VERSION);
        assert!(value["sites"][0]["load_misses"].is_number());
    }
}
