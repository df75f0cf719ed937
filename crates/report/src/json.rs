//! The profile for programs: [`model::Observed`] as JSON, with the version of its layout.

use model::Observed;
use serde::Serialize;

/// Version of the JSON layout. Fields may be added under the same version; a change of meaning makes a new one.
pub const JSON_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    #[serde(flatten)]
    observed: &'a Observed,
}

/// The profile as one pretty-printed JSON object; [`Observed`] reads it back.
pub fn json(observed: &Observed) -> Result<String, serde_json::Error> {
    serde_json::to_string_pretty(&Document { version: JSON_VERSION, observed }).map(|text| text + "\n")
}
