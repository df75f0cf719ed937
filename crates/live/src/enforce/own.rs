//! What a user's script says: `fn moves(objects, tiers)`, with the objects in the order of their priorities, the most important first; an array of
//! `[place in objects, number of a tier]`, in the order in which to move. What does not exist, or is there already, is left out.

use super::{Enforce, Judge, Move, Room};
use crate::candidates::Candidates;
use crate::script::{OBJECTS, Object, Script, pairs, table, tiers};

pub struct Own(Script);

impl Own {
    pub fn load(file: Option<&str>) -> Result<Own, String> {
        Script::load(file, "moves", 2).map(Own)
    }
}

impl Enforce for Own {
    fn moves(&self, mut candidates: Candidates<'_>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        candidates.sort();
        let shown = shown(&candidates, rooms.len().saturating_sub(1));
        let objects = table(shown.iter().map(|place| Object::new(&candidates.item(*place), judge.now)));
        let Some(wanted) = self.0.ask((objects, tiers(rooms)), pairs) else {
            return super::fill(candidates, rooms, super::USUAL_SHARE, judge);
        };
        let one = |(place, to): (usize, usize)| {
            let item = candidates.item(*shown.get(place)?);
            (to < rooms.len() && item.tier != to).then(|| Move::of(&item, 1.0, item.tier, to, judge.now))
        };
        wanted.into_iter().filter_map(one).collect()
    }

    fn wants_all(&self) -> bool {
        true
    }

    fn failed(&self) -> Option<String> {
        self.0.failed()
    }
}

/// Which of the candidates are shown, in their order: all, or the more important half of what may be, and of the others those that could make room
/// for them, the least important.
fn shown(candidates: &Candidates<'_>, slowest: usize) -> Vec<usize> {
    let count = candidates.len();
    if count <= OBJECTS {
        return (0..count).collect();
    }
    let fast = |place: &usize| candidates.tier(*place) < slowest;
    let mut last: Vec<usize> = (OBJECTS / 2..count).rev().filter(fast).take(OBJECTS / 2).collect();
    last.reverse();
    let others = (0..count).filter(|place| last.binary_search(place).is_err());
    let mut all: Vec<usize> = others.take(OBJECTS - last.len()).chain(last.iter().copied()).collect();
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More objects than an array may have: a script that looks at all it is shown is not stopped.
    #[test]
    fn a_script_is_shown_what_matters_most() {
        let (_dir, path) = file(
            "fn moves(objects, tiers) {
                 let out = [];
                 for (o, i) in objects {
                     if o.tier == 1 && o.misses > 150_000.0 { out.push([i, 0]); }
                     if o.tier == 0 && o.misses < 5.0 { out.push([i, 1]); }
                 }
                 out.push([objects.len(), 0]);
                 out
             }",
        );
        let own = Own::load(Some(&path)).expect("a good script");
        let now = now();
        let judge = Judge { now: &now, cost: &|_| 0.0, worth: &|_| true, settled: &|_| (), guarantees: None };
        // The coldest four lie in the fast tier, all others in the slow one.
        let count = 150_003;
        let one = |n: u64| (n as f64, item(n * 4096, 4096, usize::from(n > 4), n as f64));
        let items: Vec<(f64, Item)> = (1..=count).map(one).collect();
        let rooms = [Room { limit: 1 << 20, used: 16384 }, Room { limit: 1 << 40, used: 1 << 30 }];
        let moves = with(&items, |candidates| own.moves(candidates, &rooms, &judge));
        let mut moves: Vec<(u64, u8)> = moves.iter().map(|m| (m.addr / 4096, m.to)).collect();
        moves.sort_unstable();
        assert_eq!(own.failed(), None);
        assert_eq!(moves, [(1, 1), (2, 1), (3, 1), (4, 1), (150_001, 0), (150_002, 0), (150_003, 0)]);
    }

    #[test]
    fn few_objects_are_all_shown_and_none_twice() {
        let one = |n: u64, tier: usize| (0.0, item(n * 4096, 4096, tier, 1.0));
        let of = |count: usize, fast: std::ops::Range<usize>| -> Vec<usize> {
            let items: Vec<_> = (0..count).map(|n| one(n as u64, usize::from(!fast.contains(&n)))).collect();
            with(&items, |candidates| shown(&candidates, 1))
        };
        assert_eq!(of(3, 0..1), [0, 1, 2]);
        let all_fast = of(OBJECTS + 10, 0..OBJECTS + 10);
        assert_eq!(
            (all_fast.len(), all_fast[OBJECTS / 2 - 1], all_fast[OBJECTS / 2]),
            (OBJECTS, OBJECTS / 2 - 1, OBJECTS / 2 + 10)
        );
        assert_eq!(of(OBJECTS + 10, 0..0), (0..OBJECTS).collect::<Vec<_>>());
        let some = of(OBJECTS + 10, OBJECTS / 2 - 5..OBJECTS / 2 + 5);
        assert!(some.len() == OBJECTS && some.windows(2).all(|w| w[0] < w[1]));
    }
    use crate::candidates::tests::with;
    use crate::item::Item;
    use crate::item::tests::item;
    use crate::script::tests::{file, now};

    #[test]
    fn the_script_moves_until_it_fails() {
        let (_dir, path) = file(
            "fn moves(objects, tiers) {
                 let out = [];
                 if tiers[0].used > tiers[0].limit { throw \"too much\" }
                 for (o, i) in objects { if o.tier == 1 && o.misses > 10.0 { out.push([i, 0]); } }
                 out.push([99, 0]); out.push([0, 7]); out.push([0, objects[0].tier]);
                 out
             }",
        );
        let own = Own::load(Some(&path)).expect("a good script");
        let now = now();
        let judge = Judge { now: &now, cost: &|_| 0.0, worth: &|_| true, settled: &|_| (), guarantees: None };
        let items =
            [(1.0, item(4096, 4096, 0, 1.0)), (9.0, item(8192, 4096, 1, 50.0)), (2.0, item(12288, 4096, 1, 5.0))];
        let rooms = |used| [Room { limit: 4096, used }, Room { limit: 1 << 20, used: 8192 }];
        let moves = |used| -> Vec<(u64, u8)> {
            let moves = with(&items, |candidates| own.moves(candidates, &rooms(used), &judge));
            moves.iter().map(|m| (m.addr, m.to)).collect()
        };
        assert_eq!(moves(4096), [(8192, 0)]);
        assert_eq!(own.failed(), None);
        // Nine tenths of a page hold no page: what is there makes room.
        assert_eq!(moves(5000), [(4096, 1)]);
        assert!(own.failed().is_some_and(|why| why.contains("too much")));
    }
}
