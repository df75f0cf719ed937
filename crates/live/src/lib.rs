//! Object tiering while programs run: hot objects end up in fast memory by themselves, without a profile.
//!
//! 1. [`live`] starts the program under observation ([`record::Launch`]) and gives all that is told of it to the [`engine`].
//! 2. Objects that outlive an interval ([`young`]) become records ([`table`]), large ones several. What the samplers see is
//!    heat of records: [`counted`] misses, or what the estimator makes of pages that were [`armed`], or else what is [`known`] of a profile;
//!    all are [`rates`].
//!    [`phase`] notices when the program does something else.
//! 3. After each interval four [`routines`] decide: [`aggregate`] what is to be expected, [`prioritise`] what comes first,
//!    [`trigger`] whether it is time and worth it, [`enforce`] what is to be moved; each can be the user's own ([`script`]). The cost model is the planner's
//!    ([`policy::cost::moment`]).
//! 4. [`mover`] moves it, by [`pages`], in small steps between two looks at the rings, and reads back where it is. [`journal`]
//!    writes down why. [`status`] is what it shows of itself, with [`notes`] for users.
//! 5. A [`daemon`] does it for programs that come and go.

mod account;
mod aggregate;
mod armed;
mod bound;
mod candidates;
mod clock;
mod counted;
mod course;
pub mod daemon;
mod enforce;
mod engine;
mod heap;
mod item;
mod journal;
mod kept;
mod known;
mod marks;
mod mover;
mod notes;
pub mod pages;
mod phase;
mod prioritise;
mod rates;
mod recall;
mod routines;
mod script;
mod served;
pub mod shares;
pub mod status;
mod table;
mod taken;
mod trigger;
mod young;

pub use known::Known;
pub use routines::{Names, list};

use engine::Engine;
use journal::Journal;
use model::{Bytes, Nanos, Platform};
use record::launch::{Launch, find_runtime};
use record::{Outcome, Sampler, Sampling, Scope, USUAL_LLC, now_ns, program};
use routines::Routines;
use serde::Serialize;
use shares::Shares;
use std::ffi::OsString;
use std::path::PathBuf;
use wire::session::flags;

/// What went wrong, as one sentence for the user.
pub use record::Error;

/// What to run.
#[derive(Clone, Debug)]
pub struct Program {
    /// As given.
    pub name: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// How to place.
#[derive(Clone, Debug)]
pub struct Options {
    /// Smallest allocation that is placed; those below a page are grouped by site in blocks. None: all, those below a page as long as that takes
    /// little of the program's time.
    pub threshold: Option<Bytes>,
    /// What makes the access samples.
    pub sampler: Sampler,
    /// The machine.
    pub platform: Platform,
    /// Most bytes of the fastest tier that objects may take; none: what is free of it.
    pub fast: Option<Bytes>,
    /// How often the routines are asked.
    pub interval: Nanos,
    /// Larger objects have several records, each so large.
    pub split: Bytes,
    /// The four routines.
    pub routines: Names,
    /// Where every decision is written to.
    pub log: Option<PathBuf>,
    /// What a profile says of the program's sites, instead of a sampler.
    pub known: Option<Known>,
    /// How programs share the fast memory; none: it goes to what gains most from it.
    pub shares: Option<Shares>,
}

/// What the engine has done.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lived {
    /// Names of the tiers, fastest first.
    pub tiers: Vec<String>,
    /// Intervals that have passed.
    pub intervals: u32,
    /// Phases that were told apart.
    pub phases: u32,
    /// Of these, those that had been there before.
    pub recalled: u32,
    /// Intervals after which something was to be moved.
    pub decisions: u32,
    /// Most records at one time.
    pub most_records: u64,
    /// Moved to faster tiers.
    pub promoted: Bytes,
    /// Moved to slower ones.
    pub demoted: Bytes,
    /// Of both, what the phase in which it was moved asked for a tenth as much as the mean, or less, as far as the sampler tells.
    pub beside: Bytes,
    /// Time that moving took.
    pub moving: Nanos,
    /// Moves of which nothing came, since the kernel did not move a page.
    pub refused: u64,
    /// Pages that were present where something was moved.
    pub asked: u64,
    /// Of these, those that were where they were to be, as the kernel told afterwards.
    pub there: u64,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
}

impl Options {
    /// The node for Hearth's own memory: fast memory is the programs'.
    fn home(&self) -> Option<u32> {
        self.platform.tiers.last().and_then(|t| t.nodes.first()).copied()
    }

    /// Smallest allocation that the runtime manages.
    fn threshold(&self) -> u64 {
        self.threshold.map_or(1, |t| t.0)
    }

    /// What the runtime is to do, [`flags`].
    fn flags(&self) -> u64 {
        flags::EVENTS | if self.threshold.is_none() { flags::SMALL_IF_CHEAP } else { 0 }
    }
}

/// What an engine needs, made ready before any program is.
struct Ready {
    sampling: Sampling,
    routines: Routines,
    journal: Journal,
    /// Bytes of the last-level cache.
    llc: u64,
}

impl Ready {
    fn of(options: &Options, scope: Scope) -> Result<Ready, Error> {
        let routines = Routines::new(&options.routines)?;
        let sampling = match routines.trigger.counts_instructions() {
            true => counting(options.sampler, scope)
                .map_err(|why| Error(format!("--trigger {}: {why}", options.routines.trigger)))?,
            false => Sampling::begin(options.sampler, scope)?,
        };
        let journal =
            options.log.as_deref().map_or(Ok(Journal::none()), |path| Journal::create(path, options.interval))?;
        let llc = options.platform.llc.map_or(USUAL_LLC, |figure| figure.value).0;
        Ok(Ready { sampling, routines, journal, llc })
    }
}

/// A sampler that counts misses and instructions too. If it cannot be had, why not, and what can.
fn counting(sampler: Sampler, scope: Scope) -> Result<Sampling, String> {
    const OTHERS: &str = "choose worth-it, time or alloc";
    if scope == Scope::Everyone {
        return Err(format!("a daemon does not count instructions; {OTHERS}"));
    }
    let mut sampling = match Sampling::begin(sampler, scope) {
        Ok(sampling) if sampling.outside.is_some() => sampling,
        begun => {
            // Whichever was asked for: is there one that counts?
            let best = Sampling::begin(Sampler::Auto { faults_per_second: 1, most_ppm: 1 }, scope);
            return Err(match (begun, best) {
                (Ok(begun), Ok(best)) if best.outside.is_some() => {
                    format!("the sampler {} counts no misses; {} does (--sampler {1})", begun.name, best.name)
                }
                (Err(Error(why)), Ok(best)) if best.outside.is_some() => why,
                (_, Ok(best)) => {
                    let why = best.chosen.unwrap_or_default();
                    let why = why.split_once(": ").map_or(&*why, |(_, why)| why);
                    format!("nothing here counts misses and instructions ({why}); {OTHERS}")
                }
                (_, Err(Error(why))) => why,
            });
        }
    };
    let counted = sampling.outside.as_mut().map_or(Ok(()), |outside| outside.count_instructions());
    counted.map_err(|why| format!("{why}; {OTHERS}")).map(|()| sampling)
}

/// Runs the program and places its objects while it runs. An error means that it was not started.
pub fn live(program: &Program, options: &Options) -> Result<(Outcome, Lived), Error> {
    let path = program::check(&program.name)?;
    let runtime = find_runtime()?;
    let Ready { mut sampling, routines, journal, llc } = Ready::of(options, Scope::Program)?;
    let mut engine = Engine::new(options, routines, journal, sampling.outside.is_some(), llc);
    let launch = Launch {
        program: path,
        name: program.name.clone(),
        args: program.args.clone(),
        runtime,
        mpi: None,
        flags: options.flags() | sampling.flags,
        threshold: options.threshold(),
        faults_per_second: sampling.faults_per_second,
        steps_per_second: sampling.steps_per_second(),
        most_ppm: sampling.most_ppm,
        epoch_ns: now_ns(),
        plan: None,
        home: options.home(),
    };
    let outcome = launch.run_with(&mut engine, sampling.outside.as_deref_mut())?;
    let mut lived = engine.end();
    lived.notes.splice(0..0, sampling.chosen);
    Ok((outcome, lived))
}
