//! What moves have cost, and what they have brought. A gain is expected for as long as a record has lived, by prices as they are; but what is asked for by turns in a rhythm that nobody has
//! recognised goes back before that, and where a tier is about as busy as it can be its prices are others after each move. Where moves have not brought what they cost, the next ones are
//! believed less.

use foldhash::HashMap;
use policy::cost::moment::Lines;

/// Moves of a job that are watched at most: each is looked at after every interval. What is moved beside them is not counted.
const MOST: usize = 256;

/// A move that was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Made {
    /// Share of the record that was moved, 0 to 1.
    pub share: f64,
    /// Tier that it was in.
    pub from: usize,
    /// Tier that it is in.
    pub to: usize,
    /// Time that it took, in ns.
    pub took: f64,
    /// For how long it is still expected to gain something, or to lose, in s.
    pub lasts: f64,
    /// It was made in a phase that had come before, of which is known when it ends.
    pub known: bool,
}

/// One that is watched: that record has not gone back, and what was expected of it is not over.
#[derive(Clone, Copy, Debug)]
struct Watched {
    made: Made,
    /// What it has brought up to now, in ns; less than nothing for what made room.
    brought: f64,
}

/// Sums, in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    took: f64,
    brought: f64,
}

/// Of one job.
#[derive(Debug, Default)]
pub struct Account {
    /// By number of the process and address of the record.
    watched: HashMap<(usize, u64), Watched>,
    /// Of those that are over, made in a phase that had not come before, and in one that had. What was long ago counts less: half as much when the job is twice as old.
    over: [Sums; 2],
    /// Intervals that have ended.
    intervals: f64,
}

impl Account {
    /// A record was moved. If it goes back where it was, the move before brings nothing more; a further part of it belongs to the same.
    pub fn made(&mut self, process: usize, addr: u64, made: Made) {
        let key = (process, addr);
        match self.watched.get_mut(&key) {
            Some(Watched { made: before, .. }) if before.to == made.to => {
                before.took += made.took;
                before.share = (before.share + made.share).min(1.0);
                before.lasts = before.lasts.max(made.lasts);
                return;
            }
            Some(_) => self.end(key),
            None => (),
        }
        if self.watched.len() < MOST {
            self.watched.insert(key, Watched { made, brought: 0.0 });
        }
    }

    /// It is over.
    fn end(&mut self, key: (usize, u64)) {
        let Some(Watched { made, brought }) = self.watched.remove(&key) else { return };
        let sums = &mut self.over[usize::from(made.known)];
        *sums = Sums { took: sums.took + made.took, brought: sums.brought + brought };
    }

    /// These of all that are watched are over.
    fn end_if(&mut self, ends: impl Fn(usize, &Watched) -> bool) {
        let over = self.watched.iter().filter(|((process, _), watched)| ends(*process, watched));
        let over: Vec<_> = over.map(|(key, _)| *key).collect();
        over.into_iter().for_each(|key| self.end(key));
    }

    /// Records of a process are no more.
    pub fn departs(&mut self, process: usize, starts: &[u64]) {
        if !self.watched.is_empty() {
            starts.iter().for_each(|start| self.end((process, *start)));
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: usize) {
        self.end_if(|of, _| of == process);
    }

    /// An interval of so many seconds has ended. `asked`: lines a second of a record in it; `gain`: what a second of them costs less in one tier than in another, in ns.
    pub fn over(
        &mut self,
        seconds: f64,
        asked: impl Fn(usize, u64) -> Lines,
        gain: impl Fn(Lines, usize, usize) -> f64,
    ) {
        self.intervals += 1.0;
        let older = self.intervals / (self.intervals + 1.0);
        for sums in &mut self.over {
            *sums = Sums { took: older * sums.took, brought: older * sums.brought };
        }
        for ((process, addr), Watched { made, brought }) in &mut self.watched {
            let lasted = seconds.min(made.lasts);
            *brought += lasted * made.share * gain(asked(*process, *addr), made.from, made.to);
            made.lasts -= lasted;
        }
        self.end_if(|_, watched| watched.made.lasts <= 0.0);
    }

    /// What is to be thought of moves in a phase that had come before, or had not. What is not over counts as if it brought what it took: what is asked for by turns brings nothing for a while.
    pub fn trust(&self, known: bool) -> Trust {
        let of = self.watched.values().filter(|watched| watched.made.known == known);
        let open: f64 = of.map(|watched| watched.made.took).sum();
        let over = self.over[usize::from(known)];
        Trust(Sums { took: over.took + open, brought: over.brought + open })
    }
}

/// How far it is believed what moves promise.
#[derive(Clone, Copy, Debug)]
pub struct Trust(Sums);

impl Trust {
    /// The share of what it promises that a move will bring, 0 to 1, if it takes so long, in ns. All of it if moves have brought what they took, or were little beside this one.
    pub fn share(self, takes: f64) -> f64 {
        let Sums { took, brought } = self.0;
        if brought >= took { 1.0 } else { ((brought + takes) / (took + takes)).clamp(0.0, 1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(from: usize) -> Made {
        Made { share: 1.0, from, to: 1 - from, took: 100.0, lasts: 100.0, known: false }
    }

    /// So many intervals of a second, in which each record is asked for so much.
    fn pass(account: &mut Account, intervals: u32, asked: f64) {
        let lines = Lines { random: asked, ..Lines::default() };
        let gain = |lines: Lines, from: usize, to: usize| (from as f64 - to as f64) * lines.random;
        (0..intervals).for_each(|_| account.over(1.0, |_, _| lines, gain));
    }

    #[test]
    fn moves_that_paid_are_believed() {
        let mut account = Account::default();
        assert_eq!(account.trust(false).share(10.0), 1.0, "nothing is known");
        account.made(0, 4096, made(1));
        pass(&mut account, 50, 0.0);
        assert_eq!(account.trust(false).share(10.0), 1.0, "it may still come");
        pass(&mut account, 50, 20.0);
        assert!(account.watched.is_empty() && account.trust(false).share(10.0) == 1.0);
        account.made(0, 4096, made(1));
        pass(&mut account, 100, 10.0);
        assert_eq!(account.trust(false).share(10.0), 1.0, "a tenth of what is possible, but more than it took");
    }

    #[test]
    fn moves_that_did_not_are_not() {
        let mut account = Account::default();
        pass(&mut account, 100, 10.0);
        account.made(0, 4096, made(1));
        pass(&mut account, 2, 10.0);
        account.made(0, 4096, Made { took: 1.0, ..made(0) });
        let share = |account: &Account, takes| account.trust(false).share(takes);
        assert!((0.15..0.25).contains(&share(&account, 0.0)), "{}", share(&account, 0.0));
        assert!(share(&account, 1000.0) > 0.5, "of small moves that says more than of large ones");
        assert_eq!(account.trust(true).share(1.0), 1.0, "and nothing of moves in a phase that has come before");
        let before = share(&account, 10.0);
        pass(&mut account, 2000, 0.0);
        assert!(share(&account, 10.0) > 2.0 * before, "it is forgotten by and by");
    }

    #[test]
    fn a_swap_that_gains_nothing_in_the_sum_is_seen_as_one() {
        let mut account = Account::default();
        account.made(0, 4096, made(1));
        account.made(0, 8192, made(0));
        // Both are asked for alike.
        pass(&mut account, 50, 10.0);
        account.departs(0, &[4096]);
        assert_eq!(account.watched.len(), 1);
        account.ended(0);
        assert!(account.watched.is_empty());
        assert!(account.trust(false).share(10.0) < 0.1);
    }
}
