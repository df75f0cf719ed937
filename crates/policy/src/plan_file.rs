//! The plan file: TOML that a person can read, edit and diff. `docs/plan.md` describes it.
//!
//! Written by hand rather than by a serialiser, because half of the file is for people: comments, sizes with units,
//! and frames as one line each in binary and source form. Read with spans, so that every error names its line.

use model::plan::PLAN_VERSION;
use model::{
    Bytes, Frame, Module, Plan, PlannedMove, PlannedPhase, PlannedSite, PlannedTier, SiteId, SiteKind, SourceLine,
    Split,
};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml_writer::{ToTomlValue, TomlStringBuilder};

/// The last line of every plan, so that a plan that was cut off is not taken for a shorter one.
const LAST_LINE: &str = "# end of plan";

/// Between binary and source form of a frame.
const GAP: &str = "  ";
/// Begins a line of `frames` that belongs to the frame above it: a function it was inlined into.
const INLINED: &str = "  inlined into  ";
/// Between function and file of a source form. No demangler writes it into a function's name.
const AT: &str = " @ ";

/// Why a plan could not be read: one sentence, with file and line where there are any.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanError {
    /// The file; none when reading from a string.
    pub path: Option<PathBuf>,
    /// Line, from 1.
    pub line: Option<usize>,
    /// What is wrong and how to mend it.
    pub problem: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("the plan")?,
        }
        match self.line {
            Some(line) => write!(f, ", line {line}: {}", self.problem),
            None => write!(f, ": {}", self.problem),
        }
    }
}

impl std::error::Error for PlanError {}

/// Reads the plan in this file.
///
/// Errors: no such file, not a plan, cut off, of a newer Hearth, or contradicting itself.
pub fn read(path: &Path) -> Result<Plan, PlanError> {
    let fail = |problem: String| PlanError { path: Some(path.to_path_buf()), line: None, problem };
    let bytes = std::fs::read(path).map_err(|e| fail(format!("cannot read the plan: {e}")))?;
    if bytes.starts_with(b"SQLite format 3\0") {
        return Err(fail("this is a profile, not a plan; make a plan of it with `hearth plan`".to_string()));
    }
    let text = String::from_utf8(bytes).map_err(|_| fail("this is not a Hearth plan: it is not text".to_string()))?;
    from_toml(&text).map_err(|e| PlanError { path: Some(path.to_path_buf()), ..e })
}

// ---------------------------------------------------------------------------------------------------- writing

/// The plan as TOML. [`from_toml`] gives it back unchanged.
pub fn to_toml(plan: &Plan) -> String {
    let mut out = String::new();
    let modules = ModuleNames::of(plan);
    // Writing to a string cannot fail.
    let _ = write_all(&mut out, plan, &modules);
    out
}

fn write_all(out: &mut String, plan: &Plan, modules: &ModuleNames) -> fmt::Result {
    out.push_str(
        "\
# A Hearth plan: which memory each allocation site of a program goes to.
# Use it with:  hearth run --plan THIS-FILE -- COMMAND
#
# You may edit it: change the `tier` of a site to the name of another [[tier]], change a `budget`, or delete sites
# (they then go to `default_tier`). Tiers are listed fastest first, sites hottest first within each tier.
# `parts = \"24/64\"` with `rest = \"TIER\"` splits each object of a site: so many of its 64 parts go to `tier`.
# A [[phase]] says where the objects of some sites are once it begins; the `tier` of a site is where they are at first.
# `idle = true`: the phase does not use the site, so that it can be moved beside it.
# Sizes are bytes, or texts such as \"12 GiB\". `why`, `label` and `miss_share` explain; they decide nothing.

",
    );
    writeln!(out, "version = {}", plan.version)?;
    writeln!(out, "policy = {}", quoted(&plan.policy))?;
    writeln!(out, "command = {}", list(plan.command.iter().map(|a| quoted(a))))?;
    writeln!(out, "platform = {}", quoted(&plan.platform))?;
    writeln!(out, "threshold = {}  # smallest allocation that was recorded", size(plan.threshold))?;
    writeln!(out, "default_tier = {}  # for sites not listed here", quoted(&plan.default_tier))?;
    for tier in &plan.tiers {
        writeln!(out, "\n[[tier]]")?;
        writeln!(out, "name = {}", quoted(&tier.name))?;
        writeln!(out, "nodes = {}", list(tier.nodes.iter().map(u32::to_string)))?;
        if let Some(dir) = &tier.dir {
            writeln!(out, "dir = {}", quoted(&dir.to_string_lossy()))?;
        }
        if let Some(budget) = tier.budget {
            writeln!(out, "budget = {}", size(budget))?;
        }
    }
    for site in &plan.sites {
        writeln!(out, "\n[[site]]")?;
        writeln!(out, "id = {}", quoted(&site.id.to_string()))?;
        if site.kind != SiteKind::Allocation {
            writeln!(out, "kind = {}", quoted(site.kind.name()))?;
        }
        writeln!(out, "label = {}", quoted(&site.label))?;
        writeln!(out, "tier = {}", quoted(&site.tier))?;
        if let Some(split) = &site.split {
            let parts = quoted(&split.parts.to_string());
            writeln!(out, "parts = {parts}  # of each object; the others go to `rest`")?;
            writeln!(out, "rest = {}", quoted(&split.rest))?;
        }
        writeln!(out, "why = {}", quoted(&site.why))?;
        writeln!(out, "miss_share = {}", decimal(site.miss_share))?;
        writeln!(out, "peak = {}", size(site.peak))?;
        if let Some(resident) = site.resident {
            writeln!(out, "resident = {}", size(resident))?;
        }
        write_frames(out, &site.frames, modules)?;
    }
    for phase in &plan.phases {
        writeln!(out, "\n[[phase]]")?;
        let label = |id| plan.sites.iter().find(|s| s.id == id).map_or("", |s| &s.label).replace(char::is_control, " ");
        let with = match phase.frames.as_slice() {
            [frame] if frame.is_name() => "the program says this name (hearth_phase)".to_string(),
            [_, ..] if phase.is_of_mpi() => "an operation of MPI, called from here".to_string(),
            [_, ..] => "a parallel region of the function below".to_string(),
            [] => format!("an allocation of {}", label(phase.begins)),
        };
        writeln!(out, "begins = {}  # {with}", quoted(&phase.begins.to_string()))?;
        writeln!(out, "number = {}  # which one of them", phase.number)?;
        if let Some(every) = phase.every {
            writeln!(out, "every = {every}  # and again with each so many after it")?;
        }
        if !phase.frames.is_empty() {
            write_frames(out, &phase.frames, modules)?;
        }
        writeln!(out, "move = [  # first to last")?;
        for m in &phase.moves {
            let (site, tier) = (quoted(&m.site.to_string()), quoted(&m.tier));
            let split = m.split.as_ref().map_or(String::new(), |s| {
                format!(", parts = {}, rest = {}", quoted(&s.parts.to_string()), quoted(&s.rest))
            });
            let idle = if m.idle { ", idle = true" } else { "" };
            writeln!(out, "    {{ site = {site}, tier = {tier}{split}{idle} }},  # {}", label(m.site))?;
        }
        writeln!(out, "]")?;
    }
    for (module, name) in &modules.in_order {
        writeln!(out, "\n[[module]]")?;
        writeln!(out, "name = {}", quoted(name))?;
        writeln!(out, "path = {}", quoted(&module.path))?;
        writeln!(out, "build_id = {}", quoted(&module.build_id))?;
    }
    writeln!(out, "\n{LAST_LINE}")
}

fn write_frames(out: &mut String, frames: &[Frame], modules: &ModuleNames) -> fmt::Result {
    let lines: Vec<String> = frames.iter().flat_map(|f| frame_lines(f, modules)).collect();
    if lines.is_empty() {
        return writeln!(out, "frames = []");
    }
    writeln!(out, "frames = [")?;
    for line in lines {
        writeln!(out, "    {},", quoted(&line))?;
    }
    writeln!(out, "]")
}

fn quoted(text: &str) -> String {
    TomlStringBuilder::new(text).as_basic().to_toml_value()
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// A size exactly: `"12 GiB"` where a unit of which it is a whole number reads well, else the bytes with a comment.
fn size(bytes: Bytes) -> String {
    let readable = bytes.to_string();
    match readable.parse::<Bytes>() {
        Ok(back) if back == bytes => format!("\"{readable}\""),
        _ => {
            let digits = bytes.0.to_string();
            let groups: Vec<&str> =
                digits.as_bytes().rchunks(3).rev().map(|g| std::str::from_utf8(g).unwrap_or("")).collect();
            format!("{}  # {readable}", groups.join("_"))
        }
    }
}

/// A number exactly, without an exponent.
fn decimal(x: f64) -> String {
    let text = x.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// One line for the frame itself and its innermost function, one for each function that one was inlined into.
fn frame_lines(frame: &Frame, modules: &ModuleNames) -> Vec<String> {
    let place = match &frame.module {
        Some(module) => format!("{}+{:#x}", modules.by_module[module], frame.offset),
        None => format!("{:#x}", frame.offset),
    };
    match frame.source.split_first() {
        None => vec![place],
        Some((innermost, outer)) => std::iter::once(format!("{place}{GAP}{}", source(innermost)))
            .chain(outer.iter().map(|l| format!("{INLINED}{}", source(l))))
            .collect(),
    }
}

/// `function @ file:line`, or `function` alone where the file is not known.
fn source(line: &SourceLine) -> String {
    let function = line.function.replace(AT, "@");
    if line.file.is_empty() && line.line == 0 { function } else { format!("{function}{AT}{}:{}", line.file, line.line) }
}

/// The short names frames call modules by: the file name, numbered where several modules have the same.
struct ModuleNames {
    in_order: Vec<(Module, String)>,
    by_module: HashMap<Module, String>,
}

impl ModuleNames {
    fn of(plan: &Plan) -> ModuleNames {
        let mut names = ModuleNames { in_order: Vec::new(), by_module: HashMap::new() };
        let mut taken: HashSet<String> = HashSet::new();
        let frames = plan.sites.iter().flat_map(|s| &s.frames).chain(plan.phases.iter().flat_map(|p| &p.frames));
        for module in frames.filter_map(|f| f.module.as_ref()) {
            if names.by_module.contains_key(module) {
                continue;
            }
            // A name is one word, since a gap ends it.
            let word = module.name().replace(char::is_whitespace, "_");
            let word = if word.is_empty() { "module".to_string() } else { word };
            let mut name = word.clone();
            for n in 2.. {
                if taken.insert(name.clone()) {
                    break;
                }
                name = format!("{word}#{n}");
            }
            names.in_order.push((module.clone(), name.clone()));
            names.by_module.insert(module.clone(), name);
        }
        names
    }
}

// ---------------------------------------------------------------------------------------------------- reading

/// Read first, alone: a newer version may have any other fields.
#[derive(Deserialize)]
struct Head {
    version: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTable {
    version: u32,
    policy: String,
    command: Vec<String>,
    platform: String,
    threshold: Bytes,
    default_tier: Spanned<String>,
    #[serde(default)]
    tier: Vec<TierTable>,
    #[serde(default)]
    module: Vec<ModuleTable>,
    #[serde(default)]
    site: Vec<SiteTable>,
    #[serde(default)]
    phase: Vec<PhaseTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PhaseTable {
    begins: Spanned<String>,
    number: Spanned<u64>,
    every: Option<Spanned<u64>>,
    frames: Option<Vec<Spanned<String>>>,
    #[serde(rename = "move")]
    moves: Vec<MoveTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MoveTable {
    site: Spanned<String>,
    tier: Spanned<String>,
    parts: Option<Spanned<String>>,
    rest: Option<Spanned<String>>,
    #[serde(default)]
    idle: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TierTable {
    name: Spanned<String>,
    #[serde(default)]
    nodes: Vec<u32>,
    dir: Option<PathBuf>,
    budget: Option<Spanned<Bytes>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModuleTable {
    name: Spanned<String>,
    path: String,
    build_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteTable {
    id: Spanned<String>,
    #[serde(default)]
    kind: SiteKind,
    #[serde(default)]
    label: String,
    tier: Spanned<String>,
    parts: Option<Spanned<String>>,
    rest: Option<Spanned<String>>,
    #[serde(default)]
    why: String,
    #[serde(default)]
    miss_share: f64,
    #[serde(default)]
    peak: Bytes,
    resident: Option<Bytes>,
    frames: Vec<Spanned<String>>,
}

/// Parses a plan.
///
/// Errors name the line, and leave [`PlanError::path`] to the caller.
pub fn from_toml(text: &str) -> Result<Plan, PlanError> {
    let line = |at: usize| Some(text[..at.min(text.len())].matches('\n').count() + 1);
    let fail = |at: Option<usize>, problem: String| PlanError { path: None, line: at.and_then(line), problem };
    let at = |span: std::ops::Range<usize>, problem: String| fail(Some(span.start), problem);

    let head: Head = toml::from_str(text).map_err(|e| {
        let problem = format!("this is not a Hearth plan, or a damaged one: {}", one_line(e.message()));
        fail(e.span().map(|s| s.start), problem)
    })?;
    match head.version {
        None => return Err(fail(None, "this is not a Hearth plan: it has no `version`".to_string())),
        Some(v) if *v.get_ref() > i64::from(PLAN_VERSION) => {
            let problem = format!(
                "this plan has version {}, and this Hearth reads up to version {PLAN_VERSION}; use a newer Hearth or make the plan again",
                v.get_ref()
            );
            return Err(at(v.span(), problem));
        }
        Some(v) if *v.get_ref() < 1 => {
            return Err(at(v.span(), format!("there is no version {} of plans", v.get_ref())));
        }
        Some(_) => {}
    }
    if text.trim_end().lines().next_back().map(str::trim) != Some(LAST_LINE) {
        let problem = format!("the plan was cut off: its last line is not `{LAST_LINE}`; make it again");
        return Err(fail(Some(text.len()), problem));
    }
    let file: FileTable = toml::from_str(text).map_err(|e| {
        let problem = format!("the plan is damaged: {}", one_line(e.message()));
        fail(e.span().map(|s| s.start), problem)
    })?;

    let tiers = tiers(file.tier).map_err(|(s, p)| at(s, p))?;
    let known = || tiers.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().join(", ");
    let has_tier = |name: &str| tiers.iter().any(|t| t.name == name);
    if !has_tier(file.default_tier.get_ref()) {
        let problem =
            format!("the default tier `{}` is none of the plan's tiers: {}", file.default_tier.get_ref(), known());
        return Err(at(file.default_tier.span(), problem));
    }
    let modules = modules(file.module).map_err(|(s, p)| at(s, p))?;

    let mut sites = Vec::with_capacity(file.site.len());
    let mut seen = HashSet::new();
    for site in file.site {
        let id: SiteId = site.id.get_ref().parse().map_err(|e| at(site.id.span(), e))?;
        if !seen.insert(id) {
            return Err(at(site.id.span(), format!("site {id} is listed twice; delete one of the two")));
        }
        if !has_tier(site.tier.get_ref()) {
            let problem = format!("there is no tier `{}` in this plan; it has: {}", site.tier.get_ref(), known());
            return Err(at(site.tier.span(), problem));
        }
        let split = split(&site.tier, &site.parts, &site.rest, &has_tier, &known).map_err(|(s, p)| at(s, p))?;
        sites.push(PlannedSite {
            id,
            split,
            kind: site.kind,
            label: site.label,
            tier: site.tier.into_inner(),
            why: site.why,
            miss_share: site.miss_share,
            peak: site.peak,
            resident: site.resident,
            frames: frames(&site.frames, &modules).map_err(|(s, p)| at(s, p))?,
        });
    }
    let phases = phases(file.phase, &sites, &modules, &has_tier, &known).map_err(|(s, p)| at(s, p))?;
    Ok(Plan {
        version: file.version,
        policy: file.policy,
        command: file.command,
        platform: file.platform,
        threshold: file.threshold,
        default_tier: file.default_tier.into_inner(),
        tiers,
        sites,
        phases,
    })
}

/// Where in the text, and what is wrong there.
type Fault = (std::ops::Range<usize>, String);

fn phases(
    tables: Vec<PhaseTable>,
    sites: &[PlannedSite],
    modules: &HashMap<String, Module>,
    has_tier: &dyn Fn(&str) -> bool,
    known: &dyn Fn() -> String,
) -> Result<Vec<PlannedPhase>, Fault> {
    let id = |text: &Spanned<String>| text.get_ref().parse::<SiteId>().map_err(|e| (text.span(), e));
    let moved = |m: MoveTable| -> Result<PlannedMove, Fault> {
        let (site, tier) = (id(&m.site)?, m.tier.get_ref());
        if !has_tier(tier) {
            return Err((m.tier.span(), format!("there is no tier `{tier}` in this plan; it has: {}", known())));
        }
        if sites.iter().any(|s| s.id == site && s.split.is_some()) {
            let problem = format!("site {site} is split, and no phase can move it; leave out its `parts` and `rest`");
            return Err((m.site.span(), problem));
        }
        let split = split(&m.tier, &m.parts, &m.rest, has_tier, known)?;
        Ok(PlannedMove { site, tier: tier.clone(), split, idle: m.idle })
    };
    let phase = |table: PhaseTable| -> Result<PlannedPhase, Fault> {
        let begins = id(&table.begins)?;
        if *table.number.get_ref() == 0 {
            return Err((table.number.span(), "regions and allocations are counted from 1".to_string()));
        }
        let every = match table.every {
            Some(every) => match NonZeroU64::new(*every.get_ref()) {
                Some(every) => Some(every),
                None => {
                    return Err((
                        every.span(),
                        "`every` is 1 or more; leave it out of a phase that begins once".to_string(),
                    ));
                }
            },
            None => None,
        };
        let frames = table.frames.map(|all| frames(&all, modules)).transpose()?;
        if frames.as_ref().is_some_and(Vec::is_empty) {
            let problem = "`frames` of a phase are its function or the call stack of an operation of MPI; leave them out of one that begins with an allocation";
            return Err((table.begins.span(), problem.to_string()));
        }
        let frames = frames.unwrap_or_default();
        let allocates = |s: &PlannedSite| s.id == begins && s.kind == SiteKind::Allocation;
        if frames.is_empty() && !sites.iter().any(allocates) {
            let problem = format!(
                "no site of this plan allocates as {begins}; a phase begins with an allocation of one, or with a parallel region whose function, or an operation of MPI whose call stack, is its `frames`"
            );
            return Err((table.begins.span(), problem));
        }
        let moves = table.moves.into_iter().map(moved).collect::<Result<_, _>>()?;
        Ok(PlannedPhase { begins, number: table.number.into_inner(), every, frames, moves })
    };
    tables.into_iter().map(phase).collect()
}

/// `parts` and `rest` of a site, or of a move, that go with its tier.
fn split(
    tier: &Spanned<String>,
    parts: &Option<Spanned<String>>,
    rest: &Option<Spanned<String>>,
    has_tier: &dyn Fn(&str) -> bool,
    known: &dyn Fn() -> String,
) -> Result<Option<Split>, Fault> {
    let (parts, rest) = match (parts, rest) {
        (None, None) => return Ok(None),
        (Some(parts), Some(rest)) => (parts, rest),
        (Some(one), None) | (None, Some(one)) => {
            let problem = "`parts` and `rest` belong together: give both, or neither".to_string();
            return Err((one.span(), problem));
        }
    };
    let name = rest.get_ref();
    if !has_tier(name) {
        return Err((rest.span(), format!("there is no tier `{name}` in this plan; it has: {}", known())));
    }
    if name == tier.get_ref() {
        return Err((rest.span(), format!("`rest` is `{name}`, as is `tier`; leave `parts` and `rest` out")));
    }
    let parts = parts.get_ref().parse().map_err(|e| (parts.span(), e))?;
    Ok(Some(Split { parts, rest: name.clone() }))
}

fn tiers(tables: Vec<TierTable>) -> Result<Vec<PlannedTier>, Fault> {
    let mut tiers: Vec<PlannedTier> = Vec::with_capacity(tables.len());
    for table in tables {
        if tiers.iter().any(|t| t.name == *table.name.get_ref()) {
            return Err((table.name.span(), format!("there are two tiers `{}`; rename one", table.name.get_ref())));
        }
        if let Some(budget) = table.budget.as_ref().filter(|b| *b.get_ref() == Bytes(0)) {
            let problem = format!("tier `{}` has a budget of 0; delete the line for no limit", table.name.get_ref());
            return Err((budget.span(), problem));
        }
        tiers.push(PlannedTier {
            name: table.name.into_inner(),
            nodes: table.nodes,
            dir: table.dir,
            budget: table.budget.map(Spanned::into_inner),
        });
    }
    Ok(tiers)
}

fn modules(tables: Vec<ModuleTable>) -> Result<HashMap<String, Module>, Fault> {
    let mut modules = HashMap::new();
    for table in tables {
        let span = table.name.span();
        let name = table.name.into_inner();
        let module = Module { path: table.path, build_id: table.build_id };
        if modules.insert(name.clone(), module).is_some() {
            return Err((span, format!("there are two modules `{name}`; rename one, and its frames")));
        }
    }
    Ok(modules)
}

/// The inverse of [`frame_lines`] over a whole stack.
fn frames(lines: &[Spanned<String>], modules: &HashMap<String, Module>) -> Result<Vec<Frame>, Fault> {
    let mut frames: Vec<Frame> = Vec::new();
    for spanned in lines {
        let line = spanned.get_ref().as_str();
        let fault = |problem: String| (spanned.span(), problem);
        if let Some(outer) = line.strip_prefix(INLINED) {
            match frames.last_mut() {
                Some(frame) if !frame.source.is_empty() => frame.source.push(parse_source(outer)),
                _ => return Err(fault("there is no frame above that this could have been inlined into".to_string())),
            }
            continue;
        }
        let (place, rest) = match line.split_once(GAP) {
            Some((place, rest)) => (place, Some(rest)),
            None => (line, None),
        };
        let not_a_frame = || fault(format!("`{place}` is not a frame; frames look like `module+0x12ab`"));
        let (name, digits) = match place.rsplit_once("+0x") {
            Some((name, digits)) => (Some(name), digits),
            None => (None, place.strip_prefix("0x").ok_or_else(not_a_frame)?),
        };
        let offset = u64::from_str_radix(digits, 16).map_err(|_| not_a_frame())?;
        let module = match name {
            None => None,
            Some(name) => Some(
                modules
                    .get(name)
                    .cloned()
                    .ok_or_else(|| fault(format!("no [[module]] of this plan is called `{name}`")))?,
            ),
        };
        frames.push(Frame { module, offset, source: rest.map(parse_source).into_iter().collect() });
    }
    Ok(frames)
}

/// The inverse of [`source`].
fn parse_source(text: &str) -> SourceLine {
    let known = text.split_once(AT).and_then(|(function, place)| {
        let (file, line) = place.rsplit_once(':')?;
        Some(SourceLine { function: function.to_string(), file: file.to_string(), line: line.parse().ok()?, column: 0 })
    });
    known.unwrap_or_else(|| SourceLine::named(text))
}

/// The TOML parser's messages as part of a sentence.
fn one_line(message: &str) -> String {
    message.trim().lines().map(str::trim).collect::<Vec<_>>().join(", ")
}
