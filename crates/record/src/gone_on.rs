//! A process that goes on (by exec) as a program in which the runtime cannot report: the kernel still has the process, so
//! nothing else would tell that all that follows is not observed.

use crate::owner::Owner;
use std::fs::{File, metadata, read_link};
use std::io::{BufRead, BufReader, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why nothing is observed of the program that a process is now, in a sentence. `reported`: the path of the program whose runtime reports;
/// `session`: the session's directory. `None` if it is still that program, or one that would report, or if that cannot be known.
pub fn unobserved(pid: i32, reported: &str, session: &Path, runtime: &Path) -> Option<String> {
    let now = as_another(pid, reported)?;
    let why = if within(pid, session).is_some_and(|there| missing(&there)) {
        "does not see the session's directory (chroot, container)"
    } else if !may_enter(pid, session)? {
        "has another user, who may not enter the session's directory"
    } else if !loads(pid, runtime)? {
        "is statically linked or set-user-id, or was started without LD_PRELOAD"
    } else {
        return None;
    };
    Some(format!("a process went on as {now}, of which nothing was observed: it {why}"))
}

/// Whether a process has the user whose the session's directory is, or root, as whom alone it can be entered.
fn may_enter(pid: i32, session: &Path) -> Option<bool> {
    let user = Owner::of(pid)?.uid;
    Some(user == 0 || user == metadata(session).ok()?.uid())
}

/// The program that a process is now, if it is another one.
fn as_another(pid: i32, reported: &str) -> Option<String> {
    let link = format!("/proc/{pid}/exe");
    let now = read_link(&link).ok()?;
    let now = now.to_string_lossy();
    // Of a file that was replaced the path leads elsewhere.
    if now == reported || now.ends_with(" (deleted)") {
        return None;
    }
    // Another path may lead to the same file, seen from another root.
    let is = file(Path::new(&link)).ok()?;
    let reported = Path::new(reported);
    let other = |place: &Path| file(place).map_or_else(|e| e.kind() == ErrorKind::NotFound, |was| was != is);
    (other(reported) && other(&within(pid, reported)?)).then(|| now.into_owned())
}

/// A path as the process sees it.
fn within(pid: i32, path: &Path) -> Option<PathBuf> {
    Some(Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").ok()?))
}

fn file(path: &Path) -> std::io::Result<(u64, u64)> {
    metadata(path).map(|m| (m.dev(), m.ino()))
}

fn missing(path: &Path) -> bool {
    file(path).is_err_and(|e| e.kind() == ErrorKind::NotFound)
}

/// Whether a process has loaded the library, or may still do so: what is preloaded comes before the C library.
fn loads(pid: i32, library: &Path) -> Option<bool> {
    let name = format!("/{}", library.file_name()?.to_str()?);
    let (mut linker, mut libc) = (false, false);
    for line in BufReader::new(File::open(format!("/proc/{pid}/maps")).ok()?).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        if line.ends_with(&name) {
            return Some(true);
        }
        linker |= line.contains("/ld-linux");
        libc |= line.contains("/libc.so");
    }
    Some(linker && !libc)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    struct Sleeper(Child);
    impl Sleeper {
        fn start(program: &str) -> Sleeper {
            let child = Command::new("/bin/sh").args(["-c", program]).stdout(Stdio::piped()).spawn();
            let mut child = child.expect("a shell");
            // It says a line when it is what it is to be.
            let mut byte = [0; 1];
            let out = child.stdout.as_mut().expect("a pipe");
            std::io::Read::read_exact(out, &mut byte).expect("a line");
            Sleeper(child)
        }
        fn pid(&self) -> i32 {
            self.0.id() as i32
        }
    }
    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn what_is_still_itself_is_no_other_program() {
        let shell = Sleeper::start("echo; while :; do sleep 1; done");
        let path = read_link(format!("/proc/{}/exe", shell.pid())).expect("a link");
        assert_eq!(as_another(shell.pid(), path.to_str().expect("readable")), None);
        // Another path to the same file.
        assert_eq!(as_another(shell.pid(), &format!("/proc/self/root{}", path.display())), None);
        assert_eq!(as_another(-1, "/bin/sh"), None, "there is no such process");
    }

    #[test]
    fn what_has_become_another_program_is_told() {
        let shell = Sleeper::start("echo; exec sleep 100");
        let (here, nowhere) = (std::env::current_dir().expect("it is somewhere"), Path::new("/there/is/none"));
        let began = std::time::Instant::now();
        while as_another(shell.pid(), "/bin/sh").is_none() && began.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let why = |session: &Path, runtime: &str| unobserved(shell.pid(), "/bin/sh", session, Path::new(runtime));
        while why(&here, "none.so").is_none() && began.elapsed().as_secs() < 20 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(why(&here, "none.so").is_some_and(|why| why.contains("LD_PRELOAD")));
        assert!(why(nowhere, "libc.so.6").is_some_and(|why| why.contains("chroot")));
        assert_eq!(why(&here, "libc.so.6"), None, "it has the library, and sees the folder");
    }
}
