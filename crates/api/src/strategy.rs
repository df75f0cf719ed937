//! Strategies of the program's: they see what Hearth would decide, and may decide otherwise.

use crate::decide::Decision;
use crate::error::Error;
use crate::machine::Machine;
use crate::wish::{Partition, Trait, Wish};
use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// `hearth_request`.
#[repr(C)]
#[derive(Debug)]
pub struct Request {
    /// Bytes.
    pub size: usize,
    /// Traits.
    pub traits_count: usize,
    /// As they were given.
    pub traits: *const Trait,
    /// The object, when migrating.
    pub object: *const c_void,
}

/// `hearth_decision`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawDecision {
    tier: c_int,
    rest_tier: c_int,
    weight: c_int,
    partition: c_int,
    rank: c_int,
}

/// `hearth_strategy`.
pub type Function = unsafe extern "C" fn(*mut c_void, *const Request, usize, *mut RawDecision) -> c_int;

/// When a strategy decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// One object.
    Allocation,
    /// All that is committed.
    Commit,
    /// All that was updated.
    Migration,
}

impl Stage {
    /// The stage of a number of `hearth_stage`.
    pub fn of(number: c_int) -> Option<Stage> {
        [Stage::Allocation, Stage::Commit, Stage::Migration].get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
    }
}

/// A strategy and its context.
#[derive(Clone, Copy, Debug)]
pub struct Registered(pub Function, pub *mut c_void);
// SAFETY: the context is the program's, and only ever handed back to its function.
unsafe impl Send for Registered {}

thread_local! {
    static DECIDING: Cell<bool> = const { Cell::new(false) };
}

/// Refuses what must not be called by a strategy.
///
/// # Errors
/// [`Error::Strategy`] within one.
pub fn not_within() -> Result<(), Error> {
    // Hardly ever is anybody, and the thread's own word is slow to find.
    if ASKED.load(Relaxed) > 0 && DECIDING.get() { Err(Error::Strategy) } else { Ok(()) }
}

/// The program has a strategy for single allocations.
pub static DECIDES: AtomicBool = AtomicBool::new(false);
/// Threads that are within a strategy.
static ASKED: AtomicUsize = AtomicUsize::new(0);

/// This thread is within one, until this is dropped.
struct Within;

impl Within {
    fn enter() -> Within {
        ASKED.fetch_add(1, Relaxed);
        DECIDING.set(true);
        Within
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        DECIDING.set(false);
        ASKED.fetch_sub(1, Relaxed);
    }
}

/// Asks the program's strategy, if it has one. The lock must not be held.
///
/// # Errors
/// [`Error::Strategy`] if it refuses, or what it says cannot be: also if something would not be where it must.
pub fn ask(
    registered: Option<Registered>,
    machine: &Machine,
    requests: &[(usize, &Wish, usize)],
    own: Vec<Decision>,
) -> Result<Vec<Decision>, Error> {
    let Some(Registered(function, context)) = registered else { return Ok(own) };
    let raw_request = |&(size, wish, object): &(usize, &Wish, usize)| Request {
        size,
        traits_count: wish.given.len(),
        traits: wish.given.as_ptr(),
        object: object as *const c_void,
    };
    let asked: Vec<Request> = requests.iter().map(raw_request).collect();
    let mut raw: Vec<RawDecision> = own.iter().map(to_raw).collect();
    let within = Within::enter();
    // SAFETY: the program's function, with as many requests and decisions as it is told.
    let refused = unsafe { function(context, asked.as_ptr(), asked.len(), raw.as_mut_ptr()) };
    drop(within);
    if refused != 0 {
        return Err(Error::Strategy);
    }
    let decided = |((raw, own), (_, wish, _)): ((&RawDecision, &Decision), &(usize, &Wish, usize))| {
        from_raw(raw, machine.tiers().len()).filter(|d| !wish.required || keeps(d, own)).ok_or(Error::Strategy)
    };
    raw.iter().zip(&own).zip(requests).map(decided).collect()
}

/// Whether a decision leaves where it is what another one has in the space that it is for.
fn keeps(decision: &Decision, own: &Decision) -> bool {
    decision.tier == own.tier && (decision.partition == Partition::Whole || own.partition != Partition::Whole)
}

fn to_raw(d: &Decision) -> RawDecision {
    let index = |tier: Option<usize>| tier.map_or(-1, |t| t as c_int);
    RawDecision {
        tier: index(d.tier),
        rest_tier: index(d.rest),
        weight: c_int::from(d.weight),
        partition: d.partition.number(),
        rank: d.rank,
    }
}

fn from_raw(raw: &RawDecision, tiers: usize) -> Option<Decision> {
    let index = |n: c_int| match n {
        -1 => Some(None),
        _ => usize::try_from(n).ok().filter(|&n| n < tiers).map(Some),
    };
    let (tier, rest) = (index(raw.tier)?, index(raw.rest_tier)?);
    let partition = Partition::of(u64::try_from(raw.partition).ok()?)?;
    let whole = Decision { rank: raw.rank, ..Decision::whole(tier) };
    if partition == Partition::Whole || raw.weight == 100 || tier == rest {
        return Some(whole);
    }
    let weight = u8::try_from(raw.weight).ok().filter(|w| (1..=99).contains(w))?;
    (tier.is_some() && rest.is_some()).then_some(Decision { rest, weight, partition, ..whole })
}

#[cfg(test)]
mod tests {
    use super::ask as ask_for;
    use super::*;
    use crate::machine::tests::two_tiers;

    unsafe extern "C" fn swap(context: *mut c_void, _: *const Request, count: usize, out: *mut RawDecision) -> c_int {
        // SAFETY: what `ask` passes.
        let (tier, all) = unsafe { (*context.cast::<c_int>(), core::slice::from_raw_parts_mut(out, count)) };
        all.iter_mut().for_each(|d| d.tier = tier);
        assert_eq!(not_within(), Err(Error::Strategy));
        c_int::from(tier == 9)
    }

    #[test]
    fn a_strategy_decides_and_nonsense_is_refused() {
        let wish = Wish::default();
        let ask = |mut tier: c_int| {
            let registered = Some(Registered(swap, (&raw mut tier).cast()));
            let decided = ask_for(registered, &two_tiers(), &[(1, &wish, 0)], vec![Decision::whole(Some(0))]);
            decided.map(|d| d[0].tier)
        };
        assert_eq!(
            [ask(1), ask(-1), ask(2), ask(-2), ask(9)].map(|d| d.ok()),
            [Some(Some(1)), Some(None), None, None, None]
        );
        let must = Wish { required: true, ..Wish::default() };
        let kept = |mut tier: c_int| {
            let registered = Some(Registered(swap, (&raw mut tier).cast()));
            ask_for(registered, &two_tiers(), &[(1, &must, 0)], vec![Decision::whole(Some(0))]).is_ok()
        };
        assert_eq!([0, 1, -1].map(kept), [true, false, false], "what is required stays where it must be");
        assert_eq!(not_within(), Ok(()));
        assert_eq!([0, 1, 3, 4].map(Stage::of), [None, Some(Stage::Allocation), Some(Stage::Migration), None]);
    }
}
