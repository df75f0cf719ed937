//! The guard: why a system call never fails on an armed page.
//!
//! The kernel does not fault politely: a `read` into a page without access rights returns EFAULT, or a short count. So
//! pages are armed only while every system call of every thread passes through us (Syscall User Dispatch, Linux 5.11;
//! no privileges needed): a byte of each thread says whether its calls are trapped.
//!
//! A trapped call is made from the handler. The pages of the memory that it names ([`super::calls`]) are opened first, and
//! none of them is armed before it is over. Of some calls nobody knows what they touch: then the guard *ends* (all pages are
//! opened, and none is armed before the call is over). Only what must happen on the program's own stack (a clone) is made
//! natively: the thread switches its own trap off and makes the call again.
//!
//! A thread switches its trap on and off itself, never another: at its start, and when it comes through the runtime. So a
//! thread whose trap is on is either in user code or in a call that we know of. And as SIGSYS must never be blocked
//! while the trap is on (the kernel would end the program), masks that pass through here lose that signal.
//!
//! A trapped call costs a signal. A thread that makes more of them than the budget allows goes without for a while, and
//! without the kernel's attention to each of its calls.

use super::{armed, budget, calls, enabled, protect, signals, started, step::Step, wake, wake::Sleeper};
use crate::tls::Thread;
use crate::{mapping, sys};
use core::ffi::{CStr, c_int, c_long};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
const PR_SYS_DISPATCH_OFF: usize = 0;
const PR_SYS_DISPATCH_ON: usize = 1;
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// The sampler costs too much for now.
static PAUSED: AtomicBool = AtomicBool::new(false);
/// Pages may be armed.
static ON: AtomicBool = AtomicBool::new(false);
/// The program has told the kernel to use memory whenever it pleases (io_uring, AIO): no page is armed any more.
static KERNEL_USES_MEMORY: AtomicBool = AtomicBool::new(false);

const THREADS: usize = 1024;
/// The alternate stack of a thread that has none: the frame of a signal must not land on an armed page. The program's own
/// handlers run there too if they interrupt a call that is made for it.
const SIGNAL_STACK: usize = 256 << 10;
/// After so many calls, or while the sampler pauses so few, a thread's calls are weighed against the budget.
const WEIGHED: u32 = 1024;
const WEIGHED_PAUSING: u32 = 32;
/// Stretches of memory that calls in progress of one thread may name apart; what is more is joined to the last.
const NAMED: usize = 8;
/// Beside the id of a thread that is making its last call. It still stands on the slot's signal stack, however long it has to wait for a
/// processor: before it is gone the slot is nobody else's.
const LEAVING: u32 = 1 << 31;
/// A stack pointer so little above that of a call in progress: the call was left by longjmp.
const LEFT: usize = 1 << 20;

/// A thread whose system calls can be trapped.
struct Slot {
    /// Kernel thread id; 0: free.
    tid: AtomicU32,
    /// Read by the kernel at every system call of the thread: [`BLOCK`] is the trap.
    trap: AtomicU8,
    /// The kernel looks at `trap` at all.
    dispatched: AtomicBool,
    /// A call is in progress that may touch any memory.
    unknown: AtomicBool,
    /// Memory that calls in progress were given (a handler may make calls while another is in progress): start, length.
    named: [(AtomicUsize, AtomicUsize); NAMED],
    named_count: AtomicUsize,
    /// The program's stack pointer at the first of the calls in progress; 0: there is none.
    outermost: AtomicUsize,
    /// What stack the thread stood on when it was last looked at ([`Slot::stands_on`]).
    stands: AtomicUsize,
    stack: AtomicUsize,
    calls: AtomicU32,
    counted_from: AtomicU64,
    noisy_until: AtomicU64,
    /// It may sleep since before its trap could be on.
    sleeper: Sleeper,
}

static SLOTS: [Slot; THREADS] = [const {
    Slot {
        tid: AtomicU32::new(0),
        trap: AtomicU8::new(ALLOW),
        dispatched: AtomicBool::new(false),
        unknown: AtomicBool::new(false),
        named: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; NAMED],
        named_count: AtomicUsize::new(0),
        outermost: AtomicUsize::new(0),
        stands: AtomicUsize::new(0),
        stack: AtomicUsize::new(0),
        calls: AtomicU32::new(0),
        counted_from: AtomicU64::new(0),
        noisy_until: AtomicU64::new(0),
        sleeper: Sleeper::new(),
    }
}; THREADS];

fn slot_of(step: &Step) -> Option<&'static Slot> {
    SLOTS.get((step.slot.get() as usize).checked_sub(1)?)
}

/// Whether a thread has ended.
fn gone(pid: usize, tid: u32) -> bool {
    // SAFETY: signal 0 only asks whether the thread exists.
    unsafe { sys::call3(libc::SYS_tgkill, pid, tid as usize, 0) == -(libc::ESRCH as isize) }
}

/// Makes the calling thread one whose system calls can be trapped. `false` if there are too many.
fn register(tid: u32, step: &Step) -> bool {
    // SAFETY: no arguments.
    let pid = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as usize;
    let take = |slot: &Slot, from: u32| slot.tid.compare_exchange(from, tid, AcqRel, Relaxed).is_ok();
    let slots = || (0..THREADS).map(|i| (tid as usize + i) % THREADS).filter_map(|i| Some((i, SLOTS.get(i)?)));
    let take_if = |slot: &Slot, free: &dyn Fn(u32) -> bool| {
        let now = slot.tid.load(Relaxed);
        free(now) && take(slot, now)
    };
    let left = |t: u32| t == 0 || t & LEAVING != 0 && gone(pid, t & !LEAVING);
    let found =
        slots().find(|(_, s)| take_if(s, &left)).or_else(|| slots().find(|(_, s)| take_if(s, &|t| gone(pid, t))));
    let Some((index, slot)) = found else { return false };
    slot.clear();
    slot.noisy_until.store(0, Relaxed);
    slot.sleeper.clear();
    step.slot.set(index as u32 + 1);
    // A thread may have been given a stack in managed memory.
    protect::stack(&raw const index as usize);
    give_signal_stack(slot, step);
    true
}

impl Slot {
    /// No trap, no call in progress.
    fn clear(&self) {
        self.trap.store(ALLOW, SeqCst);
        self.dispatched.store(false, Relaxed);
        self.begin_anew();
    }

    fn begin_anew(&self) {
        self.unknown.store(false, Relaxed);
        self.named_count.store(0, Relaxed);
        self.outermost.store(0, Relaxed);
    }

    /// A signal stack of the sampler's own; `None` if there is no memory for it.
    fn signal_stack(&self) -> Option<libc::stack_t> {
        if self.stack.load(Relaxed) == 0 {
            self.stack.store(sys::map_lazily(SIGNAL_STACK), Relaxed);
        }
        let at = self.stack.load(Relaxed);
        (at != 0).then_some(libc::stack_t { ss_sp: at as *mut _, ss_flags: 0, ss_size: SIGNAL_STACK })
    }

    /// Has the kernel look at the trap, or not. `false` if it cannot.
    fn dispatch(&self, on: bool) -> bool {
        if self.dispatched.load(Relaxed) == on {
            return true;
        }
        let (start, len) = sys::text();
        let trap = &raw const self.trap as usize;
        let args = match on {
            true => [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, len, trap, 0],
            false => [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0, 0],
        };
        // SAFETY: the byte lives for ever.
        let done = unsafe { sys::call(libc::SYS_prctl, args) } == 0;
        if done {
            self.dispatched.store(on, Relaxed);
        }
        done
    }

    /// The thread makes a call with this stack pointer. If that is a coroutine's stack, the kernel puts the frames of signals there.
    fn stands_on(&self, stack: usize) {
        // Looked at anew where the stack is another (of 64 KiB; an address has 47 bits), or may be an object that was not there before.
        let now = stack >> 16 | mapping::made() << 31;
        if self.stands.swap(now, Relaxed) != now && armed::can_arm(stack) {
            protect::stack(stack);
        }
    }

    /// Notes memory that a call in progress touches, and opens its pages.
    fn name(&self, start: usize, len: usize) {
        if len == 0 || !armed::can_arm_in(start, len) {
            return;
        }
        let count = self.named_count.load(Relaxed);
        if let Some((at, bytes)) = self.named.get(count) {
            at.store(start, SeqCst);
            bytes.store(len, SeqCst);
            self.named_count.store(count + 1, SeqCst);
        } else if let Some((at, bytes)) = self.named.last() {
            let (first, end) = (at.load(Relaxed), at.load(Relaxed).saturating_add(bytes.load(Relaxed)));
            // Longer first: it never names less than it did.
            bytes.store(end.max(start.saturating_add(len)) - first.min(start), SeqCst);
            at.store(first.min(start), SeqCst);
            bytes.store(end.max(start.saturating_add(len)) - first.min(start), SeqCst);
        }
        if armed::any() {
            budget::charged(|| armed::open_range(start, len));
        }
    }
}

fn give_signal_stack(slot: &Slot, step: &Step) {
    // SAFETY: asks for, and sets, the thread's alternate stack, whose mapping is kept for the slot's next thread.
    unsafe {
        let mut now: libc::stack_t = core::mem::zeroed();
        let asked = sys::call3(libc::SYS_sigaltstack, 0, &raw mut now as usize, 0);
        if asked == 0 && now.ss_flags & libc::SS_DISABLE == 0 {
            protect::stack(now.ss_sp as usize);
        }
        if asked != 0 || now.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        if let Some(ours) = slot.signal_stack() {
            if sys::call3(libc::SYS_sigaltstack, &raw const ours as usize, 0, 0) == 0 {
                step.kept_stack.set(true);
                step.signal_stack.set([0, 0, libc::SS_DISABLE as usize]);
            }
        }
    }
}

/// The signal stack that the sampler has for the calling thread.
pub fn signal_stack(step: &Step) -> Option<libc::stack_t> {
    slot_of(step)?.signal_stack()
}

/// Switches the calling thread's trap on, unless it makes too many calls for that. Also while the sampler pauses: a thread
/// that then only computes or waits (that was just made, or has made one) would never come by again, and no page could be
/// armed as long as it lives.
#[cold]
fn trap_on(slot: &Slot) {
    let noisy_until = slot.noisy_until.load(Relaxed);
    if noisy_until != 0 && (PAUSED.load(Relaxed) || sys::now_in_handler() < noisy_until) {
        return;
    }
    if !signals::ours() {
        return; // SIGSYS would be another's
    }
    if !slot.dispatch(true) {
        return crate::process::say(
            b"the page-fault sampler cannot work here: the kernel has no Syscall User Dispatch (Linux 5.11), or forbids it; record with --sampler none",
        );
    }
    let ours = OUR_SIGNALS;
    // SAFETY: opens the thread's mask for the sampler's signals; 8 is the kernel's mask size.
    unsafe { sys::call(libc::SYS_rt_sigprocmask, [libc::SIG_UNBLOCK as usize, &raw const ours as usize, 0, 8, 0, 0]) };
    slot.trap.store(BLOCK, SeqCst);
    if noisy_until != 0 {
        // It is back for a short while only.
        call_sampler();
    }
}

/// Changes when a thread comes back whose trap was off.
static CALLED: AtomicU32 = AtomicU32::new(0);

/// Ends the sleep of the sampler's thread in [`sleep_until_called`].
pub fn call_sampler() {
    CALLED.fetch_add(1, SeqCst);
    sys::wake(&CALLED);
}

/// Sleeps in the sampler's thread until a thread comes back whose trap was off, so long at most. `seen`: [`called`] before it
/// was found out that one was.
pub fn sleep_until_called(seen: u32, ns: u64) {
    sys::wait_on(&CALLED, seen, ns);
}

/// How often a thread has come back.
pub fn called() -> u32 {
    CALLED.load(SeqCst)
}

/// A SIGSYS that did not come of a trapped call: whether it was [`Sleeper::nudge`]'s; then the calling thread's trap is on now.
pub fn nudged(thread: &Thread) -> bool {
    // SAFETY: no arguments.
    let own = unsafe { sys::call3(libc::SYS_gettid, 0, 0, 0) } as u32;
    let stranger = wake::nudged_as_stranger(own);
    match slot_of(&thread.step) {
        // It may have become known before the signal came.
        Some(slot) if stranger || slot.sleeper.nudged() => trap_on(slot),
        // A thread that was not made by libc may have another one's block; it stays unknown.
        None if stranger && [0, own].contains(&thread.tid.get()) => crate::process::adopt(thread, true),
        _ => return stranger,
    }
    true
}

/// The calling thread's trap goes off for good.
pub fn let_go(step: &Step) {
    slot_of(step).into_iter().for_each(|slot| slot.trap.store(ALLOW, SeqCst));
}

/// The calling thread comes through the runtime: its trap goes (back) on if there is something to sample.
#[inline]
pub fn pass_by(step: &Step) {
    if enabled() && started() {
        slot_of(step).filter(|s| s.trap.load(Relaxed) == ALLOW).into_iter().for_each(trap_on);
    }
}

/// Finds out what a trapped call costs, by making some in the calling thread.
pub fn measure(step: &Step) {
    let Some(slot) = slot_of(step) else { return };
    trap_on(slot);
    if slot.trap.load(Relaxed) == BLOCK {
        // SAFETY: no arguments. It goes through the C library, so that it is trapped.
        budget::measure(|| unsafe {
            libc::syscall(libc::SYS_getppid);
        });
    }
}

/// Ends the guard, and does not let threads pay for one while there is none; or ends that.
pub fn pause(now: bool) {
    PAUSED.store(now, SeqCst);
    if now {
        leave();
    }
}

/// In a forked child: nobody is registered.
pub fn forget_parent() {
    ON.store(false, SeqCst);
    PAUSED.store(false, SeqCst);
    for slot in &SLOTS {
        slot.tid.store(0, Relaxed);
        slot.clear();
    }
    wake::forget_parent();
}

/// Whether pages may be armed.
pub fn on() -> bool {
    ON.load(SeqCst)
}

/// Whether a call in progress was given this page.
pub fn in_use(page: usize) -> bool {
    SLOTS.iter().any(|s| {
        s.named.iter().take(s.named_count.load(SeqCst)).any(|(at, len)| {
            let (start, len) = (at.load(SeqCst), len.load(SeqCst));
            page + 4096 > start && page < start.saturating_add(len)
        })
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
    // SAFETY: no arguments.
    let pid = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as usize;
    let mut refusal = None;
    each_thread(|tid| {
        if tid != own && !crate::mover::is_thread(tid) {
            match SLOTS.iter().find(|s| s.tid.load(Relaxed) == tid) {
                None => {
                    refusal = Some(Refusal::Unregistered);
                    wake::nudge_stranger(pid, tid);
                }
                Some(slot) if !known(slot) => {
                    refusal = refusal.or(Some(Refusal::Busy));
                    if slot.trap.load(SeqCst) == ALLOW && slot.noisy_until.load(Relaxed) == 0 {
                        slot.sleeper.nudge(pid, tid);
                    }
                }
                Some(_) => {}
            }
        }
    });
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    ON.store(true, SeqCst);
    // A call that began, or a trap that went off, meanwhile must win; later ones end the guard themselves. A thread whose
    // trap was off has ended without a word.
    let out_of_the_way = |s: &Slot| {
        let tid = s.tid.load(SeqCst);
        tid == 0
            || tid & LEAVING != 0
            || known(s)
            || gone(pid, tid) && s.tid.compare_exchange(tid, 0, SeqCst, SeqCst).is_ok()
    };
    if SLOTS.iter().all(out_of_the_way) {
        return Ok(());
    }
    leave();
    Err(Refusal::Busy)
}

/// Whether a thread is in user code or in a call that touches nothing but what is written down.
fn known(slot: &Slot) -> bool {
    slot.trap.load(SeqCst) == BLOCK && !slot.unknown.load(SeqCst)
}

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
    budget::charge(budget::signal_ns());
    // Without a slot there is no trap; so there is one.
    let Some(slot) = slot_of(step) else { return Answer::Natively };
    weigh(slot);
    // SAFETY: the program's own calls, made for it with its own arguments; the context is the handler's.
    unsafe {
        let stack = (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
        slot.stands_on(stack);
        match nr {
            libc::SYS_rt_sigprocmask => return Answer::Result(signals::change_kernel_mask(args, context)),
            libc::SYS_rt_sigaction => return Answer::Result(signals::change_kernel_action(args)),
            // The handler runs on the stack in question; and what it writes into its frame for its return to set, Linux 6.12
            // and later ignore.
            libc::SYS_sigaltstack => return natively(slot),
            libc::SYS_rt_sigreturn => signals::return_natively(context),
            libc::SYS_io_uring_setup | libc::SYS_io_setup => KERNEL_USES_MEMORY.store(true, SeqCst),
            // Most come through the C library's functions, which have done so already.
            libc::SYS_munmap | libc::SYS_mremap => mapping::forget(args[0], args[1]),
            libc::SYS_mmap if args[3] & libc::MAP_FIXED as usize != 0 => mapping::forget(args[0], args[1]),
            libc::SYS_mprotect | libc::SYS_pkey_mprotect => protect::by_program(args[0], args[1]),
            libc::SYS_exit => _ = slot.tid.fetch_or(LEAVING, SeqCst),
            libc::SYS_vfork => return natively(slot),
            libc::SYS_clone if args[0] & libc::CLONE_VM as usize != 0 => return natively(slot),
            // The flags are the first word of the structure.
            libc::SYS_clone3 if *(args[0] as *const u64) & libc::CLONE_VM as u64 != 0 => return natively(slot),
            _ => {}
        }
        Answer::Result(make(slot, nr, args, stack, &(*context).uc_stack))
    }
}

/// Makes a call, its memory open.
unsafe fn make(slot: &Slot, nr: c_long, args: &[usize; 6], stack: usize, signal_stack: &libc::stack_t) -> isize {
    let outermost = slot.outermost.load(Relaxed);
    let on_signal_stack = stack.wrapping_sub(signal_stack.ss_sp as usize) < signal_stack.ss_size;
    if outermost != 0 && !on_signal_stack && stack >= outermost && stack - outermost < LEFT {
        // A handler that interrupted the call has left it by longjmp.
        slot.begin_anew();
    }
    // A handler's calls come and go while the call that it interrupted is in progress.
    let before = (slot.named_count.load(Relaxed), slot.unknown.load(Relaxed), slot.outermost.load(Relaxed));
    if before.2 == 0 {
        slot.outermost.store(stack, Relaxed);
    }
    if !calls::name(nr, args, |start, len| slot.name(start, len), peek) {
        slot.unknown.store(true, SeqCst);
        leave();
    }
    let result = match mask_of(nr) {
        // SAFETY: the caller's.
        Some(mask) => unsafe { masked(nr, args, mask) },
        // SAFETY: the caller's.
        None => unsafe { sys::call(nr, *args) },
    };
    slot.outermost.store(before.2, Relaxed);
    slot.unknown.store(before.1, SeqCst);
    slot.named_count.store(before.0, SeqCst);
    result
}

/// Reads words of the program's memory, if there are any at the address.
fn peek(at: usize, to: &mut [usize]) -> bool {
    let bytes = size_of_val(to);
    let local = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: bytes };
    let remote = libc::iovec { iov_base: at as *mut _, iov_len: bytes };
    // SAFETY: asks who this process is; copies within it, into a local buffer, and fails where nothing can be read.
    unsafe {
        let pid = sys::call3(libc::SYS_getpid, 0, 0, 0) as usize;
        let args = [pid, &raw const local as usize, 1, &raw const remote as usize, 1, 0];
        sys::call(libc::SYS_process_vm_readv, args) == bytes as isize
    }
}

/// The argument of a waiting call that points to a signal mask for the time of the wait.
fn mask_of(nr: c_long) -> Option<usize> {
    match nr {
        libc::SYS_ppoll => Some(3),
        libc::SYS_epoll_pwait => Some(4),
        libc::SYS_rt_sigsuspend => Some(0),
        _ => None,
    }
}

/// Makes a waiting call, its mask without our signals.
unsafe fn masked(nr: c_long, args: &[usize; 6], mask: usize) -> isize {
    let mut args = *args;
    let mut open = [0];
    if args[mask] != 0 && peek(args[mask], &mut open) {
        open[0] &= !OUR_SIGNALS as usize;
        args[mask] = open.as_ptr() as usize;
    }
    // SAFETY: the caller's.
    unsafe { sys::call(nr, args) }
}

/// Switches the thread's trap off, so that it makes the call again by itself.
fn natively(slot: &Slot) -> Answer {
    slot.trap.store(ALLOW, SeqCst);
    leave();
    Answer::Natively
}

/// A thread whose calls cost more than they may goes without the trap for a while.
fn weigh(slot: &Slot) {
    let weighed = if PAUSED.load(Relaxed) { WEIGHED_PAUSING } else { WEIGHED };
    let calls = slot.calls.fetch_add(1, Relaxed) + 1;
    if calls < weighed {
        return;
    }
    slot.calls.store(0, Relaxed);
    let now = sys::now_in_handler();
    let rest = budget::rest_for(calls.into(), now - slot.counted_from.swap(now, Relaxed));
    if rest > 0 {
        slot.noisy_until.store(now + rest, Relaxed);
        natively(slot);
        slot.dispatch(false);
    }
}

/// io_uring and kernel AIO use memory when it pleases them.
fn kernel_uses_memory() -> bool {
    let mut found = false;
    sys::each_entry(c"/proc/self/fd", |fd| {
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

/// A signal's bit in a mask.
pub const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// A path of parts; `None` if it is too long.
pub fn join<'a>(buffer: &'a mut [u8; 64], parts: &[&[u8]]) -> Option<&'a CStr> {
    let mut at = 0;
    for part in parts {
        buffer.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    CStr::from_bytes_with_nul(buffer.get(..=at)?).ok()
}

fn each_thread(mut each: impl FnMut(u32)) {
    sys::each_entry(c"/proc/self/task", |name| {
        if name.iter().all(u8::is_ascii_digit) {
            each(name.iter().fold(0, |n, &b| n * 10 + u32::from(b - b'0')));
        }
    });
}

/// Registers the calling thread if the process is sampled. `born`: it has just been started, so that its trap can be on
/// from its first step on.
pub fn adopt(tid: u32, step: &Step, born: bool) {
    if !enabled() {
        return;
    }
    if !register(tid, step) {
        crate::process::say(
            b"the page-fault sampler cannot watch this process for some of the time: it has more than 1024 threads",
        );
    } else if born {
        slot_of(step).into_iter().for_each(trap_on);
    }
}
