//! What a user's script says: `fn moves(objects, tiers)`, with the objects in the order of their priorities, the most important first; an array of
//! `[place in objects, number of a tier]`, in the order in which to move. What does not exist, or is there already, is left out.

use super::{Enforce, Judge, Move, Room};
use crate::item::Item;
use crate::script::{Object, Script, pairs, table, tiers};

pub struct Own(Script);

impl Own {
    pub fn load(file: Option<&str>) -> Result<Own, String> {
        Script::load(file, "moves", 2).map(Own)
    }
}

impl Enforce for Own {
    fn moves(&self, mut items: Vec<(f64, Item)>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        items.sort_by(|(p, a), (q, b)| q.total_cmp(p).then(a.addr.cmp(&b.addr)));
        let objects = table(items.iter().map(|(_, item)| Object::new(item, judge.now)));
        let Some(wanted) = self.0.ask((objects, tiers(rooms)), pairs) else {
            return super::fill(items, rooms, super::USUAL_SHARE, judge);
        };
        let one = |(place, to): (usize, usize)| {
            let (_, item) = items.get(place).filter(|(_, item)| to < rooms.len() && item.tier != to)?;
            let Item { process, addr, bytes, tier: from, .. } = *item;
            Some(Move { process, addr, bytes, from, to, gain: item.value(judge.now, from, to) })
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

#[cfg(test)]
mod tests {
    use super::*;
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
        let judge = Judge { now: &now, cost: &|_, _, _| 0.0, worth: &|_| true, guarantees: None };
        let items = || {
            vec![(1.0, item(4096, 4096, 0, 1.0)), (9.0, item(8192, 4096, 1, 50.0)), (2.0, item(12288, 4096, 1, 5.0))]
        };
        let rooms = |used| [Room { limit: 4096, used }, Room { limit: 1 << 20, used: 8192 }];
        let moves = |used| -> Vec<(u64, usize)> {
            own.moves(items(), &rooms(used), &judge).iter().map(|m| (m.addr, m.to)).collect()
        };
        assert_eq!(moves(4096), [(8192, 0)]);
        assert_eq!(own.failed(), None);
        // Nine tenths of a page hold no page: what is there makes room.
        assert_eq!(moves(5000), [(4096, 1)]);
        assert!(own.failed().is_some_and(|why| why.contains("too much")));
    }
}
