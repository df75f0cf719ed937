//! Phases that come back. What was asked for in a phase is kept when it ends, with how long it lasted and what came after it. When another one begins that
//! asks for the same, what is known of it holds at once; and towards its end that of the one which followed it last time, so that its objects are where they
//! are needed when it begins (Unimem, SC 2017, section 3.3: a helper moves ahead of the phase; there phases lie between MPI calls, here they are recognised).

use crate::rates::Rates;
use crate::served::{Brought, Served};
use model::SiteId;

/// Phases that are remembered.
const KNOWN: usize = 8;
/// One phase in so many takes longer than it did, and still is to be expected to end: by so large a part, and so many intervals.
const LATE: (f64, f64) = (0.25, 2.0);

/// A phase that has been seen.
#[derive(Debug, Default)]
struct Known {
    /// What it asked for the last time, lines a second in the mean; and for how many intervals. Of one time, since what was in fast memory is asked for more a second
    /// and not as long. None while it is seen for the first time.
    seen: Option<(Rates, f64)>,
    /// Lines that it asked for in all, the last time and the time before: in fast memory it is not as long, and asks for as many.
    lines: [f64; 2],
    /// What it gains by fast memory.
    brought: Brought,
    /// It ended in less than half of its time the last time.
    cut: bool,
    /// What came after it.
    next: Option<usize>,
    /// The mark that it begins with, if marks tell.
    mark: Option<SiteId>,
    /// When it began last, in phases.
    began: u64,
}

/// The phases that were seen.
#[derive(Debug, Default)]
pub struct Recall {
    known: Vec<Known>,
    current: Option<usize>,
    phases: u64,
    /// The mean over all that were seen to their end, each for as long as it lasts.
    mean: Rates,
}

impl Recall {
    /// The current phase is over: what it asked for in the mean, for how many intervals, how many lines that were in all, and from which memory they came.
    pub fn ended(&mut self, mean: Rates, intervals: f64, lines: f64, served: Served) {
        let Some(known) = self.current.and_then(|i| self.known.get_mut(i)) else { return };
        let last = if known.seen.is_some() { known.lines[0] } else { lines };
        // While objects are moved it may look for a moment like another phase, or its end like the beginning of one.
        known.cut = 2.0 * lines < last && !known.cut;
        if known.cut {
            return;
        }
        known.lines = [lines, last];
        known.seen = Some((mean, intervals));
        known.brought.ended(served);
        let seen = || self.known.iter().filter_map(|k| k.seen.as_ref());
        let all: f64 = seen().map(|(_, length)| length).sum();
        self.mean = Rates::default();
        for (rates, length) in seen() {
            self.mean.add(&rates.times(length / all.max(1.0)));
        }
    }

    /// Another phase has begun. `apart`: how far what was seen of it is from what a phase asked for, if that is not too far. Gives what is known of it: what
    /// it asks for, and for how many intervals.
    pub fn began(&mut self, apart: impl Fn(&Rates) -> Option<f64>) -> Option<(&Rates, f64)> {
        let new = self.nearest(apart).unwrap_or_else(|| self.place());
        self.enter(new)
    }

    /// The phase of a mark has begun. Gives what is known of it, as [`Recall::began`].
    pub fn marked(&mut self, mark: SiteId) -> Option<(&Rates, f64)> {
        let known = self.known.iter().position(|k| k.mark == Some(mark));
        let new = known.unwrap_or_else(|| self.place());
        self.known[new].mark = Some(mark);
        self.enter(new)
    }

    fn enter(&mut self, new: usize) -> Option<(&Rates, f64)> {
        if let Some(before) = self.current.and_then(|i| self.known.get_mut(i)) {
            before.next = Some(new);
        }
        self.phases += 1;
        self.known[new].began = self.phases;
        self.current = Some(new);
        self.known[new].seen.as_ref().map(|(rates, length)| (rates, *length))
    }

    /// The current phase was taken for a new one, and more of it has been seen now. Whether it is known after all.
    pub fn recognised(&mut self, apart: impl Fn(&Rates) -> Option<f64>) -> bool {
        let new = |i: usize| self.known[i].seen.is_none() && self.known[i].mark.is_none();
        let Some(new) = self.current.filter(|&i| new(i)) else { return false };
        let Some(found) = self.nearest(apart) else { return false };
        self.known.iter_mut().filter(|k| k.next == Some(new)).for_each(|k| k.next = Some(found));
        self.known[found].began = std::mem::take(&mut self.known[new].began);
        self.current = Some(found);
        true
    }

    /// The phase that asked for what is nearest to what is asked for now.
    fn nearest(&self, apart: impl Fn(&Rates) -> Option<f64>) -> Option<usize> {
        let alike = |(i, k): (usize, &Known)| Some((apart(&k.seen.as_ref()?.0)?, i));
        let told_by_access = self.known.iter().enumerate().filter(|(_, k)| k.mark.is_none());
        told_by_access.filter_map(alike).min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, i)| i)
    }

    /// A place for a phase that was never seen: that of the one which has not come for longest, if there is no other.
    fn place(&mut self) -> usize {
        if self.known.len() < KNOWN {
            self.known.push(Known::default());
            return self.known.len() - 1;
        }
        let others = (0..KNOWN).filter(|i| Some(*i) != self.current);
        let oldest = others.min_by_key(|i| self.known[*i].began).unwrap_or(0);
        self.known[oldest] = Known::default();
        self.known.iter_mut().for_each(|k| k.next = k.next.filter(|next| *next != oldest));
        oldest
    }

    /// Intervals for which the current phase, which is so old and has asked for so many lines, is to be expected to go on as it does: until it has asked for as many as the last two
    /// times, whichever was less. None if it was never seen, or lasts longer than it ever did.
    pub fn left(&self, age: f64, lines: f64) -> Option<f64> {
        let known = self.known.get(self.current?)?;
        let (_, length) = known.seen.as_ref()?;
        let [one, other] = known.lines;
        // As long as it was, if nothing tells how far it has come.
        let whole = |of: f64| if lines > 0.0 && of > 0.0 { age * of / lines } else { *length };
        let (shortest, longest) = (whole(one.min(other)), whole(one.max(other)));
        (age <= longest * (1.0 + LATE.0) + LATE.1).then(|| (shortest - age).max(0.0))
    }

    /// What is asked for after the current phase, and for how many intervals, if that is known.
    pub fn next(&self) -> Option<(&Rates, f64)> {
        self.following().next()
    }

    /// The same of all phases that follow, as far as is known what follows.
    pub fn following(&self) -> impl Iterator<Item = (&Rates, f64)> {
        let after = self.now_and_after().skip(1);
        after.map_while(|known| known.seen.as_ref()).map(|(rates, length)| (rates, *length))
    }

    /// Time that a line from the fastest memory saves in the current phase, and in the next one, as far as that has been seen, in ns; else as in the mean of those of which it has been. Phases
    /// of one program are more alike in that than the prices know.
    pub fn brought(&self) -> [f64; 2] {
        let seen = || self.known.iter().filter_map(|known| known.brought.line());
        let mean = if seen().next().is_some() { seen().sum::<f64>() / seen().count() as f64 } else { f64::INFINITY };
        let mut phases = self.now_and_after().map(|known| known.brought.line());
        [(); 2].map(|()| phases.next().flatten().unwrap_or(mean))
    }

    /// The current phase, and those that follow.
    fn now_and_after(&self) -> impl Iterator<Item = &Known> {
        std::iter::successors(self.current, |&i| self.known.get(i)?.next).map_while(|i| self.known.get(i))
    }

    /// Whether phases come round: what follows the current one, and what follows that, leads back to it. If not there are more phases than are remembered, and a
    /// mean over these knows nothing of what the others ask for. (A program that walks through a large array in steps longer than an interval looks like that.)
    pub fn comes_round(&self) -> bool {
        let next = |i: &usize| self.known.get(*i).filter(|k| k.seen.is_some()).and_then(|k| k.next);
        let after = std::iter::successors(self.current, next).skip(1);
        after.take(KNOWN).any(|i| Some(i) == self.current)
    }

    /// What phases ask for in the mean of all that were seen to their end, each counting for as long as it lasts.
    pub fn mean(&self) -> &Rates {
        &self.mean
    }

    /// Intervals of which that is the mean.
    pub fn looks(&self) -> f64 {
        self.known.iter().filter_map(|k| k.seen.as_ref()).map(|(_, length)| length).sum()
    }

    /// A record is gone, and another one may come to its place.
    pub fn forget(&mut self, process: usize, start: u64) {
        for (rates, _) in self.known.iter_mut().filter_map(|k| k.seen.as_mut()) {
            rates.records.remove(&(process, start));
        }
        self.mean.records.remove(&(process, start));
    }

    /// A process is gone, and another one may get its number.
    pub fn forget_all(&mut self, process: usize) {
        for (rates, _) in self.known.iter_mut().filter_map(|k| k.seen.as_mut()) {
            rates.records.retain(|(of, _), _| *of != process);
        }
        self.mean.records.retain(|(of, _), _| *of != process);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::cost::moment::Lines;

    fn rates(address: u64) -> Rates {
        let mut rates = Rates::default();
        rates.records.insert((0, address), Lines { random: 100.0, ..Lines::default() });
        rates
    }

    /// Near, if they ask for the same record.
    fn like(address: u64) -> impl Fn(&Rates) -> Option<f64> {
        move |known| known.records.contains_key(&(0, address)).then_some(0.1)
    }

    #[test]
    fn what_comes_back_is_known_with_what_follows() {
        let mut recall = Recall::default();
        assert!(recall.began(like(1)).is_none() && recall.left(1.0, 1.0).is_none());
        recall.ended(rates(1), 10.0, 10.0, Served::default());
        assert!(recall.began(like(2)).is_none());
        assert!(recall.next().is_none(), "nothing has followed it yet");
        recall.ended(rates(2), 20.0, 20.0, Served::default());
        let (known, length) = recall.began(like(1)).expect("it was seen");
        assert_eq!((known.records.len(), length), (1, 10.0));
        assert_eq!(
            (recall.left(3.0, 3.0), recall.left(12.0, 12.0), recall.left(15.0, 15.0)),
            (Some(7.0), Some(0.0), None)
        );
        let (next, length) = recall.next().expect("it was followed by another one");
        assert!(next.records.contains_key(&(0, 2)) && length == 20.0);
        recall.ended(rates(1), 14.0, 14.0, Served::default());
        recall.began(like(2)).expect("it was seen");
        assert_eq!(recall.left(3.0, 3.0), Some(17.0));
        assert_eq!(recall.next().map(|(_, length)| length), Some(14.0), "as the last time");
        assert_eq!(recall.following().map(|(_, length)| length).take(3).collect::<Vec<_>>(), [14.0, 20.0, 14.0]);
        let mean = recall.mean().records[&(0, 2)];
        assert!((mean.random - 100.0 * 20.0 / 34.0).abs() < 1e-9 && recall.looks() == 34.0, "{mean:?}");
        recall.ended(rates(2), 16.0, 16.0, Served::default());
        recall.began(like(1)).expect("it was seen");
        assert_eq!(recall.left(3.0, 3.0), Some(7.0), "as long as the shorter of the last two");
        assert_eq!(
            (recall.left(19.0, 19.0), recall.left(20.0, 20.0)),
            (Some(0.0), None),
            "at most a quarter and two more than the longer"
        );
        assert_eq!(
            recall.left(3.0, 6.0),
            Some(2.0),
            "it asks for twice as many a time, as its objects came to fast memory"
        );
        assert_eq!(recall.left(3.0, 1.5), Some(17.0), "or for half as many");
        recall.ended(rates(1), 2.0, 2.0, Served::default());
        recall.began(like(1)).expect("it was seen");
        assert_eq!(recall.left(3.0, 3.0), Some(7.0), "once is no time");
        recall.ended(rates(1), 2.0, 2.0, Served::default());
        recall.began(like(2)).expect("it was seen");
        assert_eq!(recall.next().map(|(_, length)| length), Some(2.0), "twice is");
        recall.forget(0, 1);
        assert!(recall.next().is_some_and(|(rates, _)| rates.records.is_empty()));
    }

    #[test]
    fn a_marked_phase_is_known_by_its_mark_whatever_it_asks_for() {
        let mut recall = Recall::default();
        let (a, b) = (SiteId(1), SiteId(2));
        for mark in [a, b, a] {
            recall.marked(mark);
            recall.ended(rates(mark.0), 10.0, 10.0, Served::default());
        }
        assert!(recall.marked(b).is_some_and(|(known, length)| known.records.contains_key(&(0, 2)) && length == 10.0));
        assert!(recall.next().is_some_and(|(next, _)| next.records.contains_key(&(0, 1))));
        recall.ended(rates(7), 10.0, 10.0, Served::default());
        assert!(recall.began(like(7)).is_none(), "what no mark tells is another phase");
        assert!(recall.marked(SiteId(3)).is_none() && !recall.recognised(like(7)));
    }

    #[test]
    fn what_is_not_recognised_at_once_is_later() {
        let mut recall = Recall::default();
        for address in [1, 2, 1] {
            recall.began(like(address));
            recall.ended(rates(address), 10.0, 10.0, Served::default());
        }
        assert!(recall.began(like(3)).is_none(), "the beginning of the second one looks like nothing that was seen");
        assert!(!recall.recognised(like(3)));
        assert!(recall.recognised(like(2)));
        assert!(recall.next().is_some_and(|(next, _)| next.records.contains_key(&(0, 1))), "and with what follows it");
        assert!(!recall.recognised(like(1)), "it is known what it is");
        recall.ended(rates(2), 10.0, 10.0, Served::default());
        recall.began(like(1));
        assert!(recall.next().is_some_and(|(next, _)| next.records.contains_key(&(0, 2))));
    }

    #[test]
    fn the_one_that_has_not_come_for_longest_is_forgotten() {
        let mut recall = Recall::default();
        for address in 0..=KNOWN as u64 {
            assert!(recall.began(like(address)).is_none());
            recall.ended(rates(address), 5.0, 5.0, Served::default());
        }
        assert!(recall.began(like(3)).is_some());
        assert!(recall.began(like(0)).is_none(), "there was no more room for it");
        assert!(recall.began(like(2)).is_some());
        assert_eq!(recall.known.len(), KNOWN);
    }

    #[test]
    fn phases_come_round_if_all_of_them_are_remembered() {
        let rounds = |phases: u64| {
            let mut recall = Recall::default();
            (0..3 * phases)
                .map(|n| {
                    recall.began(like(n % phases));
                    let round = recall.comes_round();
                    recall.ended(rates(n % phases), 5.0, 5.0, Served::default());
                    round
                })
                .collect::<Vec<bool>>()
        };
        assert_eq!(rounds(2), [false, false, true, true, true, true]);
        assert_eq!(rounds(KNOWN as u64).iter().filter(|round| **round).count(), 2 * KNOWN);
        assert!(!rounds(KNOWN as u64 + 1).contains(&true));
    }
}
