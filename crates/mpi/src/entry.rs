//! One of MPI's names: what a call of it means, and where it goes on.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicPtr, Ordering::*};

/// When a call is a phase's beginning.
#[derive(Clone, Copy)]
pub enum Begins {
    /// As it is made: it waits for others.
    Call,
    /// As it returns, if it has found something complete: the argument of this number, from 0, is where it says so.
    Completion(usize),
}

/// A name.
pub struct Entry {
    name: &'static CStr,
    /// When a phase begins.
    pub begins: Begins,
    next: AtomicPtr<c_void>,
}

impl Entry {
    /// A name, which ends with a NUL.
    pub const fn new(name: &'static str, begins: Begins) -> Entry {
        let name = match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => name,
            Err(_) => panic!("the name does not end with its only NUL"),
        };
        Entry { name, begins, next: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// The next library's function of this name, for a call from this address.
    pub fn next(&self, caller: usize) -> *mut c_void {
        let known = self.next.load(Relaxed);
        if known.is_null() { self.find(caller) } else { known }
    }

    #[cold]
    fn find(&self, caller: usize) -> *mut c_void {
        let found = function(self.name, caller);
        if found.is_null() {
            // The loader would have said so: nobody has this function.
            let text =
                [b"hearth: no library that is loaded has ", self.name.to_bytes(), b", which the program calls\n"]
                    .concat();
            // SAFETY: so many bytes; then the program ends.
            unsafe {
                libc::write(2, text.as_ptr().cast(), text.len());
                libc::abort();
            }
        }
        self.next.store(found, Relaxed);
        found
    }
}

/// The next library's function of a name, for a caller at this address; null: nobody has it.
pub fn function(name: &CStr, caller: usize) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if found.is_null() { beside(name, caller) } else { found }
}

/// The variable of a name, as the program sees it: of a library's it may have a copy of its own.
pub fn variable(name: &CStr, caller: usize) -> *mut c_void {
    // SAFETY: a NUL-terminated name.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { beside(name, caller) } else { found }
}

/// The function or variable as the caller's module sees it: MPI may be there for that module only, as for Python's mpi4py.
fn beside(name: &CStr, caller: usize) -> *mut c_void {
    // SAFETY: plain data, which dladdr fills; the handle is of a module that is loaded, and its count goes down again.
    unsafe {
        let mut info: libc::Dl_info = core::mem::zeroed();
        if libc::dladdr(caller as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return core::ptr::null_mut();
        }
        let module = libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if module.is_null() {
            return core::ptr::null_mut();
        }
        let found = libc::dlsym(module, name.as_ptr());
        libc::dlclose(module);
        found
    }
}
