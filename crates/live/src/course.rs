//! How a job goes on: which phase it is in, what was asked for in that, and what is known of phases that come back. Each job has its own, as
//! what one does tells nothing of another: a job is what was attached or started together, or the ranks of an MPI job on this node.

use crate::marks::{Marks, Whose};
use crate::phase::{Difference, Phase};
use crate::rates::{Others, Rates};
use crate::recall::Recall;
use crate::served::Served;
use crate::table::{NOWHERE, Record};
use foldhash::HashMap;
use model::SiteId;
use policy::cost::moment::Lines;

/// What is known of a phase that has come back counts for as many intervals as it lasted, but no more than so many.
const RECALLED: f64 = 10.0;
/// Intervals within which it is recognised that a phase has come back.
const BEGINNING: u32 = 4;
/// Sites of which it is kept what was asked of records that are gone.
const MOST_SITES: usize = 1 << 16;

/// A record with the number of its process and its address.
pub type At<'a> = (usize, u64, &'a Record);

/// An interval of a job.
pub struct Over {
    /// Its number.
    pub interval: u32,
    /// When it was over, and how long it was, in s.
    pub now_ns: u64,
    /// See `now_ns`.
    pub length_s: f64,
    /// What was asked of records, and of what is none.
    pub rates: Rates,
    /// See `rates`.
    pub elsewhere: Lines,
    /// Samples that tell so.
    pub samples: f64,
    /// It tells how long a line takes: its misses were counted, not estimated, and nothing was moved in it.
    pub timed: bool,
}

/// What an interval has told of phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Phases that began: one or none.
    pub began: u32,
    /// Phases that were recognised.
    pub recalled: u32,
}

/// A job.
#[derive(Debug)]
pub struct Course {
    /// The current phase.
    pub phase: Phase,
    /// Phases that were seen.
    pub recall: Recall,
    /// What the program says of its phases, and the mark that the current one began with.
    pub marks: Marks,
    mark: Option<SiteId>,
    /// The first interval in which an access was seen.
    awake: Option<u32>,
    /// What was asked in the interval before, with so many samples.
    before: (Rates, f64),
    /// The sum of what was asked in so many intervals of the current phase.
    asked: Rates,
    asked_in: f64,
    /// From where lines came in this phase, but for the latest interval, and in that: a phase begins with one before it is seen.
    served: [Served; 2],
    /// Of each site, what was asked in this phase of records that are gone, in all; and their pages.
    departed: HashMap<SiteId, (Lines, u64)>,
    /// Nothing was expected of what there was when the current phase began.
    anew: bool,
    /// It was known what would come after the phase before, and this one does not look like it, nor like any other that is known.
    strange: bool,
    /// The next phase was so near once that its objects had better be moved. That holds until it begins: moving takes time in which the present one does not get on, and what was
    /// moved for the next one would be moved back.
    pub near: bool,
}

impl Course {
    /// One that begins.
    pub fn new() -> Course {
        Course {
            phase: Phase::first(),
            recall: Recall::default(),
            marks: Marks::default(),
            mark: None,
            awake: None,
            before: Default::default(),
            asked: Rates::default(),
            asked_in: 0.0,
            served: Default::default(),
            departed: HashMap::default(),
            anew: false,
            strange: false,
            near: false,
        }
    }

    /// What was asked of a record in the interval that was told of last.
    pub fn latest(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.before.0.of(process, start, record)
    }

    /// What was asked of a record in an interval of this phase, in the mean.
    pub fn in_phase(&self, process: usize, start: u64, record: &Record) -> Lines {
        self.asked.of(process, start, record).times(1.0 / self.looks())
    }

    /// Intervals by which that is known.
    pub fn looks(&self) -> f64 {
        self.asked_in.max(1.0)
    }

    /// Something is known of this phase, and that it asks for little of this record: a tenth at most of what is asked of it in the mean. The interval in which a phase begins belongs to
    /// the one before it as well.
    pub fn is_beside(&self, process: usize, start: u64, record: &Record) -> bool {
        let in_phase = self.in_phase(process, start, record).misses();
        self.asked_in > 0.0 && in_phase <= 0.1 * record.heat.lines().misses()
    }

    /// Intervals since the first access.
    pub fn awake(&self, interval: u32) -> u32 {
        self.awake.map_or(0, |since| interval + 1 - since)
    }

    /// Something else than what was expected has begun just now. It is more often how a known phase begins, or what lies between two, than a new one that will last: nothing had
    /// better be decided by it.
    pub fn is_between(&self, interval: u32) -> bool {
        self.strange && self.phase.age(interval) < BEGINNING
    }

    /// Intervals for which the present phase is expected to go on, if it has come before.
    pub fn left(&self, interval: u32) -> Option<f64> {
        self.recall.left(self.phase.age(interval).into(), self.phase.lines())
    }

    /// Records of an object are no more: what was asked of them in this phase is kept for its site.
    pub fn departs(&mut self, process: usize, site: SiteId, pages: u64, starts: &[u64]) {
        let mut lines = Lines::default();
        for &start in starts {
            self.recall.forget(process, start);
            self.before.0.records.remove(&(process, start));
            let own = self.asked.records.remove(&(process, start)).unwrap_or_default();
            lines = lines.with(own, |a, b| a + b);
        }
        if !lines.is_none() && self.departed.len() < MOST_SITES {
            let of = self.departed.entry(site).or_default();
            *of = (of.0.with(lines, |a, b| a + b), of.1 + pages);
        }
    }

    /// A process has ended; another one may get its number.
    pub fn ended(&mut self, process: usize) {
        for rates in [&mut self.before.0, &mut self.asked] {
            rates.records.retain(|(of, _), _| *of != process);
        }
        self.recall.forget_all(process);
        self.marks.ended(process);
    }

    /// An interval is over. `records`: the job's.
    pub fn over<'a, I: Iterator<Item = At<'a>>>(&mut self, over: Over, records: impl Fn() -> I) -> Told {
        let Over { interval, now_ns, length_s, rates, elsewhere, samples, timed } = over;
        let (mut expected, mut before) = (Difference::default(), Difference::default());
        let odd = self.phase.odd();
        let (mut lines, mut fast) = (elsewhere.misses(), 0.0);
        for (process, start, r) in records() {
            let now = rates.of(process, start, r);
            lines += now.misses() * length_s;
            let there = if r.tier == 0 { r.there() } else { 1.0 - r.there() };
            fast += if r.tier == NOWHERE { 0.0 } else { there * now.misses() * length_s };
            let last = self.before.0.of(process, start, r);
            // Of objects that are gone nothing is expected: an odd interval may have asked for more than all before it did of what is left.
            let less = if odd { last } else { Lines::default() };
            expected.add(self.asked.of(process, start, r).with(less, |sum, one| (sum - one).max(0.0)), now);
            before.add(last, now);
        }
        let whose = self.marks.over(now_ns, 1e9 * length_s);
        let another = match whose {
            Whose::Of(mark) => {
                let another = self.mark != Some(mark);
                self.phase.told(interval, another, lines);
                another.then_some(Some(mark))
            }
            Whose::Between => None,
            Whose::Nobody => {
                self.phase.over(interval, &expected, &before, (self.before.1, samples), lines).then_some(None)
            }
        };
        let mut told = Told::default();
        if let Some(mark) = another {
            told.began = 1;
            told.recalled += u32::from(self.another_phase(interval, &rates, samples, mark, &records));
        }
        // What several phases asked for tells of none.
        if whose != Whose::Between {
            self.asked.add(&rates);
            self.asked_in += 1.0;
        }
        // A phase whose objects are made anew begins by writing them, which is not how it goes on.
        if (self.anew || self.strange) && (2..=BEGINNING).contains(&self.phase.age(interval)) {
            let recognised = self.recall.recognised(|known| apart(records(), known, &rates, samples));
            self.strange &= !recognised;
            told.recalled += u32::from(recognised);
        }
        let [all, latest] = &mut self.served;
        *all += std::mem::take(latest);
        if timed {
            *latest = Served { time_s: length_s, lines, fast };
        }
        if samples > 0.0 {
            self.awake.get_or_insert(interval);
        }
        self.before = (rates, samples);
        told
    }

    /// Another phase has begun, with this interval or the one before; with this one, if a mark says so. Whether it has come before.
    fn another_phase<'a, I: Iterator<Item = At<'a>>>(
        &mut self,
        interval: u32,
        now: &Rates,
        samples: f64,
        mark: Option<SiteId>,
        records: &impl Fn() -> I,
    ) -> bool {
        let foreseen = self.recall.next().is_some();
        (self.near, self.strange) = (false, false);
        let with_before = self.phase.age(interval) > 1;
        self.anew = !with_before;
        let [mut served, latest] = std::mem::take(&mut self.served);
        if with_before {
            self.served[1] = latest;
        } else {
            served += latest;
        }
        let before = if with_before { self.before.0.clone() } else { Rates::default() };
        let known_for = self.asked_in - f64::from(u8::from(with_before));
        if known_for > 0.0 {
            // The interval before was counted for the phase that it has ended.
            let mean = self.asked.without(&before).times(1.0 / known_for);
            let departed = std::mem::take(&mut self.departed);
            let departed = departed.into_iter().map(|(s, (l, n))| (s, (l.times(1.0 / known_for), n))).collect();
            let mean = told_apart(mean, departed, interval, records);
            if mean.others.values().any(|o| !o.page.is_none()) {
                let (length, lines) = self.phase.last();
                self.recall.ended(mean, length.into(), lines, served);
            }
        }
        let mut seen = before.clone();
        seen.add(now);
        let samples = samples + if with_before { self.before.1 } else { 0.0 };
        (self.asked, self.asked_in) = (before, f64::from(u8::from(with_before)));
        let known = match mark {
            Some(mark) => self.recall.marked(mark),
            None => self.recall.began(|known| apart(records(), known, &seen, samples)),
        };
        self.mark = mark;
        if let Some((known, length)) = known {
            let counts = length.min(RECALLED);
            self.asked.add(&known.times(counts));
            self.asked_in += counts;
            return true;
        }
        self.strange = foreseen && mark.is_none();
        false
    }
}

/// What was asked of records, and of each page of a site's records in the mean, for those that are to come. Of sites that were asked for something all
/// records are told: one that was asked for nothing is not like the others. `sites`: what is gone, and its pages.
fn told_apart<'a, I: Iterator<Item = At<'a>>>(
    mut mean: Rates,
    mut sites: HashMap<SiteId, (Lines, u64)>,
    interval: u32,
    records: &impl Fn() -> I,
) -> Rates {
    for (process, start, r) in records() {
        let lines = mean.of(process, start, r);
        if !lines.is_none() {
            let sum = &mut sites.entry(r.site).or_default().0;
            *sum = sum.with(lines, |a, b| a + b);
        }
    }
    for (process, start, r) in records() {
        let Some((_, pages)) = sites.get_mut(&r.site) else { continue };
        *pages += u64::from(r.pages);
        // One that is asked for nothing has no entry: of a million records that would be much memory.
        let lines = mean.of(process, start, r);
        if !lines.is_none() {
            mean.records.entry((process, start)).or_insert(lines);
        }
    }
    let each = |(site, (lines, pages)): (SiteId, (Lines, u64))| {
        (site, Others { page: lines.times(1.0 / pages.max(1) as f64), told: interval })
    };
    mean.others.extend(sites.into_iter().map(each));
    mean
}

/// How far what was seen is from what a phase asked for, if that is not too far.
fn apart<'a>(records: impl Iterator<Item = At<'a>>, known: &Rates, seen: &Rates, samples: f64) -> Option<f64> {
    let mut difference = Difference::default();
    records.for_each(|(process, start, r)| difference.add(known.of(process, start, r), seen.of(process, start, r)));
    difference.alike(samples)
}
