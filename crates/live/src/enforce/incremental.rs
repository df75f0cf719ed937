//! The most important swaps of [`super::fill`], as many as move so many bytes. Of one that is larger by itself a part: so much of what makes room, and as
//! much of what comes, half of the bytes each; the next interval has the rest.

use super::{Enforce, Judge, Move, Room};
use crate::item::Item;
use model::Bytes;

pub struct Incremental {
    pub most: Bytes,
}

impl Enforce for Incremental {
    fn moves(&self, items: Vec<(f64, Item)>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        let (mut out, mut left) = (Vec::new(), self.most.0);
        let moves = super::fill(items, rooms, super::USUAL_SHARE, judge);
        // A move to a faster tier is the end of a swap.
        for swap in moves.split_inclusive(|m| m.to < m.from) {
            let bytes: u64 = swap.iter().map(|m| m.bytes).sum();
            match bytes <= left {
                true => {
                    out.extend_from_slice(swap);
                    left -= bytes;
                }
                false if out.is_empty() => return part(swap, self.most.0),
                false => break,
            }
        }
        out
    }
}

fn part(swap: &[Move], most: u64) -> Vec<Move> {
    let comes = |m: &&Move| m.to < m.from;
    let (away, both) = (swap.iter().any(|m| !comes(&m)), swap.iter().any(|m| comes(&m)));
    let each = if away && both { most / 2 } else { most };
    let (mut out, mut left) = (Vec::new(), each);
    for m in swap {
        let most = if comes(&m) { each } else { left };
        if !comes(&m) {
            left = left.saturating_sub(m.bytes);
        }
        out.extend((most > 0).then_some(Move { most, ..*m }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_large_swap_a_part_is_made() {
        let one =
            |addr, bytes, from, to| Move { process: 0, addr, bytes, most: u64::MAX, from, to, gain: 0.0, doubt: 0.0 };
        let swap = [one(1, 30, 0, 1), one(2, 30, 0, 1), one(3, 60, 1, 0)];
        let made =
            |moves: &[Move], most| part(moves, most).iter().map(|m| (m.addr, m.bytes.min(m.most))).collect::<Vec<_>>();
        assert_eq!(made(&swap, 40), [(1, 20), (3, 20)]);
        assert_eq!(made(&swap, 80), [(1, 30), (2, 10), (3, 40)]);
        assert_eq!(made(&swap[..2], 40), [(1, 30), (2, 10)], "room for what will come");
        assert_eq!(made(&swap[2..], 40), [(3, 40)]);
    }
}
