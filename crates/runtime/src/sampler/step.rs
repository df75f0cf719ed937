//! One thread's single-step state, in its thread-local block.

use core::cell::Cell;

/// All zero: not stepping.
#[repr(C)]
pub struct Step {
    /// Page whose access is being stepped over; 0: not stepping.
    pub page: Cell<usize>,
    /// Address of the last fault that belonged to no armed page, and how often in a row.
    pub strange: Cell<usize>,
    /// See `strange`.
    pub times: Cell<u32>,
    /// Where on the stack a handler of the program's for one of the sampler's signals runs that blocks its own signal; 0:
    /// there is none.
    pub handling: Cell<usize>,
    /// Those of the sampler's signals that the program believes blocked, as a kernel mask.
    pub blocked: Cell<u64>,
    /// The thread's signal stack is the sampler's; the program believes in `signal_stack`.
    pub kept_stack: Cell<bool>,
    /// Start, length and flags.
    pub signal_stack: Cell<[usize; 3]>,
    /// 1 + the thread's slot in the guard's table; 0 none.
    pub slot: Cell<u32>,
}
