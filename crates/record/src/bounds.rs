//! How much may be remembered of a process and of all processes of a user, so that nobody fills a daemon's memory: not by one program, and not by
//! starting many.

use std::collections::HashMap;

/// Most things of one process, and of one user's.
#[derive(Debug)]
pub struct Bounds {
    process: usize,
    user: usize,
    /// What each user has.
    all: HashMap<u32, usize>,
}

impl Bounds {
    /// Nothing is there yet.
    pub fn new(process: usize, user: usize) -> Bounds {
        Bounds { process, user, all: HashMap::new() }
    }

    /// Counts anew: the users of all processes, and what each process has.
    pub fn count(&mut self, all: impl Iterator<Item = (u32, usize)>) {
        self.all.clear();
        all.for_each(|(user, has)| self.more(user, has));
    }

    /// A user has so many more.
    pub fn more(&mut self, user: u32, more: usize) {
        *self.all.entry(user).or_default() += more;
    }

    /// What a process of this user that has so many may have in all.
    pub fn of(&self, user: u32, has: usize) -> usize {
        let others = self.all.get(&user).map_or(0, |all| all.saturating_sub(has));
        self.process.min(self.user.saturating_sub(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processes_of_a_user_have_no_more_than_some() {
        let mut b = Bounds::new(4, 8);
        assert_eq!(b.of(7, 0), 4);
        b.count([(7, 4), (7, 3), (8, 4)].into_iter());
        assert_eq!((b.of(7, 4), b.of(7, 3)), (4, 4), "there is room for one more");
        b.more(7, 1);
        assert_eq!((b.of(7, 4), b.of(7, 0), b.of(8, 4)), (4, 0, 4), "a third one of that user has nothing");
        b.count([(7, 4), (8, 4)].into_iter());
        assert_eq!(b.of(7, 0), 4, "who ends makes room");
    }
}
