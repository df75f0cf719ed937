//! Programs that say where in their source they allocate.
//!
//! What `hearth-cc` and its sisters compile (`compiler/sites.cpp`) writes the call path into a thread-local variable before each call that may allocate, and
//! clears its first word before anything else may allocate. Then no stack has to be walked, and the site is the same whatever the compiler has made of the source.
//! It does so only where this library is (`compiler/twice.cpp`).

use core::sync::atomic::AtomicU32;
use wire::identity;

/// Annotated programs ask for its address, which is null where no Hearth is. What it holds nobody reads.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static __hearth_here: u8 = 1;

/// The variable, for libraries that are loaded into a program that has none: all of them write into this one. A program's own comes before it, and is the one that all of its libraries
/// write into.
///
/// It is the section's name that makes it thread-local. Rust does not know that, so nothing in Rust may use it.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".tbss.hearth_path")]
#[allow(non_upper_case_globals)]
static __hearth_path: Variable = Variable([const { AtomicU32::new(0) }; 4]);

#[repr(C, align(16))]
struct Variable([AtomicU32; 4]);

/// The last positions in the source that led to the allocation in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Path {
    /// The innermost, its caller, and what called that. 0 anywhere: there is no more.
    words: [u32; 3],
}

/// Where the variable lies, from the thread pointer: the program's, or the one above.
#[inline(always)]
fn offset() -> usize {
    let offset: usize;
    // SAFETY: reads a word of the table of offsets that the loader has filled.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + __hearth_path@GOTTPOFF]",
            out(reg) offset,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    offset
}

/// What the program has said of the allocation in progress, if it does.
#[inline(always)]
pub fn path() -> Option<Path> {
    let at = offset();
    let (inner, caller, outer): (u32, u32, u32);
    // In the pieces that the program has just written it in: what the processor still has to store, it gives to a load that asks for no more.
    // SAFETY: the calling thread's variable, of 16 bytes.
    unsafe {
        core::arch::asm!(
            "mov {inner:e}, dword ptr fs:[{at}]",
            "mov {caller:e}, dword ptr fs:[{at} + 4]",
            "mov {outer:e}, dword ptr fs:[{at} + 8]",
            at = in(reg) at,
            inner = out(reg) inner,
            caller = out(reg) caller,
            outer = lateout(reg) outer,
            options(readonly, nostack, preserves_flags),
        );
    }
    (inner != 0).then_some(Path { words: [inner, caller, outer] })
}

impl Path {
    /// The positions, innermost first.
    pub fn positions(self) -> impl Iterator<Item = u32> {
        self.words.into_iter().take_while(|&p| p != 0)
    }

    /// It was said for an operation of MPI: of these the number's lowest bit is set.
    pub fn begins_phase(self) -> bool {
        self.words[0] & 1 == 1
    }

    /// The id of the site.
    #[inline(always)]
    pub fn site_id(self) -> u64 {
        identity::path_id(self.positions())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn say(inner: u64, outer: u64) {
        // SAFETY: the calling thread's variable.
        unsafe {
            core::arch::asm!(
                "mov qword ptr fs:[{at}], {inner}",
                "mov qword ptr fs:[{at} + 8], {outer}",
                at = in(reg) offset(),
                inner = in(reg) inner,
                outer = in(reg) outer,
            );
        }
    }

    #[test]
    fn a_path_is_read_until_it_is_taken_back() {
        assert_eq!(path(), None);
        // There is room for a fourth, which is not read.
        say(2 << 32 | 1, 4 << 32 | 3);
        let three = path().unwrap();
        assert_eq!(three.positions().collect::<Vec<_>>(), [1, 2, 3]);
        // Another thread has said nothing.
        std::thread::scope(|s| s.spawn(|| assert_eq!(path(), None)).join().unwrap());
        say(1, 9);
        let one = path().unwrap();
        // What lies behind the end is not part of it.
        assert_eq!(one.positions().collect::<Vec<_>>(), [1]);
        assert_ne!(one.site_id(), three.site_id());
        say(0, 9);
        assert_eq!(path(), None);
    }
}
