//! `density`: the base placement of ecoHMEM, a greedy relaxation of the 0/1 multiple knapsack problem.
//!
//! The tiers are the knapsacks, filled one after the other from the fastest to the slowest. For each, the sites that
//! are left are sorted by value, and taken in that order if they still fit; a site larger than what is left is passed
//! over and the next is tried. The value is
//!
//! ```text
//! (load coefficient * load misses + store coefficient * store misses) / size
//! ```
//!
//! (M. Jordà, S. Rai, E. Ayguadé, J. Labarta, A. J. Peña: "ecoHMEM: Improving Object Placement Methodology for Hybrid
//! Memory Systems in HPC", IEEE CLUSTER 2022, sections IV.B and V.) The slowest tier takes the rest. A site without
//! misses goes there at once: it would only take room from sites not seen yet.
//!
//! The paper gives each tier a pair of coefficients and leaves open which pair weighs the sites that compete for a
//! tier. Here it is the pair of the *next slower* tier: a site that is not taken has its misses served there, so that
//! is what taking it saves. With Optane below DRAM, whose writes are far slower than its reads, stores therefore
//! count more in the competition for DRAM, which is what section V introduces them for.

use crate::{Decision, Error, Placement, Policy, Task};
use model::units::significant;
use model::{Bytes, Coefficients, SiteUse};

/// The base placement of ecoHMEM.
pub struct Density;

impl Policy for Density {
    fn name(&self) -> &'static str {
        "density"
    }
    fn summary(&self) -> &'static str {
        "the most misses per byte go to the fastest tier they fit in"
    }
    fn source(&self) -> &'static str {
        "ecoHMEM (Jordà et al., CLUSTER 2022), sections IV.B and V: base placement"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        Ok(Decision::of(fill(task)))
    }
}

/// One placement for each site, in the order of the profile.
pub(super) fn fill(task: &Task<'_>) -> Vec<Placement> {
    let default = task.slowest();
    let mut placements = cold(task);
    let mut left = task.candidates();
    let candidates = left.len();
    for (k, tier) in task.tiers.iter().enumerate() {
        let placed = candidates - left.len();
        task.by_density(&mut left, k);
        let mut room = tier.budget;
        let mut passed_over = Vec::new();
        for (rank, i) in left.into_iter().enumerate() {
            let size = task.size(i);
            let heat = heat(&task.observed.sites[i], size, task.weights(k), placed + rank + 1);
            placements[i].value = task.worth(i, k) / size.0 as f64;
            match room {
                Some(free) if size > free && k < default => {
                    let full = format!("does not fit in the {free} left of {}", tier.tier.name);
                    placements[i].why =
                        if k == 0 { format!("{heat}; {full}") } else { format!("{}, {full}", placements[i].why) };
                    passed_over.push(i);
                }
                _ => {
                    placements[i].tier = k;
                    room = room.map(|free| free - size);
                    if k == 0 {
                        placements[i].why = format!("{heat}; fits in {}", tier.tier.name);
                    }
                }
            }
        }
        left = passed_over;
    }
    placements
}

/// Every site in the slowest tier, where those stay that no policy by misses looks at.
pub(super) fn cold(task: &Task<'_>) -> Vec<Placement> {
    let cold =
        |_| Placement { tier: task.slowest(), split: None, value: 0.0, why: "no misses were seen on it".to_string() };
    (0..task.sites()).map(cold).collect()
}

/// "0.84 misses/byte, 3rd densest", with the weight of stores where it is not that of loads.
pub(super) fn heat(site: &SiteUse, size: Bytes, weights: Coefficients, rank: usize) -> String {
    let density = site.misses() / size.0 as f64;
    let stores = match (weights.store / weights.load, site.store_misses > 0.0) {
        (ratio, true) if ratio.is_finite() && (ratio - 1.0).abs() >= 0.05 => format!(" (stores count {ratio:.1}x)"),
        (ratio, true) if ratio.is_infinite() => " (only stores count)".to_string(),
        _ => String::new(),
    };
    format!("{} misses/byte{stores}, {} densest", significant(density), ordinal(rank))
}

/// 1st, 2nd, 3rd, 4th, 11th, 21st.
pub(super) fn ordinal(n: usize) -> String {
    let suffix = match (n % 10, n % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{n}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinals() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].into_iter().map(ordinal).collect();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd", "111th"]);
    }
}
