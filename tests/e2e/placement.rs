//! Guided runs: where objects land, budgets, file tiers, and plans that outlive a rebuild.

use hearth_tests::{Room, function_sites, hearth, program, workspace};
use model::landing::{Landing, SiteLanding};
use std::fs;
use std::path::Path;

/// A plan for `program`'s `hot` (to `fast`) and `cold` (to `slow`), whatever their misses; `tiers` are the tables of both.
fn plan(room: &Room, command: &[&str], tiers: &str) {
    plan_with(room, &[], command, tiers);
}

/// The same from a profile recorded with these options.
fn plan_with(room: &Room, options: &[&str], command: &[&str], tiers: &str) {
    room.record(&[&["--sampler", "none"], options].concat(), "p.hearth", command).expect(0);
    let text = room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB"]).expect(0).stdout;
    let start = text.find("\n[[tier]]").expect("tiers") + 1;
    let next = |table| text[start..].find(table).map_or(text.len(), |at| start + at);
    let end = next("[[module]]").min(next("[[site]]"));
    let mut sites = text[end..].to_string();
    for (function, tier) in [("hot", "fast"), ("cold", "slow")] {
        let at = sites.find(&format!("label = \"{function} (")).expect("the function's site");
        let line = at + sites[at..].find("tier = ").expect("its tier");
        let after = line + sites[line..].find('\n').expect("the end of the line");
        sites.replace_range(line..after, &format!("tier = \"{tier}\""));
    }
    fs::write(room.path("plan.toml"), format!("{}{tiers}\n{sites}", &text[..start])).expect("writing the plan");
}

fn landed(room: &Room, command: &[&str], stdout: &str) -> Landing {
    let mut arguments = vec!["run", "--plan", "plan.toml", "--json", "landed.json", "--"];
    arguments.extend(command);
    let ended = room.hearth(&arguments).expect(0);
    assert_eq!(ended.stdout, stdout, "{}", ended.stderr);
    serde_json::from_str(&fs::read_to_string(room.path("landed.json")).expect("the summary")).expect("a landing")
}

fn site<'a>(landing: &'a Landing, function: &str) -> &'a SiteLanding {
    let of = |s: &&SiteLanding| s.label.starts_with(&format!("{function} ("));
    landing.sites.iter().find(of).unwrap_or_else(|| panic!("{function} did not allocate: {landing:?}"))
}

/// Bytes that the kernel found present.
fn present(site: &SiteLanding) -> u64 {
    site.resident.iter().filter(|(node, _)| *node >= 0).map(|(_, bytes)| bytes.0).sum()
}

const OBJECT: u64 = 24 << 20;

#[test]
fn a_guided_run_can_be_recorded() {
    let room = Room::new();
    let command = [&*program("forks"), "700"];
    plan(&room, &command, "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
    let ended = room.record(&["--sampler", "none", "--plan", "plan.toml"], "guided.hearth", &command).expect(0);
    assert_eq!(ended.stdout, "kept\n", "{}", ended.stderr);
    let observed = room.observed("guided.hearth");
    assert_eq!(observed.tiers.iter().map(|t| &*t.name).collect::<Vec<_>>(), ["fast", "slow"]);
    for (function, shares) in [("hot", [1.0, 0.0]), ("cold", [0.0, 1.0])] {
        let site = function_sites(&observed, function).next().expect("the function's site");
        assert_eq!(observed.tier_shares(site), shares, "{site:?}");
    }
    let refused = room.record(&["--plan", "none.toml"], "x.hearth", &command).expect(2);
    assert!(refused.stderr.contains("none.toml") && !room.path("x.hearth").exists(), "{}", refused.stderr);
}

#[test]
fn objects_land_in_the_heaps_of_their_tiers() {
    let room = Room::new();
    let command = [&*program("forks"), "700"];
    plan(&room, &command, "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
    let landing = landed(&room, &command, "kept\n");
    for (function, tier) in [("hot", 0), ("cold", 1)] {
        let site = site(&landing, function);
        assert_eq!(site.placed[tier].0, OBJECT, "{site:?}");
        assert_eq!(site.placed[1 - tier].0, 0, "{site:?}");
        assert!(present(site) >= OBJECT * 9 / 10, "read back from the kernel: {site:?}");
    }
    assert!(landing.unmatched.is_empty(), "{landing:?}");
}

/// Paper 003, Fig. 4b: objects of 64 and 100 bytes, made in turns, each in the heap of its own site's tier.
#[test]
fn small_objects_land_in_the_heaps_of_their_tiers() {
    let room = Room::new();
    let command = [&*program("placed_small"), "1"];
    let plain = room.plain(&command).expect(0).stdout;
    plan_with(&room, &["--small"], &command, "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
    let landing = landed(&room, &command, &plain);
    // In blocks of 64 KiB; of each site the first 32 KiB are the program's own allocator's.
    for (function, tier, bytes) in [("hot", 0, 80_000 * 64), ("cold", 1, 160_000 * 112)] {
        let site = site(&landing, function);
        let placed = site.placed[tier].0;
        println!("{function}: {placed} bytes in blocks for {bytes} bytes of objects");
        assert!((bytes - (64 << 10)..bytes + (128 << 10)).contains(&placed), "{site:?}");
        assert_eq!(site.placed[1 - tier].0, 0, "{site:?}");
        assert!(present(site) >= placed * 9 / 10, "read back from the kernel: {site:?}");
    }
}

#[test]
fn a_full_tier_falls_back_and_says_so() {
    let room = Room::new();
    let command = [&*program("forks"), "50"];
    plan(&room, &command, "[[tier]]\nname = \"fast\"\nbudget = \"20 MiB\"\n\n[[tier]]\nname = \"slow\"\n");
    let landing = landed(&room, &command, "kept\n");
    let hot = site(&landing, "hot");
    assert_eq!((hot.placed[0].0, hot.placed[1].0), (0, OBJECT), "{hot:?}");
    assert_eq!((landing.tiers[0].fell_back, landing.tiers[0].fell_back_bytes.0), (1, OBJECT));
    assert_eq!(landing.tiers[1].fell_back, 0);
}

#[test]
fn what_was_freed_takes_no_room_in_a_full_tier() {
    let room = Room::new();
    let command = [&*program("roomy")];
    room.record(&["--sampler", "none"], "p.hearth", &command).expect(0);
    // All that it allocates is planned for the fast tier.
    let text = room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB"]).expect(0).stdout;
    let start = text.find("\n[[tier]]").expect("tiers");
    let end = ["\n[[module]]", "\n[[site]]"].iter().filter_map(|table| text.find(table)).min().expect("sites");
    let tiers = "\n[[tier]]\nname = \"fast\"\nbudget = \"32 MiB\"\n\n[[tier]]\nname = \"slow\"\n";
    fs::write(room.path("plan.toml"), [&text[..start], tiers, &text[end..]].concat()).expect("writing the plan");
    let landing = landed(&room, &command, "used\n");
    let placed = |tier: usize| landing.sites.iter().map(|s| s.placed[tier].0).sum::<u64>();
    assert!(placed(0) >= (24 + 28 << 20) + (17 << 19) && placed(1) == 0, "{landing:?}");
    assert_eq!(landing.tiers[0].fell_back, 0, "{landing:?}");
}

#[test]
fn a_tier_of_files_keeps_parent_and_children_apart() {
    let room = Room::new();
    let command = [&*program("forks")];
    let tiers =
        format!("[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\ndir = \"{}\"\n", room.path("").display());
    plan(&room, &command, &tiers);
    let landing = landed(&room, &command, "kept\n");
    assert_eq!(site(&landing, "cold").placed[1].0, OBJECT, "{landing:?}");
}

/// Builds `forks.c` with another function before it, so that all addresses move, and strips it if asked to.
fn rebuild(room: &Room, out: &Path, flags: &[&str]) {
    let source = fs::read_to_string(workspace().join("tests/programs/forks.c")).expect("the source");
    fs::create_dir_all(out.parent().expect("a folder")).expect("making a folder");
    // After the rest, so that lines stay; kept and laid out first by its section.
    let more = "__attribute__((used, section(\".text.unlikely\"))) static int more(int x) { return x * 37 + BYTES; }\n";
    fs::write(room.path("forks.c"), source + more).expect("writing the source");
    let mut command = vec!["gcc", "-O1", "-g", "-o", out.to_str().expect("readable"), "forks.c"];
    command.extend(flags);
    room.plain(&command).expect(0);
}

#[test]
fn a_plan_survives_a_rebuild_of_the_same_source() {
    let room = Room::new();
    let first = room.path("first/forks");
    rebuild(&room, &first, &[]);
    let command = [first.to_str().expect("readable"), "50"];
    plan(&room, &command, "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
    let second = room.path("second/forks");
    rebuild(&room, &second, &["-O2", "-fno-inline", "-DMORE=1"]);
    let landing = landed(&room, &[second.to_str().expect("readable"), "50"], "kept\n");
    assert!(landing.notes.iter().any(|n| n.contains("found again")), "{:?}", landing.notes);
    assert_eq!(site(&landing, "hot").placed[0].0, OBJECT, "{landing:?}");
    assert_eq!(site(&landing, "cold").placed[1].0, OBJECT, "{landing:?}");
}

/// What is inlined, and what ends with a jump to `malloc`, is another matter in each of the builds.
const NESTED: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *make(size_t n) {
  return malloc(n);
}

static char *filled(size_t n, int with) {
  char *p = make(n);
  memset(p, with, n);
  return p;
}

static char *hot(size_t n) {
  char *p = filled(n, 1);
  p[0]++;
  return p;
}

static char *cold(size_t n) {
  char *p = filled(n, 2);
  p[1]++;
  return p;
}

int main(int argc, char **argv) {
  size_t n = (size_t)argc << 24;
  (void)argv;
  char *other = filled(n / 2, 3);
  char *a = hot(n), *b = cold(n);
  printf("%d\n", a[0] + a[n - 1] + b[1] + b[n - 1] + other[7]);
  free(a), free(b), free(other);
}
"#;

/// A plan is followed by a program that another compiler or optimisation has built, in each of which other functions are inlined.
#[test]
fn a_plan_survives_other_inlining() {
    let room = Room::new();
    fs::write(room.path("nested.c"), NESTED).expect("writing the source");
    let build = |compiler: &str, flags: &str| {
        let folder = format!("{compiler}{flags}").replace(' ', "");
        fs::create_dir(room.path(&folder)).expect("making a folder");
        let out = format!("{folder}/nested");
        let command = [compiler, "-g", "nested.c", "-o", &out];
        room.plain(&command.into_iter().chain(flags.split(' ')).collect::<Vec<_>>()).expect(0);
        room.path(&out).to_str().expect("readable").to_string()
    };
    let builds = ["gcc", "clang"].map(|c| ["-O0", "-O3", "-O2 -fno-inline"].map(|flags| build(c, flags)));
    let builds = builds.as_flattened();
    for from in [0, 1, 3] {
        plan(&room, &[&builds[from]], "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
        for to in builds {
            // Where a function ended with a jump nothing tells what it was.
            if from != 0 && to.contains("fno-inline") || builds[from] == *to {
                continue;
            }
            let landing = landed(&room, &[to], "11\n");
            println!("{}, {to}: {:?}", builds[from], landing.notes);
            assert!(landing.unmatched.is_empty(), "{to}: {landing:?}");
            assert_eq!(site(&landing, "hot").placed[0].0, 16 << 20, "{to}: {landing:?}");
            assert_eq!(site(&landing, "cold").placed[1].0, 16 << 20, "{to}: {landing:?}");
        }
    }
}

#[test]
fn a_plan_holds_for_the_stripped_program() {
    let room = Room::new();
    let full = room.path("full/forks");
    rebuild(&room, &full, &[]);
    let command = [full.to_str().expect("readable"), "50"];
    plan(&room, &command, "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n");
    let stripped = room.path("stripped/forks");
    fs::create_dir_all(room.path("stripped")).expect("making a folder");
    room.plain(&["strip", "-o", stripped.to_str().expect("readable"), command[0]]).expect(0);
    let landing = landed(&room, &[stripped.to_str().expect("readable"), "50"], "kept\n");
    assert!(landing.unmatched.is_empty(), "{landing:?}");
    assert_eq!(site(&landing, "hot").placed[0].0, OBJECT, "{landing:?}");
}

/// Each of several objects of one stack goes where the plan says, anew each time it is allocated; what the plan does not name goes where
/// the stack's first object does.
#[test]
fn objects_of_one_stack_land_apart() {
    let room = Room::new();
    let command = [&*program("arrays")];
    let plain = room.plain(&command).expect(0).stdout;
    room.record(&["--sampler", "none"], "p.hearth", &command).expect(0);
    let text = room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB"]).expect(0).stdout;
    let start = text.find("\n[[tier]]").expect("tiers") + 1;
    let end = text.find("[[site]]").expect("sites");
    let tiers = "[[tier]]\nname = \"fast\"\n\n[[tier]]\nname = \"slow\"\n";
    let with = |without: &str, fast: &str| {
        let sites: String =
            (text[end..].split_inclusive("\n\n").filter(|site| without.is_empty() || !site.contains(without)))
                .map(|site| {
                    let tier = if site.contains(fast) { "fast" } else { "slow" };
                    let of = |line: &str| {
                        if line.starts_with("tier = ") { format!("tier = \"{tier}\"\n") } else { line.to_string() }
                    };
                    site.split_inclusive('\n').map(of).collect::<String>()
                })
                .collect();
        let head =
            text[..start].lines().map(|l| if l.starts_with("default_tier") { "default_tier = \"slow\"" } else { l });
        let head: String = head.map(|l| format!("{l}\n")).collect();
        fs::write(room.path("plan.toml"), format!("{head}{tiers}\n{sites}")).expect("writing the plan");
    };
    let mib = |landing: &Landing, label: &str| {
        let site = landing.sites.iter().find(|s| s.label.starts_with("alloc_array") && s.label.ends_with(label));
        site.map(|s| [s.placed[0].0 >> 20, s.placed[1].0 >> 20])
    };
    with("", ") #2\"");
    let landing = landed(&room, &command, &plain);
    assert_eq!([") #1", ") #2", ") #3"].map(|n| mib(&landing, n)), [Some([0, 3]), Some([9, 0]), Some([0, 3])]);
    with(") #2\"", ") #1\"");
    let landing = landed(&room, &command, &plain);
    // The first, and all three that have no line of their own.
    assert_eq!([") #1", ") #2", ") #3"].map(|n| mib(&landing, n)), [Some([12, 0]), None, Some([0, 3])]);
    assert!(landing.unmatched.is_empty(), "{landing:?}");
}

/// A phase with every region, in turn to the one tier and the other and in part, while other threads allocate, resize and free what is
/// moved: whatever is moved when, no byte is lost.
#[test]
fn moving_beside_the_program_loses_nothing() {
    let room = Room::new();
    let command = [&*program("movers"), "400"];
    room.record(&["--sampler", "none"], "p.hearth", &command).expect(0);
    let observed = room.observed("p.hearth");
    let region = observed.regions.first().expect("a region");
    let text = room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB"]).expect(0).stdout;
    let start = text.find("\n[[tier]]").expect("tiers") + 1;
    let (sites, modules) = (text.find("[[site]]").expect("sites"), text.find("[[module]]").expect("modules"));
    // Both tiers are of the node that every machine has: what moves there and back is bound anew each time.
    let tiers = "[[tier]]\nname = \"fast\"\nnodes = [0]\n\n[[tier]]\nname = \"slow\"\nnodes = [0]\n\n";
    let moved = |function: &str| -> Vec<String> {
        let of = |s: &&model::SiteUse| s.site.label().starts_with(function);
        observed.sites.iter().filter(of).map(|s| s.site.id.to_string()).collect()
    };
    let module = region.frames[0].module.as_ref().expect("a program");
    let moves = |number: usize| -> String {
        let to =
            ["tier = \"fast\"", "tier = \"slow\"", "tier = \"fast\", parts = \"21/64\", rest = \"slow\""][number % 3];
        let whole = if number % 2 == 0 { "tier = \"fast\"" } else { "tier = \"slow\"" };
        (moved("alloc_own").iter().map(|id| (id, to)))
            .chain(moved("alloc_moved").iter().map(|id| (id, whole)))
            .map(|(id, to)| format!("{{ site = \"{id}\", {to} }}, "))
            .collect()
    };
    let frame = format!("{}+{:#x}", module.name(), region.frames[0].offset);
    let each = |number: usize| {
        let moves = moves(number);
        format!(
            "[[phase]]\nbegins = \"{}\"\nnumber = {number}\nframes = [\"{frame}\"]\nmove = [{moves}]\n\n",
            region.id
        )
    };
    let by_regions: String = (1..=400).map(each).collect();
    // And the same with allocations of the other threads, of which there is no end.
    let of_stack = |s: &&model::SiteUse| s.site.label().starts_with("alloc_moved") && s.site.apart.is_none();
    let allocates = observed.sites.iter().find(of_stack).expect("a site").site.id;
    let again = |number: usize| {
        let moves = moves(number);
        format!("[[phase]]\nbegins = \"{allocates}\"\nnumber = {number}\nevery = 6\nmove = [{moves}]\n\n")
    };
    let by_allocations: String = (1..=6).map(again).collect();
    // On one processor the program waits for what is moved, on more a thread of the runtime's moves it meanwhile.
    for (phases, pinned) in
        [(&by_regions, true), (&by_regions, false), (&by_allocations, true), (&by_allocations, false)]
    {
        let plan = format!("{}{tiers}{}{phases}{}", &text[..start], &text[sites..modules], &text[modules..]);
        fs::write(room.path("plan.toml"), plan).expect("writing the plan");
        let mut run = room.command(if pinned { "taskset".into() } else { hearth() });
        if pinned {
            run.args(["-c", "0"]).arg(hearth());
        }
        run.args(["run", "--plan", "plan.toml", "--json", "landed.json", "--"]).args(command);
        let ended = hearth_tests::run(&mut run).expect(0);
        assert_eq!(ended.stdout, "whole\n", "{}", ended.stderr);
        let text = fs::read_to_string(room.path("landed.json")).expect("the summary");
        let landing: Landing = serde_json::from_str(&text).expect("a landing");
        let moved = landing.moved.expect("there are phases");
        println!("{moved:?}");
        // The thread does what was wanted last: of regions that follow each other closely not each has its turn. And how often the other threads
        // allocate beside the regions is a matter of chance.
        let least = if pinned && std::ptr::eq(phases, &by_regions) { 200 } else { 20 };
        assert!(moved.objects >= least && moved.there == Some(1.0), "{moved:?}");
        // No phase of this plan says that it does not use what it moves.
        assert_eq!((moved.beside.0, moved.waited.0 > 0), (0, pinned), "{moved:?}");
        assert!(ended.stderr.contains("Of that 0% moved beside phases that do not use it"), "{}", ended.stderr);
    }
}
