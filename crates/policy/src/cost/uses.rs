//! Which phase may use which site: while one runs that does not, the site's objects can be moved beside it.
//!
//! There can be several sources of this, and what any of them says is believed. The first is the profile: a site is used in a phase if it is asked
//! for there at more than a small part of the pace at which it is asked for where it is asked for most. The second is the program, which may say so
//! (`hearth_phase_uses`). What the text of an annotated program says ([`MayUse`]) goes the other way: what no phase that runs at a time can ask for it does not use,
//! whatever an interval of the timeline, which may be longer than phases are, seems to show.
//!
//! An interval of the timeline in which one phase ends and another begins has accesses of both, so the first and the last of a stretch of three and
//! more teach nothing. A phase that nobody could see may use any site.

use super::demand::Interval;
use super::segments::Segments;
use model::observed::Region;
use model::{Frame, Nanos, Observed, SiteId};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Of a site's highest pace in a phase so much is chance: samples that came late, lines that were fetched ahead.
const IDLE: f64 = 0.05;

/// Which sites may be asked for in which phases, by the text of a program: more than are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MayUse {
    /// The sites that the text knows.
    pub sites: BTreeSet<SiteId>,
    /// By what a phase begins with (see [`model::observed::Region::id`]): those of them that may be asked for until the next one begins.
    pub phases: BTreeMap<SiteId, BTreeSet<SiteId>>,
}

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
        let of_interval = segments.of_intervals(intervals);
        let named: Vec<_> = observed.regions.iter().filter(|r| r.frames.first().is_some_and(Frame::is_name)).collect();
        for (phase, within) in named.iter().zip(spans(observed, &named)) {
            let uses = observed.declared.iter().filter(|(name, _)| *name == phase.id);
            let sites: Vec<usize> = uses.filter_map(|(_, site)| number.get(site).copied()).collect();
            for &segment in of_interval.get(within).unwrap_or_default() {
                sites.iter().for_each(|&site| self.add(site, segment));
            }
        }
    }

    /// Without what the program's text rules out: a phase does not use a site that none of the marks and operations of MPI that it is made of leads to.
    /// Marks that follow each other closely are not all recorded, but the first ones of each are, so that what a phase is made of is the sum of all its times.
    pub fn without(&mut self, observed: &Observed, may: &MayUse, intervals: usize, segments: &Segments) {
        if may.phases.is_empty() {
            return;
        }
        let of_interval = segments.of_intervals(intervals);
        // Parallel regions are not marks of the text.
        let is_mark = |frames: &[Frame]| match frames {
            [one] => one.is_name() || one.module.as_ref().is_some_and(|m| m.is_source()),
            _ => true,
        };
        let marks: Vec<_> = observed.regions.iter().filter(|r| is_mark(&r.frames)).collect();
        // What runs in each interval; nobody knows what before the first mark.
        let mut running: Vec<Vec<SiteId>> = vec![Vec::new(); observed.timeline.len()];
        for (mark, within) in marks.iter().zip(spans(observed, &marks)) {
            running.get_mut(within).into_iter().flatten().for_each(|ids| ids.push(mark.id));
        }
        // What each phase is made of; none: something that the text does not tell of.
        let mut made_of: Vec<Option<BTreeSet<SiteId>>> = vec![Some(BTreeSet::new()); segments.len()];
        for (ids, &segment) in running.iter().zip(&of_interval) {
            match &mut made_of[segment] {
                Some(all) if !ids.is_empty() && ids.iter().all(|id| may.phases.contains_key(id)) => all.extend(ids),
                unknown => *unknown = None,
            }
        }
        for (site, s) in observed.sites.iter().enumerate().filter(|(_, s)| may.sites.contains(&s.site.id)) {
            for (segment, ids) in made_of.iter().enumerate() {
                let leads = |id: &SiteId| may.phases[id].contains(&s.site.id);
                if ids.as_ref().is_some_and(|ids| !ids.is_empty() && !ids.iter().any(leads)) {
                    self.by_site[site].remove(&segment);
                }
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

/// The intervals of the timeline in which each of these runs, until the next one begins: those of which it has the middle, or else the one in which it begins.
fn spans(observed: &Observed, marks: &[&Region]) -> Vec<Range<usize>> {
    let starts: Vec<u64> = observed.timeline.iter().map(|p| p.at.0).collect();
    let ends = starts.iter().skip(1).copied().chain([observed.duration.0]);
    let middles: Vec<u64> = starts.iter().zip(ends).map(|(start, end)| start.midpoint(end)).collect();
    let untils = marks.iter().skip(1).map(|next| next.at).chain([observed.duration]);
    let span = |(mark, until): (&&Region, Nanos)| {
        let [from, to] = [mark.at, until].map(|at| middles.partition_point(|middle| *middle < at.0));
        let begins = starts.partition_point(|start| *start <= mark.at.0).saturating_sub(1);
        if from < to { from..to } else { begins..begins + 1 }
    };
    marks.iter().zip(untils).map(span).collect()
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
