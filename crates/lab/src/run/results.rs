//! Puts files that the program wrote where they belong.

use super::session::Session;
use crate::Error;
use crate::job::RESULTS;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Moves them from the session to the folder. Each file is there whole or not at all.
pub fn put(session: &Session, folder: &Path) -> Result<(), Error> {
    let results = session.dir().join(RESULTS);
    if !results.exists() {
        return Ok(());
    }
    walk(&results, folder)
        .map_err(|(path, e)| Error(format!("cannot write the program's result {}: {e}", path.display())))
}

fn walk(from: &Path, to: &Path) -> Result<(), (PathBuf, io::Error)> {
    let at = |e| (to.to_path_buf(), e);
    for entry in fs::read_dir(from).map_err(at)? {
        let entry = entry.map_err(at)?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let at = |e| (target.clone(), e);
        let meta = fs::symlink_metadata(&source).map_err(at)?;
        if meta.is_dir() {
            if !target.is_dir() {
                fs::create_dir(&target).map_err(at)?;
            }
            walk(&source, &target)?;
            fs::set_permissions(&target, meta.permissions()).map_err(at)?;
        } else {
            replace(&source, &target).map_err(at)?;
        }
    }
    Ok(())
}

/// By a rename; through a draft beside the target where that lies on another file system.
fn replace(source: &Path, target: &Path) -> io::Result<()> {
    if fs::rename(source, target).is_ok() {
        return Ok(());
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let draft = target.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let link = fs::symlink_metadata(source)?.is_symlink();
    let copied = match link {
        true => fs::read_link(source).and_then(|to| symlink(to, &draft)),
        false => fs::copy(source, &draft).map(drop),
    };
    copied.and_then(|()| fs::rename(&draft, target)).inspect_err(|_| {
        // Best effort: the draft may never have come to be.
        let _ = fs::remove_file(&draft);
    })
}
