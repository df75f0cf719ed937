//! Whose turn it is in the lab: an emulated machine with two processors has the host for itself, two with one each run side by side. More than that
//! at a time would say little of a time limit, and take much memory.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Machines with one processor that run side by side.
const PLACES: u32 = 2;

#[derive(Debug)]
struct Places {
    free: u32,
    /// Tests that wait for all places: whoever comes later lets them go first, or they would wait for the last.
    all_wanted: u32,
}

static PLACES_NOW: Mutex<Places> = Mutex::new(Places { free: PLACES, all_wanted: 0 });
static CHANGED: Condvar = Condvar::new();

/// A test's right to machines, given back when dropped.
#[derive(Debug)]
pub struct Turn(u32);

impl Turn {
    /// Whether nobody else has a machine meanwhile.
    pub fn is_alone(&self) -> bool {
        self.0 == PLACES
    }

    /// Waits until nobody else has a machine.
    pub fn alone() -> Turn {
        let mut places = now();
        places.all_wanted += 1;
        places = CHANGED.wait_while(places, |p| p.free < PLACES).unwrap_or_else(PoisonError::into_inner);
        places.all_wanted -= 1;
        places.free = 0;
        Turn(PLACES)
    }

    /// Waits until there is a place beside others.
    pub fn beside() -> Turn {
        let wait = |p: &mut Places| p.free == 0 || p.all_wanted > 0;
        let mut places = CHANGED.wait_while(now(), wait).unwrap_or_else(PoisonError::into_inner);
        places.free -= 1;
        Turn(1)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        now().free += self.0;
        CHANGED.notify_all();
    }
}

// A test that failed has left nothing behind that hurts the next.
fn now() -> MutexGuard<'static, Places> {
    PLACES_NOW.lock().unwrap_or_else(PoisonError::into_inner)
}
