//! memkind's kinds on a machine with two tiers: each lies where its name says, also by way of OpenMP's libraries.

use crate::placement::{pages, share};
use hearth_tests::lab::Lab;
use hearth_tests::{Ended, not_tested, program, programs, run};
use std::fs;
use std::process::Command;

/// The program itself asks the kernel where its pages are, of each kind.
#[test]
fn each_kind_lies_where_its_name_says() {
    let lab = Lab::enter_beside();
    let (ended, _) = lab.run(&["--fast", "64MiB"], &[&program("memkind")]);
    assert!(ended.stdout.ends_with("all as expected\n"), "{}", ended.stdout);
}

/// Runs `omp_spaces` of a compiler, with Hearth's memkind on the loader's path.
fn spaces(lab: &Lab, compiler: &str) -> Ended {
    let path = format!("LD_LIBRARY_PATH={}", programs().display());
    let (ended, _) = lab
        .run(&["--fast", "64MiB"], &["/usr/bin/env", &path, "OMP_NUM_THREADS=2", &program(&format!("omp_{compiler}"))]);
    assert!(ended.stdout.ends_with("sum 499500\n"), "{}", ended.stdout);
    ended
}

fn lies_as_wished(ended: &Ended) {
    for (array, node) in [("hot", 0), ("cold", 1), ("table", 0)] {
        let on = share(pages(ended, array, false), node);
        println!("{array} on node {node}: {on}");
        assert!(on >= 0.99, "{}", ended.stdout);
    }
}

#[test]
fn llvms_openmp_reaches_fast_memory() {
    let lab = Lab::enter_beside();
    lies_as_wished(&spaces(&lab, "clang"));
}

/// GNU's knows memkind's name since GCC 13.
#[test]
fn gnus_openmp_reaches_fast_memory() {
    let lab = Lab::enter_beside();
    let library = run(Command::new("gcc").arg("-print-file-name=libgomp.so.1")).expect(0).stdout;
    let ended = spaces(&lab, "gcc");
    let library = fs::read(library.trim()).expect("GNU's OpenMP library");
    if library.windows(15).any(|bytes| bytes == b"libmemkind.so.0") {
        lies_as_wished(&ended);
    } else {
        not_tested("where GNU's OpenMP library puts memory, as before GCC 13 it does not use memkind", false);
    }
}
