//! Unwind information read once per code address: `.eh_frame` evaluated by `gimli` into what each register's value in
//! the parent frame is.
//!
//! DWARF expressions are evaluated to a *term*, constant or `register + constant`, possibly dereferenced once: that is
//! all that compilers, the C library's signal trampoline and procedure linkage tables use.

use super::modules::Image;
use super::rule::{Rule, SavedFp};
use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, Expression, LittleEndian, Operation, Register,
    RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow,
};

/// DWARF numbers of the x86-64 registers that matter (System V ABI, figure 3.36).
pub(super) const RBX: usize = 3;
pub(super) const RBP: usize = 6;
pub(super) const RSP: usize = 7;
pub(super) const R12: usize = 12;
pub(super) const R13: usize = 13;
pub(super) const R14: usize = 14;
pub(super) const R15: usize = 15;
pub(super) const RIP: usize = 16;
pub(super) const REGISTERS: usize = 17;

/// `register + inner`, or `*(register + inner) + outer`; without a register, the constant `inner`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term {
    pub register: Option<u8>,
    pub inner: i64,
    pub deref: bool,
    pub outer: i64,
}

/// Where a register's value in the parent frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Saved {
    /// In the register still.
    Untouched,
    /// Nowhere; for the return address: there is no parent.
    Undefined,
    /// In memory at CFA + offset.
    AtCfa(i64),
    /// It is CFA + offset.
    IsCfa(i64),
    /// In memory at the term's value.
    At(Term),
    /// It is the term's value.
    Is(Term),
}

/// One row of the unwind table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub cfa: Term,
    pub saved: [Saved; REGISTERS],
    /// The frame of a signal trampoline: its parent was interrupted, not calling.
    pub signal: bool,
}

/// Row storage without a heap: 32 register rules (x86-64 has 17 registers, code for Windows ABIs saves 10 more), and as
/// many remembered states as gimli itself allows for.
struct Inline;

impl UnwindContextStorage<usize> for Inline {
    type Rules = [(Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

type Bytes = EndianSlice<'static, LittleEndian>;

/// The row at `pc`, which is the next instruction (`exact`) or a return address; `None` if the module says nothing about
/// it, or nothing that a [`Term`] can hold.
pub(super) fn row_at(image: &Image, pc: usize, exact: bool) -> Option<Row> {
    // A return address belongs to the call before it, which may be its function's last instruction. The first address of
    // a function, with nothing before it, was put on the stack by hand, as `makecontext` does with `__start_context`.
    let before = if exact { None } else { row_covering(image, pc.checked_sub(1)?, pc) };
    before.or_else(|| row_covering(image, pc, pc))
}

#[inline(never)]
fn row_covering(image: &Image, address: usize, pc: usize) -> Option<Row> {
    let (index_at, index_len) = image.unwind_index;
    if index_len == 0 {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(index_at as u64);
    // SAFETY: a loaded, read-only part of a module that has a frame on the stack, inside one segment.
    let index = unsafe { bytes(index_at, index_len) };
    let index = EhFrameHdr::from(index).parse(&bases, 8).ok()?;
    let frames_at = index.eh_frame_ptr().direct().ok()? as usize;
    // The section's length is not recorded; it cannot go beyond its segment.
    if frames_at < image.start || frames_at >= image.unwind_end {
        return None;
    }
    let bases = bases.set_eh_frame(frames_at as u64);
    // SAFETY: as above: both sections lie in the same segment in all linkers' layouts; if `.eh_frame` comes first, what
    // is between is mapped as well.
    let frames = EhFrame::from(unsafe { bytes(frames_at, image.unwind_end - frames_at) });

    let address = address as u64;
    let fde = match index.table() {
        Some(table) => table.fde_for_address(&frames, &bases, address, EhFrame::cie_from_offset),
        None => frames.fde_for_address(&bases, address, EhFrame::cie_from_offset),
    }
    .ok()?;
    let mut context = UnwindContext::<usize, Inline>::new_in();
    let row = fde.unwind_info_for_address(&frames, &bases, &mut context, address).ok()?;

    let encoding = fde.cie().encoding();
    let term = |e: UnwindExpression<usize>, start: Option<Term>| evaluate(e.get(&frames).ok()?, encoding, start, pc);
    let cfa = match *row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            Term { register: Some(number(register)?), inner: offset, deref: false, outer: 0 }
        }
        CfaRule::Expression(e) => term(e, None)?,
    };
    let mut saved = [Saved::Untouched; REGISTERS];
    for (i, saved) in saved.iter_mut().enumerate() {
        *saved = match row.register(Register(i as u16)) {
            RegisterRule::Undefined if i == RIP => Saved::Undefined,
            RegisterRule::Undefined | RegisterRule::SameValue => Saved::Untouched,
            RegisterRule::Offset(o) => Saved::AtCfa(o),
            RegisterRule::ValOffset(o) => Saved::IsCfa(o),
            // Expressions for registers start with the CFA on the stack.
            RegisterRule::Expression(e) => Saved::At(term(e, Some(cfa))?),
            RegisterRule::ValExpression(e) => Saved::Is(term(e, Some(cfa))?),
            RegisterRule::Register(r) => {
                Saved::Is(Term { register: Some(number(r)?), inner: 0, deref: false, outer: 0 })
            }
            _ => return None,
        };
    }
    Some(Row { cfa, saved, signal: fde.is_signal_trampoline() })
}

/// # Safety
/// The memory is readable and constant for as long as the module stays loaded.
unsafe fn bytes(at: usize, len: usize) -> Bytes {
    // SAFETY: the caller's promise.
    EndianSlice::new(unsafe { core::slice::from_raw_parts(at as *const u8, len) }, LittleEndian)
}

fn number(register: Register) -> Option<u8> {
    u8::try_from(register.0).ok().filter(|&r| usize::from(r) < REGISTERS)
}

impl Term {
    const fn constant(value: i64) -> Term {
        Term { register: None, inner: value, deref: false, outer: 0 }
    }

    fn value(self) -> Option<i64> {
        (self.register.is_none() && !self.deref).then_some(self.inner)
    }

    fn plus(self, n: i64) -> Term {
        if self.deref {
            Term { outer: self.outer.wrapping_add(n), ..self }
        } else {
            Term { inner: self.inner.wrapping_add(n), ..self }
        }
    }
}

fn evaluate(expression: Expression<Bytes>, encoding: gimli::Encoding, start: Option<Term>, pc: usize) -> Option<Term> {
    let mut stack = Terms { terms: [Term::constant(0); 8], len: 0 };
    if let Some(term) = start {
        stack.push(term)?;
    }
    let mut operations = expression.operations(encoding);
    while let Some(operation) = operations.next().ok()? {
        let term = match operation {
            Operation::RegisterOffset { register, offset, .. } => match number(register)? {
                r if usize::from(r) == RIP => Term::constant((pc as i64).wrapping_add(offset)),
                r => Term { register: Some(r), inner: offset, deref: false, outer: 0 },
            },
            Operation::UnsignedConstant { value } => Term::constant(value as i64),
            Operation::SignedConstant { value } => Term::constant(value),
            Operation::PlusConstant { value } => stack.pop()?.plus(value as i64),
            Operation::Deref { size: 8, space: false, .. } => {
                let t = stack.pop()?;
                if t.deref {
                    return None;
                }
                Term { deref: true, ..t }
            }
            Operation::Plus => {
                let (b, a) = (stack.pop()?, stack.pop()?);
                match (a.value(), b.value()) {
                    (_, Some(n)) => a.plus(n),
                    (Some(n), _) => b.plus(n),
                    _ => return None,
                }
            }
            Operation::Minus => {
                let n = stack.pop()?.value()?;
                stack.pop()?.plus(n.wrapping_neg())
            }
            Operation::And => stack.constants(|a, b| a & b)?,
            Operation::Or => stack.constants(|a, b| a | b)?,
            Operation::Shl => stack.constants(|a, b| a.checked_shl(b as u32).unwrap_or(0))?,
            Operation::Ge => stack.constants(|a, b| i64::from(a >= b))?,
            Operation::Gt => stack.constants(|a, b| i64::from(a > b))?,
            Operation::Le => stack.constants(|a, b| i64::from(a <= b))?,
            Operation::Lt => stack.constants(|a, b| i64::from(a < b))?,
            Operation::Nop => continue,
            _ => return None,
        };
        stack.push(term)?;
    }
    stack.pop()
}

struct Terms {
    terms: [Term; 8],
    len: usize,
}

impl Terms {
    fn push(&mut self, term: Term) -> Option<()> {
        *self.terms.get_mut(self.len)? = term;
        self.len += 1;
        Some(())
    }

    fn pop(&mut self) -> Option<Term> {
        self.len = self.len.checked_sub(1)?;
        self.terms.get(self.len).copied()
    }

    fn constants(&mut self, f: impl Fn(i64, i64) -> i64) -> Option<Term> {
        let (b, a) = (self.pop()?.value()?, self.pop()?.value()?);
        Some(Term::constant(f(a, b)))
    }
}

impl Row {
    /// The row as a packed rule, [`Rule::COMPLEX`] if it does not fit.
    pub fn pack(&self) -> Rule {
        self.pack_plainly().unwrap_or(Rule::COMPLEX)
    }

    fn pack_plainly(&self) -> Option<Rule> {
        let [_, _, _, _, _, _, rbp, rsp, .., rip] = self.saved;
        if self.signal {
            return None;
        }
        if rip == Saved::Undefined {
            return Some(Rule::END);
        }
        if rip != Saved::AtCfa(-8) || !matches!(rsp, Saved::Untouched | Saved::IsCfa(0)) {
            return None;
        }
        let saved = match rbp {
            Saved::Untouched => SavedFp::Untouched,
            Saved::AtCfa(o) => SavedFp::AtCfa(o),
            Saved::At(Term { register: Some(r), inner, deref: false, .. }) if usize::from(r) == RBP => {
                SavedFp::AtFp(inner)
            }
            _ => return None,
        };
        match self.cfa {
            Term { register: Some(r), inner, deref, outer: 0 } if usize::from(r) == RBP => {
                Rule::pack(true, deref, inner, saved)
            }
            Term { register: Some(r), inner, deref: false, .. } if usize::from(r) == RSP => {
                Rule::pack(false, false, inner, saved)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(bytes: &'static [u8], start: Option<Term>, pc: usize) -> Option<Term> {
        let encoding = gimli::Encoding { format: gimli::Format::Dwarf32, version: 4, address_size: 8 };
        evaluate(Expression(EndianSlice::new(bytes, LittleEndian)), encoding, start, pc)
    }

    #[test]
    fn evaluates_the_expressions_that_exist() {
        let at = |register, inner, deref| Some(Term { register: Some(register), inner, deref, outer: 0 });
        // A realigned stack: DW_OP_breg6 -8; DW_OP_deref.
        assert_eq!(run(&[0x76, 0x78, 0x06], None, 0), at(6, -8, true));
        // The procedure linkage table: breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus.
        let plt: &[u8] = &[0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22];
        assert_eq!(run(plt, None, 0x1005), at(7, 8, false));
        assert_eq!(run(plt, None, 0x100b), at(7, 16, false));
        // The signal trampoline: breg7 160; deref.
        assert_eq!(run(&[0x77, 0xa0, 0x01, 0x06], None, 0), at(7, 160, true));
        // plus_uconst on the CFA; two derefs, underflow and unknown operations are refused.
        assert_eq!(run(&[0x23, 0x10], at(7, 16, false), 0), at(7, 32, false));
        for bad in [&[0x76u8, 0x78, 0x06, 0x06][..], &[0x22], &[], &[0x96 - 1], &[0x77, 0, 0x76, 0, 0x22]] {
            assert_eq!(run(bad, None, 0), None, "{bad:x?}");
        }
    }
}
