#!/usr/bin/env bash
# A database that takes its memory by mmap from an allocator of its own; it also spills to a file.
"$VENV/bin/python" - <<'PYTHON'
import duckdb

db = duckdb.connect("some.duckdb")
db.execute("set threads = 2; set memory_limit = '300MB'")
db.execute("create table t as select i, i % 997 as k, hash(i) as h, 'name ' || (i % 4999) as s from range(1500000) r(i)")
print(db.execute("select count(*), sum(k), bit_xor(h) from t").fetchall())
print(db.execute("select k, count(*), max(s) from t group by k order by k limit 5").fetchall())
print(db.execute("select count(*), sum(a.i) from t a join t b on a.h = b.h where a.k < 500").fetchall())
print(db.execute("select i, s from t order by h, s limit 5").fetchall())
db.close()
PYTHON
