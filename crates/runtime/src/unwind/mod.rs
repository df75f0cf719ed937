//! The true call stack of an allocation, in tens of nanoseconds, on programs built without frame pointers.
//!
//! A walk looks each return address up in a table ([`cache`]) that says how to get from that frame to its parent
//! ([`rule`]) and what the frame is called in every run of the program (its token, `wire::identity`). A rule is learned
//! once per return address from the module's unwind information ([`cfi`], [`modules`]). Nothing but return addresses
//! decides: the same return address at the same depth may be reached by different paths. What a packed rule cannot say
//! (signal frames, unusual registers) is walked [`exact`]ly, with all registers. No step leaves the stack ([`stack`]), and
//! each goes towards its base.
//!
//! Called inside `malloc` of any program, therefore: no allocation, no locks, no panics, no thread-local storage with
//! destructors; memory comes from one mapping. Learning a rule takes about 8 KiB of stack.

mod cache;
mod cfi;
mod exact;
mod memo;
mod modules;
mod rule;
mod stack;
#[cfg(test)]
mod tests;

pub use memo::Memo;
pub use modules::ModuleInfo;
pub use stack::ThreadStack;

use cache::{Epoch, Known, RuleCache};
use core::mem::MaybeUninit;
use core::ops::Range;
use memo::{Origin, Trace, Untraced};
use modules::Modules;
use rule::Rule;
use wire::event::{MAX_FRAMES, NO_MODULE};
use wire::identity;

/// What all threads share: the rules and modules learned so far.
pub struct Unwinder {
    rules: RuleCache,
    modules: Modules,
    /// Code whose innermost frames are not part of a stack: the interposer's own.
    own: Range<usize>,
}

/// A stack that was walked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// `wire::identity::chain` over the tokens of the frames, innermost first; `site_id` of it is the site.
    pub chain: u64,
    /// Number of frames.
    pub depth: u32,
    /// The outermost frame was not reached: the stack is deeper than [`MAX_FRAMES`], there was no telling where a
    /// frame's parent is, or the walk was ended.
    pub truncated: bool,
}

/// A frame that a walk has come to.
#[derive(Clone, Copy)]
pub struct Met {
    /// Where it goes on.
    pub return_address: usize,
    /// What it is called in every run.
    pub token: u64,
    /// [`Walk::chain`] of the frames before it.
    pub before: u64,
}

/// The registers that calls preserve, and where the code is, at one moment in the function that starts a walk.
#[repr(C)]
#[derive(Clone, Copy)]
struct Start {
    rip: usize,
    rsp: usize,
    rbp: usize,
    rbx: usize,
    r12: usize,
    r13: usize,
    r14: usize,
    r15: usize,
}

impl Start {
    /// The registers right here.
    #[inline(always)]
    fn here() -> Start {
        let mut start = MaybeUninit::<Start>::uninit();
        // SAFETY: fills the structure, field by field.
        unsafe {
            core::arch::asm!(
                "lea {t}, [rip]",
                "mov [{s}], {t}",
                "mov [{s} + 8], rsp",
                "mov [{s} + 16], rbp",
                "mov [{s} + 24], rbx",
                "mov [{s} + 32], r12",
                "mov [{s} + 40], r13",
                "mov [{s} + 48], r14",
                "mov [{s} + 56], r15",
                t = out(reg) _,
                s = in(reg) start.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
            start.assume_init()
        }
    }
}

/// Zeroed memory for ever: the tables are mostly empty.
fn map_zeroed(bytes: usize) -> Option<*mut u8> {
    Some(crate::sys::map_table(bytes) as *mut u8).filter(|at| !at.is_null())
}

impl Unwinder {
    /// Maps the tables. `own` is the code whose frames are left out at the inner end ([`Unwinder::own_code`], or empty).
    /// `None` if the memory cannot be mapped.
    ///
    /// Calls `dlsym`, which may allocate on a C library before glibc 2.35.
    pub fn new(own: Range<usize>) -> Option<Unwinder> {
        let memory = map_zeroed(cache::BYTES + modules::BYTES)?;
        // SAFETY: zeroed, page-aligned, long enough, given away here and never unmapped; the cache's length is a
        // multiple of the page size.
        let (rules, modules) = unsafe { (RuleCache::new(memory), Modules::new(memory.add(cache::BYTES))) };
        Some(Unwinder { rules, modules, own })
    }

    /// The code of the module that this function is in: what libhearth.so passes to [`Unwinder::new`] as its own.
    pub fn own_code() -> Range<usize> {
        modules::range_of(Unwinder::own_code as fn() -> Range<usize> as usize)
    }

    /// Walk the stack of the function this is inlined into: `each` gets the return addresses, innermost first, beginning
    /// with that function's own, but without the frames of `own` code before the first foreign one.
    ///
    /// `stack` is the thread's; a signal handler that interrupts a walk must not use the same one (the interposer's guard
    /// against re-entry sees to that).
    #[inline(always)]
    pub fn walk_here(&self, stack: &mut ThreadStack, mut each: impl FnMut(usize)) -> Walk {
        self.walk_while(stack, |frame| {
            each(frame.return_address);
            true
        })
    }

    /// The same as long as `on` says so. A walk that it ends does not have the frame that it was told last.
    #[inline(always)]
    pub fn walk_while(&self, stack: &mut ThreadStack, on: impl FnMut(Met) -> bool) -> Walk {
        self.walk(&Start::here(), stack, on, &mut Untraced)
    }

    /// The stack of the function this is inlined into, which is walked if it is not one of those that the thread remembers.
    #[inline(always)]
    pub fn walk_or_remember(&self, stack: &mut ThreadStack, memo: &mut Memo) -> Walk {
        let start = Start::here();
        if let Some(bounds) = stack.bounds(start.rsp).filter(|bounds| bounds.own) {
            let from = Origin { sp: start.rsp, rip: start.rip, fp: start.rbp, epoch: self.rules.epoch() };
            if let Some(walk) = memo.find(from, bounds.high) {
                return walk;
            }
            if let Some(mut tracer) = memo.trace(from) {
                let walk = self.walk(&start, stack, |_| true, &mut tracer);
                tracer.end(walk);
                return walk;
            }
        }
        self.walk(&start, stack, |_| true, &mut Untraced)
    }

    /// Where the module begins and ends that this address is in; empty if it is in none.
    pub fn range_of(address: usize) -> Range<usize> {
        modules::range_of(address)
    }

    /// Module index (for [`Unwinder::module`]) and offset from its load bias of a return address of a walk just made;
    /// [`NO_MODULE`] and 0 for code outside any module.
    pub fn frame_of(&self, return_address: usize) -> (u16, u64) {
        match self.modules.known(return_address) {
            Some((index, m)) => (index, return_address.wrapping_sub(m.image.bias) as u64),
            None => (NO_MODULE, 0),
        }
    }

    /// What [`Unwinder::frame_of`]'s index stands for. An index keeps its meaning for ever; one module may have two.
    pub fn module(&self, index: u16) -> Option<ModuleInfo<'_>> {
        self.modules.info(index)
    }

    /// Key (`wire::identity::module_key`) and load bias of the module at an address.
    pub fn module_at(&self, address: usize) -> Option<(u64, usize)> {
        self.modules.at(address, || self.rules.forget()).map(|m| (m.key, m.image.bias))
    }

    /// Token of a code address.
    pub fn token_of(&self, pc: usize) -> u64 {
        let module = self.modules.at(pc, || self.rules.forget());
        module.map_or(NO_MODULE_TOKEN, |m| Unwinder::token(m, pc))
    }

    /// To be called after `dlclose`: forgets what was learned if a module is gone.
    pub fn invalidate(&self) {
        if self.modules.drop_unloaded() {
            self.rules.forget();
        }
    }

    #[inline(always)]
    fn walk(
        &self,
        start: &Start,
        stack: &mut ThreadStack,
        each: impl FnMut(Met) -> bool,
        trace: &mut impl Trace,
    ) -> Walk {
        let mut out = Collector::new(&self.own, each);
        let mut epoch = self.rules.epoch();
        let Some(bounds) = stack.bounds(start.rsp) else {
            return out.finish(true);
        };
        let (mut sp, mut fp, mut fp_at) = (start.rsp, start.rbp, 0);
        let (mut place, mut known) = match self.rules.get(epoch.exact(), start.rip) {
            Some((place, known)) => (Some(place), known),
            None => (None, self.learn(epoch, start.rip, true).known),
        };
        loop {
            let rule = known.rule;
            let frame = if rule.is_plain() {
                let Some(frame) = plain_step(rule, sp, fp, bounds.high) else { return out.finish(true) };
                if rule.cfa_from_fp() {
                    trace.by_frame_pointer(fp_at, fp);
                }
                if rule.saved_at_cfa() {
                    fp_at = frame.sp.wrapping_add(rule.fp_distance());
                }
                trace.returns(frame.sp - 8, frame.pc);
                frame
            } else if rule == Rule::END {
                return out.finish(false);
            } else if rule == Rule::COMPLEX {
                trace.unfit();
                return exact::walk(self, start, sp, stack, out);
            } else {
                trace.unfit();
                let Some(frame) = self.rare_step(known, sp, fp, &bounds) else { return out.finish(true) };
                frame
            };
            (sp, fp) = (frame.sp, frame.fp);
            // No address ends the stack; one that no program can have ends what is known of it.
            if frame.pc.wrapping_sub(1) >= cache::ADDRESS_END - 1 {
                return out.finish(frame.pc != 0);
            }
            let found = match place {
                Some(child) => self.rules.parent(child, epoch, frame.pc, &mut stack.surprises),
                None => self.rules.get(epoch, frame.pc),
            };
            let taken;
            (place, known, taken) = match found {
                Some((place, known)) => (Some(place), known, out.frame(frame.pc, known.token)),
                None => {
                    trace.unfit();
                    let learned = self.learn(epoch, frame.pc, false);
                    // Learning may have found that older rules are void.
                    epoch = self.rules.epoch();
                    let taken = if learned.no_module {
                        out.generated_frame(frame.pc)
                    } else {
                        out.frame(frame.pc, learned.known.token)
                    };
                    (None, learned.known, taken)
                }
            };
            if taken.is_none() {
                return out.finish(true);
            }
        }
    }

    /// Steps that a small share of frames takes: a realigned stack, or no unwind information.
    #[cold]
    #[inline(never)]
    fn rare_step(&self, known: Known, sp: usize, fp: usize, bounds: &stack::Range) -> Option<Frame> {
        if known.rule == Rule::GUESS {
            return self.guess(known.token == NO_MODULE_TOKEN, sp, fp, bounds);
        }
        let rule = known.rule;
        let base = if rule.cfa_from_fp() { fp } else { sp };
        let mut cfa = base.wrapping_add(rule.cfa_distance());
        if rule.deref() {
            cfa = read(cfa, sp, bounds.high)?;
        }
        if cfa <= sp || cfa > bounds.high || cfa % 8 != 0 {
            return None;
        }
        let pc = read(cfa - 8, sp, bounds.high)?;
        let fp = if rule.saved_at_cfa() {
            read(cfa.wrapping_add(rule.fp_distance()), sp, bounds.high)?
        } else if rule.saved_at_fp() {
            read(fp.wrapping_add(rule.fp_distance()), sp, bounds.high)?
        } else {
            fp
        };
        Some(Frame { pc, sp: cfa, fp })
    }

    /// A frame without unwind information, taken to have a frame pointer if everything looks like it: it points into the
    /// thread's own stack, and at a return address into a module (or, for code generated at run time, at least at an
    /// address that could be one).
    fn guess(&self, generated: bool, sp: usize, fp: usize, bounds: &stack::Range) -> Option<Frame> {
        if !bounds.own || fp % 8 != 0 {
            return None;
        }
        let parent = read(fp, sp, bounds.high)?;
        let pc = read(fp.wrapping_add(8), sp, bounds.high)?;
        let plausible = pc == 0
            || self.modules.is_code(pc)
            || (generated && parent > fp && (4096..cache::ADDRESS_END).contains(&pc));
        plausible.then_some(Frame { pc, sp: fp + 16, fp: parent })
    }

    /// What there is to know about a code address, kept for the next time.
    #[cold]
    #[inline(never)]
    fn learn(&self, epoch: Epoch, pc: usize, exact: bool) -> Learned {
        let Some(module) = self.modules.at(pc, || self.rules.forget()) else {
            return Learned { known: Known { rule: Rule::GUESS, token: NO_MODULE_TOKEN }, no_module: true };
        };
        let rule = cfi::row_at(&module.image, pc, exact).map_or(Rule::GUESS, |row| row.pack());
        let known = Known { rule, token: Unwinder::token(module, pc) };
        self.rules.put(if exact { epoch.exact() } else { epoch }, pc, known);
        Learned { known, no_module: false }
    }

    fn token(module: &modules::Module, pc: usize) -> u64 {
        identity::token(module.key, pc.wrapping_sub(module.image.bias) as u64)
    }
}

/// The token of all code outside modules: generated code has no name that would be the same in another run.
const NO_MODULE_TOKEN: u64 = identity::token(0, 0);

struct Learned {
    known: Known,
    no_module: bool,
}

/// A frame: where it continues, and its stack and frame pointer once it does.
#[derive(Clone, Copy)]
struct Frame {
    pc: usize,
    sp: usize,
    fp: usize,
}

/// The word at an address on the stack, at or above `low` and under `high`.
#[inline(always)]
fn read(at: usize, low: usize, high: usize) -> Option<usize> {
    if at < low || at > high.wrapping_sub(8) || at % 8 != 0 {
        return None;
    }
    // SAFETY: an aligned word of the stack between a live frame and the stack's end.
    Some(unsafe { *(at as *const usize) })
}

#[inline(always)]
fn plain_step(rule: Rule, sp: usize, fp: usize, high: usize) -> Option<Frame> {
    let mut base = sp;
    if rule.cfa_from_fp() {
        base = fp;
        // SAFETY: does nothing, but keeps this a branch: a conditional move would make each frame wait for the frame
        // pointer that the frame before loads, though few frames need it.
        unsafe { core::arch::asm!("/* {0} */", inout(reg) base, options(nomem, nostack, preserves_flags)) };
    }
    let cfa = base.wrapping_add(rule.cfa_distance());
    if cfa <= sp || cfa > high || cfa % 8 != 0 {
        return None;
    }
    // SAFETY: `sp < cfa <= high`, both aligned: the word below the CFA is on the stack.
    let pc = unsafe { *((cfa - 8) as *const usize) };
    let mut parent_fp = fp;
    if rule.saved_at_cfa() {
        let at = cfa.wrapping_add(rule.fp_distance());
        if at < sp || at >= cfa {
            return None;
        }
        // SAFETY: between `sp` and the CFA, aligned as the CFA is.
        parent_fp = unsafe { *(at as *const usize) };
    }
    Some(Frame { pc, sp: cfa, fp: parent_fp })
}

/// Takes the frames of a walk: leaves out the own ones, joins neighbours outside any module, stops at the limit.
struct Collector<F> {
    each: F,
    /// Start and length of the own code; no length once a frame was elsewhere.
    own: (usize, usize),
    /// Depth after the last frame of generated code.
    generated_until: u32,
    chain: u64,
    depth: u32,
}

impl<F: FnMut(Met) -> bool> Collector<F> {
    #[inline(always)]
    fn new(own: &Range<usize>, each: F) -> Self {
        let own = (own.start, own.end.wrapping_sub(own.start));
        Collector { each, own, generated_until: 0, chain: identity::EMPTY_SITE, depth: 0 }
    }

    /// Takes a frame; `None` when there is no room for it, or it is not wanted.
    #[inline(always)]
    fn frame(&mut self, pc: usize, token: u64) -> Option<()> {
        if pc.wrapping_sub(self.own.0) < self.own.1 {
            return Some(());
        }
        self.own.1 = 0;
        if self.depth as usize >= MAX_FRAMES {
            return None;
        }
        if !(self.each)(Met { return_address: pc, token, before: self.chain }) {
            return None;
        }
        self.chain = identity::chain(self.chain, token);
        self.depth += 1;
        Some(())
    }

    /// Takes a frame of generated code. How many of them there are depends on what was compiled when, so neighbours count
    /// as one.
    #[inline(always)]
    fn generated_frame(&mut self, pc: usize) -> Option<()> {
        if self.depth == 0 || self.generated_until != self.depth {
            self.frame(pc, NO_MODULE_TOKEN)?;
            self.generated_until = self.depth;
        }
        Some(())
    }

    #[inline(always)]
    fn finish(self, truncated: bool) -> Walk {
        Walk { chain: self.chain, depth: self.depth, truncated }
    }
}
