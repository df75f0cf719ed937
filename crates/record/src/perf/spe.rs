//! Arm's Statistical Profiling Extension: the packets that a core writes into memory. Arm Architecture Reference Manual for
//! A-profile (DDI 0487), chapter D17 "Statistical Profiling Extension Sample Record Specification"; the meanings of data
//! sources are those of the Neoverse cores' Technical Reference Manuals.
//!
//! A record is a row of packets up to an End or a Timestamp. A core that knows its length may pad with zeros anywhere.

use crate::misses::Source;

/// Bits of the Events packet.
const L1_REFILL: u64 = 1 << 3;
const LLC_MISS: u64 = 1 << 9;
const REMOTE: u64 = 1 << 10;

/// Addresses have 56 bits; above lies a tag.
const ADDRESS: u64 = (1 << 56) - 1;

/// A sampled load or store.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Op {
    /// Instruction.
    pub ip: u64,
    /// Address of the data.
    pub addr: u64,
    /// By a store.
    pub store: bool,
    /// It missed the first-level cache.
    pub missed_l1: bool,
    /// Where the data of a load came from.
    pub source: Source,
    /// Cycles from dispatch to completion.
    pub cycles: u32,
    /// Tick of the generic timer, if the record has one.
    pub tick: Option<u64>,
}

/// What is known of the record that is being read.
#[derive(Default)]
struct Draft {
    ip: u64,
    addr: Option<u64>,
    store: Option<bool>,
    events: u64,
    source: Option<u64>,
    cycles: u32,
}

impl Draft {
    fn finish(&mut self, tick: Option<u64>) -> Option<Op> {
        let d = std::mem::take(self);
        let (addr, store) = (d.addr?, d.store?);
        let from_memory = if d.events & REMOTE != 0 { Source::RemoteMemory } else { Source::Memory };
        let source = match d.source {
            _ if store => Source::Unknown,
            // Neoverse N1, V1, N2, V2: the encoding of the CHI interconnect's home nodes.
            Some(0x0) => Source::L1,
            Some(0x8) => Source::L2,
            Some(0x9 | 0xa | 0xc) => Source::OtherCache,
            Some(0xb) => Source::Llc,
            Some(0xd) => Source::RemoteMemory,
            Some(0xe) => Source::Memory,
            Some(_) => Source::Unknown,
            None if d.events & LLC_MISS != 0 => from_memory,
            None if d.events & L1_REFILL == 0 => Source::L1,
            None => Source::Unknown,
        };
        let missed_l1 = d.events & L1_REFILL != 0;
        Some(Op { ip: d.ip, addr, store, missed_l1, source, cycles: d.cycles, tick })
    }
}

/// Reads packets and tells every load and store that is whole. Returns the bytes that made no sense.
pub fn decode(bytes: &[u8], mut each: impl FnMut(Op)) -> usize {
    let mut draft = Draft::default();
    let (mut at, mut senseless) = (0, 0);
    while let Some(&header) = bytes.get(at) {
        let extended = header & 0xfc == 0x20;
        let low = if extended { bytes.get(at + 1).copied().unwrap_or(0) } else { header };
        match header {
            0x00 => {
                at += 1;
                continue;
            }
            0x01 => {
                draft.finish(None).into_iter().for_each(&mut each);
                at += 1;
                continue;
            }
            _ if extended && low == 0 => {
                // To the next multiple of so many bytes.
                let alignment = 2usize << (header & 0xf);
                at = (at + 1).next_multiple_of(alignment);
                continue;
            }
            _ => {}
        }
        let start = at + 1 + usize::from(extended);
        let length = 1usize << (low >> 4 & 3);
        let known = header == 0x71
            || matches!(header & 0xcf, 0x42 | 0x43)
            || matches!(header & 0xfc, 0x64 | 0x48)
            || matches!(low & 0xf8, 0xb0 | 0x98);
        let payload = bytes.get(start..start + length).filter(|_| known);
        let Some(payload) = payload else {
            // Not a packet: what belongs to it is unknown too.
            draft = Draft::default();
            senseless += 1;
            at += 1;
            continue;
        };
        let value = payload.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
        let index = if extended { (header & 3) << 3 | low & 7 } else { low & 7 };
        match header {
            0x71 => draft.finish(Some(value)).into_iter().for_each(&mut each),
            h if h & 0xcf == 0x42 => draft.events = value,
            h if h & 0xcf == 0x43 => draft.source = Some(value),
            // Context: all samples of a buffer are of the thread that ran when it was handed over.
            h if h & 0xfc == 0x64 => {}
            h if h & 0xfc == 0x48 => draft.store = (h & 3 == 1).then_some(value & 1 == 1),
            _ if low & 0xf8 == 0xb0 && index == 0 => draft.ip = value & ADDRESS,
            _ if low & 0xf8 == 0xb0 && index == 2 => draft.addr = Some(value & ADDRESS),
            // Counter 0 is the total latency.
            _ if low & 0xf8 == 0x98 && index == 0 => draft.cycles = value as u32,
            _ => {}
        }
        at = start + length;
    }
    senseless
}
