//! Marks: the instructions by which a program in the guest switches the time model on and off.
//!
//! They are no-operations of eight bytes (Intel SDM volume 2, NOP r/m32: `0F 1F`, ModRM `84`, SIB `FF`, and four bytes of
//! displacement), so that a program that has them runs anywhere; the plugin knows them by their displacement, which ends
//! in `HL`.

/// Switches the time model on.
pub fn on() {
    // SAFETY: a no-operation; it neither reads nor writes anything.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(".byte 0x0f,0x1f,0x84,0xff,0x01,0x00,0x48,0x4c")
    };
}

/// Switches the time model off.
pub fn off() {
    // SAFETY: a no-operation; it neither reads nor writes anything.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(".byte 0x0f,0x1f,0x84,0xff,0x02,0x00,0x48,0x4c")
    };
}
