//! The guest's kernel: its settings for a placement, its counters, and the cgroup in which the program runs.

use crate::Error;
use crate::job::{Job, Policy};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Counters of /proc/vmstat that tell of placement and migration, and of huge pages made behind the program's back.
const COUNTERS: [&str; 6] = ["pgpromote_", "pgdemote_", "pgmigrate_", "numa_", "thp_migration_", "thp_collapse_"];

/// NUMA balancing at the lab's scale. Its defaults (Documentation/admin-guide/kernel-parameters and kernel/sched/fair.c of
/// Linux 6.12) look at 256 MB a second at most, begin after one second, and call hot what is touched again within one:
/// made for programs that run for minutes in dozens of GiB. The lab's programs are about a hundredth of that in time and
/// a thousandth in memory, so that with the defaults they would end before the kernel has looked.
const BALANCING: [(&str, &str); 5] = [
    ("scan_delay_ms", "10"),
    ("scan_period_min_ms", "10"),
    ("scan_period_max_ms", "600"),
    ("scan_size_mb", "16"),
    ("hot_threshold_ms", "10"),
];

/// Sets the kernel up for the job's policy. Returns what was set, as `file=value`.
///
/// Only `kernel` balances and demotes (NUMA_BALANCING_MEMORY_TIERING, Documentation/admin-guide/sysctl/kernel.rst): under
/// every other policy pages stay where they are.
pub fn prepare(job: &Job) -> Result<Vec<String>, Error> {
    let kernel = matches!(job.policy, Policy::Kernel);
    let mut wanted = vec![
        ("/proc/sys/kernel/numa_balancing".to_string(), if kernel { "2" } else { "0" }.to_string()),
        ("/sys/kernel/mm/numa/demotion_enabled".to_string(), kernel.to_string()),
        // Each CPU keeps some MiB of free pages for itself, which is nothing to the memory of a real machine but much to
        // that of the lab: as few as the kernel allows.
        ("/proc/sys/vm/percpu_pagelist_high_fraction".to_string(), "1000000".to_string()),
        // See `Scaled::huge_pages`. Before the next, which this raises.
        (
            "/sys/kernel/mm/transparent_hugepage/enabled".to_string(),
            if job.huge_pages { "always" } else { "madvise" }.to_string(),
        ),
        // Small pages are taken down to the low watermark of a node and huge ones, for which the kernel insists on it, down
        // to the minimum; the kernel also raises both for a while after it had to split a block. With the 20 MiB and more
        // that huge pages make it keep, that is many MiB of difference.
        ("/proc/sys/vm/min_free_kbytes".to_string(), "1024".to_string()),
        ("/proc/sys/vm/watermark_boost_factor".to_string(), "0".to_string()),
        // What booting left of files on the limited node would be reclaimed for the program bit by bit.
        ("/proc/sys/vm/drop_caches".to_string(), "1".to_string()),
        // Every ten seconds the kernel makes huge pages of small ones, if it finds any: in runs of less than a second that
        // is chance, and it costs some of them a few percent. It may look once more, but at next to nothing.
        ("/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan".to_string(), "1".to_string()),
        ("/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs".to_string(), u32::MAX.to_string()),
        // As often it looks through all of memory for pages to move together.
        ("/proc/sys/vm/compaction_proactiveness".to_string(), "0".to_string()),
    ];
    keep_khugepaged_asleep()?;
    if kernel {
        mount_debugfs()?;
        wanted.extend(
            BALANCING
                .map(|(file, value)| (format!("/sys/kernel/debug/sched/numa_balancing/{file}"), value.to_string())),
        );
    }
    if let Policy::WeightedInterleave(weights) = &job.policy {
        for (node, weight) in weights.iter().enumerate() {
            wanted.push((format!("/sys/kernel/mm/mempolicy/weighted_interleave/node{node}"), weight.to_string()));
        }
    }
    let mut said = Vec::new();
    for (file, value) in wanted {
        std::fs::write(&file, &value)
            .map_err(|e| Error(format!("the guest's kernel does not take {value} in {file}: {e}")))?;
        said.push(format!("{file}={value}"));
    }
    Ok(said)
}

/// Without any process to look at, khugepaged does not sleep for its time but waits for the first one, and looks at that at
/// once: it would be the program. So this process is one.
fn keep_khugepaged_asleep() -> Result<(), Error> {
    const LEN: usize = 4 << 20;
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a fresh mapping, which stays and is never touched.
    let asked = unsafe {
        let at = libc::mmap(std::ptr::null_mut(), LEN, prot, flags, -1, 0);
        at != libc::MAP_FAILED && libc::madvise(at, LEN, libc::MADV_HUGEPAGE) == 0
    };
    let why = std::io::Error::last_os_error();
    if asked { Ok(()) } else { Err(Error(format!("the guest's agent cannot ask for huge pages: {why}"))) }
}

fn mount_debugfs() -> Result<(), Error> {
    let (kind, at) = (c"debugfs".as_ptr(), c"/sys/kernel/debug".as_ptr());
    // SAFETY: NUL-terminated texts; debugfs takes no data.
    if unsafe { libc::mount(kind, at, kind, 0, std::ptr::null()) } == 0 {
        return Ok(());
    }
    match std::io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::EBUSY) => Ok(()),
        e => Err(Error(format!("the guest cannot mount debugfs: {e}"))),
    }
}

/// The counters of the kernel that tell of placement and migration.
pub fn counters() -> BTreeMap<String, u64> {
    let text = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    text.lines()
        .filter_map(|l| l.split_once(' '))
        .filter(|(name, _)| COUNTERS.iter().any(|c| name.starts_with(c)))
        .filter_map(|(name, value)| Some((name.to_string(), value.parse().ok()?)))
        .collect()
}

const CGROUPS: &str = "/sys/fs/cgroup";

/// The memory cgroup of the program.
pub struct Cgroup {
    dir: PathBuf,
    numa: File,
}

impl Cgroup {
    /// Makes it.
    pub fn create() -> Result<Cgroup, Error> {
        let root = Path::new(CGROUPS);
        let dir = root.join("program");
        let make = || {
            std::fs::write(root.join("cgroup.subtree_control"), "+memory")?;
            std::fs::create_dir(&dir)?;
            File::open(dir.join("memory.numa_stat"))
        };
        let numa = make().map_err(|e| Error(format!("the guest cannot make a memory cgroup: {e}")))?;
        Ok(Cgroup { dir, numa })
    }

    /// Puts a process into it.
    pub fn enter(&self, pid: u32) -> Result<(), Error> {
        std::fs::write(self.dir.join("cgroup.procs"), pid.to_string())
            .map_err(|e| Error(format!("the guest cannot put the program into its cgroup: {e}")))
    }

    /// A process that writes `0` to this file enters the cgroup.
    pub fn entrance(&self) -> Result<File, Error> {
        entrance(&self.dir).map_err(|e| Error(format!("the guest cannot open the program's cgroup: {e}")))
    }

    /// Bytes of anonymous memory on each of `nodes` nodes.
    pub fn resident(&self, nodes: usize) -> Vec<u64> {
        // The file is a few KiB; `anon` is its first line.
        let mut buffer = [0; 512];
        let read = self.numa.read_at(&mut buffer, 0).unwrap_or(0);
        parse_anon(&String::from_utf8_lossy(&buffer[..read]), nodes)
    }

    /// Ends every process that is left in it.
    pub fn kill(&self) {
        // Nothing is left: nothing to do.
        let _ = std::fs::write(self.dir.join("cgroup.kill"), "1");
    }
}

fn entrance(dir: &Path) -> std::io::Result<File> {
    File::options().write(true).open(dir.join("cgroup.procs"))
}

/// Reads `anon N0=4096 N1=0`.
fn parse_anon(text: &str, nodes: usize) -> Vec<u64> {
    let mut bytes = vec![0; nodes];
    let line = text.lines().find_map(|l| l.strip_prefix("anon ")).unwrap_or_default();
    for (node, value) in line.split(' ').filter_map(|f| f.strip_prefix('N')?.split_once('=')) {
        if let (Ok(node), Ok(value)) = (node.parse::<usize>(), value.parse()) {
            if let Some(slot) = bytes.get_mut(node) {
                *slot = value;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #[test]
    fn anonymous_memory_is_read_by_node() {
        let text = "anon N0=4096 N1=8192\nfile N0=1 N1=2\n";
        assert_eq!(super::parse_anon(text, 2), [4096, 8192]);
        assert_eq!(super::parse_anon("", 2), [0, 0]);
    }
}
