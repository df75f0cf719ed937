//! The calls in a module's code: where each returns to, and which of them allocate.

use crate::symbols;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use model::{Module, SourceLine};
use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SectionKind, SymbolKind};
use std::collections::{BTreeMap, HashMap};
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

/// The addresses after all call instructions, ascending, relative to the load bias.
pub fn return_addresses(file: &Path) -> Result<Vec<u64>, String> {
    let mut found = Vec::new();
    each_instruction(file, |_, i| {
        if i.mnemonic() == Mnemonic::Call {
            found.push(i.next_ip());
        }
    })?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The addresses after all jumps that leave their function, ascending: what a function ends with that calls another one last.
pub fn jumps_away(file: &Path) -> Result<Vec<u64>, String> {
    let (mut functions, mut found) = (Vec::new(), Vec::new());
    each_instruction(file, |elf, i| {
        if functions.is_empty() {
            let text =
                elf.symbols().chain(elf.dynamic_symbols()).filter(|s| s.kind() == SymbolKind::Text && s.size() > 0);
            functions = text.map(|s| (s.address(), s.address() + s.size())).collect();
            functions.sort_unstable();
        }
        let function =
            |at: u64| functions.partition_point(|f| f.0 <= at).checked_sub(1).filter(|&n| at < functions[n].1);
        let away = match (i.mnemonic(), i.op0_kind()) {
            (Mnemonic::Jmp, OpKind::NearBranch64) => function(i.ip()) != function(i.near_branch_target()),
            // By way of the global offset table.
            (Mnemonic::Jmp, OpKind::Memory) => i.is_ip_rel_memory_operand(),
            _ => false,
        };
        if away {
            found.push(i.next_ip());
        }
    })?;
    found.sort_unstable();
    Ok(found)
}

/// A call of an allocator, as debug information has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Who is called, as its name is in the symbol table.
    pub allocator: String,
    /// Where: innermost inlined function first; empty without debug information.
    pub source: Vec<SourceLine>,
}

/// The calls of allocators in a module, in the order of its code. Calls through pointers are not among them.
pub fn that_allocate(module: &Module) -> Result<Vec<Allocation>, String> {
    let found = allocating(Path::new(&module.path))?;
    let offsets: Vec<u64> = found.iter().map(|(after, _)| *after).collect();
    let sources = symbols::symbolize(module, &offsets)?;
    Ok(found.into_iter().zip(sources).map(|((_, allocator), source)| Allocation { allocator, source }).collect())
}

/// Where the calls of allocators return to, and which one each calls.
pub fn allocating(file: &Path) -> Result<Vec<(u64, String)>, String> {
    // A call goes to the procedure linkage table, and from there by way of an entry of the global offset table that a relocation names; or the call itself does.
    let (mut entries, mut stubs, mut calls) = (HashMap::new(), HashMap::new(), BTreeMap::new());
    each_instruction(file, |elf, i| {
        if entries.is_empty() {
            entries = allocator_entries(elf);
        }
        let through = i.is_ip_rel_memory_operand().then(|| entries.get(&i.ip_rel_memory_address())).flatten();
        match (i.mnemonic(), i.op0_kind()) {
            (Mnemonic::Jmp, OpKind::Memory) => {
                through.map(|name| stubs.insert(i.ip(), name.clone()));
            }
            (Mnemonic::Call, OpKind::Memory) => {
                through.map(|name| calls.insert(i.next_ip(), (0, Some(name.clone()))));
            }
            // A function that ends with the call of another one jumps there.
            (Mnemonic::Call | Mnemonic::Jmp, OpKind::NearBranch64) => {
                calls.insert(i.next_ip(), (i.near_branch_target(), None));
            }
            _ => {}
        }
    })?;
    // A stub may begin with a landing pad of four bytes.
    let named = |target: u64| stubs.get(&target).or_else(|| stubs.get(&(target + 4))).cloned();
    Ok(calls.into_iter().filter_map(|(after, (target, name))| Some((after, name.or_else(|| named(target))?))).collect())
}

/// Allocators by the address of their entry in the global offset table.
fn allocator_entries(elf: &object::File<'_>) -> HashMap<u64, String> {
    let Some(symbols) = elf.dynamic_symbol_table() else { return HashMap::new() };
    let named = |target| match target {
        RelocationTarget::Symbol(index) => {
            let symbol = symbols.symbol_by_index(index).ok()?;
            let name = symbol.name().ok()?.split('@').next()?.to_string();
            ALLOCATORS.contains(&name.as_str()).then_some(name)
        }
        _ => None,
    };
    let all = elf.dynamic_relocations().into_iter().flatten();
    all.filter_map(|(at, relocation)| Some((at, named(relocation.target())?))).collect()
}

fn each_instruction(file: &Path, mut each: impl FnMut(&object::File<'_>, &Instruction)) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("{} is not an ELF file: {e}", file.display()))?;
    for section in elf.sections().filter(|s| s.kind() == SectionKind::Text) {
        let code = section.data().map_err(|e| format!("{} is damaged: {e}", file.display()))?;
        for instruction in Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE) {
            each(&elf, &instruction);
        }
    }
    Ok(())
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
