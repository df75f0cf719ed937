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

/// Recommended traits of every site with misses, the most important first, as C in the form of H2M's Listing 3: to be pasted above
/// the allocation it names.
pub fn source(observed: &Observed) -> String {
    let importance = importance(observed);
    let labels = model::label::labels(observed.sites.iter().map(|s| &s.site));
    let mut order: Vec<usize> = (0..observed.sites.len()).filter(|&i| observed.sites[i].misses() > 0.0).collect();
    let id = |i: usize| observed.sites[i].site.id;
    order.sort_by(|&a, &b| importance[b].total_cmp(&importance[a]).then(id(a).cmp(&id(b))));
    let mut out = String::from(
        "/* Recommended traits, most important allocation first: H2M (Klinkenberg et al., FGCS 2023), Listing 3 and section 4.3.\n * Paste each above the allocation that it names. */\n",
    );
    for i in order {
        let site = &observed.sites[i];
        let seconds = site.total_lifetime.secs() / site.objects.max(1) as f64;
        let frequency =
            if seconds > 0.0 { (site.misses() / site.objects.max(1) as f64 / seconds).round() } else { 0.0 };
        let mode = match (site.load_misses > 0.0, site.store_misses > 0.0) {
            (true, true) => "readwrite",
            (false, true) => "writeonly",
            _ => "readonly",
        };
        let space = match wanted(site) {
            Space::LowestLatency => "atv_mem_space_low_lat",
            Space::HighestBandwidth => "atv_mem_space_hbw",
            Space::LargestCapacity => "atv_mem_space_large_cap",
        };
        let mut traits = vec![
            format!("atk_pref_mem_space, {space}"),
            format!("atk_access_mode, atv_access_mode_{mode}"),
            format!("atk_access_freq, {frequency} /* misses a second */"),
        ];
        match site.pattern {
            Pattern::Stream { stride } => {
                traits.push("atk_access_pattern, atv_access_pattern_strided".to_string());
                traits.push(format!("atk_access_stride, {stride} /* bytes */"));
            }
            Pattern::Random => traits.push("atk_access_pattern, atv_access_pattern_random".to_string()),
            Pattern::Mixed | Pattern::Unknown => {}
        }
        // A name may hold what would end a comment.
        let label = labels.get(&site.site.id).cloned().unwrap_or_default().replace("*/", "* /");
        let line = |t: &String| format!("    {t}");
        out += &format!(
            "\n/* {label}: {:.1} % of the latency of main memory */\nalloc_trait_t traits_{}[{}] = {{\n{}\n}};\n",
            importance[i] * 100.0,
            &site.site.id.to_string()[..8],
            traits.len(),
            traits
                .iter()
                .map(line)
                .collect::<Vec<_>>()
                .join(",\n")
                .replace(" /* misses a second */,", ", /* misses a second */")
        );
    }
    out
}
