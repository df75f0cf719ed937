//! The processor and what the kernel can count on it, out of /proc/cpuinfo and /sys: everything the choice of events needs
//! to know, so that it can be made for machines that nobody here has.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Who made the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Intel.
    Intel,
    /// AMD (and Hygon, whose cores are AMD's).
    Amd,
    /// Arm itself.
    Arm,
    /// Somebody else, by the name or number that the kernel gives.
    Other,
}

/// A machine.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Who made it.
    pub maker: Maker,
    /// Family (x86) or 0.
    pub family: u32,
    /// Model (x86), or part number (Arm).
    pub model: u32,
    /// Its name for people.
    pub name: String,
    /// The kernel runs under a hypervisor.
    pub virtual_machine: bool,
    /// Clock to reckon cycles with, in MHz: the nominal one where the kernel tells, else what it runs at.
    pub mhz: Option<f64>,
    /// CPUs in use.
    pub online: Vec<u32>,
    /// Sources of events, by name.
    pub pmus: BTreeMap<String, Pmu>,
}

/// A source of events, as /sys/bus/event_source/devices describes it.
#[derive(Clone, Debug, Default)]
pub struct Pmu {
    /// Number for `perf_event_attr.type`.
    pub number: u32,
    /// CPUs that have it; empty: all.
    pub cpus: Vec<u32>,
    /// Fields, and which bits of which word they are: `config:0-7`.
    format: BTreeMap<String, String>,
    /// Events by name, as lists of fields: `event=0xcd,umask=0x1`.
    pub events: BTreeMap<String, String>,
}

impl Cpu {
    /// The machine whose /proc and /sys lie below `root`.
    pub fn read(root: &Path) -> Cpu {
        let text = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
        let info = text("proc/cpuinfo");
        // The first processor: those of one machine are of one kind, but for their cores' sizes.
        let value = |key: &str| {
            let line = info.lines().find(|l| l.split(':').next().is_some_and(|k| k.trim() == key))?;
            line.split_once(':').map(|(_, v)| v.trim().to_string())
        };
        let number = |key: &str| {
            let v = value(key)?;
            match v.strip_prefix("0x") {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => v.parse().ok(),
            }
        };
        let (maker, family, model) = match (value("vendor_id").as_deref(), number("CPU implementer")) {
            (Some("GenuineIntel"), _) => (Maker::Intel, number("cpu family"), number("model")),
            (Some("AuthenticAMD" | "HygonGenuine"), _) => (Maker::Amd, number("cpu family"), number("model")),
            (_, Some(0x41)) => (Maker::Arm, None, number("CPU part")),
            _ => (Maker::Other, number("cpu family"), number("model").or(number("CPU part"))),
        };
        let khz = |file: &str| {
            let path = format!("sys/devices/system/cpu/cpu0/cpufreq/{file}");
            text(&path).trim().parse::<f64>().ok().map(|khz| khz / 1000.0)
        };
        let mhz = khz("base_frequency").or_else(|| value("cpu MHz")?.parse().ok()).or(khz("cpuinfo_max_freq"));
        let flags = value("flags").unwrap_or_default();
        let mut pmus = BTreeMap::new();
        for entry in fs::read_dir(root.join("sys/bus/event_source/devices")).into_iter().flatten().flatten() {
            let dir = entry.path();
            let Some(number) = line(&dir.join("type")).and_then(|t| t.parse().ok()) else { continue };
            let cpus = line(&dir.join("cpus")).or_else(|| line(&dir.join("cpumask")));
            let mut events = lines(&dir.join("events"));
            // Units and scales of events lie beside them.
            events.retain(|name, _| !name.contains('.'));
            let cpus = cpus.map(|c| list(&c)).unwrap_or_default();
            let pmu = Pmu { number, cpus, format: lines(&dir.join("format")), events };
            pmus.insert(entry.file_name().to_string_lossy().into_owned(), pmu);
        }
        Cpu {
            maker,
            family: family.unwrap_or(0),
            model: model.unwrap_or(0),
            name: value("model name").or(value("CPU part").map(|p| format!("Arm part {p}"))).unwrap_or_default(),
            virtual_machine: flags.split(' ').any(|f| f == "hypervisor"),
            mhz,
            online: list(&text("sys/devices/system/cpu/online")),
            pmus,
        }
    }

    /// This machine.
    pub fn here() -> Cpu {
        Cpu::read(Path::new("/"))
    }
}

impl Pmu {
    /// The words `config`, `config1`, `config2` and `config3` of an event that is given as a list of fields. `None`: a field
    /// that this source does not have.
    pub fn encode(&self, fields: &str) -> Option<[u64; 4]> {
        let mut words = [0; 4];
        for field in fields.split(',').filter(|f| !f.is_empty()) {
            let (name, value) = field.split_once('=').unwrap_or((field, "1"));
            let mut value = match value.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16).ok()?,
                None => value.parse().ok()?,
            };
            let (word, bits) = self.format.get(name)?.split_once(':')?;
            let word = words.get_mut(match word {
                "config" => 0,
                _ => word.strip_prefix("config")?.parse::<usize>().ok()?,
            })?;
            // Lowest bits first, into one range of bits after the other.
            for range in bits.split(',') {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
                let width = last.checked_sub(first)? + 1;
                let mask = if width >= 64 { u64::MAX } else { (1 << width) - 1 };
                *word |= (value & mask).checked_shl(first)?;
                value = value.checked_shr(width).unwrap_or(0);
            }
            if value != 0 {
                return None;
            }
        }
        Some(words)
    }

    /// Whether events of this source can say this of themselves.
    pub fn has(&self, field: &str) -> bool {
        self.format.contains_key(field)
    }
}

fn line(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|t| t.trim().to_string())
}

/// The files of a folder with what they say.
fn lines(dir: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|e| Some((e.file_name().to_string_lossy().into_owned(), line(&e.path())?))).collect()
}

/// `0-3,8` as numbers.
fn list(text: &str) -> Vec<u32> {
    let mut out = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) {
            out.extend(first..=last.min(first.saturating_add(1 << 16)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_go_where_the_kernel_says() {
        let format = [("event", "config:0-7"), ("umask", "config:8-15,40-47"), ("ldlat", "config1:0-15")];
        let format = format.into_iter().chain([("filter", "config2:0-63"), ("inv", "config:23")]);
        let pmu = Pmu { format: format.map(|(k, v)| (k.into(), v.into())).collect(), ..Pmu::default() };
        assert_eq!(pmu.encode("event=0xcd,umask=0x1,ldlat=30"), Some([0x1cd, 30, 0, 0]));
        assert_eq!(pmu.encode("umask=0x120,inv"), Some([0x2000 | 1 << 40 | 1 << 23, 0, 0, 0]));
        assert_eq!(pmu.encode("filter=0xffffffffffffffff").unwrap()[2], u64::MAX);
        assert_eq!(pmu.encode("event=0x1cd"), None, "too large");
        assert_eq!(pmu.encode("edge=1"), None, "no such field");
        assert_eq!((list("0-2,5\n"), list(""), list("3")), (vec![0, 1, 2, 5], vec![], vec![3]));
    }
}
