//! A record at the moment of the decision, with all that routines may go by.

use crate::prioritise::Now;
use policy::cost::moment::Lines;

/// A record that may be moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Item {
    /// Number of its process.
    pub process: usize,
    /// Its address.
    pub addr: u64,
    /// Bytes of it that are present.
    pub bytes: u64,
    /// The interval in which it came to life.
    pub born: u32,
    /// The last interval in which an access was seen.
    pub seen: u32,
    /// The tier that most of its pages are in.
    pub tier: usize,
    /// Share of these that are there, 0 to 1.
    pub there: f64,
    /// Intervals by which is known what is expected of it in this phase, in the next one and in the long run.
    pub looks: [f64; 3],
    /// Lines a second that are expected in the long run, as the aggregate routine leaves them.
    pub heat: Lines,
    /// Lines a second in the current phase.
    pub phase: Lines,
    /// Lines a second in the phase that is about to begin; none: that is not known, or not soon.
    pub next: Lines,
    /// How long it is to be expected to live, this phase to last, and then the next one, in s.
    pub life: f64,
    /// See `life`.
    pub phase_life: f64,
    /// See `life`.
    pub next_life: f64,
    /// Time that a line from the fastest memory saves in this phase and in the next one, as far as that has been seen, in ns.
    pub brought: [f64; 2],
    /// So much of the next phase would go by if it was moved only when that has begun, in s.
    pub late: f64,
    /// Lines a second in the phase that comes after those that are reckoned with, and how long that lasts, in s; none if nobody knows.
    pub after: Option<(Lines, f64)>,
    /// The share of what is promised that is likely to be brought, 0 to 1.
    pub believed: f64,
}

/// What is gained if a record lies in another tier than now, in ns; a loss is less than nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gain {
    /// As long as it may last.
    pub all: f64,
    /// What of that is likely to be brought, going by what moves of its job have cost and brought.
    pub likely: f64,
    /// Of that, in the present phase and the next one, if that is near.
    pub soon: f64,
    /// By moving it now and not when the next phase has begun, if that is near.
    pub early: f64,
    /// In the phase after those: what is better elsewhere then had better have stayed, or goes back.
    pub after: f64,
    /// By how much `all` may be chance: a standard deviation.
    pub doubt: f64,
}

impl Gain {
    /// Both together.
    pub fn and(self, other: Gain) -> Gain {
        Gain {
            all: self.all + other.all,
            likely: self.likely + other.likely,
            soon: self.soon + other.soon,
            early: self.early + other.early,
            after: self.after + other.after,
            doubt: (self.doubt * self.doubt + other.doubt * other.doubt).sqrt(),
        }
    }

    /// Half of the one and half of the other: the same by prices before and after.
    pub fn mean(self, other: Gain) -> Gain {
        Gain { doubt: (self.doubt + other.doubt) / 2.0, ..self.and(other).times(0.5) }
    }

    /// So large a share of it.
    pub fn times(self, share: f64) -> Gain {
        Gain {
            all: share * self.all,
            likely: share * self.likely,
            soon: share * self.soon,
            early: share * self.early,
            after: share * self.after,
            doubt: share * self.doubt,
        }
    }
}

/// So small a share of a record is not worth a move of its own.
const LITTLE: f64 = 0.02;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lies {
    /// Number of its process.
    pub process: usize,
    /// Bytes of it that are present.
    pub bytes: u64,
    /// The tier that most of its pages are in.
    pub tier: usize,
    /// Share of these that are there, 0 to 1.
    pub there: f64,
}

impl Lies {
    /// The shares of it that are in its tier and in another one: as far as is known, the slowest, or else the fastest.
    pub fn parts(&self, tiers: usize) -> impl Iterator<Item = (usize, f64)> + use<> {
        let other = if self.tier == 0 { tiers.saturating_sub(1) } else { 0 };
        let rest = 1.0 - self.there;
        let parts = [(self.tier, self.there), (other, if rest > LITTLE { rest } else { 0.0 })];
        parts.into_iter().filter(|(_, share)| *share > 0.0)
    }

    /// All of it is in the slowest tier.
    pub fn is_slow(&self, tiers: usize) -> bool {
        self.parts(tiers).all(|(k, _)| k + 1 == tiers)
    }
}

impl Item {
    /// Time gained if it lies in one tier instead of another as long as is to be expected, in ns: in this phase what the phase
    /// asks for, then what the next one does, if that is near, then what is asked for in the long run.
    pub fn value(&self, now: &Now, from: usize, to: usize) -> f64 {
        self.gains(now, from, to).iter().sum()
    }

    /// That, and what else is asked of it. What may be chance: what was seen in so many intervals is the sum of so many independent looks at most. A program that walks
    /// through its arrays looks at each of them once in a while, and at some of them once more than at the others.
    pub fn gain(&self, now: &Now, from: usize, to: usize) -> Gain {
        let gains = self.gains(now, from, to);
        let [phase, next, _] = gains;
        let chance = |(gain, looks): (&f64, f64)| gain.abs() / looks.max(1.0).sqrt();
        let missed = if self.next_life > 0.0 { (self.late / self.next_life).min(1.0) } else { 0.0 };
        let all = gains.iter().sum();
        Gain {
            all,
            likely: self.believed * all,
            soon: phase + next,
            early: if self.next_life > 0.0 { phase + missed * next } else { 0.0 },
            after: self.after.map_or(f64::NEG_INFINITY, |(lines, s)| s * now.gain(lines, from, to)),
            doubt: gains.iter().zip(self.looks).map(chance).sum(),
        }
    }

    /// In this phase, the next one and the long run.
    fn gains(&self, now: &Now, from: usize, to: usize) -> [f64; 3] {
        let phase = self.phase_life.min(self.life);
        let next = self.next_life.min(self.life - phase);
        let long = self.life - phase - next;
        let [in_phase, in_next] = self.brought;
        let parts = [(phase, self.phase, in_phase), (next, self.next, in_next), (long, self.heat, f64::INFINITY)];
        parts.map(|(s, lines, brought)| {
            let most = if brought.is_finite() { brought * lines.misses() } else { f64::INFINITY };
            s * now.gain(lines, from, to).clamp(-most, most)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn item(addr: u64, bytes: u64, tier: usize, random: f64) -> Item {
        let heat = Lines { random, ..Lines::default() };
        let (born, seen, there) = (1, 1, 1.0);
        let next = Lines::default();
        Item {
            process: 0,
            addr,
            bytes,
            born,
            seen,
            tier,
            there,
            looks: [f64::INFINITY; 3],
            heat,
            phase: heat,
            next,
            life: 1.0,
            phase_life: 1.0,
            next_life: 0.0,
            brought: [f64::INFINITY; 2],
            late: 0.0,
            after: None,
            believed: 1.0,
        }
    }

    #[test]
    fn a_phase_counts_as_long_as_it_lasts() {
        let line = |random: f64| Lines { random, ..Lines::default() };
        let now = Now { interval: 1, prices: vec![line(100.0), line(300.0)] };
        let hot_now = Item { phase: line(10.0), life: 5.0, phase_life: 2.0, ..item(1, 4096, 1, 1.0) };
        assert_eq!(hot_now.value(&now, 1, 0), 2.0 * 10.0 * 200.0 + 3.0 * 200.0);
        assert_eq!(hot_now.value(&now, 0, 1), -hot_now.value(&now, 1, 0));
        let hot_next = Item { next: line(5.0), next_life: 2.0, ..hot_now };
        assert_eq!(hot_next.value(&now, 1, 0), 2.0 * 10.0 * 200.0 + 2.0 * 5.0 * 200.0 + 200.0);
        assert_eq!(hot_next.gain(&now, 1, 0).soon, 2.0 * 10.0 * 200.0 + 2.0 * 5.0 * 200.0);
        assert_eq!((hot_next.gain(&now, 0, 1).after, hot_now.gain(&now, 1, 0).early), (f64::NEG_INFINITY, 0.0));
        let known = Item { late: 0.5, after: Some((line(3.0), 4.0)), ..hot_next };
        assert_eq!(
            known.gain(&now, 1, 0).early,
            2.0 * 10.0 * 200.0 + 0.5 * 5.0 * 200.0,
            "it would come a little later"
        );
        assert_eq!(known.gain(&now, 0, 1).after, -4.0 * 3.0 * 200.0);
        let seen = Item { brought: [50.0, f64::INFINITY], ..hot_next };
        assert_eq!(
            seen.value(&now, 1, 0),
            2.0 * 10.0 * 50.0 + 2.0 * 5.0 * 200.0 + 200.0,
            "no more than it has brought"
        );
        assert_eq!(Item { life: 1.0, ..hot_now }.value(&now, 1, 0), 2000.0, "it will not outlive itself");
        let looked = Item { looks: [4.0, 25.0, 100.0], ..hot_next };
        assert_eq!(
            looked.gain(&now, 0, 1).doubt,
            4000.0 / 2.0 + 2000.0 / 5.0 + 200.0 / 10.0,
            "each by how often it was looked at"
        );
    }
}
