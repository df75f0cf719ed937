//! `hearth platform`: which memories a machine has and how fast they are.

use crate::output;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use platform::ThisMachine;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

/// Shows the memory tiers of this machine, of a known one, or of one you describe
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A platform of the library (see --list), one of your own by name, or the path of a platform file; this machine if
    /// left out
    #[arg(value_name = "NAME|FILE")]
    platform: Option<String>,
    /// List the platforms of the library
    #[arg(long, conflicts_with_all = ["platform", "set", "topology"])]
    list: bool,
    /// Measure this machine's memory, and keep the result for later
    #[arg(long, conflicts_with_all = ["platform", "list", "topology"])]
    measure: bool,
    /// Change one value, for example cxl.latency=250ns; may be given several times
    #[arg(long, value_name = "TIER.FIELD=VALUE")]
    set: Vec<String>,
    /// Take the machine from an hwloc XML file (written by lstopo) or a synthetic description
    #[arg(long, value_name = "XML|SYNTHETIC", conflicts_with = "platform")]
    topology: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth platform                         the memories of this machine
  hearth platform --measure               measure their latency and bandwidth
  hearth platform --list                  the machines Hearth knows
  hearth platform knl-7210-flat-snc4      one of them
  hearth platform ./mine.toml             one of your own
  hearth platform cxl-expander --set cxl.latency=250ns --set cxl.capacity=1TiB
  hearth platform --topology machine.xml  captured by `lstopo machine.xml`";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        list(args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (mut shown, measured) = match (&args.platform, &args.topology) {
        (Some(name), _) => (platform::load(name)?, None),
        (None, Some(topology)) => (platform::described(topology)?, None),
        (None, None) => {
            let ThisMachine { platform, measured } = if args.measure { measure()? } else { platform::this_machine()? };
            (platform, measured)
        }
    };
    platform::apply_overrides(&mut shown, &args.set)?;
    if args.json {
        output::print(&(platform::json::platform(&shown, measured.as_ref()).to_string() + "\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::print(&platform::text::platform(&shown, width()))?;
    if let Some(m) = measured {
        match args.measure {
            true => output::print(&format!("\n{}", platform::text::measured(&m, width())))?,
            false => {
                output::print(&format!("\nmeasured {}; `hearth platform --measure` measures again\n", age(m.taken)))?;
            }
        }
        output::print(&platform::text::notes(&m, width()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Measures with a line of progress on a terminal.
fn measure() -> Result<ThisMachine> {
    let bar = ProgressBar::new_spinner().with_style(ProgressStyle::with_template("{spinner} measuring {msg}")?);
    bar.enable_steady_tick(Duration::from_millis(100));
    let result = platform::measure(&mut |what| bar.set_message(what.to_string()));
    bar.finish_and_clear();
    Ok(result?)
}

/// How long ago, in words.
fn age(taken: u64) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let minutes = now.saturating_sub(taken) / 60;
    let (n, unit) = match minutes {
        0 => return "just now".into(),
        1..=119 => (minutes, "minute"),
        120..=2879 => (minutes / 60, "hour"),
        _ => (minutes / 1440, "day"),
    };
    format!("{n} {unit}{} ago", if n == 1 { "" } else { "s" })
}

fn list(json: bool) -> Result<()> {
    let entries = platform::library();
    if json {
        let map: BTreeMap<&str, &str> = entries.iter().map(|e| (e.name.as_str(), e.description.as_str())).collect();
        output::print(&(serde_json::to_string_pretty(&map)? + "\n"))?;
        return Ok(());
    }
    let longest = entries.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for e in &entries {
        output::print(&format!("{:longest$}  {}\n", e.name, e.description))?;
    }
    Ok(())
}

/// Columns of the terminal; 100 where there is none.
fn width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(w, _)| w.0)
}
