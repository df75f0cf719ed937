//! What memory a system call touches, as far as its number and arguments tell.
//!
//! A table of the calls that touch nothing but what their arguments lead to by known rules (section 2 of the manual).
//! Lists of buffers are followed to the buffers. Calls that are not in the table may touch anything.

use core::ffi::c_long;

/// Buffers of a list that are followed; calls with more are as if unknown.
const LISTED: usize = 64;
/// Longest path the kernel takes.
const PATH: usize = 4096;
/// Longest socket address.
const ADDRESS: usize = 128;

/// What an argument leads to.
#[derive(Clone, Copy)]
enum Arg {
    /// Nothing: a number.
    No,
    /// So many bytes.
    Bytes(usize),
    /// As many elements as another argument says, of so many bytes.
    Many(usize, usize),
    /// A list of buffers (`struct iovec`), as many as another argument says.
    Buffers(usize),
    /// A message (`struct msghdr`).
    Message,
    /// Messages with their lengths (`struct mmsghdr`), as many as another argument says.
    Messages(usize),
    /// Itself, for as many bytes as another argument says: the call works on pages.
    Pages(usize),
}

use Arg::{Buffers, Bytes, Many, Message, Messages, No, Pages};

const P: Arg = Bytes(PATH);

/// The arguments of a call; `None`: not known.
fn shape(nr: c_long, args: &[usize; 6]) -> Option<[Arg; 6]> {
    let [a, b, c, d, e, f] = match nr {
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 | libc::SYS_getdents64 => {
            [No, Many(2, 1), No, No, No, No]
        }
        libc::SYS_readv | libc::SYS_writev => [No, Buffers(2), No, No, No, No],
        libc::SYS_preadv | libc::SYS_pwritev | libc::SYS_preadv2 | libc::SYS_pwritev2 | libc::SYS_vmsplice => {
            [No, Buffers(2), No, No, No, No]
        }
        libc::SYS_process_vm_readv | libc::SYS_process_vm_writev => [No, Buffers(2), No, Buffers(4), No, No],
        libc::SYS_recvfrom => [No, Many(2, 1), No, No, Bytes(ADDRESS), Bytes(4)],
        libc::SYS_sendto => [No, Many(2, 1), No, No, Bytes(ADDRESS), No],
        libc::SYS_recvmsg | libc::SYS_sendmsg => [No, Message, No, No, No, No],
        libc::SYS_recvmmsg => [No, Messages(2), No, No, Bytes(16), No],
        libc::SYS_sendmmsg => [No, Messages(2), No, No, No, No],
        libc::SYS_getrandom | libc::SYS_getcwd => [Many(1, 1), No, No, No, No, No],
        libc::SYS_readlink => [P, Many(2, 1), No, No, No, No],
        libc::SYS_readlinkat => [No, P, Many(3, 1), No, No, No],
        libc::SYS_sendfile => [No, No, Bytes(8), No, No, No],
        libc::SYS_splice | libc::SYS_copy_file_range => [No, Bytes(8), No, Bytes(8), No, No],
        libc::SYS_poll => [Many(1, 8), No, No, No, No, No],
        libc::SYS_ppoll => [Many(1, 8), No, Bytes(16), Bytes(8), No, No],
        libc::SYS_select => {
            let set = Bytes(args[0].min(1 << 20).div_ceil(64) * 8);
            [No, set, set, set, Bytes(16), No]
        }
        // The last argument of pselect6 leads to a mask by another pointer; libc's own select leaves it out.
        libc::SYS_pselect6 if args[5] == 0 => {
            let set = Bytes(args[0].min(1 << 20).div_ceil(64) * 8);
            [No, set, set, set, Bytes(16), No]
        }
        libc::SYS_epoll_wait => [No, Many(2, 12), No, No, No, No],
        libc::SYS_epoll_pwait => [No, Many(2, 12), No, No, Bytes(8), No],
        libc::SYS_epoll_ctl => [No, No, No, Bytes(12), No, No],
        libc::SYS_futex => [Bytes(4), No, No, Bytes(16), Bytes(4), No],
        libc::SYS_rt_sigsuspend | libc::SYS_rt_sigpending => [Bytes(8), No, No, No, No, No],
        libc::SYS_rt_sigtimedwait => [Bytes(8), Bytes(128), Bytes(16), No, No, No],
        libc::SYS_stat | libc::SYS_lstat => [P, Bytes(144), No, No, No, No],
        libc::SYS_fstat => [No, Bytes(144), No, No, No, No],
        libc::SYS_newfstatat => [No, P, Bytes(144), No, No, No],
        libc::SYS_statx => [No, P, No, No, Bytes(256), No],
        libc::SYS_statfs => [P, Bytes(120), No, No, No, No],
        libc::SYS_fstatfs => [No, Bytes(120), No, No, No, No],
        libc::SYS_open
        | libc::SYS_access
        | libc::SYS_truncate
        | libc::SYS_chdir
        | libc::SYS_mkdir
        | libc::SYS_rmdir
        | libc::SYS_unlink
        | libc::SYS_memfd_create => [P, No, No, No, No, No],
        libc::SYS_rename => [P, P, No, No, No, No],
        libc::SYS_openat | libc::SYS_mkdirat | libc::SYS_unlinkat | libc::SYS_faccessat | libc::SYS_faccessat2 => {
            [No, P, No, No, No, No]
        }
        libc::SYS_renameat => [No, P, No, P, No, No],
        libc::SYS_pipe | libc::SYS_pipe2 => [Bytes(8), No, No, No, No, No],
        libc::SYS_socketpair => [No, No, No, Bytes(8), No, No],
        libc::SYS_connect | libc::SYS_bind => [No, Bytes(ADDRESS), No, No, No, No],
        libc::SYS_accept | libc::SYS_accept4 | libc::SYS_getsockname | libc::SYS_getpeername => {
            [No, Bytes(ADDRESS), Bytes(4), No, No, No]
        }
        // A filter is a list behind the option.
        libc::SYS_setsockopt
            if ![libc::SO_ATTACH_FILTER, libc::SO_ATTACH_REUSEPORT_CBPF].contains(&(args[2] as i32)) =>
        {
            [No, No, No, Many(4, 1), No, No]
        }
        libc::SYS_getsockopt => [No, No, No, Bytes(PATH), Bytes(4), No],
        libc::SYS_wait4 => [No, Bytes(4), No, Bytes(144), No, No],
        libc::SYS_waitid => [No, No, Bytes(128), No, Bytes(144), No],
        libc::SYS_nanosleep => [Bytes(16), Bytes(16), No, No, No, No],
        libc::SYS_clock_nanosleep => [No, No, Bytes(16), Bytes(16), No, No],
        libc::SYS_clock_gettime | libc::SYS_clock_getres => [No, Bytes(16), No, No, No, No],
        libc::SYS_gettimeofday => [Bytes(16), Bytes(8), No, No, No, No],
        libc::SYS_times => [Bytes(32), No, No, No, No, No],
        libc::SYS_getitimer | libc::SYS_timerfd_gettime => [No, Bytes(32), No, No, No, No],
        libc::SYS_setitimer => [No, Bytes(32), Bytes(32), No, No, No],
        libc::SYS_timerfd_settime => [No, No, Bytes(32), Bytes(32), No, No],
        libc::SYS_getrlimit => [No, Bytes(16), No, No, No, No],
        libc::SYS_prlimit64 => [No, No, Bytes(16), Bytes(16), No, No],
        libc::SYS_getrusage => [No, Bytes(144), No, No, No, No],
        libc::SYS_sysinfo => [Bytes(112), No, No, No, No, No],
        libc::SYS_uname => [Bytes(390), No, No, No, No, No],
        libc::SYS_getcpu => [Bytes(4), Bytes(4), No, No, No, No],
        libc::SYS_sched_setaffinity | libc::SYS_sched_getaffinity => [No, No, Many(1, 1), No, No, No],
        libc::SYS_get_mempolicy => [Bytes(4), Bytes(PATH), No, No, No, No],
        libc::SYS_set_mempolicy => [No, Bytes(PATH), No, No, No, No],
        libc::SYS_mbind => [Pages(1), No, No, Bytes(PATH), No, No],
        libc::SYS_mincore => [No, No, Bytes(args[1].div_ceil(4096)), No, No, No],
        // A lock or an owner; of other requests the argument is a number.
        libc::SYS_fcntl => [No, No, Bytes(64), No, No, No],
        // Terminal and descriptor requests have no pointers behind their argument.
        libc::SYS_ioctl if args[1] >> 8 == 0x54 => [No, No, Bytes(64), No, No, No],
        libc::SYS_prctl if [libc::PR_SET_NAME, libc::PR_GET_NAME].contains(&(args[0] as i32)) => {
            [No, Bytes(16), No, No, No, No]
        }
        // A page without access rights can be moved and thrown away, but not brought in.
        libc::SYS_madvise | libc::SYS_munmap | libc::SYS_mlock | libc::SYS_munlock | libc::SYS_mlock2 => {
            [Pages(1), No, No, No, No, No]
        }
        libc::SYS_mprotect | libc::SYS_mremap | libc::SYS_msync => [Pages(1), No, No, No, No, No],
        nr if NUMBERS.contains(&nr) => [No; 6],
        _ => return None,
    };
    Some([a, b, c, d, e, f])
}

/// Calls whose arguments are numbers.
const NUMBERS: [c_long; 35] = [
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_mmap,
    libc::SYS_brk,
    libc::SYS_sched_yield,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_alarm,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_socket,
    libc::SYS_shutdown,
    libc::SYS_listen,
    libc::SYS_kill,
    libc::SYS_tgkill,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_fchdir,
    libc::SYS_umask,
    libc::SYS_getuid,
    libc::SYS_getgid,
    libc::SYS_geteuid,
    libc::SYS_getegid,
    libc::SYS_epoll_create1,
    libc::SYS_timerfd_create,
    libc::SYS_eventfd2,
    libc::SYS_inotify_rm_watch,
    libc::SYS_sync_file_range,
    libc::SYS_membarrier,
];

/// Names every stretch of memory (start, length) that a call may touch; `false`: nobody knows. `peek` reads the
/// program's memory at an address, which was named before; it is `false` where there is none.
pub fn name(
    nr: c_long,
    args: &[usize; 6],
    mut name: impl FnMut(usize, usize),
    peek: impl Fn(usize, &mut [usize]) -> bool,
) -> bool {
    let Some(shape) = shape(nr, args) else { return false };
    let value = |i: usize| args.get(i).copied().unwrap_or(1);
    for (&at, kind) in args.iter().zip(shape).filter(|(at, _)| **at != 0) {
        let known = match kind {
            No => true,
            Bytes(bytes) => {
                name(at, bytes);
                true
            }
            Many(count, each) => {
                name(at, value(count).saturating_mul(each));
                true
            }
            Pages(bytes) => {
                name(at, value(bytes));
                true
            }
            Buffers(count) => buffers(at, value(count), &mut name, &peek),
            Message => message(at, 56, &mut name, &peek),
            Messages(count) => {
                let count = value(count);
                count <= LISTED && (0..count).all(|i| message(at + i * 64, 64, &mut name, &peek))
            }
        };
        if !known {
            return false;
        }
    }
    true
}

/// The buffers of a list, and the list.
fn buffers(
    at: usize,
    count: usize,
    name: &mut impl FnMut(usize, usize),
    peek: &impl Fn(usize, &mut [usize]) -> bool,
) -> bool {
    let mut list = [0; 2 * LISTED];
    let Some(list) = list.get_mut(..count.saturating_mul(2)) else { return false };
    if count == 0 {
        return true;
    }
    name(at, count * 16);
    if !peek(at, list) {
        return false;
    }
    for pair in list.chunks_exact(2) {
        name(pair[0], pair[1]);
    }
    true
}

/// What a message of so many bytes leads to: an address, a list of buffers, control data.
fn message(
    at: usize,
    bytes: usize,
    name: &mut impl FnMut(usize, usize),
    peek: &impl Fn(usize, &mut [usize]) -> bool,
) -> bool {
    let mut header = [0; 7];
    name(at, bytes);
    if !peek(at, &mut header) {
        return false;
    }
    let [address, address_len, list, list_len, control, control_len, _] = header;
    name(address, address_len & 0xffff_ffff);
    name(control, control_len);
    list == 0 || buffers(list, list_len, name, peek)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(nr: c_long, args: [usize; 6]) -> Option<Vec<(usize, usize)>> {
        let mut all = Vec::new();
        // SAFETY: the tests' own memory.
        let peek = |at: usize, to: &mut [usize]| unsafe {
            to.copy_from_slice(core::slice::from_raw_parts(at as *const usize, to.len()));
            true
        };
        name(nr, &args, |start, len| all.push((start, len)), peek).then_some(all)
    }

    #[test]
    fn a_buffer_is_named_with_its_length() {
        assert_eq!(named(libc::SYS_read, [3, 0x1000, 77, 0, 0, 0]), Some(vec![(0x1000, 77)]));
        assert_eq!(named(libc::SYS_getpid, [0x1000; 6]), Some(vec![]));
        assert_eq!(named(libc::SYS_epoll_wait, [3, 0x1000, 8, 0, 0, 0]), Some(vec![(0x1000, 96)]));
    }

    #[test]
    fn calls_that_may_touch_anything_are_told() {
        assert_eq!(named(libc::SYS_execve, [0x1000; 6]), None);
        assert_eq!(named(libc::SYS_ioctl, [0, 0xc020_1234, 0x1000, 0, 0, 0]), None);
        let option = libc::SO_ATTACH_FILTER as usize;
        assert_eq!(named(libc::SYS_setsockopt, [3, 1, option, 0x1000, 16, 0]), None);
    }

    #[test]
    fn lists_of_buffers_and_messages_are_followed() {
        let list = [0x5000usize, 10, 0x6000, 20];
        let at = list.as_ptr() as usize;
        let expected = vec![(at, 32), (0x5000, 10), (0x6000, 20)];
        assert_eq!(named(libc::SYS_readv, [3, at, 2, 0, 0, 0]), Some(expected.clone()));
        let message = [0x7000usize, 28, at, 2, 0x8000, 24, 0];
        let header = message.as_ptr() as usize;
        let mut all = vec![(header, 56), (0x7000, 28), (0x8000, 24)];
        all.extend(expected);
        assert_eq!(named(libc::SYS_recvmsg, [3, header, 0, 0, 0, 0]), Some(all));
        assert_eq!(named(libc::SYS_readv, [3, at, LISTED + 1, 0, 0, 0]), None);
    }
}
