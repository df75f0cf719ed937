//! What `hearth_alloc` and `hearth_free` cost beside their own arena. Prints Markdown.
//!
//!     cargo bench -p hearth-api --bench arena
//!
//! The arena is the library's heap (whole pages) and its blocks of small objects, called directly under a lock of their own, as any that threads
//! share, with a table that says how large what begins at an address is, as any needs that frees by the address alone. The rest is what makes objects of them: traits, the tier, what is remembered of each. Pairs of an allocation and an end,
//! 64 objects alive in each thread; rounds alternate, and the medians of the rounds' ratios are shown.

use foldhash::HashMap;
use hearth_api::c::{hearth_alloc, hearth_free};
use hearth_api::heap::Heap;
use hearth_api::small::{self, Block, End, Small};
use hearth_api::wish::Trait;
use std::sync::{Barrier, Mutex, PoisonError};
use std::time::Instant;

const ROUNDS: usize = 21;
const LIVE: usize = 64;
const PAGE: usize = 4096;
/// The highest bandwidth is preferred, and it is walked over.
const TRAITS: [Trait; 2] = [Trait { key: 2, value: 1 }, Trait { key: 6, value: 1 }];

/// One tier's memory.
struct Arena {
    heap: Heap,
    small: Small,
    /// Where places are taken from, by class.
    blocks: HashMap<usize, &'static Block>,
    sizes: HashMap<usize, usize>,
}

impl Arena {
    fn begin(&mut self, size: usize) -> usize {
        if size > small::LARGEST {
            let at = self.heap.take(size, 1).expect("a run").0;
            self.sizes.insert(at, size);
            return at;
        }
        let class = small::class(size, 16);
        if let Some(at) = self.blocks.get(&class).and_then(|block| block.take(0)) {
            return at;
        }
        if let Some(full) = self.blocks.remove(&class) {
            self.small.leave(full);
        }
        let block = self.small.own(0, class).unwrap_or_else(|| {
            let block = self.heap.take(small::BLOCK, small::BLOCK).expect("a block").0;
            self.small.add(block, 0, class).expect("addresses")
        });
        self.blocks.insert(class, block);
        block.take(0).expect("a place")
    }

    fn end(&mut self, at: usize) {
        match small::end(at) {
            End::Done => {}
            End::LookAt(block) => {
                if let Some((block, _)) = self.small.look_at(block) {
                    self.heap.put(block, small::BLOCK, false);
                }
            }
            End::None => {
                let size = self.sizes.remove(&at).expect("a run");
                self.heap.put(at, size, false);
            }
        }
    }
}

/// Nanoseconds of a pair, in the slowest thread.
fn pairs(
    threads: usize,
    (size, count, touch): (usize, usize, bool),
    begin: impl Fn() -> usize + Sync,
    end: impl Fn(usize) + Sync,
) -> f64 {
    let barrier = Barrier::new(threads);
    let one = || {
        let mut live = [0; LIVE];
        barrier.wait();
        let began = Instant::now();
        for turn in 0..count {
            let slot = &mut live[turn % LIVE];
            if *slot != 0 {
                end(*slot);
            }
            *slot = begin();
            for at in (0..size).step_by(PAGE).take_while(|_| touch) {
                // SAFETY: an object of so many bytes.
                unsafe { ((*slot + at) as *mut u8).write_volatile(1) };
            }
        }
        live.iter().filter(|&&at| at != 0).for_each(|&at| end(at));
        began.elapsed().as_nanos() as f64 / count as f64
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        running.into_iter().map(|t| t.join().expect("a time")).fold(0.0, f64::max)
    })
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() {
    let arena = Mutex::new(Arena {
        heap: Heap::new(0, true).expect("address space"),
        small: Small::default(),
        blocks: HashMap::default(),
        sizes: HashMap::default(),
    });
    let arena = || arena.lock().unwrap_or_else(PoisonError::into_inner);
    println!(
        "| bytes | threads | calls alone | arena, ns | each page touched | arena, ns |\n|--:|--:|--:|--:|--:|--:|"
    );
    for size in [64, 4 << 10, 64 << 10, 1 << 20, 16 << 20] {
        for threads in [1, 2] {
            print!("| {size} | {threads} |");
            for touch in [false, true] {
                let count = if touch { (256 << 20) / size.max(16 << 10) } else { 20_000 };
                let (mut ratios, mut times) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    let what = (size, count, touch);
                    let below = pairs(threads, what, || arena().begin(size), |at| arena().end(at));
                    let whole = pairs(
                        threads,
                        what,
                        // SAFETY: two traits, and no place for an error.
                        || unsafe { hearth_alloc(size, std::ptr::null_mut(), TRAITS.len(), TRAITS.as_ptr()) } as usize,
                        |at| assert_eq!(hearth_free(at as *mut _), 0),
                    );
                    ratios.push(whole / below);
                    times.push(below);
                }
                print!(" {:.2}x | {:.0} |", median(ratios), median(times));
            }
            println!();
        }
    }
}
