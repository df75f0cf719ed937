//! The page: whole, closed against the network and against names that would be markup, and small enough.

mod common;

use common::{assert_well_formed, fixture};
use hearth_report::html::page;
use model::{Bytes, Observed, SiteId};

#[test]
fn pages_are_well_formed_and_ask_nothing_of_the_network() {
    for name in ["lammps", "one-site"] {
        let page = page(&fixture(name));
        assert_well_formed(&page);
        for word in ["http://", "https://", "src=", "@import", "url(", "<link", "fetch(", "//cdn"] {
            assert!(!page.contains(word), "{word} in {name}");
        }
        assert!(page.contains("default-src 'none'"));
        assert!(!page.contains("NaN") && !page.contains("inf\"") && !page.contains("\"inf"), "{name}");
    }
}

#[test]
fn every_site_has_a_mark_and_a_row() {
    let lammps = fixture("lammps");
    let page = page(&lammps);
    for site in &lammps.sites {
        let id = site.site.id;
        assert_eq!(page.matches(&format!("<tr id=\"s{id}\">")).count(), 1);
        assert!(page.matches(&format!("href=\"#s{id}\"")).count() >= 1);
    }
    assert_eq!(page.matches("<a class=\"mark ").count(), lammps.sites.len());
    assert!(page.contains("~96.2% of the misses fall on 4 of 24 sites"));
}

#[test]
fn hostile_names_stay_names() {
    let mut evil = fixture("lammps");
    let attack =
        "</title></script><script>alert(1)</script><img src=x onerror=alert(1)>\" onload=\"alert(1)'&lt;\0\u{1b}";
    evil.command.push(attack.to_string());
    evil.outcome = attack.to_string();
    evil.sampler = attack.to_string();
    evil.losses[0].note = attack.to_string();
    for frame in evil.sites.iter_mut().flat_map(|s| &mut s.site.frames) {
        if let Some(module) = &mut frame.module {
            module.path = format!("/x/{attack}");
        }
        for line in &mut frame.source {
            line.function = attack.to_string();
            line.file = attack.to_string();
        }
    }
    let page = page(&evil);
    assert_well_formed(&page);
    assert_eq!(page.matches("<script").count(), 1);
    assert!(!page.contains("<img") && !page.contains("\" onload=") && !page.contains('\0'));
    assert!(page.contains("&lt;script&gt;alert(1)"));
}

/// The fixture's sites over and over.
fn many(count: u64) -> Observed {
    let mut seen = fixture("lammps");
    let models = seen.sites.clone();
    seen.sites = (0..count)
        .map(|n| {
            let mut site = models[n as usize % models.len()].clone();
            site.site.id = SiteId(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            site.peak = Bytes(4096 + n * n % 77_777_777);
            site.load_misses *= (n % 97) as f64 / 97.0;
            site
        })
        .collect();
    let ids: Vec<SiteId> = seen.sites.iter().map(|s| s.site.id).collect();
    for point in &mut seen.timeline {
        point.live = ids.iter().map(|id| (*id, Bytes(10_000))).collect();
        point.misses = ids.iter().map(|id| (*id, 5.0)).collect();
    }
    seen
}

#[test]
fn five_thousand_sites_make_a_page_a_browser_can_open() {
    let page = page(&many(5000));
    assert_well_formed(&page);
    assert_eq!(page.matches("<tr id=").count(), 5000);
    assert!(page.len() < 8 << 20, "{} bytes", page.len());
}

#[test]
fn nothing_to_draw_is_said() {
    let mut empty = fixture("one-site");
    empty.sites.clear();
    empty.timeline.clear();
    let page = page(&empty);
    assert_well_formed(&page);
    assert!(page.contains("there is nothing to draw"));
}
