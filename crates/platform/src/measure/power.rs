//! What the machine says of its power: the energy counters of RAPL, as Linux publishes them below `/sys/class/powercap`.
//!
//! There is a zone for each package, and where the processor tells it one named `dram` for the memory behind it, of whatever kind: H2M reads
//! the same two (Klinkenberg et al., 2023, section 3.3). What memory of one tier takes is therefore seen as the difference that
//! reading it makes. Memory on the package (HBM) is in the package's figure.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Power of all packages together, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Watts {
    /// Of the packages: cores, caches, and memory that is on them.
    pub package: f64,
    /// Of the memory behind them; `None` if the machine does not tell it apart.
    pub memory: Option<f64>,
}

/// The energy counters of this machine.
pub struct Meter {
    packages: Vec<Counter>,
    memory: Vec<Counter>,
}

/// A zone's `energy_uj`, which begins anew at `range`.
struct Counter {
    file: PathBuf,
    range: u64,
}

impl Counter {
    fn read(&self) -> u64 {
        number(&self.file).unwrap_or(0)
    }
}

impl Meter {
    /// This machine's; `None` if it has none.
    ///
    /// # Errors
    /// A sentence for the user if they are there and cannot be read.
    pub fn find() -> Result<Option<Meter>, String> {
        Meter::below(Path::new("/sys/class/powercap"))
    }

    fn below(zones: &Path) -> Result<Option<Meter>, String> {
        let mut meter = Meter { packages: Vec::new(), memory: Vec::new() };
        for zone in fs::read_dir(zones).into_iter().flatten().flatten().map(|entry| entry.path()) {
            let name = fs::read_to_string(zone.join("name")).unwrap_or_default();
            let counters = match name.trim() {
                "dram" => &mut meter.memory,
                name if name.starts_with("package-") => &mut meter.packages,
                _ => continue,
            };
            // Where a processor's registers and its memory-mapped ones tell the same, one of the two is enough.
            if zone.file_name().is_some_and(|n| n.to_string_lossy().starts_with("intel-rapl-mmio")) {
                continue;
            }
            let (file, range) = (zone.join("energy_uj"), number(&zone.join("max_energy_range_uj")));
            if let Err(e) = fs::read_to_string(&file) {
                return Err(format!(
                    "power was not measured: `{}` cannot be read: {e}; run it as root",
                    file.display()
                ));
            }
            counters.push(Counter { file, range: range.unwrap_or(u64::MAX) });
        }
        Ok(if meter.packages.is_empty() { None } else { Some(meter) })
    }

    /// Mean power over this long, beside whatever runs.
    pub fn while_waiting(&self, time: Duration) -> Watts {
        let all = |counters: &[Counter]| counters.iter().map(Counter::read).collect::<Vec<_>>();
        let (packages, memory, begin) = (all(&self.packages), all(&self.memory), Instant::now());
        std::thread::sleep(time);
        let seconds = begin.elapsed().as_secs_f64();
        let watts = |counters: &[Counter], before: Vec<u64>| {
            let joules: f64 = counters.iter().zip(before).map(|(c, before)| joules(before, c.read(), c.range)).sum();
            (joules / seconds * 10.0).round() / 10.0
        };
        Watts {
            package: watts(&self.packages, packages),
            memory: (!memory.is_empty()).then(|| watts(&self.memory, memory)),
        }
    }
}

/// From one reading to the next, of a counter in microjoules that begins anew after `range`.
fn joules(before: u64, after: u64, range: u64) -> f64 {
    let used = if after >= before { after - before } else { range.saturating_sub(before).saturating_add(after) };
    used as f64 / 1e6
}

fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zone(root: &Path, zone: &str, name: &str, energy: &str) {
        let dir = root.join(zone);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("name"), format!("{name}\n")).unwrap();
        fs::write(dir.join("energy_uj"), format!("{energy}\n")).unwrap();
        fs::write(dir.join("max_energy_range_uj"), "262143328850\n").unwrap();
    }

    #[test]
    fn packages_and_their_memory_are_found_once() {
        let root = tempfile::tempdir().unwrap();
        assert!(Meter::below(root.path()).unwrap().is_none(), "no counters");
        assert!(Meter::below(&root.path().join("none")).unwrap().is_none(), "no such directory");
        fs::create_dir(root.path().join("intel-rapl")).unwrap();
        for (name, kind) in [
            ("intel-rapl:0", "package-0"),
            ("intel-rapl:0:0", "dram"),
            ("intel-rapl:1", "package-1"),
            ("intel-rapl:1:0", "dram"),
            ("intel-rapl:2", "psys"),
            ("intel-rapl-mmio:0", "package-0"),
            ("intel-rapl-mmio:0:0", "dram"),
        ] {
            zone(root.path(), name, kind, "1000000");
        }
        let meter = Meter::below(root.path()).unwrap().unwrap();
        assert_eq!((meter.packages.len(), meter.memory.len()), (2, 2));
        let bump = |zone: &str, energy: &str| fs::write(root.path().join(zone).join("energy_uj"), energy).unwrap();
        let watts = std::thread::scope(|scope| {
            let reading = scope.spawn(|| meter.while_waiting(Duration::from_millis(400)));
            std::thread::sleep(Duration::from_millis(200));
            bump("intel-rapl:0", "41000000");
            bump("intel-rapl:1:0", "5000000");
            reading.join().unwrap()
        });
        // 40 and 4 joules in four tenths of a second, or in more on a busy machine.
        assert!(watts.package > 0.0 && watts.package <= 100.0, "{watts:?}");
        let memory = watts.memory.unwrap();
        assert!((watts.package / memory - 10.0).abs() < 0.6, "{watts:?}");
    }

    #[test]
    fn what_cannot_be_read_is_said_in_one_line() {
        let root = tempfile::tempdir().unwrap();
        zone(root.path(), "intel-rapl:0", "package-0", "1");
        fs::remove_file(root.path().join("intel-rapl:0/energy_uj")).unwrap();
        let why = Meter::below(root.path()).err().unwrap();
        assert!(why.contains("energy_uj") && !why.contains('\n'), "{why}");
    }

    #[test]
    fn a_counter_may_begin_anew() {
        assert!((joules(5_000_000, 7_000_000, 10_000_000) - 2.0).abs() < 1e-9);
        assert!((joules(9_000_000, 1_000_000, 10_000_000) - 2.0).abs() < 1e-9);
    }
}
