//! The platform of this machine, or of a machine that is described to hwloc.

use crate::error::Error;
use crate::facts::Facts;
use crate::{hwloc, sysfs, tiers};
use model::Platform;
use std::path::Path;

/// The memory tiers of this machine.
///
/// hwloc gives nodes, kinds and whatever figures it has; the kernel's HMAT files, where they exist, replace the
/// figures.
///
/// # Errors
/// If hwloc cannot read the topology.
pub fn discover() -> Result<Platform, Error> {
    let facts = this_machine()?;
    Ok(tiers::platform(&host_name(), &facts))
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
pub(crate) fn this_machine() -> Result<Facts, Error> {
    let mut facts = hwloc::read(&hwloc::Source::ThisMachine)?;
    if facts.this_machine {
        sysfs::add(&mut facts, Path::new("/"));
    }
    Ok(facts)
}

pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").map_or_else(|_| "localhost".into(), |h| h.trim().to_string())
}
