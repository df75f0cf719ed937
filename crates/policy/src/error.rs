//! What can be wrong with a request for a plan: one sentence each, with the remedy.

use model::Bytes;

/// Why no plan was made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// No policy of this name.
    #[error("there is no policy `{name}`; there are: {known}")]
    UnknownPolicy {
        /// What was asked for.
        name: String,
        /// The registered names.
        known: String,
    },
    /// The profile holds no sites.
    #[error(
        "the profile holds no allocation sites: the program allocated nothing of {threshold} or more while it was recorded; record a longer run, or with a lower threshold"
    )]
    NoSites {
        /// Smallest allocation that was recorded.
        threshold: Bytes,
    },
    /// The profile holds no access samples.
    #[error(
        "the profile holds no access samples (sampler `{sampler}`), so it does not say who uses memory; record again with --sampler page-fault, perf or lab, or a longer run"
    )]
    NoSamples {
        /// What made the profile's samples.
        sampler: String,
    },
    /// More phases than the profile's timeline has intervals.
    #[error(
        "the profile has {regions} beginnings of parallel regions and a timeline of {intervals}, too few to tell its phases apart; record a longer run, or plan with phase-global or exact, which can do without phases"
    )]
    MorePhases {
        /// Beginnings of parallel regions.
        regions: usize,
        /// Intervals of the timeline.
        intervals: usize,
    },
    /// Profiles to merge of which only some hold access samples.
    #[error(
        "profile {number} has {} access samples and the first has {}: merge profiles that were recorded alike, or leave those without samples out",
        if *.without { "no" } else { "some" }, if *.without { "some" } else { "none" }
    )]
    NotAlike {
        /// Which one, counted from 1.
        number: usize,
        /// It has none, and the first has some; else the other way round.
        without: bool,
    },
    /// A profile, and one with the sizes of another run, that have no site in common.
    #[error(
        "the profile and the run with the sizes have no site in common: give --sizes a recording of the same program, built from the same source with debug information if it was built anew"
    )]
    Strangers,
    /// The platform has fewer than two tiers to choose between.
    #[error(
        "platform `{platform}` has one kind of memory, so there is nothing to choose between; say with --fast SIZE how much of it shall count as fast, or plan for another machine with --platform"
    )]
    OneTier {
        /// Name of the platform.
        platform: String,
    },
    /// The platform has no tiers at all.
    #[error("platform `{platform}` has no tiers")]
    NoTiers {
        /// Name of the platform.
        platform: String,
    },
    /// Two tiers of the platform have one name.
    #[error("platform `{platform}` has two tiers called `{tier}`; rename one")]
    TwiceTier {
        /// Name of the platform.
        platform: String,
        /// The name that occurs twice.
        tier: String,
    },
    /// An option names a tier that the platform does not have.
    #[error("platform `{platform}` has no tier `{tier}`; it has: {known}")]
    UnknownTier {
        /// Name of the platform.
        platform: String,
        /// What was asked for.
        tier: String,
        /// The platform's tiers.
        known: String,
    },
    /// A capacity that is not a capacity.
    #[error("`{text}` is not a capacity; write a size such as 12GiB or 512MiB, or a share of at most 100% such as 50%")]
    BadCapacity {
        /// What was written.
        text: String,
    },
    /// A capacity of nothing.
    #[error(
        "a capacity of 0 for tier `{tier}` leaves no memory to place anything in; give it at least a few MiB, or leave the tier out of the platform"
    )]
    ZeroCapacity {
        /// The tier.
        tier: String,
    },
    /// More than the platform has.
    #[error("tier `{tier}` cannot hold {asked}: platform `{platform}` has {has} of it; ask for at most that")]
    TooLarge {
        /// Name of the platform.
        platform: String,
        /// The tier.
        tier: String,
        /// What was asked for.
        asked: Bytes,
        /// What the platform has.
        has: Bytes,
    },
    /// All tiers together hold less than the program needs.
    #[error(
        "the program has {needs} alive at once and the tiers of platform `{platform}` hold {has} together; {}",
        if *.given { "leave out the capacity of the slowest tier, or make it larger" } else { "plan for a machine with more memory" }
    )]
    Infeasible {
        /// Name of the platform.
        platform: String,
        /// Most bytes alive at once.
        needs: Bytes,
        /// Sum of the budgets, and of what the machine has where there is none.
        has: Bytes,
        /// The slowest tier has a budget: what it holds is the user's wish.
        given: bool,
    },
    /// Nobody said how much fits.
    #[error("the capacity of tier `{tier}` of platform `{platform}` is not known; give it with --capacity {tier}=SIZE")]
    NoCapacity {
        /// Name of the platform.
        platform: String,
        /// The tier.
        tier: String,
    },
    /// The capacity of the fastest tier was given in two ways.
    #[error("--fast and --capacity {tier}=... both give the capacity of the fastest tier; leave one out")]
    TwiceCapacity {
        /// The fastest tier.
        tier: String,
    },
    /// A share of a peak that is not known.
    #[error(
        "a share of the program's peak was asked for, but the profile does not say how much was alive over time; give the capacity as a size such as 12GiB"
    )]
    NoPeak,
    /// A curve over capacities, at one capacity.
    #[error(
        "a curve goes over all capacities of fast memory, so --fast contradicts it, and so does --capacity of the fastest tier; leave it out"
    )]
    CurveOfCapacity,
    /// Thresholds that exclude each other.
    #[error(
        "thresholds of {low} % (low) and {high} % (high) make no sense; both must be from 0 to 100, and the low one at most the high one"
    )]
    BadThresholds {
        /// Low threshold, in percent.
        low: f64,
        /// High threshold.
        high: f64,
    },
    /// Coefficients that are not weights.
    #[error(
        "coefficients {load} and {store} of tier `{tier}` make no sense; both must be numbers of at least 0, and one of them above 0"
    )]
    BadCoefficients {
        /// The tier.
        tier: String,
        /// Load coefficient.
        load: f64,
        /// Store coefficient.
        store: f64,
    },
}
