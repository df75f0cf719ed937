//! Makes a platform small enough for a few virtual CPUs, as a whole: they get their cores' share of the bandwidth and of
//! the last-level cache, so that they press the memory as hard as the full machine would. Latencies stay.

use crate::Error;
use model::{Bytes, Figure, GbPerSec, Nanos, Platform, Tier, TierKind};
use std::fmt::{self, Display, Write};

/// At most this part of the footprint fits the last-level cache: on the machines of the library programs are dozens of
/// times as large as it, and a program made small for the lab must not fit it either.
const FOOTPRINT_PER_LLC: u64 = 64;
/// The least that still works as a cache shared by several CPUs.
const LEAST_LLC: Bytes = Bytes::kib(256);
const LLC_WAYS: u64 = 16;
const L2_WAYS: u64 = 8;
/// The most that a core has for itself, as on Intel's servers from Skylake on (1 to 2 MiB).
const MOST_L2: Bytes = Bytes::mib(1);
/// A huge page.
const HUGE_PAGE: Bytes = Bytes::mib(2);
/// As on nearly every x86-64 machine.
const L1: Cache = Cache { size: Bytes::kib(32), ways: 8 };
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Where the plugin (`memory.c`) assumes the latency to have doubled if the platform does not say.
const ASSUMED_LOAD: f64 = 0.95;
/// As many as the window between plugin and host has room for.
const MOST_VCPUS: u32 = 8;

/// The numbers of the emulated machine.
#[derive(Clone, Debug)]
pub struct Scaled {
    /// Name of the platform.
    pub platform: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Cores of the real machine.
    pub cores: Figure<u32>,
    /// The tiers by NUMA node of the guest: node 0 has the CPUs.
    pub tiers: [ScaledTier; 2],
    /// L1 data cache of each virtual CPU.
    pub l1: Cache,
    /// L2 cache of each virtual CPU.
    pub l2: Cache,
    /// Last-level cache, shared.
    pub llc: Cache,
    fast: usize,
    real_llc: Option<Figure<Bytes>>,
    llc_why: String,
}

/// A tier as the emulated machine has it.
#[derive(Clone, Debug)]
pub struct ScaledTier {
    /// Its figures on the real machine.
    pub real: Tier,
    /// Idle read latency.
    pub latency: Nanos,
    /// Read latency, and the read bandwidth at which it holds.
    pub loaded: Option<(Nanos, GbPerSec)>,
    /// Peak read bandwidth.
    pub read: GbPerSec,
    /// Peak write bandwidth.
    pub write: GbPerSec,
    /// Peak bandwidth of one read for each write, both counted.
    pub mixed: Option<GbPerSec>,
}

impl ScaledTier {
    /// The bandwidth of one read for each write if each takes its own time on one bus.
    fn shared(&self) -> GbPerSec {
        GbPerSec(2.0 / (1.0 / self.read.0 + 1.0 / self.write.0))
    }
}

/// A cache of lines of 64 bytes, with a power of two of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cache {
    /// Its size.
    pub size: Bytes,
    /// Its ways.
    pub ways: u64,
}

impl Cache {
    /// The cache nearest to this size that has a power of two of sets.
    fn near(size: Bytes, ways: u64) -> Cache {
        let sets = (size.0 as f64 / (ways * LINE) as f64).max(1.0).log2().round() as u32;
        Cache { size: Bytes((ways * LINE) << sets), ways }
    }
}

impl Scaled {
    /// `platform` with `vcpus` CPUs, for a program of this footprint if it is known; `llc` overrides the cache.
    ///
    /// # Errors
    /// If the platform has not two memory tiers, or a figure is missing; the sentence names it.
    pub fn new(platform: &Platform, vcpus: u32, footprint: Option<Bytes>, llc: Option<Bytes>) -> Result<Scaled, Error> {
        let name = &platform.name;
        let cores = platform.cores.ok_or_else(|| {
            Error(format!(
                "platform {name} does not say how many cores share its bandwidth: give it by --set cores=NUMBER"
            ))
        })?;
        if vcpus == 0 || vcpus > MOST_VCPUS.min(cores.value) {
            return Err(Error(format!(
                "the lab cannot emulate {vcpus} CPUs of platform {name}; it can 1 to {}",
                MOST_VCPUS.min(cores.value)
            )));
        }
        let memory: Vec<&Tier> = platform.tiers.iter().filter(|t| t.kind.value != TierKind::File).collect();
        let [fast, slow] = memory[..] else {
            return Err(Error(format!(
                "the lab emulates machines with two memory tiers, and platform {name} has {}; choose another by --platform",
                memory.len()
            )));
        };
        let share = f64::from(vcpus) / f64::from(cores.value);
        let (fast, slow) = (scale_tier(name, fast, share)?, scale_tier(name, slow, share)?);
        // Programs and the kernel itself start there.
        let slow_first = model::home([&fast.real, &slow.real]) == 1;
        let (size, llc_why) = llc_size(platform, share, footprint, llc)?;
        let llc = Cache::near(size, LLC_WAYS);
        Ok(Scaled {
            platform: name.clone(),
            vcpus,
            cores,
            l1: L1,
            l2: Cache::near(MOST_L2.min(Bytes(llc.size.0 / 2)), L2_WAYS),
            llc,
            fast: usize::from(slow_first),
            tiers: if slow_first { [slow, fast] } else { [fast, slow] },
            real_llc: platform.llc,
            llc_why,
        })
    }

    /// Whether the guest's kernel gives huge pages unasked, as on the real machine: if one is at most a 16th of the last-level cache. Of a
    /// cache scaled down to a program of some MiB one would be much or all, so that what the kernel clears leaves it before the
    /// program writes there; and the small pages of such a program are as many as the huge ones of one 512 times as large.
    pub fn huge_pages(&self) -> bool {
        self.llc.size.0 >= 16 * HUGE_PAGE.0
    }

    /// The platform with the figures of the emulated machine, for whoever plans for it.
    pub fn emulated(&self, platform: &Platform) -> Platform {
        let mut platform = platform.clone();
        for tier in &mut platform.tiers {
            let Some(scaled) = self.tiers.iter().find(|t| t.real.name == tier.name) else { continue };
            let set = |figure: &mut Option<Figure<GbPerSec>>, value: Option<GbPerSec>| {
                if let (Some(figure), Some(value)) = (figure, value) {
                    figure.value = value;
                }
            };
            set(&mut tier.read_bandwidth, Some(scaled.read));
            set(&mut tier.write_bandwidth, Some(scaled.write));
            set(&mut tier.mixed_bandwidth, scaled.mixed);
            set(&mut tier.loaded_bandwidth, scaled.loaded.map(|(_, bandwidth)| bandwidth));
        }
        platform
    }

    /// NUMA node of the faster tier.
    pub fn fast_node(&self) -> usize {
        self.fast
    }

    /// NUMA node of the slower tier.
    pub fn slow_node(&self) -> usize {
        1 - self.fast
    }

    /// What the plugin reads, `key=value` a line: `bytes` is the memory of each node; in memory mode this much fast
    /// memory is a cache of the slow one.
    pub fn plugin_config(&self, bytes: [Bytes; 2], memory_mode: Option<Bytes>) -> String {
        let mut text = format!("vcpus={}\ntiers={}\nfast_node={}\n", self.vcpus, self.tiers.len(), self.fast);
        let mut line = |key: String, value: &dyn Display| writeln!(text, "{key}={value}").expect("a text takes all");
        if let Some(bytes) = memory_mode {
            line("memory_mode_bytes".into(), &bytes.0);
        }
        for (i, (tier, bytes)) in self.tiers.iter().zip(bytes).enumerate() {
            let gbps = |b: GbPerSec| format!("{:.6}", b.0);
            line(format!("tier{i}.bytes"), &bytes.0);
            line(format!("tier{i}.latency_ns"), &tier.latency.0);
            if let Some((latency, at)) = tier.loaded {
                line(format!("tier{i}.loaded_ns"), &latency.0);
                line(format!("tier{i}.loaded_gbps"), &gbps(at));
            }
            line(format!("tier{i}.read_gbps"), &gbps(tier.read));
            line(format!("tier{i}.write_gbps"), &gbps(tier.write));
            if let Some(mixed) = tier.mixed {
                line(format!("tier{i}.mixed_gbps"), &gbps(mixed));
            }
        }
        for (name, cache) in [("l1", self.l1), ("l2", self.l2), ("llc", self.llc)] {
            line(format!("{name}_kib"), &(cache.size.0 >> 10));
            line(format!("{name}_ways"), &cache.ways);
        }
        text
    }
}

fn scale_tier(platform: &str, tier: &Tier, share: f64) -> Result<ScaledTier, Error> {
    let name = &tier.name;
    let missing = |what: &str, set: &str| {
        Error(format!("platform {platform} has no {what} for tier {name}: give it by --set {name}.{set}"))
    };
    let scaled = |b: Figure<GbPerSec>| GbPerSec(b.value.0 * share);
    let latency = tier.latency.ok_or_else(|| missing("latency", "latency=TIME"))?.value;
    let read = scaled(tier.read_bandwidth.ok_or_else(|| missing("bandwidth", "bandwidth=GB/s"))?);
    Ok(ScaledTier {
        latency,
        // A latency under an unknown load says nothing that could be emulated; the table shows what is assumed.
        loaded: tier.loaded_latency.map(|l| l.value).zip(tier.loaded_bandwidth.map(scaled)),
        read,
        write: tier.write_bandwidth.map_or(read, scaled),
        mixed: tier.mixed_bandwidth.map(scaled),
        real: tier.clone(),
    })
}

/// The size of the last-level cache before it is rounded, and the reason.
fn llc_size(
    platform: &Platform,
    share: f64,
    footprint: Option<Bytes>,
    told: Option<Bytes>,
) -> Result<(Bytes, String), Error> {
    if let Some(told) = told {
        return match told < Bytes(LLC_WAYS * LINE) {
            true => Err(Error(format!("a last-level cache of {told} is too small for its {LLC_WAYS} ways"))),
            false => Ok((told, "as told".into())),
        };
    }
    let real = platform.llc.ok_or_else(|| {
        Error(format!("platform {} does not say its last-level cache: give it by --set llc=SIZE", platform.name))
    })?;
    let mut size = Bytes((real.value.0 as f64 * share) as u64);
    let mut why = "the CPUs' share".to_string();
    if let Some(footprint) = footprint {
        let part = Bytes(footprint.0 / FOOTPRINT_PER_LLC);
        if part < size {
            (size, why) = (part, format!("1/{FOOTPRINT_PER_LLC} of the footprint of {footprint}"));
        }
    }
    match size < LEAST_LLC {
        true => Ok((LEAST_LLC, format!("the least; {why} is {size}"))),
        false => Ok((size, why)),
    }
}

impl Display for Scaled {
    /// A table: the figure, of the real machine with its origin, of the lab, and why they differ.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn real<T: Display>(figure: Option<Figure<T>>) -> String {
            figure.map_or_else(|| "-".into(), |f| format!("{} ({})", f.value, f.origin))
        }
        let share = format!("x {}/{}", self.vcpus, self.cores.value);
        let row = |what: String, real: String, lab: String, why: &str| [what, real, lab, why.to_string()];
        let mut rows = vec![
            row(self.platform.clone(), "real".into(), "lab".into(), "why"),
            row("cores".into(), real(Some(self.cores)), self.vcpus.to_string(), ""),
        ];
        for (node, tier) in self.tiers.iter().enumerate() {
            let speed = if node == self.fast { "fast" } else { "slow" };
            rows.push(row(format!("node {node}: {}, {speed}", tier.real.name), String::new(), String::new(), ""));
            rows.push(row("  latency".into(), real(tier.real.latency), tier.latency.to_string(), ""));
            let (told, lab, why) = match tier.loaded {
                Some((latency, at)) => {
                    let told = tier.real.loaded_bandwidth.map(|b| format!(" at {b}", b = b.value)).unwrap_or_default();
                    (told, format!("{latency} at {at}"), share.as_str())
                }
                None => {
                    let at = GbPerSec(tier.read.0 * ASSUMED_LOAD);
                    (
                        String::new(),
                        format!("{} at {at}", Nanos(2 * tier.latency.0)),
                        "assumed: twice the idle one at 95 %",
                    )
                }
            };
            let real_loaded = tier.real.loaded_latency.map(|l| format!("{}{told} ({})", l.value, l.origin));
            rows.push(row("  loaded".into(), real_loaded.unwrap_or_else(|| "-".into()), lab, why));
            rows.push(row("  read".into(), real(tier.real.read_bandwidth), tier.read.to_string(), &share));
            let why = if tier.real.write_bandwidth.is_some() { &share } else { "assumed: as fast as reads" };
            rows.push(row("  write".into(), real(tier.real.write_bandwidth), tier.write.to_string(), why));
            let (mixed, why) = match tier.mixed {
                Some(mixed) => (mixed, share.as_str()),
                None => (tier.shared(), "assumed: reads and writes share the time"),
            };
            rows.push(row("  1R1W".into(), real(tier.real.mixed_bandwidth), mixed.to_string(), why));
        }
        rows.push(row("LLC".into(), real(self.real_llc), self.llc.size.to_string(), &self.llc_why));
        let why = format!("half of the LLC, at most {MOST_L2}");
        rows.push(row("L2 of each CPU".into(), "-".into(), self.l2.size.to_string(), &why));
        rows.push(row("L1 of each CPU".into(), "-".into(), self.l1.size.to_string(), ""));
        let (unasked, why) = match self.huge_pages() {
            true => ("yes", ""),
            false => ("no", "one would be more than a 16th of the LLC"),
        };
        rows.push(row("huge pages unasked".into(), "-".into(), unasked.into(), why));
        let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
        let widths = [width(0), width(1), width(2)];
        for [what, real, lab, why] in &rows {
            let line = format!("{what:0$}  {real:>1$}  {lab:>2$}  {why}", widths[0], widths[1], widths[2]);
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(name: &str, set: &[&str], vcpus: u32, footprint: Option<Bytes>) -> Result<Scaled, String> {
        let mut p = platform::load(name).unwrap();
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        platform::apply_overrides(&mut p, &set).unwrap();
        Scaled::new(&p, vcpus, footprint, None).map_err(|e| e.to_string())
    }

    #[test]
    fn optane() {
        let s = scaled("cascade-lake-optane", &[], 2, Some(Bytes::mib(128))).unwrap();
        let table = concat!(
            "cascade-lake-optane                           real                 lab  why\n",
            "cores                                 16 (library)                   2\n",
            "node 0: dram, fast\n",
            "  latency                          90 ns (library)               90 ns\n",
            "  loaded             117 ns at 22.0 GB/s (library)  117 ns at 2.8 GB/s  x 2/16\n",
            "  read                          141 GB/s (library)           17.6 GB/s  x 2/16\n",
            "  write                                          -           17.6 GB/s  assumed: as fast as reads\n",
            "  1R1W                                           -           17.6 GB/s  assumed: reads and writes share the time\n",
            "node 1: nvm, slow\n",
            "  latency                         185 ns (library)              185 ns\n",
            "  loaded             239 ns at 22.0 GB/s (library)  239 ns at 2.8 GB/s  x 2/16\n",
            "  read                         39.4 GB/s (library)            4.9 GB/s  x 2/16\n",
            "  write                        13.9 GB/s (library)            1.7 GB/s  x 2/16\n",
            "  1R1W                                           -            2.6 GB/s  assumed: reads and writes share the time\n",
            "LLC                             35.8 MiB (library)               2 MiB  1/64 of the footprint of 128 MiB\n",
            "L2 of each CPU                                   -               1 MiB  half of the LLC, at most 1 MiB\n",
            "L1 of each CPU                                   -              32 KiB\n",
            "huge pages unasked                               -                  no  one would be more than a 16th of the LLC\n",
        );
        assert_eq!(s.to_string(), table);
        let config = concat!(
            "vcpus=2\n",
            "tiers=2\n",
            "fast_node=0\n",
            "tier0.bytes=536870912\n",
            "tier0.latency_ns=90\n",
            "tier0.loaded_ns=117\n",
            "tier0.loaded_gbps=2.750000\n",
            "tier0.read_gbps=17.600000\n",
            "tier0.write_gbps=17.600000\n",
            "tier1.bytes=1073741824\n",
            "tier1.latency_ns=185\n",
            "tier1.loaded_ns=239\n",
            "tier1.loaded_gbps=2.750000\n",
            "tier1.read_gbps=4.925000\n",
            "tier1.write_gbps=1.737500\n",
            "l1_kib=32\n",
            "l1_ways=8\n",
            "l2_kib=1024\n",
            "l2_ways=8\n",
            "llc_kib=2048\n",
            "llc_ways=16\n",
        );
        assert_eq!(s.plugin_config([Bytes::mib(512), Bytes::gib(1)], None), config);
    }

    #[test]
    fn knights_landing() {
        let s = scaled("knl-7210-flat-snc4", &[], 2, None).unwrap();
        assert_eq!((s.fast_node(), s.slow_node()), (1, 0), "the CPUs are beside the DRAM");
        let table = concat!(
            "knl-7210-flat-snc4                 real                 lab  why\n",
            "cores                      64 (library)                   2\n",
            "node 0: dram, slow\n",
            "  latency              130 ns (library)              130 ns\n",
            "  loaded                              -  260 ns at 2.4 GB/s  assumed: twice the idle one at 95 %\n",
            "  read              80.0 GB/s (library)            2.5 GB/s  x 2/64\n",
            "  write                               -            2.5 GB/s  assumed: as fast as reads\n",
            "  1R1W                                -            2.5 GB/s  assumed: reads and writes share the time\n",
            "node 1: hbm, fast\n",
            "  latency              155 ns (library)              155 ns\n",
            "  loaded                              -  310 ns at 9.4 GB/s  assumed: twice the idle one at 95 %\n",
            "  read               315 GB/s (library)            9.8 GB/s  x 2/64\n",
            "  write                               -            9.8 GB/s  assumed: as fast as reads\n",
            "  1R1W               440 GB/s (library)           13.8 GB/s  x 2/64\n",
            "LLC                     1 MiB (library)             256 KiB  the least; the CPUs' share is 32 KiB\n",
            "L2 of each CPU                        -             128 KiB  half of the LLC, at most 1 MiB\n",
            "L1 of each CPU                        -              32 KiB\n",
            "huge pages unasked                    -                  no  one would be more than a 16th of the LLC\n",
        );
        assert_eq!(s.to_string(), table);
        let config = s.plugin_config([Bytes::gib(1), Bytes::mib(64)], Some(Bytes::mib(32)));
        assert!(config.contains("fast_node=1\nmemory_mode_bytes=33554432\n"), "{config}");
        assert!(config.contains("tier1.mixed_gbps=13.750000\n") && !config.contains("tier0.mixed"), "{config}");
        assert!(!config.contains("loaded"), "no figure, no line: {config}");
    }

    #[test]
    fn caches_have_a_power_of_two_of_sets() {
        for kib in [256, 300, 1024, 1500, 3840, 4577] {
            for ways in [8, 16] {
                let c = Cache::near(Bytes::kib(kib), ways);
                let sets = c.size.0 / (LINE * ways);
                assert!(sets.is_power_of_two() && sets * LINE * ways == c.size.0);
                let ratio = c.size.0 as f64 / Bytes::kib(kib).0 as f64;
                assert!((0.7..1.42).contains(&ratio), "{kib} KiB became {}", c.size);
            }
        }
        assert_eq!(scaled("cxl-expander", &[], 2, None).unwrap().llc.size, Bytes::mib(4), "60 MiB x 2/32 is 3.75 MiB");
        let p = platform::load("cxl-expander").unwrap();
        let told = Scaled::new(&p, 2, Some(Bytes::mib(1)), Some(Bytes::mib(2))).unwrap();
        assert_eq!((told.llc.size, told.l2.size), (Bytes::mib(2), Bytes::mib(1)));
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        for (name, set, vcpus, expected) in [
            ("grace-hopper", vec![], 2, "no latency for tier dram: give it by --set dram.latency="),
            ("mi300a", vec![], 2, "has 1; choose another"),
            ("cxl-expander", vec!["dram.kind=file", "dram.dir=/mnt"], 2, "has 1; choose another"),
            ("cxl-expander", vec![], 0, "cannot emulate 0 CPUs"),
            ("cxl-expander", vec![], 9, "it can 1 to 8"),
            ("cxl-expander", vec!["cores=1"], 2, "it can 1 to 1"),
        ] {
            let message = scaled(name, &set, vcpus, None).map(|_| ()).unwrap_err();
            assert!(message.contains(expected) && !message.contains('\n'), "{message}");
        }
        let mut p = platform::load("cxl-expander").unwrap();
        let error = |p: &Platform| Scaled::new(p, 2, None, None).map(|_| ()).unwrap_err().to_string();
        p.llc = None;
        assert!(error(&p).contains("--set llc=SIZE"));
        p.cores = None;
        assert!(error(&p).contains("--set cores=NUMBER"));
        let small = Scaled::new(&platform::load("cxl-expander").unwrap(), 2, None, Some(Bytes(64)));
        assert!(small.map(|_| ()).unwrap_err().to_string().contains("too small"));
    }
}
