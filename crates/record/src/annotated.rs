//! What an annotated program says of its source: the section `hearth_sites` that `compiler/sites.cpp` writes.
//!
//! Each position is a text: its number in hexadecimal digits, `a` for a call of what allocates, `p` for one that begins a phase (an operation of MPI) or `c` for one that leads there, file, line, column,
//! function, and what is called, with tabs between and a zero byte at the end.

use crate::libraries;
use crate::symbols::{self, Binary};
use model::{Module, SourceLine};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Name of the section.
pub const SECTION: &str = "hearth_sites";
/// The thread-local variable that call paths are written into.
const VARIABLE: &str = "__hearth_path";

/// A call in the source that allocates, or leads to one that does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// File without its folder.
    pub file: String,
    /// Line, from 1; 0 if the compiler did not know it.
    pub line: u32,
    /// Column, from 1; 0 if the compiler did not know it.
    pub column: u32,
    /// Function, demangled.
    pub function: String,
    /// It is a call of what allocates.
    pub allocates: bool,
    /// It is an operation of MPI.
    pub phase: bool,
    /// The function's name for the linker.
    pub symbol: String,
    /// The same of what is called; empty if it is called through a pointer.
    pub callee: String,
}

/// The positions of a module, by number.
#[derive(Debug, Default)]
pub struct Table {
    /// Several under one number: they cannot be told apart.
    positions: BTreeMap<u32, Vec<Position>>,
    /// All numbers as they come in the section: those of a function in the order of its code.
    order: Vec<u32>,
}

/// Reads the positions of a file; there are none if it is not annotated. An error is one sentence.
pub fn of(file: &Path) -> Result<Table, String> {
    table(&Binary::open(file)?)
}

/// The positions of a program and of the libraries that it is linked with, together: a call path goes through all of them. An error is one sentence, on the
/// program's own file.
pub fn linked(program: &Path) -> Result<Table, String> {
    let mut all = of(program)?;
    // What cannot be read of a library is not needed for the program.
    libraries::of(program).iter().filter_map(|l| of(l).ok()).for_each(|t| all.add(t));
    Ok(all)
}

/// Whether the runtime finds the variable that call paths are written into: the program exports it, or a library that it is linked with does. Else an annotated
/// program's sites are call stacks.
pub fn is_heard(program: &Path) -> bool {
    let exports = |file: &Path| {
        let binary = Binary::open(file).ok()?;
        let elf = binary.parse().ok()?;
        elf.dynamic_symbols().find(|s| !s.is_undefined() && s.name() == Ok(VARIABLE)).map(|_| ())
    };
    exports(program).is_some() || libraries::of(program).iter().any(|l| exports(l).is_some())
}

/// What is to be said of an annotated program that is not heard; none if it is, or is not annotated.
pub(crate) fn unheard(program: &Path) -> Option<String> {
    of(program).ok().filter(|t| !t.is_empty())?;
    (!is_heard(program)).then(|| {
        format!(
            "{} has files that hearth-cc compiled, but was linked without --export-dynamic-symbol={VARIABLE}, so its sites are call stacks; link it by hearth-cc",
            program.display()
        )
    })
}

/// What a run of these programs that met these positions has to say of those among them that have one number, how many numbers that are, and a sentence.
pub(crate) fn collisions<'a>(
    met: impl Iterator<Item = (&'a Module, u64)>,
    programs: impl Iterator<Item = &'a str>,
) -> Option<(usize, String)> {
    let (mut modules, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (module, number) in met.filter(|(module, _)| module.is_source()) {
        modules.insert(module);
        numbers.insert(number);
    }
    // Positions of one path may be of several files.
    let all = together(modules.iter().copied(), programs);
    let told = all.collisions(|n| numbers.contains(&u64::from(n)));
    let files: Vec<&str> = modules.iter().filter_map(|m| m.file()).collect();
    let more = match told.len().checked_sub(1)? {
        0 => String::new(),
        n => format!("; and so have {n} more (`hearth sites` lists all of a file)"),
    };
    Some((told.len(), format!("in {} {}{more}", files.join(" and "), told.first()?)))
}

/// The positions of several annotated modules, as far as their files can be read and are still the same (whether they can is said elsewhere), and of the programs that
/// met them: a path is told of its innermost module, and the others may allocate nothing themselves.
pub fn together<'a>(modules: impl Iterator<Item = &'a Module>, programs: impl Iterator<Item = &'a str>) -> Table {
    let mut all = Table::default();
    let mut any = false;
    for module in modules.filter(|m| m.is_source()) {
        any = true;
        let Some(binary) = module.file().and_then(|f| Binary::open(Path::new(f)).ok()) else { continue };
        if binary.build_id().is_ok_and(|id| id == module.build_id) {
            table(&binary).into_iter().for_each(|t| all.add(t));
        }
    }
    if any {
        programs.filter_map(|p| linked(Path::new(p)).ok()).for_each(|t| all.add(t));
    }
    all
}

/// The source form of places in a module, an empty one where there is none. `all`: the positions of all modules that were met. An error is one sentence.
pub fn lines(module: &Module, offsets: &[u64], all: &Table) -> Result<Vec<Vec<SourceLine>>, String> {
    let mut found = symbols::symbolize(module, offsets)?;
    // Those of a path are told of the innermost module, and may be of any.
    if module.is_source() {
        found.iter_mut().zip(offsets).filter(|(l, _)| l.is_empty()).for_each(|(l, &p)| l.extend(all.line(p)));
    }
    Ok(found)
}

/// Reads a module's positions; there are none if it is not annotated. An error is one sentence.
pub(crate) fn table(binary: &Binary) -> Result<Table, String> {
    let file = binary.parse()?;
    match file.section_by_name(SECTION) {
        None => Ok(Table::default()),
        Some(section) => {
            let damaged = |e| format!("section {SECTION} of {} cannot be read: {e}", binary.path().display());
            // It is loaded with the program, so it is never compressed.
            Ok(Table::of(section.data().map_err(damaged)?))
        }
    }
}

impl Table {
    /// What cannot be read of it is left out.
    fn of(section: &[u8]) -> Table {
        let mut table = Table::default();
        for text in section.split(|&b| b == 0).filter_map(|t| std::str::from_utf8(t).ok()) {
            let Some((number, position)) = position(text) else { continue };
            let same = table.positions.entry(number).or_default();
            if !same.contains(&position) {
                same.push(position);
                table.order.push(number);
            }
        }
        table
    }

    /// Adds those of another module.
    pub fn add(&mut self, other: Table) {
        let mut new = BTreeSet::new();
        for (number, positions) in other.positions {
            let same = self.positions.entry(number).or_default();
            for position in positions {
                if !same.contains(&position) {
                    same.push(position);
                    new.insert(number);
                }
            }
        }
        self.order.extend(other.order.into_iter().filter(|n| new.contains(n)));
    }

    /// It is not annotated.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Whether there is a position of this number.
    pub fn has(&self, number: u64) -> bool {
        u32::try_from(number).is_ok_and(|n| self.positions.contains_key(&n))
    }

    /// All positions with their numbers, in the order of the source.
    pub fn positions(&self) -> Vec<(u32, &Position)> {
        let mut all: Vec<_> = self.positions.iter().flat_map(|(n, same)| same.iter().map(|p| (*n, p))).collect();
        all.sort_by_key(|(n, p)| (*p, *n));
        all
    }

    /// The same, those of a function in the order of its code.
    pub fn in_code(&self) -> impl Iterator<Item = (u32, &Position)> {
        self.order.iter().filter_map(|n| Some((*n, self.positions.get(n)?.first()?)))
    }

    /// Those that have one number, a sentence for each number that is `asked` for.
    pub fn collisions(&self, asked: impl Fn(u32) -> bool) -> Vec<String> {
        let told = |(number, same): (&u32, &Vec<Position>)| {
            let all: Vec<String> =
                same.iter().map(|p| format!("{} ({}:{}:{})", p.function, p.file, p.line, p.column)).collect();
            format!(
                "{} have the same number {number:08x}, so their objects count as one site; rename one of the functions or files and compile it again",
                all.join(" and ")
            )
        };
        self.positions.iter().filter(|(n, same)| same.len() > 1 && asked(**n)).map(told).collect()
    }

    /// The source form of a number.
    pub fn line(&self, number: u64) -> Option<SourceLine> {
        let position = self.positions.get(&u32::try_from(number).ok()?)?.first()?;
        Some(position.as_line())
    }
}

impl Position {
    /// As profiles and plans have it.
    pub(crate) fn as_line(&self) -> SourceLine {
        SourceLine { function: self.function.clone(), file: self.file.clone(), line: self.line, column: self.column }
    }
}

fn position(text: &str) -> Option<(u32, Position)> {
    let mut words = text.splitn(7, '\t');
    let number = u32::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let (allocates, phase) = (kind == "a", kind == "p");
    let file = words.next()?.to_string();
    let (line, column) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let (symbol, callee) = (words.next()?.to_string(), words.next()?.to_string());
    let function = symbols::plain_name(&symbol);
    Some((number, Position { file, line, column, function, allocates, phase, symbol, callee }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_and_those_of_one_number_are_told() {
        let grow = "0000000b\tc\tm.cpp\t8\t3\t_ZN6Matrix4growEm\t";
        let (vec, other) = ("0000000a\ta\tvec.c\t4\t9\tvec\tmalloc", "0000000a\tc\tother.c\t1\t1\tmain\tvec");
        let text = [vec, grow, grow, other, "nonsense", "", "12"].join("\0");
        let table = Table::of(text.as_bytes());
        assert_eq!(table.positions().len(), 3);
        let line = table.line(11).unwrap();
        assert_eq!(
            (line.function.as_str(), line.file.as_str(), line.line),
            ("Matrix::grow(unsigned long)", "m.cpp", 8)
        );
        let collisions = table.collisions(|_| true);
        assert_eq!(collisions.len(), 1);
        assert!(collisions[0].starts_with("vec (vec.c:4:9) and main (other.c:1:1) have the same number 0000000a,"));
        assert!(table.collisions(|n| n == 11).is_empty());
        assert_eq!(table.line(1 << 40), None);
    }
}
