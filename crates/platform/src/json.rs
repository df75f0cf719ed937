//! A platform as JSON for programs.

use crate::measure::Measured;
use model::{Platform, Space};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    platform: &'a Platform,
    spaces: BTreeMap<String, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<&'a Measured>,
}

/// The platform, the tier that each space resolves to, and what was measured.
///
/// Sizes are in bytes, latencies in ns, bandwidths in GB/s.
pub fn platform(platform: &Platform, measured: Option<&Measured>) -> String {
    let resolve = |s: Space| Some((s.to_string(), platform.space(s)?.name.as_str()));
    let spaces = Space::ALL.into_iter().filter_map(resolve).collect();
    let shown = Shown { platform, spaces, measured };
    serde_json::to_string_pretty(&shown).expect("every key is a string and every value a number or text")
}
