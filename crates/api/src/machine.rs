//! The tiers of this machine, as `hearth platform` finds them, and how much of them is free.

use crate::error::Error;
use crate::wish::Space;
use model::{Platform, TierKind};
use platform::now;

/// Most tiers (`HEARTH_MAX_TIERS`).
pub const MOST_TIERS: usize = 8;

/// The tiers of this machine, fastest first.
#[derive(Clone, Debug)]
pub struct Machine {
    platform: Platform,
    masks: Vec<u128>,
    /// The tier of each wish, found once: it is asked for with each allocation.
    spaces: [Option<usize>; model::Space::ALL.len()],
    /// Bytes that the kernel keeps free in each tier.
    kept_free: Vec<u64>,
}

impl Machine {
    /// Looks at this machine.
    ///
    /// # Errors
    /// [`Error::Platform`] if hwloc cannot, or describes another machine.
    pub fn find() -> Result<Machine, Error> {
        Machine::of(platform::discover().map_err(|_| Error::Platform)?)
    }

    /// A machine of these tiers; those of files, and more than [`MOST_TIERS`], are left out.
    ///
    /// # Errors
    /// [`Error::Platform`] if there is none.
    pub fn of(mut platform: Platform) -> Result<Machine, Error> {
        platform.tiers.retain(|t| t.kind.value != TierKind::File && t.nodes.iter().any(|&n| n < 128));
        platform.tiers.truncate(MOST_TIERS);
        let mask = |nodes: &[u32]| nodes.iter().filter(|&&n| n < 128).fold(0, |mask, &n| mask | 1u128 << n);
        let masks: Vec<u128> = platform.tiers.iter().map(|t| mask(&t.nodes)).collect();
        let kept_free = platform.tiers.iter().map(|t| now::kept_free(&t.nodes).0).collect();
        let spaces = model::Space::ALL.map(|wish| {
            let name = platform.space(wish).map(|t| t.name.as_str())?;
            platform.tiers.iter().position(|t| t.name == name)
        });
        if masks.is_empty() { Err(Error::Platform) } else { Ok(Machine { platform, masks, spaces, kept_free }) }
    }

    /// The tiers.
    pub fn tiers(&self) -> &[model::Tier] {
        &self.platform.tiers
    }

    /// NUMA nodes of a tier, a bit each.
    pub fn nodes(&self, tier: usize) -> u128 {
        self.masks.get(tier).copied().unwrap_or(0)
    }

    /// The tier of a node.
    pub fn tier_of_node(&self, node: u32) -> Option<usize> {
        let bit = 1u128.checked_shl(node)?;
        self.masks.iter().position(|mask| mask & bit != 0)
    }

    /// The tier that a space is here.
    ///
    /// # Errors
    /// [`Error::Tier`] if there is none of this index.
    pub fn tier(&self, space: Space) -> Result<usize, Error> {
        match space {
            Space::Tier(index) => (index < self.masks.len()).then_some(index).ok_or(Error::Tier),
            Space::Wish(wish) => self.spaces[wish as usize].ok_or(Error::Tier),
        }
    }

    /// Free bytes of a tier that the kernel would give to whoever prefers it; 0 if it does not say.
    pub fn to_be_had(&self, tier: usize) -> u64 {
        let nodes = self.platform.tiers.get(tier).map_or(&[][..], |t| &t.nodes);
        let free: u64 = nodes.iter().filter_map(|node| now::free(*node)).map(|bytes| bytes.0).sum();
        free.saturating_sub(self.kept_free.get(tier).copied().unwrap_or(0))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A machine of two tiers of the library, on nodes 0 and 1.
    pub(crate) fn two_tiers() -> Machine {
        let mut platform = platform::load("cxl-expander").unwrap();
        for (n, tier) in platform.tiers.iter_mut().enumerate() {
            tier.nodes = vec![n as u32];
        }
        Machine::of(platform).unwrap()
    }

    #[test]
    fn spaces_are_tiers() {
        let machine = two_tiers();
        let of = |n: u64| machine.tier(Space::of(n).unwrap());
        assert_eq!([of(1), of(2), of(16), of(17)], [Ok(0), Ok(0), Ok(0), Ok(1)]);
        assert_eq!(of(18), Err(Error::Tier));
        assert_eq!(
            (machine.tier_of_node(1), machine.tier_of_node(2), machine.tier_of_node(200)),
            (Some(1), None, None)
        );
    }

    #[test]
    fn this_machine_has_a_tier_with_free_memory() {
        let machine = Machine::find().unwrap();
        assert!(machine.to_be_had(0) > 0);
        assert_eq!(machine.to_be_had(7), 0);
    }
}
