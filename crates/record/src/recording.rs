//! `hearth record` as a function: checks everything, runs the program, writes the profile, symbolises it.

use crate::chunks::Chunks;
use crate::churn::{Churn, Told};
use crate::follow::{Object, Quiet, RawFrame, Sink, Stack, Started, Visit};
use crate::launch::{Launch, Outcome, find_runtime, mpi_for};
use crate::misses::{ChunkMisses, Counts, Place, Source, Sourced};
use crate::perf::open::Scope;
use crate::residency::SitePages;
use crate::sampling::{PAGE_FAULT, Sampler, Sampling, USUAL_LLC};
use crate::touches::Touch;
use crate::watch::now_ns;
use crate::{Error, annotated, guide, program, statics};
use foldhash::{HashMap, HashSet};
use model::observed::Loss;
use model::{Bytes, ChunkAt, Module, Nanos, Origin, Plan, Platform, SiteId, SiteKind, SourceLine};
use profile::{
    FrameRow, Machine, MissRow, ObjectRow, ProcessRow, QuietRow, ResidencyRow, Run, SourceRow, TouchRow, VisitRow,
    Writer,
};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::session::{ARMED_FROM, flags};

/// With fewer bytes nothing is missed.
const UNWATCHED: u64 = 1 << 20;
const UNWATCHED_NOTE: &str = "the page-fault sampler does not watch the program's own mappings of less than 2 MiB, which may \
                              be stacks, so nothing is known about their heat; the lab's sampler sees it (hearth lab run -- \
                              hearth record --sampler lab ...)";

/// What to record and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Program, as given.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Profile to write; none: the program's name and `.hearth`, in the working directory.
    pub output: Option<PathBuf>,
    /// Smallest allocation to record.
    pub threshold: Bytes,
    /// What makes the access samples.
    pub sampler: Sampler,
    /// Last-level cache to estimate misses for; none: this machine's.
    pub llc: Option<Bytes>,
    /// Phases begin with operations of MPI, too.
    pub phases: bool,
    /// The plan that guides the run, if one does.
    pub plan: Option<Plan>,
    /// The machine, if it could be found out, or why not.
    pub platform: Result<Platform, String>,
}

/// What is going on, told twice a second.
#[derive(Clone, Debug)]
pub enum Progress {
    /// The program runs.
    Running {
        /// Time since the start.
        elapsed: Nanos,
        /// Processes that reported.
        processes: usize,
        /// Objects recorded.
        objects: u64,
        /// Page visits sampled.
        samples: u64,
    },
    /// The program has ended; names are looked up in this file.
    Symbolising(String),
}

/// A recorded run.
#[derive(Debug)]
pub struct Recorded {
    /// Which sampler [`Sampler::Auto`] has chosen and why, as one sentence.
    pub chosen: Option<String>,
    /// How the run went.
    pub outcome: Outcome,
    /// The profile.
    pub profile: PathBuf,
    /// What the user should know about following the plan, one sentence each.
    pub notes: Vec<String>,
}

/// Records a run. An error means that the program was not started and no profile was left behind. Whatever goes wrong
/// later is a loss.
pub fn record(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Recorded, Error> {
    let program = program::check(&options.program)?;
    let runtime = find_runtime()?;
    let mpi = mpi_for(options.phases, options.plan.as_ref(), &runtime)?;
    let output = match &options.output {
        Some(path) => path.clone(),
        None => {
            let mut name = program.file_name().unwrap_or_default().to_owned();
            if let Some(rank) = rank(|name| std::env::var(name).ok()) {
                name.push(format!(".{rank}"));
            }
            name.push(".hearth");
            name.into()
        }
    };
    let mut sampling = Sampling::begin(options.sampler, Scope::Program)?;
    let guide = options.plan.as_ref().map(|plan| guide::prepare(plan, &program)).transpose()?;
    let guided = if guide.is_some() { flags::PLAN } else { 0 };
    // What the plan places has to be recorded too.
    let threshold = options.plan.as_ref().map_or(options.threshold, |p| options.threshold.min(p.threshold));
    let epoch_ns = now_ns();
    let mut command = vec![options.program.to_string_lossy().into_owned()];
    command.extend(options.args.iter().map(|a| a.to_string_lossy().into_owned()));
    let run = Run {
        command,
        cwd: std::env::current_dir().map(|d| d.display().to_string()).unwrap_or_default(),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        threshold: threshold.0,
        sampler: sampling.name.into(),
        period: sampling.period,
        sampling: sampling.how.take(),
        epoch_ns,
        tiers: options.plan.as_ref().map_or(Vec::new(), |p| p.tiers.clone()),
    };
    let (machine, unknown) = machine(options, sampling.name);
    let mut sink = ToProfile::new(Writer::create(&output, &run, &machine)?, progress);
    for (kind, note) in &unknown {
        sink.writer.loss(None, kind, 1, note)?;
    }
    sink.writer.commit(Nanos(0))?;
    let launch = Launch {
        program,
        name: options.program.clone(),
        args: options.args.clone(),
        mpi,
        runtime,
        flags: flags::EVENTS | sampling.flags | guided,
        threshold: threshold.0,
        faults_per_second: sampling.faults_per_second,
        steps_per_second: sampling.steps_per_second(),
        most_ppm: sampling.most_ppm,
        epoch_ns,
        plan: guide.as_ref().map(|g| g.image.clone()),
        home: None,
    };
    let by_page_faults = sampling.name == PAGE_FAULT;
    let mut outcome = match launch.run_with(&mut sink, sampling.outside.as_deref_mut()) {
        Ok(outcome) => outcome,
        Err(e) => {
            sink.writer.discard();
            return Err(e);
        }
    };
    if let Err(e) = complete(sink, &mut outcome, unknown, by_page_faults) {
        // The program has run: its exit status is to be kept whatever becomes of the profile.
        outcome.losses.push(Loss { kind: "profile-incomplete".into(), count: 1, note: e.0 });
    }
    let notes = guide.map_or(Vec::new(), |g| g.notes);
    Ok(Recorded { chosen: sampling.chosen, outcome, profile: output, notes })
}

/// The rank of an MPI job as which this command was started: each has a profile of its own then. What Open MPI, PMIx and PMI (MPICH, Slurm, Flux) say.
fn rank(environment: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let said = ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"].into_iter().find_map(environment)?;
    said.parse().ok()
}

/// After the run: source forms, losses of the run as a whole, estimates.
fn complete(
    mut sink: ToProfile<'_>,
    outcome: &mut Outcome,
    unknown: Vec<(&'static str, String)>,
    unwatched: bool,
) -> Result<(), Error> {
    sink.flush()?;
    sink.tell_churn()?;
    sink.tell_chunks()?;
    for (region, number, start_ns) in std::mem::take(&mut sink.regions.begun) {
        sink.writer.region(region, number, start_ns)?;
    }
    let ToProfile { mut writer, progress, elsewhere, .. } = sink;
    let mut unknown = unknown;
    if unwatched && elsewhere >= UNWATCHED {
        unknown.push(("unwatched", UNWATCHED_NOTE.into()));
    }
    // From here on the run is safe in the file; what follows only adds to it.
    writer.commit(Nanos(outcome.duration_ns))?;
    let programs: BTreeSet<&str> = outcome.processes.iter().map(|p| p.exe.as_str()).collect();
    let nameless = symbolise(&mut writer, &programs, progress)?;
    let nameless =
        nameless.into_iter().map(|why| ("module-unsymbolised", format!("a module has no source form: {why}")));
    for (kind, note) in unknown.into_iter().chain(nameless) {
        match outcome.losses.iter_mut().find(|l| l.kind == kind) {
            Some(loss) => loss.add(1, &note),
            None => outcome.losses.push(Loss { kind: kind.into(), count: 1, note }),
        }
    }
    // All others were written when they happened.
    for loss in outcome.losses.iter().filter(|l| ["module-unsymbolised", "unwatched"].contains(&l.kind.as_str())) {
        writer.loss(None, &loss.kind, loss.count, &loss.note)?;
    }
    Ok(writer.finish(Nanos(outcome.duration_ns), &outcome.how)?)
}

/// Gives all frames their source form; returns a sentence for each module that has none.
fn symbolise(
    writer: &mut Writer,
    programs: &BTreeSet<&str>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<String>, Error> {
    let mut nameless = Vec::new();
    let mut modules: Vec<_> = writer.modules().iter().map(|(m, &row)| (m.clone(), row)).collect();
    modules.sort_by_key(|m| m.1);
    let annotated = annotated::together(modules.iter().map(|(m, _)| m), programs.iter().copied());
    for (module, row) in modules {
        // What the program has named is its own source form, and so is a line of Python.
        if module.line_at(0).is_some() {
            for offset in writer.offsets(row)? {
                let line = module.line_at(offset);
                writer.symbol(row, offset, line.as_slice())?;
            }
            continue;
        }
        // The vDSO and anonymous code have no file.
        if module.file().is_none() {
            continue;
        }
        progress(Progress::Symbolising(module.name().to_string()));
        let offsets = writer.offsets(row)?;
        match annotated::lines(&module, &offsets, &annotated) {
            Ok(all) => {
                for (offset, lines) in offsets.iter().zip(all) {
                    writer.symbol(row, *offset, &lines)?;
                }
            }
            Err(why) => nameless.push(why),
        }
    }
    Ok(nameless)
}

/// Describes the machine, and says what could not be found out.
fn machine(options: &Options, sampler: &str) -> (Machine, Vec<(&'static str, String)>) {
    let mut unknown = Vec::new();
    let platform = match &options.platform {
        Ok(p) => Some(p.clone()),
        Err(why) => {
            unknown.push(("platform-unknown", format!("the machine's tiers could not be found out: {why}")));
            None
        }
    };
    let (llc, llc_origin) = match (options.llc, platform.as_ref().and_then(|p| p.llc)) {
        (Some(llc), _) => (llc, Origin::User),
        (None, Some(figure)) => (figure.value, figure.origin),
        // Misses that are counted are those of a real cache, or the lab's; its size is not reckoned with.
        (None, None) if sampler == profile::LAB || sampler == profile::PERF => (USUAL_LLC, Origin::Predicted),
        (None, None) => {
            unknown.push((
                "llc-unknown",
                format!("the machine does not tell the size of its last-level cache; {USUAL_LLC} was assumed (--llc sets it)"),
            ));
            (USUAL_LLC, Origin::Predicted)
        }
    };
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo")
        .lines()
        .find(|l| l.starts_with("model name") || l.starts_with("CPU part"))
        .and_then(|l| l.split_once(':'))
        .map_or(String::new(), |(_, name)| name.trim().to_string());
    let kernel = read("/proc/sys/kernel/osrelease").trim().to_string();
    (Machine { platform, cpu, kernel, llc: llc.0, llc_origin }, unknown)
}

/// Beginnings of parallel regions, thinned out as they become many: a timeline has a few hundred intervals.
#[derive(Default)]
struct Regions {
    process: Option<usize>,
    begun: Vec<(SiteId, u64, u64)>,
    /// One of 2 to the power of this is kept, and so many came.
    kept_of: u32,
    came: u64,
}

impl Regions {
    /// Most that are kept.
    const MOST: usize = 4096;

    fn add(&mut self, process: usize, region: SiteId, number: u64, time_ns: u64) {
        if *self.process.get_or_insert(process) != process {
            return;
        }
        if self.came & ((1 << self.kept_of) - 1) == 0 {
            self.begun.push((region, number, time_ns));
        }
        self.came += 1;
        if self.begun.len() >= Regions::MOST {
            let mut place = 0;
            self.begun.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.kept_of += 1;
        }
    }
}

/// Writes what happens into a profile. Objects wait until the next tick, so that short-lived ones are written once.
struct ToProfile<'a> {
    writer: Writer,
    processes: Vec<i64>,
    unwritten: BTreeMap<u64, ObjectRow>,
    /// Static variables that are in the profile.
    variables: HashSet<SiteId>,
    /// Objects that were written and are alive.
    written: HashSet<u64>,
    /// Objects without a row, and those of them that have to get one.
    churn: Churn,
    chunks: Chunks,
    sampled: HashSet<u64>,
    objects: u64,
    samples: u64,
    /// Beginnings of parallel regions of the first process that had any.
    regions: Regions,
    /// Phases, and sites that they use as the program says.
    uses: HashSet<(SiteId, SiteId)>,
    /// Bytes of mappings and static variables that were recorded.
    elsewhere: u64,
    progress: &'a mut dyn FnMut(Progress),
}

impl<'a> ToProfile<'a> {
    fn new(writer: Writer, progress: &'a mut dyn FnMut(Progress)) -> ToProfile<'a> {
        ToProfile {
            writer,
            processes: Vec::new(),
            unwritten: BTreeMap::new(),
            variables: HashSet::default(),
            written: HashSet::default(),
            churn: Churn::default(),
            chunks: Chunks::default(),
            sampled: HashSet::default(),
            objects: 0,
            samples: 0,
            regions: Regions::default(),
            uses: HashSet::default(),
            elsewhere: 0,
            progress,
        }
    }

    fn row(&self, process: usize) -> i64 {
        self.processes[process]
    }

    /// A place as the profile names it: its kind, and its site's row.
    fn place(&mut self, place: Place) -> Result<(&'static str, Option<i64>), Error> {
        Ok(match place {
            Place::Site(site) => (place.name(), Some(self.writer.site(site)?)),
            _ => (place.name(), None),
        })
    }

    /// An object's row, before it is freed.
    fn object(&mut self, process: usize, o: &Object) -> Result<ObjectRow, Error> {
        Ok(ObjectRow {
            process: self.row(process),
            site: self.writer.site(o.site)?,
            tid: o.tid,
            addr: o.addr,
            size: o.size,
            alloc_ns: o.alloc_ns,
            free_ns: None,
            tier: o.tier,
            realloc: o.realloc,
        })
    }

    /// An object without a row is no more.
    fn over(&mut self, process: usize, o: &Object, end_ns: u64, free_ns: Option<u64>) -> Result<(), Error> {
        let sampled = self.sampled.remove(&o.id);
        if self.churn.died(process, o, end_ns, sampled) == Told::Alone {
            let row = self.object(process, o)?;
            self.writer.object(o.id as i64, &ObjectRow { free_ns, ..row })?;
        }
        Ok(())
    }

    /// Samples refer to their object's row.
    fn was_sampled(&mut self, object: Option<&Object>) {
        if let Some(o) = object.filter(|o| !self.written.contains(&o.id) && !self.unwritten.contains_key(&o.id)) {
            self.sampled.insert(o.id);
        }
    }

    fn tell_churn(&mut self) -> Result<(), Error> {
        for ((process, site, tier), from_ns, cohorts) in self.churn.changed() {
            let (process, site) = (self.processes[process], self.writer.site(site)?);
            self.writer.cohorts(process, site, tier, from_ns, &cohorts)?;
        }
        Ok(())
    }

    fn tell_chunks(&mut self) -> Result<(), Error> {
        for (site, row) in self.chunks.changed() {
            let site = self.writer.site(site)?;
            self.writer.chunk(site, &row)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        for (id, row) in std::mem::take(&mut self.unwritten) {
            self.written.insert(id);
            self.writer.object(id as i64, &row)?;
        }
        Ok(())
    }
}

impl Sink for ToProfile<'_> {
    fn started(&mut self, _: usize, s: &Started) -> Result<(), Error> {
        let row = ProcessRow { pid: s.pid, ppid: s.ppid, exe: s.exe.clone(), start_ns: s.start_ns };
        // Numbered before it is written: later calls refer to it even if the write failed.
        self.processes.push(self.processes.len() as i64 + 1);
        self.writer.process(&row)?;
        Ok(())
    }

    fn site(&mut self, _: usize, site: SiteId, stack: &Stack) -> Result<(), Error> {
        let mut rows = Vec::with_capacity(stack.frames.len());
        for f in &stack.frames {
            let module = f.module.as_ref().map(|m| self.writer.module(m)).transpose()?;
            rows.push(FrameRow { module, offset: f.offset });
        }
        if let Some(apart) = stack.apart {
            self.writer.apart(site, apart)?;
        }
        Ok(self.writer.frames(site, &rows, stack.truncated)?)
    }

    fn variable(&mut self, _: usize, site: SiteId, module: &Module, offset: u64, name: &str) -> Result<(), Error> {
        if !self.variables.insert(site) {
            return Ok(()); // another process has it too
        }
        let row = self.writer.module(module)?;
        self.writer.frames(site, &[FrameRow { module: Some(row), offset }], false)?;
        self.writer.kind(site, SiteKind::Static)?;
        let function = if name.is_empty() { statics::REST } else { name }.to_string();
        Ok(self.writer.symbol(row, offset, &[SourceLine::named(function)])?)
    }

    fn region(&mut self, process: usize, region: SiteId, number: u64, time_ns: u64) -> Result<(), Error> {
        self.regions.add(process, region, number, time_ns);
        Ok(())
    }

    fn uses(&mut self, _: usize, phase: SiteId, site: SiteId) -> Result<(), Error> {
        if self.uses.insert((phase, site)) {
            self.writer.uses(phase, site)?;
        }
        Ok(())
    }

    fn born(&mut self, process: usize, o: &Object) -> Result<(), Error> {
        if o.kind == SiteKind::Mapping && o.size < ARMED_FROM {
            self.elsewhere += o.size;
        }
        if o.kind == SiteKind::Mapping {
            self.writer.kind(o.site, o.kind)?;
        }
        self.chunks.born(o);
        if self.churn.born(o) == Told::Alone {
            let row = self.object(process, o)?;
            self.unwritten.insert(o.id, row);
        }
        self.objects += 1;
        Ok(())
    }

    fn died(&mut self, process: usize, o: &Object, free_ns: u64) -> Result<(), Error> {
        self.chunks.died(o, free_ns);
        if let Some(row) = self.unwritten.remove(&o.id) {
            self.churn.died_alone(o);
            return Ok(self.writer.object(o.id as i64, &ObjectRow { free_ns: Some(free_ns), ..row })?);
        }
        if self.written.remove(&o.id) {
            self.churn.died_alone(o);
            return Ok(self.writer.freed(o.id as i64, free_ns)?);
        }
        self.over(process, o, free_ns, Some(free_ns))
    }

    fn left(&mut self, process: usize, o: &Object, end_ns: u64) -> Result<(), Error> {
        self.chunks.died(o, end_ns);
        if self.written.remove(&o.id) || self.unwritten.contains_key(&o.id) {
            self.churn.died_alone(o);
            return Ok(());
        }
        self.over(process, o, end_ns, None)
    }

    fn visit(&mut self, process: usize, object: Option<&Object>, v: &Visit) -> Result<(), Error> {
        self.samples += 1;
        let process = self.row(process);
        if !self.writer.keeps(process, v.addr, v.time_ns) {
            return Ok(());
        }
        self.was_sampled(object);
        let row = VisitRow {
            process,
            site: self.writer.site(v.site)?,
            object: object.map(|o| o.id as i64),
            tid: v.tid,
            time_ns: v.time_ns,
            addr: v.addr,
            ip: v.ip,
            store: v.store,
            wait_ns: v.wait_ns,
            burst: v.burst,
        };
        Ok(self.writer.visit(&row)?)
    }

    fn quiet(&mut self, process: usize, object: Option<&Object>, q: &Quiet) -> Result<(), Error> {
        let process = self.row(process);
        if !self.writer.keeps(process, q.page, q.time_ns) {
            return Ok(());
        }
        self.was_sampled(object);
        let row = QuietRow {
            process,
            site: self.writer.site(q.site)?,
            object: object.map(|o| o.id as i64),
            time_ns: q.time_ns,
            page: q.page,
            wait_ns: q.wait_ns,
        };
        Ok(self.writer.quiet(&row)?)
    }

    fn touched(&mut self, place: Place, code: &RawFrame, touch: &Touch) -> Result<(), Error> {
        let (place, site) = self.place(place)?;
        let module = code.module.as_ref().map(|m| self.writer.module(m)).transpose()?;
        let (offset, Touch { loads, stores, misses, timed, latency_ns }) = (code.offset, *touch);
        let row = TouchRow { site, place, module, offset, loads, stores, misses, timed, latency_ns };
        Ok(self.writer.touch(&row)?)
    }

    fn misses(&mut self, process: Option<usize>, place: Place, start_ns: u64, counts: &Counts) -> Result<(), Error> {
        let (place, site) = self.place(place)?;
        let row = MissRow {
            process: process.map(|p| self.row(p)),
            site,
            place,
            start_ns,
            loads: counts.loads,
            stores: counts.stores,
            load_weight: counts.load_weight,
            store_weight: counts.store_weight,
            ahead: counts.ahead,
            lone_ns: counts.lone_ns,
            alone_ns: counts.alone_ns,
            latency_ns: counts.latency_ns,
            written: counts.written,
            beside: counts.beside,
        };
        self.samples += counts.loads + counts.stores;
        Ok(self.writer.miss(&row)?)
    }

    fn watched(&mut self, from_ns: u64, to_ns: u64) -> Result<(), Error> {
        Ok(self.writer.watched(from_ns, to_ns)?)
    }

    fn missed(&mut self, site: SiteId, at: ChunkAt, misses: &ChunkMisses) -> Result<(), Error> {
        self.chunks.missed(site, at, misses);
        Ok(())
    }

    fn sourced(&mut self, process: Option<usize>, place: Place, from: Source, samples: &Sourced) -> Result<(), Error> {
        let (place, site) = self.place(place)?;
        let row = SourceRow {
            process: process.map(|p| self.row(p)),
            site,
            place,
            source: from.name(),
            loads: samples.loads,
            stores: samples.stores,
            timed: samples.timed,
            latency_ns: samples.latency_ns,
        };
        Ok(self.writer.source(&row)?)
    }

    fn residency(&mut self, process: usize, time_ns: u64, sites: &HashMap<SiteId, SitePages>) -> Result<(), Error> {
        for (site, s) in sites {
            for (&at, pages) in &s.chunks {
                pages.resident().into_iter().for_each(|bytes| self.chunks.resident(*site, at, time_ns, bytes));
            }
            let site = self.writer.site(*site)?;
            for (&node, &pages) in &s.looked_at {
                let (bytes, share) = (s.bytes(pages), s.share());
                let process = self.row(process);
                self.writer.residency(&ResidencyRow { process, site, time_ns, node, pages, bytes, share })?;
            }
        }
        Ok(())
    }

    fn memory(&mut self, process: usize, time_ns: u64, anonymous: u64, huge: u64) -> Result<(), Error> {
        let process = self.row(process);
        Ok(self.writer.memory(process, time_ns, anonymous, huge)?)
    }

    fn ended(&mut self, process: usize, end_ns: u64, status: &str, counters: &[(String, u64)]) -> Result<(), Error> {
        let row = self.row(process);
        for (name, value) in counters {
            self.writer.counter(row, name, *value)?;
        }
        Ok(self.writer.process_status(row, end_ns, status)?)
    }

    fn lost(&mut self, process: Option<usize>, kind: &str, count: u64, note: &str) -> Result<(), Error> {
        let row = process.map(|p| self.row(p));
        Ok(self.writer.loss(row, kind, count, note)?)
    }

    fn tick(&mut self, now_ns: u64) -> Result<(), Error> {
        (self.progress)(Progress::Running {
            elapsed: Nanos(now_ns),
            processes: self.processes.len(),
            objects: self.objects,
            samples: self.samples,
        });
        self.flush()?;
        self.tell_churn()?;
        self.tell_chunks()?;
        Ok(self.writer.commit(Nanos(now_ns))?)
    }
}

#[cfg(test)]
mod hour;

#[cfg(test)]
mod tests {
    #[test]
    fn the_runtime_and_the_profile_mark_names_and_lines_of_python_alike() {
        assert_eq!(model::NAMED, wire::identity::NAMED);
        assert_eq!(model::PYTHON, wire::identity::PYTHON);
        assert_eq!(model::SOURCE, wire::identity::SOURCE);
    }
}
