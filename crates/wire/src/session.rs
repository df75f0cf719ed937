//! The session directory: names, environment and configuration.

use core::mem::size_of;

/// Environment variable that names the session directory; set by the launcher, read by the runtime of every
/// process of the tree. Absent: the runtime passes everything through.
pub const ENV: &str = "HEARTH_SESSION";
/// Environment variable that names the job of a process that a daemon follows: id of the process that was attached, from which it descends.
pub const JOB: &str = "HEARTH_JOB";
/// Environment variable of a launcher: if it is there, the program gets the kernel's default memory policy, and not the one that the launcher
/// was started with. The lab's agent has launchers of its own on the slow memory.
pub const PROGRAM_POLICY: &str = "HEARTH_PROGRAM_POLICY";
/// File in the session directory that holds a [`Config`].
pub const CONFIG: &str = "config";
/// File in the session directory that holds the plan image ([`crate::image`]), if a plan guides the run.
pub const PLAN: &str = "plan";
/// Suffix of a process file: `<pid>.<start in ns, hex>.proc`.
pub const PROCESS_SUFFIX: &str = ".proc";
/// A named pipe in the session directory: a runtime writes a byte to wake the recorder (new process, exiting).
pub const DOORBELL: &str = "doorbell";

/// An empty file that the first runtime of the session makes: tells a program without managed objects from one into
/// which the runtime was never loaded.
pub const LOADED: &str = "loaded";
/// What a runtime renames [`LOADED`] to when it cannot make its process file: a rename needs no space.
pub const FAILED: &str = "failed";
/// A file to which a runtime adds a line that says why it leaves (some of) its process's memory alone.
pub const PASSED_OVER: &str = "passed-over";
/// No line is added to [`PASSED_OVER`] of a standing session when it has so many bytes: nobody may be there to read it.
pub const MOST_PASSED_OVER: usize = 4096;
/// Times the page-fault sampler arms a page in a row, as long as it is visited. The first wait begins at a random moment
/// between two visits, the others at a visit: where visits come at even intervals `n` waits are `n - 1/2` intervals.
pub const REARMS: u32 = 4;
/// Smaller mappings and stretches of static data are not sampled by page faults, in bytes: a mapping may be the stack of a
/// coroutine, on which the kernel puts the frames of signals.
pub const ARMED_FROM: u64 = 2 << 20;

/// First word of [`Config`].
pub const CONFIG_MAGIC: u64 = u64::from_le_bytes(*b"HEARTHCF");

/// Bits of [`Config::flags`].
pub mod flags {
    /// Publish allocation events.
    pub const EVENTS: u64 = 1;
    /// Run the page-fault sampler.
    pub const SAMPLER: u64 = 2;
    /// Follow the plan image.
    pub const PLAN: u64 = 4;
    /// Say who each process is, by a mark ([`crate::lab`]): only in the lab's guest is there anybody to see it.
    pub const LAB: u64 = 8;
    /// The session is a daemon's: it stands while programs come and go, and the daemon may be away.
    pub const STANDING: u64 = 16;
    /// Objects below 4 KiB are managed only as long as that takes a small share of a thread's time.
    pub const SMALL_IF_CHEAP: u64 = 32;
}

/// How the runtime is to behave in this session. Fixed layout; native byte order (one machine).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// [`CONFIG_MAGIC`].
    pub magic: u64,
    /// [`crate::WIRE_VERSION`].
    pub version: u64,
    /// [`flags`].
    pub flags: u64,
    /// Smallest allocation to manage and record, in bytes: 4096 or more, or 1 for all.
    pub threshold: u64,
    /// Page-fault sampler: most faults (page visits) a second and process.
    pub faults_per_second: u64,
    /// Page-fault sampler: most accesses followed step by step, a second and process.
    pub steps_per_second: u64,
    /// Page-fault sampler: most of the process's processor time that it may cost, in millionths.
    pub most_ppm: u64,
    /// CLOCK_MONOTONIC at the start of the session, in ns: time 0 of all events.
    pub epoch_ns: u64,
    /// Where the process files are to lie: number of a NUMA node plus 1; 0: wherever the kernel puts them.
    pub home: u64,
    /// Reserved, 0.
    pub reserved: [u64; 7],
}

impl Config {
    /// The bytes of the file.
    pub fn to_bytes(&self) -> [u8; size_of::<Config>()] {
        let mut out = [0; size_of::<Config>()];
        let words = [
            self.magic,
            self.version,
            self.flags,
            self.threshold,
            self.faults_per_second,
            self.steps_per_second,
            self.most_ppm,
            self.epoch_ns,
            self.home,
        ];
        for (chunk, word) in out.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_ne_bytes());
        }
        out
    }

    /// Reads the file; `None` if it is not one of this version.
    pub fn from_bytes(bytes: &[u8]) -> Option<Config> {
        let word = |i: usize| bytes.get(i * 8..i * 8 + 8).and_then(|b| b.try_into().ok()).map(u64::from_ne_bytes);
        let config = Config {
            magic: word(0)?,
            version: word(1)?,
            flags: word(2)?,
            threshold: word(3)?,
            faults_per_second: word(4)?,
            steps_per_second: word(5)?,
            most_ppm: word(6)?,
            epoch_ns: word(7)?,
            home: word(8)?,
            reserved: [0; 7],
        };
        (config.magic == CONFIG_MAGIC
            && config.version == u64::from(crate::WIRE_VERSION)
            && bytes.len() == size_of::<Config>())
        .then_some(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_survives_the_file_and_foreign_bytes_are_refused() {
        let config = Config {
            magic: CONFIG_MAGIC,
            version: crate::WIRE_VERSION.into(),
            flags: flags::EVENTS,
            threshold: 4096,
            faults_per_second: 1000,
            steps_per_second: 4,
            most_ppm: 10_000,
            epoch_ns: 7,
            home: 2,
            reserved: [0; 7],
        };
        let bytes = config.to_bytes();
        assert_eq!(Config::from_bytes(&bytes), Some(config));
        assert_eq!(Config::from_bytes(&bytes[..40]), None);
        let mut newer = bytes;
        newer[8] += 1;
        assert_eq!(Config::from_bytes(&newer), None);
    }
}
