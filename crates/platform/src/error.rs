//! How this crate fails: one sentence that says what, where, and how to mend it.

use std::fmt;

/// A failure, as one sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

impl Error {
    /// An error with this sentence.
    pub fn new(sentence: impl Into<String>) -> Error {
        Error(sentence.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
