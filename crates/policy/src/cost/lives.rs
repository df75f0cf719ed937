//! Which sites are alive together, so that a capacity can hold at every moment and not for the sum of all.
//!
//! A site whose objects the profile tells one by one (a few dozen at most) is as large as those that are alive; of any other
//! only the first allocation and the last free are known, and it counts with its full size in between. The run is looked at when
//! objects are born, since a sum can only rise there; where that is too many moments, births are taken together in spans, and
//! all that lives in a span counts as alive at once. So a placement that fits these moments fits the run.

use super::Shares;
use crate::SizeBy;
use model::{Observed, SiteKind, SiteUse};

/// Most moments: the exact policy has a constraint for each of them and tier.
const MOST: usize = 64;

/// For each moment the sites alive, with their bytes, in the order of the profile's sites.
#[derive(Clone, Debug, PartialEq)]
pub struct Lives {
    /// Moments, in order.
    pub moments: Vec<Vec<(usize, u64)>>,
}

/// Where a site has bytes: from, to, bytes.
type Piece = (u64, u64, u64);

fn pieces(site: &SiteUse, size: u64) -> Vec<Piece> {
    let whole = site.site.kind == SiteKind::Static || site.lives.len() as u64 != site.objects;
    if whole {
        return vec![(site.first_alloc.0, site.last_free.0.max(site.first_alloc.0 + 1), size)];
    }
    site.lives.iter().map(|l| (l.from.0, l.to.0.max(l.from.0 + 1), l.size.0)).collect()
}

impl Lives {
    /// The moments of a profile. Sites of no size are left out.
    pub fn of(observed: &Observed, size: SizeBy) -> Lives {
        let sizes: Vec<u64> = observed.sites.iter().map(|s| size.of(s).0).collect();
        let pieces: Vec<Vec<Piece>> = observed.sites.iter().zip(&sizes).map(|(s, &size)| pieces(s, size)).collect();
        let mut births: Vec<u64> = pieces.iter().flatten().map(|p| p.0).collect();
        births.sort_unstable();
        births.dedup();
        // Spans from one birth to the last that is taken together with it.
        let each = births.len().div_ceil(MOST).max(1);
        let spans: Vec<(u64, u64)> = births.chunks(each).map(|c| (c[0], c[c.len() - 1])).collect();
        let mut moments: Vec<Vec<(usize, u64)>> = spans
            .iter()
            .map(|&(from, to)| {
                let alive = |(site, pieces): (usize, &Vec<Piece>)| {
                    let bytes: u64 = pieces.iter().filter(|p| p.0 <= to && p.1 > from).map(|p| p.2).sum();
                    // The size may be less than what was allocated: by residency, or because not all lived at once.
                    let bytes = bytes.min(sizes[site]);
                    (bytes > 0).then_some((site, bytes))
                };
                pieces.iter().enumerate().filter_map(alive).collect()
            })
            .collect();
        keep_largest(&mut moments);
        Lives { moments }
    }

    /// Most bytes at one moment of the sites that `inside` picks.
    pub fn peak(&self, inside: impl Fn(usize) -> bool) -> u64 {
        self.moments.iter().map(|m| m.iter().filter(|(s, _)| inside(*s)).map(|(_, b)| b).sum()).max().unwrap_or(0)
    }

    /// Most bytes at one moment that a tier gets of all sites by these shares.
    pub fn peak_in(&self, tier: usize, shares: &Shares) -> u64 {
        let part = |&(site, bytes): &(usize, u64)| bytes as f64 * shares.bytes_of(site)[tier];
        self.moments.iter().map(|m| m.iter().map(part).sum::<f64>() as u64).max().unwrap_or(0)
    }
}

/// Drops moments in which every site is no larger than in another one.
fn keep_largest(moments: &mut Vec<Vec<(usize, u64)>>) {
    let covers = |a: &[(usize, u64)], b: &[(usize, u64)]| {
        let mut rest = a.iter();
        b.iter().all(|(site, bytes)| {
            rest.by_ref().find(|(s, _)| s >= site).is_some_and(|(s, has)| s == site && has >= bytes)
        })
    };
    let mut kept: Vec<Vec<(usize, u64)>> = Vec::new();
    for m in moments.drain(..) {
        if kept.iter().any(|k| covers(k, &m)) {
            continue;
        }
        kept.retain(|k| !covers(&m, k));
        kept.push(m);
    }
    *moments = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_largest_moments_are_kept() {
        let mut moments = vec![vec![(0, 5)], vec![(0, 5), (2, 1)], vec![(1, 9)], vec![(0, 4), (2, 1)], vec![(1, 9)]];
        keep_largest(&mut moments);
        assert_eq!(moments, [vec![(0, 5), (2, 1)], vec![(1, 9)]]);
    }
}
