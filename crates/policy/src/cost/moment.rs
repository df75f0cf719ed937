//! The model of a stretch of time that has just passed: what each tier was asked for in it, what one line more of a kind would
//! have cost there, and how long it would have taken had something else lain elsewhere.

use super::demand::{Interval, Machine, Use};
use super::memory::Memory;
use super::step::{self, Load, Part};

/// Lines that were asked for, by how the program waits for them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lines {
    /// Load misses that come one by one.
    pub random: f64,
    /// Load misses that the prefetcher had fetched ahead.
    pub stream: f64,
    /// Store misses.
    pub stores: f64,
    /// Lines written back.
    pub written: f64,
    /// Lines read beside all misses.
    pub beside: f64,
}

impl Lines {
    /// Misses of loads and stores.
    pub fn misses(&self) -> f64 {
        self.random + self.stream + self.stores
    }

    /// Nothing was asked for.
    pub fn is_none(&self) -> bool {
        *self == Lines::default()
    }

    /// Each kind by itself, of both.
    pub fn with(self, other: Lines, f: impl Fn(f64, f64) -> f64) -> Lines {
        Lines {
            random: f(self.random, other.random),
            stream: f(self.stream, other.stream),
            stores: f(self.stores, other.stores),
            written: f(self.written, other.written),
            beside: f(self.beside, other.beside),
        }
    }

    /// So many times as many.
    pub fn times(self, factor: f64) -> Lines {
        self.with(self, |a, _| a * factor)
    }

    /// What these cost at such prices, in ns.
    pub fn at(self, prices: Lines) -> f64 {
        let cost = self.with(prices, |lines, price| lines * price);
        cost.misses() + cost.written + cost.beside
    }

    fn of_tier(self, tier: usize) -> Use {
        let Lines { random, stream, stores, written, beside } = self;
        Use { site: tier, random, stream, stores, written, beside, alone: None, queued: 0.0, scale: 1.0 }
    }
}

/// A stretch of time.
#[derive(Clone, Debug)]
pub struct Moment {
    memories: Vec<Memory>,
    interval: Interval,
}

impl Moment {
    /// So many ns, in which each of the tiers was asked for these lines.
    pub fn new(length: f64, asked: &[Lines], memories: &[Memory]) -> Moment {
        let uses = asked.iter().enumerate().map(|(tier, lines)| lines.of_tier(tier)).collect();
        let mut interval = Interval { length, compute: 0.0, overlap: 1.0, felt: 1.0, uses };
        let own = |tier: usize| (0..memories.len()).map(|k| f64::from(u8::from(k == tier))).collect();
        let machine = Machine {
            memories: memories.to_vec(),
            shares: (0..memories.len()).map(own).collect(),
            measured: vec![None; memories.len()],
        };
        machine.take_off(&mut interval);
        Moment { memories: memories.to_vec(), interval }
    }

    /// How long it takes with these lines more (or, negative, less) in the tiers, in ns.
    pub fn time(&self, more: &[Lines]) -> f64 {
        let mut loads = vec![Load::default(); self.memories.len()];
        for (k, load) in loads.iter_mut().enumerate() {
            let seen = &self.interval.uses[k];
            load.add(seen, self.interval.overlap, Part::even(1.0));
            let more = Use { scale: seen.scale, ..more.get(k).copied().unwrap_or_default().of_tier(k) };
            load.add(&more, self.interval.overlap, Part::even(1.0));
            for lines in [&mut load.waits, &mut load.ahead, &mut load.reads, &mut load.writes] {
                *lines = lines.max(0.0);
            }
        }
        step::time(self.interval.compute, self.interval.felt, &self.memories, &loads)
    }

    /// What one line more of each kind costs in a tier, in ns, with these lines more (or, negative, less) in the tiers.
    pub fn prices(&self, with: &[Lines], tier: usize) -> Lines {
        let all: f64 = self.interval.uses.iter().map(|u| u.lines() + u.written).sum();
        // So many that the difference is one of times and not of rounding.
        let lines = all / 100.0 + 1000.0;
        let now = self.time(with);
        let price = |kind: Lines| {
            let mut more = with.to_vec();
            more.resize(self.memories.len(), Lines::default());
            more[tier] = more[tier].with(kind.times(lines), |a, b| a + b);
            (self.time(&more) - now) / lines
        };
        let none = Lines::default();
        Lines {
            random: price(Lines { random: 1.0, ..none }),
            stream: price(Lines { stream: 1.0, ..none }),
            stores: price(Lines { stores: 1.0, ..none }),
            written: price(Lines { written: 1.0, ..none }),
            beside: price(Lines { beside: 1.0, ..none }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::tests::tier;
    use super::*;

    fn memories() -> Vec<Memory> {
        [tier("fast", 100, 64.0, 64.0), tier("slow", 300, 6.4, 3.2)]
            .iter()
            .map(|t| Memory::of(t, &mut vec![]))
            .collect()
    }

    #[test]
    fn with_nothing_more_it_takes_as_long_as_it_did() {
        let asked =
            [Lines { random: 1000.0, ..Lines::default() }, Lines { stream: 2e4, stores: 50.0, ..Lines::default() }];
        for length in [1e6, 5e6] {
            let moment = Moment::new(length, &asked, &memories());
            assert!((moment.time(&[]) / length - 1.0).abs() < 0.02, "{} of {length}", moment.time(&[]));
        }
    }

    #[test]
    fn a_lone_miss_costs_its_latency_and_a_full_bus_its_share() {
        let idle = Moment::new(1e8, &[Lines::default(); 2], &memories());
        let (fast, slow) = (idle.prices(&[], 0), idle.prices(&[], 1));
        assert!((fast.random - 100.0).abs() < 5.0 && (slow.random - 300.0).abs() < 15.0, "{fast:?} {slow:?}");
        assert!(slow.stream > fast.stream && slow.stream < slow.random / 10.0);
        // Half of the lines are on their way all the time: 10 ns each to read.
        let full = Moment::new(1e6, &[Lines::default(), Lines { stream: 1e5, ..Lines::default() }], &memories());
        let price = full.prices(&[], 1).stream;
        assert!((7.0..30.0).contains(&price), "{price}");
        assert!(full.prices(&[], 1).written > full.prices(&[], 1).beside, "writing is slower");
        let moved = [Lines { stream: 1e5, ..Lines::default() }, Lines { stream: -1e5, ..Lines::default() }];
        assert!(full.time(&moved) < 0.5 * full.time(&[]));
    }

    /// By prices as they are it would gain a little if all lines left memory that they make dear themselves.
    #[test]
    fn what_moves_takes_its_load_with_it() {
        let all = Lines { random: 9.5e6, ..Lines::default() };
        let busy = Moment::new(1e7, &[all, Lines::default()], &memories());
        let gain = |with: &[Lines]| all.at(busy.prices(with, 0)) - all.at(busy.prices(with, 1));
        let moved = [all.times(-1.0), all];
        let real = busy.time(&[]) - busy.time(&moved);
        assert!(real < 0.0 && gain(&[]) > 0.0, "{real} {}", gain(&[]));
        let between = (gain(&[]) + gain(&moved)) / 2.0;
        assert!(between < 0.0, "{between} where it is {real}");
    }

    #[test]
    fn cost_is_lines_times_prices() {
        let lines = Lines { random: 2.0, written: 3.0, ..Lines::default() };
        let prices = Lines { random: 10.0, stream: 99.0, written: 1.0, ..Lines::default() };
        assert_eq!(lines.at(prices), 23.0);
        assert!(Lines::default().is_none() && !lines.is_none());
    }
}
