//! The functions of `hearth.h`, one by one. Each is described there; here only what keeps them safe.

use crate::decide::{self, Decision};
use crate::error::{self, Error};
use crate::kernel;
use crate::machine::MOST_TIERS;
use crate::runtime;
use crate::state::{self, Changed, Declared};
use crate::strategy::{self, Function, Registered, Stage};
use crate::thread;
use crate::wish::{Space, Trait, Wish};
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::Ordering::Acquire;
use std::collections::HashSet;
use wire::identity::LONGEST_NAME;

/// `hearth_tier`.
#[repr(C)]
#[derive(Debug)]
pub struct Tier {
    name: [c_char; 32],
    capacity: u64,
    free: u64,
    latency: f64,
    read_bandwidth: f64,
    write_bandwidth: f64,
    nodes: [u64; 2],
}

/// `hearth_where`.
#[repr(C)]
#[derive(Debug)]
pub struct Where {
    in_tier: [u64; MOST_TIERS],
    elsewhere: u64,
    absent: u64,
}

/// Gives a result the form of C: a value, and where to write the error.
///
/// # Safety
/// `error` must be null or writable.
unsafe fn value<T>(result: Result<T, Error>, error: *mut c_int, nothing: T) -> T {
    let (value, code) = match result {
        Ok(value) => (value, 0),
        Err(e) => (nothing, e.code()),
    };
    if !error.is_null() {
        // SAFETY: the caller's.
        unsafe { *error = code };
    }
    value
}

/// # Safety
/// `traits` must be null or have `count` traits for so long as they are used.
unsafe fn given<'a>(count: usize, traits: *const Trait) -> Result<&'a [Trait], Error> {
    if count == 0 {
        return Ok(&[]);
    }
    if traits.is_null() {
        return Err(Error::Argument);
    }
    if count > crate::wish::MOST_TRAITS {
        return Err(Error::Conflict);
    }
    // SAFETY: the caller's.
    Ok(unsafe { core::slice::from_raw_parts(traits, count) })
}

/// # Safety
/// `traits` must be null or have `count` traits.
unsafe fn wish(count: usize, traits: *const Trait) -> Result<Wish, Error> {
    // SAFETY: the caller's.
    Wish::read(unsafe { given(count, traits) }?)
}

/// # Safety
/// `name` must be null or end with NUL.
unsafe fn name<'a>(name: *const c_char) -> Result<&'a CStr, Error> {
    if name.is_null() {
        return Err(Error::Argument);
    }
    // SAFETY: the caller's.
    let name = unsafe { CStr::from_ptr(name) };
    if (1..=LONGEST_NAME).contains(&name.count_bytes()) { Ok(name) } else { Err(Error::Argument) }
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_error_text(code: c_int) -> *const c_char {
    error::text(code).as_ptr()
}

/// See `hearth.h`.
///
/// # Safety
/// `tiers` must have room for `room` tiers, `count` be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_tiers(tiers: *mut Tier, room: usize, count: *mut usize) -> c_int {
    let write = || {
        if tiers.is_null() && room > 0 {
            return Err(Error::Argument);
        }
        let machine = state::with(|s| Ok(s.machine()))?;
        for (index, tier) in machine.tiers().iter().enumerate().take(room) {
            let mut name = [0 as c_char; 32];
            // The last byte stays NUL.
            for (to, from) in name.iter_mut().take(31).zip(tier.name.bytes()) {
                *to = from as c_char;
            }
            let bandwidth = |f: Option<model::Figure<model::GbPerSec>>| f.map_or(0.0, |f| f.value.0 * 1e9);
            let nodes = machine.nodes(index);
            let described = Tier {
                name,
                capacity: tier.capacity.map_or(0, |f| f.value.0),
                free: machine.to_be_had(index),
                latency: tier.latency.map_or(0.0, |f| f.value.0 as f64),
                read_bandwidth: bandwidth(tier.read_bandwidth),
                write_bandwidth: bandwidth(tier.write_bandwidth),
                nodes: [nodes as u64, (nodes >> 64) as u64],
            };
            // SAFETY: the caller's: there is room.
            unsafe { tiers.add(index).write(described) };
        }
        if !count.is_null() {
            // SAFETY: the caller's.
            unsafe { *count = machine.tiers().len() };
        }
        Ok(())
    };
    error::code(write())
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_tier_of_space(space: c_int) -> c_int {
    let tier = || {
        let space = u64::try_from(space).ok().and_then(Space::of).ok_or(Error::Trait)?;
        state::with(|s| s.machine().tier(space))
    };
    tier().map_or_else(|e| -e.code(), |tier| tier as c_int)
}

/// An object with these traits, where the program's strategy or Hearth's wants it. `zero`: all zeroes.
///
/// # Errors
/// As `hearth_alloc`.
pub fn allocate(size: usize, wish: &Wish, zero: bool) -> Result<usize, Error> {
    strategy::not_within()?;
    if size == 0 || size > isize::MAX as usize {
        return Err(Error::Size);
    }
    // Most programs have no strategy: then the lock is taken once.
    let asked = state::with(|s| {
        let own = s.alone(wish)?;
        match s.strategy(Stage::Allocation) {
            None => s.allocate(size, wish, own, zero).map(Ok),
            Some(strategy) => Ok(Err((s.machine(), strategy, own))),
        }
    })?;
    let (machine, strategy, own) = match asked {
        Ok(at) => return Ok(at),
        Err(asked) => asked,
    };
    let decisions = strategy::ask(Some(strategy), &machine, &[(size, wish, 0)], vec![own])?;
    state::with(|s| s.allocate(size, wish, decisions.first().copied().unwrap_or(own), zero))
}

/// See `hearth.h`.
///
/// # Safety
/// `error` must be null or writable, `traits` have `count` traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_alloc(
    size: usize,
    error: *mut c_int,
    count: usize,
    traits: *const Trait,
) -> *mut c_void {
    // SAFETY: the caller's.
    unsafe {
        let made = given(count, traits).and_then(|traits| {
            strategy::not_within()?;
            if let Some(at) = (!strategy::DECIDES.load(Acquire)).then(|| thread::again(size, traits)).flatten() {
                return Ok(at);
            }
            match state::with(|s| s.again(size, traits))? {
                Some(at) => Ok(at),
                None => allocate(size, &Wish::read(traits)?, false),
            }
        });
        value(made.map(|at| at as *mut c_void), error, null_mut())
    }
}

/// [`hearth_alloc`] of zeroes; what is fresh of the kernel is not written to.
///
/// # Safety
/// `traits` must have `count` traits.
pub(crate) unsafe fn allocate_zeroed(size: usize, count: usize, traits: *const Trait) -> *mut c_void {
    // SAFETY: the caller's.
    let made = unsafe { wish(count, traits) }.and_then(|wish| allocate(size, &wish, true));
    made.map_or(null_mut(), |at| at as *mut c_void)
}

/// See `hearth.h`.
///
/// # Safety
/// `object` must be an object of Hearth's that nobody else frees; `error` null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_realloc(object: *mut c_void, size: usize, error: *mut c_int) -> *mut c_void {
    let at = object as usize;
    let resize = || {
        strategy::not_within()?;
        if object.is_null() {
            return Err(Error::Argument);
        }
        if size == 0 || size > isize::MAX as usize {
            return Err(Error::Size);
        }
        let (old, wish, name) = state::with(|s| s.like(at))?;
        if state::with(|s| Ok(s.resize_in_place(at, size)))? {
            return Ok(at);
        }
        let new = allocate(size, &wish, false)?;
        // SAFETY: two live objects, at least so long.
        unsafe { core::ptr::copy_nonoverlapping(at as *const u8, new as *mut u8, old.min(size)) };
        state::with(|s| {
            s.release(at)?;
            // What has shrunk below a page has no name.
            name.map_or(Ok(()), |name| s.name(new, name).or(Ok(())))
        })?;
        Ok(new)
    };
    // SAFETY: the caller's.
    unsafe { value(resize().map(|at| at as *mut c_void), error, null_mut()) }
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_free(object: *mut c_void) -> c_int {
    if object.is_null() {
        return 0;
    }
    error::code(state::release(object as usize))
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_usable_size(object: *const c_void) -> usize {
    state::with(|s| Ok(s.usable(object as usize))).ok().flatten().unwrap_or(0)
}

/// See `hearth.h`.
///
/// # Safety
/// `text` must be null or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_name(object: *mut c_void, text: *const c_char) -> c_int {
    // SAFETY: the caller's.
    let named = unsafe { name(text) }
        .and_then(|text| if object.is_null() { Err(Error::Argument) } else { Ok(text) })
        .and_then(|name| state::with(|s| s.name(object as usize, name.to_owned())));
    error::code(named)
}

/// See `hearth.h`.
///
/// # Safety
/// `place` must be null or writable until the declaration ends; `error` null or writable; `traits` have `count` traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_declare(
    place: *mut *mut c_void,
    size: usize,
    error: *mut c_int,
    count: usize,
    traits: *const Trait,
) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        let wish = wish(count, traits);
        let declare = || {
            if place.is_null() {
                return Err(Error::Argument);
            }
            let declared = Declared { place: place as usize, size, wish: wish? };
            let number = state::with(|s| s.declare(declared))?;
            *place = null_mut();
            Ok(number)
        };
        value(declare(), error, 0)
    }
}

/// See `hearth.h`.
///
/// # Safety
/// `declarations` must have `count` of them, and the pointers that were declared be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_commit(declarations: *const u64, count: usize) -> c_int {
    let commit = || {
        strategy::not_within()?;
        if count == 0 {
            return Ok(());
        }
        if declarations.is_null() {
            return Err(Error::Argument);
        }
        // SAFETY: the caller's.
        let numbers = unsafe { core::slice::from_raw_parts(declarations, count) };
        if numbers.iter().collect::<HashSet<_>>().len() < numbers.len() {
            return Err(Error::Handle);
        }
        let (machine, strategy, room, declared) = state::with(|s| {
            let of = |&n: &u64| s.declared(n).map(|d| (d.size, d.wish.clone()));
            let declared: Result<Vec<(usize, Wish)>, Error> = numbers.iter().map(of).collect();
            Ok((s.machine(), s.strategy(Stage::Commit), s.rooms(), declared?))
        })?;
        let requests: Vec<(usize, &Wish)> = declared.iter().map(|(size, wish)| (*size, wish)).collect();
        let own = decide::together(&machine, &requests, &room)?;
        let asked: Vec<(usize, &Wish, usize)> = requests.iter().map(|&(size, wish)| (size, wish, 0)).collect();
        let decisions = strategy::ask(strategy, &machine, &asked, own)?;
        state::with(|s| {
            // A strategy, or another thread, may have withdrawn one meanwhile.
            numbers.iter().try_for_each(|&n| s.declared(n).map(|_| ()))?;
            let made = in_order(&decisions).try_fold(Vec::new(), |mut made, i| {
                let (size, wish) = &declared[i];
                match s.allocate(*size, wish, decisions[i], false) {
                    Ok(at) => {
                        made.push((numbers[i], at));
                        Ok(made)
                    }
                    Err(e) => Err((e, made)),
                }
            });
            match made {
                Ok(made) => {
                    for (number, at) in made {
                        let declared = s.withdraw(number)?;
                        // SAFETY: the caller's: the pointer is still there.
                        unsafe { *(declared.place as *mut *mut c_void) = at as *mut c_void };
                    }
                    Ok(())
                }
                Err((e, made)) => {
                    made.into_iter().try_for_each(|(_, at)| s.release(at))?;
                    Err(e)
                }
            }
        })
    };
    error::code(commit())
}

/// Indices by rank.
fn in_order(decisions: &[Decision]) -> std::vec::IntoIter<usize> {
    let mut order: Vec<usize> = (0..decisions.len()).collect();
    order.sort_by_key(|&i| decisions[i].rank);
    order.into_iter()
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_withdraw(declaration: u64) -> c_int {
    error::code(state::with(|s| s.withdraw(declaration).map(|_| ())))
}

/// See `hearth.h`.
///
/// # Safety
/// `traits` must have `count` traits.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_update(object: *mut c_void, count: usize, traits: *const Trait) -> c_int {
    // SAFETY: the caller's.
    let updated = unsafe { wish(count, traits) }.and_then(|wish| match object.is_null() {
        true => Err(Error::Argument),
        false => state::with(|s| s.update(object as usize, wish)),
    });
    error::code(updated)
}

/// See `hearth.h`.
///
/// # Safety
/// `moved` must be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_migrate(moved: *mut usize) -> c_int {
    let mut bytes = 0;
    let mut migrate = || {
        strategy::not_within()?;
        let (machine, strategy, changed) =
            state::with(|s| Ok((s.machine(), s.strategy(Stage::Migration), s.take_changed())))?;
        let again = |changed: &Changed| {
            state::with(|s| {
                s.change_again(changed);
                Ok(())
            })
        };
        let requests: Vec<(usize, &Wish)> = changed.iter().map(|c| (c.size, &*c.wish)).collect();
        let mut own = Vec::new();
        for (c, rank) in changed.iter().zip(decide::ranks(&requests)) {
            own.push(Decision { rank, ..decide::alone(&machine, &c.wish)? });
        }
        let asked: Vec<(usize, &Wish, usize)> = changed.iter().map(|c| (c.size, &*c.wish, c.at)).collect();
        let decisions = strategy::ask(strategy, &machine, &asked, own).or_else(|e| {
            changed.iter().try_for_each(again)?;
            Err(e)
        })?;
        let leaves: Vec<bool> =
            state::with(|s| Ok(changed.iter().zip(&decisions).map(|(c, d)| s.makes_room(c, d)).collect()))?;
        let mut first = Ok(());
        for makes_room in [true, false] {
            for i in in_order(&decisions).filter(|&i| leaves[i] == makes_room) {
                // One object at a time: meanwhile other threads may allocate.
                match state::with(|s| s.carry(&changed[i], decisions[i])) {
                    Ok(n) => bytes += n,
                    Err(e) => {
                        again(&changed[i])?;
                        first = first.and(Err(e));
                    }
                }
            }
        }
        first
    };
    let result = migrate();
    if !moved.is_null() {
        // SAFETY: the caller's.
        unsafe { *moved = bytes };
    }
    error::code(result)
}

/// See `hearth.h`.
///
/// # Safety
/// `found` must be null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_residency(start: *const c_void, size: usize, found: *mut Where) -> c_int {
    let look = || {
        if start.is_null() || found.is_null() {
            return Err(Error::Argument);
        }
        if size == 0 || size > isize::MAX as usize || (start as usize).checked_add(size).is_none() {
            return Err(Error::Size);
        }
        let machine = state::with(|s| Ok(s.machine()))?;
        let r = kernel::residency(&machine, start as usize, size).ok_or(Error::Kernel)?;
        // SAFETY: the caller's.
        unsafe { found.write(Where { in_tier: r.in_tier, elsewhere: r.elsewhere, absent: r.absent }) };
        Ok(())
    };
    error::code(look())
}

/// See `hearth.h`.
///
/// # Safety
/// `text` must be null or end with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_phase(text: *const c_char) -> c_int {
    // SAFETY: the caller's.
    error::code(unsafe { name(text) }.map(|name| runtime::mark(name.to_bytes())))
}

/// See `hearth.h`.
///
/// # Safety
/// As [`hearth_phase`]; `object` may be any address.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_phase_uses(text: *const c_char, object: *const c_void) -> c_int {
    // SAFETY: the caller's.
    let name = unsafe { name(text) }.and_then(|name| if object.is_null() { Err(Error::Argument) } else { Ok(name) });
    error::code(name.map(|name| runtime::uses(name.to_bytes(), object as usize)))
}

/// See `hearth.h`.
///
/// # Safety
/// As [`hearth_phase`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_loop_begin(text: *const c_char) -> c_int {
    // SAFETY: the caller's.
    unsafe { hearth_phase(text) }
}

/// See `hearth.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hearth_loop_end() -> c_int {
    runtime::mark(b"end of loop");
    0
}

/// See `hearth.h`.
///
/// # Safety
/// `function` must be one until another is registered, and know what to do with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hearth_use(stage: c_int, function: Option<Function>, context: *mut c_void) -> c_int {
    let strategy = function.map(|function| Registered(function, context));
    let registered = Stage::of(stage).ok_or(Error::Argument).and_then(|stage| {
        state::with(|s| {
            s.register(stage, strategy);
            Ok(())
        })
    });
    error::code(registered)
}
