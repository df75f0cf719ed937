//! How to get from one frame to its parent, packed into one word so that a lock-free table can hold it.
//!
//! The rules of System V x86-64 code are few: the *canonical frame address* (CFA, the stack pointer before the call) is
//! the stack pointer or the frame pointer plus a constant, the return address lies right below the CFA, and the
//! parent's frame pointer is either untouched or saved at a constant distance from the CFA. Functions that realign
//! their stack keep the CFA in a slot below the frame pointer and save the frame pointer relative to itself. All else
//! is [`Rule::COMPLEX`] and left to the exact walk.

/// A packed rule: flags in bits 0-7, distance of the saved frame pointer (signed, 8-byte units) in bits 16-31, distance
/// of the CFA from its base (signed, bytes) in bits 32-63.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Rule(pub u64);

/// The base of the CFA is the frame pointer, else the stack pointer.
const BASE_FP: u64 = 1;
/// The CFA is the word stored at the base plus distance.
const DEREF: u64 = 2;
/// The parent's frame pointer is saved relative to the CFA.
const SAVED_AT_CFA: u64 = 4;
/// The parent's frame pointer is saved relative to the current one.
const SAVED_AT_FP: u64 = 8;
/// What does not fit the above.
const SPECIAL: u64 = 0xf0;

/// Where the parent's frame pointer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SavedFp {
    /// Still in its register.
    Untouched,
    /// At this distance from the CFA, bytes.
    AtCfa(i64),
    /// At this distance from the current frame pointer, bytes.
    AtFp(i64),
}

impl Rule {
    /// The outermost frame: there is no parent.
    pub const END: Rule = Rule(0x10);
    /// Needs more registers or another arithmetic than a packed rule has: only the exact walk can take this step.
    pub const COMPLEX: Rule = Rule(0x20);
    /// No unwind information: a frame pointer, if there is a plausible one.
    pub const GUESS: Rule = Rule(0x40);

    /// CFA = base + `cfa` bytes, or the word stored there; `None` if the distances do not fit.
    pub fn pack(from_fp: bool, deref: bool, cfa: i64, saved: SavedFp) -> Option<Rule> {
        let (flag, distance) = match saved {
            SavedFp::Untouched => (0, 0),
            SavedFp::AtCfa(d) => (SAVED_AT_CFA, d),
            SavedFp::AtFp(d) => (SAVED_AT_FP, d),
        };
        if distance % 8 != 0 {
            return None;
        }
        let words = i16::try_from(distance / 8).ok()?;
        let cfa = i32::try_from(cfa).ok()?;
        let flags = u64::from(from_fp) * BASE_FP + u64::from(deref) * DEREF + flag;
        Some(Rule(flags | u64::from(words as u16) << 16 | u64::from(cfa as u32) << 32))
    }

    /// The commonest shapes, for which the hot loop has a shortcut: no [`DEREF`], no [`SAVED_AT_FP`], none of the three
    /// constants above.
    #[inline(always)]
    pub const fn is_plain(self) -> bool {
        self.0 & (SPECIAL | DEREF | SAVED_AT_FP) == 0
    }

    #[inline(always)]
    pub const fn cfa_from_fp(self) -> bool {
        self.0 & BASE_FP != 0
    }

    #[inline(always)]
    pub const fn deref(self) -> bool {
        self.0 & DEREF != 0
    }

    #[inline(always)]
    pub const fn saved_at_cfa(self) -> bool {
        self.0 & SAVED_AT_CFA != 0
    }

    #[inline(always)]
    pub const fn saved_at_fp(self) -> bool {
        self.0 & SAVED_AT_FP != 0
    }

    /// Distance of the CFA (or of the slot that holds it) from its base, to be added with wrapping.
    #[inline(always)]
    pub const fn cfa_distance(self) -> usize {
        ((self.0 as i64) >> 32) as usize
    }

    /// Distance of the saved frame pointer, bytes, to be added with wrapping.
    #[inline(always)]
    pub const fn fp_distance(self) -> usize {
        ((self.0 >> 16) as u16 as i16 as i64 * 8) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packs_what_it_can_and_refuses_the_rest() {
        let r = Rule::pack(false, false, 0x1238, SavedFp::AtCfa(-16)).unwrap();
        assert!(r.is_plain() && r.saved_at_cfa() && !r.cfa_from_fp());
        assert_eq!((r.cfa_distance(), r.fp_distance()), (0x1238, (-16isize) as usize));
        let r = Rule::pack(true, true, -8, SavedFp::AtFp(0)).unwrap();
        assert!(!r.is_plain() && r.cfa_from_fp() && r.deref() && r.saved_at_fp());
        assert_eq!((r.cfa_distance(), r.fp_distance()), ((-8isize) as usize, 0));
        assert_eq!(Rule::pack(false, false, 1 << 40, SavedFp::Untouched), None);
        assert_eq!(Rule::pack(false, false, 16, SavedFp::AtCfa(-12)), None);
        assert_eq!(Rule::pack(false, false, 16, SavedFp::AtCfa(-(1 << 30))), None);
        for special in [Rule::END, Rule::COMPLEX, Rule::GUESS] {
            assert!(!special.is_plain());
        }
    }
}
