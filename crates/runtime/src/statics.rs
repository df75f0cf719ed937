//! Static variables that the plan names: bound to their tier's nodes before the program's first instruction.
//!
//! The launcher has looked up where they lie in their modules; here the modules are where the loader put them. Pages that
//! a variable shares with its neighbours stay where they are.

use crate::{manage, plan, stack};
use core::ffi::{c_int, c_void};

const PAGE: usize = 4096;
/// Modules that are looked at.
const MOST: usize = 1024;
/// With so much writable data in one module, its variables are worth to be seen.
const MUCH: usize = 256 << 10;

/// The loaded modules: an address in each.
struct Modules {
    at: [usize; MOST],
    count: usize,
    much_data: bool,
}

extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
    // SAFETY: what dl_iterate_phdr passes, and the `Modules` that was given to it.
    let (info, modules) = unsafe { (&*info, &mut *data.cast::<Modules>()) };
    if info.dlpi_phdr.is_null() {
        return 0;
    }
    // SAFETY: the module's program headers.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut loads = headers.iter().filter(|h| h.p_type == libc::PT_LOAD);
    modules.much_data |= loads.clone().any(|h| h.p_flags & libc::PF_W != 0 && h.p_memsz as usize >= MUCH);
    if let (Some(first), Some(slot)) = (loads.next(), modules.at.get_mut(modules.count)) {
        *slot = (info.dlpi_addr as usize).wrapping_add(first.p_vaddr as usize);
        modules.count += 1;
    }
    0
}

fn modules() -> Modules {
    let mut modules = Modules { at: [0; MOST], count: 0, much_data: false };
    // SAFETY: the callback only notes down; the structure outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut modules).cast()) };
    modules
}

/// At the start of the program, when it is managed: moves what the plan names. A program with much static data is told to
/// the recorder even if it never allocates.
pub fn prepare() {
    let modules = modules();
    match plan::image() {
        Some(image) => {
            if image.statics().next().is_none() {
                return;
            }
            for &address in modules.at.get(..modules.count).unwrap_or(&[]) {
                let Some((key, bias)) = stack::module_at(address) else { continue };
                for variable in image.statics().filter(|v| v.module == key) {
                    let start = bias.wrapping_add(variable.offset as usize);
                    let end = start.wrapping_add(variable.size as usize) & !(PAGE - 1);
                    let start = start.next_multiple_of(PAGE);
                    if start < end {
                        manage::variable(start, end - start, variable.site, usize::from(variable.tier));
                    }
                }
            }
        }
        None if modules.much_data => manage::say_that_we_are_here(),
        None => {}
    }
}
