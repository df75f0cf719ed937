//! The guard: why a system call never fails on an armed page.
//!
//! The kernel does not fault politely: a `read` into a page without access rights returns EFAULT, or a short count. So
//! pages are armed only while every system call of every thread passes through us (Syscall User Dispatch, Linux 5.11;
//! no privileges needed): a byte of each thread says whether its calls are trapped.
//!
//! A trapped call is made from the handler. If its arguments tell that it cannot touch managed memory, that is all; if
//! it names a buffer in managed memory, the buffer's pages are opened first; of any other, nobody knows what it touches:
//! then the guard *ends* (all pages are opened, and none is armed before the call is over). Only what must happen on the
//! program's own stack (a clone) is made natively: the thread switches its own trap off and makes the call again.
//!
//! A thread switches its trap on and off itself, never another: at its start, and when it comes through the runtime. So a
//! thread whose trap is on is either in user code or in a call that we know of. And as SIGSYS must never be blocked
//! while the trap is on (the kernel would end the program), masks that pass through here lose that signal.

use super::{armed, enabled, signals, started, step::Step};
use crate::{objects, range, sys};
use core::ffi::{CStr, c_int, c_long};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Pages may be armed.
static ON: AtomicBool = AtomicBool::new(false);
/// The program has told the kernel to use memory whenever it pleases (io_uring, AIO): no page is armed any more.
static KERNEL_USES_MEMORY: AtomicBool = AtomicBool::new(false);

const THREADS: usize = 1024;
/// The alternate stack of a thread that has none: the frame of a signal must not land on an armed page.
const SIGNAL_STACK: usize = 64 << 10;
/// A thread that makes so many calls ...
const NOISE_CALLS: u32 = 1024;
/// ... in so short a time (ns) would pay too much for the trap: it goes without for a while.
const NOISE_NS: u64 = 100_000_000;
const QUIET_NS: u64 = 1_000_000_000;

/// A thread whose system calls can be trapped.
struct Slot {
    /// Kernel thread id; 0: free.
    tid: AtomicU32,
    /// Read by the kernel at every system call of the thread: [`BLOCK`] is the trap.
    trap: AtomicU8,
    /// A call is in progress that may touch any memory.
    unknown: AtomicBool,
    /// Managed memory that a call in progress was given.
    buffer: AtomicUsize,
    buffer_len: AtomicUsize,
    stack: AtomicUsize,
    calls: AtomicU32,
    counted_from: AtomicU64,
    noisy_until: AtomicU64,
}

static SLOTS: [Slot; THREADS] = [const {
    Slot {
        tid: AtomicU32::new(0),
        trap: AtomicU8::new(ALLOW),
        unknown: AtomicBool::new(false),
        buffer: AtomicUsize::new(0),
        buffer_len: AtomicUsize::new(0),
        stack: AtomicUsize::new(0),
        calls: AtomicU32::new(0),
        counted_from: AtomicU64::new(0),
        noisy_until: AtomicU64::new(0),
    }
}; THREADS];

fn slot_of(step: &Step) -> Option<&'static Slot> {
    SLOTS.get((step.slot.get() as usize).checked_sub(1)?)
}

/// Makes the calling thread one whose system calls can be trapped. `false` if the kernel cannot, or there are too many.
fn register(tid: u32, step: &Step) -> bool {
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
    slot.trap.store(ALLOW, SeqCst);
    slot.unknown.store(false, Relaxed);
    slot.buffer_len.store(0, Relaxed);
    slot.noisy_until.store(0, Relaxed);
    step.slot.set(index as u32 + 1);
    // A thread may have been given a stack in managed memory.
    objects::hands_off(&raw const index as usize);
    give_signal_stack(slot);
    let (start, len) = sys::text();
    let trap = &raw const slot.trap as usize;
    // SAFETY: the byte lives for ever.
    let done = unsafe { sys::call(libc::SYS_prctl, [PR_SET_SYSCALL_USER_DISPATCH, 1, start, len, trap, 0]) == 0 };
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

/// Switches the calling thread's trap on, unless it makes too many calls for that.
#[cold]
fn trap_on(slot: &Slot) {
    let noisy_until = slot.noisy_until.load(Relaxed);
    if noisy_until != 0 && sys::now_in_handler() < noisy_until {
        return;
    }
    let ours = OUR_SIGNALS;
    // SAFETY: opens the thread's mask for the sampler's signals; 8 is the kernel's mask size.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as usize, &raw const ours as usize, 0, 8, 0, 0]) };
    slot.trap.store(BLOCK, SeqCst);
}

/// The calling thread comes through the runtime: its trap goes (back) on if there is something to sample.
#[inline]
pub fn pass_by(step: &Step) {
    if enabled() && started() {
        slot_of(step).filter(|s| s.trap.load(Relaxed) == ALLOW).into_iter().for_each(trap_on);
    }
}

/// In a forked child: nobody is registered.
pub fn forget_parent() {
    ON.store(false, SeqCst);
    for slot in &SLOTS {
        slot.tid.store(0, Relaxed);
        slot.trap.store(ALLOW, Relaxed);
        slot.unknown.store(false, Relaxed);
        slot.buffer_len.store(0, Relaxed);
    }
}

/// Whether pages may be armed.
pub fn on() -> bool {
    ON.load(SeqCst)
}

/// Whether a call in progress was given this page.
pub fn in_use(page: usize) -> bool {
    SLOTS.iter().any(|s| {
        let (start, len) = (s.buffer.load(SeqCst), s.buffer_len.load(SeqCst));
        len != 0 && page + 4096 > start && page < start.saturating_add(len)
    })
}

/// Ends the guard: no page is armed from here on, and all are opened.
pub fn leave() {
    ON.store(false, SeqCst);
    armed::open_all();
}

/// Why the guard could not be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A thread's system calls cannot be trapped.
    Unregistered,
    /// A thread's trap is off for now, or a call is in progress that may touch any memory.
    Busy,
    /// A handler is not ours, or the kernel may use memory at any time.
    Foreign,
}

/// Sets the guard up (in the sampler's thread, whose id is `own`).
pub fn enter(own: u32) -> Result<(), Refusal> {
    if KERNEL_USES_MEMORY.load(Relaxed) || !signals::ours() || kernel_uses_memory() {
        return Err(Refusal::Foreign);
    }
    let mut refusal = None;
    each_thread(|tid| {
        if tid != own {
            match SLOTS.iter().find(|s| s.tid.load(Relaxed) == tid) {
                None => refusal = Some(Refusal::Unregistered),
                Some(slot) if !known(slot) => refusal = refusal.or(Some(Refusal::Busy)),
                Some(_) => {}
            }
        }
    });
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    ON.store(true, SeqCst);
    // A call that began, or a trap that went off, meanwhile must win; later ones end the guard themselves.
    if SLOTS.iter().all(|s| s.tid.load(SeqCst) == 0 || known(s)) {
        return Ok(());
    }
    leave();
    Err(Refusal::Busy)
}

/// Whether a thread is in user code or in a call that touches nothing but what is written down.
fn known(slot: &Slot) -> bool {
    slot.trap.load(SeqCst) == BLOCK && !slot.unknown.load(SeqCst)
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
const FLAT: [c_long; 106] = [
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
    libc::SYS_rt_sigtimedwait,
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

/// What becomes of a trapped call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was made, with this result.
    Result(isize),
    /// The thread is to make it again; its trap is off.
    Natively,
}

/// A trapped system call, in the SIGSYS handler of the thread that makes it.
///
/// # Safety
/// `context` must be the handler's own.
pub unsafe fn trapped(nr: c_long, args: &[usize; 6], step: &Step, context: *mut libc::ucontext_t) -> Answer {
    if let Some(h) = crate::process::info() {
        h.counters.syscalls.fetch_add(1, Relaxed);
    }
    // Without a slot there is no trap; so there is one.
    let Some(slot) = slot_of(step) else { return Answer::Natively };
    quieten(slot);
    // SAFETY: the program's own calls, made for it with its own arguments; the context is the handler's.
    unsafe {
        match nr {
            libc::SYS_rt_sigprocmask => return Answer::Result(signals::change_kernel_mask(args, context)),
            libc::SYS_rt_sigaction => return Answer::Result(signals::change_kernel_action(args)),
            libc::SYS_sigaltstack => return Answer::Result(signals::change_signal_stack(args, context)),
            libc::SYS_rt_sigreturn => signals::return_natively(context),
            libc::SYS_ppoll => return masked(slot, nr, args, 3),
            libc::SYS_epoll_pwait => return masked(slot, nr, args, 4),
            libc::SYS_rt_sigsuspend => return masked(slot, nr, args, 0),
            libc::SYS_io_uring_setup | libc::SYS_io_setup => KERNEL_USES_MEMORY.store(true, SeqCst),
            libc::SYS_exit => slot.tid.store(0, SeqCst),
            libc::SYS_vfork => return natively(slot),
            libc::SYS_clone if args[0] & libc::CLONE_VM as usize != 0 => return natively(slot),
            // The flags are the first word of the structure.
            libc::SYS_clone3 if *(args[0] as *const u64) & libc::CLONE_VM as u64 != 0 => return natively(slot),
            _ => {}
        }
        match look(nr, args) {
            Look::Harmless => Answer::Result(sys::call(nr, *args)),
            Look::Buffer(start, len) => {
                slot.buffer.store(start, SeqCst);
                slot.buffer_len.store(len.max(1), SeqCst);
                if armed::any() {
                    armed::open_range(start, len.max(1));
                }
                let result = sys::call(nr, *args);
                slot.buffer_len.store(0, SeqCst);
                Answer::Result(result)
            }
            Look::Unknown => unknown(slot, nr, args),
        }
    }
}

/// Makes a call of which nobody knows what memory it touches.
unsafe fn unknown(slot: &Slot, nr: c_long, args: &[usize; 6]) -> Answer {
    slot.unknown.store(true, SeqCst);
    leave();
    // SAFETY: the caller's.
    let result = unsafe { sys::call(nr, *args) };
    slot.unknown.store(false, SeqCst);
    Answer::Result(result)
}

/// Makes a waiting call whose argument `mask` points to a signal mask for the time of the wait: without our signals.
unsafe fn masked(slot: &Slot, nr: c_long, args: &[usize; 6], mask: usize) -> Answer {
    let mut args = *args;
    // SAFETY: the kernel would read the mask of 8 bytes as well.
    let open = unsafe { (args[mask] as *const u64).as_ref() }.map(|m| m & !OUR_SIGNALS);
    if let Some(open) = &open {
        args[mask] = &raw const *open as usize;
    }
    if (0..6).any(|i| range::contains(args[i])) {
        // SAFETY: the caller's.
        return unsafe { unknown(slot, nr, &args) };
    }
    // SAFETY: the caller's.
    Answer::Result(unsafe { sys::call(nr, args) })
}

/// Switches the thread's trap off, so that it makes the call again by itself.
fn natively(slot: &Slot) -> Answer {
    slot.trap.store(ALLOW, SeqCst);
    leave();
    Answer::Natively
}

/// A thread that makes very many calls goes without the trap for a while.
fn quieten(slot: &Slot) {
    if slot.calls.fetch_add(1, Relaxed) % NOISE_CALLS != 0 {
        return;
    }
    let now = sys::now_in_handler();
    if now - slot.counted_from.swap(now, Relaxed) < NOISE_NS {
        slot.noisy_until.store(now + QUIET_NS, Relaxed);
        natively(slot);
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
pub const OUR_SIGNALS: u64 = bit(libc::SIGTRAP) | bit(libc::SIGSEGV) | bit(libc::SIGSYS);

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
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

/// Registers the calling thread if the process is sampled. `born`: it has just been started, so that its trap can be on
/// from its first step on.
pub fn adopt(tid: u32, step: &Step, born: bool) {
    if !enabled() {
        return;
    }
    if !register(tid, step) {
        crate::process::say(
            b"the page-fault sampler cannot work here: the kernel has no Syscall User Dispatch (Linux 5.11), forbids it, or the process has more than 1024 threads; record with --sampler none",
        );
    } else if born {
        slot_of(step).into_iter().for_each(trap_on);
    }
}
