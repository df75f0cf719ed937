//! Hearth's own strategies: from traits to tiers.
//!
//! One object alone: the space that it names; else what is picked at random wants low latency and what is walked over high bandwidth (H2M,
//! FGCS 2023, sections 3 and 4.3). Many together (H2M's *prio*, section 5.3): the most important first, each where it
//! wants to be if there is room, else in the next slower tier.

use crate::error::Error;
use crate::kernel::PAGE;
use crate::machine::Machine;
use crate::wish::{Partition, Pattern, Space, Wish};

const HUGE: usize = 2 << 20;
/// From this size on an interleaved object takes turns of huge pages.
const HUGE_TURNS_FROM: usize = 64 << 20;
const SMALL_TURN: usize = 64 << 10;
/// Most turns of an object: each is a mapping to the kernel, which allows 65,530.
const MOST_TURNS: usize = 4096;
/// From this size on an object is split between huge pages.
const HUGE_SPLIT_FROM: usize = 16 << 20;

/// Where an object is to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Its tier; `None`: left to the kernel.
    pub tier: Option<usize>,
    /// Tier of what does not go there, if it is divided.
    pub rest: Option<usize>,
    /// Percent that go to `tier`: 100 unless it is divided.
    pub weight: u8,
    /// How it is divided.
    pub partition: Partition,
    /// The smaller, the earlier.
    pub rank: i32,
}

impl Decision {
    /// All of it in one tier.
    pub fn whole(tier: Option<usize>) -> Decision {
        Decision { tier, rest: None, weight: 100, partition: Partition::Whole, rank: 0 }
    }

    /// The tier that most of its addresses are of: what is bound elsewhere is the rest's.
    pub fn home(&self) -> Option<usize> {
        if self.partition == Partition::Whole { self.tier } else { self.rest }
    }

    /// The stretches of an object that go to `tier` and not to where the rest is: offset and length, whole pages.
    pub fn stretches(&self, bytes: usize) -> Vec<(usize, usize)> {
        let weight = usize::from(self.weight);
        match self.partition {
            Partition::Whole => Vec::new(),
            Partition::Split => {
                let unit = if bytes >= HUGE_SPLIT_FROM { HUGE } else { PAGE };
                // In u128, as it may be as large as the address space.
                let share = (bytes as u128 * weight as u128 / 100) as usize / unit * unit;
                [(0, share)].into_iter().filter(|s| s.1 > 0).collect()
            }
            Partition::Interleave => {
                let huge = bytes >= HUGE_TURNS_FROM;
                let turn = if huge { bytes.div_ceil(MOST_TURNS).next_multiple_of(HUGE) } else { SMALL_TURN };
                let before = |turns: usize| (turns * weight).div_ceil(100);
                let mut stretches: Vec<(usize, usize)> = Vec::new();
                for n in (0..bytes.div_ceil(turn)).filter(|&n| before(n + 1) > before(n)) {
                    let (at, len) = (n * turn, turn.min(bytes - n * turn));
                    match stretches.last_mut().filter(|last| last.0 + last.1 == at) {
                        Some(last) => last.1 += len,
                        None => stretches.push((at, len)),
                    }
                }
                stretches
            }
        }
    }

    /// Bytes by tier.
    pub fn shares(&self, bytes: usize) -> impl Iterator<Item = (usize, usize)> {
        // Most are whole, and are asked often.
        let whole = self.partition == Partition::Whole;
        let away: usize = if whole { 0 } else { self.stretches(bytes).iter().map(|s| s.1).sum() };
        let home = self.home().map(|tier| (tier, bytes - away));
        home.into_iter().chain(self.tier.filter(|_| away > 0).map(|tier| (tier, away)))
    }
}

/// Tiers to try for what is wanted in one: that one, the slower ones, the faster ones.
pub fn order(tier: usize, tiers: usize) -> impl Iterator<Item = usize> {
    (tier..tiers).chain((0..tier).rev())
}

/// What an object's traits ask for.
///
/// # Errors
/// [`Error::Tier`] for one that this machine does not have.
pub fn alone(machine: &Machine, wish: &Wish) -> Result<Decision, Error> {
    let by_pattern = wish.pattern.map(|pattern| match pattern {
        Pattern::Random => Space::Wish(model::Space::LowestLatency),
        Pattern::Linear | Pattern::Strided => Space::Wish(model::Space::HighestBandwidth),
    });
    let space = wish.space.or(by_pattern);
    let tier = space.map(|s| machine.tier(s)).transpose()?;
    if wish.partition == Partition::Whole {
        return Ok(Decision::whole(tier));
    }
    let rest = machine.tier(wish.rest.unwrap_or(Space::Wish(model::Space::LargestCapacity)))?;
    // Where all spaces are one tier there is nothing to divide.
    if tier == Some(rest) {
        return Ok(Decision::whole(tier));
    }
    Ok(Decision { tier, rest: Some(rest), weight: wish.weight.unwrap_or(50), partition: wish.partition, rank: 0 })
}

/// What is to be served first: what must be somewhere (it can fail), then the more important, then what is accessed more often per
/// byte, then as given.
pub fn ranks(requests: &[(usize, &Wish)]) -> Vec<i32> {
    let mut order: Vec<usize> = (0..requests.len()).collect();
    let heat = |i: usize| requests[i].1.frequency.unwrap_or(0) as f64 / requests[i].0.max(1) as f64;
    order.sort_by(|&a, &b| {
        let (x, y) = (requests[a].1, requests[b].1);
        y.required
            .cmp(&x.required)
            .then(y.importance.unwrap_or(0).cmp(&x.importance.unwrap_or(0)))
            .then(heat(b).total_cmp(&heat(a)))
    });
    let mut ranks = vec![0; requests.len()];
    for (rank, i) in order.into_iter().enumerate() {
        ranks[i] = rank as i32;
    }
    ranks
}

/// Decides for many at once, `room` being the free bytes of each tier. What has no room where it wants to be and need not be there goes to the
/// next tier that has.
///
/// # Errors
/// As [`alone`]. Whether what is required has room is found out when it is carried out.
pub fn together(machine: &Machine, requests: &[(usize, &Wish)], room: &[u64]) -> Result<Vec<Decision>, Error> {
    let mut left = room.to_vec();
    let ranks = ranks(requests);
    let mut decisions = Vec::new();
    for ((_, wish), &rank) in requests.iter().zip(&ranks) {
        decisions.push(Decision { rank, ..alone(machine, wish)? });
    }
    let mut order: Vec<usize> = (0..requests.len()).collect();
    order.sort_by_key(|&i| ranks[i]);
    for i in order {
        let ((size, wish), decision) = (requests[i], &mut decisions[i]);
        let bytes = size.next_multiple_of(PAGE);
        if !wish.required {
            *decision = fitting(*decision, bytes, machine.tiers().len(), |tier, bytes| {
                left.get(tier).is_some_and(|&left| left >= bytes as u64)
            });
        }
        for (tier, bytes) in decision.shares(bytes) {
            if let Some(left) = left.get_mut(tier) {
                *left = left.saturating_sub(bytes as u64);
            }
        }
    }
    Ok(decisions)
}

/// The decision, or the nearest one for which there is room; itself if there is none for any.
pub fn fitting(wanted: Decision, bytes: usize, tiers: usize, mut room: impl FnMut(usize, usize) -> bool) -> Decision {
    let fits = |d: &Decision| d.shares(bytes).all(|(tier, bytes)| room(tier, bytes));
    let whole = |tier: Option<usize>| Decision { rank: wanted.rank, ..Decision::whole(tier) };
    let Some(tier) = wanted.tier else { return wanted };
    let others = order(tier, tiers).map(|t| whole(Some(t)));
    let rest = wanted.rest.map(|rest| whole(Some(rest)));
    [Some(wanted), rest].into_iter().flatten().chain(others).find(fits).unwrap_or(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::tests::two_tiers;
    use crate::wish::Trait;

    const MIB: usize = 1 << 20;

    fn wish(traits: &[(i32, u64)]) -> Wish {
        Wish::read(&traits.iter().map(|&(key, value)| Trait { key, value }).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn patterns_decide_where_no_space_is_named() {
        let of = |traits: &[(i32, u64)]| alone(&two_tiers(), &wish(traits)).map(|d| d.tier);
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[(4, 1000)]), Ok(None));
        assert_eq!(of(&[(6, 3)]), Ok(Some(0)));
        assert_eq!(of(&[(6, 1)]), Ok(Some(0)));
        assert_eq!(of(&[(2, 17), (6, 1)]), Ok(Some(1)));
        assert_eq!(of(&[(2, 18)]), Err(Error::Tier));
    }

    #[test]
    fn the_most_important_get_the_room() {
        let [cold, hot, must, frequent] =
            [wish(&[(2, 1)]), wish(&[(2, 1), (8, 5)]), wish(&[(1, 1)]), wish(&[(2, 1), (4, 1 << 40)])];
        let requests = [(4 * MIB, &cold), (4 * MIB, &hot), (4 * MIB, &must), (4 * MIB, &frequent)];
        assert_eq!(ranks(&requests), [3, 1, 0, 2]);
        let tiers = |room: u64| -> Vec<_> {
            let all = together(&two_tiers(), &requests, &[room * MIB as u64, 1 << 40]).unwrap();
            all.iter().map(|d| d.tier.unwrap()).collect()
        };
        assert_eq!(tiers(100), [0, 0, 0, 0]);
        assert_eq!(tiers(12), [1, 0, 0, 0]);
        assert_eq!(tiers(8), [1, 0, 0, 1]);
        assert_eq!(tiers(0), [1, 1, 0, 1], "what is required is not sent elsewhere");
    }

    #[test]
    fn weights_are_kept_and_stretches_are_few() {
        for bytes in [PAGE, 100 * 1024, 3 * MIB, 20 * MIB, 64 * MIB + PAGE, 1 << 40] {
            for weight in [1, 25, 50, 99] {
                for partition in [Partition::Split, Partition::Interleave] {
                    let decision = Decision { tier: Some(0), rest: Some(1), weight, partition, rank: 0 };
                    let all = decision.stretches(bytes);
                    let sum: usize = all.iter().map(|s| s.1).sum();
                    let unit = all.first().map_or(HUGE, |s| s.1).max(HUGE);
                    assert!(
                        sum.abs_diff((bytes as u128 * u128::from(weight) / 100) as usize) <= unit,
                        "{decision:?} of {bytes}: {sum}"
                    );
                    assert!(all.iter().all(|(at, len)| at % PAGE == 0 && at + len <= bytes && *len > 0));
                    assert!(all.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0) && all.len() <= MOST_TURNS);
                    assert_eq!(decision.shares(bytes).map(|s| s.1).sum::<usize>(), bytes);
                }
            }
        }
    }

    #[test]
    fn what_has_no_room_goes_on_to_slower_tiers_first() {
        let one = |room: &[u64]| {
            fitting(Decision::whole(Some(1)), 10, room.len(), |t, bytes| room[t] >= bytes as u64).tier.unwrap()
        };
        assert_eq!([one(&[10, 10, 10]), one(&[10, 9, 10]), one(&[10, 9, 9]), one(&[9, 9, 9])], [1, 2, 0, 1]);
        let halves = Decision { tier: Some(0), rest: Some(1), weight: 50, partition: Partition::Split, rank: 0 };
        let room = |fast: usize, slow: usize| fitting(halves, 2 * MIB, 2, |t, bytes| [fast, slow][t] >= bytes);
        assert_eq!(room(MIB, MIB), halves);
        assert_eq!(room(MIB - 1, 2 * MIB), Decision::whole(Some(1)));
    }
}
