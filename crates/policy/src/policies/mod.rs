//! The policies: one file each, registered here by one line. A new policy is a file beside `density.rs` with a type
//! that implements [`Policy`], and that type in [`ALL`].

pub mod bandwidth_aware;
pub mod density;
pub mod exact;
pub mod first_served;
pub mod hotset;
pub mod knapsack;
pub mod phase_global;
pub mod phase_local;
pub mod priority;
pub mod thermos;
pub mod unimem;

use crate::{Decision, Error, Options, Task, assemble};
use model::{Observed, Plan, Platform};

/// An algorithm from profile and platform to plan.
pub trait Policy: Sync {
    /// The name users call it by.
    fn name(&self) -> &'static str;
    /// What it does, in one line.
    fn summary(&self) -> &'static str;
    /// The paper and sections it is from.
    fn source(&self) -> &'static str;
    /// True if it decides by who misses the cache; then a profile without samples is refused.
    fn needs_samples(&self) -> bool {
        true
    }
    /// True if it goes from phase to phase; then a profile with more of them than its timeline tells apart is refused.
    fn needs_phases(&self) -> bool {
        false
    }
    /// Puts every site of the profile into a tier. Called by [`Policy::decision`].
    ///
    /// Errors: what the policy itself asks of a profile.
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error>;
    /// [`Policy::place`], unless the profile lacks what it needs: samples, or a timeline for its phases.
    ///
    /// Errors: that, and those of [`Policy::place`].
    fn decision(&self, task: &Task<'_>) -> Result<Decision, Error> {
        if self.needs_samples() {
            task.sampled()?;
        }
        if self.needs_phases() {
            task.tells_phases()?;
        }
        self.place(task)
    }
    /// The plan for a profile, a platform and the user's wishes.
    ///
    /// Errors: those of [`crate::tiers::resolve`] and of [`Policy::decision`].
    fn decide(&self, observed: &Observed, platform: &Platform, options: &Options) -> Result<Plan, Error> {
        let task = Task::new(observed, platform, options)?;
        Ok(assemble(self.name(), &task, self.decision(&task)?))
    }
}

/// Every policy there is; the first is the default.
pub const ALL: &[&dyn Policy] = &[
    &density::Density,
    &bandwidth_aware::BandwidthAware,
    &knapsack::Knapsack,
    &hotset::Hotset,
    &thermos::Thermos,
    &priority::Priority,
    &first_served::FirstServed,
    &phase_local::PhaseLocal,
    &phase_global::PhaseGlobal,
    &unimem::Unimem,
    &exact::Exact,
];

/// The policy of this name.
pub fn find(name: &str) -> Result<&'static dyn Policy, Error> {
    ALL.iter().copied().find(|p| p.name() == name).ok_or_else(|| Error::UnknownPolicy {
        name: name.to_string(),
        known: ALL.iter().map(|p| p.name()).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_has_a_source() {
        for policy in ALL {
            assert_eq!(find(policy.name()).unwrap().name(), policy.name());
            assert!(!policy.source().is_empty() && !policy.summary().is_empty());
        }
        let names: std::collections::HashSet<_> = ALL.iter().map(|p| p.name()).collect();
        assert_eq!(names.len(), ALL.len(), "two policies of one name");
        let error = find("denisty").err().unwrap().to_string();
        assert!(error.starts_with("there is no policy `denisty`; there are: density, "), "{error}");
    }
}
