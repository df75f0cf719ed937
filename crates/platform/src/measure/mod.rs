//! Measures a machine's memory: latency and bandwidth of every pair of CPU node and memory node.
//!
//! The method is that of Intel's Memory Latency Checker as H2M uses it (Klinkenberg et al., 2023, section 3.2): pinned threads, one per
//! core before a second one on any core; *idle latency* by one thread that follows a random cycle of pointers;
//! *bandwidth* read-only, write-only, 1R1W and of random reads by 1, 2, 4, ... threads; *loaded latency* by a pointer chase beside
//! read-only streams on all other CPUs of the node; *power* while all CPUs of the node read (section 3.3).
//!
//! The buffers are eight times all last-level caches together where memory allows, on huge pages where the kernel
//! allows. What could not be had is said in [`Pair::notes`].

mod buffer;
mod kernels;
mod power;

use crate::error::Error;
use crate::facts::{Facts, Node};
use buffer::Buffer;
use kernels::{BLOCK, Mode};
use model::{Bytes, GbPerSec};
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

pub use power::Watts;

/// Wanted size of a buffer in units of all last-level caches together; below half of it a note says so.
const CACHES: u64 = 8;
/// Smallest and largest buffer wanted.
const BUFFER_RANGE: (u64, u64) = (64 << 20, 1 << 30);
/// A bandwidth is the better of two runs of this length.
const RUN: Duration = Duration::from_millis(200);
/// Power is the mean over this long: the counters are brought up to date every millisecond or so.
const POWER_RUN: Duration = Duration::from_millis(500);
/// A thread that had less of its CPU than this was disturbed.
const UNDISTURBED: f64 = 0.9;
/// Steps of one run of the idle chase; the median of three runs counts.
const CHASE_STEPS: u64 = 1 << 20;

/// What was measured on a machine, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Host name, processor and nodes: what the figures hold for.
    pub machine: Machine,
    /// When, in seconds since the Unix epoch.
    pub taken: u64,
    /// Every pair of CPU node and memory node.
    pub pairs: Vec<Pair>,
}

/// What tells one machine from another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Host name.
    pub host: String,
    /// Processor model.
    pub cpu_model: String,
    /// Number of CPUs that could be used.
    pub cpus: usize,
    /// Memory nodes.
    pub nodes: Vec<u32>,
}

/// One CPU node's view of one memory node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Node of the CPUs.
    pub cpu_node: u32,
    /// Node of the memory.
    pub memory_node: u32,
    /// Size of the buffer.
    pub buffer: Bytes,
    /// Idle read latency in nanoseconds.
    pub latency_ns: f64,
    /// Latency in nanoseconds beside streams on all other CPUs of the node; `None` if there is no other CPU.
    pub loaded_latency_ns: Option<f64>,
    /// Read bandwidth of those streams.
    pub loaded_bandwidth: Option<GbPerSec>,
    /// Bandwidth by number of threads.
    pub bandwidth: Vec<Point>,
    /// Power with nothing to do, and while all CPUs of the node read; `None` where the machine does not tell.
    #[serde(default)]
    pub power: Option<Power>,
    /// What makes the figures worse than they should be, one sentence each.
    pub notes: Vec<String>,
}

/// Bandwidth by this many threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of threads, each on a CPU of its own.
    pub threads: usize,
    /// Only reads.
    pub read: GbPerSec,
    /// Only writes.
    pub write: GbPerSec,
    /// As many reads as writes, both counted.
    pub read_write: GbPerSec,
    /// Reads of lines in random order, many at a time, whole lines counted. `None` if measured by an earlier version.
    #[serde(default)]
    pub random_read: Option<GbPerSec>,
}

/// What a machine takes with and without streams of reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// With nothing of Hearth's running.
    pub idle: Watts,
    /// While all CPUs of the node read.
    pub reading: Watts,
}

impl Pair {
    /// Best read bandwidth of any number of threads.
    pub fn peak_read(&self) -> f64 {
        self.bandwidth.iter().map(|p| p.read.0).fold(0.0, f64::max)
    }
    /// Best write bandwidth of any number of threads.
    pub fn peak_write(&self) -> f64 {
        self.bandwidth.iter().map(|p| p.write.0).fold(0.0, f64::max)
    }
    /// Best bandwidth of one read for each write, both counted, of any number of threads.
    pub fn peak_read_write(&self) -> f64 {
        self.bandwidth.iter().map(|p| p.read_write.0).fold(0.0, f64::max)
    }
}

/// Measures all pairs; `progress` hears what is being done.
pub(crate) fn pairs(facts: &Facts, progress: &mut dyn FnMut(&str)) -> Result<Vec<Pair>, Error> {
    let memory: Vec<&Node> = facts.nodes.iter().filter(|n| n.capacity.value.0 > 0).collect();
    let mut pairs = Vec::new();
    for cpu_node in facts.nodes.iter().filter(|n| n.has_cpus != Some(false)) {
        let cpus = cpus_of(facts, cpu_node);
        if cpus.is_empty() {
            continue;
        }
        for node in &memory {
            let what = format!("CPUs of node {} on memory of node {}", cpu_node.number, node.number);
            let bind = (memory.len() > 1).then_some(node.number);
            pairs.push(pair(facts, cpu_node.number, &cpus, node, bind, &mut |s| progress(&format!("{what}: {s}")))?);
        }
    }
    if pairs.is_empty() {
        return Err(Error::new("cannot measure: no memory node has CPUs that this process may use"));
    }
    Ok(pairs)
}

/// CPUs of a node in the order in which threads take them: first one of every core.
fn cpus_of(facts: &Facts, node: &Node) -> Vec<u32> {
    let mut cpus: Vec<_> = facts.cpus.iter().filter(|c| node.near_cpus.contains(&c.number)).collect();
    cpus.sort_by_key(|c| (c.sibling_rank, c.number));
    cpus.into_iter().map(|c| c.number).collect()
}

fn pair(
    facts: &Facts,
    cpu_node: u32,
    cpus: &[u32],
    node: &Node,
    bind: Option<u32>,
    progress: &mut dyn FnMut(&str),
) -> Result<Pair, Error> {
    let wanted = (facts.llc_total.0 * CACHES).clamp(BUFFER_RANGE.0, BUFFER_RANGE.1);
    let available = available(node);
    // Two buffers are alive at once, and half of what is free is left to others.
    let size = wanted.min(available / 4) / BLOCK as u64 * BLOCK as u64;
    if size < 8 * BLOCK as u64 {
        return Err(Error::new(format!(
            "cannot measure node {}: only {} of its memory are free; end some programs first",
            node.number,
            Bytes(available)
        )));
    }
    let mut notes = Vec::new();
    if size < facts.llc_total.0 * CACHES / 2 {
        notes.push(format!(
            "the buffer of {} is small beside last-level caches of {}: figures include cache hits",
            Bytes(size),
            facts.llc_total
        ));
    }
    progress("preparing");
    let chain = Buffer::new(size, bind)?;
    chain.link_randomly();
    if chain.huge_bytes() < size / 2 {
        notes.push("the kernel gave few huge pages: latency includes page-table walks".to_string());
    }
    progress("idle latency");
    let latency_ns = on_cpu(cpus[0], || idle_latency(&chain))?;
    let streams = Buffer::new(size, bind)?;
    let mut bandwidth = Vec::new();
    let mut undisturbed = 1.0f64;
    for threads in thread_counts(cpus.len()) {
        progress(&format!("bandwidth, {threads} thread{}", if threads == 1 { "" } else { "s" }));
        let mut best = |mode| -> Result<GbPerSec, Error> {
            let (a, ()) = stream(&cpus[..threads], &streams, mode, || std::thread::sleep(RUN))?;
            let (b, ()) = stream(&cpus[..threads], &streams, mode, || std::thread::sleep(RUN))?;
            let better = if a.bandwidth > b.bandwidth { a } else { b };
            undisturbed = undisturbed.min(better.cpu_share);
            Ok(GbPerSec(round(better.bandwidth)))
        };
        let (read, write, read_write) = (best(Mode::Read)?, best(Mode::Write)?, best(Mode::ReadWrite)?);
        bandwidth.push(Point { threads, read, write, read_write, random_read: Some(best(Mode::RandomRead)?) });
    }
    let (mut loaded_latency_ns, mut loaded_bandwidth) = (None, None);
    if cpus.len() > 1 {
        progress("loaded latency");
        let chase = || on_cpu(cpus[0], || chase_for(RUN * 2, &chain));
        let (load, latency) = stream(&cpus[1..], &streams, Mode::Read, chase)?;
        loaded_latency_ns = Some(round(latency?));
        loaded_bandwidth = Some(GbPerSec(round(load.bandwidth)));
        undisturbed = undisturbed.min(load.cpu_share);
    }
    let power = match power::Meter::find() {
        Ok(Some(meter)) => {
            progress("power");
            let idle = meter.while_waiting(POWER_RUN);
            let (_, reading) = stream(cpus, &streams, Mode::Read, || meter.while_waiting(POWER_RUN))?;
            Some(Power { idle, reading })
        }
        Ok(None) => None,
        Err(why) => {
            notes.push(why);
            None
        }
    };
    if undisturbed < UNDISTURBED {
        notes.push(
            "other programs took CPU time meanwhile: bandwidths are too low; measure again on an idle machine".into(),
        );
    }
    Ok(Pair {
        cpu_node,
        memory_node: node.number,
        buffer: Bytes(size),
        latency_ns: round(latency_ns),
        loaded_latency_ns,
        loaded_bandwidth,
        bandwidth,
        power,
        notes,
    })
}

/// What may be taken from a node: its free bytes, and what the control group of a container leaves.
fn available(node: &Node) -> u64 {
    let number = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    let limit = number("/sys/fs/cgroup/memory.max");
    let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
    let left = limit.map_or(u64::MAX, |l| l.saturating_sub(used));
    node.free.map_or(node.capacity.value.0 / 2, |f| f.value.0).min(left)
}

/// 1, 2, 4, ... and the number itself.
fn thread_counts(cpus: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2)).take_while(|&n| n < cpus).collect();
    counts.push(cpus);
    counts
}

/// One decimal is more than the noise allows.
fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Median of three runs, in ns per load.
fn idle_latency(chain: &Buffer) -> f64 {
    let mut p = chain.start().cast_const();
    let mut runs = [0.0; 3];
    for run in &mut runs {
        let begin = cpu_time();
        // SAFETY: `link_randomly` closed the chain.
        p = unsafe { kernels::chase(p, CHASE_STEPS) };
        *run = (cpu_time() - begin).as_nanos() as f64 / CHASE_STEPS as f64;
    }
    std::hint::black_box(p);
    runs.sort_by(f64::total_cmp);
    runs[1]
}

/// Chases for this long, in ns per load.
fn chase_for(time: Duration, chain: &Buffer) -> f64 {
    const STEPS: u64 = 1 << 12;
    let (mut p, mut steps, begin) = (chain.start().cast_const(), 0, Instant::now());
    let cpu_begin = cpu_time();
    while begin.elapsed() < time {
        // SAFETY: `link_randomly` closed the chain.
        p = unsafe { kernels::chase(p, STEPS) };
        steps += STEPS;
    }
    std::hint::black_box(p);
    (cpu_time() - cpu_begin).as_nanos() as f64 / steps as f64
}

/// What streams achieved.
struct Load {
    /// Of all threads together, in GB/s.
    bandwidth: f64,
    /// Share of its time that the most disturbed thread was on its CPU.
    cpu_share: f64,
}

/// One stream on each of these CPUs while `meanwhile` runs.
fn stream<R>(cpus: &[u32], buffer: &Buffer, mode: Mode, meanwhile: impl FnOnce() -> R) -> Result<(Load, R), Error> {
    let (ready, stop) = (Barrier::new(cpus.len() + 1), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (ready, stop) = (&ready, &stop);
        let threads: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(i, &cpu)| {
                scope.spawn(move || {
                    let pinned = pin(cpu);
                    ready.wait();
                    pinned.map(|()| stream_until(stop, buffer.slice(i, cpus.len()), mode))
                })
            })
            .collect();
        ready.wait();
        let result = meanwhile();
        stop.store(true, Relaxed);
        let mut total = Load { bandwidth: 0.0, cpu_share: 1.0 };
        for thread in threads {
            let load = thread.join().expect("streams do not panic")?;
            total.bandwidth += load.bandwidth;
            total.cpu_share = total.cpu_share.min(load.cpu_share);
        }
        Ok((total, result))
    })
}

/// Goes round and round over a slice until told to stop.
fn stream_until(stop: &AtomicBool, (start, blocks): (*mut u8, usize), mode: Mode) -> Load {
    let (mut done, begin, cpu_begin) = (0u64, Instant::now(), cpu_time());
    while !stop.load(Relaxed) && blocks > 0 {
        // SAFETY: this thread's own slice.
        unsafe { mode.run(start, blocks, done) };
        done += 1;
    }
    let (elapsed, cpu) = (begin.elapsed().as_nanos() as f64, (cpu_time() - cpu_begin).as_nanos() as f64);
    Load { bandwidth: (done * BLOCK as u64 * mode.traffic()) as f64 / elapsed, cpu_share: cpu / elapsed }
}

/// CPU time of the calling thread: time that other programs take from it does not count as latency.
fn cpu_time() -> Duration {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place to write to; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Runs `work` on a thread that is pinned to this CPU.
fn on_cpu<R: Send>(cpu: u32, work: impl FnOnce() -> R + Send) -> Result<R, Error> {
    std::thread::scope(|s| s.spawn(|| pin(cpu).map(|()| work())).join().expect("measuring does not panic"))
}

/// Pins the calling thread.
fn pin(cpu: u32) -> Result<(), Error> {
    // SAFETY: an all-zero cpu_set_t is the empty set; CPU_SET checks nothing, so the number is checked first.
    let r = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if cpu as usize >= 8 * size_of::<libc::cpu_set_t>() {
            return Err(Error::new(format!("cannot measure: CPU {cpu} is beyond what a thread can be pinned to")));
        }
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if r == 0 {
        return Ok(());
    }
    Err(Error::new(format!(
        "cannot measure: pinning a thread to CPU {cpu} failed: {}",
        std::io::Error::last_os_error()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_counts_double_and_end_with_all() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn one_thread_per_core_comes_first() {
        let mut facts = crate::hwloc::read(&crate::hwloc::Source::Described("numa:1 core:2 pu:2")).unwrap();
        facts.nodes[0].has_cpus = Some(true);
        assert_eq!(cpus_of(&facts, &facts.nodes[0]), [0, 2, 1, 3]);
    }
}
