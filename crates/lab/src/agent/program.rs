//! Starts the program: as its user, in its folder, with its limits, in its cgroup, under its memory policy.

use super::kernel::Cgroup;
use crate::Error;
use crate::job::{Job, LANDING, PLAN, PLATFORM, Policy, Roi, SESSION, STDERR, STDIN, STDOUT, Terminal};
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::*};
use wire::mark;

/// One of so many misses is sampled for `hearth live`: the lab's programs are short.
const PERIOD: &str = "100";

const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;
/// Since Linux 6.9 (include/uapi/linux/mempolicy.h).
const MPOL_WEIGHTED_INTERLEAVE: libc::c_int = 6;

/// A program that was started.
pub struct Program {
    /// The process to wait for: the program, or the launcher that guides it.
    pub child: Child,
    /// Guest time at its first instruction, in ns.
    pub began_ns: u64,
    /// What it prints, with the file in the session that it is copied to.
    pub printed: Vec<Copied>,
}

/// A file in the guest's memory whose growth is copied to the session. The program writes into memory, so that its time
/// does not depend on the host's files.
pub struct Copied {
    from: File,
    to: File,
    done: u64,
}

impl Copied {
    fn new(name: &str) -> io::Result<Copied> {
        Ok(Copied { from: memory_file()?, to: File::create(Path::new(SESSION).join(name))?, done: 0 })
    }

    /// Copies what is new.
    pub fn copy(&mut self) -> Result<(), Error> {
        let mut buffer = vec![0; 1 << 16];
        loop {
            let error = |e| Error(format!("the guest cannot hand over what the program printed: {e}"));
            let n = self.from.read_at(&mut buffer, self.done).map_err(error)?;
            if n == 0 {
                return Ok(());
            }
            self.to.write_all(&buffer[..n]).map_err(error)?;
            self.done += n as u64;
        }
    }
}

/// CLOCK_MONOTONIC, in ns.
pub fn now_ns() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Starts it. With [`Roi::Start`] the time model is on from its first instruction; for a guided program that is left to
/// [`take_over`].
pub fn start(job: &Job, cgroup: &Cgroup) -> Result<Program, Error> {
    let guided = job.policy.has_launcher();
    let mut command = match guided {
        true => launcher(job),
        false => {
            let mut command = Command::new(&job.program);
            command.arg0(&job.command[0]).args(&job.command[1..]);
            command
        }
    };
    command.env_clear().envs(job.environment.iter().map(|(k, v)| (k, v)));
    let failed = |e: io::Error| Error(format!("the guest cannot start {}: {e}", Path::new(&job.program).display()));
    let mut printed = Vec::new();
    match job.terminal {
        Some(size) => {
            let terminal = terminal(size).map_err(failed)?;
            let end = || terminal.try_clone().map(Stdio::from).map_err(failed);
            command.stdin(end()?).stdout(end()?).stderr(end()?);
        }
        None => {
            let (out, err) = (Copied::new(STDOUT).map_err(failed)?, Copied::new(STDERR).map_err(failed)?);
            command.stdin(input().map_err(failed)?);
            command.stdout(out.from.try_clone().map_err(failed)?).stderr(err.from.try_clone().map_err(failed)?);
            printed.extend([out, err]);
        }
    }
    let clock = shared_clock().map_err(failed)?;
    let policy = memory_policy(job);
    let user = job.user.clone();
    let folder = CString::new(job.folder.as_bytes()).map_err(|e| failed(e.into()))?;
    // The launcher of a guided program stays outside, and on the slow memory: the fast one is the program's.
    let entrance = if guided { None } else { Some(cgroup.entrance()?) };
    if guided {
        command.env(wire::session::PROGRAM_POLICY, "default");
    }
    let has_terminal = job.terminal.is_some();
    let switch_on = job.roi == Some(Roi::Start) && !guided;
    let enter = move || {
        // SAFETY: all of these are async-signal-safe system calls on values made before the fork.
        unsafe {
            if let Some(file) = &entrance {
                if libc::write(file.as_raw_fd(), c"0".as_ptr().cast(), 1) != 1 {
                    return Err(io::Error::last_os_error());
                }
            }
            if guided {
                take_precedence();
            }
            if has_terminal {
                libc::setsid();
                check(libc::ioctl(0, libc::TIOCSCTTY, 0))?;
            }
            for &(which, soft, hard) in &user.limits {
                let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
                check(libc::setrlimit(which as _, &limit))?;
            }
            check(libc::setgroups(user.groups.len(), user.groups.as_ptr()))?;
            check(libc::setgid(user.gid))?;
            check(libc::setuid(user.uid))?;
            libc::umask(user.umask);
            check(libc::chdir(folder.as_ptr()))?;
            if let Some((mode, nodes)) = policy {
                check(libc::syscall(libc::SYS_set_mempolicy, mode, &nodes, 64u64) as libc::c_int)?;
            }
            if switch_on {
                mark::on();
            }
        }
        clock.store(now_ns(), Relaxed);
        Ok(())
    };
    // SAFETY: the closure makes system calls only.
    unsafe { command.pre_exec(enter) };
    let child = command.spawn().map_err(failed)?;
    Ok(Program { child, began_ns: clock.load(Relaxed), printed })
}

/// The calling process is to work when its time has come, also where one CPU is the program's. Its children do not inherit
/// this. A kernel that refuses lets it work late, which the report's times show.
pub fn take_precedence() {
    let lowest = libc::sched_param { sched_priority: 1 };
    // SAFETY: a valid structure.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &lowest) };
}

/// Takes a program over from its launcher when that has started it: from now on it is in its cgroup and its time counts.
/// Returns the time, in ns.
pub fn take_over(pid: u32, job: &Job, cgroup: &Cgroup) -> Result<u64, Error> {
    // SAFETY: signals to a process that we started.
    unsafe { libc::kill(pid as i32, libc::SIGSTOP) };
    cgroup.enter(pid)?;
    if job.roi == Some(Roi::Start) {
        mark::on();
    }
    let now = now_ns();
    // SAFETY: as above.
    unsafe { libc::kill(pid as i32, libc::SIGCONT) };
    Ok(now)
}

fn check(result: libc::c_int) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn launcher(job: &Job) -> Command {
    let session = Path::new(SESSION);
    let mut command = Command::new("/proc/self/exe");
    match &job.policy {
        Policy::Live(options) => {
            command.args(["live", "--platform"]).arg(session.join(PLATFORM));
            // The user's own sampling counts. How much is fast says the lab's `--fast`.
            let says = |name: &str| {
                options.iter().any(|o| o.strip_prefix("--").is_some_and(|o| o.split('=').next() == Some(name)))
            };
            // By a profile nothing is sampled.
            if !says("profile") && !says("sampler") {
                command.args(["--sampler", "lab"]);
                if !says("period") {
                    command.args(["--period", PERIOD]);
                }
            }
            // What is free of a node is never quite what was left free of it.
            command.args(job.limit.iter().flat_map(|(_, bytes)| ["--fast".to_string(), bytes.to_string()]));
            command.args(options)
        }
        _ => command.arg("run").arg("--plan").arg(session.join(PLAN)),
    };
    command.arg("--quiet").arg("--json").arg(session.join(LANDING)).arg("--").arg(&job.program).args(&job.command[1..]);
    command
}

/// Memory policy of the process (set_mempolicy(2)), as mode and set of nodes; none for the kernel's default.
fn memory_policy(job: &Job) -> Option<(libc::c_int, u64)> {
    let all = (1u64 << job.nodes) - 1;
    match job.policy {
        Policy::Bind(node) => Some((MPOL_BIND, 1 << node)),
        Policy::Interleave => Some((MPOL_INTERLEAVE, all)),
        Policy::WeightedInterleave(_) => Some((MPOL_WEIGHTED_INTERLEAVE, all)),
        // The launcher's; the program's is the kernel's default ([`wire::session::PROGRAM_POLICY`]).
        Policy::Plan | Policy::Live(_) => Some((MPOL_BIND, 1 << job.files_node)),
        Policy::FirstTouch | Policy::Kernel => None,
    }
}

/// A file in memory that is appended to, like the file a shell redirects into.
fn memory_file() -> io::Result<File> {
    // SAFETY: a valid name; the new descriptor is owned by the file.
    unsafe {
        let fd = libc::memfd_create(c"output".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let file = File::from_raw_fd(fd);
        check(libc::fchmod(fd, 0o666))?;
        check(libc::fcntl(fd, libc::F_SETFL, libc::O_APPEND))?;
        Ok(file)
    }
}

/// What the program reads, copied into memory before it starts.
fn input() -> io::Result<Stdio> {
    let mut from = match File::open(Path::new(SESSION).join(STDIN)) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Stdio::null()),
        Err(e) => return Err(e),
    };
    let mut file = memory_file()?;
    io::copy(&mut from, &mut file)?;
    io::Seek::rewind(&mut file)?;
    Ok(Stdio::from(file))
}

/// The host's terminal, which QEMU passes through.
fn terminal(size: Terminal) -> io::Result<File> {
    let file = File::options().read(true).write(true).open("/dev/hvc0")?;
    let window = libc::winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: an open terminal and a valid structure.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TIOCSWINSZ, &window) })?;
    Ok(file)
}

/// A word that this process shares with the one it forks: the time at which the program took over. Never unmapped: there
/// is one program in a guest's life.
fn shared_clock() -> io::Result<&'static AtomicU64> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping of one page, zeroed, which is a valid atomic and stays.
    unsafe {
        match libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0) {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(&*at.cast::<AtomicU64>()),
        }
    }
}
