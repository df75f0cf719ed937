//! The calls in a module's code: where each returns to, and which of them allocate.

use crate::symbols;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use model::{Module, SourceLine};
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind, SymbolKind};
use std::collections::HashMap;
use std::path::Path;

/// What the C library and the C++ runtime allocate with.
const ALLOCATORS: [&str; 19] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "strdup",
    "mmap",
    "_Znwm",
    "_Znam",
    "_ZnwmRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnwmSt11align_val_t",
    "_ZnamSt11align_val_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
];

/// A call, or a jump by which a function ends that calls another one last and so leaves no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The address behind it, where a call returns to.
    pub after: u64,
    /// The function that it is in, by its beginning; `None`: no symbol tells.
    pub within: Option<u64>,
    /// Who is called.
    pub callee: Callee,
}

/// Who is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function of the module, by its beginning.
    Function(u64),
    /// An allocator, by its name.
    Allocator(&'static str),
    /// Another module's, or whatever a pointer says.
    Unknown,
}

/// What a module's code calls; addresses are relative to the load bias, ascending.
#[derive(Debug, Default)]
pub struct Code {
    /// By calls.
    pub calls: Vec<Call>,
    /// By jumps.
    pub jumps: Vec<Call>,
}

/// Reads the calls of a module.
///
/// # Errors
/// One sentence: the file cannot be read.
pub fn of(file: &Path) -> Result<Code, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("{} is not an ELF file: {e}", file.display()))?;
    let (functions, entries) = (Functions::of(&elf), allocator_entries(&elf));
    // A call goes to the procedure linkage table, and from there by way of an entry of the global offset table that a relocation names; or the call itself does.
    let (mut stubs, mut code) = (HashMap::new(), Code::default());
    for section in elf.sections().filter(|s| s.kind() == SectionKind::Text) {
        let text = section.data().map_err(|e| format!("{} is damaged: {e}", file.display()))?;
        for i in &mut Decoder::with_ip(64, text, section.address(), DecoderOptions::NONE) {
            let jump = match i.mnemonic() {
                Mnemonic::Call => false,
                Mnemonic::Jmp => true,
                _ => continue,
            };
            let through = i.is_ip_rel_memory_operand().then(|| entries.get(&i.ip_rel_memory_address())).flatten();
            let callee = match i.op0_kind() {
                // To be made the function's beginning, or the stub's allocator.
                OpKind::NearBranch64 => Callee::Function(i.near_branch_target()),
                OpKind::Memory if jump && !i.is_ip_rel_memory_operand() => continue,
                OpKind::Memory => through.map_or(Callee::Unknown, |name| Callee::Allocator(name)),
                _ if jump => continue,
                _ => Callee::Unknown,
            };
            let within = functions.at(i.ip());
            match (callee, jump) {
                (Callee::Function(target), true) if within.is_some() && functions.at(target) == within => continue,
                (Callee::Allocator(name), true) => {
                    stubs.insert(i.ip(), name);
                }
                _ => {}
            }
            let all = if jump { &mut code.jumps } else { &mut code.calls };
            all.push(Call { after: i.next_ip(), within, callee });
        }
    }
    for call in code.calls.iter_mut().chain(&mut code.jumps) {
        let Callee::Function(target) = call.callee else { continue };
        // A stub may begin with a landing pad of four bytes.
        let stub = stubs.get(&target).or_else(|| stubs.get(&(target + 4)));
        let function = || functions.at(target).map_or(Callee::Unknown, Callee::Function);
        call.callee = stub.map_or_else(function, |name| Callee::Allocator(name));
    }
    code.calls.sort_unstable_by_key(|c| c.after);
    code.jumps.sort_unstable_by_key(|c| c.after);
    Ok(code)
}

/// Functions by their addresses: where each begins and ends, and where the one begins that it is a part of.
struct Functions(Vec<(u64, u64, u64)>);

impl Functions {
    fn of(elf: &object::File<'_>) -> Functions {
        let text = |s: &object::Symbol<'_, '_>| s.kind() == SymbolKind::Text && s.size() > 0;
        let all: Vec<_> = elf.symbols().chain(elf.dynamic_symbols()).filter(text).collect();
        let named: HashMap<&str, u64> = all.iter().filter_map(|s| Some((s.name().ok()?, s.address()))).collect();
        // What gcc holds to be seldom reached lies apart, and is the function's.
        let whole = |s: &object::Symbol<'_, '_>| {
            let (function, _) = s.name().ok()?.split_once(".cold")?;
            named.get(function).copied()
        };
        let range = |s: &object::Symbol<'_, '_>| (s.address(), s.address() + s.size(), whole(s).unwrap_or(s.address()));
        let mut ranges: Vec<_> = all.iter().map(range).collect();
        ranges.sort_unstable();
        Functions(ranges)
    }

    fn at(&self, address: u64) -> Option<u64> {
        let before = self.0.partition_point(|f| f.0 <= address).checked_sub(1)?;
        let (_, end, whole) = self.0[before];
        (address < end).then_some(whole)
    }
}

/// A call of an allocator, as debug information has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Who is called, as its name is in the symbol table.
    pub allocator: &'static str,
    /// Where: innermost inlined function first; empty without debug information.
    pub source: Vec<SourceLine>,
}

/// The calls of allocators in a module, in the order of its code. Calls through pointers are not among them.
///
/// # Errors
/// One sentence: the file cannot be read.
pub fn that_allocate(module: &Module) -> Result<Vec<Allocation>, String> {
    let code = of(Path::new(&module.path))?;
    // Of the jumps those in the stubs are nobody's calls.
    let calls = code.calls.into_iter().chain(code.jumps.into_iter().filter(|j| j.within.is_some()));
    let allocating = |c: Call| match c.callee {
        Callee::Allocator(name) => Some((c.after, name)),
        _ => None,
    };
    let mut found: Vec<(u64, &'static str)> = calls.filter_map(allocating).collect();
    found.sort_unstable();
    let offsets: Vec<u64> = found.iter().map(|(after, _)| *after).collect();
    let sources = symbols::symbolize(module, &offsets)?;
    Ok(found.into_iter().zip(sources).map(|((_, allocator), source)| Allocation { allocator, source }).collect())
}

/// Allocators by the address of their entry in the global offset table.
fn allocator_entries(elf: &object::File<'_>) -> HashMap<u64, &'static str> {
    let Some(symbols) = elf.dynamic_symbol_table() else { return HashMap::new() };
    let named = |target| match target {
        RelocationTarget::Symbol(index) => {
            let symbol = symbols.symbol_by_index(index).ok()?;
            let name = symbol.name().ok()?.split('@').next()?;
            ALLOCATORS.into_iter().find(|allocator| *allocator == name)
        }
        _ => None,
    };
    let all = elf.dynamic_relocations().into_iter().flatten();
    all.filter_map(|(at, relocation)| Some((at, named(relocation.target())?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn calls_of_allocators_are_found_however_they_are_linked() {
        let dir = tempfile::tempdir().unwrap();
        let source = "#include <stdlib.h>\nvoid *a, *b;\nstatic inline void *two(void) { return calloc(2, 8); }\n\
                      int main(void) {\n  a = malloc(5);\n  b = two();\n  return abs(a == b);\n}\n";
        std::fs::write(dir.path().join("t.c"), source).unwrap();
        for flags in [
            ["-O0", "-g"].as_slice(),
            &["-O2", "-g"],
            &["-O2", "-g", "-fno-plt"],
            &["-O2", "-g", "-fcf-protection", "-no-pie"],
        ] {
            let out = dir.path().join("t");
            let done = Command::new("gcc").current_dir(dir.path()).args(flags).args(["t.c", "-o"]).arg(&out).status();
            assert!(done.expect("gcc is needed for this test").success());
            let found = that_allocate(&crate::rebuilt::identity(&out).unwrap()).unwrap();
            let mut said: Vec<String> = found.iter().map(|a| format!("{} {}", a.allocator, a.source[0])).collect();
            said.sort();
            assert_eq!(said, ["calloc two (t.c:3)", "malloc main (t.c:5)"], "{flags:?}");
        }
    }
}
