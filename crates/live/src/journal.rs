//! The log of every decision, with its reason, as JSON lines: what was decided, what it was expected to gain and to cost, and of each
//! move what came of it.

use crate::Error;
use crate::enforce::{Move, Room};
use crate::mover::{Done, Place};
use crate::table::PAGE;
use model::log::{self, Event, SiteState, State, TierState};
use model::{Bytes, Nanos, Site, SiteId};
use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// States are told after each interval until there are so many; then after each second, fourth, ... one.
const STATES: u32 = 1000;

/// The log, or none.
pub struct Journal {
    file: Option<BufWriter<File>>,
    failed: Option<String>,
    /// Sites that were told.
    told: HashSet<SiteId>,
}

impl Journal {
    /// No log.
    pub fn none() -> Journal {
        Journal { file: None, failed: None, told: HashSet::new() }
    }

    /// A log in this file, whose first line says what it is.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, interval_ns: Nanos) -> Result<Journal, Error> {
        let file =
            File::create(path).map_err(|e| Error(format!("--log {}: it cannot be written: {e}", path.display())))?;
        let mut journal = Journal { file: Some(BufWriter::new(file)), ..Journal::none() };
        let hearth = env!("CARGO_PKG_VERSION").to_string();
        journal.write(&Event::Begin(log::Begin { hearth, interval_ns }));
        journal.flush();
        Ok(journal)
    }

    fn write(&mut self, line: &Event) {
        let Some(file) = &mut self.file else { return };
        let written =
            serde_json::to_writer(&mut *file, line).map_err(std::io::Error::from).and_then(|()| file.write_all(b"\n"));
        if let Err(e) = written {
            self.fail(&e);
        }
    }

    /// What was told until now can be read, and is there should this process be killed.
    fn flush(&mut self) {
        if let Some(Err(e)) = self.file.as_mut().map(BufWriter::flush) {
            self.fail(&e);
        }
    }

    fn fail(&mut self, e: &std::io::Error) {
        self.failed = Some(format!("the log ends before its time, since it cannot be written: {e}"));
        self.file = None;
    }

    /// Something is written after this interval.
    pub fn wants_state(&self, interval: u32) -> bool {
        let each = (interval / STATES + 1).next_power_of_two();
        self.file.is_some() && interval % each == 0
    }

    /// There is a log.
    pub fn is_on(&self) -> bool {
        self.file.is_some()
    }

    /// Tells a site before it is named.
    fn site(&mut self, id: SiteId, site: impl FnOnce() -> Site) {
        if self.told.insert(id) {
            self.write(&Event::Site { site: site() });
        }
    }

    /// How it is. `named`: the site of a number.
    pub fn state(
        &mut self,
        at_ns: u64,
        interval: u32,
        sites: Vec<SiteState>,
        rooms: &[(&Place, Room)],
        named: impl Fn(SiteId) -> Site,
    ) {
        sites.iter().for_each(|s| self.site(s.site, || named(s.site)));
        self.write(&Event::State(State { at_ns, interval, tiers: tiers(rooms), sites }));
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
        let bytes = moves.iter().map(|m| m.bytes).sum();
        let (gain_ns, cost_ns) = sums;
        let (why, moves, tiers) = (why.to_string(), moves.len(), tiers(rooms));
        self.write(&Event::Decision(log::Decision { at_ns, interval, why, moves, bytes, gain_ns, cost_ns, tiers }));
        self.flush();
    }

    /// Something was moved in a process, from one place to another.
    pub fn moved(&mut self, at_ns: u64, pid: i32, site: &Site, [from, to]: [&Place; 2], done: &Done) {
        if self.file.is_none() {
            return;
        }
        self.site(site.id, || site.clone());
        let (m, moved) = (&done.what, &done.moved);
        self.write(&Event::Move(log::Move {
            at_ns,
            pid,
            addr: format!("{:x}", m.addr),
            site: site.id,
            from: from.name.clone(),
            to: to.name.clone(),
            gain_ns: m.gain.all,
            bytes: moved.moved * PAGE,
            present: moved.present * PAGE,
            there: moved.there * PAGE,
            full: moved.full,
            took_ns: done.took_ns,
        }));
    }

    /// Writes the rest out. Says why, if the log is not whole.
    pub fn end(mut self) -> Option<String> {
        if let Some(Err(e)) = self.file.as_mut().map(|file| file.flush()) {
            self.failed = Some(format!("the log is not whole, since it cannot be written: {e}"));
        }
        self.failed
    }
}

fn tiers(rooms: &[(&Place, Room)]) -> Vec<TierState> {
    let tier = |(place, room): &(&Place, Room)| TierState {
        name: place.name.clone(),
        used: Bytes(room.used),
        limit: Bytes(room.limit),
    };
    rooms.iter().map(tier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::Gain;
    use crate::pages::Moved;
    use model::SiteKind;

    fn site(id: SiteId) -> Site {
        Site { id, kind: SiteKind::Allocation, apart: None, frames: Vec::new() }
    }

    fn places() -> [Place; 2] {
        ["dram", "cxl"].map(|n| Place::new(n.into(), &[]))
    }

    #[test]
    fn a_decision_and_its_moves_are_lines_of_json() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("log");
        let mut journal = Journal::create(&path, Nanos(2_000_000_000)).expect("it can be made");
        let what = Move {
            process: 0,
            addr: 0x7000,
            bytes: 8192,
            part: false,
            from: 1,
            to: 0,
            gain: Gain { all: 5e6, ..Gain::default() },
            lasts: 1.0,
        };
        let [dram, cxl] = &places();
        let rooms = [(dram, Room { limit: 100, used: 50 }), (cxl, Room { limit: 200, used: 0 })];
        journal.decision(1_000, 3, "moves are worth their cost", &[what], (5e6, 1e6), &rooms);
        let moved = Moved { present: 2, there: 2, moved: 1, full: false };
        journal.moved(2_000, 77, &site(SiteId(255)), [cxl, dram], &Done { what, moved, took_ns: 9 });
        assert_eq!(journal.end(), None);
        let text = std::fs::read_to_string(&path).expect("it was written");
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        let (begin, lines) = lines.split_first().expect("a first line");
        assert_eq!((&begin["event"], &begin["interval_ns"]), (&"begin".into(), &2_000_000_000u64.into()));
        assert_eq!(
            (lines.len(), &lines[0]["event"], &lines[0]["tiers"][0]["used"]),
            (3, &"decision".into(), &50.into())
        );
        assert_eq!((&lines[1]["event"], &lines[1]["site"]["id"]), (&"site".into(), &lines[2]["site"]));
        assert_eq!(
            (&lines[2]["to"], &lines[2]["there"], &lines[2]["addr"]),
            (&"dram".into(), &8192.into(), &"7000".into())
        );
    }

    #[test]
    fn long_runs_have_no_longer_logs() {
        let dir = tempfile::tempdir().expect("a folder");
        let journal = Journal::create(&dir.path().join("log"), Nanos(1)).expect("it can be made");
        let told = |intervals: u32| (1..=intervals).filter(|i| journal.wants_state(*i)).count();
        assert_eq!(told(999), 999);
        assert!((4000..12000).contains(&told(1 << 20)), "{}", told(1 << 20));
        assert!(!Journal::none().wants_state(1));
    }

    #[test]
    fn a_log_that_cannot_be_written_is_said_and_not_suffered() {
        assert!(
            Journal::create(Path::new("/nowhere/log"), Nanos(1)).is_err_and(|e| e.0.contains("--log /nowhere/log"))
        );
        if !Path::new("/dev/full").exists() {
            return;
        }
        let mut journal = Journal::create(Path::new("/dev/full"), Nanos(1)).expect("it opens");
        let what =
            Move { process: 0, addr: 0, bytes: 0, part: false, from: 0, to: 1, gain: Gain::default(), lasts: 1.0 };
        for _ in 0..1000 {
            journal.moved(
                0,
                1,
                &site(SiteId(1)),
                [&places()[0], &places()[1]],
                &Done { what, moved: Moved::default(), took_ns: 0 },
            );
        }
        assert!(journal.end().is_some_and(|why| why.contains("cannot be written")));
    }
}
