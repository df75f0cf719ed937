//! The tiers a policy fills: the platform's, with budgets and coefficients after the user's wishes, all checked.

use crate::Error;
use crate::cost::rest;
use crate::cost::uses::MayUse;
use crate::policies::bandwidth_aware::Thresholds;
use model::{Bytes, Coefficients, Figure, Observed, PlannedSite, Platform, SiteKind, SiteUse, Tier};
use std::collections::{BTreeMap, HashSet};
use std::str::FromStr;

/// How much of a tier may be used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// So many bytes.
    Size(Bytes),
    /// This share (above 0, at most 1) of the most recorded bytes alive at one moment ([`Observed::peak`]).
    Share(f64),
}

impl FromStr for Capacity {
    type Err = Error;
    /// `12GiB` or `50%`.
    fn from_str(text: &str) -> Result<Capacity, Error> {
        let bad = || Error::BadCapacity { text: text.to_string() };
        match text.trim().strip_suffix('%') {
            Some(percent) => match percent.trim().parse::<f64>() {
                Ok(p) if (0.0..=100.0).contains(&p) => Ok(Capacity::Share(p / 100.0)),
                _ => Err(bad()),
            },
            None => text.parse().map(Capacity::Size).map_err(|_| bad()),
        }
    }
}

impl Capacity {
    fn bytes(self, observed: &Observed) -> Result<Bytes, Error> {
        match self {
            Capacity::Size(bytes) => Ok(bytes),
            Capacity::Share(share) => match observed.peak() {
                Bytes(0) => Err(Error::NoPeak),
                Bytes(peak) => Ok(Bytes((peak as f64 * share) as u64)),
            },
        }
    }
}

/// Which size of a site counts against a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SizeBy {
    /// Most bytes alive at one moment: what the site asked for. An upper bound of what it needs, so a plan by peak
    /// always fits. Of a static variable what was resident, where that was read: it is as large as the largest problem
    /// that its program was built for.
    #[default]
    Peak,
    /// Most bytes resident at one reading where residency was read, else the peak. Smaller for programs that
    /// allocate more than they touch; but a reading may come too early or too late to see the most.
    Resident,
}

impl SizeBy {
    /// The size of this site.
    pub fn of(self, site: &SiteUse) -> Bytes {
        match self {
            SizeBy::Peak if site.site.kind != SiteKind::Static => site.peak,
            SizeBy::Peak | SizeBy::Resident => site.resident.unwrap_or(site.peak),
        }
    }

    /// The size of a site of a plan.
    pub fn of_planned(self, site: &PlannedSite) -> Bytes {
        match self {
            SizeBy::Peak if site.kind != SiteKind::Static => site.peak,
            SizeBy::Peak | SizeBy::Resident => site.resident.unwrap_or(site.peak),
        }
    }
}

/// What the user wishes of a plan. The default leaves everything to the platform.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Capacity of the fastest tier; on a platform with one tier, how much of it is to count as fast.
    pub fast: Option<Capacity>,
    /// Capacities of other tiers, by name.
    pub capacities: BTreeMap<String, Capacity>,
    /// Coefficients of tiers, by name.
    pub coefficients: BTreeMap<String, Coefficients>,
    /// Which size counts against a budget.
    pub size: SizeBy,
    /// Thresholds of the policy `bandwidth-aware`.
    pub thresholds: Thresholds,
    /// What is known of the program's text of which phase may use which site.
    pub may_use: MayUse,
}

/// A tier that a policy fills.
#[derive(Clone, Debug, PartialEq)]
pub struct TierUse {
    /// The platform's tier.
    pub tier: Tier,
    /// Most bytes that sites may take of it. `None` only for the slowest tier, which takes what is left over.
    pub budget: Option<Bytes>,
    /// What a miss served by it costs.
    pub coefficients: Coefficients,
}

/// The tiers to fill, fastest first, at least two; the last is the default for whatever fits nowhere else.
///
/// Budgets are the user's, else the platform's capacity, of the fastest tier less what is [`left`]; they are above 0 and never above
/// what the platform says it has. The slowest tier has a budget only if the user gave it one.
pub fn resolve(observed: &Observed, platform: &Platform, options: &Options) -> Result<Vec<TierUse>, Error> {
    if observed.sites.is_empty() {
        return Err(Error::NoSites { threshold: observed.threshold });
    }
    check_names(platform, options)?;
    let fast_given = options.fast.is_some() || options.capacities.contains_key("fast");
    let platform = match platform.tiers.len() {
        0 => return Err(Error::NoTiers { platform: platform.name.clone() }),
        1 if !fast_given => return Err(Error::OneTier { platform: platform.name.clone() }),
        1 => &split(platform),
        _ => platform,
    };
    let last = platform.tiers.len() - 1;
    let mut uses = Vec::new();
    for (k, tier) in platform.tiers.iter().enumerate() {
        let named = options.capacities.get(&tier.name).copied();
        let asked = match (k, options.fast, named) {
            (0, Some(_), Some(_)) => return Err(Error::TwiceCapacity { tier: tier.name.clone() }),
            (0, Some(fast), None) => Some(fast),
            (_, _, named) => named,
        };
        let asked = asked.map(|c| c.bytes(observed)).transpose()?;
        let budget = match (asked, tier.capacity) {
            (Some(Bytes(0)), _) => return Err(Error::ZeroCapacity { tier: tier.name.clone() }),
            (Some(asked), Some(has)) if asked > has.value => {
                return Err(Error::TooLarge {
                    platform: platform.name.clone(),
                    tier: tier.name.clone(),
                    asked,
                    has: has.value,
                });
            }
            (Some(asked), _) => Some(asked),
            (None, _) if k == last => None,
            (None, Some(has)) if has.value > Bytes(0) && k == 0 => {
                Some(Bytes(has.value.0 - left(observed, has.value, model::home(&platform.tiers) == 0).0))
            }
            (None, Some(has)) if has.value > Bytes(0) => Some(has.value),
            (None, Some(_)) => return Err(Error::ZeroCapacity { tier: tier.name.clone() }),
            (None, None) => {
                return Err(Error::NoCapacity { platform: platform.name.clone(), tier: tier.name.clone() });
            }
        };
        let coefficients = coefficients(tier, options)?;
        uses.push(TierUse { tier: tier.clone(), budget, coefficients });
    }
    Ok(uses)
}

/// What a fastest tier of this capacity is not to be filled with, as memory that no plan places lies there first if it is the program's home ([`model::home`]): objects below the
/// recording's threshold, stacks, libraries' data, the page tables of all (eight bytes a page), and what the kernel takes for a process
/// besides. Of the reading of the profile that
/// found most memory resident; at most half of the capacity, since a program of small objects alone would leave none.
pub fn left(observed: &Observed, capacity: Bytes, home: bool) -> Bytes {
    let Some(rest) = rest::size(observed) else { return Bytes(0) };
    if !home {
        return Bytes(KERNEL.0.min(capacity.0 / 2));
    }
    let tables = observed.fullest.map(|f| f.anonymous).max(observed.most_anonymous).unwrap_or_default().0 / 512;
    Bytes((rest.0 + tables + KERNEL.0).min(capacity.0 / 2))
}

/// Of a program's fast memory the kernel takes so much for itself, for mappings, files and lists of free pages of each processor: in the lab's guest
/// 0.4 to 0.5 MiB of 7 MiB, whether the program is guided or not. A plan that counts on it loses the last object that it places, which may be the hottest one:
/// `bfs` with an eighth of its memory fast took 2.65 times as long as with all of it, and 2.39 times with 0.3 MiB left alone.
pub const KERNEL: Bytes = Bytes::kib(512);

/// Two tiers `fast` and `slow` of a platform that has one: both are that one memory, so placing between them changes
/// nothing in speed; it shows what a plan would do. Other platforms are returned as they are.
pub fn split(platform: &Platform) -> Platform {
    let [only] = &platform.tiers[..] else { return platform.clone() };
    let named = |name: &str| Tier { name: name.to_string(), ..only.clone() };
    Platform { tiers: vec![named("fast"), named("slow")], ..platform.clone() }
}

/// Every tier that an option names must exist; a platform with one tier is asked by the names of its split.
fn check_names(platform: &Platform, options: &Options) -> Result<(), Error> {
    let seen = split(platform);
    let mut names = HashSet::new();
    for tier in &seen.tiers {
        if !names.insert(tier.name.as_str()) {
            return Err(Error::TwiceTier { platform: platform.name.clone(), tier: tier.name.clone() });
        }
    }
    match options.capacities.keys().chain(options.coefficients.keys()).find(|n| !names.contains(n.as_str())) {
        None => Ok(()),
        Some(unknown) => Err(Error::UnknownTier {
            platform: platform.name.clone(),
            tier: unknown.clone(),
            known: seen.tiers.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", "),
        }),
    }
}

/// The user's coefficients, else the platform's, else [`derived`] ones.
fn coefficients(tier: &Tier, options: &Options) -> Result<Coefficients, Error> {
    let c = options.coefficients.get(&tier.name).copied().or(tier.coefficients).unwrap_or_else(|| derived(tier));
    let sane = |x: f64| x.is_finite() && x >= 0.0;
    if sane(c.load) && sane(c.store) && c.load + c.store > 0.0 {
        Ok(c)
    } else {
        Err(Error::BadCoefficients { tier: tier.name.clone(), load: c.load, store: c.store })
    }
}

/// Coefficients from a tier's figures: a load miss costs the idle read latency in nanoseconds (ecoHMEM, section IV.B:
/// "coefficients representing read latencies"); a store miss costs that times read bandwidth / write bandwidth, and
/// never less than a load, because the line is read before it is written. Without a latency a load costs 1; without
/// both bandwidths a store costs as much as a load. Only the ratio of the two decides the order of sites.
fn derived(tier: &Tier) -> Coefficients {
    let load = tier.latency.map_or(1.0, |Figure { value, .. }| value.0.max(1) as f64);
    let ratio = match (tier.read_bandwidth, tier.write_bandwidth) {
        (Some(read), Some(write)) if write.value.0 > 0.0 => (read.value.0 / write.value.0).max(1.0),
        _ => 1.0,
    };
    Coefficients { load, store: load * ratio }
}
