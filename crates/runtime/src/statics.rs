//! Static variables: bound to their tier's nodes before the program's first instruction if a plan names them, and else
//! shown to the sampler.
//!
//! The launcher has looked up where the plan's variables lie in their modules; here the modules are where the loader put
//! them. Pages that a variable shares with its neighbours stay where they are. The sampler is given the modules' data
//! as a whole: names are the recorder's business.

use crate::mapping::{self, Mapping};
use crate::{manage, plan, sampler, sites, stack};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use wire::event::STATIC_DATA;
use wire::session::ARMED_FROM;

const PAGE: usize = 4096;
/// Modules that are looked at.
const MOST: usize = 1024;
/// With so much writable data in one module, its variables are worth to be seen.
const MUCH: usize = 256 << 10;

/// Most stretches of data that the sampler is given.
const STRETCHES: usize = 64;

/// Most variables that phases move.
const MOVABLE: usize = 64;

/// A variable that phases move.
pub struct Movable {
    /// Its whole pages: from.
    pub start: usize,
    /// Behind them.
    pub end: usize,
    /// Bytes that it counts in budgets.
    pub counts: usize,
    entry: &'static Entry,
}

struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    counts: AtomicUsize,
    /// 1 + index of its site; 0: no entry.
    site: AtomicUsize,
    tier: AtomicUsize,
}

static VARIABLES: [Entry; MOVABLE] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        counts: AtomicUsize::new(0),
        site: AtomicUsize::new(0),
        tier: AtomicUsize::new(0),
    }
}; MOVABLE];

impl Movable {
    /// Its site.
    pub fn site(&self) -> Option<&'static sites::Site> {
        sites::at(self.entry.site.load(Relaxed).checked_sub(1)?)
    }

    /// The tier that it lies in.
    pub fn tier(&self) -> usize {
        self.entry.tier.load(Relaxed)
    }

    /// From now on it lies in this one.
    pub fn lies_in(&self, tier: usize) {
        self.entry.tier.store(tier, Relaxed);
    }
}

/// The variables that phases move.
pub fn each_movable(mut each: impl FnMut(Movable)) {
    for entry in VARIABLES.iter().take_while(|e| e.site.load(Acquire) != 0) {
        let [start, end, counts] = [&entry.start, &entry.end, &entry.counts].map(|w| w.load(Relaxed));
        each(Movable { start, end, counts, entry });
    }
}

/// A variable lies in a tier; remembered if a phase moves it.
pub fn lies(addr: usize, size: usize, counts: usize, id: u64, tier: usize) {
    if !plan::image().is_some_and(|i| i.moves().any(|m| m.site == id)) {
        return;
    }
    let free = VARIABLES.iter().find(|e| e.site.load(Relaxed) == 0);
    if let (Some(entry), Some((site, _))) = (free, sites::find(id)) {
        for (word, value) in
            [(&entry.start, addr), (&entry.end, addr + size), (&entry.counts, counts), (&entry.tier, tier)]
        {
            word.store(value, Relaxed);
        }
        entry.site.store(site + 1, Release);
    }
}

/// The loaded modules: an address in each, and their large stretches of writable data.
struct Modules {
    at: [usize; MOST],
    count: usize,
    much_data: bool,
    stretches: [(usize, usize); STRETCHES],
    stretch_count: usize,
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
    let ends = |h: &libc::Elf64_Phdr| {
        let start = (info.dlpi_addr as usize).wrapping_add(h.p_vaddr as usize);
        (start, start.wrapping_add(h.p_memsz as usize))
    };
    // What the loader made read-only after it had written it is no data any more.
    let read_only = headers.iter().find(|h| h.p_type == libc::PT_GNU_RELRO).map_or((0, 0), ends);
    for (start, end) in loads.clone().filter(|h| h.p_flags & libc::PF_W != 0).map(ends) {
        let start = if (start..end).contains(&read_only.0) { read_only.1 } else { start };
        let (start, end) = (start.next_multiple_of(PAGE), end & !(PAGE - 1));
        if (end.saturating_sub(start) as u64) < ARMED_FROM {
            continue;
        }
        if let Some(slot) = modules.stretches.get_mut(modules.stretch_count) {
            *slot = (start, end);
            modules.stretch_count += 1;
        }
    }
    if let (Some(first), Some(slot)) = (loads.next(), modules.at.get_mut(modules.count)) {
        *slot = (info.dlpi_addr as usize).wrapping_add(first.p_vaddr as usize);
        modules.count += 1;
    }
    0
}

fn modules() -> Modules {
    let stretches = [(0, 0); STRETCHES];
    let mut modules = Modules { at: [0; MOST], count: 0, much_data: false, stretches, stretch_count: 0 };
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
            let named = if image.statics().next().is_none() { 0 } else { modules.count };
            for &address in modules.at.get(..named).unwrap_or(&[]) {
                let Some((key, bias)) = stack::module_at(address) else { continue };
                for variable in image.statics().filter(|v| v.module == key) {
                    let start = bias.wrapping_add(variable.offset as usize);
                    let end = start.wrapping_add(variable.size as usize) & !(PAGE - 1);
                    let start = start.next_multiple_of(PAGE);
                    if start < end {
                        let counts = (variable.counts as usize).min(end - start);
                        manage::variable(start, end - start, counts, variable.site, variable.target);
                    }
                }
            }
        }
        None if modules.much_data => manage::say_that_we_are_here(),
        None => {}
    }
    // Nothing of the runtime itself: its handlers must never fault.
    static OWN: AtomicBool = AtomicBool::new(false);
    let own = &raw const OWN as usize;
    let stretches = modules.stretches.iter().take(modules.stretch_count).filter(|s| !(s.0..s.1).contains(&own));
    for &(start, end) in stretches.filter(|_| sampler::enabled()) {
        if let Some((site, _)) = sites::find(STATIC_DATA) {
            mapping::enter(Mapping { start, end, site, tier: None, armable: true, reserved: false });
        }
    }
}
