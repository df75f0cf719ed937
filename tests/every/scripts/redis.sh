#!/usr/bin/env bash
# A server under its own benchmark, with a background save, which forks.
redis-server --port 0 --unixsocket redis.sock --daemonize no --save '' --appendonly no --dir . > redis.log &
server=$!
ask() { redis-cli -s redis.sock "$@"; }
until ask ping 2>&1 | grep -q PONG; do sleep 0.05; done
redis-benchmark -s redis.sock -q -n 10000 -P 16 -c 10 -d 6000 -t set,get,lpush > benchmark
tr '\r' '\n' < benchmark | grep -o -E '^(SET|GET|LPUSH): .* requests per second' | cut -d: -f1 | uniq
ask eval "for i = 1, 20000 do redis.call('set', 'k' .. i, string.rep(tostring(i), 40)) end return 'filled'" 0
ask del mylist key:__rand_int__ > deleted
ask bgsave > saving
until ask info persistence | grep -q 'rdb_bgsave_in_progress:0'; do sleep 0.05; done
ask info persistence | grep rdb_last_bgsave_status
ask dbsize
ask eval "local all = '' for i = 1, 20000 do all = redis.sha1hex(all .. redis.call('get', 'k' .. i)) end return all" 0
ask shutdown nosave
wait $server
echo "server $?"
redis-check-rdb dump.rdb | grep -c 'RDB looks OK'
