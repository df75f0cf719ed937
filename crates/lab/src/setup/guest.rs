//! What the guest starts from: the kernel, the modules it lacks, and the first file system, which holds them, a shell and
//! our start script.

use super::cpio::{Archive, Entry};
use super::{kernel, tool};
use crate::Error;
use object::{Object, ObjectSection};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reaching the host's files and laying writable ones over them, in the order in which they must be loaded.
const MODULES: [&str; 5] = ["netfs", "9pnet", "9pnet_virtio", "9p", "overlay"];
/// The first program of the guest.
const INIT: &str = include_str!("../../guest/init");
/// Where the guest mounts things, and its folder of commands.
const FOLDERS: [&str; 9] = ["bin", "dev", "host", "modules", "proc", "root", "sys", "tmp", "upper"];

/// What the first file system is made of, apart from packages; another identity needs another build.
pub fn identity() -> u64 {
    super::identity([INIT].into_iter().chain(FOLDERS).chain(MODULES).map(str::as_bytes))
}

/// Takes the kernel and the modules out of the kernel's package: `dir/vmlinux` and `dir/modules/NAME.ko`.
///
/// # Errors
/// If the package does not hold them, or a module needs one that is not in the list.
pub fn unpack_kernel(package: &Path, busybox: &Path, dir: &Path) -> Result<(), Error> {
    let all = dir.join("kernel");
    fs::create_dir(&all).map_err(super::cannot("make", &all))?;
    let mut archive = Command::new("dpkg-deb")
        .arg("--fsys-tarfile")
        .arg(package)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| Error(format!("`dpkg-deb` cannot be started: {e}")))?;
    let mut tar = Command::new("tar");
    tar.arg("-x").arg("-C").arg(&all).args(["--wildcards", "./boot/vmlinuz-*"]);
    tar.args(MODULES.map(|m| format!("*/{m}.ko*")));
    let pipe = archive.stdout.take().expect("piped");
    let unpacked = tool::run_fed(&mut tar, pipe);
    let status = archive.wait().map_err(|e| Error(format!("`dpkg-deb` cannot be waited for: {e}")))?;
    unpacked?;
    if !status.success() {
        return Err(Error(format!("dpkg-deb cannot read {}: {status}", package.display())));
    }
    let files = walk(&all)?;
    let named = |start: &str| {
        let found = files.iter().find(|f| f.file_name().is_some_and(|n| n.to_string_lossy().starts_with(start)));
        found.ok_or_else(|| Error(format!("{} has no file {start}", package.display())))
    };
    let packed = named("vmlinuz-")?;
    let packed = fs::read(packed).map_err(super::cannot("read", packed))?;
    let program = dir.join("vmlinux");
    fs::write(&program, kernel::unpacked(&packed)?).map_err(super::cannot("write", &program))?;
    let modules = dir.join("modules");
    fs::create_dir(&modules).map_err(super::cannot("make", &modules))?;
    for module in MODULES {
        let packed = named(&format!("{module}.ko"))?;
        let bytes = match packed.extension().and_then(|e| e.to_str()) {
            Some("ko") => fs::read(packed).map_err(super::cannot("read", packed))?,
            Some("xz") => tool::run(Command::new(busybox).args(["xz", "-dc"]).arg(packed))?,
            _ => return Err(Error(format!("{} is packed in a way that is not known here", packed.display()))),
        };
        check_needs(module, &bytes)?;
        let file = modules.join(format!("{module}.ko"));
        fs::write(&file, without_signature(&bytes)).map_err(super::cannot("write", &file))?;
    }
    super::remove(&all)
}

/// A module as it was before it was signed: to check that takes an emulated processor half a second for all of them, and apt has checked the package. The
/// signature stands behind the module, behind that its length, and at the end that there is one (the kernel's include/linux/module_signature.h).
fn without_signature(module: &[u8]) -> &[u8] {
    let stripped = || {
        let (rest, length) = module.strip_suffix(b"~Module signature appended~\n")?.split_last_chunk::<4>()?;
        // The other eight bytes say how it is signed.
        rest.get(..rest.len().checked_sub(8 + u32::from_be_bytes(*length) as usize)?)
    };
    stripped().unwrap_or(module)
}

/// Whether all modules that this one needs are loaded before it.
fn check_needs(module: &str, bytes: &[u8]) -> Result<(), Error> {
    let bad = |what: &str| Error(format!("the kernel module {module} {what}"));
    let file = object::File::parse(bytes).map_err(|_| bad("is not an ELF file"))?;
    let info =
        file.section_by_name(".modinfo").and_then(|s| s.data().ok()).ok_or_else(|| bad("says nothing of itself"))?;
    let earlier = &MODULES[..MODULES.iter().position(|m| *m == module).unwrap_or(0)];
    let needs =
        info.split(|&b| b == 0).find_map(|field| field.strip_prefix(b"depends=".as_slice())).unwrap_or_default();
    let needs = String::from_utf8_lossy(needs);
    match needs.split(',').filter(|n| !n.is_empty()).find(|n| !earlier.contains(n)) {
        Some(need) => Err(bad(&format!("needs {need}, which the lab does not load"))),
        None => Ok(()),
    }
}

/// All files below a folder.
fn walk(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(super::cannot("read", dir))? {
        let path = entry.map_err(super::cannot("read", dir))?.path();
        match path.is_dir() {
            true => files.extend(walk(&path)?),
            false => files.push(path),
        }
    }
    Ok(files)
}

/// Makes the first file system of what lies in the lab's folder.
///
/// # Errors
/// If a part cannot be read.
pub fn first_file_system(dir: &Path, busybox: &Path) -> Result<Vec<u8>, Error> {
    let read = |file: &Path| fs::read(file).map_err(super::cannot("read", file));
    let mut archive = Archive::default();
    for folder in FOLDERS {
        archive.add(folder, Entry::Folder);
    }
    // The script speaks before it has mounted /dev.
    archive.add("dev/console", Entry::Device(5, 1));
    archive.add("bin/busybox", Entry::Program(&read(busybox)?));
    for module in MODULES {
        let name = format!("modules/{module}.ko");
        archive.add(&name, Entry::File(&read(&dir.join(&name))?));
    }
    archive.add("init", Entry::Program(INIT.as_bytes()));
    Ok(archive.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_taken_off() {
        let signed = [&b"module"[..], b"signed", &[0; 8], &[0, 0, 0, 6], b"~Module signature appended~\n"].concat();
        assert_eq!(without_signature(&signed), b"module");
        assert_eq!(without_signature(b"module"), b"module");
        let bad = [&[0; 8], &[0, 0, 1, 0][..], b"~Module signature appended~\n"].concat();
        assert_eq!(without_signature(&bad), bad);
    }

    #[test]
    fn the_script_loads_exactly_these_modules() {
        let loop_line = INIT.lines().find(|l| l.starts_with("for module in ")).expect("a loop over modules");
        let named = loop_line.trim_start_matches("for module in ").trim_end_matches("; do");
        assert_eq!(named.split_whitespace().collect::<Vec<_>>(), MODULES);
    }
}
