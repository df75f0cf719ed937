//! The daemon's clients: they find its socket, make sure whose it is, and ask.

use super::door::peer_of;
use super::talk::{MOST_REPLY, Reply, Request};
use crate::{Error, Program};
use record::launch::dress;
use record::owner::Owner;
use record::program;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use wire::session::JOB;

/// Where the daemon of root listens.
const ROOTS: &str = "/run/hearth.sock";
/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a program waits to be started.
const STARTED: Duration = Duration::from_secs(5);

/// Where a daemon of this user listens if nothing else is said.
pub fn socket() -> PathBuf {
    let uid = Owner::me().uid;
    let run = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty());
    match (uid, run) {
        (0, _) => ROOTS.into(),
        (_, Some(dir)) => Path::new(&dir).join("hearth.sock"),
        _ => format!("/tmp/hearth-{uid}.sock").into(),
    }
}

/// Why there is no answer.
pub(super) enum Silence {
    /// There is nobody to ask.
    Nobody(Error),
    /// Something is wrong.
    Error(Error),
    /// A daemon is there and says nothing: it was stopped, or has too much to do.
    Late(Error),
    /// It has closed the door without a word: it hears too many at once.
    Away(Error),
}

/// Until one who was turned away asks again.
const PAUSE: Duration = Duration::from_millis(20);

/// Asks the daemon at a socket; if none is given the user's own, or else root's.
pub fn ask(at: Option<&Path>, what: Request) -> Result<Reply, Error> {
    ask_within(at, what, PATIENCE)
        .map_err(|(Silence::Nobody(e) | Silence::Error(e) | Silence::Late(e) | Silence::Away(e))| e)
}

fn ask_within(at: Option<&Path>, what: Request, patience: Duration) -> Result<Reply, Silence> {
    let until = Instant::now() + patience;
    loop {
        match ask_once(at, what, patience) {
            // Whether a daemon that ends was told to by this one is not known.
            Err(Silence::Away(_)) if what != Request::Stop && Instant::now() < until => std::thread::sleep(PAUSE),
            Err(Silence::Away(e)) => return Err(Silence::Late(e)),
            other => return other,
        }
    }
}

fn ask_once(at: Option<&Path>, what: Request, patience: Duration) -> Result<Reply, Silence> {
    let say = |what: String| Silence::Error(Error(what));
    let places = at.map_or_else(|| vec![socket(), ROOTS.into()], |at| vec![at.to_path_buf()]);
    let mut found = None;
    for place in &places {
        let late = || Silence::Late(Error(format!("the daemon at {} gave no answer", place.display())));
        match connect(place) {
            Ok(stream) => {
                found = Some((place, stream));
                break;
            }
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            // Others wait there, as many as may.
            Err(e) if e.kind() == ErrorKind::WouldBlock => return Err(late()),
            Err(e) => return Err(say(format!("the daemon at {} cannot be reached: {e}", place.display()))),
        }
    }
    let Some((place, mut stream)) = found else {
        let place = places.first().map(|p| p.display().to_string()).unwrap_or_default();
        let nobody = format!("no daemon listens at {place}; start one with `hearth daemon`");
        return Err(Silence::Nobody(Error(nobody)));
    };
    let me = Owner::me();
    match peer_of(&stream) {
        Some(peer) if peer.uid == 0 || peer.uid == me.uid => {}
        _ => {
            let place = place.display();
            return Err(say(format!(
                "who listens at {place} is neither root nor you; give the right place with --socket"
            )));
        }
    }
    let fail = |e: std::io::Error| {
        let error = Error(format!("the daemon at {} gave no answer: {e}", place.display()));
        match e.kind() {
            ErrorKind::WouldBlock => Silence::Late(error),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof => Silence::Away(error),
            _ => Silence::Error(error),
        }
    };
    stream.set_nonblocking(false).map_err(fail)?;
    stream.set_read_timeout(Some(patience)).map_err(fail)?;
    stream.set_write_timeout(Some(patience)).map_err(fail)?;
    let mut text = serde_json::to_vec(&what).map_err(|e| fail(e.into()))?;
    text.push(b'\n');
    stream.write_all(&text).map_err(fail)?;
    let mut line = String::new();
    BufReader::new(stream.take(MOST_REPLY)).read_line(&mut line).map_err(fail)?;
    if line.is_empty() {
        return Err(fail(ErrorKind::UnexpectedEof.into()));
    }
    match serde_json::from_str(&line).map_err(|e| fail(e.into()))? {
        Reply::Refused { why } => Err(say(why)),
        reply => Ok(reply),
    }
}

/// Connects without waiting: where a daemon does not let anybody in, one would wait for ever.
fn connect(place: &Path) -> std::io::Result<UnixStream> {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(place)?)?;
    Ok(fd.into())
}

/// Waits until the daemon of this process id is gone.
pub fn gone(pid: u32) -> Result<(), Error> {
    // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor or -1.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd < 0 {
        return Ok(());
    }
    // SAFETY: a descriptor just made and owned by nobody else.
    let daemon = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut ended = libc::pollfd { fd: daemon.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    match unsafe { libc::poll(&mut ended, 1, PATIENCE.as_millis() as i32) } {
        0 => Err(Error(format!("the daemon (process {pid}) was told to end and is still there"))),
        _ => Ok(()),
    }
}

/// The session of this user's programs, and the runtime, of a daemon.
pub(super) fn ask_to_attach(at: Option<&Path>) -> Result<(PathBuf, PathBuf), Silence> {
    match ask_within(at, Request::Attach, STARTED)? {
        Reply::Attached { session, runtime } => Ok((session, runtime)),
        _ => Err(Silence::Error(Error(
            "the daemon gave another answer than was asked for; is it of another version?".into(),
        ))),
    }
}

/// Turns this process into the program, in the daemon's session; without one, and with a sentence, if the daemon says nothing. Returns if that is
/// not possible.
pub fn attach(at: Option<&Path>, program: &Program) -> Result<std::convert::Infallible, Error> {
    let path = program::check(&program.name)?;
    let mut command = Command::new(&path);
    command.arg0(&program.name).args(&program.args);
    match ask_to_attach(at) {
        Ok((session, runtime)) => {
            dress(&mut command, &runtime, None, &session)?;
            // This process, which becomes the program: all that descends from it is one job, whoever of it reports.
            command.env(JOB, std::process::id().to_string());
        }
        Err(Silence::Nobody(e) | Silence::Error(e)) => return Err(e),
        Err(Silence::Late(e) | Silence::Away(e)) => eprintln!("hearth: {e}; the program runs without Hearth"),
    }
    Err(Error(format!("cannot start {}: {}", path.display(), command.exec())))
}
