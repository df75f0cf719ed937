//! Stacks that a thread has walked lately.
//!
//! A program allocates in loops: most stacks are those of a moment ago, word for word. A walk leaves behind which words of the stack it has read, each return
//! address and each frame pointer that a step went by, and where it ended. If all of them are there again, at the same stack pointer, every
//! step would go as it went, and the walk is the same: to compare them takes a third of the time, as nothing waits for what was read before.
//!
//! Only on a thread's own stack, which stays mapped up to its end, and only walks of plain steps to the outermost frame.

use super::Walk;
use super::cache::Epoch;
use core::sync::atomic::{Ordering, compiler_fence};

/// Words that are remembered of a walk; a longer one is not.
const WORDS: usize = 56;
/// Walks that begin at stack pointers which fall together: calls of one function, each with its own return address.
const WAYS: usize = 4;
const SETS: usize = 16;

/// To write down what is read makes a walk half as long again: of those that are not remembered yet one in so many is, and after one that cannot be
/// remembered one in so many.
const ONE_IN: u32 = 3;
const ONE_IN_UNFIT: u32 = 20;
/// So many words are compared one by one: most walks that begin alike are different in these.
const FIRST: usize = 6;

/// A thread's. All zeroes is one that remembers nothing.
pub struct Memo {
    sets: [[Entry; WAYS]; SETS],
    /// Which way is given up next.
    turn: usize,
    /// Walks that are not to be remembered before the next one that is.
    rest: u32,
}

#[repr(C, align(64))]
struct Entry {
    /// Where the walk began; 0: nothing is remembered here. Written last.
    sp: usize,
    rip: usize,
    /// When the rules were learned that it went by.
    epoch: Epoch,
    /// The frame pointer when it began, if a step went by it.
    fp: Option<usize>,
    walk: Walk,
    /// Words in use.
    len: usize,
    /// Bytes from the stack pointer to behind the farthest of them.
    reach: usize,
    /// How far above the stack pointer each word lies, in words.
    at: [u16; WORDS],
    value: [usize; WORDS],
}

/// Where a walk begins.
#[derive(Clone, Copy)]
pub(super) struct Origin {
    pub sp: usize,
    pub rip: usize,
    pub fp: usize,
    pub epoch: Epoch,
}

/// What is told of a walk while it is made.
pub(super) trait Trace {
    /// A return address, and where it was read.
    fn returns(&mut self, at: usize, to: usize);
    /// A step went by this frame pointer, which was read there; 0: it was in its register from the beginning.
    fn by_frame_pointer(&mut self, at: usize, fp: usize);
    /// A step that is not plain.
    fn unfit(&mut self);
}

/// Nobody asks.
pub(super) struct Untraced;

impl Trace for Untraced {
    #[inline(always)]
    fn returns(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn by_frame_pointer(&mut self, _: usize, _: usize) {}
    #[inline(always)]
    fn unfit(&mut self) {}
}

/// A walk that is to be remembered.
pub(super) struct Tracer<'a> {
    entry: &'a mut Entry,
    rest: &'a mut u32,
    from: Origin,
    fits: bool,
}

#[inline(always)]
fn set_of(sp: usize) -> usize {
    // Fibonacci hashing (Knuth, TAOCP 6.4); 16 sets.
    ((sp as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
}

impl Memo {
    /// The walk from there, if it is remembered and would be the same. The stack is mapped up to `high`.
    #[inline(always)]
    pub(super) fn find(&self, from: Origin, high: usize) -> Option<Walk> {
        self.sets.get(set_of(from.sp))?.iter().find(|entry| entry.is(from, high)).map(|entry| entry.walk)
    }

    /// Remembers the walk from there, which is now to be made; not each of them.
    #[inline(always)]
    pub(super) fn trace(&mut self, from: Origin) -> Option<Tracer<'_>> {
        if self.rest != 0 {
            self.rest -= 1;
            return None;
        }
        self.turn = self.turn.wrapping_add(1);
        let (way, set) = (self.turn % WAYS, set_of(from.sp));
        let entry = self.sets.get_mut(set)?.get_mut(way)?;
        entry.sp = 0;
        // A child that is forked meanwhile is to find nothing here.
        compiler_fence(Ordering::Release);
        (entry.len, entry.reach, entry.fp) = (0, 0, None);
        Some(Tracer { entry, rest: &mut self.rest, from, fits: true })
    }
}

impl Entry {
    #[inline(always)]
    fn is(&self, from: Origin, high: usize) -> bool {
        self.sp == from.sp
            && self.rip == from.rip
            && self.epoch == from.epoch
            && self.fp.is_none_or(|fp| fp == from.fp)
            && self.reach <= high - from.sp
            && self.words(from.sp).take(FIRST).all(|(there, value)| there == value)
            // All at once, without a branch for each.
            && self.words(from.sp).skip(FIRST).fold(0, |differs, (there, value)| differs | (there ^ value)) == 0
    }

    /// What is there now, and what was, word by word; the stack reaches as far as they do.
    #[inline(always)]
    fn words(&self, sp: usize) -> impl Iterator<Item = (usize, usize)> {
        self.at.iter().zip(&self.value).take(self.len).map(move |(&at, &value)| {
            // SAFETY: an aligned word between the stack pointer and the end of the stack.
            (unsafe { *((sp + usize::from(at) * 8) as *const usize) }, value)
        })
    }
}

impl Tracer<'_> {
    #[inline(always)]
    fn word(&mut self, at: usize, value: usize) {
        let distance = at.wrapping_sub(self.from.sp) / 8;
        let len = self.entry.len;
        match (self.entry.at.get_mut(len), self.entry.value.get_mut(len), u16::try_from(distance)) {
            (Some(to), Some(read), Ok(distance)) => {
                (*to, *read) = (distance, value);
                self.entry.len += 1;
                self.entry.reach = self.entry.reach.max((usize::from(distance) + 1) * 8);
            }
            _ => self.fits = false,
        }
    }

    /// The walk has been made.
    #[inline(always)]
    pub(super) fn end(self, walk: Walk) {
        let fits = self.fits && !walk.truncated;
        *self.rest = if fits { ONE_IN } else { ONE_IN_UNFIT } - 1;
        if fits {
            (self.entry.rip, self.entry.epoch, self.entry.walk) = (self.from.rip, self.from.epoch, walk);
            compiler_fence(Ordering::Release);
            self.entry.sp = self.from.sp;
        }
    }
}

impl Trace for Tracer<'_> {
    #[inline(always)]
    fn returns(&mut self, at: usize, to: usize) {
        self.word(at, to);
    }

    #[inline(always)]
    fn by_frame_pointer(&mut self, at: usize, fp: usize) {
        if at == 0 {
            self.entry.fp = Some(fp);
        } else {
            self.word(at, fp);
        }
    }

    #[inline(always)]
    fn unfit(&mut self) {
        self.fits = false;
    }
}

#[cfg(test)]
mod tests {
    use super::super::cache::Epoch;
    use super::*;

    #[test]
    fn a_walk_is_remembered_until_a_word_of_it_is_another() {
        // SAFETY: all zeroes is a memo.
        let mut memo: Box<Memo> = Box::new(unsafe { std::mem::zeroed() });
        let mut stack = [1usize, 2, 3, 4, 5, 6];
        let (sp, high) = (stack.as_ptr() as usize, stack.as_ptr_range().end as usize);
        let from = Origin { sp, rip: 7, fp: 8, epoch: Epoch::of(9) };
        let walk = Walk { chain: 10, depth: 2, truncated: false };
        let remember = |memo: &mut Memo, walk: Walk| {
            memo.rest = 0;
            let mut tracer = memo.trace(from).unwrap();
            tracer.by_frame_pointer(0, 8);
            tracer.returns(sp + 8, 2);
            tracer.by_frame_pointer(sp + 16, 3);
            tracer.returns(sp + 32, 5);
            tracer.end(walk);
        };
        remember(&mut memo, Walk { truncated: true, ..walk });
        assert_eq!(memo.find(from, high), None, "not one that has not come to its end");
        remember(&mut memo, walk);
        assert_eq!(memo.find(from, high), Some(walk));
        assert_eq!(memo.find(from, sp + 32), None, "its stack ends before");
        for other in [
            Origin { rip: 70, ..from },
            Origin { fp: 80, ..from },
            Origin { epoch: Epoch::of(90), ..from },
            Origin { sp: sp + 8, ..from },
        ] {
            assert_eq!(memo.find(other, high), None);
        }
        for (word, counts) in [(0, false), (1, true), (2, true), (3, false), (4, true), (5, false)] {
            stack[word] += 100;
            std::hint::black_box(&mut stack);
            assert_eq!(memo.find(from, high).is_none(), counts, "word {word}");
            stack[word] -= 100;
            std::hint::black_box(&mut stack);
        }
        assert!(memo.trace(from).is_none(), "not each walk is written down");
        memo.rest = 0;
        let mut tracer = memo.trace(from).unwrap();
        (0..=WORDS).for_each(|i| tracer.returns(sp + 8 * i, i));
        tracer.end(Walk { chain: 11, ..walk });
        assert_eq!(memo.find(from, high), Some(walk), "what is too long is not remembered");
    }
}
