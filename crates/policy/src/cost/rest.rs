//! The rest: memory that no plan places. Stacks, objects below the recording's threshold, libraries' data, what is not recorded.
//!
//! It takes room where the kernel gives memory to a program that does not ask ([`model::home`]): in the fastest tier first, but for HBM. And it is accessed: samplers
//! that see all of memory tell how. When is not kept, so it is taken to be spread evenly over the time that the sampler saw.

use super::Shares;
use super::demand::{Interval, Use};
use crate::Task;
use model::{Bytes, Nanos, Observed};

/// Below this share of the misses the rest is not worth a word.
const WORTH_A_WORD: f64 = 0.05;

/// So long the runtime's heaps keep most of the pages of what was freed, for the next objects of their tier (`runtime::kept`).
const KEPT: Nanos = Nanos(2_000_000_000);

/// How large the rest was at least: by the reading that found most memory resident, and by what the largest process had at most, less
/// the most that objects had. `None` if neither is known.
///
/// What objects had a moment before may be there still, freed and kept for the next ones: it is in their tier, and counts with them and not here.
/// And sites are not read at the very moment at which all memory is: of a program that is just filling its arrays the next reading may be the one to compare with.
/// Hydrodynamics would leave a fifth of fast memory to what its own arrays use.
pub fn size(observed: &Observed) -> Option<Bytes> {
    let read = observed.fullest.map(|fullest| {
        let points = &observed.timeline;
        let after = points.partition_point(|p| p.at <= fullest.at);
        let since = points.partition_point(|p| p.at.0 + KEPT.0 < fullest.at.0).min(after.saturating_sub(1));
        let around = points.get(since..=after).or(points.get(since..)).unwrap_or_default();
        let objects =
            around.iter().map(|p| p.resident.iter().map(|(_, b)| *b).sum::<Bytes>()).max().unwrap_or_default();
        Bytes(fullest.anonymous.0.saturating_sub(objects.0))
    });
    let most = observed.most_anonymous.map(|most| Bytes(most.0.saturating_sub(observed.peak().0)));
    read.max(most)
}

/// Adds what is asked of the rest to the demand of the `sites` sites.
pub fn add(observed: &Observed, sites: usize, intervals: &mut [Interval], notes: &mut Vec<String>) {
    let length: f64 = intervals.iter().map(|i| i.length).sum();
    let Some(rest) = observed.rest.filter(|r| r.misses() > 0.0 && length > 0.0) else { return };
    let share = rest.misses() / (rest.misses() + observed.total_misses());
    if share >= WORTH_A_WORD {
        notes.push(format!(
            "{:.0} % of the misses hit memory that no plan places; it is taken to be asked for evenly, and to lie where a program's memory is that nobody places",
            share * 100.0
        ));
    }
    for interval in intervals.iter_mut().filter(|i| i.length > 0.0) {
        interval.uses.push(Use::of(sites, &rest, rest.misses() * interval.length / length));
    }
}

/// Puts the rest where it finds room: in the fastest tier, of which sites have the shares that are given, else in the slowest. All of
/// it in the fastest where its size or that tier's is not known. If the kernel does not give of the fastest tier, where it does.
pub fn lands(task: &Task<'_>, shares: &mut Shares) {
    let mut of = vec![0.0; task.tiers.len()];
    if task.home() > 0 {
        of[task.home()] = 1.0;
        return shares.split(task.sites(), &of);
    }
    let fast = match room(task) {
        Some((size, has)) => {
            let left = has.0.saturating_sub(task.lives().peak_in(0, shares));
            if size.0 > 0 { (left as f64 / size.0 as f64).min(1.0) } else { 1.0 }
        }
        None => 1.0,
    };
    of[task.slowest()] = 1.0 - fast;
    of[0] = fast;
    shares.split(task.sites(), &of);
}

/// The rest's size, and what the fastest tier has for it and for sites.
pub fn room(task: &Task<'_>) -> Option<(Bytes, Bytes)> {
    Some((size(task.observed)?, task.tiers[0].tier.capacity?.value))
}
