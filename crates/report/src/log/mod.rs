//! The log of `hearth live` or `hearth daemon`: what was moved where and why, and heat and residency over time.

mod page;
mod terminal;

pub use page::log_page;
pub use terminal::log_table;

use crate::words;
use model::log::{Begin, Decision, Event, Move, State};
use model::{Bytes, Nanos, Site, SiteId};
use std::collections::{BTreeMap, HashMap};

/// What a log tells.
#[derive(Clone, Debug, Default)]
pub struct Log {
    /// Sites by their numbers. They are in binary form; who has the program's files can add names.
    pub sites: HashMap<SiteId, Site>,
    /// Those of earlier versions have none.
    begin: Option<Begin>,
    states: Vec<State>,
    decisions: Vec<Decision>,
    moves: Vec<Move>,
    /// Its last line is cut off: whoever wrote it was killed.
    cut: bool,
}

/// What became of a site's objects.
struct Row {
    label: String,
    site: SiteId,
    /// In the last state that tells of it: resident, in the fastest tier, misses a second.
    last: Option<(Bytes, Bytes, f64)>,
    up: Bytes,
    down: Bytes,
    /// Time that its moves to faster memory were predicted to gain, in ns.
    gain: f64,
}

impl Log {
    /// Reads a log.
    ///
    /// # Errors
    /// The first line that is none of a log, by its number.
    pub fn read(text: &str) -> Result<Log, String> {
        let mut log = Log::default();
        let count = text.lines().count();
        for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            match serde_json::from_str(line) {
                Ok(Event::Begin(begin)) => log.begin = Some(begin),
                Ok(Event::Site { site }) => drop(log.sites.insert(site.id, site)),
                Ok(Event::State(state)) => log.states.push(state),
                Ok(Event::Decision(decision)) => log.decisions.push(decision),
                Ok(Event::Move(made)) => log.moves.push(made),
                Err(_) if n + 1 == count && !text.ends_with('\n') && n > 0 => log.cut = true,
                Err(e) => return Err(format!("line {} is no line of a log of hearth live (--log): {e}", n + 1)),
            }
        }
        if log.begin.is_none() && log.is_empty() {
            return Err("it is empty: nothing had happened yet when it was written".to_string());
        }
        Ok(log)
    }

    /// No interval had ended.
    fn is_empty(&self) -> bool {
        self.states.is_empty() && self.decisions.is_empty()
    }

    /// First and last time that it tells of, in ns.
    fn span(&self) -> (u64, u64) {
        let times = || self.states.iter().map(|s| s.at_ns).chain(self.decisions.iter().map(|d| d.at_ns));
        let moves = self.moves.iter().map(|m| m.at_ns);
        (times().min().unwrap_or(0), times().chain(moves).max().unwrap_or(0))
    }

    /// Names of the tiers, fastest first.
    fn tiers(&self) -> Vec<&str> {
        let tiers = self.states.first().map(|s| &s.tiers).or(self.decisions.first().map(|d| &d.tiers));
        tiers.into_iter().flatten().map(|t| t.name.as_str()).collect()
    }

    /// A move goes to faster memory.
    fn is_up(&self, m: &Move) -> bool {
        let tiers = self.tiers();
        let place = |name: &str| tiers.iter().position(|t| *t == name);
        place(&m.to) < place(&m.from)
    }

    /// Sums of what was moved up and down.
    fn moved(&self) -> (Bytes, Bytes) {
        let (mut up, mut down) = (0, 0);
        self.moves.iter().for_each(|m| *(if self.is_up(m) { &mut up } else { &mut down }) += m.bytes);
        (Bytes(up), Bytes(down))
    }

    /// How often it was decided for each reason, the most frequent first.
    fn reasons(&self) -> Vec<(&str, usize)> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.decisions.iter().for_each(|d| *counts.entry(&d.why).or_default() += 1);
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        counts
    }

    /// One line for each site.
    fn labels(&self) -> HashMap<SiteId, String> {
        model::label::labels(self.sites.values())
    }

    /// The sites, those first of which most was moved, then the hottest.
    fn rows(&self) -> Vec<Row> {
        let labels = self.labels();
        let mut rows: HashMap<SiteId, Row> = HashMap::new();
        let new = |site: SiteId| {
            let label = labels.get(&site).cloned().unwrap_or_else(|| format!("site {site}"));
            Row { label, site, last: None, up: Bytes(0), down: Bytes(0), gain: 0.0 }
        };
        for s in self.states.iter().flat_map(|s| &s.sites) {
            let row = rows.entry(s.site).or_insert_with(|| new(s.site));
            row.last = Some((s.resident, s.fast, s.misses_per_second));
        }
        for m in &self.moves {
            let up = self.is_up(m);
            let row = rows.entry(m.site).or_insert_with(|| new(m.site));
            *(if up { &mut row.up } else { &mut row.down }) += Bytes(m.bytes);
            row.gain += m.gain_ns.max(0.0);
        }
        let mut rows: Vec<Row> = rows.into_values().collect();
        let heat = |r: &Row| r.last.map_or(0.0, |(_, _, misses)| misses);
        rows.sort_by(|a, b| {
            (b.up + b.down).cmp(&(a.up + a.down)).then(heat(b).total_cmp(&heat(a))).then(a.site.cmp(&b.site))
        });
        rows
    }

    /// What the whole of it was, one sentence each.
    fn sentences(&self) -> Vec<String> {
        if let Some(Begin { interval_ns, .. }) = self.begin.as_ref().filter(|_| self.is_empty()) {
            return vec![format!(
                "the log ends within its first interval ({interval_ns}): nothing was decided yet, and nothing moved; \
                 a run as short as that needs a shorter one (--interval)"
            )];
        }
        let (begin, end) = self.span();
        let (up, down) = self.moved();
        let took: u64 = self.moves.iter().map(|m| m.took_ns).sum();
        let asked: u64 = self.moves.iter().map(|m| m.present).sum();
        let there: u64 = self.moves.iter().map(|m| m.there).sum();
        let mut out = vec![format!(
            "{} of time, {}, {}: {up} went to faster memory, {down} to slower, in {}{}",
            Nanos(end - begin),
            words::plural(self.decisions.len() as u64, "decision"),
            words::plural(self.moves.len() as u64, "move"),
            Nanos(took),
            match asked {
                0 => String::new(),
                _ => format!(
                    "; {} of it was then found where it belongs",
                    words::percent(words::share(there as f64, asked as f64))
                ),
            },
        )];
        out.extend(
            self.reasons().into_iter().map(|(why, n)| format!("{}: {why}", words::plural(n as u64, "decision"))),
        );
        if self.cut {
            out.push(
                "the last line is cut off: whoever wrote the log was killed, or it is still being written".to_string(),
            );
        }
        out
    }
}

impl Row {
    /// Size, share in the fastest tier, misses a second, bytes moved up and down, predicted gain.
    fn figures(&self) -> [String; 6] {
        let dash = || "-".to_string();
        let last = |f: &dyn Fn((Bytes, Bytes, f64)) -> String| self.last.map_or_else(dash, f);
        let moved = |bytes: Bytes| if bytes.0 == 0 { dash() } else { bytes.to_string() };
        [
            last(&|(resident, _, _)| resident.to_string()),
            last(&|(resident, fast, _)| words::percent(words::share(fast.0 as f64, resident.0 as f64))),
            last(&|(_, _, misses)| words::count(misses)),
            moved(self.up),
            moved(self.down),
            if self.gain > 0.0 { Nanos(self.gain as u64).to_string() } else { dash() },
        ]
    }
}

/// Headings of [`Row::figures`].
const FIGURES: [&str; 6] = ["size", "in fast", "misses/s", "moved up", "down", "gain"];

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"event":"site","site":{"id":"00000000000000ff","kind":"allocation","frames":[{"module":null,"offset":4096,"source":[{"function":"alloc_<hot>","file":"a.c","line":3}]}]}}
{"event":"state","at_ns":1000000,"interval":1,"tiers":[{"name":"dram","used":100,"limit":200},{"name":"cxl","used":4096,"limit":9000}],"sites":[{"site":"00000000000000ff","resident":4096,"fast":0,"misses_per_second":5000.0}]}
{"event":"decision","at_ns":1000000,"interval":1,"why":"moves are worth their cost","moves":1,"bytes":4096,"gain_ns":9e6,"cost_ns":1e6,"tiers":[{"name":"dram","used":100,"limit":200},{"name":"cxl","used":4096,"limit":9000}]}
{"event":"move","at_ns":1500000,"pid":7,"addr":"7000","site":"00000000000000ff","from":"cxl","to":"dram","gain_ns":9e6,"bytes":4096,"present":4096,"there":4096,"took_ns":2000}
{"event":"state","at_ns":2000000,"interval":2,"tiers":[{"name":"dram","used":4196,"limit":9000},{"name":"cxl","used":0,"limit":9000}],"sites":[{"site":"00000000000000ff","resident":4096,"fast":4096,"misses_per_second":6000.0}]}
"#;

    #[test]
    fn a_log_is_summed_up() {
        let log = Log::read(LOG).expect("a good log");
        let table = log_table(&log, 100, 20);
        for text in [
            "1.0 ms of time, 1 decision, 1 move: 4 KiB went to faster memory, 0 B to slower",
            "1 decision: moves are worth their cost",
            "alloc_<hot> (a.c:3)",
            "6.00k",
            "100%",
            "9.0 ms",
        ] {
            assert!(table.contains(text), "no {text}:\n{table}");
        }
        let page = log_page(&log, "why.jsonl");
        assert!(page.contains("alloc_&lt;hot&gt;") && !page.contains("alloc_<hot>"));
        for part in ["In fast memory by site over time", "Heat by site over time", "moves are worth their cost"] {
            assert!(page.contains(part), "{part}");
        }
    }

    #[test]
    fn a_log_of_a_run_shorter_than_an_interval_says_so() {
        let begin = "{\"event\":\"begin\",\"hearth\":\"0.1.0\",\"interval_ns\":2000000000}\n";
        let log = Log::read(begin).expect("it is a log");
        let table = log_table(&log, 300, 20);
        assert!(
            table.starts_with("the log ends within its first interval (2.0 s)") && !table.contains("in fast"),
            "{table}"
        );
        assert!(log_page(&log, "why.jsonl").contains("within its first interval"));
        let whole = Log::read(&format!("{begin}{LOG}")).expect("a good log");
        assert_eq!(log_table(&whole, 100, 20), log_table(&Log::read(LOG).expect("a good log"), 100, 20));
    }

    #[test]
    fn what_is_no_log_is_said() {
        let why = |text: &str| Log::read(text).expect_err("it is refused");
        assert!(why("{}\n").starts_with("line 1 is no line of a log"));
        assert!(why("").contains("empty"));
        assert!(why(&LOG.replacen("\"interval\":1", "\"interval\":-1", 1)).starts_with("line 2 "));
        let cut = Log::read(&LOG[..LOG.len() - 20]).expect("the rest is good");
        assert!(log_table(&cut, 80, 20).contains("cut off"));
    }
}
