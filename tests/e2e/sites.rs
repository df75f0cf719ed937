//! Sites are told apart by their whole call stack, survive a rebuild and need no symbols.

use hearth_tests::{Room, program};
use model::{Observed, SiteUse};
use std::collections::BTreeMap;
use std::fs;

/// Functions of a site's frames, innermost first, down to `main`.
fn functions(site: &SiteUse) -> String {
    let mut names = Vec::new();
    for line in site.site.frames.iter().flat_map(|f| &f.source) {
        names.push(line.function.as_str());
        if line.function == "main" {
            break;
        }
    }
    names.join(" ")
}

/// Call path -> objects, of the sites that come from the program itself.
fn objects_by_path(observed: &Observed) -> BTreeMap<String, u64> {
    let mut paths = BTreeMap::new();
    for site in &observed.sites {
        let path = functions(site);
        if path.starts_with("bottom") {
            *paths.entry(path).or_default() += site.objects;
        }
    }
    paths
}

#[test]
fn the_whole_stack_tells_sites_apart() {
    let room = Room::new();
    let deep = program("deep");
    let output = room.record(&["--sampler", "none"], "deep.hearth", &[&deep]).expect(0).stdout;
    let mut expected = BTreeMap::new();
    for line in output.lines() {
        let (objects, path) = line.split_once(' ').expect("a number and a path");
        expected.insert(path.to_string(), objects.parse().expect("a number"));
    }
    let observed = room.observed("deep.hearth");
    assert_eq!(objects_by_path(&observed), expected);
    // One site a path, even where frames have varying sizes.
    assert_eq!(observed.sites.iter().filter(|s| functions(s).starts_with("bottom")).count(), expected.len());
}

#[test]
fn a_stripped_program_has_the_same_sites() {
    let room = Room::new();
    let stripped = room.path("deep");
    fs::copy(program("deep"), &stripped).expect("copying a program");
    room.plain(&["strip", "--strip-all", stripped.to_str().expect("readable path")]).expect(0);
    let stripped = stripped.to_str().expect("readable path").to_string();
    room.record(&["--sampler", "none"], "full.hearth", &[&program("deep")]).expect(0);
    room.record(&["--sampler", "none"], "stripped.hearth", &[&stripped]).expect(0);
    // Objects by (offsets within the program), which stripping keeps.
    let offsets = |observed: &Observed| -> BTreeMap<Vec<u64>, u64> {
        let own = |s: &SiteUse| -> Vec<u64> {
            let of_program = |f: &&model::Frame| f.module.as_ref().is_some_and(|m| m.name() == "deep");
            s.site.frames.iter().filter(of_program).map(|f| f.offset).collect()
        };
        observed.sites.iter().filter(|s| own(s).len() > 2).map(|s| (own(s), s.objects)).collect()
    };
    let (full, stripped) = (offsets(&room.observed("full.hearth")), offsets(&room.observed("stripped.hearth")));
    assert!(full.len() >= 27, "only {} sites", full.len());
    assert_eq!(full, stripped);
}

#[test]
fn names_are_the_same_in_every_run() {
    let room = Room::new();
    let mut runs = Vec::new();
    for profile in ["one.hearth", "two.hearth"] {
        room.record(&["--sampler", "none"], profile, &[&program("deep")]).expect(0);
        let names: BTreeMap<_, _> = room
            .observed(profile)
            .sites
            .iter()
            .filter(|s| functions(s).starts_with("bottom"))
            .map(|s| (s.site.id, s.objects))
            .collect();
        assert!(!names.is_empty());
        runs.push(names);
    }
    assert_eq!(runs[0], runs[1]);
}

/// The beginnings of parallel regions are in the profile, with their function and in order; the program prints what it prints without.
#[test]
fn phases_begin_with_parallel_regions() {
    let room = Room::new();
    let command = [&*program("turns"), "4", "1000"];
    let plain = room.plain(&command).expect(0).stdout;
    assert_eq!(room.record(&["--sampler", "none"], "p.hearth", &command).expect(0).stdout, plain);
    let observed = room.observed("p.hearth");
    let told: Vec<_> = observed.regions.iter().map(|r| (r.number, r.frames[0].to_string())).collect();
    let numbers: Vec<u64> = told.iter().map(|(n, _)| *n).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert!(told.iter().all(|(_, frame)| frame.starts_with("main") && frame.contains("turns.c:")), "{told:?}");
    assert!(observed.regions.windows(2).all(|w| w[0].at < w[1].at && w[0].id == w[1].id));
    assert!(observed.sites.iter().all(|s| s.objects > 0), "a region is no site");
}

/// OpenMP's runtime came with a library that the program has loaded for itself alone: the call goes on to where it would have gone, also
/// from another library that came with that one and does not name the runtime.
#[test]
fn regions_of_a_loaded_library_find_their_runtime() {
    let room = Room::new();
    let script = format!(
        "import ctypes; f = ctypes.CDLL('{}').regions; f.restype = ctypes.c_double; print([f(1000 * k) for k in range(4)])",
        program("libregions.so")
    );
    let command = ["/usr/bin/python3", "-c", &script];
    let plain = room.plain(&command).expect(0).stdout;
    assert_eq!(plain, "[3.0, 499503.0, 1999003.0, 4498503.0]\n");
    assert_eq!(room.record(&["--sampler", "none"], "p.hearth", &command).expect(0).stdout, plain);
    let regions = room.observed("p.hearth").regions;
    let functions: std::collections::HashSet<_> = regions.iter().map(|r| r.frames[0].to_string()).collect();
    assert_eq!(functions.len(), 2, "{functions:?}");
    assert!(functions.iter().all(|f| f.starts_with("regions") || f.starts_with("inner")), "{functions:?}");
}

#[test]
fn large_objects_of_a_stack_are_told_apart_where_they_live_side_by_side() {
    let room = Room::new();
    room.record(&["--sampler", "none"], "p.hearth", &[&program("arrays")]).expect(0);
    let observed = room.observed("p.hearth");
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    let of = |function: &str| -> Vec<(String, u64)> {
        let named = |s: &&SiteUse| functions(s).starts_with(function);
        let sites = observed.sites.iter().filter(named);
        let mut all: Vec<_> =
            sites.map(|s| (labels[&s.site.id].split(')').nth(1).unwrap_or("?").to_string(), s.objects)).collect();
        all.sort();
        all
    };
    let told = |names: &[(&str, u64)]| names.iter().map(|(n, o)| (n.to_string(), *o)).collect::<Vec<_>>();
    assert_eq!(of("alloc_array"), told(&[(" #1", 1), (" #2", 3), (" #3", 1)]));
    assert_eq!(of("alloc_grown"), told(&[("", 4)]), "one that grows is one");
    assert_eq!(of("alloc_pooled"), told(&[("", 20)]), "too many to tell apart");
}
