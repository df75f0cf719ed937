//! When moves start: as early as what they move is not used any more, as Unimem's helper thread does (Wu, Huang, Li: Unimem, SC 2017,
//! section 3.1.2 with Figure 5, and 3.1.3).
//!
//! A schedule says where sites are in each phase. Where a phase does not use a site ([`crate::cost::uses`]), the site may as well already be where the next
//! phase has it: what has to leave leaves when the last phase that used it has ended, and what is wanted comes as soon as there is room for
//! it. So what is moved is moved beside the program's work on something else. Only when moves start changes, not how a phase
//! that uses a site finds it; so a schedule is decided on as before, and put earlier afterwards.
//!
//! On one processor whoever moves takes the program's time, early or late, and nothing changes.

use crate::Task;
use crate::schedule::{Place, Step, steps};
use std::collections::HashMap;

/// The same steps, as early as they can be, of sites that are in these places at first.
pub fn earlier(task: &Task<'_>, first: &[Place], late: Vec<Step>) -> Vec<Step> {
    if late.is_empty() || task.model().alone {
        return late;
    }
    let (segments, uses) = (task.segments(), task.uses());
    let mut at = places(segments.len(), first, &late);
    let mut moved: Vec<usize> = late.iter().flat_map(|s| &s.moves).map(|(site, _)| *site).collect();
    moved.sort_unstable();
    moved.dedup();
    // What is worth most has the room first.
    task.by_density(&mut moved, 0);
    let mut rooms: Vec<Rooms> = at.iter().map(|places| Rooms::of(task, places)).collect();
    let alive = alive(task, &moved);
    // First what makes room. Either way each change leads in the same direction, so that it ends.
    for down in [true, false] {
        let mut changed = true;
        while changed {
            changed = false;
            for segment in (1..at.len()).rev() {
                let Some(next) = segments.next(segment) else { continue };
                for (&site, alive) in moved.iter().zip(&alive) {
                    let (here, there) = (at[segment][site], at[next][site]);
                    let (from, to) = (here.slowness(), there.slowness());
                    let leads = if down { to > from } else { to < from };
                    if leads && !uses.has(site, segment) && rooms[segment].take(task, alive, here, there) {
                        at[segment][site] = there;
                        changed = true;
                    }
                }
            }
        }
    }
    told(task, &at, steps(segments, &at))
}

/// Where each site is in each phase.
fn places(segments: usize, first: &[Place], steps: &[Step]) -> Vec<Vec<Place>> {
    let mut now = first.to_vec();
    let mut of = |segment: usize| {
        for &(site, to) in steps.iter().filter(|s| s.segment == segment).flat_map(|s| &s.moves) {
            now[site] = to;
        }
        now.clone()
    };
    (0..segments).map(&mut of).collect()
}

/// Of some sites, at which moments of the run ([`crate::cost::lives`]) they are alive, with so many bytes.
fn alive(task: &Task<'_>, sites: &[usize]) -> Vec<Vec<(usize, f64)>> {
    let number: HashMap<usize, usize> = sites.iter().enumerate().map(|(n, &site)| (site, n)).collect();
    let mut out = vec![Vec::new(); sites.len()];
    for (moment, alive) in task.lives().moments.iter().enumerate() {
        for (site, bytes) in alive {
            number.get(site).into_iter().for_each(|&n| out[n].push((moment, *bytes as f64)));
        }
    }
    out
}

/// How full each tier is in a phase, at each moment of the run.
struct Rooms(Vec<Vec<f64>>);

impl Rooms {
    fn of(task: &Task<'_>, places: &[Place]) -> Rooms {
        let shares: Vec<Vec<f64>> = places.iter().map(|place| place.shares(task.tiers.len())).collect();
        let bytes = |k: usize, alive: &[(usize, u64)]| alive.iter().map(|(s, b)| *b as f64 * shares[*s][k]).sum();
        Rooms((0..task.tiers.len()).map(|k| task.lives().moments.iter().map(|m| bytes(k, m)).collect()).collect())
    }

    /// Gives a site, which is alive at these moments, another place, if there is room for it at all of them.
    fn take(&mut self, task: &Task<'_>, alive: &[(usize, f64)], from: Place, to: Place) -> bool {
        let (from, to) = (from.shares(self.0.len()), to.shares(self.0.len()));
        let more = |k: usize, bytes: f64| bytes * (to[k] - from[k]);
        let fits = |k: usize| {
            let budget = task.tiers[k].budget.map_or(f64::INFINITY, |b| b.0 as f64);
            alive.iter().all(|&(m, bytes)| more(k, bytes) <= 0.0 || (self.0[k][m] + more(k, bytes)).floor() <= budget)
        };
        let all = (0..self.0.len()).all(fits);
        if all {
            for (k, tier) in self.0.iter_mut().enumerate() {
                alive.iter().for_each(|&(m, bytes)| tier[m] += more(k, bytes));
            }
        }
        all
    }
}

/// The same steps, and in each phase that first uses what was moved before it, that once more: from then on it is wanted, and the runtime is to know.
/// (In a loop each phase tells the places of all sites that ever move.)
fn told(task: &Task<'_>, at: &[Vec<Place>], mut steps: Vec<Step>) -> Vec<Step> {
    let mut ahead: Vec<usize> = Vec::new();
    for (segment, places) in at.iter().enumerate().skip(1) {
        let n = steps.partition_point(|s| s.segment < segment);
        if steps.get(n).is_none_or(|s| s.segment != segment) {
            steps.insert(n, Step { segment, moves: Vec::new() });
        }
        let step = &mut steps[n];
        ahead.retain(|site| step.moves.iter().all(|(moved, _)| moved != site));
        let uses = |site: &usize| task.uses().has(*site, segment);
        let moves = step.moves.iter().map(|(site, _)| *site).filter(|site| !uses(site)).collect::<Vec<_>>();
        let (wanted, later): (Vec<usize>, Vec<usize>) = ahead.into_iter().partition(uses);
        step.moves.extend(wanted.into_iter().map(|site| (site, places[site])));
        ahead = later.into_iter().chain(moves).collect();
    }
    steps.retain(|s| !s.moves.is_empty());
    steps
}
