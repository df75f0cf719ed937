//! Whole runs with a program that speaks the wire itself, so that the recorder is tested without the runtime: this
//! test binary starts itself again as that program (and, to be killed, as the recorder).

use hearth_record::{self as record, Options, Progress, Recorded, Sampler};
use model::{Bytes, Pattern};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use wire::event::{Burst, Event, Kind, MAX_SLOTS, SLOT_WORDS, Stamped, encode};
use wire::process::{FILE_BYTES, MAGIC, Ring, header, state};
use wire::session::{CONFIG, Config, ENV};

const ROLE: &str = "HEARTH_TEST_ROLE";
const FOLDER: &str = "HEARTH_TEST_FOLDER";
const PAGE: u64 = 4096;

/// The program's end of the wire.
struct Process {
    map: memmap2::MmapRaw,
    epoch: u64,
    session: PathBuf,
    _memory: Vec<memmap2::MmapMut>,
}

impl Process {
    fn new() -> Process {
        let session = PathBuf::from(std::env::var_os(ENV).unwrap());
        let config = Config::from_bytes(&std::fs::read(session.join(CONFIG)).unwrap()).unwrap();
        let path = session.join(format!("{}.{:x}.proc", std::process::id(), record::now_ns()));
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(FILE_BYTES as u64).unwrap();
        let map = memmap2::MmapOptions::new().len(FILE_BYTES).map_raw(&file).unwrap();
        let p = Process { map, epoch: config.epoch_ns, session, _memory: Vec::new() };
        // SAFETY: the mapping is as long as a process file and lives as long as the process.
        let h = unsafe { header(p.map.as_mut_ptr()) };
        h.version.store(wire::WIRE_VERSION, Relaxed);
        h.pid.store(std::process::id(), Relaxed);
        h.start_ns.store(p.now(), Relaxed);
        wire::process::write_text(&h.exe, b"/bin/fake");
        h.state.store(state::RUNNING, Relaxed);
        h.sampling.store(1, Relaxed);
        for i in 0..2 {
            p.ring(i).control().ready.store(1, Release);
            h.rings_ready.fetch_add(1, Release);
        }
        h.magic.store(MAGIC, Release);
        p.ring_bell();
        p
    }
    fn ring_bell(&self) {
        use std::io::Write;
        let mut bell = File::options().write(true).open(self.session.join(wire::session::DOORBELL)).unwrap();
        bell.write_all(b"!").unwrap();
    }
    fn now(&self) -> u64 {
        record::now_ns() - self.epoch
    }
    fn ring(&self, i: usize) -> Ring {
        // SAFETY: as above, and i is below MAX_RINGS.
        unsafe { Ring::at(self.map.as_mut_ptr(), i) }
    }
    fn say(&self, ring: usize, time: u64, event: Event<'_>) {
        let mut words = [0; MAX_SLOTS * SLOT_WORDS];
        let slots = encode(&Stamped { tid: 1 + ring as u32, time, event }, &mut words).unwrap();
        self.ring(ring).push(&words[..slots * SLOT_WORDS]);
    }
    /// Allocates real memory, touches a quarter of it, and says so.
    fn alloc(&mut self, site: u64, size: u64) -> u64 {
        let mut map = memmap2::MmapMut::map_anon(size as usize).unwrap();
        map.advise(memmap2::Advice::NoHugePage).unwrap();
        map[..size as usize / 4].fill(1);
        let addr = map.as_ptr() as u64;
        self._memory.push(map);
        self.say(0, self.now(), Event::Alloc { addr, size, site, tier: 0, realloc: false, kind: Kind::Allocation });
        addr
    }
    fn introduce(&self) {
        let t = self.now();
        self.say(0, t, Event::Module { index: 0, build_id: &[0xab; 20], path: b"/usr/bin/fake" });
        for site in [7, 8] {
            let frames = [0x10 * site, 0xffff << 48 | 0x99];
            self.say(0, t, Event::Site { site, frames: &frames, truncated: false, apart: None });
        }
    }
    fn leave(&self) {
        // SAFETY: as above.
        let h = unsafe { header(self.map.as_mut_ptr()) };
        h.state.store(state::EXITING, Release);
        self.ring_bell();
        let start = Instant::now();
        while h.exit_ack.load(Acquire) == 0 {
            assert!(start.elapsed() < Duration::from_secs(2), "the recorder did not acknowledge the exit");
            std::thread::sleep(Duration::from_millis(1));
        }
        h.end_ns.store(self.now(), Relaxed);
        h.state.store(state::ENDED, Release);
    }
}

/// Not a test of its own: what the other tests start.
#[test]
fn a_role_of_another_test() {
    match std::env::var(ROLE).as_deref() {
        Ok("program") => {
            let mut p = Process::new();
            p.introduce();
            let big = p.alloc(7, 16 << 20);
            let small = p.alloc(8, 1 << 20);
            // Freed by "another thread".
            p.say(1, p.now(), Event::Free { addr: small });
            let burst =
                Burst { accesses: 64, stores: 16, lines: 8, monotonic: true, limited: true, stride: 8, ns: 9000 };
            for i in 0..400 {
                let page = big + i * PAGE;
                let visit = Event::Visit {
                    addr: page + 8,
                    ip: 1,
                    object: big,
                    site: 7,
                    wait_ns: 1_000_000,
                    store: i % 4 == 0,
                    burst: (i % 4 == 0).then_some(burst),
                };
                p.say(1, p.now(), visit);
                p.say(1, p.now(), Event::Quiet { page, object: big, site: 7, wait_ns: 1_000_000 });
            }
            p.say(
                1,
                p.now(),
                Event::Visit { addr: 1, ip: 1, object: 1, site: 9, wait_ns: 1, store: false, burst: None },
            );
            print!("said on stdout");
            std::thread::sleep(Duration::from_millis(400));
            p.leave();
            std::process::exit(3);
        }
        Ok("crash") => {
            let mut p = Process::new();
            p.introduce();
            p.alloc(7, 1 << 20);
            // SAFETY: kills this process only.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        Ok("long") => {
            let mut p = Process::new();
            p.introduce();
            let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
            let start = Instant::now();
            while !folder.join("killed").exists() && start.elapsed() < Duration::from_secs(20) {
                for _ in 0..50 {
                    let addr = p.alloc(7, 8192);
                    p.say(0, p.now(), Event::Free { addr });
                    p._memory.clear();
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            // Nobody empties the ring any more: it fills up, drops, and does no harm.
            for _ in 0..20_000 {
                p.say(0, p.now(), Event::Free { addr: 1 });
            }
            assert!(p.ring(0).control().dropped.load(Relaxed) > 0);
            std::fs::write(folder.join("program-ended-well"), "").unwrap();
        }
        Ok("silent") => print!("said nothing on the wire"),
        Ok("recorder") => {
            let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
            // SAFETY: no other thread reads the environment at this time.
            unsafe { std::env::set_var(ROLE, "long") };
            let _ = run_here(&folder);
        }
        _ => {}
    }
}

/// Records this test binary in the role that the environment gives.
fn run_here(folder: &Path) -> Result<Recorded, record::Error> {
    let options = Options {
        program: std::env::current_exe().unwrap().into(),
        args: ["--exact", "a_role_of_another_test", "--nocapture", "-q"].map(Into::into).to_vec(),
        output: Some(folder.join("p.hearth")),
        threshold: Bytes(4096),
        sampler: Sampler::PageFault { faults_per_second: 500, most_ppm: 100_000 },
        llc: Some(Bytes(1 << 20)),
        phases: false,
        plan: None,
        platform: Err("not asked".into()),
    };
    record::record(&options, &mut |_: Progress| {})
}

/// Starts this binary in a role of its own, so that each test has its own environment.
fn play(role: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    // Any library may stand in for the runtime: the program speaks the wire itself.
    command
        .args(["--exact", "recorded_in_a_process_of_its_own", "--nocapture", "-q"])
        .env(ROLE, role)
        .env(FOLDER, folder)
        .env("HEARTH_LIBRARY", "/lib/x86_64-linux-gnu/libm.so.6");
    command
}

/// Not a test of its own: the recorder's process of the tests below. Prints what came of it.
#[test]
fn recorded_in_a_process_of_its_own() {
    if let (Ok(_), Some(folder)) = (std::env::var(ROLE), std::env::var_os(FOLDER)) {
        if std::env::var_os(ENV).is_some() {
            return;
        }
        match run_here(Path::new(&folder)) {
            Ok(r) => {
                let kinds: Vec<String> = r.outcome.losses.iter().map(|l| format!("{}={}", l.kind, l.count)).collect();
                println!("\nCODE {} HOW {} LOSSES {}", r.outcome.code, r.outcome.how, kinds.join(" "));
            }
            Err(e) => println!("\nERROR {e}"),
        }
    }
}

fn output(role: &str, folder: &Path) -> String {
    let output = play(role, folder).stderr(Stdio::inherit()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_run_becomes_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let said = output("program", folder.path());
    assert!(said.contains("said on stdout"), "{said}");
    assert!(said.contains("CODE 3 HOW exit 3"), "{said}");

    let o = profile::open(folder.path().join("p.hearth")).unwrap().observed().unwrap();
    assert_eq!((o.outcome.as_str(), o.threshold, o.processes), ("exit 3", Bytes(4096), 1));
    assert_eq!(o.sites.len(), 2);
    let (hot, cold) = (&o.sites[0], &o.sites[1]);
    assert_eq!((hot.site.id.0, hot.objects, hot.peak, hot.samples), (7, 1, Bytes(16 << 20), 400));
    assert_eq!(hot.pattern, Pattern::Stream { stride: 8 });
    // A quarter was touched, as the kernel told.
    let resident = hot.resident.unwrap().0 as f64 / (4 << 20) as f64;
    assert!((resident - 1.0).abs() < 0.02, "{resident} of what was touched");
    assert!(hot.load_misses > hot.store_misses && hot.store_misses > 0.0);
    // It lived to the end, the other one was freed at once by another thread.
    assert!(hot.mean_lifetime.0 > 300_000_000 && cold.mean_lifetime.0 < 100_000_000);
    assert_eq!((cold.site.id.0, cold.misses()), (8, 0.0));
    assert_eq!(hot.site.frames.len(), 2);
    assert_eq!(hot.site.frames[0].module.as_ref().unwrap().build_id, "ab".repeat(20));
    assert_eq!((hot.site.frames[0].offset, &hot.site.frames[1].module), (0x70, &None));
    assert!((o.unattributed - 1.0 / 401.0).abs() < 1e-9);
    assert!(o.timeline.len() > 10 && o.peak() == Bytes(16 << 20));
    let misses: f64 = o.timeline.iter().flat_map(|p| &p.misses).map(|m| m.1).sum();
    assert!((misses / o.total_misses() - 1.0).abs() < 1e-6);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "one file is left");
}

#[test]
fn a_killed_program_leaves_a_whole_profile() {
    let folder = tempfile::tempdir().unwrap();
    let said = output("crash", folder.path());
    assert!(said.contains("CODE 137 HOW signal 9"), "{said}");
    let o = profile::open(folder.path().join("p.hearth")).unwrap().observed().unwrap();
    assert_eq!((o.outcome.as_str(), o.sites.len(), o.sites[0].objects), ("signal 9", 1, 1));
}

#[test]
fn a_program_that_never_reports_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let said = output("silent", folder.path());
    assert!(said.contains("said nothing on the wire") && said.contains("CODE 0"), "{said}");
    assert!(said.contains("process-unobserved=1"), "{said}");
}

#[test]
fn a_killed_recorder_leaves_a_readable_profile_and_an_unharmed_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = play("long", folder.path()).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(2500));
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    std::fs::write(folder.path().join("killed"), "").unwrap();
    let o = profile::open(folder.path().join("p.hearth")).unwrap().observed().unwrap();
    assert_eq!(o.outcome, "unfinished");
    assert!(o.sites[0].objects > 1000, "{} objects were kept", o.sites[0].objects);
    assert!(o.duration.secs() > 1.0);
    let start = Instant::now();
    while !folder.path().join("program-ended-well").exists() {
        assert!(start.elapsed() < Duration::from_secs(10), "the program did not survive its recorder");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn bad_output_is_refused_before_the_program_is_started() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.hearth"), "my notes").unwrap();
    let said = output("program", folder.path());
    assert!(said.contains("it is not a Hearth profile") && !said.contains("said on stdout"), "{said}");
    assert_eq!(std::fs::read(folder.path().join("p.hearth")).unwrap(), b"my notes");
    let gone = folder.path().join("none/deeper");
    let said = output("program", &gone);
    assert!(said.contains("cannot write the profile") && said.contains("No such file"), "{said}");
    assert!(!said.contains("said on stdout"), "{said}");
}
