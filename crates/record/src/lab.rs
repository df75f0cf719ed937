//! The lab's virtual PEBS: one of n last-level-cache misses of the emulated machine, read from the window that the time
//! model shares with the guest.

use crate::Error;
use crate::misses::{Line, Miss, Source};
use crate::outside::Outside;
use crate::watch::now_ns;
use memmap2::{MmapOptions, MmapRaw};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use wire::lab::{PROCESSES, Window, traffic};

const DEVICES: &str = "/sys/bus/pci/devices";
/// An ivshmem device (QEMU, docs/specs/ivshmem-spec.rst); its memory is the second of its regions.
const VENDOR: &str = "0x1af4";
const DEVICE: &str = "0x1110";
const MEMORY: &str = "resource2";
/// More misses a second than virtual CPUs can make: a memory of 50 GB/s gives 0.8 lines a ns.
const MOST_MISSES_PER_SECOND: f64 = 50e6;
/// The window is looked at this often at most, and at least.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(20);
/// Readings that the first calibration takes the best of.
const READINGS: u32 = 100;

/// The sampler.
#[derive(Debug)]
pub struct Lab {
    window: Shared,
    period: u64,
    /// Taken out of the ring, but too young.
    next: Option<(u32, Miss)>,
    /// CLOCK_MONOTONIC minus the window's time, in ns; none: not known yet.
    offset_ns: Option<i64>,
    /// Values of the window's counters when sampling began.
    given: u64,
    dropped: u64,
    /// Times of the first and the last sample.
    watched: Option<(u64, u64)>,
}

/// The window with the mapping that it lies in.
struct Shared {
    window: Window,
    _memory: MmapRaw,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Window")
    }
}

impl Lab {
    /// The window of the guest that this process runs in. One of `period` misses is to be sampled.
    pub fn find(period: u64) -> Result<Lab, Error> {
        let Some(memory) = device(Path::new(DEVICES)) else {
            return Err(Error(
                "--sampler lab works inside the lab only: put `hearth lab run --` before this command".into(),
            ));
        };
        let fail = |what: String| Error(format!("cannot use the lab's window {}: {what}", memory.display()));
        let file = File::options().read(true).write(true).open(&memory).map_err(|e| fail(e.to_string()))?;
        let bytes = fs::metadata(&memory).map_err(|e| fail(e.to_string()))?.len();
        let map = MmapOptions::new().len(bytes as usize).map_raw(&file).map_err(|e| fail(e.to_string()))?;
        Lab::new(map, period).ok_or_else(|| fail("it is not one that this hearth knows".into()))
    }

    /// The window in this memory, if there is one.
    fn new(memory: MmapRaw, period: u64) -> Option<Lab> {
        // SAFETY: page-aligned shared memory that lives as long as the window, see `Shared`.
        let window = unsafe { Window::open(memory.as_mut_ptr(), memory.len() as u64) }?;
        Some(Lab {
            window: Shared { window, _memory: memory },
            period,
            next: None,
            offset_ns: None,
            given: 0,
            dropped: 0,
            watched: None,
        })
    }

    /// Takes the samples up to a time of the clock `now_ns`.
    fn take_by(&mut self, now_ns: impl Fn() -> u64, epoch_ns: u64, horizon: u64, each: &mut dyn FnMut(u32, &Miss)) {
        let window = self.window.window;
        if window.header().on_count.load(Acquire) == 0 {
            return;
        }
        let readings = if self.offset_ns.is_none() { READINGS } else { 1 };
        for _ in 0..readings {
            // The window's time is published now and then, so it is late by some instructions: the smallest difference
            // is the best.
            let published = window.header().now_ps.load(Acquire) / 1000;
            let offset = now_ns() as i64 - published as i64;
            self.offset_ns = Some(self.offset_ns.map_or(offset, |best| best.min(offset)));
        }
        let shift = self.offset_ns.unwrap_or(0) - epoch_ns as i64;
        match self.next.take() {
            Some((pid, miss)) if miss.time_ns <= horizon => each(pid, &miss),
            Some(young) => {
                self.next = Some(young);
                return;
            }
            None => {}
        }
        // A program that goes on missing could keep this loop here for ever: one ringful is enough for one visit.
        for _ in 0..window.header().samples {
            let Some(s) = window.take() else { return };
            let time_ns = (s.time_ps / 1000).saturating_add_signed(shift);
            let (store, ahead) = (s.store != 0, s.ahead != 0);
            let (weight, source, ip) = (self.period * u64::from(s.count), Source::Memory, s.ip);
            let line = match s.traffic {
                traffic::MISS => Line::Missed,
                traffic::WRITTEN => Line::Written,
                _ => Line::Beside,
            };
            let (addr, latency_ns, alone_ns) = (s.address, s.latency_ns, Some(s.alone_ns));
            let miss = Miss { time_ns, addr, ip, latency_ns, alone_ns, store, ahead, weight, source, line };
            let (first, last) = self.watched.unwrap_or((time_ns, time_ns));
            self.watched = Some((first.min(time_ns), last.max(time_ns)));
            if time_ns > horizon {
                self.next = Some((s.pid as u32, miss));
                return;
            }
            each(s.pid as u32, &miss);
        }
    }
}

impl Outside for Lab {
    fn begin(&mut self) {
        // What an earlier recorder has left behind is not ours.
        while self.window.window.take().is_some() {}
        let header = self.window.window.header();
        self.given = header.given.load(Relaxed);
        self.dropped = header.dropped.load(Relaxed);
        header.period.store(self.period, Release);
    }

    fn end(&mut self) {
        self.window.window.header().period.store(0, Release);
    }

    /// Before a quarter of the ring is full.
    fn interval(&self) -> Duration {
        let quarter = self.window.window.header().samples as f64 / 4.0;
        let seconds = quarter * self.period as f64 / MOST_MISSES_PER_SECOND;
        Duration::from_secs_f64(seconds.min(1.0)).clamp(SHORTEST, LONGEST)
    }

    fn take(&mut self, epoch_ns: u64, horizon: u64, each: &mut dyn FnMut(u32, &Miss)) {
        self.take_by(now_ns, epoch_ns, horizon, each);
    }

    fn watched(&self) -> Option<(u64, u64)> {
        self.watched
    }

    /// The time model counts them anyway.
    fn count_instructions(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn instructions(&self) -> Option<u64> {
        let window = self.window.window;
        let vcpus = window.header().vcpus as usize;
        Some((0..vcpus.min(wire::lab::VCPUS)).map(|vcpu| window.vcpu(vcpu).instructions).sum())
    }

    fn losses(&self, over: bool) -> Vec<(&'static str, u64, String)> {
        let header = self.window.window.header();
        let mut losses = Vec::new();
        let dropped = header.dropped.load(Relaxed).wrapping_sub(self.dropped);
        let given = header.given.load(Relaxed).wrapping_sub(self.given);
        if dropped > 0 {
            let share = 100.0 * dropped as f64 / (dropped + given) as f64;
            let note = format!(
                "{share:.1} % of the sampled misses found the window's ring full, because the recorder could not keep \
                 up, and are missing from all counts; a larger --period samples fewer"
            );
            losses.push(("sample-dropped", dropped, note));
        }
        if header.processes.load(Relaxed) >= PROCESSES as u64 {
            let note = format!("the lab tells {PROCESSES} processes apart; misses of later ones were not sampled");
            losses.push(("process-unsampled", 1, note));
        }
        if header.failed.load(Relaxed) != 0 {
            losses.push(("sampler-off", 1, "the lab's time model has failed; its console log says why".into()));
        } else if over && header.on_count.load(Relaxed) == 0 {
            let note = "the lab's time model was never on (--roi of hearth lab run says when), so no miss was seen";
            losses.push(("sampler-off", 1, note.into()));
        }
        losses
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end();
    }
}

/// The memory of the first ivshmem device.
fn device(devices: &Path) -> Option<PathBuf> {
    let is = |dir: &Path, file: &str, id: &str| fs::read_to_string(dir.join(file)).is_ok_and(|t| t.trim() == id);
    let entries = fs::read_dir(devices).ok()?;
    let found = entries.flatten().map(|e| e.path()).find(|d| is(d, "vendor", VENDOR) && is(d, "device", DEVICE))?;
    Some(found.join(MEMORY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use wire::lab::{SAMPLES_AT, Sample};

    const RING: u64 = 8;

    /// The time model's side of a window.
    struct Model {
        memory: MmapRaw,
        window: Window,
    }

    impl Model {
        fn sample(&self, pid: u64, time_ps: u64) {
            let header = self.window.header();
            let number = header.given.load(Relaxed);
            if number - header.taken.load(Relaxed) >= RING {
                header.dropped.fetch_add(1, Relaxed);
                return;
            }
            let mut sample = Sample::default();
            (sample.sequence, sample.pid, sample.time_ps, sample.address) = (number + 1, pid, time_ps, 64 * number);
            sample.count = 1;
            let at = SAMPLES_AT as usize + (number % RING) as usize * size_of::<Sample>();
            // SAFETY: a slot of the ring in the test's own memory.
            unsafe { self.memory.as_mut_ptr().add(at).cast::<Sample>().write(sample) };
            header.given.store(number + 1, Release);
        }
    }

    /// Both sides of one window.
    fn lab(period: u64) -> (Lab, Model) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(Window::size(RING)).unwrap();
        let map = || MmapOptions::new().map_raw(&file).unwrap();
        let memory = map();
        // SAFETY: zeroed memory of the right size that lives as long as the window.
        let window = unsafe { Window::make(memory.as_mut_ptr(), memory.len() as u64, RING, 2, 2, 1) };
        (Lab::new(map(), period).unwrap(), Model { memory, window })
    }

    #[test]
    fn samples_arrive_with_the_times_of_the_run_and_drops_are_told() {
        let (mut lab, model) = lab(3);
        let h = model.window.header();
        model.sample(1, 0);
        lab.begin();
        assert_eq!(h.period.load(Relaxed), 3);
        h.on_count.store(1, Relaxed);
        // The guest's clock is 5,000 ns ahead of the window's time, which is published at times: the first readings are
        // up to 700 ns late.
        let clock = Cell::new(0u64);
        let now_ns = || {
            clock.set(clock.get() + 1);
            let now = 1_000_000 + clock.get() * 100;
            if clock.get() % 8 == 0 {
                h.now_ps.store((now - 5_000 + 100) * 1000, Relaxed);
            }
            now
        };
        h.now_ps.store((1_000_000 - 5_000) * 1000, Relaxed);
        for i in 0..RING + 2 {
            model.sample(40 + i % 2, (2_000_000 + i) * 1000);
        }
        let mut seen = Vec::new();
        let horizon = 2_000_000 + 5_000 - 500_000 + RING / 2;
        lab.take_by(now_ns, 500_000, horizon, &mut |pid, miss| seen.push((pid, miss.time_ns, miss.addr)));
        assert!((4..=5).contains(&seen.len()), "{seen:?}");
        lab.take_by(now_ns, 500_000, u64::MAX, &mut |pid, miss| seen.push((pid, miss.time_ns, miss.addr)));
        assert_eq!(seen.len() as u64, RING);
        assert_eq!(lab.watched(), Some((seen[0].1, seen[seen.len() - 1].1)));
        let (pid, time_ns, addr) = seen[1];
        assert_eq!((pid, addr), (41, 64 * 2));
        let true_ns = 2_000_001 + 5_000 - 500_000;
        assert!(time_ns.abs_diff(true_ns) <= 100, "{time_ns} is not {true_ns}");
        let losses = lab.losses(true);
        assert_eq!((losses.len(), losses[0].0, losses[0].1), (1, "sample-dropped", 2));
        assert!(losses[0].2.starts_with("20.0 %"), "{}", losses[0].2);
    }

    #[test]
    fn a_model_that_was_never_on_is_told_and_sampling_ends_with_the_recorder() {
        let (mut lab, model) = lab(1);
        lab.begin();
        lab.take_by(|| 0, 0, u64::MAX, &mut |_, _| panic!("there is no sample"));
        // It may still come.
        assert_eq!(lab.losses(false), []);
        assert_eq!(lab.losses(true)[0].0, "sampler-off");
        assert_eq!(lab.interval(), SHORTEST);
        drop(lab);
        assert_eq!(model.window.header().period.load(Relaxed), 0);
    }

    #[test]
    fn the_window_is_the_memory_of_the_ivshmem_device() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(device(dir.path()), None);
        for (name, vendor, id) in [("0000:00:01.0", "0x1af4", "0x1000"), ("0000:00:04.0", "0x1af4", "0x1110")] {
            let at = dir.path().join(name);
            fs::create_dir(&at).unwrap();
            fs::write(at.join("vendor"), format!("{vendor}\n")).unwrap();
            fs::write(at.join("device"), format!("{id}\n")).unwrap();
        }
        assert_eq!(device(dir.path()), Some(dir.path().join("0000:00:04.0/resource2")));
    }
}
