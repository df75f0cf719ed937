//! Finds the call stacks of a plan again in modules that were rebuilt from the same source, by whatever compiler and optimisation (paper 003, section 3.4: profiles
//! for other builds), without any help of a compiler.
//!
//! Of a stack the lines are taken one behind the other, those of inlined functions too, innermost first. It may be each stack of the new build whose return
//! addresses have the same lines, however many of them one address has, where each call is of the function that comes before it. A line at which the new build has no call,
//! but a jump into another function, has left no frame there. What comes first in a module calls an allocator, if its line has such a call. Where a line has as many calls as
//! before, the order of their addresses tells which is which. Without lines the names of functions have to do.
//!
//! What a stack of the new build has more of than the old one is not known: frames of functions that left none before.

use crate::calls::{self, Call, Callee};
use crate::symbols;
use crate::translate::{self, Again, Translated};
use model::{Frame, Module, Plan, PlannedPhase, PlannedSite, SiteId, SiteKind, SourceLine};
use object::Object;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// A line calls from several places where its loop was unrolled, say; most stacks of a site.
pub(crate) const MOST_STACKS: usize = 64;
/// Steps after which a stack is given up: of a search that comes to so few ends not more than these.
pub(crate) const MOST_STEPS: usize = 100_000;

/// A file as a module: its path and build id.
pub fn identity(file: &Path) -> Result<Module, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{} cannot be read: {e}", file.display()))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("{} is not an ELF file: {e}", file.display()))?;
    let id = elf.build_id().ok().flatten().unwrap_or_default();
    Ok(Module { path: file.display().to_string(), build_id: id.iter().map(|b| format!("{b:02x}")).collect() })
}

/// A module that was rebuilt.
#[derive(Debug)]
pub struct Rebuilt {
    /// As it was.
    pub(crate) was: Module,
    /// As it is.
    pub(crate) now: Module,
    /// The calls that it has now, with their source forms.
    pub(crate) calls: Vec<(Call, Vec<SourceLine>)>,
    /// What functions end with that leaves no frame, with the source forms.
    pub(crate) jumps: Vec<(Call, Vec<SourceLine>)>,
}

impl Rebuilt {
    /// Reads the code of a module as it is now, and its debug information.
    ///
    /// # Errors
    /// One sentence: the file cannot be read.
    pub fn read(was: Module, now: Module) -> Result<Rebuilt, String> {
        let code = calls::of(Path::new(&now.path))?;
        let after = |calls: &[Call]| symbols::symbolize(&now, &calls.iter().map(|c| c.after).collect::<Vec<_>>());
        let (sources, jumps) = (after(&code.calls)?, after(&code.jumps)?);
        let with = |calls: Vec<Call>, sources| calls.into_iter().zip::<Vec<Vec<SourceLine>>>(sources).collect();
        Ok(Rebuilt { was, now, calls: with(code.calls, sources), jumps: with(code.jumps, jumps) })
    }

    /// Whether a frame of the plan lies in it.
    pub fn has(&self, frame: &Frame) -> bool {
        frame.module.as_ref() == Some(&self.was)
    }
}

/// A plan for rebuilt modules.
#[derive(Debug)]
pub struct Found {
    /// The plan, if any of its sites was found again.
    pub translated: Option<Translated>,
    /// The sites that were not, or operations of MPI that phases begin with, and why.
    pub lost: BTreeMap<SiteId, String>,
}

/// The plan for a program of which these modules were rebuilt.
pub fn find(plan: &Plan, rebuilt: &[Rebuilt]) -> Found {
    let builds: Vec<Build<'_>> = rebuilt.iter().map(|module| Build::of(plan, module)).collect();
    let stacks = |frames: &[Frame]| -> Result<Vec<Vec<Frame>>, String> {
        let moved = frames.iter().any(|f| rebuilt.iter().any(|b| b.has(f)));
        if moved { stacks(&builds, frames) } else { Ok(Vec::new()) }
    };
    let of_site =
        |site: &PlannedSite| if site.kind == SiteKind::Static { Ok(Vec::new()) } else { stacks(&site.frames) };
    let site = |site: &PlannedSite| translate::with_stacks(site, of_site(site).unwrap_or_default());
    let operations = plan.phases.iter().filter(|p| p.is_of_mpi()).map(|p| (p.begins, stacks(&p.frames).err()));
    let sites = plan.sites.iter().map(|s| (s.id, of_site(s).err()));
    let lost = sites.chain(operations).filter_map(|(id, why)| Some((id, why?))).collect();
    let again = Again::of(plan, site);
    if again.now.is_empty() {
        return Found { translated: None, lost };
    }
    let phase = |phase: &PlannedPhase| -> Vec<PlannedPhase> {
        let phase = again.moves(phase);
        let begins: Vec<(SiteId, Vec<Frame>)> = if phase.is_of_mpi() {
            let id = |frames: Vec<Frame>| Some((SiteId(translate::stack_id(&frames)?), frames));
            stacks(&phase.frames).unwrap_or_default().into_iter().filter_map(id).collect()
        } else {
            // With an allocation, also of a site that shares its stack with a hotter one. Regions are none.
            let of = plan.sites.iter().find(|s| s.id == phase.begins);
            of.map(site).unwrap_or_default().into_iter().map(|(id, _)| (id, phase.frames.clone())).collect()
        };
        if begins.is_empty() {
            return vec![phase];
        }
        begins.into_iter().map(|(begins, frames)| PlannedPhase { begins, frames, ..phase.clone() }).collect()
    };
    let phases = plan.phases.iter().flat_map(phase).collect();
    let names: Vec<&str> = rebuilt.iter().map(|b| b.now.name()).collect();
    let were = if names.len() == 1 { "was" } else { "were" };
    let how = format!(
        "again by the lines of their call stacks in {}, which {were} rebuilt since the profile",
        names.join(" and ")
    );
    let of = plan
        .sites
        .iter()
        .filter(|s| s.kind != SiteKind::Static && s.frames.iter().any(|f| rebuilt.iter().any(|b| b.has(f))));
    Found { translated: Some(again.plan(plan, phases, of.count(), &how)), lost }
}

/// The stacks that one of the plan may be: runs of frames of modules that were rebuilt are exchanged, the others stay. An error says why there is none.
fn stacks(builds: &[Build<'_>], frames: &[Frame]) -> Result<Vec<Vec<Frame>>, String> {
    let mut all: Vec<Vec<Frame>> = vec![Vec::new()];
    let mut seen = HashSet::new();
    for run in frames.chunk_by(|a, b| a.module == b.module) {
        let may: Vec<Vec<Frame>> = match builds.iter().find(|b| b.module.has(&run[0])) {
            Some(build) => build.runs(run, seen.insert(&build.module.was))?,
            None => vec![run.to_vec()],
        };
        let longer = all.iter().flat_map(|stack| may.iter().map(|run| [stack.as_slice(), run.as_slice()].concat()));
        all = longer.take(MOST_STACKS).collect();
    }
    if all.len() < MOST_STACKS { Ok(all) } else { Err("too many call stacks have the lines of its own".to_string()) }
}

/// A line as another compiler has it, too: of the file only its name.
type Line<'a> = (&'a str, &'a str, u32);

fn key(line: &SourceLine) -> Line<'_> {
    (&line.function, translate::name(line), line.line)
}

/// A line of a stack of the plan.
struct Wanted<'a> {
    line: Line<'a>,
    /// The frame that it belongs to, if it is its first line.
    begins: Option<&'a Frame>,
}

/// Return addresses of the plan, and of the new build, by their lines; and by whether they come first in the module.
type BySource<'a> = HashMap<(bool, Vec<Line<'a>>), (BTreeSet<u64>, Vec<u64>)>;

/// What is looked up of a module that was rebuilt.
struct Build<'a> {
    module: &'a Rebuilt,
    /// Calls by their innermost line.
    by_line: HashMap<Line<'a>, Vec<usize>>,
    /// The lines from which calls return.
    has: HashSet<Line<'a>>,
    /// The lines with jumps into other functions.
    jumps: HashSet<Line<'a>>,
    /// Where old return addresses of the plan are now, if lines have as many calls as before.
    paired: HashMap<u64, u64>,
}

impl<'a> Build<'a> {
    fn of(plan: &'a Plan, module: &'a Rebuilt) -> Build<'a> {
        let mut by_line: HashMap<Line<'a>, Vec<usize>> = HashMap::new();
        let mut has = HashSet::new();
        let mut by_source: BySource<'a> = HashMap::new();
        let stacks = plan.sites.iter().filter(|s| s.kind != SiteKind::Static).map(|s| &s.frames);
        let operations = plan.phases.iter().filter(|p| p.is_of_mpi()).map(|p| &p.frames);
        for frames in stacks.chain(operations) {
            for (i, frame) in frames.iter().filter(|f| module.has(f)).enumerate() {
                let lines = frame.source.iter().map(key).collect();
                by_source.entry((i == 0, lines)).or_default().0.insert(frame.offset);
            }
        }
        let mut allocating = HashSet::new();
        for (number, (call, source)) in module.calls.iter().enumerate() {
            let lines: Vec<Line<'a>> = source.iter().map(key).collect();
            has.extend(&lines);
            if let Some(&first) = lines.first() {
                by_line.entry(first).or_default().push(number);
            }
            allocating.extend(allocates(call).then_some(call.after));
            for (first, lines) in [(false, lines.clone()), (true, lines)] {
                if let Some((_, now)) = by_source.get_mut(&(first, lines)) {
                    now.push(call.after);
                }
            }
        }
        for ((first, _), (_, now)) in &mut by_source {
            if *first && now.iter().any(|after| allocating.contains(after)) {
                now.retain(|after| allocating.contains(after));
            }
        }
        let alike = by_source.into_values().filter(|(old, now)| old.len() == now.len());
        let paired = alike.flat_map(|(old, now)| old.into_iter().zip(now)).collect();
        Build {
            module,
            by_line,
            has,
            jumps: module.jumps.iter().flat_map(|(_, source)| source).map(key).collect(),
            paired,
        }
    }

    /// Whether a line may have left no frame.
    fn is_passed(&self, line: &Line<'_>) -> bool {
        !self.has.contains(line) && self.jumps.contains(line)
    }

    /// The runs of frames that have the lines of these. `first`: nothing of the module comes before them.
    fn runs(&self, frames: &[Frame], first: bool) -> Result<Vec<Vec<Frame>>, String> {
        let now = &self.module.now;
        if frames.iter().any(|f| f.source.is_empty()) {
            return Err(format!("{} has no symbols to find its frames by", now.name()));
        }
        let lines = || frames.iter().flat_map(|f| f.source.iter().enumerate().map(move |(i, line)| (i, f, line)));
        let gone = |line: &&SourceLine| !self.has.contains(&key(line)) && !self.jumps.contains(&key(line));
        if let Some(line) = lines().map(|(_, _, line)| line).find(gone) {
            return Err(format!("{line} is no longer in {}", now.name()));
        }
        let one = |(i, frame, line)| Wanted { line: key(line), begins: (i == 0).then_some(frame) };
        let mut search =
            Search { build: self, wanted: lines().map(one).collect(), first, run: vec![], found: vec![], steps: 0 };
        search.go_on(0, false);
        if search.found.len() >= MOST_STACKS || search.steps >= MOST_STEPS {
            return Err(format!("too many call stacks in {} have the lines of its own", now.name()));
        }
        if search.found.is_empty() {
            return Err(format!("no call stack in {} has the lines of its own", now.name()));
        }
        let frame = |&number: &usize| {
            let (call, source) = &self.module.calls[number];
            Frame { module: Some(now.clone()), offset: call.after, source: source.clone() }
        };
        Ok(search.found.iter().map(|run| run.iter().map(frame).collect()).collect())
    }
}

fn allocates(call: &Call) -> bool {
    matches!(call.callee, Callee::Allocator(_))
}

/// A search for the calls that have the lines of a run of frames.
struct Search<'a> {
    build: &'a Build<'a>,
    wanted: Vec<Wanted<'a>>,
    /// Nothing of the module comes before them.
    first: bool,
    /// The calls so far, innermost first.
    run: Vec<usize>,
    found: Vec<Vec<usize>>,
    steps: usize,
}

impl Search<'_> {
    /// From this line on. `jumped`: the one before has left no frame.
    fn go_on(&mut self, at: usize, jumped: bool) {
        self.steps += 1;
        if self.found.len() >= MOST_STACKS || self.steps >= MOST_STEPS {
            return;
        }
        let Some(Wanted { line, .. }) = self.wanted.get(at) else {
            self.found.extend((!self.run.is_empty()).then(|| self.run.clone()));
            return;
        };
        if self.build.is_passed(line) {
            return self.go_on(at + 1, true);
        }
        let mut may = self.build.by_line.get(line).cloned().unwrap_or_default();
        let calls = &self.build.module.calls;
        if at == 0 && self.first && may.iter().any(|&c| allocates(&calls[c].0)) {
            may.retain(|&c| allocates(&calls[c].0));
        }
        if let Some(&inner) = self.run.last().filter(|_| !jumped) {
            may.retain(|&outer| is_called(&calls[inner].0, &calls[outer].0));
        }
        for call in may {
            if let Some(next) = self.fits(call, at) {
                self.run.push(call);
                self.go_on(next, false);
                self.run.pop();
            }
        }
    }

    /// The line behind the last one of a call, if all of its lines are those from here on.
    fn fits(&self, number: usize, at: usize) -> Option<usize> {
        let (call, source) = &self.build.module.calls[number];
        let next = at + source.len();
        if !self.wanted.get(at..next)?.iter().map(|w| w.line).eq(source.iter().map(key)) {
            return None;
        }
        // Of a frame that is as it was the order of its line's calls tells which one it is.
        let as_it_was =
            |f: &&Frame| f.source.len() == source.len() && self.wanted.get(next).is_none_or(|w| w.begins.is_some());
        let paired = self.wanted[at].begins.filter(as_it_was).and_then(|f| self.build.paired.get(&f.offset));
        paired.is_none_or(|now| *now == call.after).then_some(next)
    }
}

/// Whether this call may be in the function that the other one calls.
pub(crate) fn is_called(inner: &Call, outer: &Call) -> bool {
    match (outer.callee, inner.within) {
        (Callee::Function(callee), Some(within)) => callee == within,
        (Callee::Allocator(_), _) => false,
        _ => true,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use model::{Bytes, PlannedMove};
    use std::process::Command;

    fn module(build_id: &str) -> Module {
        Module { path: "/bin/app".into(), build_id: build_id.into() }
    }

    fn lines(text: &str) -> Vec<SourceLine> {
        let line = |text: &str| {
            let (function, line) = text.split_once(':').unwrap_or((text, "0"));
            SourceLine { function: function.into(), file: "/a/b.c".into(), line: line.parse().unwrap(), column: 0 }
        };
        text.split(' ').map(line).collect()
    }

    /// Frames at these addresses, each with its lines.
    fn frames(stack: &[(u64, &str)]) -> Vec<Frame> {
        stack
            .iter()
            .map(|(offset, l)| Frame { module: Some(module("01")), offset: *offset, source: lines(l) })
            .collect()
    }

    pub(crate) fn site(frames: Vec<Frame>, miss_share: f64) -> PlannedSite {
        PlannedSite {
            id: SiteId(translate::stack_id(&frames).unwrap()),
            kind: SiteKind::Allocation,
            label: format!("at {:#x}", frames[0].offset),
            tier: "fast".into(),
            split: None,
            why: String::new(),
            miss_share,
            peak: Bytes::mib(1),
            resident: None,
            frames,
        }
    }

    pub(crate) fn plan(sites: Vec<PlannedSite>, phases: Vec<PlannedPhase>) -> Plan {
        Plan {
            version: model::plan::PLAN_VERSION,
            policy: "density".into(),
            command: vec!["/bin/app".into()],
            platform: "here".into(),
            threshold: Bytes::kib(4),
            default_tier: "slow".into(),
            tiers: vec![],
            sites,
            phases,
        }
    }

    /// The return addresses of the stacks that the plan's sites are in a build with these calls and jumps. Calls from the first hundred addresses are of whatever a pointer says, those
    /// from others in functions of a hundred each, of the one before.
    fn found(plan: &Plan, calls: &[(u64, &str)], jumps: &[&str]) -> Option<(Vec<Vec<u64>>, Translated)> {
        let call = |after: u64| match after / 100 {
            0 => Call { after, within: None, callee: Callee::Unknown },
            1 => Call { after, within: Some(100), callee: Callee::Unknown },
            n => Call { after, within: Some(100 * n), callee: Callee::Function(100 * (n - 1)) },
        };
        let calls = calls.iter().map(|(after, l)| (call(*after), lines(l))).collect();
        let jumps = jumps.iter().map(|l| (call(1), lines(l))).collect();
        let translated = find(plan, &[Rebuilt { was: module("01"), now: module("02"), calls, jumps }]).translated?;
        let offsets = |s: &PlannedSite| s.frames.iter().map(|f| f.offset).collect();
        Some((translated.plan.sites.iter().map(offsets).collect(), translated))
    }

    #[test]
    fn stacks_are_found_by_their_lines_however_they_are_inlined() {
        let plan = plan(vec![site(frames(&[(1, "make:3"), (2, "fill:7"), (3, "main:20")]), 0.5)], vec![]);
        let stacks = |calls, jumps| found(&plan, calls, jumps).map(|f| f.0);
        assert_eq!(stacks(&[(10, "make:3 fill:7 main:20")], &[]), Some(vec![vec![10]]));
        assert_eq!(
            stacks(&[(10, "make:3"), (20, "fill:7 main:20"), (30, "fill:7 main:21")], &[]),
            Some(vec![vec![10, 20]])
        );
        // The call that fill ends with may be a jump, also where it is inlined itself.
        assert_eq!(stacks(&[(10, "make:3"), (20, "main:20")], &["fill:7"]), Some(vec![vec![10, 20]]));
        assert_eq!(stacks(&[(20, "fill:7 main:20")], &["make:3"]), Some(vec![vec![20]]));
        // What is in no jump is another source, and what another line calls another stack.
        assert_eq!(stacks(&[(10, "make:3"), (20, "main:20")], &[]), None);
        assert_eq!(stacks(&[(10, "make:3"), (20, "fill:8 main:20")], &["fill:7"]), None);
        assert_eq!(stacks(&[(10, "make:3 fill:7")], &[]), None);
        // A loop that was unrolled.
        let twice = stacks(&[(10, "make:3"), (11, "make:3"), (20, "fill:7"), (30, "main:20")], &[]);
        assert_eq!(twice, Some(vec![vec![10, 20, 30], vec![11, 20, 30]]));
    }

    #[test]
    fn of_calls_of_one_line_the_order_decides_and_where_it_does_not_the_hottest() {
        let sites = [(1, 0.25), (2, 0.5)].map(|(at, share)| site(frames(&[(at, "make:3"), (5, "main:9")]), share));
        let plan = plan(sites.to_vec(), vec![]);
        let calls = [(10, "make:3"), (11, "make:3"), (20, "main:9"), (21, "main:9")];
        let (stacks, _) = found(&plan, &calls[..3], &[]).unwrap();
        assert_eq!(stacks, [[10, 20], [11, 20]]);
        let (stacks, translated) = found(&plan, &[(10, "make:3 main:9")], &[]).unwrap();
        assert_eq!((stacks, translated.plan.sites[0].miss_share), (vec![vec![10]], 0.5));
        assert_eq!((translated.absorbed.len(), translated.absorbed[0].1.as_str()), (1, "at 0x2"));
        assert!(translated.note.starts_with("2 of 2 planned sites were found again"), "{}", translated.note);
        assert_eq!(translated.origins.values().collect::<Vec<_>>(), [&plan.sites[1].id]);
    }

    #[test]
    fn each_calls_the_function_of_the_one_before() {
        let plan = plan(vec![site(frames(&[(1, "make:3"), (2, "main:9")]), 0.5)], vec![]);
        // The second call of main's line is of another function.
        let calls = [(110, "make:3"), (220, "main:9"), (320, "main:9")];
        assert_eq!(found(&plan, &calls, &[]).unwrap().0, [[110, 220]]);
        // What it calls may have ended with a jump there.
        let jumped = super::tests::plan(vec![site(frames(&[(1, "make:3"), (4, "on:5"), (2, "main:9")]), 0.5)], vec![]);
        assert_eq!(found(&jumped, &[calls[0], calls[2]], &["on:5"]).unwrap().0, [[110, 320]]);
        assert!(found(&plan, &[calls[0], calls[2]], &[]).is_none());
    }

    #[test]
    fn what_is_not_found_says_why() {
        let stack = frames(&[(1, "make:3"), (2, "main:9")]);
        let plan = plan(vec![site(stack, 0.5)], vec![]);
        let why = |calls: &[(u64, &str)]| {
            let call = |after| Call { after, within: None, callee: Callee::Unknown };
            let calls = calls.iter().map(|(after, l)| (call(*after), lines(l))).collect();
            let found = find(&plan, &[Rebuilt { was: module("01"), now: module("02"), calls, jumps: vec![] }]);
            found.lost.values().next().cloned().unwrap_or_default()
        };
        assert_eq!(why(&[(1, "make:3")]), "main (b.c:9) is no longer in app");
        assert_eq!(
            why(&[(1, "make:3 main:8"), (2, "other:4 main:9")]),
            "no call stack in app has the lines of its own"
        );
        assert_eq!(why(&[(1, "make:3"), (2, "main:9")]), "");
    }

    #[test]
    fn what_could_be_nearly_anything_is_not_found() {
        let plan = plan(vec![site(frames(&[(1, "a"), (2, "b"), (3, "main")]), 0.5)], vec![]);
        let calls: Vec<(u64, &str)> =
            (0..8).map(|n| (n, "a")).chain((10..18).map(|n| (n, "b"))).chain([(30, "main"), (31, "main")]).collect();
        assert!(found(&plan, &calls, &[]).is_none());
    }

    #[test]
    fn phases_begin_and_move_with_what_is_found() {
        let one = site(frames(&[(1, "make:3"), (2, "main:9")]), 0.5);
        let moved = PlannedMove { site: one.id, tier: "slow".into(), split: None, idle: false };
        let phase =
            |begins, frames| PlannedPhase { begins, number: 1, every: None, frames, moves: vec![moved.clone()] };
        let operation = frames(&[(7, "exchange:5"), (8, "main:12")]);
        let begins = SiteId(translate::stack_id(&operation).unwrap());
        let plan = plan(vec![one.clone()], vec![phase(one.id, vec![]), phase(begins, operation)]);
        let (_, translated) = found(&plan, &[(10, "make:3 main:9"), (20, "exchange:5 main:12")], &[]).unwrap();
        let now = translated.plan.sites[0].id;
        assert_ne!(now, one.id);
        let [with_allocation, with_operation] = &translated.plan.phases[..] else { panic!("{translated:?}") };
        assert_eq!((with_allocation.begins, with_allocation.moves[0].site), (now, now));
        assert_eq!((with_operation.frames[0].offset, with_operation.moves[0].site), (20, now));
        assert_eq!(Some(with_operation.begins.0), translate::stack_id(&with_operation.frames));
    }

    fn compile(dir: &Path, name: &str, before: &str) -> Module {
        // The same functions on the same lines, at other addresses.
        let source = format!(
            "#include <stdlib.h>\nvoid *keep;\n__attribute__((noinline)) void *one(int n) {{ return keep = malloc(n); }}\n\
             __attribute__((noinline)) int two(void) {{ one(1); one(2); return keep != 0; }}\n\
             int main(void) {{ return two() - 1; }}\n{before}\n"
        );
        std::fs::write(dir.join("t.c"), source).unwrap();
        let out = dir.join(name);
        let done = Command::new("gcc")
            .current_dir(dir)
            .args(["-O1", "-g", "-fno-optimize-sibling-calls", "-fno-toplevel-reorder", "-o"])
            .arg(&out)
            .arg("t.c")
            .status()
            .expect("gcc is needed for this test");
        assert!(done.success());
        identity(&out).unwrap()
    }

    #[test]
    fn two_calls_of_a_line_stay_two_in_another_build() {
        let dir = tempfile::tempdir().unwrap();
        let old = compile(dir.path(), "old", "");
        let new = compile(dir.path(), "new", "int more(int x) { return x * 3; }\nchar room[100];");
        assert_ne!(old.build_id, new.build_id);
        let frames = |module: &Module, function: &str| -> Vec<Frame> {
            let read = Rebuilt::read(module.clone(), module.clone()).unwrap();
            let calls = read.calls.into_iter().filter(|(_, s)| s.first().is_some_and(|l| l.function == function));
            calls.map(|(c, source)| Frame { module: Some(module.clone()), offset: c.after, source }).collect()
        };
        let stacks = |module: &Module| -> Vec<Vec<Frame>> {
            let [one, two, main] = ["one", "two", "main"].map(|function| frames(module, function));
            assert_eq!([one.len(), two.len(), main.len()], [1, 2, 1], "malloc in one, one twice in two, two in main");
            two.iter().map(|call| vec![one[0].clone(), call.clone(), main[0].clone()]).collect()
        };
        let plan = plan(stacks(&old).into_iter().map(|frames| site(frames, 0.5)).collect(), vec![]);
        let found = find(&plan, &[Rebuilt::read(old, new.clone()).unwrap()]);
        let now: Vec<Vec<Frame>> = found.translated.unwrap().plan.sites.into_iter().map(|s| s.frames).collect();
        assert_eq!(now, stacks(&new));
    }
}
