//! What every call passes through: a word to the runtime, then the next library's function, with the arguments as they came.
//!
//! MPI's operations have whole numbers and addresses for arguments and at most fourteen of them, those of Fortran included: six in registers, the
//! rest on the stack. All eight words there are passed on, whether the operation has so many arguments or not.

use crate::entry::{Begins, Entry};
use crate::launcher;
use core::cell::Cell;
use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering::*};

thread_local! {
    /// Stack pointer of the operation that this thread is in; 0: in none. MPI's libraries call each other by the same names, and what they call
    /// within an operation is no phase. An address and not a count, since an error handler may leave by an exception or a jump: calls from
    /// further out find it out of date.
    static WITHIN: Cell<usize> = const { Cell::new(0) };
}

/// Where the call goes on, and whether it is the program's.
#[repr(C)]
struct Entered {
    next: *mut c_void,
    outermost: usize,
}

/// `stack`: the call's stack pointer.
extern "C" fn enter(entry: &Entry, caller: usize, stack: usize) -> Entered {
    let within = WITHIN.get();
    let outermost = within == 0 || stack >= within;
    if outermost {
        WITHIN.set(stack);
        launcher::look_once(caller);
        if let Begins::Call = entry.begins {
            arrives();
        }
    }
    Entered { next: entry.next(caller), outermost: outermost.into() }
}

/// The program's call is over. `arguments`: the first six.
extern "C" fn leave(entry: &Entry, arguments: &[usize; 6]) {
    WITHIN.set(0);
    if let Begins::Completion(flag) = entry.begins {
        let flag = arguments[flag] as *const i32;
        // SAFETY: MPI has just written it; MPI_UNDEFINED, which says that there was nothing to wait for, is negative.
        if !flag.is_null() && unsafe { *flag } > 0 {
            arrives();
        }
    }
}

/// A phase begins, at the place whose call stack this is.
fn arrives() {
    static RUNTIME: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
    extern "C" fn nobody() {}
    let mut runtime = RUNTIME.load(Relaxed);
    if runtime.is_null() {
        // SAFETY: a NUL-terminated name.
        runtime = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"hearth_runtime_arrives".as_ptr()) };
        if runtime.is_null() {
            runtime = nobody as extern "C" fn() as *mut c_void;
        }
        RUNTIME.store(runtime, Relaxed);
    }
    // SAFETY: the runtime's function of this name has this type.
    unsafe { core::mem::transmute::<*mut c_void, extern "C" fn()>(runtime)() };
}

core::arch::global_asm!(
    ".pushsection .text.hearth_mpi_call,\"ax\",@progbits",
    ".p2align 4",
    ".globl hearth_mpi_call",
    ".hidden hearth_mpi_call",
    ".type hearth_mpi_call,@function",
    // rax: the entry; everything else as the caller left it.
    "hearth_mpi_call:",
    ".cfi_startproc",
    "push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    // The six in registers, so that they lie in order from rbp - 48 on.
    "push r9",
    "push r8",
    "push rcx",
    "push rdx",
    "push rsi",
    "push rdi",
    "push rax",
    "push 0",
    "mov rdi, rax",
    "mov rsi, [rbp + 8]",
    "lea rdx, [rbp + 16]",
    "call {enter}",
    "mov [rbp - 64], rdx",
    "push [rbp + 72]",
    "push [rbp + 64]",
    "push [rbp + 56]",
    "push [rbp + 48]",
    "push [rbp + 40]",
    "push [rbp + 32]",
    "push [rbp + 24]",
    "push [rbp + 16]",
    "mov rdi, [rbp - 48]",
    "mov rsi, [rbp - 40]",
    "mov rdx, [rbp - 32]",
    "mov rcx, [rbp - 24]",
    "mov r8, [rbp - 16]",
    "mov r9, [rbp - 8]",
    "call rax",
    "add rsp, 64",
    "cmp qword ptr [rbp - 64], 0",
    "je 2f",
    "mov [rbp - 64], rax",
    "mov rdi, [rbp - 56]",
    "lea rsi, [rbp - 48]",
    "call {leave}",
    "mov rax, [rbp - 64]",
    "2:",
    "leave",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".size hearth_mpi_call, . - hearth_mpi_call",
    ".popsection",
    enter = sym enter,
    leave = sym leave,
);
