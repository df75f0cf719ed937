//! System calls made directly, without libc.
//!
//! Their instructions lie in one stretch of text of their own: the sampler's guard ([`crate::sampler::guard`]) traps
//! every system call of the process except those made from here. Nothing here touches errno or thread-local storage,
//! so it can be used in signal handlers and in the sampler's bare thread.

use core::ffi::{CStr, c_long};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

core::arch::global_asm!(
    ".pushsection .text.hearth_sys,\"ax\",@progbits",
    ".p2align 6",
    ".globl hearth_sys_start",
    ".hidden hearth_sys_start",
    "hearth_sys_start:",
    ".globl hearth_syscall",
    ".hidden hearth_syscall",
    ".type hearth_syscall,@function",
    "hearth_syscall:",
    ".cfi_startproc",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, qword ptr [rsp + 8]",
    "syscall",
    "ret",
    ".cfi_endproc",
    ".size hearth_syscall, . - hearth_syscall",
    // Debuggers and libgcc know a signal frame by exactly these bytes at its return address.
    ".p2align 4",
    "nop",
    ".globl hearth_sigreturn",
    ".hidden hearth_sigreturn",
    ".type hearth_sigreturn,@function",
    "hearth_sigreturn:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00", // mov rax, 15 (rt_sigreturn)
    "syscall",
    ".size hearth_sigreturn, . - hearth_sigreturn",
    ".globl hearth_return",
    ".hidden hearth_return",
    ".type hearth_return,@function",
    "hearth_return:", // (stack pointer)
    "mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    ".size hearth_return, . - hearth_return",
    // A bare thread: calls the entry on the stack given to clone; it must not return into the parent's frame.
    ".p2align 4",
    ".globl hearth_clone",
    ".hidden hearth_clone",
    ".type hearth_clone,@function",
    "hearth_clone:", // (flags, stack top, entry)
    "mov r8, rdx",
    "xor edx, edx",
    "xor r10d, r10d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "call r8",
    "mov eax, 60",
    "xor edi, edi",
    "syscall",
    "2: ret",
    ".size hearth_clone, . - hearth_clone",
    ".globl hearth_sys_end",
    ".hidden hearth_sys_end",
    "hearth_sys_end:",
    ".popsection",
);

unsafe extern "C" {
    static hearth_sys_start: u8;
    static hearth_sys_end: u8;
    fn hearth_syscall(nr: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize;
    fn hearth_return(stack: usize) -> !;
    fn hearth_clone(flags: usize, stack: usize, entry: extern "C" fn()) -> isize;
    /// Returns from a signal handler (`sa_restorer`).
    pub fn hearth_sigreturn();
}

/// The text from which system calls are never trapped: start and length.
pub fn text() -> (usize, usize) {
    let start = &raw const hearth_sys_start as usize;
    (start, &raw const hearth_sys_end as usize - start)
}

/// A system call; the result as the kernel returns it (-4095..=-1: an error number, negated).
///
/// # Safety
/// As for the call itself.
#[inline]
pub unsafe fn call(nr: c_long, args: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = args;
    // SAFETY: the caller's.
    unsafe { hearth_syscall(nr, a, b, c, d, e, f) }
}

/// A system call with up to three arguments.
///
/// # Safety
/// As for the call itself.
#[inline]
pub unsafe fn call3(nr: c_long, a: usize, b: usize, c: usize) -> isize {
    // SAFETY: the caller's.
    unsafe { hearth_syscall(nr, a, b, c, 0, 0, 0) }
}

/// Returns from the signal whose frame (its ucontext) lies at `stack`.
///
/// # Safety
/// There must be such a frame; nothing of the calling function's is dropped.
pub unsafe fn return_from_signal(stack: usize) -> ! {
    // SAFETY: the caller's.
    unsafe { hearth_return(stack) }
}

/// Starts a thread that libc does not know, on the stack that ends at `stack`, running `entry` in the same address
/// space. libc must not count it: a program whose last own thread ends has to end.
///
/// # Safety
/// `stack` must be the 16-byte aligned end of a mapping that nothing else uses, and `entry` must use no thread-local
/// storage and no libc function that does.
unsafe fn bare_thread(stack: usize, entry: extern "C" fn()) -> bool {
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM;
    // SAFETY: the caller's.
    unsafe { hearth_clone(flags as usize, stack, entry) > 0 }
}

/// The same with all signals blocked in it for ever.
///
/// # Safety
/// As for [`bare_thread`].
pub unsafe fn helper(stack: usize, entry: extern "C" fn()) -> bool {
    // The thread inherits the full mask; this one gets its own back.
    let _blocked = Blocked::all();
    // SAFETY: the caller's.
    unsafe { bare_thread(stack, entry) }
}

/// All signals are blocked in the calling thread until this is dropped: a handler that ran meanwhile might want what the thread holds. Nothing but
/// calls from here may be made: a trapped one would end the program.
pub struct Blocked(u64);

impl Blocked {
    /// Blocks all of them.
    pub fn all() -> Blocked {
        let (all, mut before) = (!0u64, 0u64);
        let (set, get) = (libc::SIG_SETMASK as usize, &raw mut before as usize);
        // SAFETY: the thread's own mask; 8 is the kernel's mask size.
        unsafe { call(libc::SYS_rt_sigprocmask, [set, &raw const all as usize, get, 8, 0, 0]) };
        Blocked(before)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        let set = libc::SIG_SETMASK as usize;
        // SAFETY: as above.
        unsafe { call(libc::SYS_rt_sigprocmask, [set, &raw const self.0 as usize, 0, 8, 0, 0]) };
    }
}

/// Sleeps for `ns`, or until [`wake`] is called, if the word has this value.
pub fn wait_on(word: &core::sync::atomic::AtomicU32, value: u32, ns: u64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
    let (at, wait) = (word.as_ptr() as usize, (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize);
    // SAFETY: waits on a word of ours, with a limit.
    unsafe { call(libc::SYS_futex, [at, wait, value as usize, &raw const time as usize, 0, 0]) };
}

/// Wakes one that waits on the word.
pub fn wake(word: &core::sync::atomic::AtomicU32) {
    // SAFETY: a word of ours.
    unsafe {
        call3(libc::SYS_futex, word.as_ptr() as usize, (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize, 1)
    };
}

/// CLOCK_MONOTONIC in ns, by a real system call where the vDSO cannot be used (a handler must not be trapped).
pub fn now_in_handler() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local.
    unsafe { call3(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC as usize, &raw mut t as usize, 0) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// CLOCK_MONOTONIC in ns.
pub fn now() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The same as it was at the kernel's last tick, some milliseconds ago, for a quarter of what [`now`] costs.
pub fn now_by_tick() -> u64 {
    read_clock(libc::CLOCK_MONOTONIC_COARSE)
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local.
    unsafe { libc::clock_gettime(clock, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sets a page's protection.
///
/// # Safety
/// The range must be the runtime's own to protect.
pub unsafe fn protect(start: usize, len: usize, prot: i32) -> bool {
    // SAFETY: the caller's.
    unsafe { call3(libc::SYS_mprotect, start, len, prot as usize) == 0 }
}

/// Maps fresh zeroed memory that does not count against overcommit until touched; 0 on failure. Never huge pages: it is
/// for what is mostly empty, and a huge page of fast memory for a few entries is one that the program lacks.
pub fn map_lazily(len: usize) -> usize {
    let at = reserve(len, libc::PROT_READ | libc::PROT_WRITE);
    if at != 0 {
        // SAFETY: the fresh mapping. A kernel without huge pages refuses, which is as good.
        unsafe { call3(libc::SYS_madvise, at, len, libc::MADV_NOHUGEPAGE as usize) };
    }
    at
}

/// [`map_lazily`] for a table of the runtime's own, which a core dump of the program is spared: some have a word for each page
/// of a terabyte. It lies at home.
pub fn map_table(len: usize) -> usize {
    let at = map_lazily(len);
    if at != 0 {
        dump(at, len, false);
        at_home(at, len);
    }
    at
}

/// Where the runtime's own memory is to lie, since fast memory is the program's: number of a NUMA node plus 1; 0: anywhere.
static HOME: AtomicU64 = AtomicU64::new(0);

/// Takes what the session says about it ([`wire::session::Config::home`]).
pub fn set_home(home: u64) {
    HOME.store(home, Relaxed);
}

/// What is touched of this mapping from now on lies there. Refused, it lies where it would have.
pub fn at_home(start: usize, len: usize) {
    if let Some(node) = HOME.load(Relaxed).checked_sub(1).filter(|&n| n < 128) {
        const MPOL_PREFERRED: usize = 1;
        let mask = 1u128 << node;
        let words = [mask as u64, (mask >> 64) as u64];
        // SAFETY: changes no content; the mask is a local.
        unsafe { call(libc::SYS_mbind, [start, len, MPOL_PREFERRED, words.as_ptr() as usize, 129, 0]) };
    }
}

/// Has memory of the runtime's in core dumps of the program, or not. Refused, the dump is longer.
pub fn dump(start: usize, len: usize, wanted: bool) {
    let advice = if wanted { libc::MADV_DODUMP } else { libc::MADV_DONTDUMP };
    // SAFETY: changes no content.
    unsafe { call3(libc::SYS_madvise, start, len, advice as usize) };
}

/// Maps fresh zeroed memory that does not count against overcommit until touched, on whatever pages the kernel likes: the
/// program's objects get huge ones as they would without Hearth. 0 on failure.
pub fn reserve(len: usize, prot: i32) -> usize {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping anywhere.
    unsafe {
        let at = call(libc::SYS_mmap, [0, len, prot as usize, flags as usize, usize::MAX, 0]);
        if (-4095..0).contains(&at) {
            return 0;
        }
        at as usize
    }
}

/// Maps fresh memory without access rights at an address where nothing is. `false` if the kernel does not, or somebody else
/// has the address by now.
pub fn map_at(start: usize, len: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let args = [start, len, libc::PROT_NONE as usize, flags as usize, usize::MAX, 0];
    // SAFETY: a fresh mapping; kernels before 4.17 take the address as a wish.
    unsafe {
        let at = call(libc::SYS_mmap, args);
        if !(-4095..0).contains(&at) && at != start as isize {
            call3(libc::SYS_munmap, at as usize, len, 0);
        }
        at == start as isize
    }
}

/// Whether the process may have only so much address space, or only so much of it writable.
pub fn address_space_limited() -> bool {
    [libc::RLIMIT_AS, libc::RLIMIT_DATA].into_iter().any(|resource| {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        let args = [0, resource as usize, 0, &raw mut limit as usize, 0, 0];
        // SAFETY: fills a local.
        unsafe { call(libc::SYS_prlimit64, args) == 0 && limit.rlim_cur != libc::RLIM64_INFINITY }
    })
}

/// Whether the kernel would give the process so much memory in one piece: its overcommit rules say no to what is
/// obviously too much, and the C library's ENOMEM comes from there.
pub fn would_map(len: usize) -> bool {
    let (rw, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping that is taken away again.
    unsafe {
        let at = call(libc::SYS_mmap, [0, len, rw as usize, flags as usize, usize::MAX, 0]);
        !(-4095..0).contains(&at) && call3(libc::SYS_munmap, at as usize, len, 0) == 0
    }
}

/// Reads a small file whole into `buffer`; the bytes read, or `None` if it cannot be opened.
pub fn read_file<'a>(path: &core::ffi::CStr, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    // SAFETY: path is NUL-terminated; reads go to the buffer within its length.
    unsafe {
        let fd = call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]);
        if fd < 0 {
            return None;
        }
        let mut len = 0;
        while len < buffer.len() {
            let n = call3(libc::SYS_read, fd as usize, buffer.as_mut_ptr() as usize + len, buffer.len() - len);
            if n <= 0 {
                break;
            }
            len += n as usize;
        }
        call3(libc::SYS_close, fd as usize, 0, 0);
        buffer.get(..len)
    }
}

/// Names in a directory.
pub fn each_entry(path: &CStr, mut each: impl FnMut(&[u8])) {
    let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as usize;
    // SAFETY: a NUL-terminated path; the kernel fills at most the buffer; records are as getdents64(2) says.
    unsafe {
        let fd = call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0]);
        if fd < 0 {
            return;
        }
        let mut buffer = [0u64; 512];
        loop {
            let n = call3(libc::SYS_getdents64, fd as usize, buffer.as_mut_ptr() as usize, size_of_val(&buffer));
            if n <= 0 {
                break;
            }
            let bytes = core::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), n as usize);
            let mut at = 0;
            while let Some(record) = bytes.get(at..).filter(|r| r.len() > 19) {
                let len = usize::from(u16::from_ne_bytes([record[16], record[17]]));
                let name = record.get(19..len).unwrap_or(&[]);
                each(name.split(|&b| b == 0).next().unwrap_or(&[]));
                at += len.max(19);
            }
        }
        call3(libc::SYS_close, fd as usize, 0, 0);
    }
}
