//! The life of a managed object: its call stack taken, its tier chosen, its events published.

use crate::allowance::{self, Turn};
use crate::colour;
use crate::heap::{self, Moved};
use crate::mapping::{self, Mapping};
use crate::objects::{self, Object};
use crate::seats::{self, Seat};
use crate::sites::{self, Site};
use crate::stack::Asker;
use crate::tls::{self, Thread};
use crate::{
    kept, mover, phases, plan, process, python, range, recent, regions, sampler, small, split, stack, statics, sys,
    told,
};
use core::sync::atomic::{AtomicU32, Ordering::*};
use wire::event::{Event, Kind};
use wire::image::Target;

/// Nobody's allocator is entered twice by one thread: the flag goes up here and down again on drop.
struct Busy<'a>(&'a Thread);

impl<'a> Busy<'a> {
    #[inline]
    fn enter() -> Option<Busy<'a>> {
        let thread = tls::thread();
        if thread.busy.replace(true) { None } else { Some(Busy(thread)) }
    }
}

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.busy.set(false);
    }
}

/// The thread's number, which spreads threads over arenas.
pub fn number(thread: &Thread) -> u32 {
    static NUMBERS: AtomicU32 = AtomicU32::new(0);
    if thread.number.get() == 0 {
        thread.number.set(NUMBERS.fetch_add(1, Relaxed) % u32::MAX + 1);
    }
    thread.number.get() - 1
}

/// Whether this object is a small one that the next allocator is to serve, as far as that is known at once.
#[inline(always)]
pub fn passes(size: usize) -> bool {
    small::takes(size) && allowance::passes(tls::thread())
}

/// An object for the program, or null: then the next allocator is to serve it.
#[inline(never)]
pub fn allocate(size: usize, align: usize, zero: bool) -> *mut u8 {
    begin(size, Wish { align, zero, grown: false })
}

/// The same for what one of the next allocator's has grown to.
#[inline(never)]
pub fn grown(size: usize) -> *mut u8 {
    begin(size, Wish { align: 1, zero: false, grown: true })
}

/// How an object is to be.
#[derive(Clone, Copy)]
struct Wish {
    align: usize,
    /// All zeroes.
    zero: bool,
    /// It takes the place of a smaller one.
    grown: bool,
}

#[inline(always)]
fn begin(size: usize, wish: Wish) -> *mut u8 {
    let Some(busy) = Busy::enter() else { return core::ptr::null_mut() };
    let thread = busy.0;
    if small::takes(size) {
        return begin_small(thread, size, wish);
    }
    if !ready() {
        return core::ptr::null_mut();
    }
    let Some((index, site)) = silent_site_here(thread, Asker::Program) else { return refused() };
    tell(thread, site, Asker::Program);
    place(thread, index, site, size, wish)
}

/// A small object; null: the next allocator is to serve it.
#[inline(always)]
fn begin_small(thread: &Thread, size: usize, wish: Wish) -> *mut u8 {
    let turn = if wish.align > 16 { Turn::Passed } else { allowance::turn(thread) };
    if turn == Turn::Passed || !ready() {
        return core::ptr::null_mut();
    }
    let Some((index, site)) = silent_site_here(thread, Asker::Program) else { return refused() };
    let at = small::allocate(thread, index, site, size, wish.zero);
    if let Turn::Timed(begun) = turn {
        allowance::took(thread, begun);
    }
    at
}

/// From this size on the kernel is asked first: the range is reserved without counting, so that it would let a program
/// have any size, also one that it counts on being refused.
const ENORMOUS: usize = 1 << 30;

fn too_much(size: usize) -> bool {
    size >= ENORMOUS && !sys::would_map(size)
}

/// A block of small objects of a site; null: there is no room.
pub fn block(thread: &Thread, index: usize, site: &'static Site) -> *mut u8 {
    tell(thread, site, Asker::Program);
    place(thread, index, site, small::BLOCK, Wish { align: small::BLOCK, zero: false, grown: false })
}

/// Puts an object of a stack into the first tier that has room.
fn place(thread: &Thread, index: usize, site: &'static Site, size: usize, wish: Wish) -> *mut u8 {
    if too_much(size) {
        return core::ptr::null_mut();
    }
    let (index, site) = sites::claim(index, site, size);
    tell(thread, site, Asker::Program);
    let at = put(thread, index, site, size, wish);
    if at.is_null() {
        site.let_go(size);
    }
    at
}

/// Puts an object of a site, which is held for it, into the first tier that has room.
fn put(thread: &Thread, index: usize, site: &Site, size: usize, wish: Wish) -> *mut u8 {
    let Wish { align, zero, grown } = wish;
    if site.target().parts != 0 {
        let at = place_split(thread, index, site, size, wish);
        if !at.is_null() {
            return at;
        }
    }
    let planned = split::next_tier(site);
    for tier in plan::order(planned) {
        if !plan::has_room(tier, size) {
            continue;
        }
        let mut at = recent::take(tier, seats::of(thread), size, align, zero);
        if at.is_null() {
            at = heap::allocate(tier, number(thread), size, align, zero);
        }
        if !at.is_null() {
            if tier != planned {
                process::fell_back(planned, size);
            }
            let object = Object::of(index, size);
            enter(thread, at as usize, object, site, tier, false);
            // SAFETY: within the object's first page.
            return unsafe { at.add(colour::of(at as usize, size, align, grown)) };
        }
    }
    refused()
}

/// Puts an object of a split site into both of its tiers; null if it is to be in one of them.
fn place_split(thread: &Thread, index: usize, site: &Site, size: usize, wish: Wish) -> *mut u8 {
    let target = site.target();
    if !split::can(target, size, size) {
        return core::ptr::null_mut();
    }
    let rest = usize::from(target.rest);
    let align = wish.align.max(split::alignment(size));
    let at = heap::allocate(rest, number(thread), size, align, wish.zero);
    if !at.is_null() {
        // SAFETY: a fresh object of ours.
        unsafe { split::bind(target, at as usize, size) };
        enter(thread, at as usize, Object { split: true, ..Object::of(index, size) }, site, rest, false);
    }
    at
}

fn refused() -> *mut u8 {
    if let Some(h) = process::info() {
        h.counters.refused.fetch_add(1, Relaxed);
    }
    core::ptr::null_mut()
}

fn enter(thread: &Thread, addr: usize, object: Object, site: &Site, tier: usize, realloc: bool) {
    open(addr, object, seats::of(thread));
    let (at, bytes, id) = (addr as u64, object.bytes as u64, site.id.load(Relaxed));
    kept::look(process::publish_birth(thread, at, bytes, id, tier as u8, realloc));
    process::count_managed(thread, bytes);
    phases::allocated(site);
    sampler::guard::pass_by(&thread.step);
}

/// Opens the books of an object. `by`: the calling thread's seat.
fn open(addr: usize, object: Object, by: Option<Seat>) {
    objects::enter(addr, object);
    // What only the sampler asks for.
    if let Some(site) = sites::at(object.site).filter(|_| sampler::enabled()) {
        site.born(addr, object.bytes);
    }
    let (guest, tier) = guest(object);
    plan::count_in(by, range::tier_of(addr), object.bytes - guest);
    if guest != 0 {
        plan::guest_in(tier, guest);
    }
    sampler::object_born(object.bytes);
}

/// A parallel region of this function begins in the calling thread. Those of the process's first one count: each of a team may
/// begin others, and their number is a matter of chance.
pub fn region(function: usize) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    process::adopt(busy.0, false);
    if process::info().is_some_and(|h| h.pid.load(Relaxed) == busy.0.tid.get()) {
        regions::begins(busy.0, function);
    }
}

/// The program has reached something of this name. Only its first thread counts, as for regions.
pub fn reached(name: &[u8]) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    process::adopt(busy.0, false);
    if process::info().is_some_and(|h| h.pid.load(Relaxed) == busy.0.tid.get()) {
        regions::reached(busy.0, name);
    }
}

/// The program says that what begins with this name uses the object at this address. Which object that is, the recorder knows.
pub fn uses(name: &[u8], addr: usize) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    process::adopt(busy.0, false);
    let phase = wire::identity::name_id(name);
    if told::publish(busy.0, phase, name) {
        process::publish(busy.0, process::time(), Event::Use { phase, addr: addr as u64 });
    }
}

/// The program has come to a place at which a phase begins. Only its first thread counts, as for regions.
#[inline(never)]
pub fn arrives() {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    process::adopt(busy.0, false);
    if process::info().is_some_and(|h| h.pid.load(Relaxed) == busy.0.tid.get()) {
        regions::arrives(busy.0);
    }
}

/// The program has an object of its own making, that it has placed itself on this node: no plan binds it. Its site is its name or, without one, the
/// call stack.
#[inline(never)]
pub fn told(mapping: Mapping, node: u32, name: &[u8]) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    process::adopt(busy.0, false);
    let found = if name.is_empty() { told::callers_site(busy.0) } else { told::site(busy.0, name) };
    let Some((index, site)) = found else { return };
    let tier = (0..plan::tiers()).find(|&t| plan::is_on(t, node)).unwrap_or(plan::tiers() - 1) as u8;
    mapping::enter(Mapping { site: index, ..mapping });
    let (addr, size, id) = (mapping.start as u64, mapping.bytes() as u64, site.id.load(Relaxed));
    let event = Event::Alloc { addr, size, site: id, tier, realloc: false, kind: Kind::Mapping };
    process::publish(busy.0, process::time(), event);
}

/// Bytes of a split object that lie in another tier than its address, and that tier.
fn guest(object: Object) -> (usize, usize) {
    let site = sites::at(object.site).filter(|_| object.split);
    site.map(Site::target).map_or((0, 0), |t| (split::bytes(t.parts, object.bytes), usize::from(t.tier)))
}

/// Closes the books of an object, before it is no more or becomes another one. `None`: it is none. `by`: the calling thread's seat.
fn close(addr: usize, by: Option<Seat>) -> Option<Object> {
    let object = objects::take(addr)?;
    if let Some(site) = sites::at(object.site) {
        if sampler::enabled() {
            site.died(addr, object.bytes);
        }
        site.let_go(object.bytes);
    }
    let (guest, tier) = guest(object);
    if object.moved.is_some() {
        mover::ended(addr, object);
    } else {
        plan::count_out(by, range::tier_of(addr), object.bytes - guest);
    }
    if guest != 0 {
        plan::guest_out(tier, guest);
    }
    sampler::object_died(addr, object.bytes);
    Some(object)
}

/// Everything that managing needs is there (it is set up by the first call of a process, and after a fork).
#[inline]
fn ready() -> bool {
    process::attach()
}

/// The site of the allocation in progress, its stack published if it is new.
#[inline(never)]
fn site_here(thread: &Thread, asker: Asker) -> Option<(usize, &'static Site)> {
    let (index, site) = silent_site_here(thread, asker)?;
    tell(thread, site, asker);
    Some((index, site))
}

/// Publishes the stack of the allocation in progress if its site is new.
#[inline]
fn tell(thread: &Thread, site: &Site, asker: Asker) {
    let generation = process::generation();
    if site.published.load(Relaxed) != generation && stack::publish(thread, site.id.load(Relaxed), site.apart(), asker)
    {
        site.published.store(generation, Relaxed);
    }
}

/// The site of the allocation in progress. Part of its caller, as each function of the runtime is a frame to walk.
#[inline(always)]
fn silent_site_here(thread: &Thread, asker: Asker) -> Option<(usize, &'static Site)> {
    process::adopt(thread, false);
    sampler::guard::pass_by(&thread.step);
    let id = stack::site_id(thread, asker);
    let Some((index, site)) = sites::find(id) else {
        if let Some(h) = process::info() {
            h.counters.no_site.fetch_add(1, Relaxed);
        }
        return None;
    };
    Some((index, site))
}

/// Frees a managed object.
#[inline(never)]
pub fn free(addr: usize) {
    if range::in_pool(addr) {
        return;
    }
    if let Some(block) = small::block_of(addr) {
        if let Some(busy) = Busy::enter() {
            let emptied = block.free(addr);
            drop(busy);
            if let Some(memory) = emptied {
                release(memory);
            }
        }
        return;
    }
    release(addr);
}

/// Ends a managed object that is not small.
fn release(addr: usize) {
    // Not the start of a live object: a double or wild free. Leaving the memory alone harms nobody.
    let Some((addr, _)) = colour::page_of(addr) else { return };
    let busy = Busy::enter();
    // A child that only frees what it inherited has nothing to say.
    let thread = busy.as_ref().map(|busy| busy.0).filter(|_| process::attached());
    let seat = thread.and_then(seats::of);
    // The books are closed and the end is published before the memory can become another object.
    let Some(object) = close(addr, seat) else { return };
    if let Some(thread) = thread {
        sampler::guard::pass_by(&thread.step);
        kept::look(process::publish_end(thread, addr as u64));
    }
    if let Some(site) = sites::at(object.site).filter(|_| object.split) {
        split::unbind(site.target(), addr, object.bytes);
    }
    if object.moved.is_some() {
        mover::clear(addr, object.bytes);
    }
    kept::ends(addr, object.bytes);
    recent::release(addr, object.bytes, seat);
}

/// Changes a managed object's size. One that needs no other pages stays what it was, with the size it was made with; else the new
/// object belongs to the site of this call. Null: there is no room in any tier (or the runtime is already at work in this thread), and
/// the object is as it was.
#[inline(never)]
pub fn reallocate(at: usize, size: usize) -> *mut u8 {
    let Some((addr, within)) = colour::page_of(at) else { return core::ptr::null_mut() };
    let Some(old) = objects::get(addr) else { return core::ptr::null_mut() };
    // Nothing has to move and nothing is told: strings and lists that grow bit by bit would come to more than all else.
    if heap::size_class(size) == heap::size_class(old.bytes) && within + size <= heap::size_class(size) {
        return at as *mut u8;
    }
    let here = Busy::enter().and_then(|busy| {
        if !ready() {
            return None;
        }
        let (index, site) = site_here(busy.0, Asker::Program)?;
        Some((busy, index, site))
    });
    let Some((busy, index, site)) = here else { return core::ptr::null_mut() };
    let (index, site) = sites::claim_anew(old.site, index, site, size);
    tell(busy.0, site, Asker::Program);
    let (planned, tier) = (usize::from(site.target().tier), range::tier_of(addr));
    // What is in two tiers or was moved, or is to be in two, becomes another object.
    let whole = !old.split && old.moved.is_none() && site.target().parts == 0;
    if whole
        && planned == tier
        && colour::may_stay(within, size)
        && (size <= old.bytes || plan::has_room(tier, size - old.bytes))
        && heap::resize_in_place(addr, size)
    {
        close(addr, seats::of(busy.0));
        // Its beginning says, by `realloc`, that the one at its address has ended.
        enter(busy.0, addr, Object::of(index, size), site, tier, true);
        return at as *mut u8;
    }
    if whole && heap::can_move(addr) && colour::may_move(within, size) && !too_much(size) {
        // It needs no more room than it grows by.
        let room = |t| plan::has_room(t, if t == tier { size.saturating_sub(old.bytes) } else { size });
        let stays = plan::order(planned).find(|&t| room(t)) == Some(tier);
        let new = if stays { move_within(busy.0, addr, within, size) } else { core::ptr::null_mut() };
        if !new.is_null() {
            if tier != planned {
                process::fell_back(planned, size);
            }
            let object = Object::of(index, size);
            enter(busy.0, new as usize, object, site, tier, true);
            // SAFETY: it is as long as that and its size.
            return unsafe { new.add(within) };
        }
    }
    let enormous = too_much(size);
    let wish = Wish { align: 1, zero: false, grown: true };
    let new = if enormous { core::ptr::null_mut() } else { put(busy.0, index, site, size, wish) };
    drop(busy);
    if new.is_null() {
        site.let_go(size);
    } else {
        copy(at, new, size);
        free(at);
    }
    new
}

/// Ends an object whose pages become those of a new one in the same tier that begins as many bytes into its first page, and gives
/// that page. Null: it could not be done, and the object is as it was.
fn move_within(thread: &Thread, addr: usize, within: usize, size: usize) -> *mut u8 {
    let new = heap::allocate(range::tier_of(addr), number(thread), size, heap::alignment(addr), false);
    // No page may be armed while it moves.
    let Some(old) = (!new.is_null()).then(|| close(addr, seats::of(thread))).flatten() else {
        return core::ptr::null_mut();
    };
    match heap::move_pages(addr, new as usize) {
        Moved::Yes => {}
        Moved::No => copy(addr, new, within + size),
        Moved::Lost => {
            sites::at(old.site).into_iter().for_each(|s| s.hold(old.bytes));
            open(addr, old, seats::of(thread));
            return core::ptr::null_mut();
        }
    }
    process::publish_end(thread, addr as u64);
    kept::moved(addr, size);
    heap::release(addr);
    new
}

/// Gives the new object what the old one held.
fn copy(old: usize, new: *mut u8, size: usize) {
    // Programs that ask malloc_usable_size use all they may.
    // SAFETY: two live objects, at least so long.
    unsafe { core::ptr::copy_nonoverlapping(old as *const u8, new, usable(old).min(size)) };
}

/// The program mapped anonymous memory of its own. `writable`: it is to be used at once; else it is an address range kept
/// for later, which counts in no budget.
#[inline(never)]
pub fn mapped(mapping: Mapping, writable: bool) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    let asker = if mapping.bytes() == python::ARENA { Asker::Arena } else { Asker::Program };
    if let Some((index, site)) = site_here(busy.0, asker) {
        enter_mapping(busy.0, Mapping { site: index, ..mapping }, writable, site, false);
    }
}

/// A mapping has moved or grown: it stays an object of its site.
#[inline(never)]
pub fn moved(mapping: Mapping) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    if let Some(site) = sites::at(mapping.site) {
        enter_mapping(busy.0, mapping, mapping.tier.is_some(), site, true);
    }
}

fn enter_mapping(thread: &Thread, mapping: Mapping, counts: bool, site: &Site, realloc: bool) {
    let (addr, size) = (mapping.start, mapping.bytes());
    let planned = match mapping.tier {
        // One that has moved does not take another turn.
        Some(tier) if site.target().parts != 0 => usize::from(tier),
        _ => split::next_tier(site),
    };
    let mut placed = None;
    if plan::image().is_some() {
        // SAFETY: the program's own private memory.
        let bound = |t: usize| (!counts || plan::has_room(t, size)) && unsafe { plan::bind_foreign(t, addr, size) };
        placed = plan::order(planned).find(|&t| bound(t));
        if placed != Some(planned) {
            process::fell_back(planned, size);
        }
    }
    // In no tier, it lies where the kernel likes and counts in no budget.
    let counts = counts && (placed.is_some() || plan::image().is_none());
    let tier = placed.unwrap_or(plan::tiers() - 1);
    if counts {
        plan::count_in(seats::of(thread), tier, size);
    }
    let counted_in = counts.then_some(tier as u8);
    mapping::enter(Mapping { tier: counted_in, ..mapping });
    let (addr, size, id) = (addr as u64, size as u64, site.id.load(Relaxed));
    let event = Event::Alloc { addr, size, site: id, tier: tier as u8, realloc, kind: Kind::Mapping };
    process::publish(thread, process::time(), event);
}

/// Part of a mapping is no more, or is told anew.
pub fn mapping_gone(m: Mapping) {
    if let Some(tier) = m.tier {
        plan::count_out(None, usize::from(tier), m.bytes());
    }
}

/// Tells that what was mapped in a range is gone.
pub fn unmapped(addr: usize, size: usize) {
    unmapped_at(process::time(), addr, size);
}

/// The same, since a time of [`process::time`].
#[inline(never)]
pub fn unmapped_at(time: u64, addr: usize, size: usize) {
    if let Some(busy) = Busy::enter().filter(|_| process::attached()) {
        process::publish(busy.0, time, Event::Unmap { addr: addr as u64, size: size as u64 });
    }
}

/// Binds a static variable's whole pages to the first tier that has room for the `counts` bytes that will be used of it, or to the
/// two that it is split between.
pub fn variable(addr: usize, size: usize, counts: usize, site: u64, target: Target) {
    let Some(busy) = Busy::enter().filter(|_| ready()) else { return };
    let planned = usize::from(target.tier);
    let publish = |tier: u8| {
        let (addr, size) = (addr as u64, size as u64);
        let event = Event::Alloc { addr, size, site, tier, realloc: false, kind: Kind::Static };
        process::publish(busy.0, process::time(), event);
    };
    if split::can(target, size, counts) {
        // SAFETY: the program's own data.
        unsafe {
            plan::bind_foreign(usize::from(target.rest), addr, size);
            split::bind(target, addr, size);
        }
        let guest = split::used(target.parts, size, counts);
        plan::guest_in(planned, guest);
        plan::count_in(None, usize::from(target.rest), counts - guest);
        return publish(target.rest);
    }
    for tier in plan::order(planned) {
        // SAFETY: the program's own data.
        if plan::has_room(tier, counts) && unsafe { plan::bind_foreign(tier, addr, size) } {
            if tier != planned {
                process::fell_back(planned, counts);
            }
            plan::count_in(None, tier, counts);
            statics::lies(addr, size, counts, site, tier);
            return publish(tier as u8);
        }
    }
}

/// What this thread allocates from now on, or no more, is nobody's business: the C interface's library looks at the machine.
pub fn aside(on: bool) {
    tls::thread().busy.set(on);
}

/// Tells the recorder of this process, though it has not allocated yet.
pub fn say_that_we_are_here() {
    if let Some(_busy) = Busy::enter() {
        ready();
    }
}

/// Bytes the program may use of a managed object.
pub fn usable(addr: usize) -> usize {
    match small::block_of(addr) {
        _ if range::in_pool(addr) => range::pool_size(addr),
        Some(block) => block.usable(),
        // Some servers ask at every turn, and jemalloc would have to look up what Hearth knows.
        None => {
            let object = colour::page_of(addr).and_then(|(page, within)| Some((objects::get(page)?, within)));
            object.map_or_else(|| heap::usable(addr), |(o, within)| heap::size_class(o.bytes) - within)
        }
    }
}
