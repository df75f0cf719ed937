//! The engine: told of everything that happens in the observed processes, it keeps the records, and after each interval asks the four
//! routines what is to be done. What they decide it does in small steps between two looks at the rings.

use crate::account::{Account, Made};
use crate::armed::{Armed, page};
use crate::bound::Bound;
use crate::clock::Clock;
use crate::counted::Counted;
use crate::course::{Course, Over};
use crate::enforce::Room;
use crate::heap;
use crate::journal::Journal;
use crate::kept::Kept;
use crate::mover::{Done, Mover, Place};
use crate::notes::{About, Notes};
use crate::pages::{self, Refused};
use crate::rates::Rates;
use crate::routines::Routines;
use crate::status::{Board, LastMove};
use crate::table::{HUGE, NOWHERE, PAGE, Record, Table};
use crate::taken::Taken;
use crate::trigger::Lately;
use crate::young::{Born, Young};
use crate::{Lived, Options};
use foldhash::HashSet;
use model::{Bytes, Module, SiteId};
use policy::cost::memory::Memory;
use policy::cost::moment::Lines;
use profile::estimate::Exposure;
use record::Error;
use record::bounds::Bounds;
use record::follow::{Object, Quiet, Sink, Stack, Started, Visit};
use record::misses::{Miss, Place as Region};
use record::owner::Owner;
use record::pick_up::Found;
use std::ops::Range;
use std::time::{Duration, Instant};

mod decide;
mod show;

/// Share of the time that looking up where records are may take, and when nothing was found to have changed.
const LOOKING: f64 = 0.02;
const LOOKING_CALM: f64 = 0.0025;
/// Share of an interval that is for records that are new.
const LOOKING_NEW: f64 = 0.015;
/// So many objects are new at most: more cannot be looked up in the time.
const MOST_NEW: usize = 1 << 16;
/// Pages that are looked up by one call, and those of one more record.
const LOOKS: usize = 256;
/// Pages of a record that are looked up, at most: so many tell a half from a third.
const LOOKS_EACH: u64 = 16;
/// Intervals for which a record that could not be moved is left alone.
const REST: u8 = 50;
/// Records of one process, and in a daemon of a user's processes: more are not placed.
const MOST_RECORDS: [usize; 2] = [1 << 22, 1 << 23];
/// Pieces of one object: of a larger one nothing is known but that somebody made it up.
const MOST_PIECES: u64 = 1 << 18;
/// What a step of moving may take before rings are looked at again.
const TURN: Duration = Duration::from_millis(2);

/// A process that reported.
#[derive(Debug)]
struct Process {
    pid: i32,
    uid: u32,
    exe: String,
    /// What it shares the fast memory with; empty if that is not shared by groups.
    group: String,
    /// Number of the job that it is of.
    job: usize,
    /// Memory that the program has bound itself.
    bound: Bound,
    /// Bytes that it had allocated when its objects were read last.
    allocated: u64,
    over: bool,
    /// The kernel does not permit to move its pages, nor to ask where they are.
    watched_only: bool,
}

/// Looking up where records are goes round.
#[derive(Debug)]
struct Looking {
    /// Where it goes on: number of a process, address.
    process: usize,
    from: u64,
    /// When.
    next: Instant,
    /// Something was not as it had been found before in this round.
    changed: bool,
    /// In the round before nothing was, and there are no new records.
    calm: bool,
}

impl Default for Looking {
    fn default() -> Looking {
        Looking { process: 0, from: 0, next: Instant::now(), changed: false, calm: false }
    }
}

impl Process {
    /// Nothing of it can be moved.
    fn is_still(&self) -> bool {
        self.over || self.watched_only
    }
}

/// Processes that are in the same phases.
#[derive(Debug)]
struct Job {
    /// Its user and its number; that is 0 for all that was started by this command.
    name: (u32, u32),
    course: Course,
    /// Of moves of its objects.
    account: Account,
}

/// The engine.
pub struct Engine<'a> {
    options: &'a Options,
    routines: Routines,
    /// Tiers that are NUMA nodes, fastest first, and what their memory is like.
    places: Vec<Place>,
    memories: Vec<Memory>,
    /// The place in which all is that no record has.
    home: usize,
    /// Most bytes of each that may be taken.
    capacities: Vec<u64>,
    /// What is free of a tier, and what of it cannot be had.
    free: fn(&Place) -> u64,
    kept: Vec<Kept>,
    taken: Taken,
    processes: Vec<Process>,
    tables: Vec<Table>,
    bounds: Bounds,
    young: Young,
    counted: Counted,
    armed: Armed,
    /// Misses are counted, and not estimated from page faults.
    counts: bool,
    llc: u64,
    /// There is one processor for the programs and for moving: while something is moved they do not get on.
    alone: bool,
    /// Number of the current interval; the first is 1.
    interval: u32,
    clock: Clock,
    /// Those that have a process, and places of others for new ones.
    jobs: Vec<Job>,
    /// Sites with misses, of those that a profile has told, of which there were records.
    met: HashSet<SiteId>,
    allocated: u64,
    instructions: Option<(u64, u64)>,
    looking: Looking,
    /// Memory whose records have not been looked up yet, with the number of its process.
    new: Vec<(usize, Range<u64>)>,
    mover: Mover,
    /// Something was moved in this interval.
    moved: bool,
    journal: Journal,
    lived: Lived,
    /// A decision is due, for this reason.
    due: Option<String>,
    notes: Notes,
    /// The reason of the latest decision, and the latest move.
    why: String,
    last: Option<LastMove>,
    /// What is shown of it, if anybody looks.
    board: Option<Board>,
    shown: show::Shown,
}

impl<'a> Engine<'a> {
    /// An engine that writes what it does into the journal. `counts`: the sampler counts misses; `llc`: bytes of the last-level cache.
    pub fn new(options: &'a Options, routines: Routines, journal: Journal, counts: bool, llc: u64) -> Engine<'a> {
        let tiers: Vec<_> = options.platform.tiers.iter().filter(|t| !t.nodes.is_empty()).collect();
        let mut notes = Vec::new();
        let memories: Vec<Memory> = tiers.iter().map(|t| Memory::of(t, &mut notes)).collect();
        let mut capacities: Vec<u64> = tiers.iter().map(|t| t.capacity.map_or(u64::MAX, |c| c.value.0)).collect();
        if let Some(fast) = options.fast {
            capacities[0] = capacities[0].min(fast.0);
        }
        let places = tiers.iter().map(|t| Place::new(t.name.clone(), &t.nodes)).collect::<Vec<_>>();
        if places.len() < 2 {
            // What is assumed of its only memory does not matter.
            notes.clear();
            notes.push(
                "this machine has one tier of memory: the program is observed, and there is nothing to place"
                    .to_string(),
            );
        }
        let kept = vec![Kept::default(); places.len()];
        let lived = Lived { tiers: places.iter().map(|p: &Place| p.name.clone()).collect(), ..Lived::default() };
        Engine {
            options,
            routines,
            places,
            memories,
            home: model::home(tiers),
            capacities,
            free: Place::free,
            kept,
            taken: Taken::default(),
            processes: Vec::new(),
            tables: Vec::new(),
            bounds: Bounds::new(MOST_RECORDS[0], usize::MAX),
            young: Young::default(),
            counted: Counted::default(),
            armed: Armed::default(),
            counts,
            llc,
            alone: std::thread::available_parallelism().is_ok_and(|n| n.get() == 1),
            interval: 1,
            clock: Clock::new(options.interval.0, 0),
            jobs: Vec::new(),
            met: HashSet::default(),
            allocated: 0,
            instructions: None,
            looking: Looking::default(),
            new: Vec::new(),
            mover: Mover::default(),
            moved: false,
            journal,
            lived,
            due: None,
            notes: Notes::new(notes),
            why: String::new(),
            last: None,
            board: None,
            shown: show::Shown::default(),
        }
    }

    /// What it has done.
    pub fn end(self) -> Lived {
        let mut lived = self.lived;
        lived.intervals = self.interval - 1;
        lived.notes = self.notes.sentences();
        lived.notes.extend(self.options.known.as_ref().and_then(|known| known.note(self.met.len())));
        lived.notes.extend(self.journal.end());
        lived
    }

    fn keep(&mut self, b: &Born) {
        let process = b.process as usize;
        let (Some(table), Some(of)) = (self.tables.get_mut(process), self.processes.get(process)) else { return };
        let before = table.len();
        let full = before >= self.bounds.of(of.uid, before);
        if full || b.size() / self.options.split.0.max(HUGE) > MOST_PIECES {
            return;
        }
        let memory = table.add(b.addr, b.size(), self.options.split.0, Record::new(b.site, b.kind, self.interval));
        let more = table.len().saturating_sub(before);
        self.bounds.more(of.uid, more);
        self.look_soon(process, memory);
    }

    /// Objects that have outlived the interval become records.
    fn grow_up(&mut self) {
        let mut grown: Vec<Born> = self.young.take().collect();
        self.count_records();
        // One after the other they find the table's leaves in the cache.
        grown.sort_unstable_by_key(|b| (b.process, b.addr));
        grown.iter().for_each(|b| self.keep(b));
        self.lived.most_records = self.lived.most_records.max(self.tables.iter().map(|t| t.len() as u64).sum());
    }

    /// Of users that have many, no more are kept.
    fn count_records(&mut self) {
        let all = self.processes.iter().zip(&self.tables);
        self.bounds.count(all.map(|(p, table)| (p.uid, table.len())));
    }

    fn gone(&mut self, process: usize, o: &Object) {
        if !self.young.died(o) {
            let mut starts = Vec::new();
            self.tables[process].remove(o.addr, o.size.max(1), o.kind, |start| starts.push(start));
            self.departs(process, o.site, o.size / PAGE + 1, &starts);
        }
    }

    /// What these records were of is no more.
    fn end_records(&mut self, process: usize, gone: Vec<(u64, Record)>) {
        for (start, record) in gone {
            self.tables[process].remove_one(start);
            self.departs(process, record.site, record.pages.into(), &[start]);
        }
    }

    /// The records of an object are no more.
    fn departs(&mut self, process: usize, site: SiteId, pages: u64, starts: &[u64]) {
        let job = &mut self.jobs[self.processes[process].job];
        job.course.departs(process, site, pages, starts);
        job.account.departs(process, starts);
    }

    /// The records of some memory are looked up first.
    fn look_soon(&mut self, process: usize, memory: Range<u64>) {
        if self.new.len() < MOST_NEW {
            self.new.push((process, memory));
        }
    }

    /// Looks up where records are, as many as there is time for: those that are new, and then all of them by turns.
    fn look(&mut self) {
        let share = |of: f64| Duration::from_secs_f64(of * self.options.interval.0 as f64 / 1e9);
        let began = Instant::now();
        let most = [LOOKING_NEW, LOOKING].map(|of| began + share(of));
        let new = std::mem::take(&mut self.new);
        self.looking.calm &= new.is_empty();
        // Those of one process are looked up together.
        for new in new.chunk_by(|a, b| a.0 == b.0).flat_map(|of| of.chunks(LOOKS)) {
            if Instant::now() < most[0] {
                self.look_at(new[0].0, new.iter().map(|(_, memory)| memory.clone()));
            }
        }
        if began < self.looking.next {
            return;
        }
        let Looking { mut process, mut from, .. } = self.looking;
        // Some at least, and no further than to the end of the round.
        while process < self.tables.len() {
            from = self.look_at(process, std::iter::once(from..u64::MAX));
            if from == u64::MAX {
                (process, from) = (process + 1, 0);
            }
            if Instant::now() >= most[1] {
                break;
            }
        }
        if process >= self.tables.len() {
            self.looking.calm = !std::mem::take(&mut self.looking.changed);
            (process, from) = (0, 0);
        }
        let share = if self.looking.calm { LOOKING_CALM } else { LOOKING };
        (self.looking.process, self.looking.from) = (process, from);
        // It may have been a program that took the time meanwhile: no more intervals go by than if all was taken that there is.
        self.looking.next = began + began.elapsed().min(most[1] - began).div_f64(share);
    }

    /// Looks up some pages of each of a process's records in some memory, as many as go together. Gives the address where it has stopped.
    fn look_at(&mut self, process: usize, memory: impl IntoIterator<Item = Range<u64>>) -> u64 {
        let Some(of) = self.processes.get(process).filter(|p| !p.is_still()) else { return u64::MAX };
        let table = &self.tables[process];
        let records = memory.into_iter().flat_map(|m| table.from(m.start).take_while(move |(start, _)| *start < m.end));
        let (mut asked, mut owners) = (Vec::with_capacity(LOOKS), Vec::new());
        let mut stop = u64::MAX;
        for (start, r) in records {
            if asked.len() >= LOOKS {
                stop = start;
                break;
            }
            let count = u64::from(r.pages).min(LOOKS_EACH);
            // The middle of each stretch: neither ends are favoured.
            asked.extend((0..count).map(|n| start + (2 * n + 1) * u64::from(r.pages) / (2 * count) * PAGE));
            owners.push((start, count));
        }
        match pages::look(of.pid, &asked) {
            Ok(nodes) => self.found(process, &owners, &nodes),
            Err(e) => self.refused(process, &e),
        }
        stop
    }

    /// What is free of each tier.
    fn look_for_room(&mut self) {
        for (place, kept) in self.places.iter().zip(&mut self.kept) {
            kept.over((self.free)(place));
        }
    }

    /// Takes note of what was looked up: so many pages of each record, one after the other.
    fn found(&mut self, process: usize, owners: &[(u64, u64)], nodes: &[i32]) {
        let mut rest = nodes;
        for &(start, count) in owners {
            let (own, others) = rest.split_at(count as usize);
            rest = others;
            let mut tiers = vec![0u64; self.places.len()];
            own.iter().filter_map(|n| self.tier_of(*n)).for_each(|k| tiers[k] += 1);
            if let Some(r) = self.tables[process].get(start) {
                self.looking.changed |= r.found(&tiers, count);
            }
        }
    }

    /// Number of the job of this name; it begins if it has no process.
    fn job(&mut self, name: (u32, u32)) -> usize {
        let jobs = self.jobs.len();
        let mut lives = vec![false; jobs];
        self.processes.iter().filter(|p| !p.over).for_each(|p| lives[p.job] = true);
        if let Some(number) = (0..jobs).find(|&n| self.jobs[n].name == name && lives[n]) {
            return number;
        }
        let new = Job { name, course: Course::new(), account: Account::default() };
        match (0..jobs).find(|&n| !lives[n]) {
            Some(number) => {
                self.jobs[number] = new;
                number
            }
            None => {
                self.jobs.push(new);
                jobs
            }
        }
    }

    fn tier_of(&self, node: i32) -> Option<usize> {
        let node = u32::try_from(node).ok()?;
        self.places.iter().position(|p| p.has(node))
    }

    fn refused(&mut self, process: usize, why: &Refused) {
        let note = match why {
            Refused::Gone => String::new(),
            Refused::NotPermitted => {
                "the kernel does not permit to move the pages of a process (move_pages): it changed its user or has \
                                      capabilities, its cpuset lacks a node, or a container forbids it; it is observed only"
                    .to_string()
            }
            Refused::Other(what) => format!("moving pages failed: {what}"),
        };
        self.processes[process].over |= *why == Refused::Gone;
        self.processes[process].watched_only |= *why == Refused::NotPermitted;
        self.notes.add(self.about(process), "", note);
    }

    /// Whose business it is what happens to a process. Of a launcher all processes are one program.
    fn about(&self, process: usize) -> About {
        let of = |p: &Process| About::Process(p.uid, p.pid as u32);
        self.processes.get(process).filter(|_| self.board.is_some()).map_or(About::All, of)
    }

    /// What was asked of the records in the interval that is over, and of memory that is no record: of each job, and samples that tell so.
    fn rates(&mut self, length_s: f64) -> Vec<(Rates, Lines, f64)> {
        let mut all: Vec<(Rates, Lines, f64)> = vec![Default::default(); self.jobs.len()];
        let job = |process: usize| self.processes.get(process).map_or(0, |p| p.job);
        let rates = if let Some(known) = &self.options.known {
            let rates = known.rates(&self.tables);
            let hot = || rates.others.iter().filter(|(_, o)| !o.page.is_none()).map(|(site, _)| *site);
            self.met.extend(hot());
            let samples = hot().count() as f64;
            all.iter_mut().for_each(|of| of.2 = samples);
            rates
        } else if self.counts {
            for (process, (elsewhere, samples)) in self.counted.processes() {
                let of = &mut all[job(process)];
                of.1 = of.1.with(elsewhere, |a, b| a + b);
                of.2 += samples;
            }
            self.counted.rates(length_s)
        } else {
            self.armed.visits(self.interval).for_each(|process| all[job(process)].2 += 1.0);
            match self.armed.is_empty() {
                true => Rates::default(),
                false => self.armed.rates(self.interval, length_s, self.llc, &mut self.tables),
            }
        };
        for (of, rates) in all.iter_mut().zip(rates.divided(self.jobs.len(), job)) {
            of.0 = rates;
        }
        all
    }

    /// Aggregates what was asked of the records; gives the sum of what was asked of each tier in this interval, and in an interval of this phase in the mean, and all misses of this interval.
    fn aggregate(&mut self, now_ns: u64, length_s: f64) -> (Vec<Lines>, Vec<Lines>, f64) {
        let interval = self.interval;
        let mut asked = vec![Lines::default(); self.places.len()];
        let calm = !std::mem::take(&mut self.moved);
        let timed = calm && self.counts && self.options.known.is_none();
        for (number, (rates, elsewhere, samples)) in self.rates(length_s).into_iter().enumerate() {
            // Nobody knows where that is: as in the planner, where the kernel gives memory first.
            asked[self.home] = asked[self.home].with(elsewhere, |a, b| a + b);
            let own = || self.processes.iter().zip(&self.tables).enumerate().filter(|(_, (p, _))| p.job == number);
            let records = || own().flat_map(|(process, (_, t))| t.iter().map(move |(start, r)| (process, start, r)));
            let over = Over { interval, now_ns, length_s, rates, elsewhere, samples, timed };
            let told = self.jobs[number].course.over(over, records);
            self.lived.phases += told.began;
            self.lived.recalled += told.recalled;
        }
        let mut lines = asked[self.home].misses();
        let mut usual = asked.clone();
        for (process, table) in self.tables.iter_mut().enumerate() {
            let course = &self.jobs[self.processes[process].job].course;
            let awake = course.awake(interval).max(1);
            for (start, r) in table.iter_mut() {
                let now = course.latest(process, start, r);
                let phase = course.in_phase(process, start, r);
                lines += now.misses() * length_s;
                r.rest = r.rest.saturating_sub(1);
                r.visited = r.visited.saturating_add(u16::from(!now.is_none()));
                if !(now.is_none() && r.heat == Default::default()) {
                    // In the interval of its birth it was no record, and nothing was counted for it.
                    let age = interval.saturating_sub(r.born).clamp(1, awake);
                    r.heat = self.routines.aggregate.aggregate(r.heat.lines(), now, age).into();
                }
                // It has been touched since it was looked up.
                self.looking.calm &= r.tier != NOWHERE || now.is_none();
                if r.tier != NOWHERE && !(now.is_none() && phase.is_none()) {
                    let (tier, there) = (usize::from(r.tier), r.there());
                    let other = if tier == 0 { asked.len() - 1 } else { 0 };
                    for (k, share) in [(tier, there), (other, 1.0 - there)] {
                        for (sums, rate) in [(&mut asked, now), (&mut usual, phase)] {
                            sums[k] = sums[k].with(rate.times(length_s), |sum, more| sum + share * more);
                        }
                    }
                }
            }
        }
        (asked, usual, lines)
    }

    fn done(&mut self, now_ns: u64, done: &Done) {
        let m = &done.what;
        let bytes = Bytes(done.moved.moved * PAGE);
        let (process, from, to) = (m.process as usize, usize::from(m.from), usize::from(m.to));
        let pid = self.processes[process].pid;
        let Some(r) = self.tables[process].get(m.addr) else { return };
        let memory = m.addr..m.addr + r.bytes();
        let unknown = m.part || done.moved.full;
        if done.moved.present > 0 {
            if !unknown {
                let mut tiers = vec![0; self.places.len()];
                tiers[to] = done.moved.there;
                tiers[from] += done.moved.present - done.moved.there;
                let all = u64::from(r.pages);
                r.found(&tiers, all);
            }
            // Pages that are locked, or of which the program has said where they belong; or there was no room.
            if done.moved.moved == 0 && done.moved.there < done.moved.present {
                r.rest = REST;
                self.lived.refused += 1;
            }
        }
        let job = &mut self.jobs[self.processes[process].job];
        let beside = job.course.is_beside(process, m.addr, r);
        if done.moved.moved > 0 {
            let (share, took) = ((bytes.0 as f64 / r.resident().max(1) as f64).min(1.0), done.took_ns as f64);
            let known = job.course.left(self.interval).is_some();
            job.account.made(process, m.addr, Made { share, from, to, took, lasts: m.lasts, known });
        }
        let site = self.shown.site(r.site);
        if unknown {
            self.look_soon(process, memory);
        }
        if done.moved.full {
            let free = (self.free)(&self.places[to]);
            self.kept[to].found_none(free, self.interval);
            // What else was to come would find none either.
            self.mover.set(Vec::new());
        }
        if beside {
            self.lived.beside += bytes;
        }
        if to < from {
            self.lived.promoted += bytes;
        } else {
            self.lived.demoted += bytes;
        }
        self.lived.asked += done.moved.present;
        self.lived.there += done.moved.there;
        self.lived.moving.0 += done.took_ns;
        let between = [&self.places[from], &self.places[to]];
        self.journal.moved(now_ns, pid, &site, between, done);
        let [from, to] = between.map(|place| place.name.clone());
        let (gain_ns, why) = (m.gain.all, self.why.clone());
        self.last = Some(LastMove { pid: pid as u32, site, from, to, bytes, gain_ns, why });
    }
}

impl Sink for Engine<'_> {
    fn started(&mut self, process: usize, s: &Started) -> Result<(), Error> {
        let uid = Owner::of(s.pid as i32).map_or(u32::MAX, |o| o.uid);
        let group = self.options.shares.as_ref().map(|shares| {
            // It says itself what it descends from: of another user's it can not.
            let parent = self.processes.iter().find(|p| !p.over && p.pid == s.ppid as i32 && p.uid == uid);
            let before = self.processes.iter().find(|p| p.pid == s.pid as i32 && p.uid == uid);
            let job = s.job.to_string();
            let others = self.processes.iter().any(|p| !p.over && p.uid != uid && p.group == job);
            let family = before.or(parent).map(|p| p.group.as_str());
            let family = if s.job > 0 && !others { Some(job.as_str()) } else { family };
            shares.group(s.pid, uid, &s.exe, family)
        });
        let job = self.job((uid, s.job));
        let new = Process {
            pid: s.pid as i32,
            uid,
            exe: s.exe.clone(),
            group: group.unwrap_or_default(),
            job,
            bound: Bound::default(),
            allocated: 0,
            over: false,
            watched_only: false,
        };
        match self.processes.get_mut(process) {
            // The number of one that has ended is given to another.
            Some(place) => *place = new,
            None => {
                self.processes.push(new);
                self.tables.push(Table::default());
            }
        }
        Ok(())
    }

    fn site(&mut self, process: usize, site: SiteId, stack: &Stack) -> Result<(), Error> {
        self.jobs[self.processes[process].job].course.marks.site(site, stack);
        if self.board.is_some() || self.journal.is_on() {
            self.shown.stack(site, stack);
        }
        Ok(())
    }

    fn region(&mut self, process: usize, region: SiteId, _: u64, time_ns: u64) -> Result<(), Error> {
        self.jobs[self.processes[process].job].course.marks.reached(process, region, time_ns);
        Ok(())
    }

    fn variable(&mut self, _: usize, site: SiteId, module: &Module, offset: u64, name: &str) -> Result<(), Error> {
        if self.board.is_some() || self.journal.is_on() {
            self.shown.variable(site, module, offset, name);
        }
        Ok(())
    }

    fn regions(&mut self, process: usize, regions: &[(Range<u64>, Region)]) -> Result<(), Error> {
        // Page faults are watched on objects only, and a profile tells of objects only.
        if !self.counts || self.options.known.is_some() {
            return Ok(());
        }
        let heap: Vec<_> = regions.iter().filter(|(_, of)| *of == Region::Heap).map(|(at, _)| at.clone()).collect();
        let (new, gone) = heap::compare(&heap, &self.tables[process]);
        self.end_records(process, gone);
        new.into_iter().for_each(|part| self.keep(&Born::mapped(process, heap::site(), part)));
        Ok(())
    }

    fn reads_objects(&self) -> bool {
        true
    }

    fn alive(&mut self, process: usize, objects: &[Found], allocated: u64) -> Result<(), Error> {
        let before = std::mem::replace(&mut self.processes[process].allocated, allocated);
        self.allocated = self.allocated.saturating_add(allocated.saturating_sub(before));
        let (gone, new) = self.tables[process].compare(objects);
        self.end_records(process, gone);
        self.count_records();
        new.into_iter().for_each(|found| self.keep(&Born::found(process, found)));
        Ok(())
    }

    fn born(&mut self, process: usize, o: &Object) -> Result<(), Error> {
        self.allocated = self.allocated.saturating_add(o.size);
        self.young.born(process, o);
        if self.young.is_full() {
            self.grow_up();
        }
        Ok(())
    }

    fn died(&mut self, process: usize, o: &Object, _: u64) -> Result<(), Error> {
        self.gone(process, o);
        Ok(())
    }

    fn left(&mut self, process: usize, o: &Object, _: u64) -> Result<(), Error> {
        self.gone(process, o);
        Ok(())
    }

    fn ended(&mut self, process: usize, _: u64, _: &str, _: &[(String, u64)]) -> Result<(), Error> {
        self.processes[process].over = true;
        self.tables[process] = Table::default();
        let job = &mut self.jobs[self.processes[process].job];
        job.course.ended(process);
        job.account.ended(process);
        self.armed.forget(process);
        self.mover.forget(process);
        self.notes.ended(self.processes[process].pid as u32);
        Ok(())
    }

    fn sampled(&mut self, process: usize, miss: &Miss) -> Result<(), Error> {
        self.counted.add(process, &mut self.tables[process], miss, self.interval);
        Ok(())
    }

    fn visit(&mut self, process: usize, _: Option<&Object>, v: &Visit) -> Result<(), Error> {
        if let Some((_, r)) = self.tables[process].at(v.addr) {
            r.seen = self.interval;
        }
        let visit = Some(profile::estimate::Visit { store: v.store, burst: v.burst });
        let (page, end_ns, wait_ns) = (page(v.addr), v.time_ns, v.wait_ns);
        self.armed.add(self.interval, v.site, Exposure { process: process as i64, page, end_ns, wait_ns, visit });
        Ok(())
    }

    fn quiet(&mut self, process: usize, _: Option<&Object>, q: &Quiet) -> Result<(), Error> {
        let (page, end_ns, wait_ns) = (q.page, q.time_ns, q.wait_ns);
        self.armed.add(self.interval, q.site, Exposure { process: process as i64, page, end_ns, wait_ns, visit: None });
        Ok(())
    }

    /// A launcher tells them itself.
    fn lost(&mut self, process: Option<usize>, kind: &str, count: u64, note: &str) -> Result<(), Error> {
        if self.board.is_some() {
            let about = process.map_or(About::All, |p| self.about(p));
            let note = if about == About::All { format!("{kind} ({count}): {note}") } else { note.to_string() };
            self.notes.add(about, kind, note);
        }
        Ok(())
    }

    fn said(&mut self, user: u32, what: &str) -> Result<(), Error> {
        self.notes.add(About::User(user), "", what.to_string());
        Ok(())
    }

    fn instructions(&mut self, count: u64) -> Result<(), Error> {
        let before = self.instructions.map_or(0, |(_, now)| now);
        self.instructions = Some((before, count));
        Ok(())
    }

    fn interval(&self) -> Duration {
        Duration::from_nanos(self.options.interval.0)
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), Error> {
        let length_ns = self.clock.over(now_ns);
        self.grow_up();
        if !self.places.is_empty() {
            self.look();
            self.look_for_room();
            let counted = self.counts.then_some(self.counted.misses);
            let (asked, usual, lines) = self.aggregate(now_ns, length_ns / 1e9);
            let lately = Lately {
                interval: self.interval,
                allocated: std::mem::take(&mut self.allocated),
                misses: counted.unwrap_or(lines),
                instructions: self.instructions.map(|(before, now)| now.saturating_sub(before) as f64),
            };
            self.shown.asked(&asked, length_ns / 1e9);
            self.look_back(length_ns, &usual);
            if self.journal.wants_state(self.interval) {
                self.log_state(now_ns);
            }
            let due = self.routines.trigger.due(&lately).filter(|_| self.places.len() > 1);
            self.due = due.or(self.due.take());
            let between = self.jobs.iter().all(|job| job.course.is_between(self.interval));
            if let Some(why) = self.due.take_if(|_| !self.mover.is_in_swap() && !between) {
                self.decide(now_ns, length_ns, &usual, &why);
            }
        }
        let failed: Vec<String> = self.routines.failed().collect();
        failed.into_iter().for_each(|why| self.notes.add(About::All, "", why));
        self.notes.pass(now_ns);
        self.interval += 1;
        self.forget_sites();
        self.show(length_ns / 1e9);
        Ok(())
    }

    fn act(&mut self, now_ns: u64) -> Result<bool, Error> {
        let began = Instant::now();
        self.moved |= !self.mover.is_idle();
        while !self.mover.is_idle() && began.elapsed() < TURN {
            let (tables, processes) = (&mut self.tables, &self.processes);
            let record = |process: usize, addr: u64| {
                let bytes = tables.get_mut(process)?.get(addr)?.bytes();
                (!processes[process].is_still()).then_some((processes[process].pid, addr + bytes))
            };
            match self.mover.step(&self.places, record) {
                Ok(done) => done.iter().for_each(|done| self.done(now_ns, done)),
                Err((process, why)) => self.refused(process, &why),
            }
        }
        Ok(!self.mover.is_idle())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Names;
    use crate::enforce::Move;
    use model::{Figure, GbPerSec, Nanos, Origin, Platform, SiteKind, Tier, TierKind};

    const MIB: u64 = 1 << 20;

    fn tier(name: &str, node: u32, capacity: u64, latency: u64) -> Tier {
        let figure = |x: f64| Some(Figure::new(GbPerSec(x), Origin::User));
        Tier {
            name: name.into(),
            kind: Figure::new(TierKind::Dram, Origin::User),
            nodes: vec![node],
            dir: None,
            capacity: Some(Figure::new(Bytes(capacity), Origin::User)),
            free: None,
            latency: Some(Figure::new(Nanos(latency), Origin::User)),
            loaded_latency: None,
            loaded_bandwidth: None,
            read_bandwidth: figure(10.0),
            write_bandwidth: figure(10.0),
            mixed_bandwidth: None,
            coefficients: None,
            near_cpus: String::new(),
        }
    }

    fn options(fast: u32, slow: u32, trigger: &str) -> Options {
        let tiers = vec![tier("fast", fast, 3 * MIB, 100), tier("slow", slow, 1 << 40, 300)];
        Options {
            threshold: Some(Bytes(4096)),
            sampler: record::Sampler::None,
            platform: Platform {
                name: "two".into(),
                description: String::new(),
                source: String::new(),
                llc: None,
                cores: None,
                tiers,
            },
            fast: None,
            interval: Nanos(1_000_000_000),
            split: Bytes(64 * MIB),
            routines: Names { trigger: trigger.into(), ..Names::default() },
            log: None,
            known: None,
            shares: None,
        }
    }

    fn object(id: u64, addr: u64, size: u64) -> Object {
        let (site, kind) = (SiteId(id), SiteKind::Allocation);
        Object { id, addr, size, site, tier: 0, tid: 1, alloc_ns: 0, realloc: false, kind }
    }

    fn miss(addr: u64) -> Miss {
        Miss { addr, weight: 1000, ..Miss::default() }
    }

    /// Three objects of 2 MiB of this very process, all in the fast tier, which holds one and a half. The second is hot, the third warm; one more
    /// lives for less than an interval.
    fn watched(options: &Options) -> (Engine<'_>, memmap2::MmapMut) {
        let mut map = memmap2::MmapMut::map_anon(8 * MIB as usize).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(options, routines, Journal::none(), true, MIB);
        let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
        engine.started(0, &started).expect("it is told");
        (0..3).for_each(|n| engine.born(0, &object(n, at + n * 2 * MIB, 2 * MIB)).expect("it is told"));
        engine.born(0, &object(3, at + 6 * MIB, PAGE)).expect("it is told");
        engine.died(0, &object(3, at + 6 * MIB, PAGE), 5).expect("it is told");
        for second in 1..=4u64 {
            for n in 0..2000u64 {
                engine.sampled(0, &miss(at + 2 * MIB + n * 64)).expect("it is told");
                (n % 10 == 0).then(|| engine.sampled(0, &miss(at + 4 * MIB + n * 64)).expect("it is told"));
            }
            engine.tick(second * 1_000_000_000).expect("it works");
        }
        (engine, map)
    }

    /// Who started it may have ended unseen; a job is what was attached, and no user gets into another one's by saying so.
    #[test]
    fn what_was_attached_together_is_one_job() {
        let mut options = options(0, 99, "time=1");
        options.shares = Some(crate::shares::Shares::new(crate::shares::By::Job, &[], &[]).expect("no names"));
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
        let mut start = |process: usize, ppid: u32, job: u32, of_another: bool| -> String {
            engine.processes.iter_mut().for_each(|p| p.uid = p.uid.wrapping_add(u32::from(of_another)));
            let started = Started { pid: std::process::id(), ppid, job, exe: "program".into(), start_ns: 0 };
            engine.started(process, &started).expect("it is told");
            // The next one has another number.
            engine.processes[process].pid = -(process as i32) - 2;
            engine.processes[process].group.clone()
        };
        let own = std::process::id().to_string();
        assert_eq!(start(0, 1, 77, false), "77");
        assert_eq!(start(1, 12345678, 77, false), "77", "nobody knows its parent");
        assert_eq!(start(2, 1, 0, false), own, "a session of before");
        assert_eq!(start(3, 1, 78, false), "78");
        assert_eq!(start(4, 1, 77, true), own, "it is another user's job");
    }

    /// Each turn has its own object, that ends with it; of the next one little is seen in the interval of its birth. Something else is always asked for a little.
    #[test]
    fn phases_whose_objects_are_made_anew_are_told_apart() {
        let options = options(0, 99, "time=1000");
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
        let map = memmap2::MmapMut::map_anon(4 * MIB as usize).expect("there is memory");
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
        engine.started(0, &started).expect("it is told");
        let (always, turns) = (at, at + MIB);
        engine.born(0, &object(0, always, MIB)).expect("it is told");
        let mut interval = 0u64;
        let mut over = |engine: &mut Engine<'_>, [seen, others]: [u64; 2]| {
            (0..seen).for_each(|n| engine.sampled(0, &miss(turns + n * 64)).expect("it is told"));
            (0..others).for_each(|n| engine.sampled(0, &miss(always + n * 64)).expect("it is told"));
            interval += 1;
            engine.tick(interval * 1_000_000_000).expect("it works");
        };
        for turn in 0..8 {
            let own = object(1 + turn % 2, turns, 2 * MIB);
            engine.born(0, &own).expect("it is told");
            // Too young for a record.
            over(&mut engine, [0, 40]);
            over(&mut engine, [500, 2]);
            (0..6).for_each(|_| over(&mut engine, [2000, 2]));
            engine.died(0, &own, 5).expect("it is told");
        }
        let lived = engine.end();
        assert!(lived.phases >= 8 && lived.recalled >= 6, "{lived:?}");
    }

    /// One has two objects that are hot by turns of ten intervals, which the other one, that asks for twenty times as much of one object, would drown out.
    #[test]
    fn jobs_have_phases_of_their_own() {
        let phases = |jobs: [u32; 2]| {
            let options = options(0, 99, "time=1000");
            let routines = Routines::new(&options.routines).expect("good names");
            let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
            let map = memmap2::MmapMut::map_anon(8 * MIB as usize).expect("there is memory");
            let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
            for (process, job) in jobs.into_iter().enumerate() {
                let started = Started { pid: std::process::id(), ppid: 1, job, exe: "program".into(), start_ns: 0 };
                engine.started(process, &started).expect("it is told");
            }
            (0..2).for_each(|n| engine.born(0, &object(n, at + n * 2 * MIB, 2 * MIB)).expect("it is told"));
            engine.born(1, &object(2, at + 4 * MIB, 2 * MIB)).expect("it is told");
            for interval in 0..60u64 {
                let turn = interval / 10 % 2;
                let miss = |object: u64, n: u64| miss(at + object * 2 * MIB + n * 64);
                (0..200).for_each(|n| engine.sampled(0, &miss(turn, n)).expect("it is told"));
                (0..4000).for_each(|n| engine.sampled(1, &miss(2, n)).expect("it is told"));
                engine.tick((interval + 1) * 1_000_000_000).expect("it works");
            }
            // A job that is over leaves its place to another one.
            engine.ended(0, 0, "", &[]).expect("it is told");
            let started = Started { pid: std::process::id(), ppid: 1, job: 9, exe: "program".into(), start_ns: 0 };
            engine.started(0, &started).expect("it is told");
            assert_eq!(engine.jobs.len(), 2);
            (engine.lived.phases, engine.lived.recalled)
        };
        // Each begins one more, before its objects are records.
        assert_eq!(
            phases([7, 8]),
            (6 + 1 + 1 + 1, 4),
            "six turns, of which four come back; and the other one's only phase"
        );
        assert_eq!(phases([7, 7]), (1 + 1, 0));
    }

    /// Two objects of 2 MiB are hot by turns of ten intervals, as marks say; a third one is asked for less in each turn, which is more in the long run, and the fast tier holds one.
    /// At the beginning of a turn that has come back what it asks for takes the third one's place.
    #[test]
    fn what_a_phase_asks_for_takes_the_place_of_what_is_hotter_in_the_long_run() {
        let mut wanted = Vec::new();
        by_turns(
            true,
            1800,
            60,
            |interval| interval / 10 % 2,
            |engine, interval, at| {
                // As if the third one had come, and nothing else.
                engine.tables[0].iter_mut().for_each(|(n, r)| r.tier = u8::from(n < at + 4 * MIB));
                asked_after(engine, interval);
                wanted.push(queued(engine));
            },
        );
        let turns: Vec<_> = wanted.chunks(10).map(|turn| turn[3].clone()).collect();
        let (first, second) = (vec![(2, 1), (0, 0)], vec![(2, 1), (1, 0)]);
        assert_eq!(turns, [vec![], vec![], first.clone(), second.clone(), first, second], "{wanted:?}");
    }

    /// A decision after an interval in which the slow tier was asked for so much that whatever is asked for pays.
    fn asked_after(engine: &mut Engine<'_>, interval: u64) {
        let asked = [Lines::default(), Lines { random: 5e6, ..Lines::default() }];
        engine.decide((interval + 1) * 1_000_000_000, 1e9, &asked, "asked");
    }

    /// Three objects of 2 MiB, and 2.4 MiB of fast memory. `turn`: which of them is hot in an interval, as marks of the program say, or not; `third`: misses of the third one in each.
    fn by_turns(
        marked: bool,
        third: u64,
        intervals: u64,
        turn: fn(u64) -> u64,
        mut each: impl FnMut(&mut Engine<'_>, u64, u64),
    ) {
        let options = Options { fast: Some(Bytes(12 * MIB / 5)), ..options(99, 0, "worth-it") };
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
        engine.free = |_| 4 * MIB;
        let mut map = memmap2::MmapMut::map_anon(8 * MIB as usize).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
        engine.started(0, &started).expect("it is told");
        (0..3).for_each(|n| engine.born(0, &object(n, at + n * 2 * MIB, 2 * MIB)).expect("it is told"));
        for interval in 0..intervals {
            let hot = turn(interval);
            if marked {
                engine.region(0, SiteId(100 + hot), 0, interval * 1_000_000_000).expect("it is told");
            }
            (0..3000).for_each(|n| engine.sampled(0, &miss(at + hot * 2 * MIB + n * 64)).expect("it is told"));
            (0..third).for_each(|n| engine.sampled(0, &miss(at + 4 * MIB + n * 64)).expect("it is told"));
            // `each` may have said that something is where it is not.
            engine.looking = Looking::default();
            engine.tick((interval + 1) * 1_000_000_000).expect("it works");
            each(&mut engine, interval, at);
        }
    }

    /// An object takes the place of another one for a phase. Where that is asked for in the next phase it has to come back, which costs as much again; if not, nothing has.
    #[test]
    fn what_has_to_come_back_is_paid_for_twice() {
        let moved = |turn: fn(u64) -> u64| {
            let mut moved = Vec::new();
            by_turns(true, 0, 60, turn, |engine, interval, at| {
                let before = turn(interval.saturating_sub(10));
                engine.tables[0].iter_mut().for_each(|(n, r)| r.tier = u8::from(n != at + before * 2 * MIB));
                engine.alone = true;
                engine.mover.takes(1e9 / (4 * MIB) as f64);
                asked_after(engine, interval);
                if interval % 10 == 3 {
                    moved.push(queued(engine));
                }
            });
            moved
        };
        assert_eq!(moved(|interval| interval / 10 % 2)[3..], [vec![], vec![], vec![]]);
        let round = moved(|interval| interval / 10 % 3);
        assert_eq!(round[3..], [vec![(2, 1), (0, 0)], vec![(0, 1), (1, 0)], vec![(1, 1), (2, 0)]], "{round:?}");
    }

    /// However much it costs by the prices to ask slow memory: three objects are asked for as often in the fast one, by turns.
    #[test]
    fn what_has_brought_nothing_is_not_moved_again() {
        let moves = |tried: bool, timed: bool| {
            let mut moves = 0;
            let turn = |interval: u64| interval / 10 % 3;
            by_turns(true, 0, 90, turn, |engine, interval, at| {
                // Where it is looked up in the next interval.
                let nodes = if tried && (29..59).contains(&interval) { [0, 99] } else { [99, 0] };
                let places = engine.places.iter_mut().zip(nodes);
                places.for_each(|(place, node)| *place = Place::new(place.name.clone(), &[node]));
                let before = turn(interval.saturating_sub(10));
                engine.tables[0].iter_mut().for_each(|(n, r)| r.tier = u8::from(n != at + before * 2 * MIB));
                engine.alone = true;
                engine.mover.takes(1e9 / (4 * MIB) as f64);
                asked_after(engine, interval);
                if interval >= 60 && interval % 10 == 3 {
                    moves += queued(engine).len();
                }
                // Nothing is moved in truth.
                engine.mover.set(Vec::new());
                engine.moved = !timed;
            });
            moves
        };
        assert_eq!((moves(false, true), moves(true, true)), (6, 0));
        assert_eq!(moves(true, false), 6, "intervals in which something was moved do not tell how long a line takes");
    }

    /// Moving takes four intervals, and it takes two until it is seen that the next phase has begun. Until then what makes room is asked for.
    #[test]
    fn what_makes_room_ahead_is_not_missed_for_longer_than_what_comes_would_be_late() {
        let since = |alone: bool| {
            let mut moved = Vec::new();
            let turn = |interval: u64| interval / 40 % 3;
            by_turns(true, 0, 280, turn, |engine, interval, at| {
                engine.tables[0].iter_mut().for_each(|(n, r)| r.tier = u8::from(n != at + turn(interval) * 2 * MIB));
                engine.alone = alone;
                engine.mover.takes(2e9 / (2 * MIB) as f64);
                asked_after(engine, interval);
                moved.push(!queued(engine).is_empty());
            });
            let since = moved[240..].iter().position(|moved| *moved).expect("it is moved ahead");
            40 - (since + 1)
        };
        assert_eq!((since(false), since(true)), (3, 1), "of forty intervals so many are left; with four it is even");
    }

    /// What has come for the next phase was a reason to think that this is not near any more, and so to move it back.
    #[test]
    fn what_was_moved_for_the_next_phase_stays() {
        let mut near = Vec::new();
        by_turns(
            true,
            0,
            50,
            |interval| interval / 10 % 2,
            |engine, interval, at| {
                let turn = interval / 10 % 2;
                let asked = [Lines::default(), Lines { random: 5e6, ..Lines::default() }];
                let soon = |engine: &mut Engine<'_>, there: u64| {
                    engine.tables[0].iter_mut().for_each(|(n, r)| r.tier = u8::from(n != at + there * 2 * MIB));
                    engine.decide((interval + 1) * 1_000_000_000, 1e9, &asked, "asked");
                    engine.soon(0).is_some()
                };
                let both = (soon(engine, turn), soon(engine, 1 - turn));
                if interval >= 40 {
                    near.push(both);
                }
            },
        );
        let since = near.iter().position(|(before, _)| *before).expect("it is near at last");
        assert!(since > 3 && near[since..].iter().all(|both| *both == (true, true)), "{near:?}");
    }

    /// What begins in place of the phase that was expected is taken for another one after some intervals only; but what begins where nothing was expected, at once.
    #[test]
    fn what_lies_between_two_phases_that_are_known_decides_nothing() {
        let between = |turn: fn(u64) -> u64, from: u64| {
            let mut between = Vec::new();
            by_turns(false, 0, 48, turn, |engine, interval, _| {
                if interval >= from {
                    between.push(engine.jobs[0].course.is_between(engine.interval - 1));
                }
            });
            between
        };
        let strange = between(|n| if n < 40 { n / 10 % 2 } else { 2 }, 40);
        assert_eq!(
            strange,
            [false, true, true, false, false, false, false, false],
            "it is seen in its second interval"
        );
        let short = between(|n| if (40..42).contains(&n) { 2 } else { (n - n / 42 * 2) / 10 % 2 }, 40);
        assert_eq!(short[..2], [false, true], "{short:?}");
        assert_eq!(short[4..], [false; 4], "the phase that was expected has come after all: {short:?}");
        assert_eq!(between(|n| n / 16, 1).iter().filter(|between| **between).count(), 0, "nothing was expected");
    }

    /// However short intervals are, and so the time for it, in the end it is known of all records where they are.
    #[test]
    fn all_records_are_looked_up_by_turns() {
        const RECORDS: u64 = 3000;
        let options = Options { interval: Nanos(1), ..options(0, 99, "time=1000000") };
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
        let mut map = memmap2::MmapMut::map_anon(((RECORDS + 1) * PAGE) as usize).expect("there is memory");
        map.fill(1);
        let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
        for process in 0..2 {
            let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
            engine.started(process, &started).expect("it is told");
        }
        let unknown = |engine: &Engine<'_>| {
            engine.tables.iter().map(|t| t.iter().filter(|(_, r)| r.tier == NOWHERE).count()).collect::<Vec<_>>()
        };
        for n in 0..RECORDS {
            engine.born((n * 2 / RECORDS) as usize, &object(n, at + n * PAGE, PAGE)).expect("it is told");
        }
        let mut interval = 0;
        while interval < 10 || unknown(&engine) != [0, 0] {
            interval += 1;
            assert!(interval < 10_000, "{:?}", unknown(&engine));
            engine.tick(interval * 1000).expect("it works");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(engine.tables.iter().map(Table::len).collect::<Vec<_>>(), [1500, 1500]);
    }

    /// Whatever a program writes into the tables that are read of it: out of order, one over the other, at the ends of memory.
    #[test]
    fn what_a_program_makes_up_does_no_harm() {
        let options = options(0, 99, "time=1");
        let routines = Routines::new(&options.routines).expect("good names");
        let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
        let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
        engine.started(0, &started).expect("it is told");
        let mut dice = 11u64;
        let mut draw = |below: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 20) % below.max(1)
        };
        for interval in 1..=300u64 {
            let one = |draw: &mut dyn FnMut(u64) -> u64| {
                let edge = [0, 1, PAGE - 1, 1 << 40, u64::MAX - 5000, u64::MAX];
                let addr = edge[draw(6) as usize].wrapping_add(draw(40) * 1000);
                let size = [0, 1, PAGE, 5000, HUGE, 1 << 33, u64::MAX][draw(7) as usize];
                Found { addr, size, site: SiteId(draw(3)) }
            };
            let count = draw(30);
            let found: Vec<Found> = (0..count).map(|_| one(&mut draw)).collect();
            engine.alive(0, &found, draw(u64::MAX)).expect("it is told");
            (0..20).for_each(|_| engine.sampled(0, &miss(found.first().map_or(0, |f| f.addr))).expect("it is told"));
            engine.tick(interval * 1_000_000_000).expect("it works");
        }
        assert!(engine.lived.most_records > 0 && engine.lived.most_records <= MOST_RECORDS[0] as u64);
    }

    fn queued(engine: &Engine<'_>) -> Vec<(u64, u8)> {
        let first = engine.tables[0].iter().next().map_or(0, |(at, _)| at);
        engine.mover.queued().map(|m| ((m.addr - first) / (2 * MIB), m.to)).collect()
    }

    /// Two objects are asked for so much that by the price of one line more fast memory, which has room for one of them, would be dearer than slow memory.
    #[test]
    fn what_makes_its_memory_dear_stays_there() {
        for objects in [2, 3] {
            let mut options = options(0, 99, "worth-it");
            options.platform.tiers[1].read_bandwidth = Some(Figure::new(GbPerSec(1.0), Origin::User));
            let routines = Routines::new(&options.routines).expect("good names");
            let mut engine = Engine::new(&options, routines, Journal::none(), true, MIB);
            let mut map = memmap2::MmapMut::map_anon(8 * MIB as usize).expect("there is memory");
            map.fill(1);
            let at = (map.as_ptr() as u64).next_multiple_of(PAGE);
            let started = Started { pid: std::process::id(), ppid: 1, job: 0, exe: "program".into(), start_ns: 0 };
            engine.started(0, &started).expect("it is told");
            (0..objects).for_each(|n| engine.born(0, &object(n, at + n * 2 * MIB, 2 * MIB)).expect("it is told"));
            for second in 1..=40u64 {
                let heavy = |object: u64, n: u64| Miss { weight: 75_000, ..miss(at + object * 2 * MIB + n * 64) };
                (0..2000).for_each(|n| engine.sampled(0, &heavy(n % 2, n)).expect("it is told"));
                engine.tick(second * 1_000_000_000).expect("it works");
                assert_eq!(queued(&engine), [], "of {objects} after {second} s");
            }
        }
    }

    #[test]
    fn what_is_cold_makes_room_first() {
        // The kernel has put all of it on node 0.
        let options = options(0, 99, "time=1");
        let (engine, _map) = watched(&options);
        assert_eq!(engine.tables[0].len(), 3, "the one that died young has no record");
        assert_eq!(engine.lived.most_records, 3);
        assert_eq!(queued(&engine), [(0, 1), (2, 1)], "3 MiB hold the hot one, and no whole other one");
        let heat = |n: usize| engine.tables[0].iter().nth(n).map(|(_, r)| r.heat.lines().misses());
        assert_eq!((heat(0), heat(1), heat(2)), (Some(0.0), Some(2e6), Some(2e5)));
    }

    /// It comes, goes back at once, and is still as hot as when it came: whether it comes again depends on what coming took.
    #[test]
    fn what_did_not_pay_is_not_believed_again() {
        let again = |took_ns: u64| {
            let options = options(99, 0, "worth-it");
            let (mut engine, _map) = watched(&options);
            let (now, moment) = (5_000_000_000, [Lines::default(), Lines { random: 2.2e6, ..Lines::default() }]);
            engine.free = |_| 5 * MIB / 2;
            (0..5).for_each(|_| engine.look_for_room());
            engine.decide(now, 1e9, &moment, "asked");
            let what = *engine.mover.queued().next().expect("it is wanted");
            let moved = pages::Moved { present: 512, there: 512, moved: 512, full: false };
            engine.done(now, &Done { what, moved, took_ns });
            let back = Move { from: what.to, to: what.from, ..what };
            engine.done(now, &Done { what: back, moved, took_ns: 1 });
            engine.decide(now, 1e9, &moment, "asked");
            queued(&engine)
        };
        assert_eq!(again(1), [(1, 0)]);
        assert_eq!(again(1_000_000_000_000), []);
    }

    #[test]
    fn what_pays_is_moved_and_nothing_else() {
        // All of it lies in the slow tier, and the fast one is on a node that does not exist: it has no room.
        let options = options(99, 0, "worth-it");
        let (mut engine, _map) = watched(&options);
        assert_eq!(queued(&engine), []);
        // As if it had.
        let (now, moment) = (5_000_000_000, [Lines::default(), Lines { random: 2.2e6, ..Lines::default() }]);
        engine.free = |_| 5 * MIB / 2;
        // For so long that it has not come free just now.
        (0..5).for_each(|_| engine.look_for_room());
        engine.decide(now, 1e9, &moment, "asked");
        assert_eq!(queued(&engine), [(1, 0)]);
        // A move finds no memory: what is free is no room, until it is worth another try.
        let what = *engine.mover.queued().next().expect("it is wanted");
        let moved = pages::Moved { present: 512, there: 0, moved: 0, full: true };
        engine.done(now, &Done { what, moved, took_ns: 9_000_000 });
        engine.tables[0].iter_mut().for_each(|(_, r)| r.rest = 0);
        engine.decide(now, 1e9, &moment, "asked");
        assert_eq!(queued(&engine), []);
        engine.interval += 50;
        engine.decide(now, 1e9, &moment, "asked");
        assert_eq!(queued(&engine), [(1, 0)]);
        // The kernel cannot move it there; the program and the engine live on.
        assert!(!engine.act(now).expect("it says why"));
        assert!(engine.notes.shown().iter().any(|n| n.text.starts_with("moving pages failed")), "{:?}", engine.notes);
    }
}
