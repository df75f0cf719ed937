//! `libhearth_api.so`: for programs that say in code where their data belongs (`bindings/c/hearth.h`).
//!
//! The road of an allocation: [`c`] (the functions of the header) → [`wish`] (its traits, read and checked) → [`decide`] or a
//! strategy of the program's (from traits to a tier of the [`machine`]) → [`state`] (is there room; the object) → [`heap`] or [`small`] (memory
//! whose pages come from that tier) → [`kernel`] (bindings, moves, and the proof of where pages are). A preloaded [`runtime`] is told of it. What is small and like one of
//! the last takes a shorter one: [`c`] → [`thread`] → [`small`].
//! [`handler`]: the same for NumPy.
//!
//! It is a library of its own, and not a part of `libhearth.so`: that one lives inside `malloc` of every program, must be there from the
//! first instruction, and neither allocates nor waits; this one uses hwloc, can be loaded at any time (Python, OpenMP's libraries), and its functions are
//! called by who wants them. It does *not* replace malloc, and neither samples nor plans.

pub mod c;
pub mod decide;
pub mod error;
pub mod handler;
pub mod heap;
pub mod kernel;
pub mod machine;
pub mod runtime;
pub mod small;
pub mod state;
pub mod strategy;
pub mod thread;
pub mod wish;
