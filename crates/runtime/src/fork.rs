//! Forks and file tiers: a child must not share its parent's objects.
//!
//! Memory of a file tier is mapped shared (a private mapping would live in ordinary memory as soon as it is written), so
//! a forked child would write into its parent's objects. Before the child goes on, it takes a copy of them into ordinary
//! memory, while the parent waits.

use crate::{plan, sys, tls};

const PAGE: usize = 4096;

/// Registers the handlers, if the plan has file tiers.
pub fn prepare() {
    let files = plan::image().is_some_and(|image| {
        (0..image.tiers()).any(|t| image.tier(t).is_some_and(|t| matches!(t.source, wire::image::Source::Directory(_))))
    });
    if files {
        // SAFETY: handlers of the right type that stay loaded.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}

extern "C" fn before() {
    let pipe = &tls::thread().fork_pipe;
    pipe.set([-1, -1]);
    if plan::files().any(|(_, len)| len > 0) {
        let mut ends = [-1i32; 2];
        // SAFETY: fills two descriptors.
        if unsafe { sys::call3(libc::SYS_pipe2, ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0) } == 0 {
            pipe.set(ends);
        }
    }
}

extern "C" fn in_parent() {
    let [read, write] = tls::thread().fork_pipe.replace([-1, -1]);
    if read < 0 {
        return;
    }
    let mut byte = 0u8;
    // SAFETY: our own descriptors. The read ends when the child has closed its end, or is gone.
    unsafe {
        sys::call3(libc::SYS_close, write as usize, 0, 0);
        while sys::call3(libc::SYS_read, read as usize, &raw mut byte as usize, 1) == -(libc::EINTR as isize) {}
        sys::call3(libc::SYS_close, read as usize, 0, 0);
    }
}

extern "C" fn in_child() {
    let [read, write] = tls::thread().fork_pipe.replace([-1, -1]);
    if read < 0 {
        return;
    }
    plan::files().for_each(|(start, len)| copy(start, len));
    plan::forget_files();
    // SAFETY: our own descriptors.
    unsafe {
        sys::call3(libc::SYS_close, read as usize, 0, 0);
        sys::call3(libc::SYS_close, write as usize, 0, 0);
    }
}

/// Replaces shared memory by a private copy of it at the same place.
fn copy(start: usize, len: usize) {
    let rw = libc::PROT_READ | libc::PROT_WRITE;
    // Between extents that begin at a huge page lie holes, which nobody may read.
    // SAFETY: the range is the runtime's own, and what lies there is about to be replaced.
    if !unsafe { sys::protect(start, len, rw) } {
        return;
    }
    let copy = sys::map_lazily(len);
    if copy == 0 {
        return;
    }
    for page in (0..len).step_by(PAGE) {
        // SAFETY: both mappings have `len` bytes; other threads do not exist in the child.
        unsafe {
            let (from, to) = ((start + page) as *const [u64; PAGE / 8], (copy + page) as *mut [u64; PAGE / 8]);
            // Pages without anything in them need no memory in the copy.
            if (*from).iter().any(|&word| word != 0) {
                *to = *from;
            }
        }
    }
    let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
    // SAFETY: moves the copy over the shared mapping.
    unsafe { sys::call(libc::SYS_mremap, [copy, len, len, flags, start, 0]) };
}
