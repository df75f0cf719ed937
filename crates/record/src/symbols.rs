//! From module offsets to functions, inlined frames and source lines, after the run and outside the program.
//!
//! Names come from DWARF where there is some (in the file itself or in `/usr/lib/debug/.build-id`), else from the
//! symbol tables; a stripped file still has its dynamic symbols, or nothing. A file that was changed since the
//! program loaded it (another build id) is not used: wrong names are worse than none.

use crate::annotated;
use addr2line::Loader;
use addr2line::fallible_iterator::FallibleIterator;
use model::{Module, SourceLine};
use object::{Object, ObjectSymbol, SymbolKind};
use std::borrow::Cow;
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Source form of return addresses in a module (offsets from its load bias, as in [`model::Frame`]), in order:
/// innermost inlined function first, empty where nothing is known. An error is one sentence on why the whole module
/// has none.
pub fn symbolize(module: &Module, offsets: &[u64]) -> Result<Vec<Vec<SourceLine>>, String> {
    let path = Path::new(module.file().unwrap_or(&module.path));
    let binary = Binary::open(path)?;
    if !module.build_id.is_empty() && binary.build_id()? != module.build_id {
        return Err(format!("{} was changed since it was recorded (its build id differs)", path.display()));
    }
    if module.is_source() {
        let table = annotated::table(&binary)?;
        return Ok(offsets.iter().map(|&position| table.line(position).into_iter().collect()).collect());
    }
    let mut tables = vec![Functions::of(&binary)?];
    let mut dwarf = binary.has_dwarf()?.then(|| Loader::new(path).ok()).flatten();
    if dwarf.is_none() {
        if let Some(debug) = debug_file(&module.build_id) {
            let separate = Binary::open(&debug)?;
            tables.push(Functions::of(&separate)?);
            dwarf = Loader::new_with_sup(&debug, separate.supplement(&debug)).ok();
        }
    }
    Ok(offsets
        .iter()
        .map(|&offset| {
            // A return address is the instruction after the call, maybe of another line or function.
            let probe = offset.saturating_sub(1);
            let symbol = tables.iter().find_map(|t| t.find(probe));
            let mut lines = dwarf.as_ref().map(|d| dwarf_lines(d, probe)).unwrap_or_default();
            match (lines.last_mut(), symbol) {
                (Some(outermost), Some(name)) if outermost.function.is_empty() => outermost.function = name,
                (None, Some(function)) => lines.push(SourceLine::named(function)),
                _ => {}
            }
            lines
        })
        .collect())
}

fn dwarf_lines(loader: &Loader, probe: u64) -> Vec<SourceLine> {
    let Ok(frames) = loader.find_frames(probe) else { return Vec::new() };
    // Damaged DWARF ends the list early.
    let frames = frames.iterator().map_while(Result::ok).map(|f| {
        let function = f.function.as_ref().map(|n| {
            let raw = n.raw_name().unwrap_or(Cow::Borrowed("?")).into_owned();
            let fortran = n.language.is_some_and(|l| FORTRAN.contains(&l));
            if fortran {
                unmangle_fortran(&raw, true)
            } else {
                addr2line::demangle_auto(raw.into(), n.language).into_owned()
            }
        });
        let location = f.location.as_ref();
        SourceLine {
            function: function.unwrap_or_default(),
            file: location.and_then(|l| l.file).unwrap_or_default().to_string(),
            line: location.and_then(|l| l.line).unwrap_or(0),
            // Call stacks are told apart by their addresses, and found again in another build by their lines.
            column: 0,
        }
    });
    frames.filter(|l| !l.function.is_empty() || !l.file.is_empty()).collect()
}

const FORTRAN: [addr2line::gimli::DwLang; 6] = {
    use addr2line::gimli as g;
    [
        g::DW_LANG_Fortran77,
        g::DW_LANG_Fortran90,
        g::DW_LANG_Fortran95,
        g::DW_LANG_Fortran03,
        g::DW_LANG_Fortran08,
        g::DW_LANG_Fortran18,
    ]
};

/// Flang's names: `_QMmodulePprocedure`, `_QFhostPinner`, `_QPprocedure`, and `_QQmain` of a program.
fn unmangle_flang(raw: &str) -> Option<String> {
    let mut names: Vec<String> = Vec::new();
    for c in raw.strip_prefix("_Q")?.chars() {
        match c {
            'A'..='Z' => names.push(String::new()),
            _ => names.last_mut()?.push(c),
        }
    }
    names.retain(|n| !n.is_empty());
    (!names.is_empty()).then(|| names.join("::"))
}

/// gfortran's names: `__module_MOD_procedure`, and `procedure_` outside modules.
fn unmangle_fortran(raw: &str, surely_fortran: bool) -> String {
    match raw.strip_prefix("__").and_then(|r| r.split_once("_MOD_")) {
        Some((module, procedure)) => format!("{module}::{procedure}"),
        None if surely_fortran => raw.strip_suffix('_').unwrap_or(raw).to_string(),
        None => raw.to_string(),
    }
}

/// Opens a file to be mapped. A program may have put something else where its maps say that a file is, a pipe, at which one would wait for ever.
pub(crate) fn regular(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(std::io::Error::other("it is not a regular file")),
    }
}

/// A mapped ELF file.
pub(crate) struct Binary {
    path: PathBuf,
    map: memmap2::Mmap,
}

impl Binary {
    pub(crate) fn open(path: &Path) -> Result<Binary, String> {
        let say = |e: std::io::Error| format!("{} cannot be read: {e}", path.display());
        let file = regular(path).map_err(say)?;
        // SAFETY: a read-only private mapping of a file that is not expected to shrink while it is looked at.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(say)?;
        Ok(Binary { path: path.to_owned(), map })
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.map
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn parse(&self) -> Result<object::File<'_>, String> {
        object::File::parse(&*self.map).map_err(|e| format!("{} is not an ELF file: {e}", self.path.display()))
    }

    pub(crate) fn build_id(&self) -> Result<String, String> {
        let id = self.parse()?.build_id().ok().flatten().map(<[u8]>::to_vec).unwrap_or_default();
        Ok(id.iter().map(|b| format!("{b:02x}")).collect())
    }

    /// What the loader makes read-only after it has relocated it.
    pub(crate) fn relro(&self) -> Option<Range<u64>> {
        use object::read::elf::ProgramHeader;
        let elf = object::read::elf::ElfFile64::<object::Endianness>::parse(&*self.map).ok()?;
        let endian = elf.endian();
        let relro = elf.elf_program_headers().iter().find(|p| p.p_type(endian) == object::elf::PT_GNU_RELRO)?;
        Some(relro.p_vaddr(endian)..relro.p_vaddr(endian) + relro.p_memsz(endian))
    }

    fn has_dwarf(&self) -> Result<bool, String> {
        let file = self.parse()?;
        Ok([".debug_info", ".zdebug_info"].iter().any(|s| file.section_by_name(s).is_some()))
    }

    /// The file that several debug files share (dwz), if this one refers to one that is there.
    fn supplement(&self, own: &Path) -> Option<PathBuf> {
        let file = self.parse().ok()?;
        let (name, _) = file.gnu_debugaltlink().ok()??;
        use std::os::unix::ffi::OsStrExt;
        let path = own.parent()?.join(std::ffi::OsStr::from_bytes(name));
        path.exists().then_some(path)
    }
}

/// The debug file of a build, if it is installed.
pub(crate) fn debug_file(build_id: &str) -> Option<PathBuf> {
    let (first, rest) = build_id.split_at_checked(2)?;
    let path = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
    path.exists().then_some(path)
}

/// Functions of the symbol tables, by address.
struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    fn of(binary: &Binary) -> Result<Functions, String> {
        let file = binary.parse()?;
        let mut all: Vec<(u64, u64, String)> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|s| s.is_definition() && s.kind() == SymbolKind::Text && s.size() > 0)
            .filter_map(|s| Some((s.address(), s.address() + s.size(), s.name().ok()?.to_string())))
            .collect();
        all.sort();
        all.dedup_by_key(|f| f.0);
        Ok(Functions(all))
    }

    fn find(&self, probe: u64) -> Option<String> {
        let at = self.0.partition_point(|f| f.0 <= probe).checked_sub(1)?;
        let (_, end, name) = &self.0[at];
        if probe >= *end {
            return None;
        }
        Some(plain_name(name))
    }
}

/// A symbol's name as the source has it.
pub fn plain_name(name: &str) -> String {
    if let Some(plain) = unmangle_flang(name) {
        return plain;
    }
    let plain = unmangle_fortran(name, false);
    if plain != *name {
        plain
    } else if ["_Z", "__Z", "_R", "__R"].iter().any(|start| name.starts_with(start)) {
        addr2line::demangle_auto(name.into(), None).into_owned()
    } else {
        // The demangler takes a function `f` of C for C++'s short name of `float`.
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn a_function_of_its_own() -> u64 {
        let mut address = 0;
        // Debug information of the test itself is the fixture.
        for line in std::fs::read_to_string("/proc/self/maps").unwrap().lines() {
            if line.contains(std::env::current_exe().unwrap().to_str().unwrap()) {
                let start = u64::from_str_radix(line.split('-').next().unwrap(), 16).unwrap();
                address = a_function_of_its_own as *const () as u64 - start;
                break;
            }
        }
        address
    }

    fn me(build_id: &str) -> Module {
        Module { path: std::env::current_exe().unwrap().to_str().unwrap().into(), build_id: build_id.into() }
    }

    #[test]
    fn own_functions_have_names_and_lines() {
        let offset = a_function_of_its_own();
        let lines = symbolize(&me(""), &[offset + 2, u64::MAX]).unwrap();
        let outermost = lines[0].last().unwrap();
        assert!(outermost.function.contains("a_function_of_its_own"), "{outermost:?}");
        assert!(outermost.file.ends_with("symbols.rs") && outermost.line > 0, "{outermost:?}");
        assert!(lines[1].is_empty());
    }

    #[test]
    fn a_changed_or_missing_file_is_not_believed() {
        let changed = symbolize(&me("00ff"), &[1]).unwrap_err();
        assert!(changed.contains("changed since it was recorded"), "{changed}");
        let missing = Module { path: "/no/such/file".into(), build_id: String::new() };
        assert!(symbolize(&missing, &[1]).unwrap_err().contains("cannot be read"));
    }

    #[test]
    fn names_of_c_are_no_short_names_of_cpp() {
        assert_eq!(["f", "d", "i", "St", "main"].map(plain_name), ["f", "d", "i", "St", "main"]);
        assert_eq!(["_ZN1a1bEv", "_RNvC1a1b"].map(plain_name), ["a::b()", "a::b"]);
    }

    #[test]
    fn fortran_names_read_as_written() {
        assert_eq!(unmangle_fortran("__grid_MOD_allocate_all", false), "grid::allocate_all");
        assert_eq!(unmangle_fortran("solve_", true), "solve");
        assert_eq!(unmangle_fortran("solve_", false), "solve_");
        let flang = |name| unmangle_flang(name).unwrap_or_default();
        assert_eq!([flang("_QMgridPsetup"), flang("_QQmain"), flang("_QPsolve")], ["grid::setup", "main", "solve"]);
        assert_eq!([flang("_QFsolvePinner"), flang("_Quiet"), flang("main")], ["solve::inner", "", ""]);
    }
}
