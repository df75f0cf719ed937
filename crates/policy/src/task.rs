//! What every policy is given: the profile, the tiers to fill, and the cost model of both.

use crate::cost::heat::Heat;
use crate::cost::lives::Lives;
use crate::cost::segments::{self, Segments};
use crate::cost::uses::Uses;
use crate::cost::{Model, Shares};
use crate::tiers::{self, TierUse};
use crate::{Error, Options, SizeBy};
use model::{Bytes, Coefficients, Observed, Parts, Platform, SiteUse};
use std::cell::OnceCell;

/// A request for a plan, checked.
pub struct Task<'a> {
    /// The profile.
    pub observed: &'a Observed,
    /// The tiers to fill, fastest first, at least two.
    pub tiers: Vec<TierUse>,
    /// Name of the platform.
    pub platform: String,
    /// What the user wishes.
    pub options: &'a Options,
    model: OnceCell<Model>,
    lives: OnceCell<Lives>,
    segments: OnceCell<Segments>,
    uses: OnceCell<Uses>,
    heat: OnceCell<Vec<Option<Heat>>>,
}

impl<'a> Task<'a> {
    /// A task of a profile, a platform and the user's wishes.
    ///
    /// # Errors
    /// Those of [`tiers::resolve`]; all tiers together hold less than is alive at once.
    pub fn new(observed: &'a Observed, platform: &Platform, options: &'a Options) -> Result<Task<'a>, Error> {
        let tiers = tiers::resolve(observed, platform, options)?;
        let platform = platform.name.clone();
        let task = Task {
            observed,
            tiers,
            platform,
            options,
            model: OnceCell::new(),
            lives: OnceCell::new(),
            segments: OnceCell::new(),
            uses: OnceCell::new(),
            heat: OnceCell::new(),
        };
        task.feasible()?;
        Ok(task)
    }

    /// Refuses what fits nowhere, so that no policy has to think of it: a plan of it would be one of what lands where by chance.
    ///
    /// The slowest tier holds what the user says, else what the machine has. Against the latter counts what was resident, since programs may ask
    /// for more than a machine has and never touch it. [`Lives`] takes moments together, and a timeline may miss one, so both say
    /// so before a plan is refused; a policy that fills tiers may still find that some moment does not fit.
    fn feasible(&self) -> Result<(), Error> {
        let room = |t: &tiers::TierUse| t.budget.or(t.tier.capacity.map(|c| c.value)).map(|b| b.0);
        let Some(has) = self.tiers.iter().try_fold(0u64, |sum, t| Some(sum.saturating_add(room(t)?))) else {
            return Ok(());
        };
        let given = self.tiers[self.slowest()].budget.is_some();
        let needs = match given {
            true => self.lives().peak(|_| true),
            false => Lives::of(self.observed, SizeBy::Resident).peak(|_| true),
        };
        let needs = match self.observed.peak() {
            Bytes(0) => needs,
            Bytes(peak) => needs.min(peak),
        };
        if needs <= has {
            return Ok(());
        }
        let platform = self.platform.clone();
        Err(Error::Infeasible { platform, needs: Bytes(needs), has: Bytes(has), given })
    }

    /// Refuses a profile without access samples: whatever is made of it would look like a decision.
    ///
    /// # Errors
    /// If no sampler ran.
    pub fn sampled(&self) -> Result<(), Error> {
        crate::cost::demand::require_samples(self.observed)
    }

    /// Refuses a profile with more phases than its timeline has intervals.
    ///
    /// # Errors
    /// If it has.
    pub fn tells_phases(&self) -> Result<(), Error> {
        match segments::coarse(self.observed) {
            None => Ok(()),
            Some((regions, intervals)) => Err(Error::MorePhases { regions, intervals }),
        }
    }

    /// The cost model; made when first asked for. Of a task that is [`Task::sampled`].
    ///
    /// # Panics
    /// If it is not.
    pub fn model(&self) -> &Model {
        self.model
            .get_or_init(|| Model::new(self.observed, self.tiers.iter().map(|t| &t.tier)).expect("a task has samples"))
    }

    /// Which sites are alive together; looked up when first asked for.
    pub fn lives(&self) -> &Lives {
        self.lives.get_or_init(|| Lives::of(self.observed, self.options.size))
    }

    /// Stretches of the run between which a placement may change; looked up when first asked for.
    pub fn segments(&self) -> &Segments {
        self.segments.get_or_init(|| segments::of(self.observed, &self.model().demand))
    }

    /// Which of these stretches may use which site; looked up when first asked for.
    pub fn uses(&self) -> &Uses {
        let (intervals, told) = (&self.model().demand.intervals, self.observed.timeline.len().max(1));
        self.uses.get_or_init(|| {
            let mut uses = Uses::learned(self.sites(), intervals, told, self.segments());
            uses.declared(self.observed, intervals.len(), self.segments());
            uses.without(self.observed, &self.options.may_use, intervals.len(), self.segments());
            uses
        })
    }

    /// Which parts of a site's objects are hot, if some are; looked up when first asked for.
    pub fn heat(&self, site: usize) -> Option<&Heat> {
        let of = |(site, s): (usize, &SiteUse)| Heat::of(s, self.size(site).0 as f64 / s.peak.0.max(1) as f64);
        self.heat.get_or_init(|| self.observed.sites.iter().enumerate().map(of).collect()).get(site)?.as_ref()
    }

    /// Splits a site: these parts of its objects lie in a tier, the others in the tier `rest`.
    pub fn split(&self, shares: &mut Shares, site: usize, tier: usize, parts: Parts, rest: usize) {
        let in_two = |share: f64| {
            let mut of = vec![0.0; self.tiers.len()];
            of[tier] = share;
            of[rest] += 1.0 - share;
            of
        };
        let misses = self.heat(site).map_or(parts.share(), |heat| heat.share(parts));
        let bytes = self.heat(site).map_or(parts.share(), |heat| heat.bytes(parts));
        shares.split_by_heat(site, &in_two(misses), &in_two(bytes));
    }

    /// The predicted time of a plan that gives the sites these tiers, in ns, with what does not fit where it lands.
    pub fn time(&self, at: &[usize]) -> f64 {
        self.model().predict(&crate::cost::landing::shares(self, at)).time
    }

    /// Number of sites.
    pub fn sites(&self) -> usize {
        self.observed.sites.len()
    }

    /// The size of a site that counts against a capacity.
    pub fn size(&self, site: usize) -> Bytes {
        self.options.size.of(&self.observed.sites[site])
    }

    /// Index of the tier in which all is that no plan places.
    pub fn home(&self) -> usize {
        model::home(self.tiers.iter().map(|t| &t.tier))
    }

    /// Index of the slowest tier, which takes what is left over.
    pub fn slowest(&self) -> usize {
        self.tiers.len() - 1
    }

    /// What a miss costs a site that is not taken into a tier: the coefficients of the next slower one.
    pub fn weights(&self, tier: usize) -> Coefficients {
        self.tiers[(tier + 1).min(self.slowest())].coefficients
    }

    /// The weighted misses of a site that competes for a tier.
    pub fn worth(&self, site: usize, tier: usize) -> f64 {
        let (weights, site) = (self.weights(tier), &self.observed.sites[site]);
        weights.load * site.load_misses + weights.store * site.store_misses
    }

    /// Sites that a policy by misses has to place: those with misses and a size.
    pub fn candidates(&self) -> Vec<usize> {
        (0..self.sites()).filter(|&i| self.observed.sites[i].misses() > 0.0 && self.size(i).0 > 0).collect()
    }

    /// Sorts sites by worth per byte, the densest first. Between equals the smaller one, then the smaller id, so that equal
    /// sites come out in the same order in every run.
    pub fn by_density(&self, sites: &mut [usize], tier: usize) {
        let density = |i: usize| if self.size(i).0 == 0 { 0.0 } else { self.worth(i, tier) / self.size(i).0 as f64 };
        let id = |i: usize| self.observed.sites[i].site.id;
        sites.sort_by(|&a, &b| {
            density(b).total_cmp(&density(a)).then(self.size(a).cmp(&self.size(b))).then(id(a).cmp(&id(b)))
        });
    }
}
