//! How results leave the command: to standard output, or to a file that is written whole or not at all.

use anyhow::{Context, Result, bail};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Writes to standard output.
pub fn print(text: &str) -> Result<()> {
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

/// Writes a result to a file, or to standard output if the file is `-`. Refuses to write over `input`, the file that
/// the result was made of.
pub fn write(file: &Path, text: &str, input: &Path) -> Result<()> {
    if file == Path::new("-") {
        return print(text);
    }
    not_input(file, input)?;
    whole(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Columns of the terminal; 100 where the output is not one.
pub fn width() -> usize {
    let stdout = std::io::stdout();
    match terminal_size::terminal_size_of(&stdout) {
        Some((columns, _)) if stdout.is_terminal() => usize::from(columns.0),
        _ => 100,
    }
}

/// Whether two paths are one file, be it there or not.
pub fn same(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    whole(a).zip(whole(b)).is_some_and(|(a, b)| a == b)
}

/// Refuses to write over the file that is read.
pub fn not_input(file: &Path, input: &Path) -> Result<()> {
    if same(file, input) {
        bail!("{} is the file to read; name another one to write", file.display());
    }
    Ok(())
}

/// Says before a long run what [`write`] would say after it.
pub fn can_write(file: &Path, input: &Path) -> Result<()> {
    if file == Path::new("-") {
        return Ok(());
    }
    not_input(file, input)?;
    let dir = match file.parent() {
        Some(dir) if dir != Path::new("") => dir,
        _ => Path::new("."),
    };
    if file.is_dir() {
        bail!("cannot write {}: it is a directory", file.display());
    }
    let probe = dir.join(format!(".hearth.{}.probe", std::process::id()));
    std::fs::File::create(&probe).with_context(|| format!("cannot write {}", file.display()))?;
    std::fs::remove_file(&probe).with_context(|| format!("cannot write {}", file.display()))
}

/// Through a draft beside the file, so that a full disk or a kill never leaves half of it.
fn whole(file: &Path, text: &str) -> std::io::Result<()> {
    // A pipe or device cannot be replaced, and nothing reads half of it later.
    if file.metadata().is_ok_and(|m| !m.is_file()) {
        return std::fs::write(file, text);
    }
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let draft = file.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = std::fs::File::create(&draft)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| std::fs::rename(&draft, file));
    if written.is_err() {
        // Best effort: the draft may never have come to be.
        let _ = std::fs::remove_file(&draft);
    }
    written
}
