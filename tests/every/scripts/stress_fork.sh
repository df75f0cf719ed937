#!/usr/bin/env bash
# Children of fork, vfork and exec.
stress-ng --fork 2 --fork-ops 1500
echo "fork $?"
stress-ng --vfork 1 --vfork-ops 500
echo "vfork $?"
stress-ng --exec 1 --exec-ops 60
echo "exec $?"
