//! The plan image: a plan as the runtime reads it, a flat file it maps and looks things up in without parsing.
//!
//! The launcher has done all the work: tiers are numbered, and sites are ids, those of the program as it is now.
//!
//! Words (native order): magic, version, number of tiers, default tier, number of site slots (a power of two), offset of text, bytes of text, number of static variables, number of moves, number of slots of ends (a power of two, or 0),
//! most frames of these; then for each of [`MAX_TIERS`] tiers eight
//! words: budget (bytes, `u64::MAX` none), node mask low, high (nodes 0-127), kind (0 nodes, 1 directory, 2 plain
//! memory), path offset in text, path length, 0, 0; then site slots of three words (site id or 0, and a target: tier and in
//! the next byte the tier of the rest; mask of parts, 0 for all); then text; then static variables of seven words (site id, module key, offset, length, bytes that it counts, and a
//! target); then moves of five words (what begins the phase, number, how often, site; tier, in the next byte the tier of the rest, in the next how many of 64 parts go there, and in the next 1 if the phase does not use the site), those of one phase together;
//! then slots of ends of one word (a chain, or 0). Lookups probe linearly.

use crate::identity::mix;
use crate::process::MAX_TIERS;

/// First word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"HEARTHPL");
const HEAD_WORDS: usize = 11;
const TIER_WORDS: usize = 8;
const SITE_WORDS: usize = 3;
const STATIC_WORDS: usize = 7;
const MOVE_WORDS: usize = 5;
const SITES_AT: usize = HEAD_WORDS + MAX_TIERS * TIER_WORDS;

/// Where a tier's memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// NUMA nodes, as a mask of nodes 0-127.
    Nodes(u128),
    /// Files in this directory (a path in the file system's bytes).
    Directory(&'a [u8]),
    /// Whatever memory the kernel gives: no binding.
    Plain,
}

/// A tier of the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageTier<'a> {
    /// Where its memory comes from.
    pub source: Source<'a>,
    /// Most resident bytes.
    pub budget: Option<u64>,
}

/// Parts of an object that a [`Target`] tells apart.
pub const PARTS: u32 = u64::BITS;
/// How many of them a move may name.
const PARTED: core::ops::RangeInclusive<u8> = 1..=PARTS as u8;
/// Smallest object, in bytes, that is split; smaller ones go whole to one tier or the other.
pub const SPLIT_FROM: u64 = 1 << 20;

/// Where the objects of a site go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// Tier.
    pub tier: u8,
    /// Tier of those parts that do not go there.
    pub rest: u8,
    /// Which 64ths of each object go to `tier`, the first in the lowest bit; 0: all.
    pub parts: u64,
}

impl Target {
    /// All of it in this tier.
    pub fn whole(tier: u8) -> Target {
        Target { tier, rest: tier, parts: 0 }
    }

    fn is_of(self, tiers: usize) -> bool {
        usize::from(self.tier) < tiers && usize::from(self.rest) < tiers
    }

    fn words(self) -> [u64; 2] {
        [u64::from(self.tier) | u64::from(self.rest) << 8, self.parts]
    }

    fn from_words(words: &[u64], tiers: usize) -> Option<Target> {
        let [tiers_word, parts] = *words else { return None };
        let target = Target { tier: tiers_word as u8, rest: (tiers_word >> 8) as u8, parts };
        Some(target).filter(|t| t.is_of(tiers))
    }
}

/// What goes into an image. Tiers are in order, fastest first.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// Tiers, 1 to [`MAX_TIERS`].
    pub tiers: &'a [ImageTier<'a>],
    /// Tier of unlisted sites.
    pub default_tier: u8,
    /// Site ids, and where they go.
    pub sites: &'a [(u64, Target)],
    /// Static variables to move at start.
    pub statics: &'a [ImageStatic],
    /// What phases move, those of one phase together, in the order in which it is to be done.
    pub moves: &'a [ImageMove],
    /// Sites of which only the innermost frames are known.
    pub ends: Ends<'a>,
}

/// Stacks of which only the innermost frames are known: all that begin with these are one site, that of the innermost frames.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends<'a> {
    /// [`crate::identity::chain`] of these frames.
    pub chains: &'a [u64],
    /// Most frames that one has.
    pub longest: u64,
}

impl Ends<'_> {
    fn slots(&self) -> usize {
        if self.chains.is_empty() { 0 } else { (self.chains.len() * 2 + 2).next_power_of_two() }
    }
}

/// When a parallel region begins, or a site allocates, for the n-th time, the objects of a site go to another tier, or the first parts of
/// each do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageMove {
    /// The region's function, as a site of one frame; or the site that allocates.
    pub begins: u64,
    /// Which time, from 1.
    pub number: u64,
    /// And again each so many times after that; 0: once.
    pub every: u64,
    /// Site id.
    pub site: u64,
    /// Where they go.
    pub tier: u8,
    /// How many of [`PARTS`] parts of each go there, the first ones; 1 to all.
    pub parts: u8,
    /// Where the others go.
    pub rest: u8,
    /// The phase does not use the site.
    pub idle: bool,
}

impl ImageMove {
    /// The first time after so many that it is to be done.
    pub fn next(&self, after: u64) -> Option<u64> {
        match after.checked_sub(self.number) {
            None => Some(self.number),
            Some(past) => self.number.checked_add((past.checked_div(self.every)? + 1).checked_mul(self.every)?),
        }
    }
}

/// A static variable with its tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageStatic {
    /// Site id.
    pub site: u64,
    /// Key of its module.
    pub module: u64,
    /// Offset from the module's load bias.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
    /// Where it goes.
    pub target: Target,
    /// Bytes that it counts in budgets: what is expected to be used of it.
    pub counts: u64,
}

impl Contents<'_> {
    fn site_slots(&self) -> usize {
        (self.sites.len() * 2 + 2).next_power_of_two()
    }

    fn tail_words(&self) -> usize {
        self.statics.len() * STATIC_WORDS + self.moves.len() * MOVE_WORDS + self.ends.slots()
    }

    /// Words the image takes.
    pub fn words(&self) -> usize {
        let text: usize = self.tiers.iter().map(|t| path(t).len().div_ceil(8)).sum();
        SITES_AT + self.site_slots() * SITE_WORDS + text + self.tail_words()
    }

    /// Writes the image into `out`, which has [`Contents::words`] words, all 0. `None` if the contents break a limit.
    pub fn write(&self, out: &mut [u64]) -> Option<()> {
        if self.tiers.is_empty() || self.tiers.len() > MAX_TIERS || usize::from(self.default_tier) >= self.tiers.len() {
            return None;
        }
        let site_slots = self.site_slots();
        let text_at = SITES_AT + site_slots * SITE_WORDS;
        let head = [
            MAGIC,
            crate::WIRE_VERSION.into(),
            self.tiers.len() as u64,
            self.default_tier.into(),
            site_slots as u64,
            text_at as u64,
            (out.len() - text_at - self.tail_words()) as u64 * 8,
            self.statics.len() as u64,
            self.moves.len() as u64,
            self.ends.slots() as u64,
            self.ends.longest,
        ];
        let ends_at = out.len() - self.ends.slots();
        let statics_at = out.len() - self.tail_words();
        for (i, m) in self.moves.iter().enumerate() {
            let tiers = 0..self.tiers.len();
            if !tiers.contains(&m.tier.into()) || !tiers.contains(&m.rest.into()) || !PARTED.contains(&m.parts) {
                return None;
            }
            let place = u64::from(m.tier) | u64::from(m.rest) << 8 | u64::from(m.parts) << 16 | u64::from(m.idle) << 24;
            let at = ends_at - (self.moves.len() - i) * MOVE_WORDS;
            out.get_mut(at..)?.get_mut(..MOVE_WORDS)?.copy_from_slice(&[m.begins, m.number, m.every, m.site, place]);
        }
        for (i, s) in self.statics.iter().enumerate() {
            if !s.target.is_of(self.tiers.len()) {
                return None;
            }
            let [tiers, parts] = s.target.words();
            let words = [s.site, s.module, s.offset, s.size, s.counts, tiers, parts];
            out.get_mut(statics_at + i * STATIC_WORDS..)?.get_mut(..STATIC_WORDS)?.copy_from_slice(&words);
        }
        out.get_mut(..HEAD_WORDS)?.copy_from_slice(&head);
        let mut text = text_at;
        for (i, tier) in self.tiers.iter().enumerate() {
            let bytes = path(tier);
            let (low, high, kind) = match tier.source {
                Source::Nodes(mask) => (mask as u64, (mask >> 64) as u64, 0),
                Source::Directory(_) => (0, 0, 1),
                Source::Plain => (0, 0, 2),
            };
            let words = [
                tier.budget.unwrap_or(u64::MAX),
                low,
                high,
                kind,
                ((text - text_at) * 8) as u64,
                bytes.len() as u64,
                0,
                0,
            ];
            out.get_mut(HEAD_WORDS + i * TIER_WORDS..)?.get_mut(..TIER_WORDS)?.copy_from_slice(&words);
            for chunk in bytes.chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                *out.get_mut(text)? = u64::from_ne_bytes(word);
                text += 1;
            }
        }
        for &(site, target) in self.sites {
            if site == 0 || !target.is_of(self.tiers.len()) {
                return None;
            }
            let at = |slot: usize| SITES_AT + slot * SITE_WORDS;
            let mut slot = mix(site) as usize & (site_slots - 1);
            while out[at(slot)] != 0 && out[at(slot)] != site {
                slot = (slot + 1) & (site_slots - 1);
            }
            let [tiers, parts] = target.words();
            out[at(slot)..][..SITE_WORDS].copy_from_slice(&[site, tiers, parts]);
        }
        let ends = out.get_mut(ends_at..)?;
        for &chain in self.ends.chains {
            let mut slot = mix(chain) as usize & (ends.len() - 1);
            while ends[slot] != 0 && ends[slot] != chain {
                slot = (slot + 1) & (ends.len() - 1);
            }
            ends[slot] = chain;
        }
        Some(())
    }
}

fn path<'a>(tier: &ImageTier<'a>) -> &'a [u8] {
    match tier.source {
        Source::Directory(path) => path,
        _ => b"",
    }
}

/// A checked image.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    words: &'a [u64],
    tiers: usize,
    default_tier: u8,
    site_slots: usize,
    text: &'a [u8],
    statics: &'a [u64],
    moves: &'a [u64],
    ends: &'a [u64],
    longest: u64,
}

impl<'a> Image<'a> {
    /// Checks the words of an image; `None` if they are not one of this version, whole and consistent.
    pub fn new(words: &'a [u64]) -> Option<Image<'a>> {
        let w = |i: usize| words.get(i).copied();
        let size = |i: usize| w(i).and_then(|v| usize::try_from(v).ok()).filter(|&v| v <= words.len() * 8);
        if w(0)? != MAGIC || w(1)? != u64::from(crate::WIRE_VERSION) {
            return None;
        }
        let (tiers, site_slots) = (size(2)?, size(4)?);
        let default_tier = u8::try_from(w(3)?).ok()?;
        let (text_at, text_len) = (size(5)?, size(6)?);
        let text_words = words.get(text_at..text_at.checked_add(text_len / 8)?)?;
        let (statics_len, moves_len, ends_len, longest) = (size(7)?, size(8)?, size(9)?, w(10)?);
        let tail = words.get(text_at + text_len / 8..)?;
        let (statics, tail) = tail.split_at_checked(statics_len.checked_mul(STATIC_WORDS)?)?;
        let (moves, ends) = tail.split_at_checked(moves_len.checked_mul(MOVE_WORDS)?)?;
        if tiers == 0
            || tiers > MAX_TIERS
            || usize::from(default_tier) >= tiers
            || !site_slots.is_power_of_two()
            || SITES_AT.checked_add(site_slots * SITE_WORDS)? != text_at
            || text_len % 8 != 0
            || ends.len() != ends_len
            || !(ends.is_empty() || ends.len().is_power_of_two())
        {
            return None;
        }
        // SAFETY: u64s are plain bytes, and the length is that of the slice.
        let text = unsafe { core::slice::from_raw_parts(text_words.as_ptr().cast::<u8>(), text_len) };
        Some(Image { words, tiers, default_tier, site_slots, text, statics, moves, ends, longest })
    }

    /// Number of tiers.
    pub fn tiers(&self) -> usize {
        self.tiers
    }

    /// Tier of sites that are not listed.
    pub fn default_tier(&self) -> u8 {
        self.default_tier
    }

    /// A tier.
    pub fn tier(&self, index: usize) -> Option<ImageTier<'a>> {
        if index >= self.tiers {
            return None;
        }
        let t = self.words.get(HEAD_WORDS + index * TIER_WORDS..)?.get(..TIER_WORDS)?;
        let source = match t[3] {
            0 => Source::Nodes(u128::from(t[1]) | u128::from(t[2]) << 64),
            1 => {
                let start = usize::try_from(t[4]).ok()?;
                Source::Directory(self.text.get(start..start.checked_add(usize::try_from(t[5]).ok()?)?)?)
            }
            2 => Source::Plain,
            _ => return None,
        };
        Some(ImageTier { source, budget: (t[0] != u64::MAX).then_some(t[0]) })
    }

    /// Where a site goes, if it is listed.
    pub fn target_of(&self, site: u64) -> Option<Target> {
        let mut slot = mix(site) as usize & (self.site_slots - 1);
        for _ in 0..self.site_slots {
            let at = SITES_AT + slot * SITE_WORDS;
            match self.words.get(at).copied()? {
                0 => return None,
                id if id == site => {
                    return Target::from_words(self.words.get(at + 1..at + SITE_WORDS)?, self.tiers);
                }
                _ => slot = (slot + 1) & (self.site_slots - 1),
            }
        }
        None
    }

    /// The most frames that are known of a stack of which not all are; `None`: there is no such stack.
    pub fn longest(&self) -> Option<u64> {
        (!self.ends.is_empty()).then_some(self.longest)
    }

    /// Whether innermost frames with this chain are all that is known of a site.
    pub fn ends_with(&self, chain: u64) -> bool {
        let slot = mix(chain) as usize;
        let probed = (0..self.ends.len()).map(|i| self.ends.get((slot + i) & (self.ends.len() - 1)).copied());
        probed.take_while(|&there| there.is_some_and(|there| there != 0)).any(|there| there == Some(chain))
    }

    /// Static variables to move at start.
    pub fn statics(&self) -> impl Iterator<Item = ImageStatic> + 'a {
        let tiers = self.tiers;
        self.statics.chunks_exact(STATIC_WORDS).filter_map(move |w| {
            let target = Target::from_words(w.get(5..)?, tiers)?;
            let (site, module, offset, size, counts) = (*w.first()?, *w.get(1)?, *w.get(2)?, *w.get(3)?, *w.get(4)?);
            Some(ImageStatic { site, module, offset, size, target, counts })
        })
    }

    /// What phases move, in the order of [`Contents::moves`].
    pub fn moves(&self) -> impl Iterator<Item = ImageMove> + 'a {
        let tiers = self.tiers;
        self.moves.chunks_exact(MOVE_WORDS).filter_map(move |w| {
            let &[begins, number, every, site, place] = w else { return None };
            let [tier, rest, parts, idle, ..] = place.to_le_bytes();
            let of = |tier: u8| usize::from(tier) < tiers;
            (of(tier) && of(rest) && PARTED.contains(&parts)).then_some(ImageMove {
                begins,
                number,
                every,
                site,
                tier,
                parts,
                rest,
                idle: idle != 0,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn target(i: u64) -> Target {
        Target { tier: (i % 3) as u8, rest: (i % 2) as u8, parts: i << 55 }
    }

    fn sample() -> Vec<u64> {
        let tiers = [
            ImageTier { source: Source::Nodes(1 << 70 | 1), budget: Some(4096) },
            ImageTier { source: Source::Directory(b"/mnt/pmem0"), budget: None },
            ImageTier { source: Source::Plain, budget: None },
        ];
        let sites: Vec<_> = (1..500u64).map(|i| (i * 7, target(i))).collect();
        let statics = [ImageStatic { site: 9, module: 8, offset: 7, size: 6, target: Target::whole(2), counts: 5 }; 3];
        let moves = [ImageMove { begins: 4, number: 3, every: 2, site: 7, tier: 0, parts: 61, rest: 2, idle: true }; 2];
        let ends = Ends { chains: &[1, 2, 1 << 40], longest: 3 };
        let contents =
            Contents { tiers: &tiers, default_tier: 1, sites: &sites, statics: &statics, moves: &moves, ends };
        let mut words = vec![0; contents.words()];
        contents.write(&mut words).unwrap();
        words
    }

    #[test]
    fn what_is_written_is_found() {
        let words = sample();
        let image = Image::new(&words).unwrap();
        assert_eq!(image.tiers(), 3);
        assert_eq!(image.default_tier(), 1);
        assert_eq!(image.tier(0).unwrap(), ImageTier { source: Source::Nodes(1 << 70 | 1), budget: Some(4096) });
        assert_eq!(image.tier(1).unwrap().source, Source::Directory(b"/mnt/pmem0"));
        assert_eq!(image.tier(3), None);
        for i in 1..500u64 {
            assert_eq!(image.target_of(i * 7), Some(target(i)));
        }
        assert_eq!(image.target_of(8), None);
        assert!(image.moves().eq([ImageMove {
            begins: 4,
            number: 3,
            every: 2,
            site: 7,
            tier: 0,
            parts: 61,
            rest: 2,
            idle: true
        }; 2]));
        assert_eq!(
            (image.longest(), [1, 2, 3, 1 << 40].map(|c| image.ends_with(c))),
            (Some(3), [true, true, false, true])
        );
        assert_eq!(image.statics().count(), 3);
        assert!(
            image
                .statics()
                .all(|s| s
                    == ImageStatic { site: 9, module: 8, offset: 7, size: 6, target: Target::whole(2), counts: 5 })
        );
    }

    #[test]
    fn damaged_images_are_refused_or_harmless() {
        let good = sample();
        for cut in 0..good.len().min(200) {
            assert!(Image::new(&good[..cut]).is_none());
        }
        let mut x = 3u64;
        for _ in 0..20_000 {
            let mut bad = good.clone();
            x = mix(x.wrapping_add(1));
            let at = if x & 1 == 0 { x as usize % 72 } else { x as usize % bad.len() };
            bad[at] = mix(x) >> (x % 60);
            if let Some(image) = Image::new(&bad) {
                for i in 0..MAX_TIERS {
                    let _ = image.tier(i);
                }
                let _ = image.statics().count();
                let _ = (image.target_of(7), image.target_of(x));
            }
        }
    }
}
