//! A process file: one process's header and the rings of its threads, in memory shared with the recorder.
//!
//! Layout: a [`Header`] page, then [`MAX_RINGS`] rings of [`RING_BYTES`] each. The file is as long as all of it from
//! the start, but the runtime allocates the blocks of a ring (`fallocate`) before it first uses it, so that a full
//! tmpfs is an error it can handle and never a SIGBUS in the program.
//!
//! A ring has one producer (its thread, or the threads that take its lock) and one consumer (the
//! recorder). The producer never waits: a full ring counts what it drops.
//!
//! Most objects live for microseconds. The end of one whose beginning the recorder has not taken yet is written into the
//! slot of that beginning ([`Ring::end`]): a line that the thread's processor still has, instead of another event.

use crate::event::{END_WORD, MAX_SLOTS, SLOT_WORDS, TAKEN, can_end, slots_of};
use crate::tables::Tables;
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::*};

/// First word of a [`Header`].
pub const MAGIC: u64 = u64::from_le_bytes(*b"HEARTHPR");
/// Bytes of the header.
pub const HEADER_BYTES: usize = 8192;
/// Slots of a ring.
pub const RING_SLOTS: usize = 8192;
/// Beginnings of objects that a ring remembers, to write their ends beside them.
pub const REMEMBERED: usize = 128;
/// Bytes of a ring: a page of control words and the slots.
pub const RING_BYTES: usize = 4096 + RING_SLOTS * SLOT_WORDS * 8;
/// Rings of a process. Threads beyond share the last one under a lock they only try.
pub const MAX_RINGS: usize = 128;
/// Bytes of a process file.
pub const FILE_BYTES: usize = HEADER_BYTES + MAX_RINGS * RING_BYTES;
/// Ranges of a process that others may name.
pub const PEER_RANGES: usize = 32;
/// Tiers a plan may have.
pub const MAX_TIERS: usize = 8;

/// Life of a process as its header tells it.
pub mod state {
    /// Being set up.
    pub const STARTING: u32 = 0;
    /// Events are published.
    pub const RUNNING: u32 = 1;
    /// The runtime gave up; the program runs on its own allocator. The header's text says why.
    pub const PASSED: u32 = 2;
    /// The program is ending and waits, for a bounded time, until [`super::Header::exit_ack`] is 1: the last
    /// chance to read where its pages are.
    pub const EXITING: u32 = 3;
    /// The program has ended in an orderly way, or replaced itself by exec.
    pub const ENDED: u32 = 4;
}

/// Counters of a process, all monotonic.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Counters {
    /// Allocations managed, by threads that have no ring of their own; the others count theirs in [`RingControl`].
    pub managed: AtomicU64,
    /// Bytes that they were asked for.
    pub managed_bytes: AtomicU64,
    /// Allocations at or above the threshold that had to be left to the program's own allocator.
    pub refused: AtomicU64,
    /// Events that found no ring.
    pub no_ring: AtomicU64,
    /// Forked children that could not make files of their own.
    pub children_unobserved: AtomicU64,
    /// Sites that found no room in the site table.
    pub no_site: AtomicU64,
    /// Stacks cut short.
    pub truncated: AtomicU64,
    /// Allocations by lines of Python whose function found no room in the table.
    pub python_left_out: AtomicU64,
    /// Sampler: pages armed.
    pub armed: AtomicU64,
    /// Sampler: pages that the kernel did not let be armed.
    pub arm_refused: AtomicU64,
    /// Sampler: signals that the kernel could not deliver, as their place on a stack was armed.
    pub signals_lost: AtomicU64,
    /// Sampler: visits seen.
    pub visits: AtomicU64,
    /// Sampler: accesses single-stepped.
    pub steps: AtomicU64,
    /// Sampler: ns during which pages could be armed.
    pub guarded_ns: AtomicU64,
    /// Sampler: times it began to watch (again): a system call that it could not see through made it stand back.
    pub stood_back: AtomicU64,
    /// Sampler: system calls that were looked at while pages were armed.
    pub syscalls: AtomicU64,
    /// Sampler: ns that it cost the program's threads, and its own.
    pub spent_ns: AtomicU64,
    /// Sampler: ns that it paused for, since it had cost too much.
    pub paused_ns: AtomicU64,
    /// Objects that phases moved to another tier, and bytes of them.
    pub moved: AtomicU64,
    /// See `moved`.
    pub moved_bytes: AtomicU64,
    /// Bytes of these that moved beside phases that do not use them.
    pub moved_beside: AtomicU64,
    /// Time that moving took, in ns, of it beside such phases, and what of it the program's own threads spent.
    pub moving_ns: AtomicU64,
    /// See `moving_ns`.
    pub moving_beside_ns: AtomicU64,
    /// See `moving_ns`.
    pub moving_waited_ns: AtomicU64,
    /// Pages of these that the kernel was asked for afterwards, and those of them that were where they were moved to.
    pub moved_asked: AtomicU64,
    /// See `moved_asked`.
    pub moved_there: AtomicU64,
    /// Most anonymous memory that was resident at once, in bytes; 0 before the end of the process.
    pub most_anonymous: AtomicU64,
    /// Allocations, by the tier they were planned for, that went to another because the budget was used up.
    pub fell_back: [AtomicU64; MAX_TIERS],
    /// The same in bytes.
    pub fell_back_bytes: [AtomicU64; MAX_TIERS],
}

/// The first page(s) of a process file.
#[repr(C)]
#[derive(Debug)]
pub struct Header {
    /// [`MAGIC`], written last.
    pub magic: AtomicU64,
    /// [`crate::WIRE_VERSION`].
    pub version: AtomicU32,
    /// Process id (as the program sees it).
    pub pid: AtomicU32,
    /// Parent's process id.
    pub ppid: AtomicU32,
    /// What [`crate::session::JOB`] says; 0: nothing.
    pub job: AtomicU32,
    /// [`state`].
    pub state: AtomicU32,
    /// Start of this program image, ns since the session's epoch.
    pub start_ns: AtomicU64,
    /// End, ns since the session's epoch; 0 until then.
    pub end_ns: AtomicU64,
    /// Set to 1 by the recorder when it has read what it wanted of an exiting process (a futex word).
    pub exit_ack: AtomicU32,
    /// Why the runtime or its sampler does less than asked: bytes used of `text`.
    pub text_len: AtomicU32,
    /// 1 when the sampler works, 0 when it does not (the text says why).
    pub sampling: AtomicU32,
    /// Counts rings that have become ready, each once.
    pub rings_ready: AtomicU32,
    /// Set to 1 by a recorder that reads the table of objects itself: it is told of no managed object's beginning or end.
    pub objects_read: AtomicU32,
    /// Where its tables are.
    pub tables: Tables,
    /// Counters.
    pub counters: Counters,
    /// Memory of this process that others of the session read or write directly: first address, and the one after the last;
    /// the others write it, and 0 is none.
    pub peers: [[AtomicU64; 2]; PEER_RANGES],
    /// Counts what was written to `peers`.
    pub peers_named: AtomicU64,
    /// Path of the executable, NUL-padded.
    pub exe: [AtomicU8; 1024],
    /// One sentence in UTF-8.
    pub text: [AtomicU8; 512],
}

const _: () = assert!(core::mem::size_of::<Header>() <= HEADER_BYTES);

/// Control words of a ring; each on a cache line of its own.
#[repr(C)]
#[derive(Debug)]
pub struct RingControl {
    /// 1 once the ring's blocks are allocated.
    pub ready: AtomicU32,
    /// Lock of the last, shared ring.
    pub lock: AtomicU32,
    _pad0: [u32; 14],
    /// Slots ever written. Producer's.
    pub head: AtomicU64,
    /// Events dropped because the ring was full. Producer's.
    pub dropped: AtomicU64,
    /// Allocations managed, and bytes that they were asked for, by all the ring's owners. Producer's.
    pub managed: AtomicU64,
    /// See `managed`.
    pub managed_bytes: AtomicU64,
    /// What `tail` was when the producer last looked: it does not look again until it has to, as the consumer's line would come over each time.
    seen_tail: AtomicU64,
    _pad1: [u64; 3],
    /// Slots ever read. Consumer's.
    pub tail: AtomicU64,
    _pad2: [u64; 7],
    /// Address of an object and the slot of its allocation, by the address. Producer's.
    remembered: [[AtomicU64; 2]; REMEMBERED],
}

const _: () = assert!(core::mem::size_of::<RingControl>() <= 4096);

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It is in the ring.
    Kept,
    /// It is in the ring and has made it half full: time to ring the doorbell.
    HalfFull,
    /// There was no room.
    Dropped,
}

/// A view of one ring in a mapped process file.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    control: *const RingControl,
    slots: *const [AtomicU64; SLOT_WORDS],
}

// SAFETY: all shared words are atomics; the single-producer rule is the caller's (see `push`).
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

/// The header of a mapped process file.
///
/// # Safety
/// `base` must be a page-aligned mapping of at least [`HEADER_BYTES`] that outlives `'a`.
pub unsafe fn header<'a>(base: *mut u8) -> &'a Header {
    // SAFETY: per the contract; all fields are atomics, valid for any bytes.
    unsafe { &*base.cast::<Header>() }
}

impl Ring {
    /// Ring `index` of a mapped process file.
    ///
    /// # Safety
    /// `base` must be a page-aligned mapping of [`FILE_BYTES`] that outlives every use of the ring, and
    /// `index < MAX_RINGS`.
    pub unsafe fn at(base: *mut u8, index: usize) -> Ring {
        let offset = HEADER_BYTES + index * RING_BYTES;
        // SAFETY: inside the mapping per the contract.
        unsafe { Ring { control: base.add(offset).cast(), slots: base.add(offset + 4096).cast() } }
    }

    /// Control words.
    pub fn control(&self) -> &RingControl {
        // SAFETY: `at`'s contract.
        unsafe { &*self.control }
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> &[AtomicU64; SLOT_WORDS] {
        // SAFETY: one of the ring's RING_SLOTS, which lie one behind the other per `at`'s contract.
        unsafe { &*self.slots.add(number as usize % RING_SLOTS) }
    }

    /// Appends an event (as made by [`crate::event::encode`]). Only one thread may push at a time. If there is no room
    /// the drop is counted.
    #[inline]
    pub fn push(&self, words: &[u64]) -> Pushed {
        let control = self.control();
        let slots = words.len().div_ceil(SLOT_WORDS) as u64;
        const HALF: u64 = RING_SLOTS as u64 / 2;
        let head = control.head.load(Relaxed);
        let mut used = head.wrapping_sub(control.seen_tail.load(Relaxed));
        if used.saturating_add(slots) >= HALF {
            let tail = control.tail.load(Acquire);
            control.seen_tail.store(tail, Relaxed);
            used = head.wrapping_sub(tail);
        }
        if used.saturating_add(slots) > RING_SLOTS as u64 {
            control.dropped.fetch_add(1, Relaxed);
            return Pushed::Dropped;
        }
        for (i, slot) in words.chunks(SLOT_WORDS).enumerate() {
            let into = self.slot(head + i as u64);
            slot.iter().zip(into).for_each(|(&word, into)| into.store(word, Relaxed));
        }
        control.head.store(head + slots, Release);
        if used < HALF && used + slots >= HALF { Pushed::HalfFull } else { Pushed::Kept }
    }

    /// Counts an allocation. Only the ring's producer may, so that it takes no locked instruction.
    pub fn count_managed(&self, bytes: u64) {
        let add = |word: &AtomicU64, n: u64| word.store(word.load(Relaxed).wrapping_add(n), Relaxed);
        add(&self.control().managed, 1);
        add(&self.control().managed_bytes, bytes);
    }

    /// Remembers that the allocation of the object at `addr` is the event of one slot that was pushed last. Only its producer may.
    #[inline]
    pub fn remember(&self, addr: u64) {
        let slot = self.control().head.load(Relaxed).wrapping_sub(1);
        let [key, place] = self.place(addr);
        key.store(addr, Relaxed);
        place.store(slot, Relaxed);
    }

    /// Writes the end of the object at `addr` into the event of its allocation, if that is remembered and was not taken yet; else
    /// `false`: it takes an event of its own. Only the ring's producer may. Should the object that is remembered have ended otherwise,
    /// and its address be another one's now, the end is that one's: all that is told is an end at this address and time.
    #[inline]
    pub fn end(&self, addr: u64, time: u64) -> bool {
        let [key, place] = self.place(addr);
        if key.load(Relaxed) != addr || addr == 0 {
            return false;
        }
        key.store(0, Relaxed);
        let slot = place.load(Relaxed);
        // One that was taken long ago may be another event by now.
        let since = self.control().head.load(Relaxed).wrapping_sub(slot);
        (1..=RING_SLOTS as u64).contains(&since)
            && self.slot(slot)[END_WORD].compare_exchange(0, time.max(TAKEN + 1), AcqRel, Relaxed).is_ok()
    }

    fn place(&self, addr: u64) -> &[AtomicU64; 2] {
        &self.control().remembered[(addr >> 12) as usize % REMEMBERED]
    }

    /// Takes the oldest event into `out` and returns its number of words: `Ok(0)` if there is none. On nonsense
    /// (a torn or foreign ring) everything unread is thrown away and its slots are returned as the error.
    pub fn pop(&self, out: &mut [u64; MAX_SLOTS * SLOT_WORDS]) -> Result<usize, u64> {
        let control = self.control();
        let tail = control.tail.load(Relaxed);
        let head = control.head.load(Acquire);
        let ready = head.wrapping_sub(tail);
        if ready == 0 {
            return Ok(0);
        }
        let slots = match slots_of(self.slot(tail)[0].load(Relaxed)) {
            Some(slots) if slots as u64 <= ready && ready <= RING_SLOTS as u64 => slots,
            _ => {
                control.tail.store(head, Release);
                return Err(ready);
            }
        };
        for (i, word) in out.iter_mut().enumerate().take(slots * SLOT_WORDS) {
            *word = self.slot(tail + (i / SLOT_WORDS) as u64)[i % SLOT_WORDS].load(Relaxed);
        }
        if can_end(out[0]) {
            out[END_WORD] = self.slot(tail)[END_WORD].swap(TAKEN, AcqRel);
        }
        control.tail.store(tail + slots as u64, Release);
        Ok(slots * SLOT_WORDS)
    }
}

/// Writes UTF-8 text into a NUL-padded field, cutting it to fit.
pub fn write_text(field: &[AtomicU8], text: &[u8]) {
    for (i, byte) in field.iter().enumerate() {
        byte.store(text.get(i).copied().unwrap_or(0), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::event::{Event, Kind, MAX_BUILD_ID, MAX_PATH, Stamped, decode, encode, ended};

    fn file() -> std::vec::Vec<u64> {
        std::vec![0u64; (HEADER_BYTES + RING_BYTES) / 8]
    }

    #[test]
    fn events_arrive_in_order_across_the_wrap_and_drops_are_counted() {
        let mut file = file();
        // SAFETY: the buffer outlives the ring and holds ring 0.
        let ring = unsafe { Ring::at(file.as_mut_ptr().cast(), 0) };
        let mut out = [0; MAX_SLOTS * SLOT_WORDS];
        let (mut sent, mut got) = (0u64, 0u64);
        for round in 0..50u64 {
            for _ in 0..RING_SLOTS as u64 / 3 + round {
                let mut words = [0; 64];
                let s = Stamped { tid: 1, time: sent, event: Event::Free { addr: sent } };
                let slots = encode(&s, &mut words).unwrap();
                assert_ne!(ring.push(&words[..slots * SLOT_WORDS]), Pushed::Dropped);
                sent += 1;
            }
            while let Ok(n @ 1..) = ring.pop(&mut out) {
                let mut bytes = [0; MAX_PATH + MAX_BUILD_ID];
                assert_eq!(decode(&out[..n], &mut bytes).unwrap().time, got);
                got += 1;
            }
        }
        assert_eq!(sent, got);
        let words = [1 | 1 << 8, 0, 0, 0, 0, 0, 0, 0];
        let half = (0..RING_SLOTS).filter(|_| ring.push(&words) == Pushed::HalfFull).count();
        assert_eq!(half, 1);
        assert_eq!(ring.push(&words), Pushed::Dropped);
        assert_eq!(ring.control().dropped.load(Relaxed), 1);
    }

    /// Under Miri, whose loads may see older values where the orderings permit it, it fails if an event is published too early.
    #[test]
    fn what_another_thread_pushes_arrives_whole_and_in_order() {
        let mut file = file();
        // SAFETY: the buffer outlives the ring and holds ring 0.
        let ring = unsafe { Ring::at(file.as_mut_ptr().cast(), 0) };
        let slots = |n: u64| n % MAX_SLOTS as u64 + 1;
        let push = move |n: u64| {
            let mut words = [n; MAX_SLOTS * SLOT_WORDS];
            words[0] = 1 | slots(n) << 8;
            ring.push(&words[..slots(n) as usize * SLOT_WORDS]) != Pushed::Dropped
        };
        // It is full when the other begins, so that slots are used again.
        let full = (0..).find(|&n| !push(n)).unwrap();
        let events = full + if cfg!(miri) { 20 } else { 1_000_000 };
        std::thread::scope(|s| {
            s.spawn(move || {
                for n in full..events {
                    while !push(n) {
                        std::thread::yield_now();
                    }
                }
            });
            let mut out = [0; MAX_SLOTS * SLOT_WORDS];
            let mut got = 0;
            while got < events {
                let words = ring.pop(&mut out).expect("nothing is torn");
                if words == 0 {
                    std::thread::yield_now();
                    continue;
                }
                assert_eq!(words, slots(got) as usize * SLOT_WORDS);
                assert!(out[1..words].iter().all(|&word| word == got), "event {got}: {out:?}");
                got += 1;
            }
        });
    }

    /// Each object is told once and ends once, whether the other side was in between or not.
    #[test]
    fn ends_are_written_beside_beginnings_that_were_not_taken() {
        let mut file = file();
        // SAFETY: the buffer outlives the ring and holds ring 0.
        let ring = unsafe { Ring::at(file.as_mut_ptr().cast(), 0) };
        let push = move |event, time| {
            let mut words = [0; SLOT_WORDS];
            encode(&Stamped { tid: 1, time, event }, &mut words).unwrap();
            ring.push(&words) != Pushed::Dropped
        };
        let objects: u64 = if cfg!(miri) { 40 } else { 300_000 };
        // Four are alive at a time, at addresses that are used again.
        let addr = |n: u64| (n % 5 + 1) << 12;
        std::thread::scope(|s| {
            s.spawn(move || {
                for n in 0..objects + 4 {
                    if let Some(old) = n.checked_sub(4) {
                        let (at, time) = (addr(old), 10 * n + 1);
                        while !ring.end(at, time) && !push(Event::Free { addr: at }, time) {
                            std::thread::yield_now();
                        }
                    }
                    if n < objects {
                        let (size, site, tier, realloc, kind) = (n, 7, 0, false, Kind::Allocation);
                        while !push(Event::Alloc { addr: addr(n), size, site, tier, realloc, kind }, 10 * n + 5) {
                            std::thread::yield_now();
                        }
                        ring.remember(addr(n));
                    }
                }
            });
            let (mut out, mut begun, mut over, mut beside) = ([0; MAX_SLOTS * SLOT_WORDS], 0, 0, 0);
            let mut last = [0; 6];
            while over < objects {
                let words = ring.pop(&mut out).expect("nothing is torn");
                if words == 0 {
                    std::thread::yield_now();
                    continue;
                }
                let mut bytes = [0; MAX_PATH + MAX_BUILD_ID];
                let s = decode(&out[..words], &mut bytes).unwrap();
                let mut ends = |addr: u64, time: u64, n: u64| {
                    assert_eq!((addr, time), ((n % 5 + 1) << 12, 10 * (n + 4) + 1));
                    over += 1;
                };
                match s.event {
                    Event::Alloc { addr, size, .. } => {
                        assert_eq!((size, s.time), (begun, 10 * begun + 5));
                        begun += 1;
                        last[(addr >> 12) as usize] = size;
                        if let Some(time) = ended(&out[..words]) {
                            beside += 1;
                            ends(addr, time, size);
                        }
                    }
                    Event::Free { addr } => ends(addr, s.time, last[(addr >> 12) as usize]),
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!((begun, over), (objects, objects));
            assert!(cfg!(miri) || beside > 0);
        });
    }

    #[test]
    fn a_torn_ring_is_thrown_away_not_believed() {
        let mut file = file();
        // SAFETY: as above.
        let ring = unsafe { Ring::at(file.as_mut_ptr().cast(), 0) };
        let mut out = [0; MAX_SLOTS * SLOT_WORDS];
        ring.control().head.store(u64::MAX / 2, Relaxed);
        assert!(ring.pop(&mut out).is_err());
        assert_eq!(ring.pop(&mut out), Ok(0));
        ring.push(&[1 | 5 << 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ring.pop(&mut out), Err(1));
    }
}
