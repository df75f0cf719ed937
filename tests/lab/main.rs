//! The lab: the emulated machine is what the platform says, programs run in it as they do outside, and pages are where
//! the placement wants them. Looks at guest time and residency only; host time depends on who else works here.

mod annotated;
mod api;
mod compare;
mod daemon;
mod ends;
mod functions;
mod live;
mod memkind;
mod placement;
mod refusals;
mod two_processors;
