//! What is chosen for which machine, and what is read out of which bytes. The machines and bytes lie in `fixtures/`; each
//! file says where it is from.

use super::cpu::Cpu;
use super::events::{Event, Role, choose, page_faults};
use super::open::format;
use super::record::{Format, HEADER, Record, parse};
use super::*;
use crate::misses::{Line, Source};
use perf_event_open_sys::bindings as sys;
use std::path::PathBuf;

fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/perf/fixtures")
}

/// The bytes of a file in hexadecimal digits; what follows a # is a comment.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|l| l.split('#').next().unwrap_or_default().chars())
        .filter_map(|c| c.to_digit(16).map(|d| d as u8))
        .collect();
    assert!(digits.len() % 2 == 0, "half a byte is missing");
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn bytes(name: &str) -> Vec<u8> {
    hex(&std::fs::read_to_string(fixtures().join(name)).unwrap())
}

/// A machine out of its description: each line names a file and a line of it.
fn machine(name: &str) -> Cpu {
    let root = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(fixtures().join("machines").join(format!("{name}.txt"))).unwrap();
    for (path, line) in text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(": ")) {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        std::fs::write(&path, format!("{before}{line}\n")).unwrap();
    }
    Cpu::read(root.path())
}

/// The records in these bytes: type, and what comes after the header.
fn records(bytes: &[u8]) -> Vec<(u32, &[u8])> {
    let (mut out, mut rest) = (Vec::new(), bytes);
    while rest.len() >= HEADER {
        let size = usize::from(u16::from_le_bytes([rest[6], rest[7]]));
        out.push((u32::from_le_bytes(rest[..4].try_into().unwrap()), &rest[HEADER..size]));
        rest = &rest[size..];
    }
    assert!(rest.is_empty(), "bytes are left over");
    out
}

const CLOCK: Clock = Clock { mhz: Some(2000.0) };

/// An event in short: name, type, config, config1, what leads it, CPUs.
fn short(e: &Event) -> String {
    let leader = e.leader.map(|l| format!(" led by {:#x}", l[0])).unwrap_or_default();
    let cpus = match (e.cpus.first(), e.cpus.last()) {
        (Some(a), Some(b)) => format!(" on {a}-{b}"),
        _ => String::new(),
    };
    format!("{} {}:{:#x}:{}:{}{leader}{cpus}", e.name, e.number, e.config[0], e.config[1], e.config[2])
}

#[test]
fn every_current_family_has_its_events() {
    let (miss, store) = ("MEM_LOAD_RETIRED.L3_MISS 4:0x20d1:0:0", "MEM_INST_RETIRED.ALL_STORES 4:0x82d0:0:0");
    let slow = "mem-loads 4:0x1cd:30:0";
    let led = "mem-loads 4:0x1cd:30:0 led by 0x8203";
    let (on_large, on_small) = (" on 0-15", " on 16-23");
    let large = |what: &str| format!("{what}{on_large}");
    let small = |what: &str| format!("{what}{on_small}");
    let spe = |last: u32| format!("arm_spe_0 11:0x600010001:0:0 on 0-{last}");
    let own = |list: &[&str]| list.iter().map(|s| s.to_string()).collect::<Vec<_>>();
    let table: Vec<(&str, Vec<String>, &str)> = vec![
        ("broadwell", own(&[miss, store, slow]), "Broadwell"),
        ("skylake-client", own(&[miss, store, slow]), "Skylake"),
        ("skylake-sp", own(&[miss, store, slow]), "Skylake-SP or Cascade Lake"),
        ("cascade-lake", own(&[miss, store, slow]), "Skylake-SP or Cascade Lake"),
        ("ice-lake-sp", own(&[miss, store, slow]), "Ice Lake-SP"),
        ("sapphire-rapids", own(&[miss, store, led]), "Sapphire Rapids"),
        ("emerald-rapids", own(&[miss, store, led]), "Emerald Rapids"),
        ("granite-rapids", own(&[miss, store, slow]), "Granite Rapids"),
        (
            "alder-lake",
            vec![
                large(miss),
                large(store),
                large(led),
                small("MEM_LOAD_UOPS_RETIRED.DRAM_HIT 10:0x80d1:0:0"),
                small("MEM_UOPS_RETIRED.ALL_STORES 10:0x82d0:0:0"),
                small("mem-loads 10:0x5d0:30:0"),
            ],
            "Alder Lake",
        ),
        ("meteor-lake", own(&[miss, store, led]).iter().map(|e| format!("{e} on 0-11")).collect(), "Meteor Lake"),
        ("arrow-lake", own(&[miss, store, led]).iter().map(|e| format!("{e} on 0-7")).collect(), "Arrow Lake"),
        ("lunar-lake", own(&[miss, store, led]).iter().map(|e| format!("{e} on 0-3")).collect(), "Lunar Lake"),
        ("panther-lake", own(&[miss, store, led]).iter().map(|e| format!("{e} on 0-3")).collect(), "Panther Lake"),
        ("zen2", own(&["ibs_op 9:0x80000:0:0"]), "AMD IBS on Zen 2"),
        ("zen3", own(&["ibs_op 9:0x80000:0:0"]), "AMD IBS on Zen 3"),
        ("zen4", own(&["ibs_op 9:0x90000:0:0"]), "AMD IBS on Zen 4"),
        ("zen5", own(&["ibs_op 9:0x90000:0:1"]), "AMD IBS on Zen 5"),
        ("zen6", own(&["ibs_op 9:0x90000:0:1"]), "AMD IBS on Zen 6"),
        ("neoverse-n1", vec![spe(79)], "Arm SPE on Neoverse N1"),
        ("neoverse-v1", vec![spe(63)], "Arm SPE on Neoverse V1"),
        ("neoverse-n2", vec![spe(127)], "Arm SPE on Neoverse N2"),
        ("neoverse-v2", vec![spe(71)], "Arm SPE on Neoverse V2"),
    ];
    for (name, expected, how) in table {
        let choice = choose(&machine(name), None).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(choice.events.iter().map(short).collect::<Vec<_>>(), expected, "{name}");
        assert!(choice.how.contains(how), "{name}: {}", choice.how);
        // Users may sample their own programs at the default perf_event_paranoid of 2 if the kernel leaves its own part out.
        let user_only = !matches!(name, "zen2" | "zen3" | "zen4");
        assert!(choice.events.iter().all(|e| e.user_only == user_only), "{name}");
        let unseen: Vec<_> = choice.unseen.iter().map(|u| u.0).collect();
        let expected: &[&str] = match name {
            "meteor-lake" | "arrow-lake" | "lunar-lake" | "panther-lake" => &["cores-unsampled"],
            "zen4" | "zen5" | "zen6" => &["stores-unsampled"],
            _ => &[],
        };
        assert_eq!(unseen, expected, "{name}");
    }
}

#[test]
fn a_period_of_the_users_is_taken() {
    let every = |name: &str, period| choose(&machine(name), period).unwrap().events[0].every;
    assert_eq!(every("cascade-lake", None), Every::Second(1000));
    assert_eq!(every("cascade-lake", Some(5000)), Every::Events(5000));
    assert_eq!(every("zen3", Some(5001)), Every::Events(5008), "IBS counts in steps of 16");
    assert_eq!(every("neoverse-n1", Some(4096)), Every::Events(4096));
}

#[test]
fn what_stands_in_the_way_is_one_sentence_with_a_remedy() {
    for (name, words) in [
        ("intel-guest", &["PEBS", "hypervisor", "run on the machine itself"][..]),
        ("amd-guest", &["IBS", "hypervisor"]),
        ("graviton-guest", &["SPE", "arm_spe_0", "CONFIG_ARM_SPE_PMU"]),
        ("sierra-forest", &["Sierra Forest", "do not tell their addresses"]),
        ("neoverse-v3", &["0xd84", "not known"]),
        ("intel-unknown", &["Xeon(R) 9999", "not known"]),
        ("arm-unknown", &["0x023", "not known"]),
    ] {
        let why = choose(&machine(name), None).unwrap_err();
        for word in words.iter().chain(&["--sampler page-fault"]) {
            assert!(why.contains(word), "{name}: `{word}` is missing in: {why}");
        }
        assert!(!why.contains('\n') && !why.contains(". "), "{name}: more than a sentence: {why}");
    }
}

#[test]
fn machines_are_understood() {
    let cascade = machine("cascade-lake");
    assert_eq!((cascade.family, cascade.model, cascade.online.len(), cascade.mhz), (6, 0x55, 96, Some(2400.0)));
    assert!(!cascade.virtual_machine && machine("intel-guest").virtual_machine);
    assert_eq!((machine("neoverse-v2").model, machine("neoverse-v2").mhz), (0xd4f, Some(3000.0)));
}

#[test]
fn records_of_pebs_are_misses_stores_and_latencies() {
    let events = choose(&machine("cascade-lake"), None).unwrap().events;
    let all = bytes("pebs.hex");
    let mut seen = Vec::new();
    let mut other = Vec::new();
    for (kind, body) in records(&all) {
        let event = match format(&events[0]).id_of(kind, body) {
            Some(id @ 0x11..=0x13) => &events[id as usize - 0x11],
            id => panic!("record {kind} of event {id:?}"),
        };
        match parse(kind, body, &format(event)).expect("a record") {
            Record::Sample(s) => seen.push(miss_of(event, &s, CLOCK)),
            what => other.push(what),
        }
    }
    let miss = |n: u64| Miss {
        time_ns: 1_000_000 + 16 * n,
        addr: 0x7000_0000_1000 + 64 * n,
        ip: 0x5540_1400 + [0x10, 0x20, 0x20, 0x30][n as usize],
        latency_ns: 0,
        alone_ns: None,
        store: false,
        ahead: false,
        weight: 0,
        source: Source::Unknown,
        line: Line::Missed,
    };
    let expected = [
        Some((1001, Miss { weight: 1000, ..miss(0) })),
        Some((1001, Miss { store: true, weight: 2000, ..miss(1) })),
        Some((1001, Miss { store: true, source: Source::L1, ..miss(2) })),
        Some((1001, Miss { latency_ns: 300, source: Source::RemoteMemory, ..miss(3) })),
        None,
    ];
    assert_eq!(seen, expected);
    assert_eq!(other, [Record::Lost(3), Record::Throttled, Record::Other]);
}

#[test]
fn records_of_this_kernel_are_read() {
    let fields = sys::PERF_SAMPLE_IP | sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME | sys::PERF_SAMPLE_ADDR;
    let format = Format { sample_type: (fields | sys::PERF_SAMPLE_DATA_SRC).into(), id_all: true, ..Format::default() };
    let all = bytes("page-faults.hex");
    let event = &page_faults().events[0];
    let seen: Vec<_> = records(&all)
        .into_iter()
        .map(|(kind, body)| match parse(kind, body, &format) {
            Some(Record::Sample(s)) => (s.pid, s.time, s.addr, miss_of(event, &s, CLOCK).unwrap().1.source),
            what => panic!("{what:?}"),
        })
        .collect();
    let expected = [
        (23133, 25_521_477_597_727, 0x55de_a3b3_11e0, Source::Unknown),
        (23133, 25_521_477_622_334, 0x7f40_7396_f110, Source::Unknown),
        (23133, 25_521_477_649_835, 0x7f40_7395_5b70, Source::Unknown),
    ];
    assert_eq!(seen, expected);
}

/// The end of an address, store, misses, source, ns.
type Access = (u64, bool, u64, Source, u32);

/// The accesses in the raw parts, one a line.
fn ibs_accesses(name: &str) -> Vec<Option<Access>> {
    let event = &choose(&machine("zen3"), Some(1600)).unwrap().events[0];
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    let lines = text.lines().map(hex).filter(|b| !b.is_empty());
    lines
        .map(|raw| {
            let sample = Sample { pid: 7, time: 5, period: 1600, raw: Some(&raw), ..Sample::default() };
            let (pid, m) = miss_of(event, &sample, CLOCK)?;
            assert_eq!((pid, m.time_ns, m.ip), (7, 5, 0x5540_1410));
            Some((m.addr & 0xffff, m.store, m.weight, m.source, m.latency_ns))
        })
        .collect()
}

#[test]
fn registers_of_ibs_are_misses_and_hits() {
    let load = |addr, weight, source, ns| Some((addr, false, weight, source, ns));
    let expected = [
        load(0x1040, 1600, Source::Memory, 200),
        load(0x1080, 1600, Source::RemoteMemory, 400),
        load(0x10c0, 0, Source::Llc, 20),
        load(0x1100, 0, Source::L2, 6),
        Some((0x1140, true, 1600, Source::Unknown, 0)),
        Some((0x1180, true, 0, Source::Unknown, 0)),
        load(0x11c0, 1600, Source::Memory, 50),
        None,
        None,
        None,
    ];
    assert_eq!(ibs_accesses("ibs-zen3.hex"), expected);
    let expected = [
        load(0x1040, 1600, Source::Memory, 200),
        load(0x1080, 1600, Source::Linked, 200),
        load(0x10c0, 0, Source::Llc, 20),
        load(0x1100, 0, Source::OtherCache, 20),
        load(0x1140, 1600, Source::Persistent, 200),
        load(0x1180, 1600, Source::RemoteMemory, 200),
    ];
    assert_eq!(ibs_accesses("ibs-zen4.hex"), expected);
}

#[test]
fn packets_of_spe_are_misses_and_hits_with_their_own_times() {
    let mut seen = Vec::new();
    let senseless = packets(&bytes("spe.hex"), 1_000_000, Some(10.0), Every::Events(100), CLOCK, |m| seen.push(m));
    let miss = |time_ns, addr, ip| Miss {
        time_ns,
        addr,
        ip,
        latency_ns: 0,
        alone_ns: None,
        store: false,
        ahead: false,
        weight: 0,
        source: Source::Unknown,
        line: Line::Missed,
    };
    let (t, a) = (1_000_000, 0x7000_0000_1000);
    let expected = [
        // 200 ticks of 10 ns before the last.
        Miss { weight: 100, source: Source::Memory, latency_ns: 150, ..miss(t - 2000, a + 0x40, 0x5540_1410) },
        Miss { weight: 100, store: true, ..miss(t - 1000, a + 0x80, 0x5540_1418) },
        Miss { source: Source::Llc, latency_ns: 50, ..miss(t, a + 0xc0, 0x5540_1420) },
        Miss { source: Source::L1, latency_ns: 2, ..miss(t, a + 0x100, 0x5540_1428) },
    ];
    assert_eq!((seen.as_slice(), senseless), (&expected[..], 0));
}

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Whatever the bytes are, readers end, and they end without a panic.
#[test]
fn no_bytes_are_too_strange() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let event = &choose(&machine("zen3"), None).unwrap().events[0];
    let seeds: Vec<Vec<u8>> =
        ["pebs.hex", "page-faults.hex", "spe.hex", "ibs-zen3.hex", "ibs-zen4.hex"].map(bytes).into();
    for round in 0..200_000u64 {
        let mut bytes = seeds[round as usize % seeds.len()].clone();
        for _ in 0..dice.next() % 12 {
            let at = dice.next() as usize % bytes.len();
            bytes[at] = dice.next() as u8;
        }
        let from = dice.next() as usize % bytes.len();
        let some = &bytes[from..from + dice.next() as usize % (bytes.len() - from + 1)];
        let format = Format {
            sample_type: dice.next() & dice.next(),
            read_format: dice.next(),
            branch_sample_type: dice.next(),
            regs_user: dice.next(),
            regs_intr: dice.next(),
            id_all: dice.next() % 2 == 0,
        };
        let kind = dice.next() as u32 % 16;
        format.id_of(kind, some);
        if let Some(Record::Sample(s)) = parse(kind, some, &format) {
            for role in [Role::LoadMiss, Role::Store, Role::Latency, Role::Any, Role::Ibs, Role::FirstTouch] {
                miss_of(&Event { role, ..event.clone() }, &s, CLOCK);
            }
        }
        ibs::decode(some);
        let told = spe::decode(some, |_| ());
        assert!(told <= some.len());
        packets(some, dice.next(), Some(1e9), Every::Events(u64::MAX), CLOCK, |_| ());
    }
}
