//! Functions of the C library through which a thread that rests from the guard's trap comes back to it.
//!
//! A thread whose calls cost too much goes without the trap for a while ([`super::guard`]), and while one does so no page
//! is armed. It would stay so until it next allocates, which threads that only wait and serve never do. So the calls that
//! such threads live on pass by here.

use super::guard;
use crate::{next, sys, tls};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// As the C library's. Threads that spin yield very often, and this call touches no memory: it needs no trap.
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    guard::pass_by(&tls::thread().step);
    // SAFETY: no arguments. It never fails.
    unsafe { sys::call3(libc::SYS_sched_yield, 0, 0, 0) };
    0
}

macro_rules! passing {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $symbol:literal;)*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) -> $ret {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            let mut found = NEXT.load(Relaxed);
            if found.is_null() {
                found = next::symbol($symbol);
                NEXT.store(found, Relaxed);
            }
            guard::pass_by(&tls::thread().step);
            // SAFETY: libc's function of that name has this type; it exists in every C library.
            unsafe {
                let f: unsafe extern "C-unwind" fn($($ty),*) -> $ret = transmute(found);
                f($($arg),*)
            }
        }
    )*};
}

passing! {
    read(fd: c_int, to: *mut c_void, bytes: usize) -> isize = c"read";
    write(fd: c_int, from: *const c_void, bytes: usize) -> isize = c"write";
    recv(fd: c_int, to: *mut c_void, bytes: usize, flags: c_int) -> isize = c"recv";
    send(fd: c_int, from: *const c_void, bytes: usize, flags: c_int) -> isize = c"send";
    poll(fds: *mut c_void, count: libc::nfds_t, ms: c_int) -> c_int = c"poll";
    epoll_wait(fd: c_int, events: *mut c_void, most: c_int, ms: c_int) -> c_int = c"epoll_wait";
}
