//! The functions the program calls: the malloc family and every form of C++ new and delete.
//!
//! The way of an allocation that Hearth leaves alone is two comparisons and a jump.

use crate::{manage, next, range, small};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

type Ptr = *mut c_void;

/// Smallest allocation to manage; nothing is managed until the session says so.
static THRESHOLD: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Starts (or, with `usize::MAX`, stops) managing new objects.
pub fn manage_from(threshold: usize) {
    THRESHOLD.store(threshold, Relaxed);
}

#[inline(always)]
fn managed(p: Ptr) -> bool {
    range::contains(p as usize)
}

#[inline(always)]
fn too_small(size: usize) -> bool {
    size < THRESHOLD.load(Relaxed)
}

fn set_errno(error: c_int) {
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = error };
}

/// Hearth's object or, failing that, the next allocator's.
macro_rules! ours_or {
    ($ours:expr, $next:expr) => {{
        let ours = $ours;
        if ours.is_null() { $next } else { ours.cast() }
    }};
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(size: usize) -> Ptr {
    if too_small(size) {
        return next::malloc(size);
    }
    large_malloc(size)
}

#[inline(never)]
fn large_malloc(size: usize) -> Ptr {
    if manage::passes(size) {
        return next::malloc(size);
    }
    ours_or!(manage::allocate(size, 1, false), next::malloc(size))
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(n: usize, size: usize) -> Ptr {
    match n.checked_mul(size) {
        Some(bytes) if !too_small(bytes) => ours_or!(manage::allocate(bytes, 1, true), next::calloc(n, size)),
        _ => next::calloc(n, size),
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn free(p: Ptr) {
    if managed(p) {
        return manage::free(p as usize);
    }
    next::free(p)
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn realloc(p: Ptr, size: usize) -> Ptr {
    if !managed(p) && (too_small(size) || p.is_null()) {
        return if p.is_null() { malloc(size) } else { next::realloc(p, size) };
    }
    large_realloc(p, size)
}

#[inline(never)]
fn large_realloc(p: Ptr, size: usize) -> Ptr {
    let addr = p as usize;
    if !managed(p) {
        // It has grown over the threshold: from now on it is an object.
        let new: Ptr = manage::grown(size).cast();
        if new.is_null() {
            return next::realloc(p, size);
        }
        // SAFETY: two live objects, at least so long.
        unsafe { core::ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast(), next::malloc_usable_size(p).min(size)) };
        next::free(p);
        return new;
    }
    if size == 0 {
        free(p);
        return core::ptr::null_mut();
    }
    if let Some(block) = small::block_of(addr) {
        let room = block.usable();
        if size <= room && size >= room / 2 {
            return p;
        }
        let new = malloc(size);
        if !new.is_null() {
            // SAFETY: two live objects, at least so long.
            unsafe { core::ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast(), room.min(size)) };
            free(p);
        }
        return new;
    }
    if !range::in_pool(addr) && !too_small(size) && !small::takes(size) {
        let new = manage::reallocate(addr, size);
        if !new.is_null() {
            return new.cast();
        }
    }
    // It has shrunk below the threshold, or no tier has room for it: the next allocator's from now on.
    let new = next::malloc(size);
    if !new.is_null() {
        // SAFETY: two live objects, at least so long.
        unsafe { core::ptr::copy_nonoverlapping(p.cast::<u8>(), new.cast(), manage::usable(addr).min(size)) };
        free(p);
    }
    new
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn reallocarray(p: Ptr, n: usize, size: usize) -> Ptr {
    match n.checked_mul(size) {
        Some(bytes) => realloc(p, bytes),
        None => {
            set_errno(libc::ENOMEM);
            core::ptr::null_mut()
        }
    }
}

/// As the C library's.
///
/// # Safety
/// `out` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(out: *mut Ptr, align: usize, size: usize) -> c_int {
    if too_small(size) || !align.is_power_of_two() || align % size_of::<Ptr>() != 0 {
        return next::posix_memalign(out, align, size);
    }
    let p = manage::allocate(size, align, false);
    if p.is_null() {
        return next::posix_memalign(out, align, size);
    }
    // SAFETY: the caller's.
    unsafe { *out = p.cast() };
    0
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> Ptr {
    if too_small(size) || !align.is_power_of_two() {
        return next::memalign(align, size);
    }
    ours_or!(manage::allocate(size, align, false), next::memalign(align, size))
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> Ptr {
    if too_small(size) || !align.is_power_of_two() {
        return next::aligned_alloc(align, size); // C libraries do not agree on what a bad alignment is
    }
    ours_or!(manage::allocate(size, align, false), next::aligned_alloc(align, size))
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> Ptr {
    memalign(4096, size)
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> Ptr {
    match size.max(1).checked_next_multiple_of(4096) {
        Some(size) => memalign(4096, size),
        None => {
            set_errno(libc::ENOMEM);
            core::ptr::null_mut()
        }
    }
}

/// As the C library's.
#[unsafe(no_mangle)]
pub extern "C" fn malloc_usable_size(p: Ptr) -> usize {
    if managed(p) { manage::usable(p as usize) } else { next::malloc_usable_size(p) }
}

/// A C++ operator of the next library, looked up when first needed: the C++ runtime may be loaded late.
#[cold]
fn cxx(slot: &AtomicPtr<()>, name: &core::ffi::CStr) -> *mut () {
    let found = next::cxx(name);
    slot.store(found, Relaxed);
    found
}

macro_rules! concat_c {
    ($name:ident) => {
        // SAFETY: the literal ends with the only NUL.
        unsafe { core::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) }
    };
}

/// C++ new. Where Hearth has no object for it, the next `operator new` decides: it knows new handlers and exceptions
/// (hence "C-unwind"). Without any C++ runtime there is nobody to throw to; running out of memory then ends the
/// program, as an exception that nobody catches would.
macro_rules! new {
    ($($name:ident ($($arg:ident: $ty:ty),*) align $align:expr;)*) => {$(
        /// A form of C++ `operator new`.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C-unwind" fn $name(size: usize, $($arg: $ty),*) -> Ptr {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            if !too_small(size) {
                let p = manage::allocate(size, $align, false);
                if !p.is_null() {
                    return p.cast();
                }
            }
            let mut next = NEXT.load(Relaxed);
            if next.is_null() {
                next = cxx(&NEXT, concat_c!($name));
            }
            if next.is_null() {
                let p = next::memalign(($align).max(16), size);
                if p.is_null() {
                    // SAFETY: ends the program.
                    unsafe { libc::abort() };
                }
                return p;
            }
            // SAFETY: the operator of the same mangled name has this type.
            let f: extern "C-unwind" fn(usize, $($ty),*) -> Ptr = unsafe { core::mem::transmute(next) };
            f(size, $($arg),*)
        }
    )*};
}

/// C++ delete.
macro_rules! delete {
    ($($name:ident ($($arg:ident: $ty:ty),*);)*) => {$(
        /// A form of C++ `operator delete`.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub extern "C" fn $name(p: Ptr, $($arg: $ty),*) {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            if managed(p) {
                return manage::free(p as usize);
            }
            let mut next = NEXT.load(Relaxed);
            if next.is_null() {
                next = cxx(&NEXT, concat_c!($name));
            }
            if next.is_null() {
                return next::free(p);
            }
            // SAFETY: the operator of the same mangled name has this type.
            let f: extern "C" fn(Ptr, $($ty),*) = unsafe { core::mem::transmute(next) };
            f(p, $($arg),*)
        }
    )*};
}

new! {
    _Znwm() align 1;
    _Znam() align 1;
    _ZnwmRKSt9nothrow_t(tag: Ptr) align 1;
    _ZnamRKSt9nothrow_t(tag: Ptr) align 1;
    _ZnwmSt11align_val_t(align: usize) align align;
    _ZnamSt11align_val_t(align: usize) align align;
    _ZnwmSt11align_val_tRKSt9nothrow_t(align: usize, tag: Ptr) align align;
    _ZnamSt11align_val_tRKSt9nothrow_t(align: usize, tag: Ptr) align align;
}

delete! {
    _ZdlPv();
    _ZdaPv();
    _ZdlPvm(size: usize);
    _ZdaPvm(size: usize);
    _ZdlPvRKSt9nothrow_t(tag: Ptr);
    _ZdaPvRKSt9nothrow_t(tag: Ptr);
    _ZdlPvSt11align_val_t(align: usize);
    _ZdaPvSt11align_val_t(align: usize);
    _ZdlPvmSt11align_val_t(size: usize, align: usize);
    _ZdaPvmSt11align_val_t(size: usize, align: usize);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(align: usize, tag: Ptr);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(align: usize, tag: Ptr);
}

/// As the loader's. What is loaded next may lie where this library lay: what is known of its code must be forgotten.
///
/// # Safety
/// As for the loader's `dlclose`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dlclose(handle: Ptr) -> c_int {
    static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
    let mut next = NEXT.load(Relaxed);
    if next.is_null() {
        next = next::symbol(c"dlclose");
        NEXT.store(next, Relaxed);
    }
    if next.is_null() {
        return -1;
    }
    // SAFETY: the symbol of that name has this type.
    let f: extern "C" fn(Ptr) -> c_int = unsafe { core::mem::transmute(next) };
    let result = f(handle);
    crate::stack::forget_modules();
    crate::regions::forget();
    result
}
