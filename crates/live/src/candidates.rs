//! The records that may be moved, in the order of their priorities. There may be a million of them, most of which stay where they are: of each is kept what
//! puts it in order, sixteen bytes; the rest is made of its record when it is asked for.

use crate::item::{Item, Lies};

/// Intervals without an access that are told apart. (2^24 of the shortest are days, of the usual ones a year.)
const MOST_IDLE: u32 = (1 << 24) - 1;

/// One of them.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    priority: f64,
    /// Its tier, and below it for how many intervals no access was seen.
    rank: u32,
    number: u32,
}

/// All of them. Known by their places in the order, once they are in order.
pub struct Candidates<'a> {
    all: Vec<Candidate>,
    lies: &'a dyn Fn(u32) -> Lies,
    item: &'a dyn Fn(u32) -> Item,
}

impl<'a> Candidates<'a> {
    /// None yet, and so many at most. `lies` and `item`: what a record is, by its number; the larger the number the later the process, or the higher the address.
    pub fn new(most: usize, lies: &'a dyn Fn(u32) -> Lies, item: &'a dyn Fn(u32) -> Item) -> Candidates<'a> {
        Candidates { all: Vec::with_capacity(most), lies, item }
    }

    /// Adds one. `idle`: intervals in which no access was seen.
    pub fn add(&mut self, number: u32, priority: f64, tier: usize, idle: u32) {
        let rank = (tier as u32) << 24 | idle.min(MOST_IDLE);
        self.all.push(Candidate { priority, rank, number });
    }

    /// Puts the most important first; of equals those that are in a fast tier, then those that were accessed last.
    pub fn sort(&mut self) {
        self.all.sort_unstable_by(|a, b| {
            b.priority.total_cmp(&a.priority).then((a.rank, a.number).cmp(&(b.rank, b.number)))
        });
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Priorities, in order.
    pub fn priorities(&self) -> impl Iterator<Item = f64> {
        self.all.iter().map(|c| c.priority)
    }

    /// The tier that most of one is in.
    pub fn tier(&self, place: usize) -> usize {
        (self.all[place].rank >> 24) as usize
    }

    /// Where one is.
    pub fn lies(&self, place: usize) -> Lies {
        (self.lies)(self.all[place].number)
    }

    /// One with all that is known of it.
    pub fn item(&self, place: usize) -> Item {
        (self.item)(self.all[place].number)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::item::tests::item;

    /// Lets something be done with items as candidates; by these priorities, and numbered as they come.
    pub fn with<T>(items: &[(f64, Item)], what: impl FnOnce(Candidates<'_>) -> T) -> T {
        let item = |number: u32| items[number as usize].1;
        let lies = |number: u32| {
            let Item { process, bytes, tier, there, .. } = item(number);
            Lies { process, bytes, tier, there }
        };
        let mut candidates = Candidates::new(items.len(), &lies, &item);
        let latest = items.iter().map(|(_, i)| i.seen).max().unwrap_or(0);
        for (n, (priority, i)) in items.iter().enumerate() {
            candidates.add(n as u32, *priority, i.tier, latest - i.seen);
        }
        what(candidates)
    }

    #[test]
    fn the_most_important_is_first_and_between_equals_what_was_seen_last() {
        let of = |addr, tier, seen| Item { seen, ..item(addr, 4096, tier, 0.0) };
        let items = [
            (0.0, of(1, 1, 9)),
            (0.0, of(2, 0, 4)),
            (0.0, of(3, 0, 5)),
            (0.0, of(4, 0, 4)),
            (-1.0, of(5, 0, 9)),
            (2.0, of(6, 1, 0)),
        ];
        let order = with(&items, |mut all| {
            all.sort();
            (0..all.len()).map(|place| all.item(place).addr).collect::<Vec<_>>()
        });
        assert_eq!(order, [6, 3, 2, 4, 1, 5]);
        assert_eq!(size_of::<Candidate>(), 16, "bytes of each of a million");
        let mut old = Candidates::new(2, &|_| unreachable!(), &|_| unreachable!());
        old.add(0, 0.0, 0, u32::MAX);
        old.add(1, 0.0, 1, 0);
        assert_eq!((old.tier(0), old.tier(1)), (0, 1), "however long it has been idle");
    }
}
