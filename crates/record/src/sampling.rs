//! Samplers by name, and which of them works here.

use crate::Error;
use crate::lab::Lab;
use crate::outside::Outside;
use crate::perf::Perf;
use crate::perf::cpu::Cpu;
use crate::perf::events::{OTHERWISE, page_faults};
use crate::perf::open::Scope;
use model::Bytes;
use wire::session::flags;

/// Name of the page-fault sampler.
pub const PAGE_FAULT: &str = "page-fault";
/// Last-level cache to reckon with where the machine does not tell: a usual size of a core group.
pub const USUAL_LLC: Bytes = Bytes::mib(32);

/// Usual period of the lab's sampler: a program that misses 10 million times a second is sampled 10,000 times.
pub const LAB_PERIOD: u64 = 1000;

/// A source of access samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// The best that works here: the processor's, in the lab's guest the lab's, else by page faults.
    Auto {
        /// For the page-fault sampler.
        faults_per_second: u64,
        /// For the page-fault sampler.
        most_ppm: u64,
    },
    /// None.
    None,
    /// The runtime's page-fault sampler.
    PageFault {
        /// Most page visits a second and process.
        faults_per_second: u64,
        /// Most of a process's processor time that it may cost, in millionths.
        most_ppm: u64,
    },
    /// The processor's own memory sampling.
    Perf {
        /// Every so many events one is sampled; none: at a steady rate.
        period: Option<u64>,
    },
    /// First touches of pages, as the kernel's page-fault events tell them. They go the way of the processor's samples on
    /// machines that have none, so that it can be tested there; they are not misses.
    FirstTouches,
    /// The virtual PEBS of the lab.
    Lab {
        /// Every so many misses one is sampled; 1: all.
        period: u64,
    },
}

/// A sampler made ready.
pub struct Sampling {
    /// Its name in the profile.
    pub name: &'static str,
    /// For the runtime: [`wire::session::flags`], and the limits of the page-fault sampler.
    pub flags: u64,
    /// See `flags`.
    pub faults_per_second: u64,
    /// See `flags`.
    pub most_ppm: u64,
    /// The one outside of the process, if it is one.
    pub outside: Option<Box<dyn Outside>>,
    /// Events for each sample, where that is always the same.
    pub period: Option<u64>,
    /// How it samples, as a sentence.
    pub how: Option<String>,
    /// Which one [`Sampler::Auto`] has chosen and why, as a sentence.
    pub chosen: Option<String>,
}

impl Sampling {
    /// Makes a sampler ready, or says why it does not work here.
    pub fn begin(sampler: Sampler, scope: Scope) -> Result<Sampling, Error> {
        let blank = |name| Sampling {
            name,
            flags: 0,
            faults_per_second: 0,
            most_ppm: 0,
            outside: None,
            period: None,
            how: None,
            chosen: None,
        };
        let perf = |perf: Perf| Sampling {
            how: Some(perf.how().to_string()),
            outside: Some(Box::new(perf)),
            ..blank(profile::PERF)
        };
        Ok(match sampler {
            Sampler::Auto { faults_per_second, most_ppm } => {
                return Sampling::best(Sampler::PageFault { faults_per_second, most_ppm }, scope);
            }
            Sampler::None => blank("none"),
            Sampler::PageFault { faults_per_second, most_ppm } => {
                Sampling { flags: flags::SAMPLER, faults_per_second, most_ppm, ..blank(PAGE_FAULT) }
            }
            Sampler::Perf { period } => perf(Perf::find(period, scope)?),
            Sampler::FirstTouches => perf(Perf::open(page_faults(), &Cpu::here(), scope)?),
            Sampler::Lab { period } => {
                let lab = Lab::find(period)?;
                Sampling {
                    flags: flags::LAB,
                    outside: Some(Box::new(lab)),
                    period: Some(period),
                    ..blank(profile::LAB)
                }
            }
        })
    }

    /// For the runtime: most accesses followed step by step. A step costs two signals, a visit one: twice as many steps as visits keep both
    /// at a few percent of a processor.
    pub fn steps_per_second(&self) -> u64 {
        2 * self.faults_per_second
    }

    /// The best that works here; `faults` works everywhere.
    fn best(faults: Sampler, scope: Scope) -> Result<Sampling, Error> {
        let chosen = |what: Sampling, why: String| Sampling { chosen: Some(why), ..what };
        // In the guest there is no processor's sampling, and the lab's counts the misses of the machine that is emulated.
        if let Ok(lab) = Sampling::begin(Sampler::Lab { period: LAB_PERIOD }, scope) {
            return Ok(chosen(lab, "sampler lab: this is the lab's guest".into()));
        }
        match Sampling::begin(Sampler::Perf { period: None }, scope) {
            Ok(perf) => {
                let why = format!("sampler perf: {}", perf.how.as_deref().unwrap_or_default());
                Ok(chosen(perf, why))
            }
            Err(Error(why)) => {
                let why = why.trim_start_matches("--sampler perf: ");
                let why = why.strip_suffix(OTHERWISE).unwrap_or(why).trim_end_matches("; ");
                let faults = Sampling::begin(faults, scope)?;
                Ok(chosen(faults, format!("sampler page-fault: {why}")))
            }
        }
    }
}
