//! The slow, complete walk: all registers of every frame, straight from the unwind information, nothing kept.
//!
//! For stacks with a frame that packed rules cannot describe: an interrupted function below a signal handler, a CFA in a
//! register other than the stack or frame pointer (glibc's lazy binding), and the like.

use super::cfi::{self, R12, R13, R14, R15, RBP, RBX, REGISTERS, RIP, RSP, Row, Saved, Term};
use super::stack::{Range, ThreadStack};
use super::{Collector, Met, Start, Unwinder, Walk, read};
use wire::event::MAX_FRAMES;

/// Functions may use this much below the stack pointer without moving it (System V ABI 3.2.2): an interrupted one may
/// have saved registers there.
const RED_ZONE: usize = 128;
/// Frames that are left out (own, generated code) do not count as frames; steps are limited all the same.
const MAX_STEPS: usize = 4 * MAX_FRAMES;

/// Values of the registers in a frame; none where they are not known.
#[derive(Clone, Copy)]
pub(super) struct Registers([Option<usize>; REGISTERS]);

/// Walks from `start` to the frame whose stack pointer is `reached`, silently, as it is collected already, and from there
/// on into `out`.
#[cold]
#[inline(never)]
pub(super) fn walk<F: FnMut(Met) -> bool>(
    unwinder: &Unwinder,
    start: &Start,
    reached: usize,
    thread: &mut ThreadStack,
    mut out: Collector<F>,
) -> Walk {
    let mut registers = Registers::new(start);
    let mut interrupted = true;
    let mut silent = true;
    for _ in 0..MAX_STEPS {
        let Some((sp, pc)) = registers.get(RSP).zip(registers.get(RIP)) else { break };
        let Some(stack) = thread.bounds(sp) else { break };
        silent &= sp < reached;
        let module = unwinder.modules.at(pc, || unwinder.rules.forget());
        let row = module.and_then(|m| cfi::row_at(&m.image, pc, interrupted));
        let (next, signal) = match row {
            Some(row) if row.saved.get(RIP) == Some(&Saved::Undefined) => return out.finish(false),
            Some(row) => (registers.parent(&row, &stack), row.signal),
            None => (registers.guess(unwinder, module.is_none(), &stack), false),
        };
        let Some(next) = next else { break };
        // Only a signal may have been taken on another stack.
        if !signal && next.get(RSP) <= registers.get(RSP) {
            break;
        }
        (registers, interrupted) = (next, signal);
        let Some(pc) = registers.get(RIP) else { break };
        if pc == 0 {
            return out.finish(false);
        }
        if !silent {
            let module = unwinder.modules.at(pc, || unwinder.rules.forget());
            let taken = match module {
                Some(module) => out.frame(pc, Unwinder::token(module, pc)),
                None => out.generated_frame(pc),
            };
            if taken.is_none() {
                break;
            }
        }
    }
    out.finish(true)
}

impl Registers {
    pub fn new(start: &Start) -> Registers {
        let mut all = Registers([None; REGISTERS]);
        for (i, value) in [
            (RBX, start.rbx),
            (RBP, start.rbp),
            (RSP, start.rsp),
            (R12, start.r12),
            (R13, start.r13),
            (R14, start.r14),
            (R15, start.r15),
            (RIP, start.rip),
        ] {
            all.set(i, Some(value));
        }
        all
    }

    pub fn get(&self, i: usize) -> Option<usize> {
        self.0.get(i).copied().flatten()
    }

    fn set(&mut self, i: usize, value: Option<usize>) {
        if let Some(r) = self.0.get_mut(i) {
            *r = value;
        }
    }

    /// The registers of the parent frame, in which registers that calls do not preserve keep a value that only means
    /// something below a signal handler.
    pub fn parent(&self, row: &Row, stack: &Range) -> Option<Registers> {
        let low = self.get(RSP)?.saturating_sub(RED_ZONE).max(stack.low);
        let load = |at: usize| read(at, low, stack.high);
        let cfa = self.value(&row.cfa, &load)?;
        let mut parent = *self;
        parent.set(RSP, Some(cfa));
        for (i, saved) in row.saved.iter().enumerate() {
            let value = match *saved {
                Saved::Untouched => continue,
                Saved::Undefined => None,
                Saved::AtCfa(offset) => load(cfa.wrapping_add_signed(offset as isize)),
                Saved::IsCfa(offset) => Some(cfa.wrapping_add_signed(offset as isize)),
                Saved::At(term) => self.value(&term, &load).and_then(load),
                Saved::Is(term) => self.value(&term, &load),
            };
            parent.set(i, value);
        }
        Some(parent)
    }

    fn guess(&self, unwinder: &Unwinder, generated: bool, stack: &Range) -> Option<Registers> {
        let frame = unwinder.guess(generated, self.get(RSP)?, self.get(RBP)?, stack)?;
        let mut parent = *self;
        parent.set(RIP, Some(frame.pc));
        parent.set(RSP, Some(frame.sp));
        parent.set(RBP, Some(frame.fp));
        Some(parent)
    }

    fn value(&self, term: &Term, load: &impl Fn(usize) -> Option<usize>) -> Option<usize> {
        let base = match term.register {
            Some(r) => self.get(usize::from(r))?,
            None => 0,
        };
        let inner = base.wrapping_add_signed(term.inner as isize);
        if term.deref { Some(load(inner)?.wrapping_add_signed(term.outer as isize)) } else { Some(inner) }
    }
}
