//! How often a program asks for which of its objects, without running it (Unimem's static reference counts, paper 004, section 3.3): what `hearth plan --static`
//! plans by.
//!
//! 1. `compiler/counts.cpp` writes formulas into the program: how often loops turn, by what they run over ([`text`], [`formula`]).
//! 2. [`walk`] goes through the calls from `main` on, with the arguments of the command line, and adds up accesses by object; [`library`] is what it knows of
//!    functions that are elsewhere. What nobody knows before the program runs has a name and is assumed, or said by the user.
//! 3. [`observed`] makes of it what a profile would be: sites with sizes, and misses by the estimator's cache filter.
//!
//! Everything in it is a prediction from the source: nothing was measured.

pub mod formula;
pub mod library;
pub mod text;
pub mod walk;

use model::observed::TimePoint;
use model::{
    Bytes, Chunk, ChunkAt, Frame, Module, Nanos, Observed, Pattern, Platform, Site, SiteId, SiteKind, SiteUse,
    SizeClass, SourceLine,
};
use object::{Object as _, ObjectSection as _};
use policy::MayUse;
use profile::cache::{self, Reuse};
use record::annotated;
use std::collections::BTreeMap;
use std::path::Path;
use text::Text;
use walk::{Kind, Mark, Object, Walk};
use wire::identity;

/// Name of the section.
pub const SECTION: &str = "hearth_counts";
/// What is named as the sampler of such a profile.
pub const SAMPLER: &str = "static";
/// A variable is worth a site from this size on, as when programs are recorded.
const LEAST: f64 = 4096.0;
/// For all of a site of which nobody knows the size: hot tables often are sized by what is in them.
const UNKNOWN_SIZE: f64 = 1048576.0;
/// Parts are told apart if nobody knows where this share of an object's lines is, or less.
const LOCATED: f64 = 0.2;
/// Of a site whose parts are told apart there are as many samples as show that it is not by chance.
const SAMPLES: f64 = 10_000.0;
/// Time that an access takes by itself, in ns: three in a cycle of a processor of 1 GHz.
const ACCESS_NS: f64 = 0.3;

/// Something that a number was assumed for.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// File and line; what `--with` names.
    pub name: String,
    /// What was taken; 0: nothing could be.
    pub taken: f64,
    /// Share (0 to 1) of all lines asked for that rests on it.
    pub share: f64,
    /// The size of an object rests on it.
    pub sizes: bool,
}

/// What a program will ask for.
#[derive(Debug)]
pub struct Foreseen {
    /// As of a profile; its sampler is [`SAMPLER`].
    pub observed: Observed,
    /// What had to be assumed, that which most rests on first, of what is alike what sizes rest on.
    pub unknowns: Vec<Unknown>,
    /// Sites whose size is not known.
    pub sizes_unknown: usize,
    /// Sites of which no access was found: they are taken to be asked for as often as the others are in the mean.
    pub unasked: usize,
    /// What begins each phase that the text knows (an operation of MPI, or a mark), and the sites that may be asked for until the next one begins: more than are,
    /// as far as this text tells all; none: something that cannot be followed.
    pub phases: Vec<(Site, Option<Vec<Site>>)>,
    /// There are phases by marks whose names are made as the program runs: they are counted to those before them.
    pub unnamed: bool,
    /// Calls were left out: the program is too large, or its recursion has no end that can be seen.
    pub cut: bool,
}

impl Foreseen {
    /// Which sites may be asked for in which phases, of those of which that is known.
    pub fn may_use(&self) -> MayUse {
        let known = |(begins, asked): &(Site, Option<Vec<Site>>)| {
            Some((begins.id, asked.as_ref()?.iter().map(|s| s.id).collect()))
        };
        MayUse {
            sites: self.observed.sites.iter().map(|s| s.site.id).collect(),
            phases: self.phases.iter().filter_map(known).collect(),
        }
    }
}

/// Reckons what a program asks for when it is started with these arguments. `with` gives numbers for what is unknown by name; `platform` is the machine whose
/// last-level cache stands before its memories.
///
/// # Errors
/// One sentence: the file cannot be read, or was not made by Hearth's compilers.
pub fn foresee(
    program: &Path,
    arguments: &[String],
    with: &BTreeMap<String, f64>,
    platform: &Platform,
) -> Result<Foreseen, String> {
    let shown = program.display();
    let Some((module, section)) = told_by(program)? else {
        return Err(format!(
            "{shown} says nothing of its loops: it was not built by hearth-cc, hearth-c++ or hearth-fc; record a profile instead"
        ));
    };
    let mut text = Text::read(&section);
    // And what the libraries tell that it is linked with; of those that cannot be read nothing is known.
    let libraries = record::libraries::of(program).into_iter().filter_map(|l| told_by(&l).ok().flatten());
    let mut homes = BTreeMap::new();
    let mut sections = vec![section];
    for (library, section) in libraries {
        let more = Text::read(&section);
        let new = more.variables.keys().filter(|name| !text.variables.contains_key(*name));
        homes.extend(new.map(|name| (name.clone(), library.clone())));
        text.add(more);
        sections.push(section);
    }
    let llc = platform.llc.as_ref().map_or(0.0, |f| f.value.0 as f64);
    let mut walk = Walk::new(&text, arguments, with, llc);
    if !walk.run() {
        return Err(format!(
            "{shown} has no `main` that was built by Hearth's compilers; build the file that has it with them, too"
        ));
    }
    if let Some(name) = with.keys().find(|name| !sections.iter().any(|s| mentions(s, name))) {
        return Err(format!(
            "{shown} has nothing unknown at `{name}`; leave --with {name}=... out, or see what it lists"
        ));
    }
    let table = annotated::linked(program)?;
    let source = Module { path: format!("{}{}", model::SOURCE, module.path), build_id: module.build_id.clone() };
    let planned = |o: &&Object| match &o.kind {
        Kind::Heap(path) => !path.is_empty() && o.number > 0.0 && o.alive().is_none_or(|b| b >= LEAST),
        Kind::Variable(_) => o.bytes.is_some_and(|b| b >= LEAST),
        _ => false,
    };
    let all: Vec<&Object> = walk.objects.iter().filter(planned).collect();
    let site = |o: &Object| match &o.kind {
        Kind::Heap(path) => heap_site(path, &table, &source),
        Kind::Variable(name) => variable_site(name, homes.get(name).unwrap_or(&module)),
        _ => unreachable!("only these are planned for"),
    };
    let sites: Vec<Site> = all.iter().map(|o| site(o)).collect();
    let command = std::iter::once(program.display().to_string()).chain(arguments.iter().cloned()).collect();
    let lines: f64 = all.iter().map(|o| o.asked.lines()).sum();
    let share = |part: f64| if lines > 0.0 { (part / lines).min(1.0) } else { 0.0 };
    let mut unknowns: Vec<Unknown> = walk
        .assumed
        .iter()
        .map(|(name, a)| Unknown { name: name.clone(), taken: a.taken, share: share(a.lines), sizes: a.sizes })
        .collect();
    unknowns.sort_by(|a, b| b.share.total_cmp(&a.share).then(b.sizes.cmp(&a.sizes)).then(a.name.cmp(&b.name)));
    let phases = phases(&walk, &all, &sites, |path| heap_site(path, &table, &source));
    let (observed, unasked) = observed(command, &all, sites, llc);
    let sizes_unknown = all.iter().filter(|o| o.bytes.is_none()).count();
    Ok(Foreseen { observed, unknowns, sizes_unknown, unasked, phases, unnamed: walk.unnamed, cut: walk.cut })
}

/// What a file says of its loops, and which file that is; none: nothing.
fn told_by(file: &Path) -> Result<Option<(Module, Vec<u8>)>, String> {
    let shown = file.display();
    let bytes = std::fs::read(file).map_err(|e| format!("{shown} cannot be read: {e}"))?;
    let elf = object::File::parse(&*bytes).map_err(|e| format!("{shown} is not an ELF file: {e}"))?;
    let Some(section) = elf.section_by_name(SECTION) else { return Ok(None) };
    let section =
        section.uncompressed_data().map_err(|e| format!("section {SECTION} of {shown} cannot be read: {e}"))?;
    let build_id = elf.build_id().ok().flatten().unwrap_or_default().iter().map(|b| format!("{b:02x}")).collect();
    let path = std::fs::canonicalize(file).map_err(|e| format!("{shown} cannot be found: {e}"))?.display().to_string();
    Ok(Some((Module { path, build_id }, section.into_owned())))
}

fn phases(
    walk: &Walk<'_>,
    all: &[&Object],
    sites: &[Site],
    operation: impl Fn(&[u32]) -> Site,
) -> Vec<(Site, Option<Vec<Site>>)> {
    let one = |(n, mark): (usize, &Mark)| {
        let begins = match mark {
            Mark::Operation(path) => operation(path),
            Mark::Name(name) => named_site(name),
        };
        let asked = all.iter().zip(sites).filter(|(o, _)| o.moments.contains(&n)).map(|(_, s)| s.clone()).collect();
        (begins, (!walk.cut && !walk.astray && !walk.anything.contains(&n)).then_some(asked))
    };
    walk.marks.iter().enumerate().skip(1).map(one).collect()
}

fn named_site(name: &str) -> Site {
    let module = Module { path: format!("{}{name}", model::NAMED), build_id: String::new() };
    let frame = Frame { source: module.line_at(0).into_iter().collect(), module: Some(module), offset: 0 };
    let id = SiteId(identity::name_id(name.as_bytes()));
    Site { id, kind: SiteKind::Allocation, apart: None, frames: vec![frame] }
}

fn mentions(section: &[u8], name: &str) -> bool {
    // In a formula, or where a call is, of which there may be several numbers.
    let call = &name[..name.find(['#', '+']).unwrap_or(name.len())];
    [format!("u {name} "), format!("\t{call}\t")]
        .iter()
        .any(|word| section.windows(word.len()).any(|w| w == word.as_bytes()))
}

fn heap_site(path: &[u32], table: &annotated::Table, source: &Module) -> Site {
    let frame = |&p: &u32| Frame {
        module: Some(source.clone()),
        offset: p.into(),
        source: table.line(p.into()).into_iter().collect(),
    };
    let id = SiteId(identity::path_id(path.iter().copied()));
    Site { id, kind: SiteKind::Allocation, apart: None, frames: path.iter().map(frame).collect() }
}

fn variable_site(name: &str, module: &Module) -> Site {
    // Without the file that has it to itself.
    let name = name.rsplit('/').next().unwrap_or(name);
    let line = SourceLine::named(name);
    let frame = Frame { module: Some(module.clone()), offset: 0, source: vec![line] };
    let id = SiteId(identity::static_id(module.path.as_bytes(), name.as_bytes(), 0));
    Site { id, kind: SiteKind::Static, apart: None, frames: vec![frame] }
}

/// Chunks of a large object, and how much of a variable is ever asked for: nothing, unless the text tells where most of its lines are. The others are taken to lie
/// where those do.
fn in_parts(o: &Object, loads: f64, stores: f64) -> (Vec<Chunk>, Option<Bytes>) {
    let (Some(size), 1.0) = (o.bytes, o.number.round()) else { return (vec![], None) };
    if o.parts.stretches.is_empty() || o.parts.elsewhere > LOCATED * o.asked.lines() {
        return (vec![], None);
    }
    let there: f64 = o.parts.stretches.iter().map(|(a, b)| b - a).sum();
    // A variable is as large as the largest problem.
    let whole = o.parts.elsewhere > 0.0 || o.parts.given_away;
    let resident = (matches!(o.kind, Kind::Variable(_)) && !whole).then_some(Bytes(there as u64));
    let size = Bytes(size as u64);
    let sum: f64 = o.parts.chunks.iter().flatten().sum();
    let Some(class) = SizeClass::of(size).filter(|_| sum > 0.0) else { return (vec![], resident) };
    let [all_loads, all_stores] = [0, 1].map(|how| o.parts.chunks.iter().map(|c| c[how]).sum::<f64>());
    let of = |lines: f64, all: f64, misses: f64| if all > 0.0 { lines / all * misses } else { 0.0 };
    let chunk = |at: ChunkAt| -> Chunk {
        let [l, s] = o.parts.chunks[at.number()];
        Chunk {
            class: class.least(),
            offset: at.offset(),
            size: class.chunk(),
            peak: at.of(size),
            resident: None,
            load_misses: of(l, all_loads, loads),
            store_misses: of(s, all_stores, stores),
            // Not by chance.
            samples: ((l + s) / sum * SAMPLES).round() as u64,
        }
    };
    (class.all().filter(|at| at.offset() < size).map(chunk).collect(), resident)
}

/// What a profile of such a run would be, and how many sites nothing asks for as far as the text tells.
fn observed(command: Vec<String>, all: &[&Object], sites: Vec<Site>, llc: f64) -> (Observed, usize) {
    let size = |o: &Object| o.alive().unwrap_or(UNKNOWN_SIZE);
    // In the whole run, which is the unit of time here. Walked over and jumped about in, it takes its room in the cache once.
    let uses = |o: &Object| -> Vec<cache::Use> {
        let lines = (size(o) / 64.0).max(1.0);
        let [walks, jumps] = [0, 1].map(|how| o.asked.load_lines[how] + o.asked.store_lines[how]);
        vec![cache::Use { lines, reuse: Reuse { lambda: (walks + jumps) / lines, even: walks >= jumps } }]
    };
    let all_uses: Vec<Vec<cache::Use>> = all.iter().map(|o| uses(o)).collect();
    let tc = cache::characteristic_time(&all_uses, llc / 64.0);
    let mut missed: Vec<f64> = all_uses.iter().map(|u| u.iter().map(|u| u.reuse.missed(tc)).sum()).collect();
    // Where all of it fits into the cache, a plan by what is asked of the cache is better than none.
    if missed.iter().all(|m| *m < 1e-6) {
        missed.fill(1.0);
    }
    let asked: Vec<f64> = all.iter().map(|o| o.asked.lines()).collect();
    let unasked = asked.iter().filter(|a| **a == 0.0).count();
    let mean = asked.iter().sum::<f64>() / (asked.len() - unasked).max(1) as f64;
    let accesses: f64 = all.iter().map(|o| o.asked.loads + o.asked.stores).sum();
    let misses: f64 = asked.iter().zip(&missed).map(|(a, m)| a * m).sum();
    // Long enough for what it computes; what it waits for the planner adds.
    let duration = Nanos(((accesses * ACCESS_NS + misses) as u64).max(1_000_000));
    // Objects come in the order in which they are first made, so that whoever asks what an over-full plan does knows who was first.
    let one = |(n, site): (usize, Site)| {
        let (o, asked, missed) = (all[n], &asked[n], missed[n]);
        let sum = |lines: &[f64; 2]| lines[0] + lines[1];
        let (loads, stores) = match *asked {
            0.0 => (mean, 0.0),
            _ => (sum(&o.asked.load_lines) * missed, sum(&o.asked.store_lines) * missed),
        };
        let walks = o.asked.load_lines[0] + o.asked.store_lines[0];
        let pattern = match walks / asked {
            _ if *asked == 0.0 => Pattern::Unknown,
            share if share > 0.8 => Pattern::Stream { stride: 8 },
            share if share < 0.2 => Pattern::Random,
            _ => Pattern::Mixed,
        };
        let number = o.number.max(1.0).round();
        let peak = Bytes(size(o) as u64);
        let (chunks, resident) = in_parts(o, loads, stores);
        SiteUse {
            site,
            objects: number as u64,
            largest: Bytes(o.bytes.unwrap_or(UNKNOWN_SIZE) as u64),
            peak,
            allocated: peak,
            resident,
            first_alloc: Nanos(n as u64),
            last_free: duration,
            mean_lifetime: duration,
            total_lifetime: Nanos((duration.0 as f64 * number) as u64),
            load_misses: loads,
            store_misses: stores,
            samples: 0,
            pattern,
            miss_latency: None,
            lines: None,
            chunks,
            lives: vec![],
            starts: vec![],
            nodes: vec![],
            placed: vec![],
        }
    };
    let mut sites: Vec<SiteUse> = sites.into_iter().enumerate().map(one).collect();
    sites.sort_by(|a, b| b.misses().total_cmp(&a.misses()).then(a.site.id.cmp(&b.site.id)));
    let timeline = vec![TimePoint {
        at: Nanos(0),
        live: sites.iter().map(|s| (s.site.id, s.peak)).collect(),
        misses: sites.iter().map(|s| (s.site.id, s.misses())).collect(),
        resident: vec![],
        huge: Bytes(0),
    }];
    let observed = Observed {
        command,
        started: 0,
        duration,
        outcome: "not run".to_string(),
        threshold: Bytes(LEAST as u64),
        sampler: SAMPLER.to_string(),
        sampler_error: "reckoned from the source, not measured".to_string(),
        processes: 1,
        platform: None,
        sites,
        unattributed: 0.0,
        elsewhere: vec![],
        rest: None,
        timeline,
        watched: None,
        fullest: None,
        most_anonymous: None,
        losses: vec![],
        touches: vec![],
        declared: vec![],
        regions: vec![],
        tiers: vec![],
    };
    (observed, unasked)
}
