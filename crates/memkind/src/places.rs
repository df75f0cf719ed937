//! Where each kind's memory is on this machine.
//!
//! memkind asks the firmware's tables for nodes; here a kind is one of Hearth's tiers. What has a tier's name in memkind and none on this machine is
//! not available, and what only prefers it is left to the kernel.

use crate::code;
use crate::kinds::{self, OWN};
use api::machine::Machine;
use api::wish::{Partition, Space, Wish};
use api::{runtime, state};
use core::ffi::c_int;
use core::sync::atomic::{AtomicPtr, Ordering::*};
use model::Space as Wanted;
use std::path::Path;

/// Where the memory of a kind comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// From malloc.
    Malloc,
    /// It is an object with these traits.
    Object(Wish),
    /// There is none.
    Nothing,
}

/// A kind on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// What `memkind_check_available` says.
    pub available: c_int,
    /// Where its memory comes from.
    pub source: Source,
    /// Bytes of its memory, if it has any.
    pub capacity: Option<u64>,
}

/// All kinds on this machine.
#[derive(Debug)]
pub struct Places {
    own: Vec<Place>,
    /// The tier of high bandwidth.
    pub high_bandwidth: Option<usize>,
}

impl Places {
    /// One of memkind's own kinds.
    pub fn of(&self, own: usize) -> &Place {
        const NONE: &Place = &Place { available: code::INVALID, source: Source::Nothing, capacity: None };
        self.own.get(own).unwrap_or(NONE)
    }
}

/// What a kind is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Malloc,
    Bandwidth,
    Latency,
    Capacity,
    /// Memory of the nodes with CPUs.
    Regular,
    /// Slower memory of nodes without CPUs.
    Kmem,
    All,
    /// Not supported.
    Not(c_int),
}

/// What memkind's own kinds are about, and whether they fall back.
fn meaning(own: usize) -> (About, bool) {
    let name = OWN.get(own).copied().unwrap_or_default();
    let about = match name {
        "DEFAULT" => About::Malloc,
        "REGULAR" => About::Regular,
        "INTERLEAVE" => About::All,
        _ if name.ends_with("HUGETLB") => About::Not(code::HUGETLB),
        _ if name.ends_with("GBTLB") => About::Not(code::FAILED),
        _ if name.starts_with("HBW") || name.starts_with("HIGHEST_BANDWIDTH") => About::Bandwidth,
        _ if name.starts_with("LOWEST_LATENCY") => About::Latency,
        _ if name.starts_with("HIGHEST_CAPACITY") => About::Capacity,
        _ if name.starts_with("DAX_KMEM") => About::Kmem,
        _ => About::Not(code::INVALID),
    };
    (about, name.ends_with("PREFERRED"))
}

/// What is known beside the tiers.
#[derive(Debug, Default)]
struct Known {
    /// Nodes with CPUs; `None`: the kernel does not say.
    with_cpus: Option<Vec<u32>>,
    /// Nodes that the driver kmem has made of persistent or CXL memory.
    kmem: Vec<u32>,
    /// What the user says: memkind's variables.
    high_bandwidth: Option<String>,
    slow: Option<String>,
}

impl Known {
    fn find(root: &Path) -> Known {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let devices = std::fs::read_dir(root.join("sys/bus/dax/drivers/kmem")).into_iter().flatten().flatten();
        let node = |device: std::fs::DirEntry| read(&device.path().join("target_node"))?.trim().parse().ok();
        let with_cpus = read(&root.join("sys/devices/system/node/has_cpu")).and_then(|t| platform::parse_list(&t));
        let said = |name: &str| std::env::var(name).ok();
        Known {
            with_cpus,
            kmem: devices.filter_map(node).collect(),
            high_bandwidth: said("MEMKIND_HBW_NODES"),
            slow: said("MEMKIND_DAX_KMEM_NODES"),
        }
    }
}

/// The one tier of these nodes.
fn tier_of(machine: &Machine, list: &str) -> Result<usize, c_int> {
    let nodes = platform::parse_list(list).unwrap_or_default();
    let mut tiers = nodes.iter().map(|&node| machine.tier_of_node(node));
    let first = tiers.next().flatten().ok_or(code::ENVIRON)?;
    if tiers.all(|tier| tier == Some(first)) { Ok(first) } else { Err(code::ENVIRON) }
}

fn find(machine: &Machine, known: &Known) -> Places {
    let tiers = machine.tiers();
    let home = model::home(tiers);
    let capacity = |tier: usize| tiers.get(tier).and_then(|t| t.capacity).map_or(0, |c| c.value.0);
    let has_cpus = |tier: usize| match &known.with_cpus {
        Some(nodes) => nodes.iter().any(|&n| machine.tier_of_node(n) == Some(tier)),
        None => tier == home,
    };
    let wanted = |space| machine.tier(Space::Wish(space)).map_err(|_| code::UNAVAILABLE);
    let high_bandwidth = match &known.high_bandwidth {
        Some(list) => tier_of(machine, list),
        // Where there is one memory none has a higher bandwidth.
        None if tiers.len() == 1 => Err(code::UNAVAILABLE),
        None => wanted(Wanted::HighestBandwidth),
    };
    let kmem = || {
        if let Some(list) = &known.slow {
            return tier_of(machine, list);
        }
        let by_driver = known.kmem.iter().find_map(|&node| machine.tier_of_node(node));
        // Between equals the slower.
        let slower = (home + 1..tiers.len()).filter(|&t| !has_cpus(t)).max_by_key(|&t| capacity(t));
        by_driver.or(slower).ok_or(code::UNAVAILABLE)
    };
    let regular = || {
        let others = 0..tiers.len();
        core::iter::once(home).chain(others).find(|&t| has_cpus(t)).ok_or(code::UNAVAILABLE)
    };
    let all = || -> Option<Wish> {
        let first = wanted(Wanted::HighestBandwidth).ok()?;
        let largest = wanted(Wanted::LargestCapacity).ok()?;
        let rest = [largest].into_iter().chain(0..tiers.len()).find(|&t| t != first);
        let wish = Wish { space: Some(Space::Tier(first)), ..Wish::default() };
        // By turns, half of it in each.
        let Some(rest) = rest else { return Some(wish) };
        Some(Wish { partition: Partition::Interleave, rest: Some(Space::Tier(rest)), ..wish })
    };
    let place = |own: usize| {
        let (about, falls_back) = meaning(own);
        let total = (0..tiers.len()).map(capacity).sum();
        let tier = match about {
            About::Malloc => {
                // What a program makes like it are objects that the kernel places.
                return Place {
                    available: code::SUCCESS,
                    source: Source::Object(Wish::default()),
                    capacity: Some(total),
                };
            }
            About::All => {
                let source = all().map_or(Source::Malloc, Source::Object);
                return Place { available: code::SUCCESS, source, capacity: Some(total) };
            }
            About::Not(code) => return Place { available: code, source: Source::Nothing, capacity: None },
            About::Bandwidth => high_bandwidth,
            About::Latency => wanted(Wanted::LowestLatency),
            About::Capacity => wanted(Wanted::LargestCapacity),
            About::Kmem => kmem(),
            About::Regular => regular(),
        };
        match tier {
            // In the only memory nothing need be proved.
            Ok(tier) => {
                let required = !falls_back && tiers.len() > 1;
                let wish = Wish { space: Some(Space::Tier(tier)), required, ..Wish::default() };
                Place {
                    available: code::SUCCESS,
                    source: Source::Object(wish),
                    capacity: Some(capacity(tier)).filter(|&c| c > 0),
                }
            }
            Err(available) => {
                let source = if falls_back { Source::Object(Wish::default()) } else { Source::Nothing };
                Place { available, source, capacity: None }
            }
        }
    };
    Places { own: (0..OWN.len()).map(place).collect(), high_bandwidth: high_bandwidth.ok() }
}

/// The memories of this machine could not be found: only what malloc can give is left.
fn unknown() -> Places {
    let place = |own: usize| {
        let (about, falls_back) = meaning(own);
        let malloc = falls_back && !matches!(about, About::Not(_)) || matches!(about, About::Malloc | About::All);
        let available = match about {
            About::Malloc => code::SUCCESS,
            About::Not(code) => code,
            _ => code::UNAVAILABLE,
        };
        let source = if malloc { Source::Malloc } else { Source::Nothing };
        Place { available, source, capacity: None }
    };
    Places { own: (0..OWN.len()).map(place).collect(), high_bandwidth: None }
}

/// All kinds on this machine, looked up once. Two threads may both look: who waits for another one waits for ever in a child of a fork.
pub fn all() -> &'static Places {
    static FOUND: AtomicPtr<Places> = AtomicPtr::new(core::ptr::null_mut());
    // SAFETY: null or what was leaked below.
    if let Some(found) = unsafe { FOUND.load(Acquire).as_ref() } {
        return found;
    }
    let machine = state::with(|s| Ok(s.machine()));
    let places = machine.map_or_else(|_| unknown(), |m| runtime::aside(|| find(&m, &Known::find(Path::new("/")))));
    let places = Box::leak(Box::new(places));
    match FOUND.compare_exchange(core::ptr::null_mut(), places, AcqRel, Acquire) {
        Ok(_) => places,
        // SAFETY: another thread's, leaked as well.
        Err(other) => unsafe { &*other },
    }
}

/// A kind on this machine; `None`: there is no such kind.
pub fn of(kind: usize) -> Option<&'static Place> {
    kinds::like(kind).map(|own| all().of(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of the library, its tiers on nodes 0, 1, ...
    fn machine(name: &str) -> Machine {
        let mut platform = platform::load(name).unwrap();
        for (n, tier) in platform.tiers.iter_mut().enumerate() {
            tier.nodes = vec![n as u32];
        }
        Machine::of(platform).unwrap()
    }

    fn number(name: &str) -> usize {
        OWN.iter().position(|n| *n == name).unwrap()
    }

    /// Tier, and whether it is required.
    fn tier(places: &Places, name: &str) -> Option<(usize, bool)> {
        match &places.of(number(name)).source {
            Source::Object(Wish { space: Some(Space::Tier(tier)), required, .. }) => Some((*tier, *required)),
            _ => None,
        }
    }

    #[test]
    fn each_kind_is_the_tier_that_its_name_says() {
        let machine = machine("cxl-expander");
        let known = Known { with_cpus: Some(vec![0]), ..Known::default() };
        let places = find(&machine, &known);
        for (name, expected) in [
            ("HBW", (0, true)),
            ("HBW_ALL", (0, true)),
            ("HBW_INTERLEAVE", (0, true)),
            ("HBW_PREFERRED", (0, false)),
            ("HIGHEST_BANDWIDTH_LOCAL", (0, true)),
            ("HIGHEST_BANDWIDTH_LOCAL_PREFERRED", (0, false)),
            ("LOWEST_LATENCY_LOCAL", (0, true)),
            ("HIGHEST_CAPACITY", (machine.tier(Space::Wish(Wanted::LargestCapacity)).unwrap(), true)),
            ("REGULAR", (0, true)),
            ("DAX_KMEM", (1, true)),
            ("DAX_KMEM_PREFERRED", (1, false)),
            ("INTERLEAVE", (0, false)),
        ] {
            assert_eq!(tier(&places, name), Some(expected), "{name}");
            assert_eq!(places.of(number(name)).available, code::SUCCESS);
        }
        for (name, code) in [("HUGETLB", code::HUGETLB), ("HBW_HUGETLB", code::HUGETLB), ("GBTLB", code::FAILED)] {
            let place = places.of(number(name));
            assert_eq!((place.available, &place.source, place.capacity), (code, &Source::Nothing, None));
        }
        let interleaved = &places.of(kinds::INTERLEAVE).source;
        assert!(
            matches!(interleaved, Source::Object(w) if w.partition == Partition::Interleave && w.rest == Some(Space::Tier(1)))
        );
    }

    #[test]
    fn beside_hbm_regular_memory_is_that_of_the_processors() {
        let machine = machine("xeon-max-9480");
        let places = find(&machine, &Known { with_cpus: Some(vec![1]), ..Known::default() });
        assert_eq!((tier(&places, "HBW"), tier(&places, "REGULAR")), (Some((0, true)), Some((1, true))));
        // HBM has no CPUs, but is not slow.
        assert_eq!(places.of(number("DAX_KMEM")).available, code::UNAVAILABLE);
    }

    #[test]
    fn one_memory_is_not_of_high_bandwidth_unless_the_user_says_so() {
        let mut one = platform::load("cxl-expander").unwrap();
        one.tiers.truncate(1);
        one.tiers[0].nodes = vec![0];
        let machine = Machine::of(one).unwrap();
        let places = find(&machine, &Known { with_cpus: Some(vec![0]), ..Known::default() });
        let hbw = places.of(kinds::HBW);
        assert_eq!((hbw.available, &hbw.source), (code::UNAVAILABLE, &Source::Nothing));
        let preferred = places.of(kinds::HBW_PREFERRED);
        assert_eq!((preferred.available, &preferred.source), (code::UNAVAILABLE, &Source::Object(Wish::default())));
        assert_eq!(tier(&places, "HIGHEST_CAPACITY"), Some((0, false)), "nothing to prove");
        let said = |list: &str| {
            let known = Known { high_bandwidth: Some(list.into()), slow: Some(list.into()), ..Known::default() };
            let places = find(&machine, &known);
            (places.of(kinds::HBW).available, places.of(number("DAX_KMEM_ALL")).available)
        };
        assert_eq!(said("0"), (code::SUCCESS, code::SUCCESS));
        for wrong in ["", "1", "0,1", "x"] {
            assert_eq!(said(wrong), (code::ENVIRON, code::ENVIRON), "{wrong}");
        }
    }

    #[test]
    fn memory_of_the_driver_kmem_is_found() {
        let root = std::env::temp_dir().join(format!("hearth-kmem-{}", std::process::id()));
        let device = root.join("sys/bus/dax/drivers/kmem/dax0.0");
        let nodes = root.join("sys/devices/system/node");
        std::fs::create_dir_all(&device).and_then(|()| std::fs::create_dir_all(&nodes)).unwrap();
        std::fs::write(device.join("target_node"), "1\n")
            .and_then(|()| std::fs::write(nodes.join("has_cpu"), "0-1\n"))
            .unwrap();
        let known = Known::find(&root);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((&known.with_cpus, &known.kmem), (&Some(vec![0, 1]), &vec![1]));
        let places = find(&machine("cxl-expander"), &Known { high_bandwidth: None, slow: None, ..known });
        assert_eq!(tier(&places, "DAX_KMEM"), Some((1, true)), "though the node has CPUs");
    }

    #[test]
    fn where_nothing_is_known_what_falls_back_is_mallocs() {
        let places = unknown();
        assert_eq!(places.of(kinds::HBW_PREFERRED).source, Source::Malloc);
        assert_eq!(places.of(kinds::HBW).source, Source::Nothing);
        assert_eq!(places.of(kinds::DEFAULT).available, code::SUCCESS);
        assert_eq!(places.of(OWN.len()).available, code::INVALID);
    }
}
