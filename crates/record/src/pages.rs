//! The kernel's answers about pages of another process, and moving them: move_pages(2), of which everything here is a batch.

/// Why the kernel did not do it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The process is gone.
    Gone,
    /// It is not permitted.
    NotPermitted,
    /// Anything else, as the system says it.
    Other(String),
}

/// What came of asking the kernel to move pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It tried all of them; a look tells which are there.
    Tried,
    /// It found no memory for one, and tried no further.
    Full,
}

/// Most pages of one system call.
const BATCH: usize = 1024;

/// `to`: a node for all of them; none: only look. Gives each page's node, or a negative error number.
fn call(pid: i32, pages: &[u64], to: Option<u32>) -> Result<(Vec<i32>, Sent), Refused> {
    let mut status = vec![-libc::ENOENT; pages.len()];
    let nodes = to.map(|node| vec![node as i32; pages.len()]);
    let wanted = nodes.as_ref().map_or(std::ptr::null(), |n| n.as_ptr());
    const MPOL_MF_MOVE: i32 = 2;
    // SAFETY: all three arrays have as many elements as said; the addresses are the other process's, and only it has them.
    let result = unsafe {
        libc::syscall(libc::SYS_move_pages, pid, pages.len(), pages.as_ptr(), wanted, status.as_mut_ptr(), MPOL_MF_MOVE)
    };
    if result >= 0 {
        return Ok((status, Sent::Tried)); // positive: so many were not moved, which their status or a look tells
    }
    let e = std::io::Error::last_os_error();
    match e.raw_os_error() {
        // EINVAL: it has given up its memory, and is about to end.
        Some(libc::ESRCH | libc::EINVAL) => Err(Refused::Gone),
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Err(Refused::NotPermitted),
        // Nothing of it is there (any more).
        Some(libc::ENOENT | libc::EFAULT) => Ok((status, Sent::Tried)),
        Some(libc::EBUSY) if to.is_some() => Ok((status, Sent::Tried)),
        Some(libc::ENOMEM) if to.is_some() => Ok((status, Sent::Full)),
        Some(libc::ENODEV) if to.is_some() => {
            let node = to.unwrap_or_default();
            Err(Refused::Other(format!(
                "there is no NUMA node {node} with memory here; does the platform describe this machine?"
            )))
        }
        _ => Err(Refused::Other(e.to_string())),
    }
}

/// The node of each of these pages; negative where none is present: never touched, the zero page, or unmapped in the meantime.
pub fn look(pid: i32, pages: &[u64]) -> Result<Vec<i32>, Refused> {
    let mut nodes = Vec::with_capacity(pages.len());
    for batch in pages.chunks(BATCH) {
        nodes.extend(call(pid, batch, None)?.0);
    }
    Ok(nodes)
}

/// Moves these pages to a node, as far as the kernel does it; a look tells. No more than the process may have to wait for.
pub fn send(pid: i32, pages: &[u64], to: u32) -> Result<Sent, Refused> {
    call(pid, pages, Some(to)).map(|(_, sent)| sent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_the_own_process_are_found() {
        let mut map = memmap2::MmapMut::map_anon(1 << 20).expect("there is memory");
        map[..1 << 19].fill(1);
        let at = map.as_ptr() as u64;
        let pid = std::process::id() as i32;
        let nodes = look(pid, &[at, at + (1 << 19) + (1 << 18)]).expect("one may look at oneself");
        assert!(nodes[0] >= 0, "{nodes:?}");
        assert_eq!(send(pid, &[at], nodes[0] as u32), Ok(Sent::Tried), "it is there already");
        assert_eq!(look(i32::MAX, &[at]), Err(Refused::Gone));
    }
}
