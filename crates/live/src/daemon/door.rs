//! The daemon's socket. Who comes is known by what the kernel says of it; each is heard by a thread of its own, so that one who is slow or says nothing
//! holds up nobody, and only so many at once.

use super::rights;
use super::talk::{MOST_REQUEST, Reply, Request};
use crate::Error;
use record::owner::Owner;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Clients that are heard at once.
const MOST_CLIENTS: usize = 64;
/// Of one user.
const MOST_OF_ONE: usize = 8;
/// A client has so long to say what it wants, and to hear the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// And at the end of the daemon so long.
const FAREWELL: Duration = Duration::from_millis(500);
/// The daemon answers between two looks at the rings.
const ANSWERED: Duration = Duration::from_secs(30);

/// A request, with whoever made it.
pub struct Asked {
    /// User and group of the process that asked, as the kernel says.
    pub peer: Owner,
    /// What it wants.
    pub what: Request,
    to: SyncSender<Reply>,
}

impl Asked {
    /// Answers it. Who has gone meanwhile misses it.
    pub fn answer(self, reply: Reply) {
        let _ = self.to.try_send(reply);
    }
}

/// The socket; dropped, it is gone.
pub struct Door {
    path: PathBuf,
    asked: Receiver<Asked>,
    bell: Arc<OwnedFd>,
    /// Clients that are being heard.
    inside: Arc<AtomicUsize>,
    _lock: File,
}

impl Door {
    /// Opens the socket: for everyone if root does, else for its owner. A socket that was left behind is replaced.
    pub fn open(path: &Path, me: Owner) -> Result<Door, Error> {
        let cannot = |what: &str, e: &dyn std::fmt::Display| {
            Error(format!("{}: {what}: {e}; give another place with --socket", path.display()))
        };
        match std::fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => {
                return Err(Error(format!(
                    "{} is there already and is no socket; give another place with --socket",
                    path.display()
                )));
            }
            _ => {}
        }
        // Before there is a lock of a socket that cannot be.
        std::os::unix::net::SocketAddr::from_pathname(path).map_err(|e| cannot("it cannot be a socket", &e))?;
        let lock_path = lock_of(path);
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let mut lock = options.open(&lock_path).map_err(|e| cannot("the lock beside it cannot be made", &e))?;
        // SAFETY: flock on an open descriptor.
        if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let who = pid.trim().parse::<u32>().map_or(String::new(), |pid| format!(" (process {pid})"));
            return Err(Error(format!(
                "a daemon runs already{who} at {}; end it with `hearth stop`, or give this one another place with --socket",
                path.display()
            )));
        }
        lock.set_len(0)
            .and_then(|()| write!(lock, "{}", std::process::id()))
            .map_err(|e| cannot("the lock beside it cannot be written", &e))?;
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(cannot("a socket that was left behind cannot be removed", &e));
            }
            _ => {}
        }
        let listener = UnixListener::bind(path).map_err(|e| cannot("the socket cannot be made", &e))?;
        let mode = if me.uid == 0 { 0o666 } else { 0o600 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
            .map_err(|e| cannot("the socket cannot be opened to its users", &e))?;
        // SAFETY: a new descriptor or -1.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(cannot("no event can be made", &std::io::Error::last_os_error()));
        }
        // SAFETY: a descriptor just made and owned by nobody else.
        let bell = Arc::new(unsafe { OwnedFd::from_raw_fd(bell) });
        let (tell, asked) = sync_channel(MOST_CLIENTS);
        let (ring, inside) = (bell.clone(), Arc::new(AtomicUsize::new(0)));
        let count = inside.clone();
        std::thread::Builder::new()
            .name("hearth-door".into())
            .spawn(move || listen(&listener, &tell, &ring, &count))
            .map_err(|e| cannot("no thread for it can be started", &e))?;
        Ok(Door { path: path.to_path_buf(), asked, bell, inside, _lock: lock })
    }

    /// Readable when somebody has asked for something.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// All that was asked since the last time.
    pub fn asked(&self) -> Vec<Asked> {
        let mut count = [0u8; 8];
        // SAFETY: reads the event's eight bytes.
        unsafe { libc::read(self.bell.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        self.asked.try_iter().collect()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        // The lock stays: without it two daemons could each have one. Who was answered last is to hear it.
        let until = Instant::now() + FAREWELL;
        while self.inside.load(Relaxed) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn lock_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    name.into()
}

fn listen(listener: &UnixListener, tell: &SyncSender<Asked>, bell: &Arc<OwnedFd>, inside: &Arc<AtomicUsize>) {
    // Rights are a thread's own, and are handed on to those that it starts. Without root's there are none to give up.
    let _ = rights::give_up();
    let me = Owner::me();
    let users: Arc<Mutex<HashMap<u32, usize>>> = Arc::default();
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, for example.
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        let Some(peer) = peer_of(&stream) else { continue };
        let Ok(mut of) = users.lock() else { return };
        // Nobody takes all the places, and the last ones are for who may stop it.
        let trusted = peer.uid == me.uid || peer.uid == 0;
        let most = if trusted { MOST_CLIENTS } else { MOST_CLIENTS - MOST_OF_ONE };
        let own = of.get(&peer.uid).copied().unwrap_or(0);
        if inside.load(Relaxed) >= most || own >= MOST_OF_ONE {
            continue;
        }
        inside.fetch_add(1, Relaxed);
        of.insert(peer.uid, own + 1);
        drop(of);
        let (tell, bell, count, of) = (tell.clone(), bell.clone(), inside.clone(), users.clone());
        let leave = move || {
            count.fetch_sub(1, Relaxed);
            let Ok(mut of) = of.lock() else { return };
            let left = of.get(&peer.uid).map_or(0, |n| n.saturating_sub(1));
            match left {
                0 => _ = of.remove(&peer.uid),
                _ => _ = of.insert(peer.uid, left),
            }
        };
        let failed = leave.clone();
        let heard = move || {
            hear(stream, &tell, &bell);
            leave();
        };
        if std::thread::Builder::new().name("hearth-door".into()).spawn(heard).is_err() {
            failed();
        }
    }
}

/// Hears one client to its end.
fn hear(mut stream: UnixStream, tell: &SyncSender<Asked>, bell: &OwnedFd) {
    let _ = stream.set_write_timeout(Some(PATIENCE));
    let reply = match read(&mut stream).and_then(|line| Some((peer_of(&stream)?, line))) {
        None => return,
        Some((peer, line)) => match serde_json::from_slice::<Request>(&line) {
            Err(e) => Reply::Refused { why: format!("this daemon does not understand what was asked: {e}") },
            Ok(what) => {
                let (to, answer) = sync_channel(1);
                if tell.try_send(Asked { peer, what, to }).is_err() {
                    return;
                }
                // SAFETY: writes the event's eight bytes.
                unsafe { libc::write(bell.as_raw_fd(), 1u64.to_ne_bytes().as_ptr().cast(), 8) };
                match answer.recv_timeout(ANSWERED) {
                    Ok(reply) => reply,
                    Err(_) => return,
                }
            }
        },
    };
    if let Ok(mut text) = serde_json::to_vec(&reply) {
        text.push(b'\n');
        let _ = stream.write_all(&text);
    }
}

/// The client's line, if it comes in time.
fn read(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let mut line = Vec::new();
    let mut part = [0; 512];
    while line.len() <= MOST_REQUEST {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())?;
        stream.set_read_timeout(Some(left)).ok()?;
        let n = stream.read(&mut part).ok()?;
        line.extend_from_slice(&part[..n]);
        if let Some(end) = line.iter().position(|b| *b == b'\n') {
            line.truncate(end);
            return Some(line);
        }
        if n == 0 {
            return None;
        }
    }
    None
}

/// User and group of the process at the other end, when it connected or listened.
pub fn peer_of(stream: &UnixStream) -> Option<Owner> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the answer fits into `peer`, as long as said.
    let told = unsafe {
        libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut peer).cast(), &mut len)
    };
    (told == 0).then_some(Owner { uid: peer.uid, gid: peer.gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_or_nonsense_is_shown_out_and_holds_up_nobody() {
        let dir = tempfile::tempdir().expect("there is room");
        let path = dir.path().join("d.sock");
        // One that a daemon which was killed left behind.
        drop(UnixListener::bind(&path).expect("it is free"));
        let door = Door::open(&path, Owner::me()).expect("it opens");
        let second = Door::open(&path, Owner::me()).err().expect("there is one already").to_string();
        assert!(second.contains(&format!("a daemon runs already (process {})", std::process::id())), "{second}");
        let silent: Vec<_> = (0..4).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
        let say = |what: &[u8]| {
            let mut client = UnixStream::connect(&path).expect("it listens");
            client.write_all(what).expect("it hears");
            client
        };
        let hear = |mut client: UnixStream| {
            let mut said = String::new();
            client.read_to_string(&mut said).map(|_| said).unwrap_or_default()
        };
        let nonsense = hear(say(b"{\"want\":\"everything\"}\n"));
        assert!(nonsense.contains("does not understand"), "{nonsense}");
        assert_eq!(hear(say(&[b'x'; 3 * MOST_REQUEST])), "");
        let good = say(b"{\"want\":\"status\"}\n");
        let until = Instant::now() + PATIENCE * 5;
        let asked = loop {
            if let Some(asked) = door.asked().pop() {
                break asked;
            }
            assert!(Instant::now() < until, "it was asked");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!((asked.what, asked.peer), (Request::Status, Owner::me()));
        asked.answer(Reply::Refused { why: "not now".into() });
        assert_eq!(hear(good), "{\"reply\":\"refused\",\"why\":\"not now\"}\n");
        // Too many at once are shown out, and the rest in time.
        let many: Vec<_> = (0..2 * MOST_CLIENTS).map(|_| UnixStream::connect(&path).expect("it listens")).collect();
        assert!(silent.into_iter().chain(many).all(|client| hear(client).is_empty()));
        drop(door);
        assert!(!path.exists());
    }
}
