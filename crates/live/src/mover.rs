//! Carries moves out, a stretch at a time, so that whoever has other things to do can do them in between. Keeps account of what moving
//! takes.

use crate::enforce::Move;
use crate::pages::{self, Moved, Refused};
use crate::table::HUGE;
use platform::now;
use std::collections::VecDeque;
use std::time::Instant;

/// One of the platform's tiers, as the kernel knows it.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// Its nodes.
    pub nodes: Vec<u32>,
}

impl Place {
    /// The node that has most memory free.
    fn emptiest(&self) -> u32 {
        let free = |node: &&u32| now::free(**node).unwrap_or_default();
        self.nodes.iter().max_by_key(free).copied().unwrap_or(0)
    }

    /// Free memory of all its nodes.
    pub fn free(&self) -> u64 {
        self.nodes.iter().filter_map(|n| now::free(*n)).map(|bytes| bytes.0).sum()
    }
}

/// A move that is over.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// The move.
    pub what: Move,
    /// What came of it.
    pub moved: Moved,
    /// How long it took, in ns.
    pub took_ns: u64,
}

/// A move under way.
#[derive(Clone, Copy, Debug)]
struct Going {
    what: Move,
    /// End of the record, and how far it is done.
    end: u64,
    at: u64,
    node: u32,
    moved: Moved,
    took_ns: u64,
}

/// The moves that are still to be made.
#[derive(Debug, Default)]
pub struct Mover {
    queue: VecDeque<Move>,
    going: Option<Going>,
    /// Something was moved out of the way of what comes after it in the queue.
    in_swap: bool,
    /// Bytes moved so far, and the time that it took, in ns.
    account: (f64, f64),
}

impl Mover {
    /// Moves to be made instead of those that were still to be: a new decision knows better.
    pub fn set(&mut self, moves: Vec<Move>) {
        self.queue = moves.into();
    }

    /// A process has ended; its number may be another one's soon.
    pub fn forget(&mut self, process: usize) {
        self.queue.retain(|m| m.process as usize != process);
        self.going.take_if(|going| going.what.process as usize == process);
    }

    /// What is still to be begun.
    #[cfg(test)]
    pub fn queued(&self) -> impl Iterator<Item = &Move> {
        self.queue.iter()
    }

    /// Room was made for something that has not come yet. Whoever decides anew now has paid for half a swap, and would find the room free, also for what has
    /// just left it.
    pub fn is_in_swap(&self) -> bool {
        self.in_swap && !self.is_idle()
    }

    /// Nothing is to be done.
    pub fn is_idle(&self) -> bool {
        self.going.is_none() && self.queue.is_empty()
    }

    /// Time that moving takes for each byte, in ns, as measured so far; none if too little was moved.
    pub fn ns_per_byte(&self) -> Option<f64> {
        let (bytes, ns) = self.account;
        (bytes >= HUGE as f64).then(|| ns / bytes)
    }

    /// Moves one more stretch. `record`: the pid of the process of this number and the end of its record at this address, if there still is one. Gives the
    /// move that has ended, if any.
    pub fn step(
        &mut self,
        places: &[Place],
        record: impl FnOnce(usize, u64) -> Option<(i32, u64)>,
    ) -> Result<Option<Done>, (usize, Refused)> {
        let begun = self.going.take();
        let Some(what) = begun.as_ref().map(|going| going.what).or_else(|| self.queue.pop_front()) else {
            return Ok(None);
        };
        let (process, place) = (what.process as usize, &places[usize::from(what.to)]);
        if begun.is_none() {
            self.in_swap = what.to > what.from;
        }
        let Some((pid, end)) = record(process, what.addr) else { return Ok(None) };
        let mut going = begun.unwrap_or_else(|| Going {
            what,
            end,
            at: what.addr,
            node: place.emptiest(),
            moved: Moved::default(),
            took_ns: 0,
        });
        let next = ((going.at / HUGE + 1) * HUGE).min(going.end);
        let began = Instant::now();
        let moved = pages::send(pid, going.at, next - going.at, going.node, &place.nodes).map_err(|e| (process, e))?;
        let took_ns = began.elapsed().as_nanos() as u64;
        going.at = next;
        going.took_ns += took_ns;
        going.moved.present += moved.present;
        going.moved.there += moved.there;
        going.moved.moved += moved.moved;
        going.moved.full = moved.full;
        if moved.moved > 0 {
            // What was long ago counts half: machines change their pace.
            let (bytes, ns) = self.account;
            let fade = if bytes > 64.0 * HUGE as f64 { 0.5 } else { 1.0 };
            self.account = (fade * bytes + (moved.moved * crate::table::PAGE) as f64, fade * ns + took_ns as f64);
        }
        let enough = going.what.part && going.moved.moved * crate::table::PAGE >= going.what.bytes;
        if going.at < going.end && !enough && !moved.full {
            self.going = Some(going);
            return Ok(None);
        }
        Ok(Some(Done { what: going.what, moved: going.moved, took_ns: going.took_ns }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn what(process: u32, addr: u64, bytes: u64) -> Move {
        Move { process, addr, bytes, part: false, from: 0, to: 0, gain: 1.0, soon: 1.0, doubt: 0.0 }
    }

    /// On a machine with one node there is nothing to move, but all else happens.
    #[test]
    fn a_move_is_made_in_stretches() {
        let mut map = memmap2::MmapMut::map_anon(6 << 20).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(HUGE);
        let me = std::process::id() as i32;
        let node = pages::look(me, &[at]).expect("one may look at oneself")[0] as u32;
        let places = [Place { name: "dram".into(), nodes: vec![node] }];
        assert!(places[0].free() > 0);
        let mut mover = Mover::default();
        mover.set(vec![what(0, at, 4 << 20), what(1, 0, 4096), what(0, at, 4096)]);
        let record = |process: usize, addr: u64| (process == 0).then_some((me, addr + (4 << 20)));
        assert!(mover.step(&places, record).expect("it works").is_none(), "the first half");
        let done = mover.step(&places, record).expect("it works").expect("the other half");
        assert_eq!((done.moved.present, done.moved.there, done.moved.moved), (1024, 1024, 0));
        assert!(mover.step(&places, record).expect("it is no more").is_none() && !mover.is_idle());
        assert_eq!(mover.step(&places, |_, addr| Some((i32::MAX, addr + 4096))).map(|_| ()), Err((0, Refused::Gone)));
        assert!(mover.is_idle() && mover.ns_per_byte().is_none());
    }

    #[test]
    fn room_that_was_made_is_waited_with() {
        let places = [0, 1].map(|node| Place { name: format!("tier {node}"), nodes: vec![node] });
        let (away, up) = (Move { to: 1, ..what(0, 4096, 4096) }, Move { from: 1, ..what(0, 8192, 4096) });
        let mut mover = Mover::default();
        mover.set(vec![away, up, away]);
        assert!(!mover.is_in_swap(), "nothing was begun");
        let gone = |_: usize, _: u64| None;
        mover.step(&places, gone).expect("there is no such process any more");
        assert!(mover.is_in_swap());
        mover.step(&places, gone).expect("there is no such process any more");
        assert!(!mover.is_in_swap(), "the swap is over");
        mover.step(&places, gone).expect("there is no such process any more");
        assert!(!mover.is_in_swap() && mover.is_idle(), "what goes last makes room for nothing");
    }
}
