//! The cost model: how long would the program take with its sites in these tiers?
//!
//! One road for every policy, comparison and picture; `docs/planner.md` has the same equations with more words.
//!
//! The run is cut into the profile's intervals. In each, a site asks memory for lines: loads that miss and come one by
//! one (random), loads that come in order (stream, fetched ahead), and stores. Of interval *i*, with `x(s,k)` the share of
//! site *s* in tier *k*:
//!
//! ```text
//! L(i) = sum over s, k of x(s,k) * random / g * (l(k, u) + q(s) * r(k))                   what is waited for
//! A(i) = sum over s, k of x(s,k) * (stream / 20 + stores / 12) * l(k, u)                  what is fetched ahead, and written
//! B(i,k) = time of the bus of tier k for the lines read and written there                 bandwidth
//! T(i)³ = (C(i) + L(i))³ + A(i)³ + sum over k of B(i,k)³,   u = f(i) B(i,k) / T(i)        fixed point
//! ```
//!
//! - [`memory`]: `l(k, u)`, `r(k)` (a line's time of the bus) and `B(i,k)`, with the same form as the lab's time model.
//! - [`overlap`]: how many misses wait at the same time (`g`), from how dense they are where the sampler does not tell.
//! - [`demand`]: what is asked of memory in each interval, and what waits behind other lines (`q`); and the compute time `C(i)`, which is what the observed duration
//!   leaves when this model's memory time on the observed machine is taken off.
//! - [`step`]: the fixed point of one interval.
//! - [`migration`]: what moving costs: as the kernel does it, and by Unimem, Equation 4.
//! - [`segments`]: stretches of the run between which a placement may change; [`repeats`]: those of a loop, whose iterations are one.
//! - [`heat`]: which parts of large objects are hot, for sites that are split.
//! - [`lives`]: which sites are alive together, for capacities that hold at every moment.
//! - [`landing`]: where sites land when a plan gives a tier more than it holds.
//! - [`moment`]: a stretch of time that has just passed, for whoever decides while the program runs.
//! - [`uses`]: which phase may use which site.
//! - [`rest`]: the memory that no plan places, and what is asked of it.

pub mod demand;
pub mod heat;
pub mod landing;
pub mod lives;
pub mod memory;
pub mod migration;
pub mod moment;
pub mod overlap;
mod repeats;
pub mod rest;
pub mod segments;
pub mod step;
pub mod uses;

use crate::Error;
use demand::{Demand, Interval, Use};
use memory::Memory;
use model::{Observed, Tier};
use step::Part;

/// Bytes of a cache line.
pub const LINE: f64 = 64.0;

/// Where sites lie: for each site the share (0 to 1) of its misses and of its bytes in each tier, and behind the last one the same of
/// the rest ([`rest`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    tiers: usize,
    misses: Vec<f64>,
    bytes: Vec<f64>,
}

impl Shares {
    /// Every site whole in the tier given for it, and the rest in the fastest.
    pub fn whole(at: &[usize], tiers: usize) -> Shares {
        Shares::each(at.iter().copied().chain([0]), tiers)
    }

    /// Every site and the rest in this tier.
    pub fn all_in(tier: usize, sites: usize, tiers: usize) -> Shares {
        Shares::each(std::iter::repeat_n(tier, sites + 1), tiers)
    }

    fn each(at: impl Iterator<Item = usize>, tiers: usize) -> Shares {
        let of: Vec<f64> = at.flat_map(|tier| (0..tiers).map(move |k| f64::from(u8::from(k == tier)))).collect();
        Shares { tiers, misses: of.clone(), bytes: of }
    }

    /// Splits a site that is equally hot everywhere; the shares are to sum up to 1.
    pub fn split(&mut self, site: usize, shares: &[f64]) {
        self.split_by_heat(site, shares, shares);
    }

    /// Splits a site of which so much of the misses falls on so much of the bytes in each tier; both are to sum up to 1.
    pub fn split_by_heat(&mut self, site: usize, misses: &[f64], bytes: &[f64]) {
        self.misses[site * self.tiers..][..self.tiers].copy_from_slice(misses);
        self.bytes[site * self.tiers..][..self.tiers].copy_from_slice(bytes);
    }

    /// The shares of a site's misses.
    pub fn of(&self, site: usize) -> &[f64] {
        &self.misses[site * self.tiers..][..self.tiers]
    }

    /// Both, tier by tier.
    fn parts_of(&self, site: usize) -> impl Iterator<Item = Part> {
        self.of(site).iter().zip(self.bytes_of(site)).map(|(&misses, &bytes)| Part {
            random: misses,
            ordered: misses,
            bytes,
        })
    }

    /// The shares of a site's bytes.
    pub fn bytes_of(&self, site: usize) -> &[f64] {
        &self.bytes[site * self.tiers..][..self.tiers]
    }
}

/// What a placement is predicted to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Time of the whole run, in ns.
    pub time: f64,
    /// Of it not spent waiting for memory.
    pub compute: f64,
    /// Misses served by each tier.
    pub served: Vec<f64>,
    /// Time of each interval, in ns.
    pub intervals: Vec<f64>,
}

impl Prediction {
    /// Share (0 to 1) of the misses that the fastest tier serves.
    pub fn served_fast(&self) -> f64 {
        let all: f64 = self.served.iter().sum();
        if all > 0.0 { self.served[0] / all } else { 0.0 }
    }
}

/// The model of one profile on one set of tiers.
#[derive(Clone, Debug)]
pub struct Model {
    /// What the program asks of memory.
    pub demand: Demand,
    /// The tiers, fastest first.
    pub memories: Vec<Memory>,
    /// One processor ran the program, and works through one part of an object at a time.
    pub alone: bool,
    /// What had to be assumed, one sentence each.
    pub notes: Vec<String>,
}

impl Model {
    /// The model of this profile on these tiers.
    ///
    /// # Errors
    /// If the profile has no access samples.
    pub fn new<'a>(observed: &Observed, tiers: impl IntoIterator<Item = &'a Tier>) -> Result<Model, Error> {
        let mut notes = Vec::new();
        let demand = Demand::of(observed, &mut notes)?;
        let memories = tiers.into_iter().map(|t| Memory::of(t, &mut notes)).collect();
        let alone = observed.platform.as_ref().and_then(|p| p.cores).is_some_and(|cores| cores.value == 1);
        Ok(Model { demand, memories, alone, notes })
    }

    /// What this placement does.
    pub fn predict(&self, shares: &Shares) -> Prediction {
        self.predict_each(|_| shares)
    }

    /// What a placement does that is another one in each interval. What moving costs is not in it.
    pub fn predict_each<'s>(&self, shares: impl Fn(usize) -> &'s Shares) -> Prediction {
        let mut out = Prediction {
            time: 0.0,
            compute: 0.0,
            served: vec![0.0; self.memories.len()],
            intervals: Vec::with_capacity(self.demand.intervals.len()),
        };
        for (i, interval) in self.demand.intervals.iter().enumerate() {
            let shares = shares(i);
            for u in &interval.uses {
                for (served, share) in out.served.iter_mut().zip(shares.of(u.site)) {
                    *served += share * u.misses();
                }
            }
            let time = self.interval(interval, shares);
            out.time += time;
            out.compute += interval.compute;
            out.intervals.push(time);
        }
        out
    }

    /// Time of an interval, in ns.
    pub fn interval(&self, interval: &Interval, shares: &Shares) -> f64 {
        match self.alone {
            true => self.by_turns(interval, shares),
            false => self.at_once(interval, |u| shares.parts_of(u.site)),
        }
    }

    /// Time of an interval in which uses have such shares in the tiers all the while.
    fn at_once<S: Iterator<Item = Part>>(&self, interval: &Interval, parts: impl Fn(&Use) -> S) -> f64 {
        let mut loads = vec![step::Load::default(); self.memories.len()];
        for u in &interval.uses {
            for (load, part) in loads.iter_mut().zip(parts(u)).filter(|(_, part)| *part != Part::default()) {
                load.add(u, interval.overlap, part);
            }
        }
        step::time(interval.compute, interval.felt, &self.memories, &loads)
    }

    /// Time of an interval in which a site that lies in several tiers is worked through, in one and then in the next; several sites at the
    /// same time, as far as their shares go. The rest is anywhere at any time, and so are loads that come one by one, and what is asked
    /// beside the misses of a site whose parts are not equally hot.
    fn by_turns(&self, interval: &Interval, shares: &Shares) -> f64 {
        let rest = self.demand.sites;
        // Where in the interval a site's time in each tier ends, 0 to 1.
        let until = |site: usize| {
            shares.of(site).iter().scan(0.0, |sum, share| {
                *sum += share;
                Some(*sum)
            })
        };
        let mut turns: Vec<f64> = interval.uses.iter().filter(|u| u.site != rest).flat_map(|u| until(u.site)).collect();
        turns.retain(|&at| at > 1e-9 && at < 1.0 - 1e-9);
        turns.push(1.0);
        turns.sort_by(f64::total_cmp);
        turns.dedup_by(|a, b| *a - *b < 1e-9);
        let mut time = 0.0;
        let mut from = 0.0;
        for to in turns {
            let middle = (from + to) / 2.0;
            let tier = |site: usize| until(site).take_while(|end| *end < middle).count();
            let now = |u: &Use| {
                let (tier, anywhere) = (tier(u.site), u.site == rest);
                let even = shares.of(u.site) == shares.bytes_of(u.site);
                shares.parts_of(u.site).enumerate().map(move |(k, part)| match f64::from(u8::from(k == tier)) {
                    _ if anywhere => part,
                    here if even => Part { ordered: here, bytes: here, ..part },
                    here => Part { ordered: here, ..part },
                })
            };
            time += (to - from) * self.at_once(interval, now);
            from = to;
        }
        time
    }

    /// The time of a placement, in ns.
    pub fn time(&self, at: &[usize]) -> f64 {
        self.predict(&Shares::whole(at, self.memories.len())).time
    }

    /// The time with everything in one tier, in ns.
    pub fn all_in(&self, tier: usize) -> f64 {
        self.predict(&Shares::all_in(tier, self.demand.sites, self.memories.len())).time
    }
}
