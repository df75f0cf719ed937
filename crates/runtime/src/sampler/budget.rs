//! What the sampler costs the program, measured, and the share of the program's processor time that it may cost.
//!
//! Counted are the faults, steps and trapped system calls of the program's threads (each a signal, whose price is measured
//! when sampling begins, and the time in its handler), the pages opened for the program in between, and all that the
//! sampler's own thread does. Beyond the share the sampler pauses until the program has worked for it. Whatever the
//! program does, it costs no more; what it does then is seen less often.

use crate::{process, sys};
use core::sync::atomic::{AtomicU64, Ordering::*};

/// Until it is measured: a usual price of a signal, in ns.
const USUAL_SIGNAL_NS: u64 = 2_500;
/// What may be spent before the program has worked for it: the first samples tell most, and short runs have no others.
const CREDIT_NS: u64 = 8_000_000;
/// What is saved up during a pause, so that pauses are not many.
const SAVED_NS: u64 = 2_000_000;
/// What takes longer was not running for some of the time (the machine has other work to do).
const LONGEST_NS: u64 = 50_000;
/// Of the budget, what system calls may take of a single thread's time: one half.
const CALLS_PART: u64 = 2;

static SIGNAL_NS: AtomicU64 = AtomicU64::new(USUAL_SIGNAL_NS);
/// Millionths of the process's processor time.
static MOST_PPM: AtomicU64 = AtomicU64::new(15_000);

/// Sets the share, in millionths.
pub fn set(ppm: u64) {
    MOST_PPM.store(ppm.clamp(1, 1_000_000), Relaxed);
}

/// Measures what a signal costs, by making one happen a few times.
pub fn measure(signal: impl Fn()) {
    let once = || {
        let start = sys::now_in_handler();
        signal();
        sys::now_in_handler() - start
    };
    let least = (0..8).map(|_| once()).min().unwrap_or(USUAL_SIGNAL_NS);
    SIGNAL_NS.store(least.clamp(100, 100_000), Relaxed);
}

/// What a signal costs, in ns.
pub fn signal_ns() -> u64 {
    SIGNAL_NS.load(Relaxed)
}

/// Counts time that the program's threads or the sampler's own spent.
pub fn charge(ns: u64) {
    if let Some(h) = process::info() {
        h.counters.spent_ns.fetch_add(ns, Relaxed);
    }
}

/// Runs what a thread of the program has to do for the sampler, and counts its time.
pub fn charged<R>(f: impl FnOnce() -> R) -> R {
    let start = sys::now_in_handler();
    let result = f();
    charge((sys::now_in_handler() - start).min(LONGEST_NS));
    result
}

/// The same for the whole of a signal's handler.
pub fn signal<R>(f: impl FnOnce() -> R) -> R {
    charge(signal_ns());
    charged(f)
}

/// For how long (ns) a thread must go without trapped system calls that made `calls` of them in `ns`; 0: that is within
/// what they may cost.
pub fn rest_for(calls: u64, ns: u64) -> u64 {
    let cost = calls * signal_ns();
    (cost.saturating_mul(CALLS_PART * 1_000_000) / MOST_PPM.load(Relaxed)).saturating_sub(ns)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local.
    unsafe { sys::call3(libc::SYS_clock_gettime, id as usize, &raw mut t as usize, 0) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// The sampler's thread's view of the account.
#[derive(Default)]
pub struct Account {
    own: u64,
    overdrawn: bool,
}

impl Account {
    /// Books the calling thread's own time, and tells whether the sampler is to pause.
    pub fn overdrawn(&mut self) -> bool {
        let own = clock(libc::CLOCK_THREAD_CPUTIME_ID);
        charge(own.saturating_sub(self.own));
        self.own = own;
        let spent = process::info().map_or(0, |h| h.counters.spent_ns.load(Relaxed));
        let worked = clock(libc::CLOCK_PROCESS_CPUTIME_ID);
        let earned = (u128::from(worked) * u128::from(MOST_PPM.load(Relaxed)) / 1_000_000) as u64;
        let may = earned + CREDIT_NS;
        self.overdrawn = spent > if self.overdrawn { may } else { may + SAVED_NS };
        self.overdrawn
    }
}
