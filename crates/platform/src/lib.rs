//! Finds the memory tiers of a machine, measures them, and knows other machines by name.
//!
//! 1. [`discover`] asks hwloc and the kernel about this machine and adds what was measured on it before.
//! 2. [`load`] takes a platform from the library or from a file of the user's.
//! 3. [`apply_overrides`] lets the user correct single values.
//! 4. [`measure()`] measures latency and bandwidth of every pair of CPU node and memory node, and keeps the result.
//! 5. [`now`] tells what of a node is free at this moment.
//! 6. [`text::platform`] prints a platform for people, [`json::platform`] for programs.
//!
//! Every value carries its [`model::Origin`].

mod discover;
mod error;
mod facts;
mod file;
mod hwloc;
pub mod json;
mod kept;
mod library;
pub mod measure;
pub mod now;
mod overrides;
mod sysfs;
pub mod text;
mod tiers;

pub use discover::{ThisMachine, described, discover, measure, this_machine};
pub use error::Error;
pub use file::load;
pub use library::{Entry, library};
pub use overrides::apply_overrides;
pub use sysfs::parse_list;
