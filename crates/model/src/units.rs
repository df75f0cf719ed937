//! Quantities with their unit in the type, so that a byte count is never taken for a time.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

/// A number of bytes. Written by people as `4096`, `64KiB`, `1.5GiB`, `2GB`; printed with binary units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

/// A duration or a point in time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// A bandwidth in 10^9 bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GbPerSec(pub f64);

impl Bytes {
    /// None.
    pub const fn is_zero(&self) -> bool {
        self.0 == 0
    }
    /// `n` KiB.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }
    /// `self - other`, or zero.
    pub const fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, o: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(o.0))
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, o: Bytes) {
        *self = *self + o;
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, o: Bytes) -> Bytes {
        self.saturating_sub(o)
    }
}
impl Sum for Bytes {
    fn sum<I: Iterator<Item = Bytes>>(it: I) -> Bytes {
        it.fold(Bytes(0), Add::add)
    }
}

const UNITS: [(&str, u64); 5] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

impl fmt::Display for Bytes {
    /// Binary units with one decimal where it says something: `12 GiB`, `1.5 GiB`, `640 KiB`, `17 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = UNITS.into_iter().find(|&(_, size)| self.0 >= size).unwrap_or(("B", 1));
        let value = self.0 as f64 / size as f64;
        let text = if value >= 100.0 || (value - value.round()).abs() < 0.05 {
            format!("{value:.0} {unit}")
        } else {
            format!("{value:.1} {unit}")
        };
        f.pad(&text)
    }
}

impl FromStr for Bytes {
    type Err = String;
    /// Accepts a whole or decimal number with an optional unit: B, K/KiB/KB, M.., G.., T.. (`KB`, `MB`, ... are
    /// powers of 1000; `K`, `M`, ... and `KiB`, `MiB`, ... powers of 1024), upper or lower case.
    fn from_str(text: &str) -> Result<Bytes, String> {
        let t = text.trim();
        let split = t.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(t.len());
        let (number, unit) = t.split_at(split);
        let bad = || format!("`{text}` is not a size; write for example 512MiB, 12GiB or 1.5GB");
        let number: f64 = number.parse().map_err(|_| bad())?;
        let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            _ => return Err(bad()),
        };
        let bytes = number * factor as f64;
        if bytes >= u64::MAX as f64 {
            return Err(format!("`{text}` is larger than any memory"));
        }
        Ok(Bytes(bytes.round() as u64))
    }
}

impl Serialize for Bytes {
    /// In JSON and TOML a byte count is a plain integer.
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    /// Reads an integer number of bytes or a text such as `"12GiB"`.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Bytes, D::Error> {
        /// Written out rather than as an untagged enum, whose errors do not say what is expected.
        struct NumberOrText;
        impl Visitor<'_> for NumberOrText {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes or a size such as \"12GiB\"")
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<Bytes, E> {
                Ok(Bytes(n))
            }
            fn visit_i64<E: Error>(self, n: i64) -> Result<Bytes, E> {
                u64::try_from(n).map(Bytes).map_err(|_| E::invalid_value(Unexpected::Signed(n), &self))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(NumberOrText)
    }
}

impl Nanos {
    /// In seconds.
    pub fn secs(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits in the unit that fits: `85 ns`, `1.20 ms`, `3.4 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let text = match ns {
            n if n < 1e3 => format!("{n:.0} ns"),
            n if n < 1e6 => format!("{:.1} us", n / 1e3),
            n if n < 1e9 => format!("{:.1} ms", n / 1e6),
            n => format!("{:.1} s", n / 1e9),
        };
        f.pad(&text)
    }
}

impl FromStr for Nanos {
    type Err = String;
    /// Accepts a whole or decimal number with a unit: ns, us, ms or s.
    fn from_str(text: &str) -> Result<Nanos, String> {
        let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let ns = number_with_unit(text, &units)
            .ok_or_else(|| format!("`{text}` is not a time; write for example 250ns or 1.5us"))?;
        Ok(Nanos(ns.round() as u64))
    }
}

impl FromStr for GbPerSec {
    type Err = String;
    /// Accepts a whole or decimal number with a unit, in powers of 1000: MB/s, GB/s or TB/s.
    fn from_str(text: &str) -> Result<GbPerSec, String> {
        let units = [("mb/s", 1e-3), ("gb/s", 1.0), ("tb/s", 1e3)];
        number_with_unit(text, &units)
            .map(GbPerSec)
            .ok_or_else(|| format!("`{text}` is not a bandwidth; write for example 20GB/s or 1.6TB/s"))
    }
}

/// Reads `12.5 unit`, in the unit whose factor is 1; upper or lower case.
fn number_with_unit(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let t = text.trim();
    let split = t.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
    let (number, unit) = t.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = units.iter().find(|u| u.0 == unit)?.1;
    Some(number.parse::<f64>().ok()? * factor)
}

impl fmt::Display for GbPerSec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.0 >= 100.0 { format!("{:.0} GB/s", self.0) } else { format!("{:.1} GB/s", self.0) };
        f.pad(&text)
    }
}

/// A number for people, in two significant digits, and without an exponent where it usually lies: `12`, `3.4`,
/// `0.84`, `0.0021`, `8.1e-5`.
pub fn significant(x: f64) -> String {
    match x {
        0.0 => "0".to_string(),
        x if x >= 9.95 => format!("{x:.0}"),
        x if x >= 0.995 => format!("{x:.1}"),
        x if x >= 0.0995 => format!("{x:.2}"),
        x if x >= 0.00995 => format!("{x:.3}"),
        x if x >= 0.000995 => format!("{x:.4}"),
        x => format!("{x:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_people_write_them() {
        for (text, bytes) in
            [("4096", 4096), ("64KiB", 65536), ("64k", 65536), ("1.5 GiB", 3 << 29), ("2GB", 2_000_000_000), ("0", 0)]
        {
            assert_eq!(text.parse::<Bytes>().unwrap().0, bytes, "{text}");
        }
        for text in ["", "GiB", "12 parsecs", "-1", "99999999TiB", "1..5G"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_bandwidths_need_their_unit() {
        assert_eq!("250ns".parse(), Ok(Nanos(250)));
        assert_eq!("1.5 us".parse(), Ok(Nanos(1500)));
        assert_eq!("20GB/s".parse(), Ok(GbPerSec(20.0)));
        assert_eq!("1.6 TB/s".parse(), Ok(GbPerSec(1600.0)));
        for text in ["", "250", "ns", "-1ns", "1..5ns", "3 hours"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
        for text in ["", "20", "20GB", "GB/s", "-3GB/s"] {
            assert!(text.parse::<GbPerSec>().is_err(), "{text}");
        }
    }

    #[test]
    fn two_digits_are_enough() {
        for (x, text) in
            [(0.0, "0"), (12.34, "12"), (3.36, "3.4"), (0.841, "0.84"), (0.00212, "0.0021"), (8.1e-5, "8.1e-5")]
        {
            assert_eq!(significant(x), text);
        }
    }

    #[test]
    fn sizes_print_short() {
        for (bytes, text) in [(0, "0 B"), (17, "17 B"), (65536, "64 KiB"), (3 << 29, "1.5 GiB"), (1 << 40, "1 TiB")] {
            assert_eq!(Bytes(bytes).to_string(), text);
        }
    }
}
