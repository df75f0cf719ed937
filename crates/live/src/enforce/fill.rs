//! Each tier is filled up to a share of its room, so that some is left for what will be allocated.

use super::{Enforce, Judge, Move, Room};
use crate::item::Item;

pub struct Fill {
    pub share: f64,
}

impl Enforce for Fill {
    fn moves(&self, items: Vec<(f64, Item)>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        super::fill(items, rooms, self.share, judge)
    }
}
