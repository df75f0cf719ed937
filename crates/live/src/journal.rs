//! The log of every decision, with its reason, as JSON lines: what was decided, what it was expected to gain and to cost, and of each
//! move what came of it.

use crate::Error;
use crate::enforce::{Move, Room};
use crate::mover::{Done, Place};
use crate::table::PAGE;
use model::SiteId;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// One line of the log.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
enum Line<'a> {
    /// The four routines have decided.
    Decision {
        /// ns since the start of the run.
        at_ns: u64,
        /// Number of the interval that has just ended.
        interval: u32,
        /// Why it was decided now.
        why: &'a str,
        /// Moves to be made, and bytes of them.
        moves: usize,
        bytes: u64,
        /// Predicted: time gained as long as it may last, and time that moving takes, in ns.
        gain_ns: f64,
        cost_ns: f64,
        /// Of each tier: bytes that records took before, and may take.
        tiers: Vec<Tier<'a>>,
    },
    /// A move is over.
    Move {
        at_ns: u64,
        pid: i32,
        /// Address and site of the record, in hexadecimal digits.
        addr: String,
        site: String,
        from: &'a str,
        to: &'a str,
        /// Predicted: time gained as long as it may last, in ns; negative for what made room.
        gain_ns: f64,
        /// Bytes moved, and, as the kernel told afterwards, bytes present and bytes there.
        bytes: u64,
        present: u64,
        there: u64,
        took_ns: u64,
    },
}

#[derive(Debug, Serialize)]
struct Tier<'a> {
    name: &'a str,
    used: u64,
    limit: u64,
}

/// The log, or none.
pub struct Journal {
    file: Option<BufWriter<File>>,
    failed: Option<String>,
}

impl Journal {
    /// No log.
    pub fn none() -> Journal {
        Journal { file: None, failed: None }
    }

    /// A log in this file.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path) -> Result<Journal, Error> {
        let file =
            File::create(path).map_err(|e| Error(format!("--log {}: it cannot be written: {e}", path.display())))?;
        Ok(Journal { file: Some(BufWriter::new(file)), failed: None })
    }

    fn write(&mut self, line: &Line<'_>) {
        let Some(file) = &mut self.file else { return };
        let written =
            serde_json::to_writer(&mut *file, line).map_err(std::io::Error::from).and_then(|()| file.write_all(b"\n"));
        if let Err(e) = written {
            self.fail(&e);
        }
    }

    fn fail(&mut self, e: &std::io::Error) {
        self.failed = Some(format!("the log ends before its time, since it cannot be written: {e}"));
        self.file = None;
    }

    /// It was decided. `rooms`: of each tier, with its place; `sums`: expected gain and cost of the moves, in ns.
    pub fn decision(
        &mut self,
        at_ns: u64,
        interval: u32,
        why: &str,
        moves: &[Move],
        sums: (f64, f64),
        rooms: &[(&Place, Room)],
    ) {
        if self.file.is_none() {
            return;
        }
        let tiers =
            rooms.iter().map(|(place, room)| Tier { name: &place.name, used: room.used, limit: room.limit }).collect();
        let bytes = moves.iter().map(|m| m.bytes).sum();
        let (gain_ns, cost_ns) = sums;
        self.write(&Line::Decision { at_ns, interval, why, moves: moves.len(), bytes, gain_ns, cost_ns, tiers });
        // What was decided before can be read now, and is there should this process be killed.
        if let Some(Err(e)) = self.file.as_mut().map(BufWriter::flush) {
            self.fail(&e);
        }
    }

    /// Something was moved in a process, from one place to another.
    pub fn moved(&mut self, at_ns: u64, pid: i32, site: SiteId, [from, to]: [&Place; 2], done: &Done) {
        if self.file.is_none() {
            return;
        }
        let (m, moved) = (&done.what, &done.moved);
        self.write(&Line::Move {
            at_ns,
            pid,
            addr: format!("{:x}", m.addr),
            site: site.to_string(),
            from: &from.name,
            to: &to.name,
            gain_ns: m.gain,
            bytes: moved.moved * PAGE,
            present: moved.present * PAGE,
            there: moved.there * PAGE,
            took_ns: done.took_ns,
        });
    }

    /// Writes the rest out. Says why, if the log is not whole.
    pub fn end(mut self) -> Option<String> {
        if let Some(Err(e)) = self.file.as_mut().map(|file| file.flush()) {
            self.failed = Some(format!("the log is not whole, since it cannot be written: {e}"));
        }
        self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::Moved;

    fn places() -> [Place; 2] {
        ["dram", "cxl"].map(|n| Place { name: n.into(), nodes: vec![] })
    }

    #[test]
    fn a_decision_and_its_moves_are_lines_of_json() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        let mut journal = Journal::create(&path).expect("it can be made");
        let what = Move { process: 0, addr: 0x7000, bytes: 8192, from: 1, to: 0, gain: 5e6 };
        let [dram, cxl] = &places();
        let rooms = [(dram, Room { limit: 100, used: 50 }), (cxl, Room { limit: 200, used: 0 })];
        journal.decision(1_000, 3, "moves are worth their cost", &[what], (5e6, 1e6), &rooms);
        let moved = Moved { present: 2, there: 2, moved: 1 };
        journal.moved(2_000, 77, SiteId(255), [cxl, dram], &Done { what, moved, took_ns: 9 });
        assert_eq!(journal.end(), None);
        let text = std::fs::read_to_string(&path).expect("it was written");
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        assert_eq!(
            (lines.len(), &lines[0]["event"], &lines[0]["tiers"][0]["used"]),
            (2, &"decision".into(), &50.into())
        );
        assert_eq!(
            (&lines[1]["to"], &lines[1]["there"], &lines[1]["addr"]),
            (&"dram".into(), &8192.into(), &"7000".into())
        );
    }

    #[test]
    fn a_log_that_cannot_be_written_is_said_and_not_suffered() {
        assert!(Journal::create(Path::new("/nowhere/log")).is_err_and(|e| e.0.contains("--log /nowhere/log")));
        if !Path::new("/dev/full").exists() {
            return;
        }
        let mut journal = Journal::create(Path::new("/dev/full")).expect("it opens");
        let what = Move { process: 0, addr: 0, bytes: 0, from: 0, to: 1, gain: 0.0 };
        for _ in 0..1000 {
            journal.moved(
                0,
                1,
                SiteId(1),
                [&places()[0], &places()[1]],
                &Done { what, moved: Moved::default(), took_ns: 0 },
            );
        }
        assert!(journal.end().is_some_and(|why| why.contains("cannot be written")));
    }
}
