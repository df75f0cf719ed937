//! The tables of a profile. `docs/profile.md` describes them to users; a change here is a new [`VERSION`].

/// SQLite `application_id` of a profile: "Hrth".
pub const APPLICATION_ID: i32 = 0x4872_7468;
/// Version of the schema (SQLite `user_version`): this build writes it and reads it and older ones. Version 1 had no table
/// `miss`; version 2 had no weights in it, no tables `source` and `touch`, and no kinds of sites; version 3 no table `memory`;
/// version 4 no table `churn`; version 5 no table `chunk`; version 6 no lines written back and read beside all misses in `miss`; version 7 told no large objects of one stack apart;
/// version 8 had no table `region`; version 9 no table `phase_use`; version 10 no columns in `symbol` and did not tell which misses were under way together.
pub const VERSION: i64 = 11;

/// Length of the intervals of the table `miss` at first, in ns.
pub const MISS_INTERVAL_NS: u64 = 10_000_000;

/// Length of the interval that a time of the run lies in, in ns: twice as long each time the run gets twice as old, and never
/// longer than the 300th part of what has passed, so that the rows of a long run are few and no picture shows the difference.
pub fn miss_interval_ns(time_ns: u64) -> u64 {
    let times = time_ns / (300 * MISS_INTERVAL_NS);
    MISS_INTERVAL_NS << times.checked_ilog2().unwrap_or(0)
}
/// Name of the lab's virtual PEBS.
pub const LAB: &str = "lab";
/// Name of the processor's own samples, taken by the recorder.
pub const PERF: &str = "perf";
/// Name of samples that came out of a `perf.data` file.
pub const PERF_DATA: &str = "perf.data";
/// Name of what valgrind's DHAT counted.
pub const DHAT: &str = "dhat";
/// The samplers that fill the table `miss`.
pub const COUNTING: [&str; 4] = [LAB, PERF, PERF_DATA, DHAT];

/// Makes the tables. All times are ns since the start of the run, all sizes bytes, all addresses the program's.
pub const TABLES: &str = "
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE run (
    command TEXT NOT NULL, cwd TEXT NOT NULL, started INTEGER NOT NULL, duration_ns INTEGER NOT NULL,
    outcome TEXT NOT NULL, threshold INTEGER NOT NULL, sampler TEXT NOT NULL, epoch_ns INTEGER NOT NULL);
CREATE TABLE machine (platform TEXT, cpu TEXT NOT NULL, kernel TEXT NOT NULL, llc INTEGER NOT NULL, llc_origin TEXT NOT NULL);
CREATE TABLE process (
    id INTEGER PRIMARY KEY, pid INTEGER NOT NULL, ppid INTEGER NOT NULL, exe TEXT NOT NULL,
    start_ns INTEGER NOT NULL, end_ns INTEGER, status TEXT NOT NULL);
CREATE TABLE counter (
    process INTEGER NOT NULL, name TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (process, name)) WITHOUT ROWID;
CREATE TABLE module (id INTEGER PRIMARY KEY, path TEXT NOT NULL, build_id TEXT NOT NULL);
CREATE TABLE site (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, truncated INTEGER NOT NULL, kind TEXT NOT NULL,
    stack INTEGER, number INTEGER NOT NULL);
CREATE TABLE frame (
    site INTEGER NOT NULL, position INTEGER NOT NULL, module INTEGER, offset INTEGER NOT NULL,
    PRIMARY KEY (site, position)) WITHOUT ROWID;
CREATE TABLE symbol (
    module INTEGER NOT NULL, offset INTEGER NOT NULL, level INTEGER NOT NULL, function TEXT NOT NULL,
    file TEXT NOT NULL, line INTEGER NOT NULL, column INTEGER NOT NULL, PRIMARY KEY (module, offset, level)) WITHOUT ROWID;
CREATE TABLE object (
    id INTEGER PRIMARY KEY, process INTEGER NOT NULL, site INTEGER NOT NULL, tid INTEGER NOT NULL,
    addr INTEGER NOT NULL, size INTEGER NOT NULL, alloc_ns INTEGER NOT NULL, free_ns INTEGER,
    tier INTEGER NOT NULL, realloc INTEGER NOT NULL);
CREATE TABLE churn (
    process INTEGER NOT NULL, site INTEGER NOT NULL, tier INTEGER NOT NULL, start_ns INTEGER NOT NULL,
    end_ns INTEGER NOT NULL, objects INTEGER NOT NULL, bytes INTEGER NOT NULL, largest INTEGER NOT NULL,
    byte_seconds REAL NOT NULL, page_seconds REAL NOT NULL, lifetime_seconds REAL NOT NULL, peak INTEGER NOT NULL);
CREATE INDEX churn_of ON churn (site, process, tier, end_ns);
CREATE TABLE residency (
    process INTEGER NOT NULL, site INTEGER NOT NULL, time_ns INTEGER NOT NULL, node INTEGER NOT NULL,
    pages INTEGER NOT NULL, bytes INTEGER NOT NULL, share REAL NOT NULL);
CREATE TABLE memory (
    process INTEGER NOT NULL, time_ns INTEGER NOT NULL, anonymous INTEGER NOT NULL, huge INTEGER NOT NULL);
CREATE TABLE visit (
    process INTEGER NOT NULL, site INTEGER NOT NULL, object INTEGER, tid INTEGER NOT NULL, time_ns INTEGER NOT NULL,
    addr INTEGER NOT NULL, ip INTEGER NOT NULL, store INTEGER NOT NULL, wait_ns INTEGER NOT NULL,
    burst_accesses INTEGER, burst_stores INTEGER, burst_lines INTEGER, burst_monotonic INTEGER,
    burst_limited INTEGER, burst_stride INTEGER, burst_ns INTEGER);
CREATE TABLE quiet (
    process INTEGER NOT NULL, site INTEGER NOT NULL, object INTEGER, time_ns INTEGER NOT NULL,
    page INTEGER NOT NULL, wait_ns INTEGER NOT NULL);
CREATE TABLE miss (
    process INTEGER NOT NULL, site INTEGER, place TEXT NOT NULL, start_ns INTEGER NOT NULL, loads INTEGER NOT NULL,
    stores INTEGER NOT NULL, ahead INTEGER NOT NULL, latency_ns INTEGER NOT NULL,
    load_weight INTEGER NOT NULL, store_weight INTEGER NOT NULL, written INTEGER NOT NULL, beside INTEGER NOT NULL,
    lone_ns INTEGER NOT NULL, alone_ns INTEGER NOT NULL);
CREATE TABLE source (
    process INTEGER NOT NULL, site INTEGER, place TEXT NOT NULL, source TEXT NOT NULL, loads INTEGER NOT NULL,
    stores INTEGER NOT NULL, timed INTEGER NOT NULL, latency_ns INTEGER NOT NULL);
CREATE TABLE touch (
    site INTEGER NOT NULL, place TEXT NOT NULL, module INTEGER NOT NULL, offset INTEGER NOT NULL,
    loads INTEGER NOT NULL, stores INTEGER NOT NULL, misses INTEGER NOT NULL, timed INTEGER NOT NULL,
    latency_ns INTEGER NOT NULL, PRIMARY KEY (site, place, module, offset)) WITHOUT ROWID;
CREATE TABLE estimate (
    site INTEGER PRIMARY KEY, load_misses REAL NOT NULL, store_misses REAL NOT NULL, pattern TEXT NOT NULL,
    stride INTEGER, samples INTEGER NOT NULL);
CREATE TABLE heat (
    site INTEGER NOT NULL, start_ns INTEGER NOT NULL, misses REAL NOT NULL, PRIMARY KEY (site, start_ns)) WITHOUT ROWID;
CREATE TABLE chunk (
    site INTEGER NOT NULL, class INTEGER NOT NULL, offset INTEGER NOT NULL, peak INTEGER NOT NULL,
    alive INTEGER NOT NULL, since_ns INTEGER NOT NULL, byte_seconds REAL NOT NULL, resident INTEGER,
    load_misses REAL NOT NULL, store_misses REAL NOT NULL, samples INTEGER NOT NULL,
    PRIMARY KEY (site, class, offset)) WITHOUT ROWID;
CREATE TABLE region (site INTEGER NOT NULL, number INTEGER NOT NULL, start_ns INTEGER NOT NULL);
CREATE TABLE phase_use (phase INTEGER NOT NULL, site INTEGER NOT NULL, PRIMARY KEY (phase, site)) WITHOUT ROWID;
CREATE TABLE loss (
    process INTEGER NOT NULL, kind TEXT NOT NULL, count INTEGER NOT NULL, note TEXT NOT NULL,
    PRIMARY KEY (process, kind)) WITHOUT ROWID;
";
