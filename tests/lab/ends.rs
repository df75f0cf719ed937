//! A program in the lab does what it does outside: input, output, files, and how it ends. And it does so in the same time
//! again.

use hearth_tests::lab::Lab;
use hearth_tests::{hearth, program, wait};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const SCRIPT: &str = "
echo \"$GREETING from $(pwd)\"
echo 'to standard error' >&2
tr a-z A-Z
mkdir -p made/below
echo kept > made/below/file
echo changed >> old
chmod 700 old
echo dropped > /var/tmp/hearth-lab-elsewhere
exit 7
";

#[test]
fn input_output_files_and_exit_code_are_the_programs_own() {
    let lab = Lab::enter_beside();
    fs::write(lab.room.path("old"), "first\n").expect("writing");
    fs::write(lab.room.path("input"), "what is read\n").expect("writing");
    let machine = ["--fast", "64MiB", "--memory", "256MiB", "--llc", "1MiB", "--vcpus", "1"];
    let mut command = lab.command(&[&machine[..], &["--", "/bin/sh", "-c", SCRIPT]].concat());
    command.env("GREETING", "hello").stdin(File::open(lab.room.path("input")).expect("reading"));
    let ended = wait(hearth_tests::spawn(&mut command), Duration::from_secs(180)).expect(7);
    let folder = lab.room.path("").canonicalize().expect("the room");
    assert_eq!(ended.stdout, format!("hello from {}\nWHAT IS READ\n", folder.display()));
    assert!(ended.stderr.contains("to standard error\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("hearth: exit 7"), "{}", ended.stderr);
    let read = |name: &str| fs::read_to_string(lab.room.path(name)).expect("a file that was brought back");
    assert_eq!((read("made/below/file"), read("old")), ("kept\n".to_string(), "first\nchanged\n".to_string()));
    let mode = fs::metadata(lab.room.path("old")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(!fs::exists("/var/tmp/hearth-lab-elsewhere").expect("asking"), "files elsewhere are dropped");
    lab.left_nothing();
}

#[test]
fn a_signal_is_told_as_a_shell_tells_it() {
    let lab = Lab::enter_beside();
    let (ended, figures) = lab.run_any(&["--fast", "64MiB"], &["/bin/sh", "-c", "echo before; kill -SEGV $$"]);
    assert_eq!((ended.status, ended.stdout.as_str()), (128 + libc::SIGSEGV, "before\n"), "{}", ended.stderr);
    assert_eq!(figures["signal"], Value::from(libc::SIGSEGV));
    assert!(ended.stderr.contains("hearth: signal 11"), "{}", ended.stderr);
}

#[test]
fn the_same_run_takes_the_same_time() {
    the_same_run_by(&Lab::enter_beside(), "1", 0.01);
}

pub fn the_same_run_by(lab: &Lab, vcpus: &str, within: f64) {
    let run = || {
        let options = ["--fast", "24MiB", "--vcpus", vcpus, "--roi", "marks"];
        let (_, figures) = lab.run(&options, &[&program("placed"), "2"]);
        let count = |what: &str| figures["counters"][what].as_f64().expect("a count");
        assert!(count("accesses") > 2e6, "the model was on");
        assert!(figures["kernel"]["thp_collapse_alloc"].is_null(), "khugepaged was at work: {}", figures["kernel"]);
        println!("{} ns, of which {} for memory", figures["guest_ns"], count("waited_ns"));
        (figures["guest_ns"].as_f64().expect("guest time"), count("waited_ns"), count("instructions"))
    };
    // The kernel's own work, of some hundred thousand instructions, is not the same each time.
    let alike = |a: &(f64, f64, f64), b: &(f64, f64, f64)| {
        let off = |x: f64, y: f64| (x / y - 1.0).abs();
        off(a.0, b.0) < within && off(a.1, b.1) < within && off(a.2, b.2) < 0.2
    };
    let (first, second) = (run(), run());
    if !alike(&first, &second) {
        // Once in many runs the kernel has millions of them to do: then a third one is like one of the two.
        let third = run();
        assert!(alike(&first, &third) || alike(&second, &third), "{first:?}, {second:?}, {third:?}");
    }
}

/// The model is switched on after a time, from a size on, or by marks, of which a script makes its own.
#[test]
fn the_region_of_interest_begins_when_it_is_told_to() {
    let lab = Lab::enter_beside();
    let (placed, hearth) = (program("placed"), hearth());
    let (waits, marks) = (
        format!("sleep 0.3; exec {placed} 1"),
        format!("{placed} 1; {0} lab mark on; {placed} 1 >/dev/null; {0} lab mark off; sleep 0.3", hearth.display()),
    );
    for (roi, command) in [
        ("after=200ms", ["/bin/sh", "-c", &waits]),
        ("allocated=8MiB", ["/bin/sh", "-c", &waits]),
        ("allocated=50%", ["/bin/sh", "-c", &waits]),
        ("marks", ["/bin/sh", "-c", &marks]),
    ] {
        let (ended, figures) = lab.run(&["--fast", "24MiB", "--roi", roi], &command);
        assert!(ended.stdout.starts_with("hot "), "{roi}: {}", ended.stdout);
        let number = |of: &Value| of.as_f64().expect("a number");
        let (region, whole) = (number(&figures["guest_ns"]), number(&figures["run_ns"]));
        assert!(number(&figures["counters"]["accesses"]) > 1e5, "{roi}: the model was never on");
        assert!(region > 0.0 && region + 190e6 < whole, "{roi}: {region} of {whole} ns");
        assert!(ended.stderr.contains("the region of interest took"), "{roi}: {}", ended.stderr);
    }
}

/// While an observer works aside no time passes, and one that spins in the kernel until some has passed would never come to an end.
#[test]
fn time_passes_again_where_the_kernel_is_long_at_work() {
    let lab = Lab::enter_beside();
    let (ended, _) = lab.run(&["--placement", "all-fast"], &[&program("aside")]);
    let ns = |what: &str| {
        let found =
            ended.stdout.lines().find_map(|l| l.strip_prefix(what)).unwrap_or_else(|| panic!("{}", ended.stdout));
        found.trim().parse::<u64>().expect("a time")
    };
    assert_eq!(ns("loop"), 0, "work aside takes no time");
    assert!(ns("kernel") > 0, "it has to end where the kernel waits");
}
