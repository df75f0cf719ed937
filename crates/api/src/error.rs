//! What can go wrong, as `hearth.h` numbers it.

use core::ffi::{CStr, c_int};

/// An error of the C interface; the numbers are those of `hearth_error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Error {
    /// A size of 0, or of more than PTRDIFF_MAX.
    Size = 1,
    /// A trait or a value of one that does not exist.
    Trait = 2,
    /// Traits that contradict each other.
    Conflict = 3,
    /// The required space has no room, or there is no memory at all.
    Room = 4,
    /// No such tier here.
    Tier = 5,
    /// Not the start of an object of Hearth's.
    Foreign = 6,
    /// No such declaration.
    Handle = 7,
    /// The machine's memories could not be found.
    Platform = 8,
    /// The kernel refused.
    Kernel = 9,
    /// A strategy refused, or decided what cannot be.
    Strategy = 10,
    /// An object under a page cannot be moved.
    Small = 11,
    /// NULL or a long text where it cannot be.
    Argument = 12,
}

impl Error {
    /// Its number.
    pub fn code(self) -> c_int {
        self as c_int
    }
}

/// The number of a result.
pub fn code(result: Result<(), Error>) -> c_int {
    result.map_or_else(Error::code, |()| 0)
}

/// What a number means and how to mend it.
pub fn text(code: c_int) -> &'static CStr {
    match code {
        0 => c"no error",
        1 => c"the size is 0, negative, or more than there are addresses: ask for 1 to PTRDIFF_MAX bytes",
        2 => c"a trait, or the value of one, does not exist: use the names of hearth.h (an alignment is a power of two up to 1 GiB, a weight 1 to 99)",
        3 => c"traits contradict each other: a key given twice, a required and a preferred space, a stride without HEARTH_STRIDED, a weight or rest without HEARTH_SPLIT or HEARTH_INTERLEAVE, or one of these without a space",
        4 => c"the required space has no room, or the process can have no more memory or addresses: free some, prefer the space instead of requiring it, or ask for less",
        5 => c"this machine has no such tier: hearth_tiers lists those that it has",
        6 => c"the pointer is not the start of a live object of Hearth's: pass what hearth_alloc, hearth_realloc or hearth_commit gave, once",
        7 => c"there is no such declaration: it was committed or withdrawn before, or hearth_declare refused it",
        8 => c"the memories of this machine could not be found: see what `hearth platform` says, and whether HWLOC_ variables describe another machine",
        9 => c"the kernel refused: errno says why; in a container, mbind and move_pages may need the capability SYS_NICE",
        10 => c"a strategy of the program refused, decided for a tier or partition that does not exist, or called a function that decides",
        11 => c"an object under 4096 bytes shares its pages and stays where it is: allocate it anew",
        12 => c"a pointer is NULL, or a text is empty or longer than 200 bytes",
        _ => c"no error of Hearth's has this number",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_sentence_of_its_own() {
        let texts: std::collections::BTreeSet<&CStr> = (0..=13).map(text).collect();
        assert_eq!(texts.len(), 14);
        assert_eq!(text(Error::Argument.code() + 1), text(-7));
    }
}
