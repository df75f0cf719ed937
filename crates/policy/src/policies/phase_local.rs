//! `phase-local`: Unimem's phase-local search: phase by phase, knowing what the phases before have left in fast memory.
//!
//! (Wu, Huang, Li: Unimem, SC 2017, sections 3.1.2 and 3.1.3; see [`crate::phases`].) The phases are the segments of the profile's run
//! ([`crate::cost::segments`]), run once; where they are those of a loop, it is the loop, and what is around it stays as it begins and ends. The fastest tier is Unimem's DRAM, the slowest its NVM; CF_bw = CF_lat = 1 as long as no machine
//! says otherwise. Sites whose objects cannot be moved stay in the slowest tier.

use super::density::cold;
use crate::cost::segments::Repeat;
use crate::phases::{Access, Loop, Machine, Phase, Schedule};
use crate::schedule::{Place, can_move, steps};
use crate::{Decision, Error, Policy, Task};
use model::Bytes;
use std::ops::Range;

/// Most sites that compete, those with most misses: the paper's programs have a few dozen objects, and there is a knapsack for each phase.
const MOST: usize = 256;

/// Unimem's local search.
pub struct PhaseLocal;

impl Policy for PhaseLocal {
    fn name(&self) -> &'static str {
        "phase-local"
    }
    fn summary(&self) -> &'static str {
        "for each phase what saves most in it, less what moving it costs"
    }
    fn source(&self) -> &'static str {
        "Unimem (Wu et al., SC 2017), sections 3.1.2 and 3.1.3: phase-local search"
    }
    fn needs_phases(&self) -> bool {
        true
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let run = Run::of(task);
        Ok(run.decision(task, &run.phases.phase_local(&run.machine)))
    }
}

/// The machine as Unimem sees it.
pub fn machine(task: &Task<'_>) -> Machine {
    let memories = &task.model().memories;
    Machine {
        slow: memories[task.slowest()].clone(),
        fast: memories[0].clone(),
        room: task.tiers[0].budget.unwrap_or(Bytes(u64::MAX)),
        cf_bw: 1.0,
        cf_lat: 1.0,
    }
}

/// The run as a loop, of one iteration if it is none.
pub struct Run {
    /// Its phases, whose objects are sites.
    pub phases: Loop,
    /// The segments that these are.
    body: Range<usize>,
    /// The machine.
    pub machine: Machine,
    /// The sites, in the order of the objects.
    sites: Vec<usize>,
}

impl Run {
    /// The run of a task.
    pub fn of(task: &Task<'_>) -> Run {
        let mut sites: Vec<usize> = task.candidates().into_iter().filter(|&s| can_move(task, s)).collect();
        sites.sort_by(|&a, &b| task.observed.sites[b].misses().total_cmp(&task.observed.sites[a].misses()));
        sites.truncate(MOST);
        sites.sort_unstable();
        let mut object = vec![None; task.sites() + 1];
        sites.iter().enumerate().for_each(|(n, &s)| object[s] = Some(n));
        let demand = &task.model().demand;
        let all = task.segments().len();
        let repeat = task.segments().repeat.clone().unwrap_or(Repeat { body: 0..all, began: all });
        let phase = |segment: usize| {
            let times = repeat.times(segment) as f64;
            // What nobody saw the time of is no part of a phase.
            let seen = |i: &&usize| **i < task.observed.timeline.len().max(1);
            let intervals = || task.segments()[segment].intervals.iter().filter(seen).map(|&i| &demand.intervals[i]);
            let mut lines = vec![0.0; sites.len()];
            for u in intervals().flat_map(|i| &i.uses) {
                object[u.site].into_iter().for_each(|n| lines[n] += u.lines() / times);
            }
            let used = lines.into_iter().enumerate().filter(|(_, lines)| *lines > 0.0);
            Phase {
                time: intervals().map(|i| i.length).sum::<f64>() / times,
                accesses: used.map(|(object, lines)| Access { object, lines, share: 1.0 }).collect(),
            }
        };
        let phases = Loop {
            sizes: sites.iter().map(|&s| task.size(s)).collect(),
            phases: repeat.body.clone().map(phase).collect(),
            iterations: repeat.times(repeat.body.start),
        };
        Run { phases, body: repeat.body, machine: machine(task), sites }
    }

    /// What a schedule of these phases decides.
    pub fn decision(&self, task: &Task<'_>, schedule: &Schedule) -> Decision {
        let name = &task.tiers[0].tier.name;
        // What is before a loop and behind it stays as the loop begins and ends.
        let of_loop = |segment: usize| segment.clamp(self.body.start, self.body.end - 1) - self.body.start;
        let by_segment: Vec<Vec<Place>> = (0..task.segments().len())
            .map(|segment| &schedule.fast[of_loop(segment)])
            .map(|fast| {
                let mut at = vec![Place::whole(task.slowest()); task.sites()];
                self.sites.iter().zip(fast).filter(|(_, fast)| **fast).for_each(|(&s, _)| at[s] = Place::whole(0));
                at
            })
            .collect();
        let mut placements = cold(task);
        for (n, &site) in self.sites.iter().enumerate() {
            let in_fast = schedule.fast.iter().filter(|fast| fast[n]).count();
            let of = schedule.fast.len();
            let p = &mut placements[site];
            p.tier = by_segment[0][site].tier;
            p.value = task.observed.sites[site].misses_per_byte();
            p.why = match in_fast {
                0 => format!("in no phase worth the room in {name}"),
                n if n == of => format!("worth the room in {name} all along"),
                n => format!("in {name} in {n} of {of} phases"),
            };
        }
        Decision { placements, steps: steps(task.segments(), &by_segment), notes: Vec::new() }
    }
}
