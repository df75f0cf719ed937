//! Placements that change while the program runs: what moves when a segment of the run begins, what that costs, and whether it
//! can be moved at all.

use crate::Task;
use crate::cost::segments::Segments;
use crate::cost::{Prediction, Shares, migration, rest};
use model::{Bytes, Parts, SiteKind};

/// Smallest object that the runtime moves.
pub const LEAST: Bytes = Bytes::kib(64);
/// Most objects of a site that is moved: each makes two more mappings of the process.
const MANY: u64 = 1024;
/// Most objects of a site that is moved in part: the runtime has few places to write down which.
const FEW: u64 = 4;

/// Where the objects of a site are: so many 64ths of each, the first ones, in a tier, and the others in another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The tier of the first ones.
    pub tier: usize,
    /// How many these are, 1 to 64.
    pub parts: u32,
    /// The tier of the others.
    pub rest: usize,
}

impl Place {
    /// All in one tier.
    pub fn whole(tier: usize) -> Place {
        Place { tier, parts: Parts::OF, rest: tier }
    }

    /// The shares in these tiers.
    pub fn shares(self, tiers: usize) -> Vec<f64> {
        let share = f64::from(self.parts) / f64::from(Parts::OF);
        let of = |k: usize| if k == self.tier { share } else { 0.0 } + if k == self.rest { 1.0 - share } else { 0.0 };
        (0..tiers).map(of).collect()
    }

    /// Larger for what is in slower tiers.
    pub(crate) fn slowness(self) -> usize {
        let parts = self.parts as usize;
        parts * self.tier + (Parts::OF as usize - parts) * self.rest
    }
}

/// What moves when a segment begins; in one that comes back, each time that it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The segment, by its number in [`Task::segments`]; never the first one.
    pub segment: usize,
    /// Sites, and where their objects are from then on.
    pub moves: Vec<(usize, Place)>,
}

/// Whether phases can move the objects of this site.
pub fn can_move(task: &Task<'_>, site: usize) -> bool {
    let s = &task.observed.sites[site];
    let large = s.site.kind == SiteKind::Static || s.largest >= LEAST && s.objects <= MANY;
    large && s.site.kind != SiteKind::Mapping && task.tiers.iter().all(|t| t.tier.dir.is_none())
}

/// Whether parts of the objects of this site can be moved.
pub fn can_move_parts(task: &Task<'_>, site: usize) -> bool {
    let s = &task.observed.sites[site];
    can_move(task, site) && s.site.kind == SiteKind::Allocation && s.largest >= Parts::FROM && s.objects <= FEW
}

/// Bytes of a site that are alive when a segment begins, and have to be moved.
pub fn alive(task: &Task<'_>, site: usize, segment: usize) -> Bytes {
    let (at, s) = (task.segments()[segment].at, &task.observed.sites[site]);
    let whole = s.site.kind == SiteKind::Static || s.lives.len() as u64 != s.objects;
    if whole {
        return if s.first_alloc.0 < at && s.last_free.0 > at { task.size(site) } else { Bytes(0) };
    }
    let alive = s.lives.iter().filter(|l| l.from.0 < at && l.to.0 > at).map(|l| l.size.0).sum::<u64>();
    Bytes(alive.min(task.size(site).0))
}

/// The steps from one place of each site to the next, segment by segment; in each, what leaves faster tiers comes first. From a loop on each
/// says of all sites that are ever moved where they are: a run of another length may come to it from anywhere.
pub fn steps(segments: &Segments, by_segment: &[Vec<Place>]) -> Vec<Step> {
    let varies = |site: usize| by_segment.iter().any(|places| places[site] != by_segment[0][site]);
    let varying: Vec<usize> = (0..by_segment[0].len()).filter(|&site| varies(site)).collect();
    let mut out = Vec::new();
    for (segment, to) in by_segment.iter().enumerate().skip(1) {
        let from_loop_on = segments.repeat.as_ref().is_some_and(|r| segment >= r.body.start);
        let before: Vec<&Vec<Place>> =
            segments.passages().filter(|p| p.1 == segment).map(|p| &by_segment[p.0]).collect();
        let from = |site: usize| before.iter().map(|b| b[site]).find(|from| *from != to[site]);
        let moved = varying.iter().copied().filter(|&site| from_loop_on || from(site).is_some());
        let leaves = |site: &usize| {
            let least = || by_segment.iter().map(|places| places[*site].slowness()).min().unwrap_or(0);
            to[*site].slowness() > from(*site).map_or_else(least, Place::slowness)
        };
        let (first, last): (Vec<usize>, Vec<usize>) = moved.partition(leaves);
        let moves: Vec<(usize, Place)> = first.into_iter().chain(last).map(|site| (site, to[site])).collect();
        if !moves.is_empty() {
            out.push(Step { segment, moves });
        }
    }
    out
}

/// Bytes that move of so many when they get from these shares to those, and the ns that it takes.
pub fn take(task: &Task<'_>, bytes: Bytes, from: &[f64], to: &[f64]) -> (Bytes, f64) {
    let memories = &task.model().memories;
    let (mut moved, mut cost) = (Bytes(0), 0.0);
    for (a, b) in (0..from.len()).flat_map(|a| (0..to.len()).map(move |b| (a, b))) {
        let part = Bytes((bytes.0 as f64 * (from[a] - to[a]).min(to[b] - from[b]).max(0.0)) as u64);
        moved += part;
        cost += migration::take(part, &memories[a], &memories[b]);
    }
    (moved, cost)
}

/// The shares of a placement that begins with these and changes by these steps in each segment; bytes that move, and the ns that it takes.
fn follow(task: &Task<'_>, first: &Shares, steps: &[Step]) -> (Vec<Shares>, Bytes, f64) {
    let mut now = first.clone();
    let mut by_segment = Vec::new();
    for segment in 0..task.segments().len() {
        for &(site, to) in steps.iter().filter(|s| s.segment == segment).flat_map(|s| &s.moves) {
            now.split(site, &to.shares(task.tiers.len()));
        }
        rest::lands(task, &mut now);
        by_segment.push(now.clone());
    }
    let (mut moved, mut cost) = (Bytes(0), 0.0);
    for (from, to, times) in task.segments().passages() {
        for &(site, _) in steps.iter().filter(|s| s.segment == to).flat_map(|s| &s.moves) {
            let [before, after] = [from, to].map(|segment| by_segment[segment].bytes_of(site));
            let (bytes, ns) = take(task, alive(task, site, to), before, after);
            moved += Bytes((bytes.0 as f64 * times) as u64);
            cost += ns * times;
        }
    }
    (by_segment, moved, cost)
}

/// The shares in each segment of a placement that begins with these and changes by these steps.
pub fn by_segment(task: &Task<'_>, first: &Shares, steps: &[Step]) -> Vec<Shares> {
    follow(task, first, steps).0
}

/// What such a placement is predicted to do, and the bytes that move. The time has what moving costs, none of it hidden.
pub fn predict(task: &Task<'_>, first: &Shares, steps: &[Step]) -> (Prediction, Bytes) {
    if steps.is_empty() {
        return (task.model().predict(first), Bytes(0));
    }
    let (by_segment, moved, cost) = follow(task, first, steps);
    let of = task.segments().of_intervals(task.model().demand.intervals.len());
    let mut prediction = task.model().predict_each(|interval| &by_segment[of[interval]]);
    prediction.time += cost;
    (prediction, moved)
}
