//! `hearth plan`: from a profile to a plan: which site goes to which tier.

use crate::output;
use anyhow::{Context, Result, anyhow, bail};
use model::{Bytes, Coefficients, Forecast, Observed, Plan, Platform};
use policy::policies::bandwidth_aware::Thresholds;
use policy::travel::{self, Merge};
use policy::{
    Capacity, MayUse, Options, Policy, SizeBy, Summary, Task, assemble, forecast, plan_file, policies, tiers,
};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Decides which of a program's data objects go to which memory
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// A profile, as written by `hearth record`; of several runs or ranks of one program several, see --merge
    #[arg(required_unless_present_any = ["list", "static"], conflicts_with = "static")]
    profile: Vec<PathBuf>,
    /// Plan without a profile, by what hearth-cc has written into the program about its loops, for these arguments
    #[arg(long = "static", requires = "command")]
    #[arg(id = "static", conflicts_with_all = ["sizes", "traits"])]
    by_text: bool,
    /// What to take for something that --static cannot know, by file and line; may be given several times
    #[arg(long, value_name = "FILE:LINE=N", value_parser = named_number, requires = "static")]
    with: Vec<(String, f64)>,
    /// With --static: the program and its arguments
    #[arg(last = true, value_name = "COMMAND", requires = "static")]
    command: Vec<String>,
    /// How several profiles become one: the mean of runs of their own, or the sum of ranks that ran together
    #[arg(long, value_name = "mean|sum", default_value = "mean")]
    merge: Merge,
    /// Plan for a run of other sizes: misses per byte of each site from the profile, bytes from this one, for which
    /// `hearth record --sampler none` of the larger run is enough, or of its beginning
    #[arg(long, value_name = "PROFILE")]
    sizes: Option<PathBuf>,
    /// Capacity of the fastest tier: a size, or a share of the program's peak such as 50%
    #[arg(long, value_name = "SIZE")]
    fast: Option<Capacity>,
    /// Plan for another machine: a platform by name (see `hearth platform --list`), or the path of a platform file
    #[arg(long, value_name = "NAME|FILE")]
    platform: Option<String>,
    /// Change one value of the platform, for example cxl.latency=250ns; may be given several times
    #[arg(long, value_name = "TIER.FIELD=VALUE")]
    set: Vec<String>,
    /// Capacity of any tier by name; may be given several times
    #[arg(long, value_name = "TIER=SIZE", value_parser = capacity)]
    capacity: Vec<(String, Capacity)>,
    /// What a load miss and a store miss cost in a tier; may be given several times
    #[arg(long, value_name = "TIER=LOAD,STORE", value_parser = coefficients)]
    coefficient: Vec<(String, Coefficients)>,
    /// Which size of a site counts against a capacity
    #[arg(long, value_name = "SIZE", default_value = "peak")]
    size: Size,
    /// The policy that decides [default: density; with --static: exact]
    #[arg(long, value_name = "NAME")]
    policy: Option<String>,
    /// Thresholds of the policy bandwidth-aware: allocations, and shares of the slow memory's peak bandwidth
    #[arg(long, value_name = "ALLOC,LOW%,HIGH%", default_value = "2,20%,40%", value_parser = thresholds)]
    thresholds: Thresholds,
    /// Write the plan to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// List the policies, each with its source
    #[arg(long, exclusive = true)]
    list: bool,
    #[command(flatten)]
    instead: Instead,
}

/// What is shown instead of a plan.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Instead {
    /// Show what every policy is predicted to do, side by side, instead of a plan
    #[arg(long)]
    compare: bool,
    /// Show predicted slowdown against the capacity of fast memory, from 0 to 100 % of the peak; knees are marked. With -o
    /// FILE.html as a page
    #[arg(long)]
    curve: bool,
    /// Say why this site (the first digits of its id) is where it is, and what it would cost elsewhere
    #[arg(long, value_name = "SITE")]
    explain: Option<String>,
    /// Show what the plan would do on other machines, each by its figures and with --fast of it; may be given several
    /// times. --set changes the one that --platform names
    #[arg(long, value_name = "NAME|FILE")]
    what_if: Vec<String>,
    /// Print recommended traits for each allocation, as C source to paste (H2M)
    #[arg(long)]
    traits: bool,
}

impl Instead {
    fn any(&self) -> bool {
        self.compare || self.curve || self.explain.is_some() || !self.what_if.is_empty() || self.traits
    }
}

const EXAMPLES: &str = "\
EXAMPLES
  hearth plan app.hearth --fast 12GiB -o plan.toml       12 GiB of fast memory on this machine
  hearth plan app.hearth --fast 50% -o plan.toml         half of what the program needs
  hearth plan app.hearth --platform knl-7210-flat-snc4   for another machine, with its capacities
  hearth plan app.hearth --capacity hbm=8GiB --capacity dram=64GiB
  hearth plan app.hearth --fast 4GiB --coefficient pmem=185,900
  hearth plan --list
  hearth plan app.hearth --fast 25% --compare            every policy and what it is predicted to do
  hearth plan app.hearth --platform cxl-expander --curve how much fast memory does it need? (-o curve.html: as a page)
  hearth plan app.hearth --fast 25% --explain 1a2b       why is this site where it is?
  hearth plan app.hearth --fast 25% --what-if cxl-expander --what-if xeon-max-9480
  hearth plan app.hearth --traits                        traits to paste above each allocation
  hearth plan rank-*.hearth --merge sum --fast 12GiB     ranks of one job, recorded one by one
  hearth plan small.hearth --sizes large.hearth --fast 12GiB
  hearth plan --static --fast 12GiB -o plan.toml -- ./app 64   no profile: by the program's text

A summary goes to standard error. The plan is TOML: read it, edit it, compare it, then
  hearth run --plan plan.toml -- COMMAND";

/// Of what `--static` cannot know so many are named.
const MOST_UNKNOWNS: usize = 8;

/// Which size of a site counts.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Size {
    /// Most bytes alive at one moment
    Peak,
    /// Most bytes resident where that was read, else the peak
    Resident,
}

/// Runs the verb.
pub fn run(args: Args) -> Result<ExitCode> {
    if args.list {
        output::print(&list())?;
        return Ok(ExitCode::SUCCESS);
    }
    // What no output may overwrite.
    let inputs: &Path = args.profile.first().map_or_else(|| Path::new(&args.command[0]), PathBuf::as_path);
    // What is guessed of a whole object may be far off; hot parts are told well (bench/results/static.md).
    let usual = if args.by_text { "exact" } else { policies::ALL[0].name() };
    let policy = policies::find(args.policy.as_deref().unwrap_or(usual))?;
    let mut options = Options {
        fast: args.fast,
        capacities: by_tier(args.capacity, "--capacity")?,
        coefficients: by_tier(args.coefficient, "--coefficient")?,
        size: match args.size {
            Size::Peak => SizeBy::Peak,
            Size::Resident => SizeBy::Resident,
        },
        thresholds: args.thresholds,
        may_use: MayUse::default(),
    };
    let (observed, mut said) = match args.by_text {
        true => foreseen(&args.command, &args.with, &machine(args.platform.as_deref(), &args.set)?)?,
        false => observed(&args.profile, args.merge, args.sizes.as_deref())?,
    };
    if let Some((may_use, note)) = text_of(&observed) {
        options.may_use = may_use;
        said.push(note);
    }
    for note in said {
        eprintln!("hearth: {note}");
    }
    if args.instead.any() {
        let text = shown(
            &args.instead,
            &observed,
            policy,
            &options,
            args.platform.as_deref(),
            &args.set,
            args.output.as_deref(),
        )?;
        match &args.output {
            Some(file) => output::write(file, &text, inputs)?,
            None => output::print(&text)?,
        }
        return Ok(ExitCode::SUCCESS);
    }
    let platform = machine(args.platform.as_deref(), &args.set)?;

    let task = Task::new(&observed, &platform, &options)?;
    let decision = policy.decision(&task)?;
    let notes = decision.notes.clone();
    let plan = assemble(policy.name(), &task, decision);
    let text = plan_file::to_toml(&plan);
    match &args.output {
        Some(file) => output::write(file, &text, inputs)?,
        None => output::print(&text)?,
    }
    eprint!("{}", summary(policy, &plan, &observed, &platform, options.size));
    if let Some(note) = left(&task) {
        eprintln!("  {note}");
    }
    for note in notes {
        eprintln!("  {note}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The profiles as one, at these sizes, and what the user should know of it.
fn observed(files: &[PathBuf], merge: Merge, sizes: Option<&Path>) -> Result<(Observed, Vec<String>)> {
    let open = |file: &Path| -> Result<Observed> { Ok(profile::open(file)?.observed()?) };
    let all = files.iter().map(|f| open(f)).collect::<Result<Vec<_>>>()?;
    let (mut observed, mut said) = match &all[..] {
        [only] => (only.clone(), Vec::new()),
        [first, others @ ..] => travel::merge(first, others, merge)?,
        [] => bail!("name a profile"),
    };
    if let Some(file) = sizes {
        let (resized, more) = travel::resized(&observed, &open(file)?)?;
        observed = resized;
        said.extend(more);
    }
    Ok((observed, said))
}

/// What the text of the profiled program says of its phases, if it has marks or operations of MPI, says so, and is still the one that was profiled.
fn text_of(observed: &Observed) -> Option<(MayUse, String)> {
    let regions = observed
        .regions
        .iter()
        .any(|r| r.frames.iter().any(|f| f.is_name() || f.module.as_ref().is_some_and(|m| m.is_source())));
    let mut frames = observed.sites.iter().flat_map(|s| &s.site.frames).filter_map(|f| f.module.as_ref());
    let module = frames.find(|m| regions && m.is_source())?;
    let program = Path::new(module.file()?);
    let now = record::rebuilt::identity(program).ok().filter(|now| now.build_id == module.build_id)?;
    // Of `mpirun -np 2 ./app 64` the program's arguments are those behind its name.
    let name = Path::new(&now.path).file_name()?;
    let at = observed.command.iter().position(|word| Path::new(word).file_name() == Some(name))?;
    let any = observed.platform.clone().or_else(|| machine(None, &[]).ok())?;
    let foreseen = counts::foresee(program, &observed.command[at + 1..], &BTreeMap::new(), &any).ok()?;
    let may_use = foreseen.may_use();
    let phases = may_use.phases.len();
    let note = format!("{} says itself which objects {phases} of its phases may use", program.display());
    (phases > 0).then_some((may_use, note))
}

fn sites(count: usize) -> &'static str {
    if count == 1 { "site" } else { "sites" }
}

/// What is so of a program that was not gone through to its end.
const CUT: &str = "part of its calls were followed (there are too many, or a recursion has no end that can be seen)";

/// What the program's text says, and what had to be assumed.
fn foreseen(command: &[String], with: &[(String, f64)], machine: &Platform) -> Result<(Observed, Vec<String>)> {
    let (program, arguments) = command.split_first().context("name the program after --")?;
    let with: BTreeMap<String, f64> = with.iter().cloned().collect();
    let found = record::program::check(program.as_ref())?;
    let foreseen = counts::foresee(&found, arguments, &with, machine).map_err(|e| anyhow!(e))?;
    if foreseen.observed.sites.is_empty() {
        let unknown = |u: &counts::Unknown| format!("{} (taken for {:.0})", u.name, u.taken);
        let unknowns: Vec<String> = foreseen.unknowns.iter().take(MOST_UNKNOWNS).map(unknown).collect();
        let remedy = match foreseen.unknowns.first() {
            Some(first) => format!(
                "what is not known before it runs may be larger: {}; say --with {}=N",
                unknowns.join(", "),
                first.name
            ),
            None => "give it the arguments of a real run behind --, or record a profile instead".to_string(),
        };
        let cut = if foreseen.cut { format!(", as far as {CUT}") } else { String::new() };
        bail!("by its source {program} has nothing of 4 KiB or more to place{cut}; {remedy}");
    }
    let mut said =
        vec![format!("reckoned from the source of {program}, not measured; `hearth record` tells what it does")];
    if foreseen.cut {
        said.push(format!("only {CUT}"));
    }
    if foreseen.sizes_unknown > 0 {
        let n = foreseen.sizes_unknown;
        let by = foreseen.unknowns.iter().filter(|u| u.sizes && u.taken == 0.0).take(MOST_UNKNOWNS);
        let by: Vec<String> = by.map(|u| format!("--with {}=N", u.name)).collect();
        let remedy = if by.is_empty() { String::new() } else { format!(": {}", by.join(" ")) };
        said.push(format!("the size of {n} {} is not known, and taken for 1 MiB{remedy}", sites(n)));
    }
    if foreseen.unasked > 0 {
        let n = foreseen.unasked;
        said.push(format!(
            "no access to {n} {} was found; taken to be asked for as often as others are, so that the small ones go first",
            sites(n)
        ));
    }
    for u in foreseen.unknowns.iter().filter(|u| u.share >= 0.01).take(MOST_UNKNOWNS) {
        said.push(format!(
            "{} is not known before the program runs{} ({:.0}% of all that is asked for rests on it): --with {}=N",
            u.name,
            if u.taken == 0.0 { String::new() } else { format!(" and taken for {:.0}", u.taken) },
            u.share * 100.0,
            u.name
        ));
    }
    Ok((foreseen.observed, said))
}

/// What the plan leaves of the fastest tier, unless the user said how much to use.
fn left(task: &Task<'_>) -> Option<String> {
    let (fastest, options) = (task.tiers.first()?, task.options);
    let capacity = fastest.tier.capacity.filter(|_| options.fast.is_none())?.value;
    let left = tiers::left(task.observed, capacity, task.home() == 0);
    let to = match task.home() {
        0 => "what no plan places: small objects, stacks, libraries' data, page tables",
        _ => "the kernel",
    };
    (left.0 > 0 && !options.capacities.contains_key(&fastest.tier.name))
        .then(|| format!("{left} of {} are left to {to}.", fastest.tier.name))
}

/// The platform to plan for, or to place on.
pub fn machine(name: Option<&str>, set: &[String]) -> Result<Platform> {
    let mut platform = match name {
        Some(name) => platform::load(name)?,
        None => platform::discover().context("this machine's memories cannot be found; name one with --platform")?,
    };
    platform::apply_overrides(&mut platform, set)?;
    Ok(platform)
}

/// What is shown instead of a plan.
fn shown(
    instead: &Instead,
    observed: &Observed,
    policy: &dyn Policy,
    options: &Options,
    name: Option<&str>,
    set: &[String],
    output: Option<&Path>,
) -> Result<String> {
    let width = output::width();
    if instead.traits {
        if observed.sites.is_empty() {
            bail!(policy::Error::NoSites { threshold: observed.threshold });
        }
        policy::cost::demand::require_samples(observed)?;
        return Ok(policy::traits::source(observed));
    }
    if !instead.what_if.is_empty() {
        let of = |name: &str, set: &[String]| -> Result<Forecast> {
            Ok(forecast::of(observed, &machine(Some(name), set)?, options, policy)?)
        };
        let mut all: Vec<Forecast> = Vec::new();
        if let Some(name) = name {
            all.push(of(name, set)?);
        }
        for name in &instead.what_if {
            all.push(of(name, &[])?);
        }
        return Ok(report::machines(&all, width));
    }
    let platform = machine(name, set)?;
    if let Some(prefix) = &instead.explain {
        let site = report::find(observed, prefix)?;
        return Ok(report::explanation(&forecast::explain(observed, &platform, options, policy, site.site.id)?, width));
    }
    if instead.curve {
        let curve = forecast::curve(observed, &platform, options, policy)?;
        let page = output.and_then(Path::extension).is_some_and(|e| e == "html");
        return Ok(if page { report::curve_page(&curve) } else { report::curve(&curve, width) });
    }
    Ok(report::forecast(&forecast::compare(observed, &platform, options)?, width))
}

fn list() -> String {
    policies::ALL.iter().map(|p| format!("{:<15}  {}\n{:15}  {}\n", p.name(), p.summary(), "", p.source())).collect()
}

/// What the plan does, for standard error.
fn summary(policy: &dyn Policy, plan: &Plan, observed: &Observed, platform: &Platform, size: SizeBy) -> String {
    let summary = Summary::of(plan, Some(&tiers::split(platform)), size);
    let name = summary.tiers.iter().map(|t| t.name.len()).max().unwrap_or(0);
    let mut out = format!("hearth: {} for {}: {}\n", policy.name(), plan.platform, policy.summary());
    for tier in &summary.tiers {
        let of = tier.budget.map_or_else(String::new, |b: Bytes| format!(" of {b}"));
        let sites = sites(tier.sites);
        out += &format!(
            "  {:name$}  {:>6} of misses (predicted)  {:>8}{of} in {} {sites}\n",
            tier.name,
            format!("~{:.1}%", tier.miss_share * 100.0),
            tier.bytes,
            tier.sites,
        );
    }
    if observed.unattributed >= 0.001 {
        out += &format!(
            "  {:.1}% of the samples hit no recorded object and are not planned for.\n",
            observed.unattributed * 100.0
        );
    }
    for note in &summary.notes {
        out += &format!("  {note}\n");
    }
    out
}

/// `TIER=SIZE`.
fn capacity(text: &str) -> Result<(String, Capacity), String> {
    let (tier, size) = text.split_once('=').ok_or("write TIER=SIZE, for example dram=12GiB")?;
    Ok((tier.to_string(), size.parse().map_err(|e: policy::Error| e.to_string())?))
}

/// `TIER=LOAD,STORE`.
fn coefficients(text: &str) -> Result<(String, Coefficients), String> {
    let usage = "write TIER=LOAD,STORE, for example pmem=185,900";
    let (tier, pair) = text.split_once('=').ok_or(usage)?;
    let (load, store) = pair.split_once(',').ok_or(usage)?;
    let number = |n: &str| n.trim().parse::<f64>().map_err(|_| format!("`{n}` is not a number; {usage}"));
    Ok((tier.to_string(), Coefficients { load: number(load)?, store: number(store)? }))
}

/// `FILE:LINE=N`.
fn named_number(text: &str) -> Result<(String, f64), String> {
    let usage = "write FILE:LINE=N, for example solver.c:40=100";
    let (name, number) = text.rsplit_once('=').ok_or(usage)?;
    let number = number.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    Ok((name.to_string(), number.ok_or_else(|| format!("`{text}` has no number of at least 0; {usage}"))?))
}

/// `ALLOC,LOW%,HIGH%`.
fn thresholds(text: &str) -> Result<Thresholds, String> {
    let bad = || "write ALLOC,LOW%,HIGH%, for example 2,20%,40%".to_string();
    let share = |t: &str| t.trim().strip_suffix('%').and_then(|p| p.trim().parse::<f64>().ok()).map(|p| p / 100.0);
    let [allocations, low, high] = text.split(',').collect::<Vec<_>>()[..] else { return Err(bad()) };
    let allocations = allocations.trim().parse().map_err(|_| bad())?;
    Ok(Thresholds { allocations, low: share(low).ok_or_else(bad)?, high: share(high).ok_or_else(bad)? })
}

/// Pairs as a map; no tier twice, since one of the two would be ignored.
fn by_tier<T>(pairs: Vec<(String, T)>, option: &str) -> Result<BTreeMap<String, T>> {
    let mut map = BTreeMap::new();
    for (tier, value) in pairs {
        if map.contains_key(&tier) {
            bail!("{option} is given twice for tier `{tier}`; leave one out");
        }
        map.insert(tier, value);
    }
    Ok(map)
}
