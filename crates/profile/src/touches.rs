//! Sums the table `touch` up by site and function: which functions access what, and how long their loads took.

use crate::summary::unsigned;
use model::{Module, SiteId, SourceLine, Touch};
use rusqlite::{Connection, Result};
use std::collections::HashMap;

/// What is summed up of one function on one site.
#[derive(Default)]
struct Sum {
    loads: u64,
    stores: u64,
    misses: u64,
    timed: u64,
    latency_ns: u64,
    /// Samples of the instruction sampled most often, and its line.
    most: u64,
    file: String,
    line: u32,
}

/// Functions by site, most samples first; nothing from profiles of before version 3.
pub(crate) fn touches(
    db: &Connection,
    modules: &HashMap<i64, Module>,
    lines: &HashMap<(i64, i64), Vec<SourceLine>>,
    sites: &HashMap<i64, SiteId>,
) -> Result<Vec<Touch>> {
    if !db.table_exists(None, "touch")? {
        return Ok(Vec::new());
    }
    let mut sums: HashMap<(Option<SiteId>, String, String), Sum> = HashMap::new();
    let mut s = db.prepare("SELECT site, module, offset, loads, stores, misses, timed, latency_ns FROM touch")?;
    let mut rows = s.query([])?;
    while let Some(r) = rows.next()? {
        let (site, module, offset): (i64, i64, i64) = (r.get(0)?, r.get(1)?, r.get(2)?);
        let (loads, stores) = (unsigned(r, 3)?, unsigned(r, 4)?);
        let inlined = lines.get(&(module, offset)).map_or(&[][..], Vec::as_slice);
        // What a container's accessor touches is touched by whoever it was inlined into.
        let line = inlined.iter().find(|l| !l.is_wrapper()).or(inlined.first());
        let module = modules.get(&module).map_or("", Module::name).to_string();
        let function = match line.filter(|l| !l.function.is_empty()) {
            Some(line) => line.function.clone(),
            None if module.is_empty() => String::new(),
            None => format!("[{module}]"),
        };
        let sum = sums.entry((sites.get(&site).copied(), function, module)).or_default();
        sum.loads += loads;
        sum.stores += stores;
        sum.misses = sum.misses.saturating_add(unsigned(r, 5)?);
        sum.timed += unsigned(r, 6)?;
        sum.latency_ns = sum.latency_ns.saturating_add(unsigned(r, 7)?);
        if loads + stores > sum.most {
            sum.most = loads + stores;
            (sum.file, sum.line) = line.map_or((String::new(), 0), |l| (l.file.clone(), l.line));
        }
    }
    let touch = |((site, function, module), s): ((Option<SiteId>, String, String), Sum)| Touch {
        site,
        function,
        module,
        file: s.file,
        line: s.line,
        loads: s.loads,
        stores: s.stores,
        misses: s.misses as f64,
        timed: s.timed,
        latency: (s.timed > 0).then(|| s.latency_ns as f64 / s.timed as f64),
    };
    let mut out: Vec<Touch> = sums.into_iter().map(touch).collect();
    out.sort_by(|a, b| {
        let order = |t: &Touch| (std::cmp::Reverse(t.loads + t.stores), t.site);
        order(a).cmp(&order(b)).then_with(|| (&a.function, &a.module).cmp(&(&b.function, &b.module)))
    });
    Ok(out)
}
