//! What users read, from fixtures: in the terminal, as pages, in a browser, and exported. One program, as each one more is linked for seconds.

mod browser;
mod common;
mod compared;
mod diff;
mod firefox;
mod page;
mod plans;
mod terminal;
