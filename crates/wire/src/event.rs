//! Events: what a thread says about memory, as a few 64-bit words in its ring.
//!
//! Word 0 holds kind (bits 0-7), number of 64-byte slots (8-15), flags (16-31) and thread id (32-63); word 1 the
//! time in ns since the session's epoch. The rest depends on the kind, see [`Event`].

/// Words in a slot; a slot is one cache line.
pub const SLOT_WORDS: usize = 8;
/// Most slots one event may take.
pub const MAX_SLOTS: usize = 192;
/// Most frames of a site; deeper stacks are cut at the outer end and marked.
pub const MAX_FRAMES: usize = 256;
/// Most bytes of a module's path.
pub const MAX_PATH: usize = 1024;
/// Most bytes of a build id.
pub const MAX_BUILD_ID: usize = 64;
/// Frame words of code outside any module carry this module index.
pub const NO_MODULE: u16 = u16::MAX;
/// Word of an allocation's slot in which its thread writes when the object ended, if it does so before the recorder has taken the
/// event; the recorder writes [`TAKEN`] when it does. 0 until then.
pub const END_WORD: usize = 7;
/// See [`END_WORD`].
pub const TAKEN: u64 = 1;
/// Site in visits of static data: which variable lies at the address, the recorder knows.
pub const STATIC_DATA: u64 = 1;

const ALLOC: u8 = 1;
const FREE: u8 = 2;
const SITE: u8 = 3;
const MODULE: u8 = 4;
const VISIT: u8 = 5;
const QUIET: u8 = 6;
const UNMAP: u8 = 7;
const REGION: u8 = 8;
const USE: u8 = 9;

const F_REALLOC: u16 = 1;
const F_MAPPING: u16 = 2;
const F_STATIC: u16 = 4;
const F_TRUNCATED: u16 = 1;
const F_STORE: u16 = 1;
const F_BURST: u16 = 2;

/// One event. Addresses are the program's virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An object came to life.
    Alloc {
        /// Address, at least page aligned.
        addr: u64,
        /// Size asked for, in bytes.
        size: u64,
        /// Site id.
        site: u64,
        /// Tier index of the plan it was placed in (0 when recording).
        tier: u8,
        /// It replaces an object (realloc, mremap): one that was freed just before, or the one at this address, of whose end
        /// nothing else tells.
        realloc: bool,
        /// What it is.
        kind: Kind,
    },
    /// An object died.
    Free {
        /// Its address.
        addr: u64,
    },
    /// Part of the address space was given back or mapped anew: what of a mapping lies in it is gone.
    Unmap {
        /// Start.
        addr: u64,
        /// Length, in bytes.
        size: u64,
    },
    /// A site was seen for the first time in this process.
    Site {
        /// Site id.
        site: u64,
        /// Frames, innermost first: module index in bits 48-63, offset in bits 0-47.
        frames: &'a [u64],
        /// The stack was deeper than [`MAX_FRAMES`] or could not be walked to its end.
        truncated: bool,
        /// Of the stack's objects it has only these.
        apart: Option<Apart>,
    },
    /// A parallel region began. Of those that follow each other closely some are not told, but all are counted.
    Region {
        /// Its function, as a site of that one frame.
        region: u64,
        /// How many times it began so far.
        number: u64,
    },
    /// The program says that a phase uses the object at an address.
    Use {
        /// What the phase begins with, a name.
        phase: u64,
        /// The address, anywhere in the object.
        addr: u64,
    },
    /// A module that frames of this process refer to.
    Module {
        /// Index used in frames.
        index: u16,
        /// GNU build id; may be empty.
        build_id: &'a [u8],
        /// Path as loaded; empty for the program's own anonymous code.
        path: &'a [u8],
    },
    /// The sampler saw a page being touched for the first time since it was armed.
    Visit {
        /// Address of the access.
        addr: u64,
        /// Instruction that accessed.
        ip: u64,
        /// Start of the object.
        object: u64,
        /// Site of the object.
        site: u64,
        /// Time from arming to the access.
        wait_ns: u64,
        /// The first access was a store.
        store: bool,
        /// What single-stepping saw after the visit, if this visit was followed by a burst.
        burst: Option<Burst>,
    },
    /// A page was armed, not touched, and disarmed again.
    Quiet {
        /// Address of the page.
        page: u64,
        /// Start of the object.
        object: u64,
        /// Site of the object.
        site: u64,
        /// Time it was armed.
        wait_ns: u64,
    },
}

/// Which of a stack's large objects a site has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Apart {
    /// Site id of the stack.
    pub stack: u64,
    /// Those that came to life while so many others were alive (1 or more).
    pub number: u8,
}

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An allocation from a managed heap.
    Allocation,
    /// A private anonymous mapping of the program's own.
    Mapping,
    /// A static variable.
    Static,
}

/// What a stepped burst saw on one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Accesses stepped.
    pub accesses: u16,
    /// Of them stores.
    pub stores: u16,
    /// Distinct 64-byte lines touched.
    pub lines: u16,
    /// The addresses rose (or fell) all the time.
    pub monotonic: bool,
    /// The burst ended because its limit of accesses was reached, not because the page was left.
    pub limited: bool,
    /// Mean distance from one access to the next, in bytes.
    pub stride: i32,
    /// How long the page was watched, from the first access on: to the last one if the limit was reached, else to the
    /// end of the wait for another, in ns.
    pub ns: u64,
}

/// An event with the thread and time that go with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamped<'a> {
    /// Kernel thread id.
    pub tid: u32,
    /// ns since the session's epoch.
    pub time: u64,
    /// What happened.
    pub event: Event<'a>,
}

/// Slots that a number of words take.
pub const fn slots_for(words: usize) -> usize {
    words.div_ceil(SLOT_WORDS)
}

/// Writes an event into `out` and returns how many slots it takes, or `None` if `out` is too small or the event
/// breaks a limit of this module.
#[inline(always)]
pub fn encode(s: &Stamped<'_>, out: &mut [u64]) -> Option<usize> {
    let (kind, flags, words) = match s.event {
        Event::Alloc { addr, size, site, tier, realloc, kind } => {
            put(out, &[addr, size, site, tier.into()])?;
            let kind = match kind {
                Kind::Allocation => 0,
                Kind::Mapping => F_MAPPING,
                Kind::Static => F_STATIC,
            };
            (ALLOC, kind | if realloc { F_REALLOC } else { 0 }, 6)
        }
        Event::Unmap { addr, size } => {
            put(out, &[addr, size])?;
            (UNMAP, 0, 4)
        }
        Event::Free { addr } => {
            put(out, &[addr])?;
            (FREE, 0, 3)
        }
        Event::Region { region, number } => {
            put(out, &[region, number])?;
            (REGION, 0, 4)
        }
        Event::Use { phase, addr } => {
            put(out, &[phase, addr])?;
            (USE, 0, 4)
        }
        Event::Site { site, frames, truncated, apart } => {
            if frames.len() > MAX_FRAMES {
                return None;
            }
            let (stack, number) = apart.map_or((0, 0), |a| (a.stack, a.number));
            put(out, &[site, frames.len() as u64 | u64::from(number) << 32, stack])?;
            out.get_mut(5..5 + frames.len())?.copy_from_slice(frames);
            (SITE, if truncated { F_TRUNCATED } else { 0 }, 5 + frames.len())
        }
        Event::Module { index, build_id, path } => {
            if build_id.len() > MAX_BUILD_ID || path.len() > MAX_PATH {
                return None;
            }
            put(out, &[index.into(), build_id.len() as u64 | (path.len() as u64) << 32])?;
            let id_words = build_id.len().div_ceil(8);
            let path_words = path.len().div_ceil(8);
            pack(out.get_mut(4..4 + id_words)?, build_id);
            pack(out.get_mut(4 + id_words..4 + id_words + path_words)?, path);
            (MODULE, 0, 4 + id_words + path_words)
        }
        Event::Visit { addr, ip, object, site, wait_ns, store, burst } => {
            let (a, b, c) = burst.map_or((0, 0, 0), |b| {
                let counts = u64::from(b.accesses) | u64::from(b.stores) << 16 | u64::from(b.lines) << 32;
                let bits = u64::from(b.monotonic) << 48 | u64::from(b.limited) << 49;
                (counts | bits, b.ns, b.stride as u32 as u64)
            });
            put(out, &[addr, ip, object, site, wait_ns, a, b, c])?;
            let flags = if store { F_STORE } else { 0 } | if burst.is_some() { F_BURST } else { 0 };
            (VISIT, flags, 10)
        }
        Event::Quiet { page, object, site, wait_ns } => {
            put(out, &[page, object, site, wait_ns])?;
            (QUIET, 0, 6)
        }
    };
    let slots = slots_for(words);
    if slots > MAX_SLOTS {
        return None;
    }
    *out.get_mut(0)? = u64::from(kind) | (slots as u64) << 8 | u64::from(flags) << 16 | u64::from(s.tid) << 32;
    *out.get_mut(1)? = s.time;
    Some(slots)
}

/// Number of slots of the event that begins with this word: 1 to [`MAX_SLOTS`], or `None` for nonsense.
pub fn slots_of(word0: u64) -> Option<usize> {
    let slots = (word0 >> 8 & 0xff) as usize;
    (1..=MAX_SLOTS).contains(&slots).then_some(slots)
}

/// Whether the event that begins with this word has an [`END_WORD`].
pub fn can_end(word0: u64) -> bool {
    word0 as u8 == ALLOC
}

/// When the object of an allocation ended, if that stands in its event (as [`crate::process::Ring::pop`] gives it).
pub fn ended(words: &[u64]) -> Option<u64> {
    let end = *words.get(END_WORD)?;
    (can_end(*words.first()?) && end > TAKEN).then_some(end)
}

/// Reads an event from its words. `bytes` is room for a module's text. `None` for anything malformed.
pub fn decode<'a>(words: &'a [u64], bytes: &'a mut [u8; MAX_PATH + MAX_BUILD_ID]) -> Option<Stamped<'a>> {
    let w = |i: usize| words.get(i).copied();
    let head = w(0)?;
    let flags = (head >> 16) as u16;
    let event = match head as u8 {
        ALLOC => Event::Alloc {
            addr: w(2)?,
            size: w(3)?,
            site: w(4)?,
            tier: u8::try_from(w(5)?).ok()?,
            realloc: flags & F_REALLOC != 0,
            kind: match flags & (F_MAPPING | F_STATIC) {
                0 => Kind::Allocation,
                F_MAPPING => Kind::Mapping,
                F_STATIC => Kind::Static,
                _ => return None,
            },
        },
        UNMAP => Event::Unmap { addr: w(2)?, size: w(3)? },
        FREE => Event::Free { addr: w(2)? },
        REGION => Event::Region { region: w(2)?, number: w(3)? },
        USE => Event::Use { phase: w(2)?, addr: w(3)? },
        SITE => {
            let n = w(3)? as u32 as usize;
            let number = u8::try_from(w(3)? >> 32).ok()?;
            let apart = (number != 0).then_some(Apart { stack: w(4)?, number });
            let frames = words.get(5..5 + n).filter(|_| n <= MAX_FRAMES)?;
            Event::Site { site: w(2)?, frames, truncated: flags & F_TRUNCATED != 0, apart }
        }
        MODULE => {
            let lens = w(3)?;
            let (id_len, path_len) = ((lens & 0xffff_ffff) as usize, (lens >> 32) as usize);
            if id_len > MAX_BUILD_ID || path_len > MAX_PATH {
                return None;
            }
            let id_words = id_len.div_ceil(8);
            let (id, path) = bytes.split_at_mut(MAX_BUILD_ID);
            unpack(words.get(4..4 + id_words)?, id.get_mut(..id_len)?);
            unpack(words.get(4 + id_words..4 + id_words + path_len.div_ceil(8))?, path.get_mut(..path_len)?);
            Event::Module { index: u16::try_from(w(2)?).ok()?, build_id: &id[..id_len], path: &path[..path_len] }
        }
        VISIT => {
            let counts = w(7)?;
            Event::Visit {
                addr: w(2)?,
                ip: w(3)?,
                object: w(4)?,
                site: w(5)?,
                wait_ns: w(6)?,
                store: flags & F_STORE != 0,
                burst: if flags & F_BURST == 0 {
                    None
                } else {
                    Some(Burst {
                        accesses: counts as u16,
                        stores: (counts >> 16) as u16,
                        lines: (counts >> 32) as u16,
                        monotonic: counts >> 48 & 1 != 0,
                        limited: counts >> 49 & 1 != 0,
                        ns: w(8)?,
                        stride: w(9)? as u32 as i32,
                    })
                },
            }
        }
        QUIET => Event::Quiet { page: w(2)?, object: w(3)?, site: w(4)?, wait_ns: w(5)? },
        _ => return None,
    };
    Some(Stamped { tid: (head >> 32) as u32, time: w(1)?, event })
}

#[inline(always)]
fn put(out: &mut [u64], words: &[u64]) -> Option<()> {
    out.get_mut(2..2 + words.len())?.copy_from_slice(words);
    Some(())
}

fn pack(words: &mut [u64], bytes: &[u8]) {
    for (word, chunk) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut b = [0; 8];
        b[..chunk.len()].copy_from_slice(chunk);
        *word = u64::from_le_bytes(b);
    }
}

fn unpack(words: &[u64], bytes: &mut [u8]) {
    for (chunk, word) in bytes.chunks_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(event: Event<'_>) {
        let s = Stamped { tid: 42, time: 99, event };
        let mut words = [0; MAX_SLOTS * SLOT_WORDS];
        let slots = encode(&s, &mut words).unwrap();
        assert_eq!(slots_of(words[0]), Some(slots));
        let mut bytes = [0; MAX_PATH + MAX_BUILD_ID];
        assert_eq!(decode(&words[..slots * SLOT_WORDS], &mut bytes), Some(s));
    }

    #[test]
    fn events_survive_the_ring() {
        for kind in [Kind::Allocation, Kind::Mapping, Kind::Static] {
            round(Event::Alloc { addr: 1, size: 2, site: 3, tier: 4, realloc: true, kind });
        }
        round(Event::Unmap { addr: 1, size: 2 });
        round(Event::Free { addr: 1 });
        round(Event::Region { region: 5, number: 6 });
        round(Event::Use { phase: 5, addr: 6 });
        round(Event::Site { site: 9, frames: &[1, 2, 3], truncated: false, apart: None });
        let apart = Some(Apart { stack: 8, number: 3 });
        round(Event::Site { site: 9, frames: &[7; MAX_FRAMES], truncated: true, apart });
        round(Event::Module { index: 3, build_id: &[5; 20], path: b"/usr/lib/libc.so.6" });
        round(Event::Module { index: 3, build_id: &[], path: &[b'x'; MAX_PATH] });
        let burst = Burst { accesses: 64, stores: 3, lines: 64, monotonic: true, limited: true, stride: -64, ns: 5 };
        for burst in [None, Some(burst)] {
            round(Event::Visit { addr: 1, ip: 2, object: 3, site: 4, wait_ns: 5, store: true, burst });
        }
        round(Event::Quiet { page: 1, object: 2, site: 3, wait_ns: 4 });
    }

    #[test]
    fn nonsense_is_refused_without_panic() {
        let mut x = 1u64;
        let mut bytes = [0; MAX_PATH + MAX_BUILD_ID];
        for round in 0..200_000u32 {
            let mut words = [0u64; 24];
            for w in &mut words {
                x = crate::identity::mix(x.wrapping_add(0x9e37_79b9_7f4a_7c15));
                *w = if x & 3 == 0 { x >> 40 } else { x };
            }
            words[0] = words[0] & !0xff | u64::from(round % 9);
            let _ = decode(&words[..(round as usize % 25)], &mut bytes);
        }
    }
}
