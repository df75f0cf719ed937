//! Reads the program's files once before it runs. The guest has just booted, so all files are on the host; how long it
//! takes to get them from there would depend on the host and be part of the program's time, and what the kernel keeps of
//! them would take memory of the node on which the program runs. They go to the node that holds files.

use crate::job::{Files, Job};
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const MPOL_DEFAULT: libc::c_int = 0;
const MPOL_PREFERRED: libc::c_int = 1;

/// At most this part of the node's memory is filled with files.
const PART: u64 = 4;

/// Reads the files, and the kernel keeps them. What cannot be read is left: the program itself will find out and say.
pub fn files(job: &Job) {
    prefer(Some(job.files_node));
    let mut files = listed(job);
    if let Files::Read(opened) = &job.files {
        files.extend(opened.iter().map(PathBuf::from));
    }
    let free = super::ballast::free_for_programs(job.files_node).unwrap_or(0);
    let mut room = free / PART;
    let mut seen = HashSet::new();
    for file in files {
        let Ok(path) = std::fs::canonicalize(Path::new(&job.folder).join(file)) else { continue };
        if !seen.insert(path.clone()) {
            continue;
        }
        let Ok(mut file) = File::open(path) else { continue };
        let size = file.metadata().map_or(u64::MAX, |m| m.len());
        if size <= room {
            room -= size;
            let _ = std::io::copy(&mut file, &mut std::io::sink());
        }
    }
    prefer(None);
}

/// The program and the libraries that the loader would map.
fn listed(job: &Job) -> Vec<PathBuf> {
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
    files
}

/// Where memory for this process and for what it reads comes from; none: as the kernel likes.
fn prefer(node: Option<u32>) {
    let (mode, mask) = node.map_or((MPOL_DEFAULT, 0), |n| (MPOL_PREFERRED, 1u64 << n));
    // SAFETY: a valid node mask of 64 bits. A kernel that refuses puts files where it likes: nothing worse.
    unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, &mask, 64u64) };
}
