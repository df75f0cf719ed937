//! Memory that another process reads or writes directly (`process_vm_readv`, as MPI libraries do within a machine).
//!
//! The kernel refuses such a call when it meets an armed page of the other process. If that one belongs to the session, the
//! caller's runtime writes the range into the other's process file, where its sampler finds it, opens the pages, and
//! never arms one of them again; meanwhile the call is tried again.

use super::enabled;
use crate::{next, process, start, sys};
use core::ffi::{c_int, c_ulong};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use wire::process::{HEADER_BYTES, Header, MAGIC, PEER_RANGES, header};

/// Times a refused call is tried again, a millisecond apart: the other's sampler looks every 10 ms, if it gets a processor.
const TRIES: usize = 300;
/// Buffers of a call that are looked at.
const MOST: usize = 64;

/// Whether a peer has named this page.
pub fn named(page: usize) -> bool {
    let Some(h) = process::info() else { return false };
    h.peers.iter().any(|r| {
        let (start, end) = (r[0].load(Relaxed) as usize, r[1].load(Relaxed) as usize);
        page + 4096 > start && page < end
    })
}

/// Calls `each` with the ranges (start, length) that peers have named since the last time.
pub fn each_new(seen: &mut u64, mut each: impl FnMut(usize, usize)) {
    let Some(h) = process::info() else { return };
    let now = h.peers_named.load(Acquire);
    if now != *seen {
        *seen = now;
        for r in &h.peers {
            let (start, end) = (r[0].load(Relaxed) as usize, r[1].load(Relaxed) as usize);
            each(start, end.saturating_sub(start));
        }
    }
}

/// Writes a range into the other's file. Ranges that touch one there are joined with it; without room, with the last.
fn name(h: &Header, start: u64, end: u64) {
    let touches = |r: &[core::sync::atomic::AtomicU64; 2]| {
        let (a, b) = (r[0].load(Relaxed), r[1].load(Relaxed));
        b == 0 || (a <= end && start <= b)
    };
    let index = h.peers.iter().position(touches).unwrap_or(PEER_RANGES - 1);
    if let Some(r) = h.peers.get(index) {
        let before = (r[0].load(Relaxed), r[1].load(Relaxed));
        // The end first: a range never names less than it did.
        r[1].store(before.1.max(end), Relaxed);
        r[0].store(if before.1 == 0 { start } else { before.0.min(start) }, Relaxed);
    }
    h.peers_named.fetch_add(1, Release);
}

/// Tells another process of the session what is wanted of it. `false`: there is none, or the memory cannot be armed.
fn tell(pid: c_int, remote: &[libc::iovec]) -> bool {
    let Some(dir) = start::session_dir() else { return false };
    let mut digits = [0u8; 20];
    let wanted = process::number(pid as u64, 10, &mut digits);
    let mut told = false;
    sys::each_entry(dir, |file| {
        if told || file.strip_prefix(wanted).and_then(|rest| rest.first()) != Some(&b'.') {
            return;
        }
        let mut path = [0u8; 512];
        let (at, end) = (dir.to_bytes().len(), dir.to_bytes().len() + 1 + file.len());
        if end >= path.len() {
            return;
        }
        path[..at].copy_from_slice(dir.to_bytes());
        path[at] = b'/';
        path[at + 1..end].copy_from_slice(file);
        // SAFETY: a NUL-terminated path; the first bytes of a file that is at least so long, shared and unmapped again.
        unsafe {
            let flags = (libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW) as usize;
            let fd = sys::call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]);
            if fd < 0 {
                return;
            }
            let rw = (libc::PROT_READ | libc::PROT_WRITE) as usize;
            let map = sys::call(libc::SYS_mmap, [0, HEADER_BYTES, rw, libc::MAP_SHARED as usize, fd as usize, 0]);
            sys::call3(libc::SYS_close, fd as usize, 0, 0);
            if (-4095..0).contains(&map) {
                return;
            }
            let h = header(map as *mut u8);
            if h.magic.load(Acquire) == MAGIC && h.sampling.load(Relaxed) == 1 {
                for v in remote {
                    let (from, to) = (v.iov_base as u64, (v.iov_base as u64).saturating_add(v.iov_len as u64));
                    name(h, from, to);
                    told = true;
                }
            }
            sys::call3(libc::SYS_munmap, map as usize, HEADER_BYTES, 0);
        }
    });
    told
}

type Call = unsafe extern "C" fn(c_int, *const libc::iovec, c_ulong, *const libc::iovec, c_ulong, c_ulong) -> isize;

/// Makes the call `f`, again if the other process's armed pages were in its way.
unsafe fn again(
    f: impl Fn() -> isize,
    pid: c_int,
    local: (*const libc::iovec, c_ulong),
    remote: (*const libc::iovec, c_ulong),
) -> isize {
    let result = f();
    let few = (1..=MOST as c_ulong).contains(&local.1) && (1..=MOST as c_ulong).contains(&remote.1);
    // SAFETY: the caller's lists, which the kernel has just read.
    unsafe {
        let refused = result >= 0 || *libc::__errno_location() == libc::EFAULT;
        if !enabled() || !few || !refused || pid == sys::call3(libc::SYS_getpid, 0, 0, 0) as c_int {
            return result;
        }
        let list = |(at, count): (*const libc::iovec, c_ulong)| core::slice::from_raw_parts(at, count as usize);
        let bytes = |list: &[libc::iovec]| list.iter().map(|v| v.iov_len).sum::<usize>();
        let whole = bytes(list(local)).min(bytes(list(remote))) as isize;
        if result >= whole || !tell(pid, list(remote)) {
            return result;
        }
        let mut result = result;
        for _ in 0..TRIES {
            let ms = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            sys::call3(libc::SYS_nanosleep, &raw const ms as usize, 0, 0);
            result = f();
            if result >= whole {
                break;
            }
        }
        result
    }
}

macro_rules! peer {
    ($name:ident = $symbol:literal) => {
        /// As the C library's.
        ///
        /// # Safety
        /// As for the C library's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            pid: c_int,
            local: *const libc::iovec,
            locals: c_ulong,
            remote: *const libc::iovec,
            remotes: c_ulong,
            flags: c_ulong,
        ) -> isize {
            static NEXT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
            let mut found = NEXT.load(Relaxed);
            if found.is_null() {
                found = next::symbol($symbol);
                NEXT.store(found, Relaxed);
            }
            // SAFETY: libc's function of that name has this type; the caller's arguments.
            unsafe {
                let f: Call = transmute(found);
                again(|| f(pid, local, locals, remote, remotes, flags), pid, (local, locals), (remote, remotes))
            }
        }
    };
}

peer!(process_vm_readv = c"process_vm_readv");
peer!(process_vm_writev = c"process_vm_writev");
