//! Which events tell, on this processor, where its memory traffic goes: a table by model.
//!
//! * **Intel** (PEBS): retired loads that missed the last-level cache count the misses, as in paper 000, section V
//!   (`MEM_LOAD_RETIRED.L3_MISS`); retired stores that missed the first level stand for the stores, as there
//!   (`MEM_INST_RETIRED.ALL_STORES`: there is no event for stores that miss further out). A second sampling of slow loads
//!   (`mem-loads`) tells latencies and data sources, which the first event does not. Event numbers: Intel's perfmon
//!   files, <https://github.com/intel/perfmon>. From Golden Cove on (Sapphire Rapids, Alder Lake) `mem-loads` works in a group
//!   behind `mem-loads-aux` only, which the kernel then lists.
//! * **AMD** (IBS): every n-th op is watched; those that load and whose data came from a memory are misses. From Zen 4 on the
//!   processor drops all others itself (`l3missonly`), and with them the stores.
//! * **Arm** (SPE): every n-th op is watched; the core writes what it saw into memory.

use super::cpu::{Cpu, Maker, Pmu};

/// Samples a second and thread of each event: ten times paper 000's 100 Hz, so that runs of some seconds are told too; at
/// some microseconds a sample this is below one percent.
pub const FREQUENCY: u64 = 1000;
/// Ops between two samples of IBS: a busy core of 4 G ops/s is interrupted 15,000 times a second at most.
const IBS_PERIOD: u64 = 1 << 18;
/// The same where only misses of the last-level cache interrupt.
const IBS_MISSES_PERIOD: u64 = 1 << 14;
/// Ops between two samples of SPE, which take no interrupt.
const SPE_PERIOD: u64 = 1 << 16;
/// Loads that take longer than this many cycles are slower than a second-level cache.
const SLOW_LOAD: u32 = 30;

/// What samples of an event are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Loads that missed the last-level cache.
    LoadMiss,
    /// Stores, those that missed the first-level cache among them.
    Store,
    /// Slow loads, which tell latency and source but do not count misses.
    Latency,
    /// Accesses of any kind, of which the kernel's word for the data source tells what they are.
    Any,
    /// Ops of any kind, with the registers of IBS.
    Ibs,
    /// Ops of any kind, as packets of SPE in an AUX area.
    Spe,
    /// First touches of pages: the kernel's page faults. They need no PMU, and they are not misses.
    FirstTouch,
}

/// How often a sample is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// After so many events.
    Events(u64),
    /// So many a second.
    Second(u64),
}

/// An event to sample.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its name for people.
    pub name: String,
    /// What its samples are.
    pub role: Role,
    /// `perf_event_attr.type`.
    pub number: u32,
    /// `config`, `config1`, `config2`, `config3`.
    pub config: [u64; 4],
    /// `precise_ip`.
    pub precise: u64,
    /// How often.
    pub every: Every,
    /// The event that must lead its group.
    pub leader: Option<[u64; 4]>,
    /// CPUs that have it; empty: all.
    pub cpus: Vec<u32>,
    /// The kernel can leave its own accesses out.
    pub user_only: bool,
    /// It can be asked not to count guests.
    pub no_guests: bool,
}

/// What to sample on a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The events.
    pub events: Vec<Event>,
    /// Put into words for the profile.
    pub how: String,
    /// What is not seen, one sentence for each kind of loss.
    pub unseen: Vec<(&'static str, String)>,
}

/// Cores of Intel whose events differ.
#[derive(Clone, Copy, PartialEq)]
enum Core {
    /// Sandy Bridge to Redwood Cove and Lion Cove: the numbers have stayed.
    Big,
    /// Gracemont.
    Gracemont,
    /// Knights Landing and Knights Mill: no last-level cache beyond the second, and no event for stores.
    Knights,
    /// Crestmont, Skymont: none of the events that tell a miss of the last-level cache tells its address (no `Data_LA` in
    /// Intel's files for Sierra Forest, Grand Ridge, Meteor, Arrow and Lunar Lake).
    Blind,
}

/// Models of family 6: number, name, core, and the small core of hybrid ones.
const INTEL: &[(&[u32], &str, Core, Option<Core>)] = &[
    (&[0x2a, 0x2d], "Sandy Bridge", Core::Big, None),
    (&[0x3a, 0x3e], "Ivy Bridge", Core::Big, None),
    (&[0x3c, 0x3f, 0x45, 0x46], "Haswell", Core::Big, None),
    (&[0x3d, 0x47, 0x4f, 0x56], "Broadwell", Core::Big, None),
    (&[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6], "Skylake", Core::Big, None),
    (&[0x55], "Skylake-SP or Cascade Lake", Core::Big, None),
    (&[0x57, 0x85], "Knights Landing", Core::Knights, None),
    (&[0x6a, 0x6c], "Ice Lake-SP", Core::Big, None),
    (&[0x7d, 0x7e], "Ice Lake", Core::Big, None),
    (&[0x8c, 0x8d], "Tiger Lake", Core::Big, None),
    (&[0xa7], "Rocket Lake", Core::Big, None),
    (&[0x8f], "Sapphire Rapids", Core::Big, None),
    (&[0xcf], "Emerald Rapids", Core::Big, None),
    (&[0xad, 0xae], "Granite Rapids", Core::Big, None),
    (&[0xaf], "Sierra Forest", Core::Blind, None),
    (&[0xb6], "Grand Ridge", Core::Blind, None),
    (&[0x97, 0x9a], "Alder Lake", Core::Big, Some(Core::Gracemont)),
    (&[0xb7, 0xba, 0xbf], "Raptor Lake", Core::Big, Some(Core::Gracemont)),
    (&[0xbe], "Alder Lake-N", Core::Gracemont, None),
    (&[0xaa, 0xac], "Meteor Lake", Core::Big, Some(Core::Blind)),
    (&[0xb5, 0xc5, 0xc6], "Arrow Lake", Core::Big, Some(Core::Blind)),
    (&[0xbd], "Lunar Lake", Core::Big, Some(Core::Blind)),
    // The kernel has Lunar Lake's events for both (arch/x86/events/intel/core.c).
    (&[0xcc], "Panther Lake", Core::Big, Some(Core::Blind)),
    (&[0xd5], "Wildcat Lake", Core::Big, Some(Core::Blind)),
];

/// Parts of Arm's own cores whose data sources are known: those that Linux's perf reads by one table too
/// (`tools/perf/util/arm-spe.c`), which has neither Neoverse N3 nor V3.
const NEOVERSE: &[(u32, &str)] =
    &[(0xd0c, "Neoverse N1"), (0xd40, "Neoverse V1"), (0xd49, "Neoverse N2"), (0xd4f, "Neoverse V2")];

/// Chooses the events for a machine, sampled every `period` events if it is given. An error is one sentence that says what
/// stands in the way, and what else can be done.
pub fn choose(cpu: &Cpu, period: Option<u64>) -> Result<Choice, String> {
    match cpu.maker {
        Maker::Intel => intel(cpu, period),
        Maker::Amd => amd(cpu, period),
        Maker::Arm => arm(cpu, period),
        Maker::Other => Err(unknown(cpu)),
    }
}

/// First touches of pages, which every kernel and machine can tell.
pub fn page_faults() -> Choice {
    let event = Event {
        name: "page-faults".into(),
        role: Role::FirstTouch,
        number: perf_event_open_sys::bindings::PERF_TYPE_SOFTWARE,
        config: [perf_event_open_sys::bindings::PERF_COUNT_SW_PAGE_FAULTS.into(), 0, 0, 0],
        precise: 0,
        every: Every::Events(1),
        leader: None,
        cpus: Vec::new(),
        user_only: false,
        no_guests: false,
    };
    Choice { events: vec![event], how: "page faults: first touches of pages, not misses".into(), unseen: Vec::new() }
}

fn intel(cpu: &Cpu, period: Option<u64>) -> Result<Choice, String> {
    let entry = INTEL.iter().find(|e| cpu.family == 6 && e.0.contains(&cpu.model));
    let &(_, name, big, small) = entry.ok_or_else(|| unknown(cpu))?;
    let (mut events, mut unseen) = (Vec::new(), Vec::new());
    let kinds = [("cpu", Some(big)), ("cpu_core", Some(big)), ("cpu_atom", small)];
    for (pmu, core) in kinds.into_iter().filter_map(|(pmu, core)| Some((cpu.pmus.get(pmu)?, core?))) {
        if core == Core::Blind {
            let text = "misses on the processor's small cores are not sampled, because their events do not tell addresses; \
                        taskset can keep the program on the large ones";
            unseen.push(("cores-unsampled", text.to_string()));
            continue;
        }
        let what = pebs(pmu, core, period);
        events.extend(what.ok_or_else(|| format!("{}; {OTHERWISE}", too_little(name)))?);
    }
    if events.is_empty() {
        let why = match big {
            Core::Blind => format!("the events of {name} that tell cache misses do not tell their addresses"),
            _ => no_pmu(cpu, "PEBS", "cpu"),
        };
        return Err(format!("{why}; {OTHERWISE}"));
    }
    if !events.iter().any(|e| e.role == Role::Store) {
        unseen.push(("stores-unsampled", format!("stores are not sampled: {name} has no event for them")));
    }
    let mut names: Vec<&str> = events.iter().filter(|e| e.role != Role::Latency).map(|e| e.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let how = format!(
        "Intel PEBS on {name}, {} {}; stores are those that missed the first-level cache",
        names.join(" and "),
        rate(events[0].every)
    );
    Ok(Choice { events, how, unseen })
}

/// The events of one kind of core. `None`: the kernel's description of the PMU lacks a field.
fn pebs(pmu: &Pmu, core: Core, period: Option<u64>) -> Option<Vec<Event>> {
    let every = period.map_or(Every::Second(FREQUENCY), Every::Events);
    let event = |name: &str, role, config, leader| Event {
        name: name.into(),
        role,
        number: pmu.number,
        config,
        precise: 2,
        every,
        leader,
        cpus: pmu.cpus.clone(),
        user_only: true,
        no_guests: true,
    };
    let (load_name, load, store_name, store) = match core {
        Core::Big => (
            "MEM_LOAD_RETIRED.L3_MISS",
            "event=0xd1,umask=0x20",
            "MEM_INST_RETIRED.ALL_STORES",
            "event=0xd0,umask=0x82",
        ),
        Core::Gracemont => (
            "MEM_LOAD_UOPS_RETIRED.DRAM_HIT",
            "event=0xd1,umask=0x80",
            "MEM_UOPS_RETIRED.ALL_STORES",
            "event=0xd0,umask=0x82",
        ),
        Core::Knights => ("MEM_UOPS_RETIRED.L2_MISS_LOADS", "event=0x04,umask=0x04", "", ""),
        Core::Blind => return None,
    };
    let mut events = vec![event(load_name, Role::LoadMiss, pmu.encode(load)?, None)];
    if !store.is_empty() {
        events.push(event(store_name, Role::Store, pmu.encode(store)?, None));
    }
    if let Some(fields) = pmu.events.get("mem-loads").filter(|_| pmu.has("ldlat")) {
        let fields = fields.split(',').filter(|f| !f.starts_with("ldlat=")).collect::<Vec<_>>().join(",");
        let leader = match pmu.events.get("mem-loads-aux") {
            Some(aux) => Some(pmu.encode(aux)?),
            None => None,
        };
        let config = pmu.encode(&format!("{fields},ldlat={SLOW_LOAD}"))?;
        events.push(event("mem-loads", Role::Latency, config, leader));
    }
    Some(events)
}

fn amd(cpu: &Cpu, period: Option<u64>) -> Result<Choice, String> {
    let name = match (cpu.family, cpu.model) {
        (0x17 | 0x18, 0x30..) => "Zen 2",
        (0x17 | 0x18, _) => "Zen",
        (0x19, 0x10..=0x1f | 0x60..=0xaf) => "Zen 4",
        (0x19, _) => "Zen 3",
        // As Linux tells them apart (arch/x86/kernel/cpu/amd.c).
        (0x1a, 0x50..=0x5f | 0x80..=0xaf | 0xc0..=0xcf) => "Zen 6",
        (0x1a, _) => "Zen 5",
        (0x10..=0x16, _) => "AMD before Zen",
        _ => return Err(unknown(cpu)),
    };
    let pmu = cpu.pmus.get("ibs_op").ok_or_else(|| format!("{}; {OTHERWISE}", no_pmu(cpu, "IBS", "ibs_op")))?;
    let misses_only = pmu.has("l3missonly");
    let user_only = pmu.has("swfilt");
    // Counts ops and not cycles, so that a sample stands for ops.
    let mut fields = "cnt_ctl=1".to_string();
    if misses_only {
        fields += ",l3missonly=1";
    }
    if user_only {
        fields += ",swfilt=1";
    }
    let config = pmu.encode(&fields).ok_or_else(|| format!("{}; {OTHERWISE}", too_little(name)))?;
    // The lowest four bits of the period are not the hardware's.
    let period = period.map_or(if misses_only { IBS_MISSES_PERIOD } else { IBS_PERIOD }, |p| p.next_multiple_of(16));
    let event = Event {
        name: "ibs_op".into(),
        role: Role::Ibs,
        number: pmu.number,
        config,
        precise: 0,
        every: Every::Events(period),
        leader: None,
        cpus: pmu.cpus.clone(),
        user_only,
        no_guests: false,
    };
    let (what, mut unseen) = if misses_only {
        ("loads that missed the last-level cache", vec![])
    } else {
        ("loads whose data came from a memory, and stores that missed the first-level cache", vec![])
    };
    if misses_only {
        let text =
            "stores are not sampled: the processor's filter for misses of the last-level cache passes loads only";
        unseen.push(("stores-unsampled", text.to_string()));
    }
    Ok(Choice { how: format!("AMD IBS on {name}, {what}, {}", rate(event.every)), events: vec![event], unseen })
}

fn arm(cpu: &Cpu, period: Option<u64>) -> Result<Choice, String> {
    let name = NEOVERSE.iter().find(|n| n.0 == cpu.model).ok_or_else(|| unknown(cpu))?.1;
    let every = Every::Events(period.unwrap_or(SPE_PERIOD));
    let mut events = Vec::new();
    for (pmu_name, pmu) in cpu.pmus.iter().filter(|(name, _)| name.starts_with("arm_spe_")) {
        let config = pmu.encode("ts_enable=1,load_filter=1,store_filter=1,jitter=1");
        events.push(Event {
            name: pmu_name.clone(),
            role: Role::Spe,
            number: pmu.number,
            config: config.ok_or_else(|| format!("{}; {OTHERWISE}", too_little(name)))?,
            precise: 0,
            every,
            leader: None,
            cpus: pmu.cpus.clone(),
            user_only: true,
            no_guests: false,
        });
    }
    if events.is_empty() {
        return Err(format!("{}; {OTHERWISE}", no_pmu(cpu, "SPE", "arm_spe_0")));
    }
    let how = format!(
        "Arm SPE on {name}, loads whose data came from a memory, and stores that missed the first-level cache, {}",
        rate(every)
    );
    Ok(Choice { events, how, unseen: Vec::new() })
}

fn rate(every: Every) -> String {
    match every {
        Every::Events(n) => format!("every {n} events"),
        Every::Second(n) => format!("{n} times a second and thread"),
    }
}

/// How a sentence about what does not work goes on.
pub const OTHERWISE: &str = "--sampler page-fault works here";

fn unknown(cpu: &Cpu) -> String {
    let name = if cpu.name.is_empty() { "this processor" } else { &cpu.name };
    format!(
        "the events of {name} (family {:#x}, model {:#x}) are not known to this Hearth; {OTHERWISE}",
        cpu.family, cpu.model
    )
}

fn too_little(name: &str) -> String {
    format!("this kernel is too old to describe the events of {name}: it lacks fields of its PMU; update the kernel")
}

fn no_pmu(cpu: &Cpu, what: &str, device: &str) -> String {
    let why = if cpu.virtual_machine {
        "because the hypervisor hides it: run on the machine itself, or let the hypervisor pass it on".to_string()
    } else {
        let build = match what {
            "IBS" => "CONFIG_PERF_EVENTS and IBS switched on in the firmware (BIOS)",
            "SPE" => "CONFIG_ARM_SPE_PMU, a firmware that describes SPE, and kpti=off",
            _ => "CONFIG_PERF_EVENTS and a PMU that the firmware leaves to the system",
        };
        format!("(/sys/bus/event_source/devices/{device} is missing): it needs {build}")
    };
    format!("this kernel does not offer {what}, the memory sampling of the processor, {why}")
}
