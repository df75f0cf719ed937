//! Programs do the same recorded and guided as alone: the project's own, and three of the distribution.

use hearth_tests::{Room, not_tested, program, programs, require_tool, workspace};

#[test]
fn c_with_threads() {
    let observed = Room::new().same(&[&program("threads_c"), "--work", "20000"]);
    assert!(observed.sites.len() >= 3, "only {} sites", observed.sites.len());
}

#[test]
fn cpp_with_threads() {
    Room::new().same(&[&program("threads_cpp"), "--work", "3000"]);
}

#[test]
fn fortran_with_threads() {
    Room::new().same(&[&program("threads_f90")]);
}

#[test]
fn every_allocation_function() {
    Room::new().same(&[&program("allocs")]);
}

/// The program does the same while the page-fault sampler arms as much as it can. At what it may cost by default most of such a program's time
/// is a pause, in which nothing could go wrong.
fn the_same_with_many_armed_pages(command: &[&str], least: u64) {
    let room = Room::new();
    let alone = room.plain(command).expect(0);
    let options = ["--sampler", "page-fault", "--faults-per-second", "20000", "--overhead", "90"];
    let recorded = room.record(&options, "armed.hearth", command).expect(0);
    assert_eq!(recorded.stdout, alone.stdout, "{}", recorded.stderr);
    let observed = room.observed("armed.hearth");
    let samples: u64 = observed.sites.iter().map(|s| s.samples).sum();
    assert!(samples > least, "only {samples} samples: {:?}", observed.losses);
}

/// A tool must not make one system call fail, come up short, be interrupted or hang.
#[test]
fn system_calls_into_managed_memory() {
    let syscalls = program("syscalls");
    Room::new().same(&[&syscalls, "--seconds", "4"]);
    // All groups but the one after which no page is armed (io_uring).
    let groups = ["files", "stdio", "pipes", "sockets", "asking", "polling", "locks", "forks", "signals", "timers"];
    the_same_with_many_armed_pages(&[&[&syscalls, "--seconds", "4"][..], &groups].concat(), 300);
    // In these the sampler often stands back.
    let groups = ["files", "randomness", "heap-stacks", "cross-memory", "programs"];
    the_same_with_many_armed_pages(&[&[&syscalls, "--seconds", "4"][..], &groups].concat(), 50);
}

/// Memory that the kernel uses whenever it pleases is not armed, and the profile says so.
#[test]
fn memory_of_an_io_uring() {
    let room = Room::new();
    let command = [&program("syscalls"), "--seconds", "2", "io_uring"];
    let alone = room.plain(&command).expect(0);
    let observed = room.same(&command);
    if alone.stdout.contains("without io_uring") {
        not_tested("the kernel refuses io_uring here (kernel.io_uring_disabled, or a container's filter)", false);
        return;
    }
    assert!(observed.losses.iter().any(|l| l.kind == "sampler-disarmed"), "{:?}", observed.losses);
}

/// The program's own handlers for the signals that the sampler lives on.
#[test]
fn handlers_of_the_program() {
    let handlers = program("handlers");
    Room::new().same(&[&handlers, "--seconds", "3"]);
    the_same_with_many_armed_pages(&[&handlers, "--seconds", "4"], 300);
}

/// Threads that wait since before there was anything to sample, one of them made behind the runtime's back, neither keep the
/// sampler from working nor notice that it is at work.
#[test]
fn threads_that_sleep() {
    let observed = Room::new().same(&[&program("sleepers"), "2"]);
    let samples: u64 = observed.sites.iter().map(|s| s.samples).sum();
    assert!(samples > 20, "only {samples} samples: {:?}", observed.losses);
}

/// A garbage collector that finds out by faults what was written (libgc's incremental mode).
#[test]
fn a_garbage_collector_with_write_barriers() {
    let room = Room::new();
    let source = workspace().join("tests/programs/collected.c");
    let out = room.path("collected");
    let (source, out) = (source.to_str().expect("readable path"), out.to_str().expect("readable path"));
    let built = room.plain(&["gcc", "-O2", "-g", "-o", out, source, "-lgc"]);
    assert_eq!(built.status, 0, "apt-get install libgc-dev: {}", built.stderr);
    room.same(&[out]);
}

#[test]
fn objects_that_come_and_go() {
    let observed = Room::new().same(&[&program("phases"), "--work", "300"]);
    let grid: u64 = hearth_tests::function_sites(&observed, "alloc_grid").map(|s| s.objects).sum();
    assert_eq!(grid, 2 * 300);
}

#[test]
fn plug_ins_loaded_and_unloaded() {
    let observed = Room::new().same(&[&program("dlopen"), "--turns", "100"]);
    // Though one plug-in often lies where the other was, their objects are told apart.
    for (function, objects) in [("plugin_a_alloc", 50 * 5), ("plugin_b_alloc", 50 * 5)] {
        let found: u64 = hearth_tests::function_sites(&observed, function).map(|s| s.objects).sum();
        assert_eq!(found, objects, "objects of {function}");
    }
}

#[test]
fn a_tree_of_processes() {
    let observed = Room::new().same(&[&program("tree.sh")]);
    assert!(observed.processes >= 8, "only {} processes of the tree were observed", observed.processes);
}

#[test]
fn the_eight_objects() {
    let observed = Room::new().same(&[&program("eight"), "--work", "1500", "--scale", "25"]);
    for function in ["alloc_stream_read", "alloc_chase", "alloc_resident"] {
        let objects: u64 = hearth_tests::function_sites(&observed, function).map(|s| s.objects).sum();
        assert_eq!(objects, 1, "objects of {function}");
    }
}

#[test]
fn standard_input_reaches_the_program() {
    let room = Room::new();
    let shell = "printf 'one\\ntwo\\n' | \"$0\" record -o in.hearth -- cat; echo \"status $?\" >&2";
    let hearth = hearth_tests::hearth();
    let ended = room.plain(&["sh", "-c", shell, hearth.to_str().expect("readable path")]).expect(0);
    assert_eq!(ended.stdout, "one\ntwo\n");
    assert!(ended.stderr.contains("status 0"), "{}", ended.stderr);
}

#[test]
fn lammps() {
    require_tool("lmp", "lammps");
    let room = Room::new();
    let input = workspace().join("tests/lammps/in.melt");
    let input = input.to_str().expect("readable path");
    // Without the lines that tell times.
    let script = format!(
        "lmp -in {input} -var size 24 -var steps 40 -log none | grep -E '^ +[0-9]+ |Created|Total # of neighbors|builds'"
    );
    let observed = room.same(&["sh", "-c", &script]);
    assert!(observed.sites.iter().any(|s| s.largest.0 > 1 << 20), "lammps has large objects");
}

#[test]
fn python_with_numpy() {
    let script = program("numpy_script.py");
    require_tool("/usr/bin/python3", "python3-numpy");
    Room::new().same(&["/usr/bin/python3", &script]);
}

#[test]
fn sqlite() {
    require_tool("sqlite3", "sqlite3");
    // Half as many rows as in bench/memory.
    let script = format!("sed s/200000/100000/ {} | sqlite3 :memory:", programs().join("sqlite_script.sql").display());
    Room::new().same(&["sh", "-c", &script]);
}

/// It has an address for malloc in itself, which is not a malloc of its own.
#[test]
fn a_program_at_fixed_addresses_that_points_to_malloc() {
    let room = Room::new();
    let observed = room.same(&[&program("pointed")]);
    assert!(observed.sites.iter().any(|s| s.objects == 100), "{:?}", observed.sites);
    let passed_over: Vec<_> = observed.losses.iter().filter(|l| l.kind == "process-passed-over").collect();
    assert!(passed_over.is_empty(), "all of it was observed: {passed_over:?}");
}

#[test]
fn what_was_freed_is_given_back_soon() {
    Room::new().same(&[&program("lean")]);
}

#[test]
fn small_objects_have_pages_of_their_own_site() {
    let room = Room::new();
    room.same(&[&program("small")]);
    // All but the first objects of a site and size are in blocks of the site: 48 bytes of half of 40,000 objects.
    let observed = room.observed("small.hearth");
    let of = |function: &str| -> u64 { hearth_tests::function_sites(&observed, function).map(|s| s.peak.0).sum() };
    println!("nodes {}, names {}, buffers {}", of("make_node"), of("make_name"), of("grow_buffer"));
    assert!((900_000..3_000_000).contains(&of("make_node")), "{}", of("make_node"));
    assert!(of("make_name") > 1_500_000 && of("grow_buffer") > 1_500_000);
}
