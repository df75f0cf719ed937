//! Each tier is filled up to a share of its room, so that some is left for what will be allocated.

use super::{Enforce, Judge, Move, Room};
use crate::candidates::Candidates;

pub struct Fill {
    pub share: f64,
}

impl Enforce for Fill {
    fn moves(&self, candidates: Candidates<'_>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        super::fill(candidates, rooms, self.share, judge)
    }
}
