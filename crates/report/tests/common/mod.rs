//! Fixtures, and golden files that `UPDATE_GOLDEN=1` accepts anew.
#![allow(dead_code)] // each test file uses its own part

use model::Observed;
use std::path::PathBuf;

fn tests() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests")
}

/// The profile of `fixtures/NAME.json`.
pub fn fixture(name: &str) -> Observed {
    let text = std::fs::read_to_string(tests().join("fixtures").join(name).with_extension("json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// `text` must be what `golden/NAME` holds.
pub fn assert_golden(name: &str, text: &str) {
    let path = tests().join("golden").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(text == golden, "{name} differs (UPDATE_GOLDEN=1 accepts):\n{text}\ninstead of\n{golden}");
}
