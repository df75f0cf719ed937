//! Where a process keeps its tables of objects and mappings, so that a recorder that comes after they came to life can read them from
//! outside: the rings told of them to one that is gone.

use crate::process::MAX_TIERS;
use core::sync::atomic::AtomicU64;

/// Addresses in the process that the header is of; 0: there is no such table.
#[repr(C)]
#[derive(Debug)]
pub struct Tables {
    /// Start of the managed range.
    pub range: AtomicU64,
    /// Address space of each tier in it.
    pub tier_span: AtomicU64,
    /// For each tier the word that says how much of its address space was ever in use.
    pub used: [AtomicU64; MAX_TIERS],
    /// A word for each page of the range, see [`object`].
    pub objects: AtomicU64,
    /// The sites by their index: entries of so many bytes, the first word of which is the site's id.
    pub sites: AtomicU64,
    /// See `sites`.
    pub site_bytes: AtomicU64,
    /// The word that holds the address of the table of mappings, once there is one: entries of so many bytes, which begin with three
    /// words: first address (0: no mapping), address after the last one, index of the site.
    pub mappings: AtomicU64,
    /// See `mappings`.
    pub mapping_bytes: AtomicU64,
    /// The word that says how many entries of the table of mappings were ever in use.
    pub mappings_used: AtomicU64,
}

/// Bits of an object's word that tell its site: 1 + index; 0: no object begins at this page.
pub const SITE_BITS: u32 = 16;
/// The bits from [`SITE_BITS`] to this one are the size that was asked for, in bytes.
pub const SIZE_END: u32 = 58;

/// What the word of a page says of the object that begins there: index of its site, and its size as asked for.
pub fn object(word: u64) -> Option<(usize, u64)> {
    let site = (word & ((1 << SITE_BITS) - 1)).checked_sub(1)?;
    Some((site as usize, (word & ((1 << SIZE_END) - 1)) >> SITE_BITS))
}
