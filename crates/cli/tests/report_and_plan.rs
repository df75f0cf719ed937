//! `hearth report` and `hearth plan` as a user sees them, on a small profile written here.

use model::{Module, Nanos, Origin, SiteId, SourceLine};
use profile::estimate::Burst;
use profile::{FrameRow, Machine, ObjectRow, ProcessRow, QuietRow, Run, VisitRow, Writer};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const MIB: u64 = 1 << 20;
const SECOND: u64 = 1_000_000_000;
const HOT: u64 = 0x1a2b_3c4d_0000_0001;
const COLD: u64 = 0x1a2b_3c4d_0000_0002;

/// Two seconds of a program with 8 MiB that are streamed over all the time, and 64 MiB that nobody touches.
fn profile(path: &Path) {
    let run = Run {
        command: vec!["solver".to_string(), "--n".to_string(), "2".to_string()],
        cwd: "/".to_string(),
        started: 1_700_000_000,
        threshold: 4096,
        sampler: "page-fault".to_string(),
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
        [(HOT, "make_field", 8 * MIB), (COLD, "read_table", 64 * MIB)].into_iter().enumerate()
    {
        let offset = 0x1000 + n as u64 * 16;
        let site = writer.site(SiteId(id)).unwrap();
        writer.frames(SiteId(id), &[FrameRow { module: Some(module), offset }], false).unwrap();
        let line = SourceLine { function: function.to_string(), file: "/src/solver.c".to_string(), line: 10 };
        writer.symbol(module, offset, &[line]).unwrap();
        let addr = 0x7000_0000_0000 + n as u64 * 1024 * MIB;
        let object =
            ObjectRow { process, site, tid: 7, addr, size, alloc_ns: 0, free_ns: None, tier: 0, realloc: false };
        writer.object(n as i64 + 1, &object).unwrap();
        for sample in 0..1000 {
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
struct Room(PathBuf);

impl Room {
    fn new(test: &str) -> Room {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-and-plan-{test}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        profile(&folder.join("app.hearth"));
        Room(folder)
    }

    fn hearth(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hearth"));
        command.args(args).current_dir(&self.0).env("XDG_CONFIG_HOME", &self.0).env("XDG_CACHE_HOME", &self.0);
        command.output().unwrap()
    }

    fn stdout(&self, args: &[&str]) -> String {
        let output = self.hearth(args);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code 2, one line on stderr that contains `expected`, nothing on stdout, nothing left in the folder.
    fn assert_refused(&self, args: &[&str], expected: &str) {
        let output = self.hearth(args);
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}\ninstead of\n{expected}");
        assert!(message.starts_with("hearth: ") && message.lines().count() == 1, "{message}");
        assert!(output.stdout.is_empty(), "{args:?}: something half-done");
        assert_eq!(self.files(), ["app.hearth"], "{args:?}");
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    }
}

#[test]
fn profiles_are_compared_and_exported() {
    let room = Room::new("diff");
    fs::copy(room.0.join("app.hearth"), room.0.join("after.hearth")).unwrap();
    let text = room.stdout(&["diff", "app.hearth", "after.hearth"]);
    assert!(text.contains("solver --n 2") && text.contains("make_field (solver.c:10)"), "{text}");
    assert!(text.contains("says nothing of functions"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&room.stdout(&["diff", "app.hearth", "after.hearth", "--json"])).unwrap();
    assert_eq!(json["sites"].as_array().unwrap().len(), 2);
    room.stdout(&["diff", "app.hearth", "after.hearth", "--html", "diff.html"]);
    assert!(fs::read_to_string(room.0.join("diff.html")).unwrap().contains("make_field"));
    let before = fs::read(room.0.join("after.hearth")).unwrap();
    for file in ["app.hearth", "after.hearth"] {
        let refused = room.hearth(&["diff", "app.hearth", "after.hearth", "--html", file]);
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    }
    assert_eq!(fs::read(room.0.join("after.hearth")).unwrap(), before);
    let missing = room.hearth(&["diff", "app.hearth", "none.hearth"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("none.hearth does not exist"), "{missing:?}");
    let firefox: serde_json::Value =
        serde_json::from_str(&room.stdout(&["report", "app.hearth", "--firefox", "-"])).unwrap();
    assert_eq!(firefox["meta"]["preprocessedProfileVersion"], 55);
}

#[test]
fn the_report_shows_the_hot_site_first_in_every_form() {
    let room = Room::new("report");
    let table = room.stdout(&["report", "app.hearth"]);
    let at = |name: &str| table.find(name).unwrap_or_else(|| panic!("{name} in {table}"));
    assert!(at("solver --n 2") < at("make_field (solver.c:10)") && at("make_field") < at("read_table"), "{table}");
    assert!(table.contains("stream 8 B") && table.contains("64 MiB"), "{table}");

    let top = room.stdout(&["report", "app.hearth", "--top", "1"]);
    assert!(top.contains("1 further site") && !top.contains("read_table"), "{top}");
    let site = room.stdout(&["report", "app.hearth", "--site", &format!("{COLD:016x}")]);
    assert!(site.contains("solver+0x1010") && site.contains("read_table  /src/solver.c:10"), "{site}");

    let json: serde_json::Value = serde_json::from_str(&room.stdout(&["report", "app.hearth", "--json"])).unwrap();
    assert_eq!(json["sites"][0]["site"]["id"], format!("{HOT:016x}"));
    assert_eq!((json["version"].as_u64(), json["sites"][0]["peak"].as_u64()), (Some(1), Some(8 * MIB)));
    assert!(json["sites"][0]["load_misses"].as_f64() > json["sites"][1]["load_misses"].as_f64());

    assert!(room.stdout(&["report", "app.hearth", "--html", "page.html"]).is_empty());
    let page = fs::read_to_string(room.0.join("page.html")).unwrap();
    assert_eq!(page, room.stdout(&["report", "app.hearth", "--html", "-"]));
    assert!(page.contains("make_field (solver.c:10)") && page.ends_with("</html>\n"));
    assert_eq!(room.files(), ["app.hearth", "page.html"]);
}

#[test]
fn a_plan_puts_the_hot_site_into_fast_memory_and_says_what_it_does() {
    let room = Room::new("plan");
    let output = room.hearth(&["plan", "app.hearth", "--fast", "16MiB", "-o", "plan.toml"]);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let summary = String::from_utf8(output.stderr).unwrap();
    assert!(summary.contains("fast  ~100.0% of misses (predicted)     8 MiB of 16 MiB in 1 site\n"), "{summary}");
    let plan = policy::plan_file::read(&room.0.join("plan.toml")).unwrap();
    let tier_of = |id: u64| plan.sites.iter().find(|s| s.id == SiteId(id)).unwrap().tier.clone();
    assert_eq!((tier_of(HOT), tier_of(COLD)), (plan.tiers[0].name.clone(), plan.default_tier.clone()));
    assert_eq!(plan.sites[0].frames[0].source[0].function, "make_field");
    // A second plan replaces the first, and leaves nothing else.
    assert!(room.hearth(&["plan", "app.hearth", "--fast", "10%", "-o", "plan.toml"]).status.success());
    let plan = policy::plan_file::read(&room.0.join("plan.toml")).unwrap();
    assert_eq!(plan.tiers[0].budget.unwrap().0, 72 * MIB / 10);
    assert!(plan.sites.iter().all(|s| s.tier == plan.default_tier), "8 MiB do not fit in 7.2 MiB");
    assert_eq!(room.files(), ["app.hearth", "plan.toml"]);
}

#[test]
fn a_plan_for_another_machine_uses_its_tiers_and_capacities() {
    let room = Room::new("platform");
    let text = room.stdout(&["plan", "app.hearth", "--platform", "knl-7210-flat-snc4"]);
    let plan = policy::plan_file::from_toml(&text).unwrap();
    assert_eq!(plan.platform, "knl-7210-flat-snc4");
    assert!(plan.tiers.len() >= 2 && plan.tiers.iter().all(|t| t.nodes.is_empty()), "{:?}", plan.tiers);
    assert_eq!(plan.tiers[0].name, plan.sites[0].tier);
    let list = room.stdout(&["plan", "--list"]);
    assert!(list.contains("density") && list.contains("ecoHMEM"), "{list}");
}

#[test]
fn what_cannot_be_done_is_said_in_one_sentence() {
    let room = Room::new("refused");
    let cases: [(&[&str], &str); 14] = [
        (&["report", "other.hearth"], "other.hearth does not exist"),
        (&["report", "app.hearth", "--site", "ff"], "no site of this profile has an id that begins with `ff`"),
        (&["report", "app.hearth", "--site", "1a2b"], "`1a2b` begins the ids of 2 sites"),
        (&["report", "app.hearth", "--html", "app.hearth"], "app.hearth is the file to read; name another one"),
        (&["report", "app.hearth", "--html", "no/page.html"], "cannot write no/page.html: No such file"),
        (&["plan", "app.hearth", "--fast", "0"], "a capacity of 0 for tier `"),
        (&["plan", "app.hearth", "--fast", "900TiB"], "cannot hold 900 TiB: platform `"),
        (
            &["plan", "app.hearth", "--fast", "1GiB", "--policy", "magic"],
            "there is no policy `magic`; there are: density",
        ),
        (&["plan", "app.hearth", "--platform", "vax"], "vax"),
        (&["plan", "app.hearth", "--fast", "1MiB", "--capacity", "hbm2=1MiB"], "has no tier `hbm2`; it has: "),
        (
            &["plan", "app.hearth", "--capacity", "fast=1MiB", "--capacity", "fast=2MiB"],
            "--capacity is given twice for tier `fast`",
        ),
        (&["plan", "app.hearth", "--fast", "1MiB", "-o", "app.hearth"], "app.hearth is the file to read"),
        (&["plan", "app.hearth", "--fast", "1MiB", "-o", "no/plan.toml"], "cannot write no/plan.toml: No such file"),
        (&["plan", "/dev/null", "--fast", "1MiB"], "/dev/null is not a Hearth profile"),
    ];
    for (args, expected) in cases {
        room.assert_refused(args, expected);
    }
    // A half-copied profile.
    let whole = fs::read(room.0.join("app.hearth")).unwrap();
    fs::write(room.0.join("app.hearth"), &whole[..whole.len() / 2]).unwrap();
    room.assert_refused(&["plan", "app.hearth", "--fast", "1MiB"], "app.hearth is cut off");
}
