//! One observed process seen from outside: its mapped process file, its rings, and whether it still lives.

use crate::owner::Owner;
use model::{Apart, Module, SiteId, SiteKind};
use profile::estimate::Burst;
use std::fs::File;
use std::num::NonZeroU64;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::*;
use wire::event::{Event, Kind, MAX_BUILD_ID, MAX_PATH, MAX_SLOTS, SLOT_WORDS, decode, ended};
use wire::process::{FILE_BYTES, HEADER_BYTES, Header, MAGIC, MAX_RINGS, RING_BYTES, RING_SLOTS, Ring, header};

/// An event out of its ring.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// Thread.
    pub tid: u32,
    /// ns since the session's epoch.
    pub time: u64,
    /// What happened.
    pub what: What,
}

/// [`wire::event::Event`] with its text and frames owned.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are those of `Event`
pub enum What {
    /// `ended`: its end was told with it.
    Alloc {
        addr: u64,
        size: u64,
        site: SiteId,
        tier: u8,
        realloc: bool,
        kind: SiteKind,
        ended: Option<NonZeroU64>,
    },
    Unmap {
        addr: u64,
        size: u64,
    },
    Free {
        addr: u64,
    },
    Site {
        site: SiteId,
        frames: Box<[u64]>,
        truncated: bool,
        apart: Option<Apart>,
    },
    Region {
        region: SiteId,
        number: u64,
    },
    Use {
        phase: SiteId,
        addr: u64,
    },
    Module {
        index: u16,
        module: Module,
    },
    Visit {
        addr: u64,
        ip: u64,
        object: u64,
        site: SiteId,
        wait_ns: u64,
        store: bool,
        burst: Option<Box<Burst>>,
    },
    Quiet {
        page: u64,
        object: u64,
        site: SiteId,
        wait_ns: u64,
    },
}

impl What {
    fn from_wire(event: Event<'_>, ended: Option<u64>) -> What {
        match event {
            Event::Alloc { addr, size, site, tier, realloc, kind } => {
                let kind = match kind {
                    Kind::Allocation => SiteKind::Allocation,
                    Kind::Mapping => SiteKind::Mapping,
                    Kind::Static => SiteKind::Static,
                };
                What::Alloc {
                    addr,
                    size,
                    site: SiteId(site),
                    tier,
                    realloc,
                    kind,
                    ended: ended.and_then(NonZeroU64::new),
                }
            }
            Event::Unmap { addr, size } => What::Unmap { addr, size },
            Event::Free { addr } => What::Free { addr },
            Event::Region { region, number } => What::Region { region: SiteId(region), number },
            Event::Use { phase, addr } => What::Use { phase: SiteId(phase), addr },
            Event::Site { site, frames, truncated, apart } => {
                let apart = apart.map(|a| Apart { stack: SiteId(a.stack), number: a.number });
                What::Site { site: SiteId(site), frames: frames.into(), truncated, apart }
            }
            Event::Module { index, build_id, path } => What::Module {
                index,
                module: Module {
                    path: String::from_utf8_lossy(path).into_owned(),
                    build_id: build_id.iter().map(|b| format!("{b:02x}")).collect(),
                },
            },
            Event::Visit { addr, ip, object, site, wait_ns, store, burst } => What::Visit {
                addr,
                ip,
                object,
                site: SiteId(site),
                wait_ns,
                store,
                // Boxed: it is rare, and would make every event twice as large.
                burst: burst.map(|b| {
                    Box::new(Burst {
                        accesses: b.accesses.into(),
                        stores: b.stores.into(),
                        lines: b.lines.into(),
                        monotonic: b.monotonic,
                        limited: b.limited,
                        stride: b.stride.into(),
                        ns: b.ns,
                    })
                }),
            },
            Event::Quiet { page, object, site, wait_ns } => What::Quiet { page, object, site: SiteId(site), wait_ns },
        }
    }
}

/// A process file, mapped; dropped, it is removed, and its memory given back as soon as the process is gone too.
pub struct ProcessFile {
    path: PathBuf,
    owner: Owner,
    /// It stays when this is dropped.
    kept: bool,
    pid: i32,
    file: File,
    map: memmap2::MmapRaw,
    ready: [bool; MAX_RINGS],
    /// So many of them the process had told of when they were last looked for.
    told: u32,
    alive: Option<OwnedFd>,
    /// Events or slots that made no sense.
    pub corrupt: u64,
}

/// Why a file is not (yet) a process file.
pub enum NotYet {
    /// Its header is not written yet.
    Starting,
    /// The process has ended before anybody looked: whether it was the owner's cannot be told any more, and there is nothing to do to it.
    Over,
    /// It never will be: the sentence says why.
    Never(String),
}

impl Drop for ProcessFile {
    fn drop(&mut self) {
        if !self.kept {
            let _acting = self.owner.act();
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl ProcessFile {
    /// Maps a process file and checks its header. It is to be the owner's, and its process too.
    pub fn open(path: &Path, owner: Owner) -> Result<ProcessFile, NotYet> {
        let never = |why: String| NotYet::Never(format!("{}: {why}", path.display()));
        let opened = {
            let _acting = owner.act();
            // Not to be held up by a pipe that somebody put there.
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            File::options().read(true).write(true).custom_flags(flags).open(path)
        };
        let file = opened.map_err(|e| match e.raw_os_error() {
            // Some descriptors may be free again soon.
            Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => NotYet::Starting,
            _ => never(e.to_string()),
        })?;
        // Read before it is mapped: touching a page that the runtime has not allocated could fill a full tmpfs.
        let mut word = [0; 8];
        match file.metadata() {
            Ok(m) if m.is_file() && m.len() == FILE_BYTES as u64 => {}
            _ => return Err(NotYet::Starting),
        }
        if file.read_exact_at(&mut word, 0).is_err() || u64::from_ne_bytes(word) != MAGIC {
            return Err(NotYet::Starting);
        }
        let map = memmap2::MmapOptions::new().len(FILE_BYTES).map_raw(&file).map_err(|e| never(e.to_string()))?;
        let ready = [false; MAX_RINGS];
        let (path, kept, pid) = (path.to_path_buf(), false, 0);
        let mut process = ProcessFile { path, owner, kept, pid, file, map, ready, told: 0, alive: None, corrupt: 0 };
        // Looked at once: who has written it could write another one's.
        process.pid = process.header().pid.load(Relaxed) as i32;
        let version = process.header().version.load(Acquire);
        if version != wire::WIRE_VERSION {
            return Err(never(format!(
                "the runtime speaks version {version} and this recorder {}; libhearth.so and hearth must come from one build",
                wire::WIRE_VERSION
            )));
        }
        // SAFETY: pidfd_open takes a pid and flags and returns a new descriptor or -1.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process.pid(), 0) };
        // SAFETY: a descriptor just made and owned by nobody else.
        process.alive = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) });
        if !process.is_owners() {
            if process.gone() {
                return Err(NotYet::Over);
            }
            let (path, pid, uid) = (process.path.display(), process.pid, owner.uid);
            return Err(NotYet::Never(format!("{path}: process {pid} is not one of user {uid}'s; it is left alone")));
        }
        Ok(process)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is FILE_BYTES long, page aligned, and lives as long as self.
        unsafe { header(self.map.as_mut_ptr()) }
    }

    /// Process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Lets go of it and leaves it to the next recorder.
    pub fn leave(mut self) {
        self.kept = true;
    }

    /// Path of the executable.
    pub fn exe(&self) -> String {
        text(self.header().exe.iter().map(|b| b.load(Relaxed)))
    }

    /// What the runtime says about itself.
    pub fn text(&self) -> String {
        let header = self.header();
        let len = (header.text_len.load(Acquire) as usize).min(header.text.len());
        text(header.text[..len].iter().map(|b| b.load(Relaxed)))
    }

    /// Whether the process is still there and its owner's, where that is not who runs this: its number may have been made up, and it may have executed what
    /// has rights of its own. Such a one is not to be looked into.
    pub fn is_owners(&self) -> bool {
        self.owner == Owner::me() || self.alive.is_some() && !self.gone() && self.owner.owns(self.pid)
    }

    /// The process has ended (its pidfd is readable, or there is no such process).
    pub fn gone(&self) -> bool {
        match &self.alive {
            Some(fd) => {
                let mut p = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: one valid pollfd.
                unsafe { libc::poll(&mut p, 1, 0) > 0 }
            }
            // SAFETY: signal 0 only asks whether the process is there.
            None => unsafe { libc::kill(self.pid(), 0) != 0 },
        }
    }

    /// Events dropped because rings were full.
    pub fn dropped(&self) -> u64 {
        self.rings().map(|r| r.control().dropped.load(Relaxed)).sum()
    }

    /// Allocations managed, and bytes that they were asked for.
    pub fn managed(&self) -> (u64, u64) {
        let all = &self.header().counters;
        let first = (all.managed.load(Relaxed), all.managed_bytes.load(Relaxed));
        self.rings().fold(first, |(objects, bytes), ring| {
            let own = ring.control();
            (objects.wrapping_add(own.managed.load(Relaxed)), bytes.wrapping_add(own.managed_bytes.load(Relaxed)))
        })
    }

    /// Tells an exiting process that it need not wait any longer.
    pub fn acknowledge_exit(&self) {
        let word = &self.header().exit_ack;
        word.store(1, Release);
        // SAFETY: FUTEX_WAKE on a word of a live shared mapping.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    /// Takes all events out of all rings, ring by ring. Returns the fullest ring's fill, 0 to 1.
    pub fn drain(&mut self, out: &mut Vec<Taken>) -> f64 {
        self.find_rings();
        let mut words = [0; MAX_SLOTS * SLOT_WORDS];
        let mut bytes = [0; MAX_PATH + MAX_BUILD_ID];
        let (mut fullest, mut corrupt) = (0u64, 0);
        for ring in self.rings() {
            let control = ring.control();
            fullest = fullest.max(control.head.load(Relaxed).wrapping_sub(control.tail.load(Relaxed)));
            // A busy producer could keep this loop here for ever: one ringful is enough for one visit.
            for _ in 0..RING_SLOTS {
                match ring.pop(&mut words) {
                    Ok(0) => break,
                    Ok(n) => match decode(&words[..n], &mut bytes) {
                        Some(s) if plausible(&s.event) => {
                            let what = What::from_wire(s.event, ended(&words[..n]));
                            out.push(Taken { tid: s.tid, time: s.time, what });
                        }
                        _ => corrupt += 1,
                    },
                    Err(slots) => corrupt += slots,
                }
            }
        }
        self.corrupt += corrupt;
        fullest.min(RING_SLOTS as u64) as f64 / RING_SLOTS as f64
    }

    fn rings(&self) -> impl Iterator<Item = Ring> + '_ {
        let base = self.map.as_mut_ptr();
        // SAFETY: the mapping holds MAX_RINGS rings and outlives the iterator's borrow of self.
        (0..MAX_RINGS).filter(|&i| self.ready[i]).map(move |i| unsafe { Ring::at(base, i) })
    }

    /// Looks for rings that have come into use, without touching those that have no blocks yet.
    fn find_rings(&mut self) {
        let told = self.header().rings_ready.load(Acquire);
        if told == self.told {
            return;
        }
        self.told = told;
        let mut at = HEADER_BYTES;
        while at < FILE_BYTES {
            // SAFETY: seeks on an owned descriptor; holes are skipped.
            let data = unsafe { libc::lseek(self.file.as_raw_fd(), at as libc::off_t, libc::SEEK_DATA) };
            let Ok(data) = usize::try_from(data) else { return };
            let index = data.saturating_sub(HEADER_BYTES) / RING_BYTES;
            if index >= MAX_RINGS {
                return;
            }
            let start = HEADER_BYTES + index * RING_BYTES;
            let mut word = [0; 4];
            let offset = std::mem::offset_of!(wire::process::RingControl, ready);
            if !self.ready[index] && self.file.read_exact_at(&mut word, (start + offset) as u64).is_ok() {
                self.ready[index] = u32::from_ne_bytes(word) == 1;
            }
            at = start + RING_BYTES;
        }
    }
}

/// User space ends at 2^57 at the latest; sums of such sizes cannot overflow.
fn plausible(event: &Event<'_>) -> bool {
    match *event {
        Event::Alloc { addr, size, .. } | Event::Unmap { addr, size } => can_lie(addr, size),
        _ => true,
    }
}

/// Whether so many bytes can lie at an address of user space.
pub(crate) fn can_lie(addr: u64, size: u64) -> bool {
    addr < 1 << 57 && size < 1 << 48
}

fn text(bytes: impl Iterator<Item = u8>) -> String {
    let bytes: Vec<u8> = bytes.take_while(|&b| b != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
