//! The screen: memories, what is moved, programs, objects. Made for 80 columns and 24 lines; more room shows more objects.

use crate::names::Names;
use ::live::status::{LastMove, ObjectStatus, ProgramStatus, Status, TierStatus};
use model::{Bytes, Nanos};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table, Wrap};
use report::words::{bar, count, percent, share};

/// Columns of a bar.
const BAR: usize = 16;
/// Programs that are shown at most.
const PROGRAMS: usize = 5;

/// By what objects are ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By misses.
    #[default]
    Heat,
    /// By size.
    Size,
    /// By misses that are not served by the fastest tier.
    Slow,
}

impl Order {
    /// The next one.
    pub fn next(self) -> Order {
        match self {
            Order::Heat => Order::Size,
            Order::Size => Order::Slow,
            Order::Slow => Order::Heat,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Order::Heat => "by misses",
            Order::Size => "by size",
            Order::Slow => "by misses outside the fastest memory",
        }
    }

    fn key(self, o: &ObjectStatus) -> f64 {
        match self {
            Order::Heat => o.misses_per_second,
            Order::Size => o.bytes.0 as f64,
            Order::Slow => o.misses_per_second * (1.0 - fast(&o.resident)),
        }
    }
}

/// What of it is looked at.
#[derive(Debug, Default)]
pub struct View {
    /// By what objects are ordered.
    pub order: Order,
    /// Objects that are scrolled past.
    pub from: usize,
    /// It is not renewed.
    pub held: bool,
}

/// Draws a status. Programs choose their names, and nothing of these may steer the terminal.
pub fn draw(frame: &mut Frame<'_>, status: &Status, names: &Names, view: &View) {
    draw_all(frame, status, names, view);
    for cell in &mut frame.buffer_mut().content {
        if cell.symbol().chars().any(char::is_control) {
            cell.set_symbol("?");
        }
    }
}

fn draw_all(frame: &mut Frame<'_>, status: &Status, names: &Names, view: &View) {
    let tiers = status.tiers.len() as u16;
    let notes = status.notes.len().min(1) as u16;
    let programs = status.programs.len().min(PROGRAMS) as u16 + 2 + u16::from(status.programs.len() > PROGRAMS);
    let shares = if status.shares.is_empty() { 0 } else { 1 };
    // Its reason may take a second line.
    let why = status.last.is_some() as u16 * 2;
    let heights = [1, 2 * notes, tiers, 1, 1, why, shares, programs].map(Constraint::Length);
    let rows = Layout::vertical(heights.into_iter().chain([Constraint::Min(2), Constraint::Length(1)]));
    let [title, told, memories, moves, last, reason, parts, running, objects, keys] = rows.areas(frame.area());
    let head = format!(
        "hearth daemon {}   {}   interval {}, each {}{}",
        status.pid,
        plural(status.programs.len() as u64, "process", "processes"),
        status.intervals,
        status.interval,
        if view.held { "   HELD" } else { "" }
    );
    frame.render_widget(Line::styled(head, bold()), title);
    let more = |n: usize| if n > 1 { format!("({} more: hearth status) ", n - 1) } else { String::new() };
    sentence(frame, told, status.notes.first().map(|note| format!("note: {}{}", more(status.notes.len()), note.text)));
    text(frame, memories, status.tiers.iter().map(memory));
    let rate = |bytes: Bytes| format!("{bytes}/s");
    let lately = [rate(status.promoted_per_second), rate(status.demoted_per_second)];
    let moved = format!(
        "moving {} up, {} down; in all {} up, {} down, {} decisions",
        lately[0], lately[1], status.promoted, status.demoted, status.decisions
    );
    text(frame, moves, [moved]);
    let latest = status.last.as_ref().map_or_else(|| "nothing was moved yet".to_string(), |m| latest(m, names));
    text(frame, last, [latest]);
    sentence(frame, reason, status.last.as_ref().map(|m| format!("why: {}", m.why)));
    let part = |s: &::live::status::ShareStatus| format!("{} {} of {}", s.group, s.used, s.part);
    text(frame, parts, [format!("parts: {}", status.shares.iter().map(part).collect::<Vec<_>>().join(", "))]);
    show_programs(frame, running, status);
    show_objects(frame, objects, status, names, view);
    frame.render_widget(Line::styled("q leave   s order   j k scroll   p hold", dim()), keys);
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

fn dim() -> Style {
    Style::default().add_modifier(Modifier::DIM)
}

fn text(frame: &mut Frame<'_>, area: Rect, lines: impl IntoIterator<Item = String>) {
    frame.render_widget(Paragraph::new(lines.into_iter().map(Line::from).collect::<Vec<_>>()), area);
}

/// A sentence, on as many lines as there are.
fn sentence(frame: &mut Frame<'_>, area: Rect, what: Option<String>) {
    frame.render_widget(Paragraph::new(what.unwrap_or_default()).wrap(Wrap { trim: true }), area);
}

fn memory(tier: &TierStatus) -> String {
    let TierStatus { name, used, limit, read_per_second: read, written_per_second: written } = tier;
    let (of, full) = match limit.0 {
        u64::MAX => (String::new(), 0.0),
        _ => (format!(" of {limit}"), share(used.0 as f64, limit.0 as f64).min(1.0)),
    };
    format!("{name:<8} {:<BAR$} {used}{of}  read {read}/s  write {written}/s", bar(full, BAR))
}

fn latest(m: &LastMove, names: &Names) -> String {
    let LastMove { pid, from, to, bytes, gain_ns, .. } = m;
    let gain = match *gain_ns {
        ns if ns > 0.0 => format!("gains {}", Nanos(ns as u64)),
        _ => "makes room".to_string(),
    };
    format!("last: {bytes}, {from} to {to}, {gain}, in {pid}: {}", names.of(&m.site))
}

/// The share of it that is in the fastest tier.
fn fast(resident: &[Bytes]) -> f64 {
    let all: u64 = resident.iter().map(|b| b.0).sum();
    share(resident.first().map_or(0, |b| b.0) as f64, all as f64)
}

/// The same in words: of what is nowhere there is none.
fn in_fast(resident: &[Bytes]) -> String {
    if resident.iter().all(|b| b.0 == 0) { "-".to_string() } else { percent(fast(resident)) }
}

fn show_programs(frame: &mut Frame<'_>, area: Rect, status: &Status) {
    let row = |p: &ProgramStatus| {
        let resident: u64 = p.resident.iter().map(|b| b.0).sum();
        let cells = [
            p.pid.to_string(),
            p.uid.to_string(),
            count(p.records as f64),
            Bytes(resident).to_string(),
            in_fast(&p.resident),
            count(p.misses_per_second),
        ];
        (cells.map(right), p.exe.rsplit('/').next().unwrap_or_default().to_string())
    };
    let head = ["process", "user", "objects", "size", "in fast", "misses/s"].map(right);
    let rows = status.programs.iter().take(PROGRAMS).map(row);
    let rows = rows.map(|(cells, exe)| Row::new(cells.into_iter().chain([Line::from(exe)])));
    let others = status.programs.len().saturating_sub(PROGRAMS);
    let others = (others > 0).then(|| {
        let blank = std::iter::repeat_n(Line::default(), 6);
        Row::new(blank.chain([Line::from(format!("and {others} more (hearth status)"))]))
    });
    let rows = rows.chain(others);
    let widths = [8, 6, 8, 9, 8, 9].map(Constraint::Length);
    let table = Table::new(rows, widths.into_iter().chain([Constraint::Fill(1)]));
    frame.render_widget(table.header(Row::new(head.into_iter().chain([Line::from("program")])).style(bold())), area);
}

fn show_objects(frame: &mut Frame<'_>, area: Rect, status: &Status, names: &Names, view: &View) {
    let mut objects: Vec<&ObjectStatus> = status.objects.iter().collect();
    objects.sort_by(|a, b| view.order.key(b).total_cmp(&view.order.key(a)));
    let from = view.from.min(objects.len().saturating_sub(1));
    let row = |o: &&ObjectStatus| {
        let cells = [count(o.misses_per_second), o.bytes.to_string(), in_fast(&o.resident), o.pid.to_string()];
        Row::new(cells.map(right).into_iter().chain([Line::from(names.of(&o.site))]))
    };
    let rows = objects.iter().skip(from).map(row);
    let what = format!("object, {}", view.order.name());
    let head = ["misses/s", "size", "in fast", "process"].map(right);
    let table = Table::new(rows, [9, 9, 8, 8].map(Constraint::Length).into_iter().chain([Constraint::Fill(1)]));
    frame.render_widget(table.header(Row::new(head.into_iter().chain([Line::from(what)])).style(bold())), area);
}

fn right(text: impl Into<String>) -> Line<'static> {
    Line::from(text.into()).right_aligned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::live::status::NoteStatus;
    use model::{Site, SiteId, SiteKind};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// What stands on a screen of the smallest size.
    fn screen(status: &Status) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("a screen in memory");
        terminal.draw(|frame| draw(frame, status, &Names::default(), &View::default())).expect("it is drawn");
        let cells = terminal.backend().buffer().content().chunks(80);
        cells.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_string()).collect()
    }

    #[test]
    fn no_programs_name_steers_the_terminal() {
        let program = ProgramStatus { exe: "/tmp/h\u{1b}[31mx".into(), ..ProgramStatus::default() };
        let shown = screen(&Status { programs: vec![program], ..Status::default() });
        assert!(shown.iter().any(|line| line.ends_with("h?[31mx")), "{shown:?}");
        assert!(!shown.iter().flat_map(|line| line.chars()).any(char::is_control));
    }

    #[test]
    fn all_that_matters_fits_the_smallest_screen() {
        let site = Site { id: SiteId(0x5a), kind: SiteKind::Allocation, apart: None, frames: vec![] };
        let tier = |name: &str| TierStatus {
            name: name.into(),
            used: Bytes::mib(700),
            limit: Bytes::mib(1000),
            ..TierStatus::default()
        };
        let program = |pid| ProgramStatus {
            pid,
            exe: "/usr/bin/app".into(),
            resident: vec![Bytes::mib(1); 2],
            ..ProgramStatus::default()
        };
        let why = "moves are worth their cost; the next phase is near".to_string();
        let (from, to) = ("cxl".to_string(), "dram".to_string());
        let note = "no call stacks: this program brings its own allocator, so all of its objects are taken for one and are placed together, as far as that is possible";
        let status = Status {
            tiers: vec![tier("dram"), tier("cxl")],
            programs: (26_690..26_698).map(program).collect(),
            notes: vec![NoteStatus { user: None, text: note.into() }],
            last: Some(LastMove {
                pid: 26_697,
                site: site.clone(),
                from,
                to,
                bytes: Bytes::mib(2),
                gain_ns: 12.3e6,
                why: why.clone(),
            }),
            objects: vec![ObjectStatus {
                pid: 26_697,
                addr: 0,
                site,
                bytes: Bytes::mib(8),
                resident: vec![],
                misses_per_second: 1e6,
            }],
            ..Status::default()
        };
        let shown = screen(&status);
        let at = |what: &str| shown.iter().position(|line| line.contains(what));
        for what in [
            "dram  ",
            "cxl  ",
            "last: 2 MiB, cxl to dram, gains 12.3 ms, in 26697:",
            &why,
            "far as that is possible",
            "and 3 more (hearth status)",
            "object, by misses",
            "q leave",
        ] {
            assert!(at(what).is_some(), "{what}: {shown:#?}");
        }
        assert_eq!(at("q leave"), Some(23));
        // With less to say there is more room for objects.
        let quiet = screen(&Status { notes: vec![], last: None, programs: vec![program(1)], ..status });
        let objects = |lines: &[String]| lines.iter().position(|line| line.contains("object, by misses"));
        assert!(objects(&quiet) < objects(&shown), "{quiet:#?}");
    }
}
