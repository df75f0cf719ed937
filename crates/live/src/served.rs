//! What fast memory has really brought to a phase that comes back: by how much it went faster when more of what it asked for was there. Prices say what a line costs a program that waits
//! for each ([`crate::prioritise::Now`]); how many a processor waits for at once, and how much it computes meanwhile, no counter tells.

use std::ops::AddAssign;

/// Two times are compared if in one of them so large a share of the lines more came from there at least: that tells more than by how much a phase differs from one time to the next.
const APART: f64 = 0.25;
/// A later time takes the place of one that differs by no more than that.
const LIKE: f64 = 0.05;

/// What was served in some intervals of a phase that tell how long a line takes: those in which misses were counted, and nothing was moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// How long they were, in s.
    pub time_s: f64,
    /// Lines that were asked for.
    pub lines: f64,
    /// Of these, from the fastest memory.
    pub fast: f64,
}

impl AddAssign for Served {
    fn add_assign(&mut self, more: Served) {
        self.time_s += more.time_s;
        self.lines += more.lines;
        self.fast += more.fast;
    }
}

/// What is known of a phase: of the times that had the least and the most from the fastest memory, which share of the lines that was, and ns for each line.
#[derive(Debug, Default)]
pub struct Brought {
    least: Option<(f64, f64)>,
    most: Option<(f64, f64)>,
}

impl Brought {
    /// The phase has come to an end once more.
    pub fn ended(&mut self, served: Served) {
        if served.lines <= 0.0 {
            return;
        }
        let (share, ns) = (served.fast / served.lines, 1e9 * served.time_s / served.lines);
        if self.least.is_none_or(|(least, _)| share < least + LIKE) {
            self.least = Some((share, ns));
        }
        if self.most.is_none_or(|(most, _)| share > most - LIKE) {
            self.most = Some((share, ns));
        }
    }

    /// Time that a line from the fastest memory saves, in ns, if that has been seen.
    pub fn line(&self) -> Option<f64> {
        let ((least, slow), (most, fast)) = self.least.zip(self.most)?;
        (most - least > APART).then(|| ((slow - fast) / (most - least)).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_known_what_fast_memory_has_brought() {
        let mut brought = Brought::default();
        let mut ended = |time_s, fast| {
            brought.ended(Served { time_s, lines: 1e6, fast });
            brought.line().map(f64::round)
        };
        assert_eq!(ended(0.09, 0.5e6), None);
        assert_eq!(ended(0.10, 0.4e6), None, "hardly less of it");
        assert_eq!(ended(0.08, 0.9e6), Some(40.0), "20 ms less for half a million lines");
        assert_eq!(ended(0.13, 0.1e6), Some(63.0), "less of it than ever: 50 ms for 800,000");
        assert_eq!(ended(0.01, 0.5e6), Some(63.0), "neither the least nor the most");
        assert_eq!(ended(0.17, 1e6), Some(0.0), "it took longer");
        brought.ended(Served::default());
        assert_eq!(brought.line(), Some(0.0));
    }
}
