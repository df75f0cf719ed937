//! The preloaded runtime, if there is one: it is told of objects and marks, so that `record`, `run` and `live` see them.

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering::*};

type Begins = unsafe extern "C" fn(addr: usize, bytes: usize, node: u32, name: *const u8, name_len: usize);
type Ends = unsafe extern "C" fn(addr: usize, bytes: usize);
type Aside = unsafe extern "C" fn(on: bool);
type Mark = unsafe extern "C" fn(name: *const u8, name_len: usize);
type Uses = unsafe extern "C" fn(name: *const u8, name_len: usize, addr: usize);

struct Runtime {
    begins: Begins,
    ends: Ends,
    aside: Aside,
    mark: Mark,
    uses: Uses,
}

/// The runtime's functions among what the process has loaded. Two threads may both look: who waits for another one waits for ever in a child of
/// a fork.
fn runtime() -> Option<&'static Runtime> {
    static LOOKED: AtomicBool = AtomicBool::new(false);
    static FOUND: AtomicPtr<Runtime> = AtomicPtr::new(core::ptr::null_mut());
    if !LOOKED.load(Acquire) {
        if let Some(found) = look() {
            FOUND.store(Box::leak(Box::new(found)), Release);
        }
        LOOKED.store(true, Release);
    }
    // SAFETY: null or what was leaked above.
    unsafe { FOUND.load(Acquire).as_ref() }
}

fn look() -> Option<Runtime> {
    let find = |name: &CStr| -> *mut c_void {
        // SAFETY: a NUL-terminated name.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let names = [
        c"hearth_runtime_object",
        c"hearth_runtime_object_ends",
        c"hearth_runtime_aside",
        c"hearth_runtime_mark",
        c"hearth_runtime_uses",
    ];
    let found = names.map(find);
    if found.iter().any(|f| f.is_null()) {
        return None;
    }
    let [begins, ends, aside, mark, uses] = found;
    // SAFETY: the runtime's functions of these names have these types.
    unsafe {
        Some(Runtime {
            begins: core::mem::transmute::<*mut c_void, Begins>(begins),
            ends: core::mem::transmute::<*mut c_void, Ends>(ends),
            aside: core::mem::transmute::<*mut c_void, Aside>(aside),
            mark: core::mem::transmute::<*mut c_void, Mark>(mark),
            uses: core::mem::transmute::<*mut c_void, Uses>(uses),
        })
    }
}

/// An object of whole pages came to life, or has another name from now on. Its site is its name or, without one, the call stack. `node`: one of
/// the tier that it was placed in; `u32::MAX`: in none.
pub fn begins(addr: usize, bytes: usize, node: u32, name: Option<&CStr>) {
    if let Some(runtime) = runtime() {
        let name = name.map_or(&[][..], CStr::to_bytes);
        // SAFETY: the runtime reads so many bytes of the name.
        unsafe { (runtime.begins)(addr, bytes, node, name.as_ptr(), name.len()) };
    }
}

/// It is no more.
pub fn ends(addr: usize, bytes: usize) {
    if let Some(runtime) = runtime() {
        // SAFETY: numbers only.
        unsafe { (runtime.ends)(addr, bytes) };
    }
}

/// Does something whose allocations are not the program's.
pub fn aside<R>(f: impl FnOnce() -> R) -> R {
    let Some(runtime) = runtime() else { return f() };
    // SAFETY: a flag of this thread's; nothing in between can unwind to the program.
    unsafe { (runtime.aside)(true) };
    let result = f();
    // SAFETY: as above.
    unsafe { (runtime.aside)(false) };
    result
}

/// The program has reached something of this name.
pub fn mark(name: &[u8]) {
    if let Some(runtime) = runtime() {
        // SAFETY: the runtime reads so many bytes of the name.
        unsafe { (runtime.mark)(name.as_ptr(), name.len()) };
    }
}

/// What begins with this name uses the object at this address.
pub fn uses(name: &[u8], addr: usize) {
    if let Some(runtime) = runtime() {
        // SAFETY: the runtime reads so many bytes of the name, and takes the address for a number.
        unsafe { (runtime.uses)(name.as_ptr(), name.len(), addr) };
    }
}
