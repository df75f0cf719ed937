//! What a phase moves: the live objects of some sites, and where their next ones go.
//!
//! A phase says for sites where they belong from now on; then every live object that lies elsewhere is moved, what leaves a faster
//! tier first. Its address stays. A thread of the runtime's own does it, beside the program; on a single processor that would be no
//! gain, and the program is better off with its memory in place, so there it is done before the phase begins.
//!
//! What is moved counts as moved beside the program's work as long as the phase that is under way does not use its site, as the plan says
//! ([`ImageMove::idle`]): piece by piece, since a phase that does may begin meanwhile. Nobody waits for what is under way then: what of it is in place
//! already is used where it is, and the rest comes.
//!
//! The thread is one that libc does not know (see [`crate::sampler`]'s): what runs in it uses no thread-local storage.

use crate::objects::{self, MOST_PARTED, Moved, Object};
use crate::sites::{Place, Site};
use crate::{heap, plan, process, range, sandbox, sites, statics, sys};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::*};
use wire::image::{ImageMove, PARTS};

const PAGE: usize = 4096;
const STACK: usize = 64 << 10;
/// So much at a time, the larger or the smaller. The kernel clears the new places of all pages of a call first (`init_on_alloc`, the default of Debian and
/// Ubuntu), and what of these has left the cache until it is copied goes over the slower memory's bus twice: in the lab, whose caches are small, a page takes
/// 22 us from DRAM to CXL by 2 MiB and 12 by 128 KiB. But with each call it drains the lists of all processors, which takes tens of us and more the more
/// there are. Which of the two is quicker is measured. Huge pages go whole either way.
const PIECES: [usize; 2] = [2 << 20, 128 << 10];
/// What 4 KiB took by each of them lately, in ns; 0: it was not tried yet.
static PACE: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
/// Once in so many times the other one is tried again.
const AGAIN_AFTER: u32 = 32;
static TURN: AtomicU32 = AtomicU32::new(0);
/// Smaller objects stay where they are.
const LEAST: usize = 64 << 10;
/// Most objects that lie elsewhere than their addresses say: each makes two more mappings, of which the kernel allows 65,530.
const MOST: usize = 8192;
/// Pages of an object that the kernel is asked for afterwards.
const ASKED: usize = 64;

/// Objects that lie elsewhere.
static ELSEWHERE: AtomicUsize = AtomicUsize::new(0);
/// Counts what is to be done: a futex word.
static WANTED: AtomicU32 = AtomicU32::new(0);
/// Process that has its thread, and that thread.
static THREAD_OF: AtomicU32 = AtomicU32::new(0);
static THREAD: AtomicU32 = AtomicU32::new(0);
/// Process whose memory is being moved, and whether it is to be looked at once more: one thread at a time. In a child of a fork the one that
/// was at it does not exist.
static MOVING: AtomicU32 = AtomicU32::new(0);
static AGAIN: AtomicU32 = AtomicU32::new(0);
/// Process of which a thread says where sites belong.
static SENDING: AtomicU32 = AtomicU32::new(0);
/// So often, and so long each time, another thread waits for it.
const SENDING_TRIES: usize = 20;
const SENDING_NS: u64 = 50_000;

/// A phase begins.
pub fn begin(moves: impl Iterator<Item = ImageMove>) {
    if sandbox::silent() {
        return;
    }
    send(moves);
    if alone() || !start() {
        let began = sys::now_in_handler();
        settle(By::Program);
        let took = sys::now_in_handler().saturating_sub(began);
        return process::info().iter().for_each(|h| _ = h.counters.moving_waited_ns.fetch_add(took, Relaxed));
    }
    WANTED.fetch_add(1, Release);
    sys::wake(&WANTED);
}

/// Says of sites where they belong from now on: one phase after the other, as two threads may allocate what they begin with at once. In a child of
/// a fork who was at it does not exist. Who is at it may be a thread that does not get the processor as long as this one has it: so it is waited for
/// asleep, and not for long. At worst two placements are mixed until the next phase.
fn send(moves: impl Iterator<Item = ImageMove>) {
    let Some(pid) = process::info().map(|h| h.pid.load(Relaxed)) else { return };
    let take = || SENDING.fetch_update(Acquire, Relaxed, |of| (of != pid).then_some(pid)).is_ok();
    for _ in 0..SENDING_TRIES {
        if take() {
            break;
        }
        sys::wait_on(&SENDING, pid, SENDING_NS);
    }
    for m in moves {
        if let Some((_, site)) = sites::find(m.site) {
            site.send_to(Place { tier: m.tier, rest: m.rest, parts: m.parts }, m.idle);
        }
    }
    SENDING.store(0, Release);
}

/// Whether the thread has but one processor, which one that it starts would share.
fn alone() -> bool {
    let mut set = [0u64; 128];
    // SAFETY: writes at most the buffer's length.
    let len = unsafe { sys::call3(libc::SYS_sched_getaffinity, 0, size_of_val(&set), set.as_mut_ptr() as usize) };
    len > 0 && set.iter().map(|w| w.count_ones()).sum::<u32>() <= 1
}

/// Makes sure that this process has its thread.
fn start() -> bool {
    let Some(pid) = process::info().map(|h| h.pid.load(Relaxed)) else { return false };
    if THREAD_OF.load(Acquire) == pid {
        return true;
    }
    let stack = sys::map_lazily(STACK);
    // SAFETY: the stack is the fresh mapping's; what runs there keeps to the rules.
    let started = stack != 0 && unsafe { sys::helper(stack + STACK, body) };
    if started {
        THREAD_OF.store(pid, Release);
    } else if stack != 0 {
        // SAFETY: the mapping just made.
        unsafe { sys::call3(libc::SYS_munmap, stack, STACK, 0) };
    }
    started
}

/// Whether this is the thread that moves: it touches no memory of the program's.
pub fn is_thread(tid: u32) -> bool {
    THREAD.load(Acquire) == tid
}

extern "C" fn body() {
    let name = c"hearth-mover".as_ptr() as usize;
    // SAFETY: no arguments; a NUL-terminated name.
    unsafe {
        THREAD.store(sys::call3(libc::SYS_gettid, 0, 0, 0) as u32, Release);
        sys::call3(libc::SYS_prctl, libc::PR_SET_NAME as usize, name, 0);
    }
    let mut done = 0;
    loop {
        let wanted = WANTED.load(Acquire);
        if wanted != done {
            settle(By::Helper);
            done = wanted;
            continue;
        }
        let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
        // SAFETY: waits on a word of ours.
        unsafe { sys::call(libc::SYS_futex, [WANTED.as_ptr() as usize, wait, done as usize, 0, 0, 0]) };
    }
}

/// Moves what does not lie where its site belongs: first what goes to slower tiers, so that there is room.
fn settle(by: By) {
    let Some(pid) = process::info().map(|h| h.pid.load(Relaxed)) else { return };
    // Whoever is at it sees, when it is done, that it is to look once more.
    AGAIN.store(1, SeqCst);
    let take = || MOVING.fetch_update(SeqCst, SeqCst, |of| (of != pid).then_some(pid)).is_ok();
    while AGAIN.load(SeqCst) != 0 && take() {
        AGAIN.store(0, SeqCst);
        move_all(by);
        MOVING.store(0, SeqCst);
    }
}

/// Who moves.
#[derive(Clone, Copy, PartialEq)]
enum By {
    /// The runtime's thread.
    Helper,
    /// A thread of the program's, which waits for it.
    Program,
}

/// What is moved one after the other.
#[derive(Clone, Copy, PartialEq)]
enum Turn {
    /// What goes to slower tiers.
    MakesRoom,
    /// What the phase uses.
    Wanted,
    /// What later ones use.
    Ahead,
}

impl Turn {
    fn of(makes_room: bool, site: &Site) -> Turn {
        match (makes_room, site.is_idle()) {
            (true, _) => Turn::MakesRoom,
            (_, false) => Turn::Wanted,
            (_, true) => Turn::Ahead,
        }
    }
}

fn move_all(by: By) {
    for turn in [Turn::MakesRoom, Turn::Wanted, Turn::Ahead] {
        for tier in 0..plan::tiers() {
            let start = range::base() + tier * range::tier_span();
            objects::each(start, heap::used(tier), |addr, object| {
                let site = sites::at(object.site).filter(|_| object.bytes >= LEAST && !object.split);
                let Some((site, to)) = site.and_then(|s| Some((s, s.sent_to()?))) else { return };
                if let Some(to) = Lies::there(addr, object, to) {
                    let from = Lies::of(addr, object);
                    if from != to && Turn::of(to.slowness() > from.slowness(), site) == turn {
                        transfer(addr, object, from, to, &Work { site, by });
                    }
                }
            });
        }
        statics::each_movable(|v| {
            // A variable goes whole where most of it belongs.
            let Some((site, to)) = v.site().and_then(|s| Some((s, usize::from(s.sent_to()?.most())))) else { return };
            let from = v.tier();
            if from != to && Turn::of(to > from, site) == turn && enough(from, to, v.counts) {
                // It lives as long as the program.
                _ = carry(v.start, v.end, to, &Work { site, by }, || true);
                plan::count_out(None, from, v.counts);
                plan::count_in(None, to, v.counts);
                v.lies_in(to);
                look(v.start, v.end - v.start, to);
                process::info().iter().for_each(|h| _ = h.counters.moved.fetch_add(1, Relaxed));
            }
        });
    }
}

/// What is being moved, and by whom.
struct Work {
    site: &'static Site,
    by: By,
}

impl Work {
    /// Counts a piece that has moved, and the time that it took.
    fn counts(&self, bytes: usize, ns: u64) {
        let Some(h) = process::info() else { return };
        let add = |bytes_of: &AtomicU64, ns_of: &AtomicU64| {
            bytes_of.fetch_add(bytes as u64, Relaxed);
            ns_of.fetch_add(ns, Relaxed);
        };
        add(&h.counters.moved_bytes, &h.counters.moving_ns);
        if self.by == By::Helper && self.site.is_idle() {
            add(&h.counters.moved_beside, &h.counters.moving_beside_ns);
        }
    }
}

/// How an object lies: the tier of its address has it but for one stretch, which is in another one.
#[derive(Clone, Copy, PartialEq)]
struct Lies {
    bytes: usize,
    home: usize,
    /// Tier of the stretch, and where it begins and ends; nothing: `home`, and no bytes.
    away: usize,
    from: usize,
    to: usize,
}

/// Stretches of objects that lie elsewhere in part: 1 + tier, from, to; 0 in the first: free.
static PARTED: [[AtomicUsize; 3]; MOST_PARTED] = [const { [const { AtomicUsize::new(0) }; 3] }; MOST_PARTED];

impl Lies {
    fn of(addr: usize, object: Object) -> Lies {
        let (bytes, home) = (object.bytes, range::tier_of(addr));
        let (away, from, to) = match object.moved {
            None => (home, 0, 0),
            Some(Moved::To(tier)) => (usize::from(tier), 0, bytes),
            Some(Moved::Part(entry)) => {
                let [tier, from, to] =
                    PARTED.get(usize::from(entry)).map_or([0; 3], |e| e.each_ref().map(|w| w.load(Acquire)));
                (tier.saturating_sub(1), from, to)
            }
        };
        Lies { bytes, home, away, from, to }
    }

    /// How it is to lie. `None`: an object of this address cannot lie so.
    fn there(addr: usize, object: Object, place: Place) -> Option<Lies> {
        let (bytes, home) = (object.bytes, range::tier_of(addr));
        let (tier, rest) = (usize::from(place.tier), usize::from(place.rest));
        let first = (bytes as u128 * u128::from(place.parts) / u128::from(PARTS)) as usize & !(PAGE - 1);
        let whole = u32::from(place.parts) >= PARTS;
        let (away, from, to) = match () {
            () if whole && tier == home => (home, 0, 0),
            () if whole => (tier, 0, bytes),
            () if rest == home => (tier, 0, first),
            () if tier == home => (rest, first, bytes),
            () => return None,
        };
        Some(Lies { bytes, home, away, from, to })
    }

    fn away_bytes(self) -> usize {
        self.to - self.from
    }

    /// Larger for what is in slower tiers.
    fn slowness(self) -> u128 {
        (self.bytes - self.away_bytes()) as u128 * self.home as u128 + self.away_bytes() as u128 * self.away as u128
    }

    /// Bytes in a tier.
    fn within(self, tier: usize) -> usize {
        let home = if tier == self.home { self.bytes - self.away_bytes() } else { 0 };
        home + if tier == self.away { self.away_bytes() } else { 0 }
    }

    /// The tier of the byte at an offset.
    fn at(self, offset: usize) -> usize {
        if (self.from..self.to).contains(&offset) { self.away } else { self.home }
    }

    /// What the table of objects is to say of it; an entry is taken if it needs one, and `None` says that there is none.
    fn written(self) -> Option<Option<Moved>> {
        match self.away_bytes() {
            0 => Some(None),
            all if all == self.bytes => Some(Some(Moved::To(self.away as u8))),
            _ => {
                let taken = |e: &&[AtomicUsize; 3]| e[0].compare_exchange(0, self.away + 1, AcqRel, Relaxed).is_ok();
                let entry = PARTED.iter().position(|e| taken(&e))?;
                PARTED[entry][1].store(self.from, Relaxed);
                PARTED[entry][2].store(self.to, Release);
                Some(Some(Moved::Part(entry as u8)))
            }
        }
    }

    fn count_in(self) {
        plan::count_in(None, self.home, self.bytes - self.away_bytes());
        if self.away_bytes() > 0 {
            plan::leaves(self.home, self.away_bytes());
            plan::guest_in(self.away, self.away_bytes());
            ELSEWHERE.fetch_add(1, Relaxed);
        }
    }

    fn count_out(self) {
        plan::count_out(None, self.home, self.bytes - self.away_bytes());
        if self.away_bytes() > 0 {
            plan::comes_home(self.home, self.away_bytes());
            plan::guest_out(self.away, self.away_bytes());
            ELSEWHERE.fetch_sub(1, Relaxed);
        }
    }
}

/// Gives the entry of an object back, if it has one.
fn forget(moved: Option<Moved>) {
    if let Some(Moved::Part(entry)) = moved {
        PARTED.get(usize::from(entry)).into_iter().for_each(|e| e[0].store(0, Release));
    }
}

/// Whether memory of one tier can be moved to the other now.
fn enough(from: usize, to: usize, bytes: usize) -> bool {
    let room = plan::can_be_bound(from) && plan::can_be_bound(to) && plan::has_room(to, bytes);
    if !room {
        process::fell_back(to, bytes);
    }
    room
}

/// Moves what of an object does not lie as it is to.
fn transfer(addr: usize, object: Object, from: Lies, to: Lies, work: &Work) {
    let more = |tier: usize| to.within(tier).saturating_sub(from.within(tier));
    let Some(gains) = [to.home, to.away].into_iter().max_by_key(|&tier| more(tier)) else { return };
    let leaves = from.away_bytes() == 0;
    if !plan::can_be_bound(to.home)
        || !enough(from.away, gains, more(gains))
        || leaves && ELSEWHERE.load(Relaxed) >= MOST
    {
        return;
    }
    let Some(moved) = to.written() else { return process::fell_back(gains, more(gains)) };
    let new = Object { moved, ..object };
    // Counted first: whoever frees it from now on counts it out of where it says that it is.
    to.count_in();
    if !objects::replace(addr, object, new) {
        to.count_out();
        return forget(moved);
    }
    from.count_out();
    forget(object.moved);
    let size = object.bytes.next_multiple_of(PAGE);
    // Pieces in which it lies in one tier before and after.
    let mut cuts = [0, from.from, from.to, to.from, to.to, size];
    cuts.sort_unstable();
    for (start, end) in cuts.iter().zip(cuts.iter().skip(1)).map(|(a, b)| (a & !(PAGE - 1), b & !(PAGE - 1))) {
        if start == end || from.at(start) == to.at(start) {
            continue;
        }
        let still = || objects::get(addr) == Some(new);
        if let Err((from, till)) = carry(addr + start, addr + end, to.at(start), work, still) {
            // It was freed meanwhile, and who freed it gave its pages back: what lies here next belongs here.
            // SAFETY: a policy for pages of the managed range, which changes no content.
            unsafe { plan::bind_foreign(to.home, from, till - from) };
            return;
        }
        look(addr + start, end - start, to.at(start));
    }
    process::info().iter().for_each(|h| _ = h.counters.moved.fetch_add(1, Relaxed));
}

/// Moves whole pages, piece by piece, as long as they are still the same object's: looked at after each piece, and if not, where that piece begins and ends.
fn carry(start: usize, end: usize, tier: usize, work: &Work, still: impl Fn() -> bool) -> Result<(), (usize, usize)> {
    // All of it gets one policy first: one for each piece would cut mappings, and the huge pages in them, into pieces.
    // SAFETY: a policy for pages of the program or of the managed range, which changes no content.
    unsafe { plan::bind_new(tier, start, end - start) };
    if !still() {
        return Err((start, end));
    }
    for from in (start..end).step_by(PIECES[0]) {
        let (size, began) = (quicker(), sys::now_in_handler());
        let (until, mut now) = (end.min(from + PIECES[0]), began);
        for at in (from..until).step_by(PIECES[size]) {
            let till = until.min(at + PIECES[size]);
            // SAFETY: as above.
            unsafe { plan::bind_foreign(tier, at, till - at) };
            if !still() {
                return Err((at, till));
            }
            let before = core::mem::replace(&mut now, sys::now_in_handler());
            work.counts(till - at, now.saturating_sub(before));
        }
        if until - from == PIECES[0] {
            took(size, now.saturating_sub(began));
        }
    }
    Ok(())
}

/// Which of the sizes to take.
fn quicker() -> usize {
    match PACE.each_ref().map(|p| p.load(Relaxed)) {
        [0, _] => 0,
        [_, 0] => 1,
        [large, small] => {
            let best = usize::from(small < large);
            if TURN.fetch_add(1, Relaxed) % AGAIN_AFTER == AGAIN_AFTER - 1 { 1 - best } else { best }
        }
    }
}

/// The larger one's bytes took so long by pieces of this size.
fn took(size: usize, ns: u64) {
    let now = (ns / (PIECES[0] / PAGE) as u64).clamp(1, 1 << 28) as u32;
    let pace = match PACE[size].load(Relaxed) {
        0 => now,
        before => (3 * before + now) / 4,
    };
    PACE[size].store(pace.max(1), Relaxed);
}

/// An object that lies elsewhere is no more.
pub fn ended(addr: usize, object: Object) {
    Lies::of(addr, object).count_out();
    forget(object.moved);
}

/// Gives the pages of an object that lies elsewhere back, and its addresses to their own tier: the object is no more.
pub fn clear(addr: usize, bytes: usize) {
    // SAFETY: pages of an object that nobody uses any more, in whole.
    unsafe { plan::give_back(range::tier_of(addr), addr, bytes.next_multiple_of(PAGE)) };
}

/// Asks the kernel where some pages of what was moved are now.
fn look(addr: usize, size: usize, tier: usize) {
    let Some(h) = process::info() else { return };
    let pages = size / PAGE;
    let count = pages.min(ASKED);
    let mut asked = [0usize; ASKED];
    let mut nodes = [-1i32; ASKED];
    for (i, page) in asked.iter_mut().take(count).enumerate() {
        *page = addr + i * pages / count * PAGE;
    }
    // SAFETY: asks where pages are, and writes so many answers.
    let failed = unsafe {
        let args = [0, count, asked.as_ptr() as usize, 0, nodes.as_mut_ptr() as usize, 0];
        sys::call(libc::SYS_move_pages, args)
    };
    if failed == 0 {
        let present = || nodes.iter().take(count).filter(|&&n| n >= 0);
        let there = present().filter(|&&n| plan::is_on(tier, n as u32)).count();
        h.counters.moved_asked.fetch_add(present().count() as u64, Relaxed);
        h.counters.moved_there.fetch_add(there as u64, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quicker_size_is_taken_and_the_other_one_tried_again() {
        assert_eq!(quicker(), 0);
        took(0, 512 * 2000);
        assert_eq!(quicker(), 1, "it was not tried yet");
        took(1, 512 * 1000);
        let tries = (0..2 * AGAIN_AFTER).filter(|_| quicker() == 0).count();
        assert_eq!(tries, 2);
        // The machine has changed its ways.
        (0..20).for_each(|_| took(0, 512 * 100));
        assert_eq!((0..2 * AGAIN_AFTER).filter(|_| quicker() == 1).count(), 2);
    }
}
