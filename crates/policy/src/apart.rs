//! Objects of one call stack that a profile tells apart, where another profile does not: there they were too small, or fewer, or too
//! many at once. Then nothing is known of each of them, and both profiles are taken by the stack.

use crate::travel;
use model::observed::TimePoint;
use model::{Bytes, Observed, SiteId, SiteUse};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The profiles with the same stacks told apart in all that have them; `same` says of two sites that they are one.
pub fn alike<'a>(all: &[&'a Observed], same: impl Fn(&SiteUse, &SiteUse) -> bool) -> Vec<Cow<'a, Observed>> {
    let has = |of: &Observed, site: &SiteUse| of.sites.iter().any(|s| same(s, site));
    let mut stacks: HashSet<SiteId> = HashSet::new();
    for (n, of) in all.iter().enumerate() {
        for (site, stack) in of.sites.iter().filter_map(|s| Some((s, s.site.apart?.stack))) {
            let first = of.sites.iter().find(|s| s.site.id == stack);
            let mut others = all.iter().enumerate().filter(|(m, _)| *m != n).map(|(_, other)| other);
            if others.any(|other| first.is_some_and(|f| has(other, f)) && !has(other, site)) {
                stacks.insert(stack);
            }
        }
    }
    // Across builds a stack has several ids.
    let stack = |s: &SiteUse| s.site.apart.map_or(s.site.id, |a| a.stack);
    let meant: Vec<&SiteUse> = all.iter().flat_map(|o| &o.sites).filter(|s| stacks.contains(&stack(s))).collect();
    all.iter()
        .map(|of| {
            let here: HashSet<SiteId> =
                of.sites.iter().filter(|s| meant.iter().any(|m| same(m, s))).map(stack).collect();
            if here.is_empty() { Cow::Borrowed(*of) } else { Cow::Owned(by_stack(of, &here)) }
        })
        .collect()
}

/// The profile with these stacks' objects taken together.
fn by_stack(observed: &Observed, stacks: &HashSet<SiteId>) -> Observed {
    let to: HashMap<SiteId, SiteId> = (observed.sites.iter())
        .filter_map(|s| Some((s.site.id, s.site.apart?.stack)))
        .filter(|(_, stack)| stacks.contains(stack))
        .collect();
    let renamed = |id: &SiteId| *to.get(id).unwrap_or(id);
    let mut sites: Vec<SiteUse> = Vec::new();
    for site in &observed.sites {
        let id = renamed(&site.site.id);
        match sites.iter_mut().find(|s| s.site.id == id) {
            Some(there) => {
                let mut nodes: BTreeMap<i32, Bytes> = there.nodes.iter().copied().collect();
                site.nodes.iter().for_each(|(n, b)| *nodes.entry(*n).or_default() += *b);
                travel::add(there, site);
                there.nodes = nodes.into_iter().collect();
            }
            None => {
                let mut first = site.clone();
                if id != site.site.id {
                    (first.site.id, first.site.apart) = (id, None);
                }
                sites.push(first);
            }
        }
    }
    sites.sort_by(|a, b| b.misses().total_cmp(&a.misses()).then(a.site.id.cmp(&b.site.id)));
    let bytes = |all: &[(SiteId, Bytes)]| -> Vec<(SiteId, Bytes)> {
        let mut sums: BTreeMap<SiteId, Bytes> = BTreeMap::new();
        all.iter().for_each(|(s, b)| *sums.entry(renamed(s)).or_default() += *b);
        sums.into_iter().collect()
    };
    let timeline = observed.timeline.iter().map(|p| {
        let mut misses: BTreeMap<SiteId, f64> = BTreeMap::new();
        p.misses.iter().for_each(|(s, m)| *misses.entry(renamed(s)).or_default() += m);
        TimePoint {
            at: p.at,
            live: bytes(&p.live),
            misses: misses.into_iter().collect(),
            resident: bytes(&p.resident),
            huge: p.huge,
        }
    });
    Observed {
        sites,
        timeline: timeline.collect(),
        touches: observed
            .touches
            .iter()
            .cloned()
            .map(|t| model::Touch { site: t.site.as_ref().map(renamed), ..t })
            .collect(),
        ..observed.clone()
    }
}
