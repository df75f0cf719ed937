//! Every program does the same with Hearth as without: it writes the same, ends with the same status, and leaves a profile
//! that can be read and has the sites of its objects.
//!
//! A program is a shell script in `scripts/`, whose first line says what it is; it writes only what is the same in every
//! run. It is run alone, in each way of recording ([`RECORDINGS`]), and guided by a plan made from its own profile, each
//! time in a fresh folder. The slow ones are ignored unless asked for: `HEARTH_TEST_ALL=1 ./test`.

mod allocators;
mod declined;

use hearth_tests::{
    Ended, Room, hearth, is_root, program, programs, require_tool, run_as_nobody, spawn, target, wait, workspace,
};
use model::Observed;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The ways to record: what they are called, and the options of `hearth record`.
const RECORDINGS: [(&str, &[&str]); 3] = [
    ("recorded without sampler", &["--sampler", "none"]),
    ("recorded with small objects", &["--small", "--sampler", "none"]),
    ("recorded with the page-fault sampler", &["--sampler", "page-fault"]),
];
/// Most time of one run; each takes seconds on a quiet machine.
const LIMIT: Duration = Duration::from_secs(400);

/// Who runs a program.
#[derive(Clone, Copy, PartialEq)]
enum User {
    /// Whoever runs the tests.
    Own,
    /// A user without any privilege (some servers refuse to run as root).
    Nobody,
}

/// Runs `command` in a fresh folder that its user may write to, and gives the folder back too.
fn run_in_room(command: &[&str], user: User) -> (Room, Ended) {
    let room = Room::new();
    let mut all: Command = room.command(command[0]);
    all.args(&command[1..]).env("TESTS", workspace().join("tests")).env("PROGRAMS", programs()).env("TARGET", target());
    all.env("VENV", target().join("venv")).stdin(Stdio::null());
    if user == User::Nobody {
        run_as_nobody(&mut all);
        if is_root() {
            std::os::unix::fs::chown(room.path("."), Some(65534), Some(65534)).expect("the folder's new owner");
        }
    }
    let ended = wait(spawn(&mut all), LIMIT);
    (room, ended)
}

/// Runs a program in all ways and compares; gives what the last recording observed.
fn same(command: &[&str], user: User) -> Observed {
    let (_, plain) = run_in_room(command, user);
    println!("alone: {:?}", plain.took);
    let compare = |how: &str, with: &Ended| {
        println!("{how}: {:?}", with.took);
        assert_eq!(
            (with.status, &with.stdout),
            (plain.status, &plain.stdout),
            "{command:?} is not the same {how}; standard error:\n{}\nand alone:\n{}",
            with.stderr,
            plain.stderr
        );
    };
    let hearth = hearth();
    let hearth = hearth.to_str().expect("readable path");
    let mut last = None;
    for (how, options) in RECORDINGS {
        let mut all = vec![hearth, "record", "-o", "some.hearth"];
        all.extend(options);
        all.push("--");
        all.extend(command);
        let (room, ended) = run_in_room(&all, user);
        compare(how, &ended);
        last = Some((room.observed("some.hearth"), room));
    }
    let mut all = vec![hearth, "live", "--quiet", "--interval", "100ms", "--"];
    all.extend(command);
    compare("live", &run_in_room(&all, user).1);
    let (observed, room) = last.expect("there are ways to record");
    room.hearth(&["plan", "some.hearth", "--policy", "first-served", "--fast", "16MiB", "-o", "plan.toml"]).expect(0);
    let plan = room.path("plan.toml");
    let mut all = vec![hearth, "run", "--plan", plan.to_str().expect("readable path"), "--"];
    all.extend(command);
    // The plan lies in another folder, which its user may have no right to enter.
    if user == User::Nobody {
        open(&room.path("."));
    }
    compare("guided", &run_in_room(&all, user).1);
    observed
}

fn open(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("the folder's new rights");
}

/// Runs the script of this name in all ways; it must be observed with sites.
fn script(name: &str, user: User, tools: &[(&str, &str)]) -> Observed {
    for (tool, package) in tools {
        require_tool(tool, package);
    }
    let venv = target().join("venv/bin/python");
    assert!(
        !["duckdb", "lammps_threads", "polars"].contains(&name) || venv.exists(),
        "{} is not there: HEARTH_TEST_ALL=1 ./test makes it",
        venv.display()
    );
    let script = workspace().join("tests/every/scripts").join(name).with_extension("sh");
    let observed = same(&["bash", script.to_str().expect("readable path")], user);
    assert!(observed.processes >= 1 && !observed.sites.is_empty(), "{name} was not observed");
    observed
}

macro_rules! every {
    ($($(#[$attribute:meta])* $name:ident: $user:ident, [$($tool:literal of $package:literal),*];)*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                script(stringify!($name), User::$user, &[$(($tool, $package)),*]);
            }
        )*
    };
}

every! {
    gcc: Own, ["gcc" of "gcc"];
    git: Own, ["git" of "git"];
    memcached: Own, ["memcached" of "memcached", "/usr/bin/python3" of "python3"];
    nginx: Own, ["nginx" of "nginx-light", "curl" of "curl"];
    redis: Own, ["redis-server" of "redis-server", "redis-benchmark" of "redis-tools"];
    rustc: Own, ["rustc" of "rustc"];
    go_cgo: Own, ["go" of "golang-go", "gcc" of "gcc"];
    #[ignore = "slow"]
    duckdb: Own, ["/usr/bin/python3" of "python3-venv"];
    #[ignore = "slow"]
    gdb: Own, ["gdb" of "gdb"];
    #[ignore = "slow"]
    java: Own, ["java" of "default-jdk-headless", "javac" of "default-jdk-headless"];
    #[ignore = "slow"]
    lammps_mpi: Own, ["lmp" of "lammps", "mpirun" of "openmpi-bin"];
    #[ignore = "slow"]
    lammps_threads: Own, ["/usr/bin/python3" of "python3-venv"];
    #[ignore = "slow"]
    node: Own, ["node" of "nodejs"];
    #[ignore = "slow"]
    octave: Own, ["octave-cli" of "octave"];
    #[ignore = "slow"]
    polars: Own, ["/usr/bin/python3" of "python3-venv"];
    #[ignore = "slow"]
    postgres: Nobody, ["pg_ctlcluster" of "postgresql"];
    #[ignore = "slow"]
    r: Own, ["Rscript" of "r-base-core"];
    #[ignore = "slow"]
    scipy: Own, ["/usr/bin/python3" of "python3-scipy"];
    #[ignore = "slow"]
    shell: Own, ["bash" of "bash"];
    #[ignore = "slow"]
    stress_fork: Own, ["stress-ng" of "stress-ng"];
    #[ignore = "slow"]
    stress_malloc: Own, ["stress-ng" of "stress-ng"];
    #[ignore = "slow"]
    stress_mmap: Own, ["stress-ng" of "stress-ng"];
    #[ignore = "slow"]
    stress_pthread: Own, ["stress-ng" of "stress-ng"];
    #[ignore = "slow"]
    stress_signal: Own, ["stress-ng" of "stress-ng"];
    #[ignore = "slow"]
    stress_vm: Own, ["stress-ng" of "stress-ng"];
}

/// The sentence of a loss in a profile.
#[track_caller]
fn loss<'a>(observed: &'a Observed, kind: &str) -> &'a str {
    let found = observed.losses.iter().find(|l| l.kind == kind);
    &found.unwrap_or_else(|| panic!("no loss of the kind {kind}: {:?}", observed.losses)).note
}

/// Output of a program of the tests, with its own room.
fn own(name: &str, arguments: &[&str]) -> Observed {
    let path = program(name);
    let mut command = vec![path.as_str()];
    command.extend(arguments);
    same(&command, User::Own)
}
