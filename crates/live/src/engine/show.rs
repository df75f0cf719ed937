//! What the engine shows of itself after each interval.

use super::{Engine, MOST_RECORDS, Process, Room};
use crate::clock::Clock;
use crate::heap;
use crate::status::{Board, ObjectStatus, ProgramStatus, ShareStatus, Status, TierStatus};
use crate::table::Record;
use model::log::SiteState;
use model::{Bytes, Frame, Module, Site, SiteId, SiteKind, SourceLine};
use policy::cost::moment::Lines;
use record::bounds::Bounds;
use record::follow::Stack;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// Sites that are remembered by their call stacks, and frames of each.
const MOST_SITES: usize = 1 << 16;
const MOST_FRAMES: usize = 16;
/// Objects that are shown: so many of the hottest, and of the largest.
const MOST_OBJECTS: usize = 64;
/// Sites in a state of the log: so many of the hottest, and of the largest of the others.
const LOGGED: (usize, usize) = (16, 8);
/// A cache line.
const LINE: f64 = 64.0;

/// What only those want to know who look.
#[derive(Default)]
pub struct Shown {
    sites: HashMap<SiteId, Site>,
    /// Bytes a second that were read and written in each tier in the last interval.
    traffic: Vec<[f64; 2]>,
    /// What had been moved before it, up and down.
    moved: [u64; 2],
}

impl Shown {
    /// A site's call stack.
    pub fn stack(&mut self, id: SiteId, stack: &Stack) {
        if self.sites.len() < MOST_SITES {
            let frames = stack.frames.iter().take(MOST_FRAMES);
            let frame =
                |f: &record::follow::RawFrame| Frame { module: f.module.clone(), offset: f.offset, source: Vec::new() };
            self.sites.insert(id, Site { apart: stack.apart, frames: frames.map(frame).collect(), ..nameless(id) });
        }
    }

    /// A static variable's name.
    pub fn variable(&mut self, id: SiteId, module: &Module, offset: u64, name: &str) {
        if self.sites.len() < MOST_SITES {
            let source = vec![SourceLine::named(name)];
            let frame = Frame { module: Some(module.clone()), offset, source };
            self.sites.insert(id, Site { kind: SiteKind::Static, frames: vec![frame], ..nameless(id) });
        }
    }

    /// The site as far as it is known.
    pub fn site(&self, id: SiteId) -> Site {
        let unknown = || if id == heap::site() { heap::named() } else { nameless(id) };
        self.sites.get(&id).cloned().unwrap_or_else(unknown)
    }

    /// Lines that were asked of each tier in an interval of so many seconds.
    pub fn asked(&mut self, asked: &[Lines], length_s: f64) {
        // A store that misses reads its line first.
        let traffic = |l: &Lines| [l.misses() + l.beside, l.written].map(|lines| lines * LINE / length_s);
        self.traffic = asked.iter().map(traffic).collect();
    }
}

/// The objects, by process and address, that have most of something.
#[derive(Default)]
struct Most(BinaryHeap<Reverse<(u64, usize, u64)>>);

impl Most {
    fn offer(&mut self, of: u64, process: usize, addr: u64) {
        let least = self.0.peek().filter(|_| self.0.len() >= MOST_OBJECTS);
        // Of a million that are alike none takes another one's place.
        if least.is_none_or(|Reverse((least, ..))| of > *least) {
            self.0.push(Reverse((of, process, addr)));
        }
        if self.0.len() > MOST_OBJECTS {
            self.0.pop();
        }
    }
}

fn nameless(id: SiteId) -> Site {
    Site { id, kind: SiteKind::Allocation, apart: None, frames: Vec::new() }
}

impl Engine<'_> {
    /// Shows its state on a board after each interval, beginning now. Time counts from now on.
    pub fn show_on(&mut self, board: Board) {
        self.clock = Clock::new(self.options.interval.0, record::now_ns());
        self.board = Some(board);
        // Many users' programs, and not one user's one.
        self.bounds = Bounds::new(MOST_RECORDS[0], MOST_RECORDS[1]);
        self.show(1.0);
    }

    /// Shows its state after an interval of so many seconds.
    pub(super) fn show(&mut self, length_s: f64) {
        let Some(board) = self.board.clone() else { return };
        let status = self.status(length_s);
        self.shown.moved = [self.lived.promoted.0, self.lived.demoted.0];
        if let Ok(mut board) = board.lock() {
            *board = status;
        }
    }

    /// Names are for those that have objects, when there are too many.
    pub(super) fn forget_sites(&mut self) {
        if self.shown.sites.len() >= MOST_SITES {
            let used: HashSet<SiteId> = self.tables.iter().flat_map(|t| t.iter().map(|(_, r)| r.site)).collect();
            self.shown.sites.retain(|id, _| used.contains(id));
        }
    }

    fn status(&self, length_s: f64) -> Status {
        let (mut hottest, mut largest) = (Most::default(), Most::default());
        let mut programs = Vec::new();
        for (i, p) in self.processes.iter().enumerate().filter(|(_, p)| !p.over) {
            let none = ProgramStatus { resident: vec![Bytes(0); self.places.len()], ..ProgramStatus::default() };
            let Process { pid, uid, exe, group, .. } = p;
            let (exe, group) = (exe.clone(), group.clone());
            let mut of = ProgramStatus { pid: *pid as u32, uid: *uid, exe, group, ..none };
            for (addr, r) in self.tables[i].iter() {
                let misses = r.heat.lines().misses();
                of.records += 1;
                of.misses_per_second += misses;
                r.divided(of.resident.len()).for_each(|(tier, bytes)| of.resident[tier].0 += bytes);
                // Misses a second are not negative, and of such numbers the bits have the same order.
                hottest.offer(misses.to_bits(), i, addr);
                largest.offer(r.bytes(), i, addr);
            }
            programs.push(of);
        }
        programs.sort_by_key(|p| (p.resident.first().map(|b| Reverse(b.0)), p.pid));
        let mut shown = HashSet::new();
        let both = hottest.0.into_sorted_vec().into_iter().chain(largest.0.into_sorted_vec());
        let objects = both.filter(|Reverse((_, process, addr))| shown.insert((*process, *addr)));
        let objects = objects.filter_map(|Reverse((_, process, addr))| {
            let (_, r) = self.tables[process].from(addr).next()?;
            Some(self.object(process, addr, r))
        });
        let rooms = self.rooms();
        let tier = |(k, room): (usize, &Room)| {
            let [read, written] = self.shown.traffic.get(k).copied().unwrap_or_default().map(|b| Bytes(b as u64));
            let (used, limit) = (Bytes(room.used), Bytes(room.limit));
            TierStatus {
                name: self.places[k].name.clone(),
                used,
                limit,
                read_per_second: read,
                written_per_second: written,
            }
        };
        let [up, down] = self.shown.moved;
        let rate = |now: Bytes, before: u64| Bytes(((now.0 - before) as f64 / length_s) as u64);
        Status {
            pid: std::process::id(),
            intervals: self.interval - 1,
            interval: self.options.interval,
            tiers: rooms.iter().enumerate().map(tier).collect(),
            shares: self.shares(rooms.first(), &programs),
            programs,
            objects: objects.collect(),
            promoted: self.lived.promoted,
            demoted: self.lived.demoted,
            beside: self.lived.beside,
            promoted_per_second: rate(self.lived.promoted, up),
            demoted_per_second: rate(self.lived.demoted, down),
            decisions: self.lived.decisions,
            last: self.last.clone(),
            notes: self.notes.shown(),
        }
    }

    fn object(&self, process: usize, addr: u64, r: &Record) -> ObjectStatus {
        let mut resident = vec![Bytes(0); self.places.len()];
        r.divided(resident.len()).for_each(|(tier, bytes)| resident[tier].0 += bytes);
        ObjectStatus {
            pid: self.processes[process].pid as u32,
            addr,
            site: self.shown.site(r.site),
            bytes: Bytes(r.bytes()),
            resident,
            misses_per_second: r.heat.lines().misses(),
        }
    }

    /// Writes how it is into the log: the hottest sites and the largest.
    pub(super) fn log_state(&mut self, now_ns: u64) {
        let mut sites: HashMap<SiteId, SiteState> = HashMap::new();
        for r in self.tables.iter().flat_map(|table| table.iter().map(|(_, r)| r)) {
            let new = SiteState { site: r.site, resident: Bytes(0), fast: Bytes(0), misses_per_second: 0.0 };
            let site = sites.entry(r.site).or_insert(new);
            site.misses_per_second += r.heat.lines().misses();
            r.divided(self.places.len()).for_each(|(tier, bytes)| {
                site.resident.0 += bytes;
                site.fast.0 += if tier == 0 { bytes } else { 0 };
            });
        }
        let mut sites: Vec<SiteState> = sites.into_values().collect();
        sites.sort_by(|a, b| b.misses_per_second.total_cmp(&a.misses_per_second).then(a.site.cmp(&b.site)));
        let mut rest = sites.split_off(sites.len().min(LOGGED.0));
        rest.sort_by_key(|s| (Reverse(s.resident), s.site));
        sites.extend(rest.into_iter().take(LOGGED.1));
        let rooms: Vec<_> = self.places.iter().zip(self.rooms()).collect();
        let shown = &self.shown;
        self.journal.state(now_ns, self.interval, sites, &rooms, |id| shown.site(id));
    }

    /// What groups may count on in the fastest tier, and what they have of it.
    fn shares(&self, fastest: Option<&Room>, programs: &[ProgramStatus]) -> Vec<ShareStatus> {
        let (Some(guarantees), Some(room)) = (self.guarantees(), fastest) else { return Vec::new() };
        let parts = guarantees.bytes(0, room.limit);
        let one = |(group, part): (&str, u64)| {
            let of_it = programs.iter().filter(|p| p.group == group);
            let used = of_it.filter_map(|p| p.resident.first()).map(|b| b.0).sum();
            ShareStatus { group: group.to_string(), part: Bytes(part), used: Bytes(used) }
        };
        guarantees.names().zip(parts).map(one).collect()
    }
}
