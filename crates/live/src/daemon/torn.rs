//! A process file belongs to its program, which may cut it off while the daemon reads it: the kernel then sends SIGBUS. The daemon goes on with an empty
//! page in that place, in which it finds nothing that makes sense.

/// Sees to it. Errors of memory itself end the daemon as they would have.
pub fn survive() {
    // SAFETY: a zeroed sigaction is valid; the handler makes system calls only.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction =
            mend as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
    }
}

extern "C" fn mend(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    const PAGE: usize = 4096;
    // SAFETY: the kernel's information; the page is one of a mapping that has no memory there, so nothing is lost; the default action is
    // restored for what cannot be mended, and the access is tried again.
    unsafe {
        let page = (*info).si_addr() as usize & !(PAGE - 1);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let mended = (*info).si_code == libc::BUS_ADRERR
            && libc::mmap(page as *mut libc::c_void, PAGE, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
                != libc::MAP_FAILED;
        if !mended {
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_cut_off_reads_as_nothing() {
        survive();
        let file = tempfile::tempfile().expect("there is room");
        file.set_len(8192).expect("it grows");
        let map = memmap2::MmapRaw::map_raw(&file).expect("it can be mapped");
        // SAFETY: inside the mapping.
        let read = |at: usize| unsafe { map.as_ptr().add(at).read_volatile() };
        // SAFETY: as above.
        unsafe { map.as_mut_ptr().add(4096).write_volatile(7) };
        assert_eq!(read(4096), 7);
        file.set_len(0).expect("it is cut off");
        assert_eq!((read(0), read(4096)), (0, 0));
    }
}
