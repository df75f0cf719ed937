//! Machines nobody here has: hwloc XML in, the printed platform out.
//!
//! `tests/topologies/NAME.xml` is the machine, `NAME.txt` and `NAME.json` what `hearth platform --topology` prints for it
//! on 80 columns. After a wanted change, run the tests with `HEARTH_BLESS=1` and read the difference.

use hearth_platform as platform;
use model::{Origin, Platform, Space, TierKind};
use std::fs;
use std::path::PathBuf;

fn path(name: &str, ending: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/topologies/{name}.{ending}"))
}

/// Loads a machine and compares what is printed with what is expected.
fn machine(name: &str) -> Platform {
    let p = platform::described(path(name, "xml").to_str().unwrap()).unwrap();
    let text = platform::text::platform(&p, 80);
    assert!(text.lines().all(|l| l.chars().count() <= 80), "{name} fits 80 columns:\n{text}");
    golden(&path(name, "txt"), &text);
    golden(&path(name, "json"), &(platform::json::platform(&p, None) + "\n"));
    p
}

fn golden(file: &PathBuf, actual: &str) {
    if std::env::var_os("HEARTH_BLESS").is_some() {
        fs::write(file, actual).unwrap();
    }
    let expected = fs::read_to_string(file).unwrap_or_default();
    assert!(actual == expected, "{} differs; now it is\n{actual}", file.display());
}

/// Name, kind and nodes of every tier, fastest first.
fn tiers(p: &Platform) -> Vec<(&str, TierKind, &[u32])> {
    p.tiers.iter().map(|t| (t.name.as_str(), t.kind.value, t.nodes.as_slice())).collect()
}

fn spaces(p: &Platform) -> [&str; 3] {
    [Space::HighestBandwidth, Space::LowestLatency, Space::LargestCapacity].map(|s| p.space(s).unwrap().name.as_str())
}

#[test]
fn one_node() {
    assert_eq!(tiers(&machine("one-node")), [("dram", TierKind::Dram, &[0][..])]);
}

#[test]
fn two_equal_sockets_are_one_tier() {
    assert_eq!(tiers(&machine("two-sockets")), [("dram", TierKind::Dram, &[0, 1][..])]);
}

#[test]
fn knl_flat_snc4() {
    let p = machine("knl-flat-snc4");
    let expected = [("hbm", TierKind::Hbm, &[4, 5, 6, 7][..]), ("dram", TierKind::Dram, &[0, 1, 2, 3][..])];
    assert_eq!(tiers(&p), expected);
    assert_eq!(spaces(&p), ["hbm", "dram", "dram"], "bandwidth, latency, capacity");
}

#[test]
fn cascade_lake_with_optane() {
    let p = machine("cascade-lake-optane");
    assert_eq!(tiers(&p), [("dram", TierKind::Dram, &[0, 1][..]), ("nvm", TierKind::Nvm, &[2, 3][..])]);
    assert_eq!(spaces(&p), ["dram", "dram", "nvm"]);
}

#[test]
fn xeon_max_snc4_flat() {
    let p = machine("xeon-max-snc4-flat");
    let (dram, hbm): (Vec<u32>, Vec<u32>) = ((0..8).collect(), (8..16).collect());
    assert_eq!(tiers(&p), [("hbm", TierKind::Hbm, &hbm[..]), ("dram", TierKind::Dram, &dram[..])]);
}

#[test]
fn hbm_only_is_recognised_by_the_processor() {
    let p = machine("xeon-max-hbm-only");
    assert_eq!(tiers(&p), [("hbm", TierKind::Hbm, &[0, 1, 2, 3][..])]);
    assert_eq!(p.tiers[0].kind.origin, Origin::Library);
}

#[test]
fn cxl_expander() {
    let p = machine("cxl-expander");
    assert_eq!(tiers(&p), [("dram", TierKind::Dram, &[0][..]), ("cxl", TierKind::Cxl, &[1][..])]);
    assert_eq!(p.tiers[1].kind.origin, Origin::Hwloc);
}

#[test]
fn an_unnamed_slow_node_is_taken_for_cxl_and_says_that_it_is_a_guess() {
    let p = machine("cxl-expander-unnamed");
    assert_eq!(tiers(&p), [("dram", TierKind::Dram, &[0][..]), ("cxl", TierKind::Cxl, &[1][..])]);
    assert_eq!(p.tiers[1].kind.origin, Origin::Predicted);
}

#[test]
fn grace_hopper_has_gpu_memory_and_no_empty_nodes() {
    let p = machine("grace-hopper");
    assert_eq!(tiers(&p), [("dram", TierKind::Dram, &[0][..]), ("gpu", TierKind::Gpu, &[1][..])]);
}

#[test]
fn synthetic_descriptions_work_and_nonsense_is_said() {
    let p = platform::described("pack:2 [numa(memory=1GiB)] core:2 pu:1").unwrap();
    assert_eq!(tiers(&p), [("dram", TierKind::Dram, &[0, 1][..])]);
    let message = platform::described("no such thing").unwrap_err().to_string();
    assert!(message.contains("synthetic") && !message.contains('\n'), "{message}");
}
