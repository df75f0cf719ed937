//! The next allocator: whoever serves the program without Hearth (`RTLD_NEXT`).
//!
//! Each function is reached through a pointer that at first leads to a resolver. dlsym may itself allocate; what is
//! asked for while it runs comes from the pool of [`crate::range`].

use crate::range;
use core::ffi::{CStr, c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

type Ptr = *mut c_void;

/// A pointer to the next function of a name.
pub struct Next(AtomicPtr<()>);

impl Next {
    #[inline(always)]
    fn get(&self) -> *mut () {
        self.0.load(Relaxed)
    }
}

static STATE: AtomicU32 = AtomicU32::new(0);

/// Finds the functions that every process has. Other threads and calls from within get `false` until it is done.
#[cold]
fn resolve() -> bool {
    match STATE.compare_exchange(0, 1, AcqRel, Acquire) {
        Ok(_) => {}
        Err(done) => return done == 2,
    }
    range::reserve();
    for (next, name) in [
        (&MALLOC, c"malloc"),
        (&CALLOC, c"calloc"),
        (&REALLOC, c"realloc"),
        (&FREE, c"free"),
        (&POSIX_MEMALIGN, c"posix_memalign"),
        (&MEMALIGN, c"memalign"),
        (&ALIGNED_ALLOC, c"aligned_alloc"),
        (&USABLE, c"malloc_usable_size"),
    ] {
        let found = symbol(name);
        if !found.is_null() {
            next.0.store(found, Relaxed);
        }
    }
    STATE.store(2, Release);
    true
}

/// The next definition of a symbol after this library; null if there is none.
pub fn symbol(name: &CStr) -> *mut () {
    // SAFETY: a NUL-terminated name.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()).cast() }
}

macro_rules! next {
    ($slot:ident, $call:ident, $first:ident, ($($arg:ident: $ty:ty),*) -> $ret:ty, $early:expr) => {
        static $slot: Next = Next(AtomicPtr::new($first as *mut ()));

        extern "C" fn $first($($arg: $ty),*) -> $ret {
            if resolve() && $slot.get() != $first as *mut () { $call($($arg),*) } else { $early }
        }

        #[doc = concat!("`", stringify!($call), "` of the next allocator.")]
        #[inline(always)]
        pub fn $call($($arg: $ty),*) -> $ret {
            // SAFETY: the slot holds either the resolver above or the symbol of that name, both of this type.
            let f: extern "C" fn($($ty),*) -> $ret = unsafe { core::mem::transmute($slot.get()) };
            f($($arg),*)
        }
    };
}

next!(MALLOC, malloc, first_malloc, (size: usize) -> Ptr, range::pool(size, 16).cast());
next!(CALLOC, calloc, first_calloc, (n: usize, size: usize) -> Ptr, match n.checked_mul(size) {
    Some(bytes) => range::pool(bytes, 16).cast(), // the pool is zeroed
    None => core::ptr::null_mut(),
});
next!(REALLOC, realloc, first_realloc, (p: Ptr, size: usize) -> Ptr, if p.is_null() {
    range::pool(size, 16).cast()
} else {
    core::ptr::null_mut()
});
next!(FREE, free, first_free, (p: Ptr) -> (), { let _ = p; });
next!(POSIX_MEMALIGN, posix_memalign, first_posix_memalign, (out: *mut Ptr, align: usize, size: usize) -> c_int, {
    let p = range::pool(size, align);
    // SAFETY: posix_memalign's contract: out is writable.
    unsafe { *out = p.cast() };
    if p.is_null() { libc::ENOMEM } else { 0 }
});
next!(MEMALIGN, memalign, first_memalign, (align: usize, size: usize) -> Ptr, range::pool(size, align).cast());
next!(ALIGNED_ALLOC, aligned_alloc, first_aligned_alloc, (align: usize, size: usize) -> Ptr, {
    range::pool(size, align).cast()
});
next!(USABLE, malloc_usable_size, first_usable, (p: Ptr) -> usize, { let _ = p; 0 });

/// The next C++ operator of a mangled name. A C++ library loaded privately (`RTLD_LOCAL`) is not in the global
/// search order, so the C++ runtimes are asked by name too. Null without any.
pub fn cxx(name: &CStr) -> *mut () {
    let found = symbol(name);
    if !found.is_null() {
        return found;
    }
    for library in [c"libstdc++.so.6", c"libc++.so.1"] {
        // SAFETY: looks up a loaded library without loading it; the handle is kept, as the library is in use.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if !handle.is_null() {
            // SAFETY: a valid handle and name.
            let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
            if !found.is_null() {
                return found.cast();
            }
        }
    }
    core::ptr::null_mut()
}
