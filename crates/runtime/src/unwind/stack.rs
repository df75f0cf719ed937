//! How far a thread's stack reaches, found without allocating: the end that a walk must never read past.
//!
//! The kernel is asked which mapping holds the stack pointer: by the `PROCMAP_QUERY` ioctl (Linux 6.11 and later), else
//! by reading `/proc/self/maps` through a buffer on the stack. The answer is kept per thread for the last few stacks
//! it ran on, as programs with coroutines or alternate signal stacks go back and forth.

use core::ffi::{CStr, c_void};

/// Stacks a thread is remembered to have.
const RANGES: usize = 8;
/// The kernel keeps at least 128 MiB between the main stack's top and other mappings (`MIN_GAP` in
/// `arch/x86/mm/mmap.c`); within half of it, everything above a stack pointer in `[stack]` is stack or will be.
const MAIN_STACK_ROOM: usize = 64 << 20;

#[derive(Clone, Copy)]
pub(super) struct Range {
    pub low: usize,
    pub high: usize,
    /// The thread was born on this stack: everything up to `high` stays mapped as long as the thread lives. Of a
    /// coroutine's stack only the frames in use are sure to.
    pub own: bool,
}

const NOWHERE: Range = Range { low: 1, high: 0, own: false };

impl Range {
    #[inline(always)]
    fn contains(&self, sp: usize) -> bool {
        self.low <= sp && sp < self.high
    }
}

/// What the unwinder keeps for a thread: the bounds of its stacks. Lives in the caller's thread-local storage; needs no destructor.
pub struct ThreadStack {
    /// The stack of the last walk comes first.
    ranges: [Range; RANGES],
    /// Parents met that the rule cache did not expect.
    pub(super) surprises: u32,
}

impl ThreadStack {
    /// Knows nothing yet.
    pub const fn new() -> ThreadStack {
        ThreadStack { ranges: [NOWHERE; RANGES], surprises: 0 }
    }

    /// The stack that `sp` points into.
    #[inline(always)]
    pub(super) fn bounds(&mut self, sp: usize) -> Option<Range> {
        match self.ranges {
            [first, ..] if first.contains(sp) => Some(first),
            _ => self.switch(sp),
        }
    }

    #[cold]
    #[inline(never)]
    fn switch(&mut self, sp: usize) -> Option<Range> {
        let found = self.ranges.iter().position(|r| r.contains(sp));
        let range = match found.and_then(|i| self.ranges.get(i)) {
            Some(known) => *known,
            None => look_up(sp)?,
        };
        // Move to front: what overlaps the new range is older news of the same memory, and goes.
        let mut next = range;
        for slot in &mut self.ranges {
            let old = core::mem::replace(slot, next);
            if old.low < range.high && range.low < old.high || old.high == 0 {
                break;
            }
            next = old;
        }
        Some(range)
    }
}

impl Default for ThreadStack {
    fn default() -> Self {
        ThreadStack::new()
    }
}

/// One line of `/proc/self/maps`, as far as it matters here.
struct Mapping {
    low: usize,
    high: usize,
    main_stack: bool,
}

fn look_up(sp: usize) -> Option<Range> {
    let saved_errno = errno();
    let mapping = mapping_of(sp);
    set_errno(saved_errno);
    let Mapping { low, high, main_stack } = mapping?;
    if main_stack {
        return Some(Range { low: low.min(high.saturating_sub(MAIN_STACK_ROOM)), high, own: true });
    }
    // The C library puts a thread's control block on top of its stack.
    let control_block: usize;
    // SAFETY: reads the word that the x86-64 TLS ABI keeps at %fs:0, a pointer to itself.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) control_block, options(nostack, readonly, preserves_flags)) };
    if sp < control_block && control_block < high {
        return Some(Range { low, high: control_block & !7, own: true });
    }
    Some(Range { low, high, own: false })
}

fn mapping_of(address: usize) -> Option<Mapping> {
    const MAPS: &CStr = c"/proc/self/maps";
    // SAFETY: a constant C string; a raw system call, so that no interposed `open` runs.
    let fd =
        unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    let found = query(fd, address).or_else(|| scan(fd, address));
    // SAFETY: our own descriptor.
    unsafe { libc::syscall(libc::SYS_close, fd) };
    found
}

/// `struct procmap_query` of `linux/fs.h`.
#[repr(C)]
#[derive(Default)]
struct ProcmapQuery {
    size: u64,
    query_flags: u64,
    query_addr: u64,
    vma_start: u64,
    vma_end: u64,
    vma_flags: u64,
    vma_page_size: u64,
    vma_offset: u64,
    inode: u64,
    dev_major: u32,
    dev_minor: u32,
    vma_name_size: u32,
    build_id_size: u32,
    vma_name_addr: u64,
    build_id_addr: u64,
}

fn query(fd: i64, address: usize) -> Option<Mapping> {
    /// `_IOWR('f', 17, struct procmap_query)`.
    const PROCMAP_QUERY: u64 = 3 << 30 | (size_of::<ProcmapQuery>() as u64) << 16 | (b'f' as u64) << 8 | 17;
    let mut name = [0u8; 256];
    let mut q = ProcmapQuery {
        size: size_of::<ProcmapQuery>() as u64,
        query_addr: address as u64,
        vma_name_size: name.len() as u32,
        vma_name_addr: name.as_mut_ptr() as u64,
        ..ProcmapQuery::default()
    };
    // SAFETY: the structure and the name buffer outlive the call; kernels without the request refuse it.
    let ok = unsafe { libc::syscall(libc::SYS_ioctl, fd, PROCMAP_QUERY, &raw mut q) } == 0;
    (ok && q.vma_start <= address as u64 && (address as u64) < q.vma_end).then(|| Mapping {
        low: q.vma_start as usize,
        high: q.vma_end as usize,
        main_stack: name.starts_with(b"[stack]\0"),
    })
}

fn scan(fd: i64, address: usize) -> Option<Mapping> {
    let mut parser = LineParser::new(address);
    let mut buffer = [0u8; 2048];
    loop {
        // SAFETY: reads into our buffer.
        let n = unsafe { libc::syscall(libc::SYS_read, fd, buffer.as_mut_ptr().cast::<c_void>(), buffer.len()) };
        let bytes = usize::try_from(n).ok().filter(|&n| n > 0).and_then(|n| buffer.get(..n))?;
        for &byte in bytes {
            if let Some(mapping) = parser.push(byte) {
                return Some(mapping);
            }
        }
    }
}

/// Takes the bytes of `/proc/self/maps` one by one and stops at the line that covers the address.
struct LineParser {
    address: usize,
    low: usize,
    high: usize,
    /// 0 in the first number, 1 in the second, 2 behind it.
    field: u8,
    /// Length of the match with `[stack]` so far, starting anew at each byte that does not fit.
    matched: usize,
}

impl LineParser {
    fn new(address: usize) -> LineParser {
        LineParser { address, low: 0, high: 0, field: 0, matched: 0 }
    }

    fn push(&mut self, byte: u8) -> Option<Mapping> {
        const NAME: &[u8] = b" [stack]\n";
        self.matched = match NAME.get(self.matched) {
            Some(&want) if want == byte => self.matched + 1,
            _ => usize::from(byte == b' '),
        };
        let digit = (byte as char).to_digit(16);
        match (self.field, byte, digit) {
            (_, b'\n', _) => {
                let hit = self.low <= self.address && self.address < self.high;
                let mapping = Mapping { low: self.low, high: self.high, main_stack: self.matched == NAME.len() };
                *self = LineParser::new(self.address);
                return hit.then_some(mapping);
            }
            (0, b'-', _) => self.field = 1,
            (0, _, Some(d)) => self.low = self.low << 4 | d as usize,
            (1, b' ', _) => self.field = 2,
            (1, _, Some(d)) => self.high = self.high << 4 | d as usize,
            _ => {}
        }
        None
    }
}

fn errno() -> i32 {
    // SAFETY: the C library's per-thread errno.
    unsafe { *libc::__errno_location() }
}

fn set_errno(value: i32) {
    // SAFETY: the C library's per-thread errno.
    unsafe { *libc::__errno_location() = value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_asking_agree() {
        let here = 0u8;
        let sp = &raw const here as usize;
        let fd = {
            use std::os::fd::IntoRawFd;
            i64::from(std::fs::File::open("/proc/self/maps").unwrap().into_raw_fd())
        };
        let text = scan(fd, sp).unwrap();
        assert!(text.low <= sp && sp < text.high && !text.main_stack);
        if let Some(asked) = query(fd, sp) {
            assert_eq!((asked.low, asked.high, asked.main_stack), (text.low, text.high, text.main_stack));
        }
    }

    #[test]
    fn parses_the_main_stack_and_nothing_that_only_looks_like_it() {
        let maps = b"7ff0-8000 rw-p 00000000 00:00 0 [stack]x\n8000-9000 r-xp 0 00:00 0          [stack]\n";
        let find = |address| {
            let mut p = LineParser::new(address);
            maps.iter().find_map(|&b| p.push(b)).map(|m| (m.low, m.high, m.main_stack))
        };
        assert_eq!(find(0x7ff8), Some((0x7ff0, 0x8000, false)));
        assert_eq!(find(0x8000), Some((0x8000, 0x9000, true)));
        assert_eq!(find(0x9000), None);
    }

    #[test]
    fn a_threads_stack_ends_at_its_control_block() {
        std::thread::spawn(|| {
            let here = 0u8;
            let mut stack = ThreadStack::new();
            let r = stack.bounds(&raw const here as usize).unwrap();
            assert!(r.own && r.high - (&raw const here as usize) < 4 << 20);
        })
        .join()
        .unwrap();
    }

    /// Run with `--ignored --nocapture`: what a thread's first walk, or a switch to an unknown stack, costs.
    #[test]
    #[ignore = "prints a measurement"]
    fn cost_of_finding_a_stack() {
        let here = 0u8;
        let sp = &raw const here as usize;
        let best = |f: &dyn Fn()| {
            (0..1000)
                .map(|_| {
                    let t = std::time::Instant::now();
                    f();
                    t.elapsed()
                })
                .min()
                .unwrap()
        };
        use std::os::fd::AsRawFd;
        let all = best(&|| assert!(look_up(sp).is_some()));
        let text = best(&|| {
            let file = std::fs::File::open("/proc/self/maps").unwrap();
            assert!(scan(i64::from(file.as_raw_fd()), sp).is_some());
        });
        println!("{all:?}; {text:?} on kernels without PROCMAP_QUERY");
    }

    #[test]
    fn remembers_several_stacks_and_forgets_overlaps() {
        let mut s = ThreadStack::new();
        let here = 0u8;
        let sp = &raw const here as usize;
        let mine = s.bounds(sp).unwrap();
        let other = vec![0u8; 1 << 20];
        let heap = s.bounds(other.as_ptr() as usize).unwrap();
        assert!(!heap.own);
        assert_eq!(s.bounds(sp).unwrap().high, mine.high);
        assert_eq!(s.ranges.iter().filter(|r| r.high != 0).count(), 2);
        assert!(s.bounds(16).is_none());
    }
}
