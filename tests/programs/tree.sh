#!/bin/sh
# A tree of processes: subshells, a pipeline, programs one after the other and at the same time, and one that is
# replaced by another. The programs lie beside this script.
set -eu
here=$(dirname "$0")
"$here/threads_c" --threads 2 --work 2000
"$here/phases" --work 20 &
first=$!
( "$here/threads_c" --threads 1 --work 1000 >/dev/null; exit 5 ) &
second=$!
wait "$first"
status=0
wait "$second" || status=$?
echo "subshell $status"
"$here/phases" --work 10 | { read -r line; echo "piped: $line"; } | cat
sh -c 'exec "$0" "$@"' "$here/deep" | tail -n 1
echo "lines $(seq 1000 | sort -n | wc -l)"
exec "$here/exits" exit --seconds 0.1
