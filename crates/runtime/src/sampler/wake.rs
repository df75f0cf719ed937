//! Threads that sleep since before their trap could be on: a pool's workers, a server's threads for cleaning up, and those
//! that were made behind our back (jemalloc makes one). They would not come by before somebody wakes them, and until then no
//! page could be armed. A SIGSYS makes them switch their trap on.
//!
//! A signal must not be noticed. So it goes to nobody who was seen running since the last look, and only to waits for a futex that
//! begin anew by themselves, or that [`begin_anew`] begins anew: any other call would return EINTR.

use super::guard::{bit, join};
use crate::sys;
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// Most signals to one thread.
const NUDGES: u32 = 3;
const NO_LIMIT: usize = 0;

/// What is known of a thread that sleeps.
#[derive(Debug)]
pub struct Sleeper {
    /// Signals sent to it.
    nudges: AtomicU32,
    /// How often it had been put to sleep when it was last seen sleeping, plus 1; 0: it was not.
    seen: AtomicU64,
}

impl Sleeper {
    /// Of a thread of which nothing is known.
    pub const fn new() -> Sleeper {
        Sleeper { nudges: AtomicU32::new(0), seen: AtomicU64::new(0) }
    }

    /// Another thread.
    pub fn clear(&self) {
        self.nudges.store(0, SeqCst);
        self.seen.store(0, SeqCst);
    }

    /// Whether a signal was sent to it.
    pub fn nudged(&self) -> bool {
        self.nudges.load(SeqCst) > 0
    }

    /// Wakes it, if it sleeps as it did the last time.
    pub fn nudge(&self, pid: usize, tid: u32) {
        if self.nudges.load(SeqCst) >= NUDGES {
            return;
        }
        let (mut status, mut call) = ([0u8; 8192], [0u8; 256]);
        let waits = waits_for_another(read_of(tid, b"/syscall", &mut call));
        // Read after the call: one that slept then and was not put to sleep since is in that call.
        let sleeps = if waits { times_asleep(read_of(tid, b"/status", &mut status)) } else { None };
        let now = sleeps.map_or(0, |times| times + 1);
        if self.seen.swap(now, SeqCst) == now && now != 0 {
            self.nudges.fetch_add(1, SeqCst);
            // SAFETY: a signal whose handler is ours.
            unsafe { sys::call3(libc::SYS_tgkill, pid, tid as usize, libc::SIGSYS as usize) };
        }
    }
}

/// Threads that nobody has told us of: id (0: free) and what is known.
static STRANGERS: [(AtomicU32, Sleeper); 64] = [const { (AtomicU32::new(0), Sleeper::new()) }; 64];

/// [`Sleeper::nudge`] for a thread of which nothing is known.
pub fn nudge_stranger(pid: usize, tid: u32) {
    let known = STRANGERS.iter().find(|(id, _)| id.load(SeqCst) == tid);
    let new = || STRANGERS.iter().find(|(id, _)| id.compare_exchange(0, tid, SeqCst, Relaxed).is_ok());
    if let Some((_, sleeper)) = known.or_else(new) {
        sleeper.nudge(pid, tid);
    }
}

/// Whether [`nudge_stranger`] has sent this thread a signal.
pub fn nudged_as_stranger(tid: u32) -> bool {
    STRANGERS.iter().any(|(id, sleeper)| id.load(SeqCst) == tid && sleeper.nudged())
}

/// In a forked child: the threads do not exist here.
pub fn forget_parent() {
    for (id, sleeper) in &STRANGERS {
        id.store(0, Relaxed);
        sleeper.clear();
    }
}

/// What a file of a thread in /proc says.
fn read_of<'a>(tid: u32, name: &[u8], to: &'a mut [u8]) -> &'a [u8] {
    let (mut path, mut digits) = ([0u8; 64], [0u8; 20]);
    let number = crate::process::number(tid.into(), 10, &mut digits);
    let path = join(&mut path, &[b"/proc/self/task/", number, name]);
    path.and_then(|path| sys::read_file(path, to)).unwrap_or_default()
}

/// How often the kernel has put a thread to sleep or in another's favour aside (proc_pid_status(5)). None: SIGSYS is blocked, and
/// would stay pending until after an exec, in a program that has no handler; or it does not say.
fn times_asleep(status: &[u8]) -> Option<u64> {
    let digits = |name: &[u8]| status.split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name));
    let number = |name, base| {
        let digits = digits(name).filter(|d| !d.is_empty())?;
        let digit = |b: u8| char::from(b).to_digit(base).map(u64::from);
        digits.iter().try_fold(0u64, |n, &b| n.checked_mul(base.into())?.checked_add(digit(b)?))
    };
    if number(b"SigBlk:\t", 16)? & bit(libc::SIGSYS) != 0 {
        return None;
    }
    number(b"voluntary_ctxt_switches:\t", 10)?.checked_add(number(b"nonvoluntary_ctxt_switches:\t", 10)?)
}

/// `202 0xADDRESS 0xOPERATION 0xVALUE 0xLIMIT ...` (proc_pid_syscall(5)): a FUTEX_WAIT without a limit, or a FUTEX_WAIT_BITSET, whose
/// limit is a point in time.
fn waits_for_another(call: &[u8]) -> bool {
    let mut words = call.split(|&b| b == b' ');
    if words.next() != Some(b"202") {
        return false;
    }
    let mut number = || {
        let digits = words.next()?.strip_prefix(b"0x")?;
        digits.iter().try_fold(0usize, |n, &b| Some(n << 4 | char::from(b).to_digit(16)? as usize))
    };
    match (number(), number(), number(), number()) {
        (Some(_), Some(operation), Some(_), Some(limit)) => {
            is_until(operation) || operation_of(operation) == libc::FUTEX_WAIT && limit == NO_LIMIT
        }
        _ => false,
    }
}

fn operation_of(word: usize) -> c_int {
    word as c_int & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME)
}

fn is_until(operation: usize) -> bool {
    operation_of(operation) == libc::FUTEX_WAIT_BITSET
}

/// In the handler of a signal sent by [`Sleeper::nudge`]: has the wait that it ended made again. A FUTEX_WAIT_BITSET with a limit returns
/// EINTR whatever SA_RESTART says (futex(2)), which `sem_timedwait` would hand on to the program; its limit is a point in time, so that
/// made again it waits as long as it would have.
///
/// # Safety
/// The handler's own context.
pub unsafe fn begin_anew(context: *mut libc::ucontext_t) {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    // SAFETY: the handler's; a call has just returned EINTR, so that what is before the instruction pointer is code.
    unsafe {
        let r = &mut (*context).uc_mcontext.gregs;
        let interrupted = r[libc::REG_RAX as usize] == -i64::from(libc::EINTR);
        if interrupted && is_until(r[libc::REG_RSI as usize] as usize) {
            let call = (r[libc::REG_RIP as usize] - 2) as *const [u8; 2];
            if call.read_unaligned() == SYSCALL {
                r[libc::REG_RAX as usize] = libc::SYS_futex;
                r[libc::REG_RIP as usize] -= 2;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a Linux 6.18.
    #[test]
    fn only_waits_that_can_begin_anew_are_ended() {
        let waits = |line: &str| waits_for_another(line.as_bytes());
        assert!(waits("202 0x7f 0x80 0x2 0x0 0x0 0x0 0x7ffe 0x7f1\n"), "FUTEX_WAIT without a limit");
        assert!(!waits("202 0x7f 0x80 0x2 0x7ffd 0x0 0x0 0x7ffe 0x7f1\n"), "with one, it would wait too long");
        assert!(waits("202 0x7f620ac16630 0x189 0x0 0x7f61837fa650 0x0 0xffffffff 0x7f61837fa500 0x7f620b4a3f16\n"));
        assert!(!waits("202 0x7f 0x81 0x2 0x0 0x0 0x0 0x7ffe 0x7f1\n"), "FUTEX_WAKE");
        assert!(!waits("232 0x5 0x770000068000 0x2790 0x64 0x2 0x34c 0x7f88a7a6a368 0x7f88a884c699\n"), "epoll_wait");
        assert!(!waits("running\n") && !waits("") && !waits("202") && !waits("-1 0x7ffe 0x7f1\n"));
    }

    #[test]
    fn threads_that_block_the_signal_are_left_alone() {
        let status = |blocked: &str| {
            format!(
                "Name:\tx\nSigBlk:\t{blocked}\nSigIgn:\t0000000000000000\nvoluntary_ctxt_switches:\t150\n\
                 nonvoluntary_ctxt_switches:\t545\n"
            )
        };
        assert_eq!(times_asleep(status("0000000000002000").as_bytes()), Some(695));
        assert_eq!(times_asleep(status("fffffffe7ffbfeff").as_bytes()), None);
        assert_eq!(times_asleep(status("").as_bytes()), None);
        assert_eq!(times_asleep(b"SigBlk:\t0000000000002000\nvoluntary_ctxt_switches:\t1"), None, "cut off");
        assert_eq!(times_asleep(b""), None);
    }
}
