//! What the program says of its phases: marks (`hearth_phase`) and operations of MPI (`hearth run --phases`), by which phases are known at once and for sure.
//! Parallel regions are told too, but several of them make a phase, and none of a program without OpenMP.
//!
//! Unimem (SC 2017, section 2.1) knows phases by them alone. Here they are used where they last: an interval that lies in one phase for the most part
//! belongs to it. A loop whose phases are shorter than intervals is one behaviour, as without marks ([`crate::phase`]).

use model::{NAMED, SiteId};
use record::follow::{RawFrame, Stack};
use std::collections::{HashMap, HashSet};

/// A phase has so large a part of an interval that is its own.
const MOST: f64 = 0.75;
/// Marks count as long as so many intervals ago one belonged to a phase of theirs.
const LATELY: u32 = 4;

/// Functions of parallel regions that are remembered.
const MOST_FUNCTIONS: usize = 1 << 12;

/// To which phase an interval belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// To that which began at this mark.
    Of(SiteId),
    /// Phases of marks last longer than intervals, and in this one several met.
    Between,
    /// No marks tell.
    Nobody,
}

/// The marks of the process whose marks count.
#[derive(Debug, Default)]
pub struct Marks {
    /// The first process that marked, as long as it lives: all of a job are in the same phases.
    process: Option<usize>,
    /// Functions of parallel regions.
    functions: HashSet<SiteId>,
    /// The phase that it is in, and since when in this interval, in ns.
    current: Option<SiteId>,
    since: u64,
    /// ns of this interval in each phase.
    times: HashMap<SiteId, u64>,
    /// Intervals since one was some phase's own.
    ago: Option<u32>,
}

impl Marks {
    /// A site was seen; of a function of regions it is the only frame, and no name.
    pub fn site(&mut self, site: SiteId, stack: &Stack) {
        let name = |frame: &RawFrame| frame.module.as_ref().is_some_and(|m| m.path.starts_with(NAMED));
        if matches!(stack.frames.as_slice(), [frame] if !name(frame)) && self.functions.len() < MOST_FUNCTIONS {
            self.functions.insert(site);
        }
    }

    /// A process has come to a mark.
    pub fn reached(&mut self, process: usize, mark: SiteId, now_ns: u64) {
        if !self.functions.contains(&mark) && *self.process.get_or_insert(process) == process {
            self.passes(now_ns);
            self.current = Some(mark);
        }
    }

    fn passes(&mut self, now_ns: u64) {
        let time = now_ns.saturating_sub(std::mem::replace(&mut self.since, now_ns));
        if let Some(current) = self.current {
            *self.times.entry(current).or_default() += time;
        }
    }

    /// An interval of this length is over.
    pub fn over(&mut self, now_ns: u64, length_ns: f64) -> Whose {
        self.passes(now_ns);
        let most = self.times.drain().max_by_key(|(_, time)| *time);
        match most.filter(|(_, time)| *time as f64 >= MOST * length_ns) {
            Some((mark, _)) => {
                self.ago = Some(0);
                Whose::Of(mark)
            }
            None => {
                self.ago = self.ago.map(|ago| ago + 1).filter(|ago| *ago < LATELY);
                if self.ago.is_some() { Whose::Between } else { Whose::Nobody }
            }
        }
    }

    /// A process is gone.
    pub fn ended(&mut self, process: usize) {
        if self.process == Some(process) {
            *self = Marks { functions: std::mem::take(&mut self.functions), ..Marks::default() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_of_the_phase_that_has_most_of_it() {
        let mut marks = Marks::default();
        let (a, b) = (SiteId(1), SiteId(2));
        assert_eq!(marks.over(100, 100.0), Whose::Nobody);
        marks.reached(0, a, 110);
        marks.reached(1, b, 120);
        assert_eq!(marks.over(200, 100.0), Whose::Of(a), "another process's do not count");
        assert_eq!(marks.over(300, 100.0), Whose::Of(a));
        marks.reached(0, b, 350);
        assert_eq!(marks.over(400, 100.0), Whose::Between);
        assert_eq!(marks.over(500, 100.0), Whose::Of(b));
        marks.ended(1);
        assert_eq!(marks.over(600, 100.0), Whose::Of(b));
        marks.ended(0);
        assert_eq!(marks.over(700, 100.0), Whose::Nobody);
    }

    #[test]
    fn phases_that_are_shorter_than_intervals_are_nobodys() {
        let mut marks = Marks::default();
        let mut over = |interval: u64| {
            (0..10).for_each(|n| marks.reached(0, SiteId(n % 2), 100 * interval + 10 * n));
            marks.over(100 * (interval + 1), 100.0)
        };
        assert!((0..10).all(|interval| over(interval) == Whose::Nobody));
    }
}
