//! Fixtures, and golden files that `UPDATE_GOLDEN=1` accepts anew.
#![allow(dead_code)] // each test file uses its own part

pub mod compared;

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

/// `<` and `>` balance, and every element that is opened is closed.
pub fn assert_well_formed(text: &str) {
    // Of a page, what is between head and script; a picture is looked at as a whole.
    let body = text.find("<body>").map_or(text, |start| &text[start..text.find("<script>").unwrap()]);
    let mut open: Vec<&str> = Vec::new();
    for tag in body.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        match tag {
            _ if tag.starts_with('/') => assert_eq!(open.pop(), Some(name), "</{name}>"),
            _ if tag.ends_with('/') || ["br", "input"].contains(&name) => {}
            _ => open.push(name),
        }
    }
    assert!(open.is_empty() || open == ["body"], "{open:?}");
}
