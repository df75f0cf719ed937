//! The functions of `hbwmalloc.h`, one by one. Each is described there; here only what keeps them safe.

use crate::kinds::{HBW, HBW_ALL, HBW_INTERLEAVE, HBW_PREFERRED, Handle};
use crate::{code, memkind, places};
use api::kernel::{self, PAGE};
use api::state;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

const PREFERRED: c_int = 2;
/// The policy; 0 until one was set or was needed.
static POLICY: AtomicI32 = AtomicI32::new(0);

/// The kind of a policy.
fn of(policy: c_int) -> Option<usize> {
    match policy {
        1 => Some(HBW),
        PREFERRED => Some(HBW_PREFERRED),
        3 => Some(HBW_INTERLEAVE),
        4 => Some(HBW_ALL),
        _ => None,
    }
}

/// The kind to allocate from, which from now on stays.
fn kind() -> Handle {
    let policy = POLICY.compare_exchange(0, PREFERRED, Relaxed, Relaxed).map_or_else(|set| set, |_| PREFERRED);
    Handle::of(of(policy).unwrap_or(HBW_PREFERRED))
}

/// See `hbwmalloc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hbw_check_available() -> c_int {
    if places::all().of(HBW).available == code::SUCCESS { 0 } else { libc::ENODEV }
}

/// See `hbwmalloc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hbw_get_policy() -> c_int {
    match POLICY.load(Relaxed) {
        0 => PREFERRED,
        policy => policy,
    }
}

/// See `hbwmalloc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hbw_set_policy(mode: c_int) -> c_int {
    match of(mode).map(|_| POLICY.compare_exchange(0, mode, Relaxed, Relaxed)) {
        None => libc::EINVAL,
        Some(Err(_)) => libc::EPERM,
        Some(Ok(_)) => 0,
    }
}

/// See `hbwmalloc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hbw_malloc(size: usize) -> *mut c_void {
    memkind::memkind_malloc(kind(), size)
}

/// See `hbwmalloc.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hbw_calloc(num: usize, size: usize) -> *mut c_void {
    memkind::memkind_calloc(kind(), num, size)
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// `ptr` must be NULL or allocated by this library or by malloc, and in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_realloc(ptr: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { memkind::memkind_realloc(kind(), ptr, size) }
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// As [`hbw_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_free(ptr: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { memkind::memkind_free(Handle::NULL, ptr) };
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// As [`hbw_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_malloc_usable_size(ptr: *mut c_void) -> usize {
    // SAFETY: the caller's.
    unsafe { memkind::memkind_malloc_usable_size(Handle::NULL, ptr) }
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// `memptr` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_posix_memalign(memptr: *mut *mut c_void, alignment: usize, size: usize) -> c_int {
    // SAFETY: the caller's.
    unsafe { memkind::memkind_posix_memalign(kind(), memptr, alignment, size) }
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// `memptr` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_posix_memalign_psize(
    memptr: *mut *mut c_void,
    alignment: usize,
    size: usize,
    pagesize: c_int,
) -> c_int {
    const OF_4_KIB: c_int = 1;
    // SAFETY: the caller's.
    unsafe {
        if pagesize == OF_4_KIB {
            return hbw_posix_memalign(memptr, alignment, size);
        }
        if !memptr.is_null() {
            *memptr = null_mut();
        }
    }
    libc::EINVAL
}

/// See `hbwmalloc.h`.
///
/// # Safety
/// With `HBW_TOUCH_PAGES` the memory must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hbw_verify_memory_region(addr: *mut c_void, size: usize, flags: c_int) -> c_int {
    const TOUCH: c_int = 1;
    if addr.is_null() || size == 0 || flags & !TOUCH != 0 {
        return libc::EINVAL;
    }
    let start = addr as usize & !(PAGE - 1);
    let end = (addr as usize).checked_add(size).and_then(|end| end.checked_next_multiple_of(PAGE));
    let Some(bytes) = end.map(|end| end - start) else { return libc::EFAULT };
    // SAFETY: the caller's.
    if flags == TOUCH && !unsafe { kernel::touch(start, bytes) } {
        return libc::EFAULT;
    }
    let Some(tier) = places::all().high_bandwidth else { return -1 };
    let found = state::with(|s| Ok(s.machine())).ok().and_then(|m| kernel::residency(&m, start, bytes));
    let Some(found) = found else { return libc::EFAULT };
    if found.in_tier.get(tier) == Some(&(bytes as u64)) { 0 } else { -1 }
}
