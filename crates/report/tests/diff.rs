//! Two profiles side by side: what is matched, what is said, and what is left out.

use crate::common::{assert_well_formed, fixture};
use hearth_report::{diff, diff_page, diff_table};
use model::{Bytes, Observed, PlannedTier, SiteId, Touch};

fn touch(site: Option<SiteId>, function: &str, loads: u64, latency: Option<f64>) -> Touch {
    let timed = if latency.is_some() { loads } else { 0 };
    let (module, file) = ("lmp".to_string(), String::new());
    Touch {
        site,
        function: function.into(),
        module,
        file,
        line: 0,
        loads,
        stores: 0,
        misses: 10.0 * loads as f64,
        timed,
        latency,
    }
}

/// The fixture before, and after with its hottest site in the fast tier.
fn both() -> (Observed, Observed) {
    let (mut before, mut after) = (fixture("lammps"), fixture("lammps"));
    let (hot, cold) = (before.sites[0].site.id, before.sites[1].site.id);
    before.touches = vec![
        touch(Some(hot), "compute", 600, Some(200.0)),
        touch(Some(cold), "compute", 200, Some(240.0)),
        touch(Some(cold), "fill", 195, None),
        touch(None, "rare", 5, None),
    ];
    after.touches = vec![touch(Some(hot), "compute", 600, Some(100.0)), touch(Some(cold), "fresh", 100, Some(50.0))];
    let tier = |name: &str, node| PlannedTier { name: name.into(), nodes: vec![node], dir: None, budget: None };
    after.tiers = vec![tier("dram", 0), tier("cxl", 1)];
    before.sites[1].nodes = vec![(1, Bytes(1 << 20))];
    after.sites[0].nodes = vec![(0, Bytes(1 << 20))];
    after.sites[1].nodes = vec![(0, Bytes(1 << 20)), (1, Bytes(3 << 20))];
    (before, after)
}

#[test]
fn functions_and_sites_are_compared() {
    let (before, after) = both();
    let d = diff(&before, &after);
    let function = |name: &str| d.functions.iter().find(|f| f.name == name).unwrap();
    let compute = function("compute");
    let (b, a) = (compute.before.as_ref().unwrap(), compute.after.as_ref().unwrap());
    assert_eq!((b.accesses, b.share, b.misses, b.latency), (800, 0.8, 8000.0, Some(210.0)));
    assert_eq!((a.accesses, a.latency), (600, Some(100.0)));
    assert!(function("fill").after.is_none() && function("fresh").before.is_none());
    assert_eq!(d.sites.len(), before.sites.len());
    let tiers = &d.sites[1].after.as_ref().unwrap().tiers;
    assert_eq!(tiers[..], [("dram".to_string(), 0.25), ("cxl".to_string(), 0.75)]);

    let tiers = &d.sites[1].before.as_ref().unwrap().tiers;
    assert_eq!(tiers[..], [("dram".to_string(), 0.0), ("cxl".to_string(), 1.0)], "the same nodes before the plan");

    for width in [80, 140] {
        let text = diff_table(&d, width, 5);
        assert!(text.contains("loads took 210 ns on average before and 93 ns after, 44%"), "{text}");
        assert!(text.contains("100 ns (48%)") && text.contains("dram 25.0%, cxl 75.0%"), "{text}");
        assert!(!text.contains("rare"), "half a percent of the accesses is not worth a line: {text}");
        assert!(text.contains(&format!("and {} more sites", before.sites.len() - 5)), "{text}");
    }
    let page = diff_page(&d);
    assert_well_formed(&page);
    assert!(page.contains("100 ns (48%)") && !page.contains("http://"));
    let json: serde_json::Value = serde_json::from_str(&d.json().unwrap()).unwrap();
    assert_eq!((&json["version"], &json["functions"][0]["name"]), (&1.into(), &"compute".into()));
}

#[test]
fn after_a_rebuild_sites_are_found_by_their_names_and_differences_are_said() {
    let (before, mut after) = both();
    let new = |id: SiteId| SiteId(!id.0);
    for site in &mut after.sites {
        site.site.id = new(site.site.id);
    }
    after.command.push("--more".into());
    after.sampler = "none".into();
    let gone = after.sites.remove(0);
    let d = diff(&before, &after);
    let missing: Vec<_> = d.sites.iter().filter(|s| s.after.is_none()).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].before.as_ref().unwrap().id, new(gone.site.id));
    assert!(d.sites.iter().filter_map(|s| s.before.as_ref().zip(s.after.as_ref())).all(|(b, a)| a.id == new(b.id)));
    let said = d.notes.join("\n");
    assert!(said.contains("different command lines") && said.contains("two samplers"), "{said}");
}

#[test]
fn profiles_that_say_nothing_of_functions_are_told() {
    let plain = fixture("one-site");
    let d = diff(&plain, &plain);
    let text = diff_table(&d, 100, 5);
    assert!(text.contains("says nothing of functions") && text.contains("no plan guided the run after"), "{text}");
}
