//! What is known of the lines and functions that were met: fixed tables, searched and filled without locks.
//!
//! A line of a code object is known by a hash of the object's address, of the instruction, and of where the object has its names and lines: an address may be
//! another one's later. Of code that was compiled from no file all of these may be another's, so what its lines are is compared too. Functions get numbers, by which frames name them to the recorder; a number is given once.

use crate::process;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, fence};

/// Lines that are kept; 32 bytes each.
const LINES: usize = 1 << 14;
/// Places in which one may lie. When all are taken, it takes that of another one.
const PROBES: usize = 8;
/// Most functions of a process.
const FUNCTIONS: usize = 1 << 14;

const FREE: u64 = 0;
const BUSY: u64 = 1;

/// What a frame of a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is told to nobody.
    Passed,
    /// Its function found no room.
    LeftOut,
    /// It has a token, and a word for the recorder: function and line.
    Known { token: u64, word: u64 },
}

#[repr(C, align(32))]
struct Slot {
    key: AtomicU64,
    token: AtomicU64,
    word: AtomicU64,
    /// What the lines have to be; 0: that is not asked.
    print: AtomicU64,
}

/// The lines; null before there is a table.
static TABLE: AtomicPtr<[Slot; LINES]> = AtomicPtr::new(core::ptr::null_mut());

struct Function {
    /// A number for its file and name; 0: free.
    id: AtomicU64,
    /// Generation of the process in which it was published.
    published: AtomicU32,
}

static FUNCTION: [Function; FUNCTIONS] =
    [const { Function { id: AtomicU64::new(0), published: AtomicU32::new(0) } }; FUNCTIONS];

/// Maps the table of lines; `false` if there is no memory for it.
pub(super) fn prepare() -> bool {
    let table = crate::sys::map_table(size_of::<[Slot; LINES]>());
    TABLE.store(table as *mut [Slot; LINES], Release);
    table != 0
}

impl Line {
    fn words(self) -> (u64, u64) {
        match self {
            Line::Passed => (0, 0),
            Line::LeftOut => (0, 1),
            Line::Known { token, word } => (token, word),
        }
    }

    #[inline(always)]
    fn of(token: u64, word: u64) -> Line {
        match (token, word) {
            (0, 0) => Line::Passed,
            (0, _) => Line::LeftOut,
            _ => Line::Known { token, word },
        }
    }
}

#[inline(always)]
fn slots(key: u64) -> impl Iterator<Item = &'static Slot> {
    // SAFETY: null, or the table, which is never unmapped; zero bytes are valid slots.
    let table = unsafe { TABLE.load(Acquire).as_ref() };
    (0..PROBES).filter_map(move |i| table?.get(((key >> 40) as usize).wrapping_add(i) % LINES))
}

/// What is known of a line, and what is to be compared with it (0: nothing). A key's highest bits are to be the most mixed.
#[inline(always)]
pub(super) fn find(key: u64) -> Option<(Line, u64)> {
    for slot in slots(key) {
        match slot.key.load(Acquire) {
            found if found == key => {
                let (token, word, print) =
                    (slot.token.load(Relaxed), slot.word.load(Relaxed), slot.print.load(Relaxed));
                fence(Acquire);
                // Nobody has begun to write it meanwhile.
                return (slot.key.load(Relaxed) == key).then(|| (Line::of(token, word), print));
            }
            FREE => return None,
            _ => {}
        }
    }
    None
}

/// Keeps it. A thread that a fork or a signal stops in here leaves a slot busy, and blocks nobody.
pub(super) fn keep(key: u64, line: Line, print: u64) {
    if key <= BUSY {
        return;
    }
    static TURN: AtomicU32 = AtomicU32::new(0);
    let free = slots(key).find(|s| [FREE, key].contains(&s.key.load(Relaxed)));
    let Some(slot) = free.or_else(|| slots(key).nth(TURN.fetch_add(1, Relaxed) as usize % PROBES)) else { return };
    let old = slot.key.load(Relaxed);
    if old == BUSY || slot.key.compare_exchange(old, BUSY, AcqRel, Relaxed).is_err() {
        return;
    }
    fence(Release);
    let (token, word) = line.words();
    slot.token.store(token, Relaxed);
    slot.word.store(word, Relaxed);
    slot.print.store(print, Relaxed);
    slot.key.store(key, Release);
}

/// The number of a function. `None`: there is no room for another one.
pub(super) fn number(id: u64) -> Option<u16> {
    let start = id as usize;
    (0..FUNCTIONS).map(|i| start.wrapping_add(i) % FUNCTIONS).find_map(|n| {
        let slot = &FUNCTION.get(n)?.id;
        let there = slot.load(Acquire);
        let taken = there == id
            || there == 0 && slot.compare_exchange(0, id, AcqRel, Acquire).map_or_else(|there| there == id, |_| true);
        taken.then_some(n as u16)
    })
}

/// Has a function published, if it is not in this process. `false`: that could not be done now.
pub(super) fn publish(number: u16, how: impl FnOnce() -> bool) -> bool {
    let Some(function) = FUNCTION.get(usize::from(number)) else { return false };
    let generation = process::generation();
    if function.published.load(Acquire) != generation {
        if !how() {
            return false;
        }
        function.published.store(generation, Release);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_numbers_until_there_are_none() {
        let first = [7, 8, 7 + FUNCTIONS as u64, 7].map(number);
        assert_eq!(first, [Some(7), Some(8), Some(9), Some(7)]);
        (0..FUNCTIONS as u64).for_each(|n| _ = number(1 << 40 | n));
        assert_eq!((number(5 << 50 | 5), number(8)), (None, Some(8)));
    }

    #[test]
    fn lines_are_found_until_others_take_their_place_and_never_torn() {
        assert!(prepare());
        let key = |n: u64| n.wrapping_mul(0x243f_6a88_85a3_08d3);
        let line = |n: u64| Line::Known { token: n, word: !n };
        std::thread::scope(|s| {
            for t in 0..4 {
                s.spawn(move || {
                    for i in 0..400_000u64 {
                        let n = 2 + (i * 7 + t) % 100_000;
                        match find(key(n)) {
                            Some(found) => assert_eq!(found, (line(n), n % 3)),
                            None => keep(key(n), line(n), n % 3),
                        }
                    }
                });
            }
        });
        for other in [Line::Passed, Line::LeftOut, line(7)] {
            keep(key(1), other, 9);
            assert_eq!(find(key(1)), Some((other, 9)), "a line is known anew");
        }
    }
}
