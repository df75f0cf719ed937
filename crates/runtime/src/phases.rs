//! Phases: what the plan moves when something happens for the n-th time, and again each so many times.
//!
//! What happens is a parallel region of some function ([`crate::regions`]) or an allocation of some site. Each is counted in this process, and
//! compared with the next number that the plan names.

use crate::sites::Site;
use crate::{mover, plan};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use wire::image::ImageMove;

/// How often something has happened.
pub struct Count {
    number: AtomicU64,
    /// The next number that the plan names, or one before it; `u64::MAX`: there is none.
    wanted: AtomicU64,
}

impl Count {
    /// It has not happened yet.
    pub const fn zero() -> Count {
        Count { number: AtomicU64::new(0), wanted: AtomicU64::new(0) }
    }

    /// What has this id happens once more; phases begin that begin with it. Gives how often it has happened.
    pub fn happens(&self, id: u64) -> u64 {
        let number = self.number.fetch_add(1, Relaxed) + 1;
        if self.wanted.load(Relaxed) <= number {
            self.compare(id, number);
        }
        number
    }

    #[cold]
    fn compare(&self, id: u64, number: u64) {
        let moves = || plan::image().into_iter().flat_map(|i| i.moves()).filter(|m| m.begins == id);
        let now = move |m: &ImageMove| m.next(number - 1) == Some(number);
        if moves().any(|m| now(&m)) {
            mover::begin(moves().filter(now));
        }
        // Threads that allocate at once may write this in another order: then it is too early, and is found again.
        self.wanted.store(moves().filter_map(|m| m.next(number)).min().unwrap_or(u64::MAX), Relaxed);
    }
}

/// Most sites whose allocations phases begin with.
const MOST: usize = 64;

/// Their ids, and how often they have allocated.
static SITES: [(AtomicU64, Count); MOST] = [const { (AtomicU64::new(0), Count::zero()) }; MOST];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Looks up in the plan what phases begin with. Of functions of regions nobody will ask here.
pub fn prepare() {
    let mut used = 0;
    for m in plan::image().into_iter().flat_map(|i| i.moves()) {
        let known = SITES.iter().take(used).any(|s| s.0.load(Relaxed) == m.begins);
        if let Some((id, _)) = SITES.get(used).filter(|_| !known) {
            id.store(m.begins, Relaxed);
            used += 1;
        }
    }
    USED.store(used, Release);
}

/// A site has allocated.
pub fn allocated(site: &Site) {
    let sites = SITES.get(..USED.load(Relaxed)).unwrap_or(&[]);
    if sites.is_empty() {
        return;
    }
    // What the plan does not tell apart counts as all of its stack.
    let id = site.id.load(Relaxed);
    let of = |id: u64| sites.iter().find(|s| s.0.load(Relaxed) == id);
    let apart = || plan::image().is_none_or(|i| i.target_of(id).is_none()).then(|| site.apart()).flatten();
    let found = of(id).or_else(|| apart().and_then(|a| of(a.stack)));
    if let Some((id, count)) = found {
        count.happens(id.load(Relaxed));
    }
}
