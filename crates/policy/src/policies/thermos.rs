//! `thermos`: like `hotset`, but a site that no longer fits must be worth more than what it may displace.
//!
//! "It only assigns a site to the upper tier if the bandwidth (value) the site contributes is greater than the aggregate value
//! of the hottest site(s) it may displace" (MemBrain on SICM, section 2.2.1). Sites come by bandwidth per byte. One that still
//! fits is taken. Of one that does not, so many bytes are too many (at most its own size); the hottest sites taken so far, as
//! many as hold that many bytes, are what it may displace at worst. Nothing is ever taken out again: a large site that is
//! worth enough gets a part of its memory into the tier.

use super::density::{cold, heat};
use crate::{Decision, Error, Policy, Task};

/// Hot sites, without crowding out hotter ones.
pub struct Thermos;

impl Policy for Thermos {
    fn name(&self) -> &'static str {
        "thermos"
    }
    fn summary(&self) -> &'static str {
        "hotset, but nothing is over-filled unless it is worth more than what it may displace"
    }
    fn source(&self) -> &'static str {
        "MemBrain on SICM (Olson et al., MEMSYS 2019), section 2.2.1: thermos"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let mut placements = cold(task);
        let mut left = task.candidates();
        for k in 0..task.slowest() {
            task.by_density(&mut left, k);
            let (name, room) = (&task.tiers[k].tier.name, task.tiers[k].budget.map_or(u64::MAX, |b| b.0));
            let mut used = 0u64;
            let mut rest = Vec::new();
            // Sums of bytes and worth of what was taken, hottest first.
            let mut taken: Vec<(u64, f64)> = Vec::new();
            for (rank, &i) in left.iter().enumerate() {
                let (size, worth) = (task.size(i), task.worth(i, k));
                let heat = heat(&task.observed.sites[i], size, task.weights(k), rank + 1);
                placements[i].value = worth / size.0 as f64;
                let too_many = used.saturating_add(size.0).saturating_sub(room).min(size.0);
                let displaced = displaced(&taken, too_many);
                if too_many > 0 && worth <= displaced {
                    placements[i].why = format!("{heat}; worth less than what it might displace from {name}");
                    rest.push(i);
                    continue;
                }
                used = used.saturating_add(size.0);
                let before = taken.last().copied().unwrap_or((0, 0.0));
                taken.push((before.0 + size.0, before.1 + worth));
                placements[i].tier = k;
                placements[i].why = match too_many {
                    0 => format!("{heat}; fits in {name}"),
                    _ => format!("{heat}; over-fills {name}, and is worth more than what it might displace"),
                };
            }
            left = rest;
        }
        Ok(Decision::of(placements))
    }
}

/// What the hottest sites that hold at least `bytes` are worth together; `sums` of bytes and worth, hottest first.
fn displaced(sums: &[(u64, f64)], bytes: u64) -> f64 {
    if bytes == 0 {
        return 0.0;
    }
    let first = sums.partition_point(|s| s.0 < bytes);
    sums.get(first).or(sums.last()).map_or(0.0, |s| s.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hottest_sites_that_hold_so_many_bytes() {
        let sums = [(10, 100.0), (30, 150.0), (60, 200.0)];
        assert_eq!(
            [0, 1, 10, 11, 30, 60, 99].map(|b| displaced(&sums, b)),
            [0.0, 100.0, 100.0, 150.0, 150.0, 200.0, 200.0]
        );
    }
}
