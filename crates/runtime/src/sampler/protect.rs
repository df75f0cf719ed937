//! Memory that the program protects itself is never armed.
//!
//! Garbage collectors and virtual machines take rights away from their pages and wait for the fault. Opening such a page
//! would make it writable behind their backs.

use super::{armed, enabled, guard};
use crate::{mapping, next, objects, range, tls};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// The program is about to change the protection of this memory: it has the pages as they are for itself, from now on.
pub fn by_program(addr: usize, bytes: usize) {
    if enabled() && armed::can_arm_in(addr, bytes) {
        // In this order: whoever arms a page looks at the mark last.
        objects::protected(addr);
        mapping::hands_off(addr, bytes);
        if armed::any() {
            armed::open_range(addr, bytes);
        }
    }
}

/// The kernel may write here at any moment (a stack, on which it puts the frames of signals): the object is open, and never armed again.
/// Returns whether it could be armed until now.
pub fn stack(addr: usize) -> bool {
    let found = match range::contains(addr) {
        true => objects::hands_off(addr),
        false => mapping::hands_off(addr, 1).map(|m| (m.start, m.bytes())),
    };
    if let Some((start, len)) = found.filter(|_| armed::any()) {
        armed::open_range(start, len);
    }
    found.is_some()
}

/// As the C library's.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mprotect(addr: *mut c_void, bytes: usize, protection: c_int) -> c_int {
    static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    by_program(addr as usize, bytes);
    guard::pass_by(&tls::thread().step);
    let mut found = NEXT.load(Relaxed);
    if found.is_null() {
        found = next::symbol(c"mprotect");
        NEXT.store(found, Relaxed);
    }
    // SAFETY: libc's function of that name has this type.
    let f: unsafe extern "C" fn(*mut c_void, usize, c_int) -> c_int = unsafe { transmute(found) };
    // SAFETY: the caller's.
    let result = unsafe { f(addr, bytes, protection) };
    if result == 0 && enabled() {
        mapping::protected(addr as usize, bytes, protection);
    }
    result
}
