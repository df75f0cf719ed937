//! The ring that the kernel writes records into, and the AUX area where a processor writes packets itself: memory shared
//! with the kernel, as documented in perf_event_open(2), section "MMAP layout".
//!
//! Head and tail only grow; the kernel moves the head after it has written, we move the tail after we have read.

use super::record::HEADER;
use memmap2::{MmapOptions, MmapRaw};
use perf_event_open_sys::bindings::perf_event_mmap_page as Page;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Bytes of the page before the ring.
fn page() -> usize {
    // SAFETY: sysconf has no preconditions.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}

/// A mapped ring.
pub struct Ring {
    memory: MmapRaw,
    /// Where the data begins in the memory, and how many bytes it has: a power of two.
    start: usize,
    size: u64,
    aux: Option<MmapRaw>,
    scratch: Vec<u8>,
    /// Records whose size made no sense; what was behind them is lost.
    pub corrupt: u64,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring of {} bytes", self.size)
    }
}

impl Ring {
    /// Maps the ring of an event, with `pages` pages of data (a power of two).
    pub fn map(event: &impl AsRawFd, pages: usize) -> std::io::Result<Ring> {
        let page = page();
        let memory = MmapOptions::new().len((1 + pages) * page).map_raw(event.as_raw_fd())?;
        Ok(Ring::of(memory, page))
    }

    /// The ring in this memory, whose data begins at `start`.
    fn of(memory: MmapRaw, start: usize) -> Ring {
        let size = (memory.len() - start) as u64;
        Ring { memory, start, size, aux: None, scratch: Vec::new(), corrupt: 0 }
    }

    /// Maps an AUX area of `pages` pages behind the ring.
    pub fn map_aux(&mut self, event: &impl AsRawFd, pages: usize) -> std::io::Result<()> {
        let page = self.page();
        // SAFETY: our own mapping; the kernel reads both words within the mmap below.
        let (offset, size) = unsafe {
            (*page).aux_offset = self.memory.len() as u64;
            (*page).aux_size = (pages * self.start) as u64;
            ((*page).aux_offset, (*page).aux_size)
        };
        self.aux = Some(MmapOptions::new().offset(offset).len(size as usize).map_raw(event.as_raw_fd())?);
        Ok(())
    }

    fn page(&self) -> *mut Page {
        self.memory.as_mut_ptr().cast()
    }

    /// ns of one tick of the processor's counter, if the kernel tells.
    pub fn ns_per_tick(&self) -> Option<f64> {
        // SAFETY: plain words of the mapped page that the kernel sets when it is mapped.
        let (mult, shift) = unsafe { ((*self.page()).time_mult, (*self.page()).time_shift) };
        (mult > 0 && shift < 64).then(|| f64::from(mult) / 2f64.powi(shift.into()))
    }

    /// The word at this place of the page before the ring.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapped page, which lives as long as `self`.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().add(at).cast()) }
    }

    /// Takes all records that are there: type, and the bytes after the header.
    pub fn take(&mut self, mut each: impl FnMut(u32, &[u8])) {
        let head = self.word(offset_of!(Page, data_head)).load(Acquire);
        let mut tail = self.word(offset_of!(Page, data_tail)).load(Relaxed);
        let mut scratch = std::mem::take(&mut self.scratch);
        while head.wrapping_sub(tail) >= HEADER as u64 {
            let mut header = [0; HEADER];
            self.copy(tail, &mut header);
            let size = u64::from(u16::from_le_bytes([header[6], header[7]]));
            if size < HEADER as u64 || size > head.wrapping_sub(tail) || size > self.size {
                self.corrupt += 1;
                tail = head;
                break;
            }
            // Records wrap around the end of the ring, so they are copied.
            scratch.resize(size as usize - HEADER, 0);
            self.copy(tail.wrapping_add(HEADER as u64), &mut scratch);
            each(u32::from_le_bytes([header[0], header[1], header[2], header[3]]), &scratch);
            tail = tail.wrapping_add(size);
        }
        self.scratch = scratch;
        self.word(offset_of!(Page, data_tail)).store(tail, Release);
    }

    fn copy(&self, from: u64, to: &mut [u8]) {
        // SAFETY: `start` and `size` describe the data of the mapping.
        unsafe { copy_around(self.memory.as_ptr().add(self.start), self.size, from, to) };
    }

    /// Takes a part of the AUX area; everything before its end is then free again.
    pub fn take_aux(&mut self, offset: u64, size: u64) -> Vec<u8> {
        let Some(aux) = &self.aux else { return Vec::new() };
        let mut bytes = vec![0; size.min(aux.len() as u64) as usize];
        // SAFETY: the mapping's own length.
        unsafe { copy_around(aux.as_ptr(), aux.len() as u64, offset, &mut bytes) };
        self.word(offset_of!(Page, aux_tail)).store(offset.wrapping_add(size), Release);
        bytes
    }
}

/// Copies out of a ring of `size` bytes, from a place counted from the first byte ever written.
///
/// # Safety
/// `size` bytes must be readable at `ring`, and `to` must not be longer.
unsafe fn copy_around(ring: *const u8, size: u64, from: u64, to: &mut [u8]) {
    let at = (from % size) as usize;
    let first = to.len().min(size as usize - at);
    // SAFETY: both parts lie inside the ring by the caller's promise. The kernel does not write there until the tail moves.
    unsafe {
        std::ptr::copy_nonoverlapping(ring.add(at), to.as_mut_ptr(), first);
        std::ptr::copy_nonoverlapping(ring, to.as_mut_ptr().add(first), to.len() - first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ring of one page of data whose kernel is the test.
    struct Kernel {
        ring: Ring,
        head: u64,
    }

    impl Kernel {
        fn new() -> Kernel {
            let file = tempfile::tempfile().unwrap();
            file.set_len(2 * 4096).unwrap();
            let memory = MmapOptions::new().len(2 * 4096).map_raw(&file).unwrap();
            Kernel { ring: Ring::of(memory, 4096), head: 0 }
        }
        fn write(&mut self, kind: u32, size: u16, fill: u8) {
            let mut record = kind.to_le_bytes().to_vec();
            record.extend([0, 0]);
            record.extend(size.to_le_bytes());
            record.resize(usize::from(size).max(HEADER), fill);
            for byte in record {
                let at = 4096 + (self.head % 4096) as usize;
                // SAFETY: inside the mapping of two pages.
                unsafe { *self.ring.memory.as_mut_ptr().add(at) = byte };
                self.head += 1;
            }
            // SAFETY: the mapped page.
            unsafe { (*self.ring.page()).data_head = self.head };
        }
        fn taken(&mut self) -> Vec<(u32, usize, u8)> {
            let mut out = Vec::new();
            self.ring.take(|kind, body| {
                assert!(body.iter().all(|b| *b == body[0]), "a record is mixed up with another");
                out.push((kind, body.len(), body.first().copied().unwrap_or(0)));
            });
            out
        }
    }

    #[test]
    fn records_come_out_whole_however_often_the_ring_wraps() {
        let mut kernel = Kernel::new();
        let mut n = 0u8;
        for round in 0..200u32 {
            let mut expected = Vec::new();
            for _ in 0..round % 5 {
                let size = 16 + 8 * (u16::from(n) * 37 % 90);
                kernel.write(u32::from(n), size, n);
                expected.push((u32::from(n), usize::from(size) - HEADER, n));
                n = n.wrapping_add(1);
            }
            assert_eq!(kernel.taken(), expected);
            // SAFETY: the mapped page.
            assert_eq!(unsafe { (*kernel.ring.page()).data_tail }, kernel.head);
        }
        assert!(kernel.head > 10 * 4096 && kernel.ring.corrupt == 0);
    }

    #[test]
    fn a_size_that_cannot_be_ends_the_reading_and_not_the_recorder() {
        let mut kernel = Kernel::new();
        for bad in [0, 7, 4097, u16::MAX] {
            kernel.write(1, 24, 5);
            let before = kernel.head;
            kernel.write(2, 16, 6);
            let at = 4096 + ((before + 6) % 4096) as usize;
            // SAFETY: inside the mapping.
            unsafe { kernel.ring.memory.as_mut_ptr().add(at).cast::<[u8; 2]>().write_unaligned(u16::to_le_bytes(bad)) };
            assert_eq!(kernel.taken(), [(1, 16, 5)]);
            kernel.write(3, 16, 7);
            assert_eq!(kernel.taken(), [(3, 8, 7)], "reading goes on behind it");
        }
        assert_eq!(kernel.ring.corrupt, 4);
    }
}
