//! The guard: why a system call never fails on an armed page.
//!
//! The kernel does not fault politely: a `read` into a page without access rights returns EFAULT, or a short count. So
//! pages are armed only while every system call of every thread passes through us (Syscall User Dispatch, Linux 5.11;
//! no privileges needed): one byte, shared by all threads, switches the trap on and off.
//!
//! A trapped call whose arguments tell that it cannot touch managed memory is made from the handler. One that names a
//! buffer in managed memory opens the buffer's pages first. Any other (a fork, an exec, a signal return, a call with
//! pointers behind pointers) *ends the guard*: all pages are opened, the trap is switched off, and the call is made
//! again as if nothing had been. The sampler tries again later.
//!
//! Before the first page is armed, every thread must be known to be outside the kernel or blocked in a call that
//! cannot touch managed memory. A thread that runs shows that it is outside by making a trapped call or by using
//! at least two clock ticks of user time after the trap was switched on.

use super::{armed, enabled, signals, step::Step};
use crate::{objects, range, sys};
use core::ffi::{CStr, c_long};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// The kernel reads it at every system call of a registered thread.
static SELECTOR: AtomicU8 = AtomicU8::new(ALLOW);
/// Counts the guards that were ended: a guard that was being set up while this changed is void.
static ENDED: AtomicU64 = AtomicU64::new(0);
static ON: AtomicU32 = AtomicU32::new(0);

const THREADS: usize = 1024;
/// The alternate stack of a thread that has none: the frame of a signal must not land on an armed page.
const SIGNAL_STACK: usize = 64 << 10;

/// A thread whose system calls can be trapped.
struct Slot {
    /// Kernel thread id; 0: free.
    tid: AtomicU32,
    /// Calls trapped.
    seen: AtomicU32,
    /// Managed memory that a call in progress was given.
    buffer: AtomicUsize,
    buffer_len: AtomicUsize,
    stack: AtomicUsize,
    /// What the sampler's thread saw when the guard was being set up.
    seen_before: AtomicU32,
    ticks_before: AtomicU64,
}

static SLOTS: [Slot; THREADS] = [const {
    Slot {
        tid: AtomicU32::new(0),
        seen: AtomicU32::new(0),
        buffer: AtomicUsize::new(0),
        buffer_len: AtomicUsize::new(0),
        stack: AtomicUsize::new(0),
        seen_before: AtomicU32::new(0),
        ticks_before: AtomicU64::new(0),
    }
}; THREADS];

/// Makes the calling thread one whose system calls can be trapped. `false` if the kernel cannot, or there are too many.
pub fn register(tid: u32, step: &Step) -> bool {
    // SAFETY: no arguments.
    let pid = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as usize;
    let take = |slot: &Slot, from: u32| slot.tid.compare_exchange(from, tid, AcqRel, Relaxed).is_ok();
    // SAFETY: signal 0 only asks whether the thread exists.
    let gone = |t: u32| unsafe { sys::call3(libc::SYS_tgkill, pid, t as usize, 0) } == -(libc::ESRCH as isize);
    let slots = || (0..THREADS).map(|i| (tid as usize + i) % THREADS).filter_map(|i| Some((i, SLOTS.get(i)?)));
    let found = slots().find(|(_, s)| s.tid.load(Relaxed) == 0 && take(s, 0)).or_else(|| {
        slots().find(|(_, s)| {
            let t = s.tid.load(Relaxed);
            gone(t) && take(s, t)
        })
    });
    let Some((index, slot)) = found else { return false };
    slot.buffer_len.store(0, Relaxed);
    step.slot.set(index as u32 + 1);
    // A thread may have been given a stack in managed memory.
    objects::hands_off(&raw const index as usize);
    give_signal_stack(slot);
    let (start, len) = sys::text();
    let selector = &raw const SELECTOR as usize;
    // SAFETY: the selector lives for ever.
    let done = unsafe { sys::call(libc::SYS_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 1, start, len, selector, 0]) == 0 };
    if !done {
        slot.tid.store(0, Release);
        step.slot.set(0);
    }
    done
}

fn give_signal_stack(slot: &Slot) {
    // SAFETY: asks for, and sets, the thread's alternate stack; the mapping is kept for the slot's next thread.
    unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        let asked = sys::call3(libc::SYS_sigaltstack, 0, &raw mut now as usize, 0);
        if asked == 0 && now.ss_flags & libc::SS_DISABLE == 0 {
            objects::hands_off(now.ss_sp as usize);
        }
        if asked != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        if slot.stack.load(Relaxed) == 0 {
            let at = sys::map_lazily(SIGNAL_STACK, libc::PROT_READ | libc::PROT_WRITE);
            slot.stack.store(at, Relaxed);
        }
        let ours = libc::stack_t { ss_sp: slot.stack.load(Relaxed) as *mut _, ss_flags: 0, ss_size: SIGNAL_STACK };
        if !ours.ss_sp.is_null() {
            sys::call3(libc::SYS_sigaltstack, &raw const ours as usize, 0, 0);
        }
    }
}

/// In a forked child: nobody is registered, the trap is off.
pub fn forget_parent() {
    SELECTOR.store(ALLOW, SeqCst);
    ON.store(0, SeqCst);
    for slot in &SLOTS {
        slot.tid.store(0, Relaxed);
        slot.buffer_len.store(0, Relaxed);
    }
}

/// Whether pages may be armed.
pub fn on() -> bool {
    ON.load(SeqCst) != 0
}

/// Whether a call in progress was given this page.
pub fn in_use(page: usize) -> bool {
    SLOTS.iter().any(|s| {
        let (start, len) = (s.buffer.load(SeqCst), s.buffer_len.load(SeqCst));
        len != 0 && page + 4096 > start && page < start.saturating_add(len)
    })
}

/// Ends the guard: opens all pages and switches the trap off.
pub fn leave() {
    ENDED.fetch_add(1, SeqCst);
    ON.store(0, SeqCst);
    armed::open_all();
    SELECTOR.store(ALLOW, SeqCst);
}

/// Why the guard could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A thread's system calls are not trapped.
    Unregistered,
    /// A thread blocks one of our signals.
    Blocked,
    /// A thread stayed in the kernel, or in a call that may touch managed memory.
    InKernel,
    /// A handler is not ours, or the kernel may use memory at any time (io_uring).
    Foreign,
    /// A system call ended it at once.
    Ended,
}

/// Sets the guard up (in the sampler's thread, whose id is `own`). Takes some tens of milliseconds.
pub fn enter(own: u32) -> Result<(), Refusal> {
    if !signals::ours() || kernel_uses_memory() {
        return Err(Refusal::Foreign);
    }
    let ended = ENDED.load(SeqCst);
    for slot in SLOTS.iter().filter(|s| s.tid.load(Relaxed) != 0) {
        slot.seen_before.store(slot.seen.load(SeqCst), Relaxed);
        slot.ticks_before.store(user_ticks(slot.tid.load(Relaxed)), Relaxed);
    }
    SELECTOR.store(BLOCK, SeqCst);
    let start = sys::now_in_handler();
    let result = loop {
        if ENDED.load(SeqCst) != ended {
            break Err(Refusal::Ended);
        }
        match threads(own) {
            Ok(true) => break Ok(()),
            Ok(false) if sys::now_in_handler() - start > 250_000_000 => break Err(Refusal::InKernel),
            Ok(false) => super::thread::sleep(4_000_000),
            Err(refusal) => break Err(refusal),
        }
    };
    if result.is_ok() {
        ON.store(1, SeqCst);
        // A call that ended the guard meanwhile must win.
        if ENDED.load(SeqCst) == ended {
            return Ok(());
        }
        ON.store(0, SeqCst);
    }
    SELECTOR.store(ALLOW, SeqCst);
    if result.is_ok() { Err(Refusal::Ended) } else { result }
}

/// Whether all threads are known to be harmless; an error if one cannot become so.
fn threads(own: u32) -> Result<bool, Refusal> {
    let mut all = true;
    let mut refusal = None;
    each_thread(|tid| {
        if tid == own || refusal.is_some() {
            return;
        }
        match SLOTS.iter().find(|s| s.tid.load(Relaxed) == tid) {
            None => refusal = Some(Refusal::Unregistered),
            Some(_) if blocks_our_signals(tid) => refusal = Some(Refusal::Blocked),
            Some(slot) => all &= harmless(tid, slot),
        }
    });
    refusal.map_or(Ok(all), Err)
}

fn harmless(tid: u32, slot: &Slot) -> bool {
    if slot.seen.load(SeqCst) != slot.seen_before.load(Relaxed) {
        return true;
    }
    let mut buffer = [0u8; 512];
    match file_of(tid, b"/syscall", &mut buffer).and_then(parse_syscall) {
        // Blocked in the kernel.
        Some((nr, args)) => look(nr, &args) == Look::Harmless,
        // Running, in user code or in the kernel: user time must pass.
        None => user_ticks(tid) >= slot.ticks_before.load(Relaxed).saturating_add(2),
    }
}

/// What a system call's number and arguments tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// It cannot touch managed memory.
    Harmless,
    /// It touches this buffer, and no other managed memory.
    Buffer(usize, usize),
    /// Nobody knows.
    Unknown,
}

fn look(nr: c_long, args: &[usize; 6]) -> Look {
    let managed = |i: usize| range::contains(args[i]);
    match nr {
        // One buffer: pointer in argument 1, length in argument 2.
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 | libc::SYS_getdents64 => {
            if managed(1) { Look::Buffer(args[1], args[2]) } else { Look::Harmless }
        }
        libc::SYS_recvfrom | libc::SYS_sendto if !managed(4) && !managed(5) => {
            if managed(1) {
                Look::Buffer(args[1], args[2])
            } else {
                Look::Harmless
            }
        }
        libc::SYS_getrandom if managed(0) => Look::Buffer(args[0], args[1]),
        libc::SYS_ioctl => {
            // Terminal and descriptor requests have no pointers behind their argument.
            let flat = args[1] >> 8 == 0x54 && !managed(2);
            if flat { Look::Harmless } else { Look::Unknown }
        }
        nr if FLAT.contains(&nr) => {
            if (0..6).any(managed) {
                Look::Unknown
            } else {
                Look::Harmless
            }
        }
        _ => Look::Unknown,
    }
}

/// Calls that touch no memory but what their arguments point to directly, and that may be made from a handler.
const FLAT: [c_long; 105] = [
    libc::SYS_open,
    libc::SYS_close,
    libc::SYS_stat,
    libc::SYS_fstat,
    libc::SYS_lstat,
    libc::SYS_poll,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_munmap,
    libc::SYS_brk,
    libc::SYS_access,
    libc::SYS_pipe,
    libc::SYS_select,
    libc::SYS_sched_yield,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_madvise,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_alarm,
    libc::SYS_setitimer,
    libc::SYS_getpid,
    libc::SYS_sendfile,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_accept,
    libc::SYS_shutdown,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_socketpair,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_wait4,
    libc::SYS_kill,
    libc::SYS_uname,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_rename,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_readlink,
    libc::SYS_umask,
    libc::SYS_gettimeofday,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_times,
    libc::SYS_getuid,
    libc::SYS_getgid,
    libc::SYS_geteuid,
    libc::SYS_getegid,
    libc::SYS_getppid,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getaffinity,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_gettid,
    libc::SYS_futex,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_wait,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_tgkill,
    libc::SYS_get_mempolicy,
    libc::SYS_waitid,
    libc::SYS_openat,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_fallocate,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_eventfd2,
    libc::SYS_accept4,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_prlimit64,
    libc::SYS_getcpu,
    libc::SYS_getrandom,
    libc::SYS_memfd_create,
    libc::SYS_membarrier,
    libc::SYS_statx,
    libc::SYS_set_mempolicy,
    libc::SYS_mbind,
    libc::SYS_faccessat2,
];

/// A trapped system call, in the SIGSYS handler: its result, or `None` if it is to be made again, natively.
pub fn trapped(nr: c_long, args: &[usize; 6], step: &Step) -> Option<isize> {
    if let Some(h) = crate::process::info() {
        h.counters.syscalls.fetch_add(1, Relaxed);
    }
    let slot = (step.slot.get() as usize).checked_sub(1).and_then(|i| SLOTS.get(i));
    if let Some(slot) = slot {
        slot.seen.fetch_add(1, SeqCst);
    }
    match (look(nr, args), slot) {
        // SAFETY: the program's own call, made for it.
        (Look::Harmless, _) => Some(unsafe { sys::call(nr, *args) }),
        (Look::Buffer(start, len), Some(slot)) => {
            slot.buffer.store(start, SeqCst);
            slot.buffer_len.store(len.max(1), SeqCst);
            if armed::any() {
                armed::open_range(start, len.max(1));
            }
            // SAFETY: as above.
            let result = unsafe { sys::call(nr, *args) };
            slot.buffer_len.store(0, SeqCst);
            Some(result)
        }
        _ => {
            leave();
            None
        }
    }
}

/// io_uring and kernel AIO use memory when it pleases them.
fn kernel_uses_memory() -> bool {
    let mut found = false;
    each_entry(c"/proc/self/fd", |fd| {
        let mut path = [0u8; 64];
        let mut link = [0u8; 64];
        let Some(path) = join(&mut path, &[b"/proc/self/fd/", fd]) else { return };
        let args = [libc::AT_FDCWD as usize, path.as_ptr() as usize, link.as_mut_ptr() as usize, link.len(), 0, 0];
        // SAFETY: writes at most the buffer's length.
        let len = unsafe { sys::call(libc::SYS_readlinkat, args) };
        found |= link.get(..len.max(0) as usize) == Some(b"anon_inode:[io_uring]");
    });
    found
}

/// Bits of SIGTRAP, SIGSEGV and SIGSYS in a mask.
pub const OUR_SIGNALS: u64 = 1 << (libc::SIGTRAP - 1) | 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGSYS - 1);

fn blocks_our_signals(tid: u32) -> bool {
    let mut buffer = [0u8; 4096];
    let Some(text) = file_of(tid, b"/status", &mut buffer) else { return true };
    let mask = text.windows(8).position(|w| w == b"SigBlk:\t").and_then(|at| text.get(at + 8..at + 24));
    match mask.and_then(|digits| hex(digits).map(|(value, _)| value)) {
        Some(mask) => mask & OUR_SIGNALS != 0,
        None => true,
    }
}

/// User time of a thread in clock ticks; 0 if unknown.
fn user_ticks(tid: u32) -> u64 {
    let mut buffer = [0u8; 1024];
    let Some(text) = file_of(tid, b"/stat", &mut buffer) else { return 0 };
    // The name in parentheses may hold anything; utime is the 12th field after it.
    let Some(end) = text.iter().rposition(|&b| b == b')') else { return 0 };
    let field = text.get(end + 1..).unwrap_or(&[]).split(|&b| b == b' ').filter(|f| !f.is_empty()).nth(11);
    field.unwrap_or(&[]).iter().fold(0, |n, &b| n * 10 + u64::from(b.wrapping_sub(b'0') % 10))
}

/// `nr 0xarg ... 0xsp 0xpc`; `None` for `running`. A thread blocked outside a system call (nr -1, a page fault)
/// counts as a call without arguments.
fn parse_syscall(text: &[u8]) -> Option<(c_long, [usize; 6])> {
    let mut fields = text.split(|&b| b == b' ' || b == b'\n').filter(|f| !f.is_empty());
    let nr = fields.next()?;
    if nr == b"-1" {
        return Some((libc::SYS_getpid, [0; 6]));
    }
    if !nr.first()?.is_ascii_digit() {
        return None;
    }
    let nr = nr.iter().fold(0, |n: c_long, &b| n * 10 + c_long::from(b.wrapping_sub(b'0') % 10));
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = hex(fields.next()?.strip_prefix(b"0x")?)?.0 as usize;
    }
    Some((nr, args))
}

fn hex(digits: &[u8]) -> Option<(u64, usize)> {
    let len = digits.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let value = digits.iter().take(len).fold(0u64, |n, &b| n << 4 | (b as char).to_digit(16).unwrap_or(0) as u64);
    (len > 0).then_some((value, len))
}

fn file_of<'a>(tid: u32, file: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let mut path = [0u8; 64];
    let mut digits = [0u8; 20];
    let tid = crate::process::number(tid.into(), 10, &mut digits);
    sys::read_file(join(&mut path, &[b"/proc/self/task/", tid, file])?, buffer)
}

fn join<'a>(buffer: &'a mut [u8; 64], parts: &[&[u8]]) -> Option<&'a CStr> {
    let mut at = 0;
    for part in parts {
        buffer.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_with_nul(buffer.get(..=at)?).ok()
}

fn each_thread(mut each: impl FnMut(u32)) {
    each_entry(c"/proc/self/task", |name| {
        if name.iter().all(u8::is_ascii_digit) {
            each(name.iter().fold(0, |n, &b| n * 10 + u32::from(b - b'0')));
        }
    });
}

/// Names in a directory.
fn each_entry(path: &CStr, mut each: impl FnMut(&[u8])) {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path; the kernel fills at most the buffer; records are as getdents64(2) says.
    unsafe {
        let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]);
        if fd < 0 {
            return;
        }
        let mut buffer = [0u64; 512];
        loop {
            let n = sys::call3(libc::SYS_getdents64, fd as usize, buffer.as_mut_ptr() as usize, size_of_val(&buffer));
            if n <= 0 {
                break;
            }
            let bytes = core::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n as usize);
            let mut at = 0;
            while let Some(record) = bytes.get(at..).filter(|r| r.len() > 19) {
                let len = usize::from(u16::from_ne_bytes([record[16], record[17]]));
                let name = record.get(19..len).unwrap_or(&[]);
                each(name.split(|&b| b == 0).next().unwrap_or(&[]));
                at += len.max(19);
            }
        }
        sys::call3(libc::SYS_close, fd as usize, 0, 0);
    }
}

/// Registers the calling thread if the process is sampled (with every signal allowed that the sampler needs).
pub fn adopt(tid: u32, step: &Step) {
    if enabled() && !register(tid, step) {
        crate::process::say(
            b"the page-fault sampler cannot work here: the kernel has no Syscall User Dispatch (Linux 5.11), forbids it, or the process has more than 1024 threads; record with --sampler none",
        );
    }
}
