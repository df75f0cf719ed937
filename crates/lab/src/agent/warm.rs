//! Reads the program and its libraries once before it runs. The guest has just booted, so all files are on the host; how
//! long it takes to get them from there would depend on the host and be part of the program's time.

use crate::job::Job;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Reads the program and the libraries that the loader would map, and asks the kernel to keep them.
///
/// What cannot be read is left: the program itself will find out and say.
pub fn program(job: &Job) {
    let mut files = vec![PathBuf::from(&job.program)];
    // ld.so(8): with this variable the loader prints what it would map and does not start the program.
    let listed = Command::new("/lib64/ld-linux-x86-64.so.2")
        .arg("--list")
        .arg(&job.program)
        .env_clear()
        .envs(job.environment.iter().map(|(k, v)| (k, v)))
        .current_dir(&job.folder)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    if let Ok(out) = listed {
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        files.extend(text.split_whitespace().filter(|w| w.starts_with('/')).map(PathBuf::from));
    }
    for file in files {
        read(&Path::new(&job.folder).join(file));
    }
}

fn read(path: &Path) {
    if let Ok(mut file) = std::fs::File::open(path) {
        let _ = std::io::copy(&mut file, &mut std::io::sink());
    }
}
