//! The page: whole, closed against the network and against names that would be markup, and small enough.

use crate::common::{assert_well_formed, cut, fixture, hostile, many};
use hearth_report::html::page;

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

/// A browser would break the line before the `in` of `-in`.
#[test]
fn words_of_the_command_stay_whole() {
    let page = page(&fixture("lammps"));
    assert!(page.contains("<h1><span>lmp</span> <span>-in</span> <span>in.melt</span>"));
    assert!(page.contains("h1 span { display: inline-block; max-width: 100%; }"));
    let hostile = hearth_report::html::page(&hostile());
    let title = hostile.split("<h1>").nth(1).and_then(|t| t.split("</h1>").next()).expect("a title");
    assert!(!title.replace("<span>", "").replace("</span>", "").contains('<'), "{title}");
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
fn large_objects_have_a_strip_for_each_size_class() {
    let page = page(&cut());
    assert_well_formed(&page);
    let strips: Vec<&str> = page.split("<svg class=\"strip\"").skip(1).collect();
    assert_eq!(strips.len(), 2);
    assert!(strips[1].contains("4 chunks of 8 MiB, in objects of 128 MiB to 256 MiB"), "{}", strips[1]);
    let hottest = strips[0].find("fill-opacity=\"1.000\"").expect("one is the hottest");
    assert_eq!(strips[0][..hottest].matches("class=\"chunk\"").count(), 3, "the third");
    assert!(strips[0].contains("at 8 MiB: ~48.3% of the misses; 8 MiB alive, 4 MiB resident"), "{}", strips[0]);
}

#[test]
fn hostile_names_stay_names() {
    let page = page(&hostile());
    assert_well_formed(&page);
    assert_eq!(page.matches("<script").count(), 2);
    assert!(!page.contains("<img") && !page.contains('\0'));
    // In the JSON a quotation mark ends nothing that a browser would read.
    let (start, end) = (page.find("<script type").unwrap(), page.find("</script>").unwrap());
    assert!(!page[..start].contains("\" onload=") && !page[end..].contains("\" onload="));
    assert!(page.contains("&lt;script&gt;alert(1)"));
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
