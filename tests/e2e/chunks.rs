//! Large objects have their heat and their resident pages by place: where in them the program works is seen.

use hearth_tests::{Room, program};
use model::{Bytes, Chunk, SiteKind};

/// Records `chunks` with this eighth hot and looks at its object, of all kinds with the same eyes.
#[track_caller]
fn found_in(kind: SiteKind, name: &str, hot: usize) {
    let room = Room::new();
    // A cache that the hot eighth does not fit into.
    let command = [&program("chunks"), "30", name, &hot.to_string()];
    room.record(&["--sampler", "page-fault", "--llc", "4MiB"], "c.hearth", &command).expect(0);
    let observed = room.observed("c.hearth");
    let sites: Vec<_> = observed.sites.iter().filter(|s| s.site.kind == kind && s.samples > 0).collect();
    let [site] = sites[..] else { panic!("{} sites of the kind {kind:?} were sampled", sites.len()) };
    let shown = room.hearth(&["report", "c.hearth", "--site", &site.site.id.to_string()]).expect(0).stdout;
    println!("{shown}");
    // 128 MiB in chunks of 8 MiB, two for each eighth.
    let places: Vec<(Bytes, Bytes)> = site.chunks.iter().map(|c| (c.offset, c.peak)).collect();
    assert_eq!(places, (0..16).map(|n| (Bytes::mib(8 * n), Bytes::mib(8))).collect::<Vec<_>>());
    let misses: f64 = site.chunks.iter().map(Chunk::misses).sum();
    assert!((misses / site.misses() - 1.0).abs() < 1e-6, "{misses} of {}", site.misses());
    for (n, chunk) in site.chunks.iter().enumerate() {
        let (eighth, share) = (n / 2, chunk.misses() / site.misses());
        match eighth {
            // A half each; on a busy machine there are some two hundred samples of both, and the waiting times of one are longer.
            _ if eighth == hot => assert!((0.2..0.75).contains(&share), "chunk {n}: {share}"),
            _ => assert!(share < 0.12, "chunk {n}: {share}"),
        }
        // A huge page may reach from one eighth into the next.
        let resident = chunk.resident.expect("read back");
        if eighth == (hot + 4) % 8 {
            // A static array does not begin at a page: the next eighth's first bytes are on this one's last page.
            assert!(resident <= Bytes::mib(2) && chunk.samples <= u64::from(kind == SiteKind::Static), "{chunk:?}");
        } else {
            assert!(resident >= Bytes::mib(7), "{chunk:?}");
        }
    }
    assert!(shown.contains("~misses by place, 16 chunks of 8 MiB, in objects of 128 MiB to 256 MiB:"));
}

#[test]
fn a_mapping_that_is_hot_in_its_first_eighth_is_seen_so() {
    found_in(SiteKind::Mapping, "mapping", 0);
}

/// Address space that is opened bit by bit, as allocators do with their heaps.
#[test]
fn a_reserved_mapping_that_is_hot_in_its_third_eighth_is_seen_so() {
    found_in(SiteKind::Mapping, "reserved", 2);
}

#[test]
fn an_allocation_that_is_hot_in_its_middle_is_seen_so() {
    found_in(SiteKind::Allocation, "heap", 5);
}

#[test]
fn a_static_array_that_is_hot_at_its_end_is_seen_so() {
    found_in(SiteKind::Static, "static", 7);
}
