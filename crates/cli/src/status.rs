//! `hearth status`: what the daemon sees and does.

mod prometheus;

use crate::output;
use ::live::daemon::client;
use ::live::daemon::talk::{Reply, Request};
use ::live::status::Status;
use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table};
use report::words::printable;
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows what the daemon sees and does: the fast memory, and what each program has of it
#[derive(clap::Args)]
pub struct Args {
    /// Where the daemon listens [default: your own daemon, or root's]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print metrics for Prometheus, for example into a file of node_exporter's textfile collector
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    let Reply::Status { status } = client::ask(args.socket.as_deref(), Request::Status)? else {
        bail!("the daemon gave another answer than was asked for; is it of another version?")
    };
    let text = match () {
        () if args.json => {
            serde_json::to_string_pretty(&status).context("the status cannot be written as JSON")? + "\n"
        }
        () if args.prometheus => prometheus::text(&status),
        () => shown(&status),
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn shown(status: &Status) -> String {
    let (pid, intervals, interval) = (status.pid, status.intervals, status.interval);
    let mut out = format!("daemon {pid}: {intervals} intervals of {interval} so far\n");
    for note in &status.notes {
        out += &format!("  {}\n", printable(&note.text));
    }
    for tier in &status.tiers {
        out += &match tier.limit.0 {
            u64::MAX => format!("  {:<8} {} of objects\n", tier.name, tier.used),
            _ => format!("  {:<8} {} of objects, of {} that they may take\n", tier.name, tier.used, tier.limit),
        };
    }
    out += &format!(
        "  {} intervals asked for moves: {} went to faster memory, {} to slower, {} of it beside phases that do not use it\n",
        status.decisions, status.promoted, status.demoted, status.beside
    );
    for share in &status.shares {
        out += &format!("  {:<8} can count on {}, and has {}\n", printable(&share.group), share.part, share.used);
    }
    if status.programs.is_empty() {
        return out + "no programs; start one with `hearth live --attach -- PROGRAM`\n";
    }
    let mut table = Table::new();
    table.load_preset(comfy_table::presets::NOTHING);
    let mut head = vec!["process".to_string(), "user".into(), "objects".into()];
    head.extend(status.tiers.iter().map(|t| t.name.clone()));
    head.extend(["misses/s".to_string(), "program".into()]);
    let columns = head.len();
    table.set_header(head);
    for p in &status.programs {
        let mut row = vec![p.pid.to_string(), p.uid.to_string(), p.records.to_string()];
        row.extend(p.resident.iter().map(|b| b.to_string()));
        row.extend([format!("{:.0}", p.misses_per_second), printable(&p.exe)]);
        table.add_row(row);
    }
    for column in table.column_iter_mut().take(columns - 1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for line in table.to_string().lines() {
        out += &format!("{}\n", line.trim_end());
    }
    out
}
