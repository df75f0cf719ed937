//! A map by address whose leaves are as long as a few cache pages: of the standard library's ordered map, which has eleven entries to a
//! node and half of them empty where addresses only grow, a million small values would take twice the memory, and as many
//! more misses of the cache to find one.

use std::collections::BTreeMap;

/// Most entries of a leaf.
pub const MOST: usize = 64;
/// A leaf grows by so many at a time: no more are ever empty but for those that were removed.
const STEP: usize = 8;

/// Values by address.
#[derive(Clone, Debug)]
pub struct Leaves<V> {
    /// By an address that is not above their first, and above the last of the leaf before. None is empty.
    leaves: BTreeMap<u64, Vec<(u64, V)>>,
    len: usize,
}

impl<V> Default for Leaves<V> {
    fn default() -> Self {
        Leaves { leaves: BTreeMap::new(), len: 0 }
    }
}

impl<V> Leaves<V> {
    /// Adds a value; gives back the one that was there.
    pub fn insert(&mut self, addr: u64, value: V) -> Option<V> {
        let Some((_, leaf)) = self.leaves.range_mut(..=addr).next_back() else {
            // Below all others: the first leaf begins earlier now.
            let mut first = self.leaves.pop_first().map_or_else(Vec::new, |(_, leaf)| leaf);
            let rest = (first.len() >= MOST).then(|| std::mem::take(&mut first));
            rest.and_then(|rest| self.leaves.insert(rest[0].0, rest));
            add(&mut first, 0, (addr, value));
            self.leaves.insert(addr, first);
            self.len += 1;
            return None;
        };
        let at = match leaf.binary_search_by_key(&addr, |e| e.0) {
            Ok(at) => return Some(std::mem::replace(&mut leaf[at].1, value)),
            Err(at) => at,
        };
        self.len += 1;
        if leaf.len() < MOST {
            add(leaf, at, (addr, value));
            return None;
        }
        // Where addresses grow, leaves are left full.
        let mut upper = if at == MOST { Vec::new() } else { leaf.split_off(MOST / 2) };
        leaf.shrink_to_fit();
        match at.checked_sub(leaf.len()) {
            Some(at) => add(&mut upper, at, (addr, value)),
            None => add(leaf, at, (addr, value)),
        }
        self.leaves.insert(upper[0].0, upper);
        None
    }

    /// Removes the value at an address.
    pub fn remove(&mut self, addr: u64) -> Option<V> {
        self.remove_if(addr, |_| true)
    }

    /// Removes the value at an address, if it is meant.
    pub fn remove_if(&mut self, addr: u64, meant: impl Fn(&V) -> bool) -> Option<V> {
        let (&start, leaf) = self.leaves.range_mut(..=addr).next_back()?;
        let at = leaf.binary_search_by_key(&addr, |e| e.0).ok()?;
        if !meant(&leaf[at].1) {
            return None;
        }
        let (_, value) = leaf.remove(at);
        self.len -= 1;
        if leaf.is_empty() {
            self.leaves.remove(&start);
        } else if leaf.len() <= MOST / 4 {
            self.join(start);
        } else if leaf.capacity() > leaf.len() + 2 * STEP {
            leaf.shrink_to(leaf.len() + STEP);
        }
        Some(value)
    }

    /// Puts a short leaf to the one before it, if both together are not long.
    fn join(&mut self, start: u64) {
        let Some((_, before)) = self.leaves.range(..start).next_back() else { return };
        if before.len() > MOST / 2 {
            return;
        }
        let Some(mut short) = self.leaves.remove(&start) else { return };
        if let Some((_, before)) = self.leaves.range_mut(..start).next_back() {
            before.reserve_exact(short.len());
            before.append(&mut short);
        }
    }

    /// The value at an address.
    pub fn get(&self, addr: u64) -> Option<&V> {
        self.at_or_below(addr).and_then(|(at, value)| (at == addr).then_some(value))
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, addr: u64) -> Option<&mut V> {
        self.at_or_below_mut(addr).and_then(|(at, value)| (at == addr).then_some(value))
    }

    /// The last one at an address or below.
    pub fn at_or_below(&self, addr: u64) -> Option<(u64, &V)> {
        for (_, leaf) in self.leaves.range(..=addr).rev() {
            // A leaf may have lost those that it began with.
            if let Some(at) = leaf.partition_point(|e| e.0 <= addr).checked_sub(1) {
                return Some((leaf[at].0, &leaf[at].1));
            }
        }
        None
    }

    /// The same, to be changed.
    pub fn at_or_below_mut(&mut self, addr: u64) -> Option<(u64, &mut V)> {
        for (_, leaf) in self.leaves.range_mut(..=addr).rev() {
            if let Some(at) = leaf.partition_point(|e| e.0 <= addr).checked_sub(1) {
                let (at, value) = &mut leaf[at];
                return Some((*at, value));
            }
        }
        None
    }

    /// Those from an address on, in their order.
    pub fn from(&self, addr: u64) -> impl Iterator<Item = (u64, &V)> {
        let own = self.leaves.range(..=addr).next_back();
        let own = own.into_iter().flat_map(move |(_, leaf)| &leaf[leaf.partition_point(|e| e.0 < addr)..]);
        let after = self.leaves.range(addr.saturating_add(1)..).flat_map(|(_, leaf)| leaf);
        own.chain(after).map(|(addr, value)| (*addr, value))
    }

    /// All, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &V)> {
        self.leaves.values().flatten().map(|(addr, value)| (*addr, value))
    }

    /// The same, a leaf at a time: [`MOST`] entries at most.
    pub fn leaves(&self) -> impl Iterator<Item = &[(u64, V)]> {
        self.leaves.values().map(Vec::as_slice)
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut V)> {
        self.leaves.values_mut().flatten().map(|(addr, value)| (*addr, value))
    }

    /// All values, in the order of their addresses.
    pub fn into_values(self) -> impl Iterator<Item = V> {
        self.leaves.into_values().flatten().map(|(_, value)| value)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes that entries take, the empty ones too, and the leaves themselves.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        let of = |leaf: &Vec<(u64, V)>| leaf.capacity() * size_of::<(u64, V)>() + size_of::<(u64, Vec<(u64, V)>)>();
        self.leaves.values().map(of).sum()
    }
}

/// Puts an entry into a leaf, which grows by a few at most.
fn add<V>(leaf: &mut Vec<(u64, V)>, at: usize, entry: (u64, V)) {
    if leaf.len() == leaf.capacity() {
        leaf.reserve_exact(STEP);
    }
    leaf.insert(at, entry);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    }

    /// Beside the standard library's, under every operation, first growing, then shrinking to nothing.
    #[test]
    fn it_is_an_ordered_map() {
        let (mut own, mut plain, mut state) = (Leaves::default(), BTreeMap::new(), 1);
        for n in 0..60_000u64 {
            let addr = random(&mut state, 8000) * 16;
            // Three insertions to each removal, then the other way round.
            if random(&mut state, 4) < if n < 30_000 { 3 } else { 1 } {
                assert_eq!(own.insert(addr, n), plain.insert(addr, n));
            } else {
                let even = |value: &u64| value % 2 == 0;
                let expected = if plain.get(&addr).is_some_and(even) { plain.remove(&addr) } else { None };
                assert_eq!(own.remove_if(addr, even), expected);
            }
            let at = random(&mut state, 8200) * 16 + random(&mut state, 2);
            assert_eq!((own.len(), own.get(at).copied()), (plain.len(), plain.get(&at).copied()));
            let below = plain.range(..=at).next_back().map(|(a, v)| (*a, *v));
            assert_eq!(own.at_or_below(at).map(|(a, v)| (a, *v)), below);
            assert_eq!(own.at_or_below_mut(at).map(|(a, v)| (a, *v)), below);
            if n % 500 == 0 {
                assert!(own.iter().map(|(a, v)| (a, *v)).eq(plain.iter().map(|(a, v)| (*a, *v))));
                assert!(own.leaves().flatten().copied().eq(plain.iter().map(|(a, v)| (*a, *v))));
                assert!(own.iter_mut().map(|(a, v)| (a, *v)).eq(plain.iter().map(|(a, v)| (*a, *v))));
                assert!(own.from(at).map(|(a, v)| (a, *v)).eq(plain.range(at..).map(|(a, v)| (*a, *v))));
                if let Some(value) = own.get_mut(at) {
                    *value += 1;
                    *plain.get_mut(&at).expect("it is there") += 1;
                }
            }
        }
        assert!(own.clone().into_values().eq(plain.values().copied()));
        for addr in plain.into_keys() {
            assert!(own.remove(addr).is_some());
        }
        assert!(own.is_empty() && own.leaves.is_empty() && own.iter().next().is_none());
    }

    #[test]
    fn little_of_it_is_empty() {
        const COUNT: u64 = 200_000;
        let per_value = |own: &Leaves<[u64; 5]>| own.bytes() as f64 / own.len() as f64;
        let (mut growing, mut mixed) = (Leaves::default(), Leaves::default());
        (0..COUNT).for_each(|n| _ = growing.insert(n * 4096, [0; 5]));
        let mut state = 1;
        (0..COUNT).for_each(|_| _ = mixed.insert(random(&mut state, 1 << 40), [0; 5]));
        for n in 0..4 * COUNT {
            let addr = growing.at_or_below(random(&mut state, COUNT) * 4096).map(|(addr, _)| addr);
            addr.and_then(|addr| growing.remove(addr));
            growing.insert(random(&mut state, COUNT) * 4096, [n; 5]);
        }
        // A value and its address are 48 bytes.
        assert!(per_value(&mixed) < 58.0, "{}", per_value(&mixed));
        assert!(per_value(&growing) < 64.0, "{}", per_value(&growing));
    }
}
