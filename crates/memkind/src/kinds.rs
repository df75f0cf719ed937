//! The kinds: those that memkind brings, those that a program makes, and the pointers that stand for them.
//!
//! A `memkind_t` points into a table, so that any value can be looked at without being followed. memkind numbers its own kinds (their *partition*).

use crate::code;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

/// Most kinds (`MEMKIND_MAX_KIND`).
pub const MOST: usize = 512;
/// memkind's own kinds by number.
pub const OWN: [&str; 26] = [
    "DEFAULT",
    "HBW",
    "HBW_HUGETLB",
    "HBW_PREFERRED",
    "HBW_PREFERRED_HUGETLB",
    "HUGETLB",
    "HBW_GBTLB",
    "HBW_PREFERRED_GBTLB",
    "GBTLB",
    "HBW_INTERLEAVE",
    "INTERLEAVE",
    "REGULAR",
    "HBW_ALL",
    "HBW_ALL_HUGETLB",
    "DAX_KMEM",
    "DAX_KMEM_ALL",
    "DAX_KMEM_PREFERRED",
    "DAX_KMEM_INTERLEAVE",
    "HIGHEST_CAPACITY",
    "HIGHEST_CAPACITY_PREFERRED",
    "HIGHEST_CAPACITY_LOCAL",
    "HIGHEST_CAPACITY_LOCAL_PREFERRED",
    "LOWEST_LATENCY_LOCAL",
    "LOWEST_LATENCY_LOCAL_PREFERRED",
    "HIGHEST_BANDWIDTH_LOCAL",
    "HIGHEST_BANDWIDTH_LOCAL_PREFERRED",
];
/// The kind that is malloc's.
pub const DEFAULT: usize = 0;
/// High bandwidth or nothing.
pub const HBW: usize = 1;
/// High bandwidth if there is room.
pub const HBW_PREFERRED: usize = 3;
/// High bandwidth, of all nodes.
pub const HBW_INTERLEAVE: usize = 9;
/// All memories by turns.
pub const INTERLEAVE: usize = 10;
/// High bandwidth of any node.
pub const HBW_ALL: usize = 12;

/// `struct memkind`: for a kind that a program has made, 1 + the number of the one that it is like; 0: there is none.
#[derive(Debug)]
pub struct Kind(AtomicU8);

static KINDS: [Kind; MOST] = [const { Kind(AtomicU8::new(0)) }; MOST];

/// `memkind_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(*const Kind);
// SAFETY: a number for whoever has it; what it points to is atomic.
unsafe impl Sync for Handle {}

impl Handle {
    /// None.
    pub const NULL: Handle = Handle(core::ptr::null());

    /// That of a kind.
    pub const fn of(kind: usize) -> Handle {
        Handle(&raw const KINDS[kind])
    }

    /// Whether it is NULL.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The number of its kind; `None`: there is no such kind (any more).
    pub fn kind(self) -> Option<usize> {
        // A kind is one byte.
        let kind = (self.0 as usize).checked_sub(&raw const KINDS as usize)?;
        like(kind).map(|_| kind)
    }
}

/// Which of memkind's own kinds this one is like; `None`: there is no such kind.
pub fn like(kind: usize) -> Option<usize> {
    if kind < OWN.len() {
        return Some(kind);
    }
    usize::from(KINDS.get(kind)?.0.load(Relaxed)).checked_sub(1)
}

/// Makes a kind that is like one of memkind's own.
///
/// # Errors
/// [`code::TOO_MANY`].
pub fn make(like: usize) -> Result<usize, c_int> {
    // One after the other, so that the handle of a kind that was destroyed means none for as long as can be.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let places = MOST - OWN.len();
    for _ in 0..places {
        let kind = OWN.len() + NEXT.fetch_add(1, Relaxed) % places;
        if KINDS[kind].0.compare_exchange(0, like as u8 + 1, Relaxed, Relaxed).is_ok() {
            return Ok(kind);
        }
    }
    Err(code::TOO_MANY)
}

/// Ends a kind that a program has made. `false`: it is none, or no more.
pub fn destroy(kind: usize) -> bool {
    kind >= OWN.len() && KINDS.get(kind).is_some_and(|k| k.0.swap(0, Relaxed) != 0)
}

/// Exports a kind by memkind's name for it.
macro_rules! exported {
    ($($name:ident = $kind:literal),* $(,)?) => {
        $(
            /// See `memkind.h`.
            #[unsafe(no_mangle)]
            pub static $name: Handle = Handle::of($kind);
        )*
        #[cfg(test)]
        const EXPORTED: &[(&str, Handle)] = &[$((stringify!($name), $name)),*];
    };
}

exported! {
    MEMKIND_DEFAULT = 0,
    MEMKIND_HBW = 1,
    MEMKIND_HBW_HUGETLB = 2,
    MEMKIND_HBW_PREFERRED = 3,
    MEMKIND_HBW_PREFERRED_HUGETLB = 4,
    MEMKIND_HUGETLB = 5,
    MEMKIND_HBW_GBTLB = 6,
    MEMKIND_HBW_PREFERRED_GBTLB = 7,
    MEMKIND_GBTLB = 8,
    MEMKIND_HBW_INTERLEAVE = 9,
    MEMKIND_INTERLEAVE = 10,
    MEMKIND_REGULAR = 11,
    MEMKIND_HBW_ALL = 12,
    MEMKIND_HBW_ALL_HUGETLB = 13,
    MEMKIND_DAX_KMEM = 14,
    MEMKIND_DAX_KMEM_ALL = 15,
    MEMKIND_DAX_KMEM_PREFERRED = 16,
    MEMKIND_DAX_KMEM_INTERLEAVE = 17,
    MEMKIND_HIGHEST_CAPACITY = 18,
    MEMKIND_HIGHEST_CAPACITY_PREFERRED = 19,
    MEMKIND_HIGHEST_CAPACITY_LOCAL = 20,
    MEMKIND_HIGHEST_CAPACITY_LOCAL_PREFERRED = 21,
    MEMKIND_LOWEST_LATENCY_LOCAL = 22,
    MEMKIND_LOWEST_LATENCY_LOCAL_PREFERRED = 23,
    MEMKIND_HIGHEST_BANDWIDTH_LOCAL = 24,
    MEMKIND_HIGHEST_BANDWIDTH_LOCAL_PREFERRED = 25,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_number() {
        assert_eq!(EXPORTED.len(), OWN.len());
        for (number, (name, handle)) in EXPORTED.iter().enumerate() {
            assert_eq!((name.strip_prefix("MEMKIND_"), handle.kind()), (Some(OWN[number]), Some(number)));
        }
        for (number, name) in [
            (DEFAULT, "DEFAULT"),
            (HBW, "HBW"),
            (HBW_PREFERRED, "HBW_PREFERRED"),
            (HBW_INTERLEAVE, "HBW_INTERLEAVE"),
            (INTERLEAVE, "INTERLEAVE"),
            (HBW_ALL, "HBW_ALL"),
        ] {
            assert_eq!(OWN[number], name);
        }
    }

    #[test]
    fn what_is_no_kind_is_known_as_such_and_there_are_not_too_many() {
        let local = Kind(AtomicU8::new(3));
        assert_eq!(Handle(&raw const local).kind(), None);
        assert_eq!((Handle::NULL.kind(), Handle(usize::MAX as *const Kind).kind()), (None, None));
        assert_eq!(Handle::of(OWN.len() + 5).kind(), None);
        let all: Vec<usize> = core::iter::from_fn(|| make(HBW).ok()).collect();
        assert_eq!((all.len(), make(HBW)), (MOST - OWN.len(), Err(code::TOO_MANY)));
        assert!(all.iter().all(|&kind| Handle::of(kind).kind() == Some(kind) && like(kind) == Some(HBW)));
        assert!(destroy(all[7]) && !destroy(all[7]) && !destroy(DEFAULT));
        assert_eq!((like(all[7]), make(INTERLEAVE)), (None, Ok(all[7])));
        assert!(all.into_iter().all(destroy));
    }
}
