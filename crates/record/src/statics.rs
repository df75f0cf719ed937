//! Static variables: what lies in a module's writable data, by its symbol table.
//!
//! A variable that is large enough for its pages to be worth placing is an object with a name; long stretches of the
//! module's data between those, and all of it in a module without symbols, are one site without a name. Thread-local
//! variables and what the loader makes read-only after it has relocated it are left out.

use crate::symbols;
use model::{Module, SiteId};
use object::{Object, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use wire::identity;

/// Name of what is left of a module's data.
pub const REST: &str = "other data";
/// Smaller ones are left where they are: hardly a page of them is theirs alone.
const SMALLEST: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// A static variable, or a stretch of a module's data between those.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    /// Its site.
    pub site: SiteId,
    /// Name as the source has it; empty for what is left.
    pub name: String,
    /// Address in the file.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
}

/// The address at which a module's first segment begins, at the start of its page; none if the file is no module.
pub fn lowest_address(path: &Path) -> Option<u64> {
    let binary = symbols::Binary::open(path).ok()?;
    let file = binary.parse().ok()?;
    file.segments().map(|s| s.address() & !(PAGE - 1)).min()
}

/// The module at a path with its variables; none if it cannot be read.
pub fn of(path: &Path) -> (Module, Vec<Variable>) {
    let module = |build_id| Module { path: path.display().to_string(), build_id };
    let Ok(binary) = symbols::Binary::open(path) else { return (module(String::new()), Vec::new()) };
    let build_id = binary.build_id().unwrap_or_default();
    let separate = symbols::debug_file(&build_id).and_then(|p| symbols::Binary::open(&p).ok());
    let variables = variables(path, &binary, separate.as_ref()).unwrap_or_default();
    (module(build_id), variables)
}

fn variables(
    path: &Path,
    binary: &symbols::Binary,
    separate: Option<&symbols::Binary>,
) -> Result<Vec<Variable>, String> {
    let file = binary.parse()?;
    let mut data: Vec<Range<u64>> =
        file.segments().filter(writable).map(|s| s.address()..s.address() + s.size()).collect();
    if let Some(relro) = binary.relro() {
        data =
            data.into_iter().flat_map(|d| [d.start..d.end.min(relro.start), d.start.max(relro.end)..d.end]).collect();
    }
    data.retain(|d| d.start < d.end);
    let debug = separate.map(symbols::Binary::parse).transpose()?;
    let mut named: Vec<(u64, u64, &[u8])> = Vec::new();
    for file in [Some(&file), debug.as_ref()].into_iter().flatten() {
        let all = file.symbols().chain(file.dynamic_symbols());
        let large = all.filter(|s| s.is_definition() && s.kind() == SymbolKind::Data && s.size() >= SMALLEST);
        named.extend(large.filter_map(|s| Some((s.address(), s.size(), s.name_bytes().ok()?))));
    }
    // One name for each address: the largest variable there, and of several names (aliases) always the same.
    named.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then(a.2.cmp(b.2)));
    named.dedup_by_key(|n| n.0);
    let name_of_file = path.as_os_str().as_bytes();
    let rest = SiteId(identity::static_id(name_of_file, b"", 0));
    let mut times: HashMap<&[u8], u64> = HashMap::new();
    let mut out = Vec::new();
    let left = |from: u64, to: u64, out: &mut Vec<Variable>| {
        if from + SMALLEST <= to {
            out.push(Variable { site: rest, name: String::new(), offset: from, size: to - from });
        }
    };
    for data in &data {
        let mut at = data.start;
        for &(start, size, name) in named.iter().filter(|n| data.contains(&n.0)) {
            // Within another variable: not one of its own.
            if start < at {
                continue;
            }
            left(at, start, &mut out);
            let nth = times.entry(name).or_default();
            let site = SiteId(identity::static_id(name_of_file, name, *nth));
            *nth += 1;
            at = (start + size).min(data.end);
            let name = symbols::plain_name(&String::from_utf8_lossy(name));
            out.push(Variable { site, name, offset: start, size: at - start });
        }
        left(at, data.end, &mut out);
    }
    Ok(out)
}

fn writable(segment: &object::Segment<'_, '_>) -> bool {
    matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & object::elf::PF_W != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    static mut LARGE_AND_NAMED: [u8; 3 << 20] = [0; 3 << 20];

    #[test]
    fn a_large_variable_has_a_name_and_the_rest_has_none() {
        // SAFETY: one store by this test alone.
        unsafe { (&raw mut LARGE_AND_NAMED).cast::<u8>().add(77).write_volatile(1) };
        let me = std::env::current_exe().unwrap();
        let (module, all) = of(&me);
        assert_eq!(module.path, me.display().to_string());
        let large = all.iter().find(|v| v.name.contains("LARGE_AND_NAMED")).expect("it has a symbol");
        assert_eq!(large.size, 3 << 20);
        let rest: Vec<_> = all.iter().filter(|v| v.name.is_empty()).collect();
        assert!(rest.iter().all(|v| v.site == rest[0].site && v.site != large.site));
        let mut sorted = all.clone();
        sorted.sort_by_key(|v| v.offset);
        assert!(sorted.windows(2).all(|w| w[0].offset + w[0].size <= w[1].offset), "they do not overlap");
        // Where it is in this process is where the layout and the offset say.
        let layout = crate::maps::Layouts::new(Path::new(""), true)
            .of(std::process::id() as i32, crate::owner::Owner::me())
            .unwrap();
        let (loaded, _) = layout.modules().iter().find(|(l, _)| l.path == me).unwrap();
        assert_eq!(loaded.bias + large.offset, &raw const LARGE_AND_NAMED as u64);
    }

    #[test]
    fn what_is_no_module_has_no_variables() {
        assert!(of(Path::new("/etc/passwd")).1.is_empty());
        assert_eq!(lowest_address(Path::new("/etc/passwd")), None);
    }
}
