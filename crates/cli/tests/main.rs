//! The command as a user runs it, on profiles and machines that the tests write. One program, as each one more is linked for seconds.

mod common;
mod planner;
mod platform;
mod report_and_plan;
