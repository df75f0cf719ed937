//! Large objects of one call stack, told apart or not. The runtime gives each that is alive beside others a site of its own; when the
//! run is over it is known whether that tells anything. It does where some few lived side by side. An array that grows by
//! being allocated anew and copied is two objects for a moment only, and a pool of very many is no better known by its first sixteen:
//! those sites become the stack's again.

use model::Parts;
use rusqlite::{Connection, Result};
use std::collections::HashMap;

/// With so many sites a stack has more objects than are told apart.
pub const MOST_APART: usize = 15;

/// The object of a site and process with the most bytes x time: from, to, and their product.
type Longest = HashMap<(i64, i64), (i64, i64, i128)>;

/// Gives sites that are not worth telling apart back to their stacks. To be called before misses are estimated.
pub(crate) fn settle(db: &Connection) -> Result<()> {
    let mut s = db.prepare("SELECT id, stack FROM site WHERE stack IS NOT NULL")?;
    let apart: Vec<(i64, i64)> = s.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?.collect::<Result<_>>()?;
    if apart.is_empty() {
        return Ok(());
    }
    let mut of_stack: HashMap<i64, usize> = HashMap::new();
    apart.iter().for_each(|(_, stack)| *of_stack.entry(*stack).or_default() += 1);
    let longest = longest(db)?;
    db.execute_batch("CREATE TEMP TABLE fold (site INTEGER PRIMARY KEY, stack INTEGER NOT NULL)")?;
    for (site, stack) in apart {
        if of_stack[&stack] >= MOST_APART || !beside(&longest, site, stack) {
            db.execute("INSERT INTO fold VALUES (?, ?)", [site, stack])?;
        }
    }
    fold(db)?;
    db.execute_batch("DROP TABLE temp.fold")
}

fn longest(db: &Connection) -> Result<Longest> {
    let mut s = db.prepare(
        "SELECT o.site, o.process, o.size, o.alloc_ns, ifnull(o.free_ns, ifnull(p.end_ns, (SELECT duration_ns FROM run)))
         FROM object o JOIN process p ON p.id = o.process
         WHERE o.size >= ?1 AND o.site IN (SELECT id FROM site WHERE stack IS NOT NULL UNION SELECT stack FROM site)",
    )?;
    let mut out = Longest::new();
    let mut rows = s.query([Parts::FROM.0 as i64])?;
    while let Some(r) = rows.next()? {
        let (from, to): (i64, i64) = (r.get(3)?, r.get(4)?);
        let product = i128::from(r.get::<_, i64>(2)?) * i128::from((to - from).max(0));
        let there = out.entry((r.get(0)?, r.get(1)?)).or_insert((from, to, product));
        if product > there.2 {
            *there = (from, to, product);
        }
    }
    Ok(out)
}

/// In some process the site's longest object lived half of its time or more beside the longest of the first ones.
fn beside(longest: &Longest, site: i64, stack: i64) -> bool {
    longest.iter().filter(|((s, _), _)| *s == site).any(|((_, process), &(from, to, _))| {
        let first = longest.get(&(stack, *process));
        first.is_some_and(|&(a, b, _)| 2 * (to.min(b) - from.max(a)) >= to - from && to > from)
    })
}

fn fold(db: &Connection) -> Result<()> {
    for table in ["object", "churn", "residency", "visit", "quiet", "miss", "source"] {
        db.execute_batch(&format!(
            "UPDATE {table} SET site = (SELECT stack FROM temp.fold WHERE fold.site = {table}.site)
             WHERE site IN (SELECT site FROM temp.fold)"
        ))?;
    }
    // Here a stack may have a row of the same key.
    db.execute_batch(
        "INSERT INTO touch SELECT f.stack, place, module, offset, loads, stores, misses, timed, latency_ns
             FROM touch t JOIN temp.fold f ON f.site = t.site WHERE true
             ON CONFLICT DO UPDATE SET loads = loads + excluded.loads, stores = stores + excluded.stores,
             misses = misses + excluded.misses, timed = timed + excluded.timed, latency_ns = latency_ns + excluded.latency_ns;
         DELETE FROM touch WHERE site IN (SELECT site FROM temp.fold);
         INSERT INTO chunk SELECT f.stack, class, offset, peak, alive, since_ns, byte_seconds, resident, load_misses,
             store_misses, samples FROM chunk c JOIN temp.fold f ON f.site = c.site WHERE true
             ON CONFLICT DO UPDATE SET peak = peak + excluded.peak, alive = alive + excluded.alive,
             byte_seconds = byte_seconds + excluded.byte_seconds, resident = ifnull(resident + excluded.resident, excluded.resident),
             load_misses = load_misses + excluded.load_misses, store_misses = store_misses + excluded.store_misses,
             samples = samples + excluded.samples;
         DELETE FROM chunk WHERE site IN (SELECT site FROM temp.fold);
         INSERT OR IGNORE INTO phase_use SELECT phase, f.stack FROM phase_use u JOIN temp.fold f ON f.site = u.site;
         DELETE FROM phase_use WHERE site IN (SELECT site FROM temp.fold);
         DELETE FROM frame WHERE site IN (SELECT site FROM temp.fold);
         DELETE FROM site WHERE id IN (SELECT site FROM temp.fold)",
    )
}
