//! How fast `live` moves memory, against one bare call of move_pages(2) for the same pages, and how long at most a thread that touches them waits
//! meanwhile: where pages are small, and where they are huge, or of one kind. For a machine with two nodes and two processors:
//!
//!     hearth lab run --vcpus 2 --fast 40MiB -- target/release/live-moving [small|huge] [alone]
//!
//! `alone`: no thread touches them, and so nobody waits. On one processor the times are the same in each run then.

use memmap2::Advice;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;
const MIB: u64 = 16;

/// Memory that one thread touches, a byte of a page at random after the other, while another one moves it.
struct Touched {
    start: u64,
    over: AtomicBool,
    /// The longest time between two touches, in ns.
    longest: AtomicU64,
}

impl Touched {
    fn touch(&self) {
        let (mut random, mut before) = (1u64, Instant::now());
        while !self.over.load(Relaxed) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = self.start + (random >> 33) % (MIB << 8) * PAGE;
            // SAFETY: within the mapping, which this thread alone reads.
            black_box(unsafe { std::ptr::read_volatile(at as *const u8) });
            let now = Instant::now();
            self.longest.fetch_max((now - before).as_nanos() as u64, Relaxed);
            before = now;
        }
    }

    /// Lets `how` move all of it to a node; gives the time that takes and the longest wait, in ms. Five times, and the least of each: the kernel has other things
    /// to do now and then, and the emulator's threads stand still for each other where the host is busy.
    fn moved(&self, to: u32, how: impl Fn(u64, u64)) -> (Duration, f64) {
        let once = || {
            self.bare(1 - to);
            self.longest.store(0, Relaxed);
            let began = Instant::now();
            how(self.start, MIB << 20);
            let took = began.elapsed();
            let wait = self.longest.load(Relaxed) as f64 / 1e6;
            let nodes = live::pages::look(std::process::id() as i32, &self.pages()).expect("one may look at oneself");
            assert!(nodes.iter().all(|n| *n == to as i32), "not all was moved to node {to}");
            (took, wait)
        };
        let times: Vec<(Duration, f64)> = (0..5).map(|_| once()).collect();
        let least = |a: (Duration, f64), b: &(Duration, f64)| (a.0.min(b.0), a.1.min(b.1));
        times.iter().fold(times[0], least)
    }

    fn pages(&self) -> Vec<u64> {
        (self.start..self.start + (MIB << 20)).step_by(PAGE as usize).collect()
    }

    /// One call for all of it.
    fn bare(&self, to: u32) {
        record::pages::send(std::process::id() as i32, &self.pages(), to).expect("one may move one's own");
    }
}

fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let is_asked = |word: &str| asked.iter().any(|asked| asked == word);
    let all = !is_asked("small") && !is_asked("huge");
    for (pages, advice) in [("small", Advice::NoHugePage), ("huge", Advice::HugePage)] {
        if !all && !is_asked(pages) {
            continue;
        }
        let mut map = memmap2::MmapMut::map_anon(((MIB << 20) + 2 * HUGE) as usize).expect("there is memory");
        map.advise(advice).expect("it is advice");
        map.fill(1);
        let huge = huge_bytes();
        assert!((advice == Advice::HugePage) == (huge >= MIB << 20), "{huge} bytes are in huge pages");
        measure(pages, (map.as_ptr() as u64).next_multiple_of(HUGE), is_asked("alone"));
        assert!(huge_bytes() == huge, "huge pages did not stay so");
    }
}

/// Bytes of this process that are in huge pages.
fn huge_bytes() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").expect("the kernel tells");
    let kib = rollup.lines().find_map(|line| line.strip_prefix("AnonHugePages:")?.strip_suffix("kB"));
    kib.map_or(0, |kib| kib.trim().parse::<u64>().expect("a number") << 10)
}

fn measure(pages: &str, start: u64, alone: bool) {
    let touched = Touched { start, over: AtomicBool::new(false), longest: AtomicU64::new(0) };
    let me = std::process::id() as i32;
    std::thread::scope(|scope| {
        if !alone {
            scope.spawn(|| touched.touch());
        }
        for to in [0, 1] {
            let (bare, wait) = touched.moved(to, |_, _| touched.bare(to));
            let pace = MIB as f64 / bare.as_secs_f64();
            println!("{pages} pages to node {to}: one call {pace:.0} MiB/s, longest wait {wait:.3} ms");
            let (steps, wait) = touched.moved(to, |start, bytes| {
                for at in (start..start + bytes).step_by(HUGE as usize) {
                    live::pages::send(me, &[(at, HUGE)], to, |n| n == to).expect("one may move one's own");
                }
            });
            let ratio = bare.as_secs_f64() / steps.as_secs_f64();
            println!("{pages} pages to node {to}: live {ratio:.3} of its pace, longest wait {wait:.3} ms");
        }
        touched.over.store(true, Relaxed);
    });
}
