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

/// Recommended traits of every site with misses, the most important first, as C for `hearth.h`: to be pasted above the allocation
/// that it names.
pub fn source(observed: &Observed) -> String {
    let importance = importance(observed);
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    let mut order: Vec<usize> = (0..observed.sites.len()).filter(|&i| observed.sites[i].misses() > 0.0).collect();
    let id = |i: usize| observed.sites[i].site.id;
    order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]).then(id(a).cmp(&id(b))));
    let mut out = String::from(
        "/* Recommended traits, the most important allocation first (H2M: Klinkenberg et al., FGCS 2023, section 4.3).\n * Paste each above the allocation that it names, and allocate by\n *     hearth_alloc(size, NULL, sizeof T / sizeof *T, T)      with its name for T,\n * or declare all of them (hearth_declare) and commit them at once (hearth_commit). */\n#include <hearth.h>\n",
    );
    for i in order {
        let site = &observed.sites[i];
        // A name may hold what would end a comment.
        let label = labels.get(&site.site.id).cloned().unwrap_or_default().replace("*/", "* /");
        let lines: Vec<String> = traits(site, importance[i])
            .iter()
            .map(|(key, value, unit)| {
                let unit = if unit.is_empty() { String::new() } else { format!(" /* {unit} */") };
                format!("    {{HEARTH_{key}, {value}}},{unit}\n")
            })
            .collect();
        out += &format!(
            "\n/* {label}: {:.1} % of the latency of main memory */\nstatic const hearth_trait traits_{}[] = {{\n{}}};\n",
            importance[i] * 100.0,
            &site.site.id.to_string()[..8],
            lines.concat(),
        );
    }
    out
}

/// Keys and values in the words of `hearth.h`, and units.
fn traits(site: &SiteUse, importance: f64) -> Vec<(&'static str, String, &'static str)> {
    let seconds = site.total_lifetime.secs() / site.objects.max(1) as f64;
    let each = site.misses() / site.objects.max(1) as f64;
    let frequency = if seconds > 0.0 { (each / seconds).round() } else { 0.0 };
    let mode = match (site.load_misses > 0.0, site.store_misses > 0.0) {
        (true, true) => "HEARTH_READ_WRITE",
        (false, true) => "HEARTH_WRITE_ONLY",
        _ => "HEARTH_READ_ONLY",
    };
    let space = match wanted(site) {
        Space::LowestLatency => "HEARTH_LOW_LATENCY",
        Space::HighestBandwidth => "HEARTH_HIGH_BANDWIDTH",
        Space::LargestCapacity => "HEARTH_LARGE_CAPACITY",
    };
    let mut traits = vec![
        ("PREFER_SPACE", space.to_string(), ""),
        ("IMPORTANCE", format!("{:.0}", importance * 1e6), "millionths of the latency of main memory"),
        ("ACCESS_MODE", mode.to_string(), ""),
        ("ACCESS_FREQUENCY", frequency.to_string(), "misses a second"),
    ];
    match site.pattern {
        Pattern::Stream { stride } if stride != 0 => {
            traits.push(("ACCESS_PATTERN", "HEARTH_STRIDED".to_string(), ""));
            traits.push(("ACCESS_STRIDE", stride.unsigned_abs().to_string(), "bytes"));
        }
        Pattern::Stream { .. } => traits.push(("ACCESS_PATTERN", "HEARTH_LINEAR".to_string(), "")),
        Pattern::Random => traits.push(("ACCESS_PATTERN", "HEARTH_RANDOM".to_string(), "")),
        Pattern::Mixed | Pattern::Unknown => {}
    }
    traits
}
