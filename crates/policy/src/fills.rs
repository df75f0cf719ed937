//! Schedules of fills, by dynamic programming: candidates for `exact`.
//!
//! The *fill* of a segment is what a greedy hand would have in the fastest tier while it runs: the sites that save most time per
//! byte in it, and of the first that does not fit as many 64ths as there is room for. In each segment of a run the fill of any segment
//! may be in place; which one, is decided such that the times of the segments and what moving costs in between are least together. All
//! of it is reckoned by the whole cost model, so parts of objects are judged as one processor uses them, one after the other, where the
//! mixed-integer program takes two tiers to work at once.

use crate::Task;
use crate::cost::{Shares, rest};
use crate::schedule::{self, Place, can_move, can_move_parts, take};
use model::Parts;

/// Sites that are tried in a fill, those with most misses.
const TRIED: usize = 64;

/// The places of all sites in each segment, of the best such schedule that begins with whole sites. Sites that cannot be moved are where
/// `fixed` has them.
pub fn best(task: &Task<'_>, fixed: &[usize]) -> Option<Vec<Vec<Place>>> {
    let segments = task.segments().len();
    let mut states: Vec<Vec<Place>> = Vec::new();
    let mut keep = |state: Vec<Place>| {
        if !states.contains(&state) {
            states.push(state);
        }
    };
    for segment in 0..segments {
        let fill = fill(task, fixed, segment);
        keep(fill.iter().map(|p| if p.tier == p.rest { *p } else { Place::whole(p.rest) }).collect());
        keep(fill);
    }
    // Most sites are in no fill.
    let differs = |site: &usize| states.iter().any(|state| state[*site] != states[0][*site]);
    let differing: Vec<usize> = (0..task.sites()).filter(differs).collect();
    // Time of each segment in each state.
    let times: Vec<Vec<f64>> = states.iter().map(|state| times(task, state)).collect();
    let whole = |state: &[Place]| state.iter().all(|p| p.tier == p.rest);
    let mut least: Vec<f64> =
        states.iter().zip(&times).map(|(s, t)| if whole(s) { t[0] } else { f64::INFINITY }).collect();
    let mut came_from: Vec<Vec<usize>> = Vec::new();
    for segment in 1..segments {
        // What leads from the end of a loop to its beginning is left out here; who takes the schedule reckons with it.
        let on = |p: &(usize, usize, f64)| p.1 == segment && p.0 < segment;
        let often = task.segments().passages().find(on).map_or(1.0, |p| p.2);
        let from = |to: usize| {
            let cost = |s: usize| moving(task, &differing, [&states[s], &states[to]], segment) * often;
            let costs = (0..states.len()).map(|s| (s, least[s] + cost(s)));
            costs.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there is a state")
        };
        let chosen: Vec<(usize, f64)> = (0..states.len()).map(from).collect();
        least = chosen.iter().zip(&times).map(|((_, cost), times)| cost + times[segment]).collect();
        came_from.push(chosen.into_iter().map(|(s, _)| s).collect());
    }
    let (mut at, time) = least.into_iter().enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let mut path = vec![at];
    for from in came_from.iter().rev() {
        at = from[at];
        path.push(at);
    }
    time.is_finite().then(|| path.into_iter().rev().map(|s| states[s].clone()).collect())
}

/// What is best in the fastest tier in a segment.
fn fill(task: &Task<'_>, fixed: &[usize], segment: usize) -> Vec<Place> {
    let slow = Place::whole(task.slowest());
    let movable = |site: usize| can_move(task, site);
    let mut places: Vec<Place> =
        (0..task.sites()).map(|s| if movable(s) { slow } else { Place::whole(fixed[s]) }).collect();
    let before = time(task, &shares(task, &places), segment);
    let mut candidates: Vec<usize> = task.candidates().into_iter().filter(|&s| movable(s)).collect();
    candidates.sort_by(|&a, &b| task.observed.sites[b].misses().total_cmp(&task.observed.sites[a].misses()));
    let mut with = shares(task, &places);
    let (fast, slowest) = (Place::whole(0).shares(task.tiers.len()), slow.shares(task.tiers.len()));
    let gain = |site: usize| {
        with.split(site, &fast);
        let saved = before - time(task, &with, segment);
        with.split(site, &slowest);
        (site, saved / task.size(site).0.max(1) as f64)
    };
    let mut gains: Vec<(usize, f64)> = candidates.into_iter().take(TRIED).map(gain).filter(|g| g.1 > 0.0).collect();
    gains.sort_by(|a, b| b.1.total_cmp(&a.1));
    let Some(budget) = task.tiers[0].budget else {
        gains.iter().for_each(|(s, _)| places[*s] = Place::whole(0));
        return places;
    };
    for (site, _) in gains {
        let room = budget.0.saturating_sub(task.lives().peak_in(0, &shares(task, &places)));
        let size = task.size(site).0;
        if size <= room {
            places[site] = Place::whole(0);
            continue;
        }
        let parts = (u128::from(room) * u128::from(Parts::OF) / u128::from(size.max(1))) as u32;
        if parts > 0 && can_move_parts(task, site) {
            places[site] = Place { tier: 0, parts, rest: task.slowest() };
        }
    }
    places
}

fn shares(task: &Task<'_>, places: &[Place]) -> Shares {
    let tiers = task.tiers.len();
    let mut shares = Shares::all_in(task.slowest(), task.sites(), tiers);
    places.iter().enumerate().for_each(|(site, place)| shares.split(site, &place.shares(tiers)));
    shares
}

/// Time of each segment with these places all along.
fn times(task: &Task<'_>, places: &[Place]) -> Vec<f64> {
    let mut shares = shares(task, places);
    rest::lands(task, &mut shares);
    (0..task.segments().len()).map(|segment| time(task, &shares, segment)).collect()
}

/// Time of a segment.
fn time(task: &Task<'_>, shares: &Shares, segment: usize) -> f64 {
    let model = task.model();
    let intervals = task.segments()[segment].intervals.iter().map(|&i| &model.demand.intervals[i]);
    intervals.map(|i| model.interval(i, shares)).sum()
}

/// What it takes to get from one to the other when a segment begins; these sites may be elsewhere then.
fn moving(task: &Task<'_>, sites: &[usize], [from, to]: [&[Place]; 2], segment: usize) -> f64 {
    let tiers = task.tiers.len();
    let changed = sites.iter().copied().filter(|&site| from[site] != to[site]);
    let cost = |site: usize| {
        let bytes = schedule::alive(task, site, segment);
        take(task, bytes, &from[site].shares(tiers), &to[site].shares(tiers)).1
    };
    changed.map(cost).sum()
}
