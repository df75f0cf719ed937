//! A small profile, and a room of one's own to use it in.

use model::{Module, Nanos, Origin, SiteId, SourceLine};
use profile::estimate::Burst;
use profile::{FrameRow, Machine, ObjectRow, ProcessRow, QuietRow, Run, VisitRow, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const MIB: u64 = 1 << 20;
pub const SECOND: u64 = 1_000_000_000;
pub const HOT: u64 = 0x1a2b_3c4d_0000_0001;
pub const COLD: u64 = 0x1a2b_3c4d_0000_0002;

/// Two seconds of a program with 8 MiB that are streamed over all the time, and 64 MiB that nobody touches.
fn profile(path: &Path, sampler: &str, sites: usize) {
    let run = Run {
        command: vec!["solver".to_string(), "--n".to_string(), "2".to_string()],
        cwd: "/".to_string(),
        started: 1_700_000_000,
        threshold: 4096,
        sampler: sampler.to_string(),
        period: None,
        sampling: None,
        epoch_ns: 0,
        tiers: vec![],
    };
    let machine = Machine {
        platform: None,
        cpu: "made up".to_string(),
        kernel: "6".to_string(),
        llc: MIB,
        llc_origin: Origin::User,
    };
    let mut writer = Writer::create(path, &run, &machine).unwrap();
    let process =
        writer.process(&ProcessRow { pid: 7, ppid: 1, exe: "/usr/bin/solver".to_string(), start_ns: 0 }).unwrap();
    let module =
        writer.module(&Module { path: "/usr/bin/solver".to_string(), build_id: "c0ffee".to_string() }).unwrap();
    for (n, (id, function, size)) in
        [(HOT, "make_field", 8 * MIB), (COLD, "read_table", 64 * MIB)].into_iter().take(sites).enumerate()
    {
        let offset = 0x1000 + n as u64 * 16;
        let site = writer.site(SiteId(id)).unwrap();
        writer.frames(SiteId(id), &[FrameRow { module: Some(module), offset }], false).unwrap();
        let line =
            SourceLine { function: function.to_string(), file: "/src/solver.c".to_string(), line: 10, column: 0 };
        writer.symbol(module, offset, &[line]).unwrap();
        let addr = 0x7000_0000_0000 + n as u64 * 1024 * MIB;
        let object =
            ObjectRow { process, site, tid: 7, addr, size, alloc_ns: 0, free_ns: None, tier: 0, realloc: false };
        writer.object(n as i64 + 1, &object).unwrap();
        for sample in 0..if sampler == "none" { 0 } else { 1000 } {
            let (time_ns, page) = (sample * 2 * SECOND / 1000, addr + sample * 8 % (size / 4096) * 4096);
            if id == HOT {
                let burst =
                    Burst { accesses: 128, stores: 0, lines: 16, monotonic: true, limited: true, stride: 8, ns: 1000 };
                let (object, burst) = (Some(1), Some(burst));
                let visit = VisitRow {
                    process,
                    site,
                    object,
                    tid: 7,
                    time_ns,
                    addr: page,
                    ip: 1,
                    store: false,
                    wait_ns: 1_000_000,
                    burst,
                };
                writer.visit(&visit).unwrap();
            } else {
                writer
                    .quiet(&QuietRow { process, site, object: Some(2), time_ns, page, wait_ns: 100_000_000 })
                    .unwrap();
            }
        }
    }
    writer.finish(Nanos(2 * SECOND), "exit 0").unwrap();
}

/// A folder of the test's own with the profile `app.hearth` in it.
pub struct Room(pub PathBuf);

impl Room {
    pub fn new(test: &str) -> Room {
        Room::with(test, "page-fault", 2)
    }

    /// Without samples.
    pub fn blind(test: &str) -> Room {
        Room::with(test, "none", 2)
    }

    /// Of a program that allocated nothing.
    pub fn empty(test: &str) -> Room {
        Room::with(test, "page-fault", 0)
    }

    fn with(test: &str, sampler: &str, sites: usize) -> Room {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-and-plan-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        profile(&folder.join("app.hearth"), sampler, sites);
        Room(folder)
    }

    pub fn hearth(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command.args(args).current_dir(&self.0).env("XDG_CONFIG_HOME", &self.0).env("XDG_CACHE_HOME", &self.0);
        command.output().unwrap()
    }

    pub fn stdout(&self, args: &[&str]) -> String {
        let output = self.hearth(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code 2, one line on stderr that contains `expected`, nothing on stdout, nothing left in the folder.
    pub fn assert_refused(&self, args: &[&str], expected: &str) {
        let output = self.hearth(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}\ninstead of\n{expected}");
        assert!(message.starts_with("hearth: ") && message.lines().count() == 1, "{message}");
        assert!(output.stdout.is_empty(), "{args:?}: something half-done");
        assert_eq!(self.files(), ["app.hearth"], "{args:?}");
    }

    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }
}
