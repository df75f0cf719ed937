//! AMD's instruction-based sampling: the registers of a sampled op, as the kernel hands them over in the raw part of a
//! sample of `ibs_op` (`arch/x86/events/amd/ibs.c`). Fields: AMD64 Architecture Programmer's Manual, volume 2, section
//! 13.3.3, and the Processor Programming References of families 17h to 1Ah.
//!
//! The raw part: the IBS capabilities (32 bits), then the registers IbsOpCtl, IbsOpRip, IbsOpData, IbsOpData2, IbsOpData3,
//! IbsDcLinAd, IbsDcPhysAd (64 bits each), then others that are of no interest here. The kernel's word for the data source is
//! not used: kernels before 6.1 have none, and this one has been there since 2.6.

use super::record::u64_at;
use crate::misses::Source;

/// Capability: the data source has five bits (Zen 4 and later).
const EXTENDED_SOURCE: u32 = 1 << 11;

/// A sampled op that loads or stores.
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
    /// Cycles from the miss of a load to its data.
    pub cycles: u32,
}

/// Takes the registers apart. `None`: an op without an address, a software prefetch, or bytes that are too few.
pub fn decode(raw: &[u8]) -> Option<Op> {
    let capabilities = u32::from_le_bytes(raw.get(..4)?.try_into().ok()?);
    let register = |n: usize| u64_at(raw, 4 + 8 * n);
    let (ip, data2, data3, addr) = (register(1)?, register(3)?, register(4)?, register(5)?);
    let bit = |n: u32| data3 >> n & 1 == 1;
    let (load, store, missed_l1, missed_l2) = (bit(0), bit(1), bit(7), bit(20));
    let (address_valid, prefetch) = (bit(17), bit(21));
    if !(load || store) || !address_valid || prefetch {
        return None;
    }
    // An op that does both (a locked add, say) has brought its line for the load.
    let store = !load;
    let source = match (store, missed_l1, missed_l2) {
        (true, ..) => Source::Unknown,
        (_, false, _) => Source::L1,
        (_, _, false) => Source::L2,
        _ => beyond(data2, capabilities & EXTENDED_SOURCE != 0),
    };
    let cycles = if load && missed_l1 { (data3 >> 32 & 0xffff) as u32 } else { 0 };
    Some(Op { ip, addr, store, missed_l1, source, cycles })
}

/// Who had the data of a load that missed both caches of its core.
fn beyond(data2: u64, extended: bool) -> Source {
    let remote = data2 >> 4 & 1 == 1;
    let memory = if remote { Source::RemoteMemory } else { Source::Memory };
    if extended {
        match data2 & 7 | (data2 >> 6 & 3) << 3 {
            1 => Source::Llc,
            2 | 5 => Source::OtherCache,
            3 => memory,
            6 => Source::Persistent,
            7 => Source::Device,
            8 => Source::Linked,
            12 => Source::RemoteMemory,
            _ => Source::Unknown,
        }
    } else {
        match data2 & 7 {
            1 | 2 => Source::Llc,
            3 => memory,
            4 => Source::OtherCache,
            7 => Source::Device,
            _ => Source::Unknown,
        }
    }
}
