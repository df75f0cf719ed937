//! Follows one process's events: keeps the table of live objects, the call stacks, and sums per site.
//!
//! Rings are read one after the other, so events of different threads come out of order. They are held back until
//! everything older must have been read, and then applied by time.

use crate::Error;
use crate::code::Code;
use crate::live::Live;
use crate::maps::{Layout, Loaded};
use crate::misses::{ChunkMisses, Counts, Line, Miss, Misses, Place, Source, Sourced};
use crate::pick_up::Found;
use crate::residency::SitePages;
use crate::rings::{Taken, What, can_lie};
use crate::touches::{Touch, Touches};
use foldhash::{HashMap, HashSet};
use model::{Apart, ChunkAt, Module, SiteId, SiteKind};
use profile::estimate::Burst;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;
use std::time::Duration;
use wire::event::{NO_MODULE, STATIC_DATA};
use wire::image::Image;
use wire::process::MAX_TIERS;

/// Most fresh objects: so few that their table stays in a processor's cache.
const FRESH: usize = 512;

/// A process that reported.
#[derive(Clone, Debug)]
pub struct Started {
    /// Process id.
    pub pid: u32,
    /// Parent's process id.
    pub ppid: u32,
    /// Process id of the ancestor that was attached to a daemon, as it says itself; 0: none.
    pub job: u32,
    /// Path of the executable.
    pub exe: String,
    /// Start of this program image, ns since the start of the run.
    pub start_ns: u64,
}

/// A live object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Number, unique in the run.
    pub id: u64,
    /// Address.
    pub addr: u64,
    /// Bytes asked for.
    pub size: u64,
    /// Site.
    pub site: SiteId,
    /// Tier of the plan it was placed in.
    pub tier: u8,
    /// Thread that allocated it.
    pub tid: u32,
    /// When.
    pub alloc_ns: u64,
    /// It replaced another (realloc, mremap), or is what is left of one that was unmapped in part.
    pub realloc: bool,
    /// What it is.
    pub kind: SiteKind,
}

/// A frame in binary form.
#[derive(Clone, Debug, PartialEq)]
pub struct RawFrame {
    /// Module; `None` for code outside any file.
    pub module: Option<Module>,
    /// Offset in the module, or the address.
    pub offset: u64,
}

/// A visit of an armed page.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are those of `wire::event::Event::Visit`
pub struct Visit {
    pub tid: u32,
    pub time_ns: u64,
    pub addr: u64,
    pub ip: u64,
    pub site: SiteId,
    pub wait_ns: u64,
    pub store: bool,
    pub burst: Option<Burst>,
}

/// A site's call stack.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stack {
    /// Innermost first.
    pub frames: Vec<RawFrame>,
    /// It was deeper, or could not be walked to its end.
    pub truncated: bool,
    /// Which of the stack's objects the site has, if not all.
    pub apart: Option<Apart>,
}

/// An armed page that stayed untouched.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)] // the fields are those of `wire::event::Event::Quiet`
pub struct Quiet {
    pub time_ns: u64,
    pub page: u64,
    pub site: SiteId,
    pub wait_ns: u64,
}

/// Whoever wants to know what happens. `process` is the number of the process in the order of appearance. Every
/// method does nothing unless it is written; an error ends the observation, not the program.
#[allow(unused_variables)]
pub trait Sink {
    /// A process reported.
    fn started(&mut self, process: usize, started: &Started) -> Result<(), Error> {
        Ok(())
    }
    /// A site was seen for the first time in a process.
    fn site(&mut self, process: usize, site: SiteId, stack: &Stack) -> Result<(), Error> {
        Ok(())
    }
    /// A parallel region began for so many times: its function is a site of one frame.
    fn region(&mut self, process: usize, region: SiteId, number: u64, time_ns: u64) -> Result<(), Error> {
        Ok(())
    }
    /// The program says that a phase, which begins with a name, uses objects of a site.
    fn uses(&mut self, process: usize, phase: SiteId, site: SiteId) -> Result<(), Error> {
        Ok(())
    }
    /// A static variable was found: a site of its own, named, at an offset of its module. An empty name: what is left of
    /// the module's data.
    fn variable(
        &mut self,
        process: usize,
        site: SiteId,
        module: &Module,
        offset: u64,
        name: &str,
    ) -> Result<(), Error> {
        Ok(())
    }
    /// What kind of memory lies where in a process now, in the order of addresses: told as often as it is looked up.
    fn regions(&mut self, process: usize, regions: &[(Range<u64>, Place)]) -> Result<(), Error> {
        Ok(())
    }
    /// Whether it is told once an interval which managed objects are alive in a process ([`Sink::alive`]), where that can be read, rather than of
    /// the beginning and end of each.
    fn reads_objects(&self) -> bool {
        false
    }
    /// These managed objects are alive, in the order of their addresses; so many bytes were allocated in all since the process began.
    fn alive(&mut self, process: usize, objects: &[Found], allocated: u64) -> Result<(), Error> {
        Ok(())
    }
    /// An object came to life.
    fn born(&mut self, process: usize, object: &Object) -> Result<(), Error> {
        Ok(())
    }
    /// An object died.
    fn died(&mut self, process: usize, object: &Object, free_ns: u64) -> Result<(), Error> {
        Ok(())
    }
    /// An object was alive when its process ended.
    fn left(&mut self, process: usize, object: &Object, end_ns: u64) -> Result<(), Error> {
        Ok(())
    }
    /// The sampler saw an access.
    fn visit(&mut self, process: usize, object: Option<&Object>, visit: &Visit) -> Result<(), Error> {
        Ok(())
    }
    /// The sampler saw none.
    fn quiet(&mut self, process: usize, object: Option<&Object>, quiet: &Quiet) -> Result<(), Error> {
        Ok(())
    }
    /// A sampler outside of the process saw an access. What it was on was told before.
    fn sampled(&mut self, process: usize, miss: &Miss) -> Result<(), Error> {
        Ok(())
    }
    /// Misses were counted in the interval that begins at `start_ns`, which may come in several parts. `process` is
    /// `None` for processes that did not report.
    fn misses(&mut self, process: Option<usize>, place: Place, start_ns: u64, counts: &Counts) -> Result<(), Error> {
        Ok(())
    }
    /// Misses were counted on a chunk of a site's large objects; they are among those of [`Sink::misses`], and more may come.
    fn missed(&mut self, site: SiteId, at: ChunkAt, misses: &ChunkMisses) -> Result<(), Error> {
        Ok(())
    }
    /// So many samples had their data from this source; once for each process, place and source.
    fn sourced(&mut self, process: Option<usize>, place: Place, from: Source, samples: &Sourced) -> Result<(), Error> {
        Ok(())
    }
    /// The instruction before the end of `code` was sampled when it accessed this place; more may come of the same.
    fn touched(&mut self, place: Place, code: &RawFrame, touch: &Touch) -> Result<(), Error> {
        Ok(())
    }
    /// Pages were looked up.
    fn residency(&mut self, process: usize, time_ns: u64, sites: &HashMap<SiteId, SitePages>) -> Result<(), Error> {
        Ok(())
    }
    /// So many bytes of a process's anonymous memory are resident, and so many of them in huge pages.
    fn memory(&mut self, process: usize, time_ns: u64, anonymous: u64, huge: u64) -> Result<(), Error> {
        Ok(())
    }
    /// A process ended, with its counters.
    fn ended(&mut self, process: usize, end_ns: u64, status: &str, counters: &[(String, u64)]) -> Result<(), Error> {
        Ok(())
    }
    /// So much was lost of a kind so far; `process` is `None` for the run as a whole.
    fn lost(&mut self, process: Option<usize>, kind: &str, count: u64, note: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Something was said of a program of this user that is not followed, in a standing session.
    fn said(&mut self, user: u32, what: &str) -> Result<(), Error> {
        Ok(())
    }
    /// Accesses could be seen from one time to the other only.
    fn watched(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        Ok(())
    }
    /// How often [`Sink::tick`] is to come.
    fn interval(&self) -> Duration {
        Duration::from_millis(500)
    }
    /// So many instructions were executed so far, where they are counted.
    fn instructions(&mut self, count: u64) -> Result<(), Error> {
        Ok(())
    }
    /// So much time has passed again.
    fn tick(&mut self, now_ns: u64) -> Result<(), Error> {
        Ok(())
    }
    /// The moment to do something to the observed processes. It is to be short, since rings are not emptied meanwhile; returns
    /// whether more is to be done. Unlike all else it takes the lab's simulated time.
    fn act(&mut self, now_ns: u64) -> Result<bool, Error> {
        Ok(false)
    }
}

impl Sink for () {}

/// Sums over a site, all processes together.
#[derive(Clone, Debug, Default)]
pub struct SiteTally {
    /// Call stack, innermost first; empty if it was never told.
    pub frames: Vec<RawFrame>,
    /// Which of the stack's objects these are, if not all.
    pub apart: Option<Apart>,
    /// Allocations.
    pub objects: u64,
    /// Allocations by the tier they were placed in.
    pub objects_in_tier: [u64; MAX_TIERS],
    /// Bytes allocated, by the tier they were placed in.
    pub bytes_in_tier: [u64; MAX_TIERS],
    /// Bytes alive now.
    pub alive: u64,
    /// Most bytes alive at one moment.
    pub peak: u64,
    /// Bytes by node (-1: not present) at the reading that found most of it resident; empty if never read.
    pub fullest: BTreeMap<i32, u64>,
}

impl SiteTally {
    fn add(&mut self, bytes: u64) {
        self.alive += bytes;
        self.peak = self.peak.max(self.alive);
    }
}

/// Sums over the run.
#[derive(Debug, Default)]
pub struct Tally {
    /// By site.
    pub sites: HashMap<SiteId, SiteTally>,
    /// Allocations.
    pub objects: u64,
    /// Visits, or misses sampled.
    pub visits: u64,
    /// Image of the plan that guides the run: what of a stack it does not tell apart counts as the stack's.
    pub plan: Option<Vec<u64>>,
}

impl Tally {
    /// The site that objects of this one count for.
    fn counts_as(&self, site: SiteId, apart: Option<Apart>) -> SiteId {
        let planned = |words: &Vec<u64>| Image::new(words).is_some_and(|i| i.target_of(site.0).is_some());
        match apart {
            Some(apart) if self.plan.as_ref().is_some_and(|p| !planned(p)) => apart.stack,
            _ => site,
        }
    }
}

/// The follower of one process.
pub struct Follower {
    process: usize,
    /// Events that are not applied yet, and before them some that are: first those that are sorted, in the order in which they
    /// are to be applied, then new ones.
    events: Vec<Taken>,
    applied: usize,
    sorted: usize,
    /// Ends that were told with beginnings which are applied: time and address, the earliest first.
    ends: BinaryHeap<Reverse<(u64, u64)>>,
    modules: HashMap<u16, Module>,
    told: HashSet<SiteId>,
    /// Sites whose objects count for another one, by [`Tally::plan`].
    aliases: HashMap<SiteId, SiteId>,
    live: Live,
    /// Objects that came to life in the events that are being applied. Most that ever live do so for microseconds, and never
    /// need a place among the others. Empty between two calls of `apply`.
    fresh: HashMap<u64, Object>,
    /// Events were lost: what comes to life may lie where something was that is not known to be dead.
    lossy: bool,
    /// Managed objects are read elsewhere, and what is told of them is not followed.
    objects_read: bool,
    /// Most live objects, and how many were beyond that.
    most: usize,
    beyond: u64,
    misses: Option<Misses>,
    touches: Touches,
    /// Modules that were seen, with the addresses of their variables.
    loaded: HashMap<Loaded, Vec<u64>>,
    last_ns: u64,
}

impl Follower {
    /// A follower for the process of this number.
    pub fn new(process: usize) -> Follower {
        Follower {
            process,
            events: Vec::new(),
            applied: 0,
            sorted: 0,
            ends: BinaryHeap::new(),
            modules: HashMap::default(),
            told: HashSet::default(),
            aliases: HashMap::default(),
            live: Live::default(),
            fresh: HashMap::default(),
            lossy: false,
            objects_read: false,
            most: usize::MAX,
            beyond: 0,
            misses: None,
            touches: Touches::default(),
            loaded: HashMap::default(),
            last_ns: 0,
        }
    }

    /// Counts misses too, of which [`Follower::miss`] is told.
    pub fn count_misses(&mut self, misses: Misses) {
        self.misses = Some(misses);
    }

    /// Remembers no more live objects than so many.
    pub fn remember(&mut self, most: usize) {
        self.most = most;
    }

    /// Whether managed objects are read elsewhere: then what was told of them so far, and what still is, is not followed.
    pub fn objects_are_read(&mut self, read: bool) {
        self.objects_read = read;
    }

    /// Objects that were not remembered.
    pub fn beyond(&self) -> u64 {
        self.beyond
    }

    /// Events are missing.
    pub fn lost_events(&mut self) {
        self.lossy = true;
    }

    /// Where newly drained events go.
    pub fn inbox(&mut self) -> &mut Vec<Taken> {
        &mut self.events
    }

    /// Live objects.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Time of the last event applied.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Applies held events up to `horizon` (ns since the start of the run).
    pub fn apply(&mut self, horizon: u64, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        if self.events.len() > self.sorted {
            self.events.drain(..std::mem::take(&mut self.applied));
            // Stable: events of one time keep the order of their ring. Definitions come first whatever their time, since
            // another thread may use what this one defined.
            self.events.sort_by_key(|t| {
                (!matches!(t.what, What::Module { .. }), !matches!(t.what, What::Site { .. }), t.time)
            });
            self.sorted = self.events.len();
        }
        let defines = |t: &Taken| matches!(t.what, What::Module { .. } | What::Site { .. });
        let due = |t: &Taken| t.time <= horizon || defines(t);
        // Out of the way, so that they can be looked at where they are: there are many.
        let events = std::mem::take(&mut self.events);
        let mut told = Ok(());
        while told.is_ok() {
            let next = events.get(self.applied).filter(|t| due(t));
            let until = next.map_or(horizon, |t| if defines(t) { 0 } else { t.time });
            told = match (self.ends.peek(), next) {
                (Some(&Reverse((time, addr))), _) if time <= until => {
                    self.ends.pop();
                    self.free(addr, time, tally, sink)
                }
                (_, Some(taken)) => {
                    self.applied += 1;
                    self.one(taken, tally, sink)
                }
                (_, None) => break,
            };
        }
        self.events = events;
        told?;
        self.settle(tally, sink)?;
        if let Some(misses) = &mut self.misses {
            misses.settle(horizon, &self.live);
        }
        Ok(())
    }

    /// A miss was sampled. Events before it are applied first: those that matter to it were told before it happened.
    #[inline]
    pub fn miss(&mut self, miss: &Miss, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        let before = |time: u64| time <= miss.time_ns;
        if self.events.len() > self.sorted
            || self.events.get(self.applied).is_some_and(|t| before(t.time))
            || self.ends.peek().is_some_and(|&Reverse((time, _))| before(time))
        {
            self.apply(miss.time_ns, tally, sink)?;
        }
        if let Some(misses) = &mut self.misses {
            misses.miss(miss, &self.live);
        }
        sink.sampled(self.process, miss)?;
        tally.visits += u64::from(miss.line == Line::Missed);
        Ok(())
    }

    /// Tells what misses were counted; `all`: in the current interval too.
    pub fn tell_misses(&mut self, all: bool, sink: &mut dyn Sink) -> Result<(), Error> {
        match &mut self.misses {
            Some(misses) => tell(misses, Some(self.process), all, sink),
            None => Ok(()),
        }
    }

    /// A miss that was told of already, while this process was another program.
    pub fn miss_again(&mut self, miss: &Miss) {
        if let Some(misses) = &mut self.misses {
            misses.miss(miss, &self.live);
        }
    }

    /// See [`Misses::take_unplaced`].
    pub fn take_unplaced(&mut self) -> Vec<Miss> {
        self.misses.as_mut().map(Misses::take_unplaced).unwrap_or_default()
    }

    /// Tells what was missed on chunks of large objects since the last call.
    pub fn tell_chunks(&mut self, sink: &mut dyn Sink) -> Result<(), Error> {
        for (site, at, misses) in self.misses.iter_mut().flat_map(Misses::take_chunks) {
            sink.missed(site, at, &misses)?;
        }
        Ok(())
    }

    /// Tells which instructions touched what since the last call.
    pub fn tell_touches(&mut self, code: &mut Code, sink: &mut dyn Sink) -> Result<(), Error> {
        let mut touches = self.touches.take();
        if let Some(misses) = &mut self.misses {
            touches.extend(misses.take_touches());
        }
        let addresses: Vec<u64> = touches.iter().map(|(_, ip, _)| *ip).collect();
        for ((place, _, touch), code) in touches.iter().zip(code.frames(&addresses)) {
            sink.touched(*place, &code, touch)?;
        }
        Ok(())
    }

    fn one(&mut self, taken: &Taken, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        let &Taken { tid, time, ref what } = taken;
        self.last_ns = self.last_ns.max(time);
        match *what {
            What::Module { index, ref module } => {
                self.modules.insert(index, module.clone());
            }
            What::Site { site, ref frames, truncated, apart } => {
                if !self.told.insert(site) {
                    return Ok(());
                }
                let frames: Vec<RawFrame> = frames.iter().map(|&f| self.frame(f)).collect();
                let counts_as = tally.counts_as(site, apart);
                if counts_as != site {
                    self.aliases.insert(site, counts_as);
                    return Ok(());
                }
                let stack = Stack { frames, truncated, apart };
                sink.site(self.process, site, &stack)?;
                let tallied = tally.sites.entry(site).or_default();
                (tallied.frames, tallied.apart) = (stack.frames, apart);
            }
            What::Alloc { kind: SiteKind::Allocation, .. } | What::Free { .. } if self.objects_read => {}
            What::Alloc { addr, size, site, tier, realloc, kind, ended } => {
                self.ends.extend(ended.map(|end| Reverse((end.get(), addr))));
                let fresh = kind == SiteKind::Allocation && self.misses.is_none();
                if let Some(old) = self.fresh.remove(&addr) {
                    self.over(&old, time, tally, sink)?;
                }
                if !fresh || self.fresh.len() >= FRESH {
                    self.settle(tally, sink)?;
                }
                // Addresses that are handed out again were freed, even if that event was lost.
                if !fresh || realloc || self.lossy {
                    self.clear(addr, size.max(1), time, tally, sink)?;
                }
                tally.objects += 1;
                let site = self.aliases.get(&site).copied().unwrap_or(site);
                let object = Object { id: tally.objects, addr, size, site, tier, tid, alloc_ns: time, realloc, kind };
                let s = tally.sites.entry(site).or_default();
                s.objects += 1;
                if let (Some(n), Some(b)) =
                    (s.objects_in_tier.get_mut(usize::from(tier)), s.bytes_in_tier.get_mut(usize::from(tier)))
                {
                    *n += 1;
                    *b += size;
                }
                if !fresh {
                    return self.add(object, tally, sink);
                }
                s.add(size);
                self.fresh.insert(addr, object);
                sink.born(self.process, &object)?;
            }
            What::Region { region, number } => sink.region(self.process, region, number, time)?,
            What::Use { phase, addr } => {
                self.settle(tally, sink)?;
                let found = self.live.at_or_below(addr).filter(|o| addr - o.addr < o.size);
                found.map_or(Ok(()), |o| sink.uses(self.process, phase, o.site))?;
            }
            What::Unmap { addr, size } => {
                self.settle(tally, sink)?;
                self.clear(addr, size, time, tally, sink)?;
            }
            What::Free { addr } => self.free(addr, time, tally, sink)?,
            What::Visit { addr, ip, object, site, wait_ns, store, ref burst } => {
                tally.visits += 1;
                self.settle(tally, sink)?;
                let Some((object, site)) = self.sampled(object, site, addr) else { return Ok(()) };
                let touch = Touch { loads: u64::from(!store), stores: u64::from(store), ..Touch::default() };
                self.touches.add(Place::Site(site), ip, &touch);
                let burst = burst.as_deref().copied();
                let visit = Visit { tid, time_ns: time, addr, ip, site, wait_ns, store, burst };
                sink.visit(self.process, object.as_ref(), &visit)?;
            }
            What::Quiet { page, object, site, wait_ns } => {
                self.settle(tally, sink)?;
                let Some((object, site)) = self.sampled(object, site, page) else { return Ok(()) };
                let quiet = Quiet { time_ns: time, page, site, wait_ns };
                sink.quiet(self.process, object.as_ref(), &quiet)?;
            }
        }
        Ok(())
    }

    /// The object at this address is no more.
    fn free(&mut self, addr: u64, time: u64, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        self.last_ns = self.last_ns.max(time);
        if let Some(object) = self.fresh.remove(&addr) {
            return self.over(&object, time, tally, sink);
        }
        // Unknown: allocated before a fork, or its allocation was lost. Older than the object: that one was
        // put to rest already when its address was handed out again.
        self.bury(addr, time, |o| o.alloc_ns <= time, tally, sink)
    }

    /// The object that was sampled, if it is known, and its site. Of static data the runtime knows the address alone; none:
    /// nothing of it that is an object lies there.
    fn sampled(&self, object: u64, site: SiteId, addr: u64) -> Option<(Option<Object>, SiteId)> {
        if site.0 != STATIC_DATA {
            // Of a mapping that the program opens bit by bit the runtime may know a part.
            let whole =
                || self.live.at_or_below(addr).filter(|o| o.kind == SiteKind::Mapping && addr - o.addr < o.size);
            return Some((self.live.get(object).or_else(whole).filter(|o| o.site == site), site));
        }
        let found = self.live.at_or_below(addr)?;
        (addr - found.addr < found.size).then_some((Some(found), found.site))
    }

    /// Nothing is alive in this range any more. Of a mapping that reaches beyond it, what is outside lives on.
    fn clear(&mut self, addr: u64, size: u64, time: u64, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        let end = addr.saturating_add(size);
        let mut hit: Vec<Object> = Vec::new();
        let mut below = end;
        while let Some(o) = below.checked_sub(1).and_then(|at| self.live.at_or_below(at)) {
            if o.addr.saturating_add(o.size.max(1)) <= addr {
                break;
            }
            below = o.addr;
            hit.push(o);
        }
        for old in hit {
            self.bury(old.addr, time, |_| true, tally, sink)?;
            let rest = [(old.addr, addr.saturating_sub(old.addr)), (end, (old.addr + old.size).saturating_sub(end))];
            for (addr, size) in rest.into_iter().filter(|&(_, size)| size > 0 && old.kind == SiteKind::Mapping) {
                tally.objects += 1;
                let object = Object { id: tally.objects, addr, size, alloc_ns: time, realloc: true, ..old };
                self.add(object, tally, sink)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, object: Object, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        tally.sites.entry(object.site).or_default().add(object.size);
        if let Some(misses) = &mut self.misses {
            misses.settle(object.alloc_ns, &self.live);
        }
        // Alive even if it could not be written: its death will be told.
        let told = sink.born(self.process, &object);
        self.keep(object, tally, sink).and(told)
    }

    /// Remembers that an object is alive, of which all were told. Of a process that has more of them than may be remembered it is as if it were dead.
    fn keep(&mut self, object: Object, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        if self.live.len() >= self.most {
            self.beyond += 1;
            return self.over(&object, object.alloc_ns, tally, sink);
        }
        self.live.insert(object);
        Ok(())
    }

    /// What lies where in the process now: static variables of modules that have come are objects from `time` on, those of
    /// modules that have gone are no more.
    pub fn look(
        &mut self,
        layout: &Layout,
        statics: bool,
        time: u64,
        tally: &mut Tally,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        sink.regions(self.process, layout.regions())?;
        if let Some(misses) = &mut self.misses {
            misses.regions(layout.regions().to_vec());
        }
        if !statics {
            return Ok(());
        }
        let here = |l: &Loaded| layout.modules().iter().any(|(there, _)| there == l);
        let gone: Vec<Loaded> = self.loaded.keys().filter(|l| !here(l)).cloned().collect();
        for module in gone {
            for addr in self.loaded.remove(&module).unwrap_or_default() {
                if self.live.get(addr).is_some_and(|o| o.kind == SiteKind::Static) {
                    self.bury(addr, time, |_| true, tally, sink)?;
                }
            }
        }
        for (loaded, file) in layout.modules() {
            if self.loaded.contains_key(loaded) {
                continue;
            }
            let module = &file.module;
            let mut addresses = Vec::new();
            for v in file.variables.iter().filter(|v| can_lie(loaded.bias.wrapping_add(v.offset), v.size)) {
                if self.told.insert(v.site) {
                    sink.variable(self.process, v.site, module, v.offset, &v.name)?;
                    let frame = RawFrame { module: Some(module.clone()), offset: v.offset };
                    tally.sites.entry(v.site).or_default().frames = vec![frame];
                }
                let addr = loaded.bias.wrapping_add(v.offset);
                let (size, site, kind) = (v.size, v.site, SiteKind::Static);
                let what = What::Alloc { addr, size, site, tier: 0, realloc: false, kind, ended: None };
                self.one(&Taken { tid: 0, time, what }, tally, sink)?;
                addresses.push(addr);
            }
            self.loaded.insert(loaded.clone(), addresses);
        }
        Ok(())
    }

    /// Puts the object at an address to rest, if it is meant.
    fn bury(
        &mut self,
        addr: u64,
        time: u64,
        meant: impl Fn(&Object) -> bool,
        tally: &mut Tally,
        sink: &mut dyn Sink,
    ) -> Result<(), Error> {
        if let Some(misses) = &mut self.misses {
            misses.settle(time, &self.live);
        }
        let Some(object) = self.live.remove_if(addr, meant) else { return Ok(()) };
        if let Some(misses) = &mut self.misses {
            misses.died(&object, time);
        }
        self.over(&object, time, tally, sink)
    }

    /// Tells the death of an object that is out of the tables already.
    fn over(&self, object: &Object, time: u64, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        if let Some(s) = tally.sites.get_mut(&object.site) {
            s.alive = s.alive.saturating_sub(object.size);
        }
        sink.died(self.process, object, time)
    }

    /// Gives the fresh objects their places among the others: they are told of already.
    fn settle(&mut self, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let mut fresh: Vec<Object> = self.fresh.drain().map(|(_, o)| o).collect();
        fresh.sort_unstable_by_key(|o| o.alloc_ns);
        for object in fresh {
            self.clear(object.addr, object.size.max(1), object.alloc_ns, tally, sink)?;
            self.keep(object, tally, sink)?;
        }
        Ok(())
    }

    /// The process has ended: its memory is not alive any more (its objects stay without a time of their own).
    pub fn end(&mut self, end_ns: u64, tally: &mut Tally, sink: &mut dyn Sink) -> Result<(), Error> {
        self.settle(tally, sink)?;
        for object in std::mem::take(&mut self.live) {
            if let Some(s) = tally.sites.get_mut(&object.site) {
                s.alive = s.alive.saturating_sub(object.size);
            }
            sink.left(self.process, &object, end_ns)?;
        }
        Ok(())
    }

    fn frame(&self, word: u64) -> RawFrame {
        let index = (word >> 48) as u16;
        let offset = word & 0xffff_ffff_ffff;
        let module = if index == NO_MODULE { None } else { self.modules.get(&index).cloned() };
        RawFrame { module, offset }
    }
}

/// Tells what was counted; `all`: in the current interval too, and where the data came from.
pub fn tell(misses: &mut Misses, process: Option<usize>, all: bool, sink: &mut dyn Sink) -> Result<(), Error> {
    for (place, start_ns, counts) in misses.take(all) {
        sink.misses(process, place, start_ns, &counts)?;
    }
    if all {
        for (place, source, samples) in misses.take_sources() {
            sink.sourced(process, place, source, &samples)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes down what it is told, one line each.
    #[derive(Default)]
    struct Log(Vec<String>);
    impl Sink for Log {
        fn born(&mut self, _: usize, o: &Object) -> Result<(), Error> {
            self.0.push(format!("+{:x}@{}", o.addr, o.alloc_ns));
            Ok(())
        }
        fn died(&mut self, _: usize, o: &Object, free_ns: u64) -> Result<(), Error> {
            self.0.push(format!("-{:x}@{free_ns}", o.addr));
            Ok(())
        }
        fn visit(&mut self, _: usize, o: Option<&Object>, _: &Visit) -> Result<(), Error> {
            self.0.push(format!("seen {:x}", o.map_or(0, |o| o.addr)));
            Ok(())
        }
        fn site(&mut self, _: usize, s: SiteId, stack: &Stack) -> Result<(), Error> {
            self.0.push(format!("site {} {:?}", s.0, stack.frames[0].module.as_ref().map(|m| m.path.clone())));
            Ok(())
        }
    }

    fn alloc(time: u64, addr: u64, size: u64) -> Taken {
        brief(time, addr, size, 0)
    }
    /// One whose end was told with it.
    fn brief(time: u64, addr: u64, size: u64, end: u64) -> Taken {
        let (site, kind, ended) = (SiteId(7), SiteKind::Allocation, std::num::NonZeroU64::new(end));
        Taken { tid: 1, time, what: What::Alloc { addr, size, site, tier: 0, realloc: false, kind, ended } }
    }
    fn free(time: u64, addr: u64) -> Taken {
        Taken { tid: 2, time, what: What::Free { addr } }
    }
    fn run(batches: &[(u64, &[Taken])]) -> (Vec<String>, Tally) {
        let (mut f, mut log, mut tally) = (Follower::new(0), Log::default(), Tally::default());
        for (horizon, batch) in batches {
            f.inbox().extend_from_slice(batch);
            f.apply(*horizon, &mut tally, &mut log).unwrap();
        }
        (log.0, tally)
    }

    #[test]
    fn a_free_by_another_thread_is_applied_after_its_allocation_and_before_the_next() {
        let batch = [free(20, 0x1000), alloc(10, 0x1000, 4096), alloc(30, 0x1000, 8192)];
        let (log, tally) = run(&[(100, &batch)]);
        assert_eq!(log, ["+1000@10", "-1000@20", "+1000@30"]);
        assert_eq!((tally.sites[&SiteId(7)].alive, tally.sites[&SiteId(7)].peak), (8192, 8192));
    }

    #[test]
    fn what_is_too_much_to_remember_is_as_good_as_dead() {
        let (mut f, mut log, mut tally) = (Follower::new(0), Log::default(), Tally::default());
        f.remember(2);
        let three = (1..=3).map(|n| alloc(n * 10, n << 12, 4096));
        // A free of what is not remembered does no harm, and makes no room.
        f.inbox().extend(three.chain([free(40, 3 << 12)]));
        f.apply(100, &mut tally, &mut log).unwrap();
        assert_eq!((f.live().len(), f.beyond(), log.0.last()), (2, 0, Some(&"-3000@40".to_string())));
        f.inbox().extend([alloc(110, 3 << 12, 4096), alloc(120, 4 << 12, 4096)]);
        f.apply(200, &mut tally, &mut log).unwrap();
        assert_eq!((f.live().len(), f.beyond()), (2, 2));
        assert_eq!(log.0[log.0.len() - 2..], ["-3000@110", "-4000@120"]);
        f.inbox().extend([free(210, 3 << 12), free(220, 1 << 12), alloc(230, 3 << 12, 4096)]);
        f.apply(300, &mut tally, &mut log).unwrap();
        assert_eq!((f.live().len(), f.beyond(), tally.sites[&SiteId(7)].alive), (2, 2, 8192));
    }

    #[test]
    fn events_beyond_the_horizon_wait() {
        let (log, _) = run(&[(15, &[free(20, 0x1000)]), (40, &[alloc(10, 0x1000, 4096)])]);
        assert_eq!(log, ["+1000@10", "-1000@20"]);
    }

    #[test]
    fn a_lost_free_ends_when_the_address_is_handed_out_again_and_a_late_one_does_no_harm() {
        let batch = [alloc(10, 0x1000, 8192), alloc(11, 0x9000, 4096), alloc(20, 0x2000, 4096)];
        let (log, _) = run(&[(100, &batch), (100, &[free(15, 0x2000), free(16, 0x5000)])]);
        assert_eq!(log, ["+1000@10", "+9000@11", "+2000@20", "-1000@20"]);
    }

    #[test]
    fn what_lived_for_a_moment_is_told_like_any_other() {
        let visit = |time, object| {
            let (ip, wait_ns, store, burst) = (0x40, 5, false, None);
            let what = What::Visit { addr: object + 8, ip, object, site: SiteId(7), wait_ns, store, burst };
            Taken { tid: 3, time, what }
        };
        // One after the other at one address, two at a time; the third one is seen, and stays.
        let batch = [
            alloc(10, 0x1000, 4096),
            alloc(11, 0x5000, 4096),
            free(12, 0x1000),
            free(13, 0x5000),
            alloc(14, 0x1000, 8192),
            visit(15, 0x1000),
        ];
        let (log, tally) = run(&[(100, &batch), (200, &[free(150, 0x1000)])]);
        assert_eq!(log, ["+1000@10", "+5000@11", "-1000@12", "-5000@13", "+1000@14", "seen 1000", "-1000@150"]);
        let site = &tally.sites[&SiteId(7)];
        assert_eq!((site.objects, site.alive, site.peak, tally.objects), (3, 0, 8192, 3));
        // Ends that came with beginnings, before and after the horizon, with one of another thread in between.
        let batch = [
            brief(10, 0x1000, 4096, 20),
            brief(12, 0x2000, 4096, 13),
            alloc(13, 0x2000, 8192),
            brief(25, 0x1000, 50, 60),
        ];
        let (log, tally) = run(&[(30, &batch), (70, &[free(40, 0x2000)])]);
        let told = ["+1000@10", "+2000@12", "-2000@13", "+2000@13", "-1000@20", "+1000@25", "-2000@40", "-1000@60"];
        assert_eq!(log, told);
        assert_eq!((tally.sites[&SiteId(7)].alive, tally.sites[&SiteId(7)].peak), (0, 12288));
        // What was resized where it lay has ended there, whether it is fresh or not.
        let resized = |time, size| match alloc(time, 0x1000, size) {
            Taken { what: What::Alloc { addr, size, site, tier, kind, ended, .. }, .. } => {
                Taken { tid: 1, time, what: What::Alloc { addr, size, site, tier, realloc: true, kind, ended } }
            }
            other => other,
        };
        let (log, tally) = run(&[(9, &[alloc(1, 0x1000, 4096)]), (100, &[resized(10, 8192), resized(11, 9000)])]);
        assert_eq!(log, ["+1000@1", "-1000@10", "+1000@10", "-1000@11", "+1000@11"]);
        assert_eq!((tally.sites[&SiteId(7)].alive, tally.sites[&SiteId(7)].peak), (9000, 9000));
        // What lies across two that are not known to be dead ends both.
        let (log, _) =
            run(&[(9, &[alloc(1, 0x1000, 8192)]), (100, &[alloc(10, 0x4000, 4096), alloc(11, 0x2000, 12288)])]);
        assert_eq!(log, ["+1000@1", "+4000@10", "+2000@11", "-4000@11", "-1000@11"]);
    }

    #[test]
    fn misses_are_merged_with_events_by_time() {
        #[derive(Default)]
        struct Seen(Vec<(Place, u64)>);
        impl Sink for Seen {
            fn misses(&mut self, process: Option<usize>, place: Place, _: u64, c: &Counts) -> Result<(), Error> {
                assert_eq!(process, Some(3));
                self.0.push((place, c.loads));
                Ok(())
            }
        }
        let (mut f, mut seen, mut tally) = (Follower::new(3), Seen::default(), Tally::default());
        f.count_misses(Misses::new());
        const MS: u64 = 1_000_000;
        let mut miss = |f: &mut Follower, time_ns| {
            let (weight, source) = (1, Source::Memory);
            let miss = Miss {
                time_ns,
                addr: 0x1008,
                ip: 0x40,
                latency_ns: 9,
                alone_ns: None,
                store: false,
                ahead: false,
                weight,
                source,
                line: Line::Missed,
            };
            f.miss(&miss, &mut tally, &mut ()).unwrap();
        };
        // Events come in the wrong order, and those after a miss wait until it was counted.
        f.inbox().extend([free(4 * MS, 0x1000), alloc(MS / 2, 0x1000, 4096)]);
        for ms in [1, 2, 5] {
            miss(&mut f, ms * MS);
        }
        f.inbox().extend([free(8 * MS, 0x1000), alloc(6 * MS, 0x1000, 4096)]);
        for ms in [7, 9] {
            miss(&mut f, ms * MS);
        }
        f.apply(u64::MAX, &mut tally, &mut seen).unwrap();
        f.tell_misses(false, &mut seen).unwrap();
        assert_eq!((seen.0.len(), tally.visits), (0, 5), "the interval is not over");
        f.tell_misses(true, &mut seen).unwrap();
        assert_eq!(seen.0, [(Place::Site(SiteId(7)), 3), (Place::Other, 2)]);
    }

    #[test]
    fn frames_name_their_modules_even_if_the_definition_was_in_a_later_ring() {
        let module = Module { path: "/bin/x".into(), build_id: "ab".into() };
        let site = What::Site { site: SiteId(7), frames: [3 << 48 | 5].into(), truncated: false, apart: None };
        let (log, _) = run(&[(
            100,
            &[
                Taken { tid: 1, time: 1, what: site },
                Taken { tid: 2, time: 9, what: What::Module { index: 3, module } },
            ],
        )]);
        assert_eq!(log, ["site 7 Some(\"/bin/x\")"]);
    }
}
