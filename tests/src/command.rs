//! Commands that cannot hang a test: each runs in its own process group, under a time limit.

use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a command ended, and what it wrote.
#[derive(Debug)]
pub struct Ended {
    /// What a shell would show as `$?`: the exit code, or 128 + the signal.
    pub status: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall time.
    pub took: Duration,
}

impl Ended {
    /// The same, if it ended with `status`; else the test fails and shows what the command wrote.
    #[track_caller]
    pub fn expect(self, status: i32) -> Ended {
        assert_eq!(self.status, status, "unexpected exit status\nstdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }
}

/// A running command whose output is being collected.
pub struct Running {
    child: Child,
    started: Instant,
    outputs: [JoinHandle<String>; 2],
    what: String,
}

impl Running {
    /// Sends `signal` to the command alone.
    pub fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that was not waited for, so the id is still its own.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
    /// Sends `signal` to the command and all it started, as a terminal does on Ctrl-C.
    pub fn signal_all(&self, signal: i32) {
        // SAFETY: as above; the child leads its process group.
        unsafe { libc::kill(-(self.child.id() as i32), signal) };
    }
    /// The command's process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

/// Starts `command` in a process group of its own, with empty standard input unless the command says otherwise.
#[track_caller]
pub fn spawn(command: &mut Command) -> Running {
    let what = format!("{command:?}");
    // A background job of a script ignores Ctrl-C, and so would all that it starts; these tests send it.
    // SAFETY: signal is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            libc::signal(libc::SIGQUIT, libc::SIG_DFL);
            Ok(())
        });
    }
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start {what}: {error}"));
    let outputs = [
        collect(child.stdout.take().expect("stdout is piped")),
        collect(child.stderr.take().expect("stderr is piped")),
    ];
    Running { child, started: Instant::now(), outputs, what }
}

fn collect(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the command and for the end of its output; kills its process group and fails the test after `limit`.
#[track_caller]
pub fn wait(mut running: Running, limit: Duration) -> Ended {
    let mut status = None;
    while status.is_none() || !running.outputs.iter().all(JoinHandle::is_finished) {
        if status.is_none() {
            status = running.child.try_wait().expect("waiting for a child");
        }
        if running.started.elapsed() > limit {
            running.signal_all(libc::SIGKILL);
            let _ = running.child.wait();
            let [stdout, stderr] = running.outputs.map(|o| o.join().unwrap_or_default());
            panic!("{} did not end within {limit:?}\nstdout:\n{stdout}\nstderr:\n{stderr}", running.what);
        }
        thread::sleep(Duration::from_millis(2));
    }
    let [stdout, stderr] = running.outputs.map(|o| o.join().expect("reading output"));
    Ended { status: shell_status(status.expect("it ended")), stdout, stderr, took: running.started.elapsed() }
}

fn shell_status(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs `command` to its end; three minutes are enough for every program of the tests.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    wait(spawn(command.stdin(Stdio::null())), Duration::from_secs(180))
}

/// A command that may start more ranks of MPI than there are processors, and as root too, whichever MPI it is.
pub fn for_mpi(command: &mut Command) -> &mut Command {
    for whose in ["OMPI", "PRTE"] {
        command.env(format!("{whose}_ALLOW_RUN_AS_ROOT"), "1").env(format!("{whose}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
    }
    // Jobs that end take the folder that all of a user's jobs share away from those that begin.
    let folder = command.get_current_dir().map_or_else(std::env::temp_dir, Path::to_path_buf);
    command.env("OMPI_MCA_orte_tmpdir_base", &folder).env("PRTE_MCA_prte_tmpdir_base", folder);
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
}

/// Whether this is root.
pub fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Turns `command` into one of a user without any privilege, if the tests run as root; else it already is one.
pub fn run_as_nobody(command: &mut Command) -> &mut Command {
    const NOBODY: u32 = 65534;
    if is_root() {
        // Setting the user id as root drops all capabilities, and std drops the supplementary groups.
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Says that a test cannot run here, and why: past the harness, which keeps what passing tests print to itself; `./test` repeats it at
/// its end. With `CI=true` the test fails if it `could` run as far as one can tell from outside.
#[track_caller]
pub fn not_tested(why: &str, could: bool) {
    let _ = writeln!(std::io::stderr(), "not tested: {why}");
    assert!(!could || std::env::var("CI").as_deref() != Ok("true"), "not tested, though it could be: {why}");
}

/// Whether this is root with its rights over the system; in a container it often has none of them.
pub fn may_administer() -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let rights = status.lines().find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    is_root() && rights.is_some_and(|r| r & CAP_SYS_ADMIN != 0)
}
