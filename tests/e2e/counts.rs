//! What the text of programs compiled by Hearth's compilers tells before they run: plans without a profile, and which phase may use what.

use crate::annotated::{compile, landing};
use hearth_tests::{Room, compilers, run, workspace};
use std::collections::BTreeSet;
use std::fs;

/// What a loop chooses anew in each turn may be either, for each phase.
#[test]
fn phases_may_use_all_that_a_loop_chooses_among() {
    let room = Room::new();
    let source = "#include <stdlib.h>\n\
                  enum { N = 1 << 18 };\n\
                  int hearth_phase(const char *name);\n\
                  int main(void) {\n  double *x = calloc(N, 8);\n  double *y = calloc(N, 8), sum = 0;\n\
                  \x20 for (int k = 0; k < 20; k++) {\n    hearth_phase(\"a\");\n    double *r = k & 1 ? x : y;\n\
                  \x20   for (long i = 0; i < N; i++) sum += r[i];\n  }\n  return sum != 0;\n}\n";
    fs::write(room.path("turns.c"), source).expect("writing");
    marks(&room);
    for level in ["-O0", "-O2"] {
        run(room.command(compilers().join("hearth-cc")).args([level, "turns.c", "mark.o", "-o", "turns"])).expect(0);
        let told = room.hearth(&["sites", "--phases", "turns"]).expect(0).stdout;
        let (x, y) = (told.contains("(turns.c:5:"), told.contains("(turns.c:6:"));
        assert!(x && y || told.contains("may ask for anything"), "{level}: {told}");
    }
}

/// Sizes may come from the environment, which is that of whoever plans.
#[test]
fn sizes_come_from_the_environment() {
    let room = Room::new();
    let source = "#include <stdlib.h>\nint main(void) {\n  const char *said = getenv(\"MY_N\");\n  long n = said ? atol(said) : 1000;\n\
                  \x20 double *x = malloc(n * sizeof *x), sum = 0;\n  for (int k = 0; k < 10; k++)\n\
                  \x20   for (long i = 0; i < n; i++) sum += x[i] += k;\n  return sum < 0;\n}\n";
    fs::write(room.path("sized.c"), source).expect("writing");
    for level in ["-O0", "-O2"] {
        run(room.command(compilers().join("hearth-cc")).args([level, "sized.c", "-o", "sized"])).expect(0);
        let plan = |n: &str| {
            let mut command = room.command(hearth_tests::hearth());
            command.args(["plan", "--static", "--platform", "cxl-expander", "--fast", "64MiB", "--", "./sized"]);
            if !n.is_empty() {
                command.env("MY_N", n);
            }
            run(&mut command).expect(0).stdout
        };
        assert!(plan("4000000").contains("peak = 32_000_000"), "{level}: {}", plan("4000000"));
        assert!(plan("").contains("peak = 8_000"), "{level}: {}", plan(""));
    }
}

/// Through tables of virtual functions in C++, and by names that Fortran copies; a name that the run makes is none that could be told.
#[test]
fn marks_of_cpp_and_fortran_begin_phases() {
    let room = Room::new();
    marks(&room);
    let told = |compiler: &str, source: &str, options: &[&str]| {
        let source = workspace().join("tests/programs").join(source).display().to_string();
        let mut command = room.command(compilers().join(compiler));
        run(command.args(options).args([&source, "mark.o", "-o", "marked"])).expect(0);
        room.hearth(&["sites", "--phases", "marked"]).expect(0).stdout
    };
    for level in ["-O0", "-O2"] {
        for (compiler, source) in [("hearth-c++", "marked.cpp"), ("hearth-fc", "marked.f90")] {
            let listed = told(compiler, source, &[level]);
            println!("{listed}");
            let golden = workspace().join(format!("tests/e2e/golden/{source}.txt"));
            assert_eq!(listed, fs::read_to_string(&golden).expect("the golden file"), "{}", golden.display());
        }
        let listed = told("hearth-c++", "marked.cpp", &[level, "-DMADE"]);
        assert!(listed.contains("phases: 0\n\nthe names of some marks are made as the program runs"), "{listed}");
    }
}

/// One table of functions is filled where nobody sees it: what the other one holds is not all that may be called.
#[test]
fn a_call_with_unknown_targets_cannot_be_followed() {
    let room = Room::new();
    let source = |fill: &str| {
        format!(
            "#include <stdlib.h>\nint hearth_phase(const char *);\nstruct steps {{ void (*step)(double *); }};\nint which(void);\nvoid fill(struct steps *);\n\
             static void one(double *x) {{ x[1] += 1; }}\nstatic void two(double *x) {{ x[2] += 2; }}\n\
             int main(int argc, char **argv) {{\n  double *x = calloc(100000, 8), *y = calloc(200000, 8);\n\
             \x20 struct steps *a = malloc(sizeof *a), *b = malloc(sizeof *b);\n  a->step = one;\n  {fill}\n\
             \x20 struct steps *p = which() ? a : b;\n  hearth_phase(\"first\");\n  p->step(x);\n\
             \x20 hearth_phase(\"second\");\n  return (y[3] += argc) < 0;\n}}\n"
        )
    };
    fs::write(
        room.path("other.c"),
        "int hearth_phase(const char *name) { return !name; }\nint which(void) { return 1; }\nvoid fill(void **p) { *p = 0; }\n",
    )
    .expect("writing");
    run(room.command("gcc").args(["-c", "other.c"])).expect(0);
    for (fill, followed) in [("b->step = two;", true), ("fill(b);", false)] {
        fs::write(room.path("steps.c"), source(fill)).expect("writing");
        let mut compiler = room.command(compilers().join("hearth-cc"));
        run(compiler.args(["-O0", "steps.c", "other.o", "-o", "steps"])).expect(0);
        let told = room.hearth(&["sites", "--phases", "steps"]).expect(0).stdout;
        assert!(told.contains("phases: 2"), "{told}");
        assert_eq!(!told.contains("may ask for anything"), followed, "{fill}: {told}");
    }
}

/// What a function that is nowhere in the text writes is not known, whatever the variable held before.
#[test]
fn numbers_that_are_read_from_files_are_not_known() {
    let room = Room::new();
    let sources = [
        (
            "hearth-cc",
            "c",
            "#include <stdio.h>\n#include <stdlib.h>\nint main(void) {\n  long n = 5;\n  if (scanf(\"%ld\", &n) != 1) return 1;\n\
             \x20 double *x = malloc(n * sizeof *x), sum = 0;\n  for (int k = 0; k < 10; k++)\n\
             \x20   for (long i = 0; i < n; i++) sum += x[i] += k;\n  return sum < 0;\n}\n",
        ),
        (
            "hearth-fc",
            "f90",
            "program r\ninteger :: n = 5, k\nreal(8), allocatable :: x(:)\n\nread(*,*) n\nallocate(x(n))\n\
             do k = 1, 10\n  x = x + k\nend do\nprint *, sum(x)\nend program\n",
        ),
    ];
    for (compiler, end, source) in sources {
        let name = format!("read.{end}");
        fs::write(room.path(&name), source).expect("writing");
        for level in ["-O0", "-O2"] {
            run(room.command(compilers().join(compiler)).args([level, "-g", &name, "-o", "read"])).expect(0);
            let plan = |with: &[&str], code: i32| {
                let options = ["plan", "--static", "--platform", "cxl-expander", "--fast", "64MiB"];
                room.hearth(&[&options, with, &["--", "./read"]].concat()).expect(code)
            };
            // With five numbers there is nothing to place.
            let refused = plan(&[], 2).stderr;
            assert!(refused.contains(&format!("{name}:5 (taken for 5)")), "{level}: {refused}");
            let known = plan(&["--with", &format!("{name}:5=4000000")], 0);
            assert!(known.stdout.contains("peak = 32_000_000"), "{level}: {}{}", known.stdout, known.stderr);
        }
    }
}

/// Interpreters have such loops: where eight pointers may each be any of the others there is no end of what they may be, and no formula.
#[test]
fn pointers_that_go_round_are_given_up_soon() {
    let room = Room::new();
    let all = || (0..8).map(|i| format!("p{i}"));
    let pairs = (0..64).map(|n| (n / 8, n % 8)).filter(|(to, from)| to != from);
    let cases: String =
        pairs.map(|(to, from)| format!("case {}: p{to} = p{from}->to; break;\n", 8 * to + from)).collect();
    let (start, sum) = (all().collect::<Vec<_>>().join(" = start, *"), all().collect::<Vec<_>>().join("->n + "));
    let source = format!(
        "struct node {{ struct node *to; long n; }};\nlong go(struct node *start, const char *code) {{\n\
         struct node *{start} = start;\nfor (;; code++) switch (*code) {{\n{cases}default: return {sum}->n;\n}}\n}}\n"
    );
    fs::write(room.path("web.c"), source).expect("writing");
    run(room.command(compilers().join("hearth-cc")).args(["-O2", "-c", "web.c"])).expect(0);
}

/// What `hearth plan --static` plans, as `tier label: share of misses, size`, the hottest first.
fn planned_by_text(room: &Room, command: &[&str]) -> (Vec<String>, String) {
    let machine = ["--platform", "cxl-expander", "--set", "llc=1MiB", "--fast", "17MiB"];
    let plan = [&["plan", "--static", "--policy", "density"][..], &machine].concat();
    let ended = room.hearth(&[&plan[..], &["-o", "static.toml", "--"], command].concat()).expect(0);
    let plan = policy::plan_file::read(&room.path("static.toml")).expect("the plan");
    let line = |site: &model::PlannedSite| {
        // Of objects of one line the place tells more than is the same in all builds.
        let label = site.label.split(", at ").next().unwrap_or_default();
        (site.miss_share, format!("{} {label}: {}", site.tier, site.peak))
    };
    let mut lines: Vec<(f64, String)> = plan.sites.iter().map(line).collect();
    lines.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    (lines.iter().map(|(share, text)| format!("{:>3.0}% {text}", share * 100.0)).collect(), ended.stderr)
}

#[test]
fn plans_are_made_of_loops_without_a_profile() {
    let room = Room::new();
    let mut told = String::new();
    for (name, compiler, levels, arguments) in [
        ("counted.c", "hearth-cc", &["-O0", "-O3"][..], ["1000000", "10"]),
        ("counted.cpp", "hearth-c++", &["-O0", "-O3"], ["1000000", "10"]),
        ("counted.f90", "hearth-fc", &["-O2"], ["1000", "10"]),
        ("doubled.c", "hearth-cc", &["-O0", "-O3"], ["1000000", "10"]),
    ] {
        let mut first: Option<Vec<String>> = None;
        for level in levels {
            compile(&room, level, compiler, &[name], &[level], "app").expect(0);
            let program = room.path(level).join("app").display().to_string();
            let (lines, _) = planned_by_text(&room, &[&program, arguments[0], arguments[1]]);
            let known = first.get_or_insert_with(|| lines.clone());
            assert_eq!(&lines, known, "{name} {level}");
        }
        told += &format!("{name} {}\n{}\n", arguments.join(" "), first.unwrap_or_default().join("\n"));
    }
    println!("{told}");
    let golden = workspace().join("tests/e2e/golden/counted.txt");
    assert_eq!(told, fs::read_to_string(&golden).expect("the golden file"), "{}", golden.display());

    // Regions of OpenMP are loops like others, whoever links them.
    let source = workspace().join("tests/programs/counted.c").display().to_string();
    let mut parallel = room.command(compilers().join("hearth-cc"));
    run(parallel.args(["-O2", "-fopenmp", "-c", &source, "-o", "counted.o"])).expect(0);
    run(room.command("clang").args(["-fopenmp", "counted.o", "-o", "parallel"])).expect(0);
    run(room.command("objcopy").args(["-O", "binary", "--only-section=hearth_counts", "counted.o", "counts"]))
        .expect(0);
    let text = fs::read_to_string(room.path("counts")).expect("the section");
    assert!(text.contains("\nF\tmain\n") && !text.contains("__kmpc_fork_call"), "{text}");
    let (lines, said) = planned_by_text(&room, &["./parallel", "1000000", "10"]);
    assert!(told.contains(&lines.join("\n")), "{lines:?}\n{told}");
    assert!(said.contains("counted.c:45 is not known before the program runs and taken for 5"), "{said}");

    // The plan is one like others: what it places lands there.
    compile(&room, "-O3", "hearth-cc", &["counted.c"], &["-O3"], "app").expect(0);
    let args = ["--set", "llc=1MiB", "--fast", "17MiB", "-o", "here.toml", "--", "-O3/app", "1000000", "2"];
    room.hearth(&[&["plan", "--static"], &args[..]].concat()).expect(0);
    let run = ["run", "--plan", "here.toml", "--json", "landed.json", "--", "-O3/app", "1000000", "2"];
    room.hearth(&run).expect(0);
    let landing = landing(&room);
    let fast: Vec<u64> = landing.sites.iter().map(|s| s.placed[0].0).filter(|b| *b > 0).collect();
    assert_eq!(fast, [8_000_000, 8_000_000], "{landing:?}");
}

/// Of static arrays as large as the largest problem what is asked for takes room, and the hot part of one goes to the fast memory by itself.
#[test]
fn parts_of_static_arrays_are_told_apart_by_the_text() {
    let room = Room::new();
    for level in ["-O0", "-O3"] {
        compile(&room, level, "hearth-cc", &["parts.c"], &[level], "app").expect(0);
        let out = format!("plan{level}.toml");
        let options = ["plan", "--static", "--platform", "cxl-expander", "--set", "llc=1MiB", "--policy", "exact"];
        let program = room.path(level).join("app").display().to_string();
        let args = ["--fast", "9MiB", "-o", &out, "--", &program, "1048576", "10"];
        room.hearth(&[&options[..], &args].concat()).expect(0);
        let plan = fs::read_to_string(room.path(&out)).expect("the plan");
        println!("{plan}");
        // 64 MiB in 64 parts, of which the hot 8 MiB begin at 16 MiB; the other array's 16 MiB are touched once.
        assert!(plan.contains("parts = \"16-23\""), "{plan}");
        assert!(plan.contains("resident = \"16 MiB\"") || plan.contains("resident = 16_777_2"), "{plan}");
    }
}

/// What rests on a guess, or on data, tells nothing of how much of an array is used.
#[test]
fn parts_that_are_guessed_are_none() {
    let room = Room::new();
    let sources = [
        (
            "ends.c",
            "static double v[8 << 20];\nint main(void) { long i = 0; while (v[i] == 0) v[i++] = 1; return v[77] != 1; }\n",
        ),
        (
            "rows.c",
            "static char buf[64 << 20];\nchar *rows[32768];\nlong sum(const char *, long);\n\
             int main(void) { long s = 0; for (long i = 0; i < 32768; i++) rows[i] = buf + i * 2048;\n\
             for (long i = 0; i < 32768; i++) s += sum(rows[i], 2048); return s != 0; }\n",
        ),
        (
            "sum.c",
            "long sum(const char *p, long n) { long s = 0; for (long i = 0; i < n; i++) s += p[i]; return s; }\n",
        ),
    ];
    for (name, text) in sources {
        fs::write(room.path(name), text).expect("writing");
    }
    for files in [&["ends.c"][..], &["rows.c", "sum.c"]] {
        run(room.command(compilers().join("hearth-cc")).arg("-O1").args(files).args(["-o", "app"])).expect(0);
        let plan =
            ["plan", "--static", "--platform", "cxl-expander", "--fast", "1MiB", "-o", "plan.toml", "--", "./app"];
        room.hearth(&plan).expect(0);
        let plan = fs::read_to_string(room.path("plan.toml")).expect("the plan");
        let large = plan.split("[[site]]").find(|site| site.contains("peak = \"64 MiB\"")).expect("the array");
        assert!(!large.contains("resident"), "{large}");
    }
}

#[test]
fn what_no_text_tells_is_said() {
    let room = Room::new();
    let plan = |options: &[&str], command: &[&str]| {
        room.hearth(&[&["plan", "--static", "--fast", "1MiB"], options, &["--"], command].concat())
    };
    // Another compiler's program.
    run(room.command("gcc").arg(workspace().join("tests/programs/counted.c")).args(["-o", "other"])).expect(0);
    let ended = plan(&[], &["./other"]).expect(2);
    assert!(ended.stderr.contains("was not built by hearth-cc"), "{}", ended.stderr);
    // A library of another program's.
    compile(&room, ".", "hearth-cc", &["annotated_more.c"], &["-c"], "more.o").expect(0);
    fs::write(room.path("main.c"), "void *make_vector(unsigned long); int main(void) { return !make_vector(5000); }")
        .expect("writing");
    run(room.command("gcc").args(["main.c", "more.o", "-o", "mixed"])).expect(0);
    let ended = plan(&[], &["./mixed"]).expect(2);
    assert!(ended.stderr.contains("has no `main` that was built by Hearth's compilers"), "{}", ended.stderr);
    // A name that nothing has, no number, nothing to plan for.
    compile(&room, ".", "hearth-cc", &["counted.c"], &[], "app").expect(0);
    let ended = plan(&["--with", "counted.c:1=5"], &["./app"]).expect(2);
    assert!(ended.stderr.contains("nothing unknown at `counted.c:1`"), "{}", ended.stderr);
    let ended = plan(&["--with", "counted.c:45=x"], &["./app"]).expect(2);
    assert!(ended.stderr.contains("has no number"), "{}", ended.stderr);
    let ended = room.hearth(&["plan", "--static", "--fast", "1MiB"]).expect(2);
    assert!(ended.stderr.contains("required"), "{}", ended.stderr);
    // A vector that grows by what is read: the most that it may ever hold tells nothing. The loop is where it was written, not where its end was inlined from.
    let grown = "#include <cstdio>\n#include <vector>\nint main() {\nstd::vector<unsigned> found;\nfor (int c; (c = std::getchar()) != EOF;) found.push_back(c);\n\
                 unsigned long sum = 0;\nfor (int turn = 0; turn < 9; turn++) for (unsigned f : found) sum += f;\nstd::printf(\"%lu\\n\", sum);\n}\n";
    fs::write(room.path("grown.cpp"), grown).expect("writing");
    for level in ["-O0", "-O2"] {
        let mut compiler = room.command(compilers().join("hearth-c++"));
        run(compiler.args([level, "grown.cpp", "-o", "grown"])).expect(0);
        let said = plan(&["--platform", "cxl-expander", "-o", "grown.toml"], &["./grown"]).expect(0).stderr;
        assert!(said.contains("the size of 1 site is not known, and taken for 1 MiB"), "{said}");
        assert!(said.contains("grown.cpp:5 is not known before the program runs and taken for 10 "), "{said}");
    }
    // What the user says is taken, and not spoken of any more; what is asked of the matrix follows, by caches of a size that is the same everywhere.
    let asked = |options: &[&str]| -> (String, f64) {
        let options = [&["--platform", "cascade-lake-optane", "-o", "p.toml"], options].concat();
        let said = plan(&options, &["./app"]).expect(0).stderr;
        let plan = policy::plan_file::read(&room.path("p.toml")).expect("the plan");
        let share =
            |line: &str| plan.sites.iter().filter(|s| s.label.contains(line)).map(|s| s.miss_share).sum::<f64>();
        (said, share("counted.c:35") / (share("counted.c:32") + share("counted.c:33")))
    };
    let ((assumed, five), (known, one)) = (asked(&[]), asked(&["--with", "counted.c:45=1"]));
    assert!(assumed.contains("counted.c:45") && !known.contains("counted.c:45"), "{assumed}{known}");
    assert!(five > 1.2 * one, "{five} {one}");
}

/// Which phase may ask for what is known of the text, and `hearth plan` makes use of it.
#[test]
fn phases_say_what_they_may_use() {
    let room = Room::new();
    let source = workspace().join("tests/programs/phased.c").display().to_string();
    let mut compile = room.command("mpicc.mpich");
    run(compile.env("MPICH_CC", compilers().join("hearth-cc")).args(["-O2", &source, "-o", "phased"])).expect(0);
    let told = room.hearth(&["sites", "--phases", "phased"]).expect(0).stdout;
    println!("{told}");
    let golden = workspace().join("tests/e2e/golden/phased.txt");
    assert_eq!(told, fs::read_to_string(&golden).expect("the golden file"), "{}", golden.display());
    let hearth = hearth_tests::hearth();
    let mut record = room.command(&hearth);
    record.args([
        "record",
        "--phases",
        "--overhead",
        "20",
        "--llc",
        "1MiB",
        "-o",
        "p.hearth",
        "--",
        "mpirun.mpich",
        "-np",
        "2",
        "./phased",
        "20",
    ]);
    run(hearth_tests::for_mpi(&mut record)).expect(0);
    // Phases are known by the ids that the text has.
    let known: BTreeSet<String> = room.observed("p.hearth").regions.iter().map(|r| r.id.to_string()).collect();
    let ids: Vec<&str> = told
        .lines()
        .filter(|l| l.contains(" (phased.c:"))
        .filter_map(|l| l.split(' ').next())
        .filter(|w| w.len() == 16)
        .collect();
    assert!(ids.len() == 4 && ids.iter().all(|id| known.contains(*id)), "{ids:?} {known:?}");
    let plan = [
        "plan",
        "p.hearth",
        "--platform",
        "cxl-expander",
        "--policy",
        // One that does without a timeline: the run is short on a fast machine.
        "phase-global",
        "--fast",
        "9MiB",
        "-o",
        "plan.toml",
    ];
    let said = room.hearth(&plan).expect(0).stderr;
    assert!(said.contains("phased says itself which objects 4 of its phases may use"), "{said}");
    // Another build's text does not count.
    let mut again = room.command("mpicc.mpich");
    run(again.env("MPICH_CC", compilers().join("hearth-cc")).args(["-O0", &source, "-o", "phased"])).expect(0);
    let said = room.hearth(&plan).expect(0).stderr;
    assert!(!said.contains("says itself"), "{said}");
    // What another compiler made says nothing.
    run(room.command("gcc").arg(workspace().join("tests/programs/counted.c")).args(["-o", "other"])).expect(0);
    let ended = room.hearth(&["sites", "--phases", "other"]).expect(2);
    assert!(ended.stderr.contains("was not built by hearth-cc"), "{}", ended.stderr);
}

/// Where marks lead that nobody listens to: `mark.o`.
fn marks(room: &Room) {
    fs::write(room.path("mark.c"), "int hearth_phase(const char *name) { return !name; }\n").expect("writing");
    run(room.command("gcc").args(["-c", "mark.c"])).expect(0);
}

/// What a program with marks says of its phases: the lines in which that is allocated which each may ask for; 0: anything.
fn phases_of(room: &Room, compiler: &str, options: &[&str], name: &str, source: &str) -> Vec<(String, BTreeSet<u32>)> {
    fs::write(room.path(name), source).expect("writing");
    marks(room);
    run(room.command(compilers().join(compiler)).args(options).args(["-c", name, "-o", "app.o"])).expect(0);
    // Debian has the library of OpenMP of its usual clang only.
    run(room.command("clang++").args(["-fopenmp", "app.o", "mark.o", "-o", "app"])).expect(0);
    let told = room.hearth(&["sites", "--phases", "app"]).expect(0).stdout;
    let mut phases: Vec<(String, BTreeSet<u32>)> = vec![];
    for line in told.lines() {
        match line.strip_prefix("  ") {
            None => phases.extend(line.split_once("  ").map(|(_, mark)| (mark.to_string(), BTreeSet::new()))),
            Some(asked) => {
                let (_, uses) = phases.last_mut().expect("a phase");
                let anything = asked.contains("may ask for anything");
                let line = asked.split(':').nth(1).and_then(|l| l.parse().ok());
                uses.extend(if anything { Some(0) } else { line });
            }
        }
    }
    phases
}

/// Inline assembly may use what it is given; and where control comes by an exception or by longjmp, it may come from any phase.
#[test]
fn phases_may_use_what_control_comes_to_otherwise() {
    let room = Room::new();
    let three = "double *x = (double *)calloc(100000, 8),\n*y = (double *)calloc(200000, 8),\n*z = (double *)calloc(300000, 8);\n";
    let assembly = format!(
        "#include <stdlib.h>\nint hearth_phase(const char *);\nint main(int argc, char **argv) {{\n{three}\
         hearth_phase(\"first\");\n__asm__ volatile(\"\" : : \"r\"(z) : \"memory\");\nx[argc]++;\n\
         hearth_phase(\"second\");\n__asm__ volatile(\"incq (%0)\" : : \"r\"(y) : \"memory\");\n\
         hearth_phase(\"third\");\nreturn z[argc] < 0;\n}}\n"
    );
    let jump = format!(
        "#include <setjmp.h>\n#include <stdlib.h>\nint hearth_phase(const char *);\njmp_buf back;\n\
         __attribute__((noinline)) void deep(double *x) {{ hearth_phase(\"deep\"); x[1]++; longjmp(back, 1); }}\n\
         int main(int argc, char **argv) {{\n{three}hearth_phase(\"first\");\nif (!setjmp(back)) deep(x);\nelse y[argc]++;\n\
         hearth_phase(\"third\");\nreturn z[argc] < 0;\n}}\n"
    );
    let exception = format!(
        "#include <cstdlib>\nextern \"C\" int hearth_phase(const char *);\n\
         __attribute__((noinline)) void deep(double *x) {{ hearth_phase(\"deep\"); x[1]++; throw 1; }}\n\
         int main(int argc, char **argv) {{\n{three}hearth_phase(\"first\");\ntry {{ deep(x); }} catch (int) {{ y[argc]++; }}\n\
         hearth_phase(\"third\");\nreturn z[argc] < 0;\n}}\n"
    );
    for level in ["-O0", "-O2"] {
        let asked = |compiler, name, source: &str| phases_of(&room, compiler, &[level], name, source);
        let uses = |phases: &[(String, BTreeSet<u32>)], mark: &str, line: u32| {
            let (_, uses) = phases.iter().find(|(m, _)| m == mark).unwrap_or_else(|| panic!("{mark}: {phases:?}"));
            uses.contains(&line) || uses.contains(&0)
        };
        let told = asked("hearth-cc", "assembly.c", &assembly);
        assert_eq!(told[0], ("first".to_string(), BTreeSet::from([4])), "{level}: nothing is done to z: {told:?}");
        assert!(uses(&told, "second", 5) && uses(&told, "third", 6) && !uses(&told, "second", 4), "{level}: {told:?}");
        for (compiler, name, source, y) in
            [("hearth-cc", "jump.c", &jump, 8), ("hearth-c++", "exception.cpp", &exception, 6)]
        {
            let told = asked(compiler, name, source);
            assert!(uses(&told, "deep", y - 1) && uses(&told, "deep", y), "{level}: {told:?}");
            let named: Vec<bool> =
                told.iter().filter(|(m, _)| m != "deep").map(|(_, uses)| uses.contains(&y)).collect();
            assert_eq!(named, [true; 2], "{level}: of all phases each may be the last one: {told:?}");
            assert!(uses(&told, "third", y + 1), "{level}: {told:?}");
        }
    }
}

/// Where every function may call every other one, as in interpreters, there is no end of calls to go through: that is given up, and said.
#[test]
fn programs_that_call_all_of_themselves_are_given_up_soon() {
    let room = Room::new();
    let mut source = "#include <stdlib.h>\nstatic long *all[40];\n".to_string();
    for n in 0..40 {
        source += &format!("void f{n}(long);\n");
    }
    for n in 0..40 {
        source += &format!("void f{n}(long k) {{\n  if (k <= 0) return;\n  all[{n}] = malloc(k * 10000);\n");
        for other in 0..40 {
            source += &format!("  if (k % {} == 0) f{other}(all[{other}] ? all[{other}][k] : k - 1);\n", other + 2);
        }
        source += "}\n";
    }
    source += "int main(int argc, char **argv) {\n  f0(argc);\n  return 0 * (argv[0] == 0);\n}\n";
    fs::write(room.path("all.c"), source).expect("writing");
    run(room.command(compilers().join("hearth-cc")).args(["-O2", "all.c", "-o", "all"])).expect(0);
    let plan = ["plan", "--static", "--platform", "cxl-expander", "--fast", "1MiB", "-o", "all.toml", "--", "./all"];
    let said = room.hearth(&plan).expect(0).stderr;
    assert!(said.contains("only part of its calls were followed"), "{said}");
    assert!(fs::read_to_string(room.path("all.toml")).expect("the plan").contains("f7 (all.c:"), "{said}");
}

/// A structure that is given back, and copied to the heap and from there, has the same pointers, field by field.
#[test]
fn pointers_in_structures_that_are_copied_are_followed() {
    let room = Room::new();
    let source = "#include <stdlib.h>\nint hearth_phase(const char *);\nstruct all { long n; double *p, *q; long more[20]; };\nstruct all one, two;\n\
                  __attribute__((noinline)) struct all get(double *x, double *y) { struct all r = {5, x, y, {0}}; return r; }\n\
                  int main(void) {\ndouble *x = calloc(100000, 8),\n*y = calloc(200000, 8);\none = get(x, y);\n\
                  struct all *h = malloc(sizeof *h);\n*h = one;\ntwo = *h;\nhearth_phase(\"first\");\ntwo.p[5]++;\n\
                  hearth_phase(\"second\");\nreturn two.q[5]++ < 0;\n}\n";
    for level in ["-O0", "-O2"] {
        let told = phases_of(&room, "hearth-cc", &[level], "copied.c", source);
        let uses: Vec<&BTreeSet<u32>> = told.iter().map(|(_, uses)| uses).collect();
        assert_eq!(uses, [&BTreeSet::from([7]), &BTreeSet::from([8])], "{level}");
    }
}

/// Tasks of OpenMP are done where they are made, and what one thread does of a region is done; but where a phase begins in a region, other threads are elsewhere.
#[test]
fn tasks_and_what_one_thread_does_are_followed() {
    let room = Room::new();
    let source = |mark: &str| {
        format!(
            "#include <stdlib.h>\nint hearth_phase(const char *);\nint main(int argc, char **argv) {{\nlong n = argc > 1 ? atol(argv[1]) : 1000000;\n\
             double *x = calloc(n, 8),\n*y = calloc(2 * n, 8),\n*z = calloc(3 * n, 8);\nhearth_phase(\"first\");\n\
             #pragma omp parallel\n#pragma omp single\nfor (int k = 0; k < 10; k++) {{\n{mark}\n#pragma omp task\nfor (long i = 0; i < n; i++) x[i] += k;\n}}\n\
             hearth_phase(\"second\");\n#pragma omp parallel\n#pragma omp master\n#pragma omp taskloop\nfor (long i = 0; i < 2 * n; i++) y[i] += 1;\n\
             hearth_phase(\"third\");\nreturn z[argc] < 0;\n}}\n"
        )
    };
    let one = |mark: &str, line: u32| (mark.to_string(), BTreeSet::from([line]));
    for level in ["-O0", "-O2"] {
        let told = phases_of(&room, "hearth-cc", &[level, "-fopenmp"], "tasks.c", &source(""));
        assert_eq!(told, [one("first", 5), one("second", 6), one("third", 7)], "{level}");
        let (lines, _) = planned_by_text(&room, &["./app", "500000"]);
        // Ten times 4 MB, once 8 MB, and next to nothing.
        let order: Vec<bool> = (5..8).zip(&lines).map(|(n, l)| l.contains(&format!("tasks.c:{n}"))).collect();
        assert_eq!(order, [true; 3], "{level}: {lines:?}");
        let told = phases_of(&room, "hearth-cc", &[level, "-fopenmp"], "tasks.c", &source("hearth_phase(\"in\");"));
        assert!(told.len() == 4 && told.iter().all(|(_, uses)| uses.contains(&0)), "{level}: {told:?}");
    }
}

/// What functions elsewhere give back, or may have written to any part of what they are given, has a name, and goes on through variables and functions.
#[test]
fn numbers_that_functions_elsewhere_leave_are_not_known() {
    let room = Room::new();
    let source = "#include <stdlib.h>\nlong many(void);\nstruct sizes { long a, n; };\nvoid get(struct sizes *, long *);\nlong kept;\n\
                  static double sum(const double *v, long n) {\n  double s = 0;\n  for (int k = 0; k < 20; k++)\n    for (long i = 0; i < n; i++) s += v[i];\n  return s;\n}\n\
                  int main(void) {\n  struct sizes s = {3, 4};\n  long m = 5;\n  kept =\n    2 * many();\n  get(&s, &m);\n\
                  \x20 double *x = calloc(kept, 8), *y = calloc(s.n, 8), *z = calloc(m, 8);\n  return sum(x, kept) + sum(y, s.n) + sum(z, m) < 0;\n}\n";
    fs::write(room.path("left.c"), source).expect("writing");
    let other = "long many(void) { return 1; }\nvoid get(long *p, long *m) { p[1] = *m = 1; }\n";
    fs::write(room.path("other.c"), other).expect("writing");
    run(room.command("gcc").args(["-c", "other.c"])).expect(0);
    for level in ["-O0", "-O2"] {
        run(room.command(compilers().join("hearth-cc")).args([level, "left.c", "other.o", "-o", "left"])).expect(0);
        let plan = |with: &[&str]| {
            let options = ["plan", "--static", "--platform", "cxl-expander", "--fast", "64MiB", "-o", "left.toml"];
            let said = room.hearth(&[&options, with, &["--", "./left"]].concat()).expect(0).stderr;
            (said, fs::read_to_string(room.path("left.toml")).expect("the plan"))
        };
        let (said, _) = plan(&[]);
        assert!(said.contains("the size of 1 site is not known, and taken for 1 MiB: --with left.c:16=N"), "{said}");
        assert!(said.contains("left.c:17+8 is not known before the program runs and taken for 4"), "{level}: {said}");
        let all = ["left.c:16=500000", "left.c:17+8=2000000", "left.c:17#2=3000000"];
        let (said, plan) = plan(&all.map(|one| ["--with", one]).concat());
        assert!(!said.contains("is not known"), "{level}: {said}");
        let peaks: BTreeSet<&str> = plan.lines().filter_map(|l| l.strip_prefix("peak = ")?.split(' ').next()).collect();
        assert_eq!(peaks, BTreeSet::from(["8_000_000", "16_000_000", "24_000_000"]), "{level}: {plan}");
    }
}
