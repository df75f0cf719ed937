//! `exact`: the placement with the least predicted time, by a mixed-integer program, with a proof of how far it may be off.
//!
//! For every site *s* and tier *k* a binary `x(s,k)`, exactly one of a site's being 1; for every interval *i* a time `T(i)`:
//!
//! ```text
//! least  sum of T(i)
//! T(i) >= C(i) + sum over s, k of  l(k) * waits(s,i) * x(s,k)                              latency
//! T(i) >= busy(k, lines read and written by the sites in k)        for each k           bandwidth: three linear functions
//! sum over the sites s alive at m of  bytes(s,m) * x(s,k) <= budget(k)   for each k and moment m
//! ```
//!
//! That is the cost model ([`crate::cost`]) with one difference: the latency `l(k)` is a number and does not depend on how busy
//! the tier is. Solved once with idle latencies, the solver's lower bound is a lower bound of the model's time for every placement,
//! since load only makes latencies longer: this is what the *gap* is proven against. Solved again with the latencies under the load
//! of the best placement so far, it finds better ones. What any other policy decides is a candidate too; the one with the least
//! time by the whole model is taken. So this is never predicted to be slower than another policy.
//!
//! Intervals are taken together where there are many, which keeps the bound valid (the largest of sums is at most the sum of the
//! largest). The solver is HiGHS (Huangfu and Hall, Parallelizing the dual revised simplex method, Mathematical Programming
//! Computation 10, 2018), and stops after [`LIMIT`] altogether.
//!
//! A plan places whole sites, so whole sites are decided. How much splitting sites between tiers (which uses both buses at once) could
//! gain is said in a note, from the same program without the condition that `x` is whole.

use super::density::cold;
use crate::cost::landing;
use crate::cost::step::Load;
use crate::{Decision, Error, Policy, Task};
use highs::{HighsModelStatus, HighsSolutionStatus, RowProblem, Sense};
use model::Bytes;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Most time for one plan.
pub const LIMIT: Duration = Duration::from_secs(10);
/// Of it for the first solution, which proves the bound.
const FIRST: f64 = 0.6;
/// Good enough: the gap at which the solver stops.
const GAP: f64 = 1e-4;
/// Most entries of the program's matrix from intervals, and fewest and most groups of intervals.
const ENTRIES: usize = 60_000;
const GROUPS: std::ops::RangeInclusive<usize> = 4..=64;

/// The mixed-integer program.
pub struct Exact;

impl Policy for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }
    fn summary(&self) -> &'static str {
        "the least predicted time there is, with a proof of how far off it may be"
    }
    fn source(&self) -> &'static str {
        "a mixed-integer program over the cost model (docs/planner.md), solved by HiGHS"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        Ok(solve(task, LIMIT)?.decision)
    }
}

/// The best placement and what is known of it.
pub struct Solved {
    /// The placement.
    pub decision: Decision,
    /// Its predicted time, in ns.
    pub time: f64,
    /// No placement of whole sites is predicted to take less than this, in ns.
    pub bound: f64,
    /// Nor one that splits sites.
    pub split_bound: f64,
}

/// Solves a task within a time.
///
/// # Errors
/// If all tiers together hold less than is alive at once.
pub fn solve(task: &Task<'_>, limit: Duration) -> Result<Solved, Error> {
    let began = Instant::now();
    feasible(task)?;
    // Better of two: that which fits, then the shorter time.
    let mut best: Option<(Vec<usize>, f64, String)> = None;
    let mut consider = |at: Vec<usize>, by: &str| {
        let time = task.time(&at);
        if best.as_ref().is_none_or(|b| time < b.1) {
            best = Some((at, time, by.to_string()));
        }
    };
    consider(vec![task.slowest(); task.sites()], "everything slow");
    for policy in super::ALL.iter().filter(|p| p.name() != "exact") {
        consider(policy.place(task)?.tiers(), policy.name());
    }
    let program = Program::of(task);
    let left = |share: f64| limit.mul_f64(share).saturating_sub(began.elapsed()).as_secs_f64().max(0.1);
    let idle = vec![0.0; task.tiers.len() * program.groups.len()];
    let split_bound = program.solve(&idle, false, left(FIRST / 2.0)).bound.max(program.least());
    let first = program.solve(&idle, true, left(FIRST));
    let bound = first.bound.max(split_bound);
    if let Some(at) = first.at {
        consider(at, "exact");
    }
    // Again with the latencies as they are under the load of the best so far.
    for _ in 0..2 {
        let Some((at, _, _)) = best.clone() else { break };
        if began.elapsed() >= limit.mul_f64(FIRST + (1.0 - FIRST) / 2.0) {
            break;
        }
        let again = program.solve(&program.loads(task, &at), true, left(1.0));
        let mut consider = |at: Vec<usize>| {
            let time = task.time(&at);
            match &best {
                Some(b) if time >= b.1 => false,
                _ => {
                    best = Some((at, time, "exact".to_string()));
                    true
                }
            }
        };
        if !again.at.is_some_and(&mut consider) {
            break;
        }
    }
    let Some((at, time, by)) = best else { unreachable!("everything slow was considered") };
    Ok(solved(task, &at, time, &by, bound.min(time), split_bound.min(time)))
}

/// Refuses what cannot fit.
fn feasible(task: &Task<'_>) -> Result<(), Error> {
    let Some(has) = task.tiers.iter().map(|t| t.budget.map(|b| b.0)).try_fold(0u64, |a, b| Some(a.saturating_add(b?)))
    else {
        return Ok(());
    };
    match task.lives().peak(|_| true) {
        needs if needs > has => {
            Err(Error::Infeasible { platform: task.platform.clone(), needs: Bytes(needs), has: Bytes(has) })
        }
        _ => Ok(()),
    }
}

fn solved(task: &Task<'_>, at: &[usize], time: f64, by: &str, bound: f64, split_bound: f64) -> Solved {
    let mut placements = cold(task);
    for i in 0..task.sites() {
        let site = &task.observed.sites[i];
        placements[i].tier = at[i];
        if site.misses() > 0.0 {
            placements[i].value = site.misses_per_byte();
            placements[i].why = match at[i] {
                k if k == task.slowest() => "others save more time in the room it would take".to_string(),
                k => format!("in {} with the others there: the least predicted time", task.tiers[k].tier.name),
            };
        }
    }
    let percent = |bound: f64| if time > 0.0 { (time - bound) / time * 100.0 } else { 0.0 };
    let mut notes = vec![format!(
        "At most {:.2} % above the least time that any placement of whole sites is predicted to take.",
        percent(bound)
    )];
    if by != "exact" {
        notes.push(format!("The placement is that of {by}; the solver found no better one."));
    }
    if percent(split_bound) - percent(bound) >= 0.5 {
        notes.push(format!(
            "Splitting sites between tiers, which a plan cannot say, might save up to {:.1} %.",
            percent(split_bound)
        ));
    }
    Solved { decision: Decision { placements, notes }, time, bound, split_bound }
}

/// Intervals taken together.
struct Group {
    compute: f64,
    /// What sites ask for: of each site one entry.
    uses: Vec<(usize, Load)>,
}

/// The program without its latencies.
struct Program<'a> {
    task: &'a Task<'a>,
    /// Sites that are decided, and their numbers among them.
    sites: Vec<usize>,
    groups: Vec<Group>,
    /// Which interval went into which group.
    group_of: Vec<usize>,
    scale: f64,
}

/// What the solver says.
struct Answer {
    /// The tier of every site, if it found any placement.
    at: Option<Vec<usize>>,
    /// Lower bound of the time, in ns.
    bound: f64,
}

impl<'a> Program<'a> {
    fn of(task: &'a Task<'a>) -> Program<'a> {
        let model = task.model();
        let mut sites = task.candidates();
        // With a limited slowest tier what is cold needs a place too.
        if task.tiers[task.slowest()].budget.is_some() {
            sites = (0..task.sites()).filter(|&i| task.size(i).0 > 0).collect();
        }
        let most = (ENTRIES / sites.len().max(1)).clamp(*GROUPS.start(), *GROUPS.end());
        let group_of = grouped(model, most);
        let count = group_of.iter().max().map_or(0, |g| g + 1);
        let mut groups: Vec<(f64, HashMap<usize, Load>)> = vec![Default::default(); count];
        for (interval, &g) in model.demand.intervals.iter().zip(&group_of) {
            groups[g].0 += interval.compute;
            for u in &interval.uses {
                groups[g].1.entry(u.site).or_default().add(u, interval.overlap, 1.0);
            }
        }
        let groups = groups
            .into_iter()
            .map(|(compute, uses)| {
                let mut uses: Vec<(usize, Load)> = uses.into_iter().collect();
                uses.sort_by_key(|u| u.0);
                Group { compute, uses }
            })
            .collect();
        let scale = model.all_in(task.slowest()).max(1.0) / 1000.0;
        Program { task, sites, groups, group_of, scale }
    }

    /// What holds even if all of it were in the tier with the least latency, and no bus ever full: a bound where the solver had no
    /// time for a better one.
    fn least(&self) -> f64 {
        let latency = self.task.model().memories.iter().map(|m| m.latency(0.0)).fold(f64::INFINITY, f64::min);
        let waits = |g: &Group| g.uses.iter().map(|(_, load)| load.waits).sum::<f64>();
        self.groups.iter().map(|g| g.compute + waits(g) * latency).sum()
    }

    /// How busy each tier is in each group with this placement, 0 to 1.
    fn loads(&self, task: &Task<'_>, at: &[usize]) -> Vec<f64> {
        let model = task.model();
        let times = model.predict(&landing::shares(task, at)).intervals;
        let mut length = vec![0.0; self.groups.len()];
        for (&g, time) in self.group_of.iter().zip(times) {
            length[g] += time;
        }
        let mut out = Vec::new();
        for (group, length) in self.groups.iter().zip(length) {
            for (k, memory) in model.memories.iter().enumerate() {
                let (mut reads, mut writes) = (0.0, 0.0);
                for (_, load) in group.uses.iter().filter(|(s, _)| at[*s] == k) {
                    reads += load.reads;
                    writes += load.writes;
                }
                out.push(if length > 0.0 { (memory.busy(reads, writes) / length).min(1.0) } else { 0.0 });
            }
        }
        out
    }

    /// Solves with the latencies at these loads (by group and tier), whole sites or shares of them.
    fn solve(&self, loads: &[f64], whole: bool, seconds: f64) -> Answer {
        let (task, model) = (self.task, self.task.model());
        let (tiers, last) = (task.tiers.len(), task.slowest());
        let mut p = RowProblem::default();
        // The slowest tier has what the others leave, so it needs no variable.
        let x: Vec<Vec<highs::Col>> = self
            .sites
            .iter()
            .map(|_| {
                let column = |_| if whole { p.add_integer_column(0.0, 0..=1) } else { p.add_column(0.0, 0.0..=1.0) };
                (0..last).map(column).collect()
            })
            .collect();
        let number: HashMap<usize, usize> = self.sites.iter().enumerate().map(|(n, &s)| (s, n)).collect();
        if last > 1 {
            for x in &x {
                p.add_row(..=1.0, x.iter().map(|&c| (c, 1.0)));
            }
        }
        for (g, group) in self.groups.iter().enumerate() {
            let t = p.add_column(1.0, 0.0..);
            let latency: Vec<f64> =
                (0..tiers).map(|k| model.memories[k].latency(loads[g * tiers + k]) / self.scale).collect();
            let mut row = vec![(t, 1.0)];
            let mut least = group.compute / self.scale;
            for (site, load) in &group.uses {
                least += load.waits * latency[last];
                if let Some(&n) = number.get(site) {
                    row.extend((0..last).map(|k| (x[n][k], load.waits * (latency[last] - latency[k]))));
                }
            }
            p.add_row(least.., row);
            for (k, memory) in model.memories.iter().enumerate() {
                let (read, write, stretch) = memory.per_line();
                // The bus is busy for the largest of these: both directions together, and each alone.
                for (read, write) in [(read / stretch, write / stretch), (read, 0.0), (0.0, write)] {
                    let mut row = vec![(t, 1.0)];
                    let mut least = 0.0;
                    for (site, load) in &group.uses {
                        let time = (load.reads * read + load.writes * write) / self.scale;
                        if time <= 0.0 {
                            continue;
                        }
                        if k == last {
                            least += time;
                        }
                        let Some(&n) = number.get(site) else { continue };
                        if k == last {
                            row.extend(x[n].iter().map(|&c| (c, time)));
                        } else {
                            row.push((x[n][k], -time));
                        }
                    }
                    if row.len() > 1 || least > 0.0 {
                        p.add_row(least.., row);
                    }
                }
            }
        }
        for (k, tier) in task.tiers.iter().enumerate() {
            let Some(Bytes(budget)) = tier.budget else { continue };
            let unit = budget.max(1) as f64;
            for moment in &task.lives().moments {
                let mut row = Vec::new();
                let mut most = 1.0;
                for (site, bytes) in moment {
                    let bytes = *bytes as f64 / unit;
                    match number.get(site) {
                        Some(&n) if k == last => {
                            row.extend(x[n].iter().map(|&c| (c, -bytes)));
                            most -= bytes;
                        }
                        Some(&n) => row.push((x[n][k], bytes)),
                        None if k == last => most -= bytes,
                        None => {}
                    }
                }
                p.add_row(..=most, row);
            }
        }
        let mut solver = p.optimise(Sense::Minimise);
        solver.make_quiet();
        solver.set_option("time_limit", seconds);
        solver.set_option("mip_rel_gap", GAP);
        solver.set_option("threads", 1);
        let Ok(solved) = solver.try_solve() else { return Answer { at: None, bound: 0.0 } };
        let found = solved.primal_solution_status() == HighsSolutionStatus::Feasible;
        let bound = match (whole, solved.status()) {
            (true, _) => solved.double_info_value(c"mip_dual_bound").unwrap_or(0.0),
            (false, HighsModelStatus::Optimal) => solved.objective_value(),
            (false, _) => 0.0,
        };
        let at = (whole && found).then(|| {
            let columns = solved.get_solution().columns().to_vec();
            let mut at = vec![last; task.sites()];
            for (n, &site) in self.sites.iter().enumerate() {
                at[site] = (0..last).find(|&k| columns[x[n][k].index()] > 0.5).unwrap_or(last);
            }
            at
        });
        Answer { at, bound: if bound.is_finite() { bound.max(0.0) * self.scale } else { 0.0 } }
    }
}

/// For each interval its group: one each if they are few, else those together in which the same site asks for most.
fn grouped(model: &crate::cost::Model, most: usize) -> Vec<usize> {
    let intervals = &model.demand.intervals;
    if intervals.len() <= most {
        return (0..intervals.len()).collect();
    }
    let leader = |i: usize| {
        intervals[i].uses.iter().max_by(|a, b| a.lines().total_cmp(&b.lines())).map_or(usize::MAX, |u| u.site)
    };
    let mut lines: HashMap<usize, f64> = HashMap::new();
    for (i, interval) in intervals.iter().enumerate() {
        *lines.entry(leader(i)).or_default() += interval.uses.iter().map(|u| u.lines()).sum::<f64>();
    }
    let mut leaders: Vec<(usize, f64)> = lines.into_iter().collect();
    leaders.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let number: HashMap<usize, usize> = leaders.iter().enumerate().map(|(n, l)| (l.0, n.min(most - 1))).collect();
    (0..intervals.len()).map(|i| number[&leader(i)]).collect()
}
