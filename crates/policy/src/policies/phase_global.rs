//! `phase-global`: Unimem's cross-phase global search: all phases as one, by what being fast saves in each.
//!
//! (Wu, Huang, Li: Unimem, SC 2017, sections 3.1.2 and 3.1.3; see [`crate::phases`].) The profile's intervals are the phases. In each, a
//! site's accesses are sensitive to bandwidth or to latency (Equation 1, t1 = 80 %, t2 = 10 %), which gives its benefit (Equations 2
//! and 3, with CF_bw = CF_lat = 1 as long as no machine says otherwise); sums over all phases are the values of a knapsack. The
//! sites of a plan are placed when they are allocated, so nothing moves and Equation 4 is 0. The fastest tier is Unimem's DRAM, the slowest
//! its NVM.

use super::density::cold;
use super::knapsack::choose;
use super::phase_local::machine;
use crate::phases::Access;
use crate::{Decision, Error, Policy, Task};

/// Unimem without moving.
pub struct PhaseGlobal;

impl Policy for PhaseGlobal {
    fn name(&self) -> &'static str {
        "phase-global"
    }
    fn summary(&self) -> &'static str {
        "what saves most over all phases, each by bandwidth or by latency"
    }
    fn source(&self) -> &'static str {
        "Unimem (Wu et al., SC 2017), sections 3.1.2 and 3.1.3: cross-phase global search"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let model = task.model();
        let machine = machine(task);
        let mut benefits = vec![0.0; task.sites()];
        for interval in &model.demand.intervals {
            for u in interval.uses.iter().filter(|u| u.site < task.sites()) {
                benefits[u.site] +=
                    machine.benefit(&Access { object: u.site, lines: u.lines(), share: 1.0 }, interval.length);
            }
        }
        let mut placements = cold(task);
        let mut order: Vec<usize> = task.candidates().into_iter().filter(|&i| benefits[i] > 0.0).collect();
        let density = |i: usize| benefits[i] / task.size(i).0 as f64;
        order.sort_by(|&a, &b| {
            density(b).total_cmp(&density(a)).then(task.observed.sites[a].site.id.cmp(&task.observed.sites[b].site.id))
        });
        let items: Vec<(u64, f64)> = order.iter().map(|&i| (task.size(i).0, benefits[i])).collect();
        for (&i, taken) in order.iter().zip(choose(&items, machine.room.0)) {
            let saves = format!("being fast would save {:.2} ms", benefits[i] / 1e6);
            let name = &task.tiers[0].tier.name;
            placements[i].value = density(i);
            (placements[i].tier, placements[i].why) = match taken {
                true => (0, format!("{saves}; one of the set that saves most in {name}")),
                false => (task.slowest(), format!("{saves}; the set that saves most in {name} is without it")),
            };
        }
        Ok(Decision::of(placements))
    }
}
