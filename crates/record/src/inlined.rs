//! A plan for a program that was rebuilt by another compiler or with other optimisation, so that other functions are inlined: its call stacks are found again by
//! their lines (paper 003, section 3.4: profiles for other builds), without any help of a compiler.
//!
//! Of a stack the lines are taken one behind the other, those of inlined functions too, innermost first. It may be each stack of the new build whose return
//! addresses have the same lines, however many of them one address has. A line at which the new build has no call, but a jump into another function, has left no frame there.
//! What comes first in a module calls an allocator, if its line has such a call. Where a line has as many calls as before, the order of their addresses tells which is which.
//!
//! What a stack of the new build has more of than the old one is not known: frames of functions that left none before.

use crate::rebuilt::Calls;
use crate::translate::{self, Again, Translated};
use model::{Frame, Module, Plan, PlannedPhase, PlannedSite, SiteId, SiteKind, SourceLine};
use std::collections::{BTreeSet, HashMap, HashSet};
use wire::identity;

/// A line calls from several places where its loop was unrolled, say; most stacks of a site.
const MOST_STACKS: usize = 64;

/// A module that was rebuilt otherwise.
pub struct Rebuilt<'a> {
    /// As it was.
    pub was: &'a Module,
    /// The calls that it has now.
    pub calls: &'a Calls,
    /// The source forms of its jumps into other functions.
    pub jumps: Vec<Vec<SourceLine>>,
}

/// The plan for a program of these modules. `None`: no site was found again.
pub fn to_stacks(plan: &Plan, rebuilt: &[Rebuilt<'_>]) -> Option<Translated> {
    let builds: Vec<Build<'_>> = rebuilt.iter().map(|module| Build::of(plan, module)).collect();
    let stacks = |frames: &[Frame]| -> Vec<Vec<Frame>> {
        let moved = frames.iter().any(|f| builds.iter().any(|b| b.has(f)));
        if moved { stacks(&builds, frames) } else { Vec::new() }
    };
    let site = |site: &PlannedSite| -> Vec<(SiteId, Vec<Frame>)> {
        let all = if site.kind == SiteKind::Static { Vec::new() } else { stacks(&site.frames) };
        let apart = translate::number(site);
        let id = |frames: &[Frame]| {
            let stack = translate::stack_id(frames)?;
            Some(SiteId(apart.map_or(stack, |n| identity::apart_id(stack, n))))
        };
        all.into_iter().filter_map(|frames| Some((id(&frames)?, frames))).collect()
    };
    let again = Again::of(plan, site);
    if again.now.is_empty() {
        return None;
    }
    let phase = |phase: &PlannedPhase| -> Vec<PlannedPhase> {
        let phase = again.moves(phase);
        let begins: Vec<(SiteId, Vec<Frame>)> = if phase.is_of_mpi() {
            let id = |frames: Vec<Frame>| Some((SiteId(translate::stack_id(&frames)?), frames));
            stacks(&phase.frames).into_iter().filter_map(id).collect()
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
    let names: Vec<&str> = builds.iter().map(|b| b.calls.module.name()).collect();
    let found =
        format!("again by the lines of their call stacks in {}, which was compiled otherwise", names.join(" and "));
    Some(again.plan(plan, phases, &found))
}

/// The stacks that one of the plan may be: runs of frames of modules that were rebuilt are exchanged, the others stay.
fn stacks(builds: &[Build<'_>], frames: &[Frame]) -> Vec<Vec<Frame>> {
    let mut all: Vec<Vec<Frame>> = vec![Vec::new()];
    let mut seen = HashSet::new();
    for run in frames.chunk_by(|a, b| a.module == b.module) {
        let may: Vec<Vec<Frame>> = match builds.iter().find(|b| b.has(&run[0])) {
            Some(build) => build.runs(run, seen.insert(build.was)),
            None => vec![run.to_vec()],
        };
        let longer = all.iter().flat_map(|stack| may.iter().map(|run| [stack.as_slice(), run.as_slice()].concat()));
        all = longer.take(MOST_STACKS).collect();
    }
    if all.len() < MOST_STACKS { all } else { Vec::new() }
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
    /// Nothing of the module comes before it.
    first: bool,
}

/// Return addresses of the plan, and of the new build, by their lines; and by whether they come first in the module.
type BySource<'a> = HashMap<(bool, Vec<Line<'a>>), (BTreeSet<u64>, Vec<u64>)>;

/// A module that was rebuilt.
struct Build<'a> {
    was: &'a Module,
    calls: &'a Calls,
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
    fn of(plan: &'a Plan, module: &'a Rebuilt<'a>) -> Build<'a> {
        let Rebuilt { was, calls, jumps } = module;
        let mut by_line: HashMap<Line<'a>, Vec<usize>> = HashMap::new();
        let mut has = HashSet::new();
        let mut by_source: BySource<'a> = HashMap::new();
        let stacks = plan.sites.iter().filter(|s| s.kind != SiteKind::Static).map(|s| &s.frames);
        let operations = plan.phases.iter().filter(|p| p.is_of_mpi()).map(|p| &p.frames);
        for frames in stacks.chain(operations) {
            for (i, frame) in frames.iter().filter(|f| f.module.as_ref() == Some(was)).enumerate() {
                let lines = frame.source.iter().map(key).collect();
                by_source.entry((i == 0, lines)).or_default().0.insert(frame.offset);
            }
        }
        for (number, (offset, source)) in calls.all.iter().enumerate() {
            let lines: Vec<Line<'a>> = source.iter().map(key).collect();
            has.extend(&lines);
            if let Some(&first) = lines.first() {
                by_line.entry(first).or_default().push(number);
            }
            for (first, lines) in [(false, lines.clone()), (true, lines)] {
                if let Some((_, now)) = by_source.get_mut(&(first, lines)) {
                    now.push(*offset);
                }
            }
        }
        for ((first, _), (_, now)) in &mut by_source {
            if *first && now.iter().any(|offset| calls.allocating.contains(offset)) {
                now.retain(|offset| calls.allocating.contains(offset));
            }
        }
        let alike = by_source.into_values().filter(|(old, now)| old.len() == now.len());
        let paired = alike.flat_map(|(old, now)| old.into_iter().zip(now)).collect();
        Build { was, calls, by_line, has, jumps: jumps.iter().flatten().map(key).collect(), paired }
    }

    /// Whether a line may have left no frame.
    fn is_passed(&self, line: &Line<'_>) -> bool {
        !self.has.contains(line) && self.jumps.contains(line)
    }

    fn has(&self, frame: &Frame) -> bool {
        frame.module.as_ref() == Some(self.was)
    }

    /// The runs of frames that have the lines of these. `first`: nothing of the module comes before them.
    fn runs(&self, frames: &[Frame], first: bool) -> Vec<Vec<Frame>> {
        if frames.iter().any(|f| f.source.is_empty()) {
            return Vec::new();
        }
        let one = |(i, frame, line)| Wanted { line: key(line), begins: (i == 0).then_some(frame), first: false };
        let lines = frames.iter().flat_map(|f| f.source.iter().enumerate().map(move |(i, line)| (i, f, line)));
        let mut wanted: Vec<Wanted<'_>> = lines.map(one).collect();
        wanted[0].first = first;
        // From which lines on there are calls for all that follow, from the outermost on.
        let mut leads = vec![false; wanted.len() + 1];
        leads[wanted.len()] = true;
        for at in (0..wanted.len()).rev() {
            leads[at] = self.steps(&wanted, at).iter().any(|(_, next)| leads[*next]);
        }
        let mut found = Vec::new();
        self.go_on(&wanted, 0, &leads, &mut Vec::new(), &mut found);
        // Nothing tells them apart.
        if found.len() >= MOST_STACKS {
            return Vec::new();
        }
        let frame = |&number: &usize| {
            let (offset, source) = &self.calls.all[number];
            Frame { module: Some(self.calls.module.clone()), offset: *offset, source: source.clone() }
        };
        found.iter().map(|run| run.iter().map(frame).collect()).collect()
    }

    fn go_on(
        &self,
        wanted: &[Wanted<'_>],
        at: usize,
        leads: &[bool],
        run: &mut Vec<usize>,
        found: &mut Vec<Vec<usize>>,
    ) {
        if found.len() >= MOST_STACKS {
            return;
        }
        if at == wanted.len() {
            found.extend((!run.is_empty()).then(|| run.clone()));
            return;
        }
        for (call, next) in self.steps(wanted, at).into_iter().filter(|(_, next)| leads[*next]) {
            run.extend(call);
            self.go_on(wanted, next, leads, run, found);
            run.truncate(run.len() - usize::from(call.is_some()));
        }
    }

    /// The calls that have the lines from this one on, each with the line behind its last one; or none, if it is one that has left no frame.
    fn steps(&self, wanted: &[Wanted<'_>], at: usize) -> Vec<(Option<usize>, usize)> {
        let line = wanted[at].line;
        if self.is_passed(&line) {
            return vec![(None, at + 1)];
        }
        let mut may = self.by_line.get(&line).cloned().unwrap_or_default();
        let allocates = |call: &usize| self.calls.allocating.contains(&self.calls.all[*call].0);
        if wanted[at].first && may.iter().any(allocates) {
            may.retain(allocates);
        }
        may.iter().filter_map(|&call| Some((Some(call), self.fits(call, wanted, at)?))).collect()
    }

    /// The line behind the last one of a call, if all of its lines are those from here on.
    fn fits(&self, call: usize, wanted: &[Wanted<'_>], at: usize) -> Option<usize> {
        let (offset, source) = &self.calls.all[call];
        let mut next = at;
        for line in source {
            while wanted.get(next).is_some_and(|w| w.line != key(line) && self.is_passed(&w.line)) {
                next += 1;
            }
            if wanted.get(next)?.line != key(line) {
                return None;
            }
            next += 1;
        }
        // Of a frame that is as it was the order of its line's calls tells which one it is.
        let as_it_was = |f: &&Frame| {
            let ends = wanted.get(next).is_none_or(|w| w.begins.is_some());
            ends && f.source.len() == source.len() && next - at == source.len()
        };
        let paired = wanted[at].begins.filter(as_it_was).and_then(|f| self.paired.get(&f.offset));
        if paired.is_some_and(|now| now != offset) {
            return None;
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, PlannedMove};

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

    fn site(frames: Vec<Frame>, miss_share: f64) -> PlannedSite {
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

    fn plan(sites: Vec<PlannedSite>, phases: Vec<PlannedPhase>) -> Plan {
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

    /// The return addresses of the stacks that the plan's sites are in a build with these calls and jumps.
    fn found(plan: &Plan, calls: &[(u64, &str)], jumps: &[&str]) -> Option<(Vec<Vec<u64>>, Translated)> {
        let all = calls.iter().map(|(offset, l)| (*offset, lines(l))).collect();
        let calls = Calls { module: module("02"), all, allocating: HashSet::new() };
        let was = module("01");
        let jumps = jumps.iter().map(|l| lines(l)).collect();
        let translated = to_stacks(plan, &[Rebuilt { was: &was, calls: &calls, jumps }])?;
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
}
