//! `unimem`: the better of Unimem's two searches (Wu, Huang, Li: Unimem, SC 2017, section 3.1.3; see [`crate::phases`]).
//!
//! The paper takes the one that promises more by its own equations ([`crate::phases::Loop::unimem`]). Here both are held against the whole cost model, by
//! which all policies are compared: the equations do not see that sites share a bus, and the promise of the local search is often not kept.

use super::phase_global::PhaseGlobal;
use super::phase_local::PhaseLocal;
use crate::{Decision, Error, Policy, Task};

/// Unimem's decision.
pub struct Unimem;

impl Policy for Unimem {
    fn name(&self) -> &'static str {
        "unimem"
    }
    fn summary(&self) -> &'static str {
        "the better of phase-local and phase-global"
    }
    fn source(&self) -> &'static str {
        "Unimem (Wu et al., SC 2017), section 3.1.3"
    }
    fn needs_phases(&self) -> bool {
        true
    }
    fn place(&self, task: &Task<'_>) -> Result<Decision, Error> {
        let (local, global) = (PhaseLocal.place(task)?, PhaseGlobal.place(task)?);
        let time = |d: &Decision| d.predict(task).0.time;
        Ok(match time(&local) < time(&global) {
            true => local,
            false => Decision { notes: local.notes, ..global },
        })
    }
}
