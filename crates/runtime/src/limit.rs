//! A program that limits its own address space (RLIMIT_AS) or the writable part of it (RLIMIT_DATA) is to have as much of
//! it as without Hearth.
//!
//! So before the limit is set, what is reserved and not in use is given back. Objects that are alive stay what they are;
//! there will be no new ones on the managed heaps. Nor are pages armed any more under the second limit: an armed page is
//! not writable, and the kernel would not open it once the program had used up what that left.

use crate::{heap, interpose, next, objects, range, sampler, small, start, sys};
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};
use wire::process::MAX_TIERS;

#[cold]
fn give_back() {
    static GIVEN: AtomicBool = AtomicBool::new(false);
    if range::tier_span() == 0 || GIVEN.swap(true, AcqRel) {
        return;
    }
    interpose::manage_from(usize::MAX);
    for tier in 0..MAX_TIERS {
        let kept = heap::close(tier);
        range::give_back(tier, kept);
        objects::give_back(tier, kept);
        small::give_back(tier, kept);
    }
    if start::session_dir().is_some() {
        start::pass_over(
            "a program limited its address space (RLIMIT_AS) or its data (RLIMIT_DATA) while it ran; its allocations were \
             observed until then\n",
        );
    }
}

type Limit = libc::rlimit64;

/// # Safety
/// `limit` is null or readable.
unsafe fn about_to_set(resource: c_int, limit: *const Limit) {
    // SAFETY: the caller's.
    let wanted = unsafe { limit.as_ref() };
    if wanted.is_none_or(|l| l.rlim_cur == libc::RLIM64_INFINITY) {
        return;
    }
    if resource == libc::RLIMIT_DATA as c_int {
        sampler::give_up();
    }
    if [libc::RLIMIT_AS, libc::RLIMIT_DATA].map(|limit| limit as c_int).contains(&resource) {
        give_back();
    }
}

fn next_of(slot: &AtomicPtr<()>, name: &core::ffi::CStr) -> *mut () {
    if slot.load(Relaxed).is_null() {
        slot.store(next::symbol(name), Relaxed);
    }
    slot.load(Relaxed)
}

macro_rules! setrlimit {
    ($($name:ident $symbol:literal),*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(resource: c_int, limit: *const Limit) -> c_int {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            // SAFETY: the caller's.
            unsafe { about_to_set(resource, limit) };
            let next = next_of(&NEXT, $symbol);
            if next.is_null() {
                return -1;
            }
            // SAFETY: the symbol of that name has this type; both forms are one on 64-bit systems.
            let f: extern "C" fn(c_int, *const Limit) -> c_int = unsafe { core::mem::transmute(next) };
            f(resource, limit)
        }
    )*};
}
setrlimit!(setrlimit c"setrlimit", setrlimit64 c"setrlimit64");

macro_rules! prlimit {
    ($($name:ident $symbol:literal),*) => {$(
        /// As the C library's.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(pid: c_int, resource: c_int, limit: *const Limit, old: *mut Limit) -> c_int {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            // SAFETY: no arguments.
            let own = unsafe { sys::call3(libc::SYS_getpid, 0, 0, 0) } as c_int;
            if [0, own].contains(&pid) {
                // SAFETY: the caller's.
                unsafe { about_to_set(resource, limit) };
            }
            let next = next_of(&NEXT, $symbol);
            if next.is_null() {
                return -1;
            }
            type Next = extern "C" fn(c_int, c_int, *const Limit, *mut Limit) -> c_int;
            // SAFETY: the symbol of that name has this type; both forms are one on 64-bit systems.
            let f: Next = unsafe { core::mem::transmute(next) };
            f(pid, resource, limit, old)
        }
    )*};
}
prlimit!(prlimit c"prlimit", prlimit64 c"prlimit64");
