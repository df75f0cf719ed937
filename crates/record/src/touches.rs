//! Which instruction touched what: sampled accesses counted by place and instruction, over the run.
//!
//! A program touches its hot objects from few instructions, so most samples find their counter in a small table that is
//! looked into before the large one: a lab that samples each miss tells millions a second.

use crate::misses::Place;
use foldhash::HashMap;

/// Counters found without a search; a power of two.
const NEAR: usize = 1024;

/// What was touched in one process.
#[derive(Debug, Default)]
pub struct Touches {
    /// Empty until there is something to count: most of a shell's thousands of children have nothing.
    near: Vec<(Key, Touch)>,
    far: HashMap<Key, Touch>,
}

/// Sampled accesses of one instruction to one place, misses or not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Touch {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Misses that they stand for; 0 where the sampler does not tell.
    pub misses: u64,
    /// Loads whose latency is known.
    pub timed: u64,
    /// Sum of their latencies, in ns.
    pub latency_ns: u64,
}

impl Touch {
    /// Adds others.
    pub fn add(&mut self, other: &Touch) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.misses = self.misses.saturating_add(other.misses);
        self.timed += other.timed;
        self.latency_ns = self.latency_ns.saturating_add(other.latency_ns);
    }
}

/// Whose memory, and by which instruction.
type Key = (Place, u64);

/// No instruction lies there.
const NOBODY: Key = (Place::Other, 0);

impl Touches {
    /// Adds what was sampled on a place by the instruction at `ip`.
    #[inline]
    pub fn add(&mut self, place: Place, ip: u64, touch: &Touch) {
        if self.near.is_empty() {
            self.near.resize(NEAR, (NOBODY, Touch::default()));
        }
        let key = (place, ip);
        let spread = match place {
            Place::Site(site) => site.0 ^ ip,
            _ => ip,
        };
        // The multiplier of Fibonacci hashing: 2^64 divided by the golden ratio.
        let slot = spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - NEAR.ilog2());
        let (owner, sum) = &mut self.near[slot];
        if *owner != key {
            let evicted = (std::mem::replace(owner, key), std::mem::take(sum));
            self.keep(evicted);
        }
        self.near[slot].1.add(touch);
    }

    fn keep(&mut self, (key, touch): (Key, Touch)) {
        if touch != Touch::default() {
            self.far.entry(key).or_default().add(&touch);
        }
    }

    /// Everything counted since the last call: place, instruction, counts.
    pub fn take(&mut self) -> Vec<(Place, u64, Touch)> {
        for evicted in std::mem::take(&mut self.near) {
            self.keep(evicted);
        }
        std::mem::take(&mut self.far).into_iter().map(|((place, ip), touch)| (place, ip, touch)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::SiteId;

    #[test]
    fn nothing_is_lost_or_mixed_however_many_instructions_there_are() {
        let mut touches = Touches::default();
        let one = Touch { loads: 1, latency_ns: 7, ..Touch::default() };
        let places = [Place::Stack, Place::Other, Place::Site(SiteId(3)), Place::Site(SiteId(4))];
        for round in 0..5u64 {
            for ip in 1..3 * NEAR as u64 {
                for place in places {
                    touches.add(place, ip * 4, &one);
                }
            }
            if round == 2 {
                assert_eq!(touches.take().len(), places.len() * (3 * NEAR - 1));
            }
        }
        let mut seen = touches.take();
        seen.sort_by_key(|(_, ip, _)| *ip);
        assert_eq!(seen.len(), places.len() * (3 * NEAR - 1));
        assert!(seen.iter().all(|(_, _, c)| (c.loads, c.latency_ns) == (2, 14)));
        assert!(touches.take().is_empty());
    }
}
