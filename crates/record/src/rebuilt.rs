//! Finds the frames of a profile again in a module that was rebuilt from the same source.
//!
//! A frame is a return address, so the candidates are the addresses after every call instruction of the new file. Of
//! those, a frame's are the ones with the same source form: the same functions, files and lines through all inlined
//! levels. Where one line holds several calls, the order of their addresses decides. A module without line
//! information cannot be matched after a rebuild.

use crate::calls::{allocating, jumps_away, return_addresses};
use crate::symbols;
use model::{Frame, Module, SourceLine};
use object::Object;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// A file as a module: its path and build id.
pub fn identity(file: &Path) -> Result<Module, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("{} is not an ELF file: {e}", file.display()))?;
    let id = elf.build_id().ok().flatten().unwrap_or_default();
    Ok(Module { path: file.display().to_string(), build_id: id.iter().map(|b| format!("{b:02x}")).collect() })
}

/// The calls of a module: where each returns to, and its source form.
#[derive(Debug)]
pub struct Calls {
    /// The module.
    pub module: Module,
    /// Ascending by address.
    pub all: Vec<(u64, Vec<SourceLine>)>,
    /// Which of them call an allocator.
    pub allocating: HashSet<u64>,
}

/// Where functions of a module end with a call that leaves no frame of theirs: the source forms of these jumps.
///
/// # Errors
/// One sentence: the file cannot be read.
pub fn jumps(module: &Module) -> Result<Vec<Vec<SourceLine>>, String> {
    symbols::symbolize(module, &jumps_away(Path::new(&module.path))?)
}

impl Calls {
    /// Reads the code of a module, and its debug information.
    ///
    /// # Errors
    /// One sentence: the file cannot be read.
    pub fn of(module: &Module) -> Result<Calls, String> {
        let file = Path::new(&module.path);
        let addresses = return_addresses(file)?;
        let sources = symbols::symbolize(module, &addresses)?;
        let allocating = allocating(file)?.into_iter().map(|(after, _)| after).collect();
        Ok(Calls { module: module.clone(), all: addresses.into_iter().zip(sources).collect(), allocating })
    }

    /// Whether each line of the frames has as many calls as the frames have, so that the order of their addresses tells which is which.
    pub fn pairs<'a>(&self, frames: impl Iterator<Item = &'a Frame>) -> bool {
        let mut counts: HashMap<&[SourceLine], (BTreeSet<u64>, usize)> = HashMap::new();
        for frame in frames {
            counts.entry(&frame.source).or_default().0.insert(frame.offset);
        }
        for (_, source) in &self.all {
            if let Some((_, now)) = counts.get_mut(source.as_slice()) {
                *now += 1;
            }
        }
        counts.values().all(|(old, now)| old.len() == *now)
    }

    /// For each of the frames' old offsets: the offset in this module, which is their former one's rebuilt, or why there is none.
    pub fn find<'a>(&self, frames: impl Iterator<Item = &'a Frame>) -> BTreeMap<u64, Result<u64, String>> {
        let now = self.module.name();
        let mut found = BTreeMap::new();
        // Old offsets by source form.
        let mut wanted: HashMap<&[SourceLine], BTreeSet<u64>> = HashMap::new();
        for frame in frames {
            if frame.source.is_empty() {
                found.insert(frame.offset, Err(format!("{now} has no symbols to find its frames by")));
            } else {
                wanted.entry(&frame.source).or_default().insert(frame.offset);
            }
        }
        let mut by_source: HashMap<&[SourceLine], Vec<u64>> = HashMap::new();
        for (offset, source) in &self.all {
            if wanted.contains_key(source.as_slice()) {
                by_source.entry(source.as_slice()).or_default().push(*offset);
            }
        }
        for (source, old) in wanted {
            let new = by_source.get(source).map(Vec::as_slice).unwrap_or_default();
            let lines_known = source.iter().any(|l| l.line != 0);
            for (i, old_offset) in old.iter().enumerate() {
                let answer = match new.get(i).or(new.last()) {
                    None => Err(format!("{} is no longer in {now}", source[0])),
                    // Without lines, all calls of a function look alike.
                    Some(_) if !lines_known && new.len() != old.len() => {
                        Err(format!("{now} has no lines to tell the calls in {} apart", source[0].function))
                    }
                    Some(&offset) => Ok(offset),
                };
                found.insert(*old_offset, answer);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn compile(dir: &Path, name: &str, before: &str) -> Module {
        // The same functions on the same lines, at other addresses.
        let source = format!(
            "#include <stdlib.h>\nvoid *keep;\n__attribute__((noinline)) void *one(int n) {{ return keep = malloc(n); }}\n\
             __attribute__((noinline)) int two(void) {{ one(1); one(2); return keep != 0; }}\n\
             int main(void) {{ return two() - 1; }}\n{before}\n"
        );
        std::fs::write(dir.join("t.c"), source).unwrap();
        let out = dir.join(name);
        let done = Command::new("gcc")
            .current_dir(dir)
            .args(["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-toplevel-reorder", "-o"])
            .arg(&out)
            .arg("t.c")
            .status()
            .expect("gcc is needed for this test");
        assert!(done.success());
        identity(&out).unwrap()
    }

    #[test]
    fn frames_are_found_again_by_line_and_order() {
        let dir = tempfile::tempdir().unwrap();
        let old = compile(dir.path(), "old", "");
        let addresses = return_addresses(Path::new(&old.path)).unwrap();
        let sources = symbols::symbolize(&old, &addresses).unwrap();
        let frames: Vec<Frame> = addresses
            .iter()
            .zip(sources)
            .filter(|(_, s)| s.first().is_some_and(|l| ["one", "two", "main"].contains(&l.function.as_str())))
            .map(|(&offset, source)| Frame { module: Some(old.clone()), offset, source })
            .collect();
        assert_eq!(frames.len(), 4, "malloc in one, one twice in two, two in main");
        let new = compile(dir.path(), "new", "int more(int x) { return x * 3; }\nchar room[100];");
        assert_ne!(old.build_id, new.build_id);
        let found = Calls::of(&new).unwrap().find(frames.iter());
        let new_sources: Vec<_> = frames
            .iter()
            .map(|f| symbols::symbolize(&new, &[*found[&f.offset].as_ref().unwrap()]).unwrap().remove(0))
            .collect();
        for (frame, source) in frames.iter().zip(&new_sources) {
            assert_eq!(&frame.source, source);
        }
        let offsets: BTreeSet<_> = found.values().map(|o| o.clone().unwrap()).collect();
        assert_eq!(offsets.len(), 4, "two calls of one line stay two");
    }
}
