//! The inner loops: what the memory is asked to do, in instructions that no compiler can elide or change.
//!
//! x86-64 loops are assembly: 16-byte loads, ordinary stores (which read the line first: one read and one write), and
//! non-temporal stores (writes only). Other processors use volatile 8-byte accesses, and rely on them to detect that
//! whole lines are overwritten when only writes are meant. What is written is not zero: some processors drop writes of
//! zero over zero.

/// Block that every kernel works on in one call; a multiple of all step sizes.
pub const BLOCK: usize = 256 << 10;
/// What memory is read and written by.
const LINE: usize = 64;

/// What a streaming thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Reads only.
    Read,
    /// Writes only.
    Write,
    /// As many reads as writes (1R1W).
    ReadWrite,
    /// Reads of lines in random order, none of which waits for another.
    RandomRead,
}

impl Mode {
    /// Bytes that cross the memory bus per byte of buffer (a random read asks for a line and counts as one).
    pub fn traffic(self) -> u64 {
        if self == Mode::ReadWrite { 2 } else { 1 }
    }

    /// The `turn`th block's worth of work: goes once over that block, round and round, or reads as many lines anywhere.
    ///
    /// # Safety
    /// `start` points to `blocks` times [`BLOCK`] bytes (one at least), 64-byte aligned, readable and writable, that nobody holds a
    /// reference to.
    pub unsafe fn run(self, start: *mut u8, blocks: usize, turn: u64) {
        let block = start.wrapping_add(turn as usize % blocks * BLOCK);
        // SAFETY: as promised by the caller.
        unsafe {
            match self {
                Mode::Read => read(block),
                Mode::Write => write(block),
                Mode::ReadWrite => read_write(block),
                Mode::RandomRead => random_read(start, blocks, turn),
            }
        }
    }
}

/// Reads a word of as many lines as a block has, anywhere in all blocks: where the next one is does not depend on what was read, so
/// that as many are on their way at once as the processor can follow.
///
/// # Safety
/// As [`Mode::run`].
unsafe fn random_read(start: *mut u8, blocks: usize, turn: u64) {
    let lines = (blocks * (BLOCK / LINE)) as u64;
    // Knuth's linear congruential generator (MMIX); its upper half is random enough to tell no prefetcher what comes.
    let mut state = turn.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for _ in 0..BLOCK / LINE {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let line = ((state >> 32) * lines) >> 32;
        // SAFETY: `line` is below `lines`.
        unsafe { start.add(line as usize * LINE).cast::<u64>().read_volatile() };
    }
}

/// 256 bytes an iteration with this instruction; `\off` is the offset.
#[cfg(target_arch = "x86_64")]
macro_rules! stream {
    ($block:ident, $instruction:literal, $fence:literal) => {
        std::arch::asm!(
            "movq xmm0, {end}",
            "punpcklqdq xmm0, xmm0",
            "2:",
            ".irp off,0,16,32,48,64,80,96,112,128,144,160,176,192,208,224,240",
            $instruction,
            ".endr",
            "add {p}, 256",
            "cmp {p}, {end}",
            "jb 2b",
            $fence,
            p = inout(reg) $block => _,
            end = in(reg) $block.add(BLOCK),
            out("xmm0") _,
            options(nostack)
        )
    };
}

/// # Safety
/// As [`Mode::run`].
#[cfg(target_arch = "x86_64")]
unsafe fn read(block: *mut u8) {
    // SAFETY: reads the block only.
    unsafe { stream!(block, "movaps xmm0, [{p} + \\off]", "") }
}

/// # Safety
/// As [`Mode::run`].
#[cfg(target_arch = "x86_64")]
unsafe fn write(block: *mut u8) {
    // SAFETY: writes the block only.
    unsafe { stream!(block, "movntdq [{p} + \\off], xmm0", "sfence") }
}

/// # Safety
/// As [`Mode::run`].
#[cfg(target_arch = "x86_64")]
unsafe fn read_write(block: *mut u8) {
    // SAFETY: writes the block only.
    unsafe { stream!(block, "movaps [{p} + \\off], xmm0", "") }
}

#[cfg(not(target_arch = "x86_64"))]
mod portable {
    use super::BLOCK;

    fn words(block: *mut u8) -> impl Iterator<Item = *mut u64> {
        (0..BLOCK / 8).map(move |i| block.cast::<u64>().wrapping_add(i))
    }

    /// # Safety
    /// As [`super::Mode::run`].
    pub unsafe fn read(block: *mut u8) {
        for word in words(block) {
            // SAFETY: inside the block.
            unsafe { word.read_volatile() };
        }
    }

    /// # Safety
    /// As [`super::Mode::run`].
    pub unsafe fn write(block: *mut u8) {
        for word in words(block) {
            // SAFETY: inside the block.
            unsafe { word.write_volatile(1) };
        }
    }

    /// # Safety
    /// As [`super::Mode::run`].
    pub unsafe fn read_write(block: *mut u8) {
        for word in words(block) {
            // SAFETY: inside the block.
            unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
        }
    }
}
#[cfg(not(target_arch = "x86_64"))]
use portable::{read, read_write, write};

/// Follows `steps` pointers, 16 at a time, and returns the last.
///
/// # Safety
/// `start` is an element of a closed chain of pointers.
pub unsafe fn chase(start: *const u8, steps: u64) -> *const u8 {
    let mut p = start;
    for _ in 0..steps.div_ceil(16) {
        // SAFETY: every element of the chain holds the address of the next.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(".rept 16", "mov {p}, [{p}]", ".endr", p = inout(reg) p, options(nostack, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        for _ in 0..16 {
            // SAFETY: as above.
            p = unsafe { p.cast::<*const u8>().read_volatile() };
        }
    }
    p
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Block([u8; BLOCK]);

    #[test]
    fn writes_cover_the_block_and_reads_leave_it() {
        let mut block = Box::new(Block([7; BLOCK]));
        let p = block.0.as_mut_ptr();
        // SAFETY: one aligned block of our own.
        unsafe { Mode::Read.run(p, 1, 3) };
        // SAFETY: as above.
        unsafe { Mode::RandomRead.run(p, 1, 3) };
        assert!(block.0.iter().all(|&b| b == 7));
        for mode in [Mode::Write, Mode::ReadWrite] {
            block.0.fill(7);
            // SAFETY: as above.
            unsafe { mode.run(block.0.as_mut_ptr(), 1, 3) };
            assert!(block.0.chunks_exact(8).all(|word| word != [7; 8]), "{mode:?}");
        }
    }

    #[test]
    fn the_chase_follows_the_chain() {
        let mut chain = [std::ptr::null::<u8>(); 5];
        for i in 0..5 {
            chain[i] = (&raw const chain[(i + 1) % 5]).cast();
        }
        // SAFETY: the chain is closed.
        let end = unsafe { chase((&raw const chain[0]).cast(), 32) };
        assert_eq!(end, (&raw const chain[32 % 5]).cast(), "32 steps over five elements");
    }
}
