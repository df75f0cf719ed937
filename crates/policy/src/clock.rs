//! When a moment of one run is in another one: where both began the same phase they are the same moment, and in between it goes evenly. Ranks do not
//! start at one moment, and no two runs are equally fast.

use crate::travel::stack;
use model::observed::Region;
use model::{Life, Nanos, Observed, SiteId, SiteUse};
use std::collections::{HashMap, HashSet};

/// Of one run, on the clock of a merged one.
pub struct Clock {
    /// Moments of the run, ascending, with those that they are; from its beginning to its end.
    knots: Vec<(f64, f64)>,
}

impl Clock {
    /// Of a run beside the one that `lead`s. `whole`: how long the merged run is, if it is laid over it from end to end; else it is as
    /// long as it was.
    pub fn of(run: &Observed, lead: &Observed, whole: Option<Nanos>) -> Clock {
        let length = run.duration.0 as f64;
        let scale = whole.map_or(1.0, |w| w.0 as f64 / lead.duration.0.max(1) as f64);
        let name = |r: &Region| stack(&r.frames);
        let ids: HashMap<(SiteId, u64), u64> = lead.regions.iter().map(|r| ((r.id, r.number), r.at.0)).collect();
        let known: HashSet<SiteId> = lead.regions.iter().map(|r| r.id).collect();
        let texts: HashMap<(String, u64), u64> =
            lead.regions.iter().filter_map(|r| Some(((name(r)?, r.number), r.at.0))).collect();
        let there = |r: &Region| match known.contains(&r.id) {
            true => ids.get(&(r.id, r.number)).copied(),
            false => name(r).and_then(|text| texts.get(&(text, r.number)).copied()),
        };
        let mut common = run.regions.iter().filter_map(|r| Some((r.at.0 as f64, there(r)? as f64 * scale))).peekable();
        let (first, second) = *common.peek().unwrap_or(&(0.0, 0.0));
        let start = if whole.is_some() { 0.0 } else { (second - first).max(0.0) };
        let mut knots = vec![(0.0, start)];
        let after = |last: (f64, f64), next: (f64, f64)| next.0 > last.0 && next.1 > last.1;
        for next in common.filter(|c| c.0 < length && whole.is_none_or(|w| c.1 < w.0 as f64)) {
            if after(knots[knots.len() - 1], next) {
                knots.push(next);
            }
        }
        let last = knots[knots.len() - 1];
        knots.push((length, whole.map_or(last.1 + length - last.0, |w| w.0 as f64)));
        Clock { knots }
    }

    /// When a moment of the run is in the merged one, in ns.
    pub fn at(&self, moment: Nanos) -> f64 {
        let moment = moment.0 as f64;
        let next = self.knots.partition_point(|k| k.0 < moment).clamp(1, self.knots.len() - 1);
        let ((from, there), (to, then)) = (self.knots[next - 1], self.knots[next]);
        let share = if to > from { ((moment - from) / (to - from)).min(1.0) } else { 0.0 };
        there + (then - there) * share
    }

    /// The same, whole.
    pub fn nanos(&self, moment: Nanos) -> Nanos {
        Nanos(self.at(moment) as u64)
    }

    /// A site whose moments are the merged run's.
    pub fn site(&self, site: &SiteUse) -> SiteUse {
        let life = |l: &Life| Life { from: self.nanos(l.from), to: self.nanos(l.to), ..*l };
        SiteUse {
            first_alloc: self.nanos(site.first_alloc),
            last_free: self.nanos(site.last_free),
            lives: site.lives.iter().map(life).collect(),
            ..site.clone()
        }
    }
}
