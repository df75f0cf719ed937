//! The sampler's signal handlers, and the program's own behind them.
//!
//! SIGSEGV (an armed page), SIGTRAP (a single step) and SIGSYS (a trapped system call) are the sampler's while it
//! works. The program's handlers for them are kept here instead of in the kernel and are called for everything that
//! is not the sampler's. These signals are kept out of every signal mask: a fault while its signal is blocked ends the program.

use super::armed::{self, Fault};
use super::guard::Answer;
use super::step::Step;
use super::{budget, enabled, guard, protect, wake};
use crate::{next, objects, range, sys, tls};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::{transmute, zeroed};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

const OURS: [c_int; 3] = [libc::SIGSEGV, libc::SIGTRAP, libc::SIGSYS];
const TRAP_FLAG: i64 = 0x100;
/// Stands on the stack while a handler of the program's runs: one left by longjmp is overwritten sooner or later.
const RUNNING: usize = 0x4865_6172_7468_5369;
const SA_RESTORER: u64 = 0x0400_0000;
/// Longest frame of a signal: AMX tiles are 8 KiB of it.
const FRAME: usize = 16 << 10;

/// A sigaction as the kernel takes it.
#[repr(C)]
#[derive(Clone, Copy)]
struct KernelAction {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

struct Actions(UnsafeCell<[Option<libc::sigaction>; 3]>);
// SAFETY: changed under LOCK.
unsafe impl Sync for Actions {}
/// The program's actions; `None`: the default.
static PROGRAM: Actions = Actions(UnsafeCell::new([None, None, None]));
static LOCK: AtomicU32 = AtomicU32::new(0);

fn program<R>(signal: c_int, f: impl FnOnce(&mut Option<libc::sigaction>) -> R) -> Option<R> {
    let index = OURS.iter().position(|&s| s == signal)?;
    while LOCK.swap(1, Acquire) != 0 {
        core::hint::spin_loop();
    }
    // SAFETY: the lock is held.
    let result = unsafe { (*PROGRAM.0.get()).get_mut(index).map(f) };
    LOCK.store(0, Release);
    result
}

fn handler_of(signal: c_int) -> usize {
    match signal {
        libc::SIGSEGV => on_segv as *const () as usize,
        libc::SIGTRAP => on_trap as *const () as usize,
        _ => on_sys as *const () as usize,
    }
}

/// Puts the handlers in place. `false` if the kernel refuses.
pub fn install() -> bool {
    OURS.iter().all(|&signal| {
        // SIGSYS runs blocking calls of the program, so its handlers must be able to run meanwhile; the other two are
        // short and must not be interrupted while they hold the lock.
        let (mask, flags) = if signal == libc::SIGSYS { (0, libc::SA_NODEFER) } else { (!0u64, 0) };
        let flags = flags | libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        let action = KernelAction {
            handler: handler_of(signal),
            flags: flags as u64 | SA_RESTORER,
            restorer: sys::hearth_sigreturn as *const () as usize,
            mask,
        };
        let mut before: libc::sigaction = {
            // SAFETY: plain data.
            unsafe { zeroed() }
        };
        // SAFETY: libc's own query, then the kernel's call with its own layout.
        unsafe {
            if real_sigaction(signal, core::ptr::null(), &mut before) != 0 {
                return false;
            }
            program(signal, |slot| *slot = (before.sa_sigaction != libc::SIG_DFL).then_some(before));
            let action = &raw const action as usize;
            sys::call(libc::SYS_rt_sigaction, [signal as usize, action, 0, 8, 0, 0]) == 0
        }
    })
}

/// In a forked child: whoever held the lock does not exist here.
pub fn forget_parent() {
    LOCK.store(0, Release);
}

/// Whether the handlers are (still) in place.
pub fn ours() -> bool {
    OURS.iter().all(|&signal| {
        let mut now = KernelAction { handler: 0, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: asks; writes to a local of the kernel's layout.
        let asked = unsafe { sys::call(libc::SYS_rt_sigaction, [signal as usize, 0, &raw mut now as usize, 8, 0, 0]) };
        asked == 0 && now.handler == handler_of(signal)
    })
}

unsafe extern "C-unwind" fn on_segv(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SEGV_ACCERR: c_int = 2;
    const SI_KERNEL: c_int = 128;
    const RETRIES: u32 = 16;
    const RETRIES_ELSEWHERE: u32 = 2;
    /// So near to the stack pointer an armed page may be one of the stack.
    const STACK_NEAR: usize = 64 << 20;
    // SAFETY: the kernel's arguments of an SA_SIGINFO handler.
    let (addr, code, registers) = unsafe {
        ((*info).si_addr() as usize, (*info).si_code, &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs)
    };
    let thread = tls::thread();
    let stack = registers[libc::REG_RSP as usize] as usize;
    if code == SI_KERNEL && armed::can_arm(stack) {
        // The kernel found no place for the frame of a signal: the stack is a coroutine's, and the page below the stack pointer is, or was a
        // moment ago, armed. That signal is lost, but the program goes on. Or it is the program's own fault, which comes back.
        if protect::stack(stack) {
            count_lost_signal();
        }
        // Another thread may have marked it and not opened it yet, or the table of mappings be taken for too long.
        if armed::any() {
            armed::open_range(stack.saturating_sub(FRAME), FRAME);
        }
        if again(&thread.step, stack, RETRIES_ELSEWHERE) {
            return;
        }
    }
    if code == SEGV_ACCERR && armed::can_arm(addr) {
        let store = registers[libc::REG_ERR as usize] & 2 != 0;
        let ip = registers[libc::REG_RIP as usize] as usize;
        let fault = budget::signal(|| armed::fault(addr, ip, store, thread.tid.get(), &thread.step));
        if stack.abs_diff(addr) < STACK_NEAR || range::contains(stack) {
            // A coroutine's stack: the kernel puts the frames of signals there.
            protect::stack(stack);
        }
        match fault {
            Fault::Retry => return thread.step.times.set(0),
            Fault::Step => {
                thread.step.times.set(0);
                registers[libc::REG_EFL as usize] |= TRAP_FLAG;
                return;
            }
            Fault::Foreign => {
                // Most likely another thread has just opened the page. If not, as a garbage collector's, it faults again and again.
                let known = range::contains(addr) && !objects::is_hands_off(addr);
                if again(&thread.step, addr, if known { RETRIES } else { RETRIES_ELSEWHERE }) {
                    return;
                }
            }
        }
    }
    // SAFETY: the kernel's arguments.
    unsafe { pass_on(signal, info, context) }
}

/// Whether to try again what faults for no known reason: not more often than so in a row.
fn again(step: &Step, at: usize, most: u32) -> bool {
    let times = if step.strange.replace(at) == at { step.times.get() + 1 } else { 0 };
    step.times.set(if times < most { times } else { 0 });
    times < most
}

fn count_lost_signal() {
    if let Some(h) = crate::process::info() {
        h.counters.signals_lost.fetch_add(1, Relaxed);
    }
}

unsafe extern "C-unwind" fn on_trap(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = tls::thread();
    // SAFETY: the kernel's arguments.
    unsafe {
        let page = thread.step.page.replace(0);
        if page != 0 && (*info).si_code > 0 {
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] &= !TRAP_FLAG;
            return budget::signal(|| armed::stepped(page, thread.tid.get()));
        }
        thread.step.page.set(page);
        pass_on(signal, info, context)
    }
}

unsafe extern "C-unwind" fn on_sys(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SYS_USER_DISPATCH: c_int = 2;
    // SAFETY: the kernel's arguments. si_syscall lies after si_call_addr, which is where si_addr lies.
    unsafe {
        if (*info).si_code != SYS_USER_DISPATCH {
            if (*info).si_code == libc::SI_TKILL && guard::nudged(tls::thread()) {
                // What stack the handlers have is set by its return.
                if let Some(stack) =
                    guard::signal_stack(&tls::thread().step).filter(|_| tls::thread().step.kept_stack.get())
                {
                    (*context.cast::<libc::ucontext_t>()).uc_stack = stack;
                }
                wake::begin_anew(context.cast());
                return;
            }
            return pass_on(signal, info, context);
        }
        let nr = *info.cast::<u8>().add(24).cast::<c_int>();
        let r = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let arg = |register: c_int| r[register as usize] as usize;
        let args = [
            arg(libc::REG_RDI),
            arg(libc::REG_RSI),
            arg(libc::REG_RDX),
            arg(libc::REG_R10),
            arg(libc::REG_R8),
            arg(libc::REG_R9),
        ];
        match guard::trapped(nr.into(), &args, &tls::thread().step, context.cast()) {
            Answer::Result(result) => r[libc::REG_RAX as usize] = result as i64,
            Answer::Natively => {
                r[libc::REG_RAX as usize] = nr.into();
                r[libc::REG_RIP as usize] -= 2; // `syscall` is two bytes long
            }
        }
    }
}

/// `rt_sigprocmask` of a thread whose trap is on: what the handler returns to gets the new mask, less our signals.
///
/// # Safety
/// The arguments of the call, and the handler's own context.
pub unsafe fn change_kernel_mask(args: &[usize; 6], context: *mut libc::ucontext_t) -> isize {
    if args[3] != 8 {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: the program's pointers, as the kernel would use them.
    unsafe {
        let mask = (&raw mut (*context).uc_sigmask).cast::<u64>();
        let before = *mask;
        if let Some(set) = (args[1] as *const u64).as_ref() {
            let changed = match args[0] as c_int {
                libc::SIG_BLOCK => before | set,
                libc::SIG_UNBLOCK => before & !set,
                libc::SIG_SETMASK => *set,
                _ => return -(libc::EINVAL as isize),
            };
            *mask = changed & !guard::OUR_SIGNALS;
        }
        if let Some(old) = (args[2] as *mut u64).as_mut() {
            *old = before;
        }
    }
    0
}

/// `rt_sigaction` made behind the C library's back: our signals are only written down, and no handler blocks them.
///
/// # Safety
/// The arguments of the call.
pub unsafe fn change_kernel_action(args: &[usize; 6]) -> isize {
    let signal = args[0] as c_int;
    // SAFETY: the program's pointers, as the kernel would use them; the C library's structure is plain data.
    unsafe {
        let new = (args[1] as *const KernelAction).as_ref();
        let kept = program(signal, |slot| {
            let before = slot.unwrap_or_else(|| zeroed());
            if let Some(new) = new {
                let mut action: libc::sigaction = zeroed();
                (action.sa_sigaction, action.sa_flags) = (new.handler, new.flags as c_int);
                *(&raw mut action.sa_mask).cast::<u64>() = new.mask;
                *slot = (new.handler != libc::SIG_DFL).then_some(action);
            }
            before
        });
        match kept {
            None => {
                let open = new.map(|n| KernelAction { mask: n.mask & !guard::OUR_SIGNALS, ..*n });
                let mut args = *args;
                if let Some(open) = &open {
                    args[1] = &raw const *open as usize;
                }
                sys::call(libc::SYS_rt_sigaction, args)
            }
            Some(before) => {
                if let Some(old) = (args[2] as *mut KernelAction).as_mut() {
                    let mask = *(&raw const before.sa_mask).cast::<u64>();
                    *old =
                        KernelAction { handler: before.sa_sigaction, flags: before.sa_flags as u64, restorer: 0, mask };
                }
                0
            }
        }
    }
}

/// `rt_sigreturn`: made on the program's stack, where its signal's frame lies; the mask it restores loses our signals.
///
/// # Safety
/// The handler's own context, of a trapped `rt_sigreturn`.
pub unsafe fn return_natively(context: *mut libc::ucontext_t) -> ! {
    // SAFETY: at this call the stack pointer points to the frame's ucontext (signal(7), the kernel's rt_sigframe).
    unsafe {
        let stack = (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
        // The kernel reads all of it, with the vector registers above. A mapping that holds it is known as a stack by now.
        if range::contains(stack) {
            protect::stack(stack);
        }
        if armed::any() {
            armed::open_range(stack, FRAME);
        }
        let frame = stack as *mut libc::ucontext_t;
        *(&raw mut (*frame).uc_sigmask).cast::<u64>() &= !guard::OUR_SIGNALS;
        sys::return_from_signal(stack)
    }
}

/// Gives a signal to the program's own handler, or to the kernel's default.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Raised by what the program did, not sent: it cannot be ignored, and a fault comes back by itself.
    // SAFETY: the kernel's arguments.
    let forced = unsafe { (*info).si_code } > 0;
    // A fault in the handler of faults, which blocks its own signal, ends the program.
    let handling = &tls::thread().step.handling;
    // SAFETY: the kernel's argument.
    let nested = forced && unsafe { within(handling.get(), context.cast()) };
    let again = forced && signal == libc::SIGSEGV;
    let action = program(signal, |slot| {
        let action = *slot;
        if action.is_some_and(|a| a.sa_flags & libc::SA_RESETHAND != 0) {
            *slot = None;
        }
        action
    });
    let ignored = |a: &libc::sigaction| a.sa_sigaction == libc::SIG_IGN;
    if action.flatten().as_ref().is_some_and(ignored) && !forced {
        return;
    }
    let handled = |a: &libc::sigaction| a.sa_sigaction != libc::SIG_DFL && !ignored(a);
    let Some(action) = action.flatten().filter(|a| handled(a) && !nested) else {
        // SAFETY: restores the default; a fault comes back by itself, anything else is sent again.
        unsafe {
            let default = KernelAction { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
            sys::call(libc::SYS_rt_sigaction, [signal as usize, &raw const default as usize, 0, 8, 0, 0]);
            if !again {
                let pid = sys::call3(libc::SYS_getpid, 0, 0, 0) as usize;
                let tid = sys::call3(libc::SYS_gettid, 0, 0, 0) as usize;
                sys::call3(libc::SYS_tgkill, pid, tid, signal as usize);
            }
        }
        return;
    };
    // SAFETY: the program's handler, called with the mask the kernel would have set: that of the interrupted code, the
    // action's own, and (without SA_NODEFER) the signal itself, less the signals that must stay open. The interrupted
    // code's mask comes back with the return from our handler, or with the program's siglongjmp.
    unsafe {
        let mut mask = *(&raw const (*context.cast::<libc::ucontext_t>()).uc_sigmask).cast::<u64>();
        mask |= *(&raw const action.sa_mask).cast::<u64>();
        mask &= !guard::OUR_SIGNALS;
        let set = libc::SIG_SETMASK as usize;
        sys::call(libc::SYS_rt_sigprocmask, [set, &raw const mask as usize, 0, 8, 0, 0]);
        let mut here = if action.sa_flags & libc::SA_NODEFER == 0 { RUNNING } else { 0 };
        let before = handling.replace(&raw const here as usize);
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            let f: extern "C-unwind" fn(c_int, *mut libc::siginfo_t, *mut c_void) = transmute(action.sa_sigaction);
            f(signal, info, context);
        } else {
            let f: extern "C-unwind" fn(c_int) = transmute(action.sa_sigaction);
            f(signal);
        }
        handling.set(before);
        (&raw mut here).write_volatile(0);
    }
}

/// Whether the code that the context interrupted was called by the handler whose mark lies at `mark`: it runs on the
/// same signal stack, further down, and the mark still stands.
unsafe fn within(mark: usize, context: *const libc::ucontext_t) -> bool {
    // SAFETY: the kernel's argument; the mark lies on the thread's signal stack, which is there as long as it is set.
    unsafe {
        let (stack, pointer) = (&(*context).uc_stack, (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize);
        let on_stack = |at: usize| at.wrapping_sub(stack.ss_sp as usize) < stack.ss_size;
        on_stack(mark) && on_stack(pointer) && pointer < mark && *(mark as *const usize) == RUNNING
    }
}

fn without_ours(set: &libc::sigset_t) -> libc::sigset_t {
    let mut set = *set;
    for signal in OURS {
        // SAFETY: a valid set and signal.
        unsafe { libc::sigdelset(&mut set, signal) };
    }
    set
}

macro_rules! real {
    ($name:ident = $symbol:literal, ($($arg:ident: $ty:ty),*) -> $ret:ty) => {
        unsafe fn $name($($arg: $ty),*) -> $ret {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            let mut found = NEXT.load(Relaxed);
            if found.is_null() {
                found = next::symbol($symbol);
                NEXT.store(found, Relaxed);
            }
            // SAFETY: libc's function of that name has this type; it exists in every C library.
            unsafe {
                let f: unsafe extern "C" fn($($ty),*) -> $ret = transmute(found);
                f($($arg),*)
            }
        }
    };
}

real!(real_sigaction = c"sigaction", (signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int);
real!(real_signal = c"signal", (signal: c_int, handler: usize) -> usize);
real!(real_pthread_sigmask = c"pthread_sigmask", (how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int);
real!(real_sigprocmask = c"sigprocmask", (how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int);
real!(real_sigaltstack = c"sigaltstack", (new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int);
real!(real_pthread_create = c"pthread_create",
    (thread: *mut libc::pthread_t, attr: *const libc::pthread_attr_t, start: usize, arg: *mut c_void) -> c_int);

/// As the C library's. The sampler's signals are only written down.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    // SAFETY: the caller's pointers, as for sigaction.
    unsafe {
        if !enabled() {
            return real_sigaction(signal, new, old);
        }
        let new = new.as_ref().map(|n| libc::sigaction { sa_mask: without_ours(&n.sa_mask), ..*n });
        let kept = program(signal, |slot| {
            let before = slot.unwrap_or_else(|| zeroed());
            if let Some(new) = new {
                *slot = (new.sa_sigaction != libc::SIG_DFL).then_some(new);
            }
            before
        });
        match kept {
            None => real_sigaction(signal, new.as_ref().map_or(core::ptr::null(), |n| n), old),
            Some(before) => {
                if let Some(old) = old.as_mut() {
                    *old = before;
                }
                0
            }
        }
    }
}

/// As the C library's. The sampler's signals are only written down.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn signal(number: c_int, handler: usize) -> usize {
    // SAFETY: plain data; the caller's handler.
    unsafe {
        if !enabled() || !OURS.contains(&number) {
            return real_signal(number, handler);
        }
        let mut new: libc::sigaction = zeroed();
        let mut old: libc::sigaction = zeroed();
        (new.sa_sigaction, new.sa_flags) = (handler, libc::SA_RESTART);
        sigaction(number, &new, &mut old);
        old.sa_sigaction
    }
}

/// Changes the mask by `real`, but never blocks the sampler's signals; what the program believes of those is kept beside
/// the mask.
unsafe fn change_mask(
    real: unsafe fn(c_int, *const libc::sigset_t, *mut libc::sigset_t) -> c_int,
    how: c_int,
    new: *const libc::sigset_t,
    old: *mut libc::sigset_t,
) -> c_int {
    // SAFETY: the caller's pointers; `old` may be `new`, which is therefore read first.
    unsafe {
        if !enabled() {
            return real(how, new, old);
        }
        let wanted = new.as_ref().copied();
        let open = wanted.as_ref().map(|n| if how == libc::SIG_UNBLOCK { *n } else { without_ours(n) });
        let failed = real(how, open.as_ref().map_or(core::ptr::null(), |s| s), old);
        if failed != 0 {
            return failed;
        }
        guard::pass_by(&tls::thread().step);
        let blocked = &tls::thread().step.blocked;
        let before = blocked.get();
        if let Some(wanted) = wanted {
            let bits =
                OURS.iter().fold(0u64, |bits, &s| bits | u64::from(libc::sigismember(&wanted, s) == 1) << (s - 1));
            blocked.set(match how {
                libc::SIG_BLOCK => before | bits,
                libc::SIG_UNBLOCK => before & !bits,
                _ => bits,
            });
        }
        if let Some(old) = old.as_mut() {
            for signal in OURS.iter().filter(|&&s| before & 1 << (s - 1) != 0) {
                libc::sigaddset(old, *signal);
            }
        }
        0
    }
}

/// As the C library's, but the sampler's signals are never really blocked.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_sigmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { change_mask(real_pthread_sigmask, how, new, old) }
}

/// As the C library's, but the sampler's signals are never really blocked.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigprocmask(how: c_int, new: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { change_mask(real_sigprocmask, how, new, old) }
}

/// Smallest signal stack of the program's on which the sampler's handlers run too: there is room for theirs, for one of the
/// program's, and for what the kernel puts there for both.
const ROOMY: usize = 64 << 10;

/// As the C library's. A stack that is too small for the sampler's handlers is only written down, and the handlers run on
/// the sampler's own, which is larger. Memory that becomes a signal stack is the kernel's from now on and is not armed.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaltstack(new: *const libc::stack_t, old: *mut libc::stack_t) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe {
        let step = &tls::thread().step;
        let (Some(ours), true) = (guard::signal_stack(step), enabled()) else { return real_sigaltstack(new, old) };
        let mut now: libc::stack_t = zeroed();
        if real_sigaltstack(core::ptr::null(), &mut now) != 0 {
            return -1;
        }
        let before = if step.kept_stack.get() {
            let [at, bytes, flags] = step.signal_stack.get();
            let on = if now.ss_flags & libc::SS_ONSTACK != 0 { libc::SS_ONSTACK } else { flags as c_int };
            libc::stack_t { ss_sp: at as *mut c_void, ss_flags: on, ss_size: bytes }
        } else {
            now
        };
        if let Some(new) = new.as_ref() {
            let disabled = new.ss_flags & libc::SS_DISABLE != 0;
            let plain = new.ss_flags & !(libc::SS_DISABLE | libc::SS_ONSTACK) == 0;
            if plain && (disabled || (libc::MINSIGSTKSZ..ROOMY).contains(&new.ss_size)) {
                if now.ss_flags & libc::SS_ONSTACK != 0 {
                    *libc::__errno_location() = libc::EPERM;
                    return -1;
                }
                if !step.kept_stack.get() && real_sigaltstack(&ours, core::ptr::null_mut()) != 0 {
                    return -1;
                }
                let flags = new.ss_flags & libc::SS_DISABLE;
                step.signal_stack.set([new.ss_sp as usize, new.ss_size, flags as usize]);
                step.kept_stack.set(true);
            } else {
                protect::stack(new.ss_sp as usize);
                if armed::any() {
                    armed::open_range(new.ss_sp as usize, new.ss_size);
                }
                if real_sigaltstack(new, core::ptr::null_mut()) != 0 {
                    return -1;
                }
                step.kept_stack.set(false);
            }
        }
        if let Some(old) = old.as_mut() {
            *old = before;
        }
        // The calls were made natively.
        guard::pass_by(step);
        0
    }
}

#[repr(C)]
struct Start {
    start: usize,
    arg: *mut c_void,
}

/// As the C library's; the new thread's first act is to let its system calls be trapped.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attr: *const libc::pthread_attr_t,
    start: usize,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments; the trampoline owns the block it is given.
    unsafe {
        let block = if enabled() { next::malloc(size_of::<Start>()).cast::<Start>() } else { core::ptr::null_mut() };
        if block.is_null() {
            return real_pthread_create(thread, attr, start, arg);
        }
        block.write(Start { start, arg });
        let failed = real_pthread_create(thread, attr, begin as *const () as usize, block.cast());
        if failed != 0 {
            next::free(block.cast());
        }
        // The clone was made natively.
        guard::pass_by(&tls::thread().step);
        failed
    }
}

unsafe extern "C-unwind" fn begin(block: *mut c_void) -> *mut c_void {
    // SAFETY: the block of `pthread_create`, ours to free; the program's start routine.
    unsafe {
        let Start { start, arg } = block.cast::<Start>().read();
        next::free(block);
        crate::process::adopt(tls::thread(), true);
        let f: extern "C-unwind" fn(*mut c_void) -> *mut c_void = transmute(start);
        f(arg)
    }
}
