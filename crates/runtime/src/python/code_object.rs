//! What a code object says: the file and name of its function, and the line of an instruction.

use super::layout::{self, Layout};
use super::{Interpreter, byte, half, plausible, word};
use core::ops::Range;
use wire::event::MAX_PATH;
use wire::identity::PYTHON;

/// Most bytes of a file's path that are kept, its last ones, and of a function's name.
const MOST: [usize; 2] = [700, 300];
const _: () = assert!(PYTHON.len() + MOST[0] + 1 + MOST[1] <= MAX_PATH);

/// A function as a module's path: `python:FILE:NAME`.
pub(super) struct Described {
    bytes: [u8; MAX_PATH],
    file: Range<usize>,
    name: Range<usize>,
}

impl Described {
    /// Reads it from a code object. `None`: it is not as expected.
    pub fn of(interpreter: &Interpreter, code: usize) -> Option<Described> {
        let mut bytes = [0; MAX_PATH];
        bytes.get_mut(..PYTHON.len())?.copy_from_slice(PYTHON.as_bytes());
        let start = PYTHON.len();
        // SAFETY: a code object.
        let (file, name) = unsafe { (word(code + layout::FILE), word(code + layout::NAME)) };
        let end = start + copy_text(interpreter, file, bytes.get_mut(start..start + MOST[0])?)?;
        *bytes.get_mut(end)? = b':';
        let length = copy_text(interpreter, name, bytes.get_mut(end + 1..end + 1 + MOST[1])?)?;
        Some(Described { bytes, file: start..end, name: end + 1..end + 1 + length })
    }

    pub fn path(&self) -> &[u8] {
        self.bytes.get(..self.name.end).unwrap_or_default()
    }

    pub fn file(&self) -> &[u8] {
        self.bytes.get(self.file.clone()).unwrap_or_default()
    }

    pub fn name(&self) -> &[u8] {
        self.bytes.get(self.name.clone()).unwrap_or_default()
    }

    /// Whether it was compiled from a text that is in no file, and may soon be gone.
    pub fn is_passing(&self) -> bool {
        self.file().starts_with(b"<")
    }

    /// Whether it is of the machinery of imports, which Python leaves out of what it shows of a stack, too.
    pub fn imports(&self) -> bool {
        self.file().starts_with(b"<frozen importlib")
    }
}

/// Puts the last characters of a string that have room, as UTF-8; how many bytes they are.
fn copy_text(interpreter: &Interpreter, text: usize, out: &mut [u8]) -> Option<usize> {
    // SAFETY: checked to be where an object can be, and then to be a string.
    let (length, state) = unsafe {
        if !plausible(text) || word(text + layout::TYPE) != interpreter.text_type {
            return None;
        }
        (word(text + layout::LENGTH), half(text + layout::STATE))
    };
    let (kind, compact, ascii) = ((state >> 2 & 7) as usize, state >> 5 & 1 != 0, state >> 6 & 1 != 0);
    if !compact || !matches!(kind, 1 | 2 | 4) || length > 1 << 30 {
        return None;
    }
    let (after_ascii, after_compact) = interpreter.layout.text;
    let at = text + if ascii { after_ascii } else { after_compact };
    let most = if ascii { out.len() } else { out.len() / 4 };
    let mut used = 0;
    for i in length.saturating_sub(most)..length {
        // SAFETY: below the string's length, of characters of this size.
        let number = unsafe {
            match kind {
                1 => u32::from(byte(at + i)),
                2 => u32::from((at as *const u16).add(i).read()),
                _ => half(at + 4 * i),
            }
        };
        // What is no character stands for a byte of a path that is not UTF-8.
        let character = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
        let mut utf8 = [0; 4];
        let utf8 = character.encode_utf8(&mut utf8).as_bytes();
        out.get_mut(used..used + utf8.len())?.copy_from_slice(utf8);
        used += utf8.len();
    }
    Some(used)
}

/// The line of the instruction at an offset, from the code object's table of lines. `None`: it is not as expected.
pub(super) fn line(layout: &Layout, code: usize, offset: usize) -> Option<u32> {
    // SAFETY: a code object, and its table, which is of `bytes`.
    let (first, table) = unsafe {
        let table = word(code + layout::LINES);
        let length = word(table + layout::LENGTH);
        if length > 1 << 30 {
            return None;
        }
        let bytes = core::slice::from_raw_parts((table + layout::BYTES) as *const u8, length);
        (half(code + layout.first_line), bytes)
    };
    Some(line_in(table, first, offset))
}

/// The same, from the table's bytes (`Objects/locations.md` in CPython's sources): each entry begins with a byte whose highest bit is set, and says how
/// many instructions it is of and how far its line is from the one before.
fn line_in(table: &[u8], first: u32, offset: usize) -> u32 {
    let (mut line, mut known, mut end, mut at) = (i64::from(first), i64::from(first), 0, 0);
    while let Some(&head) = table.get(at) {
        let next = at + 1 + table.get(at + 1..).map_or(0, |rest| rest.iter().take_while(|&&b| b < 0x80).count());
        let form = head >> 3 & 15;
        line += match form {
            10..=12 => i64::from(form) - 10,
            13 | 14 => signed(table.get(at + 1..next).unwrap_or_default()),
            _ => 0,
        };
        // Form 15 is of no line: the one before stands for it.
        if form != 15 {
            known = line;
        }
        end += (usize::from(head & 7) + 1) * 2;
        if offset < end {
            break;
        }
        at = next;
    }
    u32::try_from(known).unwrap_or(first)
}

/// A number of six bits in each byte, the lowest first and the sign in the lowest bit; a byte of which bit 6 is set is not the last.
fn signed(bytes: &[u8]) -> i64 {
    let mut number = 0u64;
    for (i, &b) in bytes.iter().take(10).enumerate() {
        number |= u64::from(b & 63) << (6 * i);
        if b & 64 == 0 {
            break;
        }
    }
    let size = (number >> 1) as i64;
    if number & 1 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_that_python_tells() {
        // `def f(a):\n    b = a + 1\n\n    return (b\n            .real)` at line 10, in Python 3.11; what co_lines() gives.
        let table = [
            0x80, 0x00, 0xd8, 0x08, 0x09, 0x88, 0x41, 0x89, 0x05, 0x80, 0x41, 0xe0, 0x0c, 0x0d, 0xdc, 0x0d, 0x11, 0xf0,
            0x03, 0x01, 0x05, 0x13,
        ];
        for (instructions, expected) in [(0..2, 10), (2..12, 11), (12..14, 13), (14..24, 14), (24..26, 13)] {
            assert!(instructions.step_by(2).all(|offset| line_in(&table, 10, offset) == expected), "{expected}");
        }
    }

    #[test]
    fn far_and_missing_lines() {
        // One instruction 100 lines down (form 13: 200 = 8 + 3 * 64), one of no line, one 100 lines up.
        let table = [0x80 | 13 << 3, 64 | 8, 3, 0x80 | 15 << 3, 0x80 | 13 << 3, 64 | 9, 3];
        assert_eq!([0, 2, 4].map(|offset| line_in(&table, 7, offset)), [107, 107, 7]);
        assert_eq!(line_in(&[], 7, 100), 7);
        assert_eq!(line_in(&[0x01, 0x02, 0xff], 7, 100), 7);
    }
}
