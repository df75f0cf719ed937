//! The functions of `memkind.h`, one by one. Each is described there; here only what keeps them safe.

use crate::kinds::{self, DEFAULT, HBW, HBW_ALL, HBW_INTERLEAVE, HBW_PREFERRED, Handle, INTERLEAVE, OWN};
use crate::{code, memory, places, print};
use api::state::{self, Tally};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// memkind's version whose header this library is for: major, minor, patch.
const VERSION: c_int = 1_014_000;

fn errno(number: c_int) {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = number };
}

/// A kind that is to be given.
fn given(kind: Handle) -> Option<usize> {
    let found = kind.kind();
    if found.is_none() {
        errno(libc::EINVAL);
    }
    found
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_get_version() -> c_int {
    VERSION
}

/// See `memkind.h`.
///
/// # Safety
/// `message` must be NULL or have room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_error_message(error: c_int, message: *mut c_char, size: usize) {
    let text = code::text(error).to_bytes();
    if message.is_null() || size == 0 {
        return;
    }
    let len = text.len().min(size - 1);
    // SAFETY: the caller's: there is room for so many and the NUL.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr().cast(), message, len);
        *message.add(len) = 0;
    }
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_check_available(kind: Handle) -> c_int {
    kind.kind().and_then(places::of).map_or(code::INVALID, |place| place.available)
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_get_capacity(kind: Handle) -> isize {
    let capacity = kind.kind().and_then(places::of).and_then(|place| place.capacity);
    capacity.and_then(|bytes| isize::try_from(bytes).ok()).unwrap_or(-1)
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_malloc(kind: Handle, size: usize) -> *mut c_void {
    match given(kind) {
        Some(kind) if size > 0 => memory::allocate(kind, size, 0, false),
        _ => null_mut(),
    }
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_calloc(kind: Handle, num: usize, size: usize) -> *mut c_void {
    // More than can be counted is more than there is.
    let bytes = num.saturating_mul(size);
    match given(kind) {
        Some(kind) if bytes > 0 => memory::allocate(kind, bytes, 0, true),
        _ => null_mut(),
    }
}

/// See `memkind.h`.
///
/// # Safety
/// `memptr` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_posix_memalign(
    kind: Handle,
    memptr: *mut *mut c_void,
    alignment: usize,
    size: usize,
) -> c_int {
    if memptr.is_null() {
        return libc::EINVAL;
    }
    // SAFETY: the caller's.
    let place = unsafe { &mut *memptr };
    *place = null_mut();
    let Some(kind) = kind.kind() else { return libc::EINVAL };
    if !alignment.is_power_of_two() || alignment % size_of::<*mut c_void>() != 0 {
        return libc::EINVAL;
    }
    if size == 0 {
        return 0;
    }
    *place = memory::allocate(kind, size, alignment, false);
    if place.is_null() { libc::ENOMEM } else { 0 }
}

/// See `memkind.h`.
///
/// # Safety
/// `ptr` must be NULL or allocated by this library or by malloc, and in use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_realloc(kind: Handle, ptr: *mut c_void, size: usize) -> *mut c_void {
    if ptr.is_null() {
        return memkind_malloc(kind, size);
    }
    // SAFETY: the caller's.
    unsafe {
        if size > 0 {
            return memory::resize(ptr, size);
        }
        memory::free(ptr);
    }
    null_mut()
}

/// See `memkind.h`.
///
/// # Safety
/// As [`memkind_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_free(_: Handle, ptr: *mut c_void) {
    // SAFETY: the caller's.
    unsafe { memory::free(ptr) };
}

/// See `memkind.h`.
///
/// # Safety
/// As [`memkind_realloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_malloc_usable_size(_: Handle, ptr: *mut c_void) -> usize {
    // SAFETY: the caller's.
    unsafe { memory::usable(ptr) }
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_detect_kind(ptr: *mut c_void) -> Handle {
    memory::kind(ptr).map_or(Handle::NULL, Handle::of)
}

/// See `memkind.h`. It is never worth moving: objects of a page and more have pages of their own.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_defrag_reallocate(_: Handle, _: *mut c_void) -> *mut c_void {
    null_mut()
}

/// See `memkind.h`.
///
/// # Safety
/// `kind` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_get_kind_by_partition(partition: c_int, kind: *mut Handle) -> c_int {
    let found = usize::try_from(partition).ok().filter(|&n| kinds::like(n).is_some());
    let (false, Some(found)) = (kind.is_null(), found) else { return code::INVALID };
    // SAFETY: the caller's.
    unsafe { *kind = Handle::of(found) };
    code::SUCCESS
}

/// See `memkind.h`.
///
/// # Safety
/// `kind` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_create_kind(types: c_int, policy: c_int, flags: c_int, kind: *mut Handle) -> c_int {
    const STANDARD: c_int = 1;
    const HIGH_BANDWIDTH: c_int = 2;
    const BOTH: c_int = STANDARD | HIGH_BANDWIDTH;
    const PAGES_OF_2_MIB: c_int = 21;
    let like = match (types, policy) {
        (STANDARD, 2) => DEFAULT,
        (HIGH_BANDWIDTH, 0) => HBW,
        (HIGH_BANDWIDTH, 1) => HBW_ALL,
        (HIGH_BANDWIDTH, 2) => HBW_PREFERRED,
        (HIGH_BANDWIDTH, 4) => HBW_INTERLEAVE,
        (BOTH, 4) => INTERLEAVE,
        _ => return code::INVALID,
    };
    if kind.is_null() || ![0, PAGES_OF_2_MIB].contains(&flags) {
        return code::INVALID;
    }
    if flags == PAGES_OF_2_MIB || places::all().of(like).available != code::SUCCESS {
        return code::NO_TYPE;
    }
    match kinds::make(like) {
        // SAFETY: the caller's.
        Ok(made) => unsafe { *kind = Handle::of(made) },
        Err(code) => return code,
    }
    code::SUCCESS
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_destroy_kind(kind: Handle) -> c_int {
    if kind.kind().is_some_and(kinds::destroy) { code::SUCCESS } else { code::FAILED }
}

/// See `memkind.h`. What is counted is counted when it is asked for.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_update_cached_stats() -> c_int {
    code::SUCCESS
}

/// Bytes of a kind's objects; `None`: of all.
pub fn tally(kind: Option<usize>) -> Tally {
    let counted = |wish: &_| kind.is_none_or(|kind| memory::remembered(wish) == Some(kind));
    state::with(|s| Ok(s.tally(counted))).unwrap_or_default()
}

/// See `memkind.h`.
///
/// # Safety
/// `value` must be NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_get_stat(kind: Handle, stat: c_int, value: *mut usize) -> c_int {
    let of = kind.kind();
    if value.is_null() || !(0..=2).contains(&stat) || of.is_none() && !kind.is_null() {
        return code::INVALID;
    }
    if of == Some(DEFAULT) {
        // malloc's own; nobody here knows which malloc that is.
        return code::FAILED;
    }
    let tally = tally(of);
    // SAFETY: the caller's.
    unsafe { *value = [tally.resident, tally.active, tally.allocated][stat as usize] };
    code::SUCCESS
}

/// See `memkind.h`.
///
/// # Safety
/// `write` must be NULL or a function that takes `opaque` and a text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memkind_stats_print(
    write: Option<print::Write>,
    opaque: *mut c_void,
    options: c_int,
) -> c_int {
    const JSON: c_int = 1;
    const ALL: c_int = (1 << 9) - 1;
    if options & !ALL != 0 {
        return code::INVALID;
    }
    let rows: Vec<(String, Tally)> = (0..kinds::MOST)
        .filter(|&kind| kind != DEFAULT && kinds::like(kind).is_some())
        .map(|kind| {
            (OWN.get(kind).map_or_else(|| format!("kind {kind}"), |name| format!("MEMKIND_{name}")), tally(Some(kind)))
        })
        .filter(|(_, tally)| tally.allocated > 0)
        .collect();
    // SAFETY: the caller's.
    unsafe { print::rows(&rows, options & JSON != 0, write, opaque) };
    code::SUCCESS
}

/// See `memkind.h`. There are no threads in the background to switch: what is freed goes back to the kernel at once.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_set_bg_threads(_: bool) -> c_int {
    code::SUCCESS
}

// Kinds on files and on memory of the program's are not supported.

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_create_pmem(_: *const c_char, _: usize, _: *mut Handle) -> c_int {
    code::FAILED
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_create_pmem_with_config(_: *mut c_void, _: *mut Handle) -> c_int {
    code::FAILED
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_create_fixed(_: *mut c_void, _: usize, _: *mut Handle) -> c_int {
    code::FAILED
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_check_dax_path(_: *const c_char) -> c_int {
    code::FAILED
}

/// See `memkind.h`. NULL, as for want of memory: there is nothing to configure.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_config_new() -> *mut c_void {
    null_mut()
}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_config_delete(_: *mut c_void) {}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_config_set_path(_: *mut c_void, _: *const c_char) {}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_config_set_size(_: *mut c_void, _: usize) {}

/// See `memkind.h`.
#[unsafe(no_mangle)]
pub extern "C" fn memkind_config_set_memory_usage_policy(_: *mut c_void, _: c_int) {}
