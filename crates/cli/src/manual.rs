//! `hearth manual`: the manual pages and the reference of the command line, made of the same descriptions as `--help`.

use anyhow::{Context, Result};
use clap::Command;
use std::path::PathBuf;
use std::process::ExitCode;

/// Columns of the help in the reference: the narrowest that examples fit into.
const COLUMNS: usize = 100;

/// Writes the manual pages, or the reference of the command line in docs/
#[derive(clap::Args)]
pub struct Args {
    /// Folder for the manual pages; without it the reference goes to standard output, as Markdown
    #[arg(long, value_name = "FOLDER")]
    man: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: Args, command: Command) -> Result<ExitCode> {
    let command = command.disable_help_subcommand(true);
    match args.man {
        Some(folder) => std::fs::create_dir_all(&folder)
            .and_then(|()| clap_mangen::generate_to(command, &folder))
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))?,
        None => crate::output::print(&reference(command))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn reference(command: Command) -> String {
    let mut command = command.term_width(COLUMNS);
    command.build();
    let mut text = String::from(
        "# Command line\n\nWhat `hearth VERB --help` prints; the manual pages (`man hearth-record`) say the same.\n",
    );
    add(&mut text, &mut command, "hearth");
    text
}

fn add(text: &mut String, command: &mut Command, name: &str) {
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    *text += &format!("\n## {name}\n\n```text\n{}\n```\n", lines.join("\n").trim_end());
    for verb in command.get_subcommands_mut().filter(|verb| !verb.is_hide_set()) {
        let name = format!("{name} {}", verb.get_name());
        add(text, verb, &name);
    }
}
