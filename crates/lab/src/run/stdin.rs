//! The standard input of this process, as a file that can be read more than once.

use crate::Error;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

/// Reads standard input to its end, unless it is a file already; none if it is a terminal, which nobody reads to its end.
pub fn spool() -> Result<Option<File>, Error> {
    if io::stdin().is_terminal() {
        return Ok(None);
    }
    let read = || {
        let own = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        match own.metadata()?.is_file() {
            true => Ok(own),
            false => copied(own),
        }
    };
    let read: io::Result<File> = read();
    read.map(Some).map_err(|e| Error(format!("cannot read the standard input: {e}; for none give < /dev/null")))
}

/// Through a file without a name, so that nothing is left behind.
fn copied(mut from: File) -> io::Result<File> {
    let mut random = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    let path = std::env::temp_dir().join(format!("hearth-stdin-{:016x}", u64::from_ne_bytes(random)));
    let mut file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    io::copy(&mut from, &mut file)?;
    io::Seek::rewind(&mut file)?;
    Ok(file)
}
