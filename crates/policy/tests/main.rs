//! The policies, the files of plans, and what travels between programs. One program, as each one more is linked for seconds.

mod common;
mod density;
mod heat;
mod phases;
mod plan_file;
mod policies;
mod travel;
