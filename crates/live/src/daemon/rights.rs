//! What root's daemon keeps of root's rights: to look into and move the memory of others, to act for the owner of a session, and to read the
//! processor's samples. It can gain no others.

use crate::Error;

/// CAP_SETGID, CAP_SETUID: rights to files are taken on from owners. CAP_SYS_PTRACE, CAP_SYS_NICE: maps, tables and pages of others' processes.
/// CAP_PERFMON: samples of everyone.
const KEPT: [u32; 5] = [6, 7, 19, 23, 38];
/// _LINUX_CAPABILITY_VERSION_3.
const VERSION: u32 = 0x2008_0522;

#[repr(C)]
struct Head {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Gives up all other rights, for good. Called before there are other threads that need them.
pub fn give_up() -> Result<(), Error> {
    let fail = |what: &str| Error(format!("{what}: {}", std::io::Error::last_os_error()));
    let mut parts = [Part { effective: 0, permitted: 0, inheritable: 0 }; 2];
    let head = Head { version: VERSION, pid: 0 };
    // SAFETY: version 3 has two parts.
    if unsafe { libc::syscall(libc::SYS_capget, &head, parts.as_mut_ptr()) } != 0 {
        return Err(fail("the daemon's rights cannot be read"));
    }
    for (i, part) in parts.iter_mut().enumerate() {
        let kept = KEPT.iter().filter(|cap| **cap as usize / 32 == i).fold(0, |mask, cap| mask | 1 << (cap % 32));
        *part = Part { effective: part.permitted & kept, permitted: part.permitted & kept, inheritable: 0 };
    }
    // SAFETY: as above; and a process that is to gain no rights by what it executes.
    let given = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_capset, &head, parts.as_ptr()) == 0
    };
    if given { Ok(()) } else { Err(fail("the daemon cannot give up the rights it does not need")) }
}
