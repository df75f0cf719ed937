//! `unimem`: the better of Unimem's two searches, by what they promise (Wu, Huang, Li: Unimem, SC 2017, section 3.1.3; see
//! [`crate::phases`]).

use super::phase_local::Run;
use crate::{Decision, Error, Policy, Task};

/// Unimem's decision.
pub struct Unimem;

impl Policy for Unimem {
    fn name(&self) -> &'static str {
        "unimem"
    }
    fn summary(&self) -> &'static str {
        "the better of phase-local and of one placement for all phases"
    }
    fn source(&self) -> &'static str {
        "Unimem (Wu et al., SC 2017), section 3.1.3"
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let run = Run::of(task);
        Ok(run.decision(task, &run.phases.unimem(&run.machine)))
    }
}
