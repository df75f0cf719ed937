//! The lab in tests: set up once, and entered by turns.

use crate::command::{Ended, Running, run, spawn, wait};
use crate::room::{Room, hearth, target};
use crate::turn::Turn;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The platform of the tests. Its figures are idle ones, so that a program that hardly loads the memory must get them.
pub const PLATFORM: &str = "cxl-expander";
/// Virtual CPUs of a machine that has the host for itself, if a test does not say otherwise.
pub const VCPUS: f64 = 2.0;
/// A machine of the test's size: with a size for caches and fast memory nobody needs to measure the footprint first.
const MACHINE: [&str; 2] = ["--memory", "256MiB"];
/// Its cache, if a test has no other.
const LLC: [&str; 2] = ["--llc", "1MiB"];
/// Most time for one machine, on a busy host.
const LIMIT: Duration = Duration::from_secs(600);

/// A fresh folder to run programs in the lab from, and the right to a machine.
pub struct Lab {
    /// The programs' current folder.
    pub room: Room,
    /// What the machine is like.
    pub platform: String,
    /// Where sessions' folders go, so that nothing else is there.
    sessions: Room,
    turn: Turn,
}

impl Lab {
    /// Waits until no other machine is there; sets the lab up if no test did before.
    #[track_caller]
    pub fn enter() -> Lab {
        Lab::with(Turn::alone())
    }

    /// The same for machines with one virtual CPU, beside which another one may be.
    #[track_caller]
    pub fn enter_beside() -> Lab {
        Lab::with(Turn::beside())
    }

    #[track_caller]
    fn with(turn: Turn) -> Lab {
        folder();
        Lab { room: Room::new(), platform: PLATFORM.into(), sessions: Room::new(), turn }
    }

    /// `hearth lab run` with these arguments, and nothing said about the machine.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.lab_command("run");
        command.args(arguments);
        command
    }

    /// `hearth lab VERB`.
    pub fn lab_command(&self, verb: &str) -> Command {
        let mut command = self.room.command(hearth());
        command.env("HEARTH_LAB", folder()).env("TMPDIR", self.sessions.path(""));
        command.args(["lab", verb]).stdin(Stdio::null());
        command
    }

    /// Starts a program on the machine of the tests.
    #[track_caller]
    pub fn start(&self, options: &[&str], program: &[&str]) -> Running {
        let llc = if options.contains(&"--llc") { &[][..] } else { &LLC };
        let given = options.iter().skip_while(|o| **o != "--vcpus").nth(1);
        let beside = !self.turn.is_alone();
        assert!(!beside || given.is_none_or(|n| *n == "1"), "a machine beside another one has one CPU: {options:?}");
        let vcpus = if beside && given.is_none() { &["--vcpus", "1"][..] } else { &[] };
        let machine = [&["--platform", &self.platform], &MACHINE[..], llc, vcpus].concat();
        spawn(&mut self.command(&[&machine, options, &["--"], program].concat()))
    }

    /// Runs a program on the machine of the tests, to its end and to exit code 0. Gives what it printed, and the figures.
    #[track_caller]
    pub fn run(&self, options: &[&str], program: &[&str]) -> (Ended, Value) {
        let (ended, figures) = self.run_any(options, program);
        (ended.expect(0), figures)
    }

    /// The same, however the program ends.
    #[track_caller]
    pub fn run_any(&self, options: &[&str], program: &[&str]) -> (Ended, Value) {
        let json = self.room.path("figures.json");
        let options = [options, &["--json", "figures.json"]].concat();
        let ended = wait(self.start(&options, program), LIMIT);
        let text = fs::read_to_string(&json).unwrap_or_else(|e| panic!("no figures ({e}): {}", ended.stderr));
        fs::remove_file(&json).expect("the figures were read");
        self.left_nothing();
        (ended, serde_json::from_str(&text).expect("the figures are JSON"))
    }

    /// No folder and no process of a run is left.
    #[track_caller]
    pub fn left_nothing(&self) {
        let place = self.sessions.path("");
        let folders: Vec<PathBuf> = fs::read_dir(&place)
            .expect("the sessions' place")
            .flatten()
            .map(|e| e.path())
            .filter(|p| p.is_dir())
            .collect();
        assert!(folders.is_empty(), "folders of sessions were left: {folders:?}");
        assert_eq!(processes_naming(&place), [], "processes were left");
    }

    /// Waits until QEMU runs for a session of this lab. Gives its process id.
    #[track_caller]
    pub fn until_it_runs(&self) -> i32 {
        for _ in 0..LIMIT.as_millis() / 20 {
            let mut processes = processes_naming(&self.sessions.path("")).into_iter();
            if let Some((id, _)) = processes.find(|(_, line)| line.contains("qemu-system")) {
                return id;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("QEMU never started");
    }

    /// Waits until no process of a session is left.
    #[track_caller]
    pub fn until_it_is_gone(&self) {
        for _ in 0..500 {
            if processes_naming(&self.sessions.path("")).is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("processes were left: {:?}", processes_naming(&self.sessions.path("")));
    }
}

/// Ids and command lines of all processes that name this folder.
fn processes_naming(folder: &Path) -> Vec<(i32, String)> {
    let name = folder.to_str().expect("a readable name");
    let processes = fs::read_dir("/proc").expect("/proc").flatten().filter_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((id, String::from_utf8_lossy(&line).replace('\0', " ")))
    });
    processes.filter(|(_, line)| line.contains(name)).collect()
}

/// The lab's folder: `$HEARTH_LAB`, or one among what was built. Set up first, which is quick if it was before.
#[track_caller]
fn folder() -> &'static Path {
    static READY: OnceLock<PathBuf> = OnceLock::new();
    READY.get_or_init(|| {
        let dir = std::env::var_os("HEARTH_LAB").map_or_else(|| target().join("lab"), PathBuf::from);
        run(Command::new(hearth()).args(["lab", "setup", "--dir"]).arg(&dir)).expect(0);
        dir
    })
}
