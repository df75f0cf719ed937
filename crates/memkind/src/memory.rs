//! Memory of a kind: objects of the crate `api`, which remember their kind among their traits, or what malloc gives.
//!
//! Every pointer is either in one of the ranges of addresses that Hearth has reserved, or malloc's: no kind need be believed.

use crate::kinds::{self, DEFAULT};
use crate::places::{self, Source};
use api::error::Error;
use api::wish::{MOST_ALIGNED, Trait, Wish};
use api::{c, state};
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Keys of traits: what no trait of hearth.h has, for the kind; its key of an alignment.
const KIND: c_int = -1;
const ALIGNMENT: c_int = 9;

/// What cannot be had.
fn nothing() -> *mut c_void {
    // SAFETY: this thread's errno.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    null_mut()
}

/// From the C library's malloc, or the one that the program has in its place.
fn malloc(size: usize, align: usize, zero: bool) -> *mut c_void {
    // SAFETY: the functions' own contracts; what is written to is here.
    unsafe {
        if align == 0 {
            return if zero { libc::calloc(1, size) } else { libc::malloc(size) };
        }
        let mut at = null_mut();
        if libc::posix_memalign(&mut at, align, size) == 0 { at } else { nothing() }
    }
}

/// So many bytes (not 0) of a kind, aligned (0: as malloc does). NULL, and errno ENOMEM, if there are none.
pub fn allocate(kind: usize, size: usize, align: usize, zero: bool) -> *mut c_void {
    if kind == DEFAULT {
        return malloc(size, align, zero);
    }
    match places::of(kind).map_or(&Source::Nothing, |place| &place.source) {
        Source::Nothing => nothing(),
        Source::Malloc => malloc(size, align, zero),
        Source::Object(_) if align > MOST_ALIGNED => nothing(),
        Source::Object(wish) => {
            let mut given = vec![Trait { key: KIND, value: kind as u64 }];
            if align > 0 {
                given.push(Trait { key: ALIGNMENT, value: align as u64 });
            }
            let wish = Wish { given: given.into(), alignment: (align > 0).then_some(align), ..wish.clone() };
            match c::allocate(size, &wish, zero) {
                Ok(at) => at as *mut c_void,
                // The kernel may forbid to bind memory; who only prefers it does not want to know.
                Err(Error::Kernel) if !wish.required => malloc(size, align, zero),
                Err(_) => nothing(),
            }
        }
    }
}

/// Another size (not 0) for what there is. It stays of its kind.
///
/// # Safety
/// It must be one of Hearth's or malloc's and in use, and not NULL.
pub unsafe fn resize(at: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe {
        if !state::has_reserved(at as usize) {
            return libc::realloc(at, size);
        }
        let new = c::hearth_realloc(at, size, null_mut());
        if new.is_null() { nothing() } else { new }
    }
}

/// Ends it. NULL is nothing; so is what has ended already, as long as nothing else is there.
///
/// # Safety
/// It must be one of Hearth's or malloc's, or NULL.
pub unsafe fn free(at: *mut c_void) {
    if state::has_reserved(at as usize) {
        c::hearth_free(at);
    } else {
        // SAFETY: the caller's.
        unsafe { libc::free(at) };
    }
}

/// Bytes that may be used of it.
///
/// # Safety
/// As [`free`].
pub unsafe fn usable(at: *mut c_void) -> usize {
    if state::has_reserved(at as usize) {
        return c::hearth_usable_size(at);
    }
    // SAFETY: the caller's.
    unsafe { libc::malloc_usable_size(at) }
}

/// The kind of what there is; what Hearth has not reserved is malloc's. `None`: NULL, or nothing is there.
pub fn kind(at: *mut c_void) -> Option<usize> {
    if at.is_null() {
        return None;
    }
    if !state::has_reserved(at as usize) {
        return Some(DEFAULT);
    }
    let (_, wish, _) = state::with(|s| s.like(at as usize)).ok()?;
    remembered(&wish).filter(|&kind| kinds::like(kind).is_some())
}

/// The kind that an object was allocated of.
pub fn remembered(wish: &Wish) -> Option<usize> {
    wish.given.iter().find(|t| t.key == KIND).and_then(|t| usize::try_from(t.value).ok())
}
