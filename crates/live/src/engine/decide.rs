//! A decision: what is to be expected of each record, and what had better be moved where.
//!
//! Unimem (SC 2017, section 3.1.3) searches twice and takes what promises more: once one placement for all phases, and once one for each phase, less what moving costs.
//! So does this while a phase is under way that has come before, with the cost model of all of Hearth for what moving gains (in place of Equations 2 and 3) and the
//! pace of moving as it was measured (Equation 4). [`Horizon`] is how far each of the two looks.

use super::Engine;
use crate::account::Trust;
use crate::candidates::Candidates;
use crate::course::Course;
use crate::enforce::{Judge, Move, Room};
use crate::item::{Gain, Item, Lies};
use crate::kept::Kept;
use crate::notes::About;
use crate::prioritise::Now;
use crate::rates::Rates;
use crate::shares::Guarantees;
use crate::table::{NOWHERE, Numbered, Record, Table};
use crate::trigger::Swap;
use model::Bytes;
use policy::cost::migration;
use policy::cost::moment::{Lines, Moment};
use policy::tiers::KERNEL;

/// How far a search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Horizon {
    /// As far as records are expected to live. What only loses in the phase that is under way can wait until that is over.
    Run,
    /// To the end of the phase that is under way, or of the next one if that is near. What comes will go again, so that moving costs twice.
    Phase,
}

/// Intervals until it is seen that another phase has begun.
const SEEN: f64 = 2.0;

/// A phase that comes next, and is so near that its objects had better be moved now.
pub(super) struct Soon<'e> {
    /// What it asks for.
    asks: &'e Rates,
    /// For how many intervals.
    length: f64,
    /// Intervals of it that go by until its objects have come, if they are moved only then.
    late: f64,
}

/// What is expected at the moment of a decision.
struct Outlook<'e> {
    engine: &'e Engine<'e>,
    /// Of each job.
    jobs: Vec<Ahead<'e>>,
    /// There is a job whose present phase has come before, and moves are weighed.
    twice: bool,
    /// How long the run will go on at least, in s, if a profile tells.
    by_profile: Option<f64>,
}

/// What is expected of a job.
struct Ahead<'e> {
    course: &'e Course,
    /// The first interval in which an access was seen, or the next one if none was.
    awake: u32,
    /// Intervals by which is known what is expected in this phase, in the next one and in the long run.
    looks: [f64; 3],
    /// The present phase has come before, so that it is known when it ends.
    known: bool,
    /// Phases come round.
    round: bool,
    /// How far it is believed what moves promise.
    trust: Trust,
    /// What the next phase asks for, if it is near.
    next: Option<&'e Rates>,
    /// For how long these phases will go on, in s.
    phase_life: f64,
    next_life: f64,
    /// Time that a line from the fastest memory saves in these, in ns.
    brought: [f64; 2],
    /// How long it would take to see that the next one has begun, and to move what it asks for, in s.
    late: f64,
    /// What the phase after those asks for, and for how long, in s.
    after: Option<(&'e Rates, f64)>,
}

impl Outlook<'_> {
    fn item(&self, horizon: Horizon, process: usize, addr: u64, r: &Record) -> Item {
        let job = &self.jobs[self.engine.processes[process].job];
        // The mean of all that was seen has had one more of some phases than of others: where phases come back each counts for as long as it lasts.
        let of_all = job.round.then(|| job.course.recall.mean().of(process, addr, r));
        let Lies { bytes, tier, there, .. } = r.lies(process);
        // It is expected to live as long as it has lived, as far as that was watched.
        let lived = self.engine.clock.lived(r.born.max(job.awake)) / 1e9;
        let life = lived.max(self.by_profile.unwrap_or(0.0));
        Item {
            process,
            addr,
            bytes,
            born: r.born,
            seen: r.seen,
            tier,
            there,
            looks: match self.by_profile {
                Some(_) => [f64::INFINITY; 3],
                None => job.looks.map(|intervals| f64::from(r.visited).min(intervals)),
            },
            heat: of_all.unwrap_or_else(|| r.heat.lines()),
            phase: job.course.in_phase(process, addr, r),
            next: job.next.map_or_else(Lines::default, |next| next.of(process, addr, r)),
            life: match horizon {
                Horizon::Phase if job.known => life.min(job.phase_life + job.next_life),
                _ => life,
            },
            phase_life: job.phase_life,
            next_life: job.next_life,
            brought: job.brought,
            late: job.late,
            after: match horizon {
                Horizon::Phase if job.known => job.after.map(|(after, s)| (after.of(process, addr, r), s)),
                _ => Some(Default::default()),
            },
            believed: job.trust.share(self.engine.take(bytes, tier, 0)),
        }
    }
}

/// What lines cost in an interval of the present phase.
struct Prices {
    now: Now,
    moment: Moment,
    length_s: f64,
}

impl Prices {
    fn new(interval: u32, moment: Moment, length_s: f64, tiers: usize) -> Prices {
        let prices = (0..tiers).map(|k| moment.prices(&[], k)).collect();
        Prices { now: Now { interval, prices }, moment, length_s }
    }

    /// With these lines more (or, negative, less) in each tier in the interval.
    fn with(&self, more: &[Lines]) -> Now {
        let prices = (0..more.len()).map(|k| self.moment.prices(more, k)).collect();
        Now { interval: self.now.interval, prices }
    }
}

impl Engine<'_> {
    /// What lines cost in an interval in which so many are asked of each tier.
    fn prices(&self, length_ns: f64, asked: &[Lines]) -> Prices {
        let moment = Moment::new(length_ns, asked, &self.memories);
        Prices::new(self.interval, moment, length_ns / 1e9, self.memories.len())
    }

    /// What in the interval that is over was brought by moves. `asked`: of each tier in an interval of this phase, as decisions go by.
    pub(super) fn look_back(&mut self, length_ns: f64, asked: &[Lines]) {
        let now = self.prices(length_ns, asked).now;
        for job in &mut self.jobs {
            let lines = |process: usize, addr: u64| {
                let record = self.tables.get(process).and_then(|table| table.from(addr).next());
                let own = record.filter(|(start, _)| *start == addr);
                own.map_or_else(Lines::default, |(_, r)| job.course.latest(process, addr, r))
            };
            job.account.over(length_ns / 1e9, lines, |lines, from, to| now.gain(lines, from, to));
        }
    }

    /// The record that a move is of, and the share of it that moves.
    fn of_move(&self, horizon: Horizon, outlook: &Outlook<'_>, m: &Move) -> (Item, f64) {
        let process = m.process as usize;
        let (addr, r) = self.tables[process].from(m.addr).next().expect("it is a candidate");
        let item = outlook.item(horizon, process, addr, r);
        (item, m.bytes as f64 / item.bytes.max(1) as f64)
    }

    /// What a job's next phase asks for, and for how many intervals, if it is so near that its objects had better be moved now.
    pub(super) fn soon(&self, number: usize) -> Option<Soon<'_>> {
        let course = &self.jobs[number].course;
        let (next, length) = course.recall.next()?;
        let left = course.left(self.interval)?;
        // Wherever that is now: else what has been moved would be a reason to move it back.
        let wanted = |(process, table): (usize, &Table)| -> u64 {
            let asked = table.iter().filter(|(start, r)| !next.of(process, *start, r).is_none());
            asked.map(|(_, r)| r.resident()).sum()
        };
        let own = self.tables.iter().enumerate().filter(|(process, _)| self.processes[*process].job == number);
        let wanted: u64 = own.map(wanted).sum();
        // What comes makes something else go.
        let take = 2.0 * self.take(wanted.min(self.capacities[0]), self.memories.len() - 1, 0) / self.clock.usual();
        // It is moved beside the program, if that leaves a processor for it.
        let beside = if self.alone { 0.0 } else { take };
        let near = course.near || left <= 1.0 + beside.ceil();
        near.then_some(Soon { asks: next, length, late: SEEN + beside / 2.0 })
    }

    /// What moving so much from one tier to another takes, in ns.
    fn take(&self, bytes: u64, from: usize, to: usize) -> f64 {
        match self.mover.ns_per_byte() {
            Some(pace) => pace * bytes as f64,
            None => migration::take(Bytes(bytes), &self.memories[from], &self.memories[to]),
        }
    }

    /// What records take of each tier, and may take.
    pub(super) fn rooms(&self) -> Vec<Room> {
        let mut used = vec![0u64; self.places.len()];
        for r in self.tables.iter().flat_map(|t| t.iter().map(|(_, r)| r)) {
            r.divided(used.len()).for_each(|(tier, bytes)| used[tier] += bytes);
        }
        let room = |(k, used): (usize, u64)| {
            let free = self.kept[k].room(self.interval);
            Room { limit: self.capacities[k].min(used + free), used }
        };
        used.into_iter().enumerate().map(room).collect()
    }

    /// What groups of programs may count on.
    pub(super) fn guarantees(&self) -> Option<Guarantees> {
        let groups = self.processes.iter().map(|p| (!p.over).then_some(p.group.as_str()));
        self.options.shares.as_ref().map(|shares| Guarantees::new(shares, groups))
    }

    fn outlook(&self, now_ns: u64) -> Outlook<'_> {
        let usual_s = self.clock.usual() / 1e9;
        let seconds = |intervals: f64| intervals * usual_s;
        // By a profile more is known: how long it may go on, and what is asked for, without a doubt.
        let by_profile = self.options.known.as_ref().map(|profile| profile.left(now_ns as f64 / 1e9));
        let ahead = |number: usize| {
            let course = &self.jobs[number].course;
            let (phase, left) = (course.looks(), course.left(self.interval));
            let soon = self.soon(number);
            let next = soon.as_ref().map_or(0.0, |soon| soon.length);
            let after = course.recall.following().nth(usize::from(soon.is_some()));
            // Of a phase that has just begun not more is known than of its intervals; and of the long run, unless phases come back.
            let round = left.is_some() && course.recall.comes_round();
            let looks = if round { course.recall.looks().max(phase) } else { phase };
            let phase_life = seconds(left.unwrap_or_else(|| course.phase.expected(self.interval)));
            Ahead {
                course,
                awake: self.interval + 1 - course.awake(self.interval),
                looks: [phase, next, looks],
                known: left.is_some(),
                round,
                trust: self.jobs[number].account.trust(left.is_some()),
                next: soon.as_ref().map(|soon| soon.asks),
                brought: course.recall.brought(),
                late: seconds(soon.map_or(0.0, |soon| soon.late)),
                after: after.map(|(asks, length)| (asks, seconds(length))),
                phase_life: phase_life.max(by_profile.unwrap_or(0.0)),
                next_life: seconds(next),
            }
        };
        let jobs: Vec<Ahead<'_>> = (0..self.jobs.len()).map(ahead).collect();
        // A script that moves is asked once. And what a group takes as its own is worth it whatever others lose by it: the sums of two searches do not tell which is
        // better there.
        let twice = jobs.iter().any(|job| job.known)
            && self.options.shares.is_none()
            && self.routines.trigger.weighs()
            && !self.routines.enforce.wants_all();
        Outlook { engine: self, jobs, twice, by_profile }
    }

    /// The moves that one search would make, and what they gain beyond what they cost and what may be chance, in ns.
    fn search(&self, horizon: Horizon, outlook: &Outlook<'_>, prices: &Prices, rooms: &[Room]) -> (Vec<Move>, f64) {
        let now = &prices.now;
        let records = Numbered::new(&self.tables);
        let lies = |number: u32| {
            let (process, _, r) = records.at(number);
            r.lies(process)
        };
        let item = |number: u32| {
            let (process, addr, r) = records.at(number);
            outlook.item(horizon, process, addr, r)
        };
        let count = self.tables.iter().map(Table::len).sum();
        let mut candidates = Candidates::new(count, &lies, &item);
        let wants_all = self.routines.enforce.wants_all();
        for (number, process, addr, r) in records.iter() {
            let of = &self.processes[process];
            let between = self.jobs[of.job].course.is_between(self.interval);
            if between || of.is_still() || r.tier == NOWHERE || r.rest > 0 || of.bound.holds(addr, r.bytes()) {
                continue;
            }
            let priority = self.routines.prioritise.priority(&outlook.item(horizon, process, addr, r), now);
            if priority > 0.0 || wants_all || !r.lies(process).is_slow(self.places.len()) {
                candidates.add(number, priority, r.tier.into(), self.interval.saturating_sub(r.seen));
            }
        }
        let cost = |m: &Move| self.take(m.bytes, m.from.into(), m.to.into());
        // What is missed after the phase had better have stayed, or goes back for as much as it came.
        let back = |cost: f64, gain: &Gain| cost + cost.min((-gain.after).max(0.0));
        let worth = |swap: &Swap| {
            let loses = swap.gain.early < 0.0 || horizon == Horizon::Run && swap.gain.soon < 0.0;
            !(outlook.twice && loses)
                && self.routines.trigger.worth(&Swap { cost: back(swap.cost, &swap.gain), ..*swap })
        };
        // What gains by going to slower memory does so because the faster one is overloaded, much of which may be its own doing.
        let settled = |moves: &mut [Move]| {
            let gains = |m: &Move| m.to > m.from && m.gain.all > 0.0;
            if !moves.iter().any(gains) {
                return;
            }
            let items: Vec<_> = moves.iter().map(|m| self.of_move(horizon, outlook, m)).collect();
            let mut more = vec![Lines::default(); self.memories.len()];
            for (m, (item, share)) in moves.iter().zip(&items) {
                let lines = item.phase.times(share * prices.length_s);
                let (from, to) = (usize::from(m.from), usize::from(m.to));
                more[from] = more[from].with(lines, |sum, own| sum - own);
                more[to] = more[to].with(lines, |sum, own| sum + own);
            }
            let after = prices.with(&more);
            for (m, (item, share)) in moves.iter_mut().zip(&items).filter(|(m, _)| gains(m)) {
                m.gain = m.gain.mean(item.gain(&after, m.from.into(), m.to.into()).times(*share));
            }
        };
        let guarantees = self.guarantees();
        let judge = Judge { now, cost: &cost, worth: &worth, settled: &settled, guarantees: guarantees.as_ref() };
        let moves = self.routines.enforce.moves(candidates, rooms, &judge);
        let gain = moves.iter().map(|m| m.gain).fold(Gain::default(), Gain::and);
        let costs = back(moves.iter().map(cost).sum(), &gain);
        (moves, gain.likely - costs - gain.doubt)
    }

    /// Asks what is to be moved where. `asked`: of each tier in an interval of this phase. A single interval of a program that walks through its memory has
    /// other prices than the next, and what is dear in one of them would be moved back and forth.
    pub(super) fn decide(&mut self, now_ns: u64, length_ns: f64, asked: &[Lines], why: &str) {
        let prices = self.prices(length_ns, asked);
        let rooms = self.rooms();
        self.taken.over(rooms.iter().map(|room| room.used).sum());
        let taken = self.taken.lately();
        for number in 0..self.jobs.len() {
            self.jobs[number].course.near = self.soon(number).is_some();
        }
        let outlook = self.outlook(now_ns);
        let mut why = why.to_string();
        if outlook.jobs.iter().any(|job| job.next.is_some()) {
            why += "; the next phase is near";
        }
        // What programs have taken anew they will take again; a tenth is the most that section 4.5.1 of the paper on object tiering leaves them.
        let left = |(room, kept): (&Room, &Kept)| {
            let fresh = kept.fresh().min(room.limit.saturating_sub(room.used));
            let most = room.limit / 10;
            Room { used: room.used + fresh.max(taken.min(most)).max(KERNEL.0.min(most)), ..*room }
        };
        let left: Vec<Room> = rooms.iter().zip(&self.kept).map(left).collect();
        let (mut moves, worth) = self.search(Horizon::Run, &outlook, &prices, &left);
        if outlook.twice {
            let (local, here) = self.search(Horizon::Phase, &outlook, &prices, &left);
            if here > worth {
                moves = local;
                why += "; as long as that lasts";
            }
        }
        // Who is about to be moved is asked first.
        let mut asked = vec![false; self.processes.len()];
        moves.iter().for_each(|m| asked[m.process as usize] = true);
        for (process, _) in self.processes.iter_mut().zip(asked).filter(|(_, asked)| *asked) {
            process.bound.refresh(process.pid);
        }
        let mut stays = None;
        moves.retain(|m| {
            let of = &self.processes[m.process as usize];
            let stay = of.bound.holds(m.addr, m.bytes);
            stays = stays.or(stay.then_some((m.process as usize, of.pid)));
            !stay
        });
        let costs = moves.iter().map(|m| self.take(m.bytes, m.from.into(), m.to.into())).sum();
        let sums = (moves.iter().map(|m| m.gain.all).sum(), costs);
        if let Some((process, pid)) = stays {
            let about = self.about(process);
            let who = if about == About::All { format!("process {pid}: ") } else { String::new() };
            let what = "it has said itself where some of its memory belongs (mbind, numactl): that stays there";
            self.notes.add(about, "", who + what);
        }
        if moves.is_empty() {
            // What was decided before is not wanted any more.
            self.mover.set(Vec::new());
            return;
        }
        self.lived.decisions += 1;
        self.why.clone_from(&why);
        let rooms: Vec<_> = self.places.iter().zip(rooms).collect();
        self.journal.decision(now_ns, self.interval, &why, &moves, sums, &rooms);
        self.mover.set(moves);
    }
}
