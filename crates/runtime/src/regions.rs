//! Parallel regions of OpenMP: what phases begin with.
//!
//! GNU's runtime library is entered by `GOMP_parallel` and its kin, whose first argument is the region's function. Here the
//! beginnings of each function's regions in the process's first thread are counted, told to the recorder, and compared with those
//! that a plan names ([`crate::phases`]). Then the call goes on to where it would have gone.

use crate::phases::Count;
use crate::stack::Asker;
use crate::tls::Thread;
use crate::{annotated, manage, next, process, stack, told};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::event::Event;
use wire::identity::{self, mix};

/// Most functions that are told apart.
const MOST: usize = 512;
/// So many beginnings of a function are told whatever their distance.
const FIRST: u64 = 4;
/// Others only so long after the last that was told, in ns: no timeline shows more, and a region may take but a microsecond.
const APART_NS: u64 = 200_000;

static ON: AtomicBool = AtomicBool::new(false);
static LAST_TOLD: AtomicU64 = AtomicU64::new(0);

/// A function of regions, or a name or place that the program reaches. Only the process's first thread uses it.
struct Region {
    /// Address, or a number of the name's or place's that is none; 0: free.
    function: AtomicUsize,
    /// Its id, as a site: of one frame, or of a place's call stack.
    id: AtomicU64,
    /// Beginnings so far.
    count: Count,
    /// Generation of the process in which it was published.
    published: AtomicU32,
}

static REGIONS: [Region; MOST] = [const {
    Region { function: AtomicUsize::new(0), id: AtomicU64::new(0), count: Count::zero(), published: AtomicU32::new(0) }
}; MOST];

/// Starts counting.
pub fn enable() {
    ON.store(true, Relaxed);
}

fn find(function: usize, id: impl Fn() -> u64) -> Option<&'static Region> {
    let start = mix(function as u64) as usize;
    for i in 0..MOST {
        let region = REGIONS.get((start + i) % MOST)?;
        match region.function.load(Relaxed) {
            0 => {
                region.id.store(id(), Relaxed);
                region.function.store(function, Relaxed);
                return Some(region);
            }
            known if known == function => return Some(region),
            _ => {}
        }
    }
    None
}

/// A region of this function begins in the first thread.
pub fn begins(thread: &Thread, function: usize) {
    happens(thread, function, || stack::function_id(function), |id| stack::publish_function(thread, id, function));
}

/// The program says in the first thread that it has reached something of this name ([`crate::told`]).
pub fn reached(thread: &Thread, name: &[u8]) {
    // No function has such an address.
    let id = identity::name_id(name);
    happens(thread, id as usize | 1 << 63, || id, |id| told::publish(thread, id, name));
}

/// The first thread has come to a place that its call stack tells ([`crate::told`]), or that the program says itself.
pub fn arrives(thread: &Thread) {
    let said = annotated::path().filter(|path| path.begins_phase());
    let (id, asker) = match said {
        Some(path) => (path.site_id(), Asker::Program),
        None => (stack::callers_site_id(thread), Asker::Library),
    };
    happens(thread, id as usize | 1 << 63, || id, |id| stack::publish(thread, id, None, asker));
}

fn happens(thread: &Thread, key: usize, id: impl Fn() -> u64, publish: impl Fn(u64) -> bool) {
    let Some(region) = find(key, id) else { return };
    let id = region.id.load(Relaxed);
    let number = region.count.happens(id);
    let now = process::time();
    if number > FIRST && now.saturating_sub(LAST_TOLD.load(Relaxed)) < APART_NS {
        return;
    }
    let generation = process::generation();
    if region.published.load(Relaxed) != generation {
        if !publish(id) {
            return;
        }
        region.published.store(generation, Relaxed);
    }
    LAST_TOLD.store(now, Relaxed);
    process::publish(thread, now, Event::Region { region: id, number });
}

/// The entries of the library, and where each goes on; found when first used.
static NEXT: [AtomicPtr<()>; NAMES.len()] = [const { AtomicPtr::new(core::ptr::null_mut()) }; NAMES.len()];

/// Where calls from modules that brought the library with them go on, by the region's function: to look that up takes long where a
/// module has many symbols. The last word is the function, 0 while the others are written.
static FOUND: [[AtomicUsize; 3]; 256] = [const { [const { AtomicUsize::new(0) }; 3] }; 256];

/// The place in that table.
fn kept(function: usize) -> &'static [AtomicUsize; 3] {
    &FOUND[mix(function as u64) as usize % FOUND.len()]
}

/// A library was unloaded: what is loaded next may lie where it lay.
pub fn forget() {
    FOUND.iter().for_each(|found| found[2].store(0, Release));
}

/// Where the call goes on. Where the library is not in the program's global scope (it came with one that was loaded by dlopen) it is
/// found from the module that the region is in, which may be another one each time.
#[cold]
fn go_on(index: usize, function: usize) -> *mut () {
    let (Some(&name), Some(slot)) = (NAMES.get(index), NEXT.get(index)) else { return core::ptr::null_mut() };
    let [to, of, whose] = kept(function);
    if whose.load(Acquire) == function && of.load(Relaxed) == index {
        let to = to.load(Acquire);
        // Nobody has written it meanwhile.
        if whose.load(Relaxed) == function {
            return to as *mut ();
        }
    }
    let found = next::symbol(name);
    if !found.is_null() {
        slot.store(found, Relaxed);
        return found;
    }
    // SAFETY: plain data; dladdr fills it.
    let mut info: libc::Dl_info = unsafe { core::mem::zeroed() };
    // SAFETY: an address and room for the answer.
    let known = unsafe { libc::dladdr(function as *const c_void, &mut info) } != 0;
    let mut found = if known { in_module(info.dli_fname, name) } else { core::ptr::null_mut() };
    if found.is_null() {
        // The module counts on another one that was loaded together with it to bring the library.
        let mut asked = Asked { name, found: core::ptr::null_mut() };
        // SAFETY: the callback gets what it was given, which outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(in_library), (&raw mut asked).cast()) };
        found = asked.found;
    }
    if found.is_null() {
        // Without Hearth the loader would have ended the program here: nobody has this function.
        // SAFETY: ends the program.
        unsafe { libc::abort() };
    }
    whose.store(0, Release);
    to.store(found as usize, Release);
    of.store(index, Release);
    whose.store(function, Release);
    found
}

/// A symbol of a loaded module or of what it depends on.
fn in_module(path: *const c_char, name: &CStr) -> *mut () {
    if path.is_null() {
        return core::ptr::null_mut();
    }
    // SAFETY: a NUL-terminated path; the handle is of a module that is loaded, and its count goes down again.
    unsafe {
        let handle = libc::dlopen(path, libc::RTLD_NOLOAD | libc::RTLD_LAZY);
        if handle.is_null() {
            return core::ptr::null_mut();
        }
        let found = libc::dlsym(handle, name.as_ptr());
        libc::dlclose(handle);
        found.cast()
    }
}

/// What [`in_library`] is to look up, and what it has found.
struct Asked<'a> {
    name: &'a CStr,
    found: *mut (),
}

/// Looks a symbol up in the first module that is named like OpenMP's library of GNU (Python packages bring theirs under names such as
/// `libgomp-a34b3233.so.1.0.0`).
extern "C" fn in_library(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: what dl_iterate_phdr passes, and what was given to it.
    let (path, asked) = unsafe { ((*info).dlpi_name, &mut *data.cast::<Asked<'_>>()) };
    // SAFETY: null or a NUL-terminated path.
    let gomp = !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes().windows(7).any(|w| w == b"libgomp");
    if gomp {
        asked.found = in_module(path, asked.name);
    }
    c_int::from(!asked.found.is_null())
}

/// Called by every entry, with the region's function and the entry's index; gives where to go on.
extern "C" fn region(function: usize, index: usize) -> *mut () {
    if ON.load(Relaxed) {
        manage::region(function);
    }
    let next = NEXT.get(index).map_or(core::ptr::null_mut(), |n| n.load(Relaxed));
    if next.is_null() { go_on(index, function) } else { next }
}

core::arch::global_asm!(
    // As if this library were not there: arguments, stack and return address are those of the call, so that no call stack of
    // the program has a frame of it.
    ".pushsection .text.hearth_region,\"ax\",@progbits",
    ".p2align 4",
    ".globl hearth_region",
    ".hidden hearth_region",
    ".type hearth_region,@function",
    "hearth_region:",
    ".cfi_startproc",
    "push rdi",
    ".cfi_adjust_cfa_offset 8",
    "push rsi",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "push rcx",
    ".cfi_adjust_cfa_offset 8",
    "push r8",
    ".cfi_adjust_cfa_offset 8",
    "push r9",
    ".cfi_adjust_cfa_offset 8",
    "sub rsp, 8",
    ".cfi_adjust_cfa_offset 8",
    "mov esi, eax",
    "call {region}",
    "add rsp, 8",
    ".cfi_adjust_cfa_offset -8",
    "pop r9",
    ".cfi_adjust_cfa_offset -8",
    "pop r8",
    ".cfi_adjust_cfa_offset -8",
    "pop rcx",
    ".cfi_adjust_cfa_offset -8",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rsi",
    ".cfi_adjust_cfa_offset -8",
    "pop rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp rax",
    ".cfi_endproc",
    ".size hearth_region, . - hearth_region",
    ".popsection",
    region = sym region,
);

macro_rules! entries {
    ($($index:literal $name:ident,)*) => {
        const NAMES: [&CStr; [$($index),*].len()] = [$(
            // SAFETY: the literal ends with the only NUL.
            unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) }
        ),*];
        $(
            /// As libgomp's: begins a parallel region.
            ///
            /// # Safety
            /// As libgomp's.
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub unsafe extern "C" fn $name() -> ! {
                // SAFETY: a jump with all argument registers as they came; the function has no frame of its own.
                unsafe {
                    core::arch::asm!("mov eax, {}", "jmp hearth_region", const $index, options(noreturn, nostack))
                }
            }
        )*
    };
}

entries! {
    0 GOMP_parallel,
    1 GOMP_parallel_loop_static,
    2 GOMP_parallel_loop_dynamic,
    3 GOMP_parallel_loop_guided,
    4 GOMP_parallel_loop_runtime,
    5 GOMP_parallel_loop_nonmonotonic_dynamic,
    6 GOMP_parallel_loop_nonmonotonic_guided,
    7 GOMP_parallel_loop_nonmonotonic_runtime,
    8 GOMP_parallel_loop_maybe_nonmonotonic_runtime,
    9 GOMP_parallel_sections,
    10 GOMP_parallel_reductions,
    11 GOMP_parallel_start,
}
