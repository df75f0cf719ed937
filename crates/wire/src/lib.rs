//! What the runtime (inside the observed program) and the recorder (outside) say to each other.
//!
//! A *session* is one run of a command: a private directory ([`session`]) made by the launcher and named in the
//! environment. In it lie
//!
//! * `config` – [`session::Config`], written by the launcher before it starts the program;
//! * `plan` – [`image`], the plan in a form the runtime can look sites up in without parsing or allocating;
//! * one file for each process that manages memory – [`process`]: a header and the event rings of its threads.
//!
//! Both sides are versioned and trust nothing: a reader checks every length, offset and kind it reads, because the
//! other side may have been killed in the middle of a write. Nothing here allocates.

#![no_std]

pub mod event;
pub mod identity;
pub mod image;
pub mod lab;
pub mod mark;
pub mod process;
pub mod session;
pub mod tables;

/// Version of everything in a session; runtime and recorder must agree on it.
pub const WIRE_VERSION: u32 = 21;
