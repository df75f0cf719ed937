//! The shared libraries that a program is linked with.
//!
//! Found in the files as the loader would find them (ld.so(8): RPATH and RUNPATH with `$ORIGIN`, `LD_LIBRARY_PATH`, the folders of `/etc/ld.so.conf`, and
//! the usual ones), and not by asking it: it runs what a file names as its auditor, and files are looked at that nobody has started.

use crate::symbols::Binary;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH};
use object::read::elf::{Dyn as _, FileHeader as _};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// A program has not so many.
const MOST: usize = 1000;
const USUAL: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

/// The files that the loader would map for a program besides its own, in its order, as far as they are found; none of a static program.
pub fn of(program: &Path) -> Vec<PathBuf> {
    let said: Vec<PathBuf> = std::env::var_os("LD_LIBRARY_PATH").iter().flat_map(std::env::split_paths).collect();
    let configured = configured(Path::new("/etc/ld.so.conf"), 0);
    let mut found = vec![program.to_path_buf()];
    let (mut next, mut seen) = (0, HashSet::new());
    while let Some(file) = found.get(next).filter(|_| found.len() < MOST) {
        next += 1;
        let Some(needs) = Needs::of(file) else { continue };
        for name in needs.libraries.into_iter().filter(|name| seen.insert(name.clone())) {
            let folders = needs.folders.iter().chain(&said).chain(&configured).cloned();
            let folders = folders.chain(USUAL.map(PathBuf::from));
            let library = match name.contains('/') {
                true => Some(PathBuf::from(&name)),
                false => folders.map(|folder| folder.join(&name)).find(|l| l.is_file()),
            };
            found.extend(library.filter(|l| l.is_file()));
        }
    }
    found.split_off(1)
}

/// What a file says it needs, and where that may be.
struct Needs {
    libraries: Vec<String>,
    folders: Vec<PathBuf>,
}

impl Needs {
    fn of(file: &Path) -> Option<Needs> {
        let binary = Binary::open(file).ok()?;
        let data = binary.bytes();
        let header = object::elf::FileHeader64::<object::Endianness>::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, data).ok()?;
        let (entries, strings) = sections.dynamic(endian, data).ok()??;
        let strings = sections.strings(endian, data, strings).ok()?;
        let origin = std::fs::canonicalize(file).ok()?.parent()?.display().to_string();
        let mut needs = Needs { libraries: vec![], folders: vec![] };
        for entry in entries {
            let Some(tag) = entry.tag32(endian) else { continue };
            if ![DT_NEEDED, DT_RPATH, DT_RUNPATH].contains(&tag) {
                continue;
            }
            let text = entry.string(endian, strings).ok().and_then(|t| std::str::from_utf8(t).ok())?;
            match tag {
                DT_NEEDED => needs.libraries.push(text.to_string()),
                _ => needs.folders.extend(
                    text.split(':').map(|f| f.replace("$ORIGIN", &origin).replace("${ORIGIN}", &origin).into()),
                ),
            }
        }
        Some(needs)
    }
}

/// The folders that the configuration of the loader names.
fn configured(file: &Path, depth: usize) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut folders = vec![];
    for line in text.lines().map(|l| l.split('#').next().unwrap_or_default().trim()) {
        match line.strip_prefix("include ") {
            // `/etc/ld.so.conf.d/*.conf`, as it is everywhere.
            Some(pattern) if depth == 0 => {
                let mut all: Vec<PathBuf> = std::fs::read_dir(Path::new(pattern.trim()).parent().unwrap_or(file))
                    .into_iter()
                    .flatten()
                    .filter_map(|e| Some(e.ok()?.path()))
                    .filter(|p| p.extension().is_some_and(|e| e == "conf"))
                    .collect();
                all.sort();
                folders.extend(all.iter().flat_map(|f| configured(f, 1)));
            }
            None if line.starts_with('/') => folders.push(line.into()),
            _ => {}
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_files() {
        let name = |l: &PathBuf| l.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of_shell: Vec<String> = of(Path::new("/bin/sh")).iter().map(name).collect();
        assert!(of_shell.contains(&"libc.so.6".to_string()), "{of_shell:?}");
        // Those of its libraries, each once.
        let own = of(&std::env::current_exe().unwrap());
        assert!(own.iter().any(|l| name(l).starts_with("ld-linux")), "{own:?}");
        assert_eq!(own.iter().collect::<HashSet<_>>().len(), own.len());
        assert_eq!(of(Path::new("/etc/passwd")), Vec::<PathBuf>::new());
        assert_eq!(of(Path::new("/nowhere")), Vec::<PathBuf>::new());
    }
}
