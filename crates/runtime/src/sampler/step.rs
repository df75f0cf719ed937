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
    /// Those of the sampler's signals that the program believes blocked, as a kernel mask.
    pub blocked: Cell<u64>,
    /// 1 + the thread's slot in the guard's table; 0 none.
    pub slot: Cell<u32>,
}
