//! All that the library knows of its process, under one lock: heaps, objects, declarations.
//!
//! Strategies of the program's run without the lock, so that they may call the library.

use crate::decide::{self, Decision};
use crate::error::Error;
use crate::heap::Heap;
use crate::kernel::{self, PAGE, Residency};
use crate::machine::{MOST_TIERS, Machine};
use crate::runtime;
use crate::small::{self, Block, End, Small};
use crate::strategy::{self, Registered, Stage};
use crate::thread;
use crate::wish::{Partition, Trait, Wish};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use foldhash::HashMap;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernel's own needs in a node, and what others take meanwhile.
const MARGIN: u64 = 1 << 20;
/// Smaller objects are not compared with what is free: that costs more than they are worth, and the kernel falls back by itself.
const COMPARED_FROM: usize = 1 << 20;
/// So long what the kernel has said to be free is believed, if it is that much more than is needed.
const LATELY_NS: u64 = 10_000_000;
const PLENTY: u64 = 256 << 20;
/// From this size on the kernel is asked first whether it would map so much: the heaps' addresses are reserved without counting.
const ENORMOUS: usize = 1 << 30;
/// The heap of what is left to the kernel.
const NO_TIER: usize = MOST_TIERS;
/// Blocks of small objects that must be in their tier count as of a tier so much higher.
const PROVED: usize = MOST_TIERS + 1;

/// The addresses of the heaps: where each begins (0: there is none yet) and ends.
static RESERVED: [(AtomicUsize, AtomicUsize); MOST_TIERS + 1] =
    [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST_TIERS + 1];

/// Whether an address is one of Hearth's heaps; else it is another allocator's. Takes no lock: who has a pointer of a heap has it from after the heap
/// was made.
pub fn has_reserved(at: usize) -> bool {
    RESERVED.iter().any(|(start, end)| {
        let start = start.load(Acquire);
        start != 0 && at >= start && at < end.load(Relaxed)
    })
}

/// Bytes of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// That may be used.
    pub allocated: usize,
    /// Of the pages that they lie in.
    pub active: usize,
    /// Of these, what is there.
    pub resident: usize,
}

/// What the library knows.
#[derive(Debug)]
pub struct State {
    machine: Arc<Machine>,
    heaps: [Option<Heap>; MOST_TIERS + 1],
    /// Free memory of the tiers when it was last looked up.
    seen: [Option<Seen>; MOST_TIERS],
    /// Bytes of live objects that are to lie in a tier, in whole pages.
    live: [usize; MOST_TIERS],
    objects: HashMap<usize, Object>,
    small: Small,
    /// Traits of small objects, by the number that stands with them.
    wishes: Vec<Wish>,
    numbers: HashMap<Arc<[Trait]>, u16>,
    last_number: u16,
    declared: HashMap<u64, Declared>,
    last_declaration: u64,
    last_serial: u64,
    /// The traits of the last allocation, and what they come to: many in a row have the same.
    last: Option<(Arc<Wish>, Decision)>,
    /// Objects whose traits changed since the last migration.
    changed: BTreeSet<usize>,
    strategies: [Option<Registered>; 3],
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    /// In ns.
    at: u64,
    free: u64,
}

/// An object of whole pages.
#[derive(Debug)]
struct Object {
    size: usize,
    /// Bytes of its pages.
    run: usize,
    /// Heap that its addresses are of.
    heap: usize,
    /// Where it lies.
    decision: Decision,
    /// Some of it is bound otherwise than its heap.
    bound: bool,
    wish: Arc<Wish>,
    name: Option<CString>,
    /// Another object may get its address.
    serial: u64,
}

/// An object whose traits changed.
#[derive(Debug)]
pub struct Changed {
    /// Its address.
    pub at: usize,
    /// Bytes.
    pub size: usize,
    /// Its traits.
    pub wish: Arc<Wish>,
    serial: u64,
}

impl Object {
    /// Bytes of a tier that it was promised and has not touched yet. Of small ones nobody asks.
    fn untouched(&self, at: usize, tier: usize) -> usize {
        let share: usize = self.decision.shares(self.run).filter(|s| s.0 == tier).map(|s| s.1).sum();
        if share == 0 || self.run < COMPARED_FROM {
            return 0;
        }
        let absent = self.run.saturating_sub(kernel::present(at, self.run));
        (absent as u128 * share as u128 / self.run as u128) as usize
    }
}

/// Something that was declared: where its address goes.
#[derive(Debug)]
pub struct Declared {
    /// Address of the program's pointer.
    pub place: usize,
    /// Bytes.
    pub size: usize,
    /// Its traits.
    pub wish: Wish,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// The lock, while a thread forks: the child's copy is in order.
struct Held(UnsafeCell<Option<MutexGuard<'static, Option<State>>>>);
// SAFETY: only whoever has the lock touches it.
unsafe impl Sync for Held {}
static HELD: Held = Held(UnsafeCell::new(None));

fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn before_fork() {
    let guard = lock();
    // SAFETY: the lock is this thread's.
    unsafe { *HELD.0.get() = Some(guard) };
}

extern "C" fn after_fork() {
    // SAFETY: the lock is still this thread's, or its only copy's in the child.
    unsafe { *HELD.0.get() = None };
}

extern "C" fn after_fork_in_child() {
    // SAFETY: as above.
    if let Some(state) = unsafe { &mut *HELD.0.get() }.as_mut().and_then(|guard| guard.as_mut()) {
        // What is not put back is only lost.
        let _ = state.take_back_from_others();
    }
    after_fork();
}

/// Before the lock is taken for the first time, and after the runtime's constructor: handlers of a fork run in the other order before it, and who waits
/// for the lock with the runtime's already run may wait for a thread that waits for the runtime.
fn prepare() {
    static PREPARED: AtomicBool = AtomicBool::new(false);
    if !PREPARED.load(Relaxed) && !PREPARED.swap(true, Relaxed) {
        // SAFETY: handlers that only take and give back the lock.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork_in_child)) };
    }
}

/// Does something with the state, which the first call makes.
///
/// # Errors
/// [`Error::Platform`] if the machine's memories could not be found; else what `f` says.
pub fn with<R>(f: impl FnOnce(&mut State) -> Result<R, Error>) -> Result<R, Error> {
    prepare();
    if let Some(state) = lock().as_mut() {
        return f(state);
    }
    // Without the lock: hwloc loads libraries, and what such a library does when it is loaded may be a call of this one. Two threads may
    // both look.
    let machine = runtime::aside(Machine::find)?;
    f(lock().get_or_insert_with(|| State::new(machine)))
}

/// Ends an object, without the lock where that is enough.
///
/// # Errors
/// As [`State::release`].
pub fn release(at: usize) -> Result<(), Error> {
    match small::end(at) {
        End::Done => Ok(()),
        End::LookAt(block) => with(|s| s.look_at(block)),
        End::None => with(|s| s.release_whole(at)),
    }
}

/// A thread that ends has these blocks no more.
pub fn leave(blocks: Vec<&'static Block>) {
    if !blocks.is_empty() {
        // What is not put back is only lost.
        let _ = with(|s| blocks.into_iter().try_for_each(|block| s.leave(block)));
    }
}

impl State {
    fn new(machine: Machine) -> State {
        State {
            machine: Arc::new(machine),
            heaps: [const { None }; MOST_TIERS + 1],
            seen: [None; MOST_TIERS],
            live: [0; MOST_TIERS],
            objects: HashMap::default(),
            small: Small::default(),
            wishes: vec![Wish::default()],
            numbers: HashMap::default(),
            last_number: 0,
            declared: HashMap::default(),
            last_declaration: 0,
            last_serial: 0,
            last: None,
            changed: BTreeSet::new(),
            strategies: [None; 3],
        }
    }

    /// The tiers.
    pub fn machine(&self) -> Arc<Machine> {
        Arc::clone(&self.machine)
    }

    /// Where an object's traits alone want it.
    ///
    /// # Errors
    /// As [`decide::alone`].
    pub fn alone(&mut self, wish: &Wish) -> Result<Decision, Error> {
        let decision = decide::alone(&self.machine, wish)?;
        self.last = Some((Arc::new(wish.clone()), decision));
        Ok(decision)
    }

    /// [`State::allocate`] where traits are those of the last allocation, and no strategy of the program's decides. `None`: they are not.
    ///
    /// # Errors
    /// As [`State::allocate`].
    pub fn again(&mut self, size: usize, traits: &[Trait]) -> Result<Option<usize>, Error> {
        if self.strategies[Stage::Allocation as usize].is_some() {
            return Ok(None);
        }
        let Some(last) = self.last.take_if(|(wish, _)| *wish.given == *traits) else { return Ok(None) };
        let made = self.place(size, &last.0, || Arc::clone(&last.0), last.1, false);
        self.last = Some(last);
        made.map(Some)
    }

    /// The program's strategy for a stage.
    pub fn strategy(&self, stage: Stage) -> Option<Registered> {
        self.strategies[stage as usize]
    }

    /// Registers one, or takes it away.
    pub fn register(&mut self, stage: Stage, strategy: Option<Registered>) {
        self.strategies[stage as usize] = strategy;
        strategy::DECIDES.store(self.strategies[Stage::Allocation as usize].is_some(), Release);
    }

    /// Bytes that objects may still take of a tier: what is to be had of the kernel, without what was handed out and not touched yet.
    pub fn room(&self, tier: usize) -> u64 {
        let untouched: usize = self.objects.iter().map(|(&at, object)| object.untouched(at, tier)).sum();
        self.machine.to_be_had(tier).saturating_sub(untouched as u64 + MARGIN)
    }

    /// The room of all tiers.
    pub fn rooms(&self) -> Vec<u64> {
        (0..self.machine.tiers().len()).map(|tier| self.room(tier)).collect()
    }

    fn has_room(&mut self, tier: usize, bytes: usize) -> bool {
        let all = (self.live.get(tier).copied().unwrap_or(0) + bytes) as u64;
        let Some(seen) = self.seen.get_mut(tier) else { return false };
        // Where there was plenty a moment ago, and even all that was handed out would have room, there is nothing to look up: the kernel
        // takes longer to say it than to map a mebibyte.
        let now = kernel::coarse_ns();
        let lately = seen
            .filter(|s| now.saturating_sub(s.at) < LATELY_NS && s.free >= PLENTY.saturating_add(all.saturating_mul(2)));
        if lately.is_some() {
            return true;
        }
        let free = self.machine.to_be_had(tier);
        *seen = Some(Seen { at: now, free });
        free >= all + MARGIN || self.room(tier) >= bytes as u64
    }

    fn heap(&mut self, index: usize) -> Result<&mut Heap, Error> {
        let slot = self.heaps.get_mut(index).ok_or(Error::Tier)?;
        if slot.is_none() {
            let nodes = self.machine.nodes(index);
            let alone = self.machine.tiers().len() == 1;
            let heap = Heap::new(nodes, alone).ok_or(Error::Room)?;
            RESERVED[index].1.store(heap.range().end, Relaxed);
            RESERVED[index].0.store(heap.range().start, Release);
            *slot = Some(heap);
        }
        slot.as_mut().ok_or(Error::Room)
    }

    /// An object where a decision says or, if it need not be there and there is no room, elsewhere. `zero`: all zeroes.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::Room`], [`Error::Tier`] for a decision that cannot be.
    pub fn allocate(&mut self, size: usize, wish: &Wish, decision: Decision, zero: bool) -> Result<usize, Error> {
        let last = self.last.as_ref().filter(|(last, _)| **last == *wish).map(|(last, _)| Arc::clone(last));
        self.place(size, wish, || last.unwrap_or_else(|| Arc::new(wish.clone())), decision, zero)
    }

    /// [`State::allocate`]. `keep`: traits that an object may have together with others.
    fn place(
        &mut self,
        size: usize,
        wish: &Wish,
        keep: impl FnOnce() -> Arc<Wish>,
        decision: Decision,
        zero: bool,
    ) -> Result<usize, Error> {
        if size == 0 || size > isize::MAX as usize {
            return Err(Error::Size);
        }
        let align = wish.alignment.unwrap_or(1);
        if size <= small::LARGEST && align <= PAGE {
            let at = self.allocate_small(size, align.max(16), wish, decision)?;
            if zero {
                // SAFETY: a fresh object of so many bytes.
                unsafe { core::ptr::write_bytes(at as *mut u8, 0, size) };
            }
            return Ok(at);
        }
        let run = size.next_multiple_of(PAGE);
        if size >= ENORMOUS && !kernel::would_map(size) {
            return Err(Error::Room);
        }
        let compared = size >= COMPARED_FROM || wish.required;
        let tiers = self.machine.tiers().len();
        let decision = match wish.required {
            _ if !compared => decision,
            false => decide::fitting(decision, run, tiers, |t, bytes| self.has_room(t, bytes)),
            true if decision.shares(run).all(|(tier, bytes)| self.has_room(tier, bytes)) => decision,
            true => return Err(Error::Room),
        };
        let heap = decision.home().unwrap_or(NO_TIER);
        let (at, fresh) = self.heap(heap)?.take(run, align)?;
        let stretches = decision.stretches(run);
        let bound = !stretches.is_empty();
        let nodes = decision.tier.map_or(0, |tier| self.machine.nodes(tier));
        if wish.required && !fresh {
            // Pages that an object before it has left may be elsewhere.
            // SAFETY: pages that were just handed out.
            unsafe { kernel::give_back(at, run) };
        }
        for &(offset, len) in &stretches {
            // Pages that an object before it has left are where that one was.
            // SAFETY: pages that were just handed out.
            unsafe {
                kernel::give_back(at + offset, len);
                if !kernel::bind(at + offset, len, nodes) {
                    self.heap(heap)?.put(at, run, true);
                    return Err(Error::Kernel);
                }
            }
        }
        if wish.required {
            if let Err(e) = self.prove(at, run, &decision) {
                self.heap(heap)?.put(at, run, true);
                return Err(e);
            }
        }
        if zero && !fresh {
            // SAFETY: pages that were just handed out.
            unsafe { core::ptr::write_bytes(at as *mut u8, 0, size) };
        }
        self.last_serial += 1;
        let (wish, serial) = (keep(), self.last_serial);
        let object = Object { size, run, heap, decision, bound, wish, name: None, serial };
        self.count(&object, true);
        self.objects.insert(at, object);
        runtime::begins(at, run, self.a_node(&decision), None);
        Ok(at)
    }

    fn allocate_small(&mut self, size: usize, align: usize, wish: &Wish, decision: Decision) -> Result<usize, Error> {
        let class = small::class(size, align);
        let heap = decision.tier.unwrap_or(NO_TIER);
        // Blocks of what is required are proved as a whole when they are made.
        let kind = if wish.required { heap + PROVED } else { heap };
        let number = self.number(wish);
        if let Some(at) = thread::take(kind, class, number) {
            thread::remember(wish, align, kind, number);
            return Ok(at);
        }
        if let Some(full) = thread::give_up(kind, class) {
            self.leave(full)?;
        }
        let block = match self.small.own(kind, class) {
            Some(block) => block,
            None => self.new_block(kind, class, wish.required)?,
        };
        let at = block.take(number).ok_or(Error::Room)?;
        if !thread::keep(block, (kind, class), wish, align, number) {
            self.leave(block)?;
        }
        Ok(at)
    }

    fn new_block(&mut self, kind: usize, class: usize, required: bool) -> Result<&'static Block, Error> {
        let heap = kind % PROVED;
        let (block, fresh) = self.heap(heap)?.take(small::BLOCK, small::BLOCK)?;
        if required {
            if !fresh {
                // SAFETY: pages that were just handed out.
                unsafe { kernel::give_back(block, small::BLOCK) };
            }
            let tier = (heap != NO_TIER).then_some(heap);
            if let Err(e) = self.prove(block, small::BLOCK, &Decision::whole(tier)) {
                self.heap(heap)?.put(block, small::BLOCK, true);
                return Err(e);
            }
        }
        runtime::aside(|| self.small.add(block, kind, class)).ok_or(Error::Room)
    }

    /// A block that is none any more goes back to its heap.
    fn put_back(&mut self, (start, kind): (usize, usize)) -> Result<(), Error> {
        self.heap(kind % PROVED)?.put(start, small::BLOCK, false);
        Ok(())
    }

    fn leave(&mut self, block: &'static Block) -> Result<(), Error> {
        self.small.leave(block).map_or(Ok(()), |gone| self.put_back(gone))
    }

    fn look_at(&mut self, block: usize) -> Result<(), Error> {
        self.small.look_at(block).map_or(Ok(()), |gone| self.put_back(gone))
    }

    /// In a child of a fork there are no other threads.
    fn take_back_from_others(&mut self) -> Result<(), Error> {
        self.small.leave_all(thread::has).into_iter().try_for_each(|gone| self.put_back(gone))
    }

    /// The number of a small object's traits. A program that has more than 65,535 lists of them has objects without.
    fn number(&mut self, wish: &Wish) -> u16 {
        // A program that makes many makes many of one kind.
        if self.wishes.get(usize::from(self.last_number)).is_some_and(|last| last.given == wish.given) {
            return self.last_number;
        }
        self.last_number = self.find_number(wish);
        self.last_number
    }

    fn find_number(&mut self, wish: &Wish) -> u16 {
        if let Some(&number) = self.numbers.get(&wish.given) {
            return number;
        }
        let Ok(number) = u16::try_from(self.wishes.len()) else { return 0 };
        self.wishes.push(wish.clone());
        self.numbers.insert(wish.given.clone(), number);
        number
    }

    /// Touches fresh pages, and looks where they are.
    fn prove(&self, at: usize, bytes: usize, decision: &Decision) -> Result<(), Error> {
        // SAFETY: pages that were just handed out.
        let touched = unsafe { kernel::touch(at, bytes) };
        if touched && self.is_there(at, bytes, decision)? { Ok(()) } else { Err(Error::Room) }
    }

    /// Whether what is present of a decision's share lies in its tier.
    fn is_there(&self, at: usize, run: usize, decision: &Decision) -> Result<bool, Error> {
        let Some(tier) = decision.tier else { return Ok(true) };
        let whole = decision.partition == Partition::Whole;
        let all = if whole { vec![(0, run)] } else { decision.stretches(run) };
        for (offset, len) in all {
            let found = kernel::residency(&self.machine, at + offset, len).ok_or(Error::Kernel)?;
            if found.in_tier.get(tier).copied().unwrap_or(0) + found.absent < len.next_multiple_of(PAGE) as u64 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn a_node(&self, decision: &Decision) -> u32 {
        decision.tier.map_or(u32::MAX, |tier| self.machine.nodes(tier).trailing_zeros())
    }

    fn count(&mut self, object: &Object, born: bool) {
        for (tier, bytes) in object.decision.shares(object.run) {
            if let Some(live) = self.live.get_mut(tier) {
                *live = if born { *live + bytes } else { live.saturating_sub(bytes) };
            }
        }
    }

    /// Ends an object.
    ///
    /// # Errors
    /// [`Error::Foreign`] if there is none at this address.
    pub fn release(&mut self, at: usize) -> Result<(), Error> {
        match small::end(at) {
            End::Done => Ok(()),
            End::LookAt(block) => self.look_at(block),
            End::None => self.release_whole(at),
        }
    }

    fn release_whole(&mut self, at: usize) -> Result<(), Error> {
        let object = self.objects.remove(&at).ok_or(Error::Foreign)?;
        runtime::ends(at, object.run);
        self.changed.remove(&at);
        self.count(&object, false);
        if object.name.is_some() {
            kernel::show_name(at, object.run, None);
        }
        self.heap(object.heap)?.put(at, object.run, object.bound);
        Ok(())
    }

    /// Bytes that may be used of an object.
    pub fn usable(&self, at: usize) -> Option<usize> {
        self.objects.get(&at).map(|o| o.run).or_else(|| small::get(at).map(|place| place.size))
    }

    /// Sums up the objects whose traits are to be counted.
    pub fn tally(&self, counted: impl Fn(&Wish) -> bool) -> Tally {
        let mut tally = Tally::default();
        let mut add = |at: usize, pages: usize, allocated: usize| {
            tally.allocated += allocated;
            tally.active += pages;
            tally.resident += kernel::present(at, pages);
        };
        self.objects.iter().filter(|(_, o)| counted(&o.wish)).for_each(|(&at, o)| add(at, o.run, o.run));
        let numbers: Vec<bool> = self.wishes.iter().map(counted).collect();
        for (start, size, kept) in self.small.blocks() {
            let count = kept.iter().filter(|&&n| numbers.get(usize::from(n)) == Some(&true)).count();
            if count > 0 {
                add(start, small::BLOCK, count * size);
            }
        }
        tally
    }

    /// Changes an object's size if that needs no other pages.
    pub fn resize_in_place(&mut self, at: usize, size: usize) -> bool {
        if let Some(object) = self.objects.get_mut(&at) {
            let fits = size > small::LARGEST && size.checked_next_multiple_of(PAGE) == Some(object.run);
            object.size = if fits { size } else { object.size };
            return fits;
        }
        small::get(at).is_some_and(|place| size <= place.size && size > place.size / 2)
    }

    /// What must be known of an object to make another one like it: the bytes that may be used of it, traits, and name.
    ///
    /// # Errors
    /// [`Error::Foreign`].
    pub fn like(&self, at: usize) -> Result<(usize, Wish, Option<CString>), Error> {
        if let Some(o) = self.objects.get(&at) {
            return Ok((o.run, (*o.wish).clone(), o.name.clone()));
        }
        let place = small::get(at).ok_or(Error::Foreign)?;
        let wish = self.wishes.get(usize::from(place.kept)).cloned().unwrap_or_default();
        Ok((place.size, wish, None))
    }

    /// Names an object.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Small`].
    pub fn name(&mut self, at: usize, name: CString) -> Result<(), Error> {
        let small = small::get(at).is_some();
        let Some(object) = self.objects.get_mut(&at) else {
            return Err(if small { Error::Small } else { Error::Foreign });
        };
        kernel::show_name(at, object.run, Some(&name));
        let (run, decision) = (object.run, object.decision);
        object.name = Some(name.clone());
        runtime::ends(at, run);
        runtime::begins(at, run, self.a_node(&decision), Some(&name));
        Ok(())
    }

    /// Declares an object; its number.
    ///
    /// # Errors
    /// [`Error::Size`]; [`Error::Tier`] for a space that this machine does not have.
    pub fn declare(&mut self, declared: Declared) -> Result<u64, Error> {
        if declared.size == 0 || declared.size > isize::MAX as usize {
            return Err(Error::Size);
        }
        decide::alone(&self.machine, &declared.wish)?;
        self.last_declaration += 1;
        self.declared.insert(self.last_declaration, declared);
        Ok(self.last_declaration)
    }

    /// What was declared.
    ///
    /// # Errors
    /// [`Error::Handle`] if there is none of this number.
    pub fn declared(&self, number: u64) -> Result<&Declared, Error> {
        self.declared.get(&number).ok_or(Error::Handle)
    }

    /// Ends a declaration.
    ///
    /// # Errors
    /// [`Error::Handle`].
    pub fn withdraw(&mut self, number: u64) -> Result<Declared, Error> {
        self.declared.remove(&number).ok_or(Error::Handle)
    }

    /// Gives an object other traits.
    ///
    /// # Errors
    /// [`Error::Foreign`], [`Error::Small`], [`Error::Tier`].
    pub fn update(&mut self, at: usize, mut wish: Wish) -> Result<(), Error> {
        if small::get(at).is_some() {
            return Err(Error::Small);
        }
        decide::alone(&self.machine, &wish)?;
        let object = self.objects.get_mut(&at).ok_or(Error::Foreign)?;
        wish.alignment = object.wish.alignment;
        object.wish = Arc::new(wish);
        self.changed.insert(at);
        Ok(())
    }

    /// Objects whose traits changed since the last time.
    pub fn take_changed(&mut self) -> Vec<Changed> {
        let all = std::mem::take(&mut self.changed);
        let changed = |at| {
            self.objects.get(&at).map(|o| Changed { at, size: o.size, wish: Arc::clone(&o.wish), serial: o.serial })
        };
        all.into_iter().filter_map(changed).collect()
    }

    /// The object, if it is still the same.
    fn same(&self, changed: &Changed) -> Option<&Object> {
        self.objects.get(&changed.at).filter(|o| o.serial == changed.serial)
    }

    /// It could not be moved this time.
    pub fn change_again(&mut self, changed: &Changed) {
        if self.same(changed).is_some() {
            self.changed.insert(changed.at);
        }
    }

    /// Whether a decision leaves this object's tier for a slower one, or one for others.
    pub fn makes_room(&self, changed: &Changed, decision: &Decision) -> bool {
        let slowness = |d: &Decision, run: usize| -> u128 {
            d.shares(run).map(|(tier, bytes)| tier as u128 * bytes as u128).sum()
        };
        self.same(changed).is_some_and(|o| slowness(decision, o.run) > slowness(&o.decision, o.run))
    }

    /// Moves an object to where a decision says or, if it need not be there and there is no room, leaves it. Bytes that the kernel has moved.
    ///
    /// # Errors
    /// [`Error::Room`] if it is required and there is none, or the kernel did not move all of it; [`Error::Kernel`].
    pub fn carry(&mut self, changed: &Changed, decision: Decision) -> Result<usize, Error> {
        // Freed meanwhile.
        let Some(run) = self.same(changed).map(|o| o.run) else { return Ok(0) };
        let at = changed.at;
        let before = kernel::residency(&self.machine, at, run).ok_or(Error::Kernel)?;
        // What it was promised itself is not in its way.
        let Some(mut object) = self.objects.remove(&at) else { return Ok(0) };
        self.count(&object, false);
        let mut room = |tier: usize, bytes: usize| {
            let here = before.in_tier.get(tier).copied().unwrap_or(0) as usize;
            bytes <= here || self.has_room(tier, bytes - here)
        };
        let moved = if decision.shares(run).all(|(tier, bytes)| room(tier, bytes)) {
            (object.decision, object.bound) = (decision, true);
            if self.rebind(at, run, &decision) { Ok(true) } else { Err(Error::Kernel) }
        } else if object.wish.required {
            Err(Error::Room)
        } else {
            Ok(false)
        };
        let required = object.wish.required;
        self.count(&object, true);
        self.objects.insert(at, object);
        if !moved? {
            return Ok(0);
        }
        let after = kernel::residency(&self.machine, at, run).ok_or(Error::Kernel)?;
        if required && !self.is_there(at, run, &decision)? {
            return Err(Error::Room);
        }
        Ok(arrived(&before, &after))
    }

    /// Binds an object's pages, and moves them there.
    fn rebind(&self, at: usize, run: usize, decision: &Decision) -> bool {
        let of = |tier: Option<usize>| tier.map_or(0, |tier| self.machine.nodes(tier));
        let (home, away) = (of(decision.home()), of(decision.tier));
        // What is home's lies between the stretches.
        let mut next = 0;
        decision.stretches(run).into_iter().chain([(run, 0)]).all(|(offset, len)| {
            // SAFETY: pages of the object.
            let done = unsafe {
                (next == offset || kernel::migrate(at + next, offset - next, home))
                    && (len == 0 || kernel::migrate(at + offset, len, away))
            };
            next = offset + len;
            done
        })
    }
}

fn arrived(before: &Residency, after: &Residency) -> usize {
    after.in_tier.iter().zip(&before.in_tier).map(|(a, b)| a.saturating_sub(*b)).sum::<u64>() as usize
}
