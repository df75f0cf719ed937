//! Finds the sites of an annotated program's plan ([`crate::annotated`]) in a program that any compiler has built from the same source: profiles hold for other compilers
//! (paper 003, section 3.4) in this direction, too.
//!
//! Such a site is up to three lines of the source, innermost first; of a call stack it is the innermost frames, whatever comes behind. So what is found is where
//! a stack *ends* for the runtime ([`wire::image::Ends`]). Calls whose lines are those of the site are put one behind the other, each of the function that the
//! one before lies in. Between an allocator and the first line, and between two lines, there may be frames of functions that work for others (C++ containers), which
//! annotated programs leave out. Functions that an annotated program was told to leave out (`--hearth-wrapper`) are known to it alone: where nothing else
//! is found, any function may be between an allocator and the first line.

use crate::calls::{Call, Callee};
use crate::rebuilt::{Found, MOST_STACKS, MOST_STEPS, Rebuilt, is_called};
use crate::translate::{self, Again};
use model::{Frame, Plan, PlannedPhase, PlannedSite, SiteId, SiteKind, SourceLine};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Most frames between an allocator and the first line, or two lines.
const MOST_BETWEEN: usize = 12;

/// A plan for programs that say nothing of their source.
#[derive(Debug)]
pub struct Innermost {
    /// The plan, and what was not found.
    pub found: Found,
    /// For [`wire::image::Ends`]: the chains of its stacks.
    pub chains: Vec<u64>,
    /// And the most frames that one has.
    pub longest: u64,
}

/// The plan for a program in which these modules' positions are not told. Operations of MPI are not found.
pub fn find(plan: &Plan, modules: &[Rebuilt]) -> Innermost {
    let codes: Vec<Code<'_>> = modules.iter().map(|module| Code::of(plan, module)).collect();
    let of = |frames: &[Frame]| codes.iter().find(|c| frames.first().is_some_and(|f| c.module.has(f)));
    let sites = || plan.sites.iter().filter(|s| s.kind != SiteKind::Static).filter_map(|s| Some((s, of(&s.frames)?)));
    let stacks: HashMap<SiteId, Result<Vec<Vec<Frame>>, String>> =
        sites().map(|(site, code)| (site.id, code.stacks(&site.frames))).collect();
    let mut lost: BTreeMap<SiteId, String> =
        stacks.iter().filter_map(|(id, found)| Some((*id, found.as_ref().err()?.clone()))).collect();
    for phase in plan.phases.iter().filter(|p| p.is_of_mpi() && of(&p.frames).is_some()) {
        lost.insert(phase.begins, "operations of MPI are not found by lines of the source".to_string());
    }
    let site = |site: &PlannedSite| {
        translate::with_stacks(site, stacks.get(&site.id).and_then(|found| found.clone().ok()).unwrap_or_default())
    };
    let again = Again::of(plan, site);
    if again.now.is_empty() {
        return Innermost { found: Found { translated: None, lost }, chains: Vec::new(), longest: 0 };
    }
    let phase = |phase: &PlannedPhase| -> Vec<PlannedPhase> {
        let phase = again.moves(phase);
        let of = plan.sites.iter().find(|s| s.id == phase.begins).map(site).unwrap_or_default();
        let begins: Vec<PlannedPhase> =
            of.into_iter().map(|(begins, _)| PlannedPhase { begins, ..phase.clone() }).collect();
        if begins.is_empty() { vec![phase] } else { begins }
    };
    let phases = plan.phases.iter().flat_map(phase).collect();
    let names: Vec<&str> = modules.iter().map(|m| m.now.name()).collect();
    let how = format!("by file and line among the call stacks of {}", names.join(" and "));
    let translated = again.plan(plan, phases, sites().count(), &how);
    let frames = || again.now.values().flatten().map(|s| &s.frames);
    let chains: BTreeSet<u64> = frames().filter_map(|f| translate::chain(f)).collect();
    let longest = frames().map(Vec::len).max().unwrap_or_default() as u64;
    Innermost { found: Found { translated: Some(translated), lost }, chains: chains.into_iter().collect(), longest }
}

/// A line as all compilers have it: of the file only its name. They do not agree on what Fortran's functions are called.
type Line<'a> = (&'a str, u32);

fn key(line: &SourceLine) -> Line<'_> {
    (translate::name(line), line.line)
}

/// A call, or a jump that has left no frame.
struct Place<'a> {
    call: &'a Call,
    source: &'a [SourceLine],
    leaves_frame: bool,
}

impl Place<'_> {
    /// Whether all lines further in than this one are of functions that work for others.
    fn is_first(&self, at: usize) -> bool {
        self.source[..at].iter().all(SourceLine::is_wrapper)
    }

    fn is_between(&self) -> bool {
        !self.source.is_empty() && self.is_first(self.source.len())
    }
}

/// The code of a module.
struct Code<'a> {
    module: &'a Rebuilt,
    places: Vec<Place<'a>>,
    /// Places that have a line, and which of theirs it is.
    by_line: HashMap<Line<'a>, Vec<(usize, usize)>>,
    /// Places in a function, and those that call it.
    within: HashMap<u64, Vec<usize>>,
    calling: HashMap<u64, Vec<usize>>,
    /// All lines of the plan's.
    planned: HashSet<Line<'a>>,
}

impl<'a> Code<'a> {
    fn of(plan: &'a Plan, module: &'a Rebuilt) -> Code<'a> {
        let place = |leaves_frame| {
            move |(call, source): &'a (Call, Vec<SourceLine>)| Place { call, source: source.as_slice(), leaves_frame }
        };
        let places = module.calls.iter().map(place(true)).chain(module.jumps.iter().map(place(false)));
        let frames = plan.sites.iter().flat_map(|s| &s.frames).filter(|f| module.has(f));
        let mut code = Code {
            module,
            places: places.collect(),
            by_line: HashMap::new(),
            within: HashMap::new(),
            calling: HashMap::new(),
            planned: frames.flat_map(|f| &f.source).map(key).collect(),
        };
        for (number, place) in code.places.iter().enumerate() {
            for (at, line) in place.source.iter().enumerate() {
                code.by_line.entry(key(line)).or_default().push((number, at));
            }
            place.call.within.into_iter().for_each(|f| code.within.entry(f).or_default().push(number));
            if let Callee::Function(f) = place.call.callee {
                code.calling.entry(f).or_default().push(number);
            }
        }
        code
    }

    /// The innermost frames that a path of lines may be. An error says why there are none.
    fn stacks(&self, path: &[Frame]) -> Result<Vec<Vec<Frame>>, String> {
        let name = self.module.now.name();
        let lines: Option<Vec<&SourceLine>> = path.iter().map(|f| f.source.first()).collect();
        let lines = lines.filter(|_| self.places.iter().any(|p| p.source.iter().any(|l| l.line != 0)));
        let mut lines = lines.ok_or_else(|| format!("{name} has no lines of its source to find it by"))?;
        // Compilers do not agree on the line of what they make themselves, such as the `main` that calls a Fortran program.
        while lines.len() > 1 && lines.last().is_some_and(|l| !self.by_line.contains_key(&key(l))) {
            lines.pop();
        }
        if let Some(gone) = lines.iter().find(|l| !self.by_line.contains_key(&key(l))) {
            return Err(format!("{gone} is in no call of {name}"));
        }
        let mut search = Search { code: self, wanted: &lines, any: false, found: Vec::new(), steps: 0 };
        search.all();
        if search.found.is_empty() {
            search.any = true;
            search.all();
        }
        let mut found = search.found;
        if found.len() >= MOST_STACKS || search.steps >= MOST_STEPS {
            return Err(format!("too many call stacks in {name} have its lines"));
        }
        let frame = |&number: &usize| {
            let Place { call, source, leaves_frame } = self.places[number];
            leaves_frame.then(|| Frame {
                module: Some(self.module.now.clone()),
                offset: call.after,
                source: source.to_vec(),
            })
        };
        found.sort_unstable();
        let mut stacks: Vec<Vec<Frame>> = found.iter().map(|run| run.iter().filter_map(frame).collect()).collect();
        stacks.dedup();
        if stacks.is_empty() { Err(format!("no call stack in {name} has its lines")) } else { Ok(stacks) }
    }
}

/// A search for the places of a path of lines.
struct Search<'a> {
    code: &'a Code<'a>,
    /// Innermost first.
    wanted: &'a [&'a SourceLine],
    /// Any function may be between an allocator and the first line, unless it has a line of the plan's.
    any: bool,
    /// Runs of places, innermost first.
    found: Vec<Vec<usize>>,
    steps: usize,
}

impl Search<'_> {
    fn all(&mut self) {
        for (number, at) in self.with_line(0) {
            let place = &self.code.places[number];
            let Some(next) = self.fits(number, at, 0).filter(|_| self.any || place.is_first(at)) else { continue };
            for mut run in self.inner(number, MOST_BETWEEN) {
                run.push(number);
                self.outer(&mut run, next, MOST_BETWEEN);
            }
        }
    }

    /// Places with a line of the path: those of its function, if there are any.
    fn with_line(&self, wanted: usize) -> Vec<(usize, usize)> {
        let line = self.wanted[wanted];
        let all = self.code.by_line.get(&key(line)).cloned().unwrap_or_default();
        let own = |(number, at): &&(usize, usize)| self.code.places[*number].source[*at].function == line.function;
        let own: Vec<(usize, usize)> = all.iter().filter(own).copied().collect();
        if own.is_empty() { all } else { own }
    }

    /// How many lines of the path the place has from this one of its own on; it may have no others but those of functions that work for others.
    fn fits(&self, number: usize, at: usize, wanted: usize) -> Option<usize> {
        let mut next = wanted;
        for line in &self.code.places[number].source[at..] {
            match self.wanted.get(next) {
                None => break,
                Some(wanted) if key(wanted) == key(line) => next += 1,
                Some(_) if line.is_wrapper() => {}
                Some(_) => return None,
            }
        }
        Some(next)
    }

    fn gives_up(&mut self) -> bool {
        self.steps += 1;
        self.steps >= MOST_STEPS || self.found.len() >= MOST_STACKS
    }

    /// What may lie between an allocator and this place.
    fn inner(&mut self, number: usize, most: usize) -> Vec<Vec<usize>> {
        let function = match self.code.places[number].call.callee {
            Callee::Allocator(_) => return vec![Vec::new()],
            Callee::Function(function) if most > 0 => function,
            _ => return Vec::new(),
        };
        let code = self.code;
        let mut runs = Vec::new();
        for &further_in in code.within.get(&function).into_iter().flatten() {
            if self.gives_up() || runs.len() >= MOST_STACKS {
                break;
            }
            let place = &code.places[further_in];
            let planned = || place.source.iter().any(|line| code.planned.contains(&key(line)));
            if place.is_between() || self.any && !planned() {
                let inner = self.inner(further_in, most - 1);
                runs.extend(inner.into_iter().map(|run| [run, vec![further_in]].concat()));
            }
        }
        runs
    }

    /// From this line of the path on, behind a run of places.
    fn outer(&mut self, run: &mut Vec<usize>, wanted: usize, most: usize) {
        if self.gives_up() {
            return;
        }
        let code = self.code;
        let Some(last) = run.last().map(|&number| code.places[number].call) else { return };
        let is_whole = wanted == self.wanted.len();
        if is_whole && run.iter().any(|&number| code.places[number].leaves_frame) {
            return self.found.push(run.clone());
        }
        if !is_whole {
            for (number, at) in self.with_line(wanted) {
                let place = &code.places[number];
                if let Some(next) =
                    self.fits(number, at, wanted).filter(|_| place.is_first(at) && is_called(last, place.call))
                {
                    run.push(number);
                    self.outer(run, next, MOST_BETWEEN);
                    run.pop();
                }
            }
        }
        let callers = last.within.and_then(|function| code.calling.get(&function)).filter(|_| most > 0);
        for &number in callers.into_iter().flatten() {
            // A jump alone is no stack: whoever calls its function makes one.
            if is_whole || code.places[number].is_between() {
                run.push(number);
                self.outer(run, wanted, most - 1);
                run.pop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rebuilt::tests::{self, plan};
    use model::{Module, PlannedMove};
    use std::path::Path;
    use std::process::Command;
    use wire::identity;

    const SOURCE: &str = "#include <stdlib.h>
void *keep[4];
static void *make(size_t n) { return malloc(n); }
static void *twice(size_t n) { return make(2 * n); }
__attribute__((noinline)) static void *fill(int i, size_t n) { return keep[i] = make(n); }
int main(int argc, char **argv) {
  keep[0] = make(argc);
  keep[1] = fill(1, argc);
  keep[2] = calloc(1, argc);
  keep[3] = twice(argc);
  return keep[0] == argv;
}
";

    fn build(dir: &Path, compiler: &str, flags: &[&str]) -> Module {
        std::fs::write(dir.join("t.c"), SOURCE).unwrap();
        let out = dir.join("t");
        let done = Command::new(compiler).current_dir(dir).args(flags).args(["t.c", "-o"]).arg(&out).status();
        assert!(done.expect("gcc and clang are needed for this test").success());
        crate::rebuilt::identity(&out).unwrap()
    }

    fn was() -> Module {
        Module { path: format!("{}/was/t", model::SOURCE), build_id: "01".into() }
    }

    /// A site at these lines, `function:line` innermost first.
    fn site(path: &str, miss_share: f64) -> PlannedSite {
        let frame = |text: &str| {
            let (function, line) = text.split_once(':').unwrap();
            let line = line.parse().unwrap();
            let source = SourceLine { function: function.into(), file: "/was/t.c".into(), line, column: 0 };
            Frame { module: Some(was()), offset: line.into(), source: vec![source] }
        };
        let frames: Vec<Frame> = path.split(' ').map(frame).collect();
        let id = SiteId(identity::path_id(frames.iter().map(|f| f.offset as u32)));
        PlannedSite { id, label: path.into(), ..tests::site(frames, miss_share) }
    }

    /// What the sites are in a build: their labels, and the lines of each frame.
    fn found(sites: &[&str], now: &Module) -> (Vec<String>, Innermost) {
        let plan = plan(sites.iter().map(|path| site(path, 0.1)).collect(), vec![]);
        let innermost = find(&plan, &[Rebuilt::read(was(), now.clone()).unwrap()]);
        let lines =
            |f: &Frame| f.source.iter().map(|l| format!("{}:{}", l.function, l.line)).collect::<Vec<_>>().join("+");
        let stack = |s: &PlannedSite| s.frames.iter().map(lines).collect::<Vec<_>>().join(" ");
        let sites = innermost.found.translated.iter().flat_map(|t| &t.plan.sites);
        let told = sites.map(|s| format!("{}: {}", s.label, stack(s))).collect();
        (told, innermost)
    }

    const PATHS: [&str; 4] = ["make:3 main:7", "make:3 fill:5 main:8", "main:9", "make:3 twice:4 main:10"];

    #[test]
    fn paths_are_the_innermost_frames_however_functions_are_inlined() {
        let dir = tempfile::tempdir().unwrap();
        for compiler in ["gcc", "clang"] {
            let now = build(dir.path(), compiler, &["-O0", "-g"]);
            let (told, innermost) = found(&PATHS, &now);
            assert_eq!(told, PATHS.map(|path| format!("{path}: {path}")), "{compiler}");
            assert_eq!((innermost.chains.len(), innermost.longest), (4, 3));
            assert!(innermost.found.lost.is_empty());
            let now = build(dir.path(), compiler, &["-O2", "-g"]);
            let inlined = [
                "make:3 main:7: make:3+main:7",
                "make:3 fill:5 main:8: make:3+fill:5 main:8",
                "main:9: main:9",
                "make:3 twice:4 main:10: make:3+twice:4+main:10",
            ];
            assert_eq!(found(&PATHS, &now).0, inlined, "{compiler}");
            // Functions end with jumps, which leave no frames.
            let now = build(dir.path(), compiler, &["-O2", "-g", "-fno-inline"]);
            let jumped = [
                "make:3 main:7: main:7",
                "make:3 fill:5 main:8: fill:5 main:8",
                "main:9: main:9",
                "make:3 twice:4 main:10: main:10",
            ];
            assert_eq!(found(&PATHS, &now).0, jumped, "{compiler}");
        }
    }

    #[test]
    fn a_function_that_was_left_out_may_lie_behind_the_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let now = build(dir.path(), "gcc", &["-O0", "-g"]);
        assert_eq!(
            found(&["fill:5 main:8", "main:10"], &now).0,
            ["fill:5 main:8: make:3 fill:5 main:8", "main:10: make:3 twice:4 main:10",]
        );
        // But not one that the plan knows.
        let (told, innermost) = found(&["make:3 main:7", "main:10"], &now);
        assert_eq!(told, ["make:3 main:7: make:3 main:7", "main:10: main:10"], "the second one is as it was");
        assert_eq!(innermost.found.lost.into_values().collect::<Vec<_>>(), ["no call stack in t has its lines"]);
    }

    #[test]
    fn what_is_not_found_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let why = |path, now| found(&[path], now).1.found.lost.into_values().collect::<Vec<_>>();
        let now = build(dir.path(), "gcc", &["-O0", "-g"]);
        assert_eq!(why("main:11", &now), ["main (t.c:11) is in no call of t"]);
        assert!(why("main:9 main:11", &now).is_empty(), "the outermost line may be one that the compiler has made");
        assert_eq!(why("make:3 main:9", &now), ["no call stack in t has its lines"]);
        let now = build(dir.path(), "gcc", &["-O0"]);
        assert_eq!(why("main:9", &now), ["t has no lines of its source to find it by"]);
    }

    #[test]
    fn one_of_several_objects_of_a_path_is_one_of_several_of_its_stack() {
        let dir = tempfile::tempdir().unwrap();
        let now = build(dir.path(), "gcc", &["-O0", "-g"]);
        let first = site("main:9", 0.5);
        let second = PlannedSite { id: SiteId(identity::apart_id(first.id.0, 2)), ..site("main:9", 0.2) };
        let found = find(&plan(vec![first, second], vec![]), &[Rebuilt::read(was(), now).unwrap()]);
        let ids: Vec<u64> = found.found.translated.unwrap().plan.sites.iter().map(|s| s.id.0).collect();
        assert_eq!(ids[1], identity::apart_id(ids[0], 2));
        assert_eq!(found.chains.len(), 1);
    }

    #[test]
    fn phases_begin_with_allocations_and_not_with_operations_of_mpi() {
        let dir = tempfile::tempdir().unwrap();
        let now = build(dir.path(), "gcc", &["-O0", "-g"]);
        let (one, operation) = (site("main:9", 0.5), site("main:7", 0.0));
        let moved = PlannedMove { site: one.id, tier: "slow".into(), split: None, idle: false };
        let phase =
            |begins, frames| PlannedPhase { begins, number: 1, every: None, frames, moves: vec![moved.clone()] };
        // Of one that begins with an allocation the plan has no frames.
        let phases = vec![phase(one.id, vec![]), phase(operation.id, operation.frames)];
        let found = find(&plan(vec![one], phases), &[Rebuilt::read(was(), now).unwrap()]).found;
        let translated = found.translated.unwrap().plan;
        let id = translated.sites[0].id;
        assert_eq!(translated.phases.iter().map(|p| p.moves[0].site).collect::<Vec<_>>(), [id, id]);
        assert_eq!(translated.phases.iter().map(|p| p.begins).collect::<Vec<_>>(), [id, operation.id]);
        assert!(found.lost[&operation.id].starts_with("operations of MPI"));
    }
}
