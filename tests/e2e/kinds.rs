//! Objects that no malloc made: static variables, and anonymous mappings of the program's own with all that may happen to
//! them.

use hearth_tests::{Ended, Room, not_tested, program};
use model::{Bytes, Observed, SiteKind, SiteUse};

fn labelled<'a>(observed: &'a Observed, start: &str) -> Vec<&'a SiteUse> {
    observed.sites.iter().filter(|s| s.site.label().starts_with(start)).collect()
}

#[test]
fn static_variables_are_objects_with_their_size_and_residency() {
    let room = Room::new();
    room.record(&["--sampler", "none"], "k.hearth", &[&program("kinds"), "2"]).expect(0);
    let observed = room.observed("k.hearth");
    for (name, mib) in [("hot_table", 12), ("cold_table", 24), ("begun_table", 1)] {
        let found = labelled(&observed, &format!("static {name} [kinds]"));
        let [site] = found[..] else { panic!("{name}: {found:?}") };
        assert_eq!((site.site.kind, site.peak, site.objects), (SiteKind::Static, Bytes::mib(mib), 1));
        // All of it was written; what was written last may not have been read any more.
        if name == "cold_table" {
            let resident = site.resident.expect("read back").0;
            assert!(resident >= Bytes::mib(mib).0 * 9 / 10, "{name}: {resident}");
        }
    }
    // Over time too, and as the kernel sums it up: all three, and little else.
    let table = labelled(&observed, "static hot_table")[0].site.id;
    let over_time = observed.timeline.iter().flat_map(|p| &p.resident).filter(|r| r.0 == table).map(|r| r.1.0);
    assert!(over_time.max() >= Some(Bytes::mib(11).0), "{:?}", observed.timeline.last());
    let fullest = observed.fullest.expect("the kernel tells it");
    assert!(fullest.anonymous >= Bytes::mib(36) && fullest.anonymous < Bytes::mib(64), "{fullest:?}");
    assert!(fullest.huge <= fullest.anonymous, "{fullest:?}");
    let most = observed.most_anonymous.expect("told at the end");
    assert!(most.0 >= fullest.anonymous.0 * 9 / 10 && most < Bytes::mib(64), "{most:?} {fullest:?}");
    // Nothing of the runtime itself, and no small things.
    let own = |s: &SiteUse| s.site.frames.iter().flat_map(|f| &f.module).any(|m| m.name() == "libhearth.so");
    assert!(!observed.sites.iter().any(own));
    assert!(labelled(&observed, "static other data").is_empty());
}

/// What the kernel says of huge pages is told: of the whole run, over time, and in a picture.
#[test]
fn memory_on_huge_pages_is_told() {
    let room = Room::new();
    let alone: u64 = room.plain(&[&program("huge")]).expect(0).stdout.trim().parse().expect("MiB");
    if alone < 24 {
        let offered = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
        let why = format!(
            "the kernel gives no huge pages here ({alone} MiB of 32; transparent_hugepage: {})",
            offered.trim()
        );
        not_tested(&why, false);
        return;
    }
    room.record(&["--sampler", "none"], "h.hearth", &[&program("huge")]).expect(0);
    let observed = room.observed("h.hearth");
    let fullest = observed.fullest.expect("the kernel tells it");
    assert!(fullest.huge >= Bytes::mib(24) && fullest.huge <= fullest.anonymous, "{fullest:?}");
    let over_time = observed.timeline.iter().map(|p| p.huge).max();
    assert!(over_time >= Some(Bytes::mib(24)), "{over_time:?}");
    let shown = room.hearth(&["report", "h.hearth"]).expect(0).stdout;
    assert!(shown.contains(&format!("{} of it on huge pages", fullest.huge)), "{shown}");
    room.hearth(&["report", "h.hearth", "--html", "h.html"]).expect(0);
    let page = std::fs::read_to_string(room.path("h.html")).expect("the page");
    assert!(page.contains("<title>all memory of the program on huge pages</title>"));
}

/// To arm a page of a huge one splits that. It is put together again.
#[test]
fn huge_pages_stay_huge_under_the_sampler() {
    let room = Room::new();
    let mib = |ended: &Ended| ended.stdout.trim().parse::<u64>().expect("MiB");
    let alone = mib(&room.plain(&[&program("huge")]).expect(0));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("the kernel's release");
    let number = |n: usize| release.split('.').nth(n).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    if alone < 24 || [number(0), number(1)] < [6, 7] {
        let why = format!(
            "no huge pages ({alone} MiB of 32) or a kernel before 6.7 ({}), which does not tell them",
            release.trim()
        );
        not_tested(&why, false);
        return;
    }
    let recorded = mib(&room.record(&["--sampler", "page-fault"], "h.hearth", &[&program("huge")]).expect(0));
    let samples: u64 = room.observed("h.hearth").sites.iter().map(|s| s.samples).sum();
    // On a busy machine there are fewer.
    assert!(samples >= 8, "only {samples} samples");
    // A quarter may be split at a time.
    assert!(recorded >= alone * 7 / 8, "{recorded} MiB on huge pages instead of {alone}, after {samples} samples");
}

/// However short the moment, and with nothing left to be read at the end.
#[test]
fn what_was_given_back_before_the_end_was_there() {
    let room = Room::new();
    let script = "b = bytearray(48 << 20)\nb[::4096] = b'x' * (12 << 10)\ndel b";
    room.record(&["--sampler", "none"], "brief.hearth", &["python3", "-c", script]).expect(0);
    let most = room.observed("brief.hearth").most_anonymous.expect("told at the end");
    assert!((Bytes::mib(48)..Bytes::mib(96)).contains(&most), "{most:?}");
}

#[test]
fn a_stripped_program_has_its_data_without_names_and_a_rebuilt_one_the_same_sites() {
    let room = Room::new();
    let stripped = room.path("kinds");
    std::fs::copy(program("kinds"), &stripped).expect("copying a program");
    let path = stripped.to_str().expect("readable path").to_string();
    room.record(&["--sampler", "none"], "copy.hearth", &[&path, "0"]).expect(0);
    room.plain(&["strip", "--strip-all", &path]).expect(0);
    room.record(&["--sampler", "none"], "stripped.hearth", &[&path, "0"]).expect(0);
    room.record(&["--sampler", "none"], "k.hearth", &[&program("kinds"), "0"]).expect(0);
    let (named, copy, bare) =
        (room.observed("k.hearth"), room.observed("copy.hearth"), room.observed("stripped.hearth"));
    let id = |o: &Observed| labelled(o, "static hot_table").first().map(|s| s.site.id);
    assert!(id(&named).is_some() && id(&named) == id(&copy));
    assert_eq!(id(&bare), None);
    let rest = labelled(&bare, "static other data [kinds]");
    assert!(rest[0].peak >= Bytes::mib(37), "{:?}", rest[0].peak);
}

/// Also in a program built for large files, for which the C library's `mmap` is `mmap64` (Python, Java).
#[test]
fn a_mapping_is_an_object_through_mremap_munmap_and_map_fixed() {
    for name in ["kinds", "kinds64"] {
        let room = Room::new();
        room.record(&["--sampler", "none"], "k.hearth", &[&program(name), "4"]).expect(0);
        let observed = room.observed("k.hearth");
        let grid = labelled(&observed, "map_grid (kinds.c");
        let [grid] = grid[..] else { panic!("{grid:?}") };
        assert_eq!((grid.site.kind, grid.peak), (SiteKind::Mapping, Bytes::mib(12)));
        let again = labelled(&observed, "map_again (kinds.c");
        let [again] = again[..] else { panic!("{again:?}") };
        assert_eq!((again.site.kind, again.peak, again.objects), (SiteKind::Mapping, Bytes::mib(1), 1));
        // 12 MiB less the middle 4 and the first 1, which is another's now.
        let last = observed.timeline.iter().rfind(|p| !p.live.is_empty()).expect("a timeline");
        let live = |site: &SiteUse| last.live.iter().find(|(id, _)| *id == site.site.id).map(|(_, bytes)| *bytes);
        assert_eq!((live(grid), live(again)), (Some(Bytes::mib(7)), Some(Bytes::mib(1))), "{last:?}");
    }
}

/// Advice takes pages and leaves the mapping: it stays one object, of its whole size, and readings say that pages went.
#[test]
fn a_mapping_stays_an_object_through_advice_and_a_move() {
    let room = Room::new();
    let command = [&*program("advised")];
    let plain = room.plain(&command).expect(0);
    let recorded = room.record(&["--sampler", "none"], "a.hearth", &command).expect(0);
    assert_eq!(recorded.stdout, plain.stdout);
    let observed = room.observed("a.hearth");
    let table = labelled(&observed, "map_table (advised.c");
    let [table] = table[..] else { panic!("{table:?}") };
    assert_eq!((table.site.kind, table.peak, table.objects), (SiteKind::Mapping, Bytes::mib(24), 2), "{table:?}");
    let id = table.site.id;
    let at = |all: &[(model::SiteId, Bytes)]| all.iter().find(|(site, _)| *site == id).map_or(0, |(_, b)| b.0 >> 20);
    // From the moment it was written: MiB alive, and resident.
    let over_time: Vec<(u64, u64)> = observed.timeline.iter().map(|p| (at(&p.live), at(&p.resident))).collect();
    let mut steps = over_time.clone();
    steps.dedup();
    let has = |wanted: &[(u64, u64)]| {
        let mut rest = steps.iter();
        wanted.iter().all(|w| rest.any(|s| s == w))
    };
    assert!(has(&[(16, 16), (16, 8), (24, 24), (24, 0)]), "{steps:?}");
    assert!(over_time.iter().skip_while(|p| p.0 == 0).all(|p| p.0 >= 16), "it was alive all the time: {steps:?}");
    // The page-fault sampler arms and opens pages that go and come.
    let options = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];
    assert_eq!(room.record(&options, "b.hearth", &command).expect(0).stdout, plain.stdout);
    assert_eq!(room.guided("a.hearth", "64MiB", &command).expect(0).stdout, plain.stdout);
}

#[test]
fn common_blocks_and_variables_of_libraries_are_recorded_and_planned() {
    let room = Room::new();
    let command = [&*program("common_f90")];
    let plain = room.plain(&command).expect(0);
    assert_eq!(room.record(&["--sampler", "none"], "c.hearth", &command).expect(0).stdout, plain.stdout);
    let observed = room.observed("c.hearth");
    let names = ["static grid_ [common_f90]", "static library_table [liblibrary_table.so]"];
    for (name, bytes) in names.into_iter().zip([12_000_000, 8 << 20]) {
        let found = labelled(&observed, name);
        let [site] = found[..] else { panic!("{name}: {found:?}") };
        assert_eq!((site.site.kind, site.peak, site.objects), (SiteKind::Static, Bytes(bytes), 1));
        assert!(site.resident.expect("read back").0 >= bytes * 9 / 10, "{name}: {:?}", site.resident);
    }
    room.hearth(&["plan", "c.hearth", "--policy", "first-served", "--fast", "64MiB", "-o", "plan.toml"]).expect(0);
    let guided = room.hearth(&["run", "--plan", "plan.toml", "--json", "landing.json", "--", command[0]]).expect(0);
    assert_eq!(guided.stdout, plain.stdout);
    let text = std::fs::read_to_string(room.path("landing.json")).expect("the landing");
    let landing: model::Landing = serde_json::from_str(&text).expect("JSON");
    for name in names {
        let site = landing.sites.iter().find(|s| s.label.starts_with(name));
        let site = site.unwrap_or_else(|| panic!("{name}: {landing:?}"));
        let present: u64 = site.resident.iter().filter(|(node, _)| *node >= 0).map(|(_, bytes)| bytes.0).sum();
        assert!(present > 7 << 20, "read back from the kernel: {site:?}");
    }
    assert!(landing.unmatched.is_empty(), "{:?}", landing.unmatched);
}

#[test]
fn the_program_does_the_same_under_a_plan() {
    let room = Room::new();
    let plain = room.plain(&[&program("kinds"), "1"]).expect(0);
    room.record(&["--sampler", "none"], "k.hearth", &[&program("kinds"), "1"]).expect(0);
    let options = ["--policy", "first-served", "--platform", "cxl-expander", "--fast", "20MiB", "-o", "plan.toml"];
    room.hearth(&[&["plan", "k.hearth"], &options[..]].concat()).expect(0);
    let text = std::fs::read_to_string(room.path("plan.toml")).expect("the plan");
    assert!(text.contains("kind = \"static\"") && text.contains("kind = \"mapping\""), "{text}");
    let guided = room.hearth(&["run", "--plan", "plan.toml", "--json", "landing.json", "--", &program("kinds"), "1"]);
    assert_eq!(guided.expect(0).stdout, plain.stdout);
    let text = std::fs::read_to_string(room.path("landing.json")).expect("the landing");
    let landing: model::Landing = serde_json::from_str(&text).expect("JSON");
    for start in ["static hot_table", "static cold_table", "map_grid"] {
        assert!(landing.sites.iter().any(|s| s.label.starts_with(start)), "{start}: {landing:?}");
    }
    assert!(landing.unmatched.is_empty(), "{:?}", landing.unmatched);
}

#[test]
fn the_page_fault_sampler_sees_static_variables_and_mappings() {
    let room = Room::new();
    // With a cache that holds neither.
    let options = ["--sampler", "page-fault", "--llc", "4MiB", "--overhead", "20"];
    room.record(&options, "k.hearth", &[&program("kinds"), "80"]).expect(0);
    let observed = room.observed("k.hearth");
    let misses = |s: &SiteUse| s.load_misses + s.store_misses;
    let all: f64 = observed.sites.iter().map(misses).sum();
    let share = |start: &str| labelled(&observed, start).into_iter().map(misses).sum::<f64>() / all;
    let (hot, grid, cold) = (share("static hot_table"), share("map_grid"), share("static cold_table"));
    println!("hot_table {hot}, map_grid {grid}, cold_table {cold}");
    // Of the loads the mapping has an eighth as many, and it lives half as long as the others.
    assert!(hot > 0.8 && grid > 0.01 && cold < 0.02, "{hot}, {grid}, {cold}");
}

/// So many pages are armed that what can go wrong does.
const MANY_FAULTS: [&str; 6] = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];

#[test]
fn nothing_happens_to_mappings_whose_pages_are_armed() {
    let room = Room::new();
    let ended = room.record(&MANY_FAULTS, "m.hearth", &[&program("mappings"), "4"]).expect(0);
    assert_eq!(ended.stdout, "mappings: right, interrupted often\n");
    let observed = room.observed("m.hearth");
    let samples: u64 = labelled(&observed, "map (mappings.c").iter().map(|s| s.samples).sum();
    assert!(samples > 100, "only {samples} samples of mappings");
}

/// The kernel puts the frames of signals on the stack that the program stands on, and ends a program where it cannot.
#[test]
fn signals_arrive_on_the_stack_of_a_coroutine() {
    let room = Room::new();
    let ended = room.record(&MANY_FAULTS, "c.hearth", &[&program("coroutines"), "4"]).expect(0);
    assert_eq!(ended.stdout, "coroutines: right, interrupted often\n");
}
