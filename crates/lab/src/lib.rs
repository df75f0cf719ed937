//! The lab: an emulated machine with two kinds of memory, in which any program of this machine runs unmodified and takes
//! the time that its memory would take. The road: `setup` gets QEMU, a kernel and the plugin; `scale` makes a platform
//! small enough for two virtual CPUs; `machine` boots it; `agent` runs the program inside; `run` brings the results back.
pub mod setup;
pub mod scale;
pub mod machine;
pub mod job;
pub mod agent;
pub mod run;
