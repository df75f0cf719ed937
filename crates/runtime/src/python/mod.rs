//! Python: lines of the program in place of the interpreter's own frames.
//!
//! Seen from outside, a program in CPython is one function that calls itself. So a walk that comes to the interpreter's code ([`code`]) ends there,
//! and goes on with the frames of Python that the calling thread is in ([`frames`]). They are read from the interpreter's memory, whose layout
//! is known by version ([`layout`]); what they stand for ([`code_object`]) is learned once for each line ([`table`]).
//!
//! A thread reads only what its own frames hold alive, so no lock is needed: either it has the interpreter's, or it has let go of it in the midst of
//! a call, and its frames stay as they are until it has it back. Only when the interpreter ends, other threads' frames are taken from under
//! them; so without the lock only the process's first thread is asked, which is the one that ends it.
//!
//! Nothing of this is done where the interpreter is part of another program, or came later by dlopen: there native frames stay.

mod code_object;
mod layout;
mod table;

use crate::tls::Thread;
use crate::unwind::Unwinder;
use crate::{process, range};
use code_object::Described;
use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use layout::{KNOWN, Layout};
use table::Line;
use wire::event::{Event, MAX_FRAMES};
use wire::identity;

/// Frames that are no frames of Python do not count as frames; steps are limited all the same.
const MAX_STEPS: usize = 4 * MAX_FRAMES;
/// The first module index of a function: there are not so many modules.
const FIRST_INDEX: u16 = 4096;
/// Bytes that the interpreter maps at a time, from which it serves objects of up to 512 bytes (`Objects/obmalloc.c`).
pub const ARENA: usize = 1 << 20;

/// The interpreter of this process.
struct Interpreter {
    layout: &'static Layout,
    /// `PyCode_Type` and `PyUnicode_Type`.
    code_type: usize,
    text_type: usize,
    /// `PyGILState_GetThisThreadState`: the calling thread's state, whether it has the lock or not.
    own: extern "C" fn() -> usize,
    /// `PyThreadState_GetUnchecked`: the same if it has the lock; in old versions that of whoever has it.
    locked: extern "C" fn() -> usize,
}

static INTERPRETER: AtomicPtr<Interpreter> = AtomicPtr::new(core::ptr::null_mut());
/// Where the interpreter's code begins, and its length.
static CODE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// The code of the interpreter, for one walk, which comes to it once.
pub struct Code {
    start: usize,
    /// 0: there is none, or the walk has come to it.
    length: usize,
}

/// The interpreter's code; none where lines of Python are not known.
#[inline(always)]
pub fn code() -> Code {
    Code { length: CODE[1].load(Acquire), start: CODE[0].load(Relaxed) }
}

impl Code {
    /// Whether a walk comes to it with this frame, and for the first time.
    #[inline(always)]
    pub fn begins(&mut self, return_address: usize) -> bool {
        let begins = return_address.wrapping_sub(self.start) < self.length;
        if begins {
            self.length = 0;
        }
        begins
    }

    /// Whether the walk has ended before it.
    #[inline(always)]
    pub fn is_ahead(&self) -> bool {
        self.length != 0
    }
}

/// A frame of Python.
#[derive(Clone, Copy)]
pub struct Frame {
    /// What it is called in every run.
    pub token: u64,
    /// Its function and line, as a word of an event.
    pub word: u64,
    code: usize,
}

/// Looks for an interpreter that is known; `say` is told if there is one that is not.
pub fn prepare(say: impl FnOnce(&str)) {
    let [runtime, version, code_type, text_type, own] =
        [c"_PyRuntime", c"Py_Version", c"PyCode_Type", c"PyUnicode_Type", c"PyGILState_GetThisThreadState"].map(symbol);
    let locked = [c"PyThreadState_GetUnchecked", c"_PyThreadState_UncheckedGet"].map(symbol);
    let locked = locked.into_iter().find(|&at| at != 0).unwrap_or(0);
    if [runtime, code_type, text_type, own, locked].contains(&0) || !is_interpreter(own) {
        return;
    }
    // SAFETY: a constant of the interpreter's, PY_VERSION_HEX; it has it since 3.11.
    let version = if version == 0 { 0 } else { unsafe { word(version) } };
    let (major, minor, release) = (version >> 24 & 255, version >> 16 & 255, version >> 4 & 15);
    let known = KNOWN.iter().find(|l| major == 3 && usize::from(l.minor) == minor && release == 15);
    // SAFETY: two types of the interpreter's. One that has other fields than usual before its size has something else there.
    let fits = |l: &&Layout| unsafe { word(code_type + layout::BASIC_SIZE) == l.instructions };
    let Some(layout) = known.filter(fits) else {
        return say(
            "a Python of a kind whose frames Hearth cannot read (it knows releases of CPython 3.11 to 3.14 with the global lock) ran: its sites show the \
             interpreter's functions in place of lines of Python\n",
        );
    };
    let room = range::pool(size_of::<Interpreter>(), align_of::<Interpreter>()).cast::<Interpreter>();
    if room.is_null() || !table::prepare() {
        return;
    }
    let code = Unwinder::range_of(own);
    // SAFETY: fresh, aligned room of the pool, kept for ever; functions without arguments that give a pointer.
    unsafe {
        let function = |at: usize| core::mem::transmute::<usize, extern "C" fn() -> usize>(at);
        room.write(Interpreter { layout, code_type, text_type, own: function(own), locked: function(locked) });
    }
    INTERPRETER.store(room, Release);
    CODE[0].store(code.start, Relaxed);
    CODE[1].store(code.end.saturating_sub(code.start), Release);
}

fn symbol(name: &CStr) -> usize {
    // SAFETY: a NUL-terminated name.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) as usize }
}

/// Whether the program or library that this code is in is Python itself, and no program that has it within.
fn is_interpreter(code: usize) -> bool {
    // SAFETY: plain data; dladdr1 fills it.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    let mut map: *const c_void = core::ptr::null();
    const RTLD_DL_LINKMAP: i32 = 2;
    // SAFETY: an address and room for the answer; a name that the loader keeps.
    let name = unsafe {
        if libc::dladdr1(code as *const c_void, &mut info, (&raw mut map).cast(), RTLD_DL_LINKMAP) == 0 || map.is_null()
        {
            return false;
        }
        // The second word of a `link_map` (`link.h`).
        CStr::from_ptr(*map.cast::<*const core::ffi::c_char>().add(1)).to_bytes()
    };
    let mut program = [0; 1024];
    let name = if name.is_empty() {
        let (link, at) = (c"/proc/self/exe".as_ptr() as usize, program.as_mut_ptr() as usize);
        let args = [libc::AT_FDCWD as usize, link, at, program.len(), 0, 0];
        // SAFETY: writes at most the buffer's length.
        let length = unsafe { crate::sys::call(libc::SYS_readlinkat, args) };
        program.get(..length.max(0) as usize).unwrap_or_default()
    } else {
        name
    };
    let file = name.rsplit(|&b| b == b'/').next().unwrap_or(name);
    file.starts_with(b"python") || file.starts_with(b"libpython")
}

/// Goes through the frames of Python that the calling thread is in, innermost first; whether there are more of them than that. `None`: it is in none, or
/// they cannot be told; the interpreter's own frames have to do.
#[inline(always)]
pub fn frames(thread: &Thread, mut each: impl FnMut(Frame)) -> Option<bool> {
    // SAFETY: null or what `prepare` stored.
    let interpreter = unsafe { INTERPRETER.load(Acquire).as_ref() }?;
    let mut frame = interpreter.innermost(thread)?;
    let mut told = 0;
    for _ in 0..MAX_STEPS {
        if frame == 0 {
            return (told > 0).then_some(false);
        }
        if told == MAX_FRAMES {
            return Some(true);
        }
        let layout = interpreter.layout;
        if !plausible(frame) {
            return None;
        }
        // SAFETY: a frame of the calling thread, which is in it.
        let (owner, code, at, previous) = unsafe {
            let at = word(frame + layout.instruction);
            // References of later versions have marks in their lowest bits.
            (byte(frame + layout.owner), word(frame + layout.code) & !7, at, word(frame + layout.previous))
        };
        if owner < layout::NO_FRAME {
            match interpreter.line(code, at)? {
                Line::Passed => {}
                Line::LeftOut => {
                    process::info().into_iter().for_each(|h| _ = h.counters.python_left_out.fetch_add(1, Relaxed));
                    return None;
                }
                Line::Known { token, word } => {
                    each(Frame { token, word, code });
                    told += 1;
                }
            }
        }
        frame = previous;
    }
    (told > 0).then_some(true)
}

/// The chain of a call stack (`wire::identity::chain`) that goes on with the frames of Python; and as [`frames`].
#[inline(never)]
pub fn chain(thread: &Thread, before: u64) -> Option<(u64, bool)> {
    let mut chain = before;
    let truncated = frames(thread, |frame| chain = identity::chain(chain, frame.token))?;
    Some((chain, truncated))
}

/// Publishes the function of a frame. `false`: that could not be done now.
pub fn publish(thread: &Thread, frame: Frame) -> bool {
    let index = (frame.word >> 48) as u16;
    // SAFETY: null or what `prepare` stored.
    let Some(interpreter) = (unsafe { INTERPRETER.load(Acquire).as_ref() }) else { return false };
    table::publish(index - FIRST_INDEX, || {
        Described::of(interpreter, frame.code).is_some_and(|function| {
            let event = Event::Module { index, build_id: &[], path: function.path() };
            process::publish(thread, process::time(), event)
        })
    })
}

/// Whether a module's index is a function's, which is published with its frames.
pub fn is_function(index: u16) -> bool {
    (FIRST_INDEX..wire::event::NO_MODULE).contains(&index)
}

impl Interpreter {
    /// The innermost frame of the calling thread; `None`: it is in no Python, or that cannot be told.
    fn innermost(&self, thread: &Thread) -> Option<usize> {
        let mut state = (self.locked)();
        if state == 0 || self.layout.one_for_all {
            let own = (self.own)();
            let first = || process::info().is_some_and(|h| h.pid.load(Relaxed) == thread.tid.get());
            state = if state == own || first() { own } else { 0 };
        }
        if !plausible(state) {
            return None;
        }
        // SAFETY: the calling thread's state.
        unsafe {
            if word(state + self.layout.thread_id) != libc::pthread_self() as usize {
                return None;
            }
            let (at, within) = self.layout.current;
            let current = word(state + at);
            match within {
                Some(within) if plausible(current) => Some(word(current + within)),
                Some(_) => None,
                None => Some(current),
            }
        }
    }

    /// The line of an instruction of a code object. `None`: that is not one.
    #[inline(always)]
    fn line(&self, code: usize, at: usize) -> Option<Line> {
        // SAFETY: checked to be where an object can be, then to be a code object.
        let (first, file, name, lines) = unsafe {
            if !plausible(code) || word(code + layout::TYPE) != self.code_type {
                return None;
            }
            let (file, name) = (word(code + layout::FILE), word(code + layout::NAME));
            (half(code + self.layout.first_line) as usize, file, name, word(code + layout::LINES))
        };
        let offset = at.wrapping_sub(code + self.layout.instructions);
        // Products that do not wait for each other, by odd numbers without a pattern (digits of pi).
        let parts = [
            (code, 0x243f_6a88_85a3_08d3),
            (offset, 0x1319_8a2e_0370_7345),
            (file ^ name.rotate_left(32), 0xa409_3822_299f_31d1),
            (lines ^ first << 40, 0x082e_fa98_ec4e_6c89),
        ];
        let key = parts.iter().fold(0u64, |sum, &(part, by)| sum.wrapping_add((part as u64).wrapping_mul(by)));
        match table::find(key) {
            Some((line, 0)) => Some(line),
            Some((line, print)) if fingerprint(lines) == Some(print) => Some(line),
            _ => self.learn(key, code, offset),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&self, key: u64, code: usize, offset: usize) -> Option<Line> {
        // SAFETY: a code object.
        let print = fingerprint(unsafe { word(code + layout::LINES) })?;
        let function = Described::of(self, code)?;
        let line = if function.imports() {
            Line::Passed
        } else {
            // A frame that has not begun is before its first instruction.
            let offset = if offset > 1 << 30 { 0 } else { offset };
            let line = u64::from(code_object::line(self.layout, code, offset)?);
            match table::number(identity::text_id(function.path())) {
                None => Line::LeftOut,
                Some(number) => Line::Known {
                    token: identity::python_token(function.file(), function.name(), line),
                    word: u64::from(FIRST_INDEX + number) << 48 | line,
                },
            }
        };
        table::keep(key, line, if function.is_passing() { print } else { 0 });
        Some(line)
    }
}

/// A number for what a table of lines says, or a little of a long one: enough to tell code that was compiled at the same place, from the same names, but
/// another text. Not 0. `None`: it is not as expected.
fn fingerprint(lines: usize) -> Option<u64> {
    if !plausible(lines) {
        return None;
    }
    // SAFETY: the table of a code object, of `bytes`, and of so many.
    let bytes = unsafe {
        let length = word(lines + layout::LENGTH);
        if length > 1 << 30 {
            return None;
        }
        core::slice::from_raw_parts((lines + layout::BYTES) as *const u8, length)
    };
    let ends = [bytes.get(..64).unwrap_or(bytes), bytes.get(bytes.len().saturating_sub(16)..).unwrap_or_default()];
    Some(identity::text_id(ends[0]) ^ identity::text_id(ends[1]).rotate_left(1) | 1)
}

/// Whether an object of the interpreter's can be there.
#[inline(always)]
fn plausible(at: usize) -> bool {
    at % 8 == 0 && (4096..1 << 47).contains(&at)
}

/// # Safety
/// There must be an aligned word.
#[inline(always)]
unsafe fn word(at: usize) -> usize {
    // SAFETY: the caller's.
    unsafe { (at as *const usize).read() }
}

/// # Safety
/// There must be an aligned half of a word.
#[inline(always)]
unsafe fn half(at: usize) -> u32 {
    // SAFETY: the caller's.
    unsafe { (at as *const u32).read() }
}

/// # Safety
/// There must be a byte.
#[inline(always)]
unsafe fn byte(at: usize) -> u8 {
    // SAFETY: the caller's.
    unsafe { (at as *const u8).read() }
}
