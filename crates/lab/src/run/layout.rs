//! From a scaled platform and a placement to the nodes of a machine.

use super::Tier;
use crate::Error;
use crate::job::Policy;
use crate::machine::{Machine, Model, Node, SECTION};
use crate::run::session::Session;
use crate::scale::Scaled;
use model::{Bytes, Plan};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Node 0 has this much more than the program is to have of it: for the kernel, the agent and the cache of host files.
const KERNEL: u64 = 512 << 20;
/// Every other node has this much more: the kernel keeps some memory free for itself.
const WATERMARKS: u64 = 64 << 20;
/// Weights of interleaving are at most this.
const MOST_WEIGHT: u8 = 10;

/// Where the program's pages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// All in the fast memory, which is large enough.
    AllFast,
    /// All in the slow memory.
    AllSlow,
    /// Fast as long as there is some, in the order of first touch.
    FirstTouch,
    /// In turn.
    Interleave,
    /// In turn, in the ratio of the bandwidths.
    WeightedInterleave,
    /// NUMA balancing with promotion and demotion.
    Kernel,
    /// All in the slow memory, for which the fast one is a cache.
    MemoryMode,
    /// Guided by the plan in this file.
    Plan(PathBuf),
    /// First touch, and `hearth live` with these options moves objects.
    Live(Vec<String>),
}

const PLACEMENTS: [(&str, Placement); 7] = [
    ("all-fast", Placement::AllFast),
    ("all-slow", Placement::AllSlow),
    ("first-touch", Placement::FirstTouch),
    ("interleave", Placement::Interleave),
    ("weighted-interleave", Placement::WeightedInterleave),
    ("kernel", Placement::Kernel),
    ("memory-mode", Placement::MemoryMode),
];

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Placement::Live(options) = self {
            let options = options.iter().map(|o| o.replacen("--", "/", 1));
            return f.pad(&format!("live{}", options.collect::<String>()));
        }
        match (self, PLACEMENTS.iter().find(|(_, p)| p == self)) {
            (Placement::Plan(file), _) => f.pad(&format!("plan {}", file.display())),
            (_, Some((name, _))) => f.pad(name),
            (_, None) => Ok(()),
        }
    }
}

impl FromStr for Placement {
    type Err = String;
    /// A name, `plan:FILE`, or `live` with options of `hearth live` after slashes: `live/priority=apb/interval=10ms`.
    fn from_str(text: &str) -> Result<Placement, String> {
        if let Some(options) = text.strip_prefix("live").filter(|o| o.is_empty() || o.starts_with('/')) {
            return Ok(Placement::Live(options.split('/').skip(1).map(|o| format!("--{o}")).collect()));
        }
        if let Some(file) = text.strip_prefix("plan:").filter(|f| !f.is_empty()) {
            return Ok(Placement::Plan(file.into()));
        }
        let found = PLACEMENTS.iter().find(|(name, _)| *name == text).map(|(_, p)| p.clone());
        found.ok_or_else(|| {
            let names: Vec<&str> = PLACEMENTS.iter().map(|(name, _)| *name).collect();
            format!("there is no placement `{text}`; choose one of {}, live or plan:FILE", names.join(", "))
        })
    }
}

/// How much fast memory the program may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fast {
    /// So many bytes.
    Size(Bytes),
    /// Percent of what the program uses.
    Percent(f64),
}

impl FromStr for Fast {
    type Err = String;
    /// `25%` or a size.
    fn from_str(text: &str) -> Result<Fast, String> {
        let bad = || format!("`{text}` is neither a size nor a share; write for example 64MiB or 25%");
        match text.strip_suffix('%') {
            Some(number) => match number.trim().parse::<f64>() {
                Ok(p) if p > 0.0 && p <= 100.0 => Ok(Fast::Percent(p)),
                _ => Err(bad()),
            },
            None => match text.parse::<Bytes>() {
                // Less than a page is a share whose unit was forgotten.
                Ok(Bytes(0..4096)) | Err(_) => Err(bad()),
                Ok(bytes) => Ok(Fast::Size(bytes)),
            },
        }
    }
}

/// Nodes for a placement on a scaled platform. `memory`: bytes of slow memory (of fast memory for
/// [`Placement::AllFast`]). `fast`: bytes of fast memory for the program; none where the placement has no limit.
pub fn lay_out(scaled: &Scaled, placement: &Placement, memory: Bytes, fast: Option<Bytes>) -> Layout {
    let fast_node = scaled.fast_node();
    let limit = match placement {
        Placement::MemoryMode => None,
        _ => fast.map(|bytes| (fast_node as u32, bytes.0)),
    };
    let mut nodes = Vec::new();
    for (i, tier) in scaled.tiers.iter().enumerate() {
        let wanted = match (i == fast_node, placement) {
            (true, Placement::AllFast) => memory.0,
            (true, _) => limit.map_or(0, |(_, bytes)| bytes),
            // Files that the program writes lie there.
            (false, Placement::AllFast) => memory.0 / 4,
            (false, _) => memory.0,
        };
        let margin = if i == 0 { KERNEL } else { WATERMARKS };
        nodes.push(Node {
            bytes: (wanted + margin).next_multiple_of(SECTION),
            latency_ns: tier.latency.0 as f64,
            read_gbps: tier.read.0,
            write_gbps: tier.write.0,
        });
    }
    // The plugin tells the nodes' memory apart by its size.
    if nodes[0].bytes == nodes[1].bytes {
        nodes[1].bytes += SECTION;
    }
    let policy = match placement {
        Placement::AllFast => Policy::Bind(fast_node as u32),
        Placement::AllSlow | Placement::MemoryMode => Policy::Bind(scaled.slow_node() as u32),
        Placement::FirstTouch => Policy::FirstTouch,
        Placement::Interleave => Policy::Interleave,
        Placement::WeightedInterleave => {
            Policy::WeightedInterleave(weights(&scaled.tiers.each_ref().map(|t| t.read.0)))
        }
        Placement::Kernel => Policy::Kernel,
        Placement::Plan(_) => Policy::Plan,
        Placement::Live(options) => Policy::Live(options.clone()),
    };
    let memory_mode = matches!(placement, Placement::MemoryMode).then_some(fast).flatten();
    Layout { scaled: scaled.clone(), nodes, policy, limit, memory_mode }
}

/// Weights in the ratio of bandwidths: the whole numbers, as small as they may be, whose ratio is nearest.
fn weights(bandwidths: &[f64]) -> Vec<u8> {
    let most = bandwidths.iter().copied().fold(0.0, f64::max);
    let scaled = |top: u8| bandwidths.iter().map(move |b| b / most * f64::from(top));
    let error = |top: u8| scaled(top).map(|w| (w.round().max(1.0) / w - 1.0).abs()).sum::<f64>();
    let mut best = 1;
    for top in 2..=MOST_WEIGHT {
        if error(top) < error(best) - 0.01 {
            best = top;
        }
    }
    scaled(best).map(|w| w.round().max(1.0) as u8).collect()
}

/// A machine for one placement.
#[derive(Debug)]
pub struct Layout {
    scaled: Scaled,
    nodes: Vec<Node>,
    memory_mode: Option<Bytes>,
    /// What the guest's kernel is to do.
    pub policy: Policy,
    /// Node whose free memory is limited, and to how many bytes.
    pub limit: Option<(u32, u64)>,
}

impl Layout {
    /// The tiers, fastest first.
    pub fn tiers(&self) -> Vec<Tier> {
        let tier = |node: usize| {
            let tier = &self.scaled.tiers[node];
            Tier {
                name: tier.real.name.clone(),
                node: node as u32,
                latency_ns: tier.latency.0 as f64,
                read_gbps: tier.read.0,
                write_gbps: tier.write.0,
            }
        };
        vec![tier(self.scaled.fast_node()), tier(self.scaled.slow_node())]
    }

    /// NUMA nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// The node that holds files, so that they do not take the fast memory away from the program.
    pub fn files_node(&self) -> u32 {
        self.scaled.slow_node() as u32
    }

    /// Whether the guest's kernel gives huge pages unasked.
    pub fn huge_pages(&self) -> bool {
        self.scaled.huge_pages()
    }

    /// Virtual CPUs.
    pub fn vcpus(&self) -> u32 {
        self.scaled.vcpus
    }

    /// What the plugin is told.
    pub fn plugin_config(&self) -> String {
        let bytes = std::array::from_fn(|i| Bytes(self.nodes[i].bytes));
        self.scaled.plugin_config(bytes, self.memory_mode)
    }

    /// The machine to boot.
    pub fn machine(&self, session: &Session, terminal: bool, model: Option<Model>) -> Machine {
        Machine {
            nodes: self.nodes.clone(),
            vcpus: self.scaled.vcpus,
            files_node: self.files_node(),
            session: session.dir().to_path_buf(),
            terminal,
            model,
        }
    }

    /// The emulated machine as a platform file: what `hearth live` would otherwise have to ask a firmware that does not tell it all.
    pub fn platform_file(&self) -> String {
        let mut text = format!("name = {:?}\nllc = \"{}B\"\n", self.scaled.platform, self.scaled.llc.size.0);
        for node in [self.scaled.fast_node(), self.scaled.slow_node()] {
            let tier = &self.scaled.tiers[node];
            let kind = serde_json::to_string(&tier.real.kind.value).unwrap_or_default();
            text += &format!("\n[[tier]]\nname = {:?}\nkind = {kind}\nnodes = [{node}]\n", tier.real.name);
            text += &format!("capacity = \"{}B\"\nlatency = \"{}ns\"\n", self.nodes[node].bytes, tier.latency.0);
            let mut bandwidth = |key: &str, value: f64| text += &format!("{key} = \"{value}GB/s\"\n");
            bandwidth("read_bandwidth", tier.read.0);
            bandwidth("write_bandwidth", tier.write.0);
            tier.mixed.iter().for_each(|mixed| bandwidth("mixed_bandwidth", mixed.0));
            if let Some((loaded, at)) = tier.loaded {
                bandwidth("loaded_bandwidth", at.0);
                text += &format!("loaded_latency = \"{}ns\"\n", loaded.0);
            }
        }
        text
    }

    /// The plan with the guest's nodes for its tiers, which are found by name.
    pub fn adapt(&self, mut plan: Plan) -> Result<Plan, Error> {
        for planned in &mut plan.tiers {
            let Some(tier) = self.tiers().into_iter().find(|t| t.name == planned.name) else {
                let names: Vec<String> = self.tiers().into_iter().map(|t| t.name).collect();
                return Err(Error(format!(
                    "the plan's tier `{}` is not one of the emulated machine's ({}); give the --platform that the plan was \
                     made for ({})",
                    planned.name,
                    names.join(", "),
                    plan.platform
                )));
            };
            planned.nodes = vec![tier.node];
            planned.dir = None;
        }
        Ok(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_small_and_in_the_ratio_of_the_bandwidths() {
        for (bandwidths, expected) in [
            ([20.0, 10.0], vec![2, 1]),
            ([218.0, 24.0], vec![9, 1]),
            ([10.0, 10.0], vec![1, 1]),
            ([3.0, 2.0], vec![3, 2]),
        ] {
            assert_eq!(weights(&bandwidths), expected, "{bandwidths:?}");
        }
        assert_eq!(weights(&[1.0, 1000.0]), [1, 10], "no weight is 0");
    }

    #[test]
    fn nodes_are_never_of_one_size() {
        let platform = platform::load("cxl-expander").unwrap();
        let scaled = Scaled::new(&platform, 2, None, None).unwrap();
        for memory in (128..2048).step_by(32) {
            let layout = lay_out(&scaled, &Placement::FirstTouch, Bytes::mib(memory), Some(Bytes::mib(32)));
            assert_ne!(layout.nodes[0].bytes, layout.nodes[1].bytes, "{memory} MiB of slow memory");
        }
    }

    #[test]
    fn placements_and_fast_sizes_read_as_people_write_them() {
        for text in ["all-fast", "kernel", "memory-mode"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        let live = Placement::Live(vec!["--priority=apb".into(), "--trigger=time=5".into()]);
        assert_eq!("live/priority=apb/trigger=time=5".parse(), Ok(live.clone()));
        assert_eq!(live.to_string(), "live/priority=apb/trigger=time=5");
        assert_eq!("live".parse(), Ok(Placement::Live(vec![])));
        assert_eq!("plan:a b.toml".parse(), Ok(Placement::Plan("a b.toml".into())));
        assert!("fastest".parse::<Placement>().unwrap_err().contains("weighted-interleave"));
        assert_eq!("25%".parse(), Ok(Fast::Percent(25.0)));
        assert_eq!("64MiB".parse(), Ok(Fast::Size(Bytes::mib(64))));
        for text in ["0", "0%", "101%", "25", "many", "%"] {
            assert!(text.parse::<Fast>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_machine_is_a_platform_file() {
        for name in ["cascade-lake-optane", "knl-7210-flat-snc4"] {
            let scaled = Scaled::new(&platform::load(name).unwrap(), 2, None, None).unwrap();
            let layout = lay_out(&scaled, &Placement::Live(vec![]), Bytes::gib(1), Some(Bytes::mib(100)));
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("machine.toml");
            std::fs::write(&file, layout.platform_file()).unwrap();
            let read = platform::load(&file.display().to_string()).unwrap();
            let found: Vec<_> = read.tiers.iter().map(|t| (t.nodes[0], t.latency.unwrap().value.0 as f64)).collect();
            let there: Vec<_> = layout.tiers().iter().map(|t| (t.node, t.latency_ns)).collect();
            assert_eq!((found, read.llc.unwrap().value), (there, scaled.llc.size));
        }
    }

    #[test]
    fn only_the_fast_node_is_limited() {
        let scaled = Scaled::new(&platform::load("knl-7210-flat-snc4").unwrap(), 2, None, None).unwrap();
        let (memory, fast) = (Bytes::gib(1), Some(Bytes::mib(100)));
        let layout = lay_out(&scaled, &Placement::FirstTouch, memory, fast);
        assert_eq!(layout.limit, Some((1, 100 << 20)), "the HBM has no CPUs");
        assert_eq!(layout.nodes[0].bytes, (1 << 30) + KERNEL);
        assert_eq!(layout.nodes[1].bytes, 256 << 20);
        let layout = lay_out(&scaled, &Placement::MemoryMode, memory, fast);
        assert_eq!((layout.limit, layout.memory_mode), (None, fast));
        assert!(layout.plugin_config().contains("memory_mode_bytes=104857600"));
    }
}
