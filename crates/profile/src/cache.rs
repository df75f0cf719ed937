//! What a last-level cache keeps of the references to it: the filter of the estimator ([`crate::estimate`], step 3, with its sources), and of counts that were
//! made without running a program.

/// How the lines of a site are referenced.
#[derive(Clone, Copy, Debug)]
pub struct Reuse {
    /// References per line and second.
    pub lambda: f64,
    /// At even intervals.
    pub even: bool,
}

/// Lines that are referenced alike.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// How many.
    pub lines: f64,
    /// How each is.
    pub reuse: Reuse,
}

impl Use {
    /// Misses per second.
    pub fn misses(&self, tc: f64) -> f64 {
        self.lines * self.reuse.lambda * self.reuse.missed(tc)
    }
}

/// Even intervals are taken to lie within this share of their mean (evenly spread): programs are not clocks, and the
/// mean is an estimate.
const JITTER: f64 = 0.3;

impl Reuse {
    /// Probability that a reference does not find its line in a cache with this characteristic time.
    pub fn missed(&self, tc: f64) -> f64 {
        // A line never referenced misses nothing, even if all that is referenced fits (`tc` infinite).
        if self.lambda <= 0.0 {
            return 0.0;
        }
        let intervals = self.lambda * tc;
        if self.even { ((1.0 + JITTER - intervals) / (2.0 * JITTER)).clamp(0.0, 1.0) } else { (-intervals).exp() }
    }

    /// Probability that a line is in the cache at any moment: the integral of [`Reuse::missed`].
    fn present(&self, tc: f64) -> f64 {
        if self.lambda <= 0.0 {
            return 0.0;
        }
        let intervals = self.lambda * tc;
        if !self.even {
            return -(-intervals).exp_m1();
        }
        let beyond = (1.0 + JITTER - intervals).clamp(0.0, 2.0 * JITTER);
        intervals.min(1.0 - JITTER) + (4.0 * JITTER * JITTER - beyond * beyond) / (4.0 * JITTER)
    }
}

/// Che's characteristic time in seconds: infinite if everything that is referenced fits.
pub fn characteristic_time(uses: &[Vec<Use>], capacity: f64) -> f64 {
    let present = |tc: f64| uses.iter().flatten().map(|u| u.lines * u.reuse.present(tc)).sum::<f64>();
    if present(f64::INFINITY) <= capacity {
        return f64::INFINITY;
    }
    let (mut low, mut high) = (0.0, 1e-6);
    while present(high) < capacity {
        high *= 2.0;
    }
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if present(middle) < capacity { low = middle } else { high = middle }
    }
    high
}
