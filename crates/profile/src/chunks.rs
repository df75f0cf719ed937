//! The table `chunk`: large objects in slices ([`model::chunk`]), with what was alive, resident and missed in each. A site has as
//! many rows as its objects have sizes to the next power of two, times 32, however many objects there are.

use crate::estimate::{PAGE, Slice, SliceEstimate};
use crate::summary::{bad, unsigned};
use model::{Bytes, Chunk, ChunkAt, SizeClass};
use rusqlite::{Connection, Result, Row, params};
use std::collections::HashMap;

/// What is known of a chunk, of all objects of its site and size class together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChunkRow {
    /// Which it is.
    pub at: ChunkAt,
    /// Most bytes alive at one moment.
    pub peak: u64,
    /// Bytes alive from `since_ns` on: after the last birth or death.
    pub alive: u64,
    /// When that was, ns since the start of the run.
    pub since_ns: u64,
    /// Sum of bytes x time alive up to then.
    pub byte_seconds: f64,
    /// Most bytes resident at one reading; none if it was never looked at.
    pub resident: Option<u64>,
    /// What was sampled on it.
    pub heat: ChunkHeat,
}

/// Samples on a chunk, and the misses that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChunkHeat {
    /// Misses by loads.
    pub load_misses: f64,
    /// Misses by stores.
    pub store_misses: f64,
    /// Samples.
    pub samples: u64,
}

/// Writes a row, in place of an earlier one.
pub(crate) fn put(db: &Connection, site: i64, row: &ChunkRow) -> Result<()> {
    db.prepare_cached("INSERT OR REPLACE INTO chunk VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?.execute(params![
        site,
        row.at.class().least().0 as i64,
        row.at.offset().0 as i64,
        row.peak as i64,
        row.alive as i64,
        row.since_ns as i64,
        row.byte_seconds,
        row.resident.map(|r| r as i64),
        row.heat.load_misses,
        row.heat.store_misses,
        row.heat.samples as i64
    ])?;
    Ok(())
}

/// Sets the heat of some chunks; all others have none.
pub(crate) fn set_heat(db: &Connection, heat: &HashMap<(i64, ChunkAt), ChunkHeat>) -> Result<()> {
    db.execute_batch("UPDATE chunk SET load_misses = 0, store_misses = 0, samples = 0")?;
    let mut set = db.prepare(
        "UPDATE chunk SET load_misses = ?, store_misses = ?, samples = ? WHERE site = ? AND class = ? AND offset = ?",
    )?;
    for ((site, at), h) in heat {
        let (class, offset) = (at.class().least().0 as i64, at.offset().0 as i64);
        set.execute(params![h.load_misses, h.store_misses, h.samples as i64, site, class, offset])?;
    }
    Ok(())
}

/// All rows by site, by class and offset; of the time up to `end_ns`. Before version 6 there are none.
pub(crate) fn read(db: &Connection, end_ns: u64) -> Result<HashMap<i64, Vec<ChunkRow>>> {
    let mut out: HashMap<i64, Vec<ChunkRow>> = HashMap::new();
    let version: i64 = db.query_row("PRAGMA user_version", [], |r| r.get(0))?;
    if version < 6 {
        return Ok(out);
    }
    let mut s = db.prepare(
        "SELECT site, class, offset, peak, alive, since_ns, byte_seconds, resident, load_misses, store_misses, samples
         FROM chunk ORDER BY site, class, offset",
    )?;
    let row = |r: &Row<'_>| -> Result<(i64, ChunkRow)> {
        let (least, offset) = (Bytes(unsigned(r, 1)?), Bytes(unsigned(r, 2)?));
        let class = SizeClass::of(least).ok_or_else(|| bad(1, format!("no objects of {least} are cut into chunks")))?;
        let (alive, since_ns) = (unsigned(r, 4)?, unsigned(r, 5)?);
        // Only a recorder that was killed leaves chunks that are alive.
        let still = alive as f64 * (end_ns.saturating_sub(since_ns) as f64 / 1e9);
        let row = ChunkRow {
            at: class.at(offset),
            peak: unsigned(r, 3)?,
            alive,
            since_ns,
            byte_seconds: r.get::<_, f64>(6)? + still,
            resident: r.get::<_, Option<i64>>(7)?.map(|b| b as u64),
            heat: ChunkHeat { load_misses: r.get(8)?, store_misses: r.get(9)?, samples: unsigned(r, 10)? },
        };
        Ok((r.get(0)?, row))
    };
    for row in s.query_map([], row)? {
        let (site, row) = row?;
        out.entry(site).or_default().push(row);
    }
    Ok(out)
}

/// The slices of a site's samples that its chunks are; which of them saw what is added by [`Large`].
pub(crate) fn slices(rows: &[ChunkRow]) -> Vec<Slice> {
    rows.iter().map(|r| Slice { page_seconds: r.byte_seconds / PAGE as f64, exposures: Vec::new() }).collect()
}

/// Where the large objects are that have a row of their own (all that were sampled have one), by that row.
pub(crate) struct Large(HashMap<i64, (u64, SizeClass)>);

impl Large {
    pub fn read(db: &Connection) -> Result<Large> {
        let mut s = db.prepare("SELECT id, addr, size FROM object WHERE size >= ?")?;
        let mut rows = s.query([SizeClass::LEAST.0 as i64])?;
        let mut out = HashMap::new();
        while let Some(r) = rows.next()? {
            if let Some(class) = SizeClass::of(Bytes(unsigned(r, 2)?)) {
                out.insert(r.get(0)?, (unsigned(r, 1)?, class));
            }
        }
        Ok(Large(out))
    }

    /// Which of a site's chunks an address in an object is in.
    pub fn slice(&self, chunks: &[ChunkRow], object: Option<i64>, addr: u64) -> Option<usize> {
        let &(start, class) = self.0.get(&object?)?;
        // Of an unaligned variable the first page begins before it.
        let at = class.at(Bytes(addr.saturating_sub(start)));
        chunks.binary_search_by_key(&at, |c| c.at).ok()
    }
}

/// A site's chunks as they are reported: those that were ever alive, with the estimates in place of what was counted if there are any.
pub(crate) fn reported(rows: &[ChunkRow], estimates: &[SliceEstimate]) -> Vec<Chunk> {
    let one = |(n, row): (usize, &ChunkRow)| {
        let heat = estimates.get(n).map_or(row.heat, SliceEstimate::heat);
        Chunk {
            class: row.at.class().least(),
            offset: row.at.offset(),
            size: row.at.class().chunk(),
            peak: Bytes(row.peak),
            resident: row.resident.map(Bytes),
            load_misses: heat.load_misses,
            store_misses: heat.store_misses,
            samples: heat.samples,
        }
    };
    rows.iter().enumerate().filter(|(_, r)| r.peak > 0).map(one).collect()
}

impl SliceEstimate {
    pub(crate) fn heat(&self) -> ChunkHeat {
        ChunkHeat { load_misses: self.load_misses, store_misses: self.store_misses, samples: self.samples }
    }
}
