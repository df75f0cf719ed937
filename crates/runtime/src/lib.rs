//! placeholder
pub mod unwind;
