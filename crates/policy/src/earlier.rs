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
use crate::cost::Shares;
use crate::schedule::{Place, Step, steps};

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
    // First what makes room. Either way each change leads in the same direction, so that it ends.
    for down in [true, false] {
        let mut changed = true;
        while changed {
            changed = false;
            for segment in (1..at.len()).rev() {
                let Some(next) = segments.next(segment) else { continue };
                for &site in &moved {
                    let (here, there) = (at[segment][site], at[next][site]);
                    let leads =
                        if down { there.slowness() > here.slowness() } else { there.slowness() < here.slowness() };
                    if !leads || uses.has(site, segment) {
                        continue;
                    }
                    at[segment][site] = there;
                    match fits(task, &at[segment]) {
                        true => changed = true,
                        false => at[segment][site] = here,
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

/// Whether all tiers have room for sites in these places, at every moment of the run.
fn fits(task: &Task<'_>, places: &[Place]) -> bool {
    let tiers = task.tiers.len();
    let mut shares = Shares::all_in(task.slowest(), task.sites(), tiers);
    places.iter().enumerate().for_each(|(site, place)| shares.split(site, &place.shares(tiers)));
    (0..tiers).all(|k| task.tiers[k].budget.is_none_or(|b| task.lives().peak_in(k, &shares) <= b.0))
}

/// With what a phase uses that was moved before it: the program's runtime is to know that it is waited for from then on. (In a loop each phase tells all of its sites' places.)
fn told(task: &Task<'_>, at: &[Vec<Place>], mut steps: Vec<Step>) -> Vec<Step> {
    let mut ahead: Vec<usize> = Vec::new();
    for segment in 1..at.len() {
        let moved: Vec<usize> =
            steps.iter().filter(|s| s.segment == segment).flat_map(|s| &s.moves).map(|m| m.0).collect();
        ahead.retain(|site| !moved.contains(site));
        let (now, later) = ahead.into_iter().partition(|&site| task.uses().has(site, segment));
        ahead = later;
        ahead.extend(moved.into_iter().filter(|&site| !task.uses().has(site, segment)));
        let now: Vec<usize> = now;
        if now.is_empty() {
            continue;
        }
        let moves = now.into_iter().map(|site| (site, at[segment][site]));
        match steps.iter_mut().find(|s| s.segment == segment) {
            Some(step) => step.moves.extend(moves),
            None => steps.push(Step { segment, moves: moves.collect() }),
        }
    }
    steps.sort_by_key(|s| s.segment);
    steps
}
