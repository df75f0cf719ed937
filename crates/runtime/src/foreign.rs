//! Processes to leave alone: a tool of another kind is at work in them, or there is no room for one.
//!
//! Asked once, before anything is managed. The sentence, a line of its own, goes to the user by way of the session's
//! directory.

use crate::range;
use core::ffi::{CStr, c_int, c_void};

/// Why nothing of this process is to be managed.
pub fn reason() -> Option<&'static str> {
    // Their allocators check every access against a shadow, so they must see every object.
    const SANITISERS: [&CStr; 4] = [c"__asan_init", c"__hwasan_init", c"__msan_init", c"__tsan_init"];
    if SANITISERS.iter().any(|name| !first(name).is_null()) {
        return Some(
            "a process built with a sanitiser (AddressSanitizer, ...), which must see every allocation itself, ran without \
             Hearth; build it without to observe it\n",
        );
    }
    if on_valgrind() {
        return Some(
            "a process under valgrind, which serves all allocations itself, ran without Hearth; start it without valgrind \
             to observe it\n",
        );
    }
    if range::tier_span() == 0 {
        return Some(
            "a process whose address space is limited (RLIMIT_AS or RLIMIT_DATA) ran without Hearth, which would use some of \
             it; raise the limit (ulimit -v unlimited -d unlimited) to observe it\n",
        );
    }
    None
}

/// What cannot be seen of a process that is managed.
pub fn blind_spot() -> Option<&'static str> {
    let (serves, defined) = object_of(first(c"malloc"));
    let (own, _) = object_of(reason as fn() -> Option<&'static str> as *const c_void);
    (serves != own && defined).then_some(
        "a program with a malloc of its own (jemalloc, mimalloc, ...) linked into it, which comes before a preloaded one, was \
         observed in part: what it allocates by it is seen only as mappings; link that allocator as a shared library to see all\n",
    )
}

/// The definition of a symbol that the program uses; null if there is none.
fn first(name: &CStr) -> *const c_void {
    // SAFETY: a NUL-terminated name.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Where the program or library that holds this address was loaded (null if none does), and whether it defines the symbol there. One
/// that does not only calls it: the address that an executable at fixed addresses (Debian 12's python3) has for a function of a
/// library is that of its own jump to it.
fn object_of(at: *const c_void) -> (*mut c_void, bool) {
    const RTLD_DL_SYMENT: c_int = 1;
    // SAFETY: plain data, filled by dladdr1; the symbol, if it finds one, lies in the loaded object's table.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        let mut symbol: *const libc::Elf64_Sym = core::ptr::null();
        if libc::dladdr1(at, &mut info, (&raw mut symbol).cast(), RTLD_DL_SYMENT) == 0 {
            return (core::ptr::null_mut(), true);
        }
        (info.dli_fbase, symbol.as_ref().is_none_or(|s| s.st_shndx != 0))
    }
}

/// Whether this code runs on valgrind's emulated processor: a request by an instruction sequence that does nothing on a
/// real one (valgrind.h, "client requests").
fn on_valgrind() -> bool {
    const RUNNING_ON_VALGRIND: u64 = 0x1001;
    let request = [RUNNING_ON_VALGRIND, 0, 0, 0, 0, 0];
    let mut depth = 0u64;
    // SAFETY: four rotations by 128 bits in all, and an exchange of a register with itself.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            in("rax") request.as_ptr(),
            inout("rdx") depth,
            options(nostack)
        )
    };
    depth != 0
}
