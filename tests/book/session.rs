//! Runs a page: one shell for all of its blocks, in a folder of its own.

use crate::page::{Block, Kind, Page};
use hearth_tests::{Room, for_mpi, spawn, target, wait, workspace};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Most time for a page, on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Precedes what a command prints; no program prints it.
const MARK: &str = "\u{1e}";

/// What every session has: Hearth as it is installed, and the tutorial's program as `app`.
pub struct Common {
    room: Room,
    prefix: PathBuf,
}

impl Common {
    /// Installs Hearth, and builds the program.
    pub fn new(tutorial: &Page) -> Common {
        let prefix = target().join("book-prefix");
        hearth_tests::run(Command::new(workspace().join("packaging/install")).arg("--prefix").arg(&prefix)).expect(0);
        let room = Room::new();
        let source = tutorial.blocks.iter().find(|b| matches!(&b.kind, Kind::File(f) if f == "app.c"));
        fs::write(room.path("app.c"), &source.expect("the tutorial shows app.c").text).expect("writing");
        hearth_tests::run(room.command("cc").args(["-O2", "-g", "app.c", "-o", "app"])).expect(0);
        // Half a percent of the processor may be too little for any sample if the machine is busy with something else, and
        // in the cache of some machines there is room for all that the tutorial's program has.
        let command = format!(
            "#!/bin/bash\nif [ \"${{1:-}}\" = record ]; then\n  shift\n  case \"$*\" in *--sampler*none*) ;; *)\n    \
             [[ \"$*\" == *--overhead* ]] || set -- --overhead 20 \"$@\"\n    \
             [[ \"$*\" == *--llc* ]] || set -- --llc 32MiB \"$@\"\n  esac\n  set -- record \"$@\"\nfi\nexec {} \"$@\"\n",
            prefix.join("bin/hearth").display()
        );
        fs::write(room.path("hearth"), command).expect("writing");
        fs::set_permissions(room.path("hearth"), fs::Permissions::from_mode(0o755)).expect("making it a program");
        Common { room, prefix }
    }
}

/// Runs all blocks of a page. Gives what is wrong.
pub fn run(page: &Page, common: &Common) -> Vec<String> {
    let (room, prefix) = (Room::new(), &common.prefix);
    fs::copy(common.room.path("app"), room.path("app")).expect("copying the program");
    let mut wrong = page.wrong.clone();
    let mut script = String::from("set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nexec 2>&1\n");
    let mut steps: Vec<(usize, Option<String>)> = Vec::new();
    let mut step = |line: usize, commands: &str, shown: Option<String>, script: &mut String| {
        *script += &format!("printf '\\n{MARK}\\n'\n{}\n", commands.trim_end());
        steps.push((line, shown));
    };
    for block in page.blocks.iter().filter(|b| b.not_run.is_none()) {
        match &block.kind {
            Kind::Shell => step(block.line, &block.text, None, &mut script),
            Kind::Console => {
                for (command, output) in commands(&block.text) {
                    step(block.line, &command, Some(output), &mut script);
                }
            }
            // Written when it is its turn, as a page may show a file twice.
            Kind::File(file) => {
                let end = "END_OF_WHAT_THE_PAGE_SHOWS";
                step(
                    block.line,
                    &format!("cat >{file} <<'{end}'\n{}\n{end}", block.text.trim_end()),
                    None,
                    &mut script,
                );
            }
            Kind::Toml | Kind::Json => wrong.extend(unreadable(block, &room).map(|why| at(page, block.line, &why))),
            Kind::Text => {}
        }
    }
    if steps.is_empty() {
        return wrong;
    }
    fs::write(room.path(".session"), script).expect("writing the session");
    let mut bash = room.command("bash");
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{path}", common.room.path("").display(), prefix.join("bin").display());
    bash.arg(".session").stdin(Stdio::null()).env("PATH", path);
    bash.env("APP", common.room.path("app"));
    bash.env("HOME", room.path("")).env("XDG_RUNTIME_DIR", room.path("")).env_remove("XDG_CACHE_HOME");
    bash.env("SOURCES", workspace()).env("PREFIX", prefix).env("LD_LIBRARY_PATH", prefix.join("lib"));
    bash.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).env("CMAKE_PREFIX_PATH", prefix);
    bash.env("HEARTH_LAB", std::env::var_os("HEARTH_LAB").unwrap_or_else(|| target().join("lab").into()));
    let ended = wait(spawn(for_mpi(&mut bash)), LIMIT);
    eprintln!("{}: {} steps in {:.1} s", page.name, steps.len(), ended.took.as_secs_f64());
    let outputs: Vec<&str> = ended.stdout.split(&format!("\n{MARK}\n")).skip(1).collect();
    if ended.status != 0 {
        let line = outputs.len().checked_sub(1).map_or(0, |last| steps[last].0);
        let said = outputs.last().unwrap_or(&"");
        wrong.push(at(page, line, &format!("the block ends with {}:\n{said}", ended.status)));
        return wrong;
    }
    for ((line, shown), output) in steps.iter().zip(&outputs) {
        if let Some(missing) = shown.as_ref().and_then(|shown| first_missing(shown, output)) {
            wrong.push(at(page, *line, &format!("this line does not come:\n{missing}\nThe output is:\n{output}")));
        }
    }
    wrong
}

fn at(page: &Page, line: usize, what: &str) -> String {
    format!("{}:{line}: {what}", page.name)
}

/// The commands of a console block, each with what it prints.
fn commands(text: &str) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.into(), String::new())),
            (None, Some((command, output))) if output.is_empty() && command.ends_with('\\') => {
                *command += "\n";
                *command += line;
            }
            (None, Some((_, output))) => {
                *output += line;
                *output += "\n";
            }
            (None, None) => {}
        }
    }
    all
}

/// The first line that is shown and does not come (after the one before).
fn first_missing(shown: &str, output: &str) -> Option<String> {
    let mut lines = output.lines().map(words);
    let wanted = shown.lines().filter(|line| !matches!(line.trim(), "" | "..." | "…"));
    wanted
        .map(|line| (line, words(line)))
        .find(|(_, words)| !lines.any(|l| alike(words, &l)))
        .map(|(line, _)| line.into())
}

/// The words of a line: what is in it but figures, units, bars and frames.
fn words(line: &str) -> Vec<&str> {
    const UNITS: [&str; 12] = ["B", "KiB", "MiB", "GiB", "TiB", "ns", "us", "ms", "s", "k", "M", "x"];
    let parts = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '…'));
    parts.filter(|w| !w.is_empty() && !w.contains(|c: char| c.is_ascii_digit()) && !UNITS.contains(w)).collect()
}

/// Whether a line is as shown; `…` at the end of a word or by itself stands for the rest of the line.
fn alike(shown: &[&str], line: &[&str]) -> bool {
    for (i, word) in shown.iter().enumerate() {
        if let Some(beginning) = word.strip_suffix('…') {
            return beginning.is_empty() || line.get(i).is_some_and(|w| w.starts_with(beginning));
        }
        if line.get(i) != Some(word) {
            return false;
        }
    }
    shown.len() == line.len()
}

/// Why a plan, a platform or JSON cannot be read.
fn unreadable(block: &Block, room: &Room) -> Option<String> {
    if matches!(block.kind, Kind::Json) {
        return serde_json::from_str::<serde_json::Value>(&block.text).err().map(|e| e.to_string());
    }
    if block.text.contains("default_tier") {
        return policy::plan_file::from_toml(&block.text).err().map(|e| e.to_string());
    }
    let file = room.path("shown.toml");
    fs::write(&file, &block.text).expect("writing");
    platform::load(file.to_str().expect("a readable name")).err().map(|e| e.to_string())
}

#[test]
fn output_is_compared_by_its_words() {
    let output =
        "hearth: exit 0 of 2.3 s: 62 objects of 12 sites\n  4eb3  make_table (app.c:40)  46.7% 12.3 MiB\nend\n";
    assert_eq!(first_missing("hearth: exit 0 of 9 s: 1 objects of 2 sites\n...\nend", output), None);
    assert_eq!(first_missing("  3f10  make_table (app.c:41)   1% 1 KiB", output), None);
    assert_eq!(first_missing("  3f10  make_tab…", output), None);
    assert_eq!(first_missing("end\nhearth: exit 0 of 2.3 s: …", output).as_deref(), Some("hearth: exit 0 of 2.3 s: …"));
    assert_eq!(first_missing("  3f10  make_log (app.c:41)", output).as_deref(), Some("  3f10  make_log (app.c:41)"));
}
