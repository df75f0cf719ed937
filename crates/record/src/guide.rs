//! From a plan to what the runtime follows: tiers checked against this machine, site ids, and for modules that were
//! rebuilt since the profile, the call stacks that they have now ([`crate::rebuilt`]).
//!
//! All of this happens before the program starts, so that the runtime compares numbers and nothing else (paper 000,
//! section VI).

use crate::annotated::Table;
use crate::innermost::{self, Innermost};
use crate::rebuilt::{self, Rebuilt};
use crate::{Error, annotated, libraries, statics, translate};
use model::{Module, Plan, PlannedPhase, PlannedSite, PlannedTier, SiteId, SiteKind};
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU64;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use wire::identity;
use wire::image::{Contents, Ends, ImageMove, ImageStatic, ImageTier, Source, Target};
use wire::process::MAX_TIERS;

// What planners believe of splits is what the runtime does.
const _: () = assert!(model::Parts::OF == wire::image::PARTS && model::Parts::FROM.0 == wire::image::SPLIT_FROM);
// And so is what a profile takes for all objects of a stack that are told apart.
const _: () = assert!(profile::MOST_APART == identity::APART as usize);

/// A plan made ready for a program.
#[derive(Debug)]
pub struct Guide {
    /// The plan as it is followed: with the program's sites, where these had to be found again.
    pub plan: Plan,
    /// Which site of the plan that was given each of these sites is, where that was another one; several may be one's.
    pub origins: HashMap<SiteId, SiteId>,
    /// The image for [`crate::Launch::plan`].
    pub image: Vec<u64>,
    /// What the user should know before the run, one sentence each.
    pub notes: Vec<String>,
    /// Sites of the plan that was given which share their lines with a hotter one, which decides.
    pub absorbed: Vec<(PlannedSite, String)>,
    /// Sites with a frame that the rebuilt module no longer has: the planned sites that cannot match, and why.
    pub lost: BTreeMap<SiteId, String>,
}

/// Makes a plan ready for the program at `program`, or says in one sentence why it cannot be followed here.
pub fn prepare(plan: &Plan, program: &Path) -> Result<Guide, Error> {
    same_program(plan, &modules(plan), program)?;
    let mut notes = Vec::new();
    let table = annotated::linked(program).unwrap_or_default();
    // Where positions cannot be heard sites are call stacks, as in any other program; that is said at the end of the run.
    let heard = !table.is_empty() && annotated::is_heard(program);
    let positions = heard.then(|| translate::to_positions(plan, program, &table)).flatten();
    let plan = positions.as_ref().map_or(plan, |t| &t.plan);
    let silent = silent_modules(plan, program, heard)?;
    let Innermost { found: innermost, chains, longest } = innermost::find(plan, &silent);
    let plan = innermost.translated.as_ref().map_or(plan, |t| &t.plan);
    let rebuilt = rebuilt_modules(plan, program)?;
    let rebuilt::Found { translated: stacks, mut lost } = rebuilt::find(plan, &rebuilt);
    let plan = stacks.as_ref().map_or(plan, |t| &t.plan);
    lost.extend(innermost.lost);
    let translated = || positions.iter().chain(&innermost.translated).chain(&stacks);
    notes.extend(translated().map(|t| t.note.clone()));
    let modules = self::modules(plan);
    check_tiers(&plan.tiers, &mut notes)?;
    let index = |name: &str| plan.tiers.iter().position(|t| t.name == name).map(|i| i as u8);
    let tier_named = |name: &str, who: &str| {
        index(name).ok_or_else(|| Error(format!("the plan sends {who} to tier `{name}`, which it does not define")))
    };
    let default_tier = tier_named(&plan.default_tier, "unlisted sites")?;
    let mut sites = Vec::with_capacity(plan.sites.len());
    for site in &plan.sites {
        let who = format!("site {}", site.id);
        let tier = tier_named(&site.tier, &who)?;
        let target = match &site.split {
            None => Target::whole(tier),
            Some(s) => Target { tier, rest: tier_named(&s.rest, &who)?, parts: s.parts.mask() },
        };
        sites.push((site.id.0, target));
    }
    let unbound = |name: &str| plan.tiers.iter().any(|t| t.name == name && t.nodes.is_empty());
    let by_turns = |s: &&PlannedSite| s.split.as_ref().is_some_and(|p| unbound(&p.rest) || unbound(&s.tier));
    match plan.sites.iter().filter(by_turns).count() {
        0 => {}
        n => notes.push(format!(
            "only between NUMA nodes are objects split, which tiers of the plan have not: {n} split {} whole to one tier or the other, by turns",
            if n == 1 { "site sends its objects" } else { "sites send their objects" }
        )),
    }

    for module in &modules {
        let Some(file) = file_of(module, program) else { continue };
        match rebuilt::identity(&file) {
            Err(e) => notes.push(format!("{} cannot be compared with the plan: {e}", file.display())),
            // Positions of a path are told of its innermost module, and others may have been rebuilt.
            Ok(_) if module.is_source() => notes.extend(positions_of(plan, module, &file, &table, &mut lost)),
            Ok(now) if now.build_id != module.build_id => notes.extend(regions_of(plan, module)),
            Ok(_) => {}
        }
    }

    match plan.phases.iter().filter(|p| p.is_of_mpi() && lost.contains_key(&p.begins)).count() {
        0 => {}
        n => notes.push(format!(
            "{n} phases begin with operations of MPI whose call stacks are not found again in this build, so nothing moves with these"
        )),
    }

    let tiers: Vec<ImageTier<'_>> =
        plan.tiers.iter().map(|t| ImageTier { source: source(t), budget: t.budget.map(|b| b.0) }).collect();
    let target_of: BTreeMap<SiteId, Target> = sites.iter().map(|(id, target)| (SiteId(*id), *target)).collect();
    let statics = variables(plan, &modules, program, &target_of, &mut lost);
    let mut moves = Vec::new();
    for phase in &plan.phases {
        for m in &phase.moves {
            let who = format!("site {} in a phase", m.site);
            let tier = tier_named(&m.tier, &who)?;
            let (parts, rest) = match &m.split {
                None => (model::Parts::OF, tier),
                Some(s) => (s.parts.count(), tier_named(&s.rest, &who)?),
            };
            let every = phase.every.map_or(0, NonZeroU64::get);
            let (begins, number, site, parts) = (phase.begins.0, phase.number, m.site.0, parts as u8);
            moves.push(ImageMove { begins, number, every, site, tier, parts, rest, idle: m.idle });
        }
    }
    let ends = Ends { chains: &chains, longest };
    let contents = Contents { tiers: &tiers, default_tier, sites: &sites, statics: &statics, moves: &moves, ends };
    let mut image = vec![0; contents.words()];
    contents
        .write(&mut image)
        .ok_or_else(|| Error(format!("the plan has {} tiers or none; 1 to {MAX_TIERS} can be used", tiers.len())))?;
    let plan = plan.clone();
    let (mut origins, mut absorbed) = (HashMap::new(), Vec::new());
    for translated in translated() {
        origins.extend(&translated.origins);
        absorbed.extend(translated.absorbed.iter().cloned());
    }
    Ok(Guide { plan, origins, image, notes, absorbed, lost })
}

/// The modules in which call stacks of a plan have frames and that were rebuilt since.
fn rebuilt_modules(plan: &Plan, program: &Path) -> Result<Vec<Rebuilt>, Error> {
    let stacks = plan.sites.iter().filter(|s| s.kind != SiteKind::Static).map(|s| &s.frames);
    let operations = plan.phases.iter().filter(|p| p.is_of_mpi()).map(|p| &p.frames);
    let mut all: Vec<&Module> = stacks.chain(operations).flatten().filter_map(|f| f.module.as_ref()).collect();
    all.sort();
    all.dedup();
    let mut rebuilt = Vec::new();
    for was in all.into_iter().filter(|m| !m.is_source()) {
        let now = file_of(was, program).and_then(|file| rebuilt::identity(&file).ok());
        if let Some(now) = now.filter(|now| now.build_id != was.build_id) {
            rebuilt.push(Rebuilt::read(was.clone(), now).map_err(Error)?);
        }
    }
    Ok(rebuilt)
}

/// The annotated modules in which paths of a plan begin and that say nothing of their source now, as they are.
fn silent_modules(plan: &Plan, program: &Path, heard: bool) -> Result<Vec<Rebuilt>, Error> {
    let mut silent = Vec::new();
    for was in modules(plan).into_iter().filter(Module::is_source) {
        let Some(file) = file_of(&was, program) else { continue };
        let says = annotated::of(&file).is_ok_and(|table| !table.is_empty());
        // What is linked with a program that is not heard is not heard either; what it loads later has its own variable.
        let linked = || file.file_name() == program.file_name() || libraries::of(program).contains(&file);
        if says && (heard || !linked()) {
            continue;
        }
        if let Ok(now) = rebuilt::identity(&file) {
            silent.push(Rebuilt::read(was, now).map_err(Error)?);
        }
    }
    Ok(silent)
}

/// Phases begin with regions of a module that was rebuilt, which are not found again: a sentence on these.
fn regions_of(plan: &Plan, module: &Module) -> Option<String> {
    let function = |p: &&PlannedPhase| matches!(p.frames.as_slice(), [f] if f.module.as_ref() == Some(module));
    match plan.phases.iter().filter(function).count() {
        0 => None,
        n => Some(format!(
            "{} was rebuilt since it was profiled, and {n} phases begin in it: parallel regions are not found again in another build, so nothing moves with these",
            module.name()
        )),
    }
}

/// Positions in the source are found again by themselves, if they are there: a sentence on those of the plan's that are not.
fn positions_of(
    plan: &Plan,
    module: &Module,
    file: &Path,
    linked: &Table,
    lost: &mut BTreeMap<SiteId, String>,
) -> Option<String> {
    let table = match annotated::of(file) {
        Ok(table) => table,
        Err(why) => return Some(why),
    };
    // Those of a path are told of its innermost module, and may be of any.
    let has = |position: u64| table.has(position) || linked.has(position);
    let of_module = |s: &&PlannedSite| s.frames.iter().any(|f| f.module.as_ref() == Some(module));
    if table.is_empty() && linked.is_empty() {
        let sites: Vec<SiteId> = plan.sites.iter().filter(of_module).map(|s| s.id).collect();
        for &site in &sites {
            lost.entry(site).or_insert_with(|| format!("{} has no lines of its source to find it by", module.name()));
        }
        return Some(format!(
            "{} is not compiled with Hearth's compilers, as it was when it was profiled, and {} of {} planned sites, which are lines of the source, are not found among its call \
             stacks; compile it with hearth-cc again, or record this build and plan anew",
            file.display(),
            sites.len(),
            plan.sites.len()
        ));
    }
    let before = lost.len();
    for site in &plan.sites {
        let of_module = site.frames.iter().filter(|f| f.module.as_ref() == Some(module));
        if let Some(gone) = of_module.into_iter().find(|f| !has(f.offset)) {
            lost.entry(site.id).or_insert_with(|| format!("{gone} is no longer in {}", module.name()));
        }
    }
    match lost.len() - before {
        0 => None,
        n => Some(format!(
            "{} was rebuilt from another source since it was profiled: {n} of {} planned sites have lines that are no longer there",
            file.display(),
            plan.sites.len()
        )),
    }
}

/// Where the plan's static variables lie in the modules as they are now. Their names are found again whatever was rebuilt.
fn variables(
    plan: &Plan,
    modules: &[Module],
    program: &Path,
    targets: &BTreeMap<SiteId, Target>,
    lost: &mut BTreeMap<SiteId, String>,
) -> Vec<ImageStatic> {
    let mut out = Vec::new();
    for module in modules {
        let of_module = |s: &&PlannedSite| {
            s.kind == SiteKind::Static && s.frames.first().and_then(|f| f.module.as_ref()) == Some(module)
        };
        let wanted: Vec<&PlannedSite> = plan.sites.iter().filter(of_module).collect();
        if wanted.is_empty() {
            continue;
        }
        let Some(file) = file_of(module, program) else { continue };
        let (now, variables) = statics::of(&file);
        for site in wanted {
            let before = out.len();
            let found = variables.iter().filter(|v| v.site == site.id);
            out.extend(found.filter_map(|v| {
                let (offset, size) = (v.offset, v.size);
                let counts = site.resident.map_or(size, |r| size.min(r.0));
                let target = *targets.get(&site.id)?;
                Some(ImageStatic { site: site.id.0, module: key(&now), offset, size, target, counts })
            }));
            if out.len() == before {
                lost.insert(site.id, format!("{} has no such variable any more", file.display()));
            }
        }
    }
    out
}

/// The plan's modules, each once.
fn modules(plan: &Plan) -> Vec<Module> {
    let frames = plan.sites.iter().flat_map(|s| &s.frames).chain(plan.phases.iter().flat_map(|p| &p.frames));
    let mut all: Vec<Module> = frames.filter_map(|f| f.module.clone()).collect();
    all.sort();
    all.dedup();
    all
}

/// A plan for another program matches nothing: better said before the run than after it.
fn same_program(plan: &Plan, modules: &[Module], program: &Path) -> Result<(), Error> {
    let name = |p: &Path| p.file_name().map(|n| n.to_os_string()).unwrap_or_default();
    let here = [Some(program.to_path_buf()), std::fs::canonicalize(program).ok()];
    let here: Vec<_> = here.into_iter().flatten().map(|p| name(&p)).collect();
    let planned = plan.command.first().map(|c| name(Path::new(c)));
    let known =
        planned.iter().any(|p| here.contains(p)) || modules.iter().any(|m| here.contains(&name(Path::new(&m.path))));
    if known || plan.sites.is_empty() {
        return Ok(());
    }
    Err(Error(format!(
        "the plan was made for {}, not for {}; record and plan this program, or give the plan's own",
        plan.command.first().map_or("another program", String::as_str),
        program.display()
    )))
}

/// Where a module of the plan lies now: the program about to run if it has the module's name, else the module's path.
fn file_of(module: &Module, program: &Path) -> Option<PathBuf> {
    let program = std::fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    if program.file_name().is_some_and(|n| n.as_bytes() == module.name().as_bytes()) {
        return Some(program);
    }
    module.file().map(PathBuf::from).filter(|p| p.is_file())
}

/// [`identity::module_key`] of a module.
pub(crate) fn key(module: &Module) -> u64 {
    let id: Vec<u8> = (0..module.build_id.len() / 2)
        .filter_map(|i| u8::from_str_radix(module.build_id.get(i * 2..i * 2 + 2)?, 16).ok())
        .collect();
    identity::module_key(&id, module.path.as_bytes())
}

fn source(tier: &PlannedTier) -> Source<'_> {
    match &tier.dir {
        Some(dir) => Source::Directory(dir.as_os_str().as_bytes()),
        None if tier.nodes.is_empty() => Source::Plain,
        None => Source::Nodes(tier.nodes.iter().filter(|&&n| n < 128).fold(0, |mask, &n| mask | 1 << n)),
    }
}

/// Nodes with memory on this machine, with their size in bytes.
pub fn nodes_here() -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    for entry in std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(node) = name.to_str().and_then(|n| n.strip_prefix("node")).and_then(|n| n.parse().ok()) else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path().join("meminfo")).unwrap_or_default();
        let total = text.lines().find(|l| l.contains("MemTotal:")).and_then(|l| l.split_whitespace().nth_back(1));
        let kib: u64 = total.and_then(|t| t.parse().ok()).unwrap_or(0);
        if kib > 0 {
            nodes.insert(node, kib << 10);
        }
    }
    nodes
}

/// Memory of the machine in bytes; 0 if the kernel does not tell.
fn total_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:")).and_then(|l| l.split_whitespace().next());
    total.and_then(|t| t.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn check_tiers(tiers: &[PlannedTier], notes: &mut Vec<String>) -> Result<(), Error> {
    let here = nodes_here();
    for tier in tiers {
        let name = &tier.name;
        if tier.budget.is_some_and(|b| b.0 == 0) {
            return Err(Error(format!("the plan gives tier `{name}` a budget of 0; remove the tier or give it room")));
        }
        if let Some(dir) = &tier.dir {
            if !dir.is_dir() {
                return Err(Error(format!(
                    "tier `{name}` lies in {}, which is not a directory; make it or change `dir` in the plan",
                    dir.display()
                )));
            }
            continue;
        }
        if let Some(missing) = tier.nodes.iter().find(|n| !here.is_empty() && !here.contains_key(n)) {
            let have: Vec<String> = here.keys().map(u32::to_string).collect();
            return Err(Error(format!(
                "tier `{name}` uses NUMA node {missing}, but this machine has only {}; change `nodes` in the plan",
                have.join(", ")
            )));
        }
        let all = tier.nodes.is_empty() || here.keys().all(|n| tier.nodes.contains(n));
        let nodes: u64 = here.iter().filter(|(n, _)| all || tier.nodes.contains(n)).map(|(_, size)| size).sum();
        // Memory that was plugged into a virtual machine later may be missing from its node's own count.
        let size = if all { nodes.max(total_memory()) } else { nodes };
        if let Some(budget) = tier.budget.filter(|b| size > 0 && b.0 > size) {
            return Err(Error(format!(
                "tier `{name}` has a budget of {budget}, more than the {} of its memory; lower `budget` in the plan",
                model::Bytes(size)
            )));
        }
    }
    let node_tiers: Vec<&PlannedTier> = tiers.iter().filter(|t| t.dir.is_none()).collect();
    let places = |t: &PlannedTier| -> Vec<u32> {
        if t.nodes.is_empty() { here.keys().copied().collect() } else { t.nodes.clone() }
    };
    if node_tiers.len() > 1 && node_tiers.iter().all(|t| places(t) == places(node_tiers[0])) {
        let names: Vec<&str> = node_tiers.iter().map(|t| t.name.as_str()).collect();
        notes.push(format!(
            "the tiers {} share one memory on this machine: objects are placed and budgets kept, but nothing gets faster",
            names.join(" and ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Bytes, Frame};

    fn plan() -> Plan {
        let me = std::env::current_exe().unwrap();
        let module = rebuilt::identity(&me).unwrap();
        let tier = |name: &str| PlannedTier { name: name.into(), nodes: vec![], dir: None, budget: None };
        Plan {
            version: model::plan::PLAN_VERSION,
            policy: "density".into(),
            command: vec![me.display().to_string()],
            platform: "here".into(),
            threshold: Bytes::kib(4),
            default_tier: "slow".into(),
            tiers: vec![tier("fast"), tier("slow")],
            sites: vec![PlannedSite {
                id: SiteId(77),
                kind: SiteKind::Allocation,
                label: "here".into(),
                tier: "fast".into(),
                split: None,
                why: "for the test".into(),
                miss_share: 0.5,
                peak: Bytes::mib(1),
                resident: None,
                frames: vec![Frame { module: Some(module), offset: 4096, source: vec![] }],
            }],
            phases: vec![],
        }
    }

    #[test]
    fn a_plan_becomes_an_image_and_one_memory_is_said_aloud() {
        let plan = plan();
        let guide = prepare(&plan, &std::env::current_exe().unwrap()).unwrap();
        let image = wire::image::Image::new(&guide.image).unwrap();
        assert_eq!((image.target_of(77), image.target_of(78)), (Some(Target::whole(0)), None));
        assert_eq!(image.default_tier(), 1);
        assert!(guide.notes.iter().any(|n| n.contains("share one memory")), "{:?}", guide.notes);
    }

    #[test]
    fn what_cannot_be_followed_is_refused_in_one_sentence() {
        let me = std::env::current_exe().unwrap();
        let refused = |change: &dyn Fn(&mut Plan), words: &str| {
            let mut plan = plan();
            change(&mut plan);
            let e = prepare(&plan, &me).unwrap_err().to_string();
            assert!(e.contains(words), "{e}");
        };
        refused(&|p| p.tiers[0].nodes = vec![99], "node 99");
        refused(&|p| p.tiers[0].budget = Some(Bytes(0)), "budget of 0");
        refused(&|p| p.tiers[0].budget = Some(Bytes(1 << 60)), "more than");
        refused(&|p| p.tiers[0].dir = Some("/nowhere/at/all".into()), "not a directory");
        refused(&|p| p.sites[0].tier = "warm".into(), "`warm`");
        refused(&|p| p.default_tier = "cold".into(), "`cold`");
        let e = prepare(&plan(), Path::new("/bin/ls")).unwrap_err().to_string();
        assert!(e.contains("was made for"), "{e}");
    }
}
