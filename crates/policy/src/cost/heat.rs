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

/// The share of a site's misses in each of the 64 parts of its objects; together 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Heat([f64; OF]);

/// Parts of about the same heat.
#[derive(Clone, Debug, PartialEq)]
pub struct Piece {
    /// Their numbers, ascending.
    pub parts: Vec<u32>,
    /// Their share of the misses.
    pub misses: f64,
}

impl Piece {
    /// Their share of the bytes.
    pub fn bytes(&self) -> f64 {
        self.parts.len() as f64 / f64::from(Parts::OF)
    }
}

impl Heat {
    /// What a profile says of a site whose objects are all of one size; `None`: nothing, or nothing that may not be chance.
    pub fn of(site: &SiteUse) -> Option<Heat> {
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
        let mut heat = [0.0; OF];
        let part = size.0 as f64 / OF as f64;
        for (i, heat) in heat.iter_mut().enumerate() {
            let (from, to) = (i as f64 * part, (i + 1) as f64 * part);
            for c in chunks.iter().filter(|c| Bytes(c.offset.0) < size) {
                let (a, b) = ends(c);
                let both = (to.min(b) - from.max(a)).max(0.0);
                *heat += c.misses() / misses * both / (b - a);
            }
        }
        Some(Heat(heat))
    }

    /// Share of the misses that fall on these parts.
    pub fn share(&self, parts: Parts) -> f64 {
        self.0.iter().enumerate().filter(|(i, _)| parts.mask() >> i & 1 == 1).map(|(_, heat)| heat).sum()
    }

    /// All parts by heat, the hottest pieces first.
    pub fn pieces(&self) -> Vec<Piece> {
        let mut order: Vec<u32> = (0..Parts::OF).collect();
        order.sort_by(|&a, &b| self.0[b as usize].total_cmp(&self.0[a as usize]).then(a.cmp(&b)));
        let mut pieces: Vec<Piece> = Vec::new();
        let mut hottest = f64::INFINITY;
        for part in order {
            let heat = self.0[part as usize];
            let last = pieces.len();
            match pieces.last_mut() {
                Some(piece) if heat >= ALIKE * hottest || last == PIECES => {
                    piece.parts.push(part);
                    piece.misses += heat;
                }
                _ => {
                    pieces.push(Piece { parts: vec![part], misses: heat });
                    hottest = heat;
                }
            }
        }
        pieces.iter_mut().for_each(|p| p.parts.sort_unstable());
        pieces
    }

    /// So many parts of each piece, of which some may not be whole: as many whole ones as those are together, the hottest first.
    pub fn parts(pieces: &[Piece], shares: &[f64]) -> Option<Parts> {
        let wanted: f64 = pieces.iter().zip(shares).map(|(p, s)| p.parts.len() as f64 * s).sum();
        let (mut mask, mut left) = (0u64, (wanted + 1e-6).floor() as usize);
        // First what each piece is given whole, then what is left over of all of them.
        for given in [|s: f64, n: usize| (s * n as f64 + 1e-6).floor() as usize, |_, n| n] {
            for (piece, &share) in pieces.iter().zip(shares) {
                let count = given(share, piece.parts.len());
                let free = piece.parts.iter().take(count).filter(|&&p| mask >> p & 1 == 0).take(left);
                let new: u64 = free.map(|&p| 1 << p).sum();
                left -= new.count_ones() as usize;
                mask |= new;
            }
        }
        Parts::of_mask(mask)
    }
}
