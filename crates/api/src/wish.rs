//! Traits: what a program says of an object, read and checked once.
//!
//! (H2M, FGCS 2023, section 4.2: prescriptive traits say where and how an object lies, descriptive ones how it is used.)

use crate::error::Error;
use core::ffi::c_int;
use std::sync::Arc;

/// A key and its value, as in `hearth.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Trait {
    /// A `hearth_key`.
    pub key: c_int,
    /// What it is.
    pub value: u64,
}

/// A space as the program names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// One of the three wishes.
    Wish(model::Space),
    /// The tier of an index.
    Tier(usize),
}

impl Space {
    /// The space of a number of `hearth_space`.
    pub fn of(number: u64) -> Option<Space> {
        match number {
            1 => Some(Space::Wish(model::Space::HighestBandwidth)),
            2 => Some(Space::Wish(model::Space::LowestLatency)),
            3 => Some(Space::Wish(model::Space::LargestCapacity)),
            16.. => usize::try_from(number - 16).ok().map(Space::Tier),
            _ => None,
        }
    }
}

/// How an object is walked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One after the other.
    Linear,
    /// With a stride.
    Strided,
    /// At random.
    Random,
}

/// How an object is divided between two tiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Not at all.
    #[default]
    Whole,
    /// Its first bytes in one.
    Split,
    /// By turns.
    Interleave,
}

impl Partition {
    /// The number of `hearth.h`.
    pub fn number(self) -> c_int {
        match self {
            Partition::Whole => 1,
            Partition::Split => 2,
            Partition::Interleave => 3,
        }
    }

    /// The partition of a number.
    pub fn of(number: u64) -> Option<Partition> {
        [Partition::Whole, Partition::Split, Partition::Interleave].into_iter().find(|p| p.number() as u64 == number)
    }
}

/// Largest alignment.
pub const MOST_ALIGNED: usize = 1 << 30;
/// Most traits that a call may bring: each key once.
pub const MOST_TRAITS: usize = 12;

/// Traits that were checked. What was not said is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// As they were given, for strategies.
    pub given: Arc<[Trait]>,
    /// Where.
    pub space: Option<Space>,
    /// It must be there.
    pub required: bool,
    /// Accesses a second.
    pub frequency: Option<u64>,
    /// How it is walked over.
    pub pattern: Option<Pattern>,
    /// The larger, the earlier it is served.
    pub importance: Option<u64>,
    /// Bytes, a power of two.
    pub alignment: Option<usize>,
    /// How it is divided.
    pub partition: Partition,
    /// Percent in `space`.
    pub weight: Option<u8>,
    /// Where what is not in `space` lies.
    pub rest: Option<Space>,
}

impl Wish {
    /// Reads traits.
    ///
    /// # Errors
    /// [`Error::Trait`] for a key or a value that does not exist, [`Error::Conflict`] if they contradict each other.
    pub fn read(traits: &[Trait]) -> Result<Wish, Error> {
        if traits.len() > MOST_TRAITS {
            return Err(Error::Conflict);
        }
        let mut wish = Wish { given: traits.into(), ..Wish::default() };
        let mut stride = None;
        let mut partition = None;
        let mut seen = 0u32;
        for &Trait { key, value } in traits {
            let one_of =
                |known: core::ops::RangeInclusive<u64>| known.contains(&value).then_some(()).ok_or(Error::Trait);
            let space = || Space::of(value).ok_or(Error::Trait);
            match key {
                1 | 2 => {
                    wish.space = Some(space()?);
                    wish.required = key == 1;
                    // At most one of the two.
                    if seen & 0b110 != 0 {
                        return Err(Error::Conflict);
                    }
                }
                3 => one_of(1..=3)?,
                4 => wish.frequency = Some(value),
                5 => one_of(1..=2)?,
                6 => {
                    wish.pattern = Some(match value {
                        1 => Pattern::Linear,
                        2 => Pattern::Strided,
                        3 => Pattern::Random,
                        _ => return Err(Error::Trait),
                    });
                }
                7 => {
                    one_of(1..=u64::MAX)?;
                    stride = Some(value);
                }
                8 => wish.importance = Some(value),
                9 => {
                    let bytes = usize::try_from(value).ok().filter(|b| b.is_power_of_two() && *b <= MOST_ALIGNED);
                    wish.alignment = Some(bytes.ok_or(Error::Trait)?);
                }
                10 => partition = Some(Partition::of(value).ok_or(Error::Trait)?),
                11 => {
                    one_of(1..=99)?;
                    wish.weight = Some(value as u8);
                }
                12 => wish.rest = Some(space()?),
                _ => return Err(Error::Trait),
            }
            if seen & 1 << key != 0 {
                return Err(Error::Conflict);
            }
            seen |= 1 << key;
        }
        wish.partition = partition.unwrap_or_default();
        let divided = wish.partition != Partition::Whole;
        if stride.is_some() && wish.pattern != Some(Pattern::Strided)
            || (wish.weight.is_some() || wish.rest.is_some()) && !divided
            || divided && wish.space.is_none()
        {
            return Err(Error::Conflict);
        }
        Ok(wish)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(traits: &[(c_int, u64)]) -> Result<Wish, Error> {
        Wish::read(&traits.iter().map(|&(key, value)| Trait { key, value }).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_said_is_read() {
        let wish =
            read(&[(1, 2), (3, 3), (4, 2000), (5, 1), (6, 2), (7, 4), (8, 9), (9, 64), (10, 3), (11, 30), (12, 17)])
                .unwrap();
        assert_eq!(wish.space, Some(Space::Wish(model::Space::LowestLatency)));
        assert!(wish.required);
        assert_eq!((wish.frequency, wish.pattern, wish.importance), (Some(2000), Some(Pattern::Strided), Some(9)));
        assert_eq!((wish.alignment, wish.partition, wish.weight), (Some(64), Partition::Interleave, Some(30)));
        assert_eq!(wish.rest, Some(Space::Tier(1)));
        assert_eq!(read(&[]), Ok(Wish::default()));
    }

    #[test]
    fn what_does_not_exist_is_refused() {
        for bad in [
            (0, 1),
            (13, 1),
            (-1, 1),
            (2, 0),
            (2, 4),
            (2, 15),
            (3, 0),
            (3, 4),
            (5, 3),
            (6, 4),
            (7, 0),
            (9, 0),
            (9, 24),
            (9, 1 << 31),
            (10, 0),
            (11, 0),
            (11, 100),
        ] {
            assert_eq!(read(&[bad]), Err(Error::Trait), "{bad:?}");
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for bad in [
            &[(1, 1), (2, 1)][..],
            &[(2, 1), (1, 1)],
            &[(4, 1), (4, 1)],
            &[(7, 8)],
            &[(6, 1), (7, 8)],
            &[(2, 1), (11, 50)],
            &[(2, 1), (12, 3)],
            &[(10, 2)],
            &[(2, 1), (10, 1), (11, 50)],
        ] {
            assert_eq!(read(bad), Err(Error::Conflict), "{bad:?}");
        }
        assert_eq!(Wish::read(&[Trait { key: 4, value: 1 }; 13]), Err(Error::Conflict));
    }
}
