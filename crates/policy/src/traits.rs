//! What H2M recommends for a site, from a profile: how important it is, which space it wants, how it is walked over.
//!
//! (Klinkenberg et al., H2M, FGCS 2023, section 4.3, Equations 1 to 4.)
//!
//! - *Importance* LS_mem(M) = L_mem(M) / L_mem, the share of the latency of all accesses that main memory served. A profile has
//!   load misses, and the mean latency of a site's misses where the sampler tells it (else all count the same). As in the paper,
//!   stores are left out.
//! - *R_cache(M)*, the ratio of accesses that the cache served, cannot be had from misses alone. What it is used for can be:
//!   telling data that waits for latency (R_cache < T_low = 0.25) from data that streams (R_cache > T_high = 0.75). Eight-byte elements walked in order
//!   are served by the cache seven times of eight, lines picked at random never; so the walk that the samples saw stands for it.

use model::{Observed, Pattern, SiteUse, Space};

/// LS_mem of every site, 0 to 1.
pub fn importance(observed: &Observed) -> Vec<f64> {
    let known = || observed.sites.iter().filter_map(|s| s.miss_latency.map(|l| (l * s.load_misses, s.load_misses)));
    let (latency, loads) = known().fold((0.0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
    let mean = if loads > 0.0 { latency / loads } else { 1.0 };
    let of = |s: &SiteUse| s.load_misses * s.miss_latency.unwrap_or(mean);
    let all: f64 = observed.sites.iter().map(of).sum();
    observed.sites.iter().map(|s| if all > 0.0 { of(s) / all } else { 0.0 }).collect()
}

/// The space that a site wants: the lowest latency for lines picked at random, else the highest bandwidth.
pub fn wanted(site: &SiteUse) -> Space {
    match site.pattern {
        Pattern::Random => Space::LowestLatency,
        Pattern::Stream { .. } | Pattern::Mixed | Pattern::Unknown => Space::HighestBandwidth,
    }
}
