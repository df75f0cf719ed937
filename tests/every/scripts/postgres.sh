#!/usr/bin/env bash
# A cluster made, loaded, benchmarked by two clients and shut down. PostgreSQL refuses to run as root.
PATH=$(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 | sort -V | tail -n 1)/bin:$PATH
export PGHOST=$PWD PGUSER=tester PGDATABASE=postgres
initdb -D data -U tester --no-locale -E UTF8 -A trust --no-sync > initdb.log
echo "initdb $?"
pg_ctl -D data -w -o "-k $PWD -c listen_addresses= -c fsync=off -c shared_buffers=64MB" -l server.log start > start.log
echo "start $?"
pgbench -i -s 2 --quiet > pgbench.log 2>&1
echo "load $?"
pgbench -c 4 -j 2 -t 150 -n > pgbench.log 2>&1
echo "bench $?"
grep -o 'number of transactions actually processed: .*' pgbench.log
psql -At <<'SQL'
select count(*), sum(abalance) = (select sum(delta) from pgbench_history) from pgbench_accounts;
set work_mem = '64MB'; set max_parallel_workers_per_gather = 2;
set min_parallel_table_scan_size = 0; set parallel_setup_cost = 0;
select count(*), sum(hashtext(a.aid::text)) from pgbench_accounts a join pgbench_accounts b on a.aid = b.aid;
select md5(string_agg(aid::text, ',' order by aid desc)) from pgbench_accounts;
SQL
pg_ctl -D data -w -m fast stop > stop.log
echo "stop $?"
grep -E 'PANIC|terminated by signal' server.log || echo 'no complaints'
