//! Where the data of an access came from, out of the kernel's `perf_mem_data_src` (`include/uapi/linux/perf_event.h`): the
//! one form into which the kernel brings what PEBS says, and since Linux 6.1 also IBS.

use crate::misses::Source;

const OP: Field = Field(0, 5);
const LEVEL: Field = Field(5, 14);
const LEVEL_NUMBER: Field = Field(33, 4);
const REMOTE: Field = Field(37, 1);

const STORE: u64 = 0x4;

const MISS: u64 = 0x4;
const L1: u64 = 0x8;

/// First bit and number of bits.
struct Field(u32, u32);

impl Field {
    fn of(&self, word: u64) -> u64 {
        word >> self.0 & ((1 << self.1) - 1)
    }
}

/// An access as the kernel describes it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// By a store.
    pub store: bool,
    /// Where the data came from.
    pub source: Source,
    /// It missed the first-level cache; none: not told.
    pub missed_l1: Option<bool>,
}

/// Takes the word apart.
pub fn decode(word: u64) -> Access {
    let (level, remote) = (LEVEL.of(word), REMOTE.of(word) == 1);
    let source = if level & MISS != 0 {
        // It names the level that was missed, and not who had the data.
        Source::Unknown
    } else {
        let memory = if remote { Source::RemoteMemory } else { Source::Memory };
        match LEVEL_NUMBER.of(word) {
            0x1 => Source::L1,
            0x2 | 0x5 => Source::L2,
            0x3 | 0x4 | 0x6 if remote => Source::OtherCache,
            0x3 | 0x4 | 0x6 => Source::Llc,
            0x8 | 0xa => Source::Device,
            0x9 => Source::Linked,
            0xb => Source::OtherCache,
            0xc => Source::Fill,
            0xd => memory,
            0xe => Source::Persistent,
            // Kernels before 4.17 and some processors only set bits.
            _ => match level {
                l if l & 0x1000 != 0 => Source::Device,
                l if l & 0x300 != 0 => Source::RemoteMemory,
                l if l & 0x80 != 0 => memory,
                l if l & 0xc00 != 0 => Source::OtherCache,
                l if l & 0x40 != 0 => Source::Llc,
                l if l & 0x20 != 0 => Source::L2,
                l if l & 0x10 != 0 => Source::Fill,
                l if l & L1 != 0 => Source::L1,
                _ => Source::Unknown,
            },
        }
    };
    let missed_l1 = match source {
        Source::L1 => Some(false),
        // Whoever had missed another level had missed the first one before.
        Source::Unknown => (level & MISS != 0).then_some(true),
        _ => Some(true),
    };
    Access { store: OP.of(word) & STORE != 0, source, missed_l1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The word of these fields.
    fn word(op: u64, level: u64, number: u64, remote: u64) -> u64 {
        op | level << 5 | number << 33 | remote << 37
    }

    #[test]
    fn every_form_of_every_source_is_known() {
        let (load, store, hit, miss) = (0x2, 0x4, 0x2, 0x4);
        let cases = [
            // Loads as Skylake to Granite Rapids report them by load latency.
            (word(load, hit | 0x08, 0x1, 0), Source::L1, Some(false)),
            (word(load, hit | 0x10, 0xc, 0), Source::Fill, Some(true)),
            (word(load, hit | 0x20, 0x2, 0), Source::L2, Some(true)),
            (word(load, hit | 0x40, 0x3, 0), Source::Llc, Some(true)),
            (word(load, hit | 0x80, 0xd, 0), Source::Memory, Some(true)),
            (word(load, hit | 0x100, 0xd, 1), Source::RemoteMemory, Some(true)),
            (word(load, hit | 0x400, 0x3, 1), Source::OtherCache, Some(true)),
            (word(load, hit, 0xe, 0), Source::Persistent, Some(true)),
            (word(load, miss | 0x40, 0x3, 0), Source::Unknown, Some(true)),
            (word(load, hit | 0x1000, 0xa, 0), Source::Device, Some(true)),
            // Zen 4 and later behind a link.
            (word(load, hit, 0x9, 0), Source::Linked, Some(true)),
            // Old kernels: bits only.
            (word(load, hit | 0x80, 0, 0), Source::Memory, Some(true)),
            (word(load, hit | 0x200, 0, 0), Source::RemoteMemory, Some(true)),
            (word(load, 0x1, 0, 0), Source::Unknown, None),
            // Stores only say whether they hit the first level.
            (word(store, hit | 0x08, 0, 0), Source::L1, Some(false)),
            (word(store, miss | 0x08, 0, 0), Source::Unknown, Some(true)),
            (0, Source::Unknown, None),
        ];
        for (word, source, missed_l1) in cases {
            let store = word & 0x4 != 0;
            assert_eq!(decode(word), Access { store, source, missed_l1 }, "{word:#x}");
        }
    }
}
