//! Which phase may use which site: while one runs that does not, the site's objects can be moved beside it.
//!
//! There can be several sources of this, and what any of them says is believed. The first is the profile: a site is used in a phase if it is asked
//! for there at more than a small part of the pace at which it is asked for where it is asked for most. The second is the program, which may say so
//! (`hearth_phase_uses`).
//!
//! An interval of the timeline in which one phase ends and another begins has accesses of both, so the first and the last of a stretch of three and
//! more teach nothing. A phase that nobody could see may use any site.

use super::demand::Interval;
use super::segments::Segments;
use model::{Frame, Observed, SiteId};
use std::collections::{BTreeSet, HashMap};

/// Of a site's highest pace in a phase so much is chance: samples that came late, lines that were fetched ahead.
const IDLE: f64 = 0.05;

/// For each site the phases, by their numbers in [`Segments`], that may use it.
#[derive(Clone, Debug, PartialEq)]
pub struct Uses {
    by_site: Vec<BTreeSet<usize>>,
}

impl Uses {
    /// Of so many sites none is known to be used.
    pub fn none(sites: usize) -> Uses {
        Uses { by_site: vec![BTreeSet::new(); sites] }
    }

    /// What a profile shows. Its intervals are given, of which the first `told` are those of its timeline.
    pub fn learned(sites: usize, intervals: &[Interval], told: usize, segments: &Segments) -> Uses {
        let seen = |i: &usize| *i < told && intervals[*i].length > 0.0;
        // For each phase how long it was seen, and what each site was asked for meanwhile.
        let paces: Vec<Option<Vec<f64>>> = segments
            .iter()
            .map(|segment| {
                let counts: Vec<usize> = inner(&segment.intervals).into_iter().filter(seen).collect();
                let length: f64 = counts.iter().map(|&i| intervals[i].length).sum();
                let mut pace = vec![0.0; sites];
                for u in counts.iter().flat_map(|&i| &intervals[i].uses).filter(|u| u.site < sites) {
                    pace[u.site] += (u.lines() + u.written) / length;
                }
                (length > 0.0).then_some(pace)
            })
            .collect();
        let mut uses = Uses::none(sites);
        for site in 0..sites {
            let most = paces.iter().flatten().map(|pace| pace[site]).fold(0.0, f64::max);
            for (segment, pace) in paces.iter().enumerate() {
                if pace.as_ref().is_none_or(|pace| pace[site] > IDLE * most) {
                    uses.add(site, segment);
                }
            }
        }
        uses
    }

    /// And what the program says: what it calls by a name, and what lasts until it says another one, uses a site. So many intervals the
    /// run is cut into.
    pub fn declared(&mut self, observed: &Observed, intervals: usize, segments: &Segments) {
        let number: HashMap<SiteId, usize> = observed.sites.iter().enumerate().map(|(n, s)| (s.site.id, n)).collect();
        let starts: Vec<u64> = observed.timeline.iter().map(|p| p.at.0).collect();
        let ends = starts.iter().skip(1).copied().chain([observed.duration.0]);
        let middles: Vec<u64> = starts.iter().zip(ends).map(|(start, end)| start.midpoint(end)).collect();
        let of_interval = segments.of_intervals(intervals);
        let named: Vec<_> = observed.regions.iter().filter(|r| r.frames.first().is_some_and(Frame::is_name)).collect();
        for (n, phase) in named.iter().enumerate() {
            let uses = observed.declared.iter().filter(|(name, _)| *name == phase.id);
            let sites: Vec<usize> = uses.filter_map(|(_, site)| number.get(site).copied()).collect();
            let until = named.get(n + 1).map_or(observed.duration, |next| next.at);
            let [from, to] = [phase.at, until].map(|at| middles.partition_point(|middle| *middle < at.0));
            // One that is shorter than an interval is in the one in which it begins.
            let begins = starts.partition_point(|start| *start <= phase.at.0).saturating_sub(1);
            let within = if from < to { from..to } else { begins..begins + 1 };
            for &segment in of_interval.get(within).unwrap_or_default() {
                sites.iter().for_each(|&site| self.add(site, segment));
            }
        }
    }

    /// This phase may use this site.
    pub fn add(&mut self, site: usize, segment: usize) {
        self.by_site[site].insert(segment);
    }

    /// Whether a phase may use a site.
    pub fn has(&self, site: usize, segment: usize) -> bool {
        self.by_site[site].contains(&segment)
    }
}

/// Of each stretch of intervals that follow each other those that lie in the phase for sure, if there are such.
fn inner(intervals: &[usize]) -> Vec<usize> {
    let stretches = intervals.chunk_by(|a, b| a + 1 == *b);
    let inside = |stretch: &[usize]| match stretch {
        [_, inside @ .., _] if !inside.is_empty() => inside.to_vec(),
        short => short.to_vec(),
    };
    stretches.flat_map(inside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_two_phases_says_nothing() {
        assert_eq!(inner(&[0, 1, 2, 3, 7, 8, 11, 12, 13, 20]), [1, 2, 7, 8, 12, 20]);
        assert_eq!(inner(&[]), [0; 0]);
    }
}
