//! A site: the call stack that allocates.
//!
//! Its *binary form* is a list of (module, offset) frames, innermost first: the return addresses of the call
//! stack relative to the module they lie in (paper 000, section VI, "binary object matching"), so that it
//! survives address-space randomisation and needs no debug information. Its *source form* is what debug
//! information says about those frames; it survives a rebuild.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A site's stable name: the 64-bit hash of its whole binary form, the same in every run of the same binaries.
/// Written as 16 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u64);

impl fmt::Display for SiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for SiteId {
    type Err = String;
    fn from_str(s: &str) -> Result<SiteId, String> {
        if s.len() != 16 {
            return Err(format!("`{s}` is not a site id (16 hexadecimal digits)"));
        }
        u64::from_str_radix(s, 16).map(SiteId).map_err(|_| format!("`{s}` is not a site id (16 hexadecimal digits)"))
    }
}

impl Serialize for SiteId {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for SiteId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<SiteId, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Before a name where a module's path would be: the program has given it in its code, and there is no file.
pub const NAMED: &str = "name:";

/// Before the file and the name of a Python function where a module's path would be (`python:FILE:FUNCTION`): a frame's offset in it is its line.
pub const PYTHON: &str = "python:";

/// Before the path of an annotated module where a module's path would be (`source:FILE`): a frame's offset in it is the number of a position in the source, which
/// stays the same when the program is built again.
pub const SOURCE: &str = "source:";

/// An executable or shared library as it was loaded.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Module {
    /// Path it was loaded from, as the program saw it.
    pub path: String,
    /// GNU build id in hexadecimal; empty if the file has none (it is then matched by file name).
    pub build_id: String,
}

impl Module {
    /// The file name without its folder.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Its file, if it has one.
    pub fn file(&self) -> Option<&str> {
        let path = self.path.strip_prefix(SOURCE).unwrap_or(&self.path);
        path.starts_with('/').then_some(path)
    }

    /// True for positions in the source of an annotated module, instead of places in its code.
    pub fn is_source(&self) -> bool {
        self.path.starts_with(SOURCE)
    }

    /// The source form of a place in it, where no file has to be read for that: a name that the program has given, or a line of Python.
    pub fn line_at(&self, offset: u64) -> Option<SourceLine> {
        if let Some(name) = self.path.strip_prefix(NAMED) {
            return Some(SourceLine::named(name));
        }
        let (file, function) = self.path.strip_prefix(PYTHON)?.rsplit_once(':')?;
        let line = u32::try_from(offset).unwrap_or(0);
        Some(SourceLine { function: function.to_string(), file: file.to_string(), line, column: 0 })
    }
}

/// One level of a frame in source form; a frame has several when calls were inlined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SourceLine {
    /// Demangled function name; empty if unknown.
    pub function: String,
    /// Source file as the compiler recorded it; empty if unknown.
    pub file: String,
    /// Line, from 1; 0 if unknown.
    pub line: u32,
    /// Column, from 1, of a position in the source of an annotated program; else 0. Plans leave it out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub column: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl SourceLine {
    /// Of which only the function's, or the variable's, name is known.
    pub fn named(name: impl Into<String>) -> SourceLine {
        SourceLine { function: name.into(), file: String::new(), line: 0, column: 0 }
    }

    /// True for functions that work for others: `operator new`, C++ containers, Rust's library, memkind's and Hearth's.
    pub fn is_wrapper(&self) -> bool {
        let prefixes = ["operator new", "std::", "void std::", "__gnu_cxx::", "hearth_", "hearth::"];
        let memkinds = ["memkind_", "hbw_", "hbw::", "libmemkind::"];
        prefixes.iter().chain(&memkinds).any(|p| self.function.starts_with(p))
            || ["/include/c++/", "/rustc/", "/rust/deps/", "crates/api/src/", "crates/memkind/src/"]
                .iter()
                .any(|p| self.file.contains(p))
    }

    /// As it is shown, with the column: `function (file.c:12:5)`; as without one where it is not known.
    fn with_column(&self) -> String {
        self.text(&if self.column == 0 { String::new() } else { format!(":{}", self.column) })
    }

    fn text(&self, column: &str) -> String {
        let file = self.file.rsplit('/').next().unwrap_or("");
        match (self.function.is_empty(), file.is_empty()) {
            (false, false) => format!("{} ({file}:{}{column})", self.function, self.line),
            (false, true) => self.function.clone(),
            (true, false) => format!("{file}:{}{column}", self.line),
            (true, true) => "?".to_string(),
        }
    }

    /// As `train.py:41 in load`, of a line of Python.
    fn as_python(&self) -> String {
        let mut parts = self.file.rsplit('/');
        let name = parts.next().unwrap_or("");
        // Every package has files of these names.
        let package = if ["__init__.py", "__main__.py"].contains(&name) { parts.next() } else { None };
        let file = package.map_or_else(|| name.to_string(), |package| format!("{package}/{name}"));
        match self.function.as_str() {
            // What is in no function.
            "<module>" => format!("{file}:{}", self.line),
            function => format!("{file}:{} in {function}", self.line),
        }
    }

    /// True for files that came with Python or its packages: a user looks for lines of their own.
    fn is_of_python_library(&self) -> bool {
        let folders = ["/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "/python/hearth/"];
        let made = ["<frozen ", "<__array_function__"].iter().any(|p| self.file.starts_with(p));
        made || folders.iter().any(|f| self.file.contains(f))
    }
}

impl fmt::Display for SourceLine {
    /// `function (file.c:12)`, `function`, or `file.c:12`, with the file's folder left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(""))
    }
}

/// One return address of a call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// Where the address lies; `None` for code outside any file (generated at run time).
    pub module: Option<Module>,
    /// Return address minus the module's load bias (an address as in the ELF file's program headers), or the
    /// absolute address without a module.
    pub offset: u64,
    /// Source form, innermost inlined function first; empty without symbols.
    pub source: Vec<SourceLine>,
}

impl Frame {
    /// True for a name that the program has given, instead of a place in a file.
    pub fn is_name(&self) -> bool {
        self.module.as_ref().is_some_and(|m| m.path.starts_with(NAMED))
    }

    /// True for a line of Python.
    pub fn is_python(&self) -> bool {
        self.module.as_ref().is_some_and(|m| m.path.starts_with(PYTHON))
    }

    /// The binary form: `module+0xoffset`, or the address without a module. A line of Python is as it is shown.
    pub fn place(&self) -> String {
        match &self.module {
            Some(m) if self.is_name() => m.path.clone(),
            Some(m) if self.is_python() => m.line_at(self.offset).map_or_else(|| m.path.clone(), |l| l.as_python()),
            Some(m) if m.is_source() => format!("{}@{:08x}", m.name(), self.offset),
            Some(m) => format!("{}+{:#x}", m.name(), self.offset),
            None => format!("{:#x}", self.offset),
        }
    }

    /// A line of the source form; where no file and line tell it from others in its function, the place does.
    pub fn line_text(&self, line: &SourceLine) -> String {
        if self.is_python() {
            return line.as_python();
        }
        if line.file.is_empty() && !self.is_name() { format!("{line} [{}]", self.place()) } else { line.to_string() }
    }

    /// The same with the column, where there is one.
    pub fn exact_line_text(&self, line: &SourceLine) -> String {
        if line.column == 0 { self.line_text(line) } else { line.with_column() }
    }
}

impl fmt::Display for Frame {
    /// The source form of the innermost level if known, else `module+0xoffset`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.first() {
            Some(line) => write!(f, "{line}"),
            None => f.write_str(&self.place()),
        }
    }
}

/// What kind of objects a site makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SiteKind {
    /// Allocations: malloc, new, ALLOCATE.
    #[default]
    Allocation,
    /// Private anonymous mappings: mmap called by the program or by an allocator of its own.
    Mapping,
    /// A static variable of a module, or what is left of the module's data beside those that are large.
    Static,
}

impl SiteKind {
    /// As it is written: `allocation`, `mapping` or `static`.
    pub fn name(self) -> &'static str {
        match self {
            SiteKind::Allocation => "allocation",
            SiteKind::Mapping => "mapping",
            SiteKind::Static => "static",
        }
    }
}

impl FromStr for SiteKind {
    type Err = String;
    fn from_str(s: &str) -> Result<SiteKind, String> {
        [SiteKind::Allocation, SiteKind::Mapping, SiteKind::Static]
            .into_iter()
            .find(|k| k.name() == s)
            .ok_or_else(|| format!("`{s}` is no kind of site (allocation, mapping or static)"))
    }
}

/// Of a call stack several large objects were alive at once: those that came to life beside so many others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// The site of the stack, which has the first of them.
    pub stack: SiteId,
    /// How many others, from 1.
    pub number: u8,
}

/// An allocation context, or one of several large objects of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Hash of the binary form; of a static variable, hash of the names of its module and itself.
    pub id: SiteId,
    /// What it makes.
    #[serde(default)]
    pub kind: SiteKind,
    /// Which of its call stack's objects it has; none: all, or those that are not told apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Apart>,
    /// Call stack, innermost (the caller of the allocation function) first. Of a static variable one frame: its module,
    /// its place in it, and its name in place of a function's.
    pub frames: Vec<Frame>,
}

impl Site {
    /// Every line of the stack's source form with its frame, innermost first.
    pub fn lines(&self) -> impl Iterator<Item = (&Frame, &SourceLine)> {
        self.frames.iter().flat_map(|f| f.source.iter().map(move |l| (f, l)))
    }

    /// Where in [`Site::lines`] the line is that names the site: the innermost that is no wrapper. Of a program in Python the innermost one of its own, or else of a
    /// package.
    pub(crate) fn naming_line(&self) -> Option<usize> {
        let python = |own: bool| self.lines().position(|(f, l)| f.is_python() && !(own && l.is_of_python_library()));
        python(true).or_else(|| python(false)).or_else(|| self.lines().position(|(_, l)| !l.is_wrapper()))
    }

    /// One line that names the site to a person: the innermost frame that is the program's own rather than an
    /// allocation wrapper. Where other sites are known, [`crate::label::labels`] names it better.
    pub fn label(&self) -> String {
        format!("{}{}", self.stack_label(), self.suffix())
    }

    /// What tells it from others of its stack: ` #2` for the second object; empty if nothing has to.
    pub fn suffix(&self) -> String {
        self.apart.map_or_else(String::new, |a| format!(" #{}", u32::from(a.number) + 1))
    }

    /// Its label without that.
    pub(crate) fn stack_label(&self) -> String {
        if let (SiteKind::Static, Some(frame)) = (self.kind, self.frames.first()) {
            let name = frame.source.first().map_or("?", |l| l.function.as_str());
            let module = frame.module.as_ref().map_or("?", Module::name);
            return format!("static {name} [{module}]");
        }
        match self.naming_line().and_then(|at| self.lines().nth(at)) {
            Some((frame, line)) => frame.line_text(line),
            None => self.frames.first().map_or_else(|| format!("site {}", self.id), Frame::to_string),
        }
    }
}
