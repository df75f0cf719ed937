//! `hearth sites`: where a program allocates, as its file tells.

use crate::output;
use ::report::words::brief;
use anyhow::{Result, anyhow, bail};
use record::{annotated, calls, rebuilt};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
EXAMPLES
  make CC=hearth-cc && hearth sites ./app      what the program says of itself
  hearth sites --phases ./app                  which phase may use what
  gcc -g app.c -o app && hearth sites ./app    what debug information says of it";

/// Lists the calls in a program or library that allocate, in source form
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// An executable or a shared library
    file: PathBuf,
    /// Of each phase of an annotated program (an operation of MPI, or a mark): the sites that may be asked for before the next one begins
    #[arg(long)]
    phases: bool,
    /// Only say which positions have one number (hearth-cc asks so when it has linked a program)
    #[arg(long, conflicts_with_all = ["phases", "json"])]
    collisions: bool,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
}

/// A phase of the list.
#[derive(serde::Serialize)]
struct PhaseRow {
    /// Id of what begins it, as in profiles.
    id: String,
    begins: String,
    /// The sites that may be asked for; none: something that cannot be followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    may_use: Option<Vec<String>>,
}

/// A line of the list.
#[derive(serde::Serialize)]
struct Row {
    /// Number of the position; none of one that debug information tells of.
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<String>,
    file: String,
    line: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    function: String,
    /// It is a call of what allocates; else it leads to one.
    allocates: bool,
    /// It is an operation of MPI, with which a phase begins under `--phases`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    phase: bool,
    /// What is called, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    allocator: Option<String>,
    /// The functions that it was inlined into, innermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inlined: Vec<String>,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.phases {
        return phases(&args);
    }
    let file = args.file.display();
    if args.collisions {
        // What is no file of an ELF format was linked for something else.
        for same in annotated::linked(&args.file).unwrap_or_default().collisions(|_| true) {
            output::print(&format!("hearth: {same}\n"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let table = annotated::of(&args.file).map_err(|e| anyhow!(e))?;
    let (rows, how) = match table.is_empty() {
        false => (annotated_rows(&table), "as the program says itself"),
        true => (debug_rows(&args)?, "as debug information says; it is not compiled with Hearth's compilers"),
    };
    for same in table.collisions(|_| true) {
        eprintln!("hearth: {same}");
    }
    if args.json {
        output::print(&(serde_json::to_string_pretty(&rows)? + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let allocating = rows.iter().filter(|r| r.allocates).count();
    let phases = rows.iter().filter(|r| r.phase).count();
    let begin = if phases == 0 { String::new() } else { format!(", operations of MPI: {phases}") };
    let leading = match rows.len() - allocating - phases {
        0 => String::new(),
        calls => format!(", calls that may lead to one: {calls}"),
    };
    let mut text = format!("{file}: allocating calls: {allocating}{leading}{begin} ({how})\n\n");
    for row in &rows {
        let column = row.column.map_or_else(String::new, |c| format!(":{c}"));
        let place = format!("{}:{}{column}", row.file, row.line);
        // Of operators the name without what they are given.
        let allocator = row.allocator.as_deref().map(|a| a.split('(').next().unwrap_or(a));
        let what = allocator.unwrap_or(match row {
            _ if row.allocates => "allocates",
            _ if row.phase => "begins a phase",
            _ => "calls",
        });
        let number = row.position.as_ref().map_or_else(String::new, |p| format!("{p}  "));
        let inlined = row.inlined.iter().map(|f| format!(", in {}", brief(f))).collect::<String>();
        text += &format!("{number}{what:<14}  {place:<24}  {}{inlined}\n", brief(&row.function));
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// What is said where phases are missing from the list.
const UNNAMED: &str = "the names of some marks are made as the program runs: what these phases may ask for is told for the phase before each";

fn phases(args: &Args) -> Result<ExitCode> {
    let machine = crate::plan::machine(None, &[])?;
    let foreseen = counts::foresee(&args.file, &[], &BTreeMap::new(), &machine).map_err(|e| anyhow!(e))?;
    // Several calls of one line differ by their columns.
    let frame = |f: &model::Frame| f.source.first().map_or_else(|| f.to_string(), |line| f.exact_line_text(line));
    let stack = |s: &model::Site| s.frames.iter().map(frame).collect::<Vec<_>>().join(", from ");
    let row = |(begins, asked): &(model::Site, Option<Vec<model::Site>>)| PhaseRow {
        id: begins.id.to_string(),
        begins: stack(begins),
        may_use: asked.as_ref().map(|sites| sites.iter().map(stack).collect()),
    };
    let rows: Vec<PhaseRow> = foreseen.phases.iter().map(row).collect();
    if args.json {
        output::print(&(serde_json::to_string_pretty(&rows)? + "\n"))?;
        if foreseen.unnamed {
            eprintln!("hearth: {UNNAMED}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{}: phases: {}\n", args.file.display(), rows.len());
    for row in &rows {
        text += &format!("\n{}  {}\n", row.id, row.begins);
        match &row.may_use {
            None => text += "  may ask for anything: something in it cannot be followed\n",
            Some(sites) if sites.is_empty() => text += "  asks for nothing of 4 KiB or more\n",
            Some(sites) => text += &sites.iter().map(|s| format!("  may ask for {s}\n")).collect::<String>(),
        }
    }
    if foreseen.unnamed {
        text += &format!("\n{UNNAMED}\n");
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn annotated_rows(table: &annotated::Table) -> Vec<Row> {
    let row = |(number, p): (u32, &annotated::Position)| Row {
        position: Some(format!("{number:08x}")),
        file: p.file.clone(),
        line: p.line,
        column: Some(p.column),
        function: p.function.clone(),
        allocates: p.allocates,
        phase: p.phase,
        allocator: None,
        inlined: Vec::new(),
    };
    table.positions().into_iter().map(row).collect()
}

fn debug_rows(args: &Args) -> Result<Vec<Row>> {
    let file = args.file.display();
    let module = rebuilt::identity(&args.file).map_err(|e| anyhow!(e))?;
    let found = calls::that_allocate(&module).map_err(|e| anyhow!(e))?;
    if found.is_empty() {
        bail!("{file} calls no function that allocates by its name");
    }
    if !found.iter().any(|a| a.source.iter().any(|l| l.line != 0)) {
        bail!(
            "{file} is not compiled with Hearth's compilers and has no debug information: compile it with -g, or with hearth-cc"
        );
    }
    let row = |a: calls::Allocation| {
        // The program's own line, and not the library's.
        let own = a.source.iter().position(|l| !l.is_wrapper()).unwrap_or(a.source.len().checked_sub(1)?);
        let (first, rest) = a.source.get(own..)?.split_first()?;
        Some(Row {
            position: None,
            file: first.file.rsplit('/').next().unwrap_or_default().to_string(),
            line: first.line,
            column: None,
            function: first.function.clone(),
            allocates: true,
            phase: false,
            allocator: Some(record::symbols::plain_name(a.allocator)),
            inlined: rest.iter().map(ToString::to_string).collect(),
        })
    };
    Ok(found.into_iter().filter_map(row).collect())
}
