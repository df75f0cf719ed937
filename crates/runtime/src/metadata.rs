//! jemalloc's own memory never lies on huge pages, and lies where all of the runtime's own does.
//!
//! What jemalloc maps by itself is bookkeeping only (managed objects come from the extent hooks in `heap`): a block of
//! 2 MiB for each arena, of which a small program uses a few KiB. Where huge pages are given without asking, each such block
//! would take 2 MiB of fast memory from the program. jemalloc has no option for it (`thp:never` does not reach these
//! blocks), so its calls of `mmap` are routed here by the linker (`--wrap=mmap` in `build.rs`).

use core::ffi::{c_int, c_void};

/// `mmap`, as jemalloc calls it.
///
/// # Safety
/// As for `mmap`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __wrap_mmap(
    at: *mut c_void,
    len: usize,
    prot: c_int,
    flags: c_int,
    fd: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the caller's. The system call sets errno and returns MAP_FAILED as mmap does.
    unsafe {
        let mapped = libc::syscall(libc::SYS_mmap, at, len, prot, flags, fd, offset);
        if mapped != -1 && flags & libc::MAP_ANONYMOUS != 0 {
            // A kernel without huge pages refuses, which is as good; errno must not tell of it.
            let before = *libc::__errno_location();
            libc::syscall(libc::SYS_madvise, mapped, len, libc::MADV_NOHUGEPAGE);
            *libc::__errno_location() = before;
            crate::sys::at_home(mapped as usize, len);
        }
        mapped as *mut c_void
    }
}
