//! Finds the memory tiers of a machine, measures them, and knows other machines by name.
//!
//! 1. [`discover`] asks hwloc and the kernel about this machine and adds what was measured on it before.
//! 2. [`load`] takes a platform from the library or from a file of the user's.
//! 3. [`apply_overrides`] lets the user correct single values.
//! 4. [`text::platform`] prints a platform for people.
//!
//! Every value carries its [`model::Origin`].

mod discover;
mod error;
mod facts;
mod file;
mod hwloc;
mod library;
mod overrides;
mod sysfs;
pub mod text;
mod tiers;

pub use discover::{described, discover};
pub use error::Error;
pub use file::load;
pub use library::{Entry, library};
pub use overrides::apply_overrides;
