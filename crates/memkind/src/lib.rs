//! `libmemkind.so.0`: memkind's names over Hearth's tiers, for programs and OpenMP libraries that are linked to memkind or load it.
//!
//! The road of an allocation: [`memkind`] and [`hbw`] (the functions of the headers) → [`kinds`] (which kind is meant) → [`places`] (the tier that
//! it is on this machine) → [`memory`] (an object of the crate `api`, or `malloc`'s). It does not replace malloc.
//!
//! The headers in `bindings/memkind` are written anew after memkind's manual pages; programs that were compiled with memkind's own work
//! as well. docs/memkind.md tells what is not there.

pub mod code;
pub mod hbw;
pub mod kinds;
pub mod memkind;
pub mod memory;
pub mod places;
pub mod print;
