//! The emulated machine: nodes of memory with their timing, as a QEMU command line.
//!
//! Node 0 has the virtual CPUs, the others none. Each node is a memory file, so that the plugin finds it in QEMU's own
//! map of memory. The firmware's tables (HMAT, SLIT) say what the timing is, from which the guest's kernel makes its
//! memory tiers; the plugin makes it true.

mod process;

pub use process::{Guest, State, free_memory};

use crate::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Sizes of nodes are multiples of this: what Linux calls a section of memory on x86-64.
pub const SECTION: u64 = 128 << 20;
/// What QEMU itself needs beside the guest's memory, with its translated code.
const OVERHEAD: u64 = 400 << 20;
/// Bandwidths in the HMAT are 16-bit multiples of this, in MiB/s: steps of 16 MiB/s up to 1 TiB/s.
const HMAT_STEP: f64 = 16.0;

/// One node of memory.
#[derive(Debug, Clone)]
pub struct Node {
    /// Size; a multiple of [`SECTION`].
    pub bytes: u64,
    /// Idle load latency, in ns.
    pub latency_ns: f64,
    /// Read bandwidth, in GB/s (10^9 bytes).
    pub read_gbps: f64,
    /// Write bandwidth, in GB/s (10^9 bytes).
    pub write_gbps: f64,
}

/// What to boot.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Node 0, which has the virtual CPUs, and the others.
    pub nodes: Vec<Node>,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Node for files that programs write.
    pub files_node: u32,
    /// The session's folder.
    pub session: PathBuf,
    /// The terminal of this process becomes the guest's.
    pub terminal: bool,
    /// The time model; none: the guest runs in the host's time.
    pub model: Option<Model>,
}

/// The time model, a QEMU plugin.
#[derive(Debug, Clone)]
pub struct Model {
    /// The plugin.
    pub plugin: PathBuf,
    /// Its configuration.
    pub config: PathBuf,
    /// The window, a file shared with it; its size is a power of two.
    pub window: PathBuf,
}

impl Machine {
    /// The arguments of QEMU for this machine. Errors: a path that QEMU's command line cannot hold.
    pub fn arguments(&self, kernel: &Path, initrd: &Path) -> Result<Vec<OsString>, Error> {
        let mut args = Arguments(Vec::new());
        let total: u64 = self.nodes.iter().map(|n| n.bytes).sum();
        args.add("-machine", "q35,hmat=on,vmport=off,smm=off,usb=off,sata=off");
        args.add("-accel", "tcg,thread=multi");
        // No TSC: it would tell the host's time. No fast string instructions: the kernel then copies by loads and
        // stores, which the plugin sees one by one.
        args.add("-cpu", "max,-tsc,-erms,-fsrm");
        args.add("-smp", format!("{}", self.vcpus));
        args.add("-m", format!("{}M", total >> 20));
        args.0.extend(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"].map(OsString::from));
        self.memory(&mut args);
        args.add("-kernel", kernel);
        args.add("-initrd", initrd);
        args.add("-append", self.kernel_command_line());
        args.add("-chardev", format!("file,id=console,path={}", plain(&self.session.join(CONSOLE))?));
        args.add("-serial", "chardev:console");
        let share = "security_model=none,multidevs=remap";
        args.add("-virtfs", format!("local,path=/,mount_tag=host,readonly=on,{share}"));
        args.add("-virtfs", format!("local,path={},mount_tag=session,{share}", plain(&self.session)?));
        if self.terminal {
            args.add("-chardev", "stdio,id=terminal,signal=off");
            args.add("-device", "virtio-serial-pci");
            args.add("-device", "virtconsole,chardev=terminal");
        }
        if let Some(model) = &self.model {
            let window = plain(&model.window)?;
            let bytes = std::fs::metadata(&model.window)
                .map_err(|e| Error(format!("cannot look at {}: {e}", model.window.display())))?
                .len();
            args.add("-object", format!("memory-backend-file,id=window,share=on,mem-path={window},size={bytes}"));
            args.add("-device", "ivshmem-plain,memdev=window");
            args.add(
                "-plugin",
                format!("file={},config={},window={window}", plain(&model.plugin)?, plain(&model.config)?),
            );
        }
        Ok(args.0)
    }

    fn memory(&self, args: &mut Arguments) {
        for (i, node) in self.nodes.iter().enumerate() {
            args.add("-object", format!("memory-backend-memfd,id=node{i},size={},share=on", node.bytes));
            let cpus = if i == 0 { format!("cpus=0-{},", self.vcpus - 1) } else { String::new() };
            args.add("-numa", format!("node,nodeid={i},{cpus}memdev=node{i},initiator=0"));
        }
        for (i, node) in self.nodes.iter().enumerate().skip(1) {
            let distance = (10.0 * node.latency_ns / self.nodes[0].latency_ns).round().clamp(11.0, 254.0);
            args.add("-numa", format!("dist,src=0,dst={i},val={distance}"));
            for (j, other) in self.nodes.iter().enumerate().skip(i + 1) {
                let worse = node.latency_ns.max(other.latency_ns);
                let distance = (10.0 * worse / self.nodes[0].latency_ns).round().clamp(11.0, 254.0);
                args.add("-numa", format!("dist,src={i},dst={j},val={distance}"));
            }
        }
        for (i, node) in self.nodes.iter().enumerate() {
            let mut say = |what: &str, value: String| {
                args.add("-numa", format!("hmat-lb,initiator=0,target={i},hierarchy=memory,data-type={what},{value}"));
            };
            say("access-latency", format!("latency={}", node.latency_ns.round().max(1.0)));
            say("read-bandwidth", format!("bandwidth={}M", hmat_bandwidth(node.read_gbps)));
            say("write-bandwidth", format!("bandwidth={}M", hmat_bandwidth(node.write_gbps)));
        }
    }

    fn kernel_command_line(&self) -> String {
        // The HPET is the one clock that the plugin's time reaches. Addresses are not randomised, so that two runs are
        // alike. Mitigations of CPU faults cost time and protect nothing here.
        format!(
            "console=ttyS0 quiet panic=-1 clocksource=hpet no5lvl nokaslr norandmaps mitigations=off nopti audit=0 \
             random.trust_cpu=on cryptomgr.notests i8042.noaux i8042.noprobe 8250.nr_uarts=1 \
             hearth.files={}",
            self.files_node
        )
    }

    /// The host memory that the machine may come to need, in bytes.
    pub fn host_memory(&self) -> u64 {
        OVERHEAD + self.nodes.iter().map(|n| n.bytes).sum::<u64>()
    }
}

/// The guest's console log, in the session's folder.
pub const CONSOLE: &str = "console.log";
/// What QEMU itself said, in the session's folder.
pub const QEMU_LOG: &str = "qemu.log";

/// Arguments in pairs of an option and its value.
struct Arguments(Vec<OsString>);

impl Arguments {
    fn add(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }
}

/// A bandwidth in MiB/s as the HMAT can say it.
fn hmat_bandwidth(gbps: f64) -> u64 {
    ((gbps * 1e9 / 1048576.0 / HMAT_STEP).round().clamp(1.0, 65534.0) * HMAT_STEP) as u64
}

/// A path as a value in QEMU's comma-separated lists, where a comma is written twice.
fn plain(path: &Path) -> Result<String, Error> {
    match path.to_str() {
        Some(text) => Ok(text.replace(',', ",,")),
        None => Err(Error(format!("{}: QEMU takes only paths in UTF-8; use another folder", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmat_says_bandwidths_in_steps_of_16_mib() {
        assert_eq!(hmat_bandwidth(20.0), 19072);
        assert_eq!(hmat_bandwidth(0.001), 16);
        assert_eq!(hmat_bandwidth(1e9) / 16, 65534);
    }

    #[test]
    fn every_node_has_memory_timing_and_a_distance() {
        let node = |latency_ns| Node { bytes: SECTION, latency_ns, read_gbps: 10.0, write_gbps: 5.0 };
        let machine = Machine {
            nodes: vec![node(100.0), node(300.0), node(50.0)],
            vcpus: 2,
            files_node: 1,
            session: "/a,b".into(),
            terminal: false,
            model: None,
        };
        let args = machine.arguments(Path::new("k"), Path::new("i")).unwrap();
        let text: Vec<&str> = args.iter().map(|a| a.to_str().unwrap()).collect();
        for wanted in [
            "384M",
            "node,nodeid=0,cpus=0-1,memdev=node0,initiator=0",
            "node,nodeid=2,memdev=node2,initiator=0",
            "dist,src=0,dst=1,val=30",
            "dist,src=0,dst=2,val=11",
            "dist,src=1,dst=2,val=30",
            "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=300",
            "file,id=console,path=/a,,b/console.log",
        ] {
            assert!(text.contains(&wanted), "{wanted} in {text:?}");
        }
    }
}
