//! A site split between two tiers: which 64ths of each of its objects lie in its own tier, the others in another one.
//!
//! Where bandwidth is the limit two memories serve together more than one; and an object larger than the fast memory
//! still gets what there is of it.

use crate::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Some of the 64 equal parts of an object, at least one and not all. Bit 0 is its first part.
///
/// As text: `24/64` are 24 parts spread evenly, `0-15, 40` are these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Parts(u64);

impl Parts {
    /// Parts of an object.
    pub const OF: u32 = 64;
    /// Smallest object that is split; smaller ones go whole to one tier or the other, by turns.
    pub const FROM: Bytes = Bytes::mib(1);

    /// These parts; `None` if it is none or all of them.
    pub fn of_mask(mask: u64) -> Option<Parts> {
        (mask != 0 && mask != u64::MAX).then_some(Parts(mask))
    }

    /// So many parts, as far from each other as can be; `None` if it is none or all of them.
    pub fn spread(count: u32) -> Option<Parts> {
        // As a line of this slope is drawn with dots (Bresenham 1965).
        let steps = |i: u32| (i * count + Parts::OF / 2) / Parts::OF;
        let bit = |i: u32| u64::from(steps(i + 1) > steps(i)) << i;
        if count >= Parts::OF { None } else { Parts::of_mask((0..Parts::OF).map(bit).sum()) }
    }

    /// As a mask.
    pub fn mask(self) -> u64 {
        self.0
    }

    /// How many they are.
    pub fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Their share of the object, between 0 and 1.
    pub fn share(self) -> f64 {
        f64::from(self.count()) / f64::from(Parts::OF)
    }
}

impl fmt::Display for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if Parts::spread(self.count()) == Some(*self) {
            return write!(f, "{}/{}", self.count(), Parts::OF);
        }
        let has = |i: u32| i < Parts::OF && self.0 >> i & 1 == 1;
        let mut gap = "";
        for first in (0..Parts::OF).filter(|&i| has(i) && (i == 0 || !has(i - 1))) {
            let last = (first..Parts::OF).take_while(|&i| has(i)).last().unwrap_or(first);
            match last {
                _ if last == first => write!(f, "{gap}{first}")?,
                _ => write!(f, "{gap}{first}-{last}")?,
            }
            gap = ", ";
        }
        Ok(())
    }
}

impl FromStr for Parts {
    type Err = String;

    fn from_str(text: &str) -> Result<Parts, String> {
        let bad = || {
            format!(
                "`{text}` are not parts of an object; write how many of 64, spread evenly, as \"24/64\" (1 to 63), or which \
                 ones, as \"0-15, 40\" (0 to 63)"
            )
        };
        if let Some((count, of)) = text.split_once('/') {
            let count = count.trim().parse().map_err(|_| bad())?;
            return Parts::spread(count).filter(|_| of.trim() == "64").ok_or_else(bad);
        }
        let mut mask = 0u64;
        for range in text.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |t: &str| t.trim().parse::<u32>().ok().filter(|&n| n < Parts::OF);
            let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(bad()) };
            if first > last {
                return Err(bad());
            }
            (first..=last).for_each(|i| mask |= 1 << i);
        }
        Parts::of_mask(mask).ok_or_else(bad)
    }
}

impl From<Parts> for String {
    fn from(parts: Parts) -> String {
        parts.to_string()
    }
}

impl TryFrom<String> for Parts {
    type Error = String;
    fn try_from(text: String) -> Result<Parts, String> {
        text.parse()
    }
}

/// Where the parts of a split site's objects lie that are not in its own tier.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Parts in the site's tier.
    pub parts: Parts,
    /// Tier of the others.
    pub rest: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_spread_evenly_and_come_back_from_text() {
        for count in 1..64 {
            let parts = Parts::spread(count).unwrap();
            assert_eq!(parts.count(), count);
            assert_eq!(parts.to_string(), format!("{count}/64"));
            assert_eq!(parts.to_string().parse(), Ok(parts));
            // Of any two stretches of one length neither has two more than the other.
            for len in 1..64 {
                let counts = (0..=64 - len).map(|at| (parts.mask() >> at & ((1 << len) - 1)).count_ones());
                let (least, most) = counts.fold((64, 0), |(a, b), n| (a.min(n), b.max(n)));
                assert!(most - least <= 1, "{count} parts, {len} long: {least} to {most}");
            }
        }
        let parts: Parts = "0-15, 40,62-63".parse().unwrap();
        assert_eq!((parts.count(), parts.to_string()), (19, "0-15, 40, 62-63".to_string()));
        assert_eq!(parts.to_string().parse(), Ok(parts));
    }

    #[test]
    fn what_are_no_parts_is_refused() {
        for text in ["", "0/64", "64/64", "3/8", "x/64", "64", "5-3", "0-63", "1,,2", "-1"] {
            assert!(text.parse::<Parts>().unwrap_err().contains("parts of an object"), "{text}");
        }
    }
}
