//! Placements side by side: the same program on the same emulated machine, once for each placement and capacity.
//!
//! 1. One run without the model tells the footprint, of which capacities are shares (`run::rehearsal`, kept).
//! 2. If a policy is compared, one run on fast memory only records a profile with the lab's own sampler.
//! 3. Every cell of the table is a run of its own in a fresh machine. Each that is done is written down at once, so a
//!    comparison that was interrupted goes on where it was; a cell of other programs, platforms or options is another one.

use crate::Error;
use crate::job::Reading;
use crate::run::{self, Fast, Outcome, Placement, Progress, Request};
use crate::scale::Scaled;
use ::model::forecast::Forecast;
use ::model::{Bytes, Comparison, Nanos, Observed, PlacementRun, Plan, Platform, Tier};
use policy::Options;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

/// Bytes of a cache line.
const LINE: u64 = 64;
/// Host memory of an emulated machine beside what its program touches: kernel, page tables, QEMU itself.
const MACHINE: u64 = 1 << 30;
/// With this part of the most that was resident, memory is no longer being filled.
const FILLED: f64 = 0.85;
/// Runs of a placement in which chance decides what time it takes, of which the one in the middle counts.
const CHANCE_RUNS: u32 = 3;
/// Of how many misses one is sampled: the programs of a lab are short.
const PERIOD: &str = "100";
/// How often the progress is asked whether to stop.
const ASK: Duration = Duration::from_millis(200);

/// What is compared at each capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A placement without a plan.
    Placement(Placement),
    /// The plan of this policy for the capacity.
    Policy(String),
}

impl Choice {
    /// All placements that depend on the capacity, and the density policy: what is compared if nothing is said.
    pub fn usual() -> Vec<Choice> {
        use Placement::*;
        let mut all: Vec<Choice> =
            [FirstTouch, Interleave, WeightedInterleave, Kernel, MemoryMode].map(Choice::Placement).into();
        all.push(Choice::Policy("density".into()));
        all
    }

    /// Its name in tables.
    pub fn name(&self) -> String {
        match self {
            Choice::Placement(placement) => placement.to_string(),
            Choice::Policy(policy) => format!("plan {policy}"),
        }
    }
}

impl std::str::FromStr for Choice {
    type Err = String;
    /// A placement's name, `plan` for the density policy's plan, or `plan=POLICY`.
    fn from_str(text: &str) -> Result<Choice, String> {
        let policy = match text.strip_prefix("plan=") {
            Some(policy) => policy,
            None if text == "plan" => "density",
            None => return text.parse().map(Choice::Placement),
        };
        policy::policies::find(policy).map_err(|e| e.to_string())?;
        Ok(Choice::Policy(policy.to_string()))
    }
}

/// What to compare.
#[derive(Debug)]
pub struct Compare {
    /// Platform, program and everything else that is the same in all runs. Its placement and capacity do not count.
    pub base: Request,
    /// What is compared at each capacity; `all-fast` and `all-slow` are always measured.
    pub choices: Vec<Choice>,
    /// Capacities, in percent of the footprint.
    pub percents: Vec<f64>,
    /// Profile to plan by; none: one is recorded in the lab.
    pub profile: Option<PathBuf>,
    /// With a profile: one of a run of other sizes, to plan for that.
    pub sizes: Option<PathBuf>,
    /// The `hearth` command, to record with.
    pub hearth: PathBuf,
    /// Where results are kept.
    pub folder: PathBuf,
    /// Machines that run at once; none: as many as processors and memory allow.
    pub jobs: Option<usize>,
}

/// Whoever waits for a comparison.
pub trait Watcher {
    /// What is being done now.
    fn step(&mut self, what: &str);
    /// What the user should know, a sentence.
    fn note(&mut self, note: &str);
    /// A cell is done; `kept`: it was, before.
    fn done(&mut self, done: usize, of: usize, run: &PlacementRun, kept: bool);
    /// It is to be given up; what is done stays.
    fn stopped(&mut self) -> bool;
}

/// A cell of the table, or one of several runs of it.
#[derive(Debug, Clone)]
struct Cell {
    name: String,
    placement: Placement,
    percent: Option<f64>,
    /// The others are told from the first, 0, by this.
    run: u32,
    key: String,
    /// By how much longer than with everything fast it is predicted to take, in ns.
    foreseen: Option<f64>,
}

/// Measures what is not yet known.
///
/// # Errors
/// If what is asked for is not possible, or a machine failed; cells that were measured before are kept.
pub fn compare(what: &Compare, watcher: &mut dyn Watcher) -> Result<Comparison, Error> {
    fs::create_dir_all(&what.folder).map_err(cannot("make", &what.folder))?;
    let mut kept = Kept::open(&what.folder)?;
    let mut cells =
        vec![what.cell("all-fast", Placement::AllFast, None, 0)?, what.cell("all-slow", Placement::AllSlow, None, 0)?];
    watcher.step("measuring the program with fast memory only");
    let total = 2 + what.choices.iter().map(|c| runs_of(c) as usize).sum::<usize>() * what.percents.len();
    let first = match kept.get(&cells[0]) {
        Some(row) => {
            watcher.done(1, total, &row.run, true);
            row
        }
        None => {
            let row = Row::of(&cells[0], &run_modelled(&what.request(&cells[0]), &mut Asking(watcher))?);
            kept.add(&cells[0], &row)?;
            watcher.done(1, total, &row.run, false);
            row
        }
    };
    let footprint = first.footprint;
    if footprint.0 == 0 {
        return Err(Error(format!("{} uses no memory to place", what.program())));
    }
    let mut profile = None;
    for &percent in &what.percents {
        for choice in &what.choices {
            let (placement, foreseen) = match choice {
                Choice::Placement(placement) => (placement.clone(), None),
                Choice::Policy(policy) => {
                    if profile.is_none() {
                        watcher.step("recording a profile with the lab's sampler");
                        profile = Some(what.observe(footprint, watcher)?);
                    }
                    let (file, seen) = what.plan(policy, profile.as_ref().expect("made above"), footprint, percent)?;
                    let more = |time: Nanos| time.0 as f64 - seen.all_fast.0 as f64;
                    cells[1].foreseen = Some(more(seen.all_slow));
                    (Placement::Plan(file), Some(more(seen.plans[0].time)))
                }
            };
            for run in 0..runs_of(choice) {
                let cell = what.cell(&choice.name(), placement.clone(), Some(percent), run)?;
                cells.push(Cell { foreseen, ..cell });
            }
        }
    }
    let rows = what.measure(&cells, first.clone(), &mut kept, watcher)?;
    let runs = middle_ones(&cells, rows, first.run.time);
    Ok(Comparison {
        command: what.base.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        platform: what.base.platform.name.clone(),
        vcpus: what.base.vcpus,
        tiers: first.tiers,
        scale: first.scale,
        footprint,
        runs,
    })
}

/// The firmware of the guest, from which the recorder has what it says of the machine, has no figures for memory under load. A profile
/// may be of another machine: then it is left as it is.
fn told_in_full(seen: &mut Observed, emulated: &Platform) {
    let there = seen.platform.iter_mut().flat_map(|p| &mut p.tiers).zip(&emulated.tiers);
    let idle = |tier: &Tier| tier.latency.map(|l| l.value);
    for (tier, emulated) in
        there.filter(|(tier, emulated)| seen.sampler == profile::LAB && idle(tier) == idle(emulated))
    {
        tier.loaded_latency.clone_from(&emulated.loaded_latency);
        tier.loaded_bandwidth.clone_from(&emulated.loaded_bandwidth);
        tier.mixed_bandwidth.clone_from(&emulated.mixed_bandwidth);
    }
}

/// What a plan decides, without who decided it and why: plans of which this is the same put memory in the same places.
fn decided(plan: &Plan) -> String {
    let mut plan = plan.clone();
    plan.policy.clear();
    plan.sites.iter_mut().for_each(|site| site.why.clear());
    policy::plan_file::to_toml(&plan)
}

/// NUMA balancing moves pages when its clock ticks, and what was touched just then is chance.
fn runs_of(choice: &Choice) -> u32 {
    if *choice == Choice::Placement(Placement::Kernel) { CHANCE_RUNS } else { 1 }
}

/// One run for each cell: of several, the one in the middle by time. One that failed counts as the longest. `fast` is the time with
/// everything fast.
fn middle_ones(cells: &[Cell], rows: Vec<Row>, fast: Nanos) -> Vec<PlacementRun> {
    let mut rows: Vec<(&Cell, PlacementRun)> = cells.iter().zip(rows.into_iter().map(|r| r.run)).collect();
    let of_one = |a: &(&Cell, PlacementRun), b: &(&Cell, PlacementRun)| b.0.run > 0 && a.1.placement == b.1.placement;
    rows.chunk_by_mut(of_one)
        .map(|runs| {
            runs.sort_by_key(|(_, r)| (r.code != 0, r.time));
            let (cell, mut run) = runs[runs.len() / 2].clone();
            // What is outside of the region of interest is in both and cancels out.
            run.predicted = cell.foreseen.map(|more| 1.0 + more / (fast.0 as f64).max(1.0));
            if runs.len() > 1 && runs.iter().all(|(_, r)| r.code == 0) {
                run.times = runs.iter().map(|(_, r)| r.time).collect();
            }
            run
        })
        .collect()
}

impl Compare {
    fn program(&self) -> String {
        self.base.command.first().map_or_else(String::new, |p| p.to_string_lossy().into_owned())
    }

    fn cell(&self, name: &str, placement: Placement, percent: Option<f64>, run: u32) -> Result<Cell, Error> {
        let b = &self.base;
        // A plan counts by what it decides, a program by when it was built. Hearth is in the guest too, as the agent and the runtime.
        let what = match &placement {
            Placement::Plan(file) => decided(&policy::plan_file::read(file).map_err(|e| Error(e.to_string()))?),
            _ => name.to_string(),
        };
        let hearth = run::program_identity(&[self.hearth.clone().into()])?;
        let runtime = b.runtime.as_ref().map(|r| run::built(r));
        let program = run::program_identity(&b.command)?;
        let model = crate::setup::model();
        let (platform, llc, vcpus, roi) = (&b.platform, b.llc, b.vcpus, b.roi);
        let key =
            format!("{platform:?} {program} {llc:?} {vcpus} {roi:?} {model} {hearth} {runtime:?} {percent:?} {what}");
        let key = if run == 0 { key } else { format!("{key} run {run}") };
        let key = format!("{:016x}", crate::setup::identity([key.as_bytes()].into_iter()));
        Ok(Cell { name: name.to_string(), placement, percent, run, key, foreseen: None })
    }

    fn request(&self, cell: &Cell) -> Request {
        let b = &self.base;
        Request {
            lab: b.lab.clone(),
            platform: b.platform.clone(),
            command: b.command.clone(),
            stdin: None,
            placement: cell.placement.clone(),
            fast: Fast::Percent(cell.percent.unwrap_or(100.0)),
            memory: b.memory,
            vcpus: b.vcpus,
            llc: b.llc,
            roi: b.roi,
            timeout: b.timeout,
            runtime: b.runtime.clone(),
            keep: None,
        }
    }

    /// The profile, recorded if it is not there.
    fn observe(&self, footprint: Bytes, watcher: &mut dyn Watcher) -> Result<Observed, Error> {
        let file = match &self.profile {
            Some(file) => file.clone(),
            None => {
                let cell = self.cell("record", Placement::AllFast, None, 0)?;
                let folder = fs::canonicalize(&self.folder).map_err(cannot("find", &self.folder))?;
                let file = folder.join(format!("{}.hearth", cell.key));
                if !file.exists() {
                    self.record(&cell, &file, footprint, &mut Asking(watcher))?;
                }
                file
            }
        };
        let open = |file: &Path| profile::open(file)?.observed();
        let seen = open(&file).map_err(|e| Error(e.to_string()))?;
        let Some(sizes) = &self.sizes else { return Ok(seen) };
        let sizes = open(sizes).map_err(|e| Error(e.to_string()))?;
        let (seen, notes) = policy::travel::resized(&seen, &sizes).map_err(|e| Error(e.to_string()))?;
        notes.iter().for_each(|note| watcher.note(note));
        Ok(seen)
    }

    fn record(&self, cell: &Cell, file: &Path, footprint: Bytes, progress: &mut dyn Progress) -> Result<(), Error> {
        let mut command: Vec<OsString> = vec![self.hearth.clone().into()];
        command.extend(["record", "--sampler", "lab", "--period", PERIOD, "-o"].map(OsString::from));
        command.push(file.into());
        command.push("--".into());
        command.extend(self.base.command.iter().cloned());
        // The caches are those of the program's own runs.
        let scaled = Scaled::new(&self.base.platform, self.base.vcpus, Some(footprint), self.base.llc)?;
        let (fast, llc) = (Fast::Size(footprint), Some(scaled.llc.size));
        let request = Request { command, keep: file.parent().map(Path::to_path_buf), fast, llc, ..self.request(cell) };
        let outcome = run::run(&request, progress)?;
        if !file.exists() {
            return Err(Error(format!(
                "no profile of {} was recorded (exit code {}); run `hearth lab run -- hearth record --sampler lab -- ...` to \
                 see why",
                self.program(),
                outcome.code
            )));
        }
        Ok(())
    }

    /// The plan of a policy for a share of the footprint, and what it is predicted to do, on the emulated machine.
    fn plan(&self, name: &str, seen: &Observed, footprint: Bytes, percent: f64) -> Result<(PathBuf, Forecast), Error> {
        let scaled = Scaled::new(&self.base.platform, self.base.vcpus, Some(footprint), self.base.llc)?;
        let mut platform = scaled.emulated(&self.base.platform);
        let mut seen = seen.clone();
        told_in_full(&mut seen, &platform);
        let capacity = platform.tiers.first_mut().and_then(|fastest| fastest.capacity.as_mut());
        capacity.into_iter().for_each(|c| c.value = Bytes((footprint.0 as f64 * percent / 100.0) as u64));
        let decide = || policy::forecast::planned(&seen, &platform, &Options::default(), policy::policies::find(name)?);
        let (plan, foreseen) = decide().map_err(|e| Error(e.to_string()))?;
        let file = self.folder.join(format!("{name}-{percent}.toml"));
        fs::write(&file, policy::plan_file::to_toml(&plan)).map_err(cannot("write", &file))?;
        Ok((file, foreseen))
    }

    /// How many machines may run at once.
    fn jobs(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // all-fast has a quarter more, for files.
        let each = MACHINE + self.base.memory.0 / 4 * 5;
        let memory = crate::machine::free_memory().map_or(1, |free| (free.0 / each) as usize);
        self.jobs.unwrap_or(processors / self.base.vcpus as usize).min(memory).max(1)
    }

    /// All cells in order; `first` is the first one.
    fn measure(
        &self,
        cells: &[Cell],
        first: Row,
        kept: &mut Kept,
        watcher: &mut dyn Watcher,
    ) -> Result<Vec<Row>, Error> {
        let jobs = self.jobs();
        let mut rows: Vec<Option<Row>> = vec![None; cells.len()];
        rows[0] = Some(first);
        let mut done = 1;
        for (row, cell) in rows.iter_mut().zip(cells).skip(1) {
            if let Some(known) = kept.get(cell) {
                done += 1;
                watcher.done(done, cells.len(), &known.run, true);
                *row = Some(known);
            }
        }
        // Of those that are the same, as plans of policies that decide alike, one is run.
        let same = |&i: &usize| !cells[..i].iter().any(|c| c.key == cells[i].key);
        let open: Vec<usize> = (0..cells.len()).filter(|&i| rows[i].is_none()).filter(same).collect();
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(open.len()) {
                let tell = tell.lock().expect("nobody panics with it").clone();
                let (next, stop, open) = (&next, &stop, &open);
                scope.spawn(move || {
                    while let Some(&at) = open.get(next.fetch_add(1, Relaxed)) {
                        if stop.load(Relaxed) {
                            break;
                        }
                        let result = run_modelled(&self.request(&cells[at]), &mut Stopping(stop));
                        let failed = result.is_err();
                        // Nobody listens once another cell has failed.
                        if tell.send((at, result)).is_err() || failed {
                            break;
                        }
                    }
                });
            }
            drop(tell);
            watcher.step(&format!("measuring placements, {jobs} at once"));
            let mut wrong = None;
            loop {
                match told.recv_timeout(ASK) {
                    Ok((at, Ok(outcome))) => {
                        kept.add(&cells[at], &Row::of(&cells[at], &outcome))?;
                        let alike = cells.iter().enumerate().filter(|(_, c)| c.key == cells[at].key);
                        for (i, row) in alike.filter_map(|(i, c)| Some((i, kept.get(c)?))) {
                            done += 1;
                            watcher.done(done, cells.len(), &row.run, i != at);
                            rows[i] = Some(row);
                        }
                    }
                    Ok((at, Err(error))) => {
                        stop.store(true, Relaxed);
                        wrong.get_or_insert(Error(format!("{}: {error}", cells[at].name)));
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        if watcher.stopped() {
                            stop.store(true, Relaxed);
                        }
                    }
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
            }
            match wrong {
                Some(error) => Err(error),
                None => rows.into_iter().collect::<Option<Vec<Row>>>().ok_or_else(|| Error("stopped".into())),
            }
        })
    }
}

/// A measured cell, with what only the first is asked for.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    run: PlacementRun,
    footprint: Bytes,
    tiers: Vec<String>,
    scale: String,
}

/// A run whose time counts: one without the model is as fast as the host.
fn run_modelled(request: &Request, progress: &mut dyn Progress) -> Result<Outcome, Error> {
    let outcome = run::run(request, progress)?;
    match outcome.reached {
        true => Ok(outcome),
        false => Err(Error(
            "the region of interest was never reached, so there is no time to compare; begin it earlier (--roi)".into(),
        )),
    }
}

impl Row {
    fn of(cell: &Cell, outcome: &Outcome) -> Row {
        let fast = outcome.tiers.first().map_or(0, |t| t.node);
        // Readings are evenly spaced. While memory is being filled, fast memory is filled first; only the model sees where
        // a region lies that the program marks.
        let (mut in_fast, mut in_all) = (0.0, 0.0);
        let sum = |r: &Reading| r.bytes.iter().sum::<u64>() as f64;
        let filled = outcome.residency.iter().map(sum).fold(0.0, f64::max) * FILLED;
        for reading in outcome.residency.iter().filter(|r| sum(r) >= filled) {
            in_fast += reading.bytes.get(fast as usize).copied().unwrap_or(0) as f64;
            in_all += sum(reading);
        }
        let lines = |read: u64| read / LINE;
        let all: u64 = outcome.counters.tiers.iter().map(|t| lines(t.read_bytes)).sum();
        let served = outcome.counters.tiers.first().map_or(0, |t| lines(t.read_bytes));
        let share = |part: f64, of: f64| if of > 0.0 { part / of } else { 0.0 };
        // Not what it compacted.
        let between_nodes = |name: &str| name == "pgpromote_success" || name.starts_with("pgdemote_");
        let pages: u64 = outcome.kernel.iter().filter(|(name, _)| between_nodes(name)).map(|(_, pages)| pages).sum();
        // Of a plan, or of `hearth live`.
        let told = |at| outcome.landing.as_ref().and_then(|l| l.pointer(at)?.as_u64()).unwrap_or(0);
        let by_hearth = ["/moved/bytes", "/promoted", "/demoted"].map(told).iter().sum::<u64>();
        Row {
            run: PlacementRun {
                placement: cell.name.clone(),
                fast_percent: cell.percent,
                fast: outcome.fast_free.or(outcome.fast),
                time: Nanos(outcome.guest_ns),
                times: Vec::new(),
                predicted: None,
                code: outcome.code,
                resident_fast: share(in_fast, in_all),
                served_fast: share(served as f64, all as f64),
                lines: all,
                migrated: Bytes(pages * 4096 + by_hearth),
                notes: outcome.notes.clone(),
            },
            footprint: outcome.footprint.unwrap_or(outcome.peak),
            tiers: outcome.tiers.iter().map(|t| t.name.clone()).collect(),
            scale: outcome.scale.clone(),
        }
    }
}

/// What was measured before, a line of JSON each.
struct Kept {
    file: PathBuf,
    rows: HashMap<String, Row>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    row: Row,
}

impl Kept {
    fn open(folder: &Path) -> Result<Kept, Error> {
        let file = folder.join("runs.jsonl");
        let text = match fs::read_to_string(&file) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            text => text.map_err(cannot("read", &file))?,
        };
        // A line that was cut off is a cell that is measured again.
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Line>(line).ok());
        Ok(Kept { rows: lines.map(|l| (l.key, l.row)).collect(), file })
    }

    /// What was measured of this cell, or of one that is the same by another name.
    fn get(&self, cell: &Cell) -> Option<Row> {
        let mut row = self.rows.get(&cell.key).cloned()?;
        row.run.placement.clone_from(&cell.name);
        Some(row)
    }

    fn add(&mut self, cell: &Cell, row: &Row) -> Result<(), Error> {
        self.rows.insert(cell.key.clone(), row.clone());
        let line = Line { key: cell.key.clone(), row: row.clone() };
        let text = serde_json::to_string(&line).map_err(|e| Error(e.to_string()))?;
        let mut file =
            fs::File::options().append(true).create(true).open(&self.file).map_err(cannot("write", &self.file))?;
        // A new line first: what was cut off before must not spoil this one.
        file.write_all(format!("\n{text}\n").as_bytes()).map_err(cannot("write", &self.file))
    }
}

fn cannot(what: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let (what, path) = (what.to_string(), path.display().to_string());
    move |e| Error(format!("cannot {what} {path}: {e}"))
}

/// A single run, for somebody who watches a comparison.
struct Asking<'a>(&'a mut dyn Watcher);

impl Progress for Asking<'_> {
    fn stopped(&mut self) -> bool {
        self.0.stopped()
    }
}

/// A run on a thread of its own.
struct Stopping<'a>(&'a AtomicBool);

impl Progress for Stopping<'_> {
    fn stopped(&mut self) -> bool {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_runs_the_one_in_the_middle_counts() {
        let cell = |name: &str, run: u32| Cell {
            name: name.into(),
            placement: Placement::Kernel,
            percent: Some(25.0),
            run,
            key: String::new(),
            foreseen: (run == 0).then_some(5.0),
        };
        let row = |name: &str, time: u64, code: u8| Row {
            run: PlacementRun {
                placement: name.into(),
                fast_percent: Some(25.0),
                fast: None,
                time: Nanos(time),
                times: Vec::new(),
                predicted: None,
                code,
                resident_fast: 0.0,
                served_fast: 0.0,
                lines: time,
                migrated: Bytes(0),
                notes: Vec::new(),
            },
            footprint: Bytes(1),
            tiers: Vec::new(),
            scale: String::new(),
        };
        let cells = [cell("plan", 0), cell("kernel", 0), cell("kernel", 1), cell("kernel", 2), cell("kernel", 0)];
        let rows = |codes: [u8; 3]| {
            let kernel = [30, 10, 20].into_iter().zip(codes).map(|(t, code)| row("kernel", t, code));
            std::iter::once(row("plan", 5, 0)).chain(kernel).chain([row("kernel", 7, 0)]).collect::<Vec<_>>()
        };
        let some = middle_ones(&cells, rows([0; 3]), Nanos(10));
        let told = |r: &PlacementRun| (r.time.0, r.lines, r.times.iter().map(|t| t.0).collect::<Vec<_>>());
        assert_eq!(
            some.iter().map(told).collect::<Vec<_>>(),
            [(5, 5, vec![]), (20, 20, vec![10, 20, 30]), (7, 7, vec![])]
        );
        // Foreseen are 5 ns more than the 10 of everything fast, of the runs that stand for it.
        assert_eq!(some.iter().map(|r| r.predicted).collect::<Vec<_>>(), [Some(1.5), None, Some(1.5)]);
        // One that failed is no time to show, and two make the middle one of them.
        assert_eq!(told(&middle_ones(&cells, rows([0, 1, 0]), Nanos(10))[1]), (30, 30, vec![]));
        assert_eq!(middle_ones(&cells, rows([1, 1, 0]), Nanos(10))[1].code, 1);
    }
}
