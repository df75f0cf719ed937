//! Memory of which the program has said itself where it belongs (mbind(2), set_mempolicy(2), numactl): it is observed, and stays where it is. The kernel tells
//! each mapping's policy in /proc/PID/numa_maps (numa(7)).

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Instant;

/// It is read again after so many times what reading it took: the kernel counts all pages for it.
const TIMES: u32 = 100;
/// Most mappings that are kept of a process.
const MOST: usize = 1 << 17;

/// A process's memory with a policy of its own.
#[derive(Debug, Default)]
pub struct Bound {
    /// Beginnings and ends, in order.
    ranges: Vec<(u64, u64)>,
    /// When it was read, and when it is to be read again.
    next: Option<Instant>,
}

impl Bound {
    /// Whether something of these bytes is in such memory, as far as that was read lately.
    pub fn holds(&self, addr: u64, bytes: u64) -> bool {
        let at = self.ranges.partition_point(|(start, _)| *start < addr.saturating_add(bytes));
        at > 0 && addr < self.ranges[at - 1].1
    }

    /// Reads it anew, if it is time. What cannot be read has no policy.
    pub fn refresh(&mut self, pid: i32) {
        let began = Instant::now();
        if self.next.is_some_and(|next| began < next) {
            return;
        }
        self.ranges =
            File::open(format!("/proc/{pid}/numa_maps")).map_or_else(|_| Vec::new(), |f| read(BufReader::new(f)));
        self.next = Some(Instant::now() + TIMES * began.elapsed());
    }
}

/// Lines such as `7f12a000 bind:0 anon=3 ...`, each a mapping from its beginning to that of the next one.
fn read(lines: impl BufRead) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let mut open = false;
    for line in lines.lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let (Some(Ok(start)), Some(policy)) = (words.next().map(|w| u64::from_str_radix(w, 16)), words.next()) else {
            continue;
        };
        if let Some(last) = ranges.last_mut().filter(|_| open) {
            last.1 = start;
        }
        open = policy != "default" && policy != "local" && ranges.len() < MOST;
        if open {
            ranges.push((start, u64::MAX));
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_has_bound_is_known() {
        let text = "1000 default file=/bin/a\n2000 bind:0 anon=3 N0=3\n5000 local anon=1\n8000 prefer:1 heap\n9000 interleave:0-1\nnonsense\n";
        let bound = Bound { ranges: read(text.as_bytes()), next: None };
        let held: Vec<u64> = [0x1000, 0x1fff, 0x2000, 0x4fff, 0x5000, 0x8000, 0x9001]
            .into_iter()
            .filter(|a| bound.holds(*a, 1))
            .collect();
        assert_eq!(held, [0x2000, 0x4fff, 0x8000, 0x9001]);
        assert!(bound.holds(0x1000, 0x1001) && !bound.holds(0x1000, 0x1000) && bound.holds(0x4000, 0x8000));
        assert!(!Bound::default().holds(0x2000, 0x1000));
    }
}
