//! `phase-global`: Unimem's cross-phase global search: all phases as one, by what being fast saves in each.
//!
//! (Wu, Huang, Li: Unimem, SC 2017, sections 3.1.2 and 3.1.3; see [`crate::phases`].) The profile's intervals are the phases: they are finer than
//! its segments, and nothing moves between them. In each, a site's accesses are sensitive to bandwidth or to latency (Equation 1, t1 = 80 %,
//! t2 = 10 %), which gives its benefit (Equations 2 and 3, with CF_bw = CF_lat = 1 as long as no machine says otherwise); sums over all
//! phases are the values of a knapsack. Sites are placed when they are allocated, so Equation 4 is 0 here, where Unimem moves what it takes: that, and
//! that all sites compete, also those that cannot be moved, sets it apart from the global half of `unimem`. The fastest
//! tier is Unimem's DRAM, the slowest its NVM.

use super::density::cold;
use super::phase_local::machine;
use crate::cost::demand::{Interval, Use};
use crate::phases::{Access, Loop, Phase};
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
        let machine = machine(task);
        let sites = task.candidates();
        let mut object = vec![None; task.sites() + 1];
        sites.iter().enumerate().for_each(|(n, &s)| object[s] = Some(n));
        let access = |u: &Use| Some(Access { object: object[u.site]?, lines: u.lines(), share: 1.0 });
        let phase = |i: &Interval| Phase { time: i.length, accesses: i.uses.iter().filter_map(access).collect() };
        let run = Loop {
            sizes: sites.iter().map(|&s| task.size(s)).collect(),
            phases: task.model().demand.intervals.iter().map(phase).collect(),
            iterations: 1,
        };
        let benefits = run.benefits(&machine);
        let mut placements = cold(task);
        let name = &task.tiers[0].tier.name;
        for ((&i, &benefit), fast) in sites.iter().zip(&benefits).zip(run.heaviest(&machine, &benefits)) {
            let saves = format!("being fast would save {:.2} ms", benefit / 1e6);
            placements[i].value = benefit / task.size(i).0 as f64;
            (placements[i].tier, placements[i].why) = match fast {
                true => (0, format!("{saves}; one of the set that saves most in {name}")),
                false => (task.slowest(), format!("{saves}; the set that saves most in {name} is without it")),
            };
        }
        Ok(Decision::of(placements))
    }
}
