//! The policies: one file each, registered here by one line. A new policy is a file beside `density.rs` with a type
//! that implements [`Policy`], and that type in [`ALL`].

pub mod density;

use crate::{Error, Options};
use model::{Observed, Plan, Platform};

/// An algorithm from profile and platform to plan.
pub trait Policy: Sync {
    /// The name users call it by.
    fn name(&self) -> &'static str;
    /// What it does, in one line.
    fn summary(&self) -> &'static str;
    /// The paper and sections it is from.
    fn source(&self) -> &'static str;
    /// Puts every site of the profile into a tier.
    ///
    /// Errors: those of [`crate::tiers::resolve`], and what the policy itself asks of a profile.
    fn decide(&self, observed: &Observed, platform: &Platform, options: &Options) -> Result<Plan, Error>;
}

/// Every policy there is; the first is the default.
pub const ALL: &[&dyn Policy] = &[&density::Density];

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
        assert_eq!(error, "there is no policy `denisty`; there are: density");
    }
}
