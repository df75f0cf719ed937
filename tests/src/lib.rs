//! One small helper for the end-to-end tests: a fresh folder, the built `hearth`, and a program run with and without it.
//!
//! The tests use what `cargo build --release` made (or the binary that the environment variable `HEARTH_BIN` names, with
//! `libhearth.so` beside it) and the programs of `tests/programs`, which they build with make.

mod command;
pub mod lab;
mod rank;
mod room;
mod turn;

pub use command::{Ended, Running, for_mpi, is_root, may_administer, not_tested, run, run_as_nobody, spawn, wait};
pub use rank::spearman;
pub use room::{
    Room, compilers, function_sites, hearth, program, programs, require_tool, script_of_document, target, workspace,
};
