//! Programs of MPI: they do the same with `--phases` as without, whichever MPI and language it is, and their phases are seen where they communicate.

use hearth_tests::{Ended, Room, for_mpi, hearth, may_administer, not_tested, program, run, workspace};
use model::observed::Region;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The MPIs, and what starts ranks.
const MPIS: [&str; 2] = ["openmpi", "mpich"];

fn start(room: &Room, command: &[&str]) -> Ended {
    run(for_mpi(room.command(command[0]).args(&command[1..])))
}

/// How often a phase began at each place, by its line.
fn phases(regions: &[Region]) -> BTreeMap<(String, u32), u64> {
    let mut all = BTreeMap::new();
    for r in regions {
        let line = r.frames.iter().find_map(|f| f.source.first()).expect("a place in the program");
        let function = if line.function == "ring" || line.function == "MAIN__" { "main" } else { &line.function };
        let most: &mut u64 = all.entry((function.to_string(), line.line)).or_default();
        *most = r.number.max(*most);
    }
    all
}

#[test]
fn phases_begin_where_ranks_communicate() {
    for mpi in MPIS {
        for language in ["c", "f90", "f08"] {
            let room = Room::new();
            let (ring, mpirun) = (program(&format!("ring_{language}.{mpi}")), format!("mpirun.{mpi}"));
            let command = [&*mpirun, "-np", "2", &ring, "6"];
            let plain = start(&room, &command).expect(0);
            let hearth = hearth();
            let record = [hearth.to_str().expect("readable"), "record", "--phases", "-o", "p.hearth", "--"];
            let recorded = start(&room, &[&record[..], &command].concat()).expect(0);
            assert_eq!(
                (&*plain.stdout, &*recorded.stdout),
                ("2 ranks: right\n", "2 ranks: right\n"),
                "{mpi} {language}"
            );
            let begun = phases(&room.observed("p.hearth").regions);
            println!("{mpi} {language}: {begun:?}");
            let often: Vec<u64> = begun.values().copied().filter(|n| *n > 1).collect();
            // What only starts an operation, and what another thread does, begins none; a test does when it has found something complete.
            assert_eq!(
                often,
                [6, 6],
                "{mpi} {language}: the sum and what completes the exchange, once a turn: {begun:?}"
            );
            let once = begun.values().filter(|n| **n == 1).count();
            // In C also a copy of the communicator, two others, and a window's beginning and end.
            let made_once = if language == "c" { 8 } else { 3 };
            assert_eq!(once, made_once, "{mpi} {language}: the test, the exchange, the sum at the end: {begun:?}");
        }
    }
}

/// Each is a job of its own then, with Hearth as without; one of them says so.
#[test]
fn another_mpis_launcher_is_told_of() {
    for (mpirun, mpi, says) in
        [("mpirun.openmpi", "mpich", "Open MPI's mpirun"), ("mpirun.mpich", "openmpi", "MPICH's mpirun")]
    {
        let room = Room::new();
        let (ring, hearth, socket) = (program(&format!("ring_c.{mpi}")), hearth(), room.path("node.sock"));
        let (hearth, socket) = (hearth.to_str().expect("readable"), socket.to_str().expect("readable"));
        let run = [mpirun, "-np", "2", hearth, "run", "--phases", "--socket", socket, "--", &ring, "6"];
        let ended = start(&room, &run).expect(0);
        assert_eq!(ended.stdout, "1 ranks: right\n1 ranks: right\n");
        let said: Vec<&str> = ended.stderr.lines().filter(|l| l.contains("knows of one")).collect();
        assert!(said.len() == 1 && said[0].starts_with(&format!("hearth: {says} ")), "{}", ended.stderr);
        println!("{}", said[0]);
        start(&room, &[hearth, "stop", "--socket", socket]).expect(0);
    }
}

/// No daemon can listen there: the ranks run, and say why they do so without Hearth.
#[test]
fn without_a_daemon_ranks_run_all_the_same() {
    let room = Room::new();
    let (ring, hearth) = (program("ring_c.mpich"), hearth());
    let hearth = hearth.to_str().expect("readable");
    let run =
        ["mpirun.mpich", "-np", "2", hearth, "run", "--phases", "--socket", "no/folder/node.sock", "--", &ring, "6"];
    let ended = start(&room, &run).expect(0);
    assert_eq!(ended.stdout, "2 ranks: right\n");
    assert_eq!(ended.stderr.matches("the program runs without Hearth").count(), 2, "{}", ended.stderr);
    println!("{}", ended.stderr);
}

/// A program of the suite, its arguments, how many phases the places (call stacks) of so many have, and the most of one place. More than
/// four of a place are not all told if they are short, so there are ranges.
type Expected = (&'static str, [&'static str; 2], &'static [(RangeInclusive<u64>, usize)], Option<u64>);
const SUITE: [Expected; 5] = [
    // Two steps of twelve iterations: the direction is gathered, and two sums; in a step it is gathered once more, and four sums.
    ("cg", ["1", "32"], &[(2..=2, 5), (4..=24, 3)], Some(24)),
    // Two cycles. Faces are exchanged by two operations: on each of three levels twice before the coarser ones, and once behind them, on the
    // way down and up; on the coarsest one again and again.
    ("multigrid", ["0.67", "8"], &[(2..=2, 2 * 3 * 3), (4..=100, 2 * 3 + 2)], None),
    // Four steps: blocks are exchanged, and the largest error.
    ("fft3d", ["2", "8"], &[(4..=4, 2)], Some(4)),
    // Four times two steps, of which each waits for its halos.
    ("stencil", ["0.34", "8"], &[(4..=4, 2)], Some(4)),
    // Two steps. Of the first system two iterations in each, of the two others eight in all: two exchanges and two sums; and at the ends of each
    // solution two exchanges and three sums.
    ("solver", ["0.5", "32"], &[(2..=2, 3 * 5), (4..=8, 3 * 4)], Some(8)),
];

/// Each iteration of the suite's programs has the phases that it has in the source, and they compute the same.
#[test]
fn phases_of_the_suites_programs_line_up() {
    let room = Room::new();
    let hearth = hearth();
    let hearth = hearth.to_str().expect("readable");
    for mpi in MPIS {
        for (name, arguments, places, most) in SUITE {
            let (binary, mpirun) = (program(&format!("mpi-suite/{name}.{mpi}")), format!("mpirun.{mpi}"));
            let command = [&[&*mpirun, "-np", "2", &binary], &arguments[..]].concat();
            let plain = start(&room, &command).expect(0);
            assert!(plain.stdout.contains(" OK: "), "{}", plain.stdout);
            let record = [&[hearth, "record", "--phases", "-o", "p.hearth", "--"], &command[..]].concat();
            assert_eq!(start(&room, &record).expect(0).stdout, plain.stdout);
            let mut often: BTreeMap<String, u64> = BTreeMap::new();
            for r in room.observed("p.hearth").regions {
                let seen = often.entry(r.id.to_string()).or_default();
                *seen = r.number.max(*seen);
            }
            for (times, how_many) in places {
                let found = often.values().filter(|n| times.contains(n)).count();
                assert_eq!(found, *how_many, "{name} {mpi}: places with {times:?} phases: {often:?}");
            }
            assert!(most.is_none() || most == often.values().max().copied(), "{name} {mpi}: {often:?}");
        }
    }
}

/// Guided by a daemon the suite's programs compute the same, too.
#[test]
fn the_suites_programs_compute_the_same_while_they_are_placed() {
    let room = Room::new();
    let (hearth, socket) = (hearth(), room.path("node.sock"));
    let (hearth, socket) = (hearth.to_str().expect("readable"), socket.to_str().expect("readable"));
    for (name, arguments, ..) in SUITE {
        let binary = program(&format!("mpi-suite/{name}.mpich"));
        let ranks = ["mpirun.mpich", "-np", "2"];
        let plain = start(&room, &[&ranks[..], &[&binary], &arguments[..]].concat()).expect(0);
        let run = [hearth, "run", "--phases", "--socket", socket, "--", &binary];
        assert_eq!(start(&room, &[&ranks[..], &run, &arguments[..]].concat()).expect(0).stdout, plain.stdout);
    }
    start(&room, &[hearth, "stop", "--socket", socket]).expect(0);
}

/// Without a plan and without a daemon: the first rank starts one for all, and it ends with them.
#[test]
fn ranks_share_one_daemon_that_comes_and_goes_with_them() {
    for mpi in MPIS {
        let room = Room::new();
        let socket = room.path("node.sock");
        let (ring, mpirun) = (program(&format!("ring_c.{mpi}")), format!("mpirun.{mpi}"));
        let (hearth, socket) = (hearth(), socket.to_str().expect("readable"));
        let hearth = hearth.to_str().expect("readable");
        let ended =
            start(&room, &[&mpirun, "-np", "3", hearth, "run", "--phases", "--socket", socket, "--", &ring, "40"]);
        assert_eq!(ended.expect(0).stdout, "3 ranks: right\n");
        let status = start(&room, &[hearth, "status", "--json", "--socket", socket]).expect(0);
        let status: serde_json::Value = serde_json::from_str(&status.stdout).expect("JSON");
        assert_eq!(status["interval"].as_u64(), Some(500_000_000), "{status}");
        start(&room, &[hearth, "stop", "--socket", socket]).expect(0);
        let log = std::fs::read_to_string(room.path("node.sock.log")).expect("what the daemon said");
        assert!(log.contains("the daemon listens at"), "{log}");
    }
}

/// Two hosts ([tests/programs/hosts.sh]), which go with the test.
struct Hosts<'a> {
    room: &'a Room,
    names: String,
}

impl Hosts<'_> {
    fn script() -> String {
        workspace().join("tests/programs/hosts.sh").to_str().expect("readable").to_string()
    }

    /// Both, if this machine lets us make them.
    fn up(room: &Room) -> Option<Hosts<'_>> {
        let hosts = Hosts { room, names: format!("hearth-{}-", std::process::id()) };
        let up = run(room.command(Hosts::script()).arg("up").env("HOSTS", &hosts.names));
        (up.status == 0).then_some(hosts)
    }

    /// A command on the first one; once more if it does not end: ranks of Debian 12's MPICH may wait for each other for ever as they end, with and without
    /// Hearth, seldom where each host has one (docs/mpi.md). What it left in its room is taken away then.
    fn start(&self, command: &str, leaves: &str) -> Ended {
        const ATTEMPTS: u32 = 3;
        for _ in 0..ATTEMPTS {
            let mut enter = self.room.command(Hosts::script());
            let command = format!("timeout -k 5 50 {command}");
            let ended = run(for_mpi(enter.args(["10.77.0.1", &command]).env("HOSTS", &self.names)));
            if ended.status != 124 {
                return ended;
            }
            println!("not ended: {command}\n{}{}", ended.stdout, ended.stderr);
            let clear = format!("rm -rf {leaves}");
            run(self.room.command("sh").args(["-c", &clear])).expect(0);
        }
        panic!("{ATTEMPTS} attempts did not end");
    }
}

impl Drop for Hosts<'_> {
    fn drop(&mut self) {
        let _ = self.room.command(Hosts::script()).arg("down").env("HOSTS", &self.names).output();
    }
}

/// A job of two hosts has a daemon on each, and a profile of each rank that tells of the same phases.
#[test]
fn ranks_on_two_hosts() {
    let room = Room::new();
    let Some(hosts) = may_administer().then(|| Hosts::up(&room)).flatten() else {
        return not_tested("MPI on two hosts: network namespaces cannot be made here (ip netns)", false);
    };
    let (hearth, enter) = (hearth(), Hosts::script());
    let hearth = hearth.to_str().expect("readable");
    let by_open_mpi = format!(
        "mpirun.openmpi --mca pml ob1 --mca plm_rsh_agent {enter} --mca oob_tcp_if_include cable --mca btl_tcp_if_include cable --host 10.77.0.1:2,10.77.0.2:2"
    );
    // Of MPICH one on each host: with more, those of Debian 12 often do not end.
    let by_mpich =
        format!("mpirun.mpich -launcher rsh -launcher-exec {enter} -iface cable -hosts 10.77.0.1:1,10.77.0.2:1");
    for (mpi, launcher, each) in [("openmpi", by_open_mpi, 2), ("mpich", by_mpich, 1)] {
        let ring = program(&format!("ring_c.{mpi}"));
        let (all, right) = (2 * each, format!("{} ranks: right\n", 2 * each));
        let rank = |what: &str| format!("{launcher} -np {all} sh -c 'exec {hearth} {what} -- {ring} 40'");
        let guided = hosts.start(&rank(&format!("run --phases --socket {mpi}-$(hostname).sock")), "").expect(0);
        assert_eq!(guided.stdout, right, "{}", guided.stderr);
        for host in ["host1", "host2"] {
            let socket = format!("{mpi}-{host}.sock");
            let log = std::fs::read_to_string(room.path(&format!("{socket}.log"))).expect("what its daemon said");
            assert!(log.contains("the daemon listens at"), "{host}: {log}");
            start(&room, &[hearth, "stop", "--socket", &socket]).expect(0);
        }
        let what = format!("record --phases --sampler none -o {mpi}-$(hostname)-$$.hearth");
        let recorded = hosts.start(&rank(&what), &format!("{mpi}-*.hearth*")).expect(0);
        assert_eq!(recorded.stdout, right);
        let files = std::fs::read_dir(room.path(".")).expect("the room");
        let names = files.map(|f| f.expect("a file").file_name().into_string().expect("readable"));
        let profiles: Vec<String> = names.filter(|n| n.starts_with(mpi) && n.ends_with(".hearth")).collect();
        let of = |host: &str| profiles.iter().filter(|p| p.contains(host)).count();
        assert_eq!((of("-host1-"), of("-host2-")), (each, each), "{profiles:?}");
        for profile in &profiles {
            let begun = phases(&room.observed(profile).regions);
            let often: Vec<u64> = begun.values().copied().filter(|n| *n > 1).collect();
            assert_eq!(often, [40, 40], "{profile}: the sum and what completes the exchange: {begun:?}");
        }
    }
}

#[test]
fn ranks_that_are_recorded_one_by_one_are_put_together() {
    let room = Room::new();
    let hearth = hearth();
    let hearth = hearth.to_str().expect("readable");
    let ring = program("ring_c.mpich");
    start(&room, &["mpirun.mpich", "-np", "2", hearth, "record", "--phases", "--", &ring, "6"]).expect(0);
    let sizes = |profile: &str| room.observed(profile).sites.iter().map(|s| s.objects).sum::<u64>();
    let each = ["ring_c.mpich.0.hearth", "ring_c.mpich.1.hearth"];
    println!("{:?} objects", each.map(sizes));
    let plan =
        ["plan", each[0], each[1], "--merge", "sum", "--platform", "cxl-expander", "--fast", "50%", "-o", "plan.toml"];
    room.hearth(&plan).expect(0);
    let plan = std::fs::read_to_string(room.path("plan.toml")).expect("the plan");
    // Of each rank one of 8 MiB.
    assert!(plan.contains("peak = \"16 MiB\""), "{plan}");
}

#[test]
fn an_exit_code_is_the_programs() {
    let room = Room::new();
    let socket = room.path("node.sock");
    let (hearth, socket) = (hearth(), socket.to_str().expect("readable"));
    let hearth = hearth.to_str().expect("readable");
    let run = [hearth, "run", "--phases", "--socket", socket, "--"];
    assert_eq!(start(&room, &[&run[..], &["sh", "-c", "exit 7"]].concat()).status, 7);
    let none = start(&room, &[&run[..], &["./is-not-there"]].concat());
    assert_eq!(none.status, 2, "{}", none.stderr);
    start(&room, &[hearth, "stop", "--socket", socket]).expect(0);
}
