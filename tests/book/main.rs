//! The documentation: it builds as a book, its links lead somewhere, and every block of code in it and in README.md does what it says.
//!
//! A page is a session: its blocks run in order, in a fresh folder, with an installed Hearth on the path. What a block is, its first word says:
//!
//! | block | |
//! |---|---|
//! | `sh` | commands; the first that fails fails the test |
//! | `console` | the same, after `$ `, each followed by what it prints: the words of each line shown must come, in this order; figures and lines left out do not count |
//! | `c file=app.c`, and any other language | written to this file, which a later block must use |
//! | `toml`, `json` | read as what it is: a plan, a platform, JSON |
//! | `text` | output, equations, diagrams: nothing to run |
//!
//! `not-run="reason"` behind the first word of a block keeps it from being run; the test lists them. A comment `<!-- sh`, commands, `-->` is a block that
//! readers need not see. A block that says nothing fails.

mod bound;
mod page;
mod session;

use hearth_tests::{hearth, run, target, workspace};
use page::{Block, Kind, Page};
use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Pages outside of the book that hold blocks too.
const OUTSIDE: [&str; 1] = ["README.md"];

/// All pages, by their paths in the repository.
fn pages() -> Vec<String> {
    let mut found = Vec::new();
    markdown(&workspace().join("docs"), &mut found);
    let named = found.iter().map(|path| path.strip_prefix(workspace()).expect("in the repository"));
    let mut names: Vec<String> = named.map(|path| path.to_str().expect("a readable name").into()).collect();
    names.sort();
    names.retain(|name| name != "docs/SUMMARY.md");
    names.extend(OUTSIDE.map(String::from));
    names
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of pages").flatten() {
        match entry.path() {
            path if path.is_dir() => markdown(&path, found),
            path if path.extension().is_some_and(|e| e == "md") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn it_builds_and_its_links_lead_somewhere() {
    let mut wrong = bound::build(&target().join("book"), &pages());
    wrong.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].iter().flat_map(|name| bound::dead(name)));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_command_line_is_described_as_it_is() {
    let now = run(Command::new(hearth()).arg("manual")).expect(0).stdout;
    let written = fs::read_to_string(workspace().join("docs/cli.md")).expect("docs/cli.md");
    assert!(now == written, "docs/cli.md is not what the command says of itself: run `hearth manual >docs/cli.md`");
}

#[test]
fn every_block_does_what_it_says() {
    let pages: Vec<Page> = pages().iter().map(|name| Page::read(name)).collect();
    let count = |wanted: fn(&Block) -> bool| pages.iter().flat_map(|p| &p.blocks).filter(|b| wanted(b)).count();
    let mut said = format!("book: {} blocks are run", count(|b| b.kind.counts() && b.not_run.is_none()));
    said += &format!(", {} are not:\n", count(|b| b.not_run.is_some()));
    for page in &pages {
        for block in &page.blocks {
            if let Some(why) = &block.not_run {
                said += &format!("  {}:{}: {why}\n", page.name, block.line);
            }
        }
    }
    // Past the harness, which keeps what passing tests print to itself.
    let _ = std::io::stderr().write_all(said.as_bytes());

    let tutorial = pages.iter().find(|p| p.name == "docs/tutorial.md").expect("a tutorial");
    let common = session::Common::new(tutorial);
    // The longest first, by twos.
    let mut order: Vec<&Page> = pages.iter().collect();
    order.sort_by_key(|p| std::cmp::Reverse(p.blocks.iter().filter(|b| matches!(b.kind, Kind::Shell)).count()));
    let (left, wrong) = (Mutex::new(VecDeque::from(order)), Mutex::new(Vec::new()));
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(page) = next() {
                    let found = session::run(page, &common);
                    wrong.lock().unwrap_or_else(PoisonError::into_inner).extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
