//! What a thread has for itself: blocks of small objects, and the traits that it asked for last. So most small objects are made without a lock, and without
//! that their traits are read anew.

use crate::small::{self, Block, LARGEST, LARGEST_CLASS};
use crate::state;
use crate::wish::{Trait, Wish};
use core::cell::RefCell;

/// Classes are whole times 16.
const CLASSES: usize = LARGEST_CLASS / 16 + 1;
/// Lists of traits that are remembered: a program has a hot and a cold kind of object, or some more.
const REMEMBERED: usize = 4;

/// Blocks by class.
type Blocks = [Option<&'static Block>; CLASSES];

struct Mine {
    asked: Vec<Asked>,
    /// The one that is forgotten next.
    oldest: usize,
    /// By the number of their tier ([`small::Place::tier`]).
    blocks: Vec<Option<Box<Blocks>>>,
}

/// What small objects with these traits come to.
struct Asked {
    traits: Box<[Trait]>,
    align: usize,
    tier: usize,
    number: u16,
}

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine { asked: Vec::new(), oldest: 0, blocks: Vec::new() }) };
}

impl Drop for Mine {
    fn drop(&mut self) {
        state::leave(self.all().collect());
    }
}

impl Mine {
    fn all(&self) -> impl Iterator<Item = &'static Block> {
        self.blocks.iter().flatten().flat_map(|blocks| blocks.iter().flatten().copied())
    }

    fn take(&self, tier: usize, class: usize, number: u16) -> Option<usize> {
        let blocks = self.blocks.get(tier)?.as_deref()?;
        (*blocks.get(class / 16)?)?.take(number)
    }
}

/// An object whose traits are among the last ones, and for which there is a place in a block of this thread. `None`: it is for [`state::State::again`] to make.
pub fn again(size: usize, traits: &[Trait]) -> Option<usize> {
    if size == 0 || size > LARGEST {
        return None;
    }
    let take = |mine: &RefCell<Mine>| {
        let mine = mine.try_borrow().ok()?;
        let asked = mine.asked.iter().find(|asked| *asked.traits == *traits)?;
        mine.take(asked.tier, small::class(size, asked.align), asked.number)
    };
    MINE.try_with(take).ok()?
}

/// A place in this thread's block.
pub fn take(tier: usize, class: usize, number: u16) -> Option<usize> {
    MINE.try_with(|mine| mine.try_borrow().ok()?.take(tier, class, number)).ok()?
}

/// This thread has its block of this tier and class no more, if it had one.
pub fn give_up(tier: usize, class: usize) -> Option<&'static Block> {
    let take = |mine: &RefCell<Mine>| mine.try_borrow_mut().ok()?.blocks.get_mut(tier)?.as_mut()?[class / 16].take();
    MINE.try_with(take).ok()?
}

/// This thread has this block from now on, and what it wished for is remembered. False if the thread is about to end, and has nothing any more.
pub fn keep(block: &'static Block, (tier, class): (usize, usize), wish: &Wish, align: usize, number: u16) -> bool {
    let keep = |mine: &RefCell<Mine>| {
        let Ok(mut mine) = mine.try_borrow_mut() else { return false };
        if mine.blocks.len() <= tier {
            mine.blocks.resize_with(tier + 1, || None);
        }
        mine.blocks[tier].get_or_insert_with(|| Box::new([None; CLASSES]))[class / 16] = Some(block);
        mine.remember(wish, align, tier, number);
        true
    };
    MINE.try_with(keep).unwrap_or(false)
}

/// What this thread wished for is remembered.
pub fn remember(wish: &Wish, align: usize, tier: usize, number: u16) {
    let remember = |mine: &RefCell<Mine>| {
        if let Ok(mut mine) = mine.try_borrow_mut() {
            mine.remember(wish, align, tier, number);
        }
    };
    // A thread that is about to end remembers nothing.
    let _ = MINE.try_with(remember);
}

impl Mine {
    fn remember(&mut self, wish: &Wish, align: usize, tier: usize, number: u16) {
        if self.asked.iter().any(|asked| *asked.traits == *wish.given) {
            return;
        }
        let asked = Asked { traits: wish.given.iter().copied().collect(), align, tier, number };
        if self.asked.len() < REMEMBERED {
            self.asked.push(asked);
        } else {
            self.asked[self.oldest] = asked;
            self.oldest = (self.oldest + 1) % REMEMBERED;
        }
    }
}

/// Whether this thread has the block.
pub fn has(block: &Block) -> bool {
    MINE.try_with(|mine| mine.try_borrow().is_ok_and(|mine| mine.all().any(|b| core::ptr::eq(b, block))))
        .unwrap_or(false)
}
