//! Allocation itself: glibc's behaviour at the edges, case by case, and long torture.

use crate::own;

/// Sizes of nothing and of everything, bad alignments, overflows: what is answered, errno, and what is left alone.
#[test]
fn edges() {
    let observed = own("edges", &[]);
    assert!(!observed.sites.is_empty(), "nothing was managed");
}

#[test]
fn torture() {
    let observed = own("torture", &["--threads", "4", "--ops", "50000", "--forks", "4"]);
    assert!(observed.processes >= 5, "the forked processes were not observed");
}

/// Large objects that grow and have to move, under every mode; a guided run and a sampled one take their pages along.
#[test]
fn growing() {
    let observed = own("growing", &["4", "20"]);
    assert!(observed.sites.iter().any(|s| s.objects > 500), "realloc was not observed");
}

/// Six million operations in all.
#[test]
#[ignore = "slow"]
fn long_torture() {
    own("torture", &["--threads", "2", "--ops", "1000000", "--forks", "10", "--seed", "7"]);
    own("torture", &["--threads", "16", "--ops", "250000", "--forks", "20", "--seed", "8"]);
}
