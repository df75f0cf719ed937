//! Which parts of a site's objects are hot: of a large object that is split, the hottest parts belong into the faster tier.
//!
//! A profile tells the misses of each chunk of objects of 32 MiB and more (paper 001, section 3.2.2, splits from 64 MB on). Samples fall
//! unevenly on chunks that are equally hot, too, so what they say is believed only if chance would hardly have done it: by Pearson's
//! chi-squared test, more than three standard deviations above its mean (Pearson 1900).

use model::{Bytes, Parts, SiteUse, SizeClass};

const OF: usize = Parts::OF as usize;
/// Parts are taken together as long as they are this share of the hottest of them, and into so many pieces at most.
const ALIKE: f64 = 0.7;
const PIECES: usize = 6;
/// Share of a site's misses that must be known to lie in its chunks.
const KNOWN: f64 = 0.9;

/// The share of a site's misses in each of the 64 parts of its objects, and of the bytes that take room; together 1 each.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat {
    misses: [f64; OF],
    bytes: [f64; OF],
}

/// Parts of about the same heat.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Their numbers, ascending.
    pub parts: Vec<u32>,
    /// Their share of the misses.
    pub misses: f64,
    /// Their share of the bytes that take room.
    pub bytes: f64,
}

impl Heat {
    /// What a profile says of a site whose objects are all of one size; `None`: nothing, or nothing that may not be chance. So much of
    /// them, `there`, takes room: parts that were missed on, before all. A static array as large as the largest problem may be touched in
    /// several stretches, and then its hot parts are all that there is of it.
    pub fn of(site: &SiteUse, there: f64) -> Option<Heat> {
        let size = site.largest;
        let class = SizeClass::of(size)?;
        let one_size = site.objects == 1 || site.lives.len() as u64 == site.objects;
        let chunks = &site.chunks;
        let misses: f64 = chunks.iter().map(|c| c.misses()).sum();
        let samples: u64 = chunks.iter().map(|c| c.samples).sum();
        if !one_size
            || site.lives.iter().any(|l| l.size != size)
            || chunks.iter().any(|c| c.class != class.least())
            || misses < KNOWN * site.misses()
            || misses <= 0.0
        {
            return None;
        }
        let ends = |c: &model::Chunk| (c.offset.0 as f64, (c.offset + c.size).0.min(size.0) as f64);
        let expected = |c: &model::Chunk| (ends(c).1 - ends(c).0) / size.0 as f64 * samples as f64;
        let squares = |c: &model::Chunk| {
            let seen = c.misses() / misses * samples as f64;
            (seen - expected(c)).powi(2) / expected(c).max(f64::MIN_POSITIVE)
        };
        let freedom = class.all().filter(|at| at.offset() < size).count() as f64 - 1.0;
        // A chunk without a row was never missed on.
        let missing = samples as f64 - chunks.iter().map(expected).sum::<f64>();
        let chi: f64 = chunks.iter().map(squares).sum::<f64>() + missing.max(0.0);
        if chi <= freedom + 3.0 * (2.0 * freedom).sqrt() {
            return None;
        }
        let mut heat = [0.0f64; OF];
        let part = size.0 as f64 / OF as f64;
        for (i, heat) in heat.iter_mut().enumerate() {
            let (from, to) = (i as f64 * part, (i + 1) as f64 * part);
            for c in chunks.iter().filter(|c| Bytes(c.offset.0) < size) {
                let (a, b) = ends(c);
                let both = (to.min(b) - from.max(a)).max(0.0);
                *heat += c.misses() / misses * both / (b - a);
            }
        }
        let hot = heat.iter().filter(|h| **h > 0.0).count() as f64;
        let (each, there) = (1.0 / OF as f64, there.clamp(f64::MIN_POSITIVE, 1.0));
        let of_hot = each.min(there / hot.max(1.0));
        let of_cold = (there - of_hot * hot).max(0.0) / (OF as f64 - hot).max(1.0);
        let bytes = heat.map(|h| if h > 0.0 { of_hot } else { of_cold } / there);
        Some(Heat { misses: heat, bytes })
    }

    /// Share of the misses that fall on these parts.
    pub fn share(&self, parts: Parts) -> f64 {
        sum(&self.misses, parts)
    }

    /// Share of the bytes that take room which lie in these parts.
    pub fn bytes(&self, parts: Parts) -> f64 {
        sum(&self.bytes, parts)
    }

    /// All parts by heat, the hottest pieces first.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut order: Vec<u32> = (0..Parts::OF).collect();
        order.sort_by(|&a, &b| self.misses[b as usize].total_cmp(&self.misses[a as usize]).then(a.cmp(&b)));
        let mut pieces: Vec<Piece> = Vec::new();
        let mut hottest = f64::INFINITY;
        for part in order {
            let (heat, bytes) = (self.misses[part as usize], self.bytes[part as usize]);
            let last = pieces.len();
            match pieces.last_mut() {
                // What takes no room is not taken together with what does.
                Some(piece) if (heat >= ALIKE * hottest || last >= PIECES) && (bytes > 0.0) == (piece.bytes > 0.0) => {
                    piece.parts.push(part);
                    piece.misses += heat;
                    piece.bytes += bytes;
                }
                _ => {
                    pieces.push(Piece { parts: vec![part], misses: heat, bytes });
                    hottest = heat;
                }
            }
        }
        pieces.iter_mut().for_each(|p| p.parts.sort_unstable());
        pieces
    }

    /// So many parts of each piece, of which some may not be whole: as many whole ones as those take room together, the hottest first.
    pub fn parts(pieces: &[Piece], shares: &[f64]) -> Option<Parts> {
        let mut left: f64 = pieces.iter().zip(shares).map(|(p, s)| p.bytes * s).sum::<f64>() + 1e-6;
        let mut mask = 0u64;
        // First what each piece is given whole, then what is left over of all of them.
        for given in [|s: f64, n: usize| (s * n as f64 + 1e-6).floor() as usize, |_, n| n] {
            for (piece, &share) in pieces.iter().zip(shares) {
                let (count, each) = (given(share, piece.parts.len()), piece.bytes / piece.parts.len() as f64);
                for part in piece.parts.iter().take(count) {
                    if mask >> part & 1 == 0 && each <= left && each > 0.0 {
                        left -= each;
                        mask |= 1 << part;
                    }
                }
            }
        }
        Parts::of_mask(mask)
    }
}

fn sum(of: &[f64; OF], parts: Parts) -> f64 {
    of.iter().enumerate().filter(|(i, _)| parts.mask() >> i & 1 == 1).map(|(_, share)| share).sum()
}
