//! One daemon for all ranks of a job on this node: whichever rank comes first starts it, and it ends when nobody needs it any more. It is Unimem's service
//! that shares the fast memory among the ranks of a node (SC 2017, section 3.3).

use super::client::{self, Silence};
use crate::{Error, Program};
use record::launch::{dress, find_mpi, find_runtime};
use record::program;
use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wire::session::JOB;

/// How long a rank waits for the daemon to listen.
const LISTENS: Duration = Duration::from_secs(20);
/// How often it asks.
const PAUSE: Duration = Duration::from_millis(50);
/// Whether something should be moved is looked that often: iterations of MPI programs are rather short.
const INTERVAL: &str = "500ms";

/// Turns this process into the program, as a rank of a job of which phases begin with operations of MPI, under the daemon at this socket; a daemon is
/// started if there is none. Returns if that is not possible.
pub fn join(at: Option<&Path>, program: &Program) -> Result<std::convert::Infallible, Error> {
    let path = program::check(&program.name)?;
    let socket = at.map_or_else(client::socket, Path::to_path_buf);
    let mut command = Command::new(&path);
    command.arg0(&program.name).args(&program.args);
    let prepared = find_runtime().and_then(|runtime| find_mpi(&runtime));
    match prepared.and_then(|mpi| Ok((mpi, session(at, &socket)?))) {
        Ok((mpi, (session, runtime))) => {
            dress(&mut command, &runtime, Some(&mpi), &session)?;
            // What has started the ranks of this node stands for the job.
            command.env(JOB, std::os::unix::process::parent_id().to_string());
        }
        // A rank that does not start keeps all others waiting.
        Err(e) => eprintln!("hearth: {e}; the program runs without Hearth"),
    }
    Err(Error(format!("cannot start {}: {}", path.display(), command.exec())))
}

/// The session of this user's programs, and the runtime, of the daemon that is running or of one that is started now.
fn session(at: Option<&Path>, socket: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let began = Instant::now();
    let mut log = None;
    loop {
        match client::ask_to_attach(at) {
            Ok(found) => return Ok(found),
            Err(Silence::Error(e) | Silence::Late(e) | Silence::Away(e)) if began.elapsed() > LISTENS => return Err(e),
            Err(Silence::Nobody(_)) if log.is_none() => log = Some(start(socket)?),
            Err(Silence::Nobody(e)) if began.elapsed() > LISTENS => {
                let log = log.unwrap_or_default();
                return Err(Error(format!("{e}; what the daemon that was started says is in {}", log.display())));
            }
            Err(Silence::Nobody(_) | Silence::Late(_) | Silence::Away(_)) => std::thread::sleep(PAUSE),
            Err(Silence::Error(e)) => return Err(e),
        }
    }
}

/// Starts a daemon that outlives this process, and has none of its files: what starts ranks waits until all of these are closed. Of several that ranks
/// start at once, one stays. Gives the file that it writes to.
fn start(socket: &Path) -> Result<PathBuf, Error> {
    let cannot = |what: &str, e: std::io::Error| Error(format!("cannot start a daemon for this node: {what}: {e}"));
    let hearth = std::env::current_exe().map_err(|e| cannot("where hearth lies is not known", e))?;
    let mut name = socket.as_os_str().to_owned();
    name.push(".log");
    let log = PathBuf::from(name);
    let mut options = File::options();
    options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(&log).map_err(|e| cannot(&log.display().to_string(), e))?;
    let mut command = Command::new(hearth);
    command.args(["daemon", "--while-needed", "--interval", INTERVAL, "--socket"]).arg(socket);
    command.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
    // SAFETY: the calls are async-signal-safe, and the closure allocates nothing.
    unsafe {
        command.pre_exec(|| {
            // The child of a child, which ends at once: else it would be one of the program's, and its end a signal to it.
            if libc::fork() != 0 {
                libc::_exit(0);
            }
            libc::setsid();
            // Standard streams are open already; closed by exec, so that a failure of it can still be told.
            libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
    let mut child = command.spawn().map_err(|e| cannot("hearth daemon", e))?;
    child.wait().map_err(|e| cannot("hearth daemon", e))?;
    Ok(log)
}
