//! The little SVG the figures need: escaping, scales, ticks.

use model::{Bytes, Nanos};

/// `raw` as HTML or SVG text or attribute value. Control characters, which XML forbids, are shown as `?`.
pub fn text(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
    out
}

/// The first `most` characters, with an ellipsis where there are more.
pub fn shortened(raw: &str, most: usize) -> String {
    if raw.chars().count() <= most { raw.to_string() } else { raw.chars().take(most - 1).chain(['…']).collect() }
}

/// Maps values from `from` to pixels in `to`, linearly or by logarithm.
#[derive(Clone, Copy)]
pub struct Scale {
    from: (f64, f64),
    to: (f64, f64),
    log: bool,
}

impl Scale {
    /// A linear scale.
    pub fn linear(from: (f64, f64), to: (f64, f64)) -> Scale {
        Scale { from, to, log: false }
    }

    /// A logarithmic scale; both ends must be above 0.
    pub fn log(from: (f64, f64), to: (f64, f64)) -> Scale {
        Scale { from: (from.0.ln(), from.1.ln()), to, log: true }
    }

    /// Pixel of `value`.
    pub fn at(self, value: f64) -> f64 {
        let value = if self.log { value.ln() } else { value };
        self.to.0 + (value - self.from.0) / (self.from.1 - self.from.0) * (self.to.1 - self.to.0)
    }
}

/// About `count` round values in `0..=most`, at 1, 2 or 5 times a power of ten.
pub fn round_ticks(most: f64, count: usize) -> Vec<f64> {
    let raw = most / count as f64;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|s| *s >= raw * 0.999).unwrap_or(raw);
    ticks_by(step, most)
}

/// About `count` round byte counts in `0..=most`, at powers of two.
pub fn byte_ticks(most: Bytes, count: u64) -> Vec<f64> {
    let step = (most.0 / count).max(1).next_power_of_two();
    ticks_by(step as f64, most.0 as f64)
}

fn ticks_by(step: f64, most: f64) -> Vec<f64> {
    (0..=(most / step + 1e-9) as u64).map(|n| n as f64 * step).collect()
}

/// The unit that a run of this length is told in: its name and its nanoseconds.
pub fn time_unit(length: Nanos) -> (&'static str, f64) {
    match length.0 {
        n if n < 2_000_000 => ("us", 1e3),
        n if n < 2_000_000_000 => ("ms", 1e6),
        n if n < 600_000_000_000 => ("s", 1e9),
        n if n < 36_000_000_000_000 => ("min", 60e9),
        _ => ("h", 3600e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_markup() {
        assert_eq!(text("<a href=\"x\">&'\u{1b}"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;?");
    }

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(round_ticks(18.4, 6), [0.0, 5.0, 10.0, 15.0]);
        assert_eq!(round_ticks(1.0, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(byte_ticks(Bytes::mib(426), 4), [0.0, 134217728.0, 268435456.0, 402653184.0]);
        for most in [1e-3, 1.0, 7.7, 1e12] {
            let n = round_ticks(most, 5).len();
            assert!((3..=7).contains(&n), "{n} ticks for {most}");
        }
    }

    #[test]
    fn scales_map_their_ends() {
        let s = Scale::log((1.0, 100.0), (0.0, 10.0));
        assert!((s.at(10.0) - 5.0).abs() < 1e-9 && Scale::linear((0.0, 4.0), (8.0, 0.0)).at(1.0) == 6.0);
    }
}
