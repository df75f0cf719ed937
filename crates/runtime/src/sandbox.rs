//! A program that puts itself under a seccomp filter: such a filter may end it at the first system call that it did not
//! foresee, and it did not foresee the runtime's.
//!
//! So the moment before, the books of the process are closed and the runtime falls silent: nothing new is managed, and
//! what is freed needs no system call. Filters that were there before the program began (a container's) answer with an
//! error instead, which is handled where it comes up. The sampler's thread, which a filter that is laid
//! over other threads too (SECCOMP_FILTER_FLAG_TSYNC) would meet, is waited for.

use crate::{interpose, mapping, next, process, sampler};
use core::ffi::{c_int, c_long};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

static SILENT: AtomicBool = AtomicBool::new(false);

/// Whether the runtime makes no system calls any more.
#[inline]
pub fn silent() -> bool {
    SILENT.load(Relaxed)
}

#[cold]
fn fall_silent() {
    if !process::attached() || SILENT.swap(true, AcqRel) {
        return;
    }
    interpose::manage_from(usize::MAX);
    mapping::manage_from(usize::MAX);
    sampler::give_up();
    process::pass(b"the program put itself under a seccomp filter; what it did from there on was not observed");
}

fn next_of(slot: &AtomicPtr<()>, name: &core::ffi::CStr) -> *mut () {
    let mut next = slot.load(Relaxed);
    if next.is_null() {
        next = next::symbol(name);
        slot.store(next, Relaxed);
    }
    next
}

/// As the C library's; the arguments that it does not look at are passed on as they are.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    if option == libc::PR_SET_SECCOMP {
        fall_silent();
    }
    let next = next_of(&NEXT, c"prctl");
    if next.is_null() {
        return -1;
    }
    // SAFETY: the symbol of that name, called as its caller called it.
    let f: extern "C" fn(c_int, usize, usize, usize, usize) -> c_int = unsafe { core::mem::transmute(next) };
    f(option, a, b, c, d)
}

/// As the C library's, with as many arguments as a system call can have.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    const SET_MODES: [usize; 2] = [0, 1];
    let filter = number == libc::SYS_seccomp && SET_MODES.contains(&a);
    if filter || number == libc::SYS_prctl && a == libc::PR_SET_SECCOMP as usize {
        fall_silent();
    }
    let next = next_of(&NEXT, c"syscall");
    if next.is_null() {
        return -1;
    }
    type Syscall = extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
    // SAFETY: the symbol of that name, called as its caller called it.
    let call: Syscall = unsafe { core::mem::transmute(next) };
    call(number, a, b, c, d, e, f)
}
