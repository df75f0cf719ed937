//! Carries moves out, a stretch at a time, so that whoever has other things to do can do them in between. Keeps account of what moving
//! takes.

use crate::enforce::Move;
use crate::pages::{self, Moved, Refused};
use crate::table::{HUGE, PAGE};
use platform::now::Node;
use std::collections::VecDeque;
use std::time::Instant;

/// Bytes of small records that are moved together, by one call of the kernel: for a few pages such a call takes as long as it does for many.
const TOGETHER: u64 = pages::STEP as u64 * PAGE;

/// One of the platform's tiers, as the kernel knows it.
#[derive(Debug)]
pub struct Place {
    /// Its name.
    pub name: String,
    nodes: Vec<Node>,
}

impl Place {
    /// A tier of this name and of these nodes.
    pub fn new(name: String, nodes: &[u32]) -> Place {
        Place { name, nodes: nodes.iter().map(|n| Node::new(*n)).collect() }
    }

    /// Whether a node is one of its own.
    pub fn has(&self, node: u32) -> bool {
        self.nodes.iter().any(|n| n.number() == node)
    }

    /// The node that has most memory free.
    fn emptiest(&self) -> u32 {
        match &self.nodes[..] {
            [only] => only.number(),
            nodes => nodes.iter().max_by_key(|n| n.free().unwrap_or_default()).map_or(0, Node::number),
        }
    }

    /// Free memory of all its nodes.
    pub fn free(&self) -> u64 {
        self.nodes.iter().filter_map(Node::free).map(|bytes| bytes.0).sum()
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
        self.queue = together(moves);
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

    /// As if moving took so long for each byte, in ns.
    #[cfg(test)]
    pub fn takes(&mut self, ns_per_byte: f64) {
        self.account = (HUGE as f64, HUGE as f64 * ns_per_byte);
    }

    /// Moves one more stretch of a large record, or some small ones. `record`: the pid of the process of this number and the end of its record at this address, if
    /// there still is one. Gives the moves that have ended.
    pub fn step(
        &mut self,
        places: &[Place],
        mut record: impl FnMut(usize, u64) -> Option<(i32, u64)>,
    ) -> Result<Vec<Done>, (usize, Refused)> {
        let begun = self.going.take();
        let Some(what) = begun.as_ref().map(|going| going.what).or_else(|| self.queue.pop_front()) else {
            return Ok(Vec::new());
        };
        let (process, place) = (what.process as usize, &places[usize::from(what.to)]);
        if begun.is_none() {
            self.in_swap = what.to > what.from;
        }
        let Some((pid, end)) = record(process, what.addr) else { return Ok(Vec::new()) };
        if begun.is_none() && is_small(&what, end) {
            return self.some(pid, (what, end), place, record);
        }
        let mut going = begun.unwrap_or_else(|| Going {
            what,
            end,
            at: what.addr,
            node: place.emptiest(),
            moved: Moved::default(),
            took_ns: 0,
        });
        let next = ((going.at / HUGE + 1) * HUGE).min(going.end);
        // Of a part no more than that; a huge page goes whole all the same.
        let missing = going.what.bytes.next_multiple_of(PAGE).saturating_sub(going.moved.moved * PAGE);
        let next = if going.what.part { next.min(going.at + missing.max(PAGE)) } else { next };
        let (all, took_ns) = self.send(pid, process, &[(going.at, next - going.at)], going.node, place)?;
        let moved = all[0];
        going.at = next;
        going.took_ns += took_ns;
        going.moved.present += moved.present;
        going.moved.there += moved.there;
        going.moved.moved += moved.moved;
        going.moved.full = moved.full;
        let enough = going.what.part && going.moved.moved * PAGE >= going.what.bytes;
        if going.at < going.end && !enough && !moved.full {
            self.going = Some(going);
            return Ok(Vec::new());
        }
        Ok(vec![Done { what: going.what, moved: going.moved, took_ns: going.took_ns }])
    }

    /// Moves small records that follow each other in the queue and go the same way. `first`: one, and its end.
    fn some(
        &mut self,
        pid: i32,
        first: (Move, u64),
        place: &Place,
        mut record: impl FnMut(usize, u64) -> Option<(i32, u64)>,
    ) -> Result<Vec<Done>, (usize, Refused)> {
        let process = first.0.process as usize;
        let mut left = TOGETHER.saturating_sub(first.1 - first.0.addr);
        let mut moves = vec![first];
        while let Some(next) = self.queue.front().filter(|m| m.process == first.0.process && m.to == first.0.to) {
            // What is gone by now needs no place.
            if let Some((_, end)) = record(process, next.addr) {
                let bytes = end - next.addr;
                // Of three tiers one may come twice, from two of them.
                let again = moves.last().is_some_and(|(m, _)| m.addr == next.addr);
                if bytes > left || !is_small(next, end) || again {
                    break;
                }
                left -= bytes;
                moves.push((*next, end));
            }
            self.queue.pop_front();
        }
        let stretches: Vec<(u64, u64)> = moves.iter().map(|(m, end)| (m.addr, end - m.addr)).collect();
        let (all, took_ns) = self.send(pid, process, &stretches, place.emptiest(), place)?;
        let pages: u64 = all.iter().map(|m| m.moved).sum();
        let done = |((what, _), moved): ((Move, u64), Moved)| {
            let took_ns = took_ns * moved.moved / pages.max(1);
            Done { what, moved, took_ns }
        };
        Ok(moves.into_iter().zip(all).map(done).collect())
    }

    /// Moves stretches and keeps account of it. Gives what came of them, and the time that it took, in ns.
    fn send(
        &mut self,
        pid: i32,
        process: usize,
        stretches: &[(u64, u64)],
        node: u32,
        place: &Place,
    ) -> Result<(Vec<Moved>, u64), (usize, Refused)> {
        let began = Instant::now();
        let all = pages::send(pid, stretches, node, |n| place.has(n)).map_err(|e| (process, e))?;
        let took_ns = began.elapsed().as_nanos() as u64;
        let moved: u64 = all.iter().map(|m| m.moved).sum();
        if moved > 0 {
            // What was long ago counts half: machines change their pace.
            let (bytes, ns) = self.account;
            let fade = if bytes > 64.0 * HUGE as f64 { 0.5 } else { 1.0 };
            self.account = (fade * bytes + (moved * PAGE) as f64, fade * ns + took_ns as f64);
        }
        Ok((all, took_ns))
    }
}

/// Whether a record that ends here is moved together with others.
fn is_small(what: &Move, end: u64) -> bool {
    !what.part && end - what.addr <= TOGETHER
}

/// Swaps of small records, some at a time: first all that goes away in these, then all that comes, so that what goes the same way can be moved together. What makes
/// room still comes before what needs it.
fn together(moves: Vec<Move>) -> VecDeque<Move> {
    let way = |m: &Move| {
        let up = m.to < m.from;
        // What goes far away makes room for what does not go so far.
        (up, if up { m.to } else { u8::MAX - m.to }, m.process, m.addr)
    };
    let mut all = VecDeque::with_capacity(moves.len());
    let (mut some, mut sum): (Vec<Move>, u64) = (Vec::new(), 0);
    for swap in moves.split_inclusive(|m| m.to < m.from) {
        let bytes = swap.iter().map(|m| m.bytes).sum::<u64>();
        if sum + bytes > 2 * TOGETHER {
            some.sort_by_key(way);
            all.extend(some.drain(..));
            sum = 0;
        }
        sum += bytes;
        some.extend_from_slice(swap);
    }
    some.sort_by_key(way);
    all.extend(some);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Gain;

    fn what(process: u32, addr: u64, bytes: u64) -> Move {
        Move { process, addr, bytes, part: false, from: 0, to: 0, gain: Gain::default(), lasts: 1.0 }
    }

    /// On a machine with one node there is nothing to move, but all else happens.
    #[test]
    fn a_move_is_made_in_stretches() {
        let mut map = memmap2::MmapMut::map_anon(6 << 20).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(HUGE);
        let me = std::process::id() as i32;
        let node = pages::look(me, &[at]).expect("one may look at oneself")[0] as u32;
        let places = [Place::new("dram".into(), &[node])];
        assert!(places[0].free() > 0);
        let mut mover = Mover::default();
        mover.set(vec![what(0, at, 4 << 20), what(1, 0, 4096)]);
        let record = |process: usize, addr: u64| (process == 0).then_some((me, addr + (4 << 20)));
        assert!(mover.step(&places, record).expect("it works").is_empty(), "the first half");
        let done = mover.step(&places, record).expect("it works");
        let moved: Vec<_> = done.iter().map(|d| (d.moved.present, d.moved.there, d.moved.moved)).collect();
        assert_eq!(moved, [(1024, 1024, 0)], "the other half");
        assert!(!mover.is_idle() && mover.step(&places, record).expect("it is no more").is_empty());
        mover.set(vec![what(0, at, 4096)]);
        assert_eq!(mover.step(&places, |_, addr| Some((i32::MAX, addr + 4096))).map(|_| ()), Err((0, Refused::Gone)));
        assert!(mover.is_idle() && mover.ns_per_byte().is_none());
    }

    /// Swaps of an object of two pages for another one: of each tier there are as many to go as go by one call, and what makes room goes before what needs it.
    #[test]
    fn small_records_are_moved_together() {
        let mut map = memmap2::MmapMut::map_anon(8 << 20).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        let me = std::process::id() as i32;
        let node = pages::look(me, &[at]).expect("one may look at oneself")[0] as u32;
        let places = [0, 1].map(|n| Place::new(format!("tier {n}"), &[node]));
        let swap = |n: u64| {
            let away = Move { to: 1, ..what(0, at + (2 * n + 1) * 8192, 8192) };
            [away, Move { from: 1, ..what(0, at + 2 * n * 8192, 8192) }]
        };
        let large = [Move { to: 1, ..what(0, at, 4 << 20) }, Move { from: 1, ..what(0, at + 8192, 4 << 20) }];
        let mut mover = Mover::default();
        mover.set((0..80).flat_map(swap).chain(large).collect());
        let mut made = Vec::new();
        while !mover.is_idle() {
            let large = mover.queue.len() <= 2;
            // One of them has ended in the meantime.
            let gone = at + 6 * 8192;
            let record =
                |_: usize, addr: u64| (addr != gone).then_some((me, addr + if large { 4 << 20 } else { 8192 }));
            let done = mover.step(&places, record).expect("it works");
            made.extend(done.first().map(|first| (done.len(), first.what.to)));
        }
        assert_eq!(made, [(32, 1), (31, 0), (32, 1), (32, 0), (16, 1), (16, 0), (1, 1), (1, 0)]);
    }

    #[test]
    fn room_that_was_made_is_waited_with() {
        let places = [0, 1].map(|node| Place::new(format!("tier {node}"), &[node]));
        // So large that each is moved for itself.
        let (away, up) = (Move { to: 1, ..what(0, 0, HUGE) }, Move { from: 1, ..what(0, HUGE, HUGE) });
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
