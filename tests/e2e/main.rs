//! End-to-end tests: real programs do the same with Hearth as without, profiles survive, sites are told apart, and bad
//! input is answered by one sentence.

mod annotated;
mod api;
mod bad_input;
mod chunks;
mod counts;
mod daemon;
mod ends;
mod kept;
mod kinds;
mod live;
mod memkind;
mod mpi;
mod placement;
mod planner;
mod programs;
mod python;
mod rights;
mod sampler;
mod sites;
