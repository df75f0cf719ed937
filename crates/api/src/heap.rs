//! The memory of one tier: an address range whose pages come from its nodes, handed out in runs of whole pages.
//!
//! Which runs are free stands beside the range, never in it: bookkeeping does not lie in slow memory. Freed runs of up to
//! [`KEPT_RUN`] keep their pages for the next object, up to [`KEPT`] bytes, unless they lie elsewhere because the tier was full; the rest goes
//! back to the kernel. Runs with pages and runs without are not put together, so that it is known how much is kept: the kernel takes far longer to
//! give pages than this file to find a run.

use crate::error::Error;
use crate::kernel::{self, PAGE};
use std::collections::{BTreeMap, BTreeSet};

/// Address space of a tier; less where the process may not have so much.
const SPAN: usize = 1 << 40;
const LEAST_SPAN: usize = 1 << 30;
/// A heap grows by so much at least: each growth is two system calls.
const STEP: usize = 8 << 20;
/// Most bytes of freed runs that keep their pages.
const KEPT: usize = 32 << 20;
/// Largest run that does: where some of its pages lie is looked up first.
const KEPT_RUN: usize = 1 << 20;
const LOOKED_UP: usize = 8;
const HUGE: usize = 2 << 20;

/// A heap. Addresses are those of the process.
#[derive(Debug)]
pub struct Heap {
    nodes: u128,
    /// Its pages can be nowhere else.
    alone: bool,
    base: usize,
    span: usize,
    /// Bytes handed out at some time, and bytes that are usable.
    used: usize,
    opened: usize,
    /// Free runs below `used`: start and bytes; and by size, those without pages and those with.
    free: BTreeMap<usize, Run>,
    by_size: [BTreeSet<(usize, usize)>; 2],
    /// Bytes of free runs without pages and with.
    bytes: [usize; 2],
}

/// Indices of `by_size` and `bytes`.
const WITHOUT: usize = 0;
const WITH: usize = 1;

#[derive(Clone, Copy, Debug)]
struct Run {
    bytes: usize,
    /// Some of its pages may be there.
    pages: bool,
}

impl Heap {
    /// A heap of these nodes (0: wherever the kernel likes). `alone`: the machine has no others. `None`: there is no address space.
    pub fn new(nodes: u128, alone: bool) -> Option<Heap> {
        let mut span = SPAN;
        let base = loop {
            let at = kernel::reserve(span + HUGE);
            if at != 0 {
                break at.next_multiple_of(HUGE);
            }
            span /= 8;
            if span < LEAST_SPAN {
                return None;
            }
        };
        let (free, by_size) = (BTreeMap::new(), Default::default());
        Some(Heap { nodes, alone, base, span, used: 0, opened: 0, free, by_size, bytes: [0; 2] })
    }

    /// The addresses that it has reserved.
    pub fn range(&self) -> core::ops::Range<usize> {
        self.base..self.base + self.span
    }

    /// A run of whole pages, and whether they are fresh (zero, and not there yet).
    ///
    /// # Errors
    /// [`Error::Room`] if there is none; [`Error::Kernel`] if the memory could not be bound.
    pub fn take(&mut self, bytes: usize, align: usize) -> Result<(usize, bool), Error> {
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(Error::Room)?;
        let align = align.max(if bytes >= HUGE { HUGE } else { PAGE });
        if let Some(found) = self.find(WITH, bytes, align).or_else(|| self.find(WITHOUT, bytes, align)) {
            return Ok(found);
        }
        // Perhaps it is there in pieces.
        if self.bytes[WITH] > 0 && self.bytes[WITHOUT] + self.bytes[WITH] >= bytes {
            while self.let_go(1) {}
            if let Some(found) = self.find(WITHOUT, bytes, align) {
                return Ok(found);
            }
        }
        let at = (self.base + self.used).next_multiple_of(align);
        let end =
            at.checked_add(bytes).map(|end| end - self.base).filter(|&end| end <= self.span).ok_or(Error::Room)?;
        self.open(end)?;
        let gap = self.base + self.used;
        self.used = end;
        self.join(gap, Run { bytes: at - gap, pages: false });
        Ok((at, true))
    }

    /// Takes it from the smallest free run that is large enough, or of the next few one that is aligned well enough.
    fn find(&mut self, which: usize, bytes: usize, align: usize) -> Option<(usize, bool)> {
        let fits = |&&(run, start): &&(usize, usize)| {
            start.next_multiple_of(align).checked_add(bytes).is_some_and(|end| end <= start + run)
        };
        let &(_, start) = self.by_size[which].range((bytes, 0)..).take(16).find(fits)?;
        let run = self.remove(start)?;
        let at = start.next_multiple_of(align);
        self.insert(start, Run { bytes: at - start, ..run });
        self.insert(at + bytes, Run { bytes: start + run.bytes - at - bytes, ..run });
        Some((at, !run.pages))
    }

    /// Gives pages of the largest run that keeps some back to the kernel, if it is at least so large: not many at once, as all threads wait.
    fn let_go(&mut self, least: usize) -> bool {
        let Some(&(bytes, start)) = self.by_size[WITH].last().filter(|largest| largest.0 >= least) else {
            return false;
        };
        self.remove(start);
        let piece = bytes.min(KEPT_RUN);
        self.insert(start + piece, Run { bytes: bytes - piece, pages: true });
        // SAFETY: a part of a free run.
        let gone = unsafe { kernel::give_back(start, piece) };
        self.join(start, Run { bytes: piece, pages: !gone });
        gone
    }

    /// Makes the range usable up to here.
    fn open(&mut self, end: usize) -> Result<(), Error> {
        if end > self.opened {
            let to = end.next_multiple_of(STEP).min(self.span);
            let (at, more) = (self.base + self.opened, to - self.opened);
            // SAFETY: a part of the heap's own reservation that was never handed out.
            if !unsafe { kernel::open(at, more) } {
                return Err(Error::Room);
            }
            // Where there is nothing to choose from nothing is asked of the kernel: containers may forbid it.
            // SAFETY: as above.
            if self.nodes != 0 && !self.alone && !unsafe { kernel::bind(at, more, self.nodes) } {
                return Err(Error::Kernel);
            }
            self.opened = to;
        }
        Ok(())
    }

    /// Takes a run back. `bound`: parts of it were bound elsewhere, or moved.
    pub fn put(&mut self, at: usize, bytes: usize, bound: bool) {
        let bytes = bytes.next_multiple_of(PAGE);
        let keeps = !bound
            && bytes <= KEPT_RUN
            && (self.bytes[WITH] + bytes <= KEPT || self.let_go(bytes))
            && (self.nodes == 0 || self.alone || kernel::only_on(at, bytes, self.nodes, LOOKED_UP));
        // SAFETY: a run that its owner has given back.
        let pages = keeps || !unsafe { kernel::give_back(at, bytes) };
        if bound {
            // SAFETY: as above.
            unsafe { kernel::bind(at, bytes, self.nodes) };
        }
        self.join(at, Run { bytes, pages });
    }

    /// Enters a free run, as one with those of its kind beside it.
    fn join(&mut self, mut start: usize, mut run: Run) {
        let alike = |other: &Run| other.pages == run.pages;
        let before = self.free.range(..start).next_back().filter(|(s, r)| **s + r.bytes == start && alike(r));
        let after = self.free.get_key_value(&(start + run.bytes)).filter(|(_, r)| alike(r));
        for other in [before, after].map(|other| other.map(|(&at, _)| at)).into_iter().flatten() {
            run.bytes += self.remove(other).map_or(0, |r| r.bytes);
            start = start.min(other);
        }
        self.insert(start, run);
    }

    fn insert(&mut self, start: usize, run: Run) {
        if run.bytes > 0 {
            let which = usize::from(run.pages);
            self.bytes[which] += run.bytes;
            self.free.insert(start, run);
            self.by_size[which].insert((run.bytes, start));
        }
    }

    fn remove(&mut self, start: usize) -> Option<Run> {
        let run = self.free.remove(&start)?;
        let which = usize::from(run.pages);
        self.by_size[which].remove(&(run.bytes, start));
        self.bytes[which] -= run.bytes;
        Some(run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_do_not_overlap_and_what_is_free_grows_together_again() {
        let mut heap = Heap::new(0, true).unwrap();
        let mut live: Vec<(usize, usize)> = Vec::new();
        let mut seed = 7u64;
        for turn in 0..4000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            if turn % 3 == 2 {
                let (at, bytes) = live.swap_remove(seed as usize % live.len());
                heap.put(at, bytes, seed & 1 == 0);
                continue;
            }
            let bytes = 1 + (seed >> 33) as usize % (3 << 20);
            let align = PAGE << (seed >> 20 & 7);
            let (at, fresh) = heap.take(bytes, align).unwrap();
            assert_eq!(at % align, 0);
            let end = at + bytes.next_multiple_of(PAGE);
            assert!(live.iter().all(|&(a, b)| end <= a || a + b.next_multiple_of(PAGE) <= at));
            // SAFETY: memory that was just handed out.
            unsafe {
                assert!(!fresh || *(at as *const u8) == 0);
                *(at as *mut u8) = 1;
                *((at + bytes - 1) as *mut u8) = 1;
            }
            live.push((at, bytes));
        }
        for (at, bytes) in live {
            heap.put(at, bytes, false);
        }
        assert_eq!(heap.bytes[WITHOUT] + heap.bytes[WITH], heap.used);
        assert!(heap.bytes[WITH] <= KEPT);
        // All of it is one run, as soon as somebody needs one.
        assert!(heap.take(heap.used, PAGE).is_ok_and(|(at, fresh)| at < heap.base + HUGE && fresh));
    }

    fn present(heap: &Heap) -> usize {
        kernel::present(heap.base, heap.used)
    }

    #[test]
    fn little_of_what_was_freed_keeps_its_pages() {
        let mut heap = Heap::new(0, true).unwrap();
        let runs: Vec<usize> = (0..64).map(|_| heap.take(1 << 20, PAGE).unwrap().0).collect();
        for &at in &runs {
            // SAFETY: memory that was just handed out.
            assert!(unsafe { kernel::touch(at, 1 << 20) });
        }
        assert_eq!(present(&heap), 64 << 20);
        runs.iter().for_each(|&at| heap.put(at, 1 << 20, false));
        assert!(present(&heap) <= KEPT, "{}", present(&heap));
    }

    /// Small runs beside large ones that have gone back: what is kept is counted by what it is, and a small object finds pages.
    #[test]
    fn what_is_kept_does_not_grow_with_what_lies_beside_it() {
        let mut heap = Heap::new(0, true).unwrap();
        let runs: Vec<usize> = (0..16).map(|_| heap.take(4 << 20, PAGE).unwrap().0).collect();
        runs.iter().for_each(|&at| heap.put(at, 4 << 20, false));
        let (small, _) = heap.take(PAGE, PAGE).unwrap();
        // SAFETY: memory that was just handed out.
        assert!(unsafe { kernel::touch(small, PAGE) });
        heap.put(small, PAGE, false);
        assert_eq!(heap.bytes[WITH], PAGE);
        assert_eq!(heap.take(PAGE, PAGE), Ok((small, false)));
    }

    #[test]
    fn what_cannot_be_had_is_refused() {
        let mut heap = Heap::new(0, true).unwrap();
        assert_eq!(heap.take(SPAN + 1, PAGE), Err(Error::Room));
        assert_eq!(heap.take(usize::MAX, PAGE), Err(Error::Room));
        assert!(heap.take(1, PAGE).is_ok());
    }
}
