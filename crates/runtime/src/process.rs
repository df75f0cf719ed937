//! This process's file in the session: made when the process first manages an object, made anew after a fork.
//!
//! Threads publish events in rings of their own, those of their seats ([`seats`]).

use crate::tls::Thread;
use crate::{heap, mapping, objects, plan, range, recent, sampler, sandbox, seats, sites, stack, start, sys};
use core::ffi::CStr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::event::{Event, Kind, MAX_SLOTS, SLOT_WORDS, Stamped, encode};
use wire::mark;
use wire::process::{
    FILE_BYTES, HEADER_BYTES, Header, MAGIC, MAX_RINGS, MAX_TIERS, Pushed, RING_BYTES, Ring, header, state, write_text,
};
use wire::tables::Tables;

static FILE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
static GENERATION: AtomicU32 = AtomicU32::new(1);
/// Generation in which the file was opened (or could not be).
static OPENED: AtomicU32 = AtomicU32::new(0);
static ATTACHING: AtomicU32 = AtomicU32::new(0);
/// A page that the kernel empties in a forked child, however it was forked: 1 while this is the same process.
static SAME: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static EPOCH: AtomicU64 = AtomicU64::new(0);
/// Whether the lab's time model is told who this process is.
static IN_LAB: AtomicBool = AtomicBool::new(false);
/// Live bytes that this process got from the one it was forked from.
static INHERITED: AtomicUsize = AtomicUsize::new(0);
/// This process is a child that was forked and has not called exec: much of its memory is its parent's.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Less than this alive at the end does not hold up a process: scripts start thousands of short ones.
const WORTH_WAITING: usize = 1 << 20;
/// Nor does less than this of anonymous memory, be it static variables or small objects, of which interpreters have some MiB.
const MUCH: u64 = 16 << 20;
/// Where the session's file system is full, asking it for a ring with every event would hold the program up.
static NO_ROOM_UNTIL: AtomicU64 = AtomicU64::new(0);
const NEXT_TRY_NS: u64 = 1_000_000_000;
/// The ring that the sampler alone uses.
const SAMPLER_RING: usize = seats::SEATS;
/// That of all threads that have no seat.
const SHARED_RING: usize = MAX_RINGS - 1;
static PATH: Path = Path(core::cell::UnsafeCell::new([0; 512]));

struct Path(core::cell::UnsafeCell<[u8; 512]>);
// SAFETY: written only while ATTACHING is held, read after.
unsafe impl Sync for Path {}

/// Counts the forks between the start of the program and here: state of another generation is a parent's.
pub fn generation() -> u32 {
    GENERATION.load(Relaxed)
}

/// Nanoseconds since the session's epoch.
pub fn time() -> u64 {
    sys::now().wrapping_sub(EPOCH.load(Relaxed))
}

/// The same for a point of CLOCK_MONOTONIC.
pub fn since_epoch(monotonic: u64) -> u64 {
    monotonic.wrapping_sub(EPOCH.load(Relaxed))
}

/// The session outlives its recorder ([`wire::session::flags::STANDING`]).
static STANDING: AtomicBool = AtomicBool::new(false);

/// A process that ends while no recorder is there takes its file with it. Called by the constructor.
pub fn clean_up_alone() {
    STANDING.store(true, Relaxed);
}

/// Whether it does.
pub fn stands() -> bool {
    STANDING.load(Relaxed)
}

/// The job that this process is of.
static JOB: AtomicU32 = AtomicU32::new(0);

/// Takes what the environment says about it ([`wire::session::JOB`]).
pub fn set_job(job: u32) {
    JOB.store(job, Relaxed);
}

/// Sets the session's epoch.
pub fn set_epoch(ns: u64) {
    EPOCH.store(ns, Relaxed);
}

/// Tells the lab's time model from now on who this process is, and each child of it. Called by the constructor.
pub fn introduce() {
    IN_LAB.store(true, Relaxed);
    // SAFETY: no arguments.
    mark::process(unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as u32);
}

/// Prepares to notice forks. Called by the constructor.
pub fn prepare() -> bool {
    let page = sys::map_lazily(4096);
    // SAFETY: our own fresh page.
    if page == 0 || unsafe { sys::call3(libc::SYS_madvise, page, 4096, libc::MADV_WIPEONFORK as usize) } != 0 {
        return false;
    }
    // SAFETY: as above.
    unsafe { (*(page as *const AtomicU32)).store(1, Relaxed) };
    SAME.store(page as *mut AtomicU32, Release);
    true
}

fn same_process() -> bool {
    let page = SAME.load(Acquire);
    // SAFETY: null or the mapped page.
    !page.is_null() && unsafe { (*page).load(Relaxed) } == 1
}

/// The process file's header, if there is a file.
pub fn info() -> Option<&'static Header> {
    let file = FILE.load(Acquire);
    // SAFETY: the mapping is never undone while FILE names it.
    (!file.is_null()).then(|| unsafe { header(file) })
}

/// Whether this process (not a parent of it) has its file, and may still write to it.
#[inline]
pub fn attached() -> bool {
    !sandbox::silent() && same_process() && OPENED.load(Acquire) == generation() && !FILE.load(Relaxed).is_null()
}

/// Makes sure that this process (not a parent of it) has its file. `false`: there is no session to talk to.
#[inline]
pub fn attach() -> bool {
    if sandbox::silent() {
        return false;
    }
    if same_process() && OPENED.load(Acquire) == generation() {
        return !FILE.load(Relaxed).is_null();
    }
    attach_slowly()
}

#[cold]
fn attach_slowly() -> bool {
    // In a child of a fork the lock may have been held by a thread that does not exist here: it holds the pid.
    // SAFETY: no arguments.
    let pid = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as u32;
    // Another thread is at it, for a fraction of a millisecond: its few system calls are waited for, but not for ever.
    let taken = (0..1000).any(|_| {
        let holder = ATTACHING.load(Acquire);
        let free = holder != pid && ATTACHING.compare_exchange(holder, pid, AcqRel, Acquire).is_ok();
        if !free {
            // SAFETY: no arguments.
            unsafe { sys::call3(libc::SYS_sched_yield, 0, 0, 0) };
        }
        free
    });
    if !taken {
        return false;
    }
    let mut parent = None;
    let page = SAME.load(Acquire);
    if !same_process() && !page.is_null() {
        sampler::forget_parent();
        heap::forget_parent();
        recent::forget_parent();
        plan::forget_parent();
        stack::forget_parent();
        mapping::forget_parent();
        INHERITED.store(plan::live(), Relaxed);
        FORKED.store(true, Relaxed);
        parent = info();
        FILE.store(core::ptr::null_mut(), Release);
        GENERATION.fetch_add(1, AcqRel);
        // SAFETY: the page of `prepare`.
        unsafe { (*page).store(1, Release) };
        if IN_LAB.load(Relaxed) {
            mark::process(pid);
        }
    }
    if OPENED.load(Acquire) != generation() {
        heap::prepare(plan::tiers());
        if !open(pid) {
            // Its parent's file is still mapped: a child that gave up its rights (a server's worker) can write there only.
            parent.iter().for_each(|h| _ = h.counters.children_unobserved.fetch_add(1, Relaxed));
        }
        OPENED.store(generation(), Release);
    }
    ATTACHING.store(0, Release);
    !FILE.load(Acquire).is_null()
}

fn open(pid: u32) -> bool {
    let prepared = sites::prepare() && objects::prepare(plan::tiers());
    let (Some(dir), true) = (start::session_dir(), prepared) else { return false };
    let time = time();
    // SAFETY: ATTACHING is held.
    let path = unsafe { &mut *PATH.0.get() };
    let Some(path) = file_name(path, dir.to_bytes(), pid, time) else { return false };
    let Some(file) = create(path) else {
        start::say_failed();
        return false;
    };
    // SAFETY: a fresh mapping of FILE_BYTES.
    let h = unsafe { header(file) };
    h.version.store(wire::WIRE_VERSION, Relaxed);
    h.pid.store(pid, Relaxed);
    // SAFETY: no arguments.
    h.ppid.store(unsafe { sys::call3(libc::SYS_getppid, 0, 0, 0) } as u32, Relaxed);
    h.job.store(JOB.load(Relaxed), Relaxed);
    h.start_ns.store(time, Relaxed);
    let mut exe = [0u8; 1024];
    let link = c"/proc/self/exe".as_ptr() as usize;
    // SAFETY: writes at most the buffer's length.
    let len = unsafe {
        let args = [libc::AT_FDCWD as usize, link, exe.as_mut_ptr() as usize, exe.len(), 0, 0];
        sys::call(libc::SYS_readlinkat, args)
    };
    write_text(&h.exe, exe.get(..len.max(0) as usize).unwrap_or(b""));
    show_tables(&h.tables);
    h.state.store(state::RUNNING, Relaxed);
    h.magic.store(MAGIC, Release);
    FILE.store(file, Release);
    ring_doorbell();
    true
}

/// Says where the tables are, for a recorder that comes later than the objects in them.
fn show_tables(tables: &Tables) {
    let show = |word: &AtomicU64, value: usize| word.store(value as u64, Relaxed);
    show(&tables.range, range::base());
    show(&tables.tier_span, range::tier_span());
    tables.used.iter().enumerate().take(plan::tiers()).for_each(|(tier, word)| show(word, heap::used_at(tier)));
    show(&tables.objects, objects::table());
    show(&tables.sites, sites::table());
    show(&tables.site_bytes, size_of::<sites::Site>());
    let [mappings, used] = mapping::table_at();
    show(&tables.mappings, mappings);
    show(&tables.mappings_used, used);
    show(&tables.mapping_bytes, size_of::<mapping::Mapping>());
}

fn file_name<'a>(buffer: &'a mut [u8; 512], dir: &[u8], pid: u32, time: u64) -> Option<&'a CStr> {
    let mut at = 0;
    let mut put = |bytes: &[u8]| -> Option<()> {
        buffer.get_mut(at..at + bytes.len())?.copy_from_slice(bytes);
        at += bytes.len();
        Some(())
    };
    put(dir)?;
    put(b"/")?;
    let mut digits = [0u8; 20];
    put(number(pid.into(), 10, &mut digits))?;
    put(b".")?;
    put(number(time, 16, &mut digits))?;
    put(wire::session::PROCESS_SUFFIX.as_bytes())?;
    put(b"\0")?;
    CStr::from_bytes_until_nul(buffer).ok()
}

/// A number's digits.
pub fn number(mut n: u64, base: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b"0123456789abcdef"[(n % base) as usize];
        n /= base;
        if n == 0 || at == 0 {
            return &buffer[at..];
        }
    }
}

fn create(path: &CStr) -> Option<*mut u8> {
    let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW) as usize;
    // SAFETY: a NUL-terminated path; a fresh descriptor that is closed again; a fresh mapping.
    unsafe {
        let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0o600, 0, 0]);
        if fd < 0 {
            return None;
        }
        let fd = fd as usize;
        let sized = sys::call3(libc::SYS_ftruncate, fd, FILE_BYTES, 0) == 0;
        let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let at =
            if sized { sys::call(libc::SYS_mmap, [0, FILE_BYTES, rw, libc::MAP_SHARED as usize, fd, 0]) } else { -1 };
        let mapped = !(-4095..0).contains(&at);
        // The policy of a shared mapping is that of its file, which gets its blocks from now on.
        if mapped {
            sys::at_home(at as usize, FILE_BYTES);
        }
        let filled = mapped && sys::call(libc::SYS_fallocate, [fd, 0, 0, HEADER_BYTES, 0, 0]) == 0;
        sys::call3(libc::SYS_close, fd, 0, 0);
        if mapped && !filled {
            sys::call3(libc::SYS_munmap, at as usize, FILE_BYTES, 0);
        }
        filled.then_some(at as *mut u8)
    }
}

/// Wakes the recorder, if there is one; says whether there is.
pub fn ring_doorbell() -> bool {
    at_the_door(true)
}

/// Whether there is a recorder, which is woken if `ring`.
fn at_the_door(ring: bool) -> bool {
    let Some(dir) = start::session_dir() else { return false };
    let mut path = [0u8; 512];
    let dir = dir.to_bytes();
    let name = wire::session::DOORBELL.as_bytes();
    let Some(room) = path.get_mut(..dir.len() + 1 + name.len()) else { return false };
    room[..dir.len()].copy_from_slice(dir);
    room[dir.len()] = b'/';
    room[dir.len() + 1..].copy_from_slice(name);
    let flags = (libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) as usize;
    // SAFETY: the path is NUL-terminated (the buffer is longer); the descriptor is ours.
    unsafe {
        let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]);
        if fd < 0 {
            return false;
        }
        let byte = 1u8;
        sys::call3(libc::SYS_write, fd as usize, &raw const byte as usize, usize::from(ring));
        sys::call3(libc::SYS_close, fd as usize, 0, 0);
    }
    true
}

/// Says one sentence to the user, by way of the recorder. The first one stands.
pub fn say(sentence: &[u8]) {
    let Some(h) = info() else { return };
    let len = sentence.len().min(h.text.len()) as u32;
    if h.text_len.compare_exchange(0, len, AcqRel, Relaxed).is_ok() {
        write_text(&h.text, sentence);
    }
}

/// Closes the books of a process that goes on unobserved, and says why.
pub fn pass(sentence: &[u8]) {
    let Some(h) = info() else { return };
    say(sentence);
    h.end_ns.store(time(), Relaxed);
    h.state.store(state::PASSED, Release);
}

/// Makes the thread's block belong to this process: after a fork it still names the parent's thread and ring. `born`:
/// the thread has just been started.
#[inline]
pub fn adopt(thread: &Thread, born: bool) {
    if thread.generation.get() != generation() && !sandbox::silent() {
        // SAFETY: no arguments.
        thread.tid.set(unsafe { sys::call3(libc::SYS_gettid, 0, 0, 0) } as u32);
        thread.seat.set(0);
        thread.ring.set(0);
        thread.generation.set(generation());
        sampler::guard::adopt(thread.tid.get(), &thread.step, born);
    }
}

/// The thread's ring, and whether others have it, too.
#[inline]
fn ring(thread: &Thread) -> Option<(Ring, bool)> {
    adopt(thread, false);
    let file = FILE.load(Acquire);
    if file.is_null() {
        return None;
    }
    let index = match thread.ring.get() {
        0 => first_ring(file, thread)?,
        n => n as usize - 1,
    };
    // SAFETY: the mapping holds MAX_RINGS rings.
    Some((unsafe { Ring::at(file, index) }, index == SHARED_RING))
}

#[cold]
fn first_ring(file: *mut u8, thread: &Thread) -> Option<usize> {
    if NO_ROOM_UNTIL.load(Relaxed) > time() {
        return None;
    }
    let index = seats::of(thread).map_or(SHARED_RING, seats::Seat::index);
    // SAFETY: index < MAX_RINGS.
    make_ready(unsafe { Ring::at(file, index) }, index)?;
    thread.ring.set(index as u32 + 1);
    Some(index)
}

/// Allocates a ring's blocks; `None` if the session's file system is full.
fn make_ready(ring: Ring, index: usize) -> Option<()> {
    static READY: [AtomicU32; MAX_RINGS] = [const { AtomicU32::new(0) }; MAX_RINGS];
    let ready = READY.get(index)?;
    if ready.load(Acquire) != generation() {
        // SAFETY: PATH was written before FILE was published; the descriptor is ours.
        let allocated = unsafe {
            let path = (*PATH.0.get()).as_ptr() as usize;
            let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
            let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path, flags, 0, 0, 0]);
            let offset = HEADER_BYTES + index * RING_BYTES;
            let done = fd >= 0 && sys::call(libc::SYS_fallocate, [fd as usize, 0, offset, RING_BYTES, 0, 0]) == 0;
            if fd >= 0 {
                sys::call3(libc::SYS_close, fd as usize, 0, 0);
            }
            done
        };
        if !allocated {
            NO_ROOM_UNTIL.store(time() + NEXT_TRY_NS, Relaxed);
            say(b"/dev/shm, where the session is, is full; some events could not be kept");
            return None;
        }
        ring.control().ready.store(1, Release);
        if let Some(h) = info() {
            h.rings_ready.fetch_add(1, Release);
        }
        ready.store(generation(), Release);
    }
    Some(())
}

/// Publishes an event of the calling thread at a time of [`time`]. `false` if it was dropped (and counted).
pub fn publish(thread: &Thread, time: u64, event: Event<'_>) -> bool {
    own_ring(thread).is_some_and(|(ring, shared)| push(ring, shared, thread.tid.get(), time, event))
}

/// Publishes that an object has come to life. Gives the time, to the next tick of the kernel if there is nobody to be told. Part of its caller, as what
/// is known there of the event need not be looked at again.
#[inline(always)]
pub fn publish_birth(thread: &Thread, addr: u64, size: u64, site: u64, tier: u8, realloc: bool) -> u64 {
    if table_is_read() {
        return since_epoch(sys::now_by_tick());
    }
    let now = time();
    if let Some((ring, shared)) = own_ring(thread) {
        let event = Event::Alloc { addr, size, site, tier, realloc, kind: Kind::Allocation };
        if push(ring, shared, thread.tid.get(), now, event) && !shared {
            ring.remember(addr);
        }
    }
    now
}

/// Publishes that the object at this address is no more. Gives the time, as [`publish_birth`] does.
#[inline(always)]
pub fn publish_end(thread: &Thread, addr: u64) -> u64 {
    if table_is_read() {
        return since_epoch(sys::now_by_tick());
    }
    let now = time();
    if let Some((ring, shared)) = own_ring(thread) {
        if shared || !ring.end(addr, now) {
            push(ring, shared, thread.tid.get(), now, Event::Free { addr });
        }
    }
    now
}

/// A recorder reads in the table of objects what has come to life and ended: it is told nothing of it.
fn table_is_read() -> bool {
    info().is_some_and(|h| h.objects_read.load(Relaxed) == 1)
}

/// The ring that the calling thread publishes in, and whether others do, too; where there is none, an event that is lost for it is counted.
#[inline]
fn own_ring(thread: &Thread) -> Option<(Ring, bool)> {
    let found = ring(thread);
    if found.is_none() {
        info().into_iter().for_each(|h| _ = h.counters.no_ring.fetch_add(1, Relaxed));
    }
    found
}

/// Counts an object of so many bytes that the calling thread was given: in its own ring, if it has one, as a counter that all threads share would
/// go from processor to processor with each object.
pub fn count_managed(thread: &Thread, bytes: u64) {
    let file = FILE.load(Acquire);
    let own = (thread.ring.get() as usize).checked_sub(1).filter(|&ring| ring != SHARED_RING && !file.is_null());
    if let Some(ring) = own {
        // SAFETY: the mapping holds MAX_RINGS rings, and this one is the calling thread's.
        unsafe { Ring::at(file, ring) }.count_managed(bytes);
    } else if let Some(h) = info() {
        h.counters.managed.fetch_add(1, Relaxed);
        h.counters.managed_bytes.fetch_add(bytes, Relaxed);
    }
}

/// The sampler's own ring: it runs without thread-local storage.
pub fn sampler_ring() -> Option<Ring> {
    let file = FILE.load(Acquire);
    if file.is_null() {
        return None;
    }
    // SAFETY: a ring of the mapping.
    let ring = unsafe { Ring::at(file, SAMPLER_RING) };
    make_ready(ring, SAMPLER_RING)?;
    Some(ring)
}

/// Pushes an event into a ring of which the caller is the producer (or, `shared`, one of several that take turns).
#[inline(always)]
pub fn push(ring: Ring, shared: bool, tid: u32, time: u64, event: Event<'_>) -> bool {
    let stamped = Stamped { tid, time, event };
    match event {
        Event::Site { .. } | Event::Module { .. } => push_long(ring, shared, &stamped),
        _ => push_in(ring, shared, &stamped, &mut [0u64; 2 * SLOT_WORDS]),
    }
}

/// By itself: most events are short, and to clear so much room would be a tenth of what an object costs.
#[inline(never)]
fn push_long(ring: Ring, shared: bool, stamped: &Stamped<'_>) -> bool {
    push_in(ring, shared, stamped, &mut [0u64; 40 * SLOT_WORDS])
}

#[inline(always)]
fn push_in(ring: Ring, shared: bool, stamped: &Stamped<'_>, words: &mut [u64]) -> bool {
    let words = match encode(stamped, words) {
        Some(slots) => words.get(..slots.min(MAX_SLOTS) * SLOT_WORDS).unwrap_or(&[]),
        None => return false,
    };
    let lock = &ring.control().lock;
    if shared && lock.swap(1, Acquire) != 0 {
        if let Some(h) = info() {
            h.counters.no_ring.fetch_add(1, Relaxed);
        }
        return false;
    }
    let pushed = ring.push(words);
    if shared {
        lock.store(0, Release);
    }
    if pushed == Pushed::HalfFull {
        ring_doorbell(); // many events in a short time: the recorder is to come early
    }
    pushed != Pushed::Dropped
}

/// Counts an allocation that went to another tier than planned.
pub fn fell_back(planned: usize, bytes: usize) {
    if let (Some(h), true) = (info(), planned < MAX_TIERS) {
        h.counters.fell_back[planned].fetch_add(1, Relaxed);
        h.counters.fell_back_bytes[planned].fetch_add(bytes as u64, Relaxed);
    }
}

/// Anonymous memory that is resident, and most that was at once, in bytes. Of the latter the kernel's peak less what files have
/// resident now, which hardly changes.
fn anonymous() -> Option<(u64, u64)> {
    let mut buffer = [0; 4096];
    let text = sys::read_file(c"/proc/self/status", &mut buffer)?;
    let kib = |name: &[u8]| -> Option<u64> {
        let line = text.split(|&b| b == b'\n').find(|line| line.starts_with(name))?;
        let digits = line.iter().filter(|b| b.is_ascii_digit());
        Some(digits.fold(0u64, |n, d| n.wrapping_mul(10).wrapping_add(u64::from(d - b'0'))))
    };
    let files = kib(b"RssFile:")?.saturating_add(kib(b"RssShmem:")?);
    Some((kib(b"RssAnon:")? << 10, kib(b"VmHWM:")?.saturating_sub(files) << 10))
}

/// The end of the process: gives the recorder, if it is there, a bounded moment to read where the pages are of what is
/// still alive. Not a daemon: it has no use for that, and one that is stopped would hold up all that end.
pub fn finish() {
    const LONGEST_NS: u64 = 300_000_000;
    let Some(h) = info().filter(|_| same_process() && !sandbox::silent()) else { return };
    h.end_ns.store(time(), Relaxed);
    let (anonymous, most) = anonymous().unwrap_or_default();
    h.counters.most_anonymous.store(most, Relaxed);
    let stands = stands();
    if !stands {
        h.state.store(state::EXITING, Release);
    }
    let alive = plan::live().saturating_sub(INHERITED.load(Relaxed));
    let much = anonymous >= MUCH && !FORKED.load(Relaxed);
    if !stands && (alive >= WORTH_WAITING || much) && ring_doorbell() {
        let start = sys::now();
        while h.exit_ack.load(Acquire) == 0 && sys::now() - start < LONGEST_NS {
            let wait = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            let futex = &raw const h.exit_ack as usize;
            // SAFETY: waits on a word of the shared header, with a limit.
            unsafe {
                sys::call(libc::SYS_futex, [futex, libc::FUTEX_WAIT as usize, 0, &raw const wait as usize, 0, 0])
            };
        }
    }
    h.state.store(state::ENDED, Release);
    if stands && !at_the_door(false) {
        // SAFETY: PATH was written before the file was made.
        unsafe { sys::call3(libc::SYS_unlinkat, libc::AT_FDCWD as usize, (*PATH.0.get()).as_ptr() as usize, 0) };
    }
}
