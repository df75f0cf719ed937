//! A plan by a profile of call stacks, for a program that says in its source where it allocates ([`crate::annotated`]): its sites are found again by file and
//! line, whatever compiler and optimisation either was built with (paper 003, section 3.4: profiles for other builds).
//!
//! From the innermost frame on, the first line that the program knows is the position that allocates for it; the positions of its callers follow, as many as the
//! program tells. Lines of the standard library are left out, as they are there. Where one line holds several calls, the order of their addresses decides; if there
//! are not as many as the program has, each may be any, and of several sites that may be one, the one with the most misses decides. A phase begins with each path that
//! its operation of MPI or its allocation may be.

use crate::annotated::{Position, Table};
use crate::guide::key;
use model::{Frame, Module, Plan, PlannedMove, PlannedPhase, PlannedSite, SiteId, SiteKind, SourceLine};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use wire::identity;

/// Most positions of a path, as `compiler/sites.cpp` keeps.
const LAYERS: usize = 3;

/// A plan whose sites were found again in another build.
#[derive(Debug)]
pub struct Translated {
    /// The plan.
    pub plan: Plan,
    /// Which site of the former plan each of its sites is, if that was another one.
    pub origins: HashMap<SiteId, SiteId>,
    /// Sites of the former plan of which nothing is left that is not a hotter one's, which decides: they and the labels of the hotter ones.
    pub absorbed: Vec<(PlannedSite, String)>,
    /// A sentence on what was found.
    pub note: String,
}

/// What sites of a plan are in another build.
#[derive(Default)]
pub(crate) struct Again {
    /// The sites of the build, by those of the plan.
    pub(crate) now: HashMap<SiteId, Vec<PlannedSite>>,
    /// Those of which nothing is left that is not a hotter one's, and which that is.
    absorbed: BTreeMap<SiteId, SiteId>,
}

impl Again {
    /// `may_be`: the sites of the build that one of the plan may be, with their frames; none: it is what it was. Of several that may be one the one with the most
    /// misses decides.
    pub(crate) fn of(plan: &Plan, may_be: impl Fn(&PlannedSite) -> Vec<(SiteId, Vec<Frame>)>) -> Again {
        let mut order: Vec<&PlannedSite> = plan.sites.iter().collect();
        order.sort_by(|a, b| b.miss_share.total_cmp(&a.miss_share));
        let (mut again, mut taken) = (Again::default(), HashMap::new());
        for site in order {
            let mut hotter = None;
            for (id, frames) in may_be(site) {
                if let Some(&by) = taken.get(&id) {
                    hotter = Some(by);
                    continue;
                }
                taken.insert(id, site.id);
                again.now.entry(site.id).or_default().push(PlannedSite { id, frames, ..site.clone() });
            }
            if let Some(by) = hotter.filter(|_| !again.now.contains_key(&site.id)) {
                again.absorbed.insert(site.id, by);
            }
        }
        again
    }

    /// The plan for the build, with these phases. `how` its sites were found is said after how many were, of how many.
    pub(crate) fn plan(&self, plan: &Plan, phases: Vec<PlannedPhase>, of: usize, how: &str) -> Translated {
        let left = plan.sites.iter().filter(|s| !self.absorbed.contains_key(&s.id));
        let sites = left.flat_map(|s| self.now.get(&s.id).cloned().unwrap_or_else(|| vec![s.clone()])).collect();
        let hotter = match self.absorbed.len() {
            0 => String::new(),
            n => format!("; {n} share a line with a hotter one, which decides"),
        };
        let note = format!("{} of {of} planned sites were found {how}{hotter}", self.now.len() + self.absorbed.len());
        let origins = self.now.iter().flat_map(|(from, to)| to.iter().map(|s| (s.id, *from))).collect();
        let label =
            |id: SiteId| plan.sites.iter().find(|s| s.id == id).map_or_else(|| id.to_string(), |s| s.label.clone());
        let absorbed = plan.sites.iter().filter_map(|s| Some((s.clone(), label(*self.absorbed.get(&s.id)?)))).collect();
        Translated { plan: Plan { sites, phases, ..plan.clone() }, origins, absorbed, note }
    }

    /// A phase that moves what its objects are in the build.
    pub(crate) fn moves(&self, phase: &PlannedPhase) -> PlannedPhase {
        let of = |m: &PlannedMove| match self.now.get(&m.site) {
            None => vec![m.clone()],
            Some(sites) => sites.iter().map(|s| PlannedMove { site: s.id, ..m.clone() }).collect(),
        };
        PlannedPhase { moves: phase.moves.iter().flat_map(of).collect(), ..phase.clone() }
    }
}

/// The plan for an annotated program, of these positions; `None`: no site has to be found again.
pub fn to_positions(plan: &Plan, program: &Path, table: &Table) -> Option<Translated> {
    let lines = Lines::of(table, plan);
    let module = Module { path: format!("{}{}", model::SOURCE, program.display()), build_id: String::new() };
    let frame = |(number, position): &Known<'_>| Frame {
        module: Some(module.clone()),
        offset: u64::from(*number),
        source: vec![position.as_line()],
    };
    let again = Again::of(plan, |site| {
        let stack = site.kind != SiteKind::Static && !site.frames.iter().any(is_source);
        let paths = if stack { lines.paths(&site.frames) } else { Vec::new() };
        paths.into_iter().map(|path| (site_id(site, &path), path.iter().map(&frame).collect())).collect()
    });
    if again.now.is_empty() {
        return None;
    }
    let phases = plan.phases.iter().flat_map(|phase| lines.phases(phase, plan, &again, &frame)).collect();
    let of = plan.sites.iter().filter(|s| s.kind != SiteKind::Static).count();
    Some(again.plan(plan, phases, of, &format!("in {} by file and line", program.display())))
}

/// Of objects of one stack that are told apart each has an id of its own.
fn site_id(site: &PlannedSite, path: &[Known<'_>]) -> SiteId {
    let id = identity::path_id(path.iter().map(|p| p.0));
    SiteId(number(site).map_or(id, |n| identity::apart_id(id, n)))
}

fn is_source(frame: &Frame) -> bool {
    frame.module.as_ref().is_some_and(Module::is_source)
}

/// Its number among the objects of its stack; `None`: it is the stack's.
pub(crate) fn number(site: &PlannedSite) -> Option<u8> {
    let stack = if site.frames.iter().any(is_source) {
        identity::path_id(site.frames.iter().filter_map(|f| u32::try_from(f.offset).ok()))
    } else {
        stack_id(&site.frames)?
    };
    (1..=identity::APART).find(|&n| identity::apart_id(stack, n) == site.id.0)
}

/// The chain of a call stack; `None`: some of it lies in no file.
pub(crate) fn chain(frames: &[Frame]) -> Option<u64> {
    let token = |f: &Frame| Some(identity::token(key(f.module.as_ref()?), f.offset));
    frames.iter().try_fold(identity::EMPTY_SITE, |chain, f| Some(identity::chain(chain, token(f)?)))
}

/// The id of a call stack; `None`: some of it lies in no file.
pub(crate) fn stack_id(frames: &[Frame]) -> Option<u64> {
    chain(frames).map(identity::site_id)
}

/// The sites that a planned one is if its call stack is any of these.
pub(crate) fn with_stacks(site: &PlannedSite, stacks: Vec<Vec<Frame>>) -> Vec<(SiteId, Vec<Frame>)> {
    let apart = number(site);
    let id = |stack| SiteId(apart.map_or(stack, |n| identity::apart_id(stack, n)));
    stacks.into_iter().filter_map(|frames| Some((id(stack_id(&frames)?), frames))).collect()
}

/// A position of the program, with its number.
type Known<'a> = (u32, &'a Position);

/// The positions of a program.
struct Lines<'a> {
    by_line: HashMap<(&'a str, u32), Vec<Known<'a>>>,
    by_function: HashMap<&'a str, Vec<Known<'a>>>,
    by_callee: HashMap<&'a str, Vec<Known<'a>>>,
    /// The addresses of the plan's frames that a line has.
    addresses: HashMap<(String, u32), BTreeSet<u64>>,
}

impl<'a> Lines<'a> {
    fn of(table: &'a Table, plan: &Plan) -> Lines<'a> {
        let (mut by_line, mut by_function) = (HashMap::<_, Vec<_>>::new(), HashMap::<_, Vec<_>>::new());
        let mut by_callee = HashMap::<_, Vec<_>>::new();
        for (number, position) in table.in_code() {
            if position.line != 0 {
                by_line.entry((position.file.as_str(), position.line)).or_default().push((number, position));
            }
            by_function.entry(position.symbol.as_str()).or_default().push((number, position));
            by_callee.entry(position.callee.as_str()).or_default().push((number, position));
        }
        let mut addresses = HashMap::<_, BTreeSet<u64>>::new();
        let phases = plan.phases.iter().filter(|p| p.is_of_mpi());
        for frame in plan.sites.iter().flat_map(|s| &s.frames).chain(phases.flat_map(|p| &p.frames)) {
            for line in &frame.source {
                addresses.entry((name(line).to_string(), line.line)).or_default().insert(frame.offset);
            }
        }
        Lines { by_line, by_function, by_callee, addresses }
    }

    /// The positions that a line of a frame may be: those of its function, if there are any.
    fn at(&self, frame: &Frame, line: &SourceLine) -> Vec<Known<'a>> {
        let Some(all) = self.by_line.get(&(name(line), line.line)) else { return Vec::new() };
        let own: Vec<_> = all.iter().filter(|(_, p)| p.function == line.function).copied().collect();
        let may = if own.is_empty() { all.clone() } else { own };
        let addresses = self.addresses.get(&(name(line).to_string(), line.line));
        let nth = addresses.filter(|a| a.len() == may.len()).and_then(|a| a.iter().position(|&o| o == frame.offset));
        nth.and_then(|n| may.get(n)).map_or(may.clone(), |&one| vec![one])
    }

    /// The paths that end with this position. A function that ends with the call of an allocator has left no frame on the stack.
    fn within(&self, last: Known<'a>, layers: usize) -> Vec<Vec<Known<'a>>> {
        let inner =
            self.by_function.get(last.1.callee.as_str()).filter(|_| !last.1.allocates && !last.1.phase && layers > 1);
        let Some(inner) = inner else { return vec![vec![last]] };
        let paths = inner.iter().flat_map(|&p| self.within(p, layers - 1));
        paths.map(|path| [path, vec![last]].concat()).take(MOST_PATHS).collect()
    }

    /// The paths that a call stack may be.
    fn paths(&self, frames: &[Frame]) -> Vec<Vec<Known<'a>>> {
        let lines = frames.iter().flat_map(|f| f.source.iter().map(move |l| (f, l)));
        let own = lines.filter(|(_, l)| !l.is_wrapper());
        let mut known =
            own.map(|(f, l)| self.at(f, l)).skip_while(Vec::is_empty).take_while(|p| !p.is_empty()).take(LAYERS);
        let innermost = known.next().unwrap_or_default();
        let mut paths: Vec<_> = innermost.into_iter().flat_map(|p| self.within(p, LAYERS)).take(MOST_PATHS).collect();
        for positions in known {
            let longer = paths.iter().flat_map(|path| positions.iter().map(|p| [path.clone(), vec![*p]].concat()));
            paths = longer.take(MOST_PATHS).collect();
        }
        paths.iter_mut().for_each(|path| path.truncate(LAYERS));
        paths.iter_mut().for_each(|path| self.go_on(path));
        paths
    }

    /// A phase of the plan, for each path that it may begin with.
    fn phases(
        &self,
        phase: &PlannedPhase,
        plan: &Plan,
        again: &Again,
        frame: &impl Fn(&Known<'a>) -> Frame,
    ) -> Vec<PlannedPhase> {
        let phase = again.moves(phase);
        if phase.frames.iter().any(is_source) {
            return vec![phase];
        }
        let begins: Vec<PlannedPhase> = if phase.is_of_mpi() {
            // On a line there may be other calls, too.
            let operations = self.paths(&phase.frames).into_iter().filter(|path| path[0].1.phase);
            let begins = |path: &[Known<'a>]| SiteId(identity::path_id(path.iter().map(|p| p.0)));
            let of = |path: Vec<Known<'a>>| PlannedPhase {
                begins: begins(&path),
                frames: path.iter().map(frame).collect(),
                ..phase.clone()
            };
            operations.map(of).collect()
        } else {
            // Of a site that shares its lines with a hotter one, too. Regions are none.
            let site = plan.sites.iter().find(|s| s.id == phase.begins && !s.frames.iter().any(is_source));
            let paths = site.map(|s| self.paths(&s.frames).into_iter().map(|path| site_id(s, &path)));
            paths.into_iter().flatten().map(|begins| PlannedPhase { begins, ..phase.clone() }).collect()
        };
        if begins.is_empty() { vec![phase] } else { begins }
    }

    /// Where the stack has no line that is known, only one call may have led on: compilers do not agree on the line of what they make themselves, such as `main` of a
    /// Fortran program.
    fn go_on(&self, path: &mut Vec<Known<'a>>) {
        while let Some((_, last)) = path.last().filter(|_| path.len() < LAYERS) {
            let Some([only]) = self.by_callee.get(last.symbol.as_str()).map(Vec::as_slice) else { return };
            path.push(*only);
        }
    }
}

/// A line's file without its folder.
pub(crate) fn name(line: &SourceLine) -> &str {
    line.file.rsplit('/').next().unwrap_or(&line.file)
}

/// Lines with several calls make several paths; most of a site.
const MOST_PATHS: usize = 64;
