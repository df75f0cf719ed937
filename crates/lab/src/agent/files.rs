//! Brings back what the program wrote: files that it made or changed below a folder.
//!
//! The guest's file system is an overlay (Documentation/filesystems/overlayfs.rst): what was written lies, as whole
//! files, in its upper folder, where a removed file is a character device 0/0.

use crate::Error;
use crate::job::{RESULTS, Report, SESSION, UPPER};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// Copies the files to the session and counts what stays behind.
pub fn bring_back(folder: &Path, session: &Path, report: &mut Report) -> Result<(), Error> {
    let upper = session.join(UPPER);
    let below = upper.join(folder.strip_prefix("/").unwrap_or(folder));
    let mut copying = Copying { report, results: session.join(RESULTS), folder: below.clone() };
    let copied = copying.walk(&upper);
    copied.map_err(|(path, e)| {
        Error(format!(
            "cannot bring back {}: {e}",
            Path::new("/").join(path.strip_prefix(Path::new(SESSION).join(UPPER)).unwrap_or(&path)).display()
        ))
    })
}

struct Copying<'a> {
    report: &'a mut Report,
    results: PathBuf,
    /// The folder, in the upper folder.
    folder: PathBuf,
}

impl Copying<'_> {
    fn walk(&mut self, dir: &Path) -> Result<(), (PathBuf, io::Error)> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |e| (path, e)
        };
        for entry in fs::read_dir(dir).map_err(at(dir))? {
            let path = entry.map_err(at(dir))?.path();
            let meta = fs::symlink_metadata(&path).map_err(at(&path))?;
            let kind = meta.file_type();
            let inside = path.strip_prefix(&self.folder).ok().filter(|p| !p.as_os_str().is_empty());
            let target = inside.map(|p| self.results.join(p));
            if kind.is_dir() {
                if let Some(target) = &target {
                    fs::create_dir(target).map_err(at(&path))?;
                } else if path == self.folder {
                    fs::create_dir(&self.results).map_err(at(&path))?;
                }
                self.walk(&path)?;
                if let Some(target) = &target {
                    fs::set_permissions(target, meta.permissions()).map_err(at(&path))?;
                }
            } else if kind.is_char_device() && meta.rdev() == 0 {
                self.report.files_removed += 1;
            } else if let (Some(target), true) = (&target, kind.is_file()) {
                fs::copy(&path, target).map_err(at(&path))?;
                self.report.files += 1;
            } else if let (Some(target), true) = (&target, kind.is_symlink()) {
                fs::read_link(&path).and_then(|to| symlink(to, target)).map_err(at(&path))?;
                self.report.files += 1;
            } else if kind.is_file() || kind.is_symlink() {
                self.report.files_elsewhere += 1;
            }
        }
        Ok(())
    }
}
