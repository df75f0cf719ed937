//! From a profile and a platform to a plan.
//!
//! 1. [`tiers::resolve`] turns the platform and the user's wishes ([`Options`]) into the tiers to fill: budgets and
//!    coefficients, checked against the machine. [`tiers::split`] makes two tiers of a machine that has one memory.
//! 2. A [`Policy`] puts every site of the profile into one of them. **Each policy is one file in `policies/`,
//!    registered by one line in [`policies::ALL`]**; nothing else knows their names.
//! 3. [`cost`] predicts how long the program takes by a placement: what `--compare` shows and the exact policy minimises.
//!    [`schedule`]: placements that change with the phases of a run, which are [`cost::segments`].
//! 4. [`assemble`] makes the [`model::Plan`] of a policy's placements; [`plan_file`] writes and reads it as TOML.
//! 5. [`travel`] makes one profile of several, and of a small run's rates and a large run's sizes.
//! 6. [`Summary`] says what a plan does: bytes and share of misses per tier, and what does not fit.
//!
//! ```
//! use hearth_policy::{Error, Options, plan_file, policies};
//! # fn show(observed: &model::Observed, platform: &model::Platform) -> Result<(), Error> {
//! let options = Options { fast: Some("12GiB".parse()?), ..Default::default() };
//! let plan = policies::find("density")?.decide(observed, platform, &options)?;
//! print!("{}", plan_file::to_toml(&plan));
//! # Ok(()) }
//! ```
//!
//! This crate makes no OS calls, except that [`plan_file::read`] reads the file it is given.

mod apart;
mod assemble;
mod clock;
pub mod cost;
mod earlier;
mod error;
mod fills;
pub mod forecast;
pub mod phases;
pub mod plan_file;
pub mod policies;
pub mod schedule;
mod summary;
mod task;
pub mod tiers;
pub mod traits;
pub mod travel;

pub use assemble::{Decision, Placement, assemble};
pub use cost::uses::MayUse;
pub use error::Error;
pub use policies::Policy;
pub use summary::{Summary, TierSummary};
pub use task::Task;
pub use tiers::{Capacity, Options, SizeBy};
