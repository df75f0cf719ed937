//! `hearth top`: what the daemon sees and does, as a screen that renews itself.

mod screen;

use crate::names::Names;
use crate::output;
use ::live::daemon::client;
use ::live::daemon::talk::{Reply, Request};
use ::live::status::Status;
use anyhow::{Context, Result, bail};
use model::Site;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::View;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const KEYS: &str = "\
KEYS
  q, Esc, Ctrl-C       leave
  s                    order objects by misses, by size, or by what of them is not in the fastest memory
  j k, arrows, PgUp PgDn, Home
                       scroll the objects
  p, space             hold the screen still, and go on";

/// How often the daemon is asked.
const PERIOD: Duration = Duration::from_secs(1);
/// Columns and lines where there is no terminal.
const USUAL: (u16, u16) = (80, 24);
/// Lines of a page.
const PAGE: usize = 10;

/// Shows what the daemon sees and does: the memories, the programs, the hottest objects, and why what was moved last was moved
#[derive(clap::Args)]
#[command(after_help = KEYS)]
pub struct Args {
    /// Where the daemon listens [default: your own daemon, or root's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print one screen as text and end
    #[arg(long)]
    once: bool,
    /// With --once: print it as JSON, with all objects that the daemon tells of
    #[arg(long, requires = "once")]
    json: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let status = ask(args.socket.as_deref())?;
    if args.json {
        let text = serde_json::to_string_pretty(&status).context("the status cannot be written as JSON")?;
        output::print(&(text + "\n"))?;
    } else if args.once {
        output::print(&once(&status)?)?;
    } else if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        let mut terminal = ratatui::init();
        let shown = watch(&mut terminal, args.socket.as_deref(), status);
        ratatui::restore();
        shown?;
    } else {
        bail!("top needs a terminal; --once prints one screen, and --once --json what is on it");
    }
    Ok(ExitCode::SUCCESS)
}

fn ask(socket: Option<&Path>) -> Result<Status> {
    match client::ask(socket, Request::Status)? {
        Reply::Status { status } => Ok(*status),
        _ => bail!("the daemon gave another answer than was asked for; is it of another version?"),
    }
}

/// All sites that a status names.
fn sites(status: &Status) -> impl Iterator<Item = &Site> + Clone {
    status.objects.iter().map(|o| &o.site).chain(status.last.iter().map(|m| &m.site))
}

/// One screen as text, as wide as the terminal.
fn once(status: &Status) -> Result<String> {
    let columns = terminal_size::terminal_size().map_or(USUAL.0, |(columns, _)| columns.0);
    let mut names = Names::default();
    names.learn(sites(status));
    let mut terminal = Terminal::new(TestBackend::new(columns, USUAL.1))?;
    terminal.draw(|frame| screen::draw(frame, status, &names, &View::default()))?;
    let buffer = terminal.backend().buffer();
    let line = |cells: &[ratatui::buffer::Cell]| cells.iter().map(|c| c.symbol()).collect::<String>();
    let lines: Vec<String> = buffer.content().chunks(usize::from(columns).max(1)).map(line).collect();
    // The last one tells of keys.
    let lines = lines[..lines.len().saturating_sub(1)].iter().map(|l| l.trim_end());
    let text = lines.collect::<Vec<_>>().join("\n");
    Ok(text.trim_end().to_string() + "\n")
}

/// Shows it until a key ends that.
fn watch(terminal: &mut ratatui::DefaultTerminal, socket: Option<&Path>, mut status: Status) -> Result<()> {
    let (mut names, mut view) = (Names::default(), View::default());
    names.learn(sites(&status));
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| screen::draw(frame, &status, &names, &view))?;
        if event::poll(PERIOD.saturating_sub(asked.elapsed()))? {
            let Event::Key(key) = event::read()? else { continue };
            if key.kind != KeyEventKind::Release && !pressed(key, &mut view) {
                return Ok(());
            }
        }
        if asked.elapsed() >= PERIOD {
            asked = Instant::now();
            if !view.held {
                status = ask(socket)?;
                names.learn(sites(&status));
            }
        }
    }
}

/// What a key does; false: leave.
fn pressed(key: KeyEvent, view: &mut View) -> bool {
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return false,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
        KeyCode::Char('s') => view.order = view.order.next(),
        KeyCode::Char('p' | ' ') => view.held = !view.held,
        KeyCode::Char('j') | KeyCode::Down => view.from += 1,
        KeyCode::Char('k') | KeyCode::Up => view.from = view.from.saturating_sub(1),
        KeyCode::PageDown => view.from += PAGE,
        KeyCode::PageUp => view.from = view.from.saturating_sub(PAGE),
        KeyCode::Home => view.from = 0,
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use screen::Order;

    #[test]
    fn keys_do_what_the_last_line_says() {
        let mut view = View::default();
        let mut press = |code: KeyCode| {
            let stays = pressed(KeyEvent::new(code, KeyModifiers::NONE), &mut view);
            (stays, view.order, view.from, view.held)
        };
        let first = Order::default();
        let (stays, second, ..) = press(KeyCode::Char('s'));
        assert!(stays && second != first);
        assert_eq!(press(KeyCode::Char('k')), (true, second, 0, false), "above the first there is nothing");
        press(KeyCode::Char('j'));
        assert_eq!(press(KeyCode::Down), (true, second, 2, false));
        assert_eq!(press(KeyCode::Up), (true, second, 1, false));
        assert_eq!(press(KeyCode::PageDown), (true, second, 1 + PAGE, false));
        assert_eq!(press(KeyCode::PageUp), (true, second, 1, false));
        assert_eq!(press(KeyCode::Home), (true, second, 0, false));
        assert_eq!(press(KeyCode::Char('p')), (true, second, 0, true));
        assert_eq!(press(KeyCode::Char(' ')), (true, second, 0, false));
        assert_eq!(press(KeyCode::Char('x')), (true, second, 0, false), "any other does nothing");
        assert_eq!(press(KeyCode::Char('c')), (true, second, 0, false));
        assert!(!press(KeyCode::Char('q')).0 && !press(KeyCode::Esc).0);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!pressed(interrupt, &mut View::default()));
        // All orders come round.
        let mut view = View::default();
        let orders: Vec<Order> = (0..12)
            .map(|_| {
                pressed(KeyEvent::new(KeyCode::Char('s'), KeyModifiers::NONE), &mut view);
                view.order
            })
            .collect();
        assert!(orders.contains(&first) && orders.iter().all(|o| orders.iter().filter(|p| *p == o).count() == 4));
    }
}
