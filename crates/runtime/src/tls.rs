//! The one thread-local block of the runtime.
//!
//! It lives in the static TLS area and is reached by the initial-exec model, written out in assembly because stable
//! Rust cannot ask for that model: the general one calls `__tls_get_addr`, which may itself call malloc after a
//! dlopen, and a malloc that calls malloc to find its thread-local state never returns. A preloaded library always
//! has room in the static area. All fields start as zero.

use crate::allowance::Allowance;
use crate::sampler::step::Step;
use crate::unwind::ThreadStack;
use core::cell::{Cell, UnsafeCell};

/// What the runtime knows about the calling thread.
#[repr(C, align(64))]
pub struct Thread {
    /// The runtime is already at work in this thread: allocations made meanwhile (by the loader, by a signal handler)
    /// go to the next allocator.
    pub busy: Cell<bool>,
    /// [`crate::process::generation`] in which `tid`, `seat` and `ring` were set; another one: a fork lies between.
    pub generation: Cell<u32>,
    /// Kernel thread id.
    pub tid: Cell<u32>,
    /// What [`crate::seats`] has given it; 0: nothing yet.
    pub seat: Cell<u32>,
    /// 1 + index of the thread's ring; 0 none.
    pub ring: Cell<u32>,
    /// 1 + the thread's number, which picks its arenas; 0 not yet given.
    pub number: Cell<u32>,
    /// Pipe between parent and child of the fork in progress.
    pub fork_pipe: Cell<[i32; 2]>,
    /// Bounds of the stacks the thread runs on.
    pub stack: UnsafeCell<ThreadStack>,
    /// The single-step burst in progress.
    pub step: Step,
    /// Time for small objects.
    pub allowance: Allowance,
}

const BLOCK_BYTES: usize = 1024;
const _: () = assert!(size_of::<Thread>() <= BLOCK_BYTES);

core::arch::global_asm!(
    ".pushsection .tbss.hearth_tls,\"awT\",@nobits",
    ".p2align 6",
    ".globl hearth_tls_block",
    ".hidden hearth_tls_block",
    ".type hearth_tls_block,@object",
    ".size hearth_tls_block,{bytes}",
    "hearth_tls_block:",
    ".zero {bytes}",
    ".popsection",
    bytes = const BLOCK_BYTES,
);

/// The calling thread's block.
#[inline(always)]
pub fn thread() -> &'static Thread {
    let block: *const Thread;
    // SAFETY: reads the thread pointer and the block's constant offset from it; no memory is written.
    unsafe {
        core::arch::asm!(
            "mov {0}, qword ptr [rip + hearth_tls_block@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) block,
            options(pure, readonly, nostack),
        );
        // SAFETY: the block is zeroed at thread start, which is a valid `Thread`, lives as long as the thread, and is
        // shared with nothing but signal handlers of the same thread (cells, no references held across calls).
        &*block
    }
}
