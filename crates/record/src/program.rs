//! Can this program be observed? Asked before anything is started, so that a mistake costs one sentence and not a
//! run that recorded nothing.
//!
//! Observing needs the dynamic loader to preload the runtime: the program must be an ELF file of this machine with an
//! interpreter (`PT_INTERP`), and must not run in the loader's secure mode, which ignores preloading (ld.so(8)).

use crate::Error;
use object::LittleEndian;
use object::elf::{EM_AARCH64, EM_X86_64, FileHeader64, PT_INTERP, SHT_DYNSYM};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Scripts may name scripts as their interpreter; the kernel follows four times.
const MAX_SCRIPTS: usize = 5;

/// Finds the program as the shell would and checks that the runtime can be loaded into it.
pub fn check(program: &OsStr) -> Result<PathBuf, Error> {
    let found = find(program)?;
    let mut current = found.clone();
    for _ in 0..MAX_SCRIPTS {
        match look(&current)? {
            None => return Ok(found),
            Some(interpreter) => current = interpreter,
        }
    }
    Err(Error(format!("{} is a script whose interpreters are scripts without end", found.display())))
}

fn find(program: &OsStr) -> Result<PathBuf, Error> {
    let shown = program.to_string_lossy();
    if program.is_empty() {
        return Err(Error("the name of the program is empty".into()));
    }
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return match executable(&path) {
            Ok(()) => Ok(path),
            Err(why) => Err(Error(format!("cannot start {shown}: {why}"))),
        };
    }
    let search = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/local/bin:/usr/bin:/bin"));
    let candidates: Vec<PathBuf> = std::env::split_paths(&search).map(|dir| dir.join(program)).collect();
    if let Some(path) = candidates.iter().find(|p| executable(p).is_ok()) {
        return Ok(path.clone());
    }
    match candidates.iter().find(|p| p.is_file()) {
        Some(path) => Err(Error(format!("cannot start {shown}: {} is not executable", path.display()))),
        None if Path::new(program).is_file() => {
            Err(Error(format!("cannot start {shown}: not found on PATH; for the file in this folder write ./{shown}")))
        }
        None => Err(Error(format!("cannot start {shown}: not found on PATH"))),
    }
}

fn executable(path: &Path) -> Result<(), String> {
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_string(),
        _ => e.to_string(),
    })?;
    if meta.is_dir() {
        return Err("it is a directory".into());
    }
    let c = CString::new(path.as_os_str().as_bytes()).map_err(|_| "its name contains a NUL byte".to_string())?;
    // SAFETY: `c` is a valid C string.
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 || unsafe { libc::access(c.as_ptr(), libc::X_OK) } != 0
    {
        return Err("it is not executable (chmod +x makes it so)".into());
    }
    Ok(())
}

/// Checks one file; returns the interpreter if it is a script.
fn look(path: &Path) -> Result<Option<PathBuf>, Error> {
    let say = |what: &str| Error(format!("{} {what}", path.display()));
    let meta = std::fs::metadata(path).map_err(|e| say(&format!("cannot be looked at: {e}")))?;
    let mut file = File::open(path).map_err(|e| {
        say(&format!("cannot be read ({e}), so it cannot be checked whether the runtime can be loaded into it"))
    })?;
    let mut head = Vec::new();
    file.by_ref().take(4096).read_to_end(&mut head).map_err(|e| say(&format!("cannot be read: {e}")))?;
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|&b| b == b'\n').next().unwrap_or_default();
        let name: Vec<u8> = line
            .iter()
            .copied()
            .skip_while(|b| matches!(b, b' ' | b'\t'))
            .take_while(|b| !matches!(b, b' ' | b'\t' | b'\r'))
            .collect();
        let interpreter = PathBuf::from(OsString::from_vec(name));
        return match executable(&interpreter) {
            Ok(()) => Ok(Some(interpreter)),
            Err(why) => {
                Err(say(&format!("is a script whose interpreter {} cannot be started: {why}", interpreter.display())))
            }
        };
    }
    if !head.starts_with(b"\x7fELF") {
        return Err(say("is neither an ELF program nor a script that begins with #!"));
    }
    if head.len() < 64 || head[4] != 2 || head[5] != 1 {
        return Err(say("is not a 64-bit program; only 64-bit programs can be observed"));
    }
    let size = file.seek(std::io::SeekFrom::End(0)).map_err(|e| say(&format!("cannot be read: {e}")))?;
    if size < 64 {
        return Err(say("is cut off"));
    }
    // SAFETY: read-only private mapping; a program being overwritten while it is started is broken anyway.
    let map = unsafe { memmap2::Mmap::map(&file) }.map_err(|e| say(&format!("cannot be read: {e}")))?;
    let damaged = || say("is a damaged ELF file");
    let elf = FileHeader64::<LittleEndian>::parse(&*map).map_err(|_| damaged())?;
    let machine = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
    if elf.e_machine(LittleEndian) != machine {
        return Err(say("is a program for another kind of CPU"));
    }
    let segments = elf.program_headers(LittleEndian, &*map).map_err(|_| damaged())?;
    if !segments.iter().any(|s| s.p_type(LittleEndian) == PT_INTERP) {
        return Err(say(
            "is statically linked: the runtime cannot be loaded into it; link it dynamically (without -static) to observe it",
        ));
    }
    if is_sanitised(elf, &map) {
        return Err(say(
            "is built with a sanitiser (AddressSanitizer, ...), which must see every allocation itself; build it without \
             -fsanitize to observe it",
        ));
    }
    if meta.permissions().mode() & 0o6000 != 0 || has_capabilities(path) {
        return Err(say(
            "is set-user-ID, set-group-ID or has file capabilities: the loader ignores preloaded libraries in such \
             programs; observe a copy without (cp makes one)",
        ));
    }
    Ok(None)
}

/// Whether the program uses or brings the run time of a sanitiser that replaces the allocator. Damaged tables are left to
/// the loader to complain about.
fn is_sanitised(elf: &FileHeader64<LittleEndian>, data: &[u8]) -> bool {
    let table = elf.sections(LittleEndian, data).and_then(|s| s.symbols(LittleEndian, data, SHT_DYNSYM));
    let Ok(symbols) = table else { return false };
    symbols.iter().any(|symbol| {
        let name = symbol.name(LittleEndian, symbols.strings()).unwrap_or_default();
        matches!(name, b"__asan_init" | b"__hwasan_init" | b"__msan_init" | b"__tsan_init")
    })
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: valid C strings; a null buffer of size 0 asks for the length only.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn sentence(program: &Path) -> String {
        check(program.as_os_str()).expect_err("must be refused").0
    }

    fn file(dir: &Path, name: &str, bytes: &[u8], mode: u32) -> PathBuf {
        let path = dir.join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn what_cannot_be_observed_is_refused_in_one_sentence() {
        let dir = tempfile::tempdir().unwrap();
        let d = dir.path();
        assert!(sentence(&d.join("none")).contains("no such file"));
        assert!(sentence(Path::new("no-such-program-anywhere")).contains("not found on PATH"));
        assert!(sentence(d).contains("is a directory"));
        assert!(sentence(&file(d, "text", b"hello", 0o755)).contains("neither an ELF program nor a script"));
        assert!(sentence(&file(d, "data", b"\x7fELF", 0o644)).contains("not executable"));
        assert!(sentence(&file(d, "cut", b"\x7fELF\x02\x01\x01", 0o755)).contains("64-bit"));
        assert!(sentence(&file(d, "lost", b"#!/no/such/interpreter\n", 0o755)).contains("/no/such/interpreter"));
        let script = file(d, "loop", b"", 0o755);
        fs::write(&script, format!("#!{}\n", script.display())).unwrap();
        assert!(sentence(&script).contains("without end"));

        let me = fs::read("/proc/self/exe").unwrap();
        assert!(sentence(&file(d, "setuid", &me, 0o4755)).contains("set-user-ID"));
        let mut other = me.clone();
        other[18] = 0x28;
        assert!(sentence(&file(d, "arm", &other, 0o755)).contains("another kind of CPU"));
        // The same program with its PT_INTERP header renamed to PT_NULL is what a static program looks like.
        let mut fixed = me.clone();
        let (at, size) = (u64::from_le_bytes(me[32..40].try_into().unwrap()) as usize, 56);
        for i in 0..usize::from(u16::from_le_bytes([me[56], me[57]])) {
            let p = at + i * size;
            if u32::from_le_bytes(me[p..p + 4].try_into().unwrap()) == PT_INTERP {
                fixed[p..p + 4].fill(0);
            }
        }
        assert!(sentence(&file(d, "static", &fixed, 0o755)).contains("statically linked"));
    }

    #[test]
    fn programs_and_scripts_are_found() {
        let dir = tempfile::tempdir().unwrap();
        assert!(check(OsStr::new("sh")).unwrap().is_absolute());
        let script = file(dir.path(), "script", b"#! /bin/sh -e\nexit 0\n", 0o755);
        assert_eq!(check(script.as_os_str()).unwrap(), script);
    }
}
