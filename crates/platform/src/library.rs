//! The library of known platforms: one TOML file each, in `library/`, built into the program.

use crate::file;
use model::Origin;

/// What `hearth platform --list` says about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name to load it by.
    pub name: String,
    /// One line.
    pub description: String,
}

const FILES: [(&str, &str); 10] = [
    ("cascade-lake-optane", include_str!("../library/cascade-lake-optane.toml")),
    ("cxl-expander", include_str!("../library/cxl-expander.toml")),
    ("grace-hopper", include_str!("../library/grace-hopper.toml")),
    ("ice-lake-optane", include_str!("../library/ice-lake-optane.toml")),
    ("knl-7210-flat-snc4", include_str!("../library/knl-7210-flat-snc4.toml")),
    ("mi300a", include_str!("../library/mi300a.toml")),
    ("unimem-4x-latency", include_str!("../library/unimem-4x-latency.toml")),
    ("unimem-edison", include_str!("../library/unimem-edison.toml")),
    ("unimem-half-bandwidth", include_str!("../library/unimem-half-bandwidth.toml")),
    ("xeon-max-9480", include_str!("../library/xeon-max-9480.toml")),
];

/// All entries, by name.
pub fn library() -> Vec<Entry> {
    FILES
        .iter()
        .map(|(name, text)| {
            let platform = file::parse(text, Origin::Library).expect("the test below reads every entry");
            Entry { name: name.to_string(), description: platform.description }
        })
        .collect()
}

/// The file of an entry.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    FILES.iter().find(|f| f.0 == name).map(|f| f.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_entry_is_valid_and_names_its_source() {
        for (name, text) in FILES {
            let p = file::parse(text, Origin::Library).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(p.name, name);
            assert!(!p.description.is_empty() && !p.source.is_empty(), "{name} says what it is and where it is from");
        }
    }

    #[test]
    fn every_file_is_an_entry() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/library");
        let mut files: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(|f| f.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        assert_eq!(files, FILES.map(|f| f.0));
    }
}
