//! Programs compiled with `hearth-cc`, `hearth-c++` and `hearth-fc`: their sites are lines of the source, the same in every build.

use hearth_tests::{Ended, Room, compilers, run, spawn, wait, workspace};
use model::landing::Landing;
use model::{Frame, Observed, Plan, PlannedMove, PlannedPhase, SiteId};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

/// One of them, in a folder of the room's, with sources copied there from the test programs.
pub fn compile(room: &Room, folder: &str, compiler: &str, sources: &[&str], options: &[&str], out: &str) -> Ended {
    let at = room.path(folder);
    fs::create_dir_all(&at).expect("making a folder");
    for source in sources {
        fs::copy(workspace().join("tests/programs").join(source), at.join(source)).expect("copying a source");
    }
    let mut command = room.command(compilers().join(compiler));
    run(command.current_dir(&at).args(options).args(sources).args(["-o", out]))
}

const C: [&str; 2] = ["annotated.c", "annotated_more.c"];
/// Name of the program, who compiles it, its sources.
const PROGRAMS: [(&str, &str, &[&str]); 3] =
    [("c", "hearth-cc", &C), ("cpp", "hearth-c++", &["annotated.cpp"]), ("f90", "hearth-fc", &["annotated.f90"])];
/// Folder and options of builds that compilers make very different code in.
const BUILDS: [(&str, &[&str]); 4] = [
    ("plain", &["-O0"]),
    ("fast", &["-O3", "-march=native", "-g"]),
    ("linked/as/one", &["-O2", "-flto"]),
    ("small", &["-O2", "-Wl,-s"]),
];

/// Sites of the program's own, as `label: bytes`, and their ids.
fn sites(observed: &Observed) -> BTreeSet<(String, u64)> {
    let own = |s: &&model::SiteUse| s.site.frames.iter().all(|f| f.module.as_ref().is_some_and(|m| m.is_source()));
    let lines = |s: &model::SiteUse| -> Vec<String> {
        s.site.frames.iter().map(|f| f.source.first().map_or_else(|| "?".into(), ToString::to_string)).collect()
    };
    observed
        .sites
        .iter()
        .filter(own)
        .map(|s| (format!("{}: {}", lines(s).join(" < "), s.peak.0), s.site.id.0))
        .collect()
}

#[test]
fn sites_are_lines_and_the_same_in_every_build() {
    let room = Room::new();
    for (name, compiler, sources) in PROGRAMS {
        let mut first: Option<BTreeSet<(String, u64)>> = None;
        for (folder, options) in BUILDS {
            let options = [options, if name == "c" { &["--hearth-wrapper=fill"] } else { [].as_slice() }].concat();
            compile(&room, folder, compiler, sources, &options, name).expect(0);
            let program = room.path(folder).join(name).display().to_string();
            let plain = room.plain(&[&program]).expect(0).stdout;
            let recorded = room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
            assert_eq!(recorded.stdout, plain, "{name} {folder}");
            let found = sites(&room.observed("p.hearth"));
            let known = first.get_or_insert_with(|| found.clone());
            assert_eq!(&found, known, "{name} {folder}");
        }
        // Fewer positions of the same paths, and nothing behind them.
        let paths = |all: &BTreeSet<(String, u64)>, layers: usize| -> BTreeSet<String> {
            let path = |line: &str| {
                line.rsplit_once(": ").map_or(line, |l| l.0).split(" < ").take(layers).collect::<Vec<_>>().join(" < ")
            };
            all.iter().map(|(line, _)| path(line)).collect()
        };
        for (layers, level) in [(1, "-O0"), (2, "-O0"), (1, "-O2"), (2, "-O2")] {
            let options = [&format!("--hearth-layers={layers}"), level, "--hearth-wrapper=fill"];
            compile(&room, "fewer", compiler, sources, &options, name).expect(0);
            let program = room.path("fewer").join(name).display().to_string();
            room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
            let found = paths(&sites(&room.observed("p.hearth")), 3);
            assert_eq!(found, paths(first.as_ref().expect("three"), layers), "{name} {layers} {level}");
        }
        let text: String = first.iter().flatten().map(|(lines, _)| format!("{lines}\n")).collect();
        println!("{text}");
        let golden = workspace().join(format!("tests/e2e/golden/annotated.{name}.txt"));
        assert_eq!(text, fs::read_to_string(&golden).expect("the golden file"), "{}", golden.display());
    }
}

/// Of some functions clang makes a body where it optimises, and else leaves that to another file or a library: C's inline functions, templates of the standard library's.
#[test]
fn functions_that_are_inlined_or_another_files_are_the_same() {
    let room = Room::new();
    for (compiler, sources) in [("hearth-cc", &["kept.c", "kept_more.c"][..]), ("hearth-c++", &["streams.cpp"])] {
        let mut first: Option<BTreeSet<(String, u64)>> = None;
        for (folder, options) in BUILDS {
            fs::create_dir_all(room.path(folder)).expect("making a folder");
            fs::copy(workspace().join("tests/programs/kept.h"), room.path(folder).join("kept.h")).expect("copying");
            compile(&room, folder, compiler, sources, options, "app").expect(0);
            let program = room.path(folder).join("app").display().to_string();
            room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
            let found = sites(&room.observed("p.hearth"));
            let known = first.get_or_insert_with(|| found.clone());
            assert_eq!(&found, known, "{folder}");
        }
        let found = first.expect("several builds");
        println!("{found:?}");
        let all: Vec<&str> = found.iter().map(|(lines, _)| lines.as_str()).collect();
        assert!(all.len() >= 2, "{all:?}");
        assert!(
            compiler != "hearth-cc" || all.iter().filter(|l| l.contains("kept.h:5) < main")).count() == 2,
            "{all:?}"
        );
    }
}

/// Also by a project of CMake's with a toolchain file, and with the program put together in pieces.
#[test]
fn wrappers_may_be_named_in_the_source() {
    let room = Room::new();
    hearth_tests::require_tool("cmake", "cmake");
    let compiler = compilers().join("hearth-cc").display().to_string();
    fs::write(room.path("hearth.cmake"), format!("set(CMAKE_C_COMPILER {compiler})\n")).expect("writing");
    let source = workspace().join("tests/programs/wrapped.c").display().to_string();
    let project = format!("cmake_minimum_required(VERSION 3.18)\nproject(p C)\nadd_executable(app {source})\n");
    fs::write(room.path("CMakeLists.txt"), project).expect("writing");
    let cmake = ["-B", "cmake", "-DCMAKE_TOOLCHAIN_FILE=hearth.cmake", "-DCMAKE_BUILD_TYPE=RelWithDebInfo", "."];
    run(room.command("cmake").args(cmake)).expect(0);
    run(room.command("cmake").args(["--build", "cmake"])).expect(0);
    compile(&room, "plain", "hearth-cc", &["wrapped.c"], &["-O0"], "app").expect(0);
    compile(&room, "thin", "hearth-cc", &["wrapped.c"], &["-O2", "-flto=thin"], "app").expect(0);
    for folder in ["cmake", "plain", "thin"] {
        room.record(&["--sampler", "none"], "p.hearth", &[&format!("{folder}/app")]).expect(0);
        let innermost = |s: &model::SiteUse| s.site.frames[0].source.first().map(|l| (l.function.clone(), l.line));
        let observed = room.observed("p.hearth");
        let large = observed.sites.iter().filter(|s| s.largest.0 >= 1 << 20);
        let found: BTreeSet<_> = large.filter_map(innermost).collect();
        let main = |line| ("main".to_string(), line);
        let expected = [main(14), main(15), main(16), main(17), ("plain".to_string(), 10)];
        assert_eq!(found, BTreeSet::from(expected), "{folder}");
    }
}

/// The path of an allocation is not there any more for who allocates next without saying one.
#[test]
fn paths_end_with_the_calls_that_they_lead_to() {
    let room = Room::new();
    let golden = workspace().join("tests/e2e/golden/annotated.paths.txt");
    let expected = fs::read_to_string(&golden).expect("the golden file");
    let others = workspace().join("tests/programs/annotated_others.c").display().to_string();
    for (folder, options) in BUILDS {
        fs::create_dir_all(room.path(folder)).expect("making a folder");
        run(room.command("gcc").current_dir(room.path(folder)).args(["-O2", "-c", &others, "-o", "others.o"]))
            .expect(0);
        compile(&room, folder, "hearth-cc", &["annotated_paths.c"], &[options, &["others.o"]].concat(), "app")
            .expect(0);
        let program = room.path(folder).join("app").display().to_string();
        room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
        let observed = room.observed("p.hearth");
        let text: String = sites(&observed).iter().map(|(line, _)| format!("{line}\n")).collect();
        println!("{text}");
        assert_eq!(text, expected, "{folder}: {}", golden.display());
        let by_stack =
            |s: &&model::SiteUse| s.site.frames.iter().all(|f| f.module.as_ref().is_some_and(|m| !m.is_source()));
        let of_others = observed.sites.iter().filter(by_stack).filter(|s| s.largest.0 == 1 << 19);
        assert_eq!(of_others.map(|s| s.objects).sum::<u64>(), 5, "{folder}");
    }
}

/// Where no Hearth is, a program says no paths, but for functions that there cannot be two of.
#[test]
fn without_hearth_nothing_is_said() {
    let room = Room::new();
    let heard = workspace().join("tests/programs/twice_heard.c").display().to_string();
    let not_pie: &[&str] = &["-O2", "-fno-pie", "-no-pie"];
    for (folder, options) in BUILDS.into_iter().chain([("fixed", not_pie)]) {
        fs::create_dir_all(room.path(folder)).expect("making a folder");
        run(room.command("gcc").current_dir(room.path(folder)).args(["-O2", "-fPIC", "-c", &heard, "-o", "heard.o"]))
            .expect(0);
        let options = [options, &["--hearth-wrapper=heard", "heard.o"]].concat();
        compile(&room, folder, "hearth-cc", &["twice.c"], &options, "app").expect(0);
        let program = room.path(folder).join("app").display().to_string();
        let said = |ended: &Ended| -> Vec<(String, bool)> {
            let line = |l: &str| l.split_once(": ").map(|(how, what)| (how.to_string(), what == "said"));
            ended.stdout.lines().filter_map(line).collect()
        };
        let expected = |all: bool| {
            let ways = ["either", "elsewhere", "counted", "sought"];
            let ways = ways.into_iter().chain(["directly", "pointer", "deep", "first", "second", "first", "list"]);
            ways.map(|how| (how.to_string(), how == "list" || (all && how != "elsewhere"))).collect::<Vec<_>>()
        };
        assert_eq!(said(&run(&mut room.command(&program)).expect(0)), expected(false), "{folder}");
        let observed = room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
        assert_eq!(said(&observed), expected(true), "{folder}");
        let observed = room.observed("p.hearth");
        let lines = sites(&observed).len();
        assert_eq!(lines, 9, "{folder}: {:?}", sites(&observed));
    }
}

/// Of functions that there are two of, one goes on with what the other one was called with, wherever that lies; the same comes of it with and without Hearth.
#[test]
fn arguments_of_every_kind_are_handed_on() {
    const RIGHT: &str = "27 19\n429\nabczzzzzzzzzzzzzzzzzzzz3\nname 4\nname 5\n640 650\n";
    let room = Room::new();
    for (folder, options) in BUILDS {
        compile(&room, folder, "hearth-c++", &["twice.cpp"], options, "app").expect(0);
        let program = room.path(folder).join("app").display().to_string();
        assert_eq!(run(&mut room.command(&program)).expect(0).stdout, RIGHT, "{folder}");
        let observed = room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
        assert_eq!(observed.stdout, RIGHT, "{folder}");
        assert!(sites(&room.observed("p.hearth")).len() >= 2, "{folder}");
    }
}

/// A plan by an optimised build guides a build for the debugger, of which nothing but the source is the same.
#[test]
fn a_plan_guides_another_build() {
    let room = Room::new();
    compile(&room, "old", "hearth-cc", &C, &["-O3"], "app").expect(0);
    let old = room.path("old/app").display().to_string();
    room.record(&["--sampler", "none"], "p.hearth", &[&old]).expect(0);
    // Room for three of the six.
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "26MiB", "-o", "plan.toml"]).expect(0);
    compile(&room, "new", "hearth-cc", &C, &["-O0", "-g"], "app").expect(0);
    let new = room.path("new/app").display().to_string();
    let landed = |program: &str| -> Landing {
        room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", program]).expect(0);
        serde_json::from_str(&fs::read_to_string(room.path("landed.json")).expect("the summary")).expect("a landing")
    };
    let (before, after) = (landed(&old), landed(&new));
    let placed = |l: &Landing| -> BTreeSet<(u64, Vec<u64>)> {
        l.sites.iter().map(|s| (s.id.0, s.placed.iter().map(|b| b.0).collect())).collect()
    };
    // Of two calls of one line columns are shown, and of no other.
    for line in ["annotated.c:19)", "annotated.c:20)", "annotated.c:21:15)", "annotated.c:21:40)"] {
        assert_eq!(before.sites.iter().filter(|s| s.label.ends_with(line)).count(), 1, "{line}: {before:?}");
    }
    // The C library's buffer for standard output has a call stack.
    assert!(after.unmatched.iter().all(|u| u.label.contains("doallocate")), "{after:?}");
    let common: Vec<_> = placed(&before).intersection(&placed(&after)).cloned().collect();
    assert_eq!(common.iter().filter(|(_, placed)| placed[0] == 8 << 20).count(), 3, "{after:?}");
    assert_eq!(common.iter().filter(|(_, placed)| placed[1] == 8 << 20).count(), 3, "{after:?}");
    // A line that moved is another one, and that is said.
    let source = fs::read_to_string(room.path("new/annotated_more.c")).expect("the source");
    fs::write(room.path("new/annotated_more.c"), format!("\n{source}")).expect("writing");
    let mut again = room.command(compilers().join("hearth-cc"));
    run(again.current_dir(room.path("new")).args(C).args(["-o", "app"])).expect(0);
    let ended = room.hearth(&["run", "--plan", "plan.toml", "--", &new]).expect(0);
    assert!(ended.stderr.contains("was rebuilt from another source"), "{}", ended.stderr);
}

/// Paper 003, section 3.4. Another compiler's call stacks, whatever it has inlined and whatever it jumps to at the end of functions.
#[test]
fn a_plan_by_call_stacks_guides_an_annotated_build() {
    let room = Room::new();
    let landed = |program: &str| -> Landing {
        room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", program]).expect(0);
        serde_json::from_str(&fs::read_to_string(room.path("landed.json")).expect("the summary")).expect("a landing")
    };
    compile(&room, "new", "hearth-cc", &C, &["-O3", "--hearth-wrapper=fill"], "app").expect(0);
    let new = room.path("new/app").display().to_string();
    for level in ["-O0", "-O3"] {
        let mut gcc = room.command("gcc");
        run(gcc.current_dir(room.path("new")).args(["-g", level]).args(C).args(["-o", "../app"])).expect(0);
        room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
        // Room for two of the six. The two of one line are one site for who knows no columns.
        room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "18MiB", "-o", "plan.toml"]).expect(0);
        let landing = landed(&new);
        let in_tier = |t: usize| landing.sites.iter().filter(|s| s.placed[t].0 == 8 << 20).count();
        assert_eq!((in_tier(0), in_tier(1)), (2, 4), "{level}: {landing:?}");
        assert!(
            landing.notes.iter().any(|n| n.contains("were found in") && n.contains("by file and line")),
            "{landing:?}"
        );
    }
}

/// Two compilers of Fortran do not agree on what calls the main program.
#[test]
fn a_plan_by_gfortrans_call_stacks_guides_flangs_build() {
    let room = Room::new();
    compile(&room, "new", "hearth-fc", &["annotated.f90"], &["-O3"], "app").expect(0);
    for level in ["-O0", "-O3"] {
        let mut gfortran = room.command("gfortran");
        run(gfortran.current_dir(room.path("new")).args(["-g", level, "annotated.f90", "-o", "../app"])).expect(0);
        room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
        room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "30MiB", "-o", "plan.toml"]).expect(0);
        room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", "new/app"]).expect(0);
        let text = fs::read_to_string(room.path("landed.json")).expect("the summary");
        let landing: Landing = serde_json::from_str(&text).expect("a landing");
        let found: BTreeSet<u64> = landing.sites.iter().map(|s| s.peak.0).filter(|&bytes| bytes >= 64 << 10).collect();
        assert_eq!(
            found.iter().rev().take(4).collect::<Vec<_>>(),
            [&16_000_000, &8_000_000, &4_000_008, &4_000_000],
            "{level}: {text}"
        );
        // The line that prints is of the run-time library, which is another one.
        let lost = landing.unmatched.iter().filter(|u| u.label.contains("annotated.f90"));
        assert!(lost.into_iter().all(|u| u.label.contains("annotated.f90:29")), "{level}: {text}");
    }
}

#[test]
fn what_is_not_annotated_has_call_stacks_beside_it() {
    let room = Room::new();
    let cc = |compiler: &str, arguments: &[&str]| {
        let mut command = room.command(if compiler == "gcc" { "gcc".into() } else { compilers().join(compiler) });
        run(command.args(arguments)).expect(0)
    };
    for source in C {
        fs::copy(workspace().join("tests/programs").join(source), room.path(source)).expect("copying");
    }
    let of = |program: &str| -> Vec<(bool, u64)> {
        let program = room.path(program).display().to_string();
        let plain = room.plain(&[&program]).expect(0).stdout;
        assert_eq!(room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0).stdout, plain);
        let sites = room.observed("p.hearth").sites;
        let large = sites.iter().filter(|s| s.peak.0 >= 8 << 20);
        let said = |s: &model::SiteUse| s.site.frames.iter().all(|f| f.module.as_ref().is_some_and(|m| m.is_source()));
        large.map(|s| (said(s), s.peak.0 >> 20)).collect()
    };
    let count = |sites: &[(bool, u64)], said: bool| sites.iter().filter(|(s, _)| *s == said).count();
    // The program is, an object file of it is not: of `fill` nothing is known to whoever calls it.
    cc("gcc", &["-O2", "-c", "annotated_more.c", "-o", "more.o"]);
    cc("hearth-cc", &["-O2", "annotated.c", "more.o", "-o", "mixed"]);
    let mixed = of("mixed");
    assert_eq!((count(&mixed, true), count(&mixed, false)), (4, 2), "{mixed:?}");
    // In a static library.
    cc("hearth-cc", &["-O2", "-c", "annotated_more.c", "-o", "more.o"]);
    run(room.command("ar").args(["rcs", "libmore.a", "more.o"])).expect(0);
    cc("hearth-cc", &["-O2", "annotated.c", "-L.", "-lmore", "-o", "with-archive"]);
    assert_eq!(count(&of("with-archive"), true), 6);
    // A shared library is, the program that is linked with it is not.
    cc("hearth-cc", &["-O2", "-fPIC", "-shared", "annotated_more.c", "-o", "libshared.so"]);
    cc("gcc", &["-O2", "annotated.c", "./libshared.so", "-o", "plain"]);
    let plain = of("plain");
    assert!(count(&plain, true) >= 2, "{plain:?}");
    // Both are.
    cc("hearth-cc", &["-O2", "annotated.c", "./libshared.so", "-o", "both"]);
    assert_eq!(count(&of("both"), true), 6);
    // Linked by someone who does not export the variable: that is said, and a plan by its call stacks is left as it is.
    cc("hearth-cc", &["-O2", "-g", "-c", "annotated.c", "-o", "main.o"]);
    cc("gcc", &["main.o", "more.o", "-o", "unheard"]);
    assert_eq!(count(&of("unheard"), true), 0);
    let recorded = room.record(&["--sampler", "none"], "p.hearth", &["./unheard"]).expect(0).stderr;
    let said =
        "unheard has files that hearth-cc compiled, but was linked without --export-dynamic-symbol=__hearth_path";
    assert!(recorded.split_whitespace().collect::<Vec<_>>().join(" ").contains(said), "{recorded}");
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "100MiB", "-o", "p.toml"]).expect(0);
    room.hearth(&["run", "--plan", "p.toml", "--json", "landed.json", "--", "./unheard"]).expect(0);
    let landed = landing(&room);
    assert!(landed.unmatched.is_empty() && landed.sites.len() >= 4, "{landed:?}");
}

pub fn landing(room: &Room) -> Landing {
    serde_json::from_str(&fs::read_to_string(room.path("landed.json")).expect("the summary")).expect("a landing")
}

/// A call path goes through a program and its libraries: whoever tells of it knows the lines of all of them, and so does a plan without a profile.
#[test]
fn paths_go_through_libraries() {
    let room = Room::new();
    let cc = |arguments: &[&str]| run(room.command(compilers().join("hearth-cc")).args(arguments)).expect(0);
    for source in C {
        fs::copy(workspace().join("tests/programs").join(source), room.path(source)).expect("copying");
    }
    fs::write(room.path("other.c"), "int other(void) { return 1; }\n").expect("writing");
    cc(&["-O2", "-fPIC", "-shared", "annotated_more.c", "-o", "libmore.so"]);
    let here = format!("-Wl,-rpath,{}", room.path(".").display());
    cc(&["-O2", "annotated.c", "-L.", "-lmore", &here, "-o", "app"]);
    room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
    let observed = room.observed("p.hearth");
    let large: Vec<_> = observed.sites.iter().filter(|s| s.peak.0 >= 8 << 20).collect();
    assert_eq!(large.len(), 6);
    for frame in large.iter().flat_map(|s| &s.site.frames) {
        assert!(!frame.source.is_empty(), "{frame:?} of {large:?}");
    }
    let text = room.hearth(&["report", "p.hearth"]).expect(0).stdout;
    assert!(text.contains("make_vector (annotated_more.c:4), from main (annotated.c:21:15)"), "{text}");
    // Also where nothing but the library allocates.
    fs::write(
        room.path("only.c"),
        "void *make_vector(unsigned long);\nint main(void) { return !make_vector(9 << 20); }\n",
    )
    .expect("writing");
    cc(&["-O2", "only.c", "-L.", "-lmore", &here, "-o", "only"]);
    room.record(&["--sampler", "none"], "only.hearth", &["./only"]).expect(0);
    let only = room.observed("only.hearth");
    let lines: Vec<u32> = only.sites[0].site.frames.iter().filter_map(|f| f.source.first()).map(|l| l.line).collect();
    assert_eq!(lines, [4, 2], "{only:?}");
    // The library is rebuilt from more.
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "100MiB", "-o", "p.toml"]).expect(0);
    cc(&["-O0", "-fPIC", "-shared", "annotated_more.c", "other.c", "-o", "libmore.so"]);
    room.hearth(&["run", "--plan", "p.toml", "--json", "landed.json", "--", "./app"]).expect(0);
    let landed = landing(&room);
    assert!(landed.unmatched.is_empty(), "{landed:?}");
    // What the library allocates is known to a plan by the text.
    let plan =
        ["plan", "--static", "--platform", "cxl-expander", "--fast", "20MiB", "-o", "static.toml", "--", "./app"];
    room.hearth(&plan).expect(0);
    let plan = fs::read_to_string(room.path("static.toml")).expect("the plan");
    assert!(plan.contains("make_vector @ annotated_more.c:4"), "{plan}");
}

/// Annotated code that is loaded later, into a program that has the variable or one that has none: it is heard, however many there are of it.
#[test]
fn libraries_are_loaded_later() {
    let room = Room::new();
    let programs = workspace().join("tests/programs");
    let source = |name: &str| programs.join(name).display().to_string();
    for (name, size) in [("a", "300000"), ("b", "500000")] {
        let defines = [format!("-DNAME={name}"), format!("-DSIZE={size}")];
        let out = format!("plugin_{name}.so");
        let mut command = room.command(compilers().join("hearth-cc"));
        run(command.args(["-O1", "-g", "-fPIC", "-shared", &source("plugin.c"), "-o", &out]).args(&defines)).expect(0);
    }
    for compiler in [compilers().join("hearth-cc"), "gcc".into()] {
        run(room.command(compiler).args(["-O1", "-g", &source("dlopen.c"), "-o", "loads", "-ldl"])).expect(0);
        let plain = room.plain(&["./loads", "--turns", "12"]).expect(0).stdout;
        let recorded = room.record(&["--sampler", "none"], "p.hearth", &["./loads", "--turns", "12"]).expect(0);
        assert_eq!(recorded.stdout, plain);
        let observed = room.observed("p.hearth");
        let of_plugins: Vec<_> = observed.sites.iter().filter(|s| s.largest.0 >= 300_000).collect();
        let said = |s: &&model::SiteUse| s.site.frames.iter().all(|f| f.module.as_ref().is_some_and(|m| m.is_source()));
        assert!(of_plugins.len() >= 2 && of_plugins.iter().all(said), "{of_plugins:?}");
        assert_eq!(of_plugins.iter().map(|s| s.objects).sum::<u64>(), 60, "five a turn");
    }
    // The C library has room for the variables of a hundred at a fixed distance from the thread pointer.
    fs::write(room.path("one.c"), "#include <stdlib.h>\nvoid *make(void) { return malloc(40000); }\n")
        .expect("writing");
    let mut command = room.command(compilers().join("hearth-cc"));
    run(command.args(["-O2", "-fPIC", "-shared", "one.c", "-o", "one.so"])).expect(0);
    let loads = "#include <dlfcn.h>\n#include <stdio.h>\nint main(void) {\n  for (int i = 0; i < 300; i++) {\n    char name[20];\n    sprintf(name, \"./%d.so\", i);\n\
        \x20   void *library = dlopen(name, RTLD_NOW);\n    if (!library) return puts(dlerror());\n    void *(*make)(void) = (void *(*)(void))dlsym(library, \"make\");\n\
        \x20   if (!make()) return 1;\n  }\n  return 0;\n}\n";
    fs::write(room.path("many.c"), loads).expect("writing");
    run(room.command("gcc").args(["many.c", "-o", "many", "-ldl"])).expect(0);
    for i in 0..300 {
        fs::copy(room.path("one.so"), room.path(&format!("{i}.so"))).expect("copying");
    }
    run(&mut room.command("./many")).expect(0);
    room.record(&["--sampler", "none"], "p.hearth", &["./many"]).expect(0);
    let observed = room.observed("p.hearth");
    let of_all: Vec<_> = observed.sites.iter().filter(|s| s.largest.0 == 40_000).collect();
    assert!(of_all.len() == 1 && of_all[0].objects == 300, "all are of one line: {of_all:?}");
    assert!(format!("{:?}", of_all[0].site.frames).contains("one.c"), "{of_all:?}");
}

#[test]
fn like_lines_of_files_of_one_name_differ_by_their_callers() {
    let room = Room::new();
    for folder in ["a", "b"] {
        fs::create_dir(room.path(folder)).expect("making a folder");
        let source = "#include <stdlib.h>\nstatic void *get(void) { return malloc(9000); }\n";
        fs::write(room.path(folder).join("get.c"), format!("{source}void *{folder}(void) {{ return get(); }}\n"))
            .expect("writing");
    }
    fs::write(room.path("main.c"), "void *a(void), *b(void);\nint main(void) { return a() == b(); }\n")
        .expect("writing");
    let mut command = room.command(compilers().join("hearth-cc"));
    run(command.args(["a/get.c", "b/get.c", "main.c", "-o", "app"])).expect(0);
    // The same line of the same function of files of one name is one position, as it would be for who reads it: only the callers differ.
    let listed = room.hearth(&["sites", "app"]).expect(0).stdout;
    assert_eq!(listed.matches("get.c:2:").count(), 1, "{listed}");
    room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
    let all = sites(&room.observed("p.hearth"));
    assert_eq!(all.len(), 2, "{all:?}");
}

/// A constructor has two names in the object file, and is said by either.
#[test]
fn constructors_of_the_callers_own_file_are_in_paths() {
    let room = Room::new();
    let source = "struct Field { double *at; Field(long n); };\n\
                  __attribute__((noinline)) Field::Field(long n) : at(new double[n]) { at[0] = 1; }\n\
                  int main() {\n  Field a(300000);\n  Field b(600000);\n  return a.at[0] + b.at[0] != 2;\n}\n";
    fs::write(room.path("field.cpp"), source).expect("writing");
    for level in ["-O0", "-O2"] {
        run(room.command(compilers().join("hearth-c++")).args([level, "field.cpp", "-o", "field"])).expect(0);
        room.record(&["--sampler", "none"], "p.hearth", &["./field"]).expect(0);
        let observed = room.observed("p.hearth");
        let large = observed.sites.iter().filter(|s| s.peak.0 > 1 << 20);
        let lines: BTreeSet<u32> = large.filter_map(|s| Some(s.site.frames.get(1)?.source.first()?.line)).collect();
        assert_eq!(lines, [4, 5].into(), "{level}: {:?}", observed.sites);
    }
}

/// A header that is compiled for itself is no program.
#[test]
fn headers_are_compiled_before() {
    let room = Room::new();
    fs::write(room.path("h.h"), "int f(void);\n").expect("writing");
    fs::write(room.path("x.c"), "int main(void) { return 0 * sizeof f; }\n").expect("writing");
    let cc = |arguments: &[&str]| run(room.command(compilers().join("hearth-cc")).args(arguments)).expect(0);
    assert_eq!(cc(&["h.h", "-o", "h.pch"]).stderr, "");
    assert_eq!(cc(&["-x", "c-header", "h.h", "-o", "h.h.pch"]).stderr, "");
    cc(&["-include", "h.h", "x.c", "-o", "x"]);
    assert!(!room.hearth(&["record", "--sampler", "none", "-o", "p.hearth", "--", "./x"]).stderr.contains("unheard"));
}

/// A position of a library that has the number of one of the program's.
#[test]
fn positions_of_one_number_are_told_across_libraries() {
    let room = Room::new();
    // The lines of tests/programs/colliding.c, in two files of its name.
    let library = "#include <stdlib.h>\nchar *kept_there;\nvoid mesh_kihem(void) {\n    kept_there =\n#line 15\n    malloc(500 << 10);\n}\n";
    let program = "#include <stdlib.h>\nchar *kept;\nvoid mesh_kihem(void);\nvoid heat_horin(void) {\n    kept =\n#line 10\n    malloc(300 << 10);\n}\n\
                   int main(void) {\n    void (*volatile fill[])(void) = {heat_horin, mesh_kihem};\n    fill[0]();\n    fill[1]();\n    return !kept;\n}\n";
    for (folder, text) in [("l", library), ("p", program)] {
        fs::create_dir(room.path(folder)).expect("a folder");
        fs::write(room.path(folder).join("colliding.c"), text).expect("writing");
    }
    let cc = |arguments: &[&str]| run(room.command(compilers().join("hearth-cc")).args(arguments)).expect(0);
    cc(&["-O0", "-fPIC", "-shared", "l/colliding.c", "-o", "libl.so"]);
    cc(&["-O0", "p/colliding.c", "./libl.so", "-o", "app"]);
    let recorded = room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
    let said = recorded.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("have the same number"), "{said}");
    assert!(room.hearth(&["sites", "--collisions", "app"]).expect(0).stdout.contains("have the same number"));
}

/// A program of which two allocations have one number.
#[test]
fn positions_of_one_number_are_told_by_who_meets_them() {
    let room = Room::new();
    compile(&room, ".", "hearth-cc", &["colliding.c"], &["-O2"], "app").expect(0);
    let both = "heat_horin (colliding.c:10:5) and mesh_kihem (colliding.c:15:5) have the same number";
    let told = |said: &str| {
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.matches("the same number").count() == 1 && said.contains(both), "{said}");
        assert!(said.contains("so their objects count as one site; rename one"), "{said}");
    };
    told(&room.hearth(&["sites", "app"]).expect(0).stderr);
    // Whoever links it hears of it at once, if `hearth` is there.
    let folder = hearth_tests::hearth().parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let source = workspace().join("tests/programs/colliding.c").display().to_string();
    let linked =
        room.command(compilers().join("hearth-cc")).args(["-O2", &source, "-o", "linked"]).env("PATH", path).output();
    told(&String::from_utf8_lossy(&linked.expect("it runs").stderr));
    let recorded = room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
    told(&recorded.stderr);
    assert_eq!(recorded.stdout, "ab\n");
    let observed = room.observed("p.hearth");
    let peaks: Vec<u64> = observed.sites.iter().map(|s| s.peak.0 >> 10).filter(|kib| *kib >= 100).collect();
    assert_eq!(peaks, [800]);
    assert!(observed.losses.iter().any(|l| l.kind == "positions-collide" && l.count == 1), "{:?}", observed.losses);
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1MiB", "-o", "plan.toml"]).expect(0);
    let ended = room.hearth(&["run", "--plan", "plan.toml", "--", "./app"]).expect(0);
    told(&ended.stderr);
    assert_eq!(ended.stdout, "ab\n");
    let ended = room.hearth(&["live", "--", "./app"]).expect(0);
    told(&ended.stderr);
    assert_eq!(ended.stdout, "ab\n");
}

#[test]
fn debug_information_lists_sites_of_other_compilers() {
    let room = Room::new();
    for source in C {
        fs::copy(workspace().join("tests/programs").join(source), room.path(source)).expect("copying");
    }
    run(room.command("gcc").args(["-O2", "-g", "-fno-ipa-icf"]).args(C).args(["-o", "app"])).expect(0);
    let listed = room.hearth(&["sites", "app"]).expect(0).stdout;
    for line in ["annotated.c:10", "annotated_more.c:4", "annotated_more.c:7"] {
        assert!(listed.contains(line), "{line}: {listed}");
    }
    run(room.command("strip").arg("app")).expect(0);
    let refused = room.hearth(&["sites", "app"]).expect(2).stderr;
    assert!(refused.contains("compile it with -g, or with hearth-cc"), "{refused}");
    for (compiler, source, lines) in [
        ("g++", "annotated.cpp", ["operator new[]  annotated.cpp:20", "operator new    annotated.cpp:24"]),
        (
            "gfortran",
            "annotated.f90",
            ["annotated.f90:13          grid::make", "annotated.f90:7           grid::setup"],
        ),
    ] {
        fs::copy(workspace().join("tests/programs").join(source), room.path(source)).expect("copying");
        run(room.command(compiler).args(["-O2", "-g", source, "-o", "app"])).expect(0);
        let listed = room.hearth(&["sites", "app"]).expect(0).stdout;
        assert!(lines.iter().all(|line| listed.contains(line)), "{listed}");
    }
    // What a program says itself is a part of it.
    run(room.command(compilers().join("hearth-cc")).args(["-O2"]).args(C).args(["-o", "app"])).expect(0);
    let listed = room.hearth(&["sites", "app"]).expect(0).stdout;
    run(room.command("strip").arg("app")).expect(0);
    assert_eq!(room.hearth(&["sites", "app"]).expect(0).stdout, listed);
    let refused = room.hearth(&["sites", "annotated.c"]).expect(2).stderr;
    assert!(refused.contains("not an ELF file"), "{refused}");
}

#[test]
fn what_the_compilers_cannot_do_is_said_and_the_build_goes_on() {
    let room = Room::new();
    fs::write(room.path("x.c"), "int main(void) { return 0; }\n").expect("writing");
    let cc = |compiler: &Path, arguments: &[&str], variables: &[(&str, &str)]| {
        run(room.command(compiler).args(arguments).envs(variables.iter().copied()))
    };
    let hearth_cc = compilers().join("hearth-cc");
    let refused = cc(&hearth_cc, &["--hearth-layers=9", "x.c"], &[]).expect(2).stderr;
    assert!(refused.contains("1 to 3 calls"), "{refused}");
    let refused = cc(&hearth_cc, &["--hearth-layer=2", "x.c"], &[]).expect(2).stderr;
    assert!(refused.contains("no option --hearth-layer=2"), "{refused}");
    let missing = cc(&hearth_cc, &["x.c"], &[("HEARTH_COMPILER", "clang-that-is-not")]).expect(127).stderr;
    assert!(missing.contains("clang-19"), "{missing}");
    // A compiler that the pass is not for.
    let said = cc(&hearth_cc, &["x.c", "-o", "x"], &[("HEARTH_COMPILER", "gcc")]).expect(0).stderr;
    assert!(said.contains("cannot load the pass") && said.contains("call stacks"), "{said}");
    fs::remove_file(room.path("x")).expect("it was built all the same");
    let alone = room.path("hearth-cc");
    fs::copy(&hearth_cc, &alone).expect("copying");
    let said = cc(&alone, &["x.c", "-o", "x"], &[]).expect(0).stderr;
    assert!(said.contains("libhearth_sites.so is missing") && room.path("x").exists(), "{said}");
    // A pass that is none, or one for another LLVM.
    fs::write(room.path("libhearth_sites.so"), "damaged").expect("writing");
    fs::remove_file(room.path("x")).expect("it was built");
    let said = cc(&alone, &["x.c", "-o", "x"], &[]).expect(0).stderr;
    assert!(said.contains("cannot load") && said.contains("call stacks") && room.path("x").exists(), "{said}");
    let fortran = room.path("hearth-fc");
    fs::copy(&hearth_cc, &fortran).expect("copying");
    fs::write(room.path("y.f90"), "end\n").expect("writing");
    let said = cc(&fortran, &["y.f90", "-o", "y"], &[]).expect(0).stderr;
    assert!(said.contains("cannot load") && said.contains("call stacks") && room.path("y").exists(), "{said}");
    // A target that Hearth is not for.
    let said = cc(&hearth_cc, &["-m32", "-c", "x.c", "-o", "x.o"], &[]).expect(0).stderr;
    assert!(said.contains("not annotated") && room.path("x.o").exists(), "{said}");
    // An error of the source's is one.
    fs::write(room.path("wrong.c"), "int main(void) { return nothing; }\n").expect("writing");
    let said = cc(&hearth_cc, &["wrong.c"], &[]).expect(1).stderr;
    assert!(said.contains("nothing") && !said.contains("hearth-cc:"), "{said}");
    let missing =
        cc(&compilers().join("hearth-fc"), &["y.f90"], &[("HEARTH_COMPILER", "flang-that-is-not")]).expect(127).stderr;
    assert!(missing.contains("flang-19"), "{missing}");
    // Nothing is said of what goes well, and warnings are the source's only.
    let quiet = cc(&hearth_cc, &["-Wall", "-Wextra", "-Werror", "-c", "x.c"], &[]).expect(0).stderr;
    assert_eq!(quiet, "");
    let version = cc(&hearth_cc, &["--version"], &[]).expect(0).stdout;
    assert!(version.contains("clang version 19"), "{version}");
}

/// Build systems end a compiler that they no longer need; nothing goes on without them.
#[test]
fn who_ends_hearth_cc_ends_the_compiler() {
    let room = Room::new();
    fs::write(room.path("x.c"), "int main(void) { return 0; }\n").expect("writing");
    let slow = "#!/bin/sh\ncase \"$*\" in */dev/null*) exit 0;; esac\necho $$ >pid\nexec sleep 60\n";
    fs::write(room.path("slow"), slow).expect("writing");
    fs::set_permissions(room.path("slow"), fs::Permissions::from_mode(0o755)).expect("a program");
    let mut command = room.command(compilers().join("hearth-cc"));
    let started = spawn(command.args(["-c", "x.c"]).env("HEARTH_COMPILER", room.path("slow")));
    let pid = || fs::read_to_string(room.path("pid")).ok().filter(|id| id.ends_with('\n'));
    let id = std::iter::repeat_with(|| (std::thread::sleep(Duration::from_millis(20)), pid()).1).find_map(|id| id);
    let compiler = Path::new("/proc").join(id.expect("it is repeated for ever").trim());
    started.signal(libc::SIGTERM);
    assert_eq!(wait(started, Duration::from_secs(30)).status, 143);
    while compiler.exists() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What a compiler reads on its standard input is annotated too.
#[test]
fn sources_come_by_standard_input() {
    let room = Room::new();
    let script =
        "echo 'void *malloc(unsigned long); int main(void) { return !malloc(9); }' | hearth-cc -O0 -x c -o f -";
    let path = format!("{}:{}", compilers().display(), std::env::var("PATH").unwrap_or_default());
    run(room.command("sh").args(["-c", script]).env("PATH", path)).expect(0);
    let listed = room.hearth(&["sites", "f"]).expect(0).stdout;
    assert!(listed.contains("as the program says itself") && listed.contains("<stdin>:1:"), "{listed}");
}

/// With -g, clang makes two functions of a parallel region, and counts all that it has made.
#[test]
fn parallel_regions_are_lines_with_and_without_g() {
    let room = Room::new();
    let region = |from: u32| {
        format!("#pragma omp parallel for\n  for (int i = {from}; i < {from} + 8; i++) all[i] = make(10000 + i);\n")
    };
    let source = format!(
        "#include <stdlib.h>\nstatic double *make(long n) {{ return malloc(n * 8); }}\nint main(void) {{\n  double *all[16];\n{}{}  return !all[3];\n}}\n",
        region(0),
        region(8)
    );
    fs::write(room.path("regions.c"), source).expect("writing");
    let sites = |options: &[&str]| {
        let mut compiler = room.command(compilers().join("hearth-cc"));
        run(compiler.args(options).args(["-fopenmp", "-c", "regions.c"])).expect(0);
        // Debian has the library of its usual clang only.
        let heard = "-Wl,--export-dynamic-symbol=__hearth_path";
        run(room.command("clang").args(["-fopenmp", heard, "regions.o", "-o", "regions"])).expect(0);
        room.record(&["--sampler", "none"], "regions.hearth", &["./regions"]).expect(0);
        let observed = room.observed("regions.hearth");
        let of_regions = observed.sites.iter().filter(|s| s.objects == 8);
        let told = |s: &model::SiteUse| (s.site.id, format!("{:?}", s.site.frames).contains("main.omp_outlined"));
        let mut sites: Vec<_> = of_regions.map(told).collect();
        sites.sort_unstable();
        sites
    };
    let plain = sites(&["-O0"]);
    assert!(plain.len() == 2 && plain.iter().all(|(_, in_region)| *in_region), "{plain:?}");
    for options in [&["-O0", "-g"][..], &["-O2"], &["-O2", "-g"]] {
        assert_eq!(sites(options), plain, "{options:?}");
    }
}

/// A plan by first come, first served, for two tiers that every machine has, with these phases.
fn with_phases(room: &Room, phases: impl FnOnce(&Plan) -> Vec<PlannedPhase>) {
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "1GiB", "-o", "plan.toml"]).expect(0);
    let mut plan = policy::plan_file::read(&room.path("plan.toml")).expect("the plan");
    for tier in &mut plan.tiers {
        (tier.nodes, tier.budget) = (vec![0], None);
    }
    plan.phases = phases(&plan);
    fs::write(room.path("plan.toml"), policy::plan_file::to_toml(&plan)).expect("writing the plan");
}

/// From beginning 2 on the array of this function is in the slow tier, from beginning 3 on in the fast one.
fn there_and_back(plan: &Plan, begins: SiteId, frames: &[Frame], array: &str) -> Vec<PlannedPhase> {
    let site = plan.sites.iter().find(|s| s.label.starts_with(array)).expect("the array").id;
    let to = |(number, tier): (u64, &str)| PlannedPhase {
        begins,
        number,
        every: None,
        frames: frames.to_vec(),
        moves: vec![PlannedMove { site, tier: tier.into(), split: None, idle: false }],
    };
    [(2, "slow"), (3, "fast")].map(to).to_vec()
}

/// What the plan has moved, on one processor, where the program waits for it.
fn moved(room: &Room, before: &[&str], program: &str) -> (u64, u64) {
    let hearth = hearth_tests::hearth();
    let run_by = ["run", "--plan", "plan.toml", "--json", "landed.json", "--", program, "9", "1000"];
    let mut command = room.command(before[0]);
    command.args(&before[1..]).arg(&hearth).args(run_by);
    let ended = run(hearth_tests::for_mpi(&mut command)).expect(0);
    let text = fs::read_to_string(room.path("landed.json")).expect("the summary");
    let landing: Landing = serde_json::from_str(&text).expect("a landing");
    assert!(!ended.stderr.contains("nothing moves"), "{}", ended.stderr);
    let moved = landing.moved.expect("there are phases");
    (moved.objects, moved.bytes.0)
}

/// Operations of MPI that another compiler's call stacks tell are found again among the lines, and so are allocations that phases begin with.
#[test]
fn phases_by_call_stacks_begin_in_an_annotated_build() {
    let room = Room::new();
    // On the line of an operation there is an allocation that the profile does not have.
    let source = fs::read_to_string(workspace().join("tests/programs/turns.c")).expect("the source");
    let with = "{ static void *volatile kept; kept = malloc(64); return MPI_Barrier";
    fs::write(room.path("turns.c"), source.replace("{ return MPI_Barrier", with)).expect("writing the source");
    let source = "turns.c";
    let [plain, hearth_cc] = [Path::new("gcc").to_owned(), compilers().join("hearth-cc")];
    let build = |compiler: &Path, mpi: bool, level: &str, out: &str| {
        fs::create_dir_all(room.path(out).parent().expect("a folder")).expect("making a folder");
        let mut command = if mpi { room.command("mpicc.mpich") } else { room.command(compiler) };
        // gcc takes two functions of one text for one.
        let apart = (compiler == plain).then_some("-fno-ipa-icf");
        let options = ["-g", level, "-Wno-unknown-pragmas", source, "-o", out];
        run(command.env("MPICH_CC", compiler).args(mpi.then_some("-DMPI")).args(apart).args(options)).expect(0);
    };
    let pinned = ["taskset", "-c", "0"];
    let one_rank = ["mpirun.mpich", "-np", "1", "taskset", "-c", "0"];
    for mpi in [true, false] {
        build(&hearth_cc, mpi, "-O3", "new/turns");
        build(&hearth_cc, mpi, "-O0", "newer/turns");
        for level in ["-O0", "-O3"] {
            build(&plain, mpi, level, "old/turns");
            let before: &[&str] = if mpi { &one_rank } else { &pinned };
            let hearth = hearth_tests::hearth();
            let mut record = room.command(before[0]);
            let options = ["record", "--sampler", "none", "--phases", "-o", "p.hearth", "--", "old/turns", "9", "1000"];
            record.args(&before[1..]).arg(&hearth).args(options);
            run(hearth_tests::for_mpi(&mut record)).expect(0);
            let regions = room.observed("p.hearth").regions;
            with_phases(&room, |plan| {
                let begins = |function: &str| -> (SiteId, Vec<Frame>) {
                    let of = |f: &[Frame]| f.iter().flat_map(|f| &f.source).any(|l| l.function == function);
                    if mpi {
                        let region = regions.iter().find(|r| of(&r.frames)).expect("an operation of MPI");
                        return (region.id, region.frames.clone());
                    }
                    let site = plan.sites.iter().find(|s| of(&s.frames)).expect("an allocation");
                    (site.id, Vec::new())
                };
                let two = [("alloc_first", "meet_first"), ("alloc_second", "meet_second")];
                two.into_iter()
                    .flat_map(|(array, meets)| {
                        let (begins, frames) = begins(if mpi { meets } else { "alloc_text" });
                        there_and_back(plan, begins, &frames, array)
                    })
                    .collect()
            });
            for program in ["old/turns", "new/turns", "newer/turns"] {
                assert_eq!(moved(&room, before, program), (4, 16 << 20), "MPI: {mpi}, {level}, {program}");
            }
        }
    }
}

/// The other way round: the innermost frames of call stacks are found by the lines of a plan, whoever has compiled the program.
#[test]
fn a_plan_by_lines_guides_what_any_compiler_builds() {
    let room = Room::new();
    for (name, compiler, sources, others) in [
        ("c", "hearth-cc", C.as_slice(), ["gcc", "clang-19"]),
        ("cpp", "hearth-c++", &["annotated.cpp"], ["g++", "clang++-19"]),
        ("f90", "hearth-fc", &["annotated.f90"], ["gfortran", "flang-new-19"]),
    ] {
        compile(&room, ".", compiler, sources, &["-O3"], name).expect(0);
        let program = format!("./{name}");
        room.record(&["--sampler", "none"], "p.hearth", &[&program]).expect(0);
        room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "12MiB", "-o", "plan.toml"]).expect(0);
        let planned = policy::plan_file::read(&room.path("plan.toml")).expect("the plan").sites;
        for (other, level) in others.into_iter().flat_map(|c| [(c, "-O0"), (c, "-O3")]) {
            run(room.command(other).args([level, "-g"]).args(sources).args(["-o", name])).expect(0);
            let plain = room.plain(&[&program]).expect(0).stdout;
            let ended = room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", &program]).expect(0);
            assert_eq!(ended.stdout, plain);
            let text = fs::read_to_string(room.path("landed.json")).expect("the summary");
            let landing: Landing = serde_json::from_str(&text).expect("a landing");
            println!("{name}, {other} {level}: {:?}\n{:?}", landing.notes, landing.unmatched);
            let large = || landing.sites.iter().filter(|s| s.peak.0 >= 1 << 20);
            assert!(large().count() >= 2, "{text}");
            let lost = |s: &&model::PlannedSite| landing.unmatched.iter().any(|u| u.label == s.label);
            let lost: Vec<_> = planned.iter().filter(|s| s.peak.0 >= 1 << 20).filter(lost).collect();
            assert!(lost.is_empty(), "{other} {level}: {lost:?}");
            for site in large() {
                let tier = usize::from(site.planned != "fast");
                assert_eq!(site.placed[tier], site.peak, "{other} {level}: {text}");
            }
        }
    }
}

/// Without debug information nothing is found, and that is said.
#[test]
fn a_plan_by_lines_says_that_it_cannot_guide_call_stacks() {
    let room = Room::new();
    compile(&room, ".", "hearth-cc", &C, &["-O3"], "app").expect(0);
    room.record(&["--sampler", "none"], "p.hearth", &["./app"]).expect(0);
    room.hearth(&["plan", "p.hearth", "--policy", "first-served", "--fast", "26MiB", "-o", "plan.toml"]).expect(0);
    let plain = room.plain(&["./app"]).expect(0).stdout;
    run(room.command("gcc").args(["-O3"]).args(C).args(["-o", "app"])).expect(0);
    let ended = room.hearth(&["run", "--plan", "plan.toml", "--json", "landed.json", "--", "./app"]).expect(0);
    assert_eq!(ended.stdout, plain);
    let landing: Landing =
        serde_json::from_str(&fs::read_to_string(room.path("landed.json")).expect("the summary")).expect("a landing");
    let said = landing.notes.iter().filter(|n| n.contains("is not compiled with Hearth's compilers, as it was"));
    assert_eq!(said.count(), 1, "{:?}", landing.notes);
    let lost = landing.unmatched.iter().filter(|u| u.why == "app has no lines of its source to find it by").count();
    assert_eq!(lost, 6, "{:?}", landing.unmatched);
}

/// What a phase begins with is a line of the source, the same in every build, and whichever MPI starts the ranks.
#[test]
fn phases_of_mpi_are_lines_of_the_source() {
    let room = Room::new();
    let hearth = hearth_tests::hearth();
    let mut first = None;
    for (mpi, level) in [("mpich", "-O0"), ("mpich", "-O3"), ("openmpi", "-O2")] {
        let source = workspace().join("tests/programs/ring.c").display().to_string();
        let mut compile = room.command(format!("mpicc.{mpi}"));
        let compiler = compilers().join("hearth-cc");
        run(compile.env("MPICH_CC", &compiler).env("OMPI_CC", &compiler).args([
            level,
            &source,
            "-o",
            "ring",
            "-lpthread",
        ]))
        .expect(0);
        let mut record = room.command(&hearth);
        record.args([
            "record",
            "--phases",
            "--sampler",
            "none",
            "-o",
            "p.hearth",
            "--",
            &format!("mpirun.{mpi}"),
            "-np",
            "2",
            "./ring",
            "6",
        ]);
        assert_eq!(run(hearth_tests::for_mpi(&mut record)).expect(0).stdout, "2 ranks: right\n");
        let regions = room.observed("p.hearth").regions;
        let own = regions.iter().filter(|r| r.frames[0].module.as_ref().is_some_and(|m| m.is_source()));
        let begun: BTreeSet<(u64, u32)> = own.map(|r| (r.id.0, r.frames[0].source[0].line)).collect();
        println!("{mpi} {level}: {begun:?}");
        assert!(begun.len() >= 5, "{regions:?}");
        assert_eq!(first.get_or_insert_with(|| begun.clone()), &begun, "{mpi} {level}");
    }
}
