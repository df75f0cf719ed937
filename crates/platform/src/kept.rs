//! Measurements are kept: one JSON file per machine in `$XDG_CACHE_HOME/hearth` (by default `~/.cache/hearth`).
//!
//! A home directory is often shared by many machines, so the file's name holds a hash of host name, processor, CPUs and
//! nodes, and the file itself repeats them; figures of another machine are never used.

use crate::discover::host_name;
use crate::error::Error;
use crate::facts::Facts;
use crate::measure::{Machine, Measured};
use crate::tiers;
use model::{Figure, GbPerSec, Nanos, Origin, Platform};
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// What tells this machine from others.
pub(crate) fn machine(facts: &Facts) -> Machine {
    let mut nodes: Vec<u32> = facts.nodes.iter().filter(|n| n.capacity.value.0 > 0).map(|n| n.number).collect();
    nodes.sort_unstable();
    Machine { host: host_name(), cpu_model: facts.cpu_model.clone(), cpus: facts.cpus.len(), nodes }
}

/// The directory, made for this user only if it is not there.
pub(crate) fn directory() -> Result<PathBuf, Error> {
    let dir = directory_name()?;
    DirBuilder::new().recursive(true).mode(0o700).create(&dir).map_err(|e| {
        Error::new(format!(
            "cannot keep measurements in `{}`: {e}; set XDG_CACHE_HOME to a directory you can write",
            dir.display()
        ))
    })?;
    Ok(dir)
}

fn directory_name() -> Result<PathBuf, Error> {
    let absolute = |v: &str| std::env::var_os(v).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    cache.map(|c| c.join("hearth")).ok_or_else(|| {
        Error::new("there is no place to keep measurements: neither XDG_CACHE_HOME nor HOME is set to an absolute path")
    })
}

fn file_in(dir: &Path, machine: &Machine) -> PathBuf {
    let identity = format!("{}\n{}\n{}\n{:?}", machine.host, machine.cpu_model, machine.cpus, machine.nodes);
    dir.join(format!("platform-{:016x}.json", fnv1a(identity.as_bytes())))
}

/// FNV-1a (Fowler, Noll, Vo): a file name, no secret.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// What was measured on this machine before; `None` if nothing was.
///
/// # Errors
/// If the file is there and cannot be read.
pub(crate) fn load(machine: &Machine) -> Result<Option<Measured>, Error> {
    // Without a place to keep measurements there are none.
    directory_name().map_or(Ok(None), |dir| load_from(&dir, machine))
}

fn load_from(dir: &Path, machine: &Machine) -> Result<Option<Measured>, Error> {
    let file = file_in(dir, machine);
    let bad = |e: &dyn std::fmt::Display| {
        let file = file.display();
        Error::new(format!(
            "kept measurements `{file}` cannot be used: {e}; delete the file, or run `hearth platform --measure`"
        ))
    };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        // Another user's cache (a HOME kept through su or sudo) holds nothing that was measured for this one.
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => return Err(bad(&e)),
    };
    let measured: Measured = serde_json::from_str(&text).map_err(|e| bad(&e))?;
    Ok(Some(measured).filter(|m| &m.machine == machine))
}

/// Keeps measurements: the file is complete or not there, and only its owner can read it.
pub(crate) fn save(dir: &Path, measured: &Measured) -> Result<(), Error> {
    let file = file_in(dir, &measured.machine);
    let write = || -> io::Result<()> {
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer_pretty(&mut new, measured)?;
        new.write_all(b"\n")?;
        new.as_file().sync_all()?;
        new.persist(&file)?;
        Ok(())
    };
    write().map_err(|e| Error::new(format!("cannot keep measurements in `{}`: {e}", file.display())))
}

/// Puts the measured figures into the tiers whose nodes were all measured: latencies of the nearest CPU node, bandwidth
/// of each node from its best CPU node, summed over nodes.
pub(crate) fn apply(platform: &mut Platform, measured: &Measured) {
    let figure = |v: f64| Some(Figure::new(Nanos(v.round() as u64), Origin::Measured));
    for tier in &mut platform.tiers {
        let of = |node: u32| measured.pairs.iter().filter(move |p| p.memory_node == node);
        if tier.nodes.is_empty() || !tier.nodes.iter().all(|&n| of(n).next().is_some()) {
            continue;
        }
        let pairs = tier.nodes.iter().flat_map(|&n| of(n));
        if let Some(nearest) = pairs.min_by(|a, b| a.latency_ns.total_cmp(&b.latency_ns)) {
            tier.latency = figure(nearest.latency_ns);
            tier.loaded_latency = nearest.loaded_latency_ns.and_then(figure);
            // One node was loaded; the tier is under the same load when all of its nodes are.
            let load = nearest.loaded_bandwidth.map(|b| GbPerSec(b.0 * tier.nodes.len() as f64));
            tier.loaded_bandwidth = load.map(|b| Figure::new(b, Origin::Measured));
        }
        let sum = |peak: fn(&crate::measure::Pair) -> f64| {
            let total = tier.nodes.iter().map(|&n| of(n).map(peak).fold(0.0, f64::max)).sum();
            Some(Figure::new(GbPerSec(total), Origin::Measured))
        };
        (tier.read_bandwidth, tier.write_bandwidth) =
            (sum(crate::measure::Pair::peak_read), sum(crate::measure::Pair::peak_write));
        tier.mixed_bandwidth = sum(crate::measure::Pair::peak_read_write);
    }
    tiers::order(platform);
    tiers::name_by_kind(platform);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Pair, Point};
    use model::Bytes;
    use std::os::unix::fs::PermissionsExt;

    fn pair(cpu_node: u32, memory_node: u32, latency_ns: f64, read: f64) -> Pair {
        let bandwidth = [(1, 0.5), (4, 1.0)].map(|(threads, share)| Point {
            threads,
            read: GbPerSec(read * share),
            write: GbPerSec(read * share / 2.0),
            read_write: GbPerSec(read * share),
            random_read: Some(GbPerSec(read * share / 4.0)),
        });
        Pair {
            cpu_node,
            memory_node,
            buffer: Bytes::mib(256),
            latency_ns,
            loaded_latency_ns: Some(latency_ns * 2.0),
            loaded_bandwidth: Some(GbPerSec(read)),
            bandwidth: bandwidth.to_vec(),
            power: None,
            notes: Vec::new(),
        }
    }

    fn measured() -> Measured {
        let machine = Machine { host: "h".into(), cpu_model: "c".into(), cpus: 8, nodes: vec![0, 1] };
        let pairs =
            vec![pair(0, 0, 90.0, 50.0), pair(0, 1, 140.0, 20.0), pair(1, 0, 150.0, 25.0), pair(1, 1, 91.0, 52.0)];
        Measured { machine, taken: 0, pairs }
    }

    #[test]
    fn what_is_kept_comes_back_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let m = measured();
        assert_eq!(load_from(dir.path(), &m.machine), Ok(None));
        save(dir.path(), &m).unwrap();
        assert_eq!(load_from(dir.path(), &m.machine), Ok(Some(m.clone())));
        let mode = fs::metadata(file_in(dir.path(), &m.machine)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn another_machine_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let m = measured();
        save(dir.path(), &m).unwrap();
        let other = Machine { nodes: vec![0], ..m.machine.clone() };
        assert_eq!(load_from(dir.path(), &other), Ok(None));
        fs::copy(file_in(dir.path(), &m.machine), file_in(dir.path(), &other)).unwrap();
        assert_eq!(load_from(dir.path(), &other), Ok(None), "the file itself says which machine it is of");
    }

    #[test]
    fn a_broken_file_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let m = measured();
        fs::write(file_in(dir.path(), &m.machine), "{ \"taken\": ").unwrap();
        let message = load_from(dir.path(), &m.machine).unwrap_err().to_string();
        assert!(message.contains("--measure") && !message.contains('\n'), "{message}");
    }

    #[test]
    fn tiers_take_the_near_latency_and_the_sum_of_bandwidths() {
        let mut p = crate::described("pack:2 [numa(memory=64GiB)] core:4 pu:1").unwrap();
        apply(&mut p, &measured());
        let dram = p.tier("dram").unwrap();
        assert_eq!(dram.latency, Some(Figure::new(Nanos(90), Origin::Measured)));
        assert_eq!(dram.loaded_latency, Some(Figure::new(Nanos(180), Origin::Measured)));
        assert_eq!(dram.loaded_bandwidth, Some(Figure::new(GbPerSec(100.0), Origin::Measured)));
        assert_eq!(dram.mixed_bandwidth, Some(Figure::new(GbPerSec(102.0), Origin::Measured)));
        assert_eq!(dram.read_bandwidth, Some(Figure::new(GbPerSec(102.0), Origin::Measured)));
        assert_eq!(dram.write_bandwidth, Some(Figure::new(GbPerSec(51.0), Origin::Measured)));
    }
}
