//! memkind's error numbers and their sentences.

use core::ffi::{CStr, c_int};

/// No error.
pub const SUCCESS: c_int = 0;
/// This machine has no such memory.
pub const UNAVAILABLE: c_int = -1;
/// An environment variable cannot be read.
pub const ENVIRON: c_int = -12;
/// An argument is wrong.
pub const INVALID: c_int = -13;
/// There are as many kinds as can be.
pub const TOO_MANY: c_int = -15;
/// Huge pages cannot be had.
pub const HUGETLB: c_int = -18;
/// This machine has no such type of memory.
pub const NO_TYPE: c_int = -20;
/// It cannot be done.
pub const FAILED: c_int = -21;

/// What a number means.
pub fn text(code: c_int) -> &'static CStr {
    match code {
        SUCCESS => c"no error",
        UNAVAILABLE => c"this machine has no memory of this kind",
        -2 => c"the kernel refused to bind memory (mbind)",
        -3 => c"the kernel refused to map memory (mmap)",
        -6 => c"there is no memory (malloc)",
        ENVIRON => c"an environment variable MEMKIND_* is not a list of nodes of one memory of this machine",
        INVALID => c"an argument is wrong: NULL, no kind, or a value that does not exist",
        TOO_MANY => c"there are as many kinds as can be (MEMKIND_MAX_KIND): destroy one first",
        -17 => c"the operations of a kind are wrong",
        HUGETLB => c"kinds of reserved huge pages are not supported: take the kind without HUGETLB",
        NO_TYPE => c"this machine has no memory of this type",
        FAILED => c"this cannot be done with this kind, or is not supported",
        -22 => c"there is no further arena",
        -255 => c"an error while running",
        libc::EINVAL => c"an alignment is not a power of two that pointers fit into",
        libc::ENOMEM => c"there is not so much memory of this kind",
        _ => c"no error of memkind's has this number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_error_has_a_sentence_that_fits() {
        let codes = [0, -1, -2, -3, -6, -12, -13, -15, -17, -18, -20, -21, -22, -255, libc::EINVAL, libc::ENOMEM, 5];
        let texts: BTreeSet<&CStr> = codes.into_iter().map(text).collect();
        assert_eq!(texts.len(), codes.len());
        // MEMKIND_ERROR_MESSAGE_SIZE.
        assert!(texts.iter().all(|t| t.count_bytes() < 128));
    }
}
