//! Whether this QEMU is one that the plugin can work in. The plugin replaces `clock_gettime` and `ppoll` under QEMU, so
//! QEMU must get them from libc; and it calls QEMU's plugin functions, so QEMU must have them.

use super::Installation;
use super::tool;
use crate::Error;
use object::{Object, ObjectSymbol};
use std::fs;
use std::path::Path;

/// The versions that the time mechanism was tested with.
pub const QEMU: &str = "10.0.";
/// Linux, as Debian names the package.
pub const KERNEL: &str = "linux-image-6.12.";
/// What the plugin replaces.
const REPLACED: [&str; 2] = ["clock_gettime", "ppoll"];

/// Names of the dynamic symbols of an ELF file: those it needs, those it gives.
fn symbols(file: &Path) -> Result<(Vec<String>, Vec<String>), Error> {
    let bytes = fs::read(file).map_err(super::cannot("read", file))?;
    let elf = object::File::parse(&*bytes).map_err(|e| Error(format!("{} is not an ELF file: {e}", file.display())))?;
    let named = |undefined: bool| {
        let symbols = elf.dynamic_symbols().filter(|s| s.is_undefined() == undefined);
        symbols.filter_map(|s| s.name().ok().map(str::to_string)).collect()
    };
    Ok((named(true), named(false)))
}

/// Checks QEMU against the plugin.
///
/// # Errors
/// If something is missing; the sentence says what was found and what is needed.
pub fn fits(qemu: &Path, plugin: &Path) -> Result<(), Error> {
    let ((wanted, given), (plugin_wants, _)) = (symbols(qemu)?, symbols(plugin)?);
    if let Some(missing) = REPLACED.iter().find(|name| !wanted.iter().any(|w| w == *name)) {
        return Err(Error(format!(
            "{} does not take {missing} from libc, which the lab must replace for guest time to follow the memory",
            qemu.display()
        )));
    }
    let asked = |name: &&String| name.starts_with("qemu_plugin_");
    match plugin_wants.iter().filter(asked).find(|name| !given.contains(name)) {
        Some(missing) => {
            Err(Error(format!("{} has no plugin function {missing}, which the lab's plugin calls", qemu.display())))
        }
        None => Ok(()),
    }
}

/// Starts QEMU with the plugin preloaded, and asks for its version: this also shows that all its libraries are there and
/// that the folder's file system lets programs run.
///
/// # Errors
/// If it does not start, or is of another version than the lab needs.
pub fn starts(lab: &Installation) -> Result<String, Error> {
    let said = tool::run(lab.qemu().arg("--version")).map_err(|e| Error(format!("QEMU does not start: {e}")))?;
    let said = String::from_utf8_lossy(&said);
    let version = said.split_whitespace().skip_while(|w| *w != "version").nth(1).unwrap_or_default();
    if !version.starts_with(QEMU) {
        return Err(Error(format!("QEMU is of version `{version}`; the lab needs {QEMU}x")));
    }
    Ok(version.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_qemu_is_refused() {
        let own = std::env::current_exe().unwrap();
        let message = fits(&own, &own).unwrap_err().to_string();
        assert!(message.contains("ppoll"), "{message}");
        let none = fits(Path::new("/dev/null"), &own).unwrap_err().to_string();
        assert!(none.contains("/dev/null is not an ELF file"), "{none}");
    }
}
