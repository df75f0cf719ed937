//! The most important swaps of [`super::fill`], as many as move so many bytes. Of one that is larger by itself a part: so much of what makes room, and as
//! much of what comes, half of the bytes each; the next interval has the rest.

use super::{Enforce, Judge, Move, Room};
use crate::candidates::Candidates;
use model::Bytes;

pub struct Incremental {
    pub most: Bytes,
}

impl Enforce for Incremental {
    fn moves(&self, candidates: Candidates<'_>, rooms: &[Room], judge: &Judge<'_>) -> Vec<Move> {
        let (mut out, mut left) = (Vec::new(), self.most.0);
        let moves = super::fill(candidates, rooms, super::USUAL_SHARE, judge);
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

/// Of a swap that is too large.
fn part(swap: &[Move], most: u64) -> Vec<Move> {
    let comes = |m: &Move| m.to < m.from;
    let swaps = swap.iter().any(comes) && !swap.iter().all(comes);
    let each = if swaps { most / 2 } else { most };
    // Bytes that may still go, and come.
    let mut left = [each; 2];
    let cut = |m: &Move| {
        let left = &mut left[usize::from(comes(m))];
        let bytes = m.bytes.min(*left);
        *left -= bytes;
        let share = bytes as f64 / m.bytes.max(1) as f64;
        (bytes > 0).then_some(Move { bytes, part: m.part || bytes < m.bytes, gain: m.gain.times(share), ..*m })
    };
    swap.iter().filter_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Gain;

    #[test]
    fn of_a_large_swap_a_part_is_made() {
        let one = |addr, bytes, from, to| Move {
            process: 0,
            addr,
            bytes,
            part: false,
            from,
            to,
            gain: Gain { all: 6.0, doubt: 3.0, ..Gain::default() },
            lasts: 1.0,
        };
        let swap = [one(1, 30, 0, 1), one(2, 30, 0, 1), one(3, 60, 1, 0)];
        let made =
            |moves: &[Move], most| part(moves, most).iter().map(|m| (m.addr, m.bytes, m.part)).collect::<Vec<_>>();
        assert_eq!(made(&swap, 40), [(1, 20, true), (3, 20, true)]);
        assert_eq!(made(&swap, 80), [(1, 30, false), (2, 10, true), (3, 40, true)]);
        assert_eq!(made(&swap[..2], 40), [(1, 30, false), (2, 10, true)], "room for what will come");
        assert_eq!(made(&swap[2..], 40), [(3, 40, true)]);
        let last = part(&swap, 40)[1];
        assert_eq!((last.gain.all, last.gain.doubt), (2.0, 1.0));
    }
}
