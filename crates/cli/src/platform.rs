//! `hearth platform`: which memories a machine has and how fast they are.

use anyhow::Result;
use model::{Platform, Space};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::ExitCode;

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
  hearth platform                             the memories of this machine
  hearth platform --list                      the machines Hearth knows
  hearth platform knl-7210-flat-snc4          one of them
  hearth platform ./mine.toml                 one of your own
  hearth platform cxl-expander --set cxl.latency=250ns --set cxl.capacity=1TiB
  hearth platform --topology machine.xml      a machine captured with `lstopo machine.xml`";

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        list(args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut shown = match (&args.platform, &args.topology) {
        (Some(name), _) => platform::load(name)?,
        (None, Some(topology)) => platform::described(topology)?,
        (None, None) => platform::discover()?,
    };
    platform::apply_overrides(&mut shown, &args.set)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&WithSpaces::of(&shown))?);
    } else {
        print!("{}", platform::text::platform(&shown, width()));
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<()> {
    let entries = platform::library();
    if json {
        let map: BTreeMap<&str, &str> = entries.iter().map(|e| (e.name.as_str(), e.description.as_str())).collect();
        println!("{}", serde_json::to_string_pretty(&map)?);
        return Ok(());
    }
    let longest = entries.iter().map(|e| e.name.len()).max().unwrap_or(0);
    for e in &entries {
        println!("{:longest$}  {}", e.name, e.description);
    }
    Ok(())
}

/// Columns of the terminal; 100 where there is none.
fn width() -> u16 {
    terminal_size::terminal_size().map_or(100, |(w, _)| w.0)
}

/// The platform with what its spaces resolve to.
#[derive(Serialize)]
struct WithSpaces<'a> {
    #[serde(flatten)]
    platform: &'a Platform,
    spaces: BTreeMap<String, &'a str>,
}

impl WithSpaces<'_> {
    fn of(platform: &Platform) -> WithSpaces<'_> {
        let resolve = |s: Space| Some((s.to_string(), platform.space(s)?.name.as_str()));
        WithSpaces { platform, spaces: Space::ALL.into_iter().filter_map(resolve).collect() }
    }
}
