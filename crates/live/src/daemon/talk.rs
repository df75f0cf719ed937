//! What is said at the daemon's socket: one line of JSON each way, then the connection ends.

use crate::status::Status;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Most bytes of a request.
pub const MOST_REQUEST: usize = 4096;
/// Most bytes of a reply.
pub const MOST_REPLY: u64 = 64 << 20;

/// What a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "want", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// To start a program that the daemon places.
    Attach,
    /// To know what the daemon sees and does.
    Status,
    /// That the daemon ends.
    Stop,
}

/// What the daemon says to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The program is to be started with this session in its environment, and this library preloaded.
    Attached {
        /// The session's directory.
        session: PathBuf,
        /// The runtime.
        runtime: PathBuf,
    },
    /// As it was after the last interval. Who is neither root nor runs the daemon sees its own programs only.
    Status {
        /// What is seen and done.
        status: Box<Status>,
    },
    /// It ends. Programs go on where they are.
    Stopping {
        /// The daemon's process id.
        pid: u32,
    },
    /// It will not.
    Refused {
        /// One sentence.
        why: String,
    },
}
