//! `libhearth.so`: observes and places the allocations of an unmodified program, preloaded by the launcher.
//!
//! The road of an allocation: [`interpose`] (too small? the [`next`] allocator's) → [`manage`] (its call [`stack`], by
//! [`unwind`]; its [`sites`] entry; the tier the [`plan`] gives it) → [`heap`] (a page-exclusive object in the tier's
//! part of the [`range`]) → [`objects`] (whose it is) → [`process`] (an event for the recorder). Beside the road, the
//! [`sampler`] watches which objects are touched.
//!
//! [`mapping`]: the program's own anonymous mappings, which are objects too. [`statics`]: variables that the plan names.
//! [`regions`]: parallel regions, which phases begin with; [`mover`]: what a phase moves. [`split`]: objects that lie in two tiers. [`recent`]: memory that was freed just now; [`kept`]: how much of the rest is kept for what comes. [`small`]: objects smaller than a page, in blocks of their site.
//! [`allowance`]: how much time these may take. [`seats`]: numbers of threads, so that what is kept by them needs no lock; [`sums`]: how much lies in each tier.
//! [`told`]: what the program says in code.
//! [`python`]: lines of Python in place of the interpreter's frames.
//! [`foreign`] knows the processes that are better left alone.
//! [`sandbox`] falls silent when the program allows itself but a few system calls.
//! [`limit`] gives address space back to programs that limit their own.
//! [`fork`] keeps parents and children apart where memory is a file's.
//! [`metadata`] keeps jemalloc's bookkeeping small.
//!
//! This code runs inside `malloc` of every program. Therefore: nothing here allocates (but jemalloc, for its own
//! bookkeeping), waits, prints or panics; there is no thread-local storage with destructors; whatever fails, the program
//! goes on with its own allocator.
//!
//! It is *not* a profiler's back end: no symbols, no files, no estimates. The recorder does that, outside.

#[cfg(not(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")))]
compile_error!("libhearth.so is written for x86-64 Linux with glibc");

mod allowance;
pub mod annotated;
mod colour;
pub mod foreign;
pub mod fork;
pub mod heap;
pub mod interpose;
pub mod kept;
pub mod limit;
pub mod manage;
pub mod mapping;
pub mod metadata;
pub mod mover;
pub mod next;
pub mod objects;
pub mod phases;
pub mod plan;
pub mod process;
pub mod python;
pub mod range;
pub mod recent;
pub mod regions;
pub mod sampler;
pub mod sandbox;
pub mod seats;
pub mod sites;
pub mod small;
pub mod split;
pub mod stack;
pub mod start;
pub mod statics;
pub mod sums;
pub mod sys;
pub mod tls;
pub mod told;
pub mod unwind;

/// Should the standard library ever allocate here (it does when it reports a panic), it must not enter `malloc`.
struct Own;

// SAFETY: jemalloc's own contract is the one asked for; sizes are at least 1.
unsafe impl core::alloc::GlobalAlloc for Own {
    unsafe fn alloc(&self, layout: core::alloc::Layout) -> *mut u8 {
        let flags = layout.align().trailing_zeros() as i32;
        // SAFETY: a size of at least 1.
        unsafe { tikv_jemalloc_sys::mallocx(layout.size().max(1), flags).cast() }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: core::alloc::Layout) {
        let flags = layout.align().trailing_zeros() as i32;
        // SAFETY: ptr comes from `alloc` with this layout.
        unsafe { tikv_jemalloc_sys::sdallocx(ptr.cast(), layout.size().max(1), flags) }
    }
}

#[global_allocator]
static OWN: Own = Own;
