//! What NumPy's allocation handlers call (NEP 49): native functions, so that no Python runs within an allocation.
//!
//! Not in `hearth.h`: `bindings/python` knows them. An array outlives the block that made it, and its handler with it; what this library did not
//! allocate ends with the C library's functions.

use crate::c;
use crate::error::Error;
use crate::wish::Trait;
use core::ffi::c_void;
use core::ptr::null_mut;

/// What a handler was made with; it stays for ever.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    traits_count: usize,
    traits: *const Trait,
}

/// # Safety
/// `context` must be one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_handler_malloc(context: *const Context, size: usize) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe { c::hearth_alloc(size.max(1), null_mut(), (*context).traits_count, (*context).traits) }
}

/// # Safety
/// As [`hearth_handler_malloc`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_handler_calloc(context: *const Context, n: usize, size: usize) -> *mut c_void {
    let Some(bytes) = n.checked_mul(size) else { return null_mut() };
    // SAFETY: the caller's.
    unsafe { c::allocate_zeroed(bytes.max(1), (*context).traits_count, (*context).traits) }
}

/// # Safety
/// As [`hearth_handler_malloc`]; `object` must be null or of this or the C library's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_handler_realloc(
    context: *const Context,
    object: *mut c_void,
    size: usize,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe {
        if object.is_null() {
            return hearth_handler_malloc(context, size);
        }
        let mut error = 0;
        let at = c::hearth_realloc(object, size.max(1), &mut error);
        if error == Error::Foreign.code() { libc::realloc(object, size.max(1)) } else { at }
    }
}

/// # Safety
/// `object` must be null or of this or the C library's allocator.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_handler_free(_: *const Context, object: *mut c_void, _: usize) {
    // Not an object of this library's, or there is none at all.
    if c::hearth_free(object) != 0 {
        // SAFETY: the caller's.
        unsafe { libc::free(object) };
    }
}
