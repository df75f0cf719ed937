//! The fourth routine: from priorities to moves. One file a way; what they share is here.

mod fill;
mod incremental;
mod own;

use crate::candidates::Candidates;
use crate::item::{Gain, Item, Lies};
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
    /// Bytes that they take, and what is left to programs for what they will ask for.
    pub used: u64,
}

/// A move to be made. Those that make room come before the one that needs it. There may be as many as records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    /// Number of the process.
    pub process: u32,
    /// Address of the record.
    pub addr: u64,
    /// Bytes of it that are not where it goes.
    pub bytes: u64,
    /// No more than these are moved, but for the rest of a huge page: it is a part of a larger move. Otherwise what is not there goes, however much it is.
    pub part: bool,
    /// Where most of it is.
    pub from: u8,
    /// Where it goes.
    pub to: u8,
    /// What that gains; less than nothing for what makes room.
    pub gain: Gain,
    /// For how long that is expected, in s.
    pub lasts: f64,
}

impl Move {
    /// So large a share of a record, from one tier to another.
    fn of(item: &Item, share: f64, from: usize, to: usize, now: &Now) -> Move {
        let bytes = (item.bytes as f64 * share) as u64;
        let gain = item.gain(now, from, to).times(share);
        let (process, from, to) = (item.process as u32, from as u8, to as u8);
        Move { process, addr: item.addr, bytes, part: false, from, to, gain, lasts: item.life }
    }
}

/// What moves are judged by.
pub struct Judge<'a> {
    /// Prices.
    pub now: &'a Now,
    /// What a move takes, in ns.
    pub cost: &'a dyn Fn(&Move) -> f64,
    /// Whether a move is worth making ([`crate::trigger::Trigger::worth`]).
    pub worth: &'a dyn Fn(&Swap) -> bool,
    /// Weighs moves to slower tiers that gain, of some that are made together, by prices in the middle between those before and after: what goes makes lines dearer where it comes, and
    /// cheaper where it was.
    pub settled: &'a dyn Fn(&mut [Move]),
    /// What groups of programs may count on, if the fast memory is shared so.
    pub guarantees: Option<&'a Guarantees>,
}

/// A way to carry out a decision.
pub trait Enforce {
    /// The moves to be made now, in order. `candidates`: in no order yet.
    fn moves(&self, candidates: Candidates<'_>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move>;

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
        about: "fills each tier up to VALUE of its room by priority, demoting first; what programs took anew lately, a tenth of it at most, is no room [95%]",
        source: "Flexible and Effective Object Tiering, ISMM 2023, section 4.5.1",
        make: |value| Ok(Box::new(fill::Fill { share: Value::share(value, USUAL_SHARE)? })),
    },
    Routine {
        name: "incremental",
        about: "the same, but VALUE an interval at most, and where huge pages are 2 MiB more each way [256MiB]",
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
/// Each tier is filled up to this share, if nothing else is said. What comes into a full tier has to pay for making it less full first, as all moves of a decision together
/// ([`Coming`]), so that objects that are about as hot as each other are not moved for little: `hydro` in the lab took 1.00 of first-touch's time with 90 and 95 %, 1.02 with 97,
/// and 1.05 with all of it.
const USUAL_SHARE: f64 = 0.95;
/// So little room is not worth a part of a record: one call of the kernel moves as much.
const LITTLE_ROOM: u64 = 256 << 10;

/// For each candidate the tier where its group's part has a place for it, if it is worth one. `most`: bytes of each tier that may be taken.
fn claims(candidates: &Candidates<'_>, most: &[u64], guarantees: Option<&Guarantees>) -> Vec<Option<u8>> {
    let Some(guarantees) = guarantees else { return vec![None; candidates.len()] };
    let mut left: Vec<Vec<u64>> = most.iter().enumerate().map(|(k, all)| guarantees.bytes(k, *all)).collect();
    let claim = |(place, priority): (usize, f64)| {
        let Lies { process, bytes, .. } = candidates.lies(place);
        let group = guarantees.group(process);
        let fits = |left: &Vec<u64>| left.get(group).is_some_and(|left| bytes <= *left);
        let tier = left.iter().position(fits).filter(|_| priority > 0.0)?;
        left[tier][group] -= bytes;
        Some(tier as u8)
    };
    candidates.priorities().enumerate().map(claim).collect()
}

/// The moves by which each tier is filled up to a share of its room.
fn fill(mut candidates: Candidates<'_>, rooms: &[Room], share: f64, judge: &Judge<'_>) -> Vec<Move> {
    let last = rooms.len() - 1;
    let most = |k: usize| (rooms[k].limit as f64 * share) as u64;
    candidates.sort();
    let candidates = candidates;
    let group_of = |process: usize| judge.guarantees.map_or(0, |g| g.group(process));
    let mut left: Vec<u64> = (0..last).map(most).collect();
    let claims = claims(&candidates, &left, judge.guarantees);
    for (place, claim) in claims.iter().enumerate() {
        claim.inspect(|&k| left[usize::from(k)] -= candidates.lies(place).bytes);
    }
    let mut targets: Vec<u8> = Vec::with_capacity(candidates.len());
    let mut victims: Vec<Victims> = vec![Victims::default(); rooms.len()];
    for (place, claim) in claims.iter().enumerate() {
        let lies = candidates.lies(place);
        let group = group_of(lies.process);
        let fits = || left.iter().position(|left| lies.bytes <= *left).inspect(|&k| left[k] -= lies.bytes);
        let target = claim.map(usize::from).or_else(fits).unwrap_or(last);
        targets.push(target as u8);
        for (k, share) in lies.parts(rooms.len()) {
            victims[k].holds(group, (lies.bytes as f64 * share) as u64, (target > k).then_some(place as u32));
        }
        if let Some(k) = claim {
            victims[usize::from(*k)].claimed(group, lies.bytes);
        }
    }
    let victim = |place: u32, k: usize| {
        let lies = candidates.lies(place as usize);
        let share = lies.parts(rooms.len()).find_map(|(tier, share)| (tier == k).then_some(share)).unwrap_or(0.0);
        Victim { place, bytes: (lies.bytes as f64 * share) as u64, share, group: group_of(lies.process) }
    };
    let mut used: Vec<u64> = rooms.iter().map(|r| r.used).collect();
    // Where a victim goes.
    let make_room = |v: &Victim, from: usize, used: &mut [u64]| -> usize {
        let target = usize::from(targets[v.place as usize]);
        let to = if used[target] + v.bytes <= most(target) { target } else { last };
        used[from] = used[from].saturating_sub(v.bytes);
        used[to] += v.bytes;
        to
    };
    let leaves =
        |v: &Victim, from: usize, to: usize| Move::of(&candidates.item(v.place as usize), v.share, from, to, judge.now);
    // What is taken of a tier beyond its share leaves before anything comes. That serves all that comes and is weighed against all of it: no single
    // one would be worth it.
    let mut over: Vec<Vec<(u32, u8)>> = vec![Vec::new(); last];
    for k in (0..last).rev() {
        while used[k] > most(k) {
            let Some(v) = victims[k].take(None, &|place| victim(place, k)) else { break };
            over[k].push((v.place, make_room(&v, k, &mut used) as u8));
        }
    }
    // Where groups take what is their own, it does not matter what those lose who had borrowed it.
    let sum = |moves: &[Move], takers: &[usize]| {
        let counts = |m: &&Move| takers.is_empty() || takers.contains(&group_of(m.process as usize));
        Swap {
            gain: moves.iter().filter(counts).map(|m| m.gain).fold(Gain::default(), Gain::and),
            cost: moves.iter().map(judge.cost).sum(),
        }
    };
    // `lacks`: which of its objects a group has there may be chance; that it has so many is not. By prices as they are first, which refuse most, as that takes little.
    let worth = |moves: &mut [Move], takers: &[usize], lacks: bool| -> Option<Swap> {
        let judged = |moves: &[Move]| {
            let mut swap = sum(moves, takers);
            swap.gain.doubt *= f64::from(u8::from(!lacks));
            (judge.worth)(&swap).then_some(swap)
        };
        judged(moves)?;
        (judge.settled)(moves);
        judged(moves)
    };
    let mut coming: Vec<Coming> = vec![Coming::default(); last];
    let mut moves: Vec<Move> = Vec::new();
    let mut moving = vec![false; candidates.len()];
    over.iter().flatten().for_each(|&(place, _)| moving[place as usize] = true);
    let mut refused = 0;
    // What nothing speaks for stays where it is, until its room is needed.
    for place in candidates.priorities().enumerate().filter(|(_, priority)| *priority > 0.0).map(|(place, _)| place) {
        let to = usize::from(targets[place]);
        let lies = candidates.lies(place);
        let slower = || lies.parts(rooms.len()).filter(|(k, _)| *k > to);
        let Some((from, _)) = slower().next() else { continue };
        let missing: f64 = slower().map(|(_, share)| share).sum();
        let bytes = (lies.bytes as f64 * missing) as u64;
        let own = group_of(lies.process);
        let before = used.clone();
        let lacks = claims[place].is_some() && victims[to].lacks(own, bytes);
        let (mut group, mut taken) = (Vec::new(), Vec::new());
        while used[to] + bytes > most(to) {
            let Some(v) = victims[to].take(Some(own), &|place| victim(place, to)) else { break };
            group.push(leaves(&v, to, make_room(&v, to, &mut used)));
            taken.push(v);
        }
        group.push(Move::of(&candidates.item(place), missing, from, to, judge.now));
        let taker = claims[place].map(|_| own);
        let fits = used[to] + bytes <= most(to);
        if let Some(swap) = fits.then(|| worth(&mut group, taker.as_slice(), lacks)).flatten() {
            used[to] += bytes;
            used[from] = used[from].saturating_sub(bytes);
            victims[to].came(own, bytes);
            moves.append(&mut group);
            moving[place] = true;
            taken.iter().for_each(|v| moving[v.place as usize] = true);
            coming[to].add(swap, taker);
            refused = 0;
            continue;
        }
        used = before;
        taken.into_iter().rev().for_each(|v| victims[to].put_back(&v));
        refused += 1;
        if refused >= REFUSALS {
            break;
        }
    }
    // Room that is left is for a part of the most important record for which it is too little.
    for k in 0..last {
        let mut refused = 0;
        for (place, _) in candidates.priorities().enumerate().take_while(|(_, priority)| *priority > 0.0) {
            let room = most(k).saturating_sub(used[k]);
            if room < LITTLE_ROOM || refused >= REFUSALS {
                break;
            }
            let lies = candidates.lies(place);
            let Some((from, share)) = lies.parts(rooms.len()).find(|(from, _)| *from > k) else { continue };
            if moving[place] || usize::from(targets[place]) <= k {
                continue;
            }
            let all = (lies.bytes as f64 * share) as u64;
            let bytes = room.min(all);
            let share = share * bytes as f64 / all.max(1) as f64;
            let part =
                Move { bytes, part: bytes < all, ..Move::of(&candidates.item(place), share, from, k, judge.now) };
            let mut group = vec![part];
            let Some(swap) = worth(&mut group, &[], false) else {
                refused += 1;
                continue;
            };
            used[k] += bytes;
            used[from] = used[from].saturating_sub(bytes);
            moving[place] = true;
            moves.append(&mut group);
            coming[k].add(swap, None);
        }
    }
    let mut all = Vec::new();
    for k in (0..last).rev() {
        let away = over[k].iter().map(|&(place, to)| leaves(&victim(place, k), k, to.into()));
        if coming[k].sum != Swap::default() {
            let mut away: Vec<Move> = away.clone().collect();
            (judge.settled)(&mut away);
            coming[k].stays = !(judge.worth)(&coming[k].sum.and(sum(&away, &coming[k].takers)));
            if !coming[k].stays {
                all.extend(away);
                continue;
            }
        }
        // Room for what will be allocated.
        let alone = |m: Move| {
            let mut alone = [m];
            worth(&mut alone, &[], false).map(|_| alone[0])
        };
        all.extend(away.map_while(alone));
    }
    // Of the two it is the faster tier for which it was decided.
    moves.retain(|m| !coming[usize::from(m.from.min(m.to))].stays);
    moves.splice(0..0, all);
    moves
}

/// What takes room in a faster tier than it should.
#[derive(Clone, Debug)]
struct Victim {
    /// Its place among the candidates, the most important first.
    place: u32,
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
    /// Places of its victims, the least important last, so that it is taken first.
    victims: Vec<u32>,
}

impl Victims {
    /// So much of a group is there, and may leave if it is a victim.
    fn holds(&mut self, group: usize, bytes: u64, victim: Option<u32>) {
        let group = self.groups.entry(group).or_default();
        group.used += bytes;
        group.victims.extend(victim);
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

    /// The least important that may leave, for something of a group or for nothing yet. `victim`: what is at a place.
    fn take(&mut self, taker: Option<usize>, victim: &dyn Fn(u32) -> Victim) -> Option<Victim> {
        let may = |(number, group): (&usize, &mut Group)| {
            let least = victim(*group.victims.last()?);
            (taker == Some(*number) || group.used >= group.claimed + least.bytes).then_some(least)
        };
        let taken = self.groups.iter_mut().filter_map(may).max_by_key(|v| v.place)?;
        let group = self.groups.get_mut(&taken.group)?;
        group.victims.pop();
        group.used -= taken.bytes;
        Some(taken)
    }

    /// It has been taken for nothing. The one that was taken last comes back first.
    fn put_back(&mut self, victim: &Victim) {
        let group = self.groups.entry(victim.group).or_default();
        group.used += victim.bytes;
        group.victims.push(victim.place);
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
    use crate::candidates::tests::with;
    use crate::shares::{By, Shares};
    use policy::cost::moment::Lines;
    use std::collections::HashSet;

    const MIB: u64 = 1 << 20;

    fn item(addr: u64, mib: u64, tier: usize, misses: f64) -> Item {
        crate::item::tests::item(addr, mib * MIB, tier, misses)
    }

    fn moves(name: &str, items: &[Item], rooms: &[(u64, u64)], worth: &dyn Fn(&Swap) -> bool) -> Vec<(u64, u8)> {
        shared(name, items, rooms, worth, None)
    }

    fn shared(
        name: &str,
        items: &[Item],
        rooms: &[(u64, u64)],
        worth: &dyn Fn(&Swap) -> bool,
        guarantees: Option<&Guarantees>,
    ) -> Vec<(u64, u8)> {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let now = Now { interval: 1, prices: (0..rooms.len()).map(|k| line(100.0 * (k as f64 + 1.0))).collect() };
        let judge = Judge { now: &now, cost: &|m| m.bytes as f64 / MIB as f64, worth, settled: &|_| (), guarantees };
        let rooms: Vec<Room> =
            rooms.iter().map(|&(limit, used)| Room { limit: limit * MIB, used: used * MIB }).collect();
        let (name, value) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let routine = ALL.iter().find(|r| r.name == name).expect("it is in the table");
        let way = (routine.make)(value).expect("a good value");
        let items: Vec<(f64, Item)> = items.iter().map(|i| (i.heat.random / i.bytes as f64, *i)).collect();
        with(&items, |candidates| way.moves(candidates, &rooms, &judge)).iter().map(|m| (m.addr, m.to)).collect()
    }

    const ANY: &dyn Fn(&Swap) -> bool = &|_| true;

    #[test]
    fn the_coldest_makes_room_for_the_hottest() {
        let items = [item(1, 8, 0, 1.0), item(2, 8, 0, 5.0), item(3, 8, 1, 100.0), item(4, 8, 1, 2.0)];
        assert_eq!(moves("fill=100%", &items, &[(16, 16), (100, 16)], ANY), [(1, 1), (3, 0)]);
        // Nine tenths of 18 are two objects, and there is room for what will come.
        assert_eq!(moves("fill=90%", &items, &[(18, 16), (100, 16)], ANY), [(1, 1), (3, 0)]);
        // Nine tenths of 16 are one object, and of what is left the next one has a part.
        assert_eq!(moves("fill=90%", &items, &[(16, 16), (100, 16)], ANY), [(1, 1), (2, 1), (3, 0), (4, 0)]);
    }

    #[test]
    fn what_is_not_worth_it_stays() {
        let items = [item(1, 8, 0, 4.0), item(2, 8, 1, 5.0), item(3, 8, 1, 1.0)];
        let dear: &dyn Fn(&Swap) -> bool = &|swap| swap.gain.all > 20.0 * swap.cost;
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], dear), []);
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], ANY), [(1, 1), (2, 0)]);
        // Gained are 500 - 400 ns a second for 16 MiB moved.
        let fair: &dyn Fn(&Swap) -> bool = &|swap| swap.gain.all > 6.0 * swap.cost;
        assert_eq!(moves("fill=1", &items, &[(8, 8), (100, 16)], fair), [(1, 1), (2, 0)]);
    }

    /// The fast tier is full, and a tenth of it is to be free: what that takes is borne by all that comes, as no single one could.
    #[test]
    fn room_that_serves_all_is_paid_by_all() {
        let cold = (0..32).map(|n| item(n, 1, 0, 0.0));
        let hot = |count: u64, misses: f64| (100..100 + count).map(move |n| item(n, 1, 1, misses));
        let rooms = [(32, 32), (100, 30)];
        let fair: &dyn Fn(&Swap) -> bool = &|swap| swap.gain.all > 100.0 * swap.cost;
        // Four leave so that 28 of 32 are taken; each that comes then makes one more go: it costs 2 and gains 300 ns.
        let many: Vec<Item> = cold.clone().chain(hot(16, 3.0)).collect();
        assert_eq!(moves("fill=90%", &many, &rooms, fair).len(), 4 + 2 * 16);
        let few: Vec<Item> = cold.clone().chain(hot(3, 3.0)).collect();
        assert_eq!(moves("fill=90%", &few, &rooms, fair), [], "900 ns for 4 and 6 MiB");
        let not_each: Vec<Item> = cold.chain(hot(16, 1.9)).collect();
        assert_eq!(moves("fill=90%", &not_each, &rooms, fair), []);
    }

    #[test]
    fn what_gains_only_by_prices_before_it_is_not_moved() {
        let items = [item(1, 8, 0, 1.0), item(2, 8, 1, 9.0)];
        let now = Now { interval: 1, prices: [100.0, 200.0].map(|random| Lines { random, ..Lines::default() }).into() };
        let rooms = [Room { limit: 8 * MIB, used: 8 * MIB }, Room { limit: 100 * MIB, used: 8 * MIB }];
        let with_loss = |loss: f64| {
            let settled = |moves: &mut [Move]| {
                if moves.is_empty() {
                    return;
                }
                assert_eq!(moves.iter().map(|m| (m.addr, m.to)).collect::<Vec<_>>(), [(1, 1), (2, 0)]);
                moves.iter_mut().for_each(|m| m.gain.all -= loss);
            };
            let worth = |swap: &Swap| swap.gain.all > 0.0;
            let judge = Judge { now: &now, cost: &|_| 0.0, worth: &worth, settled: &settled, guarantees: None };
            let items: Vec<(f64, Item)> = items.iter().map(|i| (i.heat.random, *i)).collect();
            with(&items, |candidates| fill(candidates, &rooms, 1.0, &judge)).iter().map(|m| m.gain.all).sum::<f64>()
        };
        assert_eq!([with_loss(100.0), with_loss(500.0)], [600.0, 0.0], "it gains 800 less twice that");
    }

    /// What makes room leaves as a whole, so that some of it may be left.
    #[test]
    fn room_that_is_left_is_for_a_part_of_the_next_one() {
        let items = [item(1, 8, 0, 9.0), item(2, 8, 1, 7.0), item(3, 8, 1, 5.0)];
        let now = Now { interval: 1, prices: [100.0, 200.0].map(|random| Lines { random, ..Lines::default() }).into() };
        let parts = |mib: f64, worth: &dyn Fn(&Swap) -> bool| {
            let limit = (mib * MIB as f64) as u64;
            let rooms = [Room { limit, used: 8 * MIB }, Room { limit: 100 * MIB, used: 16 * MIB }];
            let judge =
                Judge { now: &now, cost: &|m| m.bytes as f64 / MIB as f64, worth, settled: &|_| (), guarantees: None };
            let items: Vec<(f64, Item)> = items.iter().map(|i| (i.heat.random, *i)).collect();
            let moves = with(&items, |candidates| fill(candidates, &rooms, 1.0, &judge));
            moves.iter().map(|m| (m.addr, m.to, m.bytes >> 20, m.part, m.gain.all)).collect::<Vec<_>>()
        };
        assert_eq!(parts(10.0, ANY), [(2, 0, 2, true, 175.0)]);
        assert_eq!(parts(18.0, ANY), [(2, 0, 8, false, 700.0), (3, 0, 2, true, 125.0)]);
        assert_eq!(parts(8.2, ANY), [], "too little");
        assert_eq!(parts(10.0, &|swap| swap.gain.all > 100.0 * swap.cost), []);
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
        let gains: &dyn Fn(&Swap) -> bool = &|swap| swap.gain.all > swap.cost;
        let rooms = [(16, 16), (100, 16)];
        assert_eq!(moves("fill=1", &items, &rooms, gains), []);
        assert_eq!(shared("fill=1", &items, &rooms, gains, Some(&guarantees(["a", "b"]))), [(2, 1), (3, 0)]);
        assert_eq!(shared("fill=1", &items, &rooms, gains, Some(&guarantees(["a", "a"]))), [], "one group is as none");
        // What the second one does not use is lent.
        let cold = [items[0], items[1], of(1, item(3, 8, 1, 0.0))];
        assert_eq!(shared("fill=1", &cold, &rooms, gains, Some(&guarantees(["a", "b"]))), []);
    }

    /// Hundreds of items of all kinds, of two programs, in two and three tiers, with parts of their own and without: nothing is moved twice from where it is, no tier is filled
    /// beyond what it may hold, each swap is worth it, and nobody loses of his part by another one.
    #[test]
    fn moves_keep_to_what_was_said_whatever_there_is() {
        let mut dice = 5u64;
        let mut draw = |below: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % below
        };
        let shares = Shares::new(By::Command, &[("a".to_string(), 2.0)], &[]).expect("good");
        let guarantees = Guarantees::new(&shares, ["a", "b"].map(Some).into_iter());
        let line = |random: f64| Lines { random, ..Lines::default() };
        let mut kinds = [0; 2];
        for round in 0..60u64 {
            let tiers = 2 + (round % 2) as usize;
            // In a few rounds many more than are refused before it is given up.
            let count = if round % 10 == 9 { 1500 } else { 150 };
            let mut one = |n: u64| {
                let heat = if draw(3) > 0 { 0.0 } else { draw(50) as f64 };
                let there = [1.0, 1.0, 1.0, 0.75, 0.5][draw(5) as usize];
                let (process, seen) = (draw(2) as usize, draw(4) as u32);
                let one = crate::item::tests::item(n << 32, (1 + draw(64)) * 4096, draw(tiers as u64) as usize, heat);
                let one = Item { process, seen, there, looks: [1.0 + draw(4) as f64; 3], ..one };
                (heat / one.bytes as f64, one)
            };
            let items: Vec<(f64, Item)> = (0..count).map(&mut one).collect();
            let part = |i: &Item, k: usize| {
                let lies = Lies { process: i.process, bytes: i.bytes, tier: i.tier, there: i.there };
                lies.parts(tiers).find(|(tier, _)| *tier == k).map_or(0, |(_, share)| (i.bytes as f64 * share) as u64)
            };
            let mut used: Vec<u64> = (0..tiers).map(|k| items.iter().map(|(_, i)| part(i, k)).sum()).collect();
            let limit = |k: usize| if k + 1 < tiers { used[k] / 2 * (1 + round % 4) } else { 1 << 40 };
            let rooms: Vec<Room> = (0..tiers).map(|k| Room { limit: limit(k), used: used[k] }).collect();
            let most: Vec<u64> = rooms.iter().map(|r| (r.limit as f64 * 0.9) as u64).collect();
            let now = Now { interval: 4, prices: (0..tiers).map(|k| line(100.0 * (k as f64 + 1.0))).collect() };
            let times = [0.0, 1.0, 4.0][(round / 4 % 3) as usize];
            let worth = |swap: &Swap| times == 0.0 || swap.gain.all - swap.gain.doubt > times * swap.cost;
            let cost = |m: &Move| m.bytes as f64 / 400.0;
            let shared = (round % 3 == 0).then_some(&guarantees);
            let judge = Judge { now: &now, cost: &cost, worth: &worth, settled: &|_| (), guarantees: shared };
            let (all, claims) = with(&items, |mut candidates| {
                candidates.sort();
                let order: Vec<Item> = (0..candidates.len()).map(|place| candidates.item(place)).collect();
                let claims = claims(&candidates, &most[..tiers - 1], shared);
                let claims: Vec<_> = order.into_iter().zip(claims).filter_map(|(i, k)| Some((i, k?))).collect();
                (fill(candidates, &rooms, 0.9, &judge), claims)
            });
            // Of each program in each tier, what it has and what it may count on.
            let of = |process: usize| items.iter().map(|(_, i)| i).filter(move |i| i.process == process);
            let mut has = [0, 1].map(|p| (0..tiers).map(|k| of(p).map(|i| part(i, k)).sum()).collect::<Vec<u64>>());
            let own = |p: usize, k: usize| -> u64 {
                claims.iter().filter(|(i, tier)| i.process == p && usize::from(*tier) == k).map(|(i, _)| i.bytes).sum()
            };
            let (mut taken, mut up) = (HashSet::new(), false);
            for swap in all.split_inclusive(|m| m.to < m.from) {
                let comes = swap.last().filter(|m| m.to < m.from);
                up |= comes.is_some();
                for m in swap {
                    let (process, from, to) = (m.process as usize, usize::from(m.from), usize::from(m.to));
                    let item = items[(m.addr >> 32) as usize].1;
                    if to > from {
                        assert!(taken.insert((m.addr, from)) && m.bytes == part(&item, from), "{m:?}");
                    }
                    used[to] += m.bytes;
                    used[from] = used[from].saturating_sub(m.bytes);
                    has[process][to] += m.bytes;
                    has[process][from] = has[process][from].saturating_sub(m.bytes);
                    let another = shared.is_some() && comes.is_none_or(|taker| taker.process != m.process);
                    if to > from && another {
                        assert!(has[process][from] >= own(process, from), "round {round}: {m:?} is of its part");
                    }
                    kinds[usize::from(to < from)] += 1;
                }
                if let Some(to) = comes.map(|m| usize::from(m.to)) {
                    assert!(used[to] <= most[to], "round {round}: {} of {} bytes", used[to], most[to]);
                }
            }
            let gains = all.iter().map(|m| m.gain.all - times * cost(m)).sum::<f64>();
            assert!(times == 0.0 || shared.is_some() || !up || gains > 0.0, "round {round}: {gains}");
        }
        assert!(kinds.iter().all(|moves| *moves > 100), "{kinds:?}");
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
        let worth: &dyn Fn(&Swap) -> bool = &|swap| swap.gain.all > 20.0 * swap.cost;
        let rooms = [(16, 16), (100, 16)];
        assert_eq!(shared("fill=1", &items, &rooms, worth, Some(&guarantees)), []);
        assert_eq!(shared("fill=1", &items, &rooms, worth, None), [(4, 1), (2, 0)]);
    }
}
