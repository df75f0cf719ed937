//! Where CPython's structures have what is read of them, version by version: offsets in bytes.
//!
//! They are the same in all releases of a version, and checked before they are believed: the size of code objects that the interpreter
//! states itself, and in each thread state the thread that it is of.

/// Offsets of one version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// 11 for 3.11.
    pub minor: u8,
    /// `PyThreadState.thread_id`.
    pub thread_id: usize,
    /// `PyThreadState.current_frame`, or `cframe`, in which the current frame is at the second offset.
    pub current: (usize, Option<usize>),
    /// `_PyInterpreterFrame.previous`.
    pub previous: usize,
    /// `_PyInterpreterFrame.f_code`, later `f_executable`.
    pub code: usize,
    /// `_PyInterpreterFrame.prev_instr`, later `instr_ptr`.
    pub instruction: usize,
    /// `_PyInterpreterFrame.owner`.
    pub owner: usize,
    /// `PyCodeObject.co_firstlineno`.
    pub first_line: usize,
    /// `sizeof(PyCodeObject)` as its type has it: the offset of the instructions.
    pub instructions: usize,
    /// `sizeof(PyASCIIObject)` and `sizeof(PyCompactUnicodeObject)`: where a string's characters begin.
    pub text: (usize, usize),
    /// There is one word for the thread that has the lock, and not one in each thread.
    pub one_for_all: bool,
}

/// `tp_basicsize` of a type.
pub(super) const BASIC_SIZE: usize = 32;
/// `ob_type` of an object.
pub(super) const TYPE: usize = 8;
/// `ob_size` of `bytes`, and `length` of a string.
pub(super) const LENGTH: usize = 16;
/// `ob_sval` of `bytes`.
pub(super) const BYTES: usize = 32;
/// `state` of a string.
pub(super) const STATE: usize = 32;
/// `PyCodeObject.co_filename`.
pub(super) const FILE: usize = 112;
/// `PyCodeObject.co_qualname`.
pub(super) const NAME: usize = 128;
/// `PyCodeObject.co_linetable`.
pub(super) const LINES: usize = 136;
/// From this value of a frame's owner on it is one that the interpreter puts between those of Python.
pub(super) const NO_FRAME: u8 = 3;

/// The versions that are known: each was run.
pub(super) const KNOWN: [Layout; 4] = [
    Layout {
        minor: 11,
        thread_id: 152,
        current: (56, Some(8)),
        previous: 48,
        code: 32,
        instruction: 56,
        owner: 69,
        first_line: 72,
        instructions: 184,
        text: (48, 72),
        one_for_all: true,
    },
    Layout {
        minor: 12,
        thread_id: 136,
        current: (56, Some(0)),
        previous: 8,
        code: 0,
        instruction: 56,
        owner: 70,
        first_line: 68,
        instructions: 192,
        text: (40, 56),
        one_for_all: false,
    },
    Layout {
        minor: 13,
        thread_id: 152,
        current: (72, None),
        previous: 8,
        code: 0,
        instruction: 56,
        owner: 70,
        first_line: 68,
        instructions: 200,
        text: (40, 56),
        one_for_all: false,
    },
    Layout {
        minor: 14,
        thread_id: 152,
        current: (72, None),
        previous: 8,
        code: 0,
        instruction: 56,
        owner: 74,
        first_line: 68,
        instructions: 208,
        text: (40, 56),
        one_for_all: false,
    },
];
