//! The fourth routine: from priorities to moves. One file a way; what they share is here.

mod fill;
mod incremental;
mod own;

use crate::item::Item;
use crate::prioritise::Now;
use crate::routines::{Routine, Value};
use crate::shares::Guarantees;
use crate::trigger::Swap;
use model::Bytes;
use std::collections::BTreeMap;

/// What there is of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Most bytes that records may take of it.
    pub limit: u64,
    /// Bytes that they take.
    pub used: u64,
}

/// A move to be made. Those that make room come before the one that needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Number of the process.
    pub process: usize,
    /// Address of the record.
    pub addr: u64,
    /// Bytes of it that are not where it goes.
    pub bytes: u64,
    /// No more than these are moved, but for the rest of the last stretch of 2 MiB: it is a part of a larger move. Otherwise what is not there goes, however much it is.
    pub part: bool,
    /// Where most of it is.
    pub from: usize,
    /// Where it goes.
    pub to: usize,
    /// Time gained as long as it may last, in ns; negative for what makes room.
    pub gain: f64,
    /// By how much that may be chance, in ns.
    pub doubt: f64,
}

impl Move {
    /// So large a share of a record, from one tier to another.
    fn of(item: &Item, share: f64, from: usize, to: usize, now: &Now) -> Move {
        let bytes = (item.bytes as f64 * share) as u64;
        let (gain, doubt) = (share * item.value(now, from, to), share * item.doubt(now, from, to));
        Move { process: item.process, addr: item.addr, bytes, part: false, from, to, gain, doubt }
    }
}

/// What moves are judged by.
pub struct Judge<'a> {
    /// Prices.
    pub now: &'a Now,
    /// What moving so many bytes from one tier to another takes, in ns.
    pub cost: &'a dyn Fn(u64, usize, usize) -> f64,
    /// Whether a move is worth making ([`crate::trigger::Trigger::worth`]).
    pub worth: &'a dyn Fn(&Swap) -> bool,
    /// What groups of programs may count on, if the fast memory is shared so.
    pub guarantees: Option<&'a Guarantees>,
}

/// A way to carry out a decision.
pub trait Enforce {
    /// The moves to be made now, in order. `items`: with their priorities.
    fn moves(&self, items: Vec<(f64, Item)>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move>;

    /// Wants the records too that nothing speaks for and that are in the slowest tier already: most of a million often are.
    fn wants_all(&self) -> bool {
        false
    }

    /// Why a user's own way is not asked any more.
    fn failed(&self) -> Option<String> {
        None
    }
}

/// All of them, the usual one first.
pub const ALL: &[Routine<dyn Enforce>] = &[
    Routine {
        name: "fill",
        about: "fills each tier up to VALUE of its room by priority, demoting first [90%]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 4.5.1",
        make: |value| Ok(Box::new(fill::Fill { share: Value::share(value, USUAL_SHARE)? })),
    },
    Routine {
        name: "incremental",
        about: "the same to 90%, but VALUE an interval at most, and 2 MiB more each way [256MiB]",
        source: "Hearth's own",
        make: |value| Ok(Box::new(incremental::Incremental { most: Value::size(value, Bytes::mib(256))? })),
    },
    Routine {
        name: "script",
        about: "your own: function `moves(objects, tiers)` of the script VALUE",
        source: "docs/live.md",
        make: |value| Ok(Box::new(own::Own::load(value)?)),
    },
];

/// Moves that would not be worth it, one after the other, after which no further is looked at.
const REFUSALS: u32 = 64;
/// Each tier is filled up to this share, if nothing else is said.
const USUAL_SHARE: f64 = 0.9;

/// For each item the tier where its group's part has a place for it, if it is worth one. `most`: bytes of each tier that may be taken.
fn claims(items: &[(f64, Item)], most: &[u64], guarantees: Option<&Guarantees>) -> Vec<Option<usize>> {
    let Some(guarantees) = guarantees else { return vec![None; items.len()] };
    let mut left: Vec<Vec<u64>> = most.iter().enumerate().map(|(k, all)| guarantees.bytes(k, *all)).collect();
    let claim = |(priority, item): &(f64, Item)| {
        let group = guarantees.group(item.process);
        let fits = |left: &Vec<u64>| left.get(group).is_some_and(|left| item.bytes <= *left);
        let tier = left.iter().position(fits).filter(|_| *priority > 0.0)?;
        left[tier][group] -= item.bytes;
        Some(tier)
    };
    items.iter().map(claim).collect()
}

/// The moves by which each tier is filled up to a share of its room.
fn fill(mut items: Vec<(f64, Item)>, rooms: &[Room], share: f64, judge: &Judge<'_>) -> Vec<Move> {
    let last = rooms.len() - 1;
    let most = |k: usize| (rooms[k].limit as f64 * share) as u64;
    // Between equals those that are in a fast tier stay, then those that were accessed last.
    let place = |item: &Item| (item.tier, std::cmp::Reverse(item.seen), item.addr);
    items.sort_by(|(p, a), (q, b)| q.total_cmp(p).then(place(a).cmp(&place(b))));
    let mut left: Vec<u64> = (0..last).map(most).collect();
    let claims = claims(&items, &left, judge.guarantees);
    for (claim, (_, item)) in claims.iter().zip(&items) {
        claim.inspect(|&k| left[k] -= item.bytes);
    }
    let target = |(claim, (_, item)): (&Option<usize>, &(f64, Item))| {
        let fits = || left.iter().position(|left| item.bytes <= *left).inspect(|&k| left[k] -= item.bytes);
        claim.or_else(fits).unwrap_or(last)
    };
    let targets: Vec<usize> = claims.iter().zip(&items).map(target).collect();
    let group_of = |process: usize| judge.guarantees.map_or(0, |g| g.group(process));
    let mut victims: Vec<Victims> = vec![Victims::default(); rooms.len()];
    for (i, (_, item)) in items.iter().enumerate() {
        let group = group_of(item.process);
        for (k, share) in item.parts(rooms.len()).into_iter().filter(|(_, share)| *share > 0.0) {
            let victim = Victim { item: i, bytes: (item.bytes as f64 * share) as u64, share, group };
            victims[k].holds(&victim, targets[i] > k);
        }
        if let Some(k) = claims[i] {
            victims[k].claimed(group, item.bytes);
        }
    }
    let mut used: Vec<u64> = rooms.iter().map(|r| r.used).collect();
    let mut moves: Vec<(usize, Move)> = Vec::new();
    let make_room = |victim: &Victim, from: usize, used: &mut [u64]| -> Move {
        let Victim { item, bytes, share, .. } = *victim;
        let to = if used[targets[item]] + bytes <= most(targets[item]) { targets[item] } else { last };
        used[from] = used[from].saturating_sub(bytes);
        used[to] += bytes;
        Move::of(&items[item].1, share, from, to, judge.now)
    };
    // What is taken of a tier beyond its share leaves before anything comes. That serves all that comes and is weighed against all of it: no single
    // one would be worth it.
    let mut over: Vec<Vec<Move>> = vec![Vec::new(); last];
    for k in (0..last).rev() {
        while used[k] > most(k) {
            let Some(victim) = victims[k].take(None) else { break };
            over[k].push(make_room(&victim, k, &mut used));
        }
    }
    // Where groups take what is their own, it does not matter what those lose who had borrowed it.
    let sum = |moves: &[Move], takers: &[usize]| {
        let counts = |m: &&Move| takers.is_empty() || takers.contains(&group_of(m.process));
        Swap {
            gain: moves.iter().filter(counts).map(|m| m.gain).sum(),
            doubt: moves.iter().filter(counts).map(|m| m.doubt * m.doubt).sum::<f64>().sqrt(),
            cost: moves.iter().map(|m| (judge.cost)(m.bytes, m.from, m.to)).sum(),
        }
    };
    let mut coming: Vec<Coming> = vec![Coming::default(); last];
    let mut refused = 0;
    // What nothing speaks for stays where it is, until its room is needed.
    for (i, (_, item)) in items.iter().enumerate().filter(|(_, (priority, _))| *priority > 0.0) {
        let to = targets[i];
        let slower = || item.parts(rooms.len()).into_iter().filter(|(k, share)| *k > to && *share > 0.0);
        let Some((from, _)) = slower().next() else { continue };
        let missing: f64 = slower().map(|(_, share)| share).sum();
        let bytes = (item.bytes as f64 * missing) as u64;
        let before = used.clone();
        let lacks = claims[i].is_some() && victims[to].lacks(group_of(item.process), bytes);
        let (mut group, mut taken) = (Vec::new(), Vec::new());
        while used[to] + bytes > most(to) {
            let Some(victim) = victims[to].take(Some(group_of(item.process))) else { break };
            group.push(make_room(&victim, to, &mut used));
            taken.push(victim);
        }
        group.push(Move::of(item, missing, from, to, judge.now));
        let taker = claims[i].map(|_| group_of(item.process));
        let mut swap = sum(&group, taker.as_slice());
        if lacks {
            // Which of its objects a group has there may be chance; that it has so many is not.
            swap.doubt = 0.0;
        }
        if used[to] + bytes <= most(to) && (judge.worth)(&swap) {
            used[to] += bytes;
            used[from] = used[from].saturating_sub(bytes);
            victims[to].came(group_of(item.process), bytes);
            moves.extend(group.into_iter().map(|m| (to, m)));
            coming[to].add(swap, taker);
            refused = 0;
            continue;
        }
        used = before;
        taken.into_iter().rev().for_each(|victim| victims[to].put_back(victim));
        refused += 1;
        if refused >= REFUSALS {
            break;
        }
    }
    let mut all = Vec::new();
    for k in (0..last).rev() {
        let away = sum(&over[k], &coming[k].takers);
        coming[k].stays = !(judge.worth)(&coming[k].sum.and(away));
        let alone = |m: &&Move| (judge.worth)(&sum(&[**m], &[]));
        match coming[k].stays || coming[k].sum == Swap::default() {
            // Room for what will be allocated.
            true => all.extend(over[k].iter().take_while(alone)),
            false => all.append(&mut over[k]),
        }
    }
    all.extend(moves.into_iter().filter(|(to, _)| !coming[*to].stays).map(|(_, m)| m));
    all
}

/// What takes room in a faster tier than it should.
#[derive(Clone, Debug)]
struct Victim {
    /// Its place among the items, the most important first.
    item: usize,
    /// What of it is there.
    bytes: u64,
    /// The same, of all of it.
    share: f64,
    group: usize,
}

/// What may be taken out of a tier. Nothing of a group's part is taken for another one: what the group would have there instead may never come, since it is hardly hotter.
#[derive(Clone, Default)]
struct Victims {
    groups: BTreeMap<usize, Group>,
}

#[derive(Clone, Default)]
struct Group {
    /// Bytes of it that are there.
    used: u64,
    /// Bytes that its part has a place for.
    claimed: u64,
    /// The least important last, so that it is taken first.
    victims: Vec<Victim>,
}

impl Victims {
    fn holds(&mut self, v: &Victim, too_much: bool) {
        let group = self.groups.entry(v.group).or_default();
        group.used += v.bytes;
        group.victims.extend(too_much.then(|| v.clone()));
    }

    fn claimed(&mut self, group: usize, bytes: u64) {
        self.groups.entry(group).or_default().claimed += bytes;
    }

    fn came(&mut self, group: usize, bytes: u64) {
        self.groups.entry(group).or_default().used += bytes;
    }

    /// A group has so many bytes less there than it may count on.
    fn lacks(&self, group: usize, bytes: u64) -> bool {
        self.groups.get(&group).is_some_and(|g| g.used + bytes <= g.claimed)
    }

    /// The least important that may leave, for something of a group or for nothing yet.
    fn take(&mut self, taker: Option<usize>) -> Option<Victim> {
        let may = |(number, group): &(&usize, &mut Group)| {
            let own = taker == Some(**number);
            group.victims.last().is_some_and(|v| own || group.used >= group.claimed + v.bytes)
        };
        let least = |(_, group): &(&usize, &mut Group)| group.victims.last().map(|v| v.item);
        let (_, group) = self.groups.iter_mut().filter(may).max_by_key(least)?;
        let victim = group.victims.pop()?;
        group.used -= victim.bytes;
        Some(victim)
    }

    /// It has been taken for nothing. The one that was taken last comes back first.
    fn put_back(&mut self, victim: Victim) {
        let group = self.groups.entry(victim.group).or_default();
        group.used += victim.bytes;
        group.victims.push(victim);
    }
}

/// What comes into a tier.
#[derive(Clone, Default)]
struct Coming {
    /// All of it together.
    sum: Swap,
    /// Groups of programs that take what is their own.
    takers: Vec<usize>,
    /// It is not worth what has to be moved away for all of it: it stays where it is.
    stays: bool,
}

impl Coming {
    fn add(&mut self, swap: Swap, taker: Option<usize>) {
        self.sum = self.sum.and(swap);
        self.takers.extend(taker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shares::{By, Shares};
    use policy::cost::moment::Lines;

    const MIB: u64 = 1 << 20;

    fn item(addr: u64, mib: u64, tier: usize, misses: f64) -> Item {
        crate::item::tests::item(addr, mib * MIB, tier, misses)
    }

    fn moves(name: &str, items: &[Item], rooms: &[(u64, u64)], worth: &dyn Fn(&Swap) -> bool) -> Vec<(u64, usize)> {
        shared(name, items, rooms, worth, None)
    }

    fn shared(
        name: &str,
        items: &[Item],
        rooms: &[(u64, u64)],
        worth: &dyn Fn(&Swap) -> bool,
        guarantees: Option<&Guarantees>,
    ) -> Vec<(u64, usize)> {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let now = Now { interval: 1, prices: (0..rooms.len()).map(|k| line(100.0 * (k as f64 + 1.0))).collect() };
        let judge = Judge { now: &now, cost: &|bytes, _, _| bytes as f64 / MIB as f64, worth, guarantees };
        let rooms: Vec<Room> =
            rooms.iter().map(|&(limit, used)| Room { limit: limit * MIB, used: used * MIB }).collect();
        let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let routine = ALL.iter().find(|r| r.name == name).expect("it is in the table");
        let way = (routine.make)(value).expect("a good value");
        way.moves(items.iter().map(|i| (i.heat.random / i.bytes as f64, *i)).collect(), &rooms, &judge)
            .iter()
            .map(|m| (m.addr, m.to))
            .collect()
    }

    const ANY: &dyn Fn(&Swap) -> bool = &|_| true;

    #[test]
    fn the_coldest_makes_room_for_the_hottest() {
        let items = [item(1, 8, 0, 1.0), item(2, 8, 0, 5.0), item(3, 8, 1, 100.0), item(4, 8, 1, 2.0)];
        assert_eq!(moves("fill=100%", &items, &[(16, 16), (100, 16)], ANY), [(1, 1), (3, 0)]);
        // Nine tenths of 20 are two objects, and there is room for what will come.
        assert_eq!(moves("fill", &items, &[(20, 16), (100, 16)], ANY), [(1, 1), (3, 0)]);
        // Nine tenths of 16 are one object.
        assert_eq!(moves("fill", &items, &[(16, 16), (100, 16)], ANY), [(1, 1), (2, 1), (3, 0)]);
    }

    #[test]
    fn what_is_not_worth_it_stays() {
        let items = [item(1, 8, 0, 4.0), item(2, 8, 1, 5.0), item(3, 8, 1, 1.0)];
        let dear: &dyn Fn(&Swap) -> bool = &|swap| swap.gain > 20.0 * swap.cost;
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], dear), []);
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], ANY), [(1, 1), (2, 0)]);
        // Gained are 500 - 400 ns a second for 16 MiB moved.
        let fair: &dyn Fn(&Swap) -> bool = &|swap| swap.gain > 6.0 * swap.cost;
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], fair), [(1, 1), (2, 0)]);
    }

    /// The fast tier is full, and a tenth of it is to be free: what that takes is borne by all that comes, as no single one could.
    #[test]
    fn room_that_serves_all_is_paid_by_all() {
        let cold = (0..32).map(|n| item(n, 1, 0, 0.0));
        let hot = |count: u64, misses: f64| (100..100 + count).map(move |n| item(n, 1, 1, misses));
        let rooms = [(32, 32), (100, 30)];
        let fair: &dyn Fn(&Swap) -> bool = &|swap| swap.gain > 100.0 * swap.cost;
        // Four leave so that 28 of 32 are taken; each that comes then makes one more go: it costs 2 and gains 300 ns.
        let many: Vec<Item> = cold.clone().chain(hot(16, 3.0)).collect();
        assert_eq!(moves("fill", &many, &rooms, fair).len(), 4 + 2 * 16);
        let few: Vec<Item> = cold.clone().chain(hot(3, 3.0)).collect();
        assert_eq!(moves("fill", &few, &rooms, fair), [], "900 ns for 4 and 6 MiB");
        let not_each: Vec<Item> = cold.chain(hot(16, 1.9)).collect();
        assert_eq!(moves("fill", &not_each, &rooms, fair), []);
    }

    #[test]
    fn three_tiers_are_filled_in_order() {
        let items = [item(1, 8, 2, 9.0), item(2, 8, 2, 8.0), item(3, 8, 2, 7.0), item(4, 8, 0, 1.0)];
        assert_eq!(moves("fill=1", &items, &[(8, 8), (8, 0), (100, 24)], ANY), [(4, 2), (1, 0), (2, 1)]);
    }

    #[test]
    fn what_is_in_part_where_it_belongs_is_completed() {
        let half = Item { there: 0.5, ..item(1, 8, 0, 9.0) };
        assert_eq!(moves("fill=1", &[half, item(2, 4, 0, 1.0)], &[(8, 8), (100, 4)], ANY), [(2, 1), (1, 0)]);
        assert_eq!(moves("fill=1", &[Item { there: 0.99, ..half }], &[(8, 8), (100, 0)], ANY), []);
    }

    #[test]
    fn what_is_scattered_over_both_tiers_makes_room_too() {
        // A quarter of each of the first four is in the fast tier, which is full with it; the last two are hot.
        let quarter = |addr| Item { there: 0.75, ..item(addr, 8, 1, 1.0) };
        let items = [quarter(1), quarter(2), quarter(3), quarter(4), item(5, 4, 1, 90.0), item(6, 4, 1, 80.0)];
        let all = moves("fill=1", &items, &[(8, 8), (100, 32)], ANY);
        assert_eq!(all, [(4, 1), (3, 1), (5, 0), (2, 1), (1, 1), (6, 0)]);
        // One that is hot needs room for what is not there yet alone.
        let items = [item(1, 6, 0, 1.0), Item { there: 0.75, ..item(2, 8, 1, 90.0) }];
        assert_eq!(moves("fill=1", &items, &[(14, 8), (100, 6)], ANY), [(2, 0)]);
    }

    #[test]
    fn small_steps_are_whole_swaps() {
        let items: Vec<Item> = (0..4).map(|n| item(n, 8, 0, 1.0)).chain((4..8).map(|n| item(n, 8, 1, 9.0))).collect();
        let all = moves("fill=90%", &items, &[(36, 32), (100, 32)], ANY);
        assert_eq!(all.len(), 8);
        assert_eq!(moves("incremental=40MiB", &items, &[(36, 32), (100, 32)], ANY), all[..4]);
        assert_eq!(moves("incremental=1MiB", &items, &[(36, 32), (100, 32)], ANY), all[..2], "a part of one");
    }

    #[test]
    fn a_group_takes_what_is_its_own_from_one_that_gains_more_and_no_more() {
        let shares = Shares::new(By::Command, &[], &[]).expect("good");
        let guarantees = |groups: [&str; 2]| Guarantees::new(&shares, groups.map(Some).into_iter());
        let of = |process, item| Item { process, ..item };
        // The first program's are hotter, and were first.
        let items = [
            of(0, item(1, 8, 0, 900.0)),
            of(0, item(2, 8, 0, 800.0)),
            of(1, item(3, 8, 1, 5.0)),
            of(1, item(4, 8, 1, 4.0)),
        ];
        let gains: &dyn Fn(&Swap) -> bool = &|swap| swap.gain > swap.cost;
        let rooms = [(16, 16), (100, 16)];
        assert_eq!(moves("fill=1", &items, &rooms, gains), []);
        assert_eq!(shared("fill=1", &items, &rooms, gains, Some(&guarantees(["a", "b"]))), [(2, 1), (3, 0)]);
        assert_eq!(shared("fill=1", &items, &rooms, gains, Some(&guarantees(["a", "a"]))), [], "one group is as none");
        // What the second one does not use is lent.
        let cold = [items[0], items[1], of(1, item(3, 8, 1, 0.0))];
        assert_eq!(shared("fill=1", &cold, &rooms, gains, Some(&guarantees(["a", "b"]))), []);
    }

    /// What is hottest of the second group is in the slow tier, but not by so much that it is worth moving: what the group has instead is not for the first one to take.
    #[test]
    fn nobody_takes_what_a_group_has_of_its_part() {
        let shares = Shares::new(By::Command, &[], &[]).expect("good");
        let guarantees = Guarantees::new(&shares, ["a", "b"].map(Some).into_iter());
        let of = |process, item| Item { process, ..item };
        let items = [
            of(0, item(1, 8, 0, 900.0)),
            of(0, item(2, 8, 1, 800.0)),
            of(1, item(3, 8, 1, 5.1)),
            of(1, item(4, 8, 0, 5.0)),
        ];
        let worth: &dyn Fn(&Swap) -> bool = &|swap| swap.gain > 20.0 * swap.cost;
        let rooms = [(16, 16), (100, 16)];
        assert_eq!(shared("fill=1", &items, &rooms, worth, Some(&guarantees)), []);
        assert_eq!(shared("fill=1", &items, &rooms, worth, None), [(4, 1), (2, 0)]);
    }
}
