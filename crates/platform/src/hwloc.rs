//! What hwloc says about a machine: this one, one captured as XML, or one described in hwloc's synthetic language.
//!
//! The only place that talks to libhwloc, through `hwloc_shim.c`. It reports facts; what they mean is decided in
//! [`crate::tiers`].

use crate::error::Error;
use crate::facts::{Cpu, Facts, Node};
use model::{Bytes, Figure, GbPerSec, Nanos, Origin};
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::path::Path;

/// Where the topology comes from.
pub enum Source<'a> {
    /// The machine this process runs on.
    ThisMachine,
    /// The path of an XML file written by `lstopo`, or else a synthetic description (`node:2 core:4 pu:1`).
    Described(&'a str),
}

#[repr(C)]
struct RawTopology {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawNode {
    os_index: u32,
    near_cpu_count: u32,
    usable: u64,
    capacity: u64,
    latency: u64,
    read_bandwidth: u64,
    write_bandwidth: u64,
    subtype: *const c_char,
    memory_tier: *const c_char,
}

#[repr(C)]
#[derive(Default)]
struct RawCpu {
    os_index: u32,
    sibling_rank: u32,
    usable: u32,
}

unsafe extern "C" {
    fn hearth_topology_open(xml: *const c_char, synthetic: *const c_char) -> *mut RawTopology;
    fn hearth_topology_close(t: *mut RawTopology);
    fn hearth_topology_is_this_system(t: *mut RawTopology) -> c_int;
    fn hearth_topology_cpu_count(t: *mut RawTopology) -> c_uint;
    fn hearth_topology_node_count(t: *mut RawTopology) -> c_uint;
    fn hearth_topology_node(t: *mut RawTopology, index: c_uint, out: *mut RawNode);
    fn hearth_topology_near_cpus(t: *mut RawTopology, index: c_uint, out: *mut u32);
    fn hearth_topology_cpu(t: *mut RawTopology, index: c_uint, out: *mut RawCpu);
    fn hearth_topology_cpu_model(t: *mut RawTopology) -> *const c_char;
    fn hearth_topology_package_count(t: *mut RawTopology) -> c_uint;
    fn hearth_topology_llc(t: *mut RawTopology, one: *mut u64, total: *mut u64);
}

/// A loaded topology; closed when dropped.
struct Topology(*mut RawTopology);

impl Drop for Topology {
    fn drop(&mut self) {
        // SAFETY: `self.0` came from hearth_topology_open and is closed only here.
        unsafe { hearth_topology_close(self.0) }
    }
}

impl Topology {
    fn open(source: &Source) -> Result<Topology, Error> {
        let (xml, synthetic) = match source {
            Source::ThisMachine => (None, None),
            Source::Described(text) => {
                let c = CString::new(*text).map_err(|_| Error::new("a topology cannot contain a NUL character"))?;
                if Path::new(text).is_file() { (Some(c), None) } else { (None, Some(c)) }
            }
        };
        let pointer = |s: &Option<CString>| s.as_ref().map_or(std::ptr::null(), |s| s.as_ptr());
        // SAFETY: both arguments are NULL or NUL-terminated strings that outlive the call.
        let t = unsafe { hearth_topology_open(pointer(&xml), pointer(&synthetic)) };
        if !t.is_null() {
            return Ok(Topology(t));
        }
        Err(Error::new(match source {
            Source::ThisMachine => "hwloc cannot read this machine's topology; `lstopo` shows why".to_string(),
            Source::Described(text) => format!(
                "`{text}` is neither an hwloc XML file that can be read nor a synthetic description; write for example machine.xml or `node:2 core:4 pu:1`"
            ),
        }))
    }

    fn cpus(&self) -> Vec<Cpu> {
        // SAFETY: the topology is open and indices are below its count; `raw` is a valid place to write to.
        let count = unsafe { hearth_topology_cpu_count(self.0) };
        (0..count)
            .filter_map(|i| {
                let mut raw = RawCpu::default();
                // SAFETY: as above.
                unsafe { hearth_topology_cpu(self.0, i, &mut raw) };
                (raw.usable != 0).then_some(Cpu { number: raw.os_index, sibling_rank: raw.sibling_rank })
            })
            .collect()
    }

    fn nodes(&self) -> Vec<Node> {
        // SAFETY: the topology is open.
        let count = unsafe { hearth_topology_node_count(self.0) };
        (0..count).filter_map(|i| self.node(i)).collect()
    }

    fn node(&self, index: c_uint) -> Option<Node> {
        let mut raw = std::mem::MaybeUninit::<RawNode>::uninit();
        // SAFETY: `index` is below the node count; the shim fills the whole struct.
        let raw = unsafe {
            hearth_topology_node(self.0, index, raw.as_mut_ptr());
            raw.assume_init()
        };
        if raw.usable == 0 {
            return None;
        }
        let mut near_cpus = vec![0u32; raw.near_cpu_count as usize];
        // SAFETY: the shim writes exactly near_cpu_count numbers.
        unsafe { hearth_topology_near_cpus(self.0, index, near_cpus.as_mut_ptr()) };
        Some(Node {
            number: raw.os_index,
            capacity: Figure::new(Bytes(raw.capacity), Origin::Hwloc),
            free: None,
            subtype: text(raw.subtype),
            memory_tier: text(raw.memory_tier).and_then(|t| t.parse().ok()),
            near_cpus,
            has_cpus: None,
            farther: false,
            latency: (raw.latency > 0).then_some(Figure::new(Nanos(raw.latency), Origin::Hwloc)),
            read_bandwidth: mib_per_sec(raw.read_bandwidth, Origin::Hwloc),
            write_bandwidth: mib_per_sec(raw.write_bandwidth, Origin::Hwloc),
        })
    }
}

/// hwloc and the kernel's HMAT files give bandwidth in MiB/s; 0 is no value.
pub fn mib_per_sec(value: u64, origin: Origin) -> Option<Figure<GbPerSec>> {
    (value > 0).then(|| Figure::new(GbPerSec(value as f64 * 1_048_576.0 / 1e9), origin))
}

fn text(c: *const c_char) -> Option<String> {
    // SAFETY: NULL, or a NUL-terminated string that the topology owns; it is copied here.
    (!c.is_null()).then(|| unsafe { CStr::from_ptr(c) }.to_string_lossy().into_owned())
}

/// Reads a topology.
///
/// # Errors
/// If hwloc cannot load it.
pub fn read(source: &Source) -> Result<Facts, Error> {
    let t = Topology::open(source)?;
    let (mut one, mut total) = (0, 0);
    // SAFETY: the topology is open and both pointers are valid.
    let (this_machine, cpu_model, packages) = unsafe {
        hearth_topology_llc(t.0, &mut one, &mut total);
        let here = hearth_topology_is_this_system(t.0) != 0;
        (here, text(hearth_topology_cpu_model(t.0)), hearth_topology_package_count(t.0))
    };
    let cpu_model = cpu_model.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(Facts {
        cpu_model,
        packages,
        this_machine,
        cpus: t.cpus(),
        nodes: t.nodes(),
        llc: Bytes(one),
        llc_total: Bytes(total),
    })
}
