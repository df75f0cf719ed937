//! The platform of this machine, or of a machine that is described to hwloc.

use crate::error::Error;
use crate::facts::Facts;
use crate::measure::{self, Measured};
use crate::{hwloc, kept, sysfs, tiers};
use model::Platform;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// This machine: its platform, and what was measured on it.
#[derive(Clone, Debug)]
pub struct ThisMachine {
    /// The tiers, with measured figures where there are any.
    pub platform: Platform,
    /// Everything that was measured, if anything was.
    pub measured: Option<Measured>,
}

/// The memory tiers of this machine.
///
/// hwloc gives nodes, kinds and whatever figures it has; the kernel's HMAT files, where they exist, replace the
/// figures; what [`measure()`] kept replaces both.
///
/// # Errors
/// If hwloc cannot read the topology, or kept measurements cannot be read.
pub fn discover() -> Result<Platform, Error> {
    this_machine().map(|m| m.platform)
}

/// As [`discover`], with all kept measurements.
///
/// # Errors
/// As [`discover`].
pub fn this_machine() -> Result<ThisMachine, Error> {
    let facts = facts()?;
    let measured = if facts.this_machine { kept::load(&kept::machine(&facts))? } else { None };
    Ok(assemble(&facts, measured))
}

/// Measures this machine (see [`mod@crate::measure`]) and keeps the result; `progress` hears what is being done.
///
/// # Errors
/// If the result could not be kept (found out before measuring), or memory cannot be bound or threads pinned.
pub fn measure(progress: &mut dyn FnMut(&str)) -> Result<ThisMachine, Error> {
    let facts = facts()?;
    if !facts.this_machine {
        return Err(Error::new("cannot measure: hwloc's environment variables describe another machine; unset them"));
    }
    let dir = kept::directory()?;
    let pairs = measure::pairs(&facts, progress)?;
    let taken = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let measured = Measured { machine: kept::machine(&facts), taken, pairs };
    kept::save(&dir, &measured)?;
    Ok(assemble(&facts, Some(measured)))
}

fn assemble(facts: &Facts, measured: Option<Measured>) -> ThisMachine {
    let mut platform = tiers::platform(&host_name(), facts);
    if let Some(measured) = &measured {
        kept::apply(&mut platform, measured);
    }
    ThisMachine { platform, measured }
}

/// The memory tiers of a machine given as an hwloc XML file or as a synthetic description such as
/// `pack:2 [numa(memory=64GiB)] core:8 pu:1`.
///
/// # Errors
/// If hwloc can read it as neither.
pub fn described(topology: &str) -> Result<Platform, Error> {
    let facts = hwloc::read(&hwloc::Source::Described(topology))?;
    let path = Path::new(topology);
    let name = if path.is_file() { path.file_stem().map(|s| s.to_string_lossy().into_owned()) } else { None };
    Ok(tiers::platform(name.as_deref().unwrap_or("synthetic"), &facts))
}

/// The facts about this machine. hwloc can be told by environment variables to describe another one; the kernel is
/// then not asked.
fn facts() -> Result<Facts, Error> {
    let mut facts = hwloc::read(&hwloc::Source::ThisMachine)?;
    if facts.this_machine {
        sysfs::add(&mut facts, Path::new("/"));
        sysfs::whole_memory(&mut facts, Path::new("/"));
    }
    Ok(facts)
}

pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "localhost".into(), |h| h.trim().to_string())
}
