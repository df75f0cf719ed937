#!/usr/bin/env bash
# Threads started and ended.
stress-ng --pthread 2 --pthread-ops 2000 --pthread-max 64 --verify --quiet
echo "pthread $?"
stress-ng --mutex 1 --mutex-ops 20000 --futex 1 --futex-ops 20000 --tlb-shootdown 1 --tlb-shootdown-ops 50 --quiet
echo "locks $?"
