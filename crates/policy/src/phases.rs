//! Unimem's decision (Wu, Huang, Li: Unimem, SC 2017, section 3.1): which objects are in fast memory in which phase of a loop.
//!
//! For each phase and object the *benefit* of being in fast memory (Equations 1 to 3), the *cost* of getting there in time
//! (Equation 4, [`crate::cost::migration`]) and, if something has to leave, of that too; their difference is the weight (Equation 5) of
//! a 0/1 knapsack. *Phase-local search* decides phase by phase, knowing what the phases before have left in fast memory; *global
//! search* takes all phases as one and moves nothing in between; the better predicted one is taken.
//!
//! The policy `phase-local` decides so for the segments of a profile's run; `phase-global` takes the benefits of its intervals; and `unimem` is the better of these two
//! by the cost model, not by what they promise. So the global search with its copies and the choice by promise are here as the paper has them, for its
//! worked examples.

use crate::cost::memory::Memory;
use crate::cost::migration;
use crate::policies::knapsack::choose;
use model::Bytes;

/// Bandwidth-sensitive from this share of the slow memory's peak on (t1, section 3.1.2).
const T1: f64 = 0.8;
/// Latency-sensitive below this one (t2).
const T2: f64 = 0.1;

/// What an object does in a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Access {
    /// Which object.
    pub object: usize,
    /// Its accesses to main memory, in lines.
    pub lines: f64,
    /// Share (0 to 1) of the phase in which it is accessed: #samples with accesses / #samples.
    pub share: f64,
}

/// A phase of a loop.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its time, in ns.
    pub time: f64,
    /// What it accesses.
    pub accesses: Vec<Access>,
}

/// The machine: a slow and a fast memory, and the two factors that STREAM and a pointer chase calibrate.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Slow memory ("NVM").
    pub slow: Memory,
    /// Fast memory ("DRAM").
    pub fast: Memory,
    /// Room in fast memory.
    pub room: Bytes,
    /// CF_bw: measured / predicted time of a stream.
    pub cf_bw: f64,
    /// CF_lat: measured / predicted time of a pointer chase.
    pub cf_lat: f64,
}

impl Machine {
    /// Equations 1 to 3: ns saved in a phase by an object in fast memory.
    pub fn benefit(&self, access: &Access, time: f64) -> f64 {
        let peak = 1.0 / self.slow.busy(1.0, 0.0).max(f64::MIN_POSITIVE);
        let sensitivity = access.lines / (access.share * time).max(f64::MIN_POSITIVE) / peak;
        let bandwidth = (self.slow.busy(access.lines, 0.0) - self.fast.busy(access.lines, 0.0)) * self.cf_bw;
        let latency = access.lines * (self.slow.latency(0.0) - self.fast.latency(0.0)) * self.cf_lat;
        match sensitivity {
            s if s >= T1 => bandwidth,
            s if s < T2 => latency,
            _ => bandwidth.max(latency),
        }
    }
}

/// What is in fast memory in each phase, and what that is predicted to gain.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// For each phase, of each object; of several iterations as in the second one.
    pub fast: Vec<Vec<bool>>,
    /// Moves into and out of fast memory, from everything slow through one iteration.
    pub moves: usize,
    /// Bytes of these.
    pub moved: Bytes,
    /// Benefit of `iterations` less what moving costs them, in ns.
    pub gain: f64,
}

/// A loop to decide on.
#[derive(Clone, Debug)]
pub struct Loop {
    /// Sizes of the objects.
    pub sizes: Vec<Bytes>,
    /// Its phases, in order.
    pub phases: Vec<Phase>,
    /// How often it is run.
    pub iterations: u64,
}

impl Loop {
    /// The better of both searches (section 3.1.3).
    pub fn unimem(&self, machine: &Machine) -> Schedule {
        let (local, global) = (self.phase_local(machine), self.phase_global(machine));
        if local.gain > global.gain { local } else { global }
    }

    /// Time until phase `now` begins in which the object is not accessed: from the end of the last phase that did (Fig. 5). It
    /// looks back at most one iteration, and in the `first` one no further than its beginning.
    fn idle_before(&self, object: usize, now: usize, first: bool) -> f64 {
        let count = self.phases.len();
        let back = if first { now + 1 } else { count };
        let before = (1..back).map(|back| &self.phases[(now + count - back) % count]);
        before.take_while(|p| !p.accesses.iter().any(|a| a.object == object && a.lines > 0.0)).map(|p| p.time).sum()
    }

    /// Phase by phase.
    pub fn phase_local(&self, machine: &Machine) -> Schedule {
        let mut resident = vec![false; self.sizes.len()];
        let first = self.iteration(machine, &mut resident, true);
        if self.iterations == 1 {
            return first;
        }
        // From the second one on iterations begin with what the one before has left.
        let steady = self.iteration(machine, &mut resident, false);
        let gain = first.gain + steady.gain * (self.iterations - 1) as f64;
        Schedule { gain, fast: steady.fast, ..first }
    }

    /// One iteration from what is resident when it begins.
    fn iteration(&self, machine: &Machine, resident: &mut [bool], first: bool) -> Schedule {
        let mut out = Schedule { fast: Vec::new(), moves: 0, moved: Bytes(0), gain: 0.0 };
        for (now, phase) in self.phases.iter().enumerate() {
            let used = |r: &[bool]| -> u64 { r.iter().zip(&self.sizes).filter(|(r, _)| **r).map(|(_, s)| s.0).sum() };
            let free = machine.room.0.saturating_sub(used(resident));
            let mut items: Vec<(usize, f64, f64)> = Vec::new();
            for a in &phase.accesses {
                let size = self.sizes[a.object];
                let benefit = machine.benefit(a, phase.time);
                let cost = if resident[a.object] {
                    0.0
                } else {
                    let overlap = self.idle_before(a.object, now, first);
                    let evicted = Bytes(size.0.saturating_sub(free));
                    migration::cost(size, &machine.slow, &machine.fast, overlap)
                        + migration::cost(evicted, &machine.fast, &machine.slow, overlap)
                };
                if benefit - cost > 0.0 {
                    items.push((a.object, benefit, cost));
                }
            }
            items.sort_by(|a, b| {
                let density = |i: &(usize, f64, f64)| (i.1 - i.2) / self.sizes[i.0].0.max(1) as f64;
                density(b).total_cmp(&density(a)).then(a.0.cmp(&b.0))
            });
            let weights: Vec<(u64, f64)> = items.iter().map(|i| (self.sizes[i.0].0, i.1 - i.2)).collect();
            let chosen: Vec<usize> =
                items.iter().zip(choose(&weights, machine.room.0)).filter(|(_, c)| *c).map(|(i, _)| i.0).collect();
            for &object in &chosen {
                if resident[object] {
                    continue;
                }
                // Just so much leaves that it fits: what this phase does not want, the smallest that is enough, else the largest.
                while used(resident) + self.sizes[object].0 > machine.room.0 {
                    let lacks = used(resident) + self.sizes[object].0 - machine.room.0;
                    let mut out_of: Vec<usize> =
                        (0..resident.len()).filter(|o| resident[*o] && !chosen.contains(o)).collect();
                    out_of.sort_by_key(|&o| (self.sizes[o], o));
                    let leaves = out_of.iter().find(|&&o| self.sizes[o].0 >= lacks).or(out_of.last());
                    let &leaves = leaves.expect("what was chosen fits without the rest");
                    resident[leaves] = false;
                    out.moves += 1;
                    out.moved += self.sizes[leaves];
                }
                resident[object] = true;
                out.moves += 1;
                out.moved += self.sizes[object];
                out.gain -= items.iter().find(|i| i.0 == object).map_or(0.0, |i| i.2);
            }
            let benefits = phase.accesses.iter().filter(|a| resident[a.object]).map(|a| machine.benefit(a, phase.time));
            out.gain += benefits.sum::<f64>();
            out.fast.push(resident.to_vec());
        }
        out
    }

    /// Of each object the benefit over all phases.
    pub fn benefits(&self, machine: &Machine) -> Vec<f64> {
        let mut out = vec![0.0; self.sizes.len()];
        for phase in &self.phases {
            for a in &phase.accesses {
                out[a.object] += machine.benefit(a, phase.time);
            }
        }
        out
    }

    /// Of all sets of objects that fit into fast memory the one that weighs most.
    pub fn heaviest(&self, machine: &Machine, weights: &[f64]) -> Vec<bool> {
        let mut order: Vec<usize> = (0..self.sizes.len()).filter(|&o| weights[o] > 0.0).collect();
        let density = |o: usize| weights[o] / self.sizes[o].0.max(1) as f64;
        order.sort_by(|&a, &b| density(b).total_cmp(&density(a)).then(a.cmp(&b)));
        let items: Vec<(u64, f64)> = order.iter().map(|&o| (self.sizes[o].0, weights[o])).collect();
        let mut fast = vec![false; self.sizes.len()];
        for (&o, chosen) in order.iter().zip(choose(&items, machine.room.0)) {
            fast[o] = chosen;
        }
        fast
    }

    /// All phases as one: no moves in between.
    pub fn phase_global(&self, machine: &Machine) -> Schedule {
        let benefits = self.benefits(machine);
        let iterations = self.iterations as f64;
        let weight = |o: usize| benefits[o] * iterations - migration::copy(self.sizes[o], &machine.slow, &machine.fast);
        let fast = self.heaviest(machine, &(0..self.sizes.len()).map(weight).collect::<Vec<_>>());
        let inside = || (0..fast.len()).filter(|&o| fast[o]);
        Schedule {
            moves: inside().count(),
            moved: inside().map(|o| self.sizes[o]).sum(),
            gain: inside().map(weight).sum(),
            fast: vec![fast.clone(); self.phases.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::memory::tests::tier;

    /// A slow memory of 1 GB/s (64 ns a line) and 400 ns, a fast one of 64 GB/s and 100 ns, with this much room.
    fn machine(room: u64) -> Machine {
        let of = |t| Memory::of(&t, &mut vec![]);
        Machine {
            slow: of(tier("nvm", 400, 1.0, 1.0)),
            fast: of(tier("dram", 100, 64.0, 64.0)),
            room: Bytes(room),
            cf_bw: 1.0,
            cf_lat: 1.0,
        }
    }

    fn phase(time: f64, accesses: &[(usize, f64)]) -> Phase {
        Phase { time, accesses: accesses.iter().map(|&(object, lines)| Access { object, lines, share: 1.0 }).collect() }
    }

    /// Equation 1's example: 10 s, of which a hundredth of the samples has accesses, is 0.1 s. At 64 ns a line 0.1 s holds
    /// 1.56 million lines, so 1.3 million are above 80 % of the peak, 0.1 million below 10 %, and 0.5 million in between.
    #[test]
    fn equations_one_to_three() {
        let m = machine(0);
        let benefit = |lines: f64| m.benefit(&Access { object: 0, lines, share: 0.01 }, 10e9);
        assert!((benefit(1.3e6) - 1.3e6 * 63.0).abs() < 1.0, "bandwidth: 64 - 1 ns a line");
        assert!((benefit(1e5) - 1e5 * 300.0).abs() < 1.0, "latency: 400 - 100 ns");
        assert!((benefit(5e5) - 5e5 * 300.0).abs() < 1.0, "the larger of both");
        let halved = Machine { cf_bw: 0.5, ..machine(0) };
        assert!((halved.benefit(&Access { object: 0, lines: 1.3e6, share: 0.01 }, 10e9) - 1.3e6 * 31.5).abs() < 1.0);
    }

    /// Figure 5: *a* is accessed in phase 0 (j - 1) and again in phase 3 (i), so it can move during phases 1 and 2 (from j on).
    #[test]
    fn moving_overlaps_with_the_phases_that_do_not_need_it() {
        let l = Loop {
            sizes: vec![Bytes(100), Bytes(100)],
            phases: vec![phase(5.0, &[(0, 1.0)]), phase(7.0, &[(1, 1.0)]), phase(11.0, &[]), phase(13.0, &[(0, 1.0)])],
            iterations: 1,
        };
        assert_eq!(l.idle_before(0, 3, true), 18.0);
        assert_eq!(l.idle_before(0, 0, false), 0.0, "phase 3 of the iteration before accessed it");
        assert_eq!(l.idle_before(1, 1, false), 5.0 + 13.0 + 11.0, "back through the iteration before");
        assert_eq!(l.idle_before(1, 1, true), 5.0, "there was none");
    }

    /// Figure 6: three objects, five phases, room for two. The local search moves eight times, the global one twice. (The figure's
    /// letters are not in the paper's text; these phases have the properties that it states.)
    fn five_phases(lines: f64, iterations: u64) -> Loop {
        let (a, b, c) = (0, 1, 2);
        let of = |objects: &[usize]| phase(1e9, &objects.iter().map(|&o| (o, lines)).collect::<Vec<_>>());
        Loop {
            sizes: vec![Bytes(1 << 20); 3],
            phases: vec![of(&[a]), of(&[b]), of(&[b, c]), of(&[a, b]), of(&[c])],
            iterations,
        }
    }

    #[test]
    fn the_five_phases_of_unimem() {
        let machine = machine(2 << 20);
        let l = five_phases(1e6, 1);
        let local = l.phase_local(&machine);
        assert_eq!(local.moves, 8);
        assert!(local.fast[0][0] && local.fast[1][1] && local.fast[2][1] && local.fast[2][2]);
        assert!(local.fast[3][0] && local.fast[3][1] && local.fast[4][2]);
        let global = l.phase_global(&machine);
        assert_eq!((global.moves, global.moved), (2, Bytes(2 << 20)));
        assert_eq!(global.fast[0], [true, true, false], "b is accessed most, a and c alike");
    }

    /// Moving is hidden behind a second of phase: local wins. Where each move has to be waited for and each phase is short, global.
    #[test]
    fn unimem_takes_the_better_of_both() {
        let machine = machine(2 << 20);
        let long = five_phases(1e6, 100);
        assert_eq!(long.unimem(&machine), long.phase_local(&machine));
        assert!(long.phase_local(&machine).gain > long.phase_global(&machine).gain);
        let mut short = five_phases(4e3, 100);
        for p in &mut short.phases {
            p.time = 1e5;
        }
        assert_eq!(short.unimem(&machine), short.phase_global(&machine));
    }

    /// Of all sets that fit, the global search takes the one that saves most.
    #[test]
    fn the_global_search_is_the_best_subset() {
        let machine = machine(100);
        for seed in 1..40u64 {
            let n = 6;
            let draw = |i: u64| (seed * 7919 + i * 104_729) % 97 + 1;
            let l = Loop {
                sizes: (0..n).map(|i| Bytes(draw(i))).collect(),
                phases: vec![phase(1e9, &(0..n).map(|i| (i as usize, draw(i + 50) as f64 * 1e3)).collect::<Vec<_>>())],
                iterations: 1,
            };
            let size = |set: u64| (0..n).filter(|i| set >> i & 1 == 1).map(|i| l.sizes[i as usize].0).sum::<u64>();
            let gain = |set: u64| {
                let inside = (0..n as usize).filter(|i| set >> i & 1 == 1);
                inside
                    .map(|i| l.benefits(&machine)[i] - migration::copy(l.sizes[i], &machine.slow, &machine.fast))
                    .sum::<f64>()
            };
            let best = (0..1 << n).filter(|&s| size(s) <= 100).map(gain).fold(0.0, f64::max);
            assert!((l.phase_global(&machine).gain - best).abs() < 1e-3, "seed {seed}");
        }
    }
}
