//! Marks: the instructions by which the guest of the lab speaks to the time model.
//!
//! They are no-operations of eight bytes (Intel SDM volume 2, NOP r/m32: `0F 1F`, ModRM `84`, SIB `FF`, and four bytes of
//! displacement), so that a program that has them runs anywhere; the plugin (`crates/lab/plugin/memsim.c`) knows them by
//! their displacement, whose first byte says what is meant and which ends in `HL`.

/// One mark; `$argument` goes into `rdi`.
macro_rules! mark {
    ($number:literal, $argument:expr) => {{
        // Elsewhere than on x86-64 there is no lab.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a no-operation; it neither reads nor writes anything.
        unsafe {
            core::arch::asm!(
                ".byte 0x0f,0x1f,0x84,0xff,{number},0x00,0x48,0x4c",
                number = const $number,
                in("rdi") u64::from($argument),
                options(nostack, preserves_flags)
            )
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = $argument;
    }};
}

/// Switches the time model on.
pub fn on() {
    mark!(1, 0u32);
}

/// Switches the time model off.
pub fn off() {
    mark!(2, 0u32);
}

/// Says which process the calling one is: the model sees page tables and no processes.
pub fn process(pid: u32) {
    mark!(3, pid);
}

/// Does work that takes no simulated time and touches no simulated cache: that of whoever observes the program, who would
/// have a CPU of its own on a machine of real size. If the work has to wait for something, the rest of it counts.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    mark!(4, 0u32);
    let result = work();
    mark!(5, 0u32);
    result
}
