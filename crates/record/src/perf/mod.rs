//! The processor's own memory sampling, through the kernel's perf events: PEBS of Intel, IBS of AMD, SPE of Arm.
//!
//! 1. [`cpu`] finds out what machine this is, [`events`] chooses what to sample on it.
//! 2. [`open`] opens the events for a program that is about to start; [`ring`] is the memory shared with the kernel.
//! 3. [`record`] reads the kernel's records, and [`source`], [`ibs`] and [`spe`] what the processors say in them about an
//!    access.
//!    [`counter`] is an event that is counted and not sampled.
//! 4. [`Perf`] makes [`Miss`]es of all that, in the order of their times. From there on they go the way of every sampler that
//!    lies outside of the process.

pub mod counter;
pub mod cpu;
pub mod events;
pub mod ibs;
pub mod open;
pub mod record;
pub mod ring;
pub mod source;
pub mod spe;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::misses::{Miss, Source};
use crate::outside::Outside;
use counter::Counter;
use cpu::Cpu;
use events::{Choice, Event, Every, Role};
use open::{Opened, Scope};
use record::{Format, Record, Sample};
use std::collections::HashMap;
use std::time::Duration;

/// Rings are read this often: at 10,000 samples a second and CPU, of 100 bytes each, a full one is 500 ms away.
const INTERVAL: Duration = Duration::from_millis(20);

/// The sampler.
#[derive(Debug)]
pub struct Perf {
    choice: Choice,
    formats: Vec<Format>,
    opened: Opened,
    instructions: Option<Counter>,
    places: HashMap<u64, usize>,
    clock: Clock,
    /// Read, but too young to be told: process and sample, with the time of the kernel's clock.
    young: Vec<(u32, Miss)>,
    lost: u64,
    throttled: u64,
    senseless: u64,
}

/// How long a cycle is.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// MHz of the core; none: cycles stay untold.
    pub mhz: Option<f64>,
}

impl Clock {
    fn ns(&self, cycles: u32) -> u32 {
        self.mhz.filter(|m| *m > 0.0).map_or(0, |mhz| (f64::from(cycles) * 1000.0 / mhz).round() as u32)
    }
}

impl Perf {
    /// Opens what this machine has, to be sampled every `period` events if it is given. A program must be started by this
    /// thread, if it is not everyone's. Errors: kernel, hypervisor, processor or privileges do not permit it; the sentence says what helps.
    pub fn find(period: Option<u64>, scope: Scope) -> Result<Perf, Error> {
        let cpu = Cpu::here();
        let choice = events::choose(&cpu, period).map_err(|why| Error(format!("--sampler perf: {why}")))?;
        Perf::open(choice, &cpu, scope)
    }

    /// Opens these events.
    pub fn open(choice: Choice, cpu: &Cpu, scope: Scope) -> Result<Perf, Error> {
        let opened = Opened::open(&choice, cpu, scope).map_err(|why| Error(format!("--sampler perf: {why}")))?;
        Ok(Perf {
            formats: choice.events.iter().map(open::format).collect(),
            choice,
            places: opened.ids.iter().copied().collect(),
            opened,
            instructions: None,
            clock: Clock { mhz: cpu.mhz },
            young: Vec::new(),
            lost: 0,
            throttled: 0,
            senseless: 0,
        })
    }

    /// What is sampled and how, for the profile.
    pub fn how(&self) -> &str {
        &self.choice.how
    }

    /// Reads all rings.
    fn read(&mut self) {
        let Perf { choice, formats, opened, places, clock, young, .. } = self;
        for ring in &mut opened.rings {
            let mut filled = Vec::new();
            let (mut lost, mut throttled, mut senseless) = (0, 0, 0);
            ring.take(|kind, body| {
                let place = formats[0].id_of(kind, body).and_then(|id| places.get(&id)).copied();
                let Some(place) = place else {
                    // Of events that are not ours there is nothing in our rings: a record without an id.
                    senseless += 1;
                    return;
                };
                match record::parse(kind, body, &formats[place]) {
                    Some(Record::Sample(s)) => young.extend(miss_of(&choice.events[place], &s, *clock)),
                    Some(Record::Lost(n)) => lost += n,
                    Some(Record::Throttled) => throttled += 1,
                    Some(Record::Aux(aux)) => filled.push((place, aux)),
                    Some(Record::Other) => {}
                    None => senseless += 1,
                }
            });
            for (place, aux) in filled {
                let per_tick = ring.ns_per_tick();
                let bytes = ring.take_aux(aux.offset, aux.size);
                lost += u64::from(aux.truncated);
                let every = choice.events[place].every;
                senseless += packets(&bytes, aux.time, per_tick, every, *clock, |miss| young.push((aux.pid, miss)));
            }
            self.lost += lost;
            self.throttled += throttled;
            self.senseless += senseless + std::mem::take(&mut ring.corrupt);
        }
    }
}

/// The access of a sample, with the process it belongs to. `None`: nothing about memory of the program's.
pub(crate) fn miss_of(event: &Event, s: &Sample<'_>, clock: Clock) -> Option<(u32, Miss)> {
    let access = s.data_source.map(source::decode);
    let source = access.map_or(Source::Unknown, |a| a.source);
    let mut miss = Miss {
        time_ns: s.time,
        addr: s.addr,
        ip: s.ip,
        latency_ns: clock.ns(s.cycles),
        weight: s.period,
        source,
        ..Miss::default()
    };
    match event.role {
        Role::LoadMiss | Role::FirstTouch => {}
        Role::Store => {
            miss.store = true;
            miss.latency_ns = 0;
            if access.and_then(|a| a.missed_l1) != Some(true) {
                miss.weight = 0;
            }
        }
        Role::Latency => miss.weight = 0,
        Role::Any => {
            let access = access?;
            miss = op_miss(&miss, s.addr, access.store, access.missed_l1 == Some(true), source, miss.latency_ns);
        }
        Role::Ibs => {
            let op = ibs::decode(s.raw?)?;
            // The processor tells the sampled op itself; the sample's own instruction is where the interrupt came.
            miss.ip = op.ip;
            miss = op_miss(&miss, op.addr, op.store, op.missed_l1, op.source, clock.ns(op.cycles));
        }
        Role::Spe => return None,
    }
    ours(miss.addr).then_some((s.pid, miss))
}

/// A sampled op of any kind: a miss if its load went to a memory, or its store beyond the first level.
fn op_miss(of: &Miss, addr: u64, store: bool, missed_l1: bool, source: Source, latency_ns: u32) -> Miss {
    let counts = if store { missed_l1 } else { source.is_memory() };
    let weight = if counts { of.weight } else { 0 };
    Miss { addr, store, source, weight, latency_ns: if store { 0 } else { latency_ns }, ..*of }
}

/// Addresses of programs, as against those of the kernel; 0 is what events without an address give.
fn ours(addr: u64) -> bool {
    addr != 0 && addr >> 63 == 0
}

/// The accesses in a piece of an AUX area that was handed over at `time`. Ticks are counted back from the last one.
/// Returns how many bytes made no sense.
fn packets(
    bytes: &[u8],
    time: u64,
    ns_per_tick: Option<f64>,
    every: Every,
    clock: Clock,
    mut each: impl FnMut(Miss),
) -> u64 {
    let mut ops = Vec::new();
    let senseless = spe::decode(bytes, |op| ops.push(op));
    let last = ops.iter().filter_map(|op| op.tick).max().unwrap_or(0);
    let weight = match every {
        Every::Events(n) => n,
        Every::Second(_) => 0,
    };
    for op in ops.iter().filter(|op| ours(op.addr)) {
        let ago = op.tick.map_or(0, |tick| last - tick) as f64 * ns_per_tick.unwrap_or(0.0);
        let time_ns = time.saturating_sub(ago as u64);
        let blank = Miss { time_ns, addr: op.addr, ip: op.ip, store: op.store, weight, ..Miss::default() };
        each(op_miss(&blank, op.addr, op.store, op.missed_l1, op.source, clock.ns(op.cycles)));
    }
    senseless as u64
}

impl Outside for Perf {
    fn begin(&mut self) {
        self.opened.begin();
    }

    fn end(&mut self) {
        self.opened.end();
    }

    fn interval(&self) -> Duration {
        INTERVAL
    }

    fn everyone(&self) -> bool {
        self.opened.everyone
    }

    fn count_instructions(&mut self) -> Result<(), String> {
        self.instructions = Some(Counter::instructions()?);
        Ok(())
    }

    fn instructions(&self) -> Option<u64> {
        self.instructions.as_ref().and_then(Counter::value)
    }

    fn take(&mut self, epoch_ns: u64, horizon: u64, each: &mut dyn FnMut(u32, &Miss)) {
        self.read();
        // Rings of different CPUs are merged.
        self.young.sort_by_key(|(_, miss)| miss.time_ns);
        let ripe = self.young.partition_point(|(_, miss)| miss.time_ns.saturating_sub(epoch_ns) <= horizon);
        for (pid, miss) in self.young.drain(..ripe) {
            each(pid, &Miss { time_ns: miss.time_ns.saturating_sub(epoch_ns), ..miss });
        }
    }

    fn losses(&self, _over: bool) -> Vec<(&'static str, u64, String)> {
        let mut losses: Vec<_> = self.choice.unseen.iter().map(|(kind, note)| (*kind, 1, note.clone())).collect();
        if self.lost > 0 {
            let note = "samples found the kernel's ring full, because the recorder could not keep up, and are missing from \
                        all counts; a larger --period takes fewer";
            losses.push(("sample-dropped", self.lost, note.into()));
        }
        if self.throttled > 0 {
            let note = "times the kernel stopped sampling for up to a tick, because samples came faster than \
                        kernel.perf_event_max_sample_rate; a larger --period takes fewer";
            losses.push(("sampler-throttled", self.throttled, note.into()));
        }
        if self.senseless > 0 {
            let note = "records of the kernel's ring made no sense and were thrown away";
            losses.push(("ring-corrupt", self.senseless, note.into()));
        }
        losses
    }
}
