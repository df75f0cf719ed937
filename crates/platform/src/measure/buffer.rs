//! Memory to measure on: anonymous pages on one node, huge where the kernel can, and proven to lie there.

use crate::error::Error;
use crate::measure::kernels::BLOCK;
use std::io;

/// Pages whose place is read back from the kernel.
const PROBED_PAGES: usize = 512;
const LINE: usize = 64;
const MPOL_BIND: libc::c_int = 2;

/// A mapped buffer; unmapped when dropped.
pub struct Buffer {
    start: *mut u8,
    length: usize,
}

// SAFETY: the buffer is plain memory; threads work on it through raw pointers only.
unsafe impl Sync for Buffer {}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and unmapped only here.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

impl Buffer {
    /// Maps and touches `length` bytes (rounded down to blocks), bound to `node` if there is more than one.
    pub fn new(length: u64, node: Option<u32>) -> Result<Buffer, Error> {
        let length = (length as usize / BLOCK).max(1) * BLOCK;
        let failed = |what: &str| {
            Error::new(format!("cannot measure: {what} of {} MiB failed: {}", length >> 20, io::Error::last_os_error()))
        };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(failed("mapping"));
        }
        let buffer = Buffer { start: start.cast(), length };
        // A kernel without huge pages refuses; that is found out by `huge_bytes`.
        // SAFETY: advises our own mapping.
        unsafe { libc::madvise(start, length, libc::MADV_HUGEPAGE) };
        if let Some(node) = node {
            let mut mask = [0u64; 16];
            mask[node as usize / 64 % 16] |= 1 << (node % 64);
            let bits = mask.len() * 64 + 1;
            // SAFETY: binds our own mapping; the mask outlives the call.
            let r = unsafe { libc::syscall(libc::SYS_mbind, start, length, MPOL_BIND, mask.as_ptr(), bits, 0) };
            if r < 0 {
                return Err(failed(&format!("binding a buffer to node {node} (containers need CAP_SYS_NICE for it)")));
            }
        }
        for at in (0..length).step_by(4096) {
            // SAFETY: inside the mapping.
            unsafe { buffer.start.add(at).write_volatile(1) };
        }
        if let Some(node) = node {
            buffer.prove_node(node)?;
        }
        Ok(buffer)
    }

    /// Reads back from the kernel where pages spread over the buffer lie.
    fn prove_node(&self, node: u32) -> Result<(), Error> {
        let step = (self.length / PROBED_PAGES).max(4096) & !4095;
        let pages: Vec<*mut u8> = (0..self.length).step_by(step).map(|at| self.start.wrapping_add(at)).collect();
        let mut status = vec![-1i32; pages.len()];
        let no_nodes = std::ptr::null::<libc::c_int>();
        // SAFETY: without target nodes move_pages only writes each page's node to `status`.
        let r = unsafe {
            libc::syscall(libc::SYS_move_pages, 0, pages.len(), pages.as_ptr(), no_nodes, status.as_mut_ptr(), 0)
        };
        let wrong = status.iter().filter(|&&s| s != node as i32).count();
        if r < 0 || wrong > 0 {
            return Err(Error::new(format!(
                "cannot measure node {node}: {wrong} of {} pages bound to it are elsewhere; free some of its memory",
                pages.len()
            )));
        }
        Ok(())
    }

    /// Start of the buffer.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Start and number of blocks of the `index`th of `parts` nearly equal slices.
    pub fn slice(&self, index: usize, parts: usize) -> (*mut u8, usize) {
        let blocks = self.length / BLOCK;
        let (from, to) = (index * blocks / parts, (index + 1) * blocks / parts);
        (self.start.wrapping_add(from * BLOCK), to - from)
    }

    /// How much of the buffer is on huge pages, from `/proc/self/smaps`. A mapping next to it may be counted with it.
    pub fn huge_bytes(&self) -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let (mut inside, mut sum) = (false, 0);
        for line in smaps.lines() {
            let range = line.split(' ').next().and_then(|r| r.split_once('-'));
            let hex = |t: &str| usize::from_str_radix(t, 16).ok();
            if let Some((Some(from), Some(to))) = range.map(|(a, b)| (hex(a), hex(b))) {
                inside = from < self.start as usize + self.length && to > self.start as usize;
            } else if let (true, Some(kib)) = (inside, line.strip_prefix("AnonHugePages:")) {
                sum += kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10;
            }
        }
        sum
    }

    /// Links all lines of the buffer into one random cycle, so that no prefetcher foresees the next. The
    /// buffer's start is an element.
    ///
    /// Sattolo's algorithm makes a permutation that is a single cycle (Sattolo, Information Processing Letters 22,
    /// 1986).
    pub fn link_randomly(&self) {
        let lines = self.length / LINE;
        let mut next: Vec<u32> = (0..lines as u32).collect();
        let mut random = SplitMix(0x5eed);
        for i in (1..lines).rev() {
            next.swap(i, (random.next() % i as u64) as usize);
        }
        for (i, &n) in next.iter().enumerate() {
            let (from, to) = (i * LINE, n as usize * LINE);
            // SAFETY: both lines are inside the mapping, and lines are aligned for a pointer.
            unsafe { self.start.add(from).cast::<*mut u8>().write_volatile(self.start.add(to)) };
        }
    }
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): enough randomness for a shuffle, the same every time.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_line_once() {
        let buffer = Buffer::new(BLOCK as u64, None).unwrap();
        buffer.link_randomly();
        let start = buffer.start().cast_const();
        let (mut p, mut steps, mut neighbours) = (start, 0, 0);
        loop {
            // SAFETY: the chain stays inside the buffer.
            let next = unsafe { p.cast::<*const u8>().read() };
            neighbours += usize::from(next as usize == p as usize + LINE);
            p = next;
            steps += 1;
            if p == start {
                break;
            }
        }
        assert_eq!(steps, BLOCK / LINE);
        assert!(neighbours < 20, "{neighbours} of {steps} steps go to the next line: not random");
    }

    #[test]
    fn slices_cover_the_buffer_without_overlap() {
        let buffer = Buffer::new(10 * BLOCK as u64, None).unwrap();
        let mut at = buffer.start();
        for i in 0..3 {
            let (start, blocks) = buffer.slice(i, 3);
            assert_eq!(start, at);
            at = start.wrapping_add(blocks * BLOCK);
        }
        assert_eq!(at, buffer.start().wrapping_add(buffer.length));
    }
}
