//! From the call stack of an allocation to its site, and the site's stack to the recorder.

use crate::seats::{self, SEATS};
use crate::tls::Thread;
use crate::unwind::{Memo, Met, Unwinder, Walk};
use crate::{annotated, plan, process, python, range, sys};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use wire::event::{Apart, Event, MAX_FRAMES, MAX_PATH, NO_MODULE};
use wire::identity::{self, LONGEST_NAME, NAMED, SOURCE};
use wire::image::Image;

static UNWINDER: AtomicPtr<Unwinder> = AtomicPtr::new(core::ptr::null_mut());
/// What threads remember of their stacks, by their seats; null: there was no memory for it.
static MEMOS: AtomicPtr<Memo> = AtomicPtr::new(core::ptr::null_mut());

/// Frames that lie outside the runtime and are published in one event.
struct Frames {
    words: UnsafeCell<[u64; MAX_FRAMES]>,
    taken: AtomicBool,
}
// SAFETY: used only by whoever has set `taken`.
unsafe impl Sync for Frames {}
static FRAMES: Frames = Frames { words: UnsafeCell::new([0; MAX_FRAMES]), taken: AtomicBool::new(false) };

/// Generation of the process in which a module was published, by index (4096 modules).
static PUBLISHED: [AtomicU32; 4096] = [const { AtomicU32::new(0) }; 4096];

/// Sets the unwinder up; `false` if there is no memory for it.
pub fn prepare() -> bool {
    let room = range::pool(size_of::<Unwinder>(), align_of::<Unwinder>()).cast::<Unwinder>();
    let Some(unwinder) = Unwinder::new(Unwinder::own_code()) else {
        return false;
    };
    if room.is_null() {
        return false;
    }
    // SAFETY: fresh, aligned room of the pool, kept for ever.
    unsafe { room.write(unwinder) };
    UNWINDER.store(room, Release);
    MEMOS.store(sys::map_table(SEATS * size_of::<Memo>()) as *mut Memo, Release);
    true
}

fn unwinder() -> Option<&'static Unwinder> {
    // SAFETY: null or what `prepare` stored.
    unsafe { UNWINDER.load(Acquire).as_ref() }
}

/// In a forked child: whoever was publishing does not exist here.
pub fn forget_parent() {
    FRAMES.taken.store(false, Release);
}

/// A library was unloaded: what is known of its code no longer holds.
pub fn forget_modules() {
    if let Some(unwinder) = unwinder() {
        unwinder.invalidate();
    }
}

#[inline(always)]
fn walk(unwinder: &Unwinder, thread: &Thread, on: impl FnMut(Met) -> bool) -> Walk {
    // SAFETY: the calling thread's own block; walks do not nest (the thread is marked busy).
    unwinder.walk_while(unsafe { &mut *thread.stack.get() }, on)
}

#[inline(always)]
fn walk_or_remember(unwinder: &Unwinder, thread: &Thread) -> Walk {
    let memos = MEMOS.load(Acquire);
    match seats::of(thread).filter(|_| !memos.is_null()) {
        // SAFETY: the table has one for each seat, which is the calling thread's alone; the stack as in `walk`.
        Some(seat) => unsafe { unwinder.walk_or_remember(&mut *thread.stack.get(), &mut *memos.add(seat.index())) },
        None => walk(unwinder, thread, |_| true),
    }
}

/// What asks for memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asker {
    /// Whoever is on the stack.
    Program,
    /// Perhaps Python's allocator, by itself: what it maps for objects to come is not of the line that happens to need one more.
    Arena,
    /// A library that places objects for its callers: its innermost frames, as long as they lie in one module, are left out.
    Library,
}

/// The id of the site that allocates right now.
#[inline(always)]
pub fn site_id(thread: &Thread, asker: Asker) -> u64 {
    let Some(unwinder) = unwinder() else { return identity::site_id(identity::EMPTY_SITE) };
    let (chain, truncated) = if python::code().is_ahead() {
        chain_with_python(unwinder, thread, asker)
    } else if let Some(path) = annotated::path() {
        return path.site_id();
    } else if let Some(image) = plan::with_ends() {
        chain_as_planned(unwinder, thread, image)
    } else {
        let walked = walk_or_remember(unwinder, thread);
        (walked.chain, walked.truncated)
    };
    if let Some(h) = process::info().filter(|_| truncated) {
        h.counters.truncated.fetch_add(1, Relaxed);
    }
    identity::site_id(chain)
}

/// The chain of the stack in a process that runs Python. By itself, so that other programs do not pay for it.
#[inline(never)]
fn chain_with_python(unwinder: &Unwinder, thread: &Thread, asker: Asker) -> (u64, bool) {
    let (mut interpreter, mut in_python) = (python::code(), None);
    let walked = walk(unwinder, thread, |met| {
        if interpreter.begins(met.return_address) {
            in_python = if asker == Asker::Arena && met.before == identity::EMPTY_SITE {
                Some((identity::chain(met.before, met.token), false))
            } else {
                python::chain(thread, met.before)
            };
        }
        in_python.is_none()
    });
    if walked.truncated && interpreter.is_ahead() {
        in_python = python::chain(thread, walked.chain);
    }
    in_python.unwrap_or((walked.chain, walked.truncated))
}

/// A stack of which a plan may know the innermost frames only: the most that it knows are its site. For the others it is walked to its end.
struct AsPlanned {
    image: &'static Image<'static>,
    met: u64,
    /// Chain and number of the frames that are known.
    known: Option<(u64, u64)>,
}

impl AsPlanned {
    fn by(image: &'static Image<'static>) -> AsPlanned {
        AsPlanned { image, met: 0, known: None }
    }

    /// Takes one more frame; whether the walk goes on.
    fn goes_on(&mut self, met: Met) -> bool {
        self.met += 1;
        let chain = identity::chain(met.before, met.token);
        if self.image.ends_with(chain) {
            self.known = Some((chain, self.met));
        }
        self.known.is_none() || self.image.longest().is_some_and(|longest| self.met < longest)
    }
}

/// The chain of the stack where a plan knows the innermost frames only of some.
#[inline(never)]
fn chain_as_planned(unwinder: &Unwinder, thread: &Thread, image: &'static Image<'static>) -> (u64, bool) {
    let mut planned = AsPlanned::by(image);
    let walked = walk(unwinder, thread, |met| planned.goes_on(met));
    planned.known.map_or((walked.chain, walked.truncated), |(chain, _)| (chain, false))
}

/// Frames of a library that places objects for its callers: the innermost ones, as long as they lie in one module. Sites are the callers'.
struct Within(Option<u16>);

impl Within {
    /// Whether a frame, told innermost first, is of that library.
    fn has(&mut self, unwinder: &Unwinder, return_address: usize, innermost: bool) -> bool {
        let module = unwinder.frame_of(return_address).0;
        if innermost {
            self.0 = Some(module);
        }
        self.0 = self.0.filter(|&m| m == module);
        self.0.is_some()
    }
}

/// The id of the site that has called the library which calls the runtime right now.
pub fn callers_site_id(thread: &Thread) -> u64 {
    let Some(unwinder) = unwinder() else { return identity::site_id(identity::EMPTY_SITE) };
    let (mut within, mut innermost, mut chain) = (Within(None), true, identity::EMPTY_SITE);
    let (mut interpreter, mut in_python) = (python::code(), None);
    walk(unwinder, thread, |met| {
        if !within.has(unwinder, met.return_address, core::mem::take(&mut innermost)) {
            if interpreter.begins(met.return_address) {
                in_python = python::chain(thread, chain);
            }
            chain = identity::chain(chain, met.token);
        }
        in_python.is_none()
    });
    identity::site_id(in_python.map_or(chain, |(chain, _)| chain))
}

/// Key and load bias of the module at an address.
pub fn module_at(address: usize) -> Option<(u64, usize)> {
    unwinder()?.module_at(address)
}

/// The id of a function, as a site of one frame: its first instruction is taken for a return address one byte further, as
/// those are looked up one byte before.
pub fn function_id(function: usize) -> u64 {
    let token = unwinder().map_or(0, |u| u.token_of(function + 1));
    identity::site_id(identity::chain(identity::EMPTY_SITE, token))
}

/// Publishes the one frame of a function. `false` if that could not be done now.
pub fn publish_function(thread: &Thread, id: u64, function: usize) -> bool {
    let Some(unwinder) = unwinder() else { return false };
    let (module, offset) = unwinder.frame_of(function + 1);
    let word = u64::from(module) << 48 | offset & ((1 << 48) - 1);
    publish_module(unwinder, thread, module)
        && process::publish(
            thread,
            process::time(),
            Event::Site { site: id, frames: &[word], truncated: false, apart: None },
        )
}

/// Publishes a name as a site of one frame, in a module of its own that no file is: the `number`-th name. `false` if that could not be done now.
pub fn publish_name(thread: &Thread, id: u64, number: usize, name: &[u8]) -> bool {
    let Some(published) = PUBLISHED.len().checked_sub(1 + number).and_then(|i| PUBLISHED.get(i)) else { return false };
    let index = (PUBLISHED.len() - 1 - number) as u16;
    let mut path = [0u8; NAMED.len() + LONGEST_NAME];
    let Some(path) = path.get_mut(..NAMED.len() + name.len()) else { return false };
    path[..NAMED.len()].copy_from_slice(NAMED.as_bytes());
    path[NAMED.len()..].copy_from_slice(name);
    let generation = process::generation();
    if published.load(Acquire) != generation {
        if !process::publish(thread, process::time(), Event::Module { index, build_id: &[], path }) {
            return false;
        }
        published.store(generation, Release);
    }
    let frames = &[u64::from(index) << 48];
    process::publish(thread, process::time(), Event::Site { site: id, frames, truncated: false, apart: None })
}

/// Module index of the positions in the source of a module.
const FIRST_ANNOTATED: u16 = 2048;

/// Publishes the positions of an annotated program that led here, as frames in the innermost module on the stack that has any.
#[inline(never)]
fn publish_path(unwinder: &Unwinder, thread: &Thread, site: u64, apart: Option<Apart>, path: annotated::Path) -> bool {
    let mut of = None;
    walk(unwinder, thread, |met| {
        let (index, _) = unwinder.frame_of(met.return_address);
        of = unwinder.module(index).filter(|m| m.annotated).map(|m| (index, m));
        of.is_none()
    });
    let index = match of {
        // Of calls that were not annotated nothing is left on the stack: tail calls.
        None => NO_MODULE,
        Some((index, module)) => {
            let index = index + FIRST_ANNOTATED;
            let Some(published) = PUBLISHED.get(usize::from(index)) else { return false };
            let generation = process::generation();
            if published.load(Acquire) != generation {
                let mut path = [0; SOURCE.len() + MAX_PATH];
                let whole = SOURCE.len() + module.path.len();
                path[..SOURCE.len()].copy_from_slice(SOURCE.as_bytes());
                let Some(path) = path.get_mut(..whole.min(MAX_PATH)) else { return false };
                let Some(rest) = module.path.get(..path.len() - SOURCE.len()) else { return false };
                path[SOURCE.len()..].copy_from_slice(rest);
                let event = Event::Module { index, build_id: module.build_id, path };
                if !process::publish(thread, process::time(), event) {
                    return false;
                }
                published.store(generation, Release);
            }
            index
        }
    };
    let (mut words, mut depth) = ([0; 3], 0);
    for (word, position) in words.iter_mut().zip(path.positions()) {
        *word = u64::from(index) << 48 | u64::from(position);
        depth += 1;
    }
    let frames = words.get(..depth).unwrap_or(&[]);
    process::publish(thread, process::time(), Event::Site { site, frames, truncated: false, apart })
}

/// Publishes the stack of the site that allocates right now, after the modules it refers to. `false` if that could not
/// be done now; the site's next allocation tries again.
pub fn publish(thread: &Thread, site: u64, apart: Option<Apart>, asker: Asker) -> bool {
    let Some(unwinder) = unwinder() else { return false };
    if let Some(path) = annotated::path().filter(|_| asker != Asker::Library && !python::code().is_ahead()) {
        return publish_path(unwinder, thread, site, apart, path);
    }
    if FRAMES.taken.swap(true, Acquire) {
        return false;
    }
    // SAFETY: `taken` is ours.
    let words = unsafe { &mut *FRAMES.words.get() };
    let (mut within, mut innermost, mut depth) = (Within(None), true, 0);
    let (mut interpreter, mut in_python, mut functions) = (python::code(), None, true);
    let mut go_on_in_python = |words: &mut [u64; MAX_FRAMES], depth: &mut usize| {
        let mut end = *depth;
        let truncated = python::frames(thread, |frame| {
            if let Some(word) = words.get_mut(end) {
                *word = frame.word;
                functions &= python::publish(thread, frame);
            }
            end += 1;
        })?;
        *depth = end.min(MAX_FRAMES);
        Some(truncated || end > MAX_FRAMES)
    };
    let of_program = asker != Asker::Library && !interpreter.is_ahead();
    let mut planned = plan::with_ends().filter(|_| of_program).map(AsPlanned::by);
    let walked = walk(unwinder, thread, |met| {
        let at = met.return_address;
        if asker == Asker::Library && within.has(unwinder, at, core::mem::take(&mut innermost)) {
            return true;
        }
        if interpreter.begins(at) {
            if asker == Asker::Arena && depth == 0 {
                in_python = Some(false);
            } else {
                in_python = go_on_in_python(words, &mut depth);
                if in_python.is_some() {
                    return false;
                }
            }
        }
        if let Some(word) = words.get_mut(depth) {
            let (module, offset) = unwinder.frame_of(at);
            *word = u64::from(module) << 48 | offset & ((1 << 48) - 1);
            depth += 1;
        }
        in_python.is_none() && planned.as_mut().is_none_or(|planned| planned.goes_on(met))
    });
    if walked.truncated && interpreter.is_ahead() {
        in_python = go_on_in_python(words, &mut depth);
    }
    let mut truncated = in_python.unwrap_or(walked.truncated);
    if let Some((_, frames)) = planned.and_then(|planned| planned.known) {
        (depth, truncated) = (depth.min(frames as usize), false);
    }
    let words = words.get(..depth).unwrap_or(&[]);
    let done = functions
        && words.iter().all(|word| publish_module(unwinder, thread, (word >> 48) as u16))
        && process::publish(thread, process::time(), Event::Site { site, frames: words, truncated, apart });
    FRAMES.taken.store(false, Release);
    done
}

fn publish_module(unwinder: &Unwinder, thread: &Thread, index: u16) -> bool {
    let Some(published) = PUBLISHED.get(usize::from(index)) else {
        return index == NO_MODULE || python::is_function(index);
    };
    let generation = process::generation();
    if published.load(Acquire) == generation {
        return true;
    }
    let Some(module) = unwinder.module(index) else { return false };
    let event = Event::Module { index, build_id: module.build_id, path: module.path };
    let done = process::publish(thread, process::time(), event);
    if done {
        published.store(generation, Release);
    }
    done
}
