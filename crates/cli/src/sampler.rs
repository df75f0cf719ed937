//! The options that choose a sampler, of the verbs that observe a program.

use anyhow::{Result, bail};

/// Which sampler, and how much of it
#[derive(clap::Args)]
pub struct Sampling {
    /// How accesses are sampled; auto takes the best one that works here
    #[arg(long, value_enum, default_value = "auto")]
    sampler: Sampler,
    /// Most page faults a second the page-fault sampler may cause in a process
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    faults_per_second: u64,
    /// Most of a process's processor time, in percent, that the page-fault sampler may cost once it has cost 8 ms; it pauses to
    /// keep to it
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percent)]
    overhead: f64,
    /// Samplers lab and perf: every so many events (cache misses; ops, for IBS and SPE) one is sampled; 1 counts them all
    /// [default: 1000 for lab, 1000 samples a second and thread for perf]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    period: Option<u64>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Sampler {
    /// The processor's where it works, in the lab's guest the lab's, else by page faults; says which and why
    Auto,
    /// The processor's own memory sampling: PEBS of Intel, IBS of AMD, SPE of Arm
    Perf,
    /// Protects random pages for a moment and sees who touches them; works for every user on every CPU
    PageFault,
    /// The cache misses of the lab's emulated machine (works inside `hearth lab run` only)
    Lab,
    /// No samples
    None,
}

impl Sampling {
    /// The sampler that was asked for.
    pub fn sampler(&self) -> Result<record::Sampler> {
        let (faults_per_second, most_ppm) = (self.faults_per_second, (self.overhead * 10_000.0) as u64);
        Ok(match (self.sampler, self.period) {
            (Sampler::Lab, period) => record::Sampler::Lab { period: period.unwrap_or(record::LAB_PERIOD) },
            (Sampler::Perf, period) => record::Sampler::Perf { period },
            (_, Some(_)) => bail!("--period is for samplers of misses: give --sampler perf or --sampler lab with it"),
            (Sampler::None, None) => record::Sampler::None,
            (Sampler::Auto, None) => record::Sampler::Auto { faults_per_second, most_ppm },
            (Sampler::PageFault, None) => record::Sampler::PageFault { faults_per_second, most_ppm },
        })
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse() {
        Ok(share) if (0.01..=100.0).contains(&share) => Ok(share),
        _ => Err("give a percentage from 0.01 to 100, for example 1.5".into()),
    }
}
