//! One engine for many programs that come and go: they share the fast memory by what each of their objects would gain from it.
//!
//! Each user has a standing session ([`record::session`]); a program is started in it by whoever asks for it ([`client`]), and from then on is none
//! of the daemon's children: if the daemon ends or is killed the program goes on, and the next daemon picks it up where it is. [`door`] is the socket at which
//! the daemon is asked for things, [`talk`] what is said there, [`rights`] what root's daemon keeps of its power, [`node`] how ranks of an MPI job share one.

pub mod client;
mod door;
pub mod node;
mod rights;
pub mod talk;
mod torn;

use crate::engine::Engine;
use crate::status::{Board, Status};
use crate::{Error, Lived, Options, Ready};
use door::{Asked, Door};
use foldhash::fast::FixedState;
use record::Scope;
use record::launch::{find_runtime, stay_on};
use record::owner::Owner;
use record::session::Session;
use record::watch::Watch;
use std::hash::BuildHasher;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use talk::{Reply, Request};
use wire::session::{Config, flags};

/// Open files that a daemon wants to be able to have: two for each process.
const MOST_FILES: usize = 1 << 16;

/// How long a daemon that runs while it is needed waits for the next program.
const UNNEEDED: Duration = Duration::from_secs(10);

/// A signal has asked the daemon to end.
static ENDING: AtomicBool = AtomicBool::new(false);

extern "C" fn end(_: libc::c_int) {
    ENDING.store(true, Relaxed);
}

/// Runs a daemon at a socket until it is told to end; `began` is called with what is to be said of it when it is ready. As root it is for all users, else
/// for the one who runs it. An error means that it did not begin.
/// `while_needed`: it also ends by itself, when the last program that it places has ended.
pub fn run(
    options: &Options,
    socket: &Path,
    while_needed: bool,
    began: impl FnOnce(&[String]),
) -> Result<Lived, Error> {
    let runtime = find_runtime()?;
    let Ready { mut sampling, routines, journal, llc } = Ready::of(options, Scope::Everyone)?;
    let me = Owner::me();
    let door = Door::open(socket, me)?;
    let config = Config {
        magic: wire::session::CONFIG_MAGIC,
        version: wire::WIRE_VERSION.into(),
        flags: options.flags() | flags::STANDING | sampling.flags,
        threshold: options.threshold(),
        faults_per_second: sampling.faults_per_second,
        steps_per_second: sampling.steps_per_second(),
        most_ppm: sampling.most_ppm,
        // The same for all daemons since the machine was started, so that one takes over what another one began.
        epoch_ns: 0,
        home: options.home().map_or(0, |node| u64::from(node) + 1),
        reserved: [0; 7],
    };
    // The next daemon at this socket finds the sessions by it.
    let name = format!("{:08x}", FixedState::default().hash_one(std::path::absolute(socket).unwrap_or_default()) >> 32);
    let board = Board::default();
    let mut engine = Engine::new(options, routines, journal, sampling.outside.is_some(), llc);
    engine.show_on(board.clone());
    let mut watch = Watch::new(&config, &runtime, None, &mut engine, sampling.outside.as_deref_mut());
    watch.add(Session::stand(me, &name, &config)?);
    let mut notes: Vec<String> = sampling.chosen.iter().cloned().collect();
    if me.uid == 0 {
        // Programs of a daemon before this one.
        for owner in Session::standing(&name).into_iter().filter(|o| o.uid != me.uid) {
            match Session::stand(owner, &name, &config) {
                Ok(session) => watch.add(session),
                Err(e) => notes.push(e.to_string()),
            }
        }
        rights::give_up()?;
    }
    torn::survive();
    record::open_files::make_room(MOST_FILES);
    if let Some(node) = options.home() {
        stay_on(node);
    }
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: the handler only sets a flag.
        unsafe { libc::signal(signal, end as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
    ENDING.store(false, Relaxed);
    watch.begin_sampling();
    began(&notes);
    let mut needed = Instant::now();
    while !(ENDING.load(Relaxed) || while_needed && needed.elapsed() > UNNEEDED) {
        watch.rest(Some(door.bell()));
        for asked in door.asked() {
            needed = Instant::now();
            let reply = answer(&asked, &mut watch, (&name, &config), &runtime, me, &board);
            asked.answer(reply);
        }
        watch.look_around();
        if watch.alive() > 0 {
            needed = Instant::now();
        }
    }
    // The sessions before the socket: the next daemon, which begins when that is free, is to find them.
    watch.leave();
    drop(door);
    Ok(engine.end())
}

fn answer(
    asked: &Asked,
    watch: &mut Watch<'_>,
    (name, config): (&str, &Config),
    runtime: &Path,
    me: Owner,
    board: &Board,
) -> Reply {
    let peer = asked.peer;
    let trusted = peer.uid == me.uid || peer.uid == 0;
    match asked.what {
        Request::Attach if peer.uid == me.uid || me.uid == 0 => {
            let mut known = watch.sessions().iter().filter(|s| s.owner().uid == peer.uid && s.is_there());
            let known = known.next().map(|s| s.dir().to_path_buf());
            let session = known.map_or_else(
                || {
                    let session = Session::stand(peer, name, config)?;
                    let dir = session.dir().to_path_buf();
                    watch.add(session);
                    Ok(dir)
                },
                Ok::<_, Error>,
            );
            match session {
                Ok(session) => Reply::Attached { session, runtime: runtime.to_path_buf() },
                Err(e) => Reply::Refused { why: e.to_string() },
            }
        }
        Request::Attach => Reply::Refused {
            why: format!("this daemon is for programs of user {} only; start one of your own (hearth daemon)", me.uid),
        },
        Request::Status => {
            let mut status: Status = board.lock().map(|s| s.clone()).unwrap_or_default();
            if !trusted {
                status.only_of(peer.uid);
            }
            Reply::Status { status: Box::new(status) }
        }
        Request::Stop if trusted => {
            ENDING.store(true, Relaxed);
            Reply::Stopping { pid: std::process::id() }
        }
        Request::Stop => Reply::Refused { why: format!("only user {} and root may stop this daemon", me.uid) },
    }
}
