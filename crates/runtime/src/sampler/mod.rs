//! The page-fault sampler: which objects does the program touch, how often, and how much of a page at a time?
//!
//! A thread of its own takes access rights away from a few pages (*arms* them) and sees from the fault when the program
//! comes back to one; on some visits it follows the program step by step for up to 32 accesses. It needs no
//! privileges and no PMU. The estimator that turns this into cache misses is the recorder's.
//!
//! * [`armed`] – the pages armed at the moment, and what was seen of them.
//! * [`budget`] – what it costs the program, and the pause when that is too much.
//! * [`guard`] – why a system call never fails on an armed page: while pages are armed, every system call of every
//!   thread is looked at first.
//! * [`calls`] – what memory a system call touches.
//! * [`passing`] – where threads that rested from being looked at come back.
//! * [`peers`] – memory that other processes read directly.
//! * [`protect`] – memory that the program protects itself.
//! * [`signals`] – the handlers (SIGSEGV, SIGTRAP, SIGSYS), and the program's own handlers behind them.
//! * [`step`] – one thread's single-step state.
//! * [`thread`] – the thread that arms, collects and publishes.
//! * [`wake`] – threads that sleep since before anything was sampled.

pub mod armed;
mod budget;
mod calls;
pub mod guard;
mod huge;
mod passing;
mod peers;
mod protect;
pub mod signals;
pub mod step;
mod thread;
mod wake;

use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::*};
use wire::session::Config;

/// Less than this alive at one moment fits the last-level caches of the machines this is for, and is not worth a thread
/// in the program's process.
const WORTH_SAMPLING: usize = 8 << 20;

static ENABLED: AtomicBool = AtomicBool::new(false);
static STARTED: AtomicBool = AtomicBool::new(false);
static STOP: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicUsize = AtomicUsize::new(0);
static FAULTS_PER_SECOND: AtomicU64 = AtomicU64::new(0);
static STEPS_PER_SECOND: AtomicU64 = AtomicU64::new(0);

/// Whether this process is to be sampled.
#[inline]
pub fn enabled() -> bool {
    ENABLED.load(Relaxed)
}

/// Whether there is, or was, enough alive to sample.
#[inline]
pub fn started() -> bool {
    STARTED.load(Relaxed)
}

/// Takes the session's wishes and puts the handlers in place. Called in the main thread, before the program's main.
pub fn prepare(config: &Config) {
    FAULTS_PER_SECOND.store(config.faults_per_second.clamp(1, 100_000), Relaxed);
    STEPS_PER_SECOND.store(config.steps_per_second.clamp(1, 1_000_000), Relaxed);
    budget::set(config.most_ppm);
    if signals::install() {
        ENABLED.store(true, Release);
        crate::process::adopt(crate::tls::thread(), false);
    }
}

/// An object came to life: with enough of them the sampler starts.
#[inline]
pub fn object_born(bytes: usize) {
    if enabled() {
        let live = LIVE.fetch_add(bytes, Relaxed) + bytes;
        if live >= WORTH_SAMPLING && !STARTED.load(Relaxed) && !STARTED.swap(true, AcqRel) {
            guard::measure(&crate::tls::thread().step);
            thread::start();
        }
    }
}

/// An object is about to die: none of its pages may stay armed.
#[inline]
pub fn object_died(addr: usize, bytes: usize) {
    range_gone(addr, bytes, bytes);
}

/// What was mapped here is no more, or is not to be armed any more; `bytes` of it might have been. No page stays armed.
pub fn range_gone(start: usize, len: usize, bytes: usize) {
    if enabled() {
        LIVE.fetch_sub(bytes, Relaxed);
        if armed::any() {
            budget::charged(|| armed::open_range(start, len));
        }
    }
}

/// A forked child has none of its parent's threads; its sampler starts anew.
pub fn forget_parent() {
    if enabled() {
        guard::forget_parent();
        armed::forget_parent();
        signals::forget_parent();
        STARTED.store(false, Release);
        thread::forget_parent();
    }
}

/// No page stays armed, no system call of the calling thread is looked at, and nothing is sampled again. Waits a moment for the sampler's
/// thread to leave.
pub fn give_up() {
    if ENABLED.swap(false, AcqRel) {
        STOP.store(true, Release);
        guard::leave();
        guard::let_go(&crate::tls::thread().step);
        thread::wait_for_its_end();
    }
}

/// The process ends: no page stays armed, the thread goes.
pub fn stop() {
    if enabled() {
        STOP.store(true, Release);
        guard::leave();
    }
}
