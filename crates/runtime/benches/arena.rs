//! What a pair of allocation and end costs in a managed heap by itself, without sites, tables and events, and what finding the site adds, in ns of processor time; medians
//! and extremes of rounds in turns:
//!
//!     cargo bench --workspace --bench arena
//!
//! `bench/compilers/run` has the same pairs as a program sees them.

#![allow(clippy::print_stdout)] // it is for people

use hearth::{annotated, heap, process, recent, seats, sites, stack, tls};
use std::hint::black_box;

fn say(inner: u64, outer: u64) {
    // SAFETY: the calling thread's variable, which the runtime brings.
    unsafe {
        core::arch::asm!(
            "mov qword ptr fs:[__hearth_path@TPOFF], {0}",
            "mov qword ptr fs:[__hearth_path@TPOFF + 8], {1}",
            in(reg) inner,
            in(reg) outer,
        );
    }
}

/// ns a turn.
type Way = Box<dyn Fn() -> f64>;

const ROUNDS: usize = 31;
const TURNS: usize = 200_000;

fn spent() -> f64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to a local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as f64 * 1e9 + t.tv_nsec as f64
}

fn per_turn(mut f: impl FnMut()) -> f64 {
    let before = spent();
    (0..TURNS).for_each(|_| f());
    (spent() - before) / TURNS as f64
}

/// As [`hearth::manage`] does it, first and last.
fn pair(size: usize) {
    let seat = seats::of(tls::thread());
    let mut at = recent::take(0, seat, size, 1, false);
    if at.is_null() {
        at = heap::allocate(0, 0, size, 1, false);
    }
    assert!(!at.is_null(), "there is no room");
    // SAFETY: an object of at least a page.
    unsafe { at.write_volatile(1) };
    recent::release(at as usize, size, seat);
}

fn site() {
    black_box(sites::find(stack::site_id(tls::thread(), stack::Asker::Program)));
}

/// Calls itself so often before it does that.
#[inline(never)]
fn deeper(calls: usize) {
    match calls {
        0 => site(),
        n => deeper(n - 1),
    }
    black_box(());
}

fn main() {
    assert!(sites::prepare() && stack::prepare(), "the tables could not be made");
    heap::prepare(1);
    let ways: [(&str, Way); 7] = [
        ("arena alone, 4 KiB", Box::new(|| per_turn(|| pair(4096)))),
        ("arena alone, 64 KiB", Box::new(|| per_turn(|| pair(65536)))),
        ("a reading of the clock", Box::new(|| per_turn(|| _ = black_box(process::time())))),
        (
            "site by its path",
            Box::new(|| {
                say(2 << 32 | 4, 6);
                assert!(annotated::path().is_some(), "no path is read");
                let ns = per_turn(|| {
                    say(2 << 32 | 4, 6);
                    site();
                });
                say(0, 0);
                ns
            }),
        ),
        ("site by its call stack", Box::new(|| per_turn(site))),
        ("the same 10 calls deeper", Box::new(|| per_turn(|| deeper(10)))),
        ("the same 30 calls deeper", Box::new(|| per_turn(|| deeper(30)))),
    ];
    let mut times: Vec<Vec<f64>> = vec![vec![]; ways.len()];
    for _ in 0..ROUNDS {
        for (way, times) in ways.iter().zip(&mut times) {
            times.push(way.1());
        }
    }
    for ((name, _), mut times) in ways.iter().zip(times) {
        times.sort_by(f64::total_cmp);
        println!("{name:26} {:7.1} ns ({:.1}-{:.1})", times[ROUNDS / 2], times[0], times[ROUNDS - 1]);
    }
}
