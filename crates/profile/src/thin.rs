//! Keeps the samples of a profile at half a million, however long the run and however many its processes.
//!
//! When there are more, every second one is thrown away, and of those that come from then on as many are not taken; and so
//! on. What is kept or not is the pages of ten seconds, by chance: armings of a page in a row stay together, and within a site
//! every page has the same chance, so the estimate is the same but for its error. The error of half a million is small.

use rusqlite::{Connection, Result};

/// Most rows of the tables `visit` and `quiet` together.
pub const MOST: u64 = 1 << 19;
/// What belongs together.
const TOGETHER_NS: u64 = 10_000_000_000;
/// Rows that are looked at in one go: some milliseconds, in which rings fill.
const STEP: i64 = 20_000;
const TABLES: [(&str, &str); 2] = [("visit", "addr"), ("quiet", "page")];

/// Which samples are kept.
#[derive(Debug, Default)]
pub(crate) struct Thin {
    rows: u64,
    /// One of 2 to the power of this is kept.
    halvings: u32,
    /// Where the sweep is: table and row.
    sweep: Option<(usize, i64)>,
}

impl Thin {
    /// Whether a sample is to be kept, which it then has to be.
    pub fn keeps(&mut self, process: i64, addr: u64, time_ns: u64) -> bool {
        let keeps = kept(process, addr as i64, time_ns as i64, self.halvings);
        if keeps {
            self.rows += 1;
        }
        keeps
    }

    /// The part that is kept: one of so many.
    pub fn one_of(&self) -> u64 {
        1 << self.halvings
    }

    /// Throws away a part of what is too much. Called often, it keeps up.
    pub fn sweep(&mut self, db: &Connection) -> Result<()> {
        if self.sweep.is_none() && self.rows > MOST {
            self.halvings += 1;
            self.sweep = Some((0, 0));
        }
        let Some((table, from)) = self.sweep else { return Ok(()) };
        let Some((name, addr)) = TABLES.get(table) else {
            self.sweep = None;
            return Ok(());
        };
        let last: i64 = db.query_row(&format!("SELECT ifnull(max(rowid), 0) FROM {name}"), [], |r| r.get(0))?;
        let mut rows = db.prepare_cached(&format!(
            "SELECT rowid, process, {addr}, time_ns FROM {name} WHERE rowid > ? AND rowid <= ?"
        ))?;
        let mut gone = Vec::new();
        let mut rows = rows.query([from, from + STEP])?;
        while let Some(r) = rows.next()? {
            if !kept(r.get(1)?, r.get(2)?, r.get(3)?, self.halvings) {
                gone.push(r.get::<_, i64>(0)?);
            }
        }
        let mut delete = db.prepare_cached(&format!("DELETE FROM {name} WHERE rowid = ?"))?;
        for row in gone {
            self.rows -= delete.execute([row])? as u64;
        }
        self.sweep = Some(if from + STEP >= last { (table + 1, 0) } else { (table, from + STEP) });
        Ok(())
    }
}

/// By the finaliser of SplitMix64, whose bits are as good as chance (Steele et al., OOPSLA 2014, section 5).
fn kept(process: i64, addr: i64, time_ns: i64, halvings: u32) -> bool {
    let (page, when) = (addr as u64 >> 12, time_ns as u64 / TOGETHER_NS);
    let mut z = page ^ when.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (process as u64).rotate_left(48);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)).trailing_zeros() >= halvings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_bounded_and_pages_of_a_moment_stay_together() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(crate::schema::TABLES).unwrap();
        let mut thin = Thin::default();
        let mut put = db.prepare("INSERT INTO quiet VALUES (1, 1, NULL, ?, ?, 5)").unwrap();
        // Pairs of armings, 10 ms apart, an hour of them.
        for i in 0..1_000_000u64 {
            let (page, time) = ((i * 7919 % 5000) << 12, i * 3_600_000);
            for time in [time, time + 10_000_000] {
                if thin.keeps(1, page, time) {
                    put.execute([time as i64, page as i64]).unwrap();
                }
            }
            if i % 100 == 0 {
                thin.sweep(&db).unwrap();
            }
        }
        let count = |sql: &str| -> u64 { db.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap() as u64 };
        let rows = count("SELECT count(*) FROM quiet");
        assert!(rows <= MOST && rows > MOST / 4 && rows == thin.rows, "{rows}, {thin:?}");
        assert!((rows * thin.one_of()).abs_diff(2_000_000) < 60_000, "{rows} of {}", thin.one_of());
        // But for those between which ten seconds were over.
        let alone = count(
            "SELECT count(*) FROM (SELECT 1 FROM quiet GROUP BY page, time_ns / 3600000000 HAVING count(*) % 2 = 1)",
        );
        assert!(alone < rows / 200, "{alone}");
        assert!(count("SELECT count(DISTINCT page) FROM quiet") > 4990);
        // Early and late alike.
        let early = count("SELECT count(*) FROM quiet WHERE time_ns < 1800000000000");
        assert!(early.abs_diff(rows / 2) < rows / 20, "{early} of {rows}");
    }
}
