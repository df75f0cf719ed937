//! What the program says in code: objects that it has placed itself, their names, and what it has reached.
//!
//! The C interface's library (`crates/api`) and that for MPI programs (`crates/mpi`) look these functions up by name and call them; without these nobody does. A name is a site of one
//! frame, in a module that no file is, so that profiles and plans know it in the next build of the program, too.

use crate::mapping::{self, Mapping};
use crate::sites::{self, Site};
use crate::stack::Asker;
use crate::tls::Thread;
use crate::{manage, process, stack};
use core::sync::atomic::{AtomicU64, Ordering::*};
use wire::identity::{self, LONGEST_NAME};

/// Most names of a process; what has a further one is not seen.
const MOST: usize = 512;
static NAMES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// The number of a name, by its id.
fn number(id: u64) -> Option<usize> {
    (0..MOST).find(|&n| {
        let slot = &NAMES[n];
        slot.load(Acquire) == id
            || slot.compare_exchange(0, id, AcqRel, Acquire).map_or_else(|there| there == id, |_| true)
    })
}

/// Publishes a name. `false` if that could not be done now.
pub fn publish(thread: &Thread, id: u64, name: &[u8]) -> bool {
    number(id).is_some_and(|number| stack::publish_name(thread, id, number, name))
}

/// The site of a name, published if it is new.
pub fn site(thread: &Thread, name: &[u8]) -> Option<(usize, &'static Site)> {
    known(identity::name_id(name), |id| publish(thread, id, name))
}

/// The site of whoever called the C interface's library, published if it is new.
pub fn callers_site(thread: &Thread) -> Option<(usize, &'static Site)> {
    known(stack::callers_site_id(thread), |id| stack::publish(thread, id, None, Asker::Library))
}

fn known(id: u64, publish: impl FnOnce(u64) -> bool) -> Option<(usize, &'static Site)> {
    let (index, site) = sites::find(id)?;
    let generation = process::generation();
    if site.published.load(Relaxed) != generation && publish(id) {
        site.published.store(generation, Relaxed);
    }
    Some((index, site))
}

/// # Safety
/// `name` must have `len` bytes.
unsafe fn text<'a>(name: *const u8, len: usize) -> Option<&'a [u8]> {
    if len == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller's.
    (len <= LONGEST_NAME && !name.is_null()).then(|| unsafe { core::slice::from_raw_parts(name, len) })
}

/// The program has so many bytes of whole pages that it has placed itself, on this node (`u32::MAX`: on none that it cares for). The name may be empty.
///
/// # Safety
/// `name` must have `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_runtime_object(addr: usize, bytes: usize, node: u32, name: *const u8, len: usize) {
    // SAFETY: the caller's.
    let Some(name) = (unsafe { text(name, len) }) else { return };
    if mapping::managing() && addr % 4096 == 0 && bytes > 0 {
        manage::told(Mapping::new(addr, bytes, libc::PROT_READ | libc::PROT_WRITE), node, name);
    }
}

/// It has it no more.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_runtime_object_ends(addr: usize, bytes: usize) {
    mapping::forget(addr, bytes);
}

/// Between `true` and `false` the calling thread's allocations are not the program's: the library looks at the machine.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_runtime_aside(on: bool) {
    manage::aside(on);
}

/// It has reached something of this name.
///
/// # Safety
/// `name` must have `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_runtime_mark(name: *const u8, len: usize) {
    // SAFETY: the caller's.
    if let Some(name) = unsafe { text(name, len) }.filter(|name| !name.is_empty() && mapping::managing()) {
        manage::reached(name);
    }
}

/// What begins with this name uses the object at this address.
///
/// # Safety
/// `name` must have `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_runtime_uses(name: *const u8, len: usize, addr: usize) {
    // SAFETY: the caller's.
    if let Some(name) = unsafe { text(name, len) }.filter(|name| !name.is_empty() && mapping::managing()) {
        manage::uses(name, addr);
    }
}

/// It has reached the place whose call stack this is, of which the innermost frames, of the library that calls, are left out.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_runtime_arrives() {
    if mapping::managing() {
        manage::arrives();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_a_number_until_there_are_none() {
        let first: [Option<usize>; 3] = [7, 8, 7].map(number);
        assert_eq!(first, [Some(0), Some(1), Some(0)]);
        (0..MOST as u64).for_each(|n| _ = number(100 + n));
        assert_eq!((number(5), number(8)), (None, Some(1)));
    }
}
