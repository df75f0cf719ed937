//! The shared libraries that a program is linked with.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The loader of the processors that Hearth's runtime is for.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";

/// The files that the loader would map for a program besides its own, in its order; none of a static program, or where this system has another loader. The loader itself
/// says so: nothing of the program is run.
pub fn of(program: &Path) -> Vec<PathBuf> {
    let Ok(program) = std::fs::canonicalize(program) else { return vec![] };
    let listed = Command::new(LOADER).arg("--list").arg(program).env_remove("LD_PRELOAD").output();
    let told = listed.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    told.lines().filter_map(file).collect()
}

/// `libm.so.6 => /lib/libm.so.6 (0x7f...)`; the vDSO and the loader have no arrow, and what is not found no file.
fn file(line: &str) -> Option<PathBuf> {
    let (file, _) = line.split_once(" => ")?.1.rsplit_once(" (")?;
    file.starts_with('/').then(|| PathBuf::from(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_files() {
        let of_bash = of(Path::new("/bin/sh"));
        assert!(of_bash.iter().any(|l| l.file_name().is_some_and(|n| n == "libc.so.6")), "{of_bash:?}");
        assert_eq!(file("\tlinux-vdso.so.1 (0x00007f03bec64000)"), None);
        assert_eq!(file("\tlibx.so => not found"), None);
        assert_eq!(file("\tlibx.so => /a b/libx.so (0x1)"), Some(PathBuf::from("/a b/libx.so")));
        assert_eq!(of(Path::new("/etc/passwd")), Vec::<PathBuf>::new());
    }
}
