//! The most important swaps of [`super::fill`], as many as move so many bytes, but at least one.

use super::{Enforce, Judge, Move, Room};
use crate::item::Item;
use model::Bytes;

pub struct Incremental {
    pub most: Bytes,
}

impl Enforce for Incremental {
    fn moves(&self, items: Vec<(f64, Item)>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        let mut moves = super::fill(items, rooms, super::USUAL_SHARE, judge);
        let (mut bytes, mut whole) = (0, 0);
        for (i, m) in moves.iter().enumerate() {
            bytes += m.bytes;
            if bytes > self.most.0 && whole > 0 {
                break;
            }
            // A move to a faster tier is the end of a swap.
            if m.to < m.from {
                whole = i + 1;
            }
        }
        moves.truncate(whole);
        moves
    }
}
